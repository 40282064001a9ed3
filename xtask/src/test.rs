//! `cargo xtask test`: every check and every test, all of them even after one failed, and one closing line.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::docs;
use crate::place::Place;
use crate::provision;
use crate::step::{self, Counts, cargo, command};

type Check = fn(&Place) -> Vec<Report>;

/// In the order they run: quick ones first, and the interface before the Rust that embeds it.
const CHECKS: &[(&str, Check)] = &[
    ("format", format),
    ("interface", interface),
    ("clippy", clippy),
    ("deny", deny),
    ("build", build),
    ("rust", rust),
    ("doc", doc),
    ("display", display),
    ("docs", tables),
];

struct Report {
    name: String,
    counts: Counts,
    /// Empty when all is well.
    cause: String,
}

pub fn test(place: &Place, wanted: &[String]) -> Result<(), String> {
    if wanted.iter().any(|arg| arg == "--list") {
        CHECKS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    if let Some(unknown) = wanted.iter().find(|arg| !CHECKS.iter().any(|(name, _)| name == arg)) {
        return Err(format!(
            "there is no step `{unknown}`; `cargo xtask test --list` names them"
        ));
    }
    provision::for_test(place)?;
    let mut all = Counts::default();
    let mut failures = Vec::new();
    for (name, check) in CHECKS {
        if !wanted.is_empty() && !wanted.iter().any(|arg| arg == name) {
            continue;
        }
        for report in check(place) {
            all.add(report.counts);
            if !report.cause.is_empty() {
                failures.push(format!("{}: {}", report.name, report.cause));
            }
        }
    }
    println!();
    failures.iter().for_each(|failure| println!("failed: {failure}"));
    let skipped = if all.skipped > 0 {
        format!(", {} skipped", all.skipped)
    } else {
        String::new()
    };
    println!("{} passed, {} failed{skipped}", all.passed, all.failed);
    // The count is the last line; what failed stands above it.
    if failures.is_empty() {
        Ok(())
    } else {
        Err(String::new())
    }
}

/// One command that counts as one check, plus the tests that its output reports.
fn one(name: &str, command: Command) -> Report {
    let outcome = step::watched(name, command);
    let mut counts = outcome.counts;
    // A test step that fails without a failed test did not compile or crashed: that is one failure more.
    match (outcome.ok, counts == Counts::default()) {
        (true, true) => counts.passed = 1,
        (false, _) if counts.failed == 0 => counts.failed = 1,
        _ => {}
    }
    Report {
        name: name.to_string(),
        counts,
        cause: outcome.cause,
    }
}

fn result(name: &str, result: Result<(), String>) -> Report {
    let (passed, failed) = if result.is_ok() { (1, 0) } else { (0, 1) };
    let cause = result.err().unwrap_or_default();
    if !cause.is_empty() {
        eprintln!("{name}: {cause}");
    }
    Report {
        name: name.to_string(),
        counts: Counts {
            passed,
            failed,
            skipped: 0,
        },
        cause,
    }
}

fn format(place: &Place) -> Vec<Report> {
    vec![one("format", cargo(&place.root, &["fmt", "--all", "--check"]))]
}

fn interface(place: &Place) -> Vec<Report> {
    let mut reports = vec![result("interface build", provision::interfaces(place))];
    for folder in provision::interface_folders(place) {
        for script in ["check", "test"] {
            let mut npm = command(&place.root.join(folder), "npm", &["run", "--silent", script]);
            npm.env("NO_COLOR", "1").env("CI", "true");
            reports.push(one(&format!("{folder} {script}"), npm));
        }
    }
    reports
}

fn clippy(place: &Place) -> Vec<Report> {
    let args = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--features",
        "chrysalis/test-hook",
        "--",
        "-D",
        "warnings",
    ];
    vec![one("clippy", cargo(&place.root, &args))]
}

fn deny(place: &Place) -> Vec<Report> {
    let program = match provision::cargo_deny(place) {
        Ok(program) => program,
        Err(cause) => return vec![result("deny", Err(cause))],
    };
    // Duplicates are warned about by `cargo deny check` itself; here they would bury the errors.
    let mut rules = command(
        &place.root,
        &program,
        &[
            "--locked",
            "--log-level",
            "error",
            "check",
            "-A",
            "duplicate",
            "bans",
            "licenses",
            "sources",
        ],
    );
    rules.env("CARGO_TERM_COLOR", "never");
    let mut reports = vec![one("deny", rules)];
    let outcome = step::watched(
        "deny advisories",
        command(
            &place.root,
            &program,
            &["--locked", "--log-level", "error", "check", "advisories"],
        ),
    );
    reports.push(
        if !outcome.ok && outcome.tail.contains("failed to fetch advisory database") {
            println!("deny advisories: skipped, the advisory database cannot be reached from here");
            Report {
                name: "deny advisories".into(),
                counts: Counts {
                    skipped: 1,
                    ..Counts::default()
                },
                cause: String::new(),
            }
        } else {
            result("deny advisories", if outcome.ok { Ok(()) } else { Err(outcome.cause) })
        },
    );
    reports
}

/// Everything that tests start (`chrysalis`, `chrysalis-worker`) and the tests themselves.
fn build(place: &Place) -> Vec<Report> {
    vec![
        one("build", cargo(&place.root, &["build", "--workspace", "--locked"])),
        one(
            "build tests",
            cargo(&place.root, &["test", "--workspace", "--locked", "--no-run"]),
        ),
    ]
}

fn with_environment(place: &Place, mut command: Command) -> Command {
    command
        .env("CHRYSALIS_TEST_VENV", place.venv())
        .env("RUST_BACKTRACE", "1");
    command
}

/// All tests that need no display. Without a session bus, so that a keychain of the person who runs this is never
/// touched: tests that need one start their own.
fn rust(place: &Place) -> Vec<Report> {
    let mut args = vec!["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins"];
    let targets = test_targets(&place.root);
    for target in targets.iter().filter(|target| !target.display) {
        args.extend(["--test", &target.name]);
    }
    let mut tests = with_environment(place, cargo(&place.root, &args));
    for name in ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"] {
        tests.env_remove(name);
    }
    vec![one("tests", tests)]
}

fn doc(place: &Place) -> Vec<Report> {
    vec![one(
        "doc tests",
        with_environment(place, cargo(&place.root, &["test", "--workspace", "--locked", "--doc"])),
    )]
}

/// Tests with windows, browsers or a keychain: on a virtual screen and a session bus of their own, one at a time, with
/// a fresh unlocked keyring and the test-only hook that reads app windows.
fn display(place: &Place) -> Vec<Report> {
    let targets = test_targets(&place.root);
    let names: Vec<&str> = targets
        .iter()
        .filter(|target| target.display)
        .map(|target| target.name.as_str())
        .collect();
    if names.is_empty() {
        println!("\n==> display tests: there are none");
        return Vec::new();
    }
    let data = place.target.join("xtask-display-data");
    let _ = fs::remove_dir_all(&data);
    let keyring = "printf test | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1; exec \"$@\"";
    let cargo_path = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut args = vec![
        "-a",
        "-s",
        "-screen 0 1280x900x24",
        "dbus-run-session",
        "--",
        "bash",
        "-c",
        keyring,
        "keyring",
        &cargo_path,
    ];
    args.extend([
        "test",
        "--workspace",
        "--locked",
        "--no-fail-fast",
        "--features",
        "chrysalis/test-hook",
    ]);
    for name in &names {
        args.extend(["--test", name]);
    }
    args.extend(["--", "--test-threads=1"]);
    let mut tests = with_environment(place, command(&place.root, "xvfb-run", &args));
    tests.env("XDG_DATA_HOME", &data).env_remove("WAYLAND_DISPLAY");
    vec![one("display tests", tests)]
}

fn tables(place: &Place) -> Vec<Report> {
    vec![result("docs", docs::docs(place, &[]))]
}

struct Target {
    name: String,
    display: bool,
}

/// The integration tests of all packages. Those of the root package that are named `desktop…` or `browser…`, or that
/// say `xtask: display` in their first lines, need a display.
fn test_targets(root: &Path) -> Vec<Target> {
    let mut folders = vec![root.join("tests"), root.join("xtask/tests")];
    if let Ok(crates) = fs::read_dir(root.join("src-tauri/crates")) {
        folders.extend(crates.flatten().map(|entry| entry.path().join("tests")));
    }
    let mut targets: Vec<Target> = Vec::new();
    for entry in folders
        .iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.flatten())
    {
        let path = entry.path();
        let source = if path.is_dir() {
            path.join("main.rs")
        } else {
            path.clone()
        };
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        if source.extension().is_none_or(|ext| ext != "rs") || targets.iter().any(|target| target.name == name) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&source) else {
            continue;
        };
        targets.push(Target {
            name: name.to_string(),
            display: needs_display(name, &text),
        });
    }
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    targets
}

fn needs_display(name: &str, text: &str) -> bool {
    name.starts_with("desktop")
        || name.starts_with("browser")
        || text.lines().take(12).any(|line| line.contains("xtask: display"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_tests_are_told_by_name_or_by_their_own_word() {
        assert!(needs_display("desktop_start", ""));
        assert!(needs_display("browser_frames", ""));
        assert!(needs_display("canary", "//! The key.\n// xtask: display\n"));
        assert!(!needs_display("tidy", "//! Rules.\n"));
    }

    #[test]
    fn this_repository_has_a_tidy_test_and_it_needs_no_display() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let targets = test_targets(&root);
        assert!(targets.iter().any(|target| target.name == "tidy" && !target.display));
    }
}
