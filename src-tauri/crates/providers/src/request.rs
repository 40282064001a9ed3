use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};

use crate::decode::StreamDecode;
use crate::tools::Tool;

/// What a caller asks of a model (contract section 4.1), read from JSON and written back in the same shape. `messages`
/// is required; every other field that is absent, null or of the wrong type counts as not given, and unknown fields are
/// ignored. `tools`, `streamDecode` and `reasoningTags` that are there but break a limit are errors, which name it.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GenerateRequest {
    pub messages: Vec<Message>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// `connection/model-id`, a bare model id, or none.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// `off minimal low medium high xhigh max`; `med` means `medium`.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub thinking_budget: Option<f64>,
    /// How the model marks thinking that it writes into its text.
    #[serde(
        default,
        deserialize_with = "reasoning_tags",
        skip_serializing_if = "Option::is_none"
    )]
    pub reasoning_tags: Option<ReasoningTags>,
    /// The beginning of the model's answer, put into its mouth.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub assistant_prefill: Option<String>,
    /// For text completion; carried along, not used by this transport.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub prompt_format: Option<Value>,
    #[serde(
        default,
        deserialize_with = "lenient_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub preset_params: Option<PresetParams>,
    /// Prompt caching; carried along, not used by this transport.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub cache: Option<Value>,
    /// Tools the request itself defines, at most 16. Whoever runs them puts them into the [`crate::ToolBox`].
    #[serde(default, deserialize_with = "tools", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// The JSON schema that the answer is to follow.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What of a JSON answer is shown while it streams.
    #[serde(default, deserialize_with = "stream_decode", skip_serializing_if = "Option::is_none")]
    pub stream_decode: Option<StreamDecode>,
    /// Nothing is shown while it streams.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub stream_muted: Option<bool>,
}

/// The marks around inline thinking, `<think>` and `</think>` for instance; 1 to 64 bytes each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasoningTags {
    pub open: String,
    pub close: String,
}

/// One turn. What an app keeps beside the text travels with it: a hook sees it, this transport does not send it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub role: Role,
    #[serde(deserialize_with = "content")]
    pub content: String,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub reasoning_model: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub replay: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
    System,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PresetParams {
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Goes to the provider's body as it is, except for the fields that carry the request itself.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
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

/// Anything but null.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Ok(Some(Value::deserialize(from)?).filter(|value| !value.is_null()))
}

fn tools<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Tool>, D::Error> {
    match Value::deserialize(from)? {
        Value::Array(list) => Tool::parse_list(&list).map_err(D::Error::custom),
        _ => Ok(Vec::new()),
    }
}

fn stream_decode<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StreamDecode>, D::Error> {
    let value = Value::deserialize(from)?;
    match value.is_object() {
        true => StreamDecode::parse(&value).map(Some).map_err(D::Error::custom),
        false => Ok(None),
    }
}

fn reasoning_tags<'de, D: Deserializer<'de>>(from: D) -> Result<Option<ReasoningTags>, D::Error> {
    let Some(tags) = lenient_object::<D, ReasoningTags>(from)? else {
        return Ok(None);
    };
    let fits = |tag: &str| (1..=64).contains(&tag.len());
    match fits(&tags.open) && fits(&tags.close) {
        true => Ok(Some(tags)),
        false => Err(D::Error::custom("reasoningTags: open and close are 1 to 64 bytes each")),
    }
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

/// Body fields that `presetParams.params` cannot replace: the model somebody chose, the conversation itself, and tools,
/// which need a permission of their own.
const OWN_FIELDS: [&str; 8] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
];

/// The names under which servers send what a model thought; the first is the commonest.
pub(crate) const THINKING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// What one round sends beside the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    /// In the wire format.
    pub(crate) tools: Vec<Value>,
    pub(crate) choice: Option<Choice>,
    /// What was said since: turns of the model with its calls, and the tools' answers, in the wire format. The first
    /// one has the prefill in it.
    pub(crate) since: Vec<Value>,
}

/// Which tool the model is made to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The one for structured output.
    Structured,
    /// Any.
    Required,
}

/// What a server or a model is known not to take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Quirk {
    pub(crate) no_stream_options: bool,
    /// Naming one tool in `tool_choice` is refused; `required` may do.
    pub(crate) no_named_choice: bool,
    /// `tool_choice` is refused altogether.
    pub(crate) no_choice: bool,
    /// Does not take back what it thought before it called a tool.
    pub(crate) no_thinking_back: bool,
    /// Refuses to answer without reasoning.
    pub(crate) must_reason: bool,
}

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
    pub(crate) fn body(&self, model: &str, round: &Round, quirk: Quirk) -> Map<String, Value> {
        let (system, turns) = self.split();
        let mut messages = Vec::with_capacity(turns.len() + round.since.len() + 2);
        if let Some(text) = system {
            messages.push(json!({"role": "system", "content": text}));
        }
        messages.extend(
            turns
                .iter()
                .map(|turn| json!({"role": turn.role, "content": turn.content})),
        );
        if let Some(text) = self.prefill().filter(|_| round.since.is_empty()) {
            messages.push(json!({"role": "assistant", "content": text}));
        }
        messages.extend(round.since.iter().cloned());
        if quirk.no_thinking_back {
            for message in messages.iter_mut().filter_map(Value::as_object_mut) {
                message.retain(|name, _| !THINKING.contains(&name.as_str()));
            }
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
        if quirk.must_reason {
            insist_on_reasoning(&mut body);
        }
        if !round.tools.is_empty() {
            body.insert("tools".into(), Value::Array(round.tools.clone()));
            let choice = match round.choice {
                Some(_) if quirk.no_choice => None,
                Some(Choice::Structured) if !quirk.no_named_choice => {
                    Some(json!({"type": "function", "function": {"name": crate::tools::STRUCTURED}}))
                }
                Some(_) => Some(json!("required")),
                None => None,
            };
            body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        }
        body.insert("model".into(), json!(model));
        body.insert("messages".into(), Value::Array(messages));
        body.insert("stream".into(), json!(true));
        if !quirk.no_stream_options {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
        body
    }

    pub(crate) fn prefill(&self) -> Option<&str> {
        self.assistant_prefill.as_deref().filter(|text| !text.is_empty())
    }
}

/// Turns reasoning on at its lowest level, unless a level is asked for already.
fn insist_on_reasoning(body: &mut Map<String, Value>) {
    for (name, off) in [
        ("reasoning", json!({"enabled": false})),
        ("thinking", json!({"type": "disabled"})),
    ] {
        let says_no = body.get(name).is_some_and(|value| {
            *value == off || value == false || value.get("effort").is_some_and(|effort| effort == "none")
        });
        if says_no {
            body.remove(name);
        }
    }
    for name in ["include_reasoning", "enable_thinking"] {
        if body.get(name).is_some_and(|value| value == false) {
            body.remove(name);
        }
    }
    let chosen = body
        .get("reasoning_effort")
        .is_some_and(|effort| effort.is_string() && effort != "none");
    if !chosen && !body.contains_key("reasoning") {
        body.insert("reasoning_effort".into(), json!("minimal"));
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
            request.body("m", &Round::default(), Quirk::default())["messages"],
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
                "top_p": 0.9, "temperature": 1.5, "model": "other", "messages": [], "stream": false, "tools": [{}],
                "tool_choice": "required", "functions": [], "function_call": "x",
            }},
        }));
        let quirk = Quirk {
            no_stream_options: true,
            ..Quirk::default()
        };
        let body = request.body("mine", &Round::default(), quirk);
        assert_eq!(
            Value::Object(body),
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
            "reasoningTags": {"open": 1}, "streamDecode": "x", "streamMuted": 1, "schema": null, "cache": null,
        }));
        assert_eq!(request.messages[0].content, "ab");
        assert!(request.system_prompt.is_none() && request.model.is_none() && request.preset_params.is_none());
        assert!(request.tools.is_empty() && request.reasoning_tags.is_none() && request.stream_decode.is_none());
        let body = request.body("m", &Round::default(), Quirk::default());
        assert_eq!(body.get("reasoning_effort"), None);
    }

    #[test]
    fn messages_are_required_and_checked() {
        for bad in [
            json!({}),
            json!({"messages": "x"}),
            json!({"messages": [{"role": "wizard", "content": "x"}]}),
            json!({"messages": [{"role": "user"}]}),
            json!({"messages": [{"role": "user", "content": 5}]}),
            json!({"messages": [], "tools": [{"name": "a b"}]}),
            json!({"messages": [], "reasoningTags": {"open": "", "close": "x"}}),
            json!({"messages": [], "streamDecode": {"field": "a b"}}),
        ] {
            assert!(serde_json::from_value::<GenerateRequest>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_request_is_written_as_it_was_read() {
        let whole = json!({
            "messages": [{"role": "assistant", "content": "x", "reasoning": "r", "reasoningModel": "c/m", "replay": {"text": "x", "messages": []}}],
            "systemPrompt": "s", "model": "c/m", "sessionId": "1", "reasoning": "low", "thinkingBudget": 5.0,
            "reasoningTags": {"open": "<t>", "close": "</t>"}, "assistantPrefill": "p", "promptFormat": {"systemPrefix": "x"},
            "presetParams": {"temperature": 1.0, "max_tokens": 5, "params": {"top_p": 1}}, "cache": {"depth": 1},
            "tools": [{"name": "a", "description": "d", "parameters": {"type": "object", "properties": {}}}],
            "schema": {"type": "string"}, "streamDecode": {"fields": ["a"], "replace": [{"from": "x", "to": "y"}]}, "streamMuted": true,
        });
        assert_eq!(serde_json::to_value(request(whole.clone())).unwrap(), whole);
        let bare = json!({"messages": []});
        assert_eq!(serde_json::to_value(request(bare.clone())).unwrap(), bare);
    }

    #[test]
    fn reasoning_is_insisted_on_at_the_lowest_level() {
        let quirk = Quirk {
            must_reason: true,
            ..Quirk::default()
        };
        let sent = |reasoning: &str, params: Value| {
            let request = request(json!({"messages": [], "reasoning": reasoning, "presetParams": {"params": params}}));
            let mut body = request.body("m", &Round::default(), quirk);
            for own in ["model", "messages", "stream", "stream_options"] {
                body.remove(own);
            }
            Value::Object(body)
        };
        assert_eq!(sent("off", json!({})), json!({"reasoning_effort": "minimal"}));
        assert_eq!(
            sent(
                "off",
                json!({"reasoning": {"enabled": false}, "enable_thinking": false})
            ),
            json!({"reasoning_effort": "minimal"})
        );
        assert_eq!(
            sent("off", json!({"reasoning_effort": "none"})),
            json!({"reasoning_effort": "minimal"})
        );
        assert_eq!(sent("high", json!({})), json!({"reasoning_effort": "high"}));
        assert_eq!(
            sent("off", json!({"reasoning": {"effort": "low"}})),
            json!({"reasoning": {"effort": "low"}})
        );
    }
}
