//! Separates thinking that a model writes into its text, `<think>…</think>`, from the text.

use crate::Event;
use crate::request::ReasoningTags;

/// The marks most models use; looked for beside the ones that a request or a prompt format names.
const COMMON: (&str, &str) = ("<think>", "</think>");

/// What to look for in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marks {
    thoughts: Vec<Thought>,
    /// Marks outside of thinking that are left out of the text.
    dropped: Vec<String>,
}

/// A mark that begins thinking, and those that can end it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Thought {
    open: String,
    closes: Vec<String>,
}

impl Marks {
    /// `<think>` and `</think>` only.
    pub(crate) fn common() -> Self {
        Self::of_format(&[], &[])
    }

    pub(crate) fn of_request(tags: &ReasoningTags) -> Self {
        Self::of_format(&[(tags.open.as_str(), &[tags.close.as_str()])], &[])
    }

    /// With the marks that a request names.
    pub(crate) fn and(mut self, tags: &ReasoningTags) -> Self {
        match self.thoughts.iter_mut().find(|thought| thought.open == tags.open) {
            Some(thought) if thought.closes.contains(&tags.close) => {}
            Some(thought) => thought.closes.push(tags.close.clone()),
            None => self.thoughts.push(Thought {
                open: tags.open.clone(),
                closes: vec![tags.close.clone()],
            }),
        }
        self
    }

    /// The marks given, and the common ones. None is empty.
    pub(crate) fn of_format(thoughts: &[(&str, &[&str])], dropped: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let common = (COMMON.0, &[COMMON.1][..]);
        let named_too = thoughts.iter().any(|(open, _)| *open == common.0);
        let all = thoughts.iter().copied().chain((!named_too).then_some(common));
        Self {
            thoughts: all
                .map(|(open, closes)| Thought {
                    open: open.to_owned(),
                    closes: owned(closes),
                })
                .collect(),
            dropped: owned(dropped),
        }
    }
}

/// Gives the same events for the same text, however it is cut: only their cuts differ.
#[derive(Debug)]
pub(crate) struct TagSplitter {
    marks: Marks,
    /// Which thought has been opened.
    inside: Option<usize>,
    /// Text that may be the beginning of a mark.
    held: String,
    /// White space is dropped after an opening mark, and after a closing one before any text.
    skipping: bool,
    any_text: bool,
}

impl TagSplitter {
    /// For the marks that a request names. `prefill` is what was put into the model's mouth.
    pub(crate) fn new(tags: &ReasoningTags, prefill: Option<&str>) -> Self {
        Self::with_marks(Marks::of_request(tags), prefill.unwrap_or_default())
    }

    /// `begun` is what the answer has already. If it opens the thinking, what comes begins inside.
    pub(crate) fn with_marks(marks: Marks, begun: &str) -> Self {
        let inside = marks.thoughts.iter().position(|thought| {
            begun.rfind(thought.open.as_str()).is_some_and(|at| {
                let rest = &begun[at + thought.open.len()..];
                !thought.closes.iter().any(|close| rest.contains(close.as_str()))
            })
        });
        let any_text = !begun.is_empty() && inside.is_none() && !ends_a_thought(&marks, begun);
        Self {
            marks,
            inside,
            held: String::new(),
            skipping: !any_text && !begun.is_empty(),
            any_text,
        }
    }

    /// Drops the white space that comes next.
    pub(crate) fn skip_space(&mut self) {
        self.skipping = true;
    }

    pub(crate) fn push(&mut self, text: &str, out: &mut impl Extend<Event>) {
        // Walked through once, whatever is in it: a server may send nothing but marks.
        let whole = std::mem::take(&mut self.held) + text;
        let mut rest = whole.as_str();
        loop {
            let marks: Vec<&str> = match self.inside {
                Some(thought) => self.marks.thoughts[thought].closes.iter().map(String::as_str).collect(),
                None => {
                    let opens = self.marks.thoughts.iter().map(|thought| &thought.open);
                    opens.chain(&self.marks.dropped).map(String::as_str).collect()
                }
            };
            match next_mark(rest, &marks) {
                Found::Whole(at, which) => {
                    let length = marks[which].len();
                    self.give(&rest[..at], out);
                    rest = &rest[at + length..];
                    match self.inside {
                        Some(_) => {
                            self.skipping = !self.any_text;
                            self.inside = None;
                        }
                        None if which < self.marks.thoughts.len() => {
                            self.skipping = true;
                            self.inside = Some(which);
                        }
                        None => {}
                    }
                }
                Found::Begun(at) => {
                    self.give(&rest[..at], out);
                    self.held.push_str(&rest[at..]);
                    return;
                }
                Found::Nothing => return self.give(rest, out),
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

/// Whether a text has a whole thought at its end and nothing of the answer.
fn ends_a_thought(marks: &Marks, text: &str) -> bool {
    let text = text.trim_end();
    let mut closes = marks.thoughts.iter().flat_map(|thought| &thought.closes);
    closes.any(|close| text.ends_with(close.as_str()))
}

/// What of the marks stands first in a text.
enum Found {
    /// Where, and which.
    Whole(usize, usize),
    /// The text ends with the beginning of a mark; one that is longer than a whole one at the same place may be coming.
    Begun(usize),
    Nothing,
}

fn next_mark(text: &str, marks: &[&str]) -> Found {
    let begins = |byte: u8| marks.iter().any(|mark| mark.as_bytes().first() == Some(&byte));
    let places = text.bytes().enumerate().filter(|(_, byte)| begins(*byte));
    for (at, _) in places {
        // A mark begins with a whole character.
        let rest = &text[at..];
        if marks
            .iter()
            .any(|mark| mark.len() > rest.len() && mark.starts_with(rest))
        {
            return Found::Begun(at);
        }
        let whole = marks.iter().enumerate().filter(|(_, mark)| rest.starts_with(**mark));
        // Of two the longer one, and of two alike the first.
        if let Some((which, _)) = whole.max_by_key(|(which, mark)| (mark.len(), std::cmp::Reverse(*which))) {
            return Found::Whole(at, which);
        }
    }
    Found::Nothing
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

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config { cases: 256, failure_persistence: None, ..Default::default() })]

        /// Whatever is said in whatever pieces, the same is told apart, and nothing but marks and white space is lost.
        #[test]
        fn any_text_in_any_pieces(
            pieces in proptest::collection::vec("(<think>|</think>|<日>|</日>|<|th|日|>| |\n|a|🦋){0,4}", 0..12),
            prefill in proptest::option::of("(<think>|</think>|a){0,2}"),
        ) {
            let tags = tags("<日>", "</日>");
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = pieces.concat();
            let once = run(&mut TagSplitter::new(&tags, prefill.as_deref()), &[&whole]);
            let cut = run(&mut TagSplitter::new(&tags, prefill.as_deref()), &pieces);
            proptest::prop_assert_eq!(&once, &cut);
            let kept = |text: &str| text.matches(['a', '🦋']).count();
            proptest::prop_assert_eq!(kept(&once.0) + kept(&once.1), kept(&whole));
        }
    }

    /// Each mark is found without going over what comes after it: a piece of an answer may hold hundreds of thousands.
    #[test]
    fn nothing_but_marks_takes_no_time() {
        let whole = "<think>a</think>b".repeat(300_000);
        let began = std::time::Instant::now();
        let (text, thinking) = run(&mut TagSplitter::new(&tags("<日>", "</日>"), None), &[&whole]);
        assert_eq!((text.len(), thinking.len()), (300_000, 300_000));
        let took = began.elapsed();
        assert!(took < std::time::Duration::from_secs(20), "{took:?}");
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

    /// Servers that show gpt-oss's marks, and servers that keep `<|end|>` to themselves.
    #[test]
    fn the_channels_of_harmony() {
        let format = crate::formats::Format::parse(&"harmony".into()).unwrap().unwrap();
        for (whole, text, thinking) in [
            (
                "<|channel|>analysis<|message|>Hm <|x.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
                "Yes.",
                "Hm <|x.",
            ),
            (
                "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Yes.",
                "Yes.",
                "Hm.",
            ),
            ("<|channel|>final<|message|>日本 <| b", "日本 <| b", ""),
            (
                "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary<|message|>b<|end|>\
                 <|start|>assistant<|channel|>analysis<|message|>c<|end|><|start|>assistant<|channel|>final<|message|>d",
                "bd",
                "ac",
            ),
        ] {
            for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
                let mut splitter = TagSplitter::with_marks(format.marks.clone(), "");
                let got = run(&mut splitter, &[&whole[..at], &whole[at..]]);
                assert_eq!(got, (text.to_owned(), thinking.to_owned()), "{whole:?} cut at {at}");
            }
        }
    }

    #[test]
    fn a_prompt_can_begin_a_thought_or_end_one() {
        let marks = Marks::of_format(&[("<|channel>thought", &["<channel|>"])], &[]);
        for (begun, whole, text, thinking) in [
            ("<think>\n", "\na</think>\n\nb", "b", "a"),
            ("<think>\n\n</think>\n\n", "\n b", "b", ""),
            ("</think>", "b <think>c</think>", "b ", "c"),
            ("<|channel>thought\n<channel|>", "b", "b", ""),
            ("", "<|channel>thought\na<channel|>b", "b", "a"),
        ] {
            let got = run(&mut TagSplitter::with_marks(marks.clone(), begun), &[whole]);
            assert_eq!(got, (text.to_owned(), thinking.to_owned()), "{begun:?} {whole:?}");
        }
    }

    #[test]
    fn a_prefill_can_open_the_thinking() {
        let tags = tags("<think>", "</think>");
        check(&tags, Some("<think>"), "a</think>b", "b", "a");
        check(&tags, Some("<think>x</think>So"), " b", " b", "");
    }
}
