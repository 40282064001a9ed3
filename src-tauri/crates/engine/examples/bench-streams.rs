//! Measures what a streamed token costs, and prints `bench NAME NUMBER` lines for `cargo xtask bench streams`, which gives
//! the address of its model server as the argument. `CHRYSALIS_WORKER` names the worker program.
//!
//! `plugin_token_ns`: a plugin adds up what `host.llm.stream` gives, from the call to its answer. `page_token_ns`: a page
//! reads the same from its stream's address. `streams_200_cores`: processor time of this program and its workers over wall
//! time while 4 calls of plugins read 50 streams each. `stop_ms`: the median of 15, from the page's stop to the time at which
//! the server saw its connection closed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::body::{Body, to_bytes};
use engine::{Engine, Keychain, Options};
use futures::StreamExt;
use http::Request;
use policy::{AppId, Caller};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const TOKENS: usize = 100_000;
const CALLS: usize = 4;
const EACH: usize = 50;
const STOPS: usize = 15;

const PLUGIN: &str = r#"
const messages = (content) => [{ role: "user", content }];
async function added(host, content) {
  let length = 0;
  for await (const part of host.llm.stream({ messages: messages(content) })) length += part.delta?.length ?? 0;
  return length;
}
export async function handleRoute(req, host) {
  const { content, chatId, streams } = req.body;
  if (req.path === "/add") {
    const lengths = await Promise.all(Array.from({ length: streams }, () => added(host, content)));
    return { json: { length: lengths.reduce((a, b) => a + b, 0) } };
  }
  const { text } = await host.llm.generate({ messages: messages(content), stream: { chatId, name: "x" } });
  return { json: { text: text.slice(0, 100) } };
}
"#;

async fn send(
    engine: &Engine,
    caller: &Caller,
    method: &str,
    path: &str,
    body: Value,
) -> Fallible<http::Response<Body>> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))?;
    Ok(engine.call(caller.clone(), request).await)
}

async fn ask(engine: &Engine, caller: &Caller, method: &str, path: &str, body: Value) -> Fallible<Value> {
    let response = send(engine, caller, method, path, body).await?;
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 8 << 20).await?;
    if !status.is_success() {
        return Err(format!("{method} {path}: {status} {}", String::from_utf8_lossy(&bytes)).into());
    }
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
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
        r#"{"name":"p","permissions":["routes","llm"]}"#,
    )?;
    std::fs::write(folder.join("plugins/p/plugin.js"), PLUGIN)
}

/// Seconds of processor time of this process and of those it started. A tick is 10 ms.
fn cpu_seconds() -> f64 {
    let ticks = |path: &str| -> Option<u64> {
        let stat = std::fs::read_to_string(path).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    let mut all = ticks("/proc/self/stat").unwrap_or(0);
    let own = std::process::id();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path().join("stat");
        let parent = std::fs::read_to_string(&path).ok().and_then(|stat| {
            let (_, rest) = stat.rsplit_once(')')?;
            rest.split_whitespace().nth(1)?.parse::<u32>().ok()
        });
        if parent == Some(own) {
            all += path.to_str().and_then(ticks).unwrap_or(0);
        }
    }
    all as f64 / 100.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Reads a page's stream until it ends, or until it holds `wanted`.
async fn read_stream(engine: &Engine, page: &Caller, chat: &str, wanted: Option<&str>) -> Fallible<usize> {
    let path = format!("/v1/apps/bench/__streams/{chat}");
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let response = send(engine, page, "GET", &path, Value::Null).await?;
        if !response.status().is_success() {
            if Instant::now() > until {
                return Err("the stream never began".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        let mut body = response.into_body().into_data_stream();
        let mut bytes = 0;
        while let Some(piece) = body.next().await {
            let piece = piece?;
            bytes += piece.len();
            if wanted.is_some_and(|wanted| String::from_utf8_lossy(&piece).contains(wanted)) {
                break;
            }
        }
        return Ok(bytes);
    }
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let base = std::env::args()
        .nth(1)
        .ok_or("give the address of the bench's model server")?;
    let worker =
        PathBuf::from(std::env::var_os("CHRYSALIS_WORKER").ok_or("CHRYSALIS_WORKER names the worker program")?);
    let folder = tempfile::tempdir()?;
    let engine = Engine::open(Options {
        home: folder.path().join("home"),
        worker,
        keychain: Keychain::None,
    })
    .await?;
    let person = Caller::CommandLine {
        account: engine.owner(),
    };
    let page = Caller::App {
        account: engine.owner(),
        app: AppId::parse("bench")?,
    };
    let app = folder.path().join("bench");
    write_app(&app)?;
    let mut import = json!({"folder": app});
    import["head"] = ask(&engine, &person, "POST", "/v1/apps/import", import.clone()).await?["head"].clone();
    import["confirm"] = true.into();
    import["grant"] = true.into();
    ask(&engine, &person, "POST", "/v1/apps/import", import).await?;
    let connection = json!({"name": "bench", "baseUrl": base, "models": ["bench"]});
    ask(&engine, &person, "POST", "/v1/settings/connections", connection).await?;

    let add = |content: String, streams: usize| json!({"content": content, "streams": streams});
    let path = "/v1/apps/bench/add";
    ask(&engine, &page, "POST", path, add("FAST 100".into(), 1)).await?;

    let began = Instant::now();
    let added = ask(&engine, &page, "POST", path, add(format!("FAST {TOKENS}"), 1)).await?;
    let whole = began.elapsed();
    if added["length"].as_u64() != Some(4 * TOKENS as u64) {
        return Err(format!("the plugin got {added}").into());
    }
    println!("bench plugin_token_ns {:.1}", whole.as_nanos() as f64 / TOKENS as f64);

    let began = Instant::now();
    let body = json!({"content": format!("FAST {TOKENS}"), "chatId": "fast"});
    let (asked, read) = tokio::join!(ask(&engine, &page, "POST", "/v1/apps/bench/generate", body), async {
        let read = read_stream(&engine, &page, "fast", None).await;
        (read, began.elapsed())
    });
    asked?;
    if read.0? < 4 * TOKENS {
        return Err("the page did not get the whole answer".into());
    }
    println!("bench page_token_ns {:.1}", read.1.as_nanos() as f64 / TOKENS as f64);

    let (before, began) = (cpu_seconds(), Instant::now());
    let calls = (0..CALLS).map(|_| ask(&engine, &page, "POST", path, add("PACE".into(), EACH)));
    for added in futures::future::join_all(calls).await {
        if added?["length"].as_u64() != Some((EACH * 500 * 4) as u64) {
            return Err("a stream of usual speed was not whole".into());
        }
    }
    println!(
        "bench streams_200_cores {:.3}",
        (cpu_seconds() - before) / began.elapsed().as_secs_f64()
    );

    let mut stops = Vec::new();
    for number in 0..STOPS {
        let chat = format!("hold{number}");
        let held = ask(
            &engine,
            &page,
            "POST",
            "/v1/apps/bench/generate",
            json!({"content": "HOLD", "chatId": chat}),
        );
        let stopped = async {
            read_stream(&engine, &page, &chat, Some("held")).await?;
            let at = SystemTime::now().duration_since(UNIX_EPOCH)?;
            ask(
                &engine,
                &page,
                "POST",
                "/v1/apps/bench/__abort",
                json!({"chatId": chat}),
            )
            .await?;
            Ok::<_, Box<dyn std::error::Error>>(at)
        };
        let (held, at) = tokio::join!(held, stopped);
        held?;
        tokio::time::sleep(Duration::from_millis(150)).await;
        let when = ask(
            &engine,
            &page,
            "POST",
            "/v1/apps/bench/generate",
            json!({"content": "WHEN", "chatId": "when"}),
        )
        .await?;
        let closed: u64 = when["text"].as_str().unwrap_or_default().trim().parse()?;
        stops.push((closed as f64 - at?.as_micros() as f64) / 1e3);
    }
    println!("bench stop_ms {:.3}", median(stops));
    engine.shutdown().await;
    Ok(())
}
