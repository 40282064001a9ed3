//! A plugin run by a real worker against a real database, folder and network, with a model and a log under the test's
//! control.
#![allow(dead_code)] // each test file uses its part

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use apps::budget::Budgets;
use apps::host::{Beyond, Entry, Generation, Guest, GuestHost, Part, Results};
use apps::permission::Permissions;
use archive::Archive;
use db::{Db, UsageLimits};
use files::{Folder, GuestFolder};
use net::{Attempt, ConnectionLog, End, Net};
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext, Caller, Capability, CodeHash, HostPolicy, PluginId};
use sandbox::{Call, Limits, Pool, PoolOptions, Program};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Everything that is not the plugin.
#[derive(Default)]
pub struct World {
    pub asked: Mutex<Vec<(Entry, String, Value)>>,
    pub refused: Mutex<Vec<String>>,
    pub logged: Mutex<Vec<String>>,
    pub embedded: AtomicUsize,
    /// The model says its first word and then nothing until it is stopped.
    pub hangs: AtomicBool,
    pub aborted: AtomicUsize,
    pub dropped: AtomicUsize,
    pub secrets: Mutex<Option<(secrets::Vault, secrets::Origin)>>,
}

struct Saying {
    world: Arc<World>,
    parts: Vec<&'static str>,
    hangs: bool,
    stop: Arc<Notify>,
    stopped: Arc<AtomicBool>,
    said: String,
}

#[async_trait::async_trait]
impl Generation for Saying {
    async fn next(&mut self) -> Part {
        if !self.stopped.load(Ordering::SeqCst) {
            if let Some(word) = self.parts.pop() {
                self.said.push_str(word);
                return Part::Text {
                    delta: word.into(),
                    thinking: String::new(),
                };
            }
            if self.hangs {
                self.stop.notified().await;
            }
        }
        let mut result = json!({"text": self.said, "model": "test/m", "usage": {"input": 3, "output": 2}});
        if self.stopped.load(Ordering::SeqCst) {
            result["stopped"] = true.into();
        }
        Part::Done(result)
    }
    fn abort(&self) {
        self.world.aborted.fetch_add(1, Ordering::SeqCst);
        self.stopped.store(true, Ordering::SeqCst);
        self.stop.notify_one();
    }
}

impl Drop for Saying {
    fn drop(&mut self) {
        self.world.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// So that generations can hold the world too.
pub struct Shared(pub Arc<World>);

#[async_trait::async_trait]
impl Beyond for Shared {
    fn generate(&self, _: &CallContext, from: Entry, key: &str, request: Value) -> Result<Box<dyn Generation>, String> {
        self.0.asked.lock().push((from, key.to_owned(), request.clone()));
        if request["model"] == "missing" {
            return Err("the model \"missing\" is not there".into());
        }
        let hangs = self.0.hangs.load(Ordering::SeqCst);
        Ok(Box::new(Saying {
            world: self.0.clone(),
            parts: if hangs { vec!["one"] } else { vec!["two", "one "] },
            hangs,
            stop: Arc::default(),
            stopped: Arc::default(),
            said: String::new(),
        }))
    }
    async fn embed(&self, _: &CallContext, request: Value) -> Result<Value, String> {
        self.0.embedded.fetch_add(1, Ordering::SeqCst);
        let texts = request["texts"].as_array().cloned().unwrap_or_default();
        if request["model"] == "none" {
            return Ok(Value::Null);
        }
        Ok(texts
            .iter()
            .map(|text| json!([text.as_str().unwrap_or("").len(), 1]))
            .collect())
    }
    fn refused(&self, context: &CallContext, target: &str, why: &str) {
        let caller = context.chain.last().map(Caller::label).unwrap_or_default();
        self.0.refused.lock().push(format!("{caller} {target}: {why}"));
    }
    fn logged(&self, _: &CallContext, level: &str, line: &str) {
        self.0.logged.lock().push(format!("{level}: {line}"));
    }
    fn plugin_secret(&self, _: &CallContext, name: &str) -> Option<secrets::KeyHandle> {
        let secrets = self.0.secrets.lock();
        let (vault, origin) = secrets.as_ref()?;
        vault.handle(name, origin)
    }
}

/// Connections that were made.
#[derive(Default)]
pub struct Lines(pub Mutex<Vec<String>>);

impl ConnectionLog for Lines {
    fn connecting(&self, attempt: &Attempt) -> Result<i64, String> {
        self.0
            .lock()
            .push(format!("{} {} {}", attempt.chain, attempt.method, attempt.url));
        Ok(1)
    }
    fn finished(&self, _: i64, _: &End) {}
    fn refused(&self, attempt: &Attempt, why: &str) {
        self.0.lock().push(format!("refused {}: {why}", attempt.url));
    }
}

pub struct House {
    pub db: Arc<Db>,
    pub world: Arc<World>,
    pub lines: Arc<Lines>,
    pub net: Net,
    pub policy: HostPolicy,
    pub limits: UsageLimits,
    pub account: AccountId,
    pub app: AppId,
    pub plugin: PluginId,
    pub entry: Entry,
    pub archive: Option<Arc<Archive>>,
    pub data: Option<GuestFolder>,
    pub call: Limits,
    pub folder: tempfile::TempDir,
    pool: Pool,
}

pub fn code(text: &str) -> CodeHash {
    apps::code::code_hash([("plugin.js", text.as_bytes())])
}

pub fn prelude() -> &'static str {
    concat!(
        include_str!("../../src/globals.js"),
        "\n",
        include_str!("../../src/prelude.js")
    )
}

impl House {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Arc::new(Db::open(&folder.path().join("db")).unwrap().db);
        let account = AccountId::random();
        db.add_account(&account, "zoe", "admin").unwrap();
        std::fs::create_dir(folder.path().join("app")).unwrap();
        let within = Folder::open_ambient(&folder.path().join("app")).unwrap();
        let lines = Arc::new(Lines::default());
        House {
            db,
            world: Arc::default(),
            net: Net::new(lines.clone()),
            lines,
            policy: HostPolicy::default(),
            limits: UsageLimits::default(),
            account,
            app: AppId::parse("alpha").unwrap(),
            plugin: PluginId::parse("p").unwrap(),
            entry: Entry::Route,
            archive: None,
            data: Some(GuestFolder::open(&within, "data").unwrap()),
            call: Limits::ordinary(),
            folder,
            pool: Pool::new(PoolOptions {
                worker: PathBuf::from(env!("CARGO_BIN_EXE_apps-test-worker")),
                max_alive: 8,
                idle: Duration::from_secs(60),
            }),
        }
    }

    pub fn caller(&self) -> Caller {
        Caller::Plugin {
            account: self.account.clone(),
            app: self.app.clone(),
            plugin: self.plugin.clone(),
        }
    }

    /// What stands in the app's data folder on the disk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("app/data").join(name)
    }

    /// Allows exactly this source what is listed, with its scope.
    pub fn grant(&self, source: &str, granted: &[(Capability, &[&str])]) {
        let granted: Vec<_> = granted
            .iter()
            .map(|(capability, scope)| (*capability, scope.iter().map(ToString::to_string).collect()))
            .collect();
        self.db
            .decide(
                &self.account,
                &self.app,
                &self.plugin,
                code(source),
                &granted,
                &[],
                "owner",
            )
            .unwrap();
    }

    pub fn permissions(&self) -> Permissions {
        Permissions::new(self.db.clone(), self.policy.clone())
    }

    pub fn host_for(&self, code: CodeHash, caller: &Caller) -> GuestHost {
        GuestHost::new(Guest {
            db: self.db.clone(),
            net: self.net.clone(),
            beyond: Arc::new(Shared(self.world.clone())),
            permissions: Arc::new(self.permissions()),
            budgets: Arc::new(Budgets::new(self.db.clone(), self.limits)),
            data: self.data.clone(),
            archive: self.archive.clone(),
            context: CallContext::root(caller),
            code,
            entry: self.entry,
            siblings: json!([{"name": "theirs"}]),
        })
    }

    pub fn host(&self, source: &str) -> Arc<GuestHost> {
        Arc::new(self.host_for(code(source), &self.caller()))
    }

    /// Calls the export `run(given, host)` in as many passes as it needs, three at most.
    pub async fn run(&self, source: &str, given: Value) -> Result<Value, String> {
        let host = self.host(source);
        let program = Arc::new(Program::new(
            format!("{}/{}/{}", self.account, self.app, self.plugin),
            "plugin.js",
            source,
            prelude(),
            false,
        ));
        let mut results = Results::default();
        for pass in 1..=3 {
            let call = Call {
                export: "run".into(),
                args: json!([given]),
                data: host.call_data(&results),
                limits: self.call.clone(),
            };
            let outcome = self
                .pool
                .call(&program, call, host.clone())
                .await
                .map_err(|e| e.to_string())?;
            assert!(outcome.exported, "the plugin exports no run");
            let queued = host.take_queue();
            if queued.is_empty() || pass == 3 {
                return Ok(outcome.value);
            }
            host.perform(queued, &mut results).await;
        }
        unreachable!("the last pass returns")
    }

    /// Allows and runs `body`, the inside of `async function run(given, host)`.
    pub async fn does(&self, granted: &[(Capability, &[&str])], body: &str, given: Value) -> Result<Value, String> {
        let source = format!("export async function run(given, host) {{\n{body}\n}}");
        self.grant(&source, granted);
        self.run(&source, given).await
    }
}

/// A zip archive of these entries.
pub fn zip(entries: &[(&str, &[u8])]) -> Archive {
    use std::io::Write;
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        writer
            .start_file(*name, zip::write::SimpleFileOptions::default())
            .unwrap();
        writer.write_all(bytes).unwrap();
    }
    let bytes = writer.finish().unwrap().into_inner();
    Archive::open(bytes, archive::Limits::contract()).unwrap()
}

/// A PNG of one pixel, with these text chunks behind its picture data.
pub fn png(texts: &[(&str, &str)]) -> Vec<u8> {
    const END: &str = "0000000049454e44ae426082";
    let hex = |text: &str| -> Vec<u8> { hex::decode(text.replace(char::is_whitespace, "")).unwrap() };
    let mut bytes = hex("89504e470d0a1a0a 0000000d49484452000000010000000108060000001f15c489 \
         0000000a49444154789c63000100000500010d0a2db4");
    for (key, value) in texts {
        let body = [b"tEXt", key.as_bytes(), b"\0", value.as_bytes()].concat();
        bytes.extend_from_slice(&((body.len() - 4) as u32).to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes.extend_from_slice(&crc(&body).to_be_bytes());
    }
    bytes.extend_from_slice(&hex(END));
    bytes
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| {
            if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 }
        })
    };
    !bytes.iter().fold(!0, step)
}

/// `name` of each error of `bodies`, run one after another in one call, must contain its text.
pub const THROWN: &str =
    "const thrown = async (what) => { try { await what(); return null } catch (e) { return e.message } };\n";
