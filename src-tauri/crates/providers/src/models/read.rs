//! Reads model lists, in the shapes of OpenAI, Anthropic, Google and Ollama, with what OpenRouter, Mistral, Together,
//! Fireworks, DeepInfra, Venice, Novita, Chutes, LM Studio and vLLM say beside the ids.

use std::collections::HashSet;

use serde_json::Value;

use super::{MAX_ID, MAX_MODELS, ModelInfo, ModelList};
use crate::request::Level;
use crate::{Api, Price};

/// Longest name for people, in characters.
const MAX_LABEL: usize = 120;

/// `None` when there is no list at all.
pub(super) fn read_list(api: Api, value: &Value) -> Option<ModelList> {
    let inside = ["data", "models", "result"]
        .iter()
        .map(|name| value.get(*name))
        .find(|found| found.is_some())
        .flatten();
    let entries = match (value, inside) {
        (Value::Array(entries), _) | (_, Some(Value::Array(entries))) => entries.as_slice(),
        // Ollama without a single model says `"data": null`.
        (_, Some(Value::Null)) => &[],
        (_, Some(object)) => {
            let list = object.get("data").or_else(|| object.get("models"));
            return read_list(api, list.filter(|list| list.is_array())?);
        }
        // Google leaves out a list without entries.
        (Value::Object(map), None) if map.is_empty() && api == Api::GoogleGenerativeAi => &[],
        _ => return None,
    };
    let mut list = ModelList::default();
    let mut seen = HashSet::new();
    for entry in entries {
        match read_id(api, entry) {
            Some(id) if list.models.len() == MAX_MODELS && !seen.contains(&id) => list.skipped += 1,
            Some(id) if seen.insert(id.clone()) => {
                list.prices
                    .extend(Price::listed(entry).map(|price| (id.clone(), price)));
                list.models.push(read_entry(id, entry));
            }
            Some(_) => {}
            None => list.skipped += 1,
        }
    }
    // The first one is used where none is chosen: not one that answers nothing.
    list.models.sort_by_key(|model| model.chat == Some(false));
    Some(list)
}

fn read_id(api: Api, entry: &Value) -> Option<String> {
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let usable = |id: &String| !id.is_empty() && id.len() <= MAX_ID && !id.chars().any(char::is_control);
    if let Value::String(_) = entry {
        return plain(entry).filter(usable);
    }
    let id = ["id", "name", "model", "key"]
        .iter()
        .filter_map(|name| plain(entry.get(*name)?))
        .find(usable)?;
    match api {
        Api::GoogleGenerativeAi => Some(id.strip_prefix("models/").unwrap_or(&id).to_owned()).filter(usable),
        _ => Some(id),
    }
}

fn read_entry(id: String, entry: &Value) -> ModelInfo {
    let names = ["/display_name", "/displayName", "/model_spec/name", "/name"];
    let label = names
        .iter()
        .filter_map(|path| entry.pointer(path)?.as_str())
        .map(|text| {
            text.trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(MAX_LABEL)
                .collect::<String>()
        })
        .find(|text| !text.is_empty() && *text != id && text.strip_prefix("models/") != Some(id.as_str()));
    ModelInfo {
        context_window: read_window(entry),
        label,
        reasoning: reasons(entry),
        reasoning_levels: levels(entry),
        images: takes_images(entry),
        chat: chats(entry).or_else(|| is_for_something_else(&id).then_some(false)),
        id,
    }
}

/// A count of tokens that can be a context's.
pub(super) fn window(value: &Value) -> Option<u64> {
    let tokens = match value {
        Value::Number(_) => value.as_u64().or_else(|| value.as_f64().map(|n| n as u64)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    tokens.filter(|tokens| (1..=100_000_000).contains(tokens))
}

fn read_window(entry: &Value) -> Option<u64> {
    [
        // As it is loaded, before what the model could do.
        "/loaded_context_length",
        "/meta/n_ctx",
        "/n_ctx",
        "/context_length",
        "/context_window",
        "/max_model_len",
        "/max_context_length",
        "/context_size",
        "/inputTokenLimit",
        "/max_input_tokens",
        "/model_spec/availableContextTokens",
        "/metadata/context_length",
        "/info/contextLength",
        "/top_provider/context_length",
    ]
    .iter()
    .filter_map(|path| entry.pointer(path))
    .find_map(window)
}

/// The first of these that says yes or no, also as `{"supported": …}`.
fn flag(entry: &Value, paths: &[&str]) -> Option<bool> {
    let said = |path: &&str| {
        let value = entry.pointer(path)?;
        value.as_bool().or_else(|| value.get("supported")?.as_bool())
    };
    paths.iter().find_map(said)
}

/// Whether the first of these that is a list has one of the words.
fn among(entry: &Value, paths: &[&str], words: &[&str]) -> Option<bool> {
    let list = paths.iter().find_map(|path| entry.pointer(path)?.as_array())?;
    Some(
        list.iter()
            .any(|item| item.as_str().is_some_and(|item| words.contains(&item))),
    )
}

fn reasons(entry: &Value) -> Option<bool> {
    let lists = [
        "/supported_parameters",
        "/supported_features",
        "/features",
        "/metadata/tags",
    ];
    let words = ["reasoning", "include_reasoning", "reasoning_effort", "thinking"];
    let flags = [
        "/capabilities/reasoning",
        "/capabilities/thinking",
        "/model_spec/capabilities/supportsReasoning",
        "/thinking",
        "/supports_reasoning",
    ];
    flag(entry, &flags).or_else(|| among(entry, &lists, &words))
}

pub(super) fn takes_images(entry: &Value) -> Option<bool> {
    let flags = [
        "/capabilities/vision",
        "/capabilities/image_input",
        "/model_spec/capabilities/supportsVision",
        "/supports_image_input",
        "/supports_vision",
    ];
    let lists = [
        "/architecture/input_modalities",
        "/input_modalities",
        "/modalities/input",
    ];
    flag(entry, &flags)
        .or_else(|| among(entry, &lists, &["image"]))
        .or_else(|| among(entry, &["/metadata/tags"], &["vlm", "vision"]))
        .or_else(|| (entry.get("type")? == "vlm").then_some(true))
}

/// Whether a model's name says that it makes pictures, sounds or numbers: for the lists that do not say it.
fn is_for_something_else(id: &str) -> bool {
    let lower = id.to_ascii_lowercase();
    let others = ["embed", "whisper", "transcribe", "moderation", "rerank"];
    crate::makes_images(id) || crate::speaks(id) || others.iter().any(|word| lower.contains(word))
}

pub(super) fn chats(entry: &Value) -> Option<bool> {
    let flags = ["/capabilities/completion_chat", "/supports_chat"];
    let kind = || match entry.get("type")?.as_str()? {
        "embedding" | "embeddings" | "image" | "video" | "audio" | "speech" | "tts" | "transcribe" | "asr"
        | "rerank" | "moderation" => Some(false),
        "chat" | "language" | "llm" | "vlm" => Some(true),
        _ => None,
    };
    let writes = ["/architecture/output_modalities", "/output_modalities"];
    flag(entry, &flags)
        .or_else(|| among(entry, &["/supportedGenerationMethods"], &["generateContent"]))
        .or_else(kind)
        .or_else(|| among(entry, &writes, &["text"]))
}

/// Words of [`Level`], in its order.
fn levels(entry: &Value) -> Vec<String> {
    let mut found: Vec<Level> = Vec::new();
    let mut add = |word: &str| {
        let level = if word == "none" {
            Some(Level::Off)
        } else {
            Level::parse(word)
        };
        found.extend(level.filter(|level| !found.contains(level)));
    };
    let lists = [
        "/reasoning/supported_efforts",
        "/supported_reasoning_efforts",
        "/reasoning_levels",
        "/capabilities/reasoning/allowed_options",
    ];
    match lists.iter().find_map(|path| entry.pointer(path)?.as_array()) {
        Some(list) => list.iter().filter_map(Value::as_str).for_each(&mut add),
        // Anthropic: `{"supported": true, "low": {"supported": true}, …}`.
        None => {
            if let Some(Value::Object(efforts)) = entry.pointer("/capabilities/effort") {
                let taken = efforts
                    .iter()
                    .filter(|(_, effort)| effort.get("supported").is_some_and(|s| s == true));
                taken.for_each(|(name, _)| add(name));
            }
        }
    }
    found.sort_unstable();
    found.into_iter().map(|level| level.name().to_owned()).collect()
}

/// Whether a model thinks before it answers, by its name: for the lists that do not say it. `None` for names that tell
/// nothing.
pub fn likely_reasons(id: &str) -> Option<bool> {
    let id = id.to_ascii_lowercase();
    let name = id.rsplit('/').next().unwrap_or_default();
    // OpenAI, Anthropic, DeepSeek, xAI, Qwen and Moonshot, as they name them.
    let begins = [
        "o1",
        "o3",
        "o4-",
        "gpt-5",
        "claude-3-7",
        "claude-opus-4",
        "claude-sonnet-4",
        "claude-haiku-4",
        "grok-4",
        "grok-3-mini",
        "qwq",
    ];
    let holds = ["reasoner", "-r1", "thinking", "gpt-oss", "magistral"];
    let thinks = begins.iter().any(|word| name.starts_with(word)) || holds.iter().any(|word| name.contains(word));
    thinks.then_some(true)
}

#[cfg(test)]
mod tests;
