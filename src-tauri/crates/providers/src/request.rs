use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

/// What a caller asks of a model (contract section 4.1). `messages` is required; every other field that is absent,
/// null or of the wrong type counts as not given, and unknown fields are ignored.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateRequest {
    pub messages: Vec<Message>,
    #[serde(default, deserialize_with = "lenient")]
    pub system_prompt: Option<String>,
    /// `connection/model-id`, a bare model id, or none.
    #[serde(default, deserialize_with = "lenient")]
    pub model: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub session_id: Option<String>,
    /// `off minimal low medium high xhigh max`; `med` means `medium`.
    #[serde(default, deserialize_with = "lenient")]
    pub reasoning: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub thinking_budget: Option<f64>,
    /// The beginning of the model's answer, put into its mouth.
    #[serde(default, deserialize_with = "lenient")]
    pub assistant_prefill: Option<String>,
    #[serde(default, deserialize_with = "lenient_object")]
    pub preset_params: Option<PresetParams>,
    #[serde(default, deserialize_with = "lenient")]
    pub tools: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "lenient")]
    pub schema: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Message {
    pub role: Role,
    #[serde(deserialize_with = "content")]
    pub content: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
    System,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct PresetParams {
    #[serde(default, deserialize_with = "lenient")]
    pub temperature: Option<f64>,
    #[serde(default, deserialize_with = "lenient")]
    pub max_tokens: Option<u64>,
    /// Goes to the provider's body as it is, except for the fields that carry the request itself.
    #[serde(default, deserialize_with = "lenient")]
    pub params: Option<Map<String, Value>>,
}

fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let value = Some(Value::deserialize(from)?).filter(|value| !value.is_null());
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// [`lenient`] for structures, which serde would also read from a list.
fn lenient_object<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    let value = Some(Value::deserialize(from)?).filter(Value::is_object);
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}

/// A string, null, or the text parts of a list of parts.
fn content<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) => Ok(text),
        Value::Null => Ok(String::new()),
        Value::Array(parts) => Ok(parts.iter().filter_map(|part| part.get("text")?.as_str()).collect()),
        _ => Err(D::Error::custom("a message's content must be text")),
    }
}

/// Body fields that `presetParams.params` cannot replace: the model somebody chose and the conversation itself.
const OWN_FIELDS: [&str; 4] = ["model", "messages", "stream", "stream_options"];

impl GenerateRequest {
    /// The system prompt (the `systemPrompt` field, then the leading system messages, with blank lines between) and
    /// the turns after it; a later system message becomes a user's turn in its place.
    pub fn split(&self) -> (Option<String>, Vec<Message>) {
        let leading = self
            .messages
            .iter()
            .take_while(|message| message.role == Role::System)
            .count();
        let prompt: Vec<&str> = self
            .system_prompt
            .iter()
            .chain(self.messages[..leading].iter().map(|message| &message.content))
            .map(String::as_str)
            .filter(|text| !text.trim().is_empty())
            .collect();
        let turns = self.messages[leading..]
            .iter()
            .cloned()
            .map(|message| match message.role {
                Role::System => Message {
                    role: Role::User,
                    ..message
                },
                _ => message,
            });
        ((!prompt.is_empty()).then(|| prompt.join("\n\n")), turns.collect())
    }

    /// The body of an OpenAI chat-completions request.
    pub(crate) fn body(&self, model: &str, stream_options: bool) -> Value {
        let (system, turns) = self.split();
        let mut messages = Vec::with_capacity(turns.len() + 2);
        if let Some(text) = system {
            messages.push(json!({"role": "system", "content": text}));
        }
        messages.extend(
            turns
                .iter()
                .map(|turn| json!({"role": turn.role, "content": turn.content})),
        );
        if let Some(text) = self.assistant_prefill.as_deref().filter(|text| !text.is_empty()) {
            messages.push(json!({"role": "assistant", "content": text}));
        }
        let mut body = Map::new();
        if let Some(preset) = &self.preset_params {
            // JSON has no NaN; serde_json turns one into null, which servers refuse.
            if let Some(temperature) = preset.temperature.filter(|value| value.is_finite()) {
                body.insert("temperature".into(), json!(temperature));
            }
            if let Some(limit) = preset.max_tokens {
                body.insert("max_tokens".into(), json!(limit));
            }
        }
        if let Some(effort) = self.reasoning.as_deref().and_then(effort) {
            body.insert("reasoning_effort".into(), json!(effort));
        }
        if let Some(params) = self.preset_params.as_ref().and_then(|preset| preset.params.as_ref()) {
            for (name, value) in params.iter().filter(|(name, _)| !OWN_FIELDS.contains(&name.as_str())) {
                body.insert(name.clone(), value.clone());
            }
        }
        body.insert("model".into(), json!(model));
        body.insert("messages".into(), Value::Array(messages));
        body.insert("stream".into(), json!(true));
        if stream_options {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
        Value::Object(body)
    }
}

/// The word chat-completions servers know; `off` and unknown words send nothing and leave the model's own default.
fn effort(level: &str) -> Option<&'static str> {
    match level {
        "minimal" => Some("minimal"),
        "low" => Some("low"),
        "med" | "medium" => Some("medium"),
        "high" => Some("high"),
        // The format's highest word is xhigh.
        "xhigh" | "max" => Some("xhigh"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(value: Value) -> GenerateRequest {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn leading_system_messages_are_the_prompt_and_later_ones_are_turns() {
        let request = request(json!({
            "systemPrompt": "a",
            "messages": [
                {"role": "system", "content": "b"}, {"role": "system", "content": " "}, {"role": "system", "content": "c"},
                {"role": "user", "content": "d"}, {"role": "system", "content": "e"}, {"role": "assistant", "content": "f"},
            ],
            "assistantPrefill": "g",
        }));
        assert_eq!(
            request.body("m", true)["messages"],
            json!([
                {"role": "system", "content": "a\n\nb\n\nc"}, {"role": "user", "content": "d"},
                {"role": "user", "content": "e"}, {"role": "assistant", "content": "f"}, {"role": "assistant", "content": "g"},
            ])
        );
    }

    #[test]
    fn params_are_merged_but_do_not_replace_the_request() {
        let request = request(json!({
            "messages": [{"role": "user", "content": "x"}],
            "reasoning": "med",
            "presetParams": {"temperature": 0.5, "max_tokens": 7, "params": {
                "top_p": 0.9, "temperature": 1.5, "model": "other", "messages": [], "stream": false,
            }},
        }));
        let body = request.body("mine", false);
        assert_eq!(
            body,
            json!({
                "model": "mine", "messages": [{"role": "user", "content": "x"}], "stream": true,
                "temperature": 1.5, "max_tokens": 7, "top_p": 0.9, "reasoning_effort": "medium",
            })
        );
    }

    #[test]
    fn wrong_optional_fields_count_as_absent() {
        let request = request(json!({
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}, {"text": "b"}], "x": 1}],
            "systemPrompt": 5, "model": null, "reasoning": {}, "thinkingBudget": "x", "presetParams": [], "tools": 1, "future": true,
        }));
        assert_eq!(request.messages[0].content, "ab");
        assert!(request.system_prompt.is_none() && request.model.is_none() && request.preset_params.is_none());
        assert_eq!(request.body("m", true).get("reasoning_effort"), None);
    }

    #[test]
    fn messages_are_required_and_checked() {
        for bad in [
            json!({}),
            json!({"messages": "x"}),
            json!({"messages": [{"role": "wizard", "content": "x"}]}),
            json!({"messages": [{"role": "user"}]}),
            json!({"messages": [{"role": "user", "content": 5}]}),
        ] {
            assert!(serde_json::from_value::<GenerateRequest>(bad.clone()).is_err(), "{bad}");
        }
    }
}
