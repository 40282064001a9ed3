//! Reads the events of Anthropic's stream, and its answers in one piece.

use serde_json::{Value, json};

use crate::calls::Piece;
use crate::progress::{Progress, count};
use crate::wire::{Next, Reader, Thought, Wrong};
use crate::{Event, Usage};

/// What an answer consists of is numbered blocks, each of one kind.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Those that are not ended yet, by their number.
    open: Vec<(u64, Block)>,
    /// Tool calls begun so far, which numbers them: some servers give every block the number 0.
    calls: u64,
    /// Bytes of text so far.
    text: usize,
}

#[derive(Debug)]
enum Block {
    Text,
    /// Its place in `progress.thinking`.
    Thought(usize),
    Call {
        number: u64,
        /// The arguments as the block's beginning had them; they count when nothing follows.
        input: Value,
        /// Any of its arguments has come.
        begun: bool,
    },
    /// What the server does by itself, such as a search; its arguments are no call of ours.
    Other,
}

/// Most blocks that are open at once. They come one after another; this bounds what a hostile stream can pile up.
const MAX_OPEN: usize = 256;

impl Reader for Blocks {
    fn read(
        &mut self,
        name: &str,
        value: &Value,
        progress: &mut Progress,
        out: &mut Vec<Event>,
    ) -> Result<Next, Wrong> {
        let kind = match word(value, "type") {
            "" => name,
            kind => kind,
        };
        match kind {
            "message_start" => self.head(value.get("message").unwrap_or(&Value::Null), progress),
            "content_block_start" => {
                let block = value.get("content_block").unwrap_or(&Value::Null);
                self.start(index(value), block, progress, out);
            }
            "content_block_delta" => {
                let delta = value.get("delta").unwrap_or(&Value::Null);
                self.delta(index(value), delta, progress, out);
            }
            "content_block_stop" => self.stop(index(value), progress, out),
            "message_delta" => {
                self.usage(value, progress);
                self.finish(value.get("delta").unwrap_or(&Value::Null), progress, out)?;
            }
            "message_stop" => {
                if progress.finish_reason.is_none() {
                    progress.set_finish("message_stop", false);
                }
                return Ok(Next::Last);
            }
            // The whole answer in one piece.
            "message" => {
                self.head(value, progress);
                let blocks = value.get("content").and_then(Value::as_array);
                for (at, block) in blocks.into_iter().flatten().enumerate() {
                    self.start(Some(at as u64), block, progress, out);
                    self.stop(Some(at as u64), progress, out);
                }
                self.finish(value, progress, out)?;
            }
            "error" => return Err(Wrong::Reported(value.clone())),
            // `ping`, and what is yet to be invented.
            _ => {}
        }
        Ok(Next::More)
    }
}

impl Blocks {
    fn head(&mut self, message: &Value, progress: &mut Progress) {
        progress.set_id(word(message, "id"));
        progress.set_model(word(message, "model"));
        self.usage(message, progress);
    }

    fn start(&mut self, index: Option<u64>, block: &Value, progress: &mut Progress, out: &mut Vec<Event>) {
        let index = index.unwrap_or(self.open.len() as u64);
        self.open.retain(|(other, _)| *other != index);
        if self.open.len() >= MAX_OPEN {
            self.open.remove(0);
        }
        let begun = match word(block, "type") {
            "text" => {
                self.say(word(block, "text"), progress, out);
                Block::Text
            }
            "thinking" => {
                let at = self.thought(json!({"signature": word(block, "signature")}), progress);
                think(at, word(block, "thinking"), progress, out);
                Block::Thought(at)
            }
            "redacted_thinking" => {
                self.thought(json!({"redacted": word(block, "data")}), progress);
                Block::Other
            }
            "tool_use" => {
                let number = self.calls;
                self.calls += 1;
                let given = |name: &str| {
                    Some(word(block, name))
                        .filter(|word| !word.is_empty())
                        .map(str::to_owned)
                };
                let piece = Piece {
                    index: Some(number),
                    id: given("id"),
                    name: given("name"),
                    ..Piece::default()
                };
                progress.call(piece, out);
                Block::Call {
                    number,
                    input: block.get("input").cloned().unwrap_or_default(),
                    begun: false,
                }
            }
            _ => Block::Other,
        };
        self.open.push((index, begun));
    }

    fn delta(&mut self, index: Option<u64>, delta: &Value, progress: &mut Progress, out: &mut Vec<Event>) {
        let block = match index {
            Some(index) => self.open.iter_mut().find(|(open, _)| *open == index),
            None => self.open.last_mut(),
        };
        let block = block.map(|(_, block)| block);
        match word(delta, "type") {
            "text_delta" => self.say(word(delta, "text"), progress, out),
            "thinking_delta" => {
                let at = match block {
                    Some(Block::Thought(at)) => *at,
                    _ => self.begin_thought(index, progress),
                };
                think(at, word(delta, "thinking"), progress, out);
            }
            "signature_delta" => {
                if let Some(Block::Thought(at)) = block
                    && let Some(thought) = progress.thinking.get_mut(*at)
                {
                    let signature = word(&thought.mark, "signature").to_owned() + word(delta, "signature");
                    thought.mark["signature"] = signature.into();
                }
            }
            "input_json_delta" => {
                let arguments = word(delta, "partial_json");
                let number = match block {
                    Some(Block::Call { number, begun, .. }) => {
                        *begun |= !arguments.trim().is_empty();
                        Some(*number)
                    }
                    Some(_) => return,
                    // Its beginning never came.
                    None => None,
                };
                if !arguments.is_empty() {
                    let piece = Piece {
                        index: number,
                        arguments: arguments.to_owned(),
                        ..Piece::default()
                    };
                    progress.call(piece, out);
                }
            }
            // `citations_delta`, and what is yet to be invented.
            _ => {}
        }
    }

    fn stop(&mut self, index: Option<u64>, progress: &mut Progress, out: &mut Vec<Event>) {
        let at = match index {
            Some(index) => self.open.iter().position(|(open, _)| *open == index),
            None => self.open.len().checked_sub(1),
        };
        if let Some(at) = at {
            let (_, block) = self.open.remove(at);
            close(block, progress, out);
        }
    }

    fn finish(&mut self, said: &Value, progress: &mut Progress, out: &mut Vec<Event>) -> Result<(), Wrong> {
        let reason = word(said, "stop_reason");
        if reason.is_empty() {
            return Ok(());
        }
        // A paused turn waits for the request to be sent again with what the server's own tools found.
        let cut_short = matches!(
            reason,
            "max_tokens" | "model_context_window_exceeded" | "pause_turn" | "refusal"
        );
        if !cut_short {
            for (_, block) in std::mem::take(&mut self.open) {
                close(block, progress, out);
            }
        }
        if reason == "refusal" && self.text == 0 && progress.calls.is_empty() {
            let why = said.pointer("/stop_details/explanation").and_then(Value::as_str);
            let why = why.map(str::trim).filter(|why| !why.is_empty());
            return Err(Wrong::Refused(why.unwrap_or("it declined to answer this").to_owned()));
        }
        progress.set_finish(reason, cut_short);
        Ok(())
    }

    fn say(&mut self, text: &str, progress: &mut Progress, out: &mut Vec<Event>) {
        self.text += text.len();
        progress.text(text, out);
    }

    /// Remembers a piece of thinking, and how much text came before it: thinking has to go back in its place.
    fn thought(&self, mut mark: Value, progress: &mut Progress) -> usize {
        if self.text > 0 {
            mark["after"] = self.text.into();
        }
        progress.any = true;
        progress.thinking.push(Thought {
            text: String::new(),
            mark,
        });
        progress.thinking.len() - 1
    }

    /// Thinking whose beginning never came.
    fn begin_thought(&mut self, index: Option<u64>, progress: &mut Progress) -> usize {
        let at = self.thought(json!({"signature": ""}), progress);
        let index = index.unwrap_or(self.open.len() as u64);
        self.open.retain(|(other, _)| *other != index);
        if self.open.len() >= MAX_OPEN {
            self.open.remove(0);
        }
        self.open.push((index, Block::Thought(at)));
        at
    }

    /// Counts grow in the course of an answer, and what is not said again stays.
    fn usage(&mut self, holder: &Value, progress: &mut Progress) {
        let Some(said) = holder.get("usage") else { return };
        let known = progress.usage;
        let newer = |path: &str, known: u64| count(said, path).filter(|n| *n > 0).unwrap_or(known);
        let split = || {
            let parts = [
                "/cache_creation/ephemeral_5m_input_tokens",
                "/cache_creation/ephemeral_1h_input_tokens",
            ];
            parts
                .iter()
                .filter_map(|path| count(said, path))
                .fold(0, u64::saturating_add)
        };
        let written = count(said, "/cache_creation_input_tokens").unwrap_or_else(split);
        progress.usage = Usage {
            input: newer("/input_tokens", known.input),
            output: newer("/output_tokens", known.output),
            reasoning: count(said, "/output_tokens_details/thinking_tokens").or(known.reasoning),
            cache_read: newer("/cache_read_input_tokens", known.cache_read),
            cache_write: if written > 0 { written } else { known.cache_write },
            ..known
        };
    }
}

/// A call without arguments has `{}`, so that it is seen to be complete.
fn close(block: Block, progress: &mut Progress, out: &mut Vec<Event>) {
    if let Block::Call {
        number,
        input,
        begun: false,
    } = block
    {
        let piece = Piece {
            index: Some(number),
            arguments: match input {
                Value::Null => "{}".into(),
                input => input.to_string(),
            },
            ..Piece::default()
        };
        progress.call(piece, out);
    }
}

fn think(at: usize, text: &str, progress: &mut Progress, out: &mut Vec<Event>) {
    if text.is_empty() {
        return;
    }
    if let Some(thought) = progress.thinking.get_mut(at) {
        thought.text.push_str(text);
        out.push(Event::Thinking(text.to_owned()));
    }
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn index(value: &Value) -> Option<u64> {
    value.get("index").and_then(Value::as_u64)
}
