//! Reads the events of Responses, and whole answers.
//!
//! Each thing comes up to three times: in pieces, whole at the end of its item, and whole again at the end of the answer.
//! What has come in pieces is not taken again; servers that leave out the pieces are read all the same.

use serde_json::{Value, json};

use super::talk::{ENCRYPTED, PLAIN};
use crate::calls::Piece;
use crate::error::{cut, error_in};
use crate::progress::{Progress, count};
use crate::wire::{Next, Reader, Thought, Wrong};
use crate::{Event, Usage};

/// Most items of one answer that are kept apart; those after it are passed over.
const MAX_ITEMS: usize = 4096;
/// Longest id of an item that is kept, in bytes.
const MAX_ID: usize = 200;

#[derive(Default)]
pub(super) struct Events {
    items: Vec<Seen>,
    /// Text has come since the last message was whole.
    text_came: bool,
}

/// What has come of one item.
#[derive(Default)]
struct Seen {
    /// Its place in the answer, and its id: some servers leave one out, and some change the id between events.
    place: Option<u64>,
    id: Option<String>,
    /// Text or thinking has come.
    any: bool,
    /// For a summary: the number of the part that came last.
    part: Option<u64>,
    /// For a call: which one it is, and whether any of its arguments have come.
    call: Option<(u64, bool)>,
    whole: bool,
}

impl Reader for Events {
    fn read(
        &mut self,
        name: &str,
        value: &Value,
        progress: &mut Progress,
        out: &mut Vec<Event>,
    ) -> Result<Next, Wrong> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = match text("type") {
            "" => name,
            kind => kind,
        };
        match kind {
            "error" => return Err(Wrong::Reported(value.clone())),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.seen(value).any = true;
                self.text_came = true;
                progress.text(text("delta"), out);
            }
            "response.reasoning_summary_text.delta" => {
                let seen = self.seen(value);
                let part = value.get("summary_index").and_then(Value::as_u64);
                let another = seen.any && part != seen.part && !text("delta").is_empty();
                (seen.any, seen.part) = (true, part);
                let mark = key_of(value);
                if another {
                    progress.think("\n\n", mark.clone(), out);
                }
                progress.think(text("delta"), mark, out);
            }
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                self.seen(value).any = true;
                progress.think(text("delta"), PLAIN.into(), out);
            }
            "response.output_item.added" => {
                if let Some(item) = value.get("item") {
                    let at = self.find(value, Some(item), true);
                    if item.get("type").is_some_and(|kind| kind == "function_call") {
                        self.begin_call(at, item, progress, out);
                    }
                }
            }
            "response.function_call_arguments.delta" => {
                let at = self.find(value, None, false);
                self.arguments(at, text("delta"), false, progress, out);
            }
            "response.function_call_arguments.done" => {
                let at = self.find(value, None, false);
                self.arguments(at, text("arguments"), true, progress, out);
            }
            "response.output_item.done" => {
                if let Some(item) = value.get("item") {
                    self.whole(value, item, progress, out);
                }
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                about(value.get("response").unwrap_or(value), progress);
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                let ended = kind.strip_prefix("response.").unwrap_or_default();
                return self.end(ended, value.get("response").unwrap_or(value), progress, out);
            }
            // An answer in one piece.
            _ if value.get("output").is_some_and(Value::is_array) => {
                return self.end("completed", value, progress, out);
            }
            _ => {}
        }
        Ok(Next::More)
    }
}

impl Events {
    /// The item that an event is about: a known one, or a new one. An event that names none is about the last one, unless
    /// it is one that begins an item.
    fn find(&mut self, event: &Value, item: Option<&Value>, begins: bool) -> usize {
        let place = event.get("output_index").and_then(Value::as_u64);
        let id = event
            .get("item_id")
            .or_else(|| item?.get("id"))
            .and_then(Value::as_str)
            .filter(|id| !id.is_empty());
        let known = self.items.iter().position(|seen| match (place, seen.place) {
            (Some(place), Some(known)) => place == known,
            _ => id.is_some() && seen.id.as_deref() == id,
        });
        let nameless = place.is_none() && id.is_none() && !begins;
        match (known, self.items.len().checked_sub(1)) {
            (Some(at), _) => at,
            (None, Some(last)) if nameless || last + 1 >= MAX_ITEMS => last,
            (None, _) => {
                self.items.push(Seen {
                    place,
                    id: id.map(|id| cut(id, MAX_ID).to_owned()),
                    ..Seen::default()
                });
                self.items.len() - 1
            }
        }
    }

    fn seen(&mut self, event: &Value) -> &mut Seen {
        let at = self.find(event, None, false);
        &mut self.items[at]
    }

    fn begin_call(&mut self, at: usize, item: &Value, progress: &mut Progress, out: &mut Vec<Event>) {
        if self.items[at].call.is_some() {
            return;
        }
        let number = self.items.iter().filter(|seen| seen.call.is_some()).count() as u64;
        let arguments = arguments_in(item);
        self.items[at].call = Some((number, !arguments.is_empty()));
        let word = |name: &str| item.get(name).and_then(Value::as_str).filter(|word| !word.is_empty());
        let piece = Piece {
            index: Some(number),
            id: word("call_id").or_else(|| word("id")).map(str::to_owned),
            name: word("name").map(str::to_owned),
            arguments,
            extra: None,
        };
        progress.call(piece, out);
    }

    /// A piece of a call's arguments, or all of them, which are taken where no piece has come.
    fn arguments(&mut self, at: usize, text: &str, all: bool, progress: &mut Progress, out: &mut Vec<Event>) {
        let Some((number, any)) = &mut self.items[at].call else {
            return;
        };
        if text.is_empty() || (all && *any) {
            return;
        }
        *any = true;
        let piece = Piece {
            index: Some(*number),
            arguments: text.to_owned(),
            ..Piece::default()
        };
        progress.call(piece, out);
    }

    fn whole(&mut self, event: &Value, item: &Value, progress: &mut Progress, out: &mut Vec<Event>) {
        let at = self.find(event, Some(item), false);
        if std::mem::replace(&mut self.items[at].whole, true) {
            return;
        }
        let came = std::mem::replace(&mut self.items[at].any, true);
        match item.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message" => {
                let came = std::mem::take(&mut self.text_came) || came;
                for part in list(item, "content").filter(|_| !came) {
                    let text = ["text", "refusal"].iter().find_map(|name| part.get(*name)?.as_str());
                    progress.text(text.unwrap_or_default(), out);
                }
            }
            "reasoning" => {
                let mark = key_of(event);
                if !came {
                    let texts = |name| list(item, name).filter_map(|part| part.get("text")?.as_str());
                    let plain: String = texts("content").collect();
                    progress.think(plain, PLAIN.into(), out);
                    let summary: Vec<&str> = texts("summary").collect();
                    progress.think(summary.join("\n\n"), mark.clone(), out);
                }
                let sealed = item
                    .get("encrypted_content")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                if !sealed.is_empty() {
                    let sealed = json!({ENCRYPTED: sealed});
                    match progress.thinking.iter_mut().rev().find(|thought| thought.mark == mark) {
                        Some(thought) => thought.mark = sealed,
                        None => progress.thinking.push(Thought {
                            text: String::new(),
                            mark: sealed,
                        }),
                    }
                }
            }
            "function_call" => {
                self.begin_call(at, item, progress, out);
                self.arguments(at, &arguments_in(item), true, progress, out);
            }
            _ => {}
        }
    }

    fn end(
        &mut self,
        ended: &str,
        response: &Value,
        progress: &mut Progress,
        out: &mut Vec<Event>,
    ) -> Result<Next, Wrong> {
        about(response, progress);
        let status = response.get("status").and_then(Value::as_str).unwrap_or(ended);
        if status == "failed" || error_in(response).is_some() {
            return Err(Wrong::Reported(response.clone()));
        }
        // Everything once more, for servers that sent nothing else, or no calls.
        let (nothing, no_calls) = (!progress.any, progress.calls.is_empty());
        for (place, item) in list(response, "output").enumerate() {
            if nothing || (no_calls && item.get("type").is_some_and(|kind| kind == "function_call")) {
                self.whole(&json!({"output_index": place}), item, progress, out);
            }
        }
        if let Some(usage) = response.get("usage").filter(|usage| usage.is_object()) {
            progress.usage = read_usage(usage);
        }
        let why = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        if why == Some("content_filter") && !progress.any {
            return Err(Wrong::Refused("its content filter stopped the answer".into()));
        }
        match status {
            "completed" | "done" | "" => progress.set_finish("completed", false),
            "incomplete" => progress.set_finish(why.unwrap_or("incomplete"), true),
            other => progress.set_finish(other, true),
        }
        Ok(Next::Last)
    }
}

/// What marks the thoughts of an item until it is known what they are sent back with.
fn key_of(event: &Value) -> Value {
    let key = event.get("output_index").or_else(|| event.get("item_id"));
    json!({"item": key})
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn arguments_in(item: &Value) -> String {
    match item.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(object) => object.to_string(),
    }
}

fn about(response: &Value, progress: &mut Progress) {
    let text = |name: &str| response.get(name).and_then(Value::as_str).unwrap_or_default();
    progress.set_id(text("id"));
    progress.set_model(text("model"));
}

fn read_usage(usage: &Value) -> Usage {
    let cache_read = count(usage, "/input_tokens_details/cached_tokens").unwrap_or(0);
    let cost = usage
        .get("cost")
        .and_then(Value::as_f64)
        .filter(|cost| cost.is_finite() && *cost >= 0.0);
    Usage {
        input: count(usage, "/input_tokens").unwrap_or(0).saturating_sub(cache_read),
        output: count(usage, "/output_tokens").unwrap_or(0),
        reasoning: count(usage, "/output_tokens_details/reasoning_tokens"),
        cache_read,
        cache_write: count(usage, "/input_tokens_details/cache_write_tokens").unwrap_or(0),
        cost_total: cost.unwrap_or(0.0),
        priced: cost.is_some(),
    }
}
