//! Separates thinking that a model writes into its text, `<think>…</think>`, from the text.

use crate::Event;
use crate::request::ReasoningTags;

/// The marks most models use; looked for beside the ones that a request names.
const COMMON: (&str, &str) = ("<think>", "</think>");

/// Gives the same events for the same text, however it is cut: only their cuts differ.
#[derive(Debug)]
pub(crate) struct TagSplitter {
    pairs: Vec<(String, String)>,
    /// Which pair has been opened.
    inside: Option<usize>,
    /// Text that may be the beginning of a mark.
    held: String,
    /// White space is dropped after an opening mark, and after a closing one before any text.
    skipping: bool,
    any_text: bool,
}

impl TagSplitter {
    /// `prefill` is what was put into the model's mouth: if it opens the thinking, the answer begins inside.
    pub(crate) fn new(tags: &ReasoningTags, prefill: Option<&str>) -> Self {
        let mut pairs = vec![(tags.open.clone(), tags.close.clone())];
        if tags.open != COMMON.0 {
            pairs.push((COMMON.0.to_owned(), COMMON.1.to_owned()));
        }
        let prefill = prefill.unwrap_or_default();
        let inside = pairs.iter().position(|(open, close)| {
            prefill
                .rfind(open.as_str())
                .is_some_and(|at| !prefill[at + open.len()..].contains(close.as_str()))
        });
        Self {
            pairs,
            inside,
            held: String::new(),
            skipping: inside.is_some(),
            any_text: !prefill.is_empty() && inside.is_none(),
        }
    }

    pub(crate) fn push(&mut self, text: &str, out: &mut impl Extend<Event>) {
        self.held.push_str(text);
        loop {
            let marks: Vec<&str> = match self.inside {
                Some(pair) => vec![self.pairs[pair].1.as_str()],
                None => self.pairs.iter().map(|pair| pair.0.as_str()).collect(),
            };
            // The first mark, and of two that begin at the same place the longer one.
            let found = marks
                .iter()
                .enumerate()
                .filter_map(|(which, mark)| Some((self.held.find(*mark)?, std::cmp::Reverse(mark.len()), which)))
                .min();
            // A longer mark that begins earlier or at the same place may still be coming.
            let open = begun_mark(&self.held, &marks);
            match found {
                Some((at, _, which)) if open.is_none_or(|open| at < open) => {
                    let length = marks[which].len();
                    let before: String = self.held.drain(..at + length).collect();
                    self.give(&before[..at], out);
                    self.skipping = self.inside.is_none() || !self.any_text;
                    self.inside = match self.inside {
                        Some(_) => None,
                        None => Some(which),
                    };
                }
                _ => {
                    let rest = self.held.split_off(open.unwrap_or(self.held.len()));
                    let sure = std::mem::replace(&mut self.held, rest);
                    self.give(&sure, out);
                    return;
                }
            }
        }
    }

    /// The text has ended: what was held is no mark.
    pub(crate) fn finish(&mut self, out: &mut impl Extend<Event>) {
        let rest = std::mem::take(&mut self.held);
        self.give(&rest, out);
    }

    fn give(&mut self, text: &str, out: &mut impl Extend<Event>) {
        let text = match self.skipping {
            true => text.trim_start(),
            false => text,
        };
        if text.is_empty() {
            return;
        }
        self.skipping = false;
        out.extend([match self.inside {
            Some(_) => Event::Thinking(text.to_owned()),
            None => {
                self.any_text = true;
                Event::Delta(text.to_owned())
            }
        }]);
    }
}

/// Where the text ends with the beginning, not the whole, of a mark.
fn begun_mark(text: &str, marks: &[&str]) -> Option<usize> {
    let longest = marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
    let from = text.len().saturating_sub(longest.saturating_sub(1));
    text.char_indices()
        .map(|(at, _)| at)
        .filter(|at| *at >= from)
        .find(|at| {
            marks
                .iter()
                .any(|mark| mark.len() > text.len() - at && mark.starts_with(&text[*at..]))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(open: &str, close: &str) -> ReasoningTags {
        ReasoningTags {
            open: open.into(),
            close: close.into(),
        }
    }

    fn run(splitter: &mut TagSplitter, pieces: &[&str]) -> (String, String) {
        let mut events = Vec::new();
        for piece in pieces {
            splitter.push(piece, &mut events);
        }
        splitter.finish(&mut events);
        let (mut text, mut thinking) = (String::new(), String::new());
        for event in events {
            match event {
                Event::Delta(part) => text += &part,
                Event::Thinking(part) => thinking += &part,
                other => panic!("{other:?}"),
            }
        }
        (text, thinking)
    }

    /// Every cut in two, and character by character.
    fn check(tags: &ReasoningTags, prefill: Option<&str>, whole: &str, text: &str, thinking: &str) {
        let want = (text.to_owned(), thinking.to_owned());
        for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
            let got = run(&mut TagSplitter::new(tags, prefill), &[&whole[..at], &whole[at..]]);
            assert_eq!(got, want, "{whole:?} cut at {at}");
        }
        let letters: Vec<String> = whole.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(
            run(&mut TagSplitter::new(tags, prefill), &letters),
            want,
            "{whole:?} in letters"
        );
    }

    #[test]
    fn thinking_is_split_off_whatever_the_cuts() {
        let tags = tags("<日>", "</日>");
        for (whole, text, thinking) in [
            ("<日>\nhm 🦋</日>\n\nyes", "yes", "hm 🦋"),
            ("<think>a</think> b <日>c</日> d", "b  d", "ac"),
            ("a <b <日 <", "a <b <日 <", ""),
            ("<日>never </closed", "", "never </closed"),
            ("<日></日>x", "x", ""),
            ("<日>a</think>b</日>c", "c", "a</think>b"),
            ("<<日>a</日>", "<", "a"),
            ("no marks", "no marks", ""),
            ("", "", ""),
        ] {
            check(&tags, None, whole, text, thinking);
        }
    }

    #[test]
    fn marks_that_begin_alike() {
        let tags = tags("<thinking>", "</thinking>");
        check(&tags, None, "<thinking>a</thinking>b<think>c</think>d", "bd", "ac");
        let short = ReasoningTags {
            open: "<".into(),
            close: ">".into(),
        };
        check(&short, None, "a<b>c", "ac", "b");
    }

    #[test]
    fn a_prefill_can_open_the_thinking() {
        let tags = tags("<think>", "</think>");
        check(&tags, Some("<think>"), "a</think>b", "b", "a");
        check(&tags, Some("<think>x</think>So"), " b", " b", "");
    }
}
