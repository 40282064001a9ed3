//! Documents and CI: what they name exists, what they promise is tested, what they run is pinned.

use std::fs;

use crate::source::code;
use crate::{Problem, check, keep, root};

/// The `path::name` references in a Markdown line's code spans, where path is a Rust or TypeScript file.
fn references(line: &str) -> Vec<(&str, &str)> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|span| {
            span.split_once(".rs::")
                .map(|(file, name)| (span[..file.len() + 3].trim(), name))
                .or_else(|| span.split_once('#'))
        })
        .filter(|(file, name)| {
            [".rs", ".ts", ".tsx", ".mjs"]
                .iter()
                .any(|ending| file.ends_with(ending))
                && !name.is_empty()
        })
        .collect()
}

/// A reference holds when the file exists and has a test of that name.
fn has_test(text: &str, file: &str, name: &str) -> bool {
    if !file.ends_with(".rs") {
        return ["'", "\"", "`"]
            .iter()
            .any(|quote| text.contains(&format!("({quote}{name}{quote}")));
    }
    let code = code(text);
    let name = name.rsplit("::").next().unwrap_or(name);
    code.match_indices("fn ").any(|(at, _)| {
        let after = code[at + 3..].strip_prefix(name);
        let before = &code[code[..at].rfind(['}', ';', '{']).map_or(0, |i| i + 1)..at];
        after.is_some_and(|rest| rest.starts_with(['(', '<'])) && (before.contains("test]") || before.contains("test("))
    })
}

fn broken_references(path: &str, text: &str, read: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (file, name) in references(line) {
            match read(file) {
                None => problems.push(format!("{path}:{}: there is no file {file}", number + 1)),
                Some(source) if !has_test(&source, file, name) => {
                    problems.push(format!("{path}:{}: {file} has no test `{name}`", number + 1))
                }
                Some(_) => {}
            }
        }
    }
    problems
}

fn on_disk(file: &str) -> Option<String> {
    fs::read_to_string(root().join(file)).ok()
}

#[test]
fn every_test_that_a_document_names_exists() {
    keep(
        |path| path.ends_with(".md") && !path.contains("node_modules"),
        |path, text| broken_references(path, text, on_disk),
    );
}

#[test]
fn self_test_every_test_that_a_document_names_exists() {
    let source = "#[test]\nfn walls_hold() {}\n#[tokio::test(flavor = \"x\")]\nasync fn doors_too() {}\nfn helper() {}\n// #[test] fn dreamt() {}";
    let rule = |path: &str, text: &str| {
        broken_references(path, text, |file| (file == "tests/a.rs").then(|| source.to_string()))
    };
    let good = "kept by `tests/a.rs::walls_hold` and `tests/a.rs::doors_too`, see `src/lib.rs`";
    for bad in [
        "`tests/b.rs::walls_hold`",
        "`tests/a.rs::missing`",
        "`tests/a.rs::helper`",
        "`tests/a.rs::dreamt`",
        "`tests/a.rs::walls`",
        "`tests/a.rs#missing`",
    ] {
        check(rule, "SECURITY.md", bad, good);
    }
    let script =
        |path: &str, text: &str| broken_references(path, text, |_| Some("it('shows text as text', () => {})".into()));
    check(
        script,
        "SECURITY.md",
        "`ui/a.test.ts#shows markup`",
        "`ui/a.test.ts#shows text as text`",
    );
}

/// Every promise names at least one test that attacks it.
fn promises_without_test(path: &str, text: &str) -> Vec<Problem> {
    let begin = text.find("<!-- promises -->");
    let end = text.find("<!-- end of promises -->");
    let (Some(begin), Some(end)) = (begin, end) else {
        return vec![format!("{path}: the markers around the table of promises are gone")];
    };
    let rows: Vec<&str> = text[begin..end]
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .collect();
    let mut problems: Vec<Problem> = rows
        .iter()
        .filter(|row| references(row).is_empty())
        .map(|row| format!("{path}: a promise without its test: {row}"))
        .collect();
    if rows.is_empty() {
        problems.push(format!("{path}: no promises"));
    }
    problems
}

#[test]
fn every_promise_names_its_test() {
    keep(|path| path == "SECURITY.md", promises_without_test);
}

#[test]
fn self_test_every_promise_names_its_test() {
    let table =
        |row: &str| format!("<!-- promises -->\n| Promise | Test |\n| --- | --- |\n{row}\n<!-- end of promises -->");
    check(
        promises_without_test,
        "SECURITY.md",
        &table("| Walls hold. | soon |"),
        &table("| Walls hold. | `tests/a.rs::walls_hold` |"),
    );
    check(
        promises_without_test,
        "SECURITY.md",
        &table(""),
        &table("| Walls hold. | `tests/a.rs::walls_hold` |"),
    );
}

/// Every rule of these files stands in ARCHITECTURE.md.
#[test]
fn every_rule_is_in_the_architecture() {
    let own = [
        ("rooms", include_str!("rooms.rs")),
        ("launcher", include_str!("launcher.rs")),
        ("habits", include_str!("habits.rs")),
        ("documents", include_str!("documents.rs")),
    ];
    let architecture = on_disk("ARCHITECTURE.md").expect("ARCHITECTURE.md is there");
    let mut rules = 0;
    for (module, text) in own {
        for rest in text.split("#[test]\nfn ").skip(1) {
            let Some((rule, _)) = rest.split_once("()") else {
                continue;
            };
            if !rule.starts_with("self_test_") && rule.chars().all(|c| c.is_alphanumeric() || c == '_') {
                rules += 1;
                let name = format!("`tests/tidy/{module}.rs::{rule}`");
                assert!(architecture.contains(&name), "ARCHITECTURE.md does not name {name}");
            }
        }
    }
    assert!(rules > 15, "only {rules} rules were found");
}

/// Actions are pinned to a full commit id, with the version as a comment.
fn loose_actions(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(action) = line
            .trim_start()
            .trim_start_matches("- ")
            .strip_prefix("uses:")
            .map(str::trim)
        else {
            continue;
        };
        if action.starts_with("./") {
            continue;
        }
        let (pinned, comment) = action.split_once('#').unwrap_or((action, ""));
        let id = pinned.trim().rsplit_once('@').map_or("", |(_, id)| id);
        if id.len() != 40 || !id.bytes().all(|b| b.is_ascii_hexdigit()) {
            problems.push(format!(
                "{path}:{}: pin {} to a full commit id",
                number + 1,
                pinned.trim()
            ));
        } else if !comment.trim().starts_with('v') {
            problems.push(format!("{path}:{}: say which version {id} is", number + 1));
        }
    }
    problems
}

#[test]
fn workflow_actions_are_pinned() {
    keep(|path| path.starts_with(".github/workflows/"), loose_actions);
}

#[test]
fn self_test_workflow_actions_are_pinned() {
    let id = "0123456789abcdef0123456789abcdef01234567";
    let good = format!("  - uses: a/b@{id} # v1.2.3\n  - uses: ./local");
    check(loose_actions, "a.yml", "  - uses: actions/checkout@v4", &good);
    check(loose_actions, "a.yml", "    uses: actions/checkout@main # v4", &good);
    check(loose_actions, "a.yml", &format!("  - uses: a/b@{id}"), &good);
}
