//! Which services there are to connect, which of them run on this machine, and whether a connection works.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Path, State};
use policy::{Callers, Condition};
use providers::Api;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;
use crate::door::{Context, Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::streams::Place;

pub fn routes(table: Table) -> Table {
    let (person, always) = (Callers::PERSON, Condition::Always);
    let test = "/v1/settings/connections/{id}/test";
    table
        .route("GET", "/v1/settings/providers", Callers::PERSON_OR_APP, always, list)
        .route("GET", "/v1/settings/local-servers", person, always, local_servers)
        .route("POST", test, person, always, say_hello)
}

/// How long a connection has to say hello: a local server may have to load its model first.
const PATIENCE: Duration = Duration::from_secs(120);
/// Tokens and characters of a greeting.
const TOKENS: u64 = 64;
const SHOWN: usize = 200;

async fn list() -> Json<Value> {
    let presets = providers::presets().iter().map(|preset| {
        json!({
            "id": preset.id, "name": preset.name, "group": if preset.local { "local" } else { "hosted" },
            "api": preset.api.name(), "baseUrl": preset.base_url, "local": preset.local, "needsKey": !preset.local,
            "keyPage": preset.key_page,
        })
    });
    let apis = Api::ALL
        .iter()
        .map(|api| json!({"id": api.name(), "name": api.title()}));
    Json(json!({"presets": presets.collect::<Vec<_>>(), "apis": apis.collect::<Vec<_>>()}))
}

async fn local_servers(State(engine): State<Engine>, person: Person, Context(context): Context) -> Answer<Json<Value>> {
    let found = providers::probe_local(&context, engine.net()).await;
    let known = engine.db().connections(&person.account)?;
    let servers = found.iter().map(|server| {
        // A port does not always say which of its usual programs answers there.
        let names: Vec<&str> = server.presets.iter().map(|preset| preset.name).collect();
        let models: Vec<&str> = server.list.models.iter().map(|model| model.id.as_str()).collect();
        let port = url::Url::parse(&server.base_url).ok().and_then(|url| url.port());
        let added = known
            .iter()
            .any(|row| url::Url::parse(&row.base_url).is_ok_and(|url| url.port() == port && providers::is_local(&url)));
        json!({
            "name": names.join(" or "), "preset": server.presets.first().map(|preset| preset.id),
            "api": server.presets.first().map(|preset| preset.api.name()), "baseUrl": server.base_url, "models": models,
            "wantsKey": server.wants_key, "added": added,
        })
    });
    Ok(Json(json!({"servers": servers.collect::<Vec<_>>()})))
}

#[derive(Deserialize)]
struct Hello {
    #[serde(default)]
    model: Option<String>,
}

/// Asks a connection to say hello, as any other request of the person: it stands in the activity log, counts against
/// limits, and shows how long the first word takes.
async fn say_hello(
    State(engine): State<Engine>,
    person: Person,
    Context(context): Context,
    Path(id): Path<String>,
    Given(hello): Given<Hello>,
) -> Answer<Json<Value>> {
    let row = engine
        .db()
        .connection(&person.account, &id)?
        .ok_or_else(|| ApiError::missing("There is no such connection."))?;
    let endpoint = Engine::address(&row).ok();
    let url = |model: Option<&str>| endpoint.as_ref().map(|endpoint| endpoint.final_url(model));
    let model = match hello.model.filter(|model| !model.is_empty()) {
        Some(model) => model.strip_prefix(&format!("{id}/")).unwrap_or(&model).to_owned(),
        None => match engine.first_model(&context, &person.account, &row).await {
            Ok(model) => model,
            Err(none) => {
                let mut said = json!({"ok": false, "error": none.whole, "url": url(None)});
                if let Some(info) = none.info {
                    said["errorInfo"] = info;
                }
                return Ok(Json(said));
            }
        },
    };
    let request = json!({
        "model": format!("{id}/{model}"), "messages": [{"role": "user", "content": "Say hello."}],
        "presetParams": {"max_tokens": TOKENS},
    });
    let began = Instant::now();
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let answer = engine
        .start(&context.within(PATIENCE), apps::host::Entry::Route, "", request)
        .map_err(ApiError::bad)?;
    let mut place = Place::default();
    let mut first = None;
    let (mut text, mut thinking) = (String::new(), String::new());
    let end = loop {
        let news = answer.next(&mut place).await;
        if first.is_none() && !(news.delta.is_empty() && news.thinking.is_empty()) {
            first = Some(began.elapsed());
        }
        text.push_str(&news.delta);
        thinking.push_str(&news.thinking);
        if let Some(end) = news.end {
            break end;
        }
    };
    let shown = |text: &str| -> String { text.trim().chars().take(SHOWN).collect() };
    let url = url(Some(&model));
    if let Some(error) = end.whole.or(end.error) {
        let mut said =
            json!({"ok": false, "error": error, "errorInfo": end.result["errorInfo"], "model": model, "url": url});
        if !text.is_empty() {
            said["text"] = shown(&text).into();
        }
        return Ok(Json(said));
    }
    Ok(Json(json!({
        "ok": true, "model": model, "url": url, "firstMs": first.map(millis), "totalMs": millis(began.elapsed()),
        "text": shown(if text.trim().is_empty() { &thinking } else { &text }),
        "usage": end.result["usage"],
    })))
}
