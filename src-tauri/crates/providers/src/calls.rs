//! Puts tool calls together from the pieces in which servers stream them.
//!
//! By the format, a piece has the `index` of its call, and the first one of each call also its `id` and name. Servers
//! leave out any of these, send them late, give two calls one index, or repeat them in every piece
//! (agno-agi/agno#8879, openai/codex#7517, AstrBotDevs/AstrBot#6692, SillyTavern#3931, continuedev/continue#13225).
//! A piece goes where it can only belong; where it could belong to two calls, the answer is an error: a tool that runs
//! with another call's arguments is worse than one that does not run.

use serde_json::{Map, Value};

use crate::tools::shown;

/// Most calls in one round, and most bytes of arguments of all of them. What people's tools take is far below.
const MAX_CALLS: usize = 128;
const MAX_ARGUMENTS: usize = 1 << 20;
/// Longest id or name taken from a server, in bytes.
const MAX_WORD: usize = 200;

/// A part of a tool call, as the server cut it. Empty words count as absent.
#[derive(Debug, Clone, Default)]
pub(crate) struct Piece {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) arguments: String,
    /// What Gemini wants to see again: `extra_content`.
    pub(crate) extra: Option<Value>,
}

/// A whole call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// The server's, if it gave one that no other call has.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) extra: Option<Value>,
}

impl Call {
    /// The arguments as an object; the error is for the model to read.
    pub(crate) fn args(&self) -> Result<Map<String, Value>, String> {
        let text = self.arguments.trim();
        if text.is_empty() {
            return Ok(Map::new());
        }
        let wrong = |why: String| {
            format!(
                "The arguments of \"{}\" are {why}. Call it again with one JSON object.",
                shown(&self.name)
            )
        };
        let mut value: Value = serde_json::from_str(text).map_err(|error| wrong(format!("not valid JSON: {error}")))?;
        // Some servers encode twice.
        if let Value::String(inner) = &value {
            value = serde_json::from_str(inner).map_err(|error| wrong(format!("not valid JSON: {error}")))?;
        }
        match value {
            Value::Object(map) => Ok(map),
            Value::Null => Ok(Map::new()),
            _ => Err(wrong("JSON, but not an object".into())),
        }
    }
}

/// Follows arguments to the end of their object, so that no piece makes the whole be read again.
#[derive(Debug, Clone, Copy, Default)]
struct Scan {
    depth: u32,
    in_string: bool,
    escaped: bool,
    complete: bool,
}

impl Scan {
    fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.complete |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

#[derive(Debug, Default)]
struct Slot {
    index: Option<u64>,
    /// The place in the list of calls, where that is not its index anyway and no other call has it.
    place: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
    scan: Scan,
    extra: Option<Value>,
}

impl Slot {
    fn claims(&self, index: u64) -> bool {
        self.index == Some(index) || self.place == Some(index)
    }

    fn complete(&self) -> bool {
        self.scan.complete
    }
}

enum Target {
    Known(usize),
    New,
    Nothing,
}

/// The calls of one round so far.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls {
    slots: Vec<Slot>,
    bytes: usize,
    /// Why they cannot be told apart. Nothing is taken after that.
    wrong: Option<String>,
}

impl ToolCalls {
    pub(crate) fn add(&mut self, piece: Piece) {
        if self.wrong.is_none()
            && let Err(why) = self.place(piece)
        {
            self.wrong = Some(why);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.wrong.is_none()
    }

    /// Whether the arguments of every call have come to their end, as far as that can be seen.
    pub(crate) fn all_complete(&self) -> bool {
        self.slots.iter().all(Slot::complete)
    }

    /// The arguments so far of the first call of this name.
    pub(crate) fn arguments_of(&self, name: &str) -> Option<&str> {
        self.slots
            .iter()
            .find(|slot| slot.name == name)
            .map(|slot| slot.arguments.as_str())
    }

    /// All calls in order of appearance, or why they cannot be told apart.
    pub(crate) fn finish(self) -> Result<Vec<Call>, String> {
        if let Some(why) = self.wrong {
            return Err(why);
        }
        let mut calls: Vec<Call> = Vec::with_capacity(self.slots.len());
        for slot in self.slots {
            if slot.name.is_empty() {
                match slot.arguments.trim().is_empty() {
                    true => continue,
                    false => return Err("arguments of a tool call whose name never came".into()),
                }
            }
            let taken = calls.iter().any(|call| call.id == slot.id);
            calls.push(Call {
                id: slot.id.filter(|_| !taken),
                name: slot.name,
                arguments: slot.arguments,
                extra: slot.extra,
            });
        }
        Ok(calls)
    }

    fn place(&mut self, piece: Piece) -> Result<(), String> {
        self.bytes += piece.arguments.len();
        if self.bytes > MAX_ARGUMENTS {
            return Err(format!("more than {MAX_ARGUMENTS} bytes of arguments for tool calls"));
        }
        for word in [&piece.id, &piece.name].into_iter().flatten() {
            if word.len() > MAX_WORD {
                return Err(format!("a tool call whose id or name is longer than {MAX_WORD} bytes"));
            }
        }
        let at = match self.target(&piece)? {
            Target::Nothing => return Ok(()),
            Target::Known(at) => at,
            Target::New => {
                if self.slots.len() == MAX_CALLS {
                    return Err(format!("more than {MAX_CALLS} tool calls at once"));
                }
                let place = self.slots.len() as u64;
                let free = !self.slots.iter().any(|slot| slot.claims(place)) && piece.index != Some(place);
                let collides = piece
                    .index
                    .is_none_or(|index| self.slots.iter().any(|slot| slot.claims(index)));
                self.slots.push(Slot {
                    index: piece.index,
                    place: (free && collides).then_some(place),
                    ..Slot::default()
                });
                self.slots.len() - 1
            }
        };
        append(&mut self.slots[at], piece)
    }

    fn target(&self, piece: &Piece) -> Result<Target, String> {
        match (&piece.id, piece.index) {
            (Some(id), _) => self.by_id(id, piece),
            (None, Some(index)) => self.by_index(index, piece),
            (None, None) => self.by_order(piece),
        }
    }

    fn by_id(&self, id: &str, piece: &Piece) -> Result<Target, String> {
        let same_id = |slot: &Slot| slot.id.as_deref() == Some(id);
        let same_place = |slot: &Slot| piece.index.is_some_and(|index| slot.claims(index));
        let known = self
            .slots
            .iter()
            .rposition(|slot| same_id(slot) && same_place(slot))
            .or_else(|| self.slots.iter().rposition(same_id));
        if let Some(at) = known {
            let slot = &self.slots[at];
            let other_place = piece.index.is_some() && slot.index.is_some() && !same_place(slot);
            let other_name = piece.name.as_ref().is_some_and(|name| *name != slot.name);
            // A server that gives every call the same id.
            let another = slot.complete() && piece.name.is_some() && (other_place || other_name);
            return Ok(match another && !slot.name.is_empty() {
                true => Target::New,
                false => Target::Known(at),
            });
        }
        // The id may come late: after the name, or after the first arguments.
        let waiting = match piece.index {
            Some(_) => self.slots.iter().rposition(same_place),
            None => self
                .slots
                .iter()
                .rposition(|slot| slot.id.is_none() && slot.name.is_empty()),
        };
        let Some(at) = waiting else { return Ok(Target::New) };
        let slot = &self.slots[at];
        let same_name = piece
            .name
            .as_ref()
            .is_none_or(|name| slot.name.is_empty() || *name == slot.name);
        let begun_anew = slot.complete() && piece.name.is_some() && !slot.name.is_empty();
        if slot.id.is_none() && same_name && !begun_anew {
            return Ok(Target::Known(at));
        }
        match &piece.name {
            Some(_) => Ok(Target::New),
            None => Err("a piece of a tool call that has one call's index and an id of its own".into()),
        }
    }

    fn by_index(&self, index: u64, piece: &Piece) -> Result<Target, String> {
        let claimants: Vec<usize> = (0..self.slots.len())
            .filter(|at| self.slots[*at].claims(index))
            .collect();
        let Some(name) = &piece.name else {
            return match claimants.as_slice() {
                [] if piece.arguments.trim().is_empty() => Ok(Target::Nothing),
                [] => Ok(Target::New),
                [at] => Ok(Target::Known(*at)),
                several => self.only_incomplete(several, piece),
            };
        };
        let open: Vec<usize> = claimants
            .iter()
            .copied()
            .filter(|at| !self.slots[*at].complete() || self.slots[*at].name.is_empty())
            .collect();
        match open.as_slice() {
            [] => {
                // A whole call said twice is one call.
                let said = claimants.iter().any(|at| {
                    let slot = &self.slots[*at];
                    slot.name == *name && (slot.arguments == piece.arguments || piece.arguments.trim().is_empty())
                });
                Ok(if said { Target::Nothing } else { Target::New })
            }
            [at] => {
                let slot = &self.slots[*at];
                let grows = slot.arguments.is_empty() && (slot.id.is_some() || name.starts_with(&slot.name));
                match slot.name.is_empty() || slot.name == *name || grows {
                    true => Ok(Target::Known(*at)),
                    false => {
                        Err("two tool calls with one index, the second begun before the first was complete".into())
                    }
                }
            }
            _ => Err("a piece that could belong to more than one tool call".into()),
        }
    }

    fn by_order(&self, piece: &Piece) -> Result<Target, String> {
        let Some(last) = self.slots.last() else {
            return Ok(match piece.name.is_none() && piece.arguments.trim().is_empty() {
                true => Target::Nothing,
                false => Target::New,
            });
        };
        let at = self.slots.len() - 1;
        let Some(name) = &piece.name else {
            if piece.arguments.is_empty() && piece.extra.is_some() {
                return Ok(Target::Known(at));
            }
            let all: Vec<usize> = (0..self.slots.len()).collect();
            return self.only_incomplete(&all, piece);
        };
        Ok(
            match last.name.is_empty() || (last.name == *name && !last.complete() && last.id.is_none()) {
                true => Target::Known(at),
                false => Target::New,
            },
        )
    }

    /// For arguments without an id: the one call among these that still lacks some.
    fn only_incomplete(&self, among: &[usize], piece: &Piece) -> Result<Target, String> {
        if piece.arguments.trim().is_empty() {
            return Ok(Target::Nothing);
        }
        let open: Vec<usize> = among.iter().copied().filter(|at| !self.slots[*at].complete()).collect();
        match open.as_slice() {
            [at] => Ok(Target::Known(*at)),
            [] => Err("arguments after all tool calls were complete".into()),
            _ => Err("a piece that could belong to more than one tool call".into()),
        }
    }
}

fn append(slot: &mut Slot, piece: Piece) -> Result<(), String> {
    if slot.index.is_none() && slot.place.is_none() {
        slot.index = piece.index;
    }
    if slot.id.is_none() {
        slot.id = piece.id;
    }
    if let Some(name) = piece.name.filter(|name| *name != slot.name) {
        // Whole so far, or the next part of it.
        match name.starts_with(&slot.name) {
            true => slot.name = name,
            false => slot.name.push_str(&name),
        }
        if slot.name.len() > MAX_WORD {
            return Err(format!("a tool call whose name is longer than {MAX_WORD} bytes"));
        }
    }
    slot.extra = piece.extra.or(slot.extra.take());
    if piece.arguments.is_empty() {
        return Ok(());
    }
    if slot.complete() {
        let (have, more) = (slot.arguments.trim(), piece.arguments.trim());
        if more.is_empty() || more == have {
            return Ok(());
        }
        // Some translate a call's beginning as empty arguments.
        if have == "{}" && more.starts_with('{') {
            slot.arguments.clear();
            slot.scan = Scan::default();
        } else {
            return Err(format!(
                "more arguments for the tool call \"{}\" after they were complete",
                shown(&slot.name)
            ));
        }
    }
    slot.scan.feed(&piece.arguments);
    slot.arguments.push_str(&piece.arguments);
    Ok(())
}

#[cfg(test)]
mod tests;
