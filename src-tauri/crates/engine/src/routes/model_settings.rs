//! What a person sets for single models, and which models an app may use.

use axum::Json;
use axum::extract::{Path, State};
use policy::{AccountId, Callers, Condition};
use providers::{MediaPrice, Price};
use serde::Deserialize;
use serde_json::{Value, json};

use super::app_or_shelf;
use crate::bus::Event;
use crate::door::{Asker, Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let (app, official) = (Callers::PERSON_OR_APP, Condition::OfficialApp);
    let always = Condition::Always;
    let of_app = "/v1/settings/app-models/{app}";
    table
        .route("PUT", "/v1/models/context", app, official, put_context)
        .route("PUT", "/v1/models/pricing", app, official, put_pricing)
        .route("GET", of_app, Callers::PERSON, always, app_models)
        .route("PUT", of_app, Callers::PERSON, always, put_app_models)
}

/// Characters of a model's reference (contract section 6).
const REFERENCE: usize = 400;
/// Tokens of a context window that are believed.
const WINDOW: u64 = 100_000_000;
/// Entries of the list of models that an app may use.
const APP_MODELS: usize = 500;

/// Checks `connection/model`; gives the connection's id.
fn reference(engine: &Engine, account: &AccountId, text: &str) -> Answer<String> {
    if text.chars().count() > REFERENCE || text.chars().any(char::is_control) {
        return Err(ApiError::bad(format!(
            "A model's reference (ref) is connection/model, with at most {REFERENCE} characters."
        )));
    }
    let Some((connection, _)) = text.split_once('/').filter(|(_, model)| !model.is_empty()) else {
        return Err(ApiError::bad("A model's reference (ref) is connection/model."));
    };
    match engine.db().connection(account, connection)? {
        Some(_) => Ok(connection.to_owned()),
        None => Err(ApiError::missing(format!("There is no connection \"{connection}\"."))),
    }
}

/// Lists of models are made anew.
fn changed(engine: &Engine, account: AccountId, connection: &str) {
    engine.bus().send(Event {
        account,
        app: None,
        kind: "connections_changed",
        payload: json!({"id": connection}),
    });
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    #[serde(rename = "ref")]
    reference: String,
    context_window: Option<f64>,
}

async fn put_context(State(engine): State<Engine>, asker: Asker, Given(given): Given<Context>) -> Answer<Json<Value>> {
    let connection = reference(&engine, &asker.account, &given.reference)?;
    let window = match given.context_window {
        None => None,
        Some(tokens) if tokens.fract() == 0.0 && (1.0..=WINDOW as f64).contains(&tokens) => Some(tokens as u64),
        Some(_) => {
            return Err(ApiError::bad(format!(
                "A context window is a whole number of tokens from 1 to {WINDOW}, or null for the server's own."
            )));
        }
    };
    let (db, account, model) = (engine.db().clone(), asker.account.clone(), given.reference.clone());
    blocking(move || db.set_context_window(&account, &model, window)).await?;
    changed(&engine, asker.account, &connection);
    Ok(Json(json!({"ref": given.reference, "contextWindow": window})))
}

#[derive(Deserialize)]
struct Pricing {
    #[serde(rename = "ref")]
    reference: String,
    /// `{input, output, cacheRead?, cacheWrite?, image?, speech?}`.
    pricing: Option<Value>,
}

async fn put_pricing(State(engine): State<Engine>, asker: Asker, Given(given): Given<Pricing>) -> Answer<Json<Value>> {
    let connection = reference(&engine, &asker.account, &given.reference)?;
    let wrong = |why: String| ApiError::bad(format!("This price cannot be used: {why}. Nothing was changed."));
    let price = match &given.pricing {
        None => None,
        Some(value) => {
            if !value.is_object() {
                return Err(wrong("it must be {input, output, cacheRead?, cacheWrite?}".into()));
            }
            let tokens = Price::given(value).map_err(wrong)?;
            let media = MediaPrice::given(value).map_err(wrong)?;
            if tokens.is_none() && media.is_unknown() {
                return Err(wrong("it needs input and output, or image, or speech".into()));
            }
            // What was checked is kept, and nothing else that came with it.
            let mut kept = tokens.map_or_else(|| json!({}), |price| json!(price));
            for (name, price) in [("image", media.image), ("speech", media.characters)] {
                if let Some(price) = price {
                    kept[name] = price.into();
                }
            }
            Some(kept)
        }
    };
    let (db, account, model) = (engine.db().clone(), asker.account.clone(), given.reference.clone());
    let kept = price.clone();
    blocking(move || db.set_price(&account, &model, kept.as_ref())).await?;
    changed(&engine, asker.account, &connection);
    Ok(Json(json!({"ref": given.reference, "pricing": price})))
}

fn app_models_shown(engine: &Engine, account: &AccountId, app: &policy::AppId) -> Answer<Json<Value>> {
    let models = engine.db().model_access(account, app)?;
    Ok(Json(
        json!({"models": models.map_or_else(|| json!("all"), |list| json!(list))}),
    ))
}

fn existing(engine: &Engine, account: &AccountId, app: &str) -> Answer<policy::AppId> {
    let app = app_or_shelf(app)?;
    if !app.is_shelf() {
        let folder = engine.workspace(account)?.app_folder(&app);
        folder.map_err(|_| ApiError::missing(format!("There is no app \"{app}\".")))?;
    }
    Ok(app)
}

async fn app_models(State(engine): State<Engine>, person: Person, Path(app): Path<String>) -> Answer<Json<Value>> {
    blocking(move || {
        let app = existing(&engine, &person.account, &app)?;
        app_models_shown(&engine, &person.account, &app)
    })
    .await
}

#[derive(Deserialize)]
struct AppModels {
    models: Value,
}

async fn put_app_models(
    State(engine): State<Engine>,
    person: Person,
    Path(app): Path<String>,
    Given(given): Given<AppModels>,
) -> Answer<Json<Value>> {
    let list = match &given.models {
        Value::String(all) if all == "all" => None,
        Value::Array(list) if list.len() <= APP_MODELS => {
            let text = |one: &Value| {
                let one = one.as_str()?;
                let fits = !one.is_empty() && one.chars().count() <= REFERENCE && !one.chars().any(char::is_control);
                fits.then(|| one.to_owned())
            };
            let list: Option<Vec<String>> = list.iter().map(text).collect();
            Some(list.ok_or_else(|| ApiError::bad("Each of the models is a connection's id, or connection/model."))?)
        }
        _ => {
            return Err(ApiError::bad(format!(
                "Models are \"all\" or a list of at most {APP_MODELS} connections and models."
            )));
        }
    };
    blocking(move || {
        let app = existing(&engine, &person.account, &app)?;
        // One that is misspelt would shut the app out without a word.
        let known = engine.db().connections(&person.account)?;
        for one in list.iter().flatten() {
            let connection = one.split_once('/').map_or(one.as_str(), |(connection, _)| connection);
            if connection != "demo" && !known.iter().any(|row| row.id == connection) {
                return Err(ApiError::bad(format!(
                    "There is no connection \"{connection}\". Nothing was changed."
                )));
            }
        }
        engine.db().set_model_access(&person.account, &app, list.as_deref())?;
        app_models_shown(&engine, &person.account, &app)
    })
    .await
}
