//! Google's Gemini, `generateContent`.

mod answer;
mod talk;
mod thinking;

use http::header::HeaderName;
use net::KeyStyle;
use serde_json::{Map, Value, json};

use self::answer::Candidates;
use self::talk::Talk;
use self::thinking::Model;
use super::{Asking, Choice, Reader, Wire, params};
use crate::Tool;
use crate::request::Quirk;
use crate::tools::STRUCTURED;

pub(crate) struct Gemini;

/// Body fields that `presetParams.params` cannot replace, in both of the spellings that Google takes: the conversation
/// itself, and tools, which need a permission of their own.
const OWN_FIELDS: [&str; 9] = [
    "model",
    "contents",
    "messages",
    "stream",
    "systemInstruction",
    "system_instruction",
    "tools",
    "toolConfig",
    "tool_config",
];

/// What apps write for any provider beside the messages, and where Google has it: within `generationConfig`, never beside
/// it, where an unknown name is an error.
const SETTINGS: [(&str, &str); 17] = [
    ("temperature", "temperature"),
    ("max_tokens", "maxOutputTokens"),
    ("maxOutputTokens", "maxOutputTokens"),
    ("max_output_tokens", "maxOutputTokens"),
    ("top_p", "topP"),
    ("topP", "topP"),
    ("top_k", "topK"),
    ("topK", "topK"),
    ("stop", "stopSequences"),
    ("stop_sequences", "stopSequences"),
    ("stopSequences", "stopSequences"),
    ("seed", "seed"),
    ("presence_penalty", "presencePenalty"),
    ("presencePenalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
    ("frequencyPenalty", "frequencyPenalty"),
    ("thinkingConfig", "thinkingConfig"),
];

impl Wire for Gemini {
    fn page(&self, model: &str) -> String {
        let model = model.trim_start_matches('/');
        let model = model.strip_prefix("models/").unwrap_or(model);
        // The person's own models stand beside Google's.
        let (list, model) = match model.strip_prefix("tunedModels/") {
            Some(own) => ("tunedModels", own),
            None => ("models", model),
        };
        format!("{list}/{}:streamGenerateContent?alt=sse", encoded(model))
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        let model = Model::of(asking.model);
        let mut talk = Talk::new(asking.quirk, model);
        let mut system = asking.system;
        if model.has_no_system() {
            talk.begin_with(system.take());
        }
        for item in asking.items {
            talk.write(item);
        }
        let mut settings = Map::new();
        if let Some(temperature) = asking.temperature() {
            settings.insert("temperature".into(), json!(temperature));
        }
        if let Some(limit) = asking.max_tokens() {
            settings.insert("maxOutputTokens".into(), json!(limit));
        }
        if let Some(thinking) = thinking::config(asking, model) {
            settings.insert("thinkingConfig".into(), thinking);
        }
        let mut body = Map::new();
        for (name, value) in asking.params(&OWN_FIELDS) {
            match SETTINGS.iter().find(|(theirs, _)| *theirs == name) {
                Some((_, "stopSequences")) if value.is_string() => {
                    settings.insert("stopSequences".into(), json!([value]));
                }
                Some((_, ours)) => {
                    settings.insert((*ours).to_owned(), value);
                }
                None => {
                    body.insert(name, value);
                }
            }
        }
        let theirs = ["generationConfig", "generation_config"];
        for theirs in theirs.iter().filter_map(|name| body.remove(*name)) {
            merge(&mut settings, theirs);
        }
        settings.retain(|name, _| !params::asks_for_several(name));
        if !settings.is_empty() {
            body.insert("generationConfig".into(), Value::Object(settings));
        }
        if !asking.tools.is_empty() {
            let declared: Vec<Value> = asking.tools.iter().map(declare).collect();
            body.insert("tools".into(), json!([{"functionDeclarations": declared}]));
            let quirk = asking.quirk;
            let calling = match asking.choice {
                Some(_) if quirk.no_choice => None,
                Some(Choice::Structured) if !quirk.no_named_choice => {
                    Some(json!({"mode": "ANY", "allowedFunctionNames": [STRUCTURED]}))
                }
                Some(_) => Some(json!({"mode": "ANY"})),
                None => None,
            };
            body.extend(calling.map(|calling| ("toolConfig".to_owned(), json!({"functionCallingConfig": calling}))));
        }
        body.extend(system.map(|text| ("systemInstruction".to_owned(), json!({"parts": [{"text": text}]}))));
        body.insert("contents".into(), talk.into_contents());
        body
    }

    fn key_style(&self) -> KeyStyle {
        KeyStyle::Header(HeaderName::from_static("x-goog-api-key"))
    }

    fn reader(&self) -> Box<dyn Reader> {
        Box::new(Candidates::default())
    }

    fn relent(&self, words: &str, body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
        let says = |word: &str| words.contains(word);
        let config = body
            .get("generationConfig")
            .and_then(|settings| settings.get("thinkingConfig"));
        let names = |name: &str| config.is_some_and(|config| config.get(name).is_some());
        let mut less = quirk;
        if says("reasoning is mandatory") || says("only works in thinking mode") || says("budget 0 is invalid") {
            less.must_reason = true;
        } else if (says("thought signature") || says("thought_signature") || says("thoughtsignature"))
            && Value::Object(body.clone()).to_string().contains("thoughtSignature")
        {
            less.no_thinking_back = true;
        } else if (says("thinking level") || says("thinking_level") || says("thinkinglevel"))
            && names("thinkingLevel")
            && !quirk.other_thinking
            || (says("thinking budget") || says("thinking_budget") || says("thinkingbudget"))
                && names("thinkingBudget")
                && !quirk.other_thinking
        {
            less.other_thinking = true;
        } else if says("thinking") && config.is_some() {
            less.no_reasoning = true;
        } else if (says("function calling")
            || says("function_calling")
            || says("functioncalling")
            || says("tool_config"))
            && body.contains_key("toolConfig")
        {
            let named = body["toolConfig"].pointer("/functionCallingConfig/allowedFunctionNames");
            match named {
                Some(_) => less.no_named_choice = true,
                None => less.no_choice = true,
            }
        } else if (says("prefill") || (says("end with") && says("user"))) && ends_with_the_model(body) {
            less.no_prefill = true;
        }
        (less != quirk).then_some(less)
    }
}

fn ends_with_the_model(body: &Map<String, Value>) -> bool {
    let last = body
        .get("contents")
        .and_then(Value::as_array)
        .and_then(|list| list.last());
    last.is_some_and(|content| content["role"] == "model")
}

/// A model's id as one segment of a path.
fn encoded(id: &str) -> String {
    let mut out = String::with_capacity(id.len());
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Lays `theirs` over `ours`; objects in both are joined.
fn merge(ours: &mut Map<String, Value>, theirs: Value) {
    let Value::Object(theirs) = theirs else { return };
    for (name, value) in theirs {
        match (ours.get_mut(&name), value) {
            (Some(Value::Object(inner)), value @ Value::Object(_)) => merge(inner, value),
            (_, value) => {
                ours.insert(name, value);
            }
        }
    }
}

/// `parametersJsonSchema` takes JSON schemas as they are, where `parameters` refuses much of them.
fn declare(tool: &Tool) -> Value {
    let mut schema = tool.parameters().clone();
    if let Value::Object(schema) = &mut schema {
        schema.remove("$schema");
    }
    let mut declared = json!({"name": tool.name(), "description": tool.description()});
    let takes_nothing = schema
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(Map::is_empty)
        && schema.get("additionalProperties").is_none_or(|more| *more == false);
    if !takes_nothing {
        declared["parametersJsonSchema"] = schema;
    }
    declared
}

#[cfg(test)]
mod tests;
