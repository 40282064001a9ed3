//! Making pictures.

use axum::Json;
use axum::extract::State;
use policy::{Callers, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;
use crate::door::{Context, Given, Table};
use crate::error::{Answer, ApiError};
use crate::media::ImageWanted;

pub fn routes(table: Table) -> Table {
    let (app, always) = (Callers::PERSON_OR_APP, Condition::Always);
    table
        .route("GET", "/v1/images/models", app, Condition::OwnRecords, models)
        .route("POST", "/v1/images", app, always, make)
}

/// Characters of a prompt (contract section 4.4).
const PROMPT: usize = 4000;
/// Characters of a model's reference (contract section 6).
const REFERENCE: usize = 400;

/// A text that is there: an empty one counts as none.
pub(super) fn there(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A model's reference, if there is one.
pub(super) fn model(text: Option<String>) -> Answer<Option<String>> {
    let text = there(text);
    let fits = |text: &String| text.chars().count() <= REFERENCE && !text.chars().any(char::is_control);
    match text.as_ref().is_none_or(fits) {
        true => Ok(text),
        false => Err(ApiError::bad(format!(
            "A model is connection/model, with at most {REFERENCE} characters."
        ))),
    }
}

async fn models(State(engine): State<Engine>, Context(context): Context) -> Answer<Json<Value>> {
    let (models, default) = engine.image_models(&context).await?;
    let models: Vec<_> = models
        .iter()
        .map(|model| {
            json!({
                "ref": model.reference(), "label": model.info.label.as_ref().unwrap_or(&model.id),
                "connection": model.connection, "connectionName": model.connection_name,
            })
        })
        .collect();
    Ok(Json(json!({"models": models, "default": default})))
}

#[derive(Deserialize)]
struct Wanted {
    prompt: String,
    model: Option<String>,
    size: Option<String>,
    quality: Option<String>,
}

/// `auto` or `1024x1024`.
fn is_size(text: &str) -> bool {
    let number = |text: &str| (2..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text == "auto"
        || text
            .split_once('x')
            .is_some_and(|(wide, high)| number(wide) && number(high))
}

fn is_word(text: &str) -> bool {
    text.len() <= 20
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

async fn make(
    State(engine): State<Engine>,
    Context(context): Context,
    Given(wanted): Given<Wanted>,
) -> Answer<Json<Value>> {
    let prompt = wanted.prompt.trim().to_owned();
    if prompt.is_empty() || prompt.chars().count() > PROMPT {
        return Err(ApiError::bad(format!("A prompt has 1 to {PROMPT} characters.")));
    }
    let (size, quality) = (there(wanted.size), there(wanted.quality));
    if !size.as_deref().is_none_or(is_size) {
        return Err(ApiError::bad(
            "A size is auto, or width x height in pixels, as in 1024x1024.",
        ));
    }
    if !quality.as_deref().is_none_or(is_word) {
        return Err(ApiError::bad(
            "A quality is one word, such as auto, low, medium, high, standard or hd.",
        ));
    }
    let wanted = ImageWanted {
        prompt,
        model: model(wanted.model)?,
        size,
        quality,
    };
    engine.make_image(&context, &wanted).await.map(Json)
}
