//! Habits: nothing unfinished, no panics on input, no paths of one machine, no endless files.

use std::fs;

use crate::source::{code, find, is_rust, program, ships};
use crate::{Problem, check, keep, root};

fn unfinished(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = find(path, &code(text), &["todo!", "unimplemented!", "dbg!"], "finish it");
    problems.extend(find(
        path,
        &code(text),
        &["#[ignore"],
        "a test runs, or asserts the wrong behaviour with a FIXME, or goes",
    ));
    problems
}

#[test]
fn nothing_is_unfinished_or_ignored() {
    keep(is_rust, unfinished);
}

#[test]
fn self_test_nothing_is_unfinished_or_ignored() {
    check(
        unfinished,
        "a.rs",
        "fn f() { todo!() }",
        "// todo!\nfn f() { \"todo!\"; }",
    );
    check(
        unfinished,
        "a.rs",
        "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
        "#[test]\nfn f() {}",
    );
}

fn unwraps(path: &str, text: &str) -> Vec<Problem> {
    find(
        path,
        &program(text),
        &[".unwrap()"],
        "foreign input never panics: return an error, or `expect` with the reason why it cannot happen",
    )
}

#[test]
fn the_program_does_not_unwrap() {
    keep(ships, unwraps);
}

#[test]
fn self_test_the_program_does_not_unwrap() {
    check(
        unwraps,
        "a.rs",
        "let n = text.parse().unwrap();",
        "let n = text.parse()?;\n#[cfg(test)]\nmod t { fn f() { x.unwrap() } }",
    );
}

fn machine_paths(path: &str, text: &str) -> Vec<Problem> {
    let words = [
        format!("/{}/", "work"),
        format!("/{}/", "root"),
        format!("/{}/", "home/user"),
    ];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    find(path, text, &words, "no path of one machine belongs in the repository")
}

#[test]
fn no_machine_paths() {
    keep(|_| true, machine_paths);
}

#[test]
fn self_test_no_machine_paths() {
    check(
        machine_paths,
        "a.md",
        &format!("see /{}/main", "work"),
        "see accounts/1/workspace/x and the root/ folder",
    );
}

/// Longest file without an entry in [`LONG`].
const LINES: usize = 800;

/// Files that may be longer, each with its reason.
const LONG: &[(&str, &str)] = &[];

fn too_long(path: &str, text: &str) -> Vec<Problem> {
    let lines = text.lines().count();
    if lines <= LINES || LONG.iter().any(|(name, _)| *name == path) {
        return Vec::new();
    }
    vec![format!(
        "{path}: {lines} lines; split it, or give LONG the reason why not"
    )]
}

#[test]
fn no_file_is_too_long() {
    let endings = [
        ".rs", ".ts", ".tsx", ".js", ".mjs", ".css", ".html", ".md", ".toml", ".sh", ".py",
    ];
    keep(|path| endings.iter().any(|ending| path.ends_with(ending)), too_long);
    for (name, reason) in LONG {
        let text = fs::read_to_string(root().join(name)).unwrap_or_default();
        assert!(
            text.lines().count() > LINES,
            "{name} is short or gone: take it off LONG"
        );
        assert!(reason.len() > 20, "{name}: give the reason");
    }
}

#[test]
fn self_test_no_file_is_too_long() {
    check(too_long, "a.rs", &"x\n".repeat(LINES + 1), &"x\n".repeat(LINES));
}
