//! The list of models.

use axum::Json;
use axum::extract::State;
use policy::{Caller, Callers, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;
use crate::door::{Asked, Asker, Context, Table};
use crate::error::Answer;
use crate::models::DEMO;

pub fn routes(table: Table) -> Table {
    table.route("GET", "/v1/models", Callers::PERSON_OR_APP, Condition::Always, list)
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    fresh: Option<String>,
}

async fn list(
    State(engine): State<Engine>,
    asker: Asker,
    Context(context): Context,
    Asked(wanted): Asked<Wanted>,
) -> Answer<Json<Value>> {
    // Only the person makes the engine ask servers again.
    let fresh = wanted.fresh.is_some() && !matches!(asker.caller, Caller::App { .. });
    let (listed, errors) = engine.list_models(&context, &asker.account, fresh).await?;
    let mut models: Vec<Value> = listed
        .iter()
        .map(|model| {
            json!({
                "provider": model.connection, "modelId": model.id, "ref": model.reference(), "api": "openai-completions",
                "label": model.id, "contextWindow": model.context_window, "connectionName": model.connection_name,
                "reasoning": false, "reasoningLevels": [], "pricing": null, "canned": false,
            })
        })
        .collect();
    models.push(json!({
        "provider": "demo", "modelId": "canned", "ref": DEMO, "api": "demo", "label": "Demo (canned answers)",
        "contextWindow": null, "connectionName": null, "reasoning": false, "reasoningLevels": [], "pricing": null, "canned": true,
    }));
    let set = engine
        .db()
        .setting(&asker.account, "model")?
        .filter(|m| m.as_str().is_some_and(|m| !m.is_empty()));
    let default = set.or_else(|| listed.first().map(|m| m.reference().into()));
    let errors: Vec<Value> = match asker.caller {
        // Addresses and causes are the person's business.
        Caller::App { .. } => errors
            .iter()
            .map(|e| json!({"connection": e["connection"], "connectionName": e["connectionName"], "error": "This server did not answer with a list of models."}))
            .collect(),
        _ => errors,
    };
    Ok(Json(json!({"models": models, "errors": errors, "default": default})))
}
