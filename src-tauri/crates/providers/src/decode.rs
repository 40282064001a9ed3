//! What of a JSON answer is shown while it streams (contract section 3.3, `streamDecode`): the text of some of its
//! fields, without the JSON around it. Changes live text only, never the result.

use serde::Serialize;
use serde_json::Value;

/// Most fields and most replacements (contract section 3.3).
const MAX_FIELDS: usize = 4;
const MAX_REPLACE: usize = 8;
/// Longest field name; longest `from` and `to`, in characters (contract section 3.3).
const MAX_NAME: usize = 64;
const MAX_WORD: usize = 32;
/// Deepest nesting followed (contract section 3.3).
const MAX_DEPTH: u32 = 128;
/// How much of the answer is held back, in bytes, while none of the fields has come (contract section 3.3).
const MAX_HELD: usize = 64 << 10;
/// How far behind a quotation mark is looked to tell whether it ends the text: white space, and the next key.
const MAX_SPACE: usize = 1 << 10;
const MAX_KEY: usize = 256;

/// Which fields, and what is replaced in their text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamDecode {
    fields: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    replace: Vec<Replace>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Replace {
    from: String,
    to: String,
}

impl StreamDecode {
    /// Reads `{field | fields[], replace?[{from, to}]}`: 1 to 4 names `[A-Za-z0-9_]{1,64}`, at most 8 replacements of 1
    /// to 32 characters by 0 to 32. The error says which limit is broken.
    pub fn parse(value: &Value) -> Result<Self, String> {
        let mut fields: Vec<String> = Vec::new();
        let named = value.get("field").into_iter();
        for name in named.chain(value.get("fields").and_then(Value::as_array).into_iter().flatten()) {
            let fits = |name: &&str| {
                (1..=MAX_NAME).contains(&name.len())
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            };
            let Some(name) = name.as_str().filter(fits) else {
                return Err(format!(
                    "streamDecode: a field's name has 1 to {MAX_NAME} of the characters A-Z, a-z, 0-9 and _"
                ));
            };
            if !fields.iter().any(|other| other == name) {
                fields.push(name.to_owned());
            }
        }
        if fields.is_empty() || fields.len() > MAX_FIELDS {
            return Err(format!(
                "streamDecode: name 1 to {MAX_FIELDS} fields, as field or fields"
            ));
        }
        let list = value
            .get("replace")
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice);
        if list.len() > MAX_REPLACE {
            return Err(format!("streamDecode: at most {MAX_REPLACE} replacements"));
        }
        let word = |entry: &Value, name: &str| {
            let text = entry.get(name).and_then(Value::as_str)?;
            (text.chars().count() <= MAX_WORD).then(|| text.to_owned())
        };
        let replace = list
            .iter()
            .map(|entry| {
                let from = word(entry, "from").filter(|from| !from.is_empty())?;
                Some(Replace {
                    from,
                    to: word(entry, "to")?,
                })
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| {
                format!("streamDecode: a replacement is {{from, to}}, texts of at most {MAX_WORD} characters")
            })?;
        Ok(Self { fields, replace })
    }
}

/// Decodes a growing answer. All its output together is the same however the text is cut.
///
/// Text that does not begin with `{`, or soon turns out not to be an object, passes through as it is, as does an object
/// in whose first 64 KiB none of the fields has begun. Quotation marks that a model forgot to escape count as text: one
/// that ends a field is followed by `}` or by a comma and the next key. Several fields have an empty line between them.
#[derive(Debug)]
pub struct StreamDecoder {
    fields: Vec<String>,
    replacer: Replacer,
    state: State,
    /// Text not yet taken: what follows decides what it means.
    pending: String,
    /// Text taken while nothing has been given out, for passing it through after all.
    raw: String,
    begun: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Start,
    /// Not an object: everything is given out as it is.
    Through,
    BeforeKey,
    Key(String),
    BeforeColon(String),
    BeforeValue(String),
    /// A string that is shown.
    Field,
    /// A string that is not.
    Skipped,
    Scalar,
    Nested {
        depth: u32,
        in_string: bool,
    },
    AfterValue,
    /// The object has ended, or makes no sense any more.
    Over,
}

/// What the next bit of text means.
enum Step {
    /// So many bytes are taken.
    Take(usize, State),
    /// So many bytes are taken, and this is shown.
    Show(usize, char),
    /// More text has to come first.
    Wait,
    /// This is not the JSON it seemed to be.
    Broken,
}

impl StreamDecoder {
    pub fn new(what: &StreamDecode) -> Self {
        Self {
            fields: what.fields.clone(),
            replacer: Replacer {
                rules: what.replace.clone(),
                held: String::new(),
            },
            state: State::Start,
            pending: String::new(),
            raw: String::new(),
            begun: false,
        }
    }

    /// Takes more of the answer and gives what can be shown now.
    pub fn push(&mut self, text: &str) -> String {
        self.pending.push_str(text);
        self.run(false)
    }

    /// The answer has ended: gives what was held back and can be shown.
    pub fn finish(&mut self) -> String {
        let mut out = self.run(true);
        self.pending.clear();
        self.replacer.flush(&mut out);
        out
    }

    fn run(&mut self, finished: bool) -> String {
        let mut out = String::new();
        let pending = std::mem::take(&mut self.pending);
        let mut at = 0;
        while at < pending.len() {
            if self.state == State::Through {
                out.push_str(&pending[at..]);
                return out;
            }
            let before = at;
            match self.step(&pending[at..], finished) {
                Step::Wait => break,
                Step::Take(bytes, state) => {
                    at += bytes;
                    if self.state == State::Field {
                        self.replacer.flush(&mut out);
                    }
                    if state == State::Field {
                        if std::mem::replace(&mut self.begun, true) {
                            out.push_str("\n\n");
                        }
                        self.raw = String::new();
                    }
                    self.state = state;
                }
                Step::Show(bytes, shown) => {
                    at += bytes;
                    self.replacer.push(shown, &mut out);
                }
                Step::Broken => self.give_up(&mut out),
            }
            if !self.begun && self.state != State::Through {
                self.raw.push_str(&pending[before..at]);
                if self.raw.len() > MAX_HELD {
                    self.give_up(&mut out);
                }
            }
        }
        self.pending = pending[at..].to_owned();
        out
    }

    fn give_up(&mut self, out: &mut String) {
        if self.begun {
            self.state = State::Over;
        } else {
            out.push_str(&std::mem::take(&mut self.raw));
            self.state = State::Through;
        }
    }

    /// `rest` is not empty.
    fn step(&mut self, rest: &str, finished: bool) -> Step {
        let Some(next) = rest.chars().next() else {
            return Step::Wait;
        };
        let one = next.len_utf8();
        let space = next.is_ascii_whitespace();
        match &mut self.state {
            State::Start if next.is_whitespace() => Step::Take(one, State::Start),
            State::Start if next == '{' => Step::Take(one, State::BeforeKey),
            State::Start | State::Through => Step::Broken,
            State::Over => Step::Take(rest.len(), State::Over),
            State::BeforeKey => match next {
                '"' => Step::Take(one, State::Key(String::new())),
                '}' => Step::Take(one, State::Over),
                ',' => Step::Take(one, State::BeforeKey),
                _ if space => Step::Take(one, State::BeforeKey),
                _ => Step::Broken,
            },
            State::Key(name) => match next {
                '"' => Step::Take(one, State::BeforeColon(std::mem::take(name))),
                '\\' => match rest[one..].chars().next() {
                    None => Step::Wait,
                    // No field's name has such a character.
                    Some(escaped) => Step::Take(one + escaped.len_utf8(), State::Key("\\".into())),
                },
                _ => {
                    let mut name = std::mem::take(name);
                    if name.len() <= MAX_NAME {
                        name.push(next);
                    }
                    Step::Take(one, State::Key(name))
                }
            },
            State::BeforeColon(name) => match next {
                ':' => Step::Take(one, State::BeforeValue(std::mem::take(name))),
                _ if space => Step::Take(one, State::BeforeColon(std::mem::take(name))),
                _ => Step::Broken,
            },
            State::BeforeValue(name) => match next {
                '"' if self.fields.contains(name) => Step::Take(one, State::Field),
                '"' => Step::Take(one, State::Skipped),
                '{' | '[' => Step::Take(
                    one,
                    State::Nested {
                        depth: 2,
                        in_string: false,
                    },
                ),
                _ if space => Step::Take(one, State::BeforeValue(std::mem::take(name))),
                ',' | '}' | ']' | ':' => Step::Broken,
                _ => Step::Take(one, State::Scalar),
            },
            State::Scalar => match next {
                ',' => Step::Take(one, State::BeforeKey),
                '}' => Step::Take(one, State::Over),
                '"' | '{' | '[' | ']' | ':' => Step::Broken,
                _ => Step::Take(one, State::Scalar),
            },
            State::AfterValue => match next {
                ',' => Step::Take(one, State::BeforeKey),
                '}' => Step::Take(one, State::Over),
                _ if space => Step::Take(one, State::AfterValue),
                _ => Step::Broken,
            },
            State::Skipped => match next {
                '"' => match ends_field(&rest[one..], finished) {
                    None => Step::Wait,
                    Some(true) => Step::Take(one, State::AfterValue),
                    Some(false) => Step::Take(one, State::Skipped),
                },
                '\\' => skip_escape(rest, State::Skipped),
                _ => Step::Take(one, State::Skipped),
            },
            State::Field => match next {
                '"' => match ends_field(&rest[one..], finished) {
                    None => Step::Wait,
                    Some(true) => Step::Take(one, State::AfterValue),
                    Some(false) => Step::Show(one, next),
                },
                '\\' => escape(rest),
                _ => Step::Show(one, next),
            },
            State::Nested { depth, in_string } => nested(rest, next, *depth, *in_string, finished),
        }
    }
}

fn nested(rest: &str, next: char, depth: u32, in_string: bool, finished: bool) -> Step {
    let one = next.len_utf8();
    let stay = State::Nested { depth, in_string };
    match next {
        '\\' if in_string => skip_escape(rest, stay),
        '"' if in_string => match ends_nested(&rest[one..], finished) {
            None => Step::Wait,
            Some(end) => Step::Take(one, State::Nested { depth, in_string: !end }),
        },
        _ if in_string => Step::Take(one, stay),
        '"' => Step::Take(one, State::Nested { depth, in_string: true }),
        '{' | '[' if depth == MAX_DEPTH => Step::Broken,
        '{' | '[' => Step::Take(
            one,
            State::Nested {
                depth: depth + 1,
                in_string,
            },
        ),
        '}' | ']' if depth == 2 => Step::Take(one, State::AfterValue),
        '}' | ']' => Step::Take(
            one,
            State::Nested {
                depth: depth - 1,
                in_string,
            },
        ),
        _ => Step::Take(one, stay),
    }
}

/// An escape in text that is not shown.
fn skip_escape(rest: &str, state: State) -> Step {
    match rest[1..].chars().next() {
        None => Step::Wait,
        Some(escaped) => Step::Take(1 + escaped.len_utf8(), state),
    }
}

/// An escape in text that is shown; `rest` begins with the backslash. One that is cut off by the end is not shown.
fn escape(rest: &str) -> Step {
    let Some(kind) = rest[1..].chars().next() else {
        return Step::Wait;
    };
    let shown = match kind {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        '"' | '\\' | '/' | '\'' => kind,
        'u' => return unicode(rest),
        // Not an escape at all: a lone backslash.
        _ => return Step::Show(1, '\\'),
    };
    Step::Show(2, shown)
}

/// `\uXXXX`, or two of them for one character. Half of a character is never shown.
fn unicode(rest: &str) -> Step {
    let first = match hex(rest) {
        Hex::Unit(unit) => unit,
        Hex::Cut => return Step::Wait,
        Hex::None => return Step::Show(1, '\\'),
    };
    let one = |unit: u16| {
        Step::Show(
            6,
            char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER),
        )
    };
    if !(0xd800..0xdc00).contains(&first) {
        return one(first);
    }
    match hex(&rest[6..]) {
        Hex::Cut => Step::Wait,
        Hex::Unit(second) => match char::decode_utf16([first, second]).next() {
            Some(Ok(shown)) => Step::Show(12, shown),
            _ => one(first),
        },
        Hex::None => one(first),
    }
}

enum Hex {
    Unit(u16),
    /// The text ends before it is clear.
    Cut,
    None,
}

fn hex(rest: &str) -> Hex {
    let bytes = rest.as_bytes();
    for (at, byte) in bytes.iter().take(6).enumerate() {
        let fits = match at {
            0 => *byte == b'\\',
            1 => *byte == b'u',
            _ => byte.is_ascii_hexdigit(),
        };
        if !fits {
            return Hex::None;
        }
    }
    match rest.get(2..6).and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
        Some(unit) => Hex::Unit(unit),
        None => Hex::Cut,
    }
}

/// Whether a quotation mark before `rest` ends a field of the outermost object. `None`: more text has to come first.
fn ends_field(rest: &str, finished: bool) -> Option<bool> {
    let unclear = finished.then_some(true);
    let Some(after) = after_space(rest) else {
        return Some(true);
    };
    let Some(next) = after.chars().next() else {
        return unclear;
    };
    match next {
        '}' => return Some(true),
        ',' => {}
        _ => return Some(false),
    }
    let Some(after) = after_space(&after[1..]) else {
        return Some(true);
    };
    let Some(next) = after.chars().next() else {
        return unclear;
    };
    match next {
        '}' => return Some(true),
        '"' => {}
        _ => return Some(false),
    }
    let mut escaped = false;
    for (at, letter) in after[1..].char_indices() {
        match letter {
            _ if escaped => escaped = false,
            _ if at > MAX_KEY => return Some(true),
            '\\' => escaped = true,
            '\n' => return Some(false),
            '"' => {
                let Some(after) = after_space(&after[at + 2..]) else {
                    return Some(true);
                };
                return match after.chars().next() {
                    None => unclear,
                    Some(next) => Some(next == ':'),
                };
            }
            _ => {}
        }
    }
    unclear
}

/// The same inside of other values, of which nothing is shown: any sign of structure will do.
fn ends_nested(rest: &str, finished: bool) -> Option<bool> {
    let Some(after) = after_space(rest) else {
        return Some(true);
    };
    match after.chars().next() {
        None => finished.then_some(true),
        Some(next) => Some(matches!(next, ',' | '}' | ']' | ':')),
    }
}

/// `None` when there is more white space than is looked at.
fn after_space(rest: &str) -> Option<&str> {
    let after = rest.trim_ascii_start();
    (rest.len() - after.len() <= MAX_SPACE).then_some(after)
}

/// Replaces words in text that comes in pieces: from left to right, the first rule that fits.
#[derive(Debug)]
struct Replacer {
    rules: Vec<Replace>,
    held: String,
}

impl Replacer {
    fn push(&mut self, letter: char, out: &mut String) {
        self.held.push(letter);
        self.run(false, out);
    }

    fn flush(&mut self, out: &mut String) {
        self.run(true, out);
    }

    fn run(&mut self, finished: bool, out: &mut String) {
        let mut at = 0;
        'text: while let Some(letter) = self.held[at..].chars().next() {
            let rest = &self.held[at..];
            for rule in &self.rules {
                if rest.starts_with(&rule.from) {
                    out.push_str(&rule.to);
                    at += rule.from.len();
                    continue 'text;
                }
                if !finished && rule.from.starts_with(rest) {
                    break 'text;
                }
            }
            out.push(letter);
            at += letter.len_utf8();
        }
        self.held.drain(..at);
    }
}

#[cfg(test)]
mod tests;
