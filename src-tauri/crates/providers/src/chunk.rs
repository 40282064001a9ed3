//! One JSON object of a chat-completions answer, streamed or whole, in the dialects servers speak.

use serde_json::Value;

use crate::calls::{Piece, ToolCalls};
use crate::request::THINKING;
use crate::{Event, Usage};

/// What an answer has said about itself so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) finish_reason: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) model: Option<String>,
    pub(crate) response_id: Option<String>,
    /// Text or thinking or a tool call has been seen.
    pub(crate) any: bool,
    pub(crate) calls: ToolCalls,
    /// The name under which thinking came, and its text: some servers want it back with the tools' answers.
    pub(crate) thinking: Option<(&'static str, String)>,
}

impl Progress {
    /// Reads a chunk (`delta`) or a whole answer (`message`). `false` if it is neither and carries no usage.
    pub(crate) fn read(&mut self, value: &Value, out: &mut impl Extend<Event>) -> bool {
        let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(id) = text("id") {
            self.response_id = Some(crate::error::cut(id, 200).to_owned());
        }
        if let Some(model) = text("model") {
            self.model = Some(crate::error::cut(model, 200).to_owned());
        }
        let usage = value.get("usage").filter(|usage| usage.is_object());
        if let Some(usage) = usage {
            self.usage = read_usage(usage);
        }
        let Some(choices) = value.get("choices").and_then(Value::as_array) else {
            return usage.is_some();
        };
        // Only one choice is ever asked for.
        let Some(choice) = choices.first() else { return true };
        let whole = || choice.get("message").filter(|_| !self.any);
        if let Some(part) = choice.get("delta").filter(|delta| delta.is_object()).or_else(whole) {
            let before = self.any;
            let mut events = Vec::new();
            self.read_part(part, &mut events);
            self.any = before || !events.is_empty();
            out.extend(events);
        }
        if let Some(reason) = choice
            .get("finish_reason")
            .and_then(Value::as_str)
            .filter(|reason| !reason.is_empty())
        {
            self.finish_reason = Some(crate::error::cut(reason, 60).to_owned());
        }
        true
    }

    pub(crate) fn done(&mut self) -> Event {
        Event::Done {
            finish_reason: self.finish_reason.take(),
            usage: self.usage,
            model: self.model.take(),
            response_id: self.response_id.take(),
        }
    }

    fn read_part(&mut self, part: &Value, out: &mut Vec<Event>) {
        // The same thinking often comes under two names at once; the first one that has any is taken.
        let thinking = THINKING
            .into_iter()
            .map(|name| (name, text_of(part.get(name))))
            .find(|(_, text)| !text.is_empty());
        if let Some((name, text)) = thinking {
            self.thinking
                .get_or_insert_with(|| (name, String::new()))
                .1
                .push_str(&text);
            out.push(Event::Thinking(text));
        }
        for name in ["content", "refusal"] {
            let text = text_of(part.get(name));
            if !text.is_empty() {
                out.push(Event::Delta(text));
            }
        }
        for call in part.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            let piece = read_call(call);
            out.push(Event::ToolCallDelta {
                index: piece.index,
                id: piece.id.clone(),
                name: piece.name.clone(),
                arguments: piece.arguments.clone(),
            });
            self.calls.add(piece);
        }
    }
}

fn read_call(call: &Value) -> Piece {
    let function = call.get("function").unwrap_or(&Value::Null);
    let word = |value: Option<&Value>| {
        value
            .and_then(Value::as_str)
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
    };
    Piece {
        index: call.get("index").and_then(Value::as_u64),
        id: word(call.get("id")),
        name: word(function.get("name")),
        arguments: match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(object) => object.to_string(),
        },
        extra: call.get("extra_content").filter(|extra| extra.is_object()).cloned(),
    }
}

/// A string, or the text parts of a list.
fn text_of(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

fn read_usage(usage: &Value) -> Usage {
    // Some servers send floats, and some send -1 for "unknown".
    let number = |path: &str| {
        let value = usage.pointer(path)?;
        value
            .as_u64()
            .or_else(|| value.as_f64().filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64))
    };
    let cache_read = number("/prompt_tokens_details/cached_tokens")
        .or_else(|| number("/prompt_cache_hit_tokens"))
        .unwrap_or(0);
    let cost = usage
        .get("cost")
        .and_then(Value::as_f64)
        .filter(|cost| cost.is_finite() && *cost >= 0.0);
    Usage {
        input: number("/prompt_tokens").unwrap_or(0).saturating_sub(cache_read),
        output: number("/completion_tokens").unwrap_or(0),
        reasoning: number("/completion_tokens_details/reasoning_tokens"),
        cache_read,
        cache_write: number("/prompt_tokens_details/cache_write_tokens").unwrap_or(0),
        cost_total: cost.unwrap_or(0.0),
        priced: cost.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> (Vec<Event>, Progress, bool) {
        let mut progress = Progress::default();
        let mut out = Vec::new();
        let known = progress.read(&value, &mut out);
        (out, progress, known)
    }

    #[test]
    fn thinking_under_two_names_is_taken_once() {
        let (events, ..) =
            read(json!({"choices": [{"delta": {"reasoning": "a", "reasoning_content": "a", "content": "b"}}]}));
        assert_eq!(events, [Event::Thinking("a".into()), Event::Delta("b".into())]);
    }

    #[test]
    fn tool_calls_keep_what_the_server_said() {
        let (events, ..) = read(json!({"choices": [{"delta": {"content": null, "tool_calls": [
            {"index": 1, "id": "x", "function": {"name": "f", "arguments": "{\"a\""}},
            {"function": {"arguments": {"b": 1}}}, 5,
        ]}}]}));
        let call = |index, id: Option<&str>, name: Option<&str>, arguments: &str| Event::ToolCallDelta {
            index,
            id: id.map(Into::into),
            name: name.map(Into::into),
            arguments: arguments.into(),
        };
        assert_eq!(events[0], call(Some(1), Some("x"), Some("f"), "{\"a\""));
        assert_eq!(events[1], call(None, None, None, "{\"b\":1}"));
        assert_eq!(events[2], call(None, None, None, ""));
    }

    #[test]
    fn usage_in_odd_numbers() {
        let (_, progress, known) = read(json!({"choices": [], "usage": {
            "prompt_tokens": 10.0, "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3}, "cost": 0.25,
        }}));
        assert!(known);
        assert_eq!(
            progress.usage,
            Usage {
                input: 6,
                output: 0,
                reasoning: Some(3),
                cache_read: 4,
                cache_write: 0,
                cost_total: 0.25,
                priced: true
            }
        );
    }

    #[test]
    fn foreign_shapes_do_not_panic() {
        for value in [
            json!({}),
            json!({"choices": 5}),
            json!({"choices": [5]}),
            json!({"choices": [{"delta": 5}]}),
            json!([]),
            json!(null),
            json!({"choices": [{"delta": {"content": {"a": 1}, "tool_calls": {}}}], "usage": 5}),
        ] {
            let (events, ..) = read(value);
            assert!(events.is_empty());
        }
    }
}
