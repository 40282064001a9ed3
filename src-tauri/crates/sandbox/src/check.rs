//! What is wrong with a plugin's file, without running it.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::sync::{Semaphore, watch};

use crate::{
    frame::{FromWorker, ToWorker},
    process::{self, Seat},
    program::{Failure, Limits, Program},
    run::{self, Worker},
};

/// How long compiling may take. A megabyte takes about 0.1 s.
const TIME: Duration = Duration::from_secs(10);

/// Compiles a plugin's module in a worker process of its own and gives the names of its exports, sorted. Nothing of it is
/// run. `file` is the name used in errors.
///
/// Fails with [`Failure::Script`] when the module cannot be parsed (with line and column) or imports what plugins cannot
/// import, and as a call does when no worker can be had.
pub async fn check_syntax(worker: &Path, file: &str, source: &str) -> Result<Vec<String>, Failure> {
    let limits = Limits::ordinary();
    let program = Arc::new(Program::new(
        "check",
        file,
        source,
        "globalThis.__makeHost = () => {}",
        false,
    ));
    let opened = Arc::new(process::open_program(worker)?);
    let name = worker.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let permit = Arc::new(Semaphore::new(1)).acquire_owned().await;
    let permit = permit.map_err(|_| Failure::Cancelled)?;
    let seat = Seat::new(permit, Arc::new(watch::Sender::new(0)));
    let (process, socket) = process::start(opened, name, limits.memory, seat).await?;
    let worker = Worker::greet(process, socket, program, limits.memory, 0).await?;
    match run::ask(worker, &ToWorker::Check, TIME).await? {
        FromWorker::Done { value, .. } => serde_json::from_str(&value)
            .map_err(|_| Failure::Protocol("the names of its exports are not a list".into())),
        FromWorker::Failed(failed) if failed.memory => Err(Failure::Memory { limit: limits.memory }),
        FromWorker::Failed(failed) => Err(Failure::Script(Box::new(failed.into()))),
        _ => Err(Failure::Protocol("it did not answer what it was asked".into())),
    }
}
