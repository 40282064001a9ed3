//! What an answer has said about itself so far, whatever its format.

use crate::calls::{Piece, ToolCalls};
use crate::error::cut;
use crate::wire::Thought;
use crate::{Event, Usage};

/// Longest id or model's name taken from a server, in bytes.
const MAX_ID: usize = 200;
/// Longest word for how an answer ended, in bytes.
const MAX_REASON: usize = 60;

#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The server's own word. Set once nothing of the answer is missing any more.
    pub(crate) finish_reason: Option<String>,
    /// It ended before it was complete: the limit of tokens, a filter, a failure. Its tool calls are not run.
    pub(crate) cut_short: bool,
    pub(crate) usage: Usage,
    pub(crate) model: Option<String>,
    pub(crate) response_id: Option<String>,
    /// Text or thinking or a tool call has been seen.
    pub(crate) any: bool,
    pub(crate) calls: ToolCalls,
    /// Structured thinking, in its order, for sending it back.
    pub(crate) thinking: Vec<Thought>,
}

impl Progress {
    pub(crate) fn set_id(&mut self, id: &str) {
        if !id.is_empty() {
            self.response_id = Some(cut(id, MAX_ID).to_owned());
        }
    }

    pub(crate) fn set_model(&mut self, model: &str) {
        if !model.is_empty() {
            self.model = Some(cut(model, MAX_ID).to_owned());
        }
    }

    /// The answer has ended, in the server's word; `cut_short` when it is not the whole of it.
    pub(crate) fn set_finish(&mut self, reason: &str, cut_short: bool) {
        if !reason.is_empty() {
            self.finish_reason = Some(cut(reason, MAX_REASON).to_owned());
            self.cut_short = cut_short;
        }
    }

    /// Text of the answer; empty text is nothing.
    pub(crate) fn text(&mut self, text: impl Into<String>, out: &mut Vec<Event>) {
        let text = text.into();
        if !text.is_empty() {
            self.any = true;
            out.push(Event::Delta(text));
        }
    }

    /// Thinking, joined to the thought before it when both have the same mark.
    pub(crate) fn think(&mut self, text: impl Into<String>, mark: serde_json::Value, out: &mut Vec<Event>) {
        let text = text.into();
        if text.is_empty() {
            return;
        }
        self.any = true;
        match self.thinking.last_mut() {
            Some(last) if last.mark == mark => last.text.push_str(&text),
            _ => self.thinking.push(Thought {
                text: text.clone(),
                mark,
            }),
        }
        out.push(Event::Thinking(text));
    }

    pub(crate) fn call(&mut self, piece: Piece, out: &mut Vec<Event>) {
        self.any = true;
        out.push(Event::ToolCallDelta {
            index: piece.index,
            id: piece.id.clone(),
            name: piece.name.clone(),
            arguments: piece.arguments.clone(),
        });
        self.calls.add(piece);
    }

    pub(crate) fn done(&mut self) -> Event {
        Event::Done {
            finish_reason: self.finish_reason.take(),
            usage: self.usage,
            model: self.model.take(),
            response_id: self.response_id.take(),
        }
    }
}

/// A count of tokens as servers write it: some send floats, and some -1 for "unknown".
pub(crate) fn count(value: &serde_json::Value, path: &str) -> Option<u64> {
    let value = value.pointer(path)?;
    value
        .as_u64()
        .or_else(|| value.as_f64().filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64))
}
