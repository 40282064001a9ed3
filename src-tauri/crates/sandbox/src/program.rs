//! What runs, how far it may go, and how it can end.

use std::{fmt, io, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// One plugin's code as it will be sent to a worker.
#[derive(Debug)]
pub struct Program {
    /// Who this is, `account/app/plugin`. Calls with the same key share a lock: only one of them runs JavaScript at a
    /// time.
    pub key: String,
    /// The name shown in error messages and stacks, for example `plugin.js`.
    pub file: String,
    /// The plugin's module text.
    pub source: Arc<str>,
    /// Module text evaluated in each fresh context before the plugin. See the crate documentation.
    pub prelude: Arc<str>,
    /// SHA-256 over the bytes of `source`, the very bytes a worker gets, or over these and more; see
    /// [`Program::with_hash`]. A worker serves programs of one hash only.
    pub hash: [u8; 32],
    /// Keeps one context over all calls of a worker instead of a fresh one for each. State is kept as long as the worker
    /// lives, which nobody promises; and a call that comes while another one waits for the host meets a second worker
    /// with a state of its own.
    pub persistent: bool,
}

impl Program {
    /// Takes the texts and computes the hash of `source`.
    pub fn new(
        key: impl Into<String>,
        file: impl Into<String>,
        source: impl Into<Arc<str>>,
        prelude: impl Into<Arc<str>>,
        persistent: bool,
    ) -> Program {
        let source = source.into();
        let hash = Sha256::digest(source.as_bytes()).into();
        Program::with_hash(key, file, source, prelude, persistent, hash)
    }

    /// Takes a hash that was made already, for those who call the same source many times. It must differ wherever `source`
    /// does, so it is a cryptographic one over the very bytes of `source`; it may cover more.
    pub fn with_hash(
        key: impl Into<String>,
        file: impl Into<String>,
        source: impl Into<Arc<str>>,
        prelude: impl Into<Arc<str>>,
        persistent: bool,
        hash: [u8; 32],
    ) -> Program {
        Program {
            key: key.into(),
            file: file.into(),
            source: source.into(),
            prelude: prelude.into(),
            hash,
            persistent,
        }
    }

    /// Whether a worker that was given `self` may serve calls for `other`.
    pub(crate) fn same(&self, other: &Program) -> bool {
        self.key == other.key
            && self.hash == other.hash
            && self.persistent == other.persistent
            && self.file == other.file
            && (Arc::ptr_eq(&self.prelude, &other.prelude) || self.prelude == other.prelude)
    }
}

/// One call of one export.
#[derive(Debug, Clone)]
pub struct Call {
    /// Name of the export, for example `handleRoute`. An export that is not a function is read as data.
    pub export: String,
    /// JSON array of the arguments in front of `host`. Anything but an array is taken as the only argument.
    pub args: Value,
    /// Handed to the prelude's `__makeHost`.
    pub data: Value,
    /// How far this call may go.
    pub limits: Limits,
}

/// How far one call may go. The numbers of [`Limits::ordinary`] are those plugins know from the reference engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time in which the plugin's own JavaScript may run; waiting for the host does not count.
    pub running: Duration,
    /// JavaScript heap in bytes. The worker's whole address space is this plus 448 MiB.
    pub memory: u64,
    /// Time the synchronous host calls of one call may take together. They stand outside `running`, so they need an
    /// end of their own.
    pub now: Duration,
    /// How long to wait for the plugin's lock and a worker before the call fails with [`Failure::Busy`].
    pub queue: Duration,
    /// Host calls that may be open at the same moment.
    pub open_calls: usize,
    /// Host calls of both kinds that one call may make in all.
    pub calls: u32,
    /// Log lines kept per call. Further ones are dropped.
    pub log_lines: u32,
    /// Characters kept of each log line.
    pub log_line: usize,
    /// The call gets a fresh worker process that serves no other call: it is started for this one and ended after it.
    pub own: bool,
    /// How many plugin calls deep this one is, from 1 (nothing of a plugin waits for it) to 5: a call that is made while
    /// another call waits for it is one deeper than that one. Some places are kept free for deeper calls, so that a chain
    /// always gets on; see [`crate::PoolOptions::max_alive`]. Other numbers count as the nearest of these.
    pub depth: u8,
}

impl Limits {
    /// Routes, tools, hooks and ticks: 10 s of running code, 64 MiB, 200 log lines of 500 characters.
    pub fn ordinary() -> Limits {
        Limits {
            running: Duration::from_secs(10),
            memory: 64 << 20,
            now: Duration::from_secs(30),
            queue: Duration::from_secs(30),
            open_calls: 64,
            calls: 100_000,
            log_lines: 200,
            log_line: 500,
            own: false,
            depth: 1,
        }
    }

    /// Routes whose body is an archive: 120 s of running code, 512 MiB, a process of its own. Messages in both
    /// directions may be as large as the heap.
    pub fn zip() -> Limits {
        Limits {
            running: Duration::from_secs(120),
            now: Duration::from_secs(120),
            memory: 512 << 20,
            own: true,
            ..Limits::ordinary()
        }
    }

    /// `onAppUpdate`: 300 s of running code, 512 MiB, a process of its own.
    pub fn app_update() -> Limits {
        Limits {
            running: Duration::from_secs(300),
            now: Duration::from_secs(300),
            ..Limits::zip()
        }
    }
}

/// What a plugin may ask of the engine, bound to one caller. Every method is called in the engine's own process: this
/// is where permissions are checked, never in the worker. `args` is whatever the guest sent; it can be anything.
#[async_trait]
pub trait Host: Send + Sync {
    /// A call that may take long. Dropped unfinished when the plugin's call ends first. The error text is what the
    /// plugin sees as the message of the rejected promise.
    async fn call(&self, method: &str, args: Value) -> Result<Value, String>;
    /// A call the plugin stands still for (its store, its files). Runs on the async thread, so keep it short, unless
    /// [`Host::lengthy`] says otherwise.
    fn call_now(&self, method: &str, args: Value) -> Result<Value, String>;
    /// Whether `call_now` of this method may take longer than a moment (files, archives). It then runs on a thread for
    /// blocking work, where it holds up nobody but the plugin that asked. It goes on to its end there even when the
    /// plugin's call ends before.
    fn lengthy(&self, method: &str) -> bool {
        let _ = method;
        false
    }
    /// A line the plugin logged, already cut to the limits.
    fn log(&self, level: &str, line: &str);
}

/// How a call ended when it ended well.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// What the export returned (or, for data, is), as JSON. `null` when it returned nothing or does not exist.
    pub value: Value,
    /// Whether the module has such an export at all.
    pub exported: bool,
    /// How long the plugin's own code ran.
    pub running: Duration,
    /// Bytes in use in the worker at the end of the run.
    pub heap: u64,
}

/// Why a call failed. The text of each is written for the author of the plugin.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The plugin's code ran longer than [`Limits::running`] and was stopped.
    #[error(
        "the plugin was stopped: its code ran longer than the {limit:?} it may take (waiting for the engine not counted)"
    )]
    Timeout {
        /// The limit that was passed.
        limit: Duration,
    },
    /// The plugin's heap was full.
    #[error("the plugin ran out of memory ({} MiB)", .limit >> 20)]
    Memory {
        /// The limit in bytes.
        limit: u64,
    },
    /// The worker process ended by itself.
    #[error("the plugin's process ended unexpectedly ({0})")]
    Crashed(Ending),
    /// The plugin threw, could not be parsed, or waits for something that can never happen.
    #[error("{}", .0)]
    Script(Box<ScriptError>),
    /// The plugin asked for more than its limits allow, and was stopped.
    #[error("the plugin was stopped: {0}")]
    Limit(String),
    /// The worker did not keep to the protocol. It was killed.
    #[error("the plugin's process broke the protocol and was stopped: {0}")]
    Protocol(String),
    /// The worker could not be locked down, so nothing was run.
    #[error("plugins cannot run here: the isolated process could not be locked down ({0})")]
    NoSandbox(String),
    /// The worker program could not be started.
    #[error("the plugin's process could not be started: {0}")]
    Start(#[from] io::Error),
    /// The call's turn did not come within [`Limits::queue`].
    #[error("too many plugin calls are running; this one's turn did not come within {waited:?}. Try again later")]
    Busy {
        /// How long the call waited.
        waited: Duration,
    },
    /// Somebody stopped the plugin, see [`crate::Pool::stop`].
    #[error("the plugin call was stopped by the person")]
    Stopped,
    /// The pool was shut down.
    #[error("the plugin call was cancelled because the engine is stopping")]
    Cancelled,
}

/// An error of the plugin's own code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptError {
    /// Name and message, for example `TypeError: x is not a function`.
    pub message: String,
    /// The file of the first known place, usually [`Program::file`]; empty when unknown.
    pub file: String,
    /// Line from 1; 0 when unknown.
    pub line: u32,
    /// Column from 1; 0 when unknown.
    pub column: u32,
    /// The engine's stack, one frame a line; may be empty.
    pub stack: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.line) {
            ("", _) => write!(f, "{}", self.message),
            (file, 0) => write!(f, "{} ({file})", self.message),
            (file, line) => write!(f, "{} ({file}:{line}:{})", self.message, self.column),
        }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By this signal.
    Signal(i32),
    /// With this exit code.
    Exit(i32),
    /// It closed its socket and how it ended could not be learned.
    Unknown,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Signal(libc::SIGSYS) => {
                write!(f, "it tried something the sandbox forbids, signal {}", libc::SIGSYS)
            }
            Ending::Signal(signal) => write!(f, "signal {signal}"),
            Ending::Exit(code) => write!(f, "exit code {code}"),
            Ending::Unknown => write!(f, "its connection closed"),
        }
    }
}
