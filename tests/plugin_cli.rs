//! `chrysalis plugin`: what authors type, on the built program.

use std::process::Output;

use serde_json::{Value, json};
use testkit::{AppFolder, Home, Running, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

const CODE: &str = r#"export async function handleRoute(req, host) {
  if (req.path === "/echo") return { json: req };
  if (req.path === "/missing") return { status: 404, text: "no such note" };
  if (req.path === "/null") return { json: null.text };
  if (req.path === "/later") { await host.sleep(1); throw new Error("on purpose"); }
  if (req.path === "/put") { host.store.put("n", req.body); return { json: host.store.keys() }; }
}
"#;

struct House {
    home: Home,
}

impl House {
    fn new() -> Self {
        let home = Home::new(PROGRAM);
        let app = AppFolder::new(home.folder(), "notes").plugin("main", &["routes", "store"], CODE);
        home.run(&["app", "add", app.path().to_str().unwrap(), "--yes"])
            .must_succeed();
        Self { home }
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let words: Vec<&str> = ["plugin"].iter().chain(args).copied().collect();
        let Output { status, stdout, stderr } = self.home.command(&words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    fn code_file(&self) -> std::path::PathBuf {
        let accounts = std::fs::read_dir(self.home.path().join("accounts")).unwrap();
        let account = accounts.flatten().next().unwrap().path();
        account.join("workspace/apps/notes/plugins/main/plugin.js")
    }
}

/// Everything about `call`, in process and through a running engine: the same answers.
#[test]
fn call_prints_answers_and_ends_accordingly() {
    let house = House::new();
    calls(&house);
    let running: Running = house.home.serve();
    calls(&house);
    drop(running);
}

fn calls(house: &House) {
    let (code, out, err) = house.run(&[
        "call",
        "notes",
        "main",
        "post",
        "/echo?a=1&b=x%20y",
        "--body",
        "{\"n\": [1]}",
    ]);
    assert_eq!((code, err.trim()), (0, "200 application/json"), "{out}");
    let echo: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        echo,
        json!({"method": "POST", "path": "/echo", "query": {"a": "1", "b": "x y"}, "body": {"n": [1]}})
    );
    let (code, out, err) = house.run(&["call", "notes", "main", "GET", "/missing"]);
    assert_eq!((code, out.trim()), (1, "no such note"));
    assert!(err.starts_with("404 text/plain"), "{err}");

    // An error reaches its author with file, line and column, also from behind an await.
    let (code, out, err) = house.run(&["call", "notes", "main", "GET", "/null"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.contains("TypeError") && err.contains("notes/main/plugin.js:4:"),
        "{err}"
    );
    let (code, _, err) = house.run(&["call", "notes", "main", "GET", "/later"]);
    assert!(code == 1 && err.contains("on purpose"), "{err}");
    assert!(err.contains("notes/main/plugin.js:5:"), "{err}");

    let (code, _, err) = house.run(&["call", "notes", "main", "GET", "/nothing"]);
    assert!(code == 1 && err.contains("did not answer"), "{err}");
    for (args, want) in [
        (
            &["call", "notes", "main", "GET", "/", "--body", "{"][..],
            "--body is not valid JSON",
        ),
        (&["call", "notes", "main", "GET", "echo"], "must begin with a slash"),
        (&["call", "notes", "main", "G T", "/"], "is no method"),
        (&["call", "no/tes", "main", "GET", "/"], "no/tes"),
        (&["call", "notes", "../main", "GET", "/"], "../main"),
        (&["call", "notes", "main"], "required"),
        (&["grant", "notes", "main", "stor"], "did you mean store?"),
        (&["grant", "notes", "main", "llm"], "does not ask for \"llm\""),
        (&["revoke", "notes", "main", "all"], "unknown permission"),
    ] {
        let (code, out, err) = house.run(args);
        assert_eq!(code, 2, "{args:?}: {out}{err}");
        assert!(err.contains(want), "{args:?}: {err}");
    }
    for args in [
        ["call", "notes", "other", "GET", "/"],
        ["call", "nothing", "main", "GET", "/"],
        ["call", "_", "main", "GET", "/"],
    ] {
        let (code, _, err) = house.run(&args);
        assert!(code == 1 && err.contains("no"), "{args:?}: {err}");
    }
}

#[test]
fn body_may_come_from_standard_input() {
    let house = House::new();
    let ran = house.home.run_with(
        &["plugin", "call", "notes", "main", "POST", "/echo", "--body", "-"],
        "[1, 2]",
    );
    let echo: Value = serde_json::from_str(ran.must_succeed()).unwrap();
    assert_eq!(echo["body"], json!([1, 2]));
}

/// Grant, change, stale, grant again, revoke one, revoke all, off, on, and what `list` says of each.
#[test]
fn permissions_are_given_and_taken_on_the_command_line() {
    let house = House::new();
    let states = || {
        let (code, out, _) = house.run(&["list", "notes", "--json"]);
        assert_eq!(code, 0);
        let listed: Value = serde_json::from_str(&out).unwrap();
        let permissions = listed["notes"][0]["permissions"].as_array().unwrap().clone();
        let each = permissions
            .iter()
            .map(|p| (p["capability"].clone(), p["state"].clone()));
        each.map(|(c, s)| format!("{} {}", c.as_str().unwrap(), s.as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(states(), ["routes granted", "store granted"]);
    std::fs::write(house.code_file(), format!("// changed\n{CODE}")).unwrap();
    assert_eq!(states(), ["routes stale", "store stale"]);
    let (code, _, err) = house.run(&["call", "notes", "main", "GET", "/echo"]);
    assert!(code == 1 && err.contains("changed"), "{err}");

    let (code, out, err) = house.run(&["grant", "notes", "main", "routes"]);
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("may answer its app's page (routes)") && out.contains("allowed"),
        "{out}"
    );
    assert!(out.contains("not allowed: may keep its own data (store)"), "{out}");
    assert_eq!(states()[0], "routes granted");
    assert_ne!(states()[1], "store granted");
    let (code, _, err) = house.run(&["call", "notes", "main", "POST", "/put", "--body", "1"]);
    assert!(code == 1 && err.contains("needs the permission \"store\""), "{err}");

    // What was allowed before stays.
    let (code, _, err) = house.run(&["grant", "notes", "main", "store"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(states(), ["routes granted", "store granted"]);
    house.run(&["revoke", "notes", "main", "store"]);
    assert_eq!(states(), ["routes granted", "store denied"]);
    let (code, out, _) = house.run(&["grant", "notes", "main"]);
    assert!(
        code == 0 && out.contains("(store)") && out.contains("(routes)"),
        "{out}"
    );
    assert_eq!(states(), ["routes granted", "store granted"]);
    let (code, out, _) = house.run(&["disable", "notes", "main"]);
    assert_eq!((code, out.trim()), (0, "notes/main is off"));
    let (code, _, err) = house.run(&["call", "notes", "main", "GET", "/echo"]);
    assert!(code == 1 && err.contains("turned off"), "{err}");
    assert!(house.run(&["list"]).1.contains("notes/main  main 1.0.0  (off)"));
    house.run(&["enable", "notes", "main"]);
    assert_eq!(house.run(&["call", "notes", "main", "GET", "/echo"]).0, 0);
    house.run(&["revoke", "notes", "main"]);
    assert_eq!(states(), ["routes denied", "store denied"]);
    assert_eq!(house.run(&["call", "notes", "main", "GET", "/echo"]).0, 1);
}

/// `_` is where plugins stand that belong to no app.
#[test]
fn plugins_of_no_app_are_called_too() {
    let house = House::new();
    let apps = house.code_file();
    let workspace = apps.ancestors().nth(5).unwrap();
    assert!(workspace.ends_with("workspace"));
    let folder = workspace.join("plugins/top");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({"name": "Top", "permissions": ["routes", "fs"]});
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    let code = "export function handleRoute(req, host) { return { json: [host.app, req.path === \"/fs\" && host.fs.list()] }; }";
    std::fs::write(folder.join("plugin.js"), code).unwrap();
    let (code, _, err) = house.run(&["call", "_", "top", "GET", "/"]);
    assert!(code == 1 && err.contains("routes"), "{err}");
    assert!(house.run(&["list"]).1.contains("_/top  Top\n  asked"));
    assert_eq!(house.run(&["grant", "_", "top"]).0, 0);
    let (code, out, err) = house.run(&["call", "_", "top", "GET", "/"]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), json!(["_", false]));
    let (code, _, err) = house.run(&["call", "_", "top", "GET", "/fs"]);
    assert!(code == 1 && err.contains("belongs to no app"), "{err}");
    assert_eq!(house.run(&["disable", "_", "top"]).0, 0);
    assert_eq!(house.run(&["call", "_", "top", "GET", "/"]).0, 1);
    assert_eq!(house.run(&["revoke", "_", "top"]).0, 0);
}

#[test]
fn granting_names_hosts_and_points_at_the_local_network() {
    let home = Home::new(PROGRAM);
    let app = AppFolder::new(home.folder(), "net").plugin("main", &[], CODE);
    let manifest = json!({
        "name": "Net", "permissions": ["routes", "network"], "networkHosts": ["api.example.com", "127.0.0.1:8188"],
        "reasons": {"network": "to look\u{1b}[2J at".replace('\u{1b}', "")},
    });
    app.file("plugins/main/manifest.json", &manifest.to_string());
    home.run(&["app", "add", app.path().to_str().unwrap(), "--yes"])
        .must_succeed();
    let ran = home.run(&["plugin", "grant", "net", "main"]);
    let out = ran.must_succeed();
    assert!(
        out.contains("may contact servers on the internet (network): api.example.com\n"),
        "{out}"
    );
    assert!(
        out.contains("in your own network (local-network): 127.0.0.1:8188\n    ! "),
        "{out}"
    );
    assert!(out.contains("it says: \"to look[2J at\""), "{out}");
    // The administrator's word is above it.
    home.run(&["plugin", "revoke", "net", "main"]).must_succeed();
    home.configure("[plugins]\ndeny = [\"local-network\"]\n");
    let ran = home.run(&["plugin", "grant", "net", "main", "local-network"]);
    assert!(ran.must_fail().contains("config.toml forbids"), "{ran:?}");
    let listed = || home.run(&["plugin", "list", "net", "main"]).must_succeed().to_owned();
    assert!(listed().contains("denied    may answer its app's page"), "{}", listed());
    // With nothing named, what is possible is allowed, and what is not is named.
    let ran = home.run(&["plugin", "grant", "net", "main"]);
    let out = ran.must_succeed();
    assert!(out.contains("\nallowed\n"), "{out}");
    let left_out = "not allowed, because config.toml forbids it: may contact programs and devices in your own network";
    assert!(
        out.contains(left_out) && out.contains("not possible here: config.toml forbids"),
        "{out}"
    );
    let list = listed();
    assert!(list.contains("granted   may contact servers on the internet"), "{list}");
    assert!(list.contains("forbidden may contact programs"), "{list}");
    home.run(&["plugin", "grant", "net", "main", "routes", "network"])
        .must_succeed();
    // Nor does the list call granted what was granted before and is forbidden now.
    home.configure("[plugins]\ndeny = [\"network\", \"local-network\"]\n");
    assert!(
        listed().contains("forbidden may contact servers on the internet"),
        "{}",
        listed()
    );

    // `app add` does the same.
    let ran = home.run(&["app", "add", app.path().to_str().unwrap(), "--yes", "--id", "net2"]);
    let out = ran.must_succeed();
    assert!(
        out.contains("it says: \"to look[2J at\"") && out.contains("added net2"),
        "{out}"
    );
    assert_eq!(
        out.matches("not allowed, because config.toml forbids it: main: ")
            .count(),
        2,
        "{out}"
    );
}

/// What an app would like is said before it is added: why, how much, how often, with which secrets.
#[test]
fn adding_an_app_shows_all_it_asks_for() {
    let home = Home::new(PROGRAM);
    let app = AppFolder::new(home.folder(), "full").plugin("main", &[], CODE);
    let manifest = json!({
        "name": "Full", "permissions": ["store", "schedule", "network"], "storeQuota": 9_000_000,
        "schedule": {"intervalMs": 90_000}, "networkHosts": ["api.example.com"], "reasons": {"store": "for your notes"},
        "secrets": [{"name": "key-1", "origin": "https://api.example.com", "reason": "from there"}],
    });
    app.file("plugins/main/manifest.json", &manifest.to_string());
    let wanted = [
        "    may keep up to 9 MB of its own data (store)\n      it says: \"for your notes\"\n",
        "    may run on a timer, every 90 s (schedule)\n",
        "    may contact servers on the internet (network): api.example.com\n",
        "    would use a secret key-1 for https://api.example.com\n      it says: \"from there\"\n",
    ];
    let ran = home.run(&["app", "add", app.path().to_str().unwrap()]);
    ran.must_fail();
    let yes = home.run(&["app", "add", app.path().to_str().unwrap(), "--yes"]);
    yes.must_succeed();
    for want in wanted {
        assert!(ran.out.contains(want) && yes.out.contains(want), "{want}\n{}", ran.out);
    }
    assert!(
        yes.out.contains("chrysalis plugin secret full main key-1"),
        "{}",
        yes.out
    );
    let list = home.run(&["plugin", "list"]).must_succeed().to_owned();
    assert!(
        list.contains("up to 9 MB") && list.contains("every 90 s") && !list.contains("quota:"),
        "{list}"
    );
}

/// The value is typed or piped in, and no argument; where no keychain can be used it is said to be lost afterwards.
#[test]
fn secrets_are_saved_and_forgotten_on_the_command_line() {
    let home = Home::new(PROGRAM);
    let app = AppFolder::new(home.folder(), "mail").plugin("main", &[], CODE);
    let manifest = json!({
        "name": "Mail", "permissions": ["routes", "network"], "networkHosts": ["api.example.com"],
        "secrets": [{"name": "mail-key", "origin": "https://api.example.com"}],
    });
    app.file("plugins/main/manifest.json", &manifest.to_string());
    home.run(&["app", "add", app.path().to_str().unwrap(), "--yes"])
        .must_succeed();
    let state = |running: &str| {
        let out = home.run(&["plugin", "list", "mail", "main"]).must_succeed().to_owned();
        let line = out.lines().find(|line| line.contains("secret mail-key"));
        line.unwrap_or_else(|| panic!("{running}: {out}")).trim().to_owned()
    };
    let secret = |words: &[&str], given: &str| {
        let all: Vec<&str> = ["plugin", "secret", "mail", "main"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        home.run_with(&all, given)
    };
    let running = home.serve();
    assert_eq!(state("before"), "missing   secret mail-key for https://api.example.com");
    let ran = secret(&["mail-key"], "k-4410\n");
    assert!(
        ran.must_succeed()
            .contains("saved mail-key of mail/main for https://api.example.com"),
        "{ran:?}"
    );
    assert!(
        ran.out.contains("no keychain") && !ran.out.contains("k-4410"),
        "{ran:?}"
    );
    assert!(state("saved").starts_with("saved "), "{}", state("saved"));
    let ran = secret(&["mail-key", "--origin", "https://other.example:8443"], "k-4411");
    assert!(ran.must_succeed().contains("for https://other.example:8443"), "{ran:?}");
    assert!(
        secret(&["mail-key", "--forget"], "")
            .must_succeed()
            .contains("no secret mail-key now")
    );
    assert!(state("forgotten").starts_with("missing "), "{}", state("forgotten"));
    for (words, given, want) in [
        (&["mail-key"][..], "\n", "the secret is empty"),
        (&["mail-kee"], "x", "it asks for mail-key"),
        (&["../x"], "x", "is no name of a secret"),
        (&["mail-key", "--origin", "nowhere"], "x", "cannot be read"),
        (
            &["mail-key", "--origin", "https://x.example", "--forget"],
            "",
            "cannot be used with",
        ),
        (&["mail-key"], "a\nb", "no line breaks"),
    ] {
        let ran = secret(words, given);
        assert!(ran.must_fail().contains(want), "{words:?}: {ran:?}");
        assert!(state("refused").starts_with("missing "), "{words:?}");
    }
    secret(&["mail-key"], "k-4412\n").must_succeed();
    drop(running);
    assert!(state("after").starts_with("lost "), "{}", state("after"));
    let ran = secret(&["mail-key"], "k-4413\n");
    assert!(ran.must_fail().contains("Chrysalis is not running"), "{ran:?}");
}

/// Whoever reads the output may leave: `chrysalis plugin list | head -1`.
#[test]
fn a_reader_that_leaves_stops_no_command() {
    let house = House::new();
    let unread = |words: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = house.home.command(words);
        let Output { status, stderr, .. } = command.stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        assert_eq!(status.code(), Some(0), "{words:?}: {said}");
    };
    let folder = house.home.folder().join("notes");
    for words in [
        &["plugin", "list"][..],
        &["plugin", "list", "--json"],
        &["plugin", "revoke", "notes", "main"],
        &["plugin", "grant", "notes", "main"],
        &["plugin", "errors", "notes"],
        &["plugin", "check", folder.to_str().unwrap()],
        &["app", "list"],
        &["app", "list", "--json"],
        &["paths"],
    ] {
        unread(words);
    }
    // And they did their work: what was taken back is granted again.
    let (code, out, err) = house.run(&["call", "notes", "main", "GET", "/echo"]);
    assert_eq!(code, 0, "{out}{err}");
}

/// In passes a refused request is dropped, and the code does not learn of it; its author does.
#[test]
fn call_prints_what_was_refused_meanwhile() {
    let home = Home::new(PROGRAM);
    let code = "export function handleRoute(req, host) {\n  host.llm.request('a', { messages: [] });\n  \
                if (req.path === '/fs') { try { host.fs.list(); } catch {} return { text: 'fine' }; }\n  \
                if (req.path === '/transaction') return host.fs.transaction(() => {});\n}\n";
    let app = AppFolder::new(home.folder(), "old").plugin("main", &["routes", "llm", "fs"], code);
    home.run(&["app", "add", app.path().to_str().unwrap(), "--yes"])
        .must_succeed();
    home.run(&["plugin", "revoke", "old", "main", "llm"]).must_succeed();
    home.run(&["plugin", "revoke", "old", "main", "fs"]).must_succeed();
    let call = |path: &str| home.run(&["plugin", "call", "old", "main", "GET", path]);
    let ran = call("/");
    let err = ran.must_fail();
    let refused = "refused: host.llm.request needs the permission \"llm\", which the person refused to old/main";
    assert!(
        err.contains(refused) && err.contains("chrysalis plugin grant old main"),
        "{err}"
    );
    assert!(err.contains("did not answer"), "{err}");
    let ran = call("/fs");
    ran.must_succeed();
    assert!(
        ran.err.contains("refused: host.fs.list needs the permission \"fs\""),
        "{ran:?}"
    );
    assert_eq!(ran.out.trim(), "fine");
    // By the name that its author wrote.
    let ran = call("/transaction");
    assert!(
        ran.must_fail().contains("host.fs.transaction needs the permission"),
        "{ran:?}"
    );
}

#[test]
fn last_errors_are_printed_with_their_place() {
    let house = House::new();
    let (code, out, _) = house.run(&["errors", "notes", "main"]);
    assert!(code == 0 && out.contains("no errors"), "{out}");
    house.run(&["call", "notes", "main", "GET", "/null"]);
    let out = wait_for("the error to be listed", || {
        let (_, out, _) = house.run(&["errors", "notes", "main"]);
        out.contains("TypeError").then_some(out)
    });
    assert!(
        out.contains(" UTC  handleRoute\n") && out.contains("notes/main/plugin.js:4:"),
        "{out}"
    );
    // Of all plugins of the app, each by its name.
    let (code, out, _) = house.run(&["errors", "notes"]);
    assert!(
        code == 0 && out.starts_with("main  20") && out.contains("plugin.js:4:"),
        "{out}"
    );
    let (code, out, _) = house.run(&["list", "notes", "main"]);
    assert!(code == 0 && out.starts_with("notes/main  main 1.0.0\n"), "{out}");
    for command in ["list", "errors"] {
        let (code, _, err) = house.run(&[command, "notes", "nobody"]);
        assert!(
            code == 1 && err.contains("has no plugin \"nobody\""),
            "{command}: {err}"
        );
        let (code, _, err) = house.run(&[command, "notes", "No Body"]);
        assert!(code == 2, "{command}: {err}");
    }
}

/// What `check` says of one plugin, in an app's folder when `inside` names the app.
fn check(home: &Home, folder: &std::path::Path) -> (bool, Vec<String>) {
    let ran = home.run(&["plugin", "check", folder.to_str().unwrap()]);
    assert_eq!(ran.err, "", "{}", ran.out);
    let prefix = format!("{}/", folder.display());
    let lines = ran
        .out
        .lines()
        .map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned());
    (ran.ok, lines.collect())
}

#[test]
fn check_names_every_mistake_with_its_place() {
    let home = Home::new(PROGRAM);
    let folder = home.folder().join("alone");
    let write = |manifest: &str, code: &str| {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("manifest.json"), manifest).unwrap();
        std::fs::write(folder.join("plugin.js"), code).unwrap();
    };
    write(
        "{\n  \"permissions\": [\"ntework\", \"store\",\n    \"filesystem\", 5],\n  \"networkHosts\": [\"api.example.com\", \"https://x.example/\", \"*\"],\n  \
         \"descripton\": \"x\",\n  \"secrets\": [{\"name\": \"A\", \"origin\": \"https://x.example\"}],\n  \"persistent\": 1,\n  \
         \"reasons\": {\"lllm\": \"x\"}\n}",
        "export function handleRoute(req, host) {\n  return { json: host.fs.read(\"a\") };\n}\n",
    );
    let (ok, lines) = check(&home, &folder);
    assert!(!ok);
    for want in [
        "manifest.json:2:19: error: unknown permission \"ntework\": did you mean \"network\"?",
        "manifest.json:3:5: error: unknown permission \"filesystem\": did you mean \"fs\"?",
        "manifest.json:3:19: error: \"permissions[3]\" must be a text",
        "manifest.json:4:39: error: \"networkHosts[1]\" must name hosts",
        "manifest.json:4:61: error: \"networkHosts[2]\" must name hosts",
        "manifest.json:5:3: warning: unknown field \"descripton\", which is ignored: did you mean \"description\"?",
        "manifest.json:6:16: error: \"secrets[0].name\" must be",
        "manifest.json:7:3: error: \"persistent\" must be true or false",
        "manifest.json:8:15: error: unknown permission \"lllm\": did you mean \"llm\"?",
        "manifest.json: error: \"name\" is missing",
        "plugin.js:2:23: warning: uses host.fs, and \"fs\" is not in permissions",
        "plugin alone: exports handleRoute",
        "9 errors, ",
    ] {
        let there = lines
            .iter()
            .any(|line| line.starts_with(want) || line.contains(&format!(" {want}")));
        assert!(there, "{want}\n{}", lines.join("\n"));
    }

    write(
        "{\n  \"name\": \"x\",\n  \"permissions\": [],\n}",
        "export const TOOLS = [];\n",
    );
    let (ok, lines) = check(&home, &folder);
    assert!(
        !ok && lines[0].starts_with("manifest.json:4:1: error: not valid JSON: trailing comma"),
        "{lines:?}"
    );

    let fine = "{\"name\": \"x\", \"permissions\": [\"routes\"]}";
    for (code, want) in [
        ("export function handleRoute() {\n  return {;\n}\n", "plugin.js:2:"),
        (
            "export function handleRoute(req: string) {\n  return {};\n}\n",
            "plugin.js:1:",
        ),
        ("\ninterface Note { text: string }\n", "plugin.js:2:"),
        ("import x from \"left-pad\";\n", "plugin.js"),
    ] {
        write(fine, code);
        let (ok, lines) = check(&home, &folder);
        assert!(!ok && lines[0].starts_with(want), "{code}{lines:?}");
        let typed = code.contains(": string");
        assert_eq!(lines[0].contains("plain JavaScript"), typed, "{code}{lines:?}");
    }

    // The code is not run: this one would never end.
    write(fine, "export function handleRoute() {}\nfor (;;) {}\n");
    let (ok, lines) = check(&home, &folder);
    assert!(ok, "{lines:?}");

    std::fs::remove_file(folder.join("plugin.js")).unwrap();
    std::fs::write(folder.join("plugin.ts"), "").unwrap();
    let (ok, lines) = check(&home, &folder);
    assert!(
        !ok && lines[0].contains("there is plugin.ts, but only plugin.js is loaded"),
        "{lines:?}"
    );
}

#[test]
fn check_compares_the_manifest_with_the_code() {
    let home = Home::new(PROGRAM);
    let folder = home.folder().join("plugin");
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({
        "name": "x", "permissions": ["zip", "hooks", "schedule", "network"], "routes": ["a"], "storeQuota": 5,
        "networkHosts": ["localhost:1"], "reasons": {"llm": "x"},
    });
    std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
    std::fs::write(
        folder.join("plugin.js"),
        "export const TOOLS = [];\nexport function onTick(ctx, host) { host.fs.red('a'); host.logg('b'); }\n\
         export function llmRequest() {}\n// host.zip\n",
    )
    .unwrap();
    let (ok, lines) = check(&home, &folder);
    assert!(ok, "{lines:?}");
    for want in [
        "plugin.js:2:45: warning: host.fs has no \"red\": did you mean host.fs.read?",
        "plugin.js:2:60: hint: host has no \"logg\": did you mean host.log?",
        "warning: TOOLS is never called: \"tools\" is not in permissions",
        "warning: tools need both",
        "hint: \"zip\" is listed, and nothing in plugin.js seems to use it",
        "hint: \"network\" is listed, and nothing",
        "warning: \"hooks\" also needs \"llm\"",
        "warning: \"schedule\" is listed without",
        "warning: \"store\" is not in permissions",
        "warning: \"routes\" is not in permissions",
        "warning: a reason for a permission that is not listed",
        "hint: localhost:1 is in the local network",
        "plugin plugin: exports TOOLS, llmRequest, onTick",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(want)),
            "{want}\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn check_looks_at_a_whole_app_and_at_siblings() {
    let home = Home::new(PROGRAM);
    let app = AppFolder::new(home.folder(), "whole")
        .plugin("one", &[], CODE)
        .plugin("two", &[], CODE);
    let routes = |list: &[&str]| json!({"name": "x", "permissions": ["routes", "store"], "routes": list}).to_string();
    app.file("plugins/one/manifest.json", &routes(&["notes"]));
    app.file("plugins/two/manifest.json", &routes(&["notes/all"]));
    let (ok, lines) = check(&home, app.path());
    assert!(!ok, "{lines:?}");
    let clash = lines.iter().find(|line| line.contains("clashes with the plugin one"));
    assert!(
        clash.is_some_and(|line| line.starts_with("plugins/two/manifest.json:1:")),
        "{lines:?}"
    );
    let (ok, lines) = check(&home, &app.path().join("plugins/one"));
    assert!(
        !ok && lines.iter().any(|line| line.contains("clashes with the plugin two")),
        "{lines:?}"
    );

    app.file("plugins/two/manifest.json", &routes(&["tags"]));
    let (ok, lines) = check(&home, app.path());
    assert!(ok, "{lines:?}");
    assert!(lines.iter().any(|line| line == "app whole 1.0.0"), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "0 errors, 0 warnings");

    // What would stop `app add` is found here too.
    std::os::unix::fs::symlink("/etc/passwd", app.path().join("plugins/two/extra")).unwrap();
    let (ok, lines) = check(&home, app.path());
    assert!(!ok && lines.iter().any(|line| line.contains("extra")), "{lines:?}");
    std::fs::remove_file(app.path().join("plugins/two/extra")).unwrap();
    std::fs::remove_file(app.path().join("plugins/two/plugin.js")).unwrap();
    std::os::unix::fs::symlink("../one/plugin.js", app.path().join("plugins/two/plugin.js")).unwrap();
    let (ok, lines) = check(&home, app.path());
    let refused = lines
        .iter()
        .any(|line| line.starts_with("plugins/two/plugin.js: error: "));
    assert!(!ok && refused, "{lines:?}");

    let empty = home.folder().join("empty");
    std::fs::create_dir_all(&empty).unwrap();
    for folder in [empty, home.folder().join("nowhere")] {
        let ran = home.run(&["plugin", "check", folder.to_str().unwrap()]);
        assert!(
            ran.must_fail().contains(folder.file_name().unwrap().to_str().unwrap()),
            "{ran:?}"
        );
    }
}
