//! The list of models.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use policy::{Caller, Callers, Condition};
use providers::Endpoint;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;
use crate::door::{Asked, Asker, Context, Table};
use crate::error::Answer;
use crate::models::{DEMO, Listed};
use crate::spend::PriceBook;

pub fn routes(table: Table) -> Table {
    table.route("GET", "/v1/models", Callers::PERSON_OR_APP, Condition::Always, list)
}

/// Levels of a model that thinks, where its server does not say which it takes: those that every format has a word for.
const LEVELS: [&str; 4] = ["off", "low", "medium", "high"];

/// One model (contract section 4.4).
fn shown(model: &Listed, endpoint: &Endpoint, book: &PriceBook) -> Value {
    let (reference, info) = (model.reference(), &model.info);
    let set = book.window(&reference);
    let price = book.price(endpoint, &model.id);
    let thinks = info
        .reasoning
        .or_else(|| providers::likely_reasons(&model.id))
        .unwrap_or(false);
    let levels = match (thinks, info.reasoning_levels.is_empty()) {
        (false, _) => json!([]),
        (true, true) => json!(LEVELS),
        (true, false) => json!(info.reasoning_levels),
    };
    json!({
        "provider": model.connection, "modelId": model.id, "ref": reference, "api": endpoint.api.name(),
        "label": info.label.as_deref().unwrap_or(&model.id), "contextWindow": set.or(info.context_window),
        "contextSource": match (set, info.context_window) {
            (Some(_), _) => Some("you"),
            (None, Some(_)) => Some("server"),
            (None, None) => None,
        },
        "connectionName": model.connection_name, "reasoning": thinks, "reasoningLevels": levels,
        "pricing": price.map(|(price, _)| price), "priceSource": price.map(|(_, source)| source.word()),
        "images": info.images, "canned": false,
    })
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
    let app = asker.caller.app();
    let allowed = engine.allowed_models(&asker.account, app)?;
    let book = engine.price_book(&asker.account)?;
    let rows = engine.db().connections(&asker.account)?;
    let endpoints: HashMap<String, Endpoint> = rows
        .into_iter()
        .filter_map(|row| Some((row.id.clone(), Engine::address(&row).ok()?)))
        .collect();
    let listed: Vec<Listed> = listed
        .into_iter()
        .filter(|model| model.info.chat != Some(false) && allowed.includes(&model.reference()))
        .collect();
    let mut models: Vec<Value> = listed
        .iter()
        .filter_map(|model| Some(shown(model, endpoints.get(&model.connection)?, &book)))
        .collect();
    models.push(json!({
        "provider": "demo", "modelId": "canned", "ref": DEMO, "api": "demo", "label": "Demo (canned answers)",
        "contextWindow": null, "connectionName": null, "reasoning": false, "reasoningLevels": [], "pricing": null,
        "priceSource": null, "contextSource": null, "images": false, "canned": true,
    }));
    let set = engine
        .db()
        .setting(&asker.account, "model")?
        .filter(|m| m.as_str().is_some_and(|m| !m.is_empty() && allowed.includes(m)));
    let default = set.or_else(|| listed.first().map(|m| m.reference().into()));
    let of_allowed = |error: &Value| {
        error["connection"]
            .as_str()
            .is_some_and(|id| allowed.includes_some_of(id))
    };
    let errors: Vec<Value> = match asker.caller {
        // Addresses and causes are the person's business.
        Caller::App { .. } => errors
            .iter()
            .filter(|error| of_allowed(error))
            .map(|e| json!({"connection": e["connection"], "connectionName": e["connectionName"], "error": "This server did not answer with a list of models."}))
            .collect(),
        _ => errors,
    };
    Ok(Json(json!({"models": models, "errors": errors, "default": default})))
}
