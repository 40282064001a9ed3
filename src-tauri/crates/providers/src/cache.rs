//! Where prompt-cache markers go (contract section 4.1, `cache`): for the formats whose servers keep a prompt only up to
//! the places that a request marks.

use serde_json::{Value, json};

use crate::wire::Item;

/// The entries to mark, and what marks them. The system prompt and the last tool are marked too, which makes at most
/// four markers: as many as Anthropic takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Marks {
    /// Indexes into the conversation's entries, each of which has text. The marker goes on the entry's last text.
    pub(crate) items: Vec<usize>,
    /// `{"type": "ephemeral"}`, with a `ttl` for long retention.
    pub(crate) control: Value,
}

/// `None` when nothing is to be kept: nothing was asked for, `retention` is `none`, or what was asked for is invalid.
///
/// With a valid `depth` the end of the run of turns that is `depth` back is marked, and that of the run two further back,
/// which the request before this one had marked. A `retention` alone marks the system prompt and the tools only.
pub(crate) fn marks(cache: Option<&Value>, items: &[Item<'_>]) -> Option<Marks> {
    let cache = cache?.as_object()?;
    let depth = cache.get("depth").and_then(whole);
    let control = match cache.get("retention").and_then(Value::as_str) {
        Some("none") => return None,
        // Five minutes is what servers do unasked; an hour is the other choice they give.
        Some("long") => json!({"type": "ephemeral", "ttl": "1h"}),
        Some("short") => json!({"type": "ephemeral"}),
        _ if depth.is_some() => json!({"type": "ephemeral"}),
        _ => return None,
    };
    let runs = runs(items);
    let marked = |depth: usize| {
        let ends = [Some(depth), depth.checked_add(2)];
        let ends = ends.into_iter().flatten().filter_map(|run| *runs.get(run)?);
        ends.collect()
    };
    Some(Marks {
        items: depth.map(marked).unwrap_or_default(),
        control,
    })
}

/// A whole number from 0; some languages write it as a float.
fn whole(depth: &Value) -> Option<usize> {
    let float = || depth.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e9).contains(n));
    depth
        .as_u64()
        .or_else(|| float().map(|n| n as u64))
        .and_then(|n| usize::try_from(n).ok())
}

/// The runs of turns of one speaker, the latest first: where each one's last text stands, if it has any. The beginning of
/// the answer that is put into the model's mouth is no run, nor are tools with the turns that call them, nor system
/// messages; none of them ends a run either.
fn runs(items: &[Item<'_>]) -> Vec<Option<usize>> {
    let mut runs: Vec<(bool, Option<usize>)> = Vec::new();
    for (at, item) in items.iter().enumerate().rev() {
        let (person, text, images) = match item {
            Item::User {
                text,
                images,
                system: false,
            } => (true, *text, !images.is_empty()),
            Item::Assistant { text } => (false, *text, false),
            Item::Model(turn) if turn.calls.is_empty() => (false, turn.text.as_str(), false),
            Item::User { .. } | Item::Model(_) | Item::Tools(_) | Item::Prefill(_) => continue,
        };
        let has_text = !text.trim().is_empty();
        let trailing = runs.is_empty() && !person;
        if trailing || (!has_text && !images) {
            continue;
        }
        let end = has_text.then_some(at);
        match runs.last_mut() {
            Some((speaker, known)) if *speaker == person => *known = known.or(end),
            _ => runs.push((person, end)),
        }
    }
    runs.into_iter().map(|(_, end)| end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::Picture;
    use crate::wire::{ModelTurn, SentCall, ToolReply};

    fn user(text: &str) -> Item<'_> {
        Item::User {
            text,
            images: &[],
            system: false,
        }
    }

    fn system(text: &str) -> Item<'_> {
        Item::User {
            text,
            images: &[],
            system: true,
        }
    }

    fn model(text: &str) -> Item<'_> {
        Item::Assistant { text }
    }

    fn marked(cache: Value, items: &[Item<'_>]) -> Option<Vec<usize>> {
        marks(Some(&cache), items).map(|marks| marks.items)
    }

    #[test]
    fn the_run_at_the_depth_and_the_one_two_further_back() {
        // Runs, the latest first: user 6, assistant 4..5, user 3, assistant 2, user 0..1.
        let items = [
            user("a"),
            user("b"),
            model("c"),
            user("d"),
            model("e"),
            model("f"),
            user("g"),
        ];
        for (depth, want) in [
            (0, vec![6, 3]),
            (1, vec![5, 2]),
            (2, vec![3, 1]),
            (3, vec![2]),
            (4, vec![1]),
            (5, vec![]),
        ] {
            assert_eq!(marked(json!({"depth": depth}), &items), Some(want), "{depth}");
        }
        assert_eq!(marked(json!({"depth": 2.0}), &items), Some(vec![3, 1]));
        assert_eq!(marked(json!({"depth": u64::MAX}), &items), Some(vec![]));
    }

    #[test]
    fn prefill_tools_and_system_turns_are_no_runs() {
        let calling = ModelTurn {
            text: "let me see".into(),
            calls: vec![SentCall::default()],
            ..ModelTurn::default()
        };
        let replies = [ToolReply::default()];
        let said = ModelTurn {
            text: "so".into(),
            ..ModelTurn::default()
        };
        let items = [
            user("a"),
            Item::Model(&calling),
            Item::Tools(&replies),
            Item::Model(&said),
            user("b"),
            system("c"),
            user("d"),
            system("e"),
            Item::Prefill("f"),
        ];
        assert_eq!(marked(json!({"depth": 0}), &items), Some(vec![6, 0]));
        assert_eq!(marked(json!({"depth": 1}), &items), Some(vec![3]));
        let within = [
            user("a"),
            model("b"),
            user("c"),
            Item::Model(&calling),
            Item::Tools(&replies),
        ];
        assert_eq!(marked(json!({"depth": 0}), &within), Some(vec![2, 0]));
        // A turn of the model at the end is a prefill, whoever wrote it.
        assert_eq!(marked(json!({"depth": 0}), &[user("a"), model("b")]), Some(vec![0]));
    }

    #[test]
    fn never_an_image_and_never_nothing() {
        let images = [Picture::Asset("x".into())];
        let picture = Item::User {
            text: " ",
            images: &images,
            system: false,
        };
        assert_eq!(marked(json!({"depth": 0}), &[user("a"), picture]), Some(vec![0]));
        assert_eq!(marked(json!({"depth": 0}), &[picture]), Some(vec![]));
        // A run of pictures alone is a run all the same.
        assert_eq!(
            marked(json!({"depth": 2}), &[user("a"), model("b"), picture]),
            Some(vec![0])
        );
        // What is not sent is no run.
        assert_eq!(
            marked(json!({"depth": 0}), &[user("a"), model(""), user("b"), user("")]),
            Some(vec![2])
        );
    }

    #[test]
    fn retention_none_wins_and_what_is_invalid_is_ignored() {
        let items = [user("a")];
        for nothing in [
            json!(null),
            json!(true),
            json!({}),
            json!({"depth": 0, "retention": "none"}),
            json!({"depth": -1}),
            json!({"depth": 1.5}),
            json!({"depth": "0"}),
            json!({"depth": null, "retention": "forever"}),
        ] {
            assert_eq!(marks(Some(&nothing), &items), None, "{nothing}");
        }
        assert_eq!(marks(None, &items), None);
        let short = json!({"type": "ephemeral"});
        let long = json!({"type": "ephemeral", "ttl": "1h"});
        for (asked, control, places) in [
            (json!({"depth": 0}), &short, vec![0]),
            (json!({"depth": 0, "retention": 7}), &short, vec![0]),
            (json!({"depth": 0, "retention": "short"}), &short, vec![0]),
            (json!({"depth": 0, "retention": "long"}), &long, vec![0]),
            (json!({"depth": -1, "retention": "long"}), &long, vec![]),
            (json!({"retention": "short"}), &short, vec![]),
        ] {
            let marks = marks(Some(&asked), &items).unwrap();
            assert_eq!((&marks.control, marks.items), (control, places), "{asked}");
        }
    }
}
