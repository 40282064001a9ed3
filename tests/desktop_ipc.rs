//! The access walk over the real IPC of an app window: every route, in many spellings, asked by an app's page against
//! expectations written by hand from the contract (sections 5.3 and 6). Real HTTP and the local socket are walked in
//! access_walk.rs.

mod desktop;

use std::collections::BTreeSet;
use std::fs;

use desktop::{Desktop, home};
use serde_json::{Value, json};
use testkit::{AppFolder, wait_for};

/// What alpha's page may use.
const MAY: &[(&str, &str)] = &[
    ("GET", "/v1/health"),
    ("GET", "/v1/settings/connections"),
    ("GET", "/v1/settings/providers"),
    ("GET", "/v1/models"),
    ("GET", "/v1/events"),
    ("GET", "/v1/assets"),
    ("PUT", "/v1/assets?name=x"),
    ("GET", "/v1/assets/none"),
    ("GET", "/v1/apps/alpha/__storage"),
    ("POST", "/v1/apps/alpha/__storage"),
    ("GET", "/v1/apps/alpha/__streams/x"),
    ("POST", "/v1/apps/alpha/__abort"),
    ("GET", "/v1/apps/alpha/notes/7"),
    ("POST", "/v1/apps/alpha/notes/7"),
    ("PUT", "/v1/apps/alpha/notes/7"),
    ("DELETE", "/v1/apps/alpha/notes/7"),
];

/// What it may not, its own app's management included.
const MAY_NOT: &[(&str, &str)] = &[
    ("GET", "/v1/auth/users"),
    ("POST", "/v1/auth/setup"),
    ("POST", "/v1/auth/login"),
    ("POST", "/v1/auth/logout"),
    ("POST", "/v1/auth/rename"),
    ("PUT", "/v1/auth/password"),
    ("POST", "/v1/auth/reset-password"),
    ("GET", "/v1/me"),
    ("GET", "/v1/settings"),
    ("PUT", "/v1/settings"),
    ("POST", "/v1/settings/connections"),
    ("PATCH", "/v1/settings/connections/c_x"),
    ("DELETE", "/v1/settings/connections/c_x"),
    ("PUT", "/v1/settings/connections/c_x/key"),
    ("DELETE", "/v1/settings/connections/c_x/key"),
    ("GET", "/v1/settings/local-servers"),
    ("GET", "/v1/launch"),
    ("GET", "/v1/activity"),
    ("GET", "/v1/apps"),
    ("POST", "/v1/apps/import"),
    ("DELETE", "/v1/apps/alpha"),
    ("DELETE", "/v1/apps/beta"),
    ("GET", "/v1/apps/alpha/plugins"),
    ("POST", "/v1/plugins/alpha__x/approve"),
    ("POST", "/v1/plugins/beta__x/approve"),
    ("POST", "/v1/apps/alpha/frame"),
    ("DELETE", "/v1/apps/alpha/frame/x"),
    ("POST", "/v1/apps/beta/frame"),
    ("GET", "/v1/apps/beta/__storage"),
    ("POST", "/v1/apps/beta/__storage"),
    ("GET", "/v1/apps/beta/__streams/x"),
    ("POST", "/v1/apps/beta/__abort"),
    ("GET", "/v1/apps/beta/notes/7"),
    ("POST", "/v1/apps/beta/notes/7"),
    ("GET", "/v1/llm"),
    ("POST", "/v1/agent"),
    ("POST", "/v1/shell"),
    ("GET", "/v1/mcp/tools"),
    ("GET", "/v1/admin/users"),
    ("GET", "/v1/git/log"),
    ("GET", "/v1/no-such-thing"),
];

/// Other ways to write an address. A page's own address parser takes some of them for another one before they leave.
fn spellings(path: &str) -> Vec<String> {
    let rest = path.strip_prefix("/v1/").expect("a route");
    let (head, last) = path.rsplit_once('/').expect("a route");
    let first = last.as_bytes()[0];
    vec![
        format!("/v1%2f{rest}"),
        format!("{head}%2F{last}"),
        format!("{head}%5c{last}"),
        format!("/v1%252f{rest}"),
        format!("{head}/x/%252e%252e/{last}"),
        format!("/v1//{rest}"),
        format!("{head}//{last}"),
        format!("{head}/./{last}"),
        format!("{head}/x/../{last}"),
        format!("{head}/x/%2e%2E/{last}"),
        format!("/V1/{rest}"),
        path.to_uppercase(),
        format!("/v1\\{rest}"),
        format!("{path}/"),
        format!("{path}%00"),
        format!("{path}%ff"),
        format!("{path}#x"),
        format!("{head}/%{first:02x}{}", &last[1..]),
        path.replacen("/v1", "/%76%31", 1),
        path.replace("/beta", "/%62eta"),
        format!("/v1/apps/alpha/../../{rest}"),
        format!("/v1/apps/alpha/%2e%2e/%2e%2e/{rest}"),
        format!("/v1/apps/alpha/..%2f..%2f{rest}"),
        format!("chrysalis-app://beta{path}"),
        format!("chrysalis-app://alpha@beta{path}"),
        format!("tauri://localhost{path}"),
        format!("http://127.0.0.1{path}"),
    ]
}

/// Asks for `[method, address]` pairs, some at a time; gives `[status, code]` of each, or `[0, error]`.
const ASK: &str = r#"
const results = [];
const one = async ([method, url]) => {
  const control = new AbortController();
  try {
    const init = { method, signal: control.signal };
    if (method !== "GET") Object.assign(init, { body: "{}", headers: { "content-type": "application/json" } });
    const response = await fetch(url, init);
    if ((response.headers.get("content-type") ?? "").startsWith("text/event-stream")) return [response.status, ""];
    const text = await response.text();
    let code = "";
    try { code = JSON.parse(text).code ?? ""; } catch {}
    return [response.status, code, text.slice(0, 80)];
  } catch (error) {
    return [0, String(error)];
  } finally {
    control.abort();
  }
};
for (let at = 0; at < asked.length; at += 8) {
  results.push(...(await Promise.all(asked.slice(at, at + 8).map(one))));
}
return results;
"#;

fn ask(desktop: &Desktop, asked: &[(String, String)]) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    for part in asked.chunks(200) {
        let answers = desktop.run_in("alpha", &format!("const asked = {}; {ASK}", json!(part)));
        for answer in answers.expect("the page asks").as_array().expect("answers") {
            all.push((
                answer[0].as_u64().unwrap_or(0),
                format!(
                    "{} {}",
                    answer[1].as_str().unwrap_or_default(),
                    answer[2].as_str().unwrap_or_default()
                ),
            ));
        }
    }
    assert_eq!(all.len(), asked.len());
    all
}

/// The secret of a page load, from a second copy of the bridge's script.
const SECRET: &str = r#"
const secret = () => new Promise((done, fail) => {
  let boot = null;
  Object.defineProperty(globalThis, "__chrysalisBoot",
    { configurable: true, get: () => boot, set: (value) => { boot = value; done(value.secret); } });
  const script = document.createElement("script");
  script.src = "/__chrysalis/bridge.js";
  document.head.append(script);
  setTimeout(() => fail(new Error("no secret")), 5000);
});
"#;

fn start(home: &testkit::Home) -> Desktop {
    let desktop = Desktop::start(home);
    for id in ["alpha", "beta"] {
        desktop.add(AppFolder::new(home.folder(), id).path(), id);
    }
    desktop.no_first_start();
    desktop.open("alpha");
    desktop
}

/// What an app's page must not be able to change.
fn state(desktop: &Desktop) -> Value {
    let get = |path: &str| desktop.call("GET", path, &Value::Null).1;
    json!({
        "me": get("/v1/me"),
        "settings": get("/v1/settings"),
        "connections": get("/v1/settings/connections")["connections"],
        "apps": get("/v1/apps"),
        "beta": get("/v1/apps/beta/__storage"),
    })
}

#[test]
fn a_page_is_answered_where_it_may_and_refused_elsewhere_in_every_spelling() {
    let home = home();
    let desktop = start(&home);
    let before = state(&desktop);
    let mut problems = Vec::new();

    let own: Vec<_> = MAY
        .iter()
        .map(|(method, path)| (method.to_string(), path.to_string()))
        .collect();
    for ((method, path), (status, text)) in own.iter().zip(ask(&desktop, &own)) {
        if matches!(status, 0 | 401) || (status == 403 && text.starts_with("refused")) {
            problems.push(format!("{method} {path} was refused: {status} {text}"));
        }
    }
    let others: Vec<_> = MAY_NOT
        .iter()
        .map(|(method, path)| (method.to_string(), path.to_string()))
        .collect();
    for ((method, path), (status, text)) in others.iter().zip(ask(&desktop, &others)) {
        let gone = path.contains("no-such") || NOT_HERE.iter().any(|word| path.contains(word));
        if !(status == 403 && text.starts_with("refused") || gone && status == 404) {
            problems.push(format!("{method} {path} was not refused: {status} {text}"));
        }
    }
    let spelled: BTreeSet<(String, String)> = MAY_NOT
        .iter()
        .flat_map(|(method, path)| {
            spellings(path)
                .into_iter()
                .map(|spelling| (method.to_string(), spelling))
        })
        .filter(|pair| !own.contains(pair))
        .collect();
    let spelled: Vec<_> = spelled.into_iter().collect();
    println!("{} routes, {} spellings", MAY.len() + MAY_NOT.len(), spelled.len());
    for ((method, path), (status, text)) in spelled.iter().zip(ask(&desktop, &spelled)) {
        // 0 is the bridge's own refusal; what is left of the page's files is not found.
        if !matches!(status, 0 | 400 | 401 | 403 | 404 | 405) {
            problems.push(format!("{method} {path}: {status} {text}"));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert_eq!(state(&desktop), before);
}

const NOT_HERE: &[&str] = &["/v1/llm", "/v1/agent", "/v1/shell", "/v1/mcp", "/v1/admin", "/v1/git"];

/// Past the bridge's script: the messages themselves, with the page's own secret and addresses that no parser has
/// touched. What would be answered can be seen by what it would have changed.
#[test]
fn messages_past_the_bridges_script_change_nothing_of_others() {
    let home = home();
    let desktop = start(&home);
    let before = state(&desktop);
    let changes = [
        ("PUT", "/v1/settings", json!({"theme": "dark"})),
        ("POST", "/v1/auth/rename", json!({"username": "mallory"})),
        (
            "POST",
            "/v1/settings/connections",
            json!({"name": "evil", "baseUrl": "http://127.0.0.1:9/v1"}),
        ),
        (
            "POST",
            "/v1/apps/beta/__storage",
            json!({"which": "local", "op": "set", "key": "evil", "value": "1"}),
        ),
        ("DELETE", "/v1/apps/beta", json!({})),
        (
            "POST",
            "/v1/apps/import",
            json!({"box": "chat", "confirm": true, "head": "", "grant": true}),
        ),
    ];
    let mut messages = Vec::new();
    for (method, path, body) in &changes {
        let body = body.to_string();
        for url in spellings(path).into_iter().chain([path.to_string()]) {
            messages.push(json!({"t": "fetch", "method": method, "url": url, "body": body,
                "headers": [["content-type", "application/json"], ["x-chrysalis-frame", ""], ["cookie", "chrysalis_session=x"]]}));
        }
        // In the shape of the launcher's command, which no app window has.
        let payload =
            json!({"id": 1, "method": method, "path": path, "headers": [], "body": body, "onChunk": "__CHANNEL__:1"});
        messages.push(
            json!({"cmd": "call", "callback": 1, "error": 2, "payload": payload, "id": 1, "method": method,
            "path": path, "body": body, "headers": [], "onChunk": "__CHANNEL__:1"}),
        );
        messages.push(json!({"t": "call", "id": 1, "method": method, "path": path, "body": body}));
    }
    let last = json!({"t": "fetch", "method": "POST", "url": "/v1/apps/alpha/__storage", "headers": [["content-type", "application/json"]],
        "body": json!({"which": "local", "op": "set", "key": "control", "value": "1"}).to_string()});
    messages.push(last);
    println!("{} messages", messages.len());
    desktop
        .run_in(
            "alpha",
            &format!(
                "{SECRET} const s = await secret(); let id = 1000; \
                 for (const message of {}) {{ \
                   window.ipc.postMessage(JSON.stringify({{ id: id++, ...message, s }})); \
                   await new Promise((done) => setTimeout(done, 20)); \
                 }}",
                json!(messages)
            ),
        )
        .expect("the messages are sent");
    // The last message is one that the page may send: when it is through, so is all before it.
    let storage = fs::canonicalize(home.path()).expect("the home");
    wait_for(&format!("the control in {}", storage.display()), || {
        let (_, stored) = desktop.call("GET", "/v1/apps/alpha/__storage", &Value::Null);
        (stored["local"]["control"] == "1").then_some(())
    });
    assert_eq!(state(&desktop), before);
    assert!(desktop.runs());
    assert_eq!(desktop.eval("alpha", "typeof __TAURI_INTERNALS__"), "undefined");
    assert_eq!(
        desktop.eval(
            "alpha",
            "Object.keys(globalThis).filter((key) => /tauri/i.test(key)).length"
        ),
        0
    );
}
