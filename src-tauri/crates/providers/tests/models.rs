//! Model lists, and finding servers on this machine.

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::*;
use providers::{Preset, ProviderErrorKind, list_models, presets, probe};
use secrets::{Keychain, Secret, Vault};
use serde_json::json;

#[tokio::test]
async fn a_list_with_and_without_a_key() {
    let body = json!({"object": "list", "data": [{"id": "a", "context_length": 4096}, {"id": ""}]});
    let server = Server::with(json_reply("200 OK", body)).await;
    let mut endpoint = server.endpoint_at("");
    let list = list_models(&context(), &net(), &endpoint).await.unwrap();
    assert_eq!(
        (list.models[0].id.as_str(), list.models[0].context_window, list.skipped),
        ("a", Some(4096), 1)
    );
    let (vault, origin) = (Vault::open(Keychain::None, "test"), endpoint.origin().unwrap());
    vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
    endpoint.key = vault.handle("c", &origin);
    list_models(&context(), &net(), &endpoint).await.unwrap();
    let heard = server.heard.lock();
    assert!(heard[0].starts_with("GET /v1/models HTTP/1.1\r\n") && !heard[0].to_lowercase().contains("authorization"));
    assert!(heard[1].contains("authorization: Bearer sk-canary\r\n"));
}

#[tokio::test]
async fn a_key_of_the_old_address_is_not_sent_to_a_new_one() {
    let (old, new) = (
        Server::with(json_reply("200 OK", json!([]))).await,
        Server::with(json_reply("200 OK", json!([]))).await,
    );
    let vault = Vault::open(Keychain::None, "test");
    let origin = old.endpoint().origin().unwrap();
    vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
    let mut endpoint = new.endpoint();
    assert!(vault.handle("c", &endpoint.origin().unwrap()).is_none());
    // Even with a handle in the wrong place.
    endpoint.key = vault.handle("c", &origin);
    let error = list_models(&context(), &net(), &endpoint).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Network);
    assert!(error.to_string().contains("enter the key again"), "{error}");
    assert_eq!(new.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_no_list() {
    let page = "<html><body>Sign in</body></html>";
    for (reply, want, said) in [
        (
            reply("200 OK", "text/html", page),
            ProviderErrorKind::NotTheApi,
            "web page",
        ),
        (
            reply("401 Unauthorized", "text/html", page),
            ProviderErrorKind::Key,
            "web page",
        ),
        (
            json_reply("200 OK", json!({"error": {"message": "no"}})),
            ProviderErrorKind::InAnswer,
            "no",
        ),
        (
            json_reply("200 OK", json!({"status": "ok"})),
            ProviderErrorKind::NotTheApi,
            "without a list",
        ),
        (
            reply("200 OK", "application/json", "{"),
            ProviderErrorKind::NotTheApi,
            "expected format",
        ),
        (
            reply("200 OK", "application/json", ""),
            ProviderErrorKind::NotTheApi,
            "expected format",
        ),
        (
            reply("404 Not Found", "text/plain", "nope"),
            ProviderErrorKind::NotFound,
            "nope",
        ),
    ] {
        let server = Server::with(reply).await;
        let error = list_models(&context(), &net(), &server.endpoint()).await.unwrap_err();
        assert_eq!(error.kind, want, "{error}");
        let tried = format!("http://127.0.0.1:{}/v1/models", server.port);
        assert!(
            error.to_string().contains(said) && error.to_string().contains(&tried),
            "{error}"
        );
    }
}

#[tokio::test]
async fn servers_on_this_machine_are_found_within_their_time() {
    let good = Server::with(json_reply("200 OK", json!({"data": [{"id": "a"}]}))).await;
    let shut = Server::with(json_reply("401 Unauthorized", json!({"error": "key"}))).await;
    let page = Server::with(reply("200 OK", "text/html", "<html>")).await;
    let silent = Server::with(Reply {
        pieces: vec![],
        hold: true,
    })
    .await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = free.local_addr().unwrap().port();
    drop(free);
    let preset = |id, port| Preset { id, name: id, port };
    let table = [
        preset("good", good.port),
        preset("twin", good.port),
        preset("shut", shut.port),
        preset("page", page.port),
        preset("silent", silent.port),
        preset("gone", gone),
    ];
    let began = Instant::now();
    let found = probe(&context(), &net(), &table).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(found.len(), 2, "{found:?}");
    let ids: Vec<_> = found[0].presets.iter().map(|preset| preset.id).collect();
    assert_eq!(
        (ids, found[0].list.models[0].id.as_str(), found[0].wants_key),
        (vec!["good", "twin"], "a", false)
    );
    assert_eq!((found[1].presets[0].id, found[1].wants_key), ("shut", true));
    assert_eq!(good.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn the_table_is_the_contracts() {
    let mut ports: Vec<u16> = presets().iter().map(|preset| preset.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1234, 2242, 4000, 5000, 5000, 5001, 8000, 8080, 11434]);
    assert_eq!(presets()[0].base_url(), "http://127.0.0.1:11434/v1");
}
