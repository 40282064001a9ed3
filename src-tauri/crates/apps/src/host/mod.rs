//! What `host.*` does. Every method is checked here, in the engine, against the grants for the code that runs; what the
//! guest's own script says about itself counts for nothing.

mod fs;
mod llm;
mod net;
mod queue;
mod store;
mod zip;

use std::sync::Arc;
use std::time::Duration;

use archive::Archive;
use async_trait::async_trait;
use db::Db;
use files::GuestFolder;
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext, Caller, Capability, CodeHash, PluginId};
use serde_json::{Map, Value, json};

pub use llm::failure;
pub use queue::{Queued, Results};

use crate::budget::Budgets;
use crate::permission::{Granted, Permissions};

/// What a plugin reaches beyond its own data. The engine implements it.
#[async_trait]
pub trait Beyond: Send + Sync {
    /// Starts a model request on behalf of `context`'s innermost caller. The shape is contract section 4.1; an error is
    /// a sentence for the plugin's author. `from` is the kind of call that asks, `key` the key of a queued request and
    /// "" for an awaited one.
    fn generate(
        &self,
        context: &CallContext,
        from: Entry,
        key: &str,
        request: Value,
    ) -> Result<Box<dyn Generation>, String>;
    /// `{texts, model?}`, checked to be strings → `number[][]`, or null where no connection makes embeddings.
    async fn embed(&self, context: &CallContext, request: Value) -> Result<Value, String>;
    /// Writes a refusal to the activity log.
    fn refused(&self, context: &CallContext, target: &str, why: &str);
    /// A line the plugin logged.
    fn logged(&self, context: &CallContext, level: &str, line: &str);
    /// The secret of this name that was given to the plugin, for a request's header. `None`: there is none.
    fn plugin_secret(&self, context: &CallContext, name: &str) -> Option<secrets::KeyHandle>;
}

/// Which kind of call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Entry {
    Route,
    Tool,
    Hook,
    Tick,
    AppUpdate,
    Panel,
    AppTools,
}

impl Entry {
    /// The word for it in call data and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Tool => "tool",
            Self::Hook => "hook",
            Self::Tick => "tick",
            Self::AppUpdate => "appUpdate",
            Self::Panel => "panel",
            Self::AppTools => "appTools",
        }
    }
}

/// A running model request. Dropping it cancels the request.
#[async_trait]
pub trait Generation: Send {
    /// What has arrived since the last call, or the end. Waits until there is something. Nothing is lost when the wait
    /// is dropped and begun again.
    async fn next(&mut self) -> Part;
    /// Stops the request; [`Generation::next`] then gives what had arrived and the end.
    fn abort(&self);
}

pub enum Part {
    /// Text that arrived since the last part.
    Text { delta: String, thinking: String },
    /// A tool that the model used: `phase` is `start` (with `args`) or `end` (with `result`).
    Tool {
        phase: &'static str,
        name: String,
        args: Value,
        result: String,
        is_error: bool,
    },
    /// Contract section 4.2, plus `stopped` and `truncated`.
    Done(Value),
}

/// Host calls of one kind that one plugin call may have open at a time; the worker's own limit for all of them.
const OPEN_CALLS: usize = 64;
/// Longest sleep, and all sleeps of one call together.
const SLEEP: Duration = Duration::from_secs(60);
const SLEEPS: Duration = Duration::from_secs(120);

/// What one call of one plugin's code is given.
pub struct Guest {
    pub db: Arc<Db>,
    pub net: ::net::Net,
    pub beyond: Arc<dyn Beyond>,
    pub permissions: Arc<Permissions>,
    pub budgets: Arc<Budgets>,
    /// The app's data folder; `None` for a plugin that belongs to no app.
    pub data: Option<GuestFolder>,
    /// What `host.zip` reads: the archive that the request brought.
    pub archive: Option<Arc<Archive>>,
    /// Its innermost caller must be the plugin.
    pub context: CallContext,
    /// Hash of the very code that runs.
    pub code: CodeHash,
    pub entry: Entry,
    /// Definitions of the tools that the app's other plugins offer: `host.siblingTools`.
    pub siblings: Value,
}

/// Who asks, and what answers the question whether they may.
pub(crate) struct Who {
    pub db: Arc<Db>,
    pub beyond: Arc<dyn Beyond>,
    pub permissions: Arc<Permissions>,
    pub budgets: Arc<Budgets>,
    pub context: CallContext,
    pub code: CodeHash,
    pub entry: Entry,
}

impl Who {
    fn ids(&self) -> Result<(&AccountId, &AppId, &PluginId), String> {
        match self.context.chain.last() {
            Some(Caller::Plugin { account, app, plugin }) => Ok((account, app, plugin)),
            _ => Err("this call does not come from a plugin".into()),
        }
    }

    fn check(&self, capability: Capability) -> Result<Granted, String> {
        let (account, app, plugin) = self.ids()?;
        self.permissions.check(account, app, plugin, self.code, capability)
    }

    /// The lock to hold while something is written to the app's data folder, and the most it may hold; neither without a
    /// limit.
    #[expect(clippy::type_complexity, reason = "a lock and a number")]
    fn disk_gate(&self) -> Result<(Option<Arc<Mutex<()>>>, Option<u64>), String> {
        let (account, app, _) = self.ids()?;
        let limit = self.budgets.limits(account, app).map_err(|e| e.to_string())?.disk_bytes;
        Ok((limit.map(|_| self.budgets.disk_gate(account, app)), limit))
    }

    fn disk(&self, used: u64, more: u64) -> Result<(), String> {
        let (account, app, _) = self.ids()?;
        self.budgets.disk(account, app, used, more)
    }

    /// The permission, or the sentence why not, which is in the activity log then. `method` is without `host.`.
    fn need(&self, capability: Capability, method: &str) -> Result<Granted, String> {
        self.check(capability).map_err(|why| {
            let method = as_written(method);
            let why = format!("host.{method} {why}");
            self.beyond.refused(&self.context, &format!("host.{method}"), &why);
            why
        })
    }
}

/// The method that an author wrote, for one that the prelude makes of it.
fn as_written(method: &str) -> &str {
    match method {
        "fs.begin" | "fs.commit" | "fs.rollback" => "fs.transaction",
        "fs.upload" | "fs.uploadWrite" | "fs.uploadClose" | "fs.uploadAbort" => "fs.writer",
        "fs.writeBase64" => "fs.writeBytes",
        other => other,
    }
}

/// The host object's other side, for one call of one plugin's code.
pub struct GuestHost {
    who: Arc<Who>,
    siblings: Value,
    models: llm::Models,
    wires: net::Wires,
    files: Option<Arc<fs::Files>>,
    zip: Option<Arc<zip::Zip>>,
    queue: Mutex<Queued>,
    slept: Mutex<Duration>,
}

impl GuestHost {
    pub fn new(guest: Guest) -> Self {
        Self {
            who: Arc::new(Who {
                db: guest.db,
                beyond: guest.beyond,
                permissions: guest.permissions,
                budgets: guest.budgets,
                context: guest.context,
                code: guest.code,
                entry: guest.entry,
            }),
            wires: net::Wires::new(guest.net),
            files: guest.data.map(|folder| Arc::new(fs::Files::new(folder))),
            zip: guest.archive.map(|archive| Arc::new(zip::Zip::new(archive))),
            siblings: guest.siblings,
            models: llm::Models::default(),
            queue: Mutex::default(),
            slept: Mutex::default(),
        }
    }

    /// Whether the running code may use `capability` now.
    pub fn granted(&self, capability: Capability) -> bool {
        self.who.check(capability).is_ok()
    }

    /// What the prelude makes the host object of.
    pub fn call_data(&self, results: &Results) -> Value {
        let who = &self.who;
        let (app, plugin, may) = match who.ids() {
            Ok((account, app, plugin)) => {
                // What cannot be read is not allowed; each call is judged anew anyway.
                let may = who.permissions.all(account, app, plugin, who.code).unwrap_or_default();
                (app.as_str(), plugin.as_str(), may)
            }
            Err(_) => ("", "", Vec::new()),
        };
        let permissions: Map<String, Value> = may
            .into_iter()
            .map(|capability| (capability.as_str().to_owned(), true.into()))
            .collect();
        json!({
            "results": results.results, "embedResults": results.embed_results, "netResults": results.net_results,
            "siblingTools": self.siblings, "permissions": permissions,
            "entry": self.who.entry.as_str(), "app": app, "plugin": plugin,
        })
    }

    async fn on_disk(&self, method: &str, args: Vec<Value>) -> Result<Value, String> {
        let (who, files, zip, name) = (
            self.who.clone(),
            self.files.clone(),
            self.zip.clone(),
            method.to_owned(),
        );
        let work = move || on_disk(&who, files.as_deref(), zip.as_deref(), &name, &args);
        let done = tokio::task::spawn_blocking(work);
        let answer = done
            .await
            .map_err(|_| format!("host.{method}: the engine is stopping"))??;
        if let ("fs.begin", Some(id), Some(files)) = (method, answer.as_u64(), &self.files) {
            tokio::spawn(files.lapse(id));
        }
        Ok(answer)
    }

    /// Waits; what timers are made of.
    async fn sleep(&self, args: &[Value]) -> Result<Value, String> {
        let ms = args.first().and_then(Value::as_f64).filter(|ms| *ms >= 0.0);
        let ms = ms.ok_or("host.sleep: give a number of milliseconds")?;
        let time = Duration::from_millis(ms.min(u32::MAX as f64) as u64);
        if time > SLEEP {
            return Err(format!("host.sleep: at most {} s at a time", SLEEP.as_secs()));
        }
        let left = SLEEPS.saturating_sub(*self.slept.lock());
        if left.is_zero() {
            return Err(format!(
                "host.sleep: this call has slept {} s already",
                SLEEPS.as_secs()
            ));
        }
        let time = time.min(left);
        *self.slept.lock() += time;
        tokio::time::sleep(time).await;
        Ok(Value::Null)
    }
}

/// Bytes of a value as JSON, without writing them anywhere.
fn json_size(value: &Value) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// `host.fs` and `host.zip`: what blocks.
fn on_disk(
    who: &Arc<Who>,
    files: Option<&fs::Files>,
    zip: Option<&zip::Zip>,
    method: &str,
    args: &[Value],
) -> Result<Value, String> {
    if room(method) == "zip" {
        return zip::call(who, zip, files, method, args);
    }
    match files {
        Some(files) => files.call(who, method, args),
        None => {
            who.need(Capability::Fs, method)?;
            Err(format!(
                "host.{method}: this plugin belongs to no app, so there is no data folder"
            ))
        }
    }
}

fn room(method: &str) -> &str {
    method.split_once('.').map_or(method, |(room, _)| room)
}

#[async_trait]
impl sandbox::Host for GuestHost {
    async fn call(&self, method: &str, args: Value) -> Result<Value, String> {
        let args = list(args);
        match room(method) {
            "llm" => self.models.call(&self.who, method, &args).await,
            "store" => store::call(&self.who, method, &args),
            "net" => self.wires.call(&self.who, method, &args).await,
            "fs" | "zip" => self.on_disk(method, args).await,
            "sleep" if method == "sleep" => self.sleep(&args).await,
            _ => Err(format!("host.{method} does not exist")),
        }
    }

    fn call_now(&self, method: &str, args: Value) -> Result<Value, String> {
        let args = list(args);
        match method {
            "llm.request" | "llm.embed" | "net.request" => self.enqueue(method, &args),
            _ => match room(method) {
                "store" => store::call(&self.who, method, &args),
                "fs" | "zip" => on_disk(&self.who, self.files.as_deref(), self.zip.as_deref(), method, &args),
                _ => Err(format!("host.{method} does not exist")),
            },
        }
    }

    fn lengthy(&self, method: &str) -> bool {
        matches!(room(method), "fs" | "zip")
    }

    fn log(&self, level: &str, line: &str) {
        self.who.beyond.logged(&self.who.context, level, line);
    }
}

fn list(args: Value) -> Vec<Value> {
    match args {
        Value::Array(args) => args,
        _ => Vec::new(),
    }
}
