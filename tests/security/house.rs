//! The built program with a hostile plugin in it, and everything that the plugin must not reach.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Out, Reply, Running, Seen, process};

use crate::attempt::Came;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// What must never come out of the hostile plugin.
pub const OTHERS_TEXT: &str = "canary-of-another-app-5c1d";
pub const OUTSIDE_TEXT: &str = "canary-outside-of-all-apps-77ab";
pub const SECRET: &str = "canary-secret-4be0a9d1f3";
/// The model server does not answer a request with this in it before it is told to.
pub const HOLD: &str = "please hold the line";
pub const MODEL_KEY: &str = "sk-canary-of-the-model-server-0c2e";

/// Runs what it is told, with all it may.
pub const HOSTILE: &str = r#"
class Raw { constructor(answer) { this.answer = answer; } }
const kit = {
  // The message of what `work` throws.
  async thrown(work) {
    try { return `no error but ${JSON.stringify(await work())}`; } catch (error) { return String(error?.message ?? error); }
  },
  // The whole answer of the route, in place of its body.
  raw: (answer) => new Raw(answer),
  // Everything that can be reached from `start` by names, symbols and prototypes.
  reach(start) {
    const seen = new Set(), list = [start];
    while (list.length) {
      const at = list.pop();
      if ((typeof at !== "object" && typeof at !== "function") || at === null || seen.has(at)) continue;
      seen.add(at);
      list.push(Object.getPrototypeOf(at));
      for (const key of Reflect.ownKeys(at)) {
        const found = Object.getOwnPropertyDescriptor(at, key);
        list.push(found.get, found.set, "value" in found ? found.value : undefined);
        try { list.push(at[key]); } catch {}
      }
    }
    return [...seen];
  },
};
export async function handleRoute(req, host) {
  const run = new Function("host", "given", "kit", "req", `return (async () => {\n${req.body.code}\n})()`);
  const value = await run(host, req.body.given, kit, req);
  return value instanceof Raw ? value.answer : { json: value === undefined ? null : value };
}
export const TOOLS = [{ name: "evil_tool", description: "d", parameters: { type: "object" } }];
export async function handleTool(name, args, host) { return "tool"; }
"#;

/// Everything a plugin can ask for.
pub const EVERYTHING: &[&str] = &[
    "llm",
    "store",
    "schedule",
    "network",
    "local-network",
    "tools",
    "routes",
    "fs",
    "zip",
    "hooks",
];

/// Held for reading by every house and for writing by one that takes all of the machine.
static MACHINE: RwLock<()> = RwLock::new(());

enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

pub struct House {
    pub running: Running,
    pub owner: Client,
    pub home: Home,
    /// Two servers on loopback that were granted, and one that was not.
    pub granted: ModelServer,
    pub second: ModelServer,
    pub other: ModelServer,
    pub model: ModelServer,
    _turn: Turn,
}

const CONFIG: &str = "worker_idle_seconds = 2\n";

impl House {
    pub fn open() -> Self {
        Self::configured(CONFIG)
    }

    /// While no other house is there: for what takes every core.
    pub fn alone() -> Self {
        let guard = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        Self::build(CONFIG, Turn::Alone { _guard: guard })
    }

    /// With this `config.toml`.
    pub fn configured(config: &str) -> Self {
        let guard = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        Self::build(config, Turn::Shared { _guard: guard })
    }

    fn build(config: &str, turn: Turn) -> Self {
        let granted = ModelServer::everything(serve);
        let second = ModelServer::everything(serve);
        let other = ModelServer::everything(|_, out| out.answer(200, "text/plain", OUTSIDE_TEXT));
        let model = ModelServer::start(|seen, out| {
            out.begin();
            if seen.body.contains(HOLD) {
                out.gate();
            }
            out.delta("hel");
            out.delta("lo");
            out.done();
        });
        let home = Home::new(PROGRAM);
        home.configure(config);
        let running = home.serve();
        let owner = running.set_up();
        running.connect(&owner, &model.url(), Some(MODEL_KEY));
        let house = House {
            running,
            owner,
            home,
            granted,
            second,
            other,
            model,
            _turn: turn,
        };
        house.add("evil", &["p", "twin"], EVERYTHING);
        house.add("beta", &["p"], EVERYTHING);
        house.hide();
        house
    }

    /// The same with a worker that was taken over in the place of the real one.
    pub fn taken_over(mut self) -> Self {
        self.running.stop();
        let worker = self.home.program().with_file_name("chrysalis-worker");
        assert_ne!(
            worker.parent(),
            Path::new(PROGRAM).parent(),
            "only this test's own worker is replaced"
        );
        fs::remove_file(&worker).unwrap();
        fs::copy(crate::worker::lying_worker(), &worker).unwrap();
        self.running = self.home.serve();
        self.owner = self.running.login();
        self
    }

    /// An app of hostile plugins.
    pub fn add(&self, id: &str, plugins: &[&str], permissions: &[&str]) {
        let mut app = AppFolder::new(self.home.folder(), id);
        for plugin in plugins {
            app = app.plugin(plugin, permissions, HOSTILE);
            app.file(
                &format!("plugins/{plugin}/manifest.json"),
                &self.manifest(plugin, permissions).to_string(),
            );
        }
        self.running.add(app.path(), id);
    }

    pub fn manifest(&self, plugin: &str, permissions: &[&str]) -> Value {
        json!({
            "name": plugin, "version": "1.0.0", "permissions": permissions, "origin": "imported",
            "networkHosts": ["good.example", "*.wild.example", format!("127.0.0.1:{}", self.granted.port)],
            "localHosts": [format!("127.0.0.1:{}", self.second.port), format!("localhost:{}", self.second.port)],
            "secrets": [{"name": "token", "origin": format!("http://127.0.0.1:{}", self.granted.port)}],
        })
    }

    /// Puts what must not be found where it must not be found.
    fn hide(&self) {
        let origin = format!("http://127.0.0.1:{}", self.granted.port);
        let secret = json!({"value": SECRET, "origin": origin});
        for plugin in ["evil__p", "evil__twin", "beta__p"] {
            let address = format!("/v1/plugins/{plugin}/secrets/token");
            self.owner.send("PUT", &address, &secret).ok();
        }
        let theirs = json!({"value": format!("{SECRET}-of-beta"), "origin": origin});
        self.owner
            .send("PUT", "/v1/plugins/beta__p/secrets/theirs", &theirs)
            .ok();
        let hide = format!("host.store.put('hidden', '{OTHERS_TEXT}'); host.fs.write('hidden.txt', '{OTHERS_TEXT}')");
        for (app, plugin) in [("beta", "p"), ("evil", "twin")] {
            let hide = hide.replace("hidden", if app == "evil" { "twins" } else { "hidden" });
            let hide = if app == "evil" {
                hide.split(';').next().unwrap_or_default().to_owned()
            } else {
                hide
            };
            assert_eq!(self.run_as(app, plugin, &hide), Came::Value(Value::Null));
        }
        fs::create_dir(self.outside()).unwrap();
        fs::write(self.outside().join("file.txt"), OUTSIDE_TEXT).unwrap();
        fs::create_dir(self.outside().join("folder")).unwrap();
        fs::write(self.outside().join("folder/inner.txt"), OUTSIDE_TEXT).unwrap();
    }

    /// A folder beside the home, which no app may touch.
    pub fn outside(&self) -> PathBuf {
        self.home.folder().join("outside")
    }

    pub fn workspace(&self) -> PathBuf {
        let mut accounts = fs::read_dir(self.home.path().join("accounts")).unwrap();
        accounts.next().unwrap().unwrap().path().join("workspace/apps")
    }

    pub fn data(&self, app: &str) -> PathBuf {
        self.workspace().join(app).join("data")
    }

    /// What every piece of code gets as `given`.
    pub fn given(&self) -> Value {
        let at = |server: &ModelServer| format!("http://127.0.0.1:{}", server.port);
        json!({
            "granted": at(&self.granted), "second": at(&self.second), "other": at(&self.other),
            "grantedPort": self.granted.port, "secondPort": self.second.port, "otherPort": self.other.port,
            "enginePort": self.running.port, "outside": self.outside(), "home": self.home.path(),
        })
    }

    /// Runs code as the hostile plugin.
    pub fn run(&self, code: &str) -> Came {
        self.run_as("evil", "p", code)
    }

    pub fn run_as(&self, app: &str, plugin: &str, code: &str) -> Came {
        self.run_with(app, plugin, json!({"code": code}))
    }

    /// Runs `body.code`, with more in the body beside it.
    pub fn run_with(&self, app: &str, plugin: &str, mut body: Value) -> Came {
        body["given"] = self.given();
        came(&self.call(app, plugin, &body))
    }

    pub fn call(&self, app: &str, plugin: &str, body: &Value) -> Reply {
        let call = json!({"method": "POST", "path": "/run", "body": body});
        self.owner.post(&format!("/v1/apps/{app}/plugins/{plugin}/call"), &call)
    }

    /// What an attempt did beyond failing.
    pub fn harm(&self, came: &Came) -> Option<String> {
        let said = format!("{came:?}");
        for canary in [OTHERS_TEXT, OUTSIDE_TEXT, SECRET, MODEL_KEY, "root:x:0"] {
            if said.contains(canary) {
                return Some(format!("it got hold of {canary}"));
            }
        }
        let home = self.home.path();
        if said.contains(&*home.to_string_lossy()) {
            return Some("it says where the home is".into());
        }
        if let Some(seen) = self.other.seen().first() {
            self.other.forget();
            return Some(format!(
                "the server that was not granted got {} {}",
                seen.method, seen.target
            ));
        }
        self.changed_outside()
    }

    fn changed_outside(&self) -> Option<String> {
        let outside = self.outside();
        let mut found: Vec<String> = testkit::folders::files(&outside)
            .iter()
            .map(|path| {
                path.strip_prefix(&outside)
                    .unwrap_or(Path::new("?"))
                    .display()
                    .to_string()
            })
            .collect();
        found.sort();
        if found != ["file.txt", "folder/inner.txt"] {
            return Some(format!("outside of all apps there is now {found:?}"));
        }
        for file in found {
            let text = fs::read_to_string(outside.join(&file)).unwrap_or_default();
            if text != OUTSIDE_TEXT {
                return Some(format!("{file} outside of all apps was changed"));
            }
        }
        let theirs = fs::read_to_string(self.data("beta").join("hidden.txt")).unwrap_or_default();
        (theirs != OTHERS_TEXT).then(|| "another app's file was changed".into())
    }

    /// Plugin workers that exist now.
    pub fn workers(&self) -> Vec<u32> {
        process::workers(self.running.pid())
    }
}

/// What a call of a plugin came to.
pub fn came(reply: &Reply) -> Came {
    if reply.status != 200 {
        let said = reply.json();
        let why = said["error"].as_str().map_or_else(|| reply.text(), str::to_owned);
        return Came::Error(format!("{} {why}", reply.status));
    }
    let answer = reply.json();
    let text = answer["text"].as_str().unwrap_or_default();
    match (answer["answered"].as_bool(), answer["status"].as_u64()) {
        (Some(true), Some(200)) => Came::Value(serde_json::from_str(text).unwrap_or_else(|_| text.into())),
        _ => Came::Error(answer.to_string()),
    }
}

/// The servers that were granted.
fn serve(seen: &Seen, out: &mut Out) {
    let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
    match path {
        "/echo" => {
            let headers: Vec<Value> = seen.headers.iter().map(|(n, v)| json!([n, v])).collect();
            let body = json!({"method": seen.method, "target": seen.target, "headers": headers, "body": seen.body});
            out.json(200, &body);
        }
        "/to" => out.raw(&format!(
            "HTTP/1.1 302 Found\r\nLocation: {query}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )),
        "/lies" => out.raw("HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\nContent-Type: text/plain\r\n\r\nshort"),
        "/endless" => {
            out.raw("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n");
            let piece = "x".repeat(64 << 10);
            while !out.gone() {
                out.raw(&piece);
            }
        }
        "/silent" => {
            out.raw("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhe");
            let began = std::time::Instant::now();
            while !out.gone() && began.elapsed() < testkit::PATIENCE {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        "/split" => out.raw(
            "HTTP/1.1 200 OK\r\nX-A: 1\rX-B: 2\r\nContent-Length: 2\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nok",
        ),
        "/many-headers" => {
            out.raw("HTTP/1.1 200 OK\r\n");
            for n in 0..20_000 {
                out.raw(&format!("X-{n}: {}\r\n", "y".repeat(100)));
            }
            out.raw("Content-Length: 2\r\n\r\nok");
        }
        _ => out.answer(200, "text/plain", "hello"),
    }
}
