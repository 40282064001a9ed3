//! The conversation as Responses has it: a list of messages, thoughts, calls and what came of them.

use serde_json::{Map, Value, json};

use crate::request::Quirk;
use crate::wire::{Item, Thought};

pub(super) fn write(item: &Item<'_>, quirk: Quirk, input: &mut Vec<Value>) {
    match item {
        Item::User { text, images, .. } => {
            let mut content = Vec::with_capacity(images.len() + 1);
            if !text.is_empty() || images.is_empty() {
                content.push(json!({"type": "input_text", "text": text}));
            }
            let urls = images.iter().filter_map(|image| image.data_url());
            content.extend(urls.map(|url| json!({"type": "input_image", "image_url": url, "detail": "auto"})));
            input.push(json!({"type": "message", "role": "user", "content": content}));
        }
        Item::Assistant { text } | Item::Prefill(text) => said(text, input),
        Item::Model(turn) => {
            let thoughts = turn.thinking.iter().filter(|_| !quirk.no_thinking_back);
            input.extend(thoughts.filter_map(thought));
            said(&turn.text, input);
            for call in &turn.calls {
                input.push(json!({
                    "type": "function_call", "call_id": call.id, "name": call.name,
                    "arguments": Value::Object(call.args.clone()).to_string(),
                }));
            }
        }
        Item::Tools(replies) => input.extend(
            replies
                .iter()
                .map(|reply| json!({"type": "function_call_output", "call_id": reply.id, "output": reply.text})),
        ),
    }
}

fn said(text: &str, input: &mut Vec<Value>) {
    if !text.is_empty() {
        let content = json!([{"type": "output_text", "text": text}]);
        input.push(json!({"type": "message", "role": "assistant", "content": content}));
    }
}

/// A thought's mark: the encrypted thinking it is the summary of.
pub(super) const ENCRYPTED: &str = "encrypted";
/// A thought's mark: it is what the model thought and no summary, as open models have it.
pub(super) const PLAIN: &str = "plain";

/// Without the ids that items had, which are of use only to a provider that keeps them. A summary by itself is nothing
/// that a model ever thought.
fn thought(thought: &Thought) -> Option<Value> {
    if let Some(encrypted) = thought.mark.get(ENCRYPTED) {
        let summary = match thought.text.is_empty() {
            true => json!([]),
            false => json!([{"type": "summary_text", "text": thought.text}]),
        };
        return Some(json!({"type": "reasoning", "summary": summary, "encrypted_content": encrypted}));
    }
    (thought.mark == PLAIN).then(|| {
        let content = json!([{"type": "reasoning_text", "text": thought.text}]);
        json!({"type": "reasoning", "summary": [], "content": content})
    })
}

pub(super) fn has_thinking(body: &Map<String, Value>) -> bool {
    let items = body.get("input").and_then(Value::as_array);
    items.is_some_and(|items| items.iter().any(|item| item["type"] == "reasoning"))
}
