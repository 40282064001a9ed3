//! How conversations are written out for text completion: which formats there are, and which one a model gets.

use axum::Json;
use axum::extract::State;
use policy::{Callers, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;
use crate::door::{Asked, Asker, Context, Table};
use crate::error::{Answer, ApiError};
use crate::models::{MODEL_LIMIT, Target};

/// Longest `format`, in bytes: a format of one's own has six pieces of 400 characters.
const FORMAT_LIMIT: usize = 16 << 10;

pub fn routes(table: Table) -> Table {
    let (callers, always) = (Callers::PERSON_OR_APP, Condition::Always);
    table
        .route("GET", "/v1/models/prompt-formats", callers, always, list)
        .route("GET", "/v1/models/prompt-format", callers, always, one)
}

async fn list() -> Json<Value> {
    let formats = providers::prompt_formats().into_iter();
    let formats: Vec<Value> = formats.map(|(id, name)| json!({"id": id, "name": name})).collect();
    Json(json!({ "formats": formats }))
}

#[derive(Deserialize)]
struct Wanted {
    /// As in requests: `connection/model`, a bare id, or nothing for the default.
    #[serde(default)]
    model: Option<String>,
    /// An id, `auto`, or a format of one's own as JSON.
    #[serde(default)]
    format: Option<String>,
}

async fn one(
    State(engine): State<Engine>,
    asker: Asker,
    Context(context): Context,
    Asked(wanted): Asked<Wanted>,
) -> Answer<Json<Value>> {
    if wanted.model.as_ref().is_some_and(|model| model.len() > MODEL_LIMIT) {
        return Err(ApiError::bad(format!("model: at most {MODEL_LIMIT} bytes")));
    }
    if wanted.format.as_ref().is_some_and(|format| format.len() > FORMAT_LIMIT) {
        return Err(ApiError::bad(format!("format: at most {FORMAT_LIMIT} bytes")));
    }
    let format = wanted.format.map(Value::String);
    if let Some(format) = &format {
        providers::check_prompt_format(format).map_err(ApiError::bad)?;
    }
    let found = match engine.target(&context, &asker.account, wanted.model.as_deref()).await {
        Ok(Target::Server(endpoint, model)) => {
            providers::prompt_format(&context, engine.net(), &endpoint, &model, format.as_ref())
                .await
                .map_err(|error| ApiError::bad(error.guest()))?
        }
        Ok(Target::Demo) => providers::prompt_format_by_name("", format.as_ref()).map_err(ApiError::bad)?,
        // No connection offers it: what is left is its name.
        Err(_) => {
            let name = wanted.model.unwrap_or_default();
            providers::prompt_format_by_name(&name, format.as_ref()).map_err(ApiError::bad)?
        }
    };
    Ok(Json(
        json!({"id": found.id, "source": found.source.name(), "format": found.format}),
    ))
}
