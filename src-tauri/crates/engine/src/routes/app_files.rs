//! App routes that the engine answers itself: panels of plugins, pictures they keep, and pictures from the network.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use files::FileError;
use http::{HeaderValue, StatusCode};
use net::{Fetch, Granted, HostPattern, Reach};
use policy::{Callers, Capability, Condition};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use url::Url;

use apps::budget::Spend;
use apps::plugin_call::global_id;

use crate::door::{AppOf, Asked, Context, Table};
use crate::error::{Answer, ApiError};
use crate::routes::inert;
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let own = Callers::PERSON_OR_APP;
    table
        .route("GET", "/v1/apps/{app}/__panels", own, Condition::OwnApp, panels)
        .route("GET", "/v1/apps/{app}/__media/{name}", own, Condition::OwnApp, media)
        .route("GET", "/v1/apps/{app}/img", own, Condition::OwnApp, image)
}

/// Bytes of a picture a plugin may keep (contract section 3.4), and of one from the network (section 6).
const MEDIA_LIMIT: u64 = 64 << 20;
const IMAGE_LIMIT: u64 = 8 << 20;
const IMAGE_HOPS: usize = 3;
const IMAGE_TIME: Duration = Duration::from_secs(10);

/// What each plugin of the app shows of itself (`uiPanel`).
async fn panels(State(engine): State<Engine>, of: AppOf, Context(context): Context) -> Answer<Json<Value>> {
    let room = engine.room(&of.account)?;
    room.workspace
        .app(&of.app)
        .map_err(|e| ApiError::missing(format!("App \"{}\": {e}", of.app)))?;
    let mut shown = Vec::new();
    for plugin in engine.usable(&room, &of.app) {
        match engine.plugins().panel(&room.target(&context, &plugin)).await {
            Ok(Some(mut panel)) => {
                panel.insert("plugin".into(), global_id(&of.app, &plugin.plugin.id).into());
                shown.push(Value::Object(panel));
            }
            Ok(None) => {}
            Err(error) => engine.note_failure(&context, &plugin, "uiPanel", &error),
        }
    }
    Ok(Json(json!({"panels": shown})))
}

#[derive(Deserialize)]
struct MediaPath {
    app: String,
    name: String,
}

fn picture(kind: &'static str, cache: &'static str, bytes: impl Into<Body>) -> Response {
    (inert(HeaderValue::from_static(kind), cache), bytes.into()).into_response()
}

/// The media type of one of the four kinds of pictures that are passed on.
fn kind_of(word: &str) -> Option<&'static str> {
    Some(match word {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        _ => return None,
    })
}

/// A picture a plugin kept with `host.fs.media`. Its name is the hash of its content, so it never changes.
async fn media(State(engine): State<Engine>, of: AppOf, Path(path): Path<MediaPath>) -> Answer {
    debug_assert_eq!(path.app, of.app.as_str());
    let missing = || ApiError::missing("There is no such picture.");
    let (hash, word) = path.name.split_once('.').ok_or_else(missing)?;
    let hex = hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let kind = kind_of(word).filter(|_| hex).ok_or_else(missing)?;
    let bytes = blocking(move || -> Answer<Vec<u8>> {
        let folder = engine
            .workspace(&of.account)?
            .app_folder(&of.app)
            .map_err(|_| missing())?;
        let read = folder.read(&format!("data/__media/{}", path.name), MEDIA_LIMIT);
        read.map_err(|error: FileError| match error {
            error if error.is_missing() => missing(),
            error => ApiError::bad(error.to_string()),
        })
    })
    .await?;
    Ok(picture(kind, "private, max-age=31536000, immutable", bytes))
}

#[derive(Deserialize)]
struct ImageWanted {
    url: String,
}

/// A picture from a host that some plugin of this app may contact (contract section 6).
async fn image(
    State(engine): State<Engine>,
    of: AppOf,
    Context(context): Context,
    Asked(wanted): Asked<ImageWanted>,
) -> Answer {
    let url = Url::parse(&wanted.url).map_err(|e| ApiError::bad(format!("This address cannot be read: {e}.")))?;
    if url.scheme() != "https" || url.port().is_some_and(|port| port != 443) {
        return Err(ApiError::bad(
            "Pictures come from https:// addresses at the usual port.",
        ));
    }
    let room = engine.room(&of.account)?;
    let mut hosts: Vec<HostPattern> = Vec::new();
    for plugin in engine.usable(&room, &of.app) {
        let granted = engine.plugins().permissions().check(
            &of.account,
            &of.app,
            &plugin.plugin.id,
            plugin.plugin.code,
            Capability::Network,
        );
        if let Ok(granted) = granted {
            hosts.extend(granted.hosts());
        }
    }
    if !hosts.iter().any(|pattern| pattern.matches(&url)) {
        let why = format!(
            "No plugin of this app may contact {}, so it shows no pictures from there.",
            url.host_str().unwrap_or_default()
        );
        engine.activity().refused(&context, "img", &why);
        return Err(ApiError::forbidden(why).code("host"));
    }
    let budgets = engine.plugins().budgets().clone();
    let (account, app) = (of.account.clone(), of.app.clone());
    let spend: net::Spend =
        std::sync::Arc::new(move |bytes| budgets.before(&account, &app, Spend::NetworkBytes, bytes));
    let reach = Reach::Granted(Granted {
        hosts: hosts.into(),
        local: [].into(),
        also: Vec::new(),
    });
    let fetch = Fetch {
        max_hops: IMAGE_HOPS,
        timeout: IMAGE_TIME,
        max_bytes: IMAGE_LIMIT,
        https_only: true,
        ..Fetch::get(wanted.url, reach, "picture", spend)
    };
    let found = engine
        .net()
        .fetch(&context, fetch)
        .await
        .map_err(|e| ApiError::new(StatusCode::BAD_GATEWAY, e.to_string()))?;
    if found.status != 200 {
        let why = format!("The server answered with status {}.", found.status);
        return Err(ApiError::new(StatusCode::BAD_GATEWAY, why));
    }
    // What it is, its bytes say; what its server says, anyone may say.
    match archive::image::sniff(&found.body) {
        Some(known) => Ok(picture(known.kind.media_type(), "private, max-age=3600", found.body)),
        None => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "This is no picture: only png, jpeg, webp and gif are passed on.",
        )),
    }
}
