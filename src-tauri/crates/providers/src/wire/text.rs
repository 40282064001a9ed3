//! Text completion, `POST {base}/completions`: the conversation is written out in the model's own prompt format (see
//! `formats`), and the answer is plain text. There are no tools and no images; a schema is asked for in words.

use serde_json::{Map, Value, json};

use super::{Asking, Next, Reader, Wire, Wrong};
use crate::formats::{self, Format};
use crate::progress::{Progress, count};
use crate::request::Quirk;
use crate::structured::Structured;
use crate::{Event, Usage};

pub(crate) struct Text;

/// Contract section 4.3. Servers that are told nothing write 16 tokens, or never stop.
const MAX_TOKENS: u64 = 512;

/// Body fields that `presetParams.params` cannot replace. `stop` is joined to the format's own.
const OWN_FIELDS: [&str; 7] = [
    "model",
    "prompt",
    "messages",
    "stream",
    "stream_options",
    "stop",
    "tools",
];

impl Wire for Text {
    fn page(&self, _model: &str) -> String {
        "completions".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        let unchosen;
        let format = match asking.prompt {
            Some(format) => format,
            None => {
                unchosen = Format::default();
                &unchosen
            }
        };
        let mut system = asking.system.unwrap_or_default().to_owned();
        if let Some(schema) = &asking.request.schema {
            if !system.is_empty() {
                system += "\n\n";
            }
            system += "Answer with one JSON value and nothing else. It must follow this JSON schema:\n";
            system += &Structured::new(schema).parameters.to_string();
        }
        let system = Some(system.as_str()).filter(|system| !system.is_empty());
        let prompt = format.write(system, asking.items, asking.level());

        let mut body = Map::new();
        body.insert("max_tokens".into(), json!(MAX_TOKENS));
        let mut asked = Map::new();
        if let Some(temperature) = asking.temperature() {
            asked.insert("temperature".into(), json!(temperature));
        }
        if let Some(tokens) = asking.max_tokens() {
            asked.insert("max_tokens".into(), json!(tokens));
        }
        body.extend(asked);
        body.extend(asking.params(&OWN_FIELDS));
        let mut stops = format.stops.clone();
        for stop in formats::stops(asking.request).unwrap_or_default() {
            if !stops.contains(&stop) {
                stops.push(stop);
            }
        }
        if !stops.is_empty() {
            body.insert("stop".into(), json!(stops));
        }
        body.insert("model".into(), json!(asking.model));
        body.insert("prompt".into(), json!(prompt));
        body.insert("stream".into(), json!(true));
        if !asking.quirk.no_stream_options {
            body.insert("stream_options".into(), json!({"include_usage": true}));
        }
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Pieces)
    }

    fn relent(&self, words: &str, body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
        let mut less = quirk;
        if words.contains("stream_options") && body.contains_key("stream_options") {
            less.no_stream_options = true;
        } else if words.contains("temperature") && words.contains("support") && body.contains_key("temperature") {
            less.no_temperature = true;
        }
        (less != quirk).then_some(less)
    }

    fn abort_page(&self) -> Option<&'static str> {
        // KoboldCpp's; it goes on writing after its listener has gone. Others answer that there is no such page.
        Some("api/extra/abort")
    }
}

/// Reads `choices[0].text`, and what llama.cpp (`content`) and KoboldCpp (`token`) send on pages of their own.
struct Pieces;

impl Reader for Pieces {
    fn read(
        &mut self,
        _name: &str,
        value: &Value,
        progress: &mut Progress,
        out: &mut Vec<Event>,
    ) -> Result<Next, Wrong> {
        let word = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        progress.set_id(&word(value, "id"));
        progress.set_model(&word(value, "model"));
        read_usage(value, progress);
        let choice = value
            .get("choices")
            .and_then(Value::as_array)
            .and_then(|choices| choices.first());
        let (holder, reason) = match choice {
            Some(choice) => (choice, word(choice, "finish_reason")),
            None => (value, native_reason(value)),
        };
        let text = ["/text", "/content", "/token", "/delta/content", "/message/content"]
            .iter()
            .find_map(|path| holder.pointer(path)?.as_str().filter(|text| !text.is_empty()));
        progress.text(text.unwrap_or_default(), out);
        let cut_short = matches!(
            reason.as_str(),
            "length" | "max_tokens" | "content_filter" | "error" | "abort" | "limit" | "cancelled"
        );
        progress.set_finish(&reason, cut_short);
        if reason == "content_filter" && !progress.any {
            return Err(Wrong::Refused("its content filter stopped the answer".into()));
        }
        Ok(Next::More)
    }
}

/// llama.cpp says `stop: true` in its last piece, and why in `stop_type` (before 2025 in three fields); KoboldCpp has
/// `finish_reason` beside its token.
fn native_reason(value: &Value) -> String {
    let yes = |name: &str| value.get(name) == Some(&Value::Bool(true));
    if let Some(reason) = value.get("finish_reason").and_then(Value::as_str) {
        return reason.to_owned();
    }
    if !yes("stop") {
        return String::new();
    }
    match value.get("stop_type").and_then(Value::as_str) {
        Some("limit") => "length".into(),
        _ if yes("stopped_limit") => "length".into(),
        _ => "stop".into(),
    }
}

fn read_usage(value: &Value, progress: &mut Progress) {
    let count = |path: &str| count(value, path);
    if value.get("usage").is_some_and(Value::is_object) {
        let cache_read = count("/usage/prompt_tokens_details/cached_tokens").unwrap_or(0);
        let cost = value.pointer("/usage/cost").and_then(Value::as_f64);
        let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
        progress.usage = Usage {
            input: count("/usage/prompt_tokens").unwrap_or(0).saturating_sub(cache_read),
            output: count("/usage/completion_tokens").unwrap_or(0),
            reasoning: count("/usage/completion_tokens_details/reasoning_tokens"),
            cache_read,
            cache_write: 0,
            cost_total: cost.unwrap_or(0.0),
            priced: cost.is_some(),
        };
    } else if value.get("timings").is_some_and(Value::is_object) && progress.usage == Usage::default() {
        // llama.cpp counts what it had to read anew, and what it found in its cache.
        progress.usage.input = count("/timings/prompt_n")
            .or_else(|| count("/tokens_evaluated"))
            .unwrap_or(0);
        progress.usage.cache_read = count("/timings/cache_n").unwrap_or(0);
        progress.usage.output = count("/timings/predicted_n")
            .or_else(|| count("/tokens_predicted"))
            .unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[Value]) -> (Vec<Event>, Progress) {
        let mut progress = Progress::default();
        let mut out = Vec::new();
        for value in values {
            Pieces.read("", value, &mut progress, &mut out).unwrap();
        }
        (out, progress)
    }

    #[test]
    fn the_pages_of_other_servers() {
        let (events, progress) = read(&[
            json!({"content": "a", "stop": false}),
            json!({"content": "", "stop": true, "stop_type": "limit", "timings": {"prompt_n": 3, "cache_n": 2, "predicted_n": 1}}),
        ]);
        assert_eq!(events, [Event::Delta("a".into())]);
        assert_eq!(
            (progress.finish_reason.as_deref(), progress.cut_short),
            (Some("length"), true)
        );
        assert_eq!(
            (progress.usage.input, progress.usage.cache_read, progress.usage.output),
            (3, 2, 1)
        );
        let (events, progress) = read(&[
            json!({"token": "a", "finish_reason": null}),
            json!({"token": "", "finish_reason": "stop"}),
        ]);
        assert_eq!(events, [Event::Delta("a".into())]);
        assert_eq!(
            (progress.finish_reason.as_deref(), progress.cut_short),
            (Some("stop"), false)
        );
        let (_, progress) = read(&[json!({"content": "", "stop": true, "stopped_limit": true})]);
        assert_eq!(progress.finish_reason.as_deref(), Some("length"));
    }

    #[test]
    fn foreign_shapes_do_not_panic() {
        for value in [
            json!({}),
            json!({"choices": 5}),
            json!({"choices": [5]}),
            json!({"choices": [{"text": 5, "finish_reason": {}}]}),
            json!([]),
            json!(null),
            json!({"choices": [], "usage": 5, "timings": []}),
            json!({"content": {}, "stop": "yes"}),
        ] {
            assert!(read(&[value]).0.is_empty());
        }
    }
}
