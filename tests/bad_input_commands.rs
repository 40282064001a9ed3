//! The command line on the built program: odd folders, wrong names, and every command with and without a running engine.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::program::Ran;
use testkit::{AppFolder, Home, PASSWORD, process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

fn add(home: &Home, folder: &Path, more: &[&str]) -> Ran {
    let mut args = vec!["app", "add", folder.to_str().unwrap()];
    args.extend(more);
    home.run(&args)
}

fn listed(home: &Home) -> Vec<String> {
    let out = home.run(&["app", "list", "--json"]);
    let all: Value = serde_json::from_str(out.must_succeed()).unwrap();
    let mut ids: Vec<_> = all["apps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

#[test]
fn what_the_program_says_of_itself() {
    let home = Home::new(PROGRAM);
    let version = home.run(&["--version"]);
    assert_eq!(
        version.must_succeed().trim(),
        format!("chrysalis {}", env!("CARGO_PKG_VERSION"))
    );
    let help = home.run(&["--help"]);
    says(
        help.must_succeed(),
        &["serve", "app", "paths", "reset-password", "--home", "CHRYSALIS_HOME"],
    );
    for args in [&["serve", "--help"][..], &["app", "--help"], &["app", "add", "--help"]] {
        home.run(args).must_succeed();
    }
    let paths = home.run(&["paths"]);
    let place = home.path();
    says(
        paths.must_succeed(),
        &[
            place.to_str().unwrap(),
            "config.toml",
            "chrysalis.db",
            "logs",
            "chrysalis-worker",
        ],
    );
    assert!(!place.exists(), "asking where things are makes nothing");
    for args in [
        &["fly"][..],
        &["serve", "--port", "70000"],
        &["serve", "--port", "x"],
        &["app"],
        &["app", "add"],
    ] {
        assert!(!home.run(args).must_fail().is_empty(), "{args:?}");
        assert!(!place.exists(), "{args:?}");
    }
    // Without a display the desktop says so instead of crashing.
    let desktop = home.run(&[]);
    says(desktop.must_fail(), &["DISPLAY", "chrysalis serve"]);
}

/// The same with nothing running, and with an engine running on the home.
fn with_and_without_an_engine(test: impl Fn(&Home, &str)) {
    let home = Home::new(PROGRAM);
    test(&home, "nothing runs");
    let home = Home::new(PROGRAM);
    let running = home.serve();
    test(&home, "an engine runs");
    drop(running);
}

#[test]
fn apps_are_added_listed_and_removed() {
    with_and_without_an_engine(|home, when| {
        let code = "export const handleRoute = () => ({ json: 1 });";
        let app = AppFolder::new(home.folder(), "My App").plugin("p", &["routes", "store"], code);
        // Without --yes, and without a terminal to ask at, nothing is added.
        let ran = add(home, app.path(), &[]);
        says(ran.must_fail(), &["nothing was added", "--yes"]);
        says(&ran.out, &["plugin p", "(routes)", "(store)"]);
        assert!(listed(home).is_empty(), "{when}");
        let ran = home.run(&["app", "list"]);
        assert_eq!(ran.must_succeed(), "", "{when}");
        says(&ran.err, &["no apps yet", "app add"]);
        let ran = add(home, app.path(), &["--yes"]);
        says(ran.must_succeed(), &["My App", "plugin p", "(routes)", "added my-app"]);
        let ran = add(home, app.path(), &["--yes"]);
        says(ran.must_fail(), &["is here already", "app remove my-app", "--id"]);
        add(home, app.path(), &["--yes", "--id", "second"]).must_succeed();
        assert_eq!(listed(home), ["my-app", "second"], "{when}");
        let ran = home.run(&["app", "list"]);
        says(ran.must_succeed(), &["my-app", "1.0.0", "My App"]);
        // One that needs nothing needs no yes.
        let quiet = AppFolder::new(home.folder(), "quiet");
        says(add(home, quiet.path(), &[]).must_succeed(), &["added quiet"]);
        for id in ["my-app", "second", "quiet"] {
            says(home.run(&["app", "remove", id]).must_succeed(), &["removed"]);
        }
        says(
            home.run(&["app", "remove", "second"]).must_fail(),
            &["there is no app \"second\""],
        );
        says(home.run(&["app", "remove", "../x"]).must_fail(), &["is not valid"]);
        assert!(listed(home).is_empty(), "{when}");
        assert!(
            app.path().join("manifest.json").exists(),
            "the source folder is left alone"
        );
    });
}

#[test]
fn odd_folders_are_refused_whole() {
    with_and_without_an_engine(|home, when| {
        let secret = home.folder().join("secret.txt");
        std::fs::write(&secret, "not yours").unwrap();
        let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        type Odd<'a> = (&'a str, &'a dyn Fn(&Path), &'a [&'a str]);
        let odd: &[Odd<'_>] = &[
            (
                "link",
                &|f| symlink(&secret, f.join("data.txt")).unwrap(),
                &["data.txt", "link"],
            ),
            (
                "dangling",
                &|f| symlink("/nowhere", f.join("gone.txt")).unwrap(),
                &["gone.txt", "link"],
            ),
            (
                "folderlink",
                &|f| symlink("/etc", f.join("etc")).unwrap(),
                &["etc", "link"],
            ),
            (
                "manifestlink",
                &|f| {
                    std::fs::rename(f.join("manifest.json"), f.join("../real.json")).unwrap();
                    symlink("../real.json", f.join("manifest.json")).unwrap();
                },
                &["manifest.json", "link"],
            ),
            ("pipe", &|f| fifo(&f.join("pipe")), &["pipe"]),
            (
                "manifestpipe",
                &|f| {
                    std::fs::remove_file(f.join("manifest.json")).unwrap();
                    fifo(&f.join("manifest.json"));
                },
                &["manifest.json"],
            ),
            (
                "hard",
                &|f| std::fs::hard_link(&secret, f.join("copy.txt")).unwrap(),
                &["copy.txt", "hard link"],
            ),
            (
                "case",
                &|f| {
                    std::fs::write(f.join("A.txt"), "").unwrap();
                    std::fs::write(f.join("a.TXT"), "").unwrap();
                },
                &["A.txt", "a.TXT", "rename one"],
            ),
            (
                "device",
                &|f| std::fs::write(f.join("con.txt"), "").unwrap(),
                &["con.txt"],
            ),
            ("dot", &|f| std::fs::write(f.join("name."), "").unwrap(), &["name."]),
            ("colon", &|f| std::fs::write(f.join("a:b"), "").unwrap(), &["a:b"]),
            (
                "backslash",
                &|f| std::fs::write(f.join("..\\x"), "").unwrap(),
                &["not a usable path"],
            ),
            (
                "newline",
                &|f| std::fs::write(f.join("a\nb"), "").unwrap(),
                &["not a usable path"],
            ),
            (
                "nopage",
                &|f| std::fs::remove_file(f.join("index.html")).unwrap(),
                &["page is missing", "index.html"],
            ),
            (
                "nomanifest",
                &|f| std::fs::remove_file(f.join("manifest.json")).unwrap(),
                &["no manifest.json"],
            ),
            (
                "syntax",
                &|f| std::fs::write(f.join("manifest.json"), "{\n\n  \"name\" 1}").unwrap(),
                &["line 3", "manifest.json"],
            ),
            (
                "plugin",
                &|f| {
                    std::fs::create_dir_all(f.join("plugins/p")).unwrap();
                    std::fs::write(f.join("plugins/p/manifest.json"), "{}").unwrap();
                },
                &["plugin \"p\""],
            ),
        ];
        for (id, spoil, want) in odd {
            let app = AppFolder::new(home.folder(), id);
            spoil(app.path());
            let ran = add(home, app.path(), &["--yes"]);
            let text = ran.must_fail();
            assert!(
                text.starts_with("chrysalis: ") && !text.contains("panicked"),
                "{when}, {id}: {text}"
            );
            says(text, want);
            assert!(!text.contains("not yours"), "{id}: {text}");
        }
        for (folder, want) in [
            (home.folder().join("nowhere"), "could not be read"),
            (secret.clone(), "could not be read"),
            (
                AppFolder::new(home.folder(), "Größe").path().to_owned(),
                "give another with --id",
            ),
        ] {
            says(add(home, &folder, &["--yes"]).must_fail(), &[want]);
        }
        let good = AppFolder::new(home.folder(), "good");
        for id in ["", "UP", "a/b", "..", "con", "a.b", &"x".repeat(65)] {
            let ran = add(home, good.path(), &["--yes", "--id", id]);
            assert!(ran.must_fail().starts_with("chrysalis: "), "{id}: {ran:?}");
        }
        assert!(listed(home).is_empty(), "{when}: {:?}", listed(home));
        // Nothing of all that is left anywhere in the home.
        let left: Vec<_> = testkit::folders::files(&home.path().join("accounts"));
        assert!(left.is_empty(), "{when}: {left:?}");
        // A link to the folder itself, in the path, is the person's own affair; and a name of many kinds of letters works.
        AppFolder::new(home.folder(), "letters").file("ein schöner Ordner/日本🦋.txt", "x");
        symlink(home.folder().join("letters"), home.folder().join("way")).unwrap();
        add(home, &home.folder().join("way"), &["--yes", "--id", "letters"]).must_succeed();
        assert_eq!(listed(home), ["letters"]);
    });
}

/// Names come from other people: what they could do to a terminal, they do not.
#[test]
fn names_do_nothing_to_the_terminal() {
    let home = Home::new(PROGRAM);
    let app = AppFolder::new(home.folder(), "odd");
    app.file(
        "manifest.json",
        "{\"name\": \"safe\u{202e}txet\u{2066}\u{85}\", \"version\": \"1\", \"kind\": \"web\"}",
    );
    let ran = add(&home, app.path(), &["--yes", "--id", "odd"]);
    let out = format!("{}{}{}", ran.out, ran.err, home.run(&["app", "list"]).out);
    for bad in ["\u{202e}", "\u{2066}", "\u{85}", "\u{1b}"] {
        assert!(!out.contains(bad), "{bad:?} in {out:?}");
    }
}

#[test]
fn a_reset_password_ends_every_session() {
    let home = Home::new(PROGRAM);
    let mut running = home.serve();
    let owner = running.set_up();
    running.add(AppFolder::new(home.folder(), "mine").path(), "mine");
    let (second, page) = (running.login(), running.page(&owner, "mine"));
    let mut events = second.listen("/v1/events");
    assert!(events.event().is_some());
    assert_eq!(page.get("/v1/apps/mine/__storage").status, 200);

    says(
        home.run_with(&["reset-password", "nobody"], "long enough\n")
            .must_fail(),
        &["nobody called \"nobody\"", "zoe"],
    );
    let weak = home.run_with(&["reset-password", "zoe"], "x\n");
    says(weak.must_fail(), &["password"]);
    assert_eq!(owner.get("/v1/me").status, 200, "what failed changed nothing");

    // With the engine running.
    let ran = home.run_with(&["reset-password", "zoe"], "another long one\n");
    says(ran.must_succeed(), &["zoe has a new password", "signed out everywhere"]);
    for (who, client) in [("the owner", &owner), ("the other session", &second)] {
        assert_eq!(client.get("/v1/me").status, 401, "{who}");
    }
    assert_eq!(
        page.get("/v1/apps/mine/__storage").status,
        403,
        "the page of an ended session"
    );
    while events.event().is_some() {}
    let login = |running: &testkit::Running, password: &str| {
        let body = serde_json::json!({"username": "zoe", "password": password});
        running.nobody().post("/v1/auth/login", &body).status
    };
    assert_eq!(login(&running, PASSWORD), 401, "the old password");
    assert_eq!(login(&running, "another long one"), 200);
    assert!(!running.said().contains("another long one"));

    // With nothing running.
    running.stop();
    home.run_with(&["reset-password", "zoe"], PASSWORD).must_succeed();
    let running = home.serve();
    assert!(running.setup.is_none(), "no setup link where there is a password");
    assert_eq!(login(&running, "another long one"), 401);
    assert_eq!(login(&running, PASSWORD), 200);
    let again = running.nobody().with("Cookie", &owner.headers.last().unwrap().1);
    assert_eq!(again.get("/v1/me").status, 401);
}

/// An engine that was killed leaves a socket behind; the next command and the next engine are not misled by it.
#[test]
fn what_a_killed_engine_leaves_misleads_nobody() {
    let home = Home::new(PROGRAM);
    let mut running = home.serve();
    running.set_up();
    running.kill();
    assert!(home.path().join("engine.sock").exists());
    assert!(listed(&home).is_empty());
    let running = home.serve();
    let mode = std::os::unix::fs::MetadataExt::mode(&home.path().join("engine.sock").metadata().unwrap());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(
        std::os::unix::fs::MetadataExt::mode(&home.path().metadata().unwrap()) & 0o077,
        0,
        "the home is private"
    );
    assert!(listed(&home).is_empty());
    assert!(process::runs(running.pid()));
}

/// A folder whose files change between being shown and being added: what was shown is added, or nothing.
#[test]
fn what_was_shown_is_what_is_added() {
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let command_line = running.command_line();
    let app = AppFolder::new(home.folder(), "app").plugin(
        "p",
        &["routes"],
        "export const handleRoute = () => ({ json: 1 });",
    );
    let source = app.path().join("plugins/p/plugin.js");
    let good = std::fs::read(&source).unwrap();
    let evil = String::from_utf8(good.clone())
        .unwrap()
        .replace("json: 1", "json: 6")
        .into_bytes();
    let import = |extra: Value| {
        let mut body = serde_json::json!({"folder": app.path(), "id": "app"});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        command_line.post("/v1/apps/import", &body)
    };
    let head = import(Value::Object(Default::default())).ok()["head"].clone();
    std::fs::write(&source, &evil).unwrap();
    let reply = import(serde_json::json!({"confirm": true, "head": head}));
    says(&reply.error(409), &["changed since it was shown"]);
    for wrong in [Value::Null, "".into(), "0".repeat(64).into()] {
        assert_eq!(import(serde_json::json!({"confirm": true, "head": wrong})).status, 409);
    }
    assert!(listed(&home).is_empty());

    let stop = std::sync::atomic::AtomicBool::new(false);
    let (mut added, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if stop.load(std::sync::atomic::Ordering::SeqCst) {
                    return;
                }
                std::fs::write(&source, if n % 2 == 0 { &good } else { &evil }).unwrap();
                std::thread::sleep(std::time::Duration::from_micros(700));
            }
        });
        for _ in 0..150 {
            let reply = import(serde_json::json!({"confirm": true, "head": head}));
            if reply.status != 201 {
                // Half written it is another folder still, or none that can be read.
                refused += 1;
                continue;
            }
            added += 1;
            let answer = command_line.get("/v1/apps/app/x");
            let written = std::fs::read_dir(home.path().join("accounts"))
                .unwrap()
                .flatten()
                .next()
                .unwrap()
                .path();
            let written = std::fs::read(written.join("workspace/apps/app/plugins/p/plugin.js")).unwrap();
            let removed = command_line.send("DELETE", "/v1/apps/app", &Value::Null).status;
            if (written != good) || answer.json() != 1 || removed != 204 {
                stop.store(true, std::sync::atomic::Ordering::SeqCst);
                panic!(
                    "{} was added, and answered {}",
                    String::from_utf8_lossy(&written),
                    answer.text()
                );
            }
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    eprintln!("{added} times what was shown, {refused} times nothing");
    assert!(added > 5 && refused > 5, "{added} {refused}");
}
