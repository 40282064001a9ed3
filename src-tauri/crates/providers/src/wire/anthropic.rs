//! Anthropic's Messages, also as others offer it.

mod answer;
mod names;
mod talk;
mod thinking;

use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use net::KeyStyle;
use serde_json::{Map, Value, json};

use self::answer::Blocks;
use self::names::Claude;
use self::talk::Talk;
use self::thinking::Plan;
use super::{Asking, Choice, Reader, Wire};
use crate::Tool;
use crate::cache;
use crate::request::Quirk;
use crate::tools::STRUCTURED;

pub(crate) struct Anthropic;

/// Body fields that `presetParams.params` cannot replace: the model somebody chose, the conversation itself, and whatever
/// lets the server call tools, which need a permission of their own.
const OWN_FIELDS: [&str; 9] = [
    "model",
    "fallbacks",
    "messages",
    "system",
    "stream",
    "tools",
    "tool_choice",
    "mcp_servers",
    "container",
];

const VERSION: &str = "2023-06-01";

impl Wire for Anthropic {
    fn page(&self, _model: &str) -> String {
        "messages".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        let claude = Claude::of(asking.model);
        let mut params: Map<String, Value> = asking.params(&OWN_FIELDS).collect();
        let plan = Plan::new(asking, claude, &params);
        let mut talk = Talk::new(asking.quirk, plan.thinks());
        for item in asking.items {
            talk.write(item);
        }
        talk.tidy();
        let mut system = asking.system.map(|text| json!({"type": "text", "text": text}));
        let mut tools: Vec<Value> = asking.tools.iter().map(tool).collect();
        if let Some(marks) = cache::marks(asking.request.cache.as_ref(), asking.items) {
            let blocks = system.iter_mut().chain(tools.last_mut());
            for block in blocks {
                block["cache_control"] = marks.control.clone();
            }
            for item in marks.items {
                talk.mark(item, &marks.control);
            }
        }

        let mut body = Map::new();
        if let Some(temperature) = asking.temperature() {
            body.insert("temperature".into(), json!(temperature));
        }
        body.insert("max_tokens".into(), json!(plan.max_tokens));
        plan.write(&mut body);
        // Effort is one of several things in it.
        if let (Some(Value::Object(ours)), Some(Value::Object(theirs))) =
            (body.get("output_config"), params.get_mut("output_config"))
        {
            for (name, value) in ours {
                theirs.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        body.extend(params);
        leave_out_sampling(&mut body, claude, plan.thinks(), asking.quirk);
        if !tools.is_empty() {
            body.insert("tools".into(), Value::Array(tools));
            let choice = match asking.choice {
                // Thinking goes with a free choice only; what the model then writes as text is read as the answer.
                Some(_) if plan.thinks() || asking.quirk.no_choice => None,
                Some(Choice::Structured) if !asking.quirk.no_named_choice => {
                    Some(json!({"type": "tool", "name": STRUCTURED}))
                }
                Some(_) => Some(json!({"type": "any"})),
                None => None,
            };
            body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
        }
        if asking.tools.is_empty() && !talk.called.is_empty() {
            // Calls in the conversation need tools of their names, also where none may be called any more.
            let named = talk.called.iter();
            let tools = named.map(|name| json!({"name": name, "input_schema": {"type": "object"}}));
            body.insert("tools".into(), tools.collect());
            if !asking.quirk.no_choice {
                body.insert("tool_choice".into(), json!({"type": "none"}));
            }
        }
        body.extend(system.map(|system| ("system".to_owned(), json!([system]))));
        body.insert("model".into(), json!(asking.model));
        body.insert("messages".into(), talk.into_messages());
        body.insert("stream".into(), json!(true));
        body
    }

    fn headers(&self, headers: &mut HeaderMap) {
        let name = HeaderName::from_static("anthropic-version");
        headers.insert(name, HeaderValue::from_static(VERSION));
    }

    fn key_style(&self) -> KeyStyle {
        KeyStyle::Header(HeaderName::from_static("x-api-key"))
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Blocks::default())
    }

    fn relent(&self, words: &str, body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
        let says = |word: &str| words.contains(word);
        let at = |name: &str, inner: &str| body.get(name)?.get(inner)?.as_str();
        let thinking = at("thinking", "type");
        let mut less = quirk;
        if says("reasoning is mandatory") {
            less.must_reason = true;
        } else if says("prefill") && ends_with_the_model(body) {
            less.no_prefill = true;
        } else if says("tool_choice") && body.contains_key("tool_choice") {
            // `any` is no way out where the model thinks.
            match at("tool_choice", "type") {
                Some("tool") if !says("thinking") => less.no_named_choice = true,
                _ => less.no_choice = true,
            }
        } else if thinking == Some("disabled") && says("disabled") {
            less.must_reason = true;
        } else if thinking.is_some_and(|kind| kind != "disabled") && says("adaptive") && !quirk.other_thinking {
            less.other_thinking = true;
        } else if (says("effort") || says("output_config")) && at("output_config", "effort").is_some() {
            less.no_reasoning = true;
        } else if (says("signature") || says("thinking` block") || says("thinking block")) && sends_thinking_back(body)
        {
            less.no_thinking_back = true;
        } else if says("temperature") && body.contains_key("temperature") {
            less.no_temperature = true;
        } else if says("thinking") && thinking.is_some() {
            less.no_reasoning = true;
        }
        (less != quirk).then_some(less)
    }
}

/// Whether the conversation ends with the beginning of the model's answer.
fn ends_with_the_model(body: &Map<String, Value>) -> bool {
    let last = body
        .get("messages")
        .and_then(Value::as_array)
        .and_then(|list| list.last());
    last.is_some_and(|message| message["role"] == "assistant")
}

fn sends_thinking_back(body: &Map<String, Value>) -> bool {
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    let mut blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    blocks.any(|block| block["type"] == "thinking" || block["type"] == "redacted_thinking")
}

/// What is refused with thinking, and by the newest models altogether.
fn leave_out_sampling(body: &mut Map<String, Value>, claude: Option<Claude>, thinks: bool, quirk: Quirk) {
    let refuses_all = claude.is_some_and(Claude::refuses_sampling);
    if thinks || refuses_all || quirk.no_temperature {
        body.remove("temperature");
    }
    if thinks || refuses_all {
        body.remove("top_k");
    }
    // With thinking it may be 0.95 to 1.
    let high = body.get("top_p").and_then(Value::as_f64).is_some_and(|p| p >= 0.95);
    if refuses_all || (thinks && !high) {
        body.remove("top_p");
    }
}

fn tool(tool: &Tool) -> Value {
    let mut schema = tool.parameters().clone();
    if let Value::Object(schema) = &mut schema {
        // Required, also beside a `$ref`.
        schema.entry("type").or_insert_with(|| "object".into());
    }
    let mut sent = json!({"name": tool.name(), "input_schema": schema});
    if !tool.description().is_empty() {
        sent["description"] = tool.description().into();
    }
    sent
}

#[cfg(test)]
mod tests;
