//! The conversation as Anthropic's format has it: turns of the person and of the model that take turns strictly, each a
//! list of blocks, none of them empty.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::request::Quirk;
use crate::wire::{Item, ModelTurn, Thought, ToolReply};

/// What stands first when a conversation begins with the model, which the format refuses; greetings do.
const OPENING: &str = "(The conversation begins.)";

const PERSON: &str = "user";
const MODEL: &str = "assistant";

#[derive(Debug)]
pub(super) struct Talk {
    quirk: Quirk,
    thinks: bool,
    messages: Vec<(&'static str, Vec<Value>)>,
    /// For each entry its last text: the message and the block in it.
    places: Vec<Option<(usize, usize)>>,
    /// The names of the tools that are called in it.
    pub(super) called: BTreeSet<String>,
}

impl Talk {
    pub(super) fn new(quirk: Quirk, thinks: bool) -> Self {
        Self {
            quirk,
            thinks,
            messages: Vec::new(),
            places: Vec::new(),
            called: BTreeSet::new(),
        }
    }

    pub(super) fn write(&mut self, item: &Item<'_>) {
        let place = match item {
            Item::User { text, images, .. } => {
                // Before the text, as Anthropic advises.
                for (mime, base64) in images.iter().filter_map(|image| image.inline()) {
                    let source = json!({"type": "base64", "media_type": mime, "data": base64});
                    self.push(PERSON, json!({"type": "image", "source": source}));
                }
                self.say(PERSON, text)
            }
            Item::Assistant { text } => self.say(MODEL, text),
            // A model that thinks begins its answer itself.
            Item::Prefill(_) if self.thinks || self.quirk.no_prefill => None,
            Item::Prefill(text) => self.say(MODEL, text),
            Item::Model(turn) => self.turn(turn),
            Item::Tools(replies) => {
                for reply in *replies {
                    self.push(PERSON, result(reply));
                }
                None
            }
        };
        self.places.push(place);
    }

    /// A turn with its thinking where it was, which the signatures cover.
    fn turn(&mut self, turn: &ModelTurn) -> Option<(usize, usize)> {
        let mut said = 0;
        let mut place = None;
        for thought in &turn.thinking {
            let Some(block) = thinking(thought).filter(|_| !self.quirk.no_thinking_back) else {
                continue;
            };
            let after = thought.mark.get("after").and_then(Value::as_u64).unwrap_or(0);
            let after = usize::try_from(after).unwrap_or(usize::MAX);
            if let Some(text) = turn.text.get(said..after) {
                place = self.say(MODEL, text).or(place);
                said = after;
            }
            self.push(MODEL, block);
        }
        place = self.say(MODEL, turn.text.get(said..).unwrap_or_default()).or(place);
        for call in &turn.calls {
            self.called.insert(call.name.clone());
            let id = id(&call.id);
            let block = json!({"type": "tool_use", "id": id, "name": call.name, "input": call.args});
            self.push(MODEL, block);
        }
        place
    }

    /// Blank text is refused, and says nothing.
    fn say(&mut self, who: &'static str, text: &str) -> Option<(usize, usize)> {
        (!text.trim().is_empty()).then(|| self.push(who, json!({"type": "text", "text": text})))
    }

    fn push(&mut self, who: &'static str, block: Value) -> (usize, usize) {
        match self.messages.last_mut() {
            Some((speaker, blocks)) if *speaker == who => blocks.push(block),
            _ => self.messages.push((who, vec![block])),
        }
        let message = self.messages.len() - 1;
        (message, self.messages[message].1.len() - 1)
    }

    /// Makes what the format refuses otherwise: the person begins, and white space ends no answer that is to go on.
    pub(super) fn tidy(&mut self) {
        if let Some((MODEL, blocks)) = self.messages.last_mut()
            && let Some(Value::String(text)) = blocks.last_mut().and_then(|block| block.get_mut("text"))
        {
            text.truncate(text.trim_end().len());
        }
        if self.messages.first().is_none_or(|(who, _)| *who == MODEL) {
            let opening = json!({"type": "text", "text": OPENING});
            self.messages.insert(0, (PERSON, vec![opening]));
            for (message, _) in self.places.iter_mut().flatten() {
                *message += 1;
            }
        }
    }

    pub(super) fn mark(&mut self, item: usize, control: &Value) {
        let place = self.places.get(item).copied().flatten();
        let block = place.and_then(|(message, block)| self.messages.get_mut(message)?.1.get_mut(block));
        if let Some(block) = block {
            block["cache_control"] = control.clone();
        }
    }

    pub(super) fn into_messages(self) -> Value {
        let messages = self.messages.into_iter();
        messages
            .map(|(who, blocks)| json!({"role": who, "content": blocks}))
            .collect()
    }
}

/// `None` for what another format thought.
fn thinking(thought: &Thought) -> Option<Value> {
    let word = |name: &str| thought.mark.get(name).and_then(Value::as_str);
    match (word("redacted"), word("signature")) {
        (Some(data), _) => Some(json!({"type": "redacted_thinking", "data": data})),
        (_, Some(signature)) => Some(json!({"type": "thinking", "thinking": thought.text, "signature": signature})),
        _ => None,
    }
}

fn result(reply: &ToolReply) -> Value {
    let mut block = json!({"type": "tool_result", "tool_use_id": id(&reply.id)});
    let blank = reply.text.trim().is_empty();
    if reply.is_error {
        block["is_error"] = true.into();
        // An error has to say something.
        block["content"] = if blank { "The tool failed." } else { &reply.text }.into();
    } else if !blank {
        block["content"] = reply.text.as_str().into();
    }
    block
}

/// The format takes letters, digits, `_` and `-` only; other servers' ids may have more in them.
fn id(id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    id.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}
