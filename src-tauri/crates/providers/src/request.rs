use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::decode::StreamDecode;
use crate::formats::Format;
use crate::picture::{MAX_PICTURES, Picture};
use crate::schema;
use crate::tools::Tool;
use crate::wire::{Choice, Since};

/// What a caller asks of a model (contract section 4.1), read from JSON and written back in the same shape. `messages`
/// is required; every other field that is absent, null or of the wrong type counts as not given, and unknown fields are
/// ignored. `tools`, `streamDecode` and `reasoningTags` that are there but break a limit are errors, which name it.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
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
    #[schemars(with = "Option<schema::Reasoning>")]
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
    /// For text completion: a format's id, `auto`, or a format of one's own.
    #[schemars(with = "Option<schema::PromptFormat>")]
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub prompt_format: Option<Value>,
    #[serde(
        default,
        deserialize_with = "lenient_object",
        skip_serializing_if = "Option::is_none"
    )]
    pub preset_params: Option<PresetParams>,
    /// Prompt caching: `{depth, retention: none|short|long}`. What is invalid in it is ignored.
    #[schemars(with = "Option<schema::Cache>")]
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub cache: Option<Value>,
    /// Tools the request itself defines, at most 16. Whoever runs them puts them into the [`crate::ToolBox`].
    #[schemars(with = "Vec<schema::Tool>", length(max = 16))]
    #[serde(default, deserialize_with = "tools", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// The JSON schema that the answer is to follow.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// What of a JSON answer is shown while it streams.
    #[schemars(with = "Option<schema::StreamDecode>")]
    #[serde(default, deserialize_with = "stream_decode", skip_serializing_if = "Option::is_none")]
    pub stream_decode: Option<StreamDecode>,
    /// Nothing is shown while it streams.
    #[serde(default, deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub stream_muted: Option<bool>,
}

/// The marks around inline thinking, `<think>` and `</think>` for instance; 1 to 64 bytes each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReasoningTags {
    pub open: String,
    pub close: String,
}

/// One turn. What an app keeps beside the text travels with it: hooks see it. `content` is text, or a list of parts
/// (`{type: "text", text}`, and images in the ways of OpenAI and Anthropic); images may also stand in `images`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub role: Role,
    #[schemars(with = "schema::Content")]
    pub content: String,
    /// Of a user's turn; at most 20.
    #[schemars(length(max = 20))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Picture>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_model: Option<String>,
    /// What an earlier result said to send along with its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Value>,
}

/// As it arrives.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageIn {
    role: Role,
    content: Value,
    #[serde(default, deserialize_with = "present")]
    images: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    reasoning: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    reasoning_model: Option<String>,
    #[serde(default, deserialize_with = "present")]
    replay: Option<Value>,
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let given = MessageIn::deserialize(from)?;
        let (content, mut images) = content(given.content).map_err(D::Error::custom)?;
        if let Some(list) = given.images {
            let more: Vec<Picture> = serde_json::from_value(list).map_err(D::Error::custom)?;
            images.extend(more);
        }
        if images.len() > MAX_PICTURES {
            return Err(D::Error::custom(format!("a message has at most {MAX_PICTURES} images")));
        }
        Ok(Self {
            role: given.role,
            content,
            images,
            reasoning: given.reasoning,
            reasoning_model: given.reasoning_model,
            replay: given.replay,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
    System,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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

/// A string, null, or a list of parts: their text, and their images.
fn content(value: Value) -> Result<(String, Vec<Picture>), String> {
    match value {
        Value::String(text) => Ok((text, Vec::new())),
        Value::Null => Ok((String::new(), Vec::new())),
        Value::Array(parts) => {
            let mut images = Vec::new();
            let mut all = String::new();
            for part in &parts {
                match Picture::of_part(part) {
                    Some(image) => images.push(image?),
                    None => all.push_str(part.get("text").and_then(Value::as_str).unwrap_or_default()),
                }
            }
            Ok((all, images))
        }
        _ => Err("a message's content must be text, or a list of parts".into()),
    }
}

/// How much a model is to think before it answers (contract section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Level {
    pub const ALL: [Level; 7] = [
        Level::Off,
        Level::Minimal,
        Level::Low,
        Level::Medium,
        Level::High,
        Level::Xhigh,
        Level::Max,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Minimal => "minimal",
            Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
            Level::Xhigh => "xhigh",
            Level::Max => "max",
        }
    }

    /// `med` means `medium`.
    pub fn parse(name: &str) -> Option<Level> {
        match name {
            "med" => Some(Level::Medium),
            _ => Self::ALL.into_iter().find(|level| level.name() == name),
        }
    }
}

/// The names under which servers send what a model thought; the first is the commonest.
pub(crate) const THINKING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// What one round sends beside the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Round {
    pub(crate) tools: Vec<Tool>,
    pub(crate) choice: Option<Choice>,
    /// What was said since: turns of the model with its calls, and the tools' answers. The first one has the prefill in it.
    pub(crate) since: Vec<Since>,
    /// For text completion: how the conversation is written out.
    pub(crate) prompt: Option<Format>,
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
    /// Wants the limit of tokens as `max_completion_tokens`.
    pub(crate) completion_tokens: bool,
    /// Refuses any temperature.
    pub(crate) no_temperature: bool,
    /// Refuses to be given the beginning of its answer.
    pub(crate) no_prefill: bool,
    /// Knows no levels of thinking.
    pub(crate) no_reasoning: bool,
    /// Gives no summaries of what it thinks.
    pub(crate) no_summary: bool,
    /// Is asked to think in the other one of the two ways that its format has than its name suggests.
    pub(crate) other_thinking: bool,
}

impl GenerateRequest {
    /// The system prompt (the `systemPrompt` field, then the leading system messages, with blank lines between) and
    /// the turns after it; a later system message keeps its role here and is sent as a user's turn in its place.
    pub fn split(&self) -> (Option<String>, &[Message]) {
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
        (
            (!prompt.is_empty()).then(|| prompt.join("\n\n")),
            &self.messages[leading..],
        )
    }

    pub fn level(&self) -> Option<Level> {
        Level::parse(self.reasoning.as_deref()?)
    }

    /// `thinkingBudget` in tokens, where it is a whole number of them.
    pub(crate) fn thinking_tokens(&self) -> Option<u64> {
        self.thinking_budget
            .filter(|tokens| (0.0..1e9).contains(tokens))
            .map(|tokens| tokens as u64)
    }

    pub(crate) fn prefill(&self) -> Option<&str> {
        self.assistant_prefill.as_deref().filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(value: Value) -> GenerateRequest {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn wrong_optional_fields_count_as_absent() {
        let request = request(json!({
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}], "x": 1}],
            "systemPrompt": 5, "model": null, "reasoning": {}, "thinkingBudget": "x", "presetParams": [], "tools": 1, "future": true,
            "reasoningTags": {"open": 1}, "streamDecode": "x", "streamMuted": 1, "schema": null, "cache": null,
        }));
        assert_eq!(request.messages[0].content, "ab");
        assert!(request.system_prompt.is_none() && request.model.is_none() && request.preset_params.is_none());
        assert!(request.tools.is_empty() && request.reasoning_tags.is_none() && request.stream_decode.is_none());
        assert_eq!(request.level(), None);
    }

    #[test]
    fn messages_are_required_and_checked() {
        for bad in [
            json!({}),
            json!({"messages": "x"}),
            json!({"messages": [{"role": "wizard", "content": "x"}]}),
            json!({"messages": [{"role": "user"}]}),
            json!({"messages": [{"role": "user", "content": 5}]}),
            json!({"messages": [{"role": "user", "content": "x", "images": ["https://example.com/x.png"]}]}),
            json!({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://h/x.png"}}]}]}),
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
}
