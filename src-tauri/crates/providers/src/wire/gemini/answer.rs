//! Reads the answers of Gemini: each event is a whole answer with the next parts in it, and so is an answer in one piece,
//! or a list of them.

use serde_json::{Map, Value, json};

use crate::Event;
use crate::calls::Piece;
use crate::progress::{Progress, count};
use crate::wire::{Next, Reader, Thought, Wrong};

#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Calls so far, which numbers them; the format itself gives them neither number nor, mostly, an id.
    calls: u64,
    /// Any text has come.
    text: bool,
}

impl Reader for Candidates {
    fn read(
        &mut self,
        _name: &str,
        value: &Value,
        progress: &mut Progress,
        out: &mut Vec<Event>,
    ) -> Result<Next, Wrong> {
        match value {
            // Some gateways put the list that they get into one event.
            Value::Array(list) => {
                for part in list {
                    if part.get("error").is_some_and(|error| !error.is_null()) {
                        return Err(Wrong::Reported(part.clone()));
                    }
                    self.answer(part, progress, out)?;
                }
            }
            value => self.answer(value, progress, out)?,
        }
        Ok(Next::More)
    }
}

impl Candidates {
    fn answer(&mut self, value: &Value, progress: &mut Progress, out: &mut Vec<Event>) -> Result<(), Wrong> {
        progress.set_id(word(value, "responseId"));
        progress.set_model(word(value, "modelVersion"));
        if let Some(usage) = value.get("usageMetadata") {
            read_usage(usage, progress);
        }
        // Only one answer is ever asked for.
        let candidates = value.get("candidates").and_then(Value::as_array);
        let candidate = candidates.and_then(|candidates| {
            let first = candidates
                .iter()
                .find(|one| one.get("index").is_none_or(|index| *index == 0));
            first.or_else(|| candidates.first())
        });
        let Some(candidate) = candidate else {
            let blocked = value.pointer("/promptFeedback/blockReason").and_then(Value::as_str);
            return match blocked {
                Some(reason) => {
                    let more = value
                        .pointer("/promptFeedback/blockReasonMessage")
                        .and_then(Value::as_str);
                    Err(Wrong::Refused(because("a filter blocked the request", reason, more)))
                }
                None => Ok(()),
            };
        };
        if candidate
            .get("index")
            .is_some_and(|index| *index != 0 && index.is_u64())
        {
            return Ok(());
        }
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.part(part, progress, out);
        }
        self.finish(candidate, progress)
    }

    fn part(&mut self, part: &Value, progress: &mut Progress, out: &mut Vec<Event>) {
        let signature = part
            .get("thoughtSignature")
            .and_then(Value::as_str)
            .filter(|signature| !signature.is_empty());
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            return self.call(call, signature, progress, out);
        }
        // Pictures, and code that the server runs by itself, have no text.
        let Some(text) = part.get("text").and_then(Value::as_str) else {
            return;
        };
        if part.get("thought").is_some_and(|thought| *thought == true) {
            let mark = signature.map_or(Value::Null, |signature| json!({"signature": signature}));
            return progress.think(text, mark, out);
        }
        self.text |= !text.is_empty();
        progress.text(text, out);
        // It may come alone, on an empty text.
        if let Some(signature) = signature {
            progress.thinking.push(Thought {
                text: String::new(),
                mark: json!({"textSignature": signature}),
            });
        }
    }

    fn call(&mut self, call: &Value, signature: Option<&str>, progress: &mut Progress, out: &mut Vec<Event>) {
        let given = |name: &str| {
            Some(word(call, name))
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
        };
        let mut extra = Map::new();
        extra.extend(given("id").map(|id| ("id".to_owned(), id.into())));
        extra.extend(signature.map(|signature| ("thoughtSignature".to_owned(), signature.into())));
        let piece = Piece {
            index: Some(self.calls),
            id: given("id"),
            name: given("name"),
            arguments: match call.get("args") {
                None | Some(Value::Null) => "{}".into(),
                Some(args) => args.to_string(),
            },
            extra: (!extra.is_empty()).then_some(Value::Object(extra)),
        };
        self.calls += 1;
        progress.call(piece, out);
    }

    fn finish(&mut self, candidate: &Value, progress: &mut Progress) -> Result<(), Wrong> {
        let reason = word(candidate, "finishReason");
        let more = candidate.get("finishMessage").and_then(Value::as_str);
        let nothing = !self.text && progress.calls.is_empty();
        match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => {}
            "STOP" => progress.set_finish(reason, false),
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "LANGUAGE"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
                if nothing =>
            {
                return Err(Wrong::Refused(because("a filter stopped the answer", reason, more)));
            }
            // The model went wrong in calling a tool, and nothing of its answer is left.
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE"
            | "MISSING_THOUGHT_SIGNATURE"
                if nothing =>
            {
                let message = because("the model's answer could not be used", reason, more);
                return Err(Wrong::Reported(json!({"error": {"message": message, "code": reason}})));
            }
            _ => progress.set_finish(reason, true),
        }
        Ok(())
    }
}

fn because(what: &str, reason: &str, more: Option<&str>) -> String {
    match more.map(str::trim).filter(|more| !more.is_empty()) {
        Some(more) => format!("{what} ({reason}): {more}"),
        None => format!("{what} ({reason})"),
    }
}

/// Counts grow in the course of an answer, and what is not said again stays.
fn read_usage(said: &Value, progress: &mut Progress) {
    let cached = count(said, "/cachedContentTokenCount").unwrap_or(progress.usage.cache_read);
    let usage = &mut progress.usage;
    if let Some(prompt) = count(said, "/promptTokenCount") {
        let tools = count(said, "/toolUsePromptTokenCount").unwrap_or(0);
        usage.input = prompt.saturating_add(tools).saturating_sub(cached);
    }
    usage.cache_read = cached;
    // Thinking is paid for as output, and counted apart from it.
    let before = usage.output.saturating_sub(usage.reasoning.unwrap_or(0));
    let thoughts = count(said, "/thoughtsTokenCount").or(usage.reasoning);
    let written = count(said, "/candidatesTokenCount").unwrap_or(before);
    usage.reasoning = thoughts;
    usage.output = written.saturating_add(thoughts.unwrap_or(0));
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}
