//! What the engine lends to plugins and to app pages.

use apps::host::{Beyond, Entry, Generation};
use apps::pages::{self, PagePolicy};
use axum::body::Body;
use axum::response::IntoResponse;
use db::NewActivity;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use policy::{AccountId, AppId, CallContext, Caller, PluginId};
use secrets::Origin;
use serde_json::{Value, json};
use url::Url;

use crate::activity::line;
use crate::error::ApiError;
use crate::held::Held;
use crate::{BRIDGE, Engine, PageDoor, blocking, in_place};

#[async_trait::async_trait]
impl Beyond for Engine {
    fn generate(
        &self,
        context: &CallContext,
        from: Entry,
        key: &str,
        request: Value,
    ) -> Result<Box<dyn Generation>, String> {
        Ok(Box::new(Held::new(self.start(context, from, key, request)?)))
    }

    async fn embed(&self, context: &CallContext, request: Value) -> Result<Value, String> {
        self.embeddings(context, request).await
    }

    fn plugin_secret(&self, context: &CallContext, name: &str) -> Option<secrets::KeyHandle> {
        let Some(Caller::Plugin { account, app, plugin }) = context.chain.last() else {
            return None;
        };
        let origin = self.db().plugin_secret(account, app, plugin, name).ok()??;
        let origin = Origin::of(&Url::parse(&origin).ok()?).ok()?;
        let id = secrets::plugin_secret_id(account, app, plugin, name)?;
        in_place(|| self.vault().handle(&id, &origin))
    }

    fn refused(&self, context: &CallContext, target: &str, why: &str) {
        self.activity().refused(context, target, why);
    }

    fn logged(&self, context: &CallContext, level: &str, line: &str) {
        let plugin = context.chain.last().map(Caller::label).unwrap_or_default();
        if matches!(level, "error" | "warn") {
            match self.activity().admit_log(&plugin) {
                None => return,
                Some(0) => {}
                Some(missed) => tracing::warn!(target: "plugin", plugin, "{missed} more lines were not written down"),
            }
        }
        let line = one_line(line);
        match level {
            "error" => tracing::error!(target: "plugin", plugin, "{line}"),
            "warn" => tracing::warn!(target: "plugin", plugin, "{line}"),
            // What a plugin says in passing may quote what the person wrote, so it is not logged unless asked for.
            _ => tracing::debug!(target: "plugin", plugin, "{line}"),
        }
    }
}

impl Engine {
    /// Writes down that a plugin's code failed.
    pub(crate) fn plugin_failed(&self, context: &CallContext, app: &AppId, plugin: &PluginId, target: &str, why: &str) {
        let caller = format!("plugin:{app}/{plugin}");
        let Some(missed) = self.activity().admit_error(&caller) else {
            return;
        };
        tracing::warn!(target: "plugin", "{}", one_line(why));
        let mut detail: String = why.chars().take(600).collect();
        if missed > 0 {
            detail.push_str(&format!(" (and {missed} more failures since the last line)"));
        }
        self.activity().add(&NewActivity {
            caller,
            app: Some(app.to_string()),
            detail: Some(detail),
            ..line(context, "error", target, "failed")
        });
    }
}

/// Foreign words as one line of the log: a line break in them could pass for a line of ours, and a terminal would obey
/// the rest.
fn one_line(text: &str) -> String {
    let shown = |c: char| {
        if c.is_control() || is_direction(c) {
            '\u{fffd}'
        } else {
            c
        }
    };
    let lines: Vec<&str> = text.split(['\n', '\r']).filter(|line| !line.is_empty()).collect();
    lines.join(" / ").chars().map(shown).collect()
}

/// Turns the direction of what follows, so that a line reads otherwise than it is.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
}

/// The bridge with what this load of the page starts from.
fn bridge(engine: &Engine, account: &AccountId, app: &AppId, door: &PageDoor) -> String {
    let local = engine.db().page_storage(account, app).unwrap_or_default();
    let session = engine.page_sessions().all(account, app);
    let (transport, secret, base) = match door {
        PageDoor::Window { secret } => ("ipc", secret.clone(), String::new()),
        PageDoor::Frame { token, .. } => ("frame", policy::random_hex(16), format!("/frame/{token}")),
    };
    let boot = json!({
        "transport": transport, "app": app, "secret": secret, "base": base,
        "storage": {"local": local, "session": session}, "quota": db::PAGE_QUOTA,
    });
    format!("globalThis.__chrysalisBoot={};\n{BRIDGE}", parsed(&boot))
}

/// JavaScript that gives `value`. Not the JSON as it stands: there, a page's stored item of the name `__proto__` would
/// set a prototype and be lost.
fn parsed(value: &Value) -> String {
    format!("JSON.parse({})", Value::String(value.to_string()))
}

/// Where a page's own files come from, as its policy names it.
fn page_policy(app: &AppId, door: &PageDoor) -> PagePolicy {
    match door {
        PageDoor::Window { .. } => PagePolicy::window(app),
        PageDoor::Frame { token, origin } => PagePolicy::frame(origin, token),
    }
}

pub(crate) async fn page(
    engine: &Engine,
    account: &AccountId,
    app: &AppId,
    door: &PageDoor,
    request: Request<()>,
) -> Response<Body> {
    let policy = page_policy(app, door);
    let path = request.uri().path().to_owned();
    if let Some(rest) = path.strip_prefix("/v1/") {
        return engine_file(engine, account, app, door, rest, request).await;
    }
    let mut bridge_src = String::from("/__chrysalis/bridge.js");
    if let PageDoor::Frame { token, .. } = door {
        bridge_src.insert_str(0, &format!("/frame/{token}"));
    }
    let (of, account, app, door) = (engine.clone(), account.clone(), app.clone(), door.clone());
    let answer = blocking(move || {
        let plain =
            |status, text: String| pages::reply(&policy, status, "text/plain; charset=utf-8", text.into_bytes());
        let folder = match of.workspace(&account).map(|workspace| workspace.app_folder(&app)) {
            Ok(Ok(folder)) => folder,
            Ok(Err(error)) => return plain(StatusCode::NOT_FOUND, error.to_string()),
            Err(error) => return plain(error.status, error.message),
        };
        if path == format!("/{}/bridge.js", pages::RESERVED) && *request.method() == Method::GET {
            let script = bridge(&of, &account, &app, &door).into_bytes();
            return pages::reply(&policy, StatusCode::OK, "text/javascript; charset=utf-8", script);
        }
        pages::serve(
            &folder,
            &app,
            request.method(),
            &path,
            request.headers(),
            &policy,
            &bridge_src,
        )
    })
    .await;
    answer.map(|body| Body::from_stream(body.into_stream()))
}

/// `/v1/…` as the address of an image or a font: a read by the app itself, under the app's own rules.
async fn engine_file(
    engine: &Engine,
    account: &AccountId,
    app: &AppId,
    door: &PageDoor,
    rest: &str,
    request: Request<()>,
) -> Response<Body> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return ApiError::forbidden("Addresses are for reading only.").into_response();
    }
    let (parts, ()) = request.into_parts();
    let query = parts.uri.query().map(|q| format!("?{q}")).unwrap_or_default();
    let mut inner = Request::builder()
        .method(parts.method)
        .uri(format!("/v1/{rest}{query}"));
    for name in [http::header::RANGE, http::header::IF_NONE_MATCH, http::header::ACCEPT] {
        if let Some(value) = parts.headers.get(&name) {
            inner = inner.header(name, value);
        }
    }
    let Ok(inner) = inner.body(Body::empty()) else {
        return ApiError::bad("This address is not accepted.").into_response();
    };
    let caller = Caller::App {
        account: account.clone(),
        app: app.clone(),
    };
    let mut response = engine.call(caller, inner).await;
    // A page can go to this address itself, and what a plugin answers can be HTML: then it is a page of this app, and has
    // to be as shut in as every other. Policies add up: on top of that, nothing in it runs or loads.
    let headers = response.headers_mut();
    let cache = headers.get(CACHE_CONTROL).cloned();
    page_policy(app, door).apply(headers);
    headers.append(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'"),
    );
    if let Some(cache) = cache {
        headers.insert(CACHE_CONTROL, cache);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_logs_is_one_line() {
        let forged = "a\r\n2026-01-01T00:00:00Z ERROR engine: b\u{1b}[2J\u{202e}c\n";
        assert_eq!(
            one_line(forged),
            "a / 2026-01-01T00:00:00Z ERROR engine: b\u{fffd}[2J\u{fffd}c"
        );
    }

    #[test]
    fn a_boot_record_is_a_string_to_parse() {
        let script = parsed(&json!({"__proto__": "x", "q": "\"\\\u{2028}</script>"}));
        let inside = script
            .strip_prefix("JSON.parse(")
            .and_then(|rest| rest.strip_suffix(')'))
            .unwrap();
        let text: String = serde_json::from_str(inside).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&text).unwrap()["__proto__"],
            json!("x"),
            "{script}"
        );
    }
}
