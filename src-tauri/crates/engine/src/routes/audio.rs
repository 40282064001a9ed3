//! Reading aloud, and the servers that do it. A key goes from the request straight into the vault.

use axum::Json;
use axum::extract::{Path, State};
use db::SpeechEndpointRow;
use http::StatusCode;
use policy::{AccountId, Caller, Callers, Condition, random_hex};
use providers::{Api, MAX_SPEECH, MAX_VOICE, SoundFormat};
use secrets::{Bound, Standing};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::connections::{checked_url, slug};
use super::images::{model, there};
use super::keys::{self, KeyText};
use crate::bus::Event;
use crate::door::{Asker, Context, Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::media::SpeechWanted;
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let (app, person, always) = (Callers::PERSON_OR_APP, Callers::PERSON, Condition::Always);
    let (all, one) = ("/v1/audio/speech/endpoints", "/v1/audio/speech/endpoints/{id}");
    table
        .route("GET", "/v1/audio/voices", app, Condition::OwnRecords, voices)
        .route("POST", "/v1/audio/speech", app, always, speak)
        .route("GET", all, app, Condition::OwnRecords, list)
        .route("POST", all, person, always, add)
        .route("PATCH", one, person, always, change)
        .route("DELETE", one, person, always, remove)
}

/// Characters of a name and of a model (contract section 6).
const NAME: usize = 60;
const MODEL: usize = 120;

async fn voices(State(engine): State<Engine>, Context(context): Context, asker: Asker) -> Answer<Json<Value>> {
    let speakers = engine.speakers(&context).await?;
    let lists = speakers.iter().map(|speaker| engine.voices_of(&context, speaker));
    let lists = futures::future::join_all(lists).await;
    let (mut voices, mut errors) = (Vec::new(), Vec::new());
    for (speaker, list) in speakers.iter().zip(lists) {
        match list {
            Ok(list) => voices.extend(list.into_iter().map(|voice| {
                let mut shown = json!({"id": voice.id, "name": voice.name, "of": speaker.name()});
                shown[speaker.kind()] = speaker.id().into();
                shown
            })),
            Err(error) => {
                let mut shown = json!({"name": speaker.name(), "error": error});
                shown[speaker.kind()] = speaker.id().into();
                errors.push(shown);
            }
        }
    }
    let default = engine.db().setting(&asker.account, "speechVoice")?;
    let mut answer = json!({"voices": voices, "default": default});
    if !matches!(asker.caller, Caller::App { .. }) {
        // Addresses stand in them.
        answer["errors"] = errors.into();
    }
    Ok(Json(answer))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spoken {
    text: String,
    model: Option<String>,
    voice: Option<String>,
    speed: Option<f64>,
    connection: Option<String>,
    provider: Option<String>,
    endpoint_id: Option<String>,
    format: Option<String>,
}

async fn speak(
    State(engine): State<Engine>,
    Context(context): Context,
    Given(wanted): Given<Spoken>,
) -> Answer<Json<Value>> {
    if wanted.text.trim().is_empty() || wanted.text.chars().count() > MAX_SPEECH {
        return Err(ApiError::bad(format!(
            "A text to be read has 1 to {MAX_SPEECH} characters."
        )));
    }
    if wanted.speed.is_some_and(|speed| !(0.25..=4.0).contains(&speed)) {
        return Err(ApiError::bad("A speed is a number from 0.25 to 4."));
    }
    let format = match there(wanted.format).as_deref() {
        None => SoundFormat::default(),
        Some(text) => SoundFormat::parse(text).ok_or_else(|| ApiError::bad("A format is mp3, webm or wav."))?,
    };
    let servers_only = match there(wanted.provider).as_deref() {
        None | Some("connection") => false,
        Some("endpoint") => true,
        Some("edge") => {
            let why = "This engine has no Edge voices, which are a service of Microsoft's. Leave \"provider\" out, or say \
                       \"endpoint\" with an \"endpointId\" of GET /v1/audio/speech/endpoints.";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, why).code("no_edge"));
        }
        Some(_) => return Err(ApiError::bad("A provider is endpoint or connection.")),
    };
    let voice = there(wanted.voice);
    if !voice.as_deref().is_none_or(|voice| fits(voice, MAX_VOICE)) {
        return Err(ApiError::bad(format!("A voice has at most {MAX_VOICE} characters.")));
    }
    let wanted = SpeechWanted {
        text: wanted.text,
        model: model(wanted.model)?,
        voice,
        speed: wanted.speed,
        format,
        from: there(wanted.endpoint_id).or(there(wanted.connection)),
        servers_only,
    };
    engine.speak(&context, &wanted).await.map(Json)
}

fn fits(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !text.chars().any(char::is_control)
}

fn shown(engine: &Engine, account: &AccountId, row: &SpeechEndpointRow) -> Value {
    let id = key_of(account, &row.id);
    let url = Url::parse(&row.base_url).ok();
    let bound = url.as_ref().and_then(|url| Bound::of(url).ok());
    let standing = bound.map_or(Standing::None, |bound| engine.vault().standing(&id, &bound));
    let kept = keys::place(&standing);
    json!({
        "id": row.id, "name": row.name, "baseUrl": row.base_url, "model": row.model, "voice": row.voice,
        "hasKey": kept.is_some(), "keyKept": kept, "keyTrouble": keys::trouble(&standing),
        "local": url.is_some_and(|url| providers::is_local(&url)),
    })
}

async fn list(State(engine): State<Engine>, asker: Asker) -> Answer<Json<Value>> {
    let rows = engine.db().speech_endpoints(&asker.account)?;
    if matches!(asker.caller, Caller::App { .. }) {
        // Pages learn which there are, not where they are.
        let rows = rows
            .iter()
            .map(|row| json!({"id": row.id, "name": row.name, "model": row.model, "voice": row.voice}));
        return Ok(Json(json!({"endpoints": rows.collect::<Vec<_>>()})));
    }
    let of = engine.clone();
    let rows = blocking(move || {
        rows.iter()
            .map(|row| shown(&of, &asker.account, row))
            .collect::<Vec<_>>()
    })
    .await;
    Ok(Json(json!({"endpoints": rows})))
}

/// Fields that are given as empty texts or null are taken away; those that are not given stay.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    name: Option<String>,
    base_url: Option<String>,
    #[serde(default, deserialize_with = "given")]
    model: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    voice: Option<Option<String>>,
    key: Option<KeyText>,
}

fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(from).map(Some)
}

fn checked_name(name: &str) -> Answer<String> {
    let name = name.trim();
    match !name.is_empty() && fits(name, NAME) {
        true => Ok(name.to_owned()),
        false => Err(ApiError::bad(format!(
            "A speech server's name is one line of 1 to {NAME} characters."
        ))),
    }
}

fn checked(text: Option<String>, what: &str, most: usize) -> Answer<Option<String>> {
    let text = there(text);
    match text.as_deref().is_none_or(|text| fits(text, most)) {
        true => Ok(text),
        false => Err(ApiError::bad(format!(
            "A speech server's {what} has at most {most} characters."
        ))),
    }
}

/// How the vault names a speech server's key.
fn key_of(account: &AccountId, id: &str) -> String {
    Engine::key_id(account, &Engine::speech_key(id))
}

async fn save(engine: &Engine, account: &AccountId, row: &SpeechEndpointRow) -> Answer<()> {
    let (db, of, new) = (engine.db().clone(), account.clone(), row.clone());
    blocking(move || db.put_speech_endpoint(&of, &new)).await?;
    changed(engine, account, &row.id);
    Ok(())
}

/// Lists of voices are made anew.
fn changed(engine: &Engine, account: &AccountId, id: &str) {
    engine.media().forget_voices(account);
    engine.bus().send(Event {
        account: account.clone(),
        app: None,
        kind: "connections_changed",
        payload: json!({"id": id}),
    });
}

async fn answer(
    engine: Engine,
    account: AccountId,
    row: SpeechEndpointRow,
    status: StatusCode,
    notice: Option<String>,
) -> (StatusCode, Json<Value>) {
    let endpoint = blocking(move || shown(&engine, &account, &row)).await;
    let mut answer = json!({"endpoint": endpoint});
    if let Some(notice) = notice {
        answer["notice"] = notice.into();
    }
    (status, Json(answer))
}

async fn add(
    State(engine): State<Engine>,
    person: Person,
    Given(wanted): Given<Wanted>,
) -> Answer<(StatusCode, Json<Value>)> {
    let key = wanted.key.filter(|key| !key.is_empty());
    if let Some(key) = &key {
        keys::check(&engine, key).await?;
    }
    let base = there(wanted.base_url).ok_or_else(|| ApiError::bad("A speech server needs its address (baseUrl)."))?;
    let url = checked_url(Api::default(), &base)?;
    let host = url.host_str().unwrap_or("server").to_owned();
    let name = checked_name(&there(wanted.name).unwrap_or(host))?;
    let row = SpeechEndpointRow {
        id: format!("s_{}-{}", slug(&name), random_hex(3)),
        name,
        base_url: url.to_string(),
        model: checked(wanted.model.flatten(), "model", MODEL)?,
        voice: checked(wanted.voice.flatten(), "voice", MAX_VOICE)?,
    };
    let turn = engine.changing_keys().await;
    save(&engine, &person.account, &row).await?;
    let notice = match key {
        None => None,
        Some(key) => match keys::save(&engine, key_of(&person.account, &row.id), &row.base_url, key, turn).await {
            Ok(notice) => notice,
            Err(error) => {
                engine.db().delete_speech_endpoint(&person.account, &row.id)?;
                return Err(error);
            }
        },
    };
    Ok(answer(engine, person.account, row, StatusCode::CREATED, notice).await)
}

fn found(engine: &Engine, account: &AccountId, id: &str) -> Answer<SpeechEndpointRow> {
    let rows = engine.db().speech_endpoints(account)?;
    let row = rows.into_iter().find(|row| row.id == id);
    row.ok_or_else(|| ApiError::missing("There is no such speech server."))
}

async fn change(
    State(engine): State<Engine>,
    person: Person,
    Path(id): Path<String>,
    Given(wanted): Given<Wanted>,
) -> Answer<(StatusCode, Json<Value>)> {
    let turn = engine.changing_keys().await;
    let mut row = found(&engine, &person.account, &id)?;
    let key = wanted.key.filter(|key| !key.is_empty());
    if let Some(key) = &key {
        keys::check(&engine, key).await?;
    }
    if let Some(name) = &wanted.name {
        row.name = checked_name(name)?;
    }
    if let Some(model) = wanted.model {
        row.model = checked(model, "model", MODEL)?;
    }
    if let Some(voice) = wanted.voice {
        row.voice = checked(voice, "voice", MAX_VOICE)?;
    }
    let mut notice = None;
    if let Some(base) = &wanted.base_url {
        let url = checked_url(Api::default(), base)?;
        let before = Url::parse(&row.base_url).ok().and_then(|url| Bound::of(&url).ok());
        let elsewhere = before.is_none() || before != Bound::of(&url).ok();
        row.base_url = url.to_string();
        let (vault, key_id) = (
            engine.vault().clone(),
            Engine::key_id(&person.account, &Engine::speech_key(&row.id)),
        );
        if elsewhere && blocking(move || vault.has(&key_id)).await.is_some() {
            // Before the new address is saved: at no moment do both exist.
            keys::forget(&engine, key_of(&person.account, &row.id)).await?;
            if key.is_none() {
                notice = Some(
                    "The address changed, so its key was forgotten. Enter the key again if the new address needs one."
                        .into(),
                );
            }
        }
    }
    save(&engine, &person.account, &row).await?;
    if let Some(key) = key {
        notice = keys::save(&engine, key_of(&person.account, &row.id), &row.base_url, key, turn).await?;
    }
    Ok(answer(engine, person.account, row, StatusCode::OK, notice).await)
}

async fn remove(State(engine): State<Engine>, person: Person, Path(id): Path<String>) -> Answer<StatusCode> {
    let _turn = engine.changing_keys().await;
    found(&engine, &person.account, &id)?;
    keys::forget(&engine, key_of(&person.account, &id)).await?;
    let (db, account, gone) = (engine.db().clone(), person.account.clone(), id.clone());
    blocking(move || db.delete_speech_endpoint(&account, &gone)).await?;
    changed(&engine, &person.account, &id);
    Ok(StatusCode::NO_CONTENT)
}
