//! The built program with the apps of some rules, a model server and a web server that do what they are told.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Out, Reply, Running, Seen};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
/// What makes a plugin's route the last of three passes.
const THREE: &str = include_str!("three.js");

pub struct House {
    pub running: Running,
    pub owner: Client,
    pub model: ModelServer,
    pub web: ModelServer,
    /// What was asked outside, in the order in which it was asked: `embeddings`, `web PATH`, `model TEXT`.
    pub order: Arc<Mutex<Vec<String>>>,
    pub home: Home,
}

/// The folders in `folder`, by name.
fn folders(folder: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| (entry.file_name().into_string().expect("a name"), entry.path()))
        .collect();
    found.sort();
    found
}

/// The folder of one rule.
pub fn rule(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/compat/plugins")
        .join(name)
}

impl House {
    /// An app for each rule, with the plugins in its folder, all allowed. A rule of one plugin also gives the app
    /// `<rule>-3`, whose plugin does the same in the last of three passes.
    pub fn open(rules: &[&str]) -> Self {
        Self::with(rules, Some("sk-test"), "")
    }

    /// Without a key there is no connection that makes embeddings. `config` is more for `config.toml`.
    pub fn with(rules: &[&str], key: Option<&str>, config: &str) -> Self {
        let order: Arc<Mutex<Vec<String>>> = Arc::default();
        let (one, other) = (order.clone(), order.clone());
        let model = ModelServer::start(move |seen, out| answer(seen, out, &one));
        let web = ModelServer::everything(move |seen, out| page(seen, out, &other));
        let home = Home::new(PROGRAM);
        home.configure(&format!("worker_idle_seconds = 1\n{config}"));
        let running = home.serve();
        let owner = running.set_up();
        running.connect(&owner, &model.url(), key);
        let house = House {
            running,
            owner,
            model,
            web,
            order,
            home,
        };
        for rule in rules {
            house.add(rule);
        }
        house
    }

    pub fn add(&self, name: &str) {
        let folder = rule(name);
        let single = folder.join("plugin.js").is_file();
        let plugins = if single {
            vec![("p".to_owned(), folder)]
        } else {
            folders(&folder)
        };
        let app = AppFolder::new(self.home.folder(), name);
        for (id, from) in &plugins {
            let manifest = self.text(&from.join("manifest.json"));
            app.file(&format!("plugins/{id}/manifest.json"), &manifest);
            app.file(&format!("plugins/{id}/plugin.js"), &self.text(&from.join("plugin.js")));
        }
        self.running.add(app.path(), name);
        if !single {
            return;
        }
        let three = format!("{name}-3");
        let app = AppFolder::new(self.home.folder(), &three);
        let mut manifest: Value = serde_json::from_str(&self.text(&plugins[0].1.join("manifest.json"))).expect("JSON");
        let permissions = manifest["permissions"].as_array_mut().expect("a list");
        for permission in ["llm", "network"] {
            if !permissions.iter().any(|p| p == permission) {
                permissions.push(permission.into());
            }
        }
        manifest["networkHosts"] = json!([self.host()]);
        app.file("plugins/p/manifest.json", &manifest.to_string());
        let code = self.text(&plugins[0].1.join("plugin.js"));
        let inner = code.replacen("export function handleRoute(", "function rule(", 1);
        let inner = inner.replacen("export async function handleRoute(", "async function rule(", 1);
        assert_ne!(inner, code, "{name}: its route is written otherwise");
        app.file("plugins/p/plugin.js", &format!("{inner}\n{THREE}"));
        self.running.add(app.path(), &three);
    }

    fn text(&self, path: &Path) -> String {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        text.replace("WEB_HOST", &self.host())
    }

    /// The web server, as manifests name it.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.web.port)
    }

    pub fn web_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host())
    }

    pub fn post(&self, app: &str, path: &str, body: &Value) -> Reply {
        self.owner.post(&format!("/v1/apps/{app}{path}"), body)
    }

    /// What the rule's plugin answers to `/rule`, at once and at the end of three passes.
    pub fn both(&self, rule: &str, body: Value, judge: impl Fn(&Value)) {
        let mut body = body;
        body["net"] = self.web_url("").into();
        judge(&self.post(rule, "/rule", &body).ok());
        let three = format!("{rule}-3");
        let got = self.post(&three, "/rule", &body).ok();
        let seen = &got["seen"];
        assert_eq!(seen["passes"], 3, "{rule}: {got}");
        assert_eq!(seen["first"]["text"], "said: one", "{rule}: {got}");
        assert_eq!(seen["first"]["mine"], true, "{rule}: results can be changed: {got}");
        assert_eq!(seen["first"]["usage"], Value::Null, "{rule}: and taken from: {got}");
        assert_eq!(seen["still"], "said: one", "{rule}: {got}");
        assert_eq!(seen["second"], "said: two after said: one", "{rule}: {got}");
        assert_eq!(seen["vectors"], json!([[3, 0], [5, 1]]), "{rule}: {got}");
        assert_eq!(seen["page"], json!({"web": "/json"}), "{rule}: {got}");
        assert_eq!(self.streamed(&three, "three"), "said: two after said: one", "{rule}");
        judge(&got["rule"]["json"]);
    }

    /// The text of the newest answer of this name, as pages read it.
    pub fn streamed(&self, app: &str, chat: &str) -> String {
        let mut events = self.owner.listen(&format!("/v1/apps/{app}/__streams/{chat}"));
        assert_eq!(events.status, 200);
        let mut text = String::new();
        while let Some(event) = events.event() {
            text += event["delta"].as_str().unwrap_or_default();
        }
        text
    }

    /// What the model was asked, as JSON, without lists of models and embeddings.
    pub fn asked(&self) -> Vec<Value> {
        let seen = self.model.seen();
        let chats = seen
            .iter()
            .filter(|s| s.method == "POST" && !s.target.ends_with("/embeddings"));
        chats.map(|s| serde_json::from_str(&s.body).expect("JSON")).collect()
    }

    pub fn workspace(&self) -> PathBuf {
        let accounts = std::fs::read_dir(self.home.path().join("accounts")).expect("accounts");
        accounts.flatten().next().expect("one").path().join("workspace")
    }

    /// Allows `plugin` (`<app>__<plugin>`) these of what it asks for.
    pub fn allow(&self, app: &str, plugin: &str, capabilities: &[&str]) {
        let listed = self.owner.get(&format!("/v1/apps/{app}/plugins")).ok();
        let plugins = listed["plugins"].as_array().expect("a list");
        let found = plugins.iter().find(|p| p["id"] == plugin);
        let found = found.unwrap_or_else(|| panic!("{app}/{plugin} in {listed}"));
        let body = json!({"head": found["hash"], "capabilities": capabilities});
        let id = found["globalId"].as_str().expect("an id");
        self.owner.post(&format!("/v1/plugins/{id}/approve"), &body).ok();
    }

    /// The lines of the activity log of this kind that belong to the app.
    pub fn activity(&self, kind: &str, app: &str) -> Vec<Value> {
        let found = self
            .owner
            .get(&format!("/v1/activity?kind={kind}&app={app}&limit=1000"))
            .ok();
        found["entries"].as_array().expect("entries").clone()
    }

    /// The next event of this kind that `wanted` takes.
    pub fn event(&self, mut events: testkit::Incoming, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = events.event().expect("events go on");
            if wanted(&event) {
                return event;
            }
        }
    }
}

/// The text of the last message, and its role.
fn last(body: &Value) -> (String, String) {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let message = messages.last().cloned().unwrap_or_default();
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.to_string(),
    };
    (message["role"].as_str().unwrap_or_default().to_owned(), text)
}

/// `use NAME {…}` calls a tool if it was offered, and says afterwards what it answered; `tools` lists what was offered;
/// `pieces …` gives the rest in pieces of three; `wait …` first waits to be let go; `fail` fails; everything else is
/// repeated.
fn answer(seen: &Seen, out: &mut Out, order: &Mutex<Vec<String>>) {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let note = |text: String| order.lock().expect("no panic in here").push(text);
    if seen.target.ends_with("/embeddings") {
        note("embeddings".into());
        let inputs = body["input"].as_array().cloned().unwrap_or_default();
        let vectors = inputs.iter().enumerate().map(|(n, text)| {
            json!({"object": "embedding", "index": n, "embedding": [text.as_str().unwrap_or_default().len(), n]})
        });
        let vectors: Vec<Value> = vectors.collect();
        return out.json(200, &json!({"object": "list", "model": "e", "data": vectors}));
    }
    let (role, text) = last(&body);
    note(format!("model {text}"));
    let names: Vec<&str> = body["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|tool| tool["function"]["name"].as_str())
        .collect();
    if text == "fail" {
        return out.json(500, &json!({"error": {"message": "as it was told"}}));
    }
    out.begin();
    if role == "tool" {
        out.delta(&format!("tool said: {text}"));
        return out.done();
    }
    if let Some(call) = text.strip_prefix("use ") {
        let (name, arguments) = call.split_once(' ').unwrap_or((call, "{}"));
        if names.contains(&name) {
            let call = json!({"index": 0, "id": "c1", "type": "function",
                "function": {"name": name, "arguments": arguments}});
            let chunk = json!({"id": "r1", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
            let end = json!({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
            return out.raw(&format!("data: {chunk}\n\ndata: {end}\n\ndata: [DONE]\n\n"));
        }
    }
    if text == "tools" {
        out.delta(&names.join(","));
    } else if let Some(rest) = text.strip_prefix("pieces ") {
        let letters: Vec<char> = rest.chars().collect();
        for piece in letters.chunks(3) {
            out.delta(&piece.iter().collect::<String>());
        }
    } else if let Some(rest) = text.strip_prefix("wait ") {
        out.delta("waiting");
        if !out.gate() {
            return;
        }
        out.delta(rest);
    } else {
        out.delta("said: ");
        out.delta(&text);
    }
    out.done();
}

/// A web server: what it was asked, in several forms.
fn page(seen: &Seen, out: &mut Out, order: &Mutex<Vec<String>>) {
    let path = seen.target.split('?').next().unwrap_or_default().to_owned();
    order.lock().expect("no panic in here").push(format!("web {path}"));
    let about = json!({
        "web": path, "method": seen.method, "body": seen.body, "type": seen.header("content-type"),
        "mine": seen.header("x-mine"), "auth": seen.header("authorization"), "cookie": seen.header("cookie"),
    });
    match path.as_str() {
        "/json" => out.json(200, &json!({"web": path})),
        "/text" => out.answer(200, "text/plain", "plain {\"a\":1}"),
        "/json-as-text" => out.answer(200, "text/plain", "{\"a\":1}"),
        "/bytes" => out.raw("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 3\r\nConnection: close\r\n\r\n\x01\x02\x03"),
        "/missing" => out.answer(404, "text/plain", "nothing here"),
        "/large" => out.answer(200, "text/plain", &"x".repeat(100_000)),
        "/cookie" => out.raw("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"),
        "/silent" => {
            out.gate();
        }
        _ => match path.strip_prefix("/to/").and_then(|rest| rest.split_once('/')) {
            Some((status, to)) => out.raw(&format!(
                "HTTP/1.1 {status} Elsewhere\r\nLocation: /{to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )),
            None => out.json(200, &about),
        },
    }
}

/// The body of an answer that is read as it comes.
pub fn body(mut incoming: testkit::Incoming) -> String {
    let mut text = String::new();
    incoming.read_to_string(&mut text).expect("a body");
    text
}
