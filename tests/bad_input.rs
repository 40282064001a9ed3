//! What goes wrong around the program, on the built program: each a message that says what, why and what to do, and
//! nothing lost. (The command line is tested in `bad_input_commands.rs`,
//! model servers in `bad_input_models.rs`.)

use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{AppFolder, Home, Running};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
const SERVE: &[&str] = &["serve", "--port", "0", "--no-open"];

/// Each part of a message, in any order.
#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

/// Runs a command that must fail with one clear message: no panic, no debug output.
#[track_caller]
fn fails(mut command: std::process::Command, parts: &[&str]) -> String {
    let output = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(output.status.code() == Some(1), "{:?}: {text}", output.status);
    assert!(text.starts_with("chrysalis: "), "{text}");
    assert!(!text.contains("panicked") && !text.contains("Error {"), "{text}");
    says(&text, parts);
    text
}

/// What the program printed, once these parts are in it: what it warns of goes another way than what it answers.
#[track_caller]
fn warned(running: &Running, parts: &[&str]) -> String {
    testkit::wait_for(&format!("{parts:?} in what it says"), || {
        let said = running.said();
        parts.iter().all(|part| said.contains(part)).then_some(said)
    })
}

fn workspace(home: &Home) -> std::path::PathBuf {
    let accounts = std::fs::read_dir(home.path().join("accounts")).unwrap();
    let accounts: Vec<_> = accounts.flatten().collect();
    assert_eq!(accounts.len(), 1, "{accounts:?}");
    accounts[0].path().join("workspace/apps")
}

#[test]
fn broken_manifests_and_missing_pages_are_named() {
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let owner = running.set_up();
    let good =
        AppFolder::new(home.folder(), "good").plugin("p", &["routes"], "export const handleRoute = () => ({json: 1});");
    running.add(good.path(), "good");
    let apps = workspace(&home);
    let manifests: &[(&str, &[u8], &[&str])] = &[
        ("empty", b"", &["line 1", "column"]),
        (
            "comma",
            b"{\n  \"name\": \"x\",\n  \"version\": \"1\",\n  \"kind\": \"web\",\n}",
            &["not valid JSON", "line 5"],
        ),
        ("cut", b"{\"name\": \"x", &["not valid JSON", "line 1"]),
        ("list", b"[]", &["one JSON object"]),
        ("noname", br#"{"version":"1","kind":"web"}"#, &["\"name\" is missing"]),
        (
            "noversion",
            br#"{"name":"x","kind":"web"}"#,
            &["\"version\" is missing"],
        ),
        ("nokind", br#"{"name":"x","version":"1"}"#, &["\"kind\" is missing"]),
        (
            "kind",
            br#"{"name":"x","version":"1","kind":"game"}"#,
            &["\"kind\"", "\"game\"", "use \"web\""],
        ),
        (
            "number",
            br#"{"name":7,"version":"1","kind":"web"}"#,
            &["\"name\"", "must be a text"],
        ),
        (
            "source",
            br#"{"name":"x","version":"1","kind":"web","source":"y"}"#,
            &["\"source\"", "must be an object"],
        ),
        (
            "control",
            b"{\"name\":\"a\\u001b[2Jb\",\"version\":\"1\",\"kind\":\"web\"}",
            &["\"name\"", "control character"],
        ),
        ("binary", b"\x00\x01\xfe\xff", &["manifest.json"]),
        (
            "latin1",
            b"{\"name\":\"caf\xe9\",\"version\":\"1\",\"kind\":\"web\"}",
            &["save it as UTF-8"],
        ),
        ("deep", &[b'['; 20_000], &["manifest.json"]),
    ];
    for (id, bytes, _) in manifests {
        std::fs::create_dir(apps.join(id)).unwrap();
        std::fs::write(apps.join(id).join("manifest.json"), bytes).unwrap();
    }
    // What Windows editors write is no mistake.
    for (id, start) in [("bom", &b"\xef\xbb\xbf"[..]), ("plain", b"")] {
        std::fs::create_dir(apps.join(id)).unwrap();
        let text = [start, br#"{"name":"B","version":"1","kind":"web"}"#].concat();
        std::fs::write(apps.join(id).join("manifest.json"), text).unwrap();
    }
    std::fs::create_dir(apps.join("Bad Name")).unwrap();
    std::fs::create_dir(apps.join("nothing")).unwrap();

    let listed = owner.get("/v1/apps").ok();
    let mut found: Vec<_> = listed["apps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["id"].as_str().unwrap())
        .collect();
    found.sort_unstable();
    assert_eq!(found, ["bom", "good", "plain"], "the others do not hide what works");
    let broken = |id: &str| {
        let found = listed["broken"].as_array().unwrap().iter().find(|b| b["id"] == id);
        found.unwrap_or_else(|| panic!("{id} is not named: {listed}"))["error"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    for (id, _, want) in manifests {
        says(&broken(id), want);
    }
    says(&broken("Bad Name"), &["lower-case letters"]);
    says(&broken("nothing"), &["no manifest.json"]);
    assert_eq!(
        owner.get("/v1/launch").ok()["broken"].as_array().unwrap().len(),
        manifests.len() + 2
    );

    // A page that is not there is explained where the page would be.
    let token = running.frame(&owner, "plain");
    let page = running.nobody().get(&format!("/frame/{token}/")).text();
    says(&page, &["index.html is not there"]);
    std::fs::create_dir(apps.join("plain/dist")).unwrap();
    let page = running.nobody().get(&format!("/frame/{token}/")).text();
    says(&page, &["dist/index.html is not there", "build the app again"]);

    // A plugin that cannot be loaded, beside one that can.
    for (id, manifest, code, want) in [
        ("syntax", "{\"name\": \"x\",}", "", "line 1"),
        (
            "unknown",
            r#"{"name":"x","permissions":["root"]}"#,
            "",
            "\"permissions\"",
        ),
        ("none", r#"{"name":"x"}"#, "", "\"permissions\" is missing"),
        ("nocode", r#"{"name":"x","permissions":[]}"#, "-", "no plugin.js"),
    ] {
        let folder = apps.join("good/plugins").join(id);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("manifest.json"), manifest).unwrap();
        if code != "-" {
            std::fs::write(folder.join("plugin.js"), "export const x = 1;").unwrap();
        }
        let plugins = owner.get("/v1/apps/good/plugins").ok();
        let found = plugins["plugins"]
            .as_array()
            .unwrap()
            .iter()
            .find(|p| p["id"] == id)
            .unwrap();
        says(found["error"].as_str().unwrap(), &[want]);
    }
    assert_eq!(
        owner.get("/v1/apps/good/x").status,
        200,
        "the good plugin answers all the same"
    );
    // One whose code does not parse says where.
    std::fs::write(
        apps.join("good/plugins/p/plugin.js"),
        "export function handleRoute( {\n  return 1;\n",
    )
    .unwrap();
    let head = owner.get("/v1/apps/good/plugins").ok()["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["id"] == "p")
        .unwrap()["hash"]
        .clone();
    owner.post("/v1/plugins/good__p/approve", &json!({"head": head})).ok();
    let text = owner.get("/v1/apps/good/x").error(500);
    says(&text, &["plugin p", "SyntaxError", "plugin.js:"]);
}

#[test]
fn a_port_in_use_is_named_and_the_home_is_let_go() {
    let home = Home::new(PROGRAM);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let text = fails(
        home.command(&["serve", "--port", &port, "--no-open"]),
        &[&port, "in use", "--port"],
    );
    assert_eq!(text.lines().count(), 1, "{text}");
    let running = home.serve();
    assert_eq!(running.nobody().get("/v1/health").ok()["ok"], true);
    // The other way round: a second one on a home that is in use.
    fails(home.command(SERVE), &["another Chrysalis is running", "end it first"]);
    assert_eq!(running.nobody().get("/v1/health").ok()["ok"], true);
}

#[test]
fn a_home_that_cannot_be_written_is_named() {
    let home = Home::new(PROGRAM);
    let file = home.folder().join("a-file");
    std::fs::write(&file, "mine").unwrap();
    let below = file.join("home");
    for place in [file.as_path(), &below, Path::new("/proc/chrysalis-home")] {
        for args in [SERVE, &["app", "list"], &["reset-password", "zoe"]] {
            let mut command = home.command(args);
            // The last one given counts.
            command.env_remove("CHRYSALIS_HOME");
            let mut command = replace_home(command, place);
            command.stdin(std::process::Stdio::null());
            fails(command, &[&place.display().to_string(), "--home"]);
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

/// The same command with another `--home`.
fn replace_home(command: std::process::Command, home: &Path) -> std::process::Command {
    let mut other = std::process::Command::new(command.get_program());
    let args: Vec<_> = command.get_args().collect();
    other.args(&args[..args.len() - 1]).arg(home).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            other.env(name, value);
        }
    }
    other
}

/// A home with an app in it, ended cleanly.
fn used(home: &Home) {
    let mut running = home.serve();
    let owner = running.set_up();
    running.add(AppFolder::new(home.folder(), "mine").path(), "mine");
    owner.send("PUT", "/v1/settings", &json!({"theme": "dark"})).ok();
    running.stop();
    assert!(
        !home.path().join("engine.sock").exists(),
        "the socket is taken away at the end"
    );
}

#[test]
fn a_home_of_a_newer_version_is_left_as_it_is() {
    let home = Home::new(PROGRAM);
    used(&home);
    // The place of SQLite's user_version.
    let file = std::fs::File::options().write(true).open(home.database()).unwrap();
    file.write_all_at(&99u32.to_be_bytes(), 60).unwrap();
    drop(file);
    let before = std::fs::read(home.database()).unwrap();
    for args in [SERVE, &["app", "list"]] {
        fails(
            home.command(args),
            &["newer Chrysalis", "format 99", "start the newer program"],
        );
    }
    assert_eq!(
        std::fs::read(home.database()).unwrap(),
        before,
        "not a byte of it was changed"
    );
    let names = std::fs::read_dir(home.path()).unwrap().flatten();
    let aside = names
        .filter(|entry| entry.file_name().to_string_lossy().contains("damaged"))
        .count();
    assert_eq!(aside, 0);
}

/// Failures list, row 46. However the database was damaged, it is kept under a name that is said, and the apps are there.
#[test]
fn regress_46_a_damaged_database_is_set_aside_and_named() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 4] = [
        ("not a database", |bytes| {
            *bytes = b"<html>out of disk space</html>".repeat(300)
        }),
        ("overwritten in the middle", |bytes| {
            let page = 4096;
            bytes[page..page * 4].fill(0xa5);
        }),
        ("cut in half", |bytes| bytes.truncate(bytes.len() / 2)),
        ("first page zeroed", |bytes| bytes[..4096].fill(0)),
    ];
    for (what, damage) in damages {
        let home = Home::new(PROGRAM);
        used(&home);
        let mut bytes = std::fs::read(home.database()).unwrap();
        damage(&mut bytes);
        std::fs::write(home.database(), &bytes).unwrap();
        let running = home.serve();
        let said = warned(
            &running,
            &["The database was damaged", "is kept as", "chrysalis.db.damaged-"],
        );
        let aside = said.split("is kept as ").nth(1).unwrap().split(". ").next().unwrap();
        assert_eq!(std::fs::read(aside).unwrap(), bytes, "{what}: kept to the byte");
        still_there(&home, &running, what);
    }
}

/// An empty or vanished database is no first start: the apps that are there stay its owner's, and the person is told.
#[test]
fn regress_46_an_empty_or_missing_database_is_no_first_start() {
    for what in ["empty", "missing"] {
        let home = Home::new(PROGRAM);
        used(&home);
        assert!(
            !home.path().join("chrysalis.db-wal").exists(),
            "folded in at a clean end"
        );
        match what {
            "empty" => std::fs::write(home.database(), "").unwrap(),
            _ => std::fs::remove_file(home.database()).unwrap(),
        }
        let running = home.serve();
        warned(&running, &["database", what, "apps and their files are still there"]);
        still_there(&home, &running, what);
    }
}

/// SQLite deletes a log that stands beside an empty database, and with it what may be the last copy of something.
#[test]
fn regress_46_a_log_without_its_database_is_kept() {
    for what in ["empty", "missing"] {
        let home = Home::new(PROGRAM);
        used(&home);
        let mut running = home.serve();
        running.login();
        running.kill();
        let log = std::fs::read(home.path().join("chrysalis.db-wal")).unwrap();
        assert!(!log.is_empty());
        match what {
            "empty" => std::fs::write(home.database(), "").unwrap(),
            _ => std::fs::remove_file(home.database()).unwrap(),
        }
        let running = home.serve();
        warned(&running, &["The database was damaged", "chrysalis.db.damaged-"]);
        let kept = std::fs::read_dir(home.path()).unwrap().flatten();
        let kept = kept.filter(|e| e.file_name().to_string_lossy().contains("damaged"));
        let found = kept
            .filter(|e| std::fs::read(e.path()).is_ok_and(|bytes| bytes == log))
            .count();
        assert_eq!(found, 1, "{what}");
        still_there(&home, &running, what);
    }
}

/// The owner must set up anew, and finds the apps; what was allowed is not allowed any more.
fn still_there(home: &Home, running: &Running, what: &str) {
    assert!(running.setup.is_some(), "{what}");
    let owner = running.set_up();
    let apps = owner.get("/v1/apps").ok();
    assert_eq!(apps["apps"][0]["id"], "mine", "{what}: {apps}");
    let launch = owner.get("/v1/launch").ok();
    assert_eq!(
        launch["notices"].as_array().unwrap().len(),
        1,
        "{what}: the launcher says so too: {launch}"
    );
    assert!(workspace(home).join("mine/index.html").exists());
}

#[test]
fn a_broken_config_says_where_and_is_not_touched() {
    for (text, want) in [
        (
            "port = \n",
            &["config.toml is not valid TOML", "line 1", "defaults back"][..],
        ),
        (
            "# fine\nport = 99999\n",
            &["config.toml: port must be a port from 1 to 65535, not 99999"],
        ),
        ("log_level = 3\n", &["log_level must be"]),
        ("max_workers = 0\n", &["max_workers must be"]),
        ("open_browser = \"no\"\n", &["open_browser must be true or false"]),
    ] {
        let home = Home::new(PROGRAM);
        home.configure(text);
        for args in [SERVE, &["app", "list"]] {
            fails(home.command(args), want);
        }
        assert_eq!(std::fs::read_to_string(home.path().join("config.toml")).unwrap(), text);
    }
    let home = Home::new(PROGRAM);
    home.configure("\u{feff}port = 9000\nsomething_new = true\n");
    home.serve();
    let home = Home::new(PROGRAM);
    home.serve().stop();
    let written = std::fs::read_to_string(home.path().join("config.toml")).unwrap();
    let settings = written.lines().filter(|line| line.contains(" = ")).count();
    let comments = written.lines().filter(|line| line.starts_with('#')).count();
    assert!(settings >= 5 && comments > settings, "a comment per setting: {written}");
}

/// Failures list, row 45: without a Secret Service nothing hangs, nothing is kept anywhere unasked, and once the person has
/// chosen, every answer that accepts a key says what becomes of it.
#[test]
fn regress_45_without_a_keychain_the_person_chooses() {
    let home = Home::new(PROGRAM);
    let mut command = home.command(SERVE);
    // The system's keychain is wanted, and there is no bus to reach it by.
    command.env_remove("CHRYSALIS_KEYCHAIN");
    let began = Instant::now();
    let running = home.start(command);
    let owner = running.set_up();
    let base = "http://127.0.0.1:9/v1";
    let wanted = json!({"baseUrl": base, "key": "sk-one"});
    let refused = owner.post("/v1/settings/connections", &wanted);
    assert_eq!(refused.code(), "choose_key_store");
    says(
        &refused.error(409),
        &["no keychain", "passphrase", "until Chrysalis ends"],
    );
    let listed = owner.get("/v1/settings/connections").ok();
    assert_eq!(listed["connections"], json!([]), "half a connection was left");
    assert_eq!(
        (&listed["keys"]["store"], &listed["keys"]["chosen"]),
        (&Value::Null, &json!(false))
    );
    // Without a key there is nothing to choose.
    let bare = owner.post("/v1/settings/connections", &json!({"baseUrl": base})).ok();
    let bare = format!(
        "/v1/settings/connections/{}",
        bare["connection"]["id"].as_str().unwrap()
    );
    for refused in [
        owner.send("PUT", &format!("{bare}/key"), &json!({"key": "sk-two"})),
        owner.send(
            "PATCH",
            &bare,
            &json!({"baseUrl": "http://127.0.0.1:11/v1", "key": "sk-two"}),
        ),
    ] {
        assert_eq!((refused.status, refused.code().as_str()), (409, "choose_key_store"));
    }
    assert_eq!(
        owner.get("/v1/settings/connections").ok()["connections"][0]["baseUrl"],
        base
    );
    let impossible = owner.send("PUT", "/v1/settings/keys", &json!({"store": "keychain"}));
    assert_eq!(impossible.status, 409);
    let chosen = owner.send("PUT", "/v1/settings/keys", &json!({"store": "run"})).ok();
    assert_eq!((&chosen["store"], &chosen["chosen"]), (&json!("run"), &json!(true)));
    let mut answers = Vec::new();
    let added = owner.post("/v1/settings/connections", &wanted).ok();
    let target = format!(
        "/v1/settings/connections/{}",
        added["connection"]["id"].as_str().unwrap()
    );
    answers.push(added);
    answers.push(
        owner
            .send("PUT", &format!("{target}/key"), &json!({"key": "sk-two"}))
            .ok(),
    );
    answers.push(owner.send("PATCH", &target, &json!({"key": "sk-three"})).ok());
    let moved = json!({"baseUrl": "http://127.0.0.1:10/v1", "key": "sk-four"});
    answers.push(owner.send("PATCH", &target, &moved).ok());
    for answer in answers {
        says(
            answer["notice"].as_str().unwrap_or_default(),
            &["kept until Chrysalis ends", "not saved"],
        );
        assert_eq!(
            (&answer["connection"]["hasKey"], &answer["connection"]["keyKept"]),
            (&json!(true), &json!("run"))
        );
    }
    let listed = owner.get("/v1/settings/connections").ok();
    assert_eq!(listed["keychain"]["usable"], false);
    assert!(!listed["keychain"]["reason"].as_str().unwrap().is_empty(), "{listed}");
    // Without a key there is nothing to say.
    assert_eq!(
        owner.send("PATCH", &target, &json!({"name": "x"})).ok()["notice"],
        Value::Null
    );
    for key in ["", "  ", "a\nb", &"x".repeat(5000)] {
        assert_eq!(
            owner.send("PUT", &format!("{target}/key"), &json!({"key": key})).status,
            400,
            "{key:?}"
        );
    }
    assert_eq!(
        owner.send("DELETE", &format!("{target}/key"), &json!({})).ok()["connection"]["hasKey"],
        false
    );
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Requests that nobody's program should send: each answered in the one form that errors have, with what is wrong.
#[test]
fn unreadable_requests_say_what_is_wrong() {
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let owner = running.set_up();
    let large = format!("{{\"theme\":\"{}\"}}", "x".repeat(3 << 20));
    let deep = format!("{{\"theme\":{}", "[".repeat(100_000));
    for (method, target, body, status, want) in [
        ("PUT", "/v1/settings", "{bad", 400, "line 1 column 2"),
        ("PUT", "/v1/settings", "", 415, "Content-Type"),
        ("PUT", "/v1/settings", "[]", 422, "expected a map"),
        ("PUT", "/v1/settings", large.as_str(), 413, "limit"),
        ("PUT", "/v1/settings", deep.as_str(), 400, "cannot be read"),
        ("PUT", "/v1/settings", r#"{"theme":"green"}"#, 400, "theme"),
        (
            "POST",
            "/v1/settings/connections",
            r#"{"key":7}"#,
            422,
            "key: invalid type",
        ),
        ("POST", "/v1/settings/connections", "{}", 400, "baseUrl"),
        (
            "POST",
            "/v1/settings/connections",
            r#"{"baseUrl":"ftp://x"}"#,
            400,
            "http:// or https://",
        ),
        (
            "POST",
            "/v1/settings/connections",
            r#"{"baseUrl":"http://u:p@x"}"#,
            400,
            "give a key instead",
        ),
        (
            "POST",
            "/v1/settings/connections",
            r#"{"baseUrl":"http://[x"}"#,
            400,
            "cannot be used",
        ),
        ("POST", "/v1/apps/import", "{}", 400, "which app"),
        (
            "POST",
            "/v1/apps/import",
            r#"{"box":"nothing"}"#,
            404,
            "no app \"nothing\"",
        ),
        ("POST", "/v1/apps/import", r#"{"box":"../x"}"#, 400, "not valid"),
        (
            "POST",
            "/v1/apps/none/__storage",
            r#"{"which":"x","op":"set"}"#,
            400,
            "local or session",
        ),
        ("POST", "/v1/apps/none/__abort", "{}", 422, "missing field `chatId`"),
        ("POST", "/v1/plugins/x/approve", r#"{"head":"1"}"#, 400, "64 hex digits"),
        ("POST", "/v1/plugins/x__/approve", r#"{"head":"1"}"#, 400, "plugin id"),
        (
            "POST",
            "/v1/plugins/x/revoke",
            r#"{"capability":"all"}"#,
            400,
            "permission",
        ),
        (
            "PUT",
            "/v1/plugins/x/secrets/A",
            r#"{"value":"v","origin":"https://a.example"}"#,
            400,
            "a-z, digits",
        ),
        (
            "PUT",
            "/v1/plugins/x/secrets/a",
            r#"{"value":"","origin":"https://a.example"}"#,
            400,
            "1 to",
        ),
        (
            "PUT",
            "/v1/plugins/x/secrets/a",
            r#"{"value":"v","origin":"a.example"}"#,
            400,
            "https://host",
        ),
        ("PUT", "/v1/budgets/none", r#"{"tokens":-1}"#, 400, "whole number"),
        ("PUT", "/v1/budgets/none", r#"{"money":1}"#, 400, "no budget"),
        ("GET", "/v1/activity?limit=x", "", 400, "limit"),
        ("GET", "/v1/activity?before=99999999999999999999", "", 400, "before"),
    ] {
        let reply = owner.ask(method, target, &[], body.as_bytes()).unwrap();
        let text = reply.error(status);
        says(&text, &[want]);
        assert!(text.len() < 400, "{target}: {text}");
    }
    assert_eq!(owner.get("/v1/health").ok()["ok"], true);
}

/// Failures list, row 46: a full disk costs what could not be written, says so, and nothing that was there.
#[test]
fn regress_46_a_full_disk_is_named_and_loses_nothing() {
    let home = Home::new(PROGRAM);
    std::fs::create_dir(home.path()).unwrap();
    let Some(_disk) = Disk::mount(&home.path()) else {
        eprintln!("skipped: only root can make a small disk here");
        return;
    };
    let mut running = home.serve();
    let owner = running.set_up();
    let code = "export function handleRoute(req, host) {
        if (req.method === 'POST') host.store.put('k', req.body);
        return { json: host.store.get('k') };
    }";
    let app = AppFolder::new(home.folder(), "mine").plugin("p", &["routes", "store"], code);
    running.add(app.path(), "mine");
    owner.post("/v1/apps/mine/x", &json!("before")).ok();
    owner.send("PUT", "/v1/settings", &json!({"theme": "dark"})).ok();
    let filler = home.path().join("filler");
    let _ = std::fs::write(&filler, vec![1; 64 << 20]);
    let long = json!("during".repeat(10_000));
    let text = owner.post("/v1/apps/mine/x", &long).error(500);
    says(&text, &["host.store.put", "disk is full", "free some space"]);
    let reply = owner.send("PUT", "/v1/settings", &json!({"theme": "light"}));
    says(&reply.error(507), &["disk is full", "nothing was changed"]);
    let ran = home.run(&["app", "add", app.path().to_str().unwrap(), "--id", "second", "--yes"]);
    says(ran.must_fail(), &["No space left"]);
    // What only reads goes on.
    assert_eq!(owner.get("/v1/apps/mine/x").ok(), "before");
    running.kill();
    std::fs::remove_file(&filler).unwrap();
    let running = home.serve();
    assert!(!running.said().contains("database"), "{}", running.said());
    let owner = running.login();
    assert_eq!(owner.get("/v1/apps/mine/x").ok(), "before");
    assert_eq!(owner.get("/v1/settings").ok()["theme"], "dark");
    let apps = owner.get("/v1/apps").ok();
    assert_eq!(apps["apps"].as_array().unwrap().len(), 1, "no half of an app: {apps}");
    assert_eq!(apps["broken"], json!([]), "{apps}");
    owner.post("/v1/apps/mine/x", &json!("after")).ok();
}

/// A disk of four megabytes in memory.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(place: &Path) -> Option<Self> {
        let mut command = std::process::Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(place);
        let output = command.output().ok()?;
        output.status.success().then(|| Self(place.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: where a test failed, the program may still be there.
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
