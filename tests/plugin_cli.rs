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
    let ran = home.run(&["plugin", "grant", "net", "main"]);
    assert!(ran.must_fail().contains("config.toml forbids"), "{ran:?}");
    let ran = home.run(&["plugin", "grant", "net", "main", "routes", "network"]);
    ran.must_succeed();
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
        "export const TOOLS = [];\nexport function onTick() {}\nexport function llmRequest() {}\n// host.zip\n",
    )
    .unwrap();
    let (ok, lines) = check(&home, &folder);
    assert!(ok, "{lines:?}");
    for want in [
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
