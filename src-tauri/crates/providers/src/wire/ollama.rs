//! Ollama's own format, `/api/chat`: JSON lines, settings under `options`, thinking in a field of its own.
//!
//! It has no way to make a model call a tool. A JSON answer without other tools is therefore asked for with `format`,
//! which keeps the model to the schema while it writes.

use serde_json::{Map, Value, json};

use super::{Asking, Choice, Item, Next, Reader, Wire, Wrong};
use crate::calls::Piece;
use crate::progress::{Progress, count};
use crate::request::{Level, Quirk};
use crate::tools::STRUCTURED;
use crate::{Event, Usage};

pub(crate) struct Ollama;

/// Body fields that `presetParams.params` cannot replace: the model somebody chose, the conversation itself, and tools,
/// which need a permission of their own.
const OWN_FIELDS: [&str; 7] = [
    "model",
    "messages",
    "stream",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
];

/// What stands beside the messages. Everything else is an option of the model.
const BESIDE: [&str; 7] = [
    "think",
    "format",
    "keep_alive",
    "truncate",
    "shift",
    "logprobs",
    "top_logprobs",
];

/// What apps write for chat completions, and Ollama's word for it.
const OPTIONS: [(&str, &str); 3] = [
    ("max_tokens", "num_predict"),
    ("max_completion_tokens", "num_predict"),
    ("repetition_penalty", "repeat_penalty"),
];

impl Wire for Ollama {
    fn page(&self, _model: &str) -> String {
        "api/chat".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        let mut messages = Vec::with_capacity(asking.items.len() + 1);
        if let Some(text) = asking.system {
            messages.push(json!({"role": "system", "content": text}));
        }
        for item in asking.items {
            write(item, asking.quirk, &mut messages);
        }
        let mut options = Map::new();
        if let Some(temperature) = asking.temperature() {
            options.insert("temperature".into(), json!(temperature));
        }
        if let Some(limit) = asking.max_tokens() {
            options.insert("num_predict".into(), json!(limit));
        }
        let mut body = Map::new();
        if let Some(think) = think(asking) {
            body.insert("think".into(), think);
        }
        for (name, value) in asking.params(&OWN_FIELDS) {
            match (name.as_str(), value) {
                ("options", Value::Object(more)) => options.extend(more),
                // These are chosen by the level asked for.
                ("options" | "reasoning" | "reasoning_effort" | "stream_options", _) => {}
                (beside, value) if BESIDE.contains(&beside) => {
                    body.insert(name, value);
                }
                (theirs, value) => {
                    let ours = OPTIONS.iter().find(|(name, _)| *name == theirs);
                    options.insert(ours.map_or(theirs, |(_, ours)| ours).to_owned(), value);
                }
            }
        }
        if !options.is_empty() {
            body.insert("options".into(), Value::Object(options));
        }
        let schema = asking.tools.iter().find(|tool| tool.name() == STRUCTURED);
        match (asking.choice, schema) {
            (Some(Choice::Structured), Some(tool)) => {
                body.insert("format".into(), tool.parameters().clone());
            }
            _ if !asking.tools.is_empty() => {
                let tools = asking.tools.iter().map(crate::Tool::wire).collect();
                body.insert("tools".into(), Value::Array(tools));
            }
            _ => {}
        }
        body.insert("model".into(), json!(asking.model));
        body.insert("messages".into(), Value::Array(messages));
        body.insert("stream".into(), json!(true));
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Lines::default())
    }

    fn is_lines(&self) -> bool {
        true
    }

    fn relent(&self, words: &str, body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
        let think = body.get("think")?;
        let mut less = quirk;
        if words.contains("does not support thinking") {
            less.no_reasoning = true;
        } else if words.contains("think") {
            // Some models know only on and off, some only levels.
            match (think, quirk.other_thinking) {
                (Value::Bool(false), _) | (_, true) => less.no_reasoning = true,
                _ => less.other_thinking = true,
            }
        }
        (less != quirk).then_some(less)
    }
}

/// On or off; for the models that know levels, the nearest of their three.
fn think(asking: &Asking<'_>) -> Option<Value> {
    let level = asking.level().filter(|_| !asking.quirk.no_reasoning)?;
    let knows_levels = asking.model.contains("gpt-oss") != asking.quirk.other_thinking;
    Some(match level {
        Level::Off => false.into(),
        _ if !knows_levels => true.into(),
        Level::Minimal | Level::Low => "low".into(),
        Level::Medium => "medium".into(),
        Level::High | Level::Xhigh | Level::Max => "high".into(),
    })
}

fn write(item: &Item<'_>, quirk: Quirk, messages: &mut Vec<Value>) {
    match item {
        Item::User { text, images, .. } => {
            let mut message = json!({"role": "user", "content": text});
            let images: Vec<&str> = images.iter().filter_map(|image| Some(image.inline()?.1)).collect();
            if !images.is_empty() {
                message["images"] = json!(images);
            }
            messages.push(message);
        }
        // The last message of a model is where Ollama's templates go on.
        Item::Assistant { text } | Item::Prefill(text) => messages.push(json!({"role": "assistant", "content": text})),
        Item::Model(turn) => {
            let mut message = json!({"role": "assistant", "content": turn.text});
            let thinking: String = turn.thinking.iter().map(|thought| thought.text.as_str()).collect();
            if !thinking.is_empty() && !quirk.no_thinking_back {
                message["thinking"] = thinking.into();
            }
            let calls: Vec<Value> = turn
                .calls
                .iter()
                .map(|call| json!({"id": call.id, "function": {"name": call.name, "arguments": call.args}}))
                .collect();
            if !calls.is_empty() {
                message["tool_calls"] = Value::Array(calls);
            }
            messages.push(message);
        }
        Item::Tools(replies) => messages.extend(replies.iter().map(
            |reply| json!({"role": "tool", "content": reply.text, "tool_name": reply.name, "tool_call_id": reply.id}),
        )),
    }
}

/// Reads lines, and answers in one piece, which look like a single line.
#[derive(Default)]
struct Lines {
    calls: u64,
    hands_in_text: bool,
}

impl Reader for Lines {
    fn text_is_structured(&mut self) {
        self.hands_in_text = true;
    }

    fn read(
        &mut self,
        _name: &str,
        value: &Value,
        progress: &mut Progress,
        out: &mut Vec<Event>,
    ) -> Result<Next, Wrong> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        progress.set_model(&text(value.get("model")));
        if let Some(message) = value.get("message") {
            progress.think(text(message.get("thinking")), Value::Null, out);
            let said = text(message.get("content"));
            match self.hands_in_text {
                false => progress.text(said, out),
                true if said.is_empty() => {}
                true => progress.call(
                    Piece {
                        index: Some(0),
                        name: progress.calls.is_empty().then(|| STRUCTURED.to_owned()),
                        arguments: said,
                        ..Piece::default()
                    },
                    out,
                ),
            }
            let calls = message.get("tool_calls").and_then(Value::as_array);
            for call in calls.into_iter().flatten() {
                self.call(call, progress, out);
            }
        }
        if value.get("done").is_none_or(|done| done != true) {
            return Ok(Next::More);
        }
        progress.usage = Usage {
            input: count(value, "/prompt_eval_count").unwrap_or(0),
            output: count(value, "/eval_count").unwrap_or(0),
            ..Usage::default()
        };
        // Older ones do not say why.
        let reason = text(value.get("done_reason"));
        let reason = if reason.is_empty() { "stop" } else { reason.as_str() };
        progress.set_finish(reason, reason == "length");
        Ok(Next::Last)
    }
}

impl Lines {
    /// Each call comes whole.
    fn call(&mut self, call: &Value, progress: &mut Progress, out: &mut Vec<Event>) {
        let function = call.get("function").unwrap_or(&Value::Null);
        let word = |value: Option<&Value>| {
            let word = value.and_then(Value::as_str).filter(|word| !word.is_empty());
            word.map(str::to_owned)
        };
        let piece = Piece {
            index: Some(self.calls),
            id: word(call.get("id")),
            name: word(function.get("name")),
            arguments: match function.get("arguments") {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None => "{}".to_owned(),
                Some(object) => object.to_string(),
            },
            extra: None,
        };
        self.calls += 1;
        progress.call(piece, out);
    }
}

#[cfg(test)]
mod tests;
