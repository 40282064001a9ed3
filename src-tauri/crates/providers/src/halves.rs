//! Letters that a server cut in half. Programs that count text in UTF-16 (JavaScript's) cut it between the two halves of
//! an emoji, and write each as an escape that is no letter by itself: `"a\ud83e"`, then `"\udd8bb"`. JSON readers refuse
//! such a text, and with it the whole event.

use std::borrow::Cow;

/// Puts halves together again over the events of one stream.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    /// The first half that ended a string and waits for its second.
    first: Option<u16>,
}

impl Halves {
    /// The JSON of the next event, fit to be read: a first half at the end of a string is taken out, and put before the
    /// second half that begins a string later. A half without its other becomes U+FFFD. Nothing else is changed.
    pub(crate) fn mend<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        let mut mended: Option<String> = None;
        // Bytes of `json` that `mended` already stands for.
        let mut done = 0;
        let mut at = 0;
        let waiting = self.first;
        let bytes = json.as_bytes();
        while let Some(found) = bytes
            .get(at..)
            .and_then(|rest| rest.iter().position(|byte| *byte == b'\\'))
        {
            at += found;
            let Some(unit) = unit_at(bytes, at) else {
                // Any other escape has two bytes, and `\\` must not be taken for the beginning of one.
                at += 2;
                continue;
            };
            let (start, end) = (at, at + 6);
            at = end;
            let instead = match unit {
                0xD800..=0xDBFF if unit_at(bytes, end).is_some_and(is_second) => {
                    at = end + 6;
                    continue;
                }
                0xD800..=0xDBFF if bytes.get(end) == Some(&b'"') => {
                    self.first = Some(unit);
                    String::new()
                }
                0xDC00..=0xDFFF => match waiting {
                    // The quote is the string's own: one inside it would stand behind a backslash, and this escape is
                    // then no string's beginning.
                    Some(first) if begins_string(bytes, start) => {
                        if self.first == waiting {
                            self.first = None;
                        }
                        format!("\\u{first:04x}\\u{unit:04x}")
                    }
                    _ => "\\ufffd".into(),
                },
                0xD800..=0xDBFF => "\\ufffd".into(),
                _ => continue,
            };
            let text = mended.get_or_insert_default();
            text.push_str(&json[done..start]);
            text.push_str(&instead);
            done = end;
        }
        match mended {
            None => Cow::Borrowed(json),
            Some(text) => Cow::Owned(text + &json[done..]),
        }
    }
}

fn is_second(unit: u16) -> bool {
    (0xDC00..=0xDFFF).contains(&unit)
}

/// The unit of the escape `\uXXXX` that begins here.
fn unit_at(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    if &escape[..2] != b"\\u" || !escape[2..].iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let digits = std::str::from_utf8(&escape[2..]).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

/// Whether what is at `at` comes right behind the quote that begins a string.
fn begins_string(bytes: &[u8], at: usize) -> bool {
    let before = &bytes[..at];
    let Some(rest) = before.strip_suffix(b"\"") else {
        return false;
    };
    // `\"` is a letter of the string, `\\"` its end; neither begins one.
    !rest.ends_with(b"\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(events: &[&str]) -> Vec<String> {
        let mut halves = Halves::default();
        events.iter().map(|event| halves.mend(event).into_owned()).collect()
    }

    #[test]
    fn halves_come_together_over_events() {
        let events = [r#"{"c":"a\ud83e"}"#, r#"{"ping":1}"#, r#"{"c":"\udd8Bb"}"#];
        assert_eq!(
            mended(&events),
            [r#"{"c":"a"}"#, r#"{"ping":1}"#, r#"{"c":"\ud83e\udd8bb"}"#]
        );
        // The same text under two names, and one half after the other.
        let events = [
            r#"{"a":"\uD83E","b":"\ud83e"}"#,
            r#"{"a":"\udd8b\ud83e","b":"\udd8b\ud83e"}"#,
            r#"{"a":"\udd8b","b":"\udd8b"}"#,
        ];
        let whole = r#"{"a":"\ud83e\udd8b","b":"\ud83e\udd8b"}"#;
        assert_eq!(mended(&events), [r#"{"a":"","b":""}"#, whole, whole]);
    }

    #[test]
    fn a_half_that_stays_alone_is_shown_as_one() {
        for (event, want) in [
            (r#""\ud83ex""#, r#""\ufffdx""#),
            (r#""x\udd8b""#, r#""x\ufffd""#),
            (r#""\udd8b""#, r#""\ufffd""#),
            (r#""\ud83e\ud83e\udd8b""#, r#""\ufffd\ud83e\udd8b""#),
            (r#""\"\udd8b""#, r#""\"\ufffd""#),
        ] {
            assert_eq!(mended(&[event]), [want]);
            serde_json::from_str::<String>(want).unwrap();
        }
    }

    #[test]
    fn everything_else_is_left_as_it_is() {
        let mut halves = Halves::default();
        for event in [
            r#""\ud83e\udd8b""#,
            r#""\\ud83e""#,
            r#""\\\\udd8b\u00e9\n""#,
            r#""🦋 \u12""#,
            "\\",
            "\\u",
            "\\ud83",
            "",
        ] {
            assert!(
                matches!(halves.mend(event), Cow::Borrowed(same) if same == event),
                "{event}"
            );
        }
    }

    /// Whatever is cut wherever, into as many events as there are cuts: the texts together are the text.
    #[test]
    fn every_cut_of_a_text_is_mended() {
        let text = "a🦋\"\\🦋🦋é\n";
        let units: Vec<u16> = text.encode_utf16().collect();
        let quoted = |units: &[u16]| {
            let escapes: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{escapes}\"")
        };
        for first in 0..=units.len() {
            for second in first..=units.len() {
                let mut halves = Halves::default();
                let pieces = [&units[..first], &units[first..second], &units[second..]];
                let read = pieces.map(|piece| {
                    let event = quoted(piece);
                    serde_json::from_str::<String>(&halves.mend(&event)).unwrap()
                });
                assert_eq!(read.concat(), text, "{first} {second}");
            }
        }
    }
}
