//! Runs plugins: one locked-down process per running call, QuickJS inside it, and a host that trusts none of it.
//!
//! This crate knows nothing of apps. The caller brings a [`Program`] (the plugin's module and a *prelude*), a [`Call`],
//! and a [`Host`] that answers what the plugin asks for; a [`Pool`] keeps the processes.
//!
//! # The prelude
//!
//! Module text of the engine's own, evaluated in each fresh context before the plugin. It finds the global `__sandbox`:
//!
//! - `call(method, args)` begins a host call and gives a promise ([`Host::call`]). `args` is any value that JSON can
//!   say, usually an array; the promise gives a value, or rejects with an `Error` of the host's message. A call that is
//!   still open when the export's own promise settles is dropped.
//! - `callNow(method, args)` does the same and stands still for the answer ([`Host::call_now`]).
//! - `log(level, line)` logs a line ([`Host::log`]).
//! - `native` is an object with functions in Rust (see `worker/native.rs`): texts to bytes and back, base64, addresses,
//!   random bytes. Made when first read: read it where it is needed, not ahead.
//! - `web(name)` gives a global that browsers have and plugins get, made when first asked for (see `worker/web.rs`).
//!   Timers among them call `sleep` of the host, with milliseconds.
//! - `run` is a number that is another one in each call.
//! - `data` is [`Call::data`]; set just before `__makeHost` is called, not yet while the prelude itself runs.
//!
//! It must define `globalThis.__makeHost(data)`, whose result becomes the last argument of the export. Both globals are
//! removed before the plugin's first line runs, so the plugin has of them only what the host object closes over. The
//! prelude must keep `__sandbox` in a variable of its own to use it later. It is also the place to define `console`,
//! `process` and whatever else plugins may expect: this crate adds no global of its own.
//!
//! An error that no promise's handler catches is logged as a line of level `error`, with its place.
//!
//! # What holds
//!
//! - **The process**: empty environment, no descriptors but one socket, no new privileges, user `nobody` where the
//!   engine is root, Landlock with no rights, and seccomp with a list of 22 system calls. No seccomp, no start: the
//!   worker ends, and the host believes the kernel (`/proc`), not the worker.
//! - **Time**: the host's own clock, running only while the plugin's code does; then SIGKILL.
//! - **Memory**: QuickJS's limit, and the kernel's limit on the address space around it.
//! - **One lock per plugin**, held while its JavaScript runs and let go while it waits for the host. A waiting call keeps
//!   its process, so another call of the same plugin runs in another one.
//! - **A fresh context per call**, from bytecode that never leaves the worker.
//! - **A failed call is one failed call**: end of file, a signal or a bad frame. The next call gets a new process.

#[cfg(not(target_os = "linux"))]
compile_error!("the plugin sandbox rests on Linux (seccomp); other systems need a worker of their own first");

mod check;
pub mod frame;
mod json;
mod places;
mod pool;
mod process;
mod program;
mod run;
#[doc(hidden)]
pub mod worker;

pub use check::check_syntax;
pub use json::fits;
pub use pool::{Pool, PoolOptions};
pub use program::{Call, Ending, Failure, Host, Limits, Outcome, Program, ScriptError};
pub use worker::{WorkerAllocator, worker_main};
