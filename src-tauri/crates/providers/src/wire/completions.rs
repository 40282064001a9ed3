//! OpenAI's chat completions, in the dialects servers speak.

use serde_json::{Map, Value, json};

use super::{Asking, Choice, Item, Next, Reader, Wire, Wrong};
use crate::cache;
use crate::calls::Piece;
use crate::progress::{Progress, count};
use crate::request::{Level, Quirk, THINKING};
use crate::tools::STRUCTURED;
use crate::{Event, Usage};

pub(crate) struct Completions;

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

/// OpenRouter takes levels of thinking and cache markers in its own way.
fn is_openrouter(asking: &Asking<'_>) -> bool {
    asking
        .endpoint
        .base_url
        .host_str()
        .is_some_and(|host| host == "openrouter.ai" || host.ends_with(".openrouter.ai"))
        || asking.endpoint.preset.as_deref() == Some("openrouter")
}

impl Wire for Completions {
    fn page(&self, _model: &str) -> String {
        "chat/completions".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        let mut messages = Vec::with_capacity(asking.items.len() + 1);
        if let Some(text) = asking.system {
            messages.push(json!({"role": "system", "content": text}));
        }
        let first = messages.len();
        // Where each entry's message stands, for the cache markers.
        let mut places = Vec::with_capacity(asking.items.len());
        for item in asking.items {
            write(item, asking.quirk, &mut messages);
            places.push(messages.len() - 1);
        }
        let marks_cache = is_openrouter(asking) && asking.model.starts_with("anthropic/");
        if marks_cache && let Some(marks) = cache::marks(asking.request.cache.as_ref(), asking.items) {
            let system = (first > 0).then_some(0);
            for at in system.into_iter().chain(marks.items.iter().map(|item| places[*item])) {
                mark_text(&mut messages[at], &marks.control);
            }
        }
        let mut body = Map::new();
        if let Some(temperature) = asking.temperature() {
            body.insert("temperature".into(), json!(temperature));
        }
        if let Some(limit) = asking.max_tokens() {
            let name = match asking.quirk.completion_tokens {
                true => "max_completion_tokens",
                false => "max_tokens",
            };
            body.insert(name.into(), json!(limit));
        }
        if !asking.quirk.no_reasoning {
            reasoning(asking, &mut body);
        }
        body.extend(asking.params(&OWN_FIELDS));
        if asking.quirk.must_reason {
            insist_on_reasoning(&mut body);
        }
        if !asking.tools.is_empty() {
            let tools = asking.tools.iter().map(crate::Tool::wire).collect();
            body.insert("tools".into(), Value::Array(tools));
            let quirk = asking.quirk;
            let choice = match asking.choice {
                Some(_) if quirk.no_choice => None,
                Some(Choice::Structured) if !quirk.no_named_choice => {
                    Some(json!({"type": "function", "function": {"name": STRUCTURED}}))
                }
                Some(_) => Some(json!("required")),
                None => None,
            };
            body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        }
        body.insert("model".into(), json!(asking.model));
        body.insert("messages".into(), Value::Array(messages));
        body.insert("stream".into(), json!(true));
        if !asking.quirk.no_stream_options {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Chunks)
    }

    fn relent(&self, words: &str, body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
        let mut less = quirk;
        if words.contains("reasoning is mandatory") {
            less.must_reason = true;
        } else if words.contains("tool_choice") || words.contains("tool choice") {
            // Some take `required` where they do not take a name; those that think take neither.
            match body.get("tool_choice") {
                Some(Value::Object(_)) => less.no_named_choice = true,
                Some(_) => less.no_choice = true,
                None => return None,
            }
        } else if sends_thinking_back(body, words) {
            less.no_thinking_back = true;
        } else if words.contains("stream_options") {
            // Older servers refuse the option they do not know. Token counts are worth one more try, not a failure.
            less.no_stream_options = true;
        } else if words.contains("max_completion_tokens") && body.contains_key("max_tokens") {
            less.completion_tokens = true;
        } else if words.contains("reasoning_effort") && body.contains_key("reasoning_effort") {
            less.no_reasoning = true;
        } else if words.contains("temperature") && words.contains("support") && body.contains_key("temperature") {
            less.no_temperature = true;
        }
        (less != quirk).then_some(less)
    }
}

fn write(item: &Item<'_>, quirk: Quirk, messages: &mut Vec<Value>) {
    match item {
        Item::User { text, images: [], .. } => {
            messages.push(json!({"role": "user", "content": text}));
        }
        Item::User { text, images, .. } => {
            let mut parts = Vec::new();
            if !text.is_empty() {
                parts.push(json!({"type": "text", "text": text}));
            }
            let urls = images.iter().filter_map(|image| image.data_url());
            parts.extend(urls.map(|url| json!({"type": "image_url", "image_url": {"url": url}})));
            messages.push(json!({"role": "user", "content": parts}));
        }
        Item::Assistant { text } | Item::Prefill(text) => {
            messages.push(json!({"role": "assistant", "content": text}));
        }
        Item::Model(turn) => {
            let mut message = json!({"role": "assistant"});
            message["content"] = match turn.text.is_empty() {
                true => Value::Null,
                false => turn.text.as_str().into(),
            };
            let calls: Vec<Value> = turn
                .calls
                .iter()
                .map(|call| {
                    let mut sent = json!({"id": call.id, "type": "function", "function": {
                        "name": call.name, "arguments": Value::Object(call.args.clone()).to_string(),
                    }});
                    if let Some(extra) = &call.extra {
                        sent["extra_content"] = extra.clone();
                    }
                    sent
                })
                .collect();
            if !calls.is_empty() {
                message["tool_calls"] = Value::Array(calls);
            }
            // The name under which the thinking came.
            for thought in turn.thinking.iter().filter(|_| !quirk.no_thinking_back) {
                let name = thought.mark.as_str().filter(|name| THINKING.contains(name));
                if let Some(name) = name {
                    let before = message.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                    message[name] = (before + &thought.text).into();
                }
            }
            messages.push(message);
        }
        Item::Tools(replies) => messages.extend(
            replies
                .iter()
                .map(|reply| json!({"role": "tool", "tool_call_id": reply.id, "content": reply.text})),
        ),
    }
}

/// Puts a cache marker on a message's last text.
fn mark_text(message: &mut Value, control: &Value) {
    let text = match &message["content"] {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    if let Some(text) = text {
        message["content"] = json!([{"type": "text", "text": text}]);
    }
    let parts = message.get_mut("content").and_then(Value::as_array_mut);
    let last = parts.and_then(|parts| parts.iter_mut().rev().find(|part| part["type"] == "text"));
    if let Some(part) = last {
        part["cache_control"] = control.clone();
    }
}

fn reasoning(asking: &Asking<'_>, body: &mut Map<String, Value>) {
    let level = asking.request.level();
    if is_openrouter(asking) {
        let wanted = match (level, asking.request.thinking_tokens()) {
            (Some(Level::Off), _) => Some(json!({"enabled": false})),
            (_, Some(tokens)) => Some(json!({"max_tokens": tokens})),
            (Some(level), None) => effort(level).map(|effort| json!({"effort": effort})),
            (None, None) => None,
        };
        body.extend(wanted.map(|wanted| ("reasoning".to_owned(), wanted)));
    } else if let Some(effort) = level.and_then(effort) {
        body.insert("reasoning_effort".into(), json!(effort));
    }
}

/// The format's word for a level.
pub(super) fn effort(level: Level) -> Option<&'static str> {
    match level {
        Level::Off => None,
        // The format's highest word is xhigh.
        Level::Max => Some("xhigh"),
        level => Some(level.name()),
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
/// Whether a message has a field for thinking that these words name.
fn sends_thinking_back(body: &Map<String, Value>, words: &str) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    let mut named = THINKING.iter().filter(|name| words.contains(**name));
    named.any(|name| {
        messages
            .into_iter()
            .flatten()
            .any(|message| message.get(name).is_some())
    })
}

/// Reads chunks (`delta`) and whole answers (`message`).
struct Chunks;

impl Reader for Chunks {
    fn read(
        &mut self,
        _name: &str,
        value: &Value,
        progress: &mut Progress,
        out: &mut Vec<Event>,
    ) -> Result<Next, Wrong> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        progress.set_id(text("id"));
        progress.set_model(text("model"));
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            progress.usage = read_usage(usage);
        }
        // Only one choice is ever asked for.
        let choices = value.get("choices").and_then(Value::as_array);
        let Some(choice) = choices.and_then(|choices| choices.first()) else {
            return Ok(Next::More);
        };
        let whole = || choice.get("message").filter(|_| !progress.any);
        if let Some(part) = choice.get("delta").filter(|delta| delta.is_object()).or_else(whole) {
            read_part(part, progress, out);
        }
        let reason = choice.get("finish_reason").and_then(Value::as_str).unwrap_or_default();
        progress.set_finish(
            reason,
            matches!(reason, "length" | "max_tokens" | "content_filter" | "error"),
        );
        if reason == "content_filter" && !progress.any {
            return Err(Wrong::Refused("its content filter stopped the answer".into()));
        }
        Ok(Next::More)
    }
}

fn read_part(part: &Value, progress: &mut Progress, out: &mut Vec<Event>) {
    // The same thinking often comes under two names at once; the first one that has any is taken.
    let thinking = THINKING
        .into_iter()
        .map(|name| (name, text_of(part.get(name))))
        .find(|(_, text)| !text.is_empty());
    if let Some((name, text)) = thinking {
        progress.think(text, name.into(), out);
    } else {
        // Mistral's: among the parts of the content. It does not take it back.
        let parts = part.get("content").and_then(Value::as_array).into_iter().flatten();
        let thought: String = parts.map(|part| text_of(part.get("thinking"))).collect();
        progress.think(thought, "content".into(), out);
    }
    for name in ["content", "refusal"] {
        progress.text(text_of(part.get(name)), out);
    }
    for call in part.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        progress.call(read_call(call), out);
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
    let cache_read = count(usage, "/prompt_tokens_details/cached_tokens")
        .or_else(|| count(usage, "/prompt_cache_hit_tokens"))
        .unwrap_or(0);
    let cost = usage
        .get("cost")
        .and_then(Value::as_f64)
        .filter(|cost| cost.is_finite() && *cost >= 0.0);
    Usage {
        input: count(usage, "/prompt_tokens").unwrap_or(0).saturating_sub(cache_read),
        output: count(usage, "/completion_tokens").unwrap_or(0),
        reasoning: count(usage, "/completion_tokens_details/reasoning_tokens"),
        cache_read,
        cache_write: count(usage, "/prompt_tokens_details/cache_write_tokens").unwrap_or(0),
        cost_total: cost.unwrap_or(0.0),
        priced: cost.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Round;
    use crate::{Endpoint, GenerateRequest};

    fn read(value: Value) -> (Vec<Event>, Progress) {
        let mut progress = Progress::default();
        let mut out = Vec::new();
        Chunks.read("", &value, &mut progress, &mut out).unwrap();
        (out, progress)
    }

    #[test]
    fn thinking_under_two_names_is_taken_once() {
        let (events, _) =
            read(json!({"choices": [{"delta": {"reasoning": "a", "reasoning_content": "a", "content": "b"}}]}));
        assert_eq!(events, [Event::Thinking("a".into()), Event::Delta("b".into())]);
    }

    #[test]
    fn tool_calls_keep_what_the_server_said() {
        let (events, _) = read(json!({"choices": [{"delta": {"content": null, "tool_calls": [
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
        let (_, progress) = read(json!({"choices": [], "usage": {
            "prompt_tokens": 10.0, "completion_tokens": -1, "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3}, "cost": 0.25,
        }}));
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
            let (events, _) = read(value);
            assert!(events.is_empty());
        }
    }

    fn request(value: Value) -> GenerateRequest {
        serde_json::from_value(value).unwrap()
    }

    /// As a round without tools sends it.
    fn body(request: &GenerateRequest, model: &str, quirk: Quirk) -> Map<String, Value> {
        let endpoint = Endpoint::new("c", "c", url::Url::parse("http://h").unwrap());
        crate::chat::body(request, &endpoint, model, &Round::default(), quirk)
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
            body(&request, "m", Quirk::default())["messages"],
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
        let body = body(&request, "mine", quirk);
        assert_eq!(
            Value::Object(body),
            json!({
                "model": "mine", "messages": [{"role": "user", "content": "x"}], "stream": true,
                "temperature": 1.5, "max_tokens": 7, "top_p": 0.9, "reasoning_effort": "medium",
            })
        );
    }

    #[test]
    fn reasoning_is_insisted_on_at_the_lowest_level() {
        let quirk = Quirk {
            must_reason: true,
            ..Quirk::default()
        };
        let sent = |reasoning: &str, params: Value| {
            let request = request(json!({"messages": [], "reasoning": reasoning, "presetParams": {"params": params}}));
            let mut body = body(&request, "m", quirk);
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
