use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ProviderError, ProviderErrorKind};

/// One thing that happens while a model answers. The last event is always `Done` or `Failed`, and there is exactly one
/// of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// More of the answer's text.
    Delta(String),
    /// More of what the model thought before it.
    Thinking(String),
    /// A piece of a tool call as the server cut it; pieces belong together as the server's `index` and `id` say.
    ToolCallDelta {
        index: Option<u64>,
        id: Option<String>,
        name: Option<String>,
        arguments: String,
    },
    /// More of the JSON that is asked for by `schema`, as text; a schema that is no object's has it under `value`.
    JsonDelta(String),
    /// The whole of it.
    Json(Value),
    /// What was sent beside the messages: of tools only the names, and no headers. Once, before anything of the answer.
    Sent(Map<String, Value>),
    /// A tool begins to run. Ends with a `ToolEnd` of the same id, unless the answer is stopped.
    ToolStart {
        /// Unique in this answer.
        id: String,
        name: String,
        /// An object, or the text itself where the model wrote none.
        args: Value,
    },
    ToolEnd {
        id: String,
        name: String,
        /// At most 4000 characters of what the tool said.
        result: String,
        is_error: bool,
    },
    /// The request is sent again after a pause, since no connection could be made or the server asked for one. Dropping
    /// the stream ends the wait.
    Waiting { ms: u64, reason: String },
    /// What to send along with the answer's text in a later request, so that the model sees its own thinking and tool
    /// calls again.
    Replay(Value),
    /// Tokens used so far, after each round with the model.
    Used(Usage),
    Done {
        /// The server's own word: `stop`, `length`, `tool_calls`, …
        finish_reason: Option<String>,
        usage: Usage,
        /// The model the server says it used.
        model: Option<String>,
        response_id: Option<String>,
    },
    /// What streamed before this stays valid, as a part of an answer.
    Failed(ProviderError),
}

/// Most characters of a tool's result in `toolTrace`, and in `parts` and [`Event::ToolEnd`] (contract section 4.2).
pub(crate) const MAX_TRACE: usize = 2000;
pub(crate) const MAX_PART: usize = 4000;

/// Tokens used, as the server counted them; zeros when it did not say (contract section 4.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Prompt tokens that were not read from the server's cache.
    pub input: u64,
    pub output: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    pub cache_read: u64,
    pub cache_write: u64,
    /// In US dollars; meaningful only if `priced`.
    pub cost_total: f64,
    pub priced: bool,
}

impl Usage {
    /// Adds what another round used. Priced only if both are.
    pub fn add(&mut self, other: &Usage) {
        self.priced = match (self.is_zero(), other.is_zero()) {
            (true, _) => other.priced,
            (_, true) => self.priced,
            _ => self.priced && other.priced,
        };
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = match (self.reasoning, other.reasoning) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
        self.cost_total += other.cost_total;
    }

    fn is_zero(&self) -> bool {
        *self == Usage::default()
    }
}

/// One call of a tool (contract section 4.2).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolTrace {
    pub name: String,
    pub args: Value,
    /// At most 2000 characters.
    pub result_text: String,
    pub is_error: bool,
}

/// What an answer consists of, in its order (contract section 4.2).
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ResultPart {
    Text {
        text: String,
    },
    Thinking {
        text: String,
        /// From its first word to whatever came after it.
        ms: u64,
    },
    Tool {
        name: String,
        args: Value,
        /// At most 4000 characters.
        result_text: String,
        is_error: bool,
    },
}

/// A finished answer (contract section 4.2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerateResult {
    pub text: String,
    /// `connection/model`; `error` when there is no text at all because of a failure.
    pub model: String,
    pub usage: Usage,
    /// From the request to the last event, in milliseconds.
    pub gen_time_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<String>,
    /// From the request to the first text after the thinking, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_time_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assistant_prefill: Option<String>,
    /// What was sent beside the messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_params: Option<Map<String, Value>>,
    /// What `schema` asked for, if it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_trace: Vec<ToolTrace>,
    /// To be sent along with this text in a later request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<Value>,
    /// Text, thinking and tools in their order; none when there is only text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ResultPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The text is only a part of the answer: it failed midway, or it was stopped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The text for apps and plugins, without addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// `{kind, provider, model, status?, code?, retryAfterMs?, window?, responseId?}`.
    #[schemars(with = "Option<crate::schema::ErrorInfo>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_info: Option<Value>,
}

/// Puts events together into a [`GenerateResult`], and can be looked at meanwhile.
#[derive(Debug)]
pub struct Answer {
    result: GenerateResult,
    began: Instant,
    thought_for: Option<Duration>,
    /// When the thinking that is the last part began.
    thinking_since: Option<Instant>,
    /// The tool that runs: id, name, arguments.
    running: Option<(String, String, Value)>,
    ended: bool,
    whole_error: Option<String>,
}

impl Answer {
    /// `model` is the label the result will carry, `connection/model`; `prefill` is echoed in it.
    pub fn new(model: impl Into<String>, prefill: Option<String>) -> Self {
        Self {
            result: GenerateResult {
                model: model.into(),
                assistant_prefill: prefill,
                ..GenerateResult::default()
            },
            began: Instant::now(),
            thought_for: None,
            thinking_since: None,
            running: None,
            ended: false,
            whole_error: None,
        }
    }

    pub fn push(&mut self, event: &Event) {
        if !matches!(event, Event::Thinking(_)) {
            self.thinking_ends();
        }
        match event {
            Event::Delta(text) => {
                if self.result.reasoning.is_some() && self.thought_for.is_none() {
                    self.thought_for = Some(self.began.elapsed());
                }
                self.result.text.push_str(text);
                match self.result.parts.last_mut() {
                    Some(ResultPart::Text { text: part }) => part.push_str(text),
                    _ => self.result.parts.push(ResultPart::Text { text: text.clone() }),
                }
            }
            Event::Thinking(text) => {
                self.result.reasoning.get_or_insert_default().push_str(text);
                match self.result.parts.last_mut() {
                    Some(ResultPart::Thinking { text: part, .. }) if self.thinking_since.is_some() => {
                        part.push_str(text);
                    }
                    _ => {
                        self.thinking_since = Some(Instant::now());
                        self.result.parts.push(ResultPart::Thinking {
                            text: text.clone(),
                            ms: 0,
                        });
                    }
                }
            }
            Event::ToolCallDelta { .. } | Event::JsonDelta(_) | Event::Waiting { .. } => {}
            Event::Replay(replay) => self.result.replay = Some(replay.clone()),
            Event::Json(json) => self.result.json = Some(json.clone()),
            Event::Sent(params) => self.result.request_params = Some(params.clone()),
            Event::ToolStart { id, name, args } => {
                self.running = Some((id.clone(), name.clone(), args.clone()));
            }
            Event::ToolEnd {
                id,
                name,
                result,
                is_error,
            } => {
                let running = self.running.take().filter(|(running, ..)| running == id);
                let args = running.map_or(Value::Null, |(_, _, args)| args);
                self.tool(name, args, result, *is_error);
            }
            Event::Used(usage) => self.result.usage = *usage,
            Event::Done {
                finish_reason, usage, ..
            } => {
                self.ended = true;
                self.result.finish_reason.clone_from(finish_reason);
                self.result.usage = *usage;
            }
            Event::Failed(error) => {
                self.ended = true;
                self.result.truncated = error.kind == ProviderErrorKind::Truncated || !self.result.text.is_empty();
                self.result.error = Some(error.guest());
                self.result.error_info = Some(error.info());
                self.whole_error = Some(error.to_string());
            }
        }
    }

    fn tool(&mut self, name: &str, args: Value, result: &str, is_error: bool) {
        self.result.tool_trace.push(ToolTrace {
            name: name.to_owned(),
            args: args.clone(),
            result_text: cut_chars(result, MAX_TRACE).to_owned(),
            is_error,
        });
        self.result.parts.push(ResultPart::Tool {
            name: name.to_owned(),
            args,
            result_text: cut_chars(result, MAX_PART).to_owned(),
            is_error,
        });
    }

    fn thinking_ends(&mut self) {
        if let Some(since) = self.thinking_since.take()
            && let Some(ResultPart::Thinking { ms, .. }) = self.result.parts.last_mut()
        {
            *ms = millis(since.elapsed());
        }
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.result.text
    }

    /// The thinking so far.
    pub fn thinking(&self) -> Option<&str> {
        self.result.reasoning.as_deref()
    }

    /// What went wrong, in the words for the person, addresses included.
    pub fn whole_error(&self) -> Option<&str> {
        self.whole_error.as_deref()
    }

    /// The result. Before a last event was seen, this is the result of stopping: what there is, marked as truncated.
    pub fn finish(mut self) -> GenerateResult {
        self.thinking_ends();
        if let Some((_, name, args)) = self.running.take() {
            self.tool(&name, args, "stopped before it ended", true);
        }
        if let [] | [ResultPart::Text { .. }] = self.result.parts.as_slice() {
            self.result.parts.clear();
        }
        self.result.gen_time_ms = millis(self.began.elapsed());
        self.result.reasoning_time_ms = self.result.reasoning.as_ref().map(|_| match self.thought_for {
            Some(time) => millis(time),
            None => self.result.gen_time_ms,
        });
        if !self.ended {
            self.result.truncated = true;
        }
        if self.result.text.is_empty() && (self.result.error.is_some() || !self.ended) {
            self.result.model = "error".into();
        }
        self.result
    }
}

/// At most `max` characters.
pub(crate) fn cut_chars(text: &str, max: usize) -> &str {
    match text.char_indices().nth(max) {
        Some((at, _)) => &text[..at],
        None => text,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
