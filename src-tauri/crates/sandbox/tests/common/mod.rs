//! A host, a prelude and a pool for the tests.
#![allow(dead_code)] // each test file uses its part

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use sandbox::{Call, Failure, Host, Limits, Outcome, Pool, PoolOptions, Program};
use serde_json::{Value, json};
use tokio::sync::Notify;

pub const PRELUDE: &str = r#"
const { call, callNow, log } = globalThis.__sandbox;
const sandbox = globalThis.__sandbox;
globalThis.console = { log: (...parts) => log("info", parts.map(String).join(" ")) };
globalThis.__makeHost = (data) => ({
    data, same: () => sandbox.data,
    call: (method, ...args) => call(method, args),
    now: (method, ...args) => callNow(method, args),
    log: (line) => log("info", line),
});
"#;

/// Answers `echo` (its arguments), `fail` (an error), `gate` (when the test opens it) and `never`.
#[derive(Default)]
pub struct TestHost {
    pub lines: Mutex<Vec<String>>,
    pub gate: Notify,
    pub entered: Mutex<usize>,
}

#[async_trait]
impl Host for TestHost {
    async fn call(&self, method: &str, args: Value) -> Result<Value, String> {
        *self.entered.lock().unwrap() += 1;
        match method {
            "echo" => Ok(args),
            "fail" => Err("the engine says no".into()),
            "gate" => {
                self.gate.notified().await;
                Ok(json!("opened"))
            }
            "never" => std::future::pending().await,
            other => Err(format!("there is no {other}")),
        }
    }
    fn call_now(&self, method: &str, args: Value) -> Result<Value, String> {
        match method {
            "echo" => Ok(args),
            "slow" => {
                std::thread::sleep(Duration::from_millis(20));
                Ok(Value::Null)
            }
            other => Err(format!("there is no {other}")),
        }
    }
    fn log(&self, level: &str, line: &str) {
        self.lines.lock().unwrap().push(format!("{level}: {line}"));
    }
}

pub fn worker() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_sandbox-worker"))
}

pub fn options(worker: &Path, max_alive: usize) -> PoolOptions {
    PoolOptions {
        worker: worker.to_owned(),
        max_alive,
        idle: Duration::from_secs(60),
    }
}

pub fn pool() -> Pool {
    Pool::new(options(&worker(), 16))
}

/// The test worker behaving as `mode` says (see `src/bin/sandbox-worker.rs`): it goes by the name it is started with.
pub fn pool_as(mode: &str) -> (Pool, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("as-{mode}"));
    std::os::unix::fs::symlink(worker(), &path).unwrap();
    (Pool::new(options(&path, 4)), folder)
}

pub fn program(key: &str, source: &str) -> Arc<Program> {
    Arc::new(Program::new(key, "plugin.js", source, PRELUDE, false))
}

pub fn call(export: &str, args: Value) -> Call {
    Call {
        export: export.into(),
        args,
        data: json!({"user": "ann"}),
        limits: Limits::ordinary(),
    }
}

pub fn host() -> Arc<TestHost> {
    Arc::default()
}

pub async fn run(pool: &Pool, source: &str) -> Result<Outcome, Failure> {
    pool.call(&program("a/b/c", source), call("main", json!([])), host())
        .await
}

/// The value of `export function main(host)`.
pub async fn value(pool: &Pool, source: &str) -> Value {
    run(pool, source).await.unwrap().value
}

pub async fn script_error(pool: &Pool, source: &str) -> sandbox::ScriptError {
    match run(pool, source).await {
        Err(Failure::Script(error)) => *error,
        other => panic!("expected a script error, got {other:?}"),
    }
}

/// Polls until it holds; fails the test after ten seconds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "still not so after 10 s: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Ids of the processes whose parent is this one.
pub fn children() -> Vec<u32> {
    let me = std::process::id().to_string();
    let parent_of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(stat.rsplit_once(") ")?.1.split(' ').nth(1)? == me)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| parent_of(pid) == Some(true)).collect()
}
