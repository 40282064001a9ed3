//! The wire formats. Each one is a module that makes the body of a request and reads the answer's events; what they have
//! in common (sending, cutting the stream into events, tools, structured output, errors) is done once, around them.

mod anthropic;
mod completions;
mod gemini;
#[cfg(test)]
pub(crate) mod given;
mod ollama;
mod params;
mod responses;
mod text;

use http::HeaderMap;
use net::KeyStyle;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::formats::Format;
use crate::picture::Picture;
use crate::progress::Progress;
use crate::request::{Level, Quirk};
use crate::{Endpoint, Event, GenerateRequest, Tool};

/// A wire format (contract section 8).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Api {
    /// OpenAI's chat completions, which most servers speak.
    #[default]
    #[serde(rename = "openai-completions")]
    OpenaiCompletions,
    #[serde(rename = "openai-responses")]
    OpenaiResponses,
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
    #[serde(rename = "google-generative-ai")]
    GoogleGenerativeAi,
    /// Ollama's own, `/api/chat`.
    #[serde(rename = "ollama")]
    Ollama,
    /// Plain text completion: the conversation is written out in the model's own prompt format.
    #[serde(rename = "openai-text")]
    OpenaiText,
}

impl Api {
    pub const ALL: [Api; 6] = [
        Api::OpenaiCompletions,
        Api::OpenaiResponses,
        Api::AnthropicMessages,
        Api::GoogleGenerativeAi,
        Api::Ollama,
        Api::OpenaiText,
    ];

    /// As settings and the contract write it.
    pub fn name(self) -> &'static str {
        match self {
            Api::OpenaiCompletions => "openai-completions",
            Api::OpenaiResponses => "openai-responses",
            Api::AnthropicMessages => "anthropic-messages",
            Api::GoogleGenerativeAi => "google-generative-ai",
            Api::Ollama => "ollama",
            Api::OpenaiText => "openai-text",
        }
    }

    pub fn parse(name: &str) -> Option<Api> {
        Self::ALL.into_iter().find(|api| api.name() == name)
    }

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Api::OpenaiCompletions => "OpenAI chat completions",
            Api::OpenaiResponses => "OpenAI Responses",
            Api::AnthropicMessages => "Anthropic Messages",
            Api::GoogleGenerativeAi => "Google Gemini",
            Api::Ollama => "Ollama",
            Api::OpenaiText => "Text completion",
        }
    }

    pub(crate) fn wire(self) -> &'static dyn Wire {
        match self {
            Api::OpenaiCompletions => &completions::Completions,
            Api::OpenaiResponses => &responses::Responses,
            Api::AnthropicMessages => &anthropic::Anthropic,
            Api::GoogleGenerativeAi => &gemini::Gemini,
            Api::Ollama => &ollama::Ollama,
            Api::OpenaiText => &text::Text,
        }
    }
}

/// One wire format.
pub(crate) trait Wire: Send + Sync {
    /// The page that answers, below the base address, as in `chat/completions`; with a query where there is one.
    fn page(&self, model: &str) -> String;

    /// The body, without `stream` where the format has another way to ask for one. Everything of `asking` that the format
    /// knows is in it; what it does not know is left out.
    fn body(&self, asking: &Asking<'_>) -> Map<String, Value>;

    /// Headers beside the content type and the key.
    fn headers(&self, _headers: &mut HeaderMap) {}

    /// How a key is sent to this endpoint.
    fn key_style(&self) -> KeyStyle {
        KeyStyle::Bearer
    }

    /// Reads one answer.
    fn reader(&self) -> Box<dyn Reader>;

    /// Whether the answer may be JSON values one after another instead of events.
    fn is_lines(&self) -> bool {
        false
    }

    /// What the server turned out not to take, read from the words of its refusal (in lower case, status 400 or 422) and
    /// the body that was sent. Different from `quirk`, and each thing at most once, so that asking again comes to an end.
    fn relent(&self, words: &str, _body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
        let must_reason = words.contains("reasoning is mandatory") && !quirk.must_reason;
        must_reason.then_some(Quirk {
            must_reason: true,
            ..quirk
        })
    }

    /// A page that a local server wants to be told on when an answer is no longer wanted, below the server's root.
    fn abort_page(&self) -> Option<&'static str> {
        None
    }
}

/// Reads the events of one answer, or the one JSON value of an answer in one piece.
pub(crate) trait Reader: Send {
    /// `name` is the event's name, empty when it has none. Objects with an `error` in them never get here. Sets
    /// `progress.finish_reason` when the server has said how its answer ends. Unknown events are passed over.
    fn read(&mut self, name: &str, value: &Value, progress: &mut Progress, out: &mut Vec<Event>)
    -> Result<Next, Wrong>;

    /// Said before the first event of an answer whose text is to be the structured output: its body asked for that in
    /// another way than by the hidden tool. The text is then read as that tool's arguments.
    fn text_is_structured(&mut self) {}
}

/// What comes after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    More,
    /// This was the last one, whatever still comes.
    Last,
}

/// An event that says that there is no answer.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// An error object, in any of the shapes that `error` reads.
    Reported(Value),
    /// The provider refused to answer this request; its reason.
    Refused(String),
}

/// Everything a body is made of.
pub(crate) struct Asking<'a> {
    pub(crate) request: &'a GenerateRequest,
    pub(crate) endpoint: &'a Endpoint,
    /// The model's bare id.
    pub(crate) model: &'a str,
    pub(crate) system: Option<&'a str>,
    /// The conversation, in order, the tool rounds of this request included.
    pub(crate) items: &'a [Item<'a>],
    pub(crate) tools: &'a [Tool],
    pub(crate) choice: Option<Choice>,
    /// For text completion: how the conversation is written out.
    pub(crate) prompt: Option<&'a Format>,
    pub(crate) quirk: Quirk,
}

impl Asking<'_> {
    /// The level asked for, the lowest one where a model was found to insist on any.
    pub(crate) fn level(&self) -> Option<Level> {
        match self.request.level() {
            None | Some(Level::Off) if self.quirk.must_reason => Some(Level::Minimal),
            level => level,
        }
    }

    /// `presetParams.params` without the fields of the format that carry the request itself, and without what no format
    /// takes from there: see [`params`].
    pub(crate) fn params(&self, own: &[&str]) -> impl Iterator<Item = (String, Value)> {
        let preset = self.request.preset_params.as_ref();
        let params = preset.and_then(|preset| preset.params.as_ref());
        params
            .map(|params| params::passed_on(params, own))
            .unwrap_or_default()
            .into_iter()
    }

    /// `presetParams.temperature`, where it is a number JSON can carry and the model takes one.
    pub(crate) fn temperature(&self) -> Option<f64> {
        let preset = self.request.preset_params.as_ref()?;
        preset
            .temperature
            .filter(|value| value.is_finite() && !self.quirk.no_temperature)
    }

    pub(crate) fn max_tokens(&self) -> Option<u64> {
        self.request.preset_params.as_ref()?.max_tokens
    }
}

/// Which tool the model is made to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The one for structured output, [`crate::tools::STRUCTURED`], which is the only one.
    Structured,
    /// Any.
    Required,
}

/// One entry of the conversation as the formats see it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Item<'a> {
    User {
        text: &'a str,
        images: &'a [Picture],
        /// It was a system message in the midst of the conversation.
        system: bool,
    },
    Assistant {
        text: &'a str,
    },
    /// The beginning of the answer, put into the model's mouth; always the last entry.
    Prefill(&'a str),
    /// A turn of the model that is known as the model made it: in a tool round, or from `replay`.
    Model(&'a ModelTurn),
    /// What the tools that [`Item::Model`] called said.
    Tools(&'a [ToolReply]),
}

/// A turn of the model, with all that its server wants to see again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ModelTurn {
    /// With the prefill, and inline thinking as it came.
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) thinking: Vec<Thought>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<SentCall>,
}

/// One piece of structured thinking.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Thought {
    pub(crate) text: String,
    /// What the format needs to send it back: a signature, an encrypted item, the name of the field it came under.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) mark: Value,
}

/// A call of a tool as it is sent back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SentCall {
    /// The server's, or one of our own where it gave none.
    pub(crate) id: String,
    /// A name that servers accept.
    pub(crate) name: String,
    /// Empty where the model wrote no object: servers refuse the whole conversation for less.
    pub(crate) args: Map<String, Value>,
    /// What the format wants to see again with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) extra: Option<Value>,
}

/// What a tool said, for the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolReply {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

/// What was said since the request: a turn of the model, or the answers of the tools it called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub(crate) enum Since {
    Model(ModelTurn),
    Tools { results: Vec<ToolReply> },
}

impl Since {
    pub(crate) fn item(&self) -> Item<'_> {
        match self {
            Since::Model(turn) => Item::Model(turn),
            Since::Tools { results } => Item::Tools(results),
        }
    }
}
