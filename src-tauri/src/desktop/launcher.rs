//! The launcher's window and the commands that only it may use.
//!
//! Who may call them is settled three times: the commands are listed in build.rs, the capability in tauri.conf.json
//! names the window, and each command looks at the window it was called from.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use futures::FutureExt;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Limited};
use policy::{AppId, Caller};
use serde::{Deserialize, Serialize};
use tauri::ipc::Channel;
use tauri::webview::{NewWindowResponse, PageLoadEvent};
use tauri::{AppHandle, Manager, State, WebviewUrl, WebviewWindowBuilder};

use super::delivery::Flow;
use super::door;
use super::message::base64;
use super::{Shell, app_window, platform};

/// The launcher's window and webview.
pub const LABEL: &str = "launcher";
/// Bytes gathered into one message of an answer.
const PIECE: usize = 48 * 1024;
/// Longest answer of `/v1/launch` that is read here, in bytes.
const MAX_LIST: usize = 4 * 1024 * 1024;

/// One piece of an answer, in this order: a head, chunks, an end; an error may stand in place of any of them.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "t", rename_all = "lowercase")]
pub enum Piece {
    Head {
        status: u16,
        headers: Vec<(String, String)>,
    },
    Chunk {
        b64: String,
    },
    End,
    Error {
        message: String,
    },
}

/// Headers as a list of pairs or as an object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Headers {
    Pairs(Vec<(String, String)>),
    Object(HashMap<String, String>),
}

/// Opens the launcher's window.
pub fn open(app: &AppHandle, shell: &Arc<Shell>) -> tauri::Result<()> {
    let place = shell.places.get(LABEL, &app_window::screens(app));
    let calls = shell.clone();
    let mut builder = WebviewWindowBuilder::new(app, LABEL, WebviewUrl::App("index.html".into()))
        .title("Chrysalis")
        .inner_size(1080.0, 760.0)
        .min_inner_size(360.0, 320.0)
        .data_directory(shell.home.join("webview"))
        .on_navigation(|url| {
            url.scheme() == "tauri" && url.host_str() == Some("localhost")
                || cfg!(windows) && url.host_str() == Some("tauri.localhost")
        })
        .on_new_window(|_, _| NewWindowResponse::Deny)
        .on_download(|_, _| false)
        .on_page_load(move |_, load| {
            // A page that is gone takes no answers; the engine's work goes on.
            if load.event() == PageLoadEvent::Started
                && let Ok(mut calls) = calls.calls.lock()
            {
                for (_, flow) in calls.drain() {
                    flow.stop();
                }
            }
        });
    if let Some(place) = place {
        builder = builder.maximized(place.maximized);
    }
    let window = builder.build()?;
    if let Some(place) = place
        && !place.maximized
    {
        app_window::put(&window.as_ref().window(), place);
    }
    platform::keep_alive(&window)?;
    Ok(())
}

/// Brings the launcher forward, from the tray or a second start.
pub fn show(app: &AppHandle) {
    let shell: State<'_, Arc<Shell>> = app.state();
    shell.launcher_hidden.store(false, Ordering::Relaxed);
    if let Some(window) = app.get_window(LABEL) {
        let _ = window.show();
        let _ = window.unminimize();
        let _ = window.set_focus();
    }
}

fn only_launcher(webview: &tauri::Webview) -> Result<(), String> {
    if webview.label() == LABEL && webview.window().label() == LABEL {
        Ok(())
    } else {
        Err("only the launcher may do this".into())
    }
}

/// One request to the engine as the owner. Returns once the request is on its way; the answer comes through
/// `on_chunk`. `id` is the launcher's own number for it, `body` is text.
#[tauri::command]
#[allow(clippy::too_many_arguments)] // the command's arguments are the launcher's side of the interface
pub async fn call(
    webview: tauri::Webview,
    shell: State<'_, Arc<Shell>>,
    id: u64,
    method: String,
    path: String,
    headers: Option<Headers>,
    body: Option<String>,
    on_chunk: Channel<Piece>,
) -> Result<(), String> {
    only_launcher(&webview)?;
    let request = request(&method, &path, headers, body)?;
    let flow = Flow::new();
    if let Ok(mut calls) = shell.calls.lock()
        && calls.insert(id, flow.clone()).is_some()
    {
        return Err("this request number is in use".into());
    }
    let shell = Arc::clone(&shell);
    shell.runtime.clone().spawn(async move {
        answer(&shell, request, &flow, &on_chunk).await;
        if let Ok(mut calls) = shell.calls.lock() {
            calls.remove(&id);
        }
    });
    Ok(())
}

/// The launcher does not want the rest of an answer.
#[tauri::command]
pub fn cancel(webview: tauri::Webview, shell: State<'_, Arc<Shell>>, id: u64) -> Result<(), String> {
    only_launcher(&webview)?;
    if let Ok(mut calls) = shell.calls.lock()
        && let Some(flow) = calls.remove(&id)
    {
        flow.stop();
    }
    Ok(())
}

/// Opens an installed app in its own window, or brings that window forward.
#[tauri::command]
pub async fn open_app(
    app: AppHandle,
    webview: tauri::Webview,
    shell: State<'_, Arc<Shell>>,
    id: String,
) -> Result<(), String> {
    only_launcher(&webview)?;
    open_by_id(&app, &shell, &id).await
}

/// Ends the program, with every window.
#[tauri::command]
pub fn quit(app: AppHandle, webview: tauri::Webview) -> Result<(), String> {
    only_launcher(&webview)?;
    app.exit(0);
    Ok(())
}

/// Every installed app, as `GET /v1/launch` lists it.
pub async fn installed(engine: &Arc<dyn door::Door>) -> Result<Vec<serde_json::Value>, String> {
    let caller = Caller::Owner {
        account: engine.owner(),
    };
    let request = Request::get("/v1/launch")
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let answer = engine.call(caller, request).await;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MAX_LIST)
        .collect()
        .await
        .map_err(|error| format!("the list of apps could not be read: {error}"))?;
    let mut list: serde_json::Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    if !status.is_success() {
        let why = list["error"].as_str().unwrap_or("no reason given");
        return Err(format!("the list of apps could not be read: {why}"));
    }
    match list["apps"].take() {
        serde_json::Value::Array(apps) => Ok(apps),
        _ => Err("the list of apps could not be read: it is not there".into()),
    }
}

/// Opens an installed app; also what the tray does.
pub async fn open_by_id(app: &AppHandle, shell: &Arc<Shell>, id: &str) -> Result<(), String> {
    let id = AppId::parse(id).map_err(|error| error.to_string())?;
    let engine = shell.engine().await?;
    let installed = installed(&engine).await?;
    let found = installed.iter().find(|app| app["id"] == id.as_str());
    let Some(found) = found else {
        return Err(format!("no app \"{id}\" is installed"));
    };
    let name = found["name"].as_str().unwrap_or(id.as_str()).to_owned();
    let (done, opened) = tokio::sync::oneshot::channel();
    let (handle, shell) = (app.clone(), shell.clone());
    app.run_on_main_thread(move || {
        let _ = done.send(app_window::open(&handle, &shell, engine, id, &name));
    })
    .map_err(|error| error.to_string())?;
    opened.await.unwrap_or_else(|_| Err("the program is closing".into()))
}

fn request(method: &str, path: &str, headers: Option<Headers>, body: Option<String>) -> Result<Request<Body>, String> {
    if !path.starts_with("/v1/") {
        return Err("the path must begin with /v1/".into());
    }
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "not a method".to_string())?;
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .body(body.map_or_else(Body::empty, Body::from))
        .map_err(|error| format!("not a valid request: {error}"))?;
    let pairs: Vec<(String, String)> = match headers {
        None => Vec::new(),
        Some(Headers::Pairs(pairs)) => pairs,
        Some(Headers::Object(object)) => object.into_iter().collect(),
    };
    for (name, value) in pairs {
        let name = HeaderName::try_from(name).map_err(|_| "not a header name".to_string())?;
        let value = HeaderValue::try_from(value).map_err(|_| format!("not a value for {name}"))?;
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

async fn answer(shell: &Shell, request: Request<Body>, flow: &Flow, channel: &Channel<Piece>) {
    let engine = match shell.engine().await {
        Ok(engine) => engine,
        Err(why) => return broken(channel, &why),
    };
    let method = request.method().clone();
    let caller = Caller::Owner {
        account: engine.owner(),
    };
    let answer = engine.call(caller, request).await;
    let headers = answer
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect();
    let status = answer.status().as_u16();
    let (parts, mut body) = answer.into_parts();
    let end = if channel.send(Piece::Head { status, headers }).is_err() {
        None
    } else {
        tokio::select! {
            end = pump(&mut body, channel) => Some(end),
            () = flow.stopped() => None,
        }
    };
    match end {
        Some(end) => drop(channel.send(end)),
        None => door::finish(method, Response::from_parts(parts, body)).await,
    }
}

async fn pump(body: &mut Body, channel: &Channel<Piece>) -> Piece {
    let mut gathered = Vec::new();
    loop {
        // What is there already goes out together; nothing waits for more.
        let frame = match body.frame().now_or_never() {
            Some(frame) => frame,
            None => {
                if !gathered.is_empty() {
                    send(channel, &mut gathered);
                }
                body.frame().await
            }
        };
        match frame {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    gathered.extend_from_slice(&data);
                }
                if gathered.len() >= PIECE {
                    send(channel, &mut gathered);
                    // One large answer must not hold up the runtime.
                    tokio::task::yield_now().await;
                }
            }
            Some(Err(error)) => {
                send(channel, &mut gathered);
                let message = format!("the answer broke off: {error}");
                return Piece::Error { message };
            }
            None => {
                send(channel, &mut gathered);
                return Piece::End;
            }
        }
    }
}

fn send(channel: &Channel<Piece>, gathered: &mut Vec<u8>) {
    if !gathered.is_empty() {
        let b64 = base64(gathered);
        gathered.clear();
        let _ = channel.send(Piece::Chunk { b64 });
    }
}

/// The engine is not there: every request is answered with why, in the form of the engine's own errors.
fn broken(channel: &Channel<Piece>, why: &str) {
    let body = serde_json::json!({ "error": why, "code": "engine_not_open" }).to_string();
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let pieces = [
        Piece::Head { status: 503, headers },
        Piece::Chunk {
            b64: base64(body.as_bytes()),
        },
        Piece::End,
    ];
    for piece in pieces {
        let _ = channel.send(piece);
    }
}
