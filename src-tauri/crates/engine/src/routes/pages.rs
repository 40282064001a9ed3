//! What an app's own pages use: storage, running answers, and the app's plugins.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use http::StatusCode;
use http::header::HeaderValue;
use percent_encoding::percent_decode_str;
use policy::{AccountId, CallContext, Callers, Capability, Condition, is_management_head};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use crate::Engine;
use crate::blocking;
use crate::door::{AppOf, Context, Given, Table};
use crate::error::{Answer, ApiError};
use crate::plugins::Owned;
use crate::routes::events::{data, event_stream};
use crate::routes::inert;
use crate::streams::Place;
use apps::route::{RouteAnswer, RouteRequest};
use archive::Archive;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use policy::Caller;

pub fn routes(table: Table) -> Table {
    let own = Callers::PERSON_OR_APP;
    table
        .route("GET", "/v1/apps/{app}/__storage", own, Condition::OwnApp, storage)
        .route("POST", "/v1/apps/{app}/__storage", own, Condition::OwnApp, store)
        .route(
            "GET",
            "/v1/apps/{app}/__streams/{chat}",
            own,
            Condition::OwnApp,
            read_stream,
        )
        .route("POST", "/v1/apps/{app}/__abort", own, Condition::OwnApp, abort)
        .route("POST", "/v1/apps/{app}/__refused", own, Condition::OwnApp, refused)
        .route("*", "/v1/apps/{app}/{*rest}", own, Condition::OwnAppRoutes, dispatch)
}

async fn storage(State(engine): State<Engine>, of: AppOf) -> Answer<Json<Value>> {
    let local = engine.db().page_storage(&of.account, &of.app)?;
    Ok(Json(
        json!({"local": local, "session": engine.page_sessions().all(&of.account, &of.app)}),
    ))
}

#[derive(Deserialize)]
struct Change {
    which: String,
    op: String,
    key: Option<String>,
    value: Option<String>,
}

/// Bytes of one storage change: a value that fits the quota, when each of its characters is written as `\\u0001`.
const CHANGE_LIMIT: usize = 16 << 20;

async fn store(State(engine): State<Engine>, of: AppOf, mut request: Request) -> Answer<StatusCode> {
    DefaultBodyLimit::max(CHANGE_LIMIT).apply(&mut request);
    let Given(change) = Given::<Change>::from_request(request, &engine).await?;
    let key = change.key.as_deref();
    let named = || key.ok_or_else(|| ApiError::bad("A storage change needs its key."));
    match (change.which.as_str(), change.op.as_str()) {
        ("local", "clear") => engine.db().clear_page_storage(&of.account, &of.app)?,
        ("local", "remove") => engine.db().put_page_item(&of.account, &of.app, named()?, None)?,
        ("local", "set") => {
            let value = change.value.unwrap_or_default();
            engine
                .db()
                .put_page_item(&of.account, &of.app, named()?, Some(&value))?;
        }
        ("session", "clear") => engine.page_sessions().clear(&of.account, &of.app),
        ("session", "remove") => engine.page_sessions().put(&of.account, &of.app, named()?, None)?,
        ("session", "set") => engine
            .page_sessions()
            .put(&of.account, &of.app, named()?, change.value.as_deref())?,
        _ => {
            return Err(ApiError::bad(
                "A storage change has which: local or session, and op: set, remove or clear.",
            ));
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct Chat {
    app: String,
    chat: String,
}

async fn read_stream(State(engine): State<Engine>, of: AppOf, Path(chat): Path<Chat>) -> Answer {
    debug_assert_eq!(chat.app, of.app.as_str());
    let answer = engine.streams().find(&of.account, &of.app, &chat.chat).ok_or_else(|| {
        ApiError::missing("No answer of that name is running or ended in the last minute.").code("no-stream")
    })?;
    let events = stream::unfold(Some((answer, Place::default())), |state| async move {
        let (answer, mut place) = state?;
        let news = answer.next(&mut place).await;
        let mut out = Vec::new();
        if !news.thinking.is_empty() {
            out.extend_from_slice(&data(&json!({"thinking": news.thinking}).to_string()));
        }
        if !news.delta.is_empty() {
            out.extend_from_slice(&data(&json!({"delta": news.delta}).to_string()));
        }
        for wait in &news.waits {
            out.extend_from_slice(&data(&json!({"waiting": wait}).to_string()));
        }
        for tool in &news.tools {
            out.extend_from_slice(&data(&json!({"tool": tool}).to_string()));
        }
        let Some(end) = news.end else {
            return Some((out, Some((answer, place))));
        };
        let mut done = json!({"done": true, "stopped": end.stopped});
        if let Some(error) = end.error {
            done["error"] = error.into();
        }
        out.extend_from_slice(&data(&done.to_string()));
        Some((out, None))
    });
    Ok(event_stream(Body::from_stream(events.map(Ok::<_, Infallible>))))
}

#[derive(Deserialize)]
struct Refused {
    method: String,
    path: String,
}

/// The shell's page host refused a page by its own copy of the table; here that is written down.
async fn refused(State(engine): State<Engine>, of: AppOf, Given(what): Given<Refused>) -> StatusCode {
    let caller = policy::Caller::App {
        account: of.account,
        app: of.app,
    };
    let target: String = format!("{} {}", what.method, what.path).chars().take(300).collect();
    engine.refused(
        &caller,
        &target,
        "refused by the page's host: not in the table of what pages may use",
    );
    StatusCode::NO_CONTENT
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Abort {
    chat_id: String,
}

async fn abort(State(engine): State<Engine>, of: AppOf, Given(abort): Given<Abort>) -> Json<Value> {
    let active = engine.streams().stop(&of.account, &of.app, &abort.chat_id);
    Json(json!({"ok": true, "active": active}))
}

/// Bytes of a request body for plugins, and of one below `/import/` (contract section 6).
const BODY_LIMIT: usize = 32 << 20;
pub(crate) const IMPORT_LIMIT: usize = 220 << 20;
/// What a plugin finds in `body.zipBase64` when the engine took the archive out: `host.zip` has it.
const TAKEN: &str = "(see host.zip)";

/// A body for plugins: JSON where it is, else text. Parsed JSON can take three hundred times its bytes in memory, and is
/// copied on its way, so its values are counted first: a page must not be able to fill the machine.
fn read_body(bytes: &[u8]) -> Answer<Value> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let parsed = if sandbox::fits(bytes) {
        serde_json::from_slice(bytes).ok()
    } else if serde_json::from_slice::<IgnoredAny>(bytes).is_ok() {
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The request's JSON has more than a million values. Send less at once, or send it as one text.",
        ));
    } else {
        None
    };
    Ok(parsed.unwrap_or_else(|| Value::String(String::from_utf8_lossy(bytes).into_owned())))
}

/// Bodies from this size on are read off the asynchronous threads.
const LARGE: usize = 256 << 10;

/// Takes `zipBase64` out of a body and opens it: the archive itself never enters a plugin's process (contract section 3.4).
pub(crate) fn take_archive(body: &mut Value) -> Answer<Option<Arc<Archive>>> {
    let Some(Value::String(text)) = body.get_mut("zipBase64") else {
        return Ok(None);
    };
    let text = std::mem::replace(text, TAKEN.to_owned());
    let refused = |why: String| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, why).code("archive");
    let bytes = STANDARD
        .decode(text.trim())
        .map_err(|_| refused("zipBase64 is not base64, so there is no archive to read.".into()))?;
    let archive = Archive::open(bytes, archive::Limits::contract())
        .map_err(|e| refused(format!("The archive cannot be used: {e}.")))?;
    Ok(Some(Arc::new(archive)))
}

/// Hands a request to the app's plugins. The work runs on its own: a page that goes away does not stop it.
async fn dispatch(State(engine): State<Engine>, of: AppOf, Context(context): Context, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let prefix = format!("/v1/apps/{}/", of.app);
    let raw = parts.uri.path().strip_prefix(&prefix).unwrap_or_default();
    let rest = percent_decode_str(raw).decode_utf8_lossy();
    if is_management_head(&rest) {
        return Err(ApiError::missing(format!(
            "There is no {} {}.",
            parts.method,
            parts.uri.path()
        )));
    }
    let path = format!("/{rest}");
    let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes())
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect::<Map<_, _>>();
    let limit = if rest.starts_with("import/") {
        IMPORT_LIMIT
    } else {
        BODY_LIMIT
    };
    let import = limit == IMPORT_LIMIT;
    let (bytes, held) = engine.bodies().read(&of.account, &of.app, body, limit, import).await?;
    let (body, archive) = if bytes.len() < LARGE {
        let mut body = read_body(&bytes)?;
        let archive = take_archive(&mut body)?;
        (body, archive)
    } else {
        blocking(move || {
            let mut body = read_body(&bytes)?;
            let archive = take_archive(&mut body)?;
            Answer::Ok((body, archive))
        })
        .await?
    };
    let wanted = RouteRequest {
        method: parts.method.to_string(),
        path,
        query,
        body,
    };
    let work = tokio::spawn(async move {
        // The room is the body's for as long as plugins have it.
        let _held = held;
        ask_plugins(engine, of, context, wanted, archive).await
    });
    work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "a plugin call broke");
        Err(ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The call broke inside Chrysalis; the log says where.",
        ))
    })
}

/// Whether a plugin with these declared beginnings of paths is asked about `path`, and in which turn.
fn declared(routes: &[String], path: &str) -> Option<u8> {
    let path = path.trim_start_matches('/');
    let begins = |route: &String| {
        path.strip_prefix(route.trim_end_matches('/'))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match routes {
        [] => Some(1),
        some => some.iter().any(begins).then_some(0),
    }
}

async fn ask_plugins(
    engine: Engine,
    of: AppOf,
    context: CallContext,
    wanted: RouteRequest,
    archive: Option<Arc<Archive>>,
) -> Answer {
    let room = engine.room(&of.account)?;
    // A few small files, read on this thread: sending the work to another one and back takes longer than the reading.
    let plugins = room
        .workspace
        .plugins(&of.app)
        .map_err(|e| ApiError::missing(format!("App \"{}\": {e}", of.app)))?;
    let (mut waiting, mut off, mut broken, mut asked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for plugin in plugins {
        match plugin {
            Ok(plugin) => asked.extend(declared(&plugin.manifest.routes, &wanted.path).map(|rank| (rank, plugin))),
            Err(error) => broken.push(format!("Plugin {}: {}.", error.id, error.error)),
        }
    }
    // One that names this path in its manifest comes before those that take any, whatever their folders are called.
    asked.sort_by_key(|(rank, _)| *rank);
    let siblings = wanted.query.get("siblingtools").is_some_and(|given| given == "1");
    for (_, plugin) in asked {
        let plugin = Owned {
            app: of.app.clone(),
            plugin,
        };
        if !engine.enabled(&of.account, &of.app, &plugin.plugin) {
            off.push(plugin.plugin.id.to_string());
            continue;
        }
        if !engine
            .plugins()
            .allowed(&of.account, &of.app, &plugin.plugin, Capability::Routes)
        {
            waiting.push(plugin.plugin.id.to_string());
            continue;
        }
        let offered = if siblings {
            offered(&engine, &context, &of.account, &plugin).await
        } else {
            Value::Null
        };
        let may_zip = archive.is_some()
            && engine
                .plugins()
                .allowed(&of.account, &of.app, &plugin.plugin, Capability::Zip);
        let archive = archive.clone().filter(|_| may_zip);
        let target = room.target(&context, &plugin);
        match engine.plugins().route(&target, &wanted, offered, archive).await {
            Ok(Some(answer)) => return Ok(reply(answer)),
            Ok(None) => {}
            Err(error) => {
                engine.note_failure(&context, &plugin, "handleRoute", &error);
                return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).code("plugin"));
            }
        }
    }
    if !broken.is_empty() {
        return Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, broken.join(" ")).code("plugin"));
    }
    let target = format!("{} {}", wanted.method, wanted.path);
    if !waiting.is_empty() {
        let message = format!(
            "Plugin {} of this app may not answer: its code is new or was changed, or nobody has allowed it. Open Plugins in \
             the launcher to look at it and allow it, or run `chrysalis plugin grant {} {}`.",
            waiting.join(", "),
            of.app,
            waiting[0]
        );
        engine.activity().refused(&context, &target, &message);
        return Err(ApiError::forbidden(message).code("permission"));
    }
    if !off.is_empty() {
        let message = format!(
            "Plugin {} of this app is turned off. Open Plugins in the launcher to turn it on, or run `chrysalis plugin \
             enable {} {}`.",
            off.join(", "),
            of.app,
            off[0]
        );
        engine.activity().refused(&context, &target, &message);
        return Err(ApiError::forbidden(message).code("disabled"));
    }
    Err(ApiError::missing(format!(
        "No plugin of this app answers {} {}.",
        wanted.method, wanted.path
    )))
}

/// The definitions of what the app's other plugins offer, for `host.siblingTools`.
pub(crate) async fn offered(engine: &Engine, context: &CallContext, account: &AccountId, plugin: &Owned) -> Value {
    let caller = Caller::Plugin {
        account: account.clone(),
        app: plugin.app.clone(),
        plugin: plugin.plugin.id.clone(),
    };
    let tools = engine.sibling_tools(context, &caller).await;
    tools.into_iter().map(|(definition, _)| definition).collect()
}

/// A plugin's words are never a page of ours: whatever type it claims, a browser that shows it runs nothing.
fn reply(answer: RouteAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
    let kind = HeaderValue::from_str(&answer.content_type)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    (status, inert(kind, "no-store"), Body::from(answer.body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json_or_text_and_no_bombs() {
        let read = |body: &[u8]| read_body(body).map_err(|e| e.status);
        assert_eq!(read(b""), Ok(Value::Null));
        assert_eq!(read(b"[1]"), Ok(json!([1])));
        assert_eq!(read(b"[1"), Ok(json!("[1")));
        assert_eq!(read(b"\xff"), Ok(json!("\u{fffd}")));
        let csv = "1,".repeat(1_000_001);
        assert_eq!(
            read(csv.as_bytes()),
            Ok(Value::String(csv.clone())),
            "commas alone are no JSON"
        );
        for bomb in ["0,", "[],", "{\"\":0},"] {
            let body = format!("[{}0]", bomb.repeat(1_000_000));
            assert_eq!(read(body.as_bytes()), Err(StatusCode::PAYLOAD_TOO_LARGE), "{bomb}");
        }
    }

    #[test]
    fn declared_beginnings_are_whole_parts() {
        let routes = ["notes".to_owned(), "a/b".to_owned()];
        for (path, want) in [
            ("/notes", Some(0)),
            ("/notes/1", Some(0)),
            ("/notesx", None),
            ("/a/b/c", Some(0)),
            ("/a", None),
            ("/", None),
        ] {
            assert_eq!(super::declared(&routes, path), want, "{path}");
        }
        assert_eq!(super::declared(&[], "/anything"), Some(1));
    }
}
