//! Measures what happens inside the engine, and prints `bench NAME NUMBER` lines for `cargo xtask bench`.
//!
//! `CHRYSALIS_WORKER` names the worker program. `worker_start_ms` is what a plugin's first call takes longer than its
//! later ones: starting and locking down the process, and compiling. `plugin_route_us` is a whole `engine.call` of a
//! trivial route, each in a fresh context.

use std::path::{Path, PathBuf};
use std::time::Instant;

use axum::body::{Body, to_bytes};
use engine::{Engine, Keychain, Options};
use http::Request;
use policy::Caller;
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const APPS: usize = 15;
const CALLS: usize = 3000;

async fn ask(engine: &Engine, caller: &Caller, method: &str, path: &str, body: Option<Value>) -> Fallible<Value> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.map_or_else(Body::empty, |b| Body::from(b.to_string())))?;
    let response = engine.call(caller.clone(), request).await;
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 1 << 20).await?;
    if !status.is_success() {
        return Err(format!("{method} {path}: {status} {}", String::from_utf8_lossy(&bytes)).into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

fn write_app(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder.join("plugins/p"))?;
    std::fs::write(
        folder.join("manifest.json"),
        r#"{"name":"Bench","version":"1.0.0","kind":"web"}"#,
    )?;
    std::fs::write(folder.join("index.html"), "<!doctype html>")?;
    std::fs::write(
        folder.join("plugins/p/manifest.json"),
        r#"{"name":"p","permissions":["routes"]}"#,
    )?;
    std::fs::write(
        folder.join("plugins/p/plugin.js"),
        "export const handleRoute = (req) => ({ json: { path: req.path } });",
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let worker =
        PathBuf::from(std::env::var_os("CHRYSALIS_WORKER").ok_or("CHRYSALIS_WORKER names the worker program")?);
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(Options {
        home: folder.path().join("home"),
        worker,
        keychain: Keychain::None,
    })
    .await?;
    let caller = Caller::CommandLine {
        account: engine.owner(),
    };
    for n in 0..APPS {
        let app = folder.path().join(format!("app{n}"));
        write_app(&app)?;
        let mut import = json!({"folder": app});
        import["head"] = ask(&engine, &caller, "POST", "/v1/apps/import", Some(import.clone())).await?["head"].clone();
        import["confirm"] = true.into();
        ask(&engine, &caller, "POST", "/v1/apps/import", Some(import)).await?;
    }
    let mut first = Vec::new();
    for n in 0..APPS {
        let began = Instant::now();
        ask(&engine, &caller, "GET", &format!("/v1/apps/app{n}/x"), None).await?;
        first.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let mut later = Vec::new();
    for _ in 0..CALLS {
        let began = Instant::now();
        ask(&engine, &caller, "GET", "/v1/apps/app0/x", None).await?;
        later.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let later = median(later);
    println!("bench plugin_route_us {later:.1}");
    println!("bench worker_start_ms {:.3}", median(first) - later / 1e3);
    engine.shutdown().await;
    Ok(())
}
