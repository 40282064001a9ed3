//! Rooms and their walls: what only one crate may do, and which way dependencies point.

use crate::source::{find, in_crate, program, ships, ships_outside};
use crate::{Problem, check, files, keep};

fn connects(path: &str, text: &str) -> Vec<Problem> {
    let words = [
        "reqwest",
        "TcpStream::connect",
        "TcpSocket",
        "UdpSocket",
        "ToSocketAddrs",
        "lookup_host",
        "hyper_util::client",
        "HttpConnector",
    ];
    find(
        path,
        &program(text),
        &words,
        "only `net` opens outgoing connections; go through it",
    )
}

#[test]
fn only_net_opens_connections() {
    keep(|path| ships_outside(path, &["net"]), connects);
}

#[test]
fn self_test_only_net_opens_connections() {
    let good = "// reqwest::Client\nfn f() { let l = TcpListener::bind(a); \"TcpStream::connect\"; UnixStream::connect(p) }\n#[cfg(test)]\nmod t { fn g() { TcpStream::connect(a); } }";
    check(
        connects,
        "src-tauri/crates/engine/src/a.rs",
        "use reqwest::Client;",
        good,
    );
    check(
        connects,
        "src-tauri/src/a.rs",
        "let s = std::net::TcpStream::connect(a)?;",
        good,
    );
    check(
        connects,
        "src-tauri/src/a.rs",
        "tokio::net::lookup_host(name).await",
        good,
    );
}

fn reveals(path: &str, text: &str) -> Vec<Problem> {
    let words = ["reveal_to_net", "expose_to_net"];
    find(path, &program(text), &words, "only `net` takes a key out of its handle")
}

#[test]
fn only_net_sees_key_bytes() {
    keep(|path| ships_outside(path, &["secrets", "net"]), reveals);
    // The names this rule searches for are the ones that `secrets` uses.
    let gate = files()
        .into_iter()
        .any(|file| in_crate(&file.path, "secrets") && file.text.contains("pub fn reveal_to_net"));
    assert!(
        gate,
        "`secrets` no longer has `reveal_to_net`: give this rule the new name"
    );
}

#[test]
fn self_test_only_net_sees_key_bytes() {
    check(
        reveals,
        "src-tauri/crates/providers/src/a.rs",
        "handle.reveal_to_net(origin)",
        "handle.origin()",
    );
}

/// Types that hold key bytes derive nothing that shows or copies them out.
fn shows_secrets(path: &str, text: &str) -> Vec<Problem> {
    let code = program(text);
    let lines: Vec<&str> = code.lines().collect();
    let mut problems = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let holds = ["struct Secret", "struct KeyHandle", "struct Held", "struct Vault"]
            .iter()
            .any(|name| {
                line.find(name)
                    .is_some_and(|at| !line[at + name.len()..].starts_with(|c: char| c.is_alphanumeric()))
            });
        if !holds {
            continue;
        }
        let attributes: Vec<&str> = lines[..i]
            .iter()
            .rev()
            .take_while(|l| l.trim_start().starts_with('#'))
            .copied()
            .collect();
        problems.extend(find(
            path,
            &attributes.join("\n"),
            &["Debug", "Serialize"],
            "a type that holds a key may not derive this",
        ));
    }
    problems.extend(find(
        path,
        &code,
        &["Serialize for Secret", "Display for Secret", "Serialize for KeyHandle"],
        "a key is never written out",
    ));
    problems
}

#[test]
fn secrets_are_neither_shown_nor_serialized() {
    keep(|path| ships(path) && in_crate(path, "secrets"), shows_secrets);
}

#[test]
fn self_test_secrets_are_neither_shown_nor_serialized() {
    let path = "src-tauri/crates/secrets/src/a.rs";
    check(
        shows_secrets,
        path,
        "#[derive(Clone, Debug)]\npub struct Secret(Vec<u8>);",
        "#[derive(Clone)]\npub struct Secret(Vec<u8>);",
    );
    check(
        shows_secrets,
        path,
        "impl serde::Serialize for Secret {}",
        "#[derive(Debug)]\npub struct SecretError;",
    );
}

fn speaks_sql(path: &str, text: &str) -> Vec<Problem> {
    find(path, &program(text), &["rusqlite", "sqlite3"], "only `db` speaks SQL")
}

#[test]
fn only_db_speaks_sql() {
    keep(|path| ships_outside(path, &["db"]), speaks_sql);
}

#[test]
fn self_test_only_db_speaks_sql() {
    check(
        speaks_sql,
        "src-tauri/crates/engine/src/a.rs",
        "use rusqlite::Connection;",
        "use db::Db; // rusqlite",
    );
}

fn spawns(path: &str, text: &str) -> Vec<Problem> {
    let code = program(text);
    let mut problems = find(
        path,
        &code,
        &[
            "process::Command",
            "tokio::process",
            "libc::fork",
            "libc::execv",
            "libc::execve",
            "libc::posix_spawn",
            "libc::system",
        ],
        "only `sandbox` starts processes",
    );
    for (number, line) in code.lines().enumerate() {
        if line.contains("std::process::{") && line.contains("Command") {
            problems.push(format!("{path}:{}: only `sandbox` starts processes", number + 1));
        }
    }
    problems
}

#[test]
fn only_sandbox_starts_processes() {
    keep(|path| ships_outside(path, &["sandbox"]), spawns);
}

#[test]
fn self_test_only_sandbox_starts_processes() {
    let good = "use std::process::ExitCode; enum Command { Serve } #[command(name)] struct A;";
    check(spawns, "src-tauri/src/a.rs", "std::process::Command::new(x)", good);
    check(
        spawns,
        "src-tauri/src/a.rs",
        "use std::process::{Command, ExitCode};",
        good,
    );
    check(
        spawns,
        "src-tauri/crates/apps/src/a.rs",
        "tokio::process::Command::new(x)",
        good,
    );
}

fn opens_paths(path: &str, text: &str) -> Vec<Problem> {
    // The types in std::fs are handles, and a handle that `files` opened may be read anywhere: it is opening that counts.
    let words = [
        "std::fs;",
        "tokio::fs;",
        "fs::read",
        "fs::read_to_string",
        "fs::read_dir",
        "fs::read_link",
        "fs::write",
        "fs::metadata",
        "fs::symlink_metadata",
        "fs::canonicalize",
        "fs::copy",
        "fs::rename",
        "fs::hard_link",
        "fs::remove_file",
        "fs::remove_dir",
        "fs::remove_dir_all",
        "fs::create_dir",
        "fs::create_dir_all",
        "File::open",
        "File::create",
        "OpenOptions",
        "ServeDir",
        "ServeFile",
    ];
    find(
        path,
        &program(text),
        &words,
        "only `files` opens a path that a guest or an archive named",
    )
}

#[test]
fn only_files_opens_paths_that_guests_name() {
    let rooms = ["apps", "server", "providers"];
    keep(
        |path| ships(path) && rooms.iter().any(|name| in_crate(path, name)),
        opens_paths,
    );
}

#[test]
fn self_test_only_files_opens_paths_that_guests_name() {
    check(
        opens_paths,
        "src-tauri/crates/apps/src/a.rs",
        "std::fs::read(path)",
        "folder.read(path)",
    );
    check(
        opens_paths,
        "src-tauri/crates/server/src/a.rs",
        "tokio::fs::File::open(path).await",
        "files.open(path)",
    );
}

const REACHING_OUT: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "tokio",
];

fn does_io(path: &str, text: &str) -> Vec<Problem> {
    let words = [REACHING_OUT, &["std::io"]].concat();
    find(path, &program(text), &words, "`policy` is pure: hand it what it needs")
}

fn archive_reaches_out(path: &str, text: &str) -> Vec<Problem> {
    // `std::io` has the traits for readers over bytes.
    find(
        path,
        &program(text),
        REACHING_OUT,
        "`archive` turns bytes into values and opens nothing",
    )
}

#[test]
fn archive_opens_nothing() {
    keep(|path| ships(path) && in_crate(path, "archive"), archive_reaches_out);
}

#[test]
fn self_test_archive_opens_nothing() {
    check(
        archive_reaches_out,
        "src-tauri/crates/archive/src/a.rs",
        "let bytes = std::fs::read(name);",
        "pub fn read(name: &str, out: &mut impl std::io::Write) {}",
    );
}

#[test]
fn policy_does_no_io() {
    keep(|path| ships(path) && in_crate(path, "policy"), does_io);
}

#[test]
fn self_test_policy_does_no_io() {
    check(
        does_io,
        "src-tauri/crates/policy/src/a.rs",
        "let text = std::fs::read_to_string(p);",
        "pub fn check(url: &Url) {}",
    );
}

/// The rooms by floor; a crate may use only crates of lower floors.
const FLOORS: &[&[&str]] = &[
    &["policy"],
    &["secrets", "files", "archive", "db"],
    &["net"],
    &["sandbox", "history", "providers", "accounts"],
    &["apps", "agent", "services"],
    &["engine"],
    &["server"],
    &["chrysalis"],
];

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

/// The names in a manifest's dependency tables, without those for tests and build scripts.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut wanted = false;
    let mut names = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            wanted = table == "dependencies" || (table.starts_with("target.") && table.ends_with(".dependencies"));
            if let Some(name) = table.strip_prefix("dependencies.") {
                names.push(name.to_string());
            }
        } else if wanted && !line.starts_with('#') {
            let name: String = line
                .chars()
                .take_while(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
                .collect();
            if !name.is_empty() {
                names.push(name);
            }
        }
    }
    names
}

fn crate_name(manifest: &str) -> Option<&str> {
    let package = &manifest[manifest.find("[package]")?..];
    package
        .lines()
        .find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

fn arrows(path: &str, manifest: &str) -> Vec<Problem> {
    let Some(name) = crate_name(manifest) else {
        return vec![format!("{path}: no [package] name")];
    };
    let names = dependencies(manifest);
    if name == "testkit" || name == "xtask" {
        return Vec::new();
    }
    let Some(own) = floor(name) else {
        return vec![format!(
            "{path}: `{name}` has no floor: add it to FLOORS and to ARCHITECTURE.md"
        )];
    };
    let mut problems = Vec::new();
    for used in names {
        if used == "testkit" {
            problems.push(format!("{path}: `testkit` is for [dev-dependencies]"));
        } else if floor(&used).is_some_and(|floor| floor >= own) {
            problems.push(format!(
                "{path}: `{name}` may not use `{used}`: arrows point down the house"
            ));
        }
    }
    problems
}

fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || (path.starts_with("src-tauri/") && path.ends_with("/Cargo.toml"))
}

#[test]
fn arrows_point_down_the_house() {
    keep(is_manifest, arrows);
}

#[test]
fn self_test_arrows_point_down_the_house() {
    let manifest = |name: &str, uses: &str| {
        format!("[package]\nname = \"{name}\"\n[dependencies]\n{uses}\n[dev-dependencies]\ntestkit.workspace = true\n")
    };
    let good = manifest("net", "policy.workspace = true\nsecrets.workspace = true\nurl = \"2\"");
    check(
        arrows,
        "a/Cargo.toml",
        &manifest("net", "engine.workspace = true"),
        &good,
    );
    check(
        arrows,
        "a/Cargo.toml",
        &manifest("db", "files = { workspace = true }"),
        &good,
    );
    check(
        arrows,
        "a/Cargo.toml",
        &manifest("engine", "testkit.workspace = true"),
        &good,
    );
    check(
        arrows,
        "a/Cargo.toml",
        &manifest("cellar", "policy.workspace = true"),
        &good,
    );
}

/// Libraries that one room keeps to itself.
const KEPT: &[(&str, &[&str])] = &[
    ("reqwest", &["net"]),
    ("rusqlite", &["db"]),
    ("keyring", &["secrets"]),
    ("cap-std", &["files"]),
    ("cap-fs-ext", &["files"]),
    ("flate2", &["archive"]),
    ("rquickjs", &["sandbox"]),
    ("seccompiler", &["sandbox"]),
    ("landlock", &["sandbox"]),
    ("bcrypt", &["accounts"]),
    ("tauri", &["chrysalis"]),
    ("wry", &["chrysalis"]),
];

fn kept_libraries(path: &str, manifest: &str) -> Vec<Problem> {
    let name = crate_name(manifest).unwrap_or_default();
    dependencies(manifest)
        .iter()
        .filter_map(|used| {
            KEPT.iter()
                .find(|(library, rooms)| library == used && name != "testkit" && !rooms.contains(&name))
        })
        .map(|(library, rooms)| format!("{path}: `{library}` belongs to `{}` alone", rooms.join("`, `")))
        .collect()
}

#[test]
fn libraries_with_power_have_one_room() {
    keep(is_manifest, kept_libraries);
}

#[test]
fn self_test_libraries_with_power_have_one_room() {
    let manifest = |name: &str| format!("[package]\nname = \"{name}\"\n\n[dependencies]\nreqwest.workspace = true\n");
    check(kept_libraries, "a/Cargo.toml", &manifest("apps"), &manifest("net"));
}

/// The hook that evaluates script in app windows is asked for by name, never on by default.
fn hook_by_default(path: &str, manifest: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !manifest.lines().any(|line| line.starts_with("test-hook = ")) {
        problems.push(format!("{path}: the feature test-hook is gone: take this rule with it"));
    }
    for (number, line) in manifest.lines().enumerate() {
        if line.trim_start().starts_with("default = ") && !line.contains("[]") {
            problems.push(format!("{path}:{}: the program has no default features", number + 1));
        }
    }
    problems
}

#[test]
fn the_test_hook_is_off_by_default() {
    keep(|path| path == "Cargo.toml", hook_by_default);
}

#[test]
fn self_test_the_test_hook_is_off_by_default() {
    check(
        hook_by_default,
        "Cargo.toml",
        "[features]\ndefault = [\"test-hook\"]\ntest-hook = []",
        "[features]\ntest-hook = []",
    );
}
