//! What `host.*` does. Every method is checked here, in the engine, against the grants for the code that runs; what the
//! guest's own script says about itself counts for nothing.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use db::{Db, DbError, STORE_QUOTA};
use parking_lot::Mutex;
use policy::{CallContext, Caller, Capability, CodeHash};
use serde_json::{Value, json};

/// What a plugin reaches beyond its own data. The engine implements it.
pub trait Beyond: Send + Sync {
    /// Starts a model request on behalf of `context`'s innermost caller. The shape is contract section 4.1; an error is
    /// a sentence for the plugin's author.
    fn generate(&self, context: &CallContext, request: Value) -> Result<Box<dyn Generation>, String>;
    /// Writes a refusal to the activity log.
    fn refused(&self, context: &CallContext, target: &str, why: &str);
    /// A line the plugin logged.
    fn logged(&self, context: &CallContext, level: &str, line: &str);
}

/// A running model request. Dropping it cancels the request.
#[async_trait]
pub trait Generation: Send {
    /// What has arrived since the last call, or the end. Waits until there is something.
    async fn next(&mut self) -> Part;
    /// Stops the request; [`Generation::next`] then gives what had arrived and the end.
    fn abort(&self);
}

pub enum Part {
    /// Text that arrived since the last part.
    Text { delta: String, thinking: String },
    /// Contract section 4.2, plus `stopped` and `truncated`.
    Done(Value),
}

/// Requests queued in one pass (contract section 3.4).
const REQUESTS_PER_PASS: usize = 16;
/// Model requests one call may have open at a time.
const OPEN_GENERATIONS: usize = 16;
/// Bytes of JSON of the requests that are queued or open at a time. Each is held some four times over while it is sent.
const REQUEST_BYTES: usize = 32 << 20;
/// Characters of a store key.
const KEY_LIMIT: usize = 512;
/// Keys one `keys` call answers.
const KEYS_LIMIT: usize = 10_000;

type Running = Arc<tokio::sync::Mutex<Box<dyn Generation>>>;

/// The host object's other side, for one call of one plugin's code.
pub struct GuestHost {
    db: Arc<Db>,
    beyond: Arc<dyn Beyond>,
    context: CallContext,
    code: CodeHash,
    queue: Mutex<Vec<(String, Value)>>,
    running: Mutex<(u64, HashMap<u64, Running>)>,
    /// Bytes of the queued requests, and of each open one.
    held: Mutex<(usize, HashMap<u64, usize>)>,
}

impl GuestHost {
    /// `context`'s innermost caller must be the plugin.
    pub fn new(db: Arc<Db>, beyond: Arc<dyn Beyond>, context: CallContext, code: CodeHash) -> Self {
        Self {
            db,
            beyond,
            context,
            code,
            queue: Mutex::default(),
            running: Mutex::default(),
            held: Mutex::default(),
        }
    }

    fn ids(&self) -> Result<(&policy::AccountId, &policy::AppId, &policy::PluginId), String> {
        match self.context.chain.last() {
            Some(Caller::Plugin { account, app, plugin }) => Ok((account, app, plugin)),
            _ => Err("this call does not come from a plugin".into()),
        }
    }

    /// Whether the running code was granted `capability`.
    pub fn granted(&self, capability: Capability) -> Result<bool, String> {
        let (account, app, plugin) = self.ids()?;
        let grants = self.db.grants(account, app, plugin).map_err(|e| e.to_string())?;
        Ok(grants.iter().any(|g| g.allows(capability, self.code)))
    }

    fn need(&self, capability: Capability, method: &str) -> Result<(), String> {
        if self.granted(capability)? {
            return Ok(());
        }
        let (_, app, plugin) = self.ids()?;
        let why = format!(
            "host.{method} needs the permission \"{}\", which is not granted to this code of {app}/{plugin}. List it in the \
             plugin's manifest.json and allow it in the launcher (app menu, Plugins)",
            capability.as_str()
        );
        self.beyond.refused(&self.context, &format!("host.{method}"), &why);
        Err(why)
    }

    /// Takes what the last pass queued.
    pub fn take_queue(&self) -> Vec<(String, Value)> {
        self.held.lock().0 = 0;
        std::mem::take(&mut self.queue.lock())
    }

    /// The size of a request, if there is room for it beside what is queued and open already.
    fn room_for(&self, request: &Value) -> Result<usize, String> {
        let size = json_size(request);
        let held = self.held.lock();
        if (held.0 + held.1.values().sum::<usize>()).saturating_add(size) > REQUEST_BYTES {
            return Err(format!(
                "host.llm: the model requests that are open or queued have over {} MiB together: wait for their ends",
                REQUEST_BYTES >> 20
            ));
        }
        Ok(size)
    }

    /// Runs a queued request to its end. Two-phase requests never fail: errors come as results (contract section 4.2).
    /// The permission is looked at again: it may have been taken back since the request was queued.
    pub async fn finish(&self, request: Value) -> Value {
        if let Err(error) = self.need(Capability::Llm, "llm.request") {
            return failure(&error);
        }
        match self.beyond.generate(&self.context, request) {
            Ok(mut generation) => drain(generation.as_mut()).await,
            Err(error) => failure(&error),
        }
    }

    fn store(&self, method: &str, args: &[Value]) -> Result<Value, String> {
        self.need(Capability::Store, method)?;
        let (account, app, plugin) = self.ids()?;
        let text = |at: usize, what: &str| {
            let key = args
                .get(at)
                .and_then(Value::as_str)
                .ok_or_else(|| format!("host.{method}: {what} must be a string"))?;
            if key.chars().count() > KEY_LIMIT {
                return Err(format!("host.{method}: {what} is longer than {KEY_LIMIT} characters"));
            }
            Ok(key)
        };
        let said = |error: DbError| format!("host.{method}: {error}");
        match method {
            "store.get" => match self
                .db
                .store_get(account, app, plugin, text(0, "the key")?)
                .map_err(said)?
            {
                Some(json) => serde_json::from_str(&json).map_err(|e| format!("host.{method}: {e}")),
                None => Ok(Value::Null),
            },
            "store.put" => {
                let value = args.get(1).cloned().unwrap_or(Value::Null).to_string();
                self.db
                    .store_put(account, app, plugin, text(0, "the key")?, &value, STORE_QUOTA)
                    .map_err(said)?;
                Ok(Value::Null)
            }
            "store.delete" => Ok(self
                .db
                .store_delete(account, app, plugin, text(0, "the key")?)
                .map_err(said)?
                .into()),
            _ => {
                let prefix = if args.is_empty() { "" } else { text(0, "the prefix")? };
                Ok(self
                    .db
                    .store_keys(account, app, plugin, prefix, KEYS_LIMIT)
                    .map_err(said)?
                    .into())
            }
        }
    }

    fn open(&self, args: &[Value]) -> Result<u64, String> {
        let request = args.first().cloned().unwrap_or(Value::Null);
        if self.running.lock().1.len() >= OPEN_GENERATIONS {
            return Err(format!(
                "host.llm: {OPEN_GENERATIONS} model requests are open already: read them to their end first"
            ));
        }
        let size = self.room_for(&request)?;
        let generation = self.beyond.generate(&self.context, request)?;
        let mut running = self.running.lock();
        running.0 += 1;
        let id = running.0;
        running.1.insert(id, Arc::new(tokio::sync::Mutex::new(generation)));
        self.held.lock().1.insert(id, size);
        Ok(id)
    }

    fn running(&self, args: &[Value]) -> Result<(u64, Running), String> {
        let id = args.first().and_then(Value::as_u64).ok_or("host.llm: no such stream")?;
        let found = self.running.lock().1.get(&id).cloned();
        found.map(|g| (id, g)).ok_or_else(|| "host.llm: no such stream".into())
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

/// A model result that says only what went wrong.
pub fn failure(error: &str) -> Value {
    json!({
        "text": "", "model": "error", "error": error, "genTimeMs": 0,
        "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "costTotal": 0, "priced": false},
    })
}

async fn drain(generation: &mut dyn Generation) -> Value {
    loop {
        if let Part::Done(result) = generation.next().await {
            return result;
        }
    }
}

#[async_trait]
impl sandbox::Host for GuestHost {
    async fn call(&self, method: &str, args: Value) -> Result<Value, String> {
        let args = args.as_array().cloned().unwrap_or_default();
        match method {
            "llm.generate" => {
                self.need(Capability::Llm, method)?;
                let mut generation = self
                    .beyond
                    .generate(&self.context, args.into_iter().next().unwrap_or(Value::Null))?;
                Ok(drain(generation.as_mut()).await)
            }
            "llm.open" => {
                self.need(Capability::Llm, "llm.stream")?;
                Ok(self.open(&args)?.into())
            }
            "llm.next" => {
                let (id, generation) = self.running(&args)?;
                let part = generation.lock().await.next().await;
                Ok(match part {
                    Part::Text { delta, thinking } => json!({"delta": delta, "thinking": thinking}),
                    Part::Done(result) => {
                        self.running.lock().1.remove(&id);
                        self.held.lock().1.remove(&id);
                        json!({"result": result})
                    }
                })
            }
            "llm.abort" => {
                let (_, generation) = self.running(&args)?;
                // A reader may be waiting inside `next`; it holds the lock until something arrives.
                if let Ok(generation) = generation.try_lock() {
                    generation.abort();
                    return Ok(true.into());
                }
                Err("host.llm: this stream is being read; abort it by its chatId (__abort)".into())
            }
            other => Err(format!("host.{other} does not exist")),
        }
    }

    fn call_now(&self, method: &str, args: Value) -> Result<Value, String> {
        let args = args.as_array().cloned().unwrap_or_default();
        match method {
            "store.get" | "store.put" | "store.delete" | "store.keys" => self.store(method, &args),
            "llm.request" => {
                let key = args
                    .first()
                    .and_then(Value::as_str)
                    .ok_or("host.llm.request: the key must be a string")?;
                // An ungranted request is dropped, never executed (contract section 12, guest).
                if self.need(Capability::Llm, method).is_err() {
                    return Ok(Value::Null);
                }
                let mut queue = self.queue.lock();
                if queue.len() >= REQUESTS_PER_PASS {
                    return Err(format!(
                        "host.llm.request: at most {REQUESTS_PER_PASS} requests per pass"
                    ));
                }
                let request = args.get(1).cloned().unwrap_or(Value::Null);
                let size = self.room_for(&request)?;
                self.held.lock().0 += size;
                queue.push((key.to_owned(), request));
                Ok(Value::Null)
            }
            other => Err(format!("host.{other} does not exist")),
        }
    }

    fn log(&self, level: &str, line: &str) {
        self.beyond.logged(&self.context, level, line);
    }
}
