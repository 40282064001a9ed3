//! Model servers the person named, and their keys. A key goes from the request straight into the vault.

use axum::Json;
use axum::extract::{Path, State};
use db::ConnectionRow;
use http::StatusCode;
use policy::{AccountId, Caller, Callers, Condition, random_hex};
use providers::{Api, Preset};
use secrets::{Bound, Origin};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::keys::{self, KeyText};
use crate::bus::Event;
use crate::door::{Asker, Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let (all, person, always) = ("/v1/settings/connections", Callers::PERSON, Condition::Always);
    let (one, key) = ("/v1/settings/connections/{id}", "/v1/settings/connections/{id}/key");
    table
        .route("GET", all, Callers::PERSON_OR_APP, Condition::OwnRecords, list)
        .route("POST", all, person, always, add)
        .route("PATCH", one, person, always, change)
        .route("DELETE", one, person, always, remove)
        .route("PUT", key, person, always, put_key)
        .route("DELETE", key, person, always, delete_key)
}

const NAME_LIMIT: usize = 60;
const URL_LIMIT: usize = 2048;
const MODELS_LIMIT: usize = 500;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    name: Option<String>,
    base_url: Option<String>,
    key: Option<KeyText>,
    models: Option<Value>,
    api: Option<String>,
    preset: Option<String>,
    /// For text completion; null takes it away.
    #[serde(default, deserialize_with = "given")]
    prompt_format: Option<Value>,
}

/// A field that is there, null included.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

fn checked_name(name: &str) -> Answer<String> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > NAME_LIMIT {
        return Err(ApiError::bad(format!(
            "A connection's name has 1 to {NAME_LIMIT} characters."
        )));
    }
    if name.chars().any(char::is_control) {
        return Err(ApiError::bad(
            "A connection's name has no line breaks or other control characters.",
        ));
    }
    Ok(name.to_owned())
}

pub(super) fn checked_url(api: Api, text: &str) -> Answer<Url> {
    let text = text.trim();
    let wrong = |why: &str| {
        ApiError::bad(format!(
            "The address \"{}\" cannot be used: {why}.",
            text.chars().take(200).collect::<String>()
        ))
    };
    if text.len() > URL_LIMIT {
        return Err(wrong("it is too long"));
    }
    let lower = text.to_ascii_lowercase();
    if !text.contains("://") && (lower.starts_with("http:") || lower.starts_with("https:")) {
        return Err(wrong("two slashes belong behind the colon, as in https://"));
    }
    let full = if text.contains("://") {
        text.to_owned()
    } else {
        format!("https://{text}")
    };
    let mut url = Url::parse(&full).map_err(|e| wrong(&e.to_string()))?;
    if !text.contains("://") && is_this_machine(&url) {
        // What people type for a server of their own. Judged by the whole host: a name elsewhere that begins in the same
        // way must not be sent a key in the clear.
        url = Url::parse(&format!("http://{text}")).map_err(|e| wrong(&e.to_string()))?;
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // Not repeated: a password is in it.
        return Err(ApiError::bad(
            "This address cannot be used: a user name or password does not belong in it; give a key instead.",
        ));
    }
    Origin::of(&url).map_err(|e| wrong(&e.to_string()))?;
    Ok(providers::normal_base(api, &url))
}

fn checked_models(models: &Value) -> Answer<Value> {
    let list = models.as_array().is_some_and(|list| {
        list.len() <= MODELS_LIMIT
            && list
                .iter()
                .all(|m| m.as_str().is_some_and(|m| !m.is_empty() && m.len() <= 200))
    });
    if models == "auto" || list {
        return Ok(models.clone());
    }
    Err(ApiError::bad("Models are \"auto\" or a list of model names."))
}

fn checked_api(api: &str) -> Answer<Api> {
    Api::parse(api).ok_or_else(|| {
        let known: Vec<&str> = Api::ALL.iter().map(|api| api.name()).collect();
        let api: String = api.chars().take(80).collect();
        ApiError::bad(format!(
            "There is no wire format \"{api}\": use one of {}.",
            known.join(", ")
        ))
    })
}

fn checked_preset(id: &str) -> Answer<&'static Preset> {
    let found = providers::presets().iter().find(|preset| preset.id == id);
    let id: String = id.chars().take(80).collect();
    found.ok_or_else(|| {
        ApiError::bad(format!(
            "There is no preset \"{id}\": GET /v1/settings/providers lists them."
        ))
    })
}

fn checked_format(format: &Value) -> Answer<Option<Value>> {
    if format.is_null() {
        return Ok(None);
    }
    providers::check_prompt_format(format).map_err(ApiError::bad)?;
    Ok(Some(format.clone()))
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(v4)) => v4.is_loopback(),
        Some(url::Host::Ipv6(v6)) => v6.is_loopback(),
        None => false,
    }
}

fn shown(engine: &Engine, account: &AccountId, row: &ConnectionRow) -> Value {
    let standing = engine.key_standing(account, row);
    let kept = keys::place(&standing);
    json!({
        "id": row.id, "name": row.name, "api": row.api, "baseUrl": row.base_url, "models": row.models,
        "hasKey": kept.is_some(),
        "keyKept": kept,
        // Why there is a key that is not used, in words.
        "keyTrouble": keys::trouble(&standing),
        "local": Url::parse(&row.base_url).is_ok_and(|url| providers::is_local(&url)),
        "preset": row.preset, "promptFormat": row.prompt_format,
        "finalUrl": Engine::address(row).ok().map(|endpoint| endpoint.final_url(None)),
    })
}

async fn list(State(engine): State<Engine>, asker: Asker) -> Answer<Json<Value>> {
    let rows = engine.db().connections(&asker.account)?;
    if matches!(asker.caller, Caller::App { .. }) {
        // Pages learn which connections there are, not where they are.
        let rows = rows
            .iter()
            .map(|r| json!({"id": r.id, "name": r.name, "api": r.api, "models": r.models}));
        return Ok(Json(json!({"connections": rows.collect::<Vec<_>>()})));
    }
    let (of, account) = (engine.clone(), asker.account);
    let shown = blocking(move || rows.iter().map(|r| shown(&of, &account, r)).collect::<Vec<_>>()).await;
    let vault = engine.vault().clone();
    let keys = blocking(move || vault.keys()).await;
    Ok(Json(
        json!({"connections": shown, "keychain": keys.keychain, "keys": keys}),
    ))
}

pub(super) fn slug(name: &str) -> String {
    let words: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect();
    let words: Vec<&str> = words.split('-').filter(|w| !w.is_empty()).collect();
    let slug: String = words.join("-").chars().take(24).collect();
    if slug.is_empty() { "server".into() } else { slug }
}

async fn saved(
    engine: Engine,
    account: AccountId,
    row: ConnectionRow,
    status: StatusCode,
    notice: Option<String>,
) -> Answer<(StatusCode, Json<Value>)> {
    engine.models_changed(&account);
    engine.bus().send(Event {
        account: account.clone(),
        app: None,
        kind: "connections_changed",
        payload: json!({"id": row.id}),
    });
    let connection = blocking(move || shown(&engine, &account, &row)).await;
    let mut answer = json!({"connection": connection});
    if let Some(notice) = notice {
        answer["notice"] = notice.into();
    }
    Ok((status, Json(answer)))
}

async fn add(
    State(engine): State<Engine>,
    person: Person,
    Given(wanted): Given<Wanted>,
) -> Answer<(StatusCode, Json<Value>)> {
    let preset = wanted.preset.as_deref().map(checked_preset).transpose()?;
    let api = match (&wanted.api, preset) {
        (Some(api), _) => checked_api(api)?,
        (None, Some(preset)) => preset.api,
        (None, None) => Api::default(),
    };
    if let Some(key) = &wanted.key {
        keys::check(&engine, key).await?;
    }
    let base = wanted
        .base_url
        .or_else(|| preset.map(|preset| preset.base_url.to_owned()));
    let url = checked_url(
        api,
        &base.ok_or_else(|| ApiError::bad("A connection needs its address (baseUrl), or a preset."))?,
    )?;
    let host = url.host_str().unwrap_or("server").to_owned();
    let fallback = preset.map_or(host.as_str(), |preset| preset.name);
    let name = wanted.name.as_deref().filter(|name| !name.trim().is_empty());
    let name = checked_name(name.unwrap_or(fallback))?;
    let row = ConnectionRow {
        id: format!("c_{}-{}", slug(&name), random_hex(3)),
        name,
        api: api.name().into(),
        base_url: url.to_string(),
        models: wanted.models.as_ref().map_or(Ok("auto".into()), checked_models)?,
        preset: preset.map(|preset| preset.id.to_owned()),
        prompt_format: wanted.prompt_format.as_ref().map_or(Ok(None), checked_format)?,
    };
    let turn = engine.changing_keys().await;
    let (db, account, new) = (engine.db().clone(), person.account.clone(), row.clone());
    blocking(move || db.put_connection(&account, &new)).await?;
    let notice = match wanted.key {
        None => None,
        Some(key) => match keys::save(
            &engine,
            Engine::key_id(&person.account, &row.id),
            &row.base_url,
            key,
            turn,
        )
        .await
        {
            Ok(notice) => notice,
            Err(error) => {
                engine.db().delete_connection(&person.account, &row.id)?;
                return Err(error);
            }
        },
    };
    saved(engine, person.account, row, StatusCode::CREATED, notice).await
}

fn found(engine: &Engine, account: &AccountId, id: &str) -> Answer<ConnectionRow> {
    engine
        .db()
        .connection(account, id)?
        .ok_or_else(|| ApiError::missing("There is no such connection."))
}

async fn change(
    State(engine): State<Engine>,
    person: Person,
    Path(id): Path<String>,
    Given(wanted): Given<Wanted>,
) -> Answer<(StatusCode, Json<Value>)> {
    let turn = engine.changing_keys().await;
    let mut row = found(&engine, &person.account, &id)?;
    let mut api = Api::parse(&row.api).unwrap_or_default();
    if let Some(given) = &wanted.api {
        api = checked_api(given)?;
        row.api = api.name().into();
    }
    if let Some(given) = &wanted.preset {
        row.preset = Some(checked_preset(given)?.id.to_owned());
    }
    if let Some(format) = &wanted.prompt_format {
        row.prompt_format = checked_format(format)?;
    }
    if let Some(key) = &wanted.key {
        keys::check(&engine, key).await?;
    }
    if let Some(name) = &wanted.name {
        row.name = checked_name(name)?;
    }
    if let Some(models) = &wanted.models {
        row.models = checked_models(models)?;
    }
    let mut notice = None;
    // Another format may write the same address in another way.
    let same = row.base_url.clone();
    if let Some(given) = wanted.base_url.as_ref().or_else(|| wanted.api.as_ref().map(|_| &same)) {
        let url = checked_url(api, given)?;
        let bound = |url: &Url| Bound::of(url).ok();
        let elsewhere = Url::parse(&row.base_url).map_or(true, |before| bound(&before) != bound(&url));
        row.base_url = url.to_string();
        if elsewhere {
            let id = Engine::key_id(&person.account, &row.id);
            let vault = engine.vault().clone();
            if blocking(move || vault.has(&id)).await.is_some() {
                // Before the new address is saved: at no moment do both exist.
                keys::forget(&engine, Engine::key_id(&person.account, &row.id)).await?;
                if wanted.key.is_none() {
                    notice = Some("The address changed, so its key was forgotten. Enter the key again if the new address needs one.".into());
                }
            }
        }
    }
    let (db, account, new) = (engine.db().clone(), person.account.clone(), row.clone());
    blocking(move || db.put_connection(&account, &new)).await?;
    if let Some(key) = wanted.key {
        notice = keys::save(
            &engine,
            Engine::key_id(&person.account, &row.id),
            &row.base_url,
            key,
            turn,
        )
        .await?;
    }
    saved(engine, person.account, row, StatusCode::OK, notice).await
}

async fn remove(State(engine): State<Engine>, person: Person, Path(id): Path<String>) -> Answer<StatusCode> {
    let _turn = engine.changing_keys().await;
    found(&engine, &person.account, &id)?;
    keys::forget(&engine, Engine::key_id(&person.account, &id)).await?;
    let (db, account, gone) = (engine.db().clone(), person.account.clone(), id.clone());
    blocking(move || db.delete_connection(&account, &gone)).await?;
    engine.models_changed(&person.account);
    engine.bus().send(Event {
        account: person.account,
        app: None,
        kind: "connections_changed",
        payload: json!({"id": id}),
    });
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct KeyBody {
    key: KeyText,
}

async fn put_key(
    State(engine): State<Engine>,
    person: Person,
    Path(id): Path<String>,
    Given(body): Given<KeyBody>,
) -> Answer<(StatusCode, Json<Value>)> {
    let turn = engine.changing_keys().await;
    let row = found(&engine, &person.account, &id)?;
    let notice = keys::save(
        &engine,
        Engine::key_id(&person.account, &row.id),
        &row.base_url,
        body.key,
        turn,
    )
    .await?;
    saved(engine, person.account, row, StatusCode::OK, notice).await
}

async fn delete_key(
    State(engine): State<Engine>,
    person: Person,
    Path(id): Path<String>,
) -> Answer<(StatusCode, Json<Value>)> {
    let _turn = engine.changing_keys().await;
    let row = found(&engine, &person.account, &id)?;
    let notice = keys::forget(&engine, Engine::key_id(&person.account, &id)).await?;
    saved(engine, person.account, row, StatusCode::OK, notice).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_asked_in_the_clear_unasked() {
        for (typed, want) in [
            ("localhost:1234", "http://localhost:1234/v1"),
            ("127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1"),
            ("[::1]:8080", "http://[::1]:8080/v1"),
            ("models.localhost", "http://models.localhost/v1"),
            ("localhost.evil.example/v1", "https://localhost.evil.example/v1"),
            ("127.0.0.1.evil.example/v1", "https://127.0.0.1.evil.example/v1"),
            ("localhosted.example", "https://localhosted.example/v1"),
            ("http://models.example/v1", "http://models.example/v1"),
        ] {
            let url = checked_url(Api::default(), typed)
                .map(|url| url.to_string())
                .map_err(|e| e.message);
            assert_eq!(url.as_deref(), Ok(want), "{typed}");
        }
        for bad in [
            "http:/\\evil.example",
            "https:evil.example",
            "HTTP:\\\\evil.example",
            "file:///etc",
        ] {
            assert!(checked_url(Api::default(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_one_line() {
        assert!(checked_name(" Mine ").is_ok_and(|name| name == "Mine"));
        assert!(checked_name("a\u{1b}[2Jb").is_err() && checked_name("a\nb").is_err());
    }
}
