//! A hostile app page in Chromium and in Firefox: every attempt of tests/hostile is heard in an unprotected twin and
//! silent in the program's frame. What a browser still lets through stands in a list here and in SECURITY.md, and
//! anything beyond the list fails.

#[path = "browser/kit.rs"]
mod kit;
#[path = "hostile/listeners.rs"]
mod listeners;

use std::collections::BTreeSet;
use std::fs;

use listeners::Listeners;
use serde_json::{Value, json};

/// As many attempts at least must be heard in the twin, or the test proves little.
const ENOUGH: usize = 60;

fn hostile(browser: &str) -> Value {
    let folder = kit::fresh(&format!("browser-hostile-{browser}"));
    let home = folder.join("home");
    let listeners = Listeners::start();
    let served = kit::serve(&home);
    let victim = folder.join("victim");
    fs::create_dir_all(&victim).unwrap();
    for (name, content) in [
        (
            "manifest.json",
            &br#"{"name": "Victim", "version": "1.0.0", "kind": "web"}"#[..],
        ),
        ("index.html", b"<!doctype html><title>Victim</title>mine"),
        ("secret.txt", b"secret"),
        ("secret.js", b"globalThis.secret = true;"),
        ("secret.png", listeners::PIXEL),
    ] {
        fs::write(victim.join(name), content).unwrap();
    }
    let hostile = listeners.app(&folder, &served.url, "victim");
    for (path, id) in [(victim, "victim"), (hostile, "hostile")] {
        kit::run(&home, &["app", "add", path.to_str().unwrap(), "--id", id, "--yes"]);
    }
    let twin = format!("http://127.0.0.1:{}", listeners.http);
    let result = kit::node(
        "hostile.mjs",
        &json!({"browser": browser, "twin": twin, "url": served.url, "setup": served.setup,
                "only": std::env::var("CHRYSALIS_TEST_ONLY").ok()}),
    );
    fs::write(
        folder.join("result.json"),
        serde_json::to_string_pretty(&result).unwrap(),
    )
    .unwrap();
    result
}

/// Names of attempts that were heard or won, with how.
fn found(part: &Value) -> BTreeSet<String> {
    part["found"].as_object().unwrap().keys().cloned().collect()
}

fn check(browser: &str, let_through_in_frame: &[&str], let_through_in_tab: &[&str]) {
    let result = hostile(browser);
    println!("{browser}: {}", result["version"]);
    let names: BTreeSet<String> = serde_json::from_value(result["names"].clone()).unwrap();
    let heard: BTreeSet<String> = found(&result["twin"]).intersection(&names).cloned().collect();
    let unheard: Vec<&String> = names.difference(&heard).collect();
    println!("{browser}: {} attempts, {} heard in the twin", names.len(), heard.len());
    assert!(
        unheard.is_empty(),
        "not heard even without walls, so they prove nothing: {unheard:?}\n{}",
        result["twin"]["errors"]
    );
    assert!(heard.len() >= ENOUGH, "only {} attempts", heard.len());
    let mut beyond = Vec::new();
    for (place, known) in [("framed", let_through_in_frame), ("tab", let_through_in_tab)] {
        let part = &result[place];
        let tried = part["tried"].as_str().unwrap_or_default();
        assert!(
            tried.starts_with("tried "),
            "{place}: the attempts did not run: {tried}"
        );
        println!("{browser} {place}: {tried}, let through: {:?}", found(part));
        assert_eq!(part["left"], json!([]), "{place}: the window itself was led away");
        assert_eq!(
            part["missed"],
            json!([]),
            "{place}: attempts that run alone did not run"
        );
        for (name, how) in part["found"].as_object().unwrap() {
            if !known.contains(&name.as_str()) {
                beyond.push(format!("{place}: {name} ({how})"));
            }
        }
    }
    assert!(beyond.is_empty(), "let through beyond the list: {beyond:#?}");
}

#[test]
fn chromium_lets_nothing_out() {
    if listeners::alone("chromium_lets_nothing_out") {
        check("chromium", &[], &[]);
    }
}

/// Firefox does not know `Connection-Allowlist`. A name can be looked up, and a child document that runs one of the
/// app's own files without the bridge has WebRTC.
const FIREFOX_FRAME: &[&str] = &[
    "dns-srcdoc-prefetch",
    "link-preconnect-tls",
    "own-child-dns-prefetch",
    "own-child-name",
    "own-child-preconnect-tls",
    "own-child-stun",
    "own-child-turn",
];

/// What is more in a tab, where no shell page is above to forbid it: the tab goes where its page likes. There is no bridge
/// there and so no answer of the engine; what the app itself has stored stands in its page and could be taken along.
const FIREFOX_TAB: &[&str] = &[
    "location",
    "location-name",
    "location-replace",
    "meta-refresh",
    "navigation-api",
    "parent-location",
    "top-location",
];

#[test]
fn firefox_lets_out_what_is_listed() {
    if listeners::alone("firefox_lets_out_what_is_listed") {
        check("firefox", FIREFOX_FRAME, &[FIREFOX_FRAME, FIREFOX_TAB].concat());
    }
}
