//! What makes embeddings.

use axum::Json;
use axum::extract::State;
use policy::{Callers, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use super::images::there;
use crate::door::{Asker, Context, Given, Table};
use crate::embeddings::Chosen;
use crate::error::{Answer, ApiError};
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let (app, official) = (Callers::PERSON_OR_APP, Condition::OfficialApp);
    let config = "/v1/embeddings/config";
    table
        .route("GET", config, app, Condition::Always, get)
        .route("PUT", config, app, official, put)
        .route("POST", "/v1/embeddings/probe", app, official, probe)
}

/// Characters of a model's name (contract section 6).
const MODEL: usize = 200;

fn checked_model(text: Option<String>) -> Answer<Option<String>> {
    let model = there(text);
    let fits = |model: &String| model.chars().count() <= MODEL && !model.chars().any(char::is_control);
    match model.as_ref().is_none_or(fits) {
        true => Ok(model),
        false => Err(ApiError::bad(format!("A model's name has at most {MODEL} characters."))),
    }
}

fn shown(engine: &Engine, asker: &Asker) -> Answer<Json<Value>> {
    let chosen = engine.chosen_embedder(&asker.account)?;
    let usable = engine.embedder(&asker.account, asker.caller.app(), None, None);
    Ok(Json(json!({
        "model": chosen.model, "connection": chosen.connection,
        "available": usable.is_ok_and(|usable| usable.is_some()),
    })))
}

async fn get(State(engine): State<Engine>, asker: Asker) -> Answer<Json<Value>> {
    blocking(move || shown(&engine, &asker)).await
}

#[derive(Deserialize)]
struct Config {
    model: Option<String>,
    connection: Option<String>,
}

async fn put(State(engine): State<Engine>, asker: Asker, Given(given): Given<Config>) -> Answer<Json<Value>> {
    let mut chosen = Chosen {
        model: checked_model(given.model)?,
        connection: there(given.connection),
    };
    blocking(move || {
        if let Some(id) = &chosen.connection {
            let known = engine.db().connection(&asker.account, id)?;
            known.ok_or_else(|| ApiError::bad("There is no such connection. Nothing was changed."))?;
        } else if let Some((id, model)) = chosen.model.as_deref().and_then(|model| model.split_once('/'))
            && engine.db().connection(&asker.account, id)?.is_some()
        {
            (chosen.connection, chosen.model) = (Some(id.to_owned()), Some(model.to_owned()));
        }
        engine.choose_embedder(&asker.account, &chosen)?;
        shown(&engine, &asker)
    })
    .await
}

async fn probe(
    State(engine): State<Engine>,
    Context(context): Context,
    asker: Asker,
    Given(given): Given<Config>,
) -> Answer<Json<Value>> {
    let (model, connection) = (checked_model(given.model)?, there(given.connection));
    let found = engine.embedder(
        &asker.account,
        asker.caller.app(),
        model.as_deref(),
        connection.as_deref(),
    );
    let tried = match found {
        Ok(Some(embedder)) => {
            let texts = ["A short text, to see what comes back.".to_owned()];
            let vectors = engine.embed_with(&context, &asker.account, &embedder, &texts).await;
            vectors.map(|vectors| (vectors.first().map_or(0, Vec::len), embedder.model))
        }
        Ok(None) => Err("No connection that makes embeddings is chosen, and none has a key.".into()),
        Err(error) => Err(error),
    };
    Ok(Json(match tried {
        Ok((dimensions, model)) => json!({"ok": true, "dimensions": dimensions, "model": model}),
        Err(error) => json!({"ok": false, "error": error}),
    }))
}
