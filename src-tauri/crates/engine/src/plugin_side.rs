//! What the engine lends to plugins and to app pages.

use apps::host::{Beyond, Generation};
use apps::pages::{self, PagePolicy};
use axum::body::Body;
use axum::response::IntoResponse;
use db::NewActivity;
use http::{Method, Request, Response, StatusCode};
use policy::{AccountId, AppId, CallContext, Caller, PluginId};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::models::Held;
use crate::{BRIDGE, Engine, PageDoor, blocking};

impl Beyond for Engine {
    fn generate(&self, context: &CallContext, request: Value) -> Result<Box<dyn Generation>, String> {
        Ok(Box::new(Held::new(self.start(context, request)?)))
    }

    fn refused(&self, context: &CallContext, target: &str, why: &str) {
        self.activity().refused(context, target, why);
    }

    fn logged(&self, context: &CallContext, level: &str, line: &str) {
        let plugin = context.chain.last().map(Caller::label).unwrap_or_default();
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
    pub(crate) fn plugin_failed(&self, context: &CallContext, app: &AppId, plugin: &PluginId, why: &str) {
        tracing::warn!(target: "plugin", "{why}");
        self.activity().add(&NewActivity {
            account: context.account.clone(),
            kind: "error",
            caller: format!("plugin:{app}/{plugin}"),
            chain: context.chain_label(),
            trace: context.trace.as_str().to_owned(),
            app: Some(app.to_string()),
            target: "handleRoute".into(),
            outcome: "failed".into(),
            detail: Some(why.chars().take(600).collect()),
        });
    }
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
    // JSON is JavaScript, but for two line separators in old engines and a closing tag that cannot occur in a .js file.
    format!("globalThis.__chrysalisBoot={boot};\n{BRIDGE}")
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
    if let PageDoor::Frame { .. } = door {
        // The frame's origin is opaque, and fonts are fetched with CORS.
        let any = http::HeaderValue::from_static("*");
        response
            .headers_mut()
            .insert(http::header::ACCESS_CONTROL_ALLOW_ORIGIN, any);
    }
    let referrer = http::HeaderValue::from_static("no-referrer");
    response.headers_mut().insert(http::header::REFERRER_POLICY, referrer);
    response
}
