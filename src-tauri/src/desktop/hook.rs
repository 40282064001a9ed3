//! Test-only: reads app pages from outside. Never part of a release build.
//!
//! `CHRYSALIS_TEST_HOOK` names a Unix socket; each line `{"app": id, "eval": script}` is answered by one line, either
//! `{"value": …}` with the script's value or `{"error": text}`.

#[cfg(not(debug_assertions))]
compile_error!("the feature `test-hook` evaluates any script in app pages: it must not be in a release build");

use std::sync::{Arc, Mutex};
use std::time::Duration;

use policy::AppId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

use super::{Shell, app_window, platform};

#[derive(Deserialize)]
struct Line {
    app: AppId,
    eval: String,
}

pub fn listen(shell: &Shell) {
    let Some(path) = std::env::var_os("CHRYSALIS_TEST_HOOK") else {
        return;
    };
    let _guard = shell.runtime.enter();
    let listener = UnixListener::bind(&path).expect("CHRYSALIS_TEST_HOOK names a socket that can be made");
    shell.runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
}

async fn serve(stream: UnixStream) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match serde_json::from_str::<Line>(&line) {
            Ok(line) => evaluate(line).await,
            Err(error) => json!({ "error": error.to_string() }),
        };
        if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn evaluate(line: Line) -> Value {
    let (reply, answer) = oneshot::channel::<Result<String, String>>();
    let reply = Arc::new(Mutex::new(Some(reply)));
    platform::on_main_thread(move || {
        let say = move |result| {
            if let Some(reply) = reply.lock().ok().and_then(|mut reply| reply.take()) {
                let _ = reply.send(result);
            }
        };
        let Some(view) = app_window::view(&line.app) else {
            return say(Err("no such window".into()));
        };
        let told = say.clone();
        if let Err(error) = view.read(&line.eval, move |value| told(Ok(value))) {
            say(Err(error));
        }
    });
    match tokio::time::timeout(Duration::from_secs(10), answer).await {
        // A script whose value is `undefined` has no JSON.
        Ok(Ok(Ok(text))) => json!({ "value": serde_json::from_str::<Value>(&text).unwrap_or(Value::Null) }),
        Ok(Ok(Err(error))) => json!({ "error": error }),
        Ok(Err(_)) => json!({ "error": "the page is gone" }),
        Err(_) => json!({ "error": "no answer within ten seconds" }),
    }
}
