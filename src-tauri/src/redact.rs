//! Takes what looks like a key out of log lines. Nothing logs keys or prompts on purpose; this is for error texts of
//! libraries and plugins that quote what they were given.

use std::io::{self, Write};

/// What stands in a key's place.
const MARK: &str = "[redacted]";
/// What keys are introduced by, in lower case.
const BEFORE: &[&str] = &[
    "bearer ",
    "authorization: ",
    "api-key: ",
    "api_key=",
    "apikey=",
    "x-api-key: ",
    "token=",
    "/frame/",
];
/// How well-known providers' keys begin.
const STARTS: &[&str] = &["sk-", "gsk_", "xai-", "hf_", "AIza", "ghp_", "pplx-"];

/// `line` without keys.
pub fn redact(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let mut cuts: Vec<(usize, usize)> = Vec::new();
    let mut cut = |from: usize, least: usize| {
        let end = line[from..]
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_.+/=~".contains(c)))
            .map_or(line.len(), |n| from + n);
        if end - from >= least {
            cuts.push((from, end));
        }
    };
    for word in BEFORE {
        lower
            .match_indices(word)
            .for_each(|(at, found)| cut(at + found.len(), 8));
    }
    for start in STARTS {
        for (at, _) in line.match_indices(start) {
            let inside = line[..at]
                .chars()
                .next_back()
                .is_some_and(|c| c.is_ascii_alphanumeric());
            if !inside {
                cut(at, 12);
            }
        }
    }
    cuts.sort_unstable();
    let (mut out, mut at) = (String::with_capacity(line.len()), 0);
    for (from, end) in cuts {
        if from >= at {
            out.push_str(&line[at..from]);
            out.push_str(MARK);
        }
        at = at.max(end);
    }
    out.push_str(&line[at..]);
    out
}

/// A writer whose every write (one log event) goes through [`redact`].
pub struct Redacting<W>(pub W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(redact(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_and_words_stay() {
        for (line, want) in [
            (
                "sent Authorization: Bearer abcdefgh12345 ok",
                "sent Authorization: Bearer [redacted] ok",
            ),
            ("key sk-proj-aaaaaaaaaaaaaaa!", "key [redacted]!"),
            (
                "GET /frame/0123456789abcdef0123456789abcdef/app.js",
                "GET /frame/[redacted]",
            ),
            ("x?api_key=abcdefghij&b=1", "x?api_key=[redacted]&b=1"),
            ("bearer of news", "bearer of news"),
            ("a task-list and sk-short", "a task-list and sk-short"),
            ("ü sk-ääää", "ü sk-ääää"),
        ] {
            assert_eq!(redact(line), want);
        }
    }
}
