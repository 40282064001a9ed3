//! The conversation as Gemini has it: turns of the person and of the model, each a list of parts.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::thinking::Model;
use crate::request::Quirk;
use crate::wire::{Item, ModelTurn};

/// What Google has one send for a call whose signature is not known.
const UNSIGNED: &str = "skip_thought_signature_validator";
/// What stands alone where nobody has said anything yet, which is refused.
const OPENING: &str = "(The conversation begins.)";

const PERSON: &str = "user";
const MODEL: &str = "model";

#[derive(Debug)]
pub(super) struct Talk<'a> {
    quirk: Quirk,
    model: Model,
    contents: Vec<(&'static str, Vec<Value>)>,
    /// The server's own ids, by the ids of calls. Older models give none, and want none back.
    ids: HashMap<&'a str, &'a str>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(quirk: Quirk, model: Model) -> Self {
        Self {
            quirk,
            model,
            contents: Vec::new(),
            ids: HashMap::new(),
        }
    }

    /// For models without a system prompt: it stands first in the person's words.
    pub(super) fn begin_with(&mut self, system: Option<&str>) {
        self.say(PERSON, system.unwrap_or_default());
    }

    pub(super) fn write(&mut self, item: &Item<'a>) {
        match item {
            Item::User { text, images, .. } => {
                for (mime, base64) in images.iter().filter_map(|image| image.inline()) {
                    self.push(PERSON, json!({"inlineData": {"mimeType": mime, "data": base64}}));
                }
                self.say(PERSON, text);
            }
            Item::Assistant { text } => self.say(MODEL, text),
            Item::Prefill(_) if self.quirk.no_prefill => {}
            Item::Prefill(text) => self.say(MODEL, text),
            Item::Model(turn) => self.turn(turn),
            Item::Tools(replies) => {
                for reply in *replies {
                    let field = if reply.is_error { "error" } else { "output" };
                    let mut response = json!({"name": reply.name, "response": {field: reply.text}});
                    if let Some(id) = self.ids.get(reply.id.as_str()) {
                        response["id"] = (*id).into();
                    }
                    self.push(PERSON, json!({"functionResponse": response}));
                }
            }
        }
    }

    /// Signatures go back on the parts they came on. Thinking itself is a summary, which is not wanted back unless it is
    /// signed.
    fn turn(&mut self, turn: &'a ModelTurn) {
        let signs = !self.quirk.no_thinking_back;
        let mut of_text = None;
        for thought in turn.thinking.iter().filter(|_| signs) {
            let word = |name: &str| thought.mark.get(name).and_then(Value::as_str);
            of_text = word("textSignature").or(of_text);
            if let Some(signature) = word("signature") {
                let part = json!({"text": thought.text, "thought": true, "thoughtSignature": signature});
                self.push(MODEL, part);
            }
        }
        match of_text {
            Some(signature) => self.push(MODEL, json!({"text": turn.text, "thoughtSignature": signature})),
            None => self.say(MODEL, &turn.text),
        }
        for (at, call) in turn.calls.iter().enumerate() {
            let extra = |name: &str| call.extra.as_ref()?.get(name)?.as_str();
            let mut sent = json!({"name": call.name, "args": call.args});
            if let Some(id) = extra("id") {
                self.ids.insert(&call.id, id);
                sent["id"] = id.into();
            }
            let mut part = json!({"functionCall": sent});
            // Of calls made at once only the first one is signed.
            let unsigned = (at == 0 && self.model.wants_signatures()).then_some(UNSIGNED);
            if let Some(signature) = extra("thoughtSignature").filter(|_| signs).or(unsigned) {
                part["thoughtSignature"] = signature.into();
            }
            self.push(MODEL, part);
        }
    }

    fn say(&mut self, who: &'static str, text: &str) {
        if !text.is_empty() {
            self.push(who, json!({"text": text}));
        }
    }

    fn push(&mut self, who: &'static str, part: Value) {
        match self.contents.last_mut() {
            Some((speaker, parts)) if *speaker == who => parts.push(part),
            _ => self.contents.push((who, vec![part])),
        }
    }

    pub(super) fn into_contents(mut self) -> Value {
        if self.contents.is_empty() {
            self.say(PERSON, OPENING);
        }
        let contents = self.contents.into_iter();
        contents
            .map(|(who, parts)| json!({"role": who, "parts": parts}))
            .collect()
    }
}
