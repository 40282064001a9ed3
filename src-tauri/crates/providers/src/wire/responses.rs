//! OpenAI's Responses, as OpenAI and the servers that follow it speak it.
//!
//! Nothing is kept by the provider (`store: false`): the whole conversation goes with every request, and what the model
//! thought comes back encrypted and is sent along again. The format cannot begin an answer for the model: a prefill is
//! sent as a turn of the model, after which some models begin anew.

mod answer;
mod talk;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use self::answer::Events;
use super::completions::effort;
use super::{Asking, Choice, Reader, Wire};
use crate::Tool;
use crate::request::Quirk;
use crate::tools::STRUCTURED;

pub(crate) struct Responses;

/// Body fields that `presetParams.params` cannot replace: the model somebody chose, the conversation itself (also one kept
/// by the provider), whether it is kept, and tools, which need a permission of their own.
const OWN_FIELDS: [&str; 18] = [
    "model",
    "input",
    "instructions",
    "messages",
    "stream",
    "stream_options",
    "store",
    "include",
    "background",
    "conversation",
    "previous_response_id",
    "prompt",
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "max_tokens",
    "max_completion_tokens",
];

/// What apps write for chat completions and this format has no place for: an unknown name is an error to it.
const UNKNOWN: [&str; 7] = [
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "n",
];

/// Longest key of the prompt cache that OpenAI takes, in characters.
const MAX_CACHE_KEY: usize = 64;

impl Wire for Responses {
    fn page(&self, _model: &str) -> String {
        "responses".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        let quirk = asking.quirk;
        let mut input = Vec::with_capacity(asking.items.len());
        for item in asking.items {
            talk::write(item, quirk, &mut input);
        }
        let mut body = Map::new();
        if let Some(temperature) = asking.temperature() {
            body.insert("temperature".into(), json!(temperature));
        }
        let params: Map<String, Value> = asking.params(&[]).collect();
        let limit = ["max_tokens", "max_completion_tokens"]
            .iter()
            .find_map(|name| params.get(*name));
        if let Some(limit) = limit.cloned().or_else(|| asking.max_tokens().map(Value::from)) {
            body.insert("max_output_tokens".into(), limit);
        }
        let word = params.get("reasoning_effort").filter(|word| word.is_string()).cloned();
        let level = asking.level().and_then(effort).map(Value::from);
        if let Some(effort) = word.or(level).filter(|_| !quirk.no_reasoning) {
            let mut reasoning = json!({"effort": effort});
            if !quirk.no_summary {
                reasoning["summary"] = "auto".into();
            }
            body.insert("reasoning".into(), reasoning);
        }
        let given = asking
            .params(&OWN_FIELDS)
            .filter(|(name, _)| name != "reasoning_effort" && !UNKNOWN.contains(&name.as_str()));
        body.extend(given);
        if !quirk.no_thinking_back && may_think(asking.model) {
            body.insert("include".into(), json!(["reasoning.encrypted_content"]));
        }
        if !asking.tools.is_empty() {
            let tools = asking.tools.iter().map(declare).collect();
            body.insert("tools".into(), Value::Array(tools));
            let choice = match asking.choice {
                Some(_) if quirk.no_choice => None,
                Some(Choice::Structured) if !quirk.no_named_choice => {
                    Some(json!({"type": "function", "name": STRUCTURED}))
                }
                Some(_) => Some(json!("required")),
                None => None,
            };
            body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        }
        if let Some(session) = asking.request.session_id.as_deref().filter(|_| keeps_prompts(asking)) {
            body.entry("prompt_cache_key")
                .or_insert_with(|| session.chars().take(MAX_CACHE_KEY).collect::<String>().into());
        }
        body.extend(asking.system.map(|text| ("instructions".to_owned(), json!(text))));
        body.insert("model".into(), json!(asking.model));
        body.insert("input".into(), Value::Array(input));
        body.insert("store".into(), json!(false));
        body.insert("stream".into(), json!(true));
        body
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Events::default())
    }

    fn relent(&self, words: &str, body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
        let says = |word: &str| words.contains(word);
        let mut less = quirk;
        let sends_thinking = body.contains_key("include") || talk::has_thinking(body);
        let summary = body.get("reasoning").and_then(|reasoning| reasoning.get("summary"));
        if says("reasoning is mandatory") {
            less.must_reason = true;
        } else if says("encrypted") && sends_thinking || says("include") && body.contains_key("include") {
            less.no_thinking_back = true;
        } else if says("summar") && summary.is_some() {
            // OpenAI gives summaries only to organisations it has verified.
            less.no_summary = true;
        } else if says("reasoning") && body.contains_key("reasoning") {
            less.no_reasoning = true;
        } else if (says("tool_choice") || says("tool choice")) && body.contains_key("tool_choice") {
            match body.get("tool_choice") {
                Some(Value::Object(_)) => less.no_named_choice = true,
                _ => less.no_choice = true,
            }
        } else if says("temperature") && says("support") && body.contains_key("temperature") {
            less.no_temperature = true;
        }
        (less != quirk).then_some(less)
    }
}

/// OpenAI refuses to encrypt the thinking of models that have none. Asking in vain once would do as well, for others.
fn may_think(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    !["gpt-3.5", "gpt-4", "chatgpt-4o"]
        .iter()
        .any(|old| name.starts_with(old))
}

fn keeps_prompts(asking: &Asking<'_>) -> bool {
    let retention = asking.request.cache.as_ref().and_then(|cache| cache.get("retention"));
    retention.is_none_or(|retention| retention != "none")
}

/// Without `strict: false` OpenAI takes a schema for one of its strict ones and refuses most.
fn declare(tool: &Tool) -> Value {
    json!({
        "type": "function", "name": tool.name(), "description": tool.description(), "parameters": tool.parameters(),
        "strict": false,
    })
}
