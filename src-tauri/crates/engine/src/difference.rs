//! What changed between the code a person allowed and the code that is there now, line by line.

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};
use std::time::Duration;

/// Lines shown of one file; a longer difference is cut, and says so.
const LINES: usize = 2000;
/// Characters shown of a line: code beyond them could not be looked at, and bundled plugins have long lines.
const LINE: usize = 20_000;
/// Unchanged lines shown around a change.
const AROUND: usize = 3;
/// A comparison that takes longer falls back to a coarser one; foreign files can be made to be slow.
const PATIENCE: Duration = Duration::from_millis(500);

/// `{path, lines: [{kind: " " | "+" | "-", text}], cut}`; no lines when nothing changed.
pub(crate) fn difference(path: &str, before: &str, after: &str) -> Value {
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, after);
    let mut lines = Vec::new();
    let mut cut = false;
    'all: for (at, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if at > 0 {
            lines.push(json!({"kind": "…", "text": ""}));
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            if lines.len() >= LINES {
                cut = true;
                break 'all;
            }
            let kind = match change.tag() {
                ChangeTag::Equal => " ",
                ChangeTag::Insert => "+",
                ChangeTag::Delete => "-",
            };
            let text = change.value().trim_end_matches(['\n', '\r']);
            let shown: String = text.chars().take(LINE).collect();
            cut |= shown.len() < text.len();
            lines.push(json!({"kind": kind, "text": shown}));
        }
    }
    json!({"path": path, "lines": lines, "cut": cut})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_with_what_is_around_them() {
        let before: String = (0..20).map(|n| format!("line {n}\n")).collect();
        let after = before.replace("line 10\n", "line ten\n");
        let shown = difference("plugin.js", &before, &after);
        let kinds: String = shown["lines"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, "   -+   ");
        assert_eq!(shown["cut"], false);
        assert_eq!(difference("x", &before, &before)["lines"], json!([]));
    }

    #[test]
    fn long_files_and_lines_are_cut_and_say_so() {
        let many = "x\n".repeat(LINES + 5);
        let shown = difference("p", "", &many);
        assert_eq!(
            (shown["lines"].as_array().unwrap().len(), &shown["cut"]),
            (LINES, &json!(true))
        );
        let long = difference("p", "", &"y".repeat(LINE + 1));
        assert_eq!(long["cut"], true);
    }
}
