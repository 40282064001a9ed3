//! The engine through its one door, with real SQLite and a real worker.

use axum::body::{Body, to_bytes};
use engine::{Engine, Keychain, Options};
use http::{Method, Request, StatusCode};
use policy::{AppId, Caller};
use serde_json::{Value, json};

async fn open(home: &std::path::Path) -> Engine {
    let worker = home.join("chrysalis-worker");
    std::fs::write(&worker, b"not started in these tests").unwrap();
    Engine::open(Options {
        home: home.join("home"),
        worker,
        keychain: Keychain::None,
    })
    .await
    .unwrap()
}

async fn ask(engine: &Engine, caller: Caller, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let body = if body.is_null() {
        Body::empty()
    } else {
        Body::from(body.to_string())
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let response = engine.call(caller, request).await;
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_new_home_answers() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let owner = Caller::Owner {
        account: engine.owner(),
    };
    let (status, health) = ask(&engine, Caller::Nobody, Method::GET, "/v1/health", Value::Null).await;
    assert_eq!((status, &health["ok"]), (StatusCode::OK, &json!(true)));
    let (status, me) = ask(&engine, owner.clone(), Method::GET, "/v1/me", Value::Null).await;
    assert_eq!((status, &me["hasPassword"]), (StatusCode::OK, &json!(false)));
    let (status, set) = ask(
        &engine,
        owner.clone(),
        Method::PUT,
        "/v1/settings",
        json!({"theme": "dark"}),
    )
    .await;
    assert_eq!((status, &set["theme"]), (StatusCode::OK, &json!("dark")));
    let (status, _) = ask(
        &engine,
        owner.clone(),
        Method::PUT,
        "/v1/settings",
        json!({"theme": "loud"}),
    )
    .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let (status, models) = ask(&engine, owner.clone(), Method::GET, "/v1/models", Value::Null).await;
    assert_eq!((status, &models["models"][0]["canned"]), (StatusCode::OK, &json!(true)));
    assert_eq!(
        models["default"],
        Value::Null,
        "a canned model is never chosen by itself"
    );
    let app = Caller::App {
        account: engine.owner(),
        app: AppId::parse("x").unwrap(),
    };
    let (status, _) = ask(&engine, app, Method::GET, "/v1/me", Value::Null).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (_, log) = ask(&engine, owner, Method::GET, "/v1/activity?kind=refusal", Value::Null).await;
    assert_eq!(log["entries"][0]["caller"], "app:x");
    assert_eq!(log["entries"][0]["target"], "GET /v1/me");
    engine.shutdown().await;
}

#[tokio::test]
async fn one_process_per_home_and_the_database_is_set_aside_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let options = Options {
        home: folder.path().join("home"),
        worker: folder.path().join("chrysalis-worker"),
        keychain: Keychain::None,
    };
    let error = Engine::open(options.clone()).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("another Chrysalis is running"), "{error}");
    let owner = engine.owner();
    engine.shutdown().await;
    drop(engine);
    let path = folder.path().join("home/chrysalis.db");
    std::fs::write(&path, b"damaged").unwrap();
    let _ = std::fs::remove_file(folder.path().join("home/chrysalis.db-wal"));
    let engine = Engine::open(options).await.unwrap();
    assert_eq!(engine.owner(), owner, "the apps on disk are still the owner's");
    assert!(
        engine.notices()[0].contains("chrysalis.db.damaged-"),
        "{:?}",
        engine.notices()
    );
}

#[tokio::test]
async fn a_connection_keeps_its_key_only_for_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let owner = Caller::Owner {
        account: engine.owner(),
    };
    let body = json!({"name": "Mine", "baseUrl": "http://127.0.0.1:9/v1", "key": "sk-canary"});
    let (status, made) = ask(&engine, owner.clone(), Method::POST, "/v1/settings/connections", body).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(made["connection"]["keyKept"], "run");
    assert!(made["notice"].as_str().unwrap().contains("not saved"), "{made}");
    assert!(!made.to_string().contains("sk-canary"));
    let path = format!(
        "/v1/settings/connections/{}",
        made["connection"]["id"].as_str().unwrap()
    );
    let (_, same) = ask(&engine, owner.clone(), Method::PATCH, &path, json!({"name": "Other"})).await;
    assert_eq!(same["connection"]["hasKey"], true);
    let (_, moved) = ask(
        &engine,
        owner.clone(),
        Method::PATCH,
        &path,
        json!({"baseUrl": "http://127.0.0.1:10/v1"}),
    )
    .await;
    assert_eq!(moved["connection"]["hasKey"], false);
    assert!(moved["notice"].as_str().unwrap().contains("forgotten"));
    let (_, back) = ask(
        &engine,
        owner,
        Method::PATCH,
        &path,
        json!({"baseUrl": "http://127.0.0.1:9/v1"}),
    )
    .await;
    assert_eq!(back["connection"]["hasKey"], false, "it is gone, not hidden");
}

#[tokio::test]
async fn a_database_is_private_in_a_home_that_is_not() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let open_to_all = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open_to_all(&home, 0o755);
    // The second round meets a database that an earlier version left readable.
    for _ in 0..2 {
        let engine = open(folder.path()).await;
        for name in [
            "chrysalis.db",
            "chrysalis.db-wal",
            "chrysalis.db-shm",
            "accounts",
            "logs",
        ] {
            let mode = home.join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{name} {mode:o}");
        }
        engine.shutdown().await;
        drop(engine);
        open_to_all(&home.join("chrysalis.db"), 0o644);
    }
}

#[tokio::test]
async fn a_value_that_fits_the_storage_is_kept_however_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let engine = open(folder.path()).await;
    let owner = Caller::Owner {
        account: engine.owner(),
    };
    // A megabyte of control characters takes six in JSON.
    for (length, want) in [
        (1 << 20, StatusCode::NO_CONTENT),
        (3 << 20, StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let body = json!({"which": "local", "op": "set", "key": "k", "value": "\u{1}".repeat(length)});
        let path = "/v1/apps/alpha/__storage";
        let (status, said) = ask(&engine, owner.clone(), Method::POST, path, body).await;
        assert_eq!(status, want, "{length}: {said}");
    }
    engine.shutdown().await;
}
