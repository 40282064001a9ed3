//! The launcher and the pages that ship in the box.

use crate::source::find;
use crate::{Problem, check, keep};

fn imports_tauri(path: &str, text: &str) -> Vec<Problem> {
    if path == "ui/src/backend.tauri.ts" {
        return Vec::new();
    }
    find(
        path,
        text,
        &["@tauri-apps"],
        "only backend.tauri.ts knows Tauri; use the interface in backend.ts",
    )
}

fn is_page_source(path: &str) -> bool {
    let source = [".ts", ".tsx", ".js", ".jsx", ".mjs", ".html"]
        .iter()
        .any(|ending| path.ends_with(ending));
    let test = path.contains(".test.") || path.contains("/tests/") || path.contains(".config.");
    source && !test && (path.starts_with("ui/") || path.starts_with("apps/"))
}

#[test]
fn only_one_file_of_the_interface_knows_tauri() {
    keep(
        |path| path.starts_with("ui/src/") && is_page_source(path),
        imports_tauri,
    );
}

#[test]
fn self_test_only_one_file_of_the_interface_knows_tauri() {
    check(
        imports_tauri,
        "ui/src/app.tsx",
        "import { invoke } from '@tauri-apps/api/core'",
        "import { backend } from './backend'",
    );
    assert!(imports_tauri("ui/src/backend.tauri.ts", "import '@tauri-apps/api'").is_empty());
}

/// Text from apps, models and manifests is text: nothing in our pages parses a string as markup or code.
fn parses_markup(path: &str, text: &str) -> Vec<Problem> {
    let words = [
        "dangerouslySetInnerHTML",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "srcdoc",
        "srcDoc",
        "new Function",
        "eval(",
    ];
    find(path, text, &words, "no string becomes markup or code in our pages")
}

#[test]
fn no_page_of_ours_parses_strings_as_markup() {
    keep(
        |path| is_page_source(path) && (path.starts_with("ui/src/") || path.starts_with("apps/")),
        parses_markup,
    );
}

#[test]
fn self_test_no_page_of_ours_parses_strings_as_markup() {
    check(
        parses_markup,
        "ui/src/a.tsx",
        "<p dangerouslySetInnerHTML={{ __html: name }} />",
        "<p>{name}</p>",
    );
    check(
        parses_markup,
        "apps/chat/src/a.ts",
        "node.innerHTML = text",
        "node.textContent = text",
    );
}

/// The launcher's policy names no host, no inline script and no eval, and one window has capabilities: the launcher.
fn launcher_policy(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let line = |key: &str| {
        text.lines()
            .find(|line| line.trim_start().starts_with(&format!("\"{key}\"")))
            .unwrap_or_default()
    };
    let csp = line("csp");
    for wanted in [
        "default-src 'none'",
        "script-src 'self';",
        "frame-src 'none'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ] {
        if !csp.contains(wanted) {
            problems.push(format!("{path}: the launcher's policy must hold {wanted}"));
        }
    }
    for source in csp
        .split([' ', ';', '"'])
        .filter(|word| word.contains("://") || *word == "https:" || *word == "http:" || *word == "*")
    {
        // Tauri's own IPC under the name that some webviews use for it.
        if source != "http://ipc.localhost" {
            problems.push(format!("{path}: the launcher's policy lets {source} in"));
        }
    }
    if !line("withGlobalTauri").is_empty() && !line("withGlobalTauri").contains("false") {
        problems.push(format!("{path}: withGlobalTauri must be false"));
    }
    let windows: Vec<&str> = text
        .lines()
        .filter(|line| line.trim_start().starts_with("\"windows\": [\""))
        .collect();
    if windows.iter().any(|line| !line.contains("[\"launcher\"]")) {
        problems.push(format!("{path}: only the launcher has capabilities"));
    }
    if text.contains("\"remote\"") {
        problems.push(format!("{path}: no remote page has capabilities"));
    }
    problems
}

#[test]
fn the_launcher_has_no_remote_content() {
    keep(|path| path == "tauri.conf.json", launcher_policy);
}

#[test]
fn self_test_the_launcher_has_no_remote_content() {
    let config = |sources: &str, window: &str| {
        format!(
            "\"csp\": \"default-src 'none'; script-src 'self'; {sources} frame-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'\"\n\"windows\": [\"{window}\"]"
        )
    };
    let good = config("connect-src ipc: http://ipc.localhost;", "launcher");
    check(
        launcher_policy,
        "tauri.conf.json",
        &config("font-src https://fonts.example;", "launcher"),
        &good,
    );
    check(launcher_policy, "tauri.conf.json", &config("", "*"), &good);
    check(
        launcher_policy,
        "tauri.conf.json",
        &config("", "launcher").replace("script-src 'self'", "script-src 'self' 'unsafe-inline'"),
        &good,
    );
}
