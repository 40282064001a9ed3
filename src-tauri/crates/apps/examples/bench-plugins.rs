//! Measures calls of plugins, from their files to the answer's bytes, and prints `bench NAME NUMBER` lines for
//! `cargo xtask bench`. Every call reads the plugin from the disk, asks the database what it may do, and runs in a fresh
//! context.
//!
//! `bench-plugins PROGRAMS LARGE [NAME]`: the folder with trivial.js, json.js and store.js, and the plugin of 200 KB. With a
//! name (`route`, `route_200k`, `json_1k`, `json_1m`, `store`) only that, for a profiler. `CHRYSALIS_WORKER` names the
//! worker program.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apps::budget::Budgets;
use apps::host::{Beyond, Entry, Generation};
use apps::permission::Permissions;
use apps::plugin_call::{Plugins, Target};
use apps::route::RouteRequest;
use apps::workspace::Workspace;
use db::{Db, UsageLimits};
use net::{Attempt, ConnectionLog, End, Net};
use policy::{AccountId, AppId, CallContext, Caller, Capability, HostPolicy, PluginId};
use sandbox::{Pool, PoolOptions};
use serde_json::{Map, Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

/// Calls before the clock runs.
const BEFORE: usize = 20;
/// Puts, and gets, in one call.
const STORED: usize = 500;

/// No model, and nobody who listens.
struct Nothing;

#[async_trait::async_trait]
impl Beyond for Nothing {
    fn generate(&self, _: &CallContext, _: Entry, _: &str, _: Value) -> Result<Box<dyn Generation>, String> {
        Err("there is no model here".into())
    }
    async fn embed(&self, _: &CallContext, _: Value) -> Result<Value, String> {
        Err("there is no model here".into())
    }
    fn refused(&self, _: &CallContext, target: &str, why: &str) {
        eprintln!("refused: {target}: {why}");
    }
    fn logged(&self, _: &CallContext, _: &str, line: &str) {
        eprintln!("{line}");
    }
    fn plugin_secret(&self, _: &CallContext, _: &str) -> Option<secrets::KeyHandle> {
        None
    }
}

impl ConnectionLog for Nothing {
    fn connecting(&self, _: &Attempt) -> Result<i64, String> {
        Err("nothing here connects".into())
    }
    fn finished(&self, _: i64, _: &End) {}
    fn refused(&self, _: &Attempt, _: &str) {}
}

struct House {
    plugins: Plugins,
    workspace: Workspace,
    account: AccountId,
    beyond: Arc<dyn Beyond>,
}

impl House {
    fn open(folder: &Path, apps: &[(&str, String)]) -> Fallible<Self> {
        let worker =
            PathBuf::from(std::env::var_os("CHRYSALIS_WORKER").ok_or("CHRYSALIS_WORKER names the worker program")?);
        let db = Arc::new(Db::open(&folder.join("db"))?.db);
        let account = AccountId::random();
        db.add_account(&account, "bench", "admin")?;
        for (name, source) in apps {
            let app = folder.join("workspace/apps").join(name);
            std::fs::create_dir_all(app.join("plugins/p"))?;
            std::fs::write(
                app.join("manifest.json"),
                format!(r#"{{"name":"{name}","kind":"web"}}"#),
            )?;
            let manifest = r#"{"name":"p","permissions":["routes","store"]}"#;
            std::fs::write(app.join("plugins/p/manifest.json"), manifest)?;
            std::fs::write(app.join("plugins/p/plugin.js"), source)?;
        }
        let workspace = Workspace::open(&folder.join("workspace"))?;
        let (app, plugin) = (|name: &str| AppId::parse(name), PluginId::parse("p")?);
        for (name, _) in apps {
            let app = app(name)?;
            let code = workspace.plugin(&app, &plugin)?.code;
            let granted = [Capability::Routes, Capability::Store].map(|capability| (capability, Vec::new()));
            db.decide(&account, &app, &plugin, code, &granted, &[], "bench")?;
        }
        let permissions = Arc::new(Permissions::new(db.clone(), HostPolicy::default()));
        let budgets = Arc::new(Budgets::new(db.clone(), UsageLimits::default()));
        let pool = Pool::new(PoolOptions {
            worker,
            max_alive: 8,
            idle: Duration::from_secs(600),
        });
        let plugins = Plugins::new(pool, db, Net::new(Arc::new(Nothing)), permissions, budgets);
        Ok(Self {
            plugins,
            workspace,
            account,
            beyond: Arc::new(Nothing),
        })
    }

    /// One request to an app, as the engine answers it: bytes of the answer.
    async fn ask(&self, app: &AppId, request: &RouteRequest) -> Fallible<bytes::Bytes> {
        let caller = Caller::CommandLine {
            account: self.account.clone(),
        };
        let context = CallContext::root(&caller);
        for plugin in self.workspace.plugins(app)?.iter().flatten() {
            if !self.plugins.allowed(&self.account, app, plugin, Capability::Routes) {
                continue;
            }
            let target = Target {
                context: &context,
                beyond: &self.beyond,
                workspace: &self.workspace,
                account: &self.account,
                app,
                plugin,
            };
            if let Some(answer) = self.plugins.route(&target, request, Value::Null, None).await? {
                return Ok(answer.body);
            }
        }
        Err(format!("no plugin of {app} answered").into())
    }

    /// Median of `calls` calls one after the other, in microseconds.
    async fn calls(&self, app: &str, request: &RouteRequest, calls: usize) -> Fallible<f64> {
        let app = AppId::parse(app)?;
        let mut times = Vec::with_capacity(calls);
        for n in 0..calls + BEFORE.min(calls) {
            let began = Instant::now();
            self.ask(&app, request).await?;
            if n >= BEFORE.min(calls) {
                times.push(began.elapsed().as_secs_f64() * 1e6);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

fn request(method: &str, path: &str, body: Value) -> RouteRequest {
    RouteRequest {
        method: method.into(),
        path: path.into(),
        query: Map::new(),
        body,
    }
}

/// A list of records whose JSON has about `bytes` bytes; peer.mjs makes the same.
fn records(bytes: usize) -> Value {
    let one = |n: usize| json!({"id": n, "name": format!("person {n}"), "tags": ["a", "b"], "score": n as f64 / 4.0});
    Value::Array((0..bytes.div_ceil(64)).map(one).collect())
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let mut args = std::env::args_os().skip(1);
    let (Some(programs), Some(large)) = (args.next(), args.next()) else {
        return Err("say where the programs are, and which file is the large plugin".into());
    };
    let programs = PathBuf::from(programs);
    let read = |name: &str| std::fs::read_to_string(programs.join(format!("{name}.js")));
    let apps = [
        ("trivial", read("trivial")?),
        ("json", read("json")?),
        ("store", read("store")?),
        ("large", std::fs::read_to_string(large)?),
    ];
    let folder = tempfile::tempdir()?;
    let house = House::open(folder.path(), &apps)?;

    let only = args.next();
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);

    let get = || request("GET", "/items/1", Value::Null);
    let json = |bytes| request("POST", "/", records(bytes));
    for (name, app, request, calls) in [
        ("route", "trivial", get(), 2000),
        ("route_200k", "large", get(), 500),
        ("json_1k", "json", json(1 << 10), 1000),
        ("json_1m", "json", json(1 << 20), 20),
    ] {
        if wanted(name) {
            println!("bench {name}_us {:.1}", house.calls(app, &request, calls).await?);
        }
    }
    if wanted("store") {
        let stored = |puts: usize, gets: usize| request("POST", "/", json!({"puts": puts, "gets": gets}));
        let puts = house.calls("store", &stored(STORED, 0), 20).await?;
        let gets = house.calls("store", &stored(0, STORED), 20).await?;
        let neither = house.calls("store", &stored(0, 0), 200).await?;
        println!("bench store_put_us {:.2}", (puts - neither) / STORED as f64);
        println!("bench store_get_us {:.2}", (gets - neither) / STORED as f64);
    }
    house.plugins.pool().shutdown().await;
    Ok(())
}
