//! An app that is removed while its window is open takes the window along, whoever removed it: the launcher, the command
//! line, a browser.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use policy::{AppId, Caller};
use serde::Deserialize;
use tauri::AppHandle;

use super::delivery::Events;
use super::door::Door;
use super::{Shell, app_window, launcher, platform, tray};

/// Time before the engine's events are asked for again. They only end when the engine does.
const AGAIN: Duration = Duration::from_secs(1);

/// What one event means for the windows.
#[derive(Debug, PartialEq, Eq)]
enum News {
    Removed(AppId),
    /// Something may have been missed: what is open has to be compared with what is installed.
    Unknown,
    Nothing,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    payload: serde_json::Value,
}

fn news(event: &str) -> News {
    let Ok(Event { kind, payload }) = serde_json::from_str(event) else {
        return News::Nothing;
    };
    match kind.as_str() {
        "hello" | "missed" => News::Unknown,
        "app_changed" if payload["deleted"] == true => match payload["app"].as_str().map(AppId::parse) {
            Some(Ok(app)) => News::Removed(app),
            _ => News::Nothing,
        },
        _ => News::Nothing,
    }
}

/// Watches for removed apps until the program ends.
pub fn watch(app: AppHandle, shell: Arc<Shell>) {
    shell.runtime.clone().spawn(async move {
        while let Ok(engine) = shell.engine().await {
            follow(&app, &shell, &engine).await;
            tokio::time::sleep(AGAIN).await;
        }
    });
}

async fn follow(app: &AppHandle, shell: &Arc<Shell>, engine: &Arc<dyn Door>) {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = http::Uri::from_static("/v1/events");
    let caller = Caller::Owner {
        account: engine.owner(),
    };
    let mut body = engine.call(caller, request).await.into_body();
    let mut events = Events::default();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(bytes) = frame.into_data() else { continue };
        for event in events.feed(&bytes) {
            match news(&event) {
                News::Removed(id) => gone(app, shell, id),
                News::Unknown => compare(app, shell, engine).await,
                News::Nothing => {}
            }
        }
    }
}

async fn compare(app: &AppHandle, shell: &Arc<Shell>, engine: &Arc<dyn Door>) {
    // What is open first: an app whose window opens meanwhile was found in a list of its own.
    let open: Vec<AppId> = match shell.bridges.lock() {
        Ok(bridges) => bridges.keys().cloned().collect(),
        Err(_) => return,
    };
    if open.is_empty() {
        return;
    }
    match launcher::installed(engine).await {
        Ok(installed) => {
            for id in open {
                if !installed.iter().any(|app| app["id"] == id.as_str()) {
                    gone(app, shell, id);
                }
            }
        }
        Err(why) => tracing::warn!(why, "whether open apps are still installed is not known"),
    }
}

fn gone(app: &AppHandle, shell: &Arc<Shell>, id: AppId) {
    let (app, shell) = (app.clone(), shell.clone());
    platform::on_main_thread(move || {
        shell.places.removed(id.as_str());
        tray::changed(&app, &shell);
        app_window::close(&app, &id);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_removal_closes_a_window() {
        let chat = News::Removed(AppId::parse("chat").unwrap());
        for (event, want) in [
            (
                r#"{"type":"app_changed","payload":{"app":"chat","deleted":true,"updated":false}}"#,
                chat,
            ),
            (
                r#"{"type":"app_changed","payload":{"app":"chat","deleted":false,"updated":true}}"#,
                News::Nothing,
            ),
            (
                r#"{"type":"app_changed","payload":{"app":"../x","deleted":true}}"#,
                News::Nothing,
            ),
            (r#"{"type":"app_changed","payload":{"deleted":true}}"#, News::Nothing),
            (r#"{"type":"apps_changed","payload":{}}"#, News::Nothing),
            (
                r#"{"type":"plugin_says","payload":{"app":"chat","deleted":true}}"#,
                News::Nothing,
            ),
            (r#"{"type":"hello","payload":{"username":"zoe"}}"#, News::Unknown),
            (r#"{"type":"missed","payload":{"events":3}}"#, News::Unknown),
            ("", News::Nothing),
            ("[]", News::Nothing),
        ] {
            assert_eq!(news(event), want, "{event}");
        }
    }
}
