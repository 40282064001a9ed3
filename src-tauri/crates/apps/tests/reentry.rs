//! A plugin that is reached from its own model call, from that one's again, and so on: plugin → model → tool → plugin. The
//! engine takes the tools away from what a tool asks of a model (contract section 3.3), so that nothing there gets this
//! deep; what keeps such a circle from going on for ever must hold without that rule too. The model here has none.

mod host_kit;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use apps::budget::Budgets;
use apps::host::{Beyond, Entry, Generation, Part};
use apps::permission::Permissions;
use apps::plugin_call::{Hook, Plugins, Target};
use apps::route::RouteRequest;
use apps::workspace::{PluginOnDisk, Workspace};
use db::{Db, UsageLimits};
use host_kit::Lines;
use net::Net;
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext, Caller, Capability, HostPolicy, PluginId};
use sandbox::{Pool, PoolOptions};
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;

const CODE: &str = r#"
const ask = (text) => ({ messages: [{ role: "user", content: text }] });
export async function handleRoute(req, host) {
  const answer = await host.llm.generate(ask(req.body.n));
  return { json: { text: `route > ${answer.text}` } };
}
export async function handleTool(name, args, host) {
  const answer = await host.llm.generate(ask(args.n));
  return `tool > ${answer.text}`;
}
export async function llmRequest(ctx, host) {
  const answer = await host.llm.generate(ask(ctx.n));
  return { text: `hook > ${answer.text}` };
}
"#;

/// What a model was asked: for which call, under which trace, through whom, how deep.
struct Asked {
    call: String,
    trace: String,
    chain: String,
    depth: u8,
    from: Entry,
}

struct House {
    me: Weak<House>,
    plugins: Plugins,
    workspace: Workspace,
    account: AccountId,
    app: AppId,
    plugin: PluginOnDisk,
    asked: Mutex<Vec<Asked>>,
    _folder: tempfile::TempDir,
}

/// A model that, whatever it is asked, uses the plugin's tool or, for calls that begin with `h`, its hook.
struct Turn(JoinHandle<String>);

#[async_trait::async_trait]
impl Generation for Turn {
    async fn next(&mut self) -> Part {
        let text = (&mut self.0).await.unwrap_or_else(|e| e.to_string());
        Part::Done(json!({"text": text, "model": "m", "usage": {}}))
    }
    fn abort(&self) {
        self.0.abort();
    }
}

#[async_trait::async_trait]
impl Beyond for House {
    fn generate(
        &self,
        context: &CallContext,
        from: Entry,
        _: &str,
        request: Value,
    ) -> Result<Box<dyn Generation>, String> {
        let call = request["messages"][0]["content"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.asked.lock().push(Asked {
            call: call.clone(),
            trace: context.trace.as_str().to_owned(),
            chain: context.chain_label(),
            depth: context.depth,
            from,
        });
        let house = self.me.upgrade().ok_or("the house is gone")?;
        let context = context.clone();
        Ok(Box::new(Turn(tokio::spawn(async move {
            house.again(&context, &call).await
        }))))
    }
    async fn embed(&self, _: &CallContext, _: Value) -> Result<Value, String> {
        Ok(Value::Null)
    }
    fn refused(&self, _: &CallContext, _: &str, _: &str) {}
    fn logged(&self, _: &CallContext, _: &str, _: &str) {}
    fn plugin_secret(&self, _: &CallContext, _: &str) -> Option<secrets::KeyHandle> {
        None
    }
}

impl House {
    fn new(workers: usize) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let app = folder.path().join("workspace/apps/alpha");
        std::fs::create_dir_all(app.join("plugins/p")).unwrap();
        let may = json!({"name": "p", "permissions": ["routes", "tools", "llm", "hooks"]});
        std::fs::write(app.join("plugins/p/manifest.json"), may.to_string()).unwrap();
        std::fs::write(app.join("plugins/p/plugin.js"), CODE).unwrap();
        let manifest = json!({"name": "alpha", "version": "1", "kind": "web"}).to_string();
        std::fs::write(app.join("manifest.json"), manifest).unwrap();
        let db = Arc::new(Db::open(&folder.path().join("db")).unwrap().db);
        let account = AccountId::random();
        db.add_account(&account, "zoe", "admin").unwrap();
        let workspace = Workspace::open(&folder.path().join("workspace")).unwrap();
        let app = AppId::parse("alpha").unwrap();
        let plugin = workspace.plugin(&app, &PluginId::parse("p").unwrap()).unwrap();
        let granted: Vec<_> = [
            Capability::Routes,
            Capability::Tools,
            Capability::Llm,
            Capability::Hooks,
        ]
        .map(|capability| (capability, Vec::new()))
        .into();
        db.decide(&account, &app, &plugin.id, plugin.code, &granted, &[], "owner")
            .unwrap();
        let pool = Pool::new(PoolOptions {
            worker: PathBuf::from(env!("CARGO_BIN_EXE_apps-test-worker")),
            max_alive: workers,
            idle: Duration::from_secs(60),
        });
        let plugins = Plugins::new(
            pool,
            db.clone(),
            Net::new(Arc::new(Lines::default())),
            Arc::new(Permissions::new(db.clone(), HostPolicy::default())),
            Arc::new(Budgets::new(db.clone(), UsageLimits::default())),
        );
        Arc::new_cyclic(|me| House {
            me: me.clone(),
            plugins,
            workspace,
            account,
            app,
            plugin,
            asked: Mutex::default(),
            _folder: folder,
        })
    }

    /// The model's turn: it calls the plugin that asked it.
    async fn again(self: Arc<Self>, context: &CallContext, call: &str) -> String {
        let beyond: Arc<dyn Beyond> = self.clone();
        let of = self.target(context, &beyond);
        let came = if call.starts_with('h') {
            let patch = self.plugins.hook(&of, Hook::Request, json!({"n": call})).await;
            patch.map(|patch| {
                patch.unwrap_or_default()["text"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
        } else {
            self.plugins
                .tool(&of, "again", json!({"n": call}))
                .await
                .map(|answer| answer.text)
        };
        came.unwrap_or_else(|error| format!("refused: {error}"))
    }

    fn target<'a>(&'a self, context: &'a CallContext, beyond: &'a Arc<dyn Beyond>) -> Target<'a> {
        Target {
            context,
            beyond,
            workspace: &self.workspace,
            account: &self.account,
            app: &self.app,
            plugin: &self.plugin,
        }
    }

    async fn route(self: &Arc<Self>, call: &str) -> Value {
        let context = CallContext::root(&Caller::Owner {
            account: self.account.clone(),
        });
        let beyond: Arc<dyn Beyond> = self.clone();
        let request = RouteRequest {
            method: "POST".into(),
            path: "/".into(),
            query: Map::new(),
            body: json!({"n": call}),
        };
        let answer = self
            .plugins
            .route(&self.target(&context, &beyond), &request, Value::Null, None)
            .await;
        let answer = answer.unwrap_or_else(|e| panic!("{call}: {e}")).expect("an answer");
        serde_json::from_slice::<Value>(&answer.body).expect("JSON")["text"].take()
    }
}

const REFUSED: &str = "refused: this call is 5 calls deep already: a plugin, a model and a tool are calling one another in \
                       circles";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_fifth_call_inside_one_another_is_refused_and_all_have_one_trace() {
    let house = House::new(8);
    assert_eq!(
        house.route("t").await,
        format!("route > tool > tool > tool > {REFUSED}")
    );
    assert_eq!(
        house.route("h").await,
        format!("route > hook > hook > hook > {REFUSED}")
    );
    let asked = house.asked.lock();
    for call in ["t", "h"] {
        let asked: Vec<&Asked> = asked.iter().filter(|asked| asked.call == call).collect();
        assert_eq!(asked.iter().map(|a| a.depth).collect::<Vec<_>>(), [2, 3, 4, 5]);
        let traces: HashSet<&str> = asked.iter().map(|a| a.trace.as_str()).collect();
        assert_eq!(traces.len(), 1, "one trace over all of it");
        let inner = if call == "t" { Entry::Tool } else { Entry::Hook };
        assert!(asked[0].from == Entry::Route && asked[1..].iter().all(|a| a.from == inner));
        for (n, asked) in asked.iter().enumerate() {
            assert_eq!(asked.chain.matches("plugin:alpha/p").count(), n + 1, "{}", asked.chain);
        }
    }
}

/// Twenty circles at once, with just enough processes for one chain and with more.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_circles_at_once_all_come_to_their_end() {
    for workers in [4, 5, 8, 32] {
        let house = House::new(workers);
        let began = Instant::now();
        let circles = (0..20).map(|n| {
            let (house, call) = (house.clone(), format!("t{n}"));
            tokio::spawn(async move { house.route(&call).await })
        });
        for circle in futures::future::join_all(circles).await {
            assert_eq!(
                circle.unwrap(),
                format!("route > tool > tool > tool > {REFUSED}"),
                "{workers} workers"
            );
        }
        eprintln!("{workers} workers: {:?}", began.elapsed());
        // Nobody waited until the queue gave up on them.
        assert!(
            began.elapsed() < Duration::from_secs(25),
            "{workers} workers: {:?}",
            began.elapsed()
        );
        let mut traces: HashMap<String, HashSet<String>> = HashMap::new();
        for asked in house.asked.lock().iter() {
            traces
                .entry(asked.call.clone())
                .or_default()
                .insert(asked.trace.clone());
        }
        let all: HashSet<&String> = traces.values().flatten().collect();
        assert_eq!(
            (traces.len(), all.len()),
            (20, 20),
            "each circle has a trace of its own, and one"
        );
        assert!(house.plugins.pool().alive() <= workers);
        house.plugins.pool().shutdown().await;
    }
}
