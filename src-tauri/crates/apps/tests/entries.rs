//! Each capability × each entry point × both forms of a call, each with the same call that may: what a plugin's code sends
//! past the prelude is judged in the engine. The prelude here hands the worker's own `call` and `callNow` to the plugin.
//!
//! The four capabilities that are entry points themselves (`routes`, `tools`, `hooks`, `schedule`) are judged before any
//! code runs; their rows are in `tests/compat/entries.rs`.

mod host_kit;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use apps::budget::Budgets;
use apps::host::Beyond;
use apps::permission::Permissions;
use apps::plugin_call::{Hook, Plugins, Target};
use apps::route::RouteRequest;
use apps::workspace::{PluginOnDisk, Workspace};
use archive::Archive;
use db::{Db, UsageLimits};
use host_kit::{Shared, World, zip};
use net::{Attempt, ConnectionLog, End, Net};
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext, Caller, Capability, HostPolicy, PluginId};
use sandbox::{Pool, PoolOptions};
use serde_json::{Map, Value, json};

/// Gives the plugin what the real prelude keeps to itself.
const RAW: &str = "const { call, callNow, log } = __sandbox;
globalThis.__makeHost = (data) => ({ call, callNow, data, log });";

/// One wire for all: an attempt that got past the guard is noted, and ends here.
#[derive(Default)]
struct Wire(Mutex<Vec<String>>);

impl ConnectionLog for Wire {
    fn connecting(&self, attempt: &Attempt) -> Result<i64, String> {
        self.0.lock().push(attempt.url.clone());
        Err("the wire of this test leads nowhere".into())
    }
    fn finished(&self, _: i64, _: &End) {}
    fn refused(&self, _: &Attempt, _: &str) {}
}

const PUBLIC: &str = "http://public.example/";
const LOCAL: &str = "http://127.0.0.1:9/";
const PICTURE: &str = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

use Capability::{Fs, Llm, LocalNetwork, Network, Store, Zip};

/// The capabilities that messages of a running call need.
const JUDGED: [Capability; 6] = [Llm, Store, Network, LocalNetwork, Fs, Zip];

/// Every message with arguments that are good, in an order in which they work.
fn messages() -> Vec<(&'static str, Value, Option<Capability>)> {
    let text = json!({"text": "x"});
    let mut all = vec![
        ("llm.generate", json!([{}]), Some(Llm)),
        ("llm.open", json!([{}]), Some(Llm)),
        ("llm.embed", json!([{"texts": ["x"]}]), Some(Llm)),
        ("store.put", json!(["k", 1]), Some(Store)),
        ("store.get", json!(["k"]), Some(Store)),
        ("store.keys", json!([""]), Some(Store)),
        ("store.cas", json!(["k", 1, 2]), Some(Store)),
        ("store.scan", json!([{}]), Some(Store)),
        ("store.batch", json!([[{"put": "l", "value": 1}]]), Some(Store)),
        ("store.delete", json!(["seed"]), Some(Store)),
        ("net.fetch", json!([{"url": PUBLIC}, 1]), Some(Network)),
        ("net.open", json!([{"url": PUBLIC}, 2]), Some(Network)),
        ("net.fetch", json!([{"url": LOCAL}, 3]), Some(LocalNetwork)),
        ("net.open", json!([{"url": LOCAL}, 4]), Some(LocalNetwork)),
        ("fs.write", json!(["a", "x"]), Some(Fs)),
        ("fs.writeBase64", json!(["a", "eA=="]), Some(Fs)),
        ("fs.append", json!(["a", text]), Some(Fs)),
        ("fs.read", json!(["a"]), Some(Fs)),
        ("fs.readBase64", json!(["a"]), Some(Fs)),
        ("fs.readChunk", json!(["a", 0, 1]), Some(Fs)),
        ("fs.mkdir", json!(["b"]), Some(Fs)),
        ("fs.list", json!(["."]), Some(Fs)),
        ("fs.stat", json!(["a"]), Some(Fs)),
        ("fs.exists", json!(["a"]), Some(Fs)),
        ("fs.rename", json!(["a", "c"]), Some(Fs)),
        ("fs.lookup", json!(["c", "k", 1]), Some(Fs)),
        ("fs.media", json!([PICTURE]), Some(Fs)),
        ("fs.upload", json!(["d"]), Some(Fs)),
        ("fs.uploadWrite", json!([1, text]), Some(Fs)),
        ("fs.uploadClose", json!([1]), Some(Fs)),
        ("fs.uploadAbort", json!([1]), Some(Fs)),
        ("fs.begin", json!([]), Some(Fs)),
        ("fs.rollback", json!([]), Some(Fs)),
        ("fs.commit", json!([]), Some(Fs)),
        ("fs.remove", json!(["seed"]), Some(Fs)),
        ("zip.list", json!([]), Some(Zip)),
        ("zip.entries", json!([]), Some(Zip)),
        ("zip.names", json!([]), Some(Zip)),
        ("zip.stat", json!(["a"]), Some(Zip)),
        ("zip.read", json!(["a"]), Some(Zip)),
        ("zip.readBase64", json!(["a"]), Some(Zip)),
        ("zip.readChunk", json!(["a", 0, 1]), Some(Zip)),
        ("zip.image", json!(["a"]), Some(Zip)),
    ];
    // What is an entry point is no message, whatever it is called and whatever was granted.
    for name in [
        "routes.call",
        "handleRoute",
        "tools.run",
        "handleTool",
        "tools",
        "hooks.run",
        "llmRequest",
        "schedule.tick",
        "onTick",
        "schedule",
        "grants.put",
        "permissions.allow",
        "secrets.get",
    ] {
        all.push((name, json!(["x", {}]), None));
    }
    all
}

/// Sends every message and logs what came, one line each. The asynchronous form sends each both ways; the other sends what
/// stands still for its answer, queues one request of each kind in each of its three passes, and logs which of them have
/// results. Each export does the same.
fn source(asynchronous: bool) -> String {
    let (a, w) = if asynchronous { ("async", "await") } else { ("", "") };
    let messages: Vec<Value> = messages().iter().map(|(name, args, _)| json!([name, args])).collect();
    format!(
        r#"
const messages = {messages};
let host;
const said = (n, way, what) => host.log("info", JSON.stringify([n, way, String(what).slice(0, 300)]));
{a} function all(given) {{
  host = given;
  const {{ data, call, callNow }} = host;
  const shown = (value) => "ok " + (JSON.stringify(value) ?? "");
  for (let n = 0; n < messages.length; n++) {{
    const [name, args] = messages[n];
    if ({asynchronous}) try {{ said(n, "call", shown({w} call(name, args))) }} catch (e) {{ said(n, "call", "no " + e.message) }}
    try {{ said(n, "now", shown(callNow(name, args))) }} catch (e) {{ said(n, "now", "no " + e.message) }}
  }}
  if ({asynchronous}) return;
  const queue = (method, request) => {{
    try {{ callNow(method, ["q" + request.url, request]) }} catch (e) {{ said(-1, method, e.message) }}
  }};
  queue("llm.request", {{}});
  queue("llm.embed", {{ texts: ["x"] }});
  queue("net.request", {{ url: "{PUBLIC}" }});
  queue("net.request", {{ url: "{LOCAL}" }});
  const here = (of) => Object.keys(of ?? {{}}).sort().join(",");
  said(-2, "results", [here(data.results), here(data.embedResults), here(data.netResults)].join(";"));
}}
const pending = {{ __llmPending: !{asynchronous} }};
export {a} function handleRoute(req, host) {{ {w} all(host); return {{ ...pending, stash: 1, json: 1 }} }}
export {a} function handleTool(name, args, host) {{ {w} all(host); return {{ ...pending, text: "" }} }}
export {a} function llmRequest(ctx, host) {{ {w} all(host); return pending }}
export {a} function llmResponse(ctx, host) {{ {w} all(host); return pending }}
export {a} function onTick(ctx, host) {{ {w} all(host); return pending }}
export {a} function onAppUpdate(ctx, host) {{ {w} all(host); return pending }}
export {a} function uiPanel(ctx, host) {{ {w} all(host); return {{ ...pending, label: "x" }} }}
export {a} function appTools(ctx, host) {{ {w} all(host); return {{ ...pending, tools: [] }} }}
"#,
        messages = Value::from(messages),
    )
}

const ENTRIES: [&str; 8] = [
    "route",
    "tool",
    "llmRequest",
    "llmResponse",
    "tick",
    "onAppUpdate",
    "panel",
    "appTools",
];

struct House {
    db: Arc<Db>,
    world: Arc<World>,
    wire: Arc<Wire>,
    plugins: Plugins,
    workspace: Workspace,
    account: AccountId,
    app: AppId,
    plugin: PluginOnDisk,
    folder: tempfile::TempDir,
}

impl House {
    fn new(asynchronous: bool, policy: HostPolicy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let app = folder.path().join("workspace/apps/alpha");
        std::fs::create_dir_all(app.join("plugins/p")).unwrap();
        let manifest = json!({"name": "p", "permissions": []}).to_string();
        std::fs::write(app.join("plugins/p/manifest.json"), manifest).unwrap();
        std::fs::write(app.join("plugins/p/plugin.js"), source(asynchronous)).unwrap();
        let manifest = json!({"name": "alpha", "version": "1", "kind": "app"}).to_string();
        std::fs::write(app.join("manifest.json"), manifest).unwrap();
        let db = Arc::new(Db::open(&folder.path().join("db")).unwrap().db);
        let account = AccountId::random();
        db.add_account(&account, "zoe", "admin").unwrap();
        let workspace = Workspace::open(&folder.path().join("workspace")).unwrap();
        let app = AppId::parse("alpha").unwrap();
        let plugin = workspace.plugin(&app, &PluginId::parse("p").unwrap()).unwrap();
        let pool = Pool::new(PoolOptions {
            worker: PathBuf::from(env!("CARGO_BIN_EXE_apps-test-worker")),
            max_alive: 8,
            idle: Duration::from_secs(60),
        });
        let wire = Arc::new(Wire::default());
        let permissions = Permissions::new(db.clone(), policy);
        let budgets = Budgets::new(db.clone(), UsageLimits::default());
        let plugins = Plugins::with_prelude(
            pool,
            db.clone(),
            Net::new(wire.clone()),
            Arc::new(permissions),
            Arc::new(budgets),
            RAW,
        );
        House {
            db,
            world: Arc::default(),
            wire,
            plugins,
            workspace,
            account,
            app,
            plugin,
            folder,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("workspace/apps/alpha/data")
    }

    /// What can be seen from outside of what the plugin wrote.
    fn written(&self) -> (BTreeSet<String>, Vec<(String, String)>) {
        let mut files = BTreeSet::new();
        let mut folders = vec![self.data()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                files.insert(entry.path().display().to_string());
                if entry.path().is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        let store = self.db.store_all(&self.account, &self.app, &self.plugin.id).unwrap();
        (files, store)
    }

    /// Everything as before the first call, with one file and one value that a plugin could take away.
    fn clean(&self) {
        let _ = std::fs::remove_dir_all(self.data());
        std::fs::create_dir_all(self.data()).unwrap();
        std::fs::write(self.data().join("seed"), "seed").unwrap();
        for (name, _) in self.written().1 {
            self.db
                .store_delete(&self.account, &self.app, &self.plugin.id, &name)
                .unwrap();
        }
        let put = self
            .db
            .store_put(&self.account, &self.app, &self.plugin.id, "seed", "1", 1 << 20);
        put.unwrap();
        let world = &self.world;
        world.asked.lock().clear();
        world.refused.lock().clear();
        world.logged.lock().clear();
        world.embedded.store(0, Ordering::SeqCst);
        self.wire.0.lock().clear();
    }

    /// Calls one entry point the way the engine does.
    async fn enter(&self, entry: &str) {
        let context = CallContext::root(&Caller::Engine {
            account: self.account.clone(),
        });
        let beyond: Arc<dyn Beyond> = Arc::new(Shared(self.world.clone()));
        let of = Target {
            context: &context,
            beyond: &beyond,
            workspace: &self.workspace,
            account: &self.account,
            app: &self.app,
            plugin: &self.plugin,
        };
        let plugins = &self.plugins;
        match entry {
            "route" => {
                let request = RouteRequest {
                    method: "POST".into(),
                    path: "/".into(),
                    query: Map::new(),
                    body: Value::Null,
                };
                let archive: Arc<Archive> = Arc::new(zip(&[("a", b"x")]));
                let answer = plugins.route(&of, &request, Value::Null, Some(archive)).await.unwrap();
                assert_eq!(answer.unwrap().body, "1");
            }
            "tool" => assert_eq!(plugins.tool(&of, "t", json!({})).await.unwrap().text, ""),
            "llmRequest" => drop(plugins.hook(&of, Hook::Request, json!({})).await.unwrap().unwrap()),
            "llmResponse" => drop(plugins.hook(&of, Hook::Response, json!({})).await.unwrap().unwrap()),
            "tick" => drop(plugins.tick(&of).await.unwrap().unwrap()),
            "onAppUpdate" => assert!(plugins.app_update(&of, "1", "2").await.unwrap()),
            "panel" => drop(plugins.panel(&of).await.unwrap().unwrap()),
            "appTools" => assert!(plugins.app_tools(&of, "q").await.unwrap().is_empty()),
            other => unreachable!("{other}"),
        }
    }

    /// Enters, and holds what happened against what this code may.
    async fn must_reach(&self, entry: &str, asynchronous: bool, may: &[Capability], case: &str) {
        self.clean();
        let before = self.written();
        self.enter(entry).await;
        let case = format!("{entry}, {}, {case}", if asynchronous { "async" } else { "two-phase" });
        let logged = self.world.logged.lock().clone();
        let lines: Vec<(i64, String, String)> = logged
            .iter()
            .map(|line| {
                let line = line.strip_prefix("info: ").unwrap_or_else(|| panic!("{case}: {line}"));
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{case}: {e}: {line}"))
            })
            .collect();
        let online = may.contains(&Network) || may.contains(&LocalNetwork);
        for (n, (name, args, needs)) in messages().iter().enumerate() {
            let answers: Vec<&(i64, String, String)> = lines.iter().filter(|line| line.0 == n as i64).collect();
            let passes = if asynchronous { 2 } else { 1 };
            assert!(answers.len() >= passes, "{case}: {name} was not sent");
            let past = |(_, _, what): &&(i64, String, String)| {
                !what.contains("needs the permission") && !what.contains("does not exist")
            };
            let through: Vec<_> = answers.iter().filter(|answer| past(answer)).collect();
            let allowed = match needs {
                None => false,
                // Whether it is this host that was granted is judged by what reached the wire, below.
                Some(Network | LocalNetwork) => online,
                Some(capability) => may.contains(capability),
            };
            // `llm.embed` without standing still is the awaited form; stood still for, it queues. Not every message has
            // a form that stands still.
            let awaited_only = matches!(*name, "llm.generate" | "llm.open" | "net.fetch" | "net.open");
            if *name == "llm.embed" && !asynchronous {
                continue;
            }
            if allowed && (asynchronous || !awaited_only) {
                assert!(!through.is_empty(), "{case}: {name} {args} is allowed: {answers:?}");
            } else {
                let quiet: Vec<_> = through
                    .iter()
                    .filter(|a| !(*name == "llm.embed" && a.1 == "now"))
                    .collect();
                assert!(quiet.is_empty(), "{case}: {name} {args} got through: {quiet:?}");
            }
        }
        // What happened outside.
        let asked = !self.world.asked.lock().is_empty() || self.world.embedded.load(Ordering::SeqCst) > 0;
        assert_eq!(asked, may.contains(&Llm), "{case}: models and embeddings");
        let wire = self.wire.0.lock().clone();
        for (capability, url) in [(Network, PUBLIC), (LocalNetwork, LOCAL)] {
            assert_eq!(
                wire.iter().any(|u| u == url),
                may.contains(&capability),
                "{case}: {url} in {wire:?}"
            );
        }
        let after = self.written();
        assert_eq!(after.0 != before.0, may.contains(&Fs), "{case}: {:?}", after.0);
        assert_eq!(after.1 != before.1, may.contains(&Store), "{case}: {:?}", after.1);
        // The queued form: results are there in the last pass for what was granted, and nothing for the rest.
        if !asynchronous {
            let results = lines.iter().rfind(|line| line.0 == -2).expect("the last pass");
            let (model, net) = (may.contains(&Llm), online);
            let key = |has: bool, key: &str| if has { key.to_owned() } else { String::new() };
            let addresses = key(net, &format!("q{LOCAL},q{PUBLIC}"));
            let want = [key(model, "qundefined"), key(model, "qundefined"), addresses].join(";");
            assert_eq!(results.2, want, "{case}");
            assert!(lines.iter().all(|line| line.0 != -1), "{case}: {lines:?}");
        }
        // Every refusal is told to the person, with who and what.
        let refused = self.world.refused.lock().join("\n");
        for capability in JUDGED {
            let missing = match capability {
                Network | LocalNetwork => !online && capability == Network,
                other => !may.contains(&other),
            };
            let word = format!("\"{}\"", capability.as_str());
            let told = refused
                .lines()
                .any(|line| line.contains("alpha/p") && line.contains(&word));
            assert_eq!(told, missing, "{case}: {word} in {refused}");
        }
    }

    fn decide(&self, code: policy::CodeHash, granted: &[Capability], denied: &[Capability]) {
        let granted: Vec<(Capability, Vec<String>)> = granted
            .iter()
            .map(|capability| {
                let scope = match capability {
                    Network => vec!["public.example".to_owned()],
                    LocalNetwork => vec!["127.0.0.1:9".to_owned()],
                    _ => Vec::new(),
                };
                (*capability, scope)
            })
            .collect();
        let decided = self.db.decide(
            &self.account,
            &self.app,
            &self.plugin.id,
            code,
            &granted,
            denied,
            "owner",
        );
        decided.unwrap();
    }
}

/// Everything but `one`, of all ten.
fn but(one: Capability) -> Vec<Capability> {
    Capability::ALL.into_iter().filter(|c| *c != one).collect()
}

async fn table(asynchronous: bool) {
    let house = House::new(asynchronous, HostPolicy::default());
    let code = house.plugin.code;
    for entry in ENTRIES {
        let reach = |may: Vec<Capability>, case: String| {
            let house = &house;
            async move { house.must_reach(entry, asynchronous, &may, &case).await }
        };
        for capability in Capability::ALL {
            let word = capability.as_str();
            // What is an entry point gives no right to any message.
            house.decide(code, &[capability], &[]);
            reach(vec![capability], format!("{word} alone")).await;
            if !JUDGED.contains(&capability) {
                continue;
            }
            house.decide(code, &but(capability), &[]);
            reach(but(capability), format!("all but {word}")).await;
            house.decide(code, &but(capability), &[capability]);
            reach(but(capability), format!("{word} denied")).await;
        }
        house.decide(host_kit::code("what it was before"), &Capability::ALL, &[]);
        reach(Vec::new(), "all stale".into()).await;
        house.decide(code, &Capability::ALL, &[]);
        let switch = |on| {
            house
                .db
                .set_plugin_enabled(&house.account, &house.app, &house.plugin.id, on)
                .unwrap()
        };
        switch(false);
        reach(Vec::new(), "turned off".into()).await;
        switch(true);
        reach(Capability::ALL.to_vec(), "all granted".into()).await;
        house
            .db
            .revoke(&house.account, &house.app, &house.plugin.id, None, "owner")
            .unwrap();
        reach(Vec::new(), "all taken back".into()).await;
    }
    // The administrator's word stands above what was granted.
    for capability in JUDGED {
        let policy = HostPolicy {
            deny: [capability].into(),
            ..HostPolicy::default()
        };
        let house = House::new(asynchronous, policy);
        house.decide(house.plugin.code, &Capability::ALL, &[]);
        let case = format!("config.toml forbids {}", capability.as_str());
        for entry in ENTRIES {
            house.must_reach(entry, asynchronous, &but(capability), &case).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_capability_at_each_entry_point_by_raw_messages_async() {
    table(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_capability_at_each_entry_point_by_raw_messages_two_phase() {
    table(false).await;
}
