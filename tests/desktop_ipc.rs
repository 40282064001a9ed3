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
    ("GET", "/v1/models/prompt-formats"),
    ("GET", "/v1/models/prompt-format"),
    ("GET", "/v1/images/models"),
    ("POST", "/v1/images"),
    ("GET", "/v1/audio/voices"),
    ("POST", "/v1/audio/speech"),
    ("GET", "/v1/audio/speech/endpoints"),
    ("GET", "/v1/embeddings/config"),
    ("GET", "/v1/events"),
    ("GET", "/v1/assets"),
    ("PUT", "/v1/assets?name=x"),
    ("GET", "/v1/assets/none"),
    ("GET", "/v1/apps/alpha/__storage"),
    ("POST", "/v1/apps/alpha/__storage"),
    ("GET", "/v1/apps/alpha/__streams/x"),
    ("POST", "/v1/apps/alpha/__abort"),
    ("GET", "/v1/apps/alpha/__panels"),
    ("GET", "/v1/apps/alpha/__media/none"),
    ("GET", "/v1/apps/alpha/img"),
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
    ("GET", "/v1/settings/keys"),
    ("PUT", "/v1/settings/keys"),
    ("POST", "/v1/settings/keys/unlock"),
    ("POST", "/v1/settings/keys/lock"),
    ("POST", "/v1/settings/connections/c_x/test"),
    ("PUT", "/v1/models/context"),
    ("PUT", "/v1/models/pricing"),
    ("GET", "/v1/settings/app-models/alpha"),
    ("PUT", "/v1/settings/app-models/alpha"),
    ("POST", "/v1/audio/speech/endpoints"),
    ("PATCH", "/v1/audio/speech/endpoints/s_x"),
    ("DELETE", "/v1/audio/speech/endpoints/s_x"),
    ("PUT", "/v1/embeddings/config"),
    ("POST", "/v1/embeddings/probe"),
    ("GET", "/v1/spend"),
    ("GET", "/v1/spend/limits"),
    ("PUT", "/v1/spend/limits"),
    ("GET", "/v1/launch"),
    ("GET", "/v1/activity"),
    ("GET", "/v1/apps"),
    ("POST", "/v1/apps/import"),
    ("DELETE", "/v1/apps/alpha"),
    ("DELETE", "/v1/apps/beta"),
    ("GET", "/v1/apps/alpha/plugins"),
    ("POST", "/v1/plugins/alpha__x/approve"),
    ("POST", "/v1/plugins/beta__x/approve"),
    ("DELETE", "/v1/apps/alpha/plugins/x"),
    ("POST", "/v1/apps/alpha/plugins/x/enable"),
    ("POST", "/v1/apps/alpha/plugins/x/disable"),
    ("GET", "/v1/apps/alpha/plugins/x/difference"),
    ("POST", "/v1/apps/alpha/plugins/x/call"),
    ("GET", "/v1/apps/alpha/plugins/x/tools"),
    ("POST", "/v1/apps/alpha/plugins/x/tools/y"),
    ("POST", "/v1/data-updates/alpha"),
    ("POST", "/v1/plugins/alpha__x/revoke"),
    ("PUT", "/v1/plugins/alpha__x/secrets/token"),
    ("DELETE", "/v1/plugins/alpha__x/secrets/token"),
    ("PUT", "/v1/budgets/alpha"),
    ("POST", "/v1/activity/alpha/stop"),
    ("POST", "/v1/apps/beta/plugins/x/call"),
    ("PUT", "/v1/plugins/beta__x/secrets/token"),
    ("PUT", "/v1/budgets/beta"),
    ("POST", "/v1/activity/beta/stop"),
    ("GET", "/v1/apps/beta/__panels"),
    ("GET", "/v1/apps/beta/__media/none"),
    ("GET", "/v1/apps/beta/img"),
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

/// Every route of the contract, an address of it, and whether the launcher may: it speaks as the owner, and what is only
/// for the command line is not for it.
const AS_OWNER: &[(&str, &str, &str, bool)] = &[
    ("GET", "/v1/health", "/v1/health", true),
    ("GET", "/v1/auth/users", "/v1/auth/users", true),
    ("POST", "/v1/auth/setup", "/v1/auth/setup", true),
    ("POST", "/v1/auth/login", "/v1/auth/login", true),
    ("POST", "/v1/auth/logout", "/v1/auth/logout", true),
    ("POST", "/v1/auth/rename", "/v1/auth/rename", true),
    ("PUT", "/v1/auth/password", "/v1/auth/password", true),
    ("POST", "/v1/auth/reset-password", "/v1/auth/reset-password", false),
    ("GET", "/v1/me", "/v1/me", true),
    ("GET", "/v1/settings", "/v1/settings", true),
    ("PUT", "/v1/settings", "/v1/settings", true),
    ("GET", "/v1/settings/connections", "/v1/settings/connections", true),
    ("POST", "/v1/settings/connections", "/v1/settings/connections", true),
    (
        "PATCH",
        "/v1/settings/connections/{id}",
        "/v1/settings/connections/c_x",
        true,
    ),
    (
        "DELETE",
        "/v1/settings/connections/{id}",
        "/v1/settings/connections/c_x",
        true,
    ),
    (
        "PUT",
        "/v1/settings/connections/{id}/key",
        "/v1/settings/connections/c_x/key",
        true,
    ),
    (
        "DELETE",
        "/v1/settings/connections/{id}/key",
        "/v1/settings/connections/c_x/key",
        true,
    ),
    ("GET", "/v1/settings/providers", "/v1/settings/providers", true),
    ("GET", "/v1/settings/local-servers", "/v1/settings/local-servers", true),
    ("GET", "/v1/launch", "/v1/launch", true),
    ("GET", "/v1/models", "/v1/models", true),
    ("GET", "/v1/settings/keys", "/v1/settings/keys", true),
    ("PUT", "/v1/settings/keys", "/v1/settings/keys", true),
    ("POST", "/v1/settings/keys/unlock", "/v1/settings/keys/unlock", true),
    ("POST", "/v1/settings/keys/lock", "/v1/settings/keys/lock", true),
    (
        "POST",
        "/v1/settings/connections/{id}/test",
        "/v1/settings/connections/c_x/test",
        true,
    ),
    ("GET", "/v1/models/prompt-formats", "/v1/models/prompt-formats", true),
    ("GET", "/v1/models/prompt-format", "/v1/models/prompt-format", true),
    ("PUT", "/v1/models/context", "/v1/models/context", true),
    ("PUT", "/v1/models/pricing", "/v1/models/pricing", true),
    (
        "GET",
        "/v1/settings/app-models/{app}",
        "/v1/settings/app-models/alpha",
        true,
    ),
    (
        "PUT",
        "/v1/settings/app-models/{app}",
        "/v1/settings/app-models/alpha",
        true,
    ),
    ("GET", "/v1/images/models", "/v1/images/models", true),
    ("POST", "/v1/images", "/v1/images", true),
    ("GET", "/v1/audio/voices", "/v1/audio/voices", true),
    ("POST", "/v1/audio/speech", "/v1/audio/speech", true),
    ("GET", "/v1/audio/speech/endpoints", "/v1/audio/speech/endpoints", true),
    ("POST", "/v1/audio/speech/endpoints", "/v1/audio/speech/endpoints", true),
    (
        "PATCH",
        "/v1/audio/speech/endpoints/{id}",
        "/v1/audio/speech/endpoints/s_x",
        true,
    ),
    (
        "DELETE",
        "/v1/audio/speech/endpoints/{id}",
        "/v1/audio/speech/endpoints/s_x",
        true,
    ),
    ("GET", "/v1/embeddings/config", "/v1/embeddings/config", true),
    ("PUT", "/v1/embeddings/config", "/v1/embeddings/config", true),
    ("POST", "/v1/embeddings/probe", "/v1/embeddings/probe", true),
    ("GET", "/v1/spend", "/v1/spend", true),
    ("GET", "/v1/spend/limits", "/v1/spend/limits", true),
    ("PUT", "/v1/spend/limits", "/v1/spend/limits", true),
    ("GET", "/v1/activity", "/v1/activity", true),
    ("GET", "/v1/events", "/v1/events", true),
    ("GET", "/v1/ws", "/v1/ws", true),
    ("GET", "/v1/assets", "/v1/assets", true),
    ("PUT", "/v1/assets", "/v1/assets?name=x", true),
    ("GET", "/v1/assets/{id}", "/v1/assets/none", true),
    ("GET", "/v1/apps", "/v1/apps", true),
    ("POST", "/v1/apps/import", "/v1/apps/import", true),
    // An app that is not there: the walk goes on with alpha.
    ("DELETE", "/v1/apps/{app}", "/v1/apps/zeta", true),
    ("GET", "/v1/apps/{app}/plugins", "/v1/apps/alpha/plugins", true),
    (
        "POST",
        "/v1/plugins/{plugin}/approve",
        "/v1/plugins/alpha__x/approve",
        true,
    ),
    // What plugins may do, hold and spend is decided by the person. No page takes part in it, the plugin's own app's neither.
    (
        "DELETE",
        "/v1/apps/{app}/plugins/{plugin}",
        "/v1/apps/alpha/plugins/x",
        true,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/enable",
        "/v1/apps/alpha/plugins/x/enable",
        true,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/disable",
        "/v1/apps/alpha/plugins/x/disable",
        true,
    ),
    (
        "GET",
        "/v1/apps/{app}/plugins/{plugin}/difference",
        "/v1/apps/alpha/plugins/x/difference",
        true,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/call",
        "/v1/apps/alpha/plugins/x/call",
        true,
    ),
    (
        "GET",
        "/v1/apps/{app}/plugins/{plugin}/tools",
        "/v1/apps/alpha/plugins/x/tools",
        true,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/tools/{name}",
        "/v1/apps/alpha/plugins/x/tools/y",
        true,
    ),
    ("POST", "/v1/data-updates/{app}", "/v1/data-updates/alpha", true),
    (
        "POST",
        "/v1/plugins/{plugin}/revoke",
        "/v1/plugins/alpha__x/revoke",
        true,
    ),
    (
        "PUT",
        "/v1/plugins/{plugin}/secrets/{name}",
        "/v1/plugins/alpha__x/secrets/token",
        true,
    ),
    (
        "DELETE",
        "/v1/plugins/{plugin}/secrets/{name}",
        "/v1/plugins/alpha__x/secrets/token",
        true,
    ),
    ("PUT", "/v1/budgets/{app}", "/v1/budgets/alpha", true),
    ("POST", "/v1/activity/{app}/stop", "/v1/activity/alpha/stop", true),
    // What an app's own plugins show: panels, pictures that they kept, pictures from hosts that they may reach.
    ("GET", "/v1/apps/{app}/__panels", "/v1/apps/alpha/__panels", true),
    (
        "GET",
        "/v1/apps/{app}/__media/{name}",
        "/v1/apps/alpha/__media/none",
        true,
    ),
    ("GET", "/v1/apps/{app}/img", "/v1/apps/alpha/img", true),
    ("POST", "/v1/apps/{app}/frame", "/v1/apps/alpha/frame", true),
    ("DELETE", "/v1/apps/{app}/frame/{token}", "/v1/apps/alpha/frame/x", true),
    ("GET", "/v1/apps/{app}/__storage", "/v1/apps/alpha/__storage", true),
    ("POST", "/v1/apps/{app}/__storage", "/v1/apps/alpha/__storage", true),
    (
        "GET",
        "/v1/apps/{app}/__streams/{chat}",
        "/v1/apps/alpha/__streams/x",
        true,
    ),
    ("POST", "/v1/apps/{app}/__abort", "/v1/apps/alpha/__abort", true),
    ("POST", "/v1/apps/{app}/__refused", "/v1/apps/alpha/__refused", true),
    ("*", "/v1/apps/{app}/{*rest}", "/v1/apps/alpha/notes/7", true),
];

/// Ways to write an address that lead nowhere, for the owner neither.
fn misspelled(path: &str) -> Vec<String> {
    let rest = path.strip_prefix("/v1/").expect("a route");
    let (head, last) = path.rsplit_once('/').expect("a route");
    vec![
        format!("/v1//{rest}"),
        format!("/{path}"),
        format!("{head}//{last}"),
        format!("{head}/./{last}"),
        format!("{head}/x/../{last}"),
        format!("{head}/x/%2e%2E/{last}"),
        format!("/v1/../v1/{rest}"),
        format!("/v1%2f{rest}"),
        format!("{head}%2F{last}"),
        format!("{head}%5c{last}"),
        format!("/v1\\{rest}"),
        format!("/V1/{rest}"),
        path.to_uppercase(),
        format!("{path}%00"),
        format!("{path}%ff"),
        format!("tauri://localhost{path}"),
        format!("http://127.0.0.1{path}"),
        path[1..].to_owned(),
    ]
}

/// Ways that may lead to the same place or nowhere, but to no other.
fn encoded(path: &str) -> Vec<String> {
    let (head, last) = path.rsplit_once('/').expect("a route");
    let first = last.as_bytes()[0];
    vec![
        format!("{head}/%{first:02x}{}", &last[1..]),
        format!("/v1/%{:02x}{}", path.as_bytes()[4], &path[5..]),
        path.replacen("/v1", "/%76%31", 1),
    ]
}

/// Asks for `[method, path]` pairs by the launcher's own command, some at a time; gives `[status, text]` of each, or
/// `[0, error]` where the command itself refuses. An answer that has no end is let go after its head.
const ASK_AS_OWNER: &str = r#"
const [asked, done] = arguments;
const { invoke, transformCallback } = __TAURI_INTERNALS__;
const one = ([method, path]) => new Promise((done) => {
  const id = Math.floor(Math.random() * 2 ** 50);
  const held = new Map();
  let next = 0, status = 0, text = "";
  const take = (piece) => {
    if (piece.t === "head") {
      status = piece.status;
      const kind = piece.headers.find(([name]) => name === "content-type")?.[1] ?? "";
      if (kind.startsWith("text/event-stream")) {
        invoke("cancel", { id });
        done([status, kind]);
      }
    } else if (piece.t === "chunk") text += atob(piece.b64);
    else done([status, text.slice(0, 200)]);
  };
  const onChunk = transformCallback((raw) => {
    if ("end" in raw) return;
    held.set(raw.index, raw.message);
    while (held.has(next)) { const piece = held.get(next); held.delete(next++); take(piece); }
  });
  const body = method === "GET" || method === "HEAD" ? null : "{}";
  const headers = body ? [["content-type", "application/json"]] : [];
  invoke("call", { id, method, path, headers, body, onChunk: `__CHANNEL__:${onChunk}` })
    .catch((error) => done([0, String(error)]));
});
(async () => {
  const results = [];
  for (let at = 0; at < asked.length; at += 8) results.push(...(await Promise.all(asked.slice(at, at + 8).map(one))));
  done(results);
})();
"#;

fn ask_as_owner(desktop: &Desktop, asked: &[(String, String)]) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    for part in asked.chunks(100) {
        let answers = desktop.launcher.run_async(ASK_AS_OWNER, &[json!(part)]);
        for answer in answers.as_array().expect("answers") {
            let text = answer[1].as_str().unwrap_or_default().to_owned();
            all.push((answer[0].as_u64().unwrap_or(0), text));
        }
    }
    assert_eq!(all.len(), asked.len());
    all
}

/// Whether no handler of a route saw it: refused by the command or the door, or no address of the engine.
fn unheard(status: u64, text: &str) -> bool {
    match status {
        0 | 401 | 403 | 404 | 405 => true,
        400 => text.contains("This address is not accepted"),
        _ => false,
    }
}

#[test]
fn the_launcher_is_the_owner_on_every_route_and_nobody_more_in_any_spelling() {
    // An engine of its own fills the table of this process.
    let apart = testkit::Home::new(env!("CARGO_BIN_EXE_chrysalis"));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let options = engine::Options {
            home: apart.path(),
            worker: env!("CARGO_BIN_EXE_chrysalis-worker").into(),
            keychain: engine::Keychain::None,
        };
        engine::Engine::open(options).await.expect("an engine").shutdown().await;
    });
    let known: BTreeSet<_> = engine::access_table()
        .iter()
        .map(|line| {
            (
                line.method,
                line.pattern,
                line.callers.contains(policy::CallerKind::Owner),
            )
        })
        .collect();
    let wanted: BTreeSet<_> = AS_OWNER
        .iter()
        .map(|(method, pattern, _, may)| (*method, *pattern, *may))
        .collect();
    assert_eq!(wanted, known);

    let home = home();
    let desktop = start(&home);
    let mut problems = Vec::new();
    let mut plain = Vec::new();
    for (method, _, address, may) in AS_OWNER {
        let methods = if *method == "*" {
            vec!["GET", "POST", "PUT", "PATCH", "DELETE"]
        } else {
            vec![*method]
        };
        plain.extend(
            methods
                .into_iter()
                .map(|method| ((method.to_owned(), (*address).to_owned()), *may)),
        );
    }
    let asked: Vec<_> = plain.iter().map(|(pair, _)| pair.clone()).collect();
    let answers = ask_as_owner(&desktop, &asked);
    for (((method, path), may), (status, text)) in plain.iter().zip(&answers) {
        let refused = matches!(status, 401 | 403);
        if *status == 0 || *status >= 500 || refused == *may {
            problems.push(format!("{method} {path}: {status} {text}"));
        }
    }
    // What the walk itself changes is over; other spellings change nothing more.
    let before = state(&desktop);
    let pairs = |spell: fn(&str) -> Vec<String>| -> Vec<((String, String), u64)> {
        let all = plain
            .iter()
            .zip(&answers)
            .flat_map(|(((method, address), may), (status, _))| {
                let path = address.split('?').next().unwrap_or_default();
                // A refused route may not be reached by any of them.
                let status = if *may { *status } else { 0 };
                spell(path)
                    .into_iter()
                    .map(move |spelling| ((method.clone(), spelling), status))
            });
        all.collect()
    };
    for (spelled, may_be_alike) in [(pairs(misspelled), false), (pairs(encoded), true)] {
        let asked: Vec<_> = spelled.iter().map(|(pair, _)| pair.clone()).collect();
        println!("{} routes, {} spellings", AS_OWNER.len(), asked.len());
        for (((method, path), alike), (status, text)) in spelled.iter().zip(ask_as_owner(&desktop, &asked)) {
            let right = unheard(status, &text) || may_be_alike && status == *alike;
            if !right {
                problems.push(format!("{method} {path}: {status} {text}"));
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
    assert_eq!(state(&desktop), before);
    assert_eq!(desktop.call("GET", "/v1/me", &Value::Null).0, 200);
}
