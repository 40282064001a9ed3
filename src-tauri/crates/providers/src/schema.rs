//! The shapes of requests and results as a JSON schema, for authors: `cargo xtask docs` writes it to docs/llm.schema.json.
//! The types here stand for what is read by hand.
#![allow(dead_code, reason = "these types are only described, never made")]

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{GenerateRequest, GenerateResult};

/// `{request, result}` of a model request (contract sections 4.1 and 4.2), as one JSON schema with two definitions.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut generator: SchemaGenerator = settings.into_generator();
    let request = generator.subschema_for::<GenerateRequest>();
    let result = generator.subschema_for::<GenerateResult>();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Model requests and their results",
        "type": "object",
        "properties": {"request": request, "result": result},
        "$defs": definitions,
    })
}

/// Text, or parts.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message's content.
#[derive(JsonSchema, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct ImageUrl {
    url: String,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reasoning {
    Off,
    Minimal,
    Low,
    Med,
    Medium,
    High,
    Xhigh,
    Max,
}

/// A built-in format's id, `auto`, or a format of one's own.
#[derive(JsonSchema, Serialize)]
#[serde(untagged)]
pub(crate) enum PromptFormat {
    Id(String),
    Own(OwnFormat),
}

/// Each at most 400 characters; a prefix for the user or the assistant is needed.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OwnFormat {
    system_prefix: Option<String>,
    system_suffix: Option<String>,
    user_prefix: Option<String>,
    user_suffix: Option<String>,
    assistant_prefix: Option<String>,
    assistant_suffix: Option<String>,
    system_as_user: Option<bool>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct Cache {
    /// How many turns from the end the first marker stands.
    depth: Option<u64>,
    retention: Option<Retention>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Retention {
    None,
    Short,
    Long,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct Tool {
    /// 1 to 64 of A-Z, a-z, 0-9, _ and -.
    #[schemars(length(min = 1, max = 64))]
    name: String,
    /// At most 2048 characters.
    description: Option<String>,
    /// A JSON schema of an object.
    parameters: Option<Map<String, Value>>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct StreamDecode {
    field: Option<String>,
    /// 1 to 4 names.
    fields: Option<Vec<String>>,
    /// At most 8.
    replace: Option<Vec<Replace>>,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct Replace {
    from: String,
    to: String,
}

/// What kind of failure it was.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ErrorInfo {
    kind: ErrorKind,
    provider: String,
    model: Option<String>,
    status: Option<u16>,
    code: Option<String>,
    retry_after_ms: Option<u64>,
    window: Option<u64>,
    response_id: Option<String>,
}

#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    Key,
    Credit,
    RateLimit,
    ModelGone,
    Context,
    Refused,
    Network,
    Server,
    Stalled,
    Truncated,
    NotTheApi,
    Unusable,
    Limit,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProviderErrorKind;

    /// What is described here by hand is what the program says.
    #[test]
    fn the_words_are_the_programs() {
        let whole = schema();
        let listed = |name: &str| -> Vec<String> {
            let definition = &whole["$defs"][name];
            let words = definition["enum"].as_array().cloned().unwrap_or_else(|| {
                let each = definition["oneOf"].as_array().cloned().unwrap_or_default();
                each.iter().map(|one| one["const"].clone()).collect()
            });
            words
                .iter()
                .filter_map(|word| word.as_str().map(str::to_owned))
                .collect()
        };
        let mut kinds = listed("ErrorKind");
        kinds.sort();
        let mut said: Vec<&str> = ProviderErrorKind::ALL.iter().map(|kind| kind.code()).collect();
        said.sort_unstable();
        said.dedup();
        assert_eq!(kinds, said);
        let levels: Vec<String> = listed("Reasoning").into_iter().filter(|level| level != "med").collect();
        assert_eq!(levels, crate::Level::ALL.map(|level| level.name().to_owned()));
    }
}
