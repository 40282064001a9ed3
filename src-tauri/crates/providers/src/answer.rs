use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

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

/// Tokens used, as the server counted them; zeros when it did not say (contract section 4.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
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

/// A finished answer (contract section 4.2).
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// The text is only a part of the answer: it failed midway, or it was stopped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Puts events together into a [`GenerateResult`], and can be looked at meanwhile.
#[derive(Debug)]
pub struct Answer {
    result: GenerateResult,
    began: Instant,
    thought_for: Option<Duration>,
    ended: bool,
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
            ended: false,
        }
    }

    pub fn push(&mut self, event: &Event) {
        match event {
            Event::Delta(text) => {
                if self.result.reasoning.is_some() && self.thought_for.is_none() {
                    self.thought_for = Some(self.began.elapsed());
                }
                self.result.text.push_str(text);
            }
            Event::Thinking(text) => self.result.reasoning.get_or_insert_default().push_str(text),
            Event::ToolCallDelta { .. } => {}
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
                self.result.error = Some(error.to_string());
            }
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

    /// The result. Before a last event was seen, this is the result of stopping: what there is, marked as truncated.
    pub fn finish(mut self) -> GenerateResult {
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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
