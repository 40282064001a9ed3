//! One call on one worker: the frames, the clock, the lock.

use std::{
    os::fd::{AsRawFd, BorrowedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::{Mutex, OwnedMutexGuard},
};

use crate::{
    frame::{self, Answer, Failed, FromWorker, ToWorker},
    json::{self, Budget, Cost},
    process::{self, Process},
    program::{Call, Ending, Failure, Host, Limits, Outcome, Program, ScriptError},
    worker,
};

/// How long a worker may take from its start to its hello. Measured: about 2 ms; the rest is for a loaded machine.
const START: Duration = Duration::from_secs(10);

/// A worker process with its socket, bound to one program.
pub struct Worker {
    pub program: Arc<Program>,
    pub memory: u64,
    /// The plugin's generation when this worker was started; an older one is not used again.
    pub generation: u64,
    pub idle_since: Instant,
    socket: UnixStream,
    read: Vec<u8>,
    process: Process,
}

/// Why the socket gave no frame.
enum Bad {
    Closed,
    Malformed(&'static str),
}

impl Worker {
    /// Takes over a process that has just been started: waits for its hello, has the kernel confirm it, and hands the
    /// program over.
    pub async fn greet(
        process: Process,
        socket: std::os::unix::net::UnixStream,
        program: Arc<Program>,
        memory: u64,
        generation: u64,
    ) -> Result<Worker, Failure> {
        let socket = UnixStream::from_std(socket)?;
        let idle_since = Instant::now();
        let mut worker = Worker {
            program: program.clone(),
            memory,
            generation,
            idle_since,
            socket,
            read: Vec::new(),
            process,
        };
        match tokio::time::timeout(START, worker.frame()).await {
            Err(_) => return Err(Failure::NoSandbox(format!("it gave no sign of life within {START:?}"))),
            Ok(Err(bad)) => return Err(worker.ended(bad).await),
            Ok(Ok(FromWorker::Refused(cause))) => return Err(Failure::NoSandbox(cause)),
            Ok(Ok(FromWorker::Hello {
                version: frame::VERSION,
                note,
            })) => {
                process::check_walls(worker.process.pid()).map_err(Failure::NoSandbox)?;
                tracing::debug!(pid = worker.process.pid(), plugin = %program.key, %note, "worker ready");
            }
            Ok(Ok(FromWorker::Hello { version, .. })) => {
                return Err(Failure::NoSandbox(format!(
                    "the worker program speaks version {version}, not {}: it is of another build",
                    frame::VERSION
                )));
            }
            Ok(Ok(_)) => return Err(Failure::Protocol("it spoke before it was locked down".into())),
        }
        let load = ToWorker::Load {
            file: program.file.clone(),
            source: program.source.to_string(),
            prelude: program.prelude.to_string(),
            memory,
            persistent: program.persistent,
        };
        let bytes = load
            .encode()
            .map_err(|error| Failure::Limit(format!("its file is {}", error.0)))?;
        match tokio::time::timeout(START, worker.socket.write_all(&bytes)).await {
            Ok(Ok(())) => Ok(worker),
            _ => Err(worker.ended(Bad::Closed).await),
        }
    }

    /// Whether the process still stands ready: nothing has come over its socket, not even its end.
    pub fn quiet(&self) -> bool {
        let mut byte = 0u8;
        // SAFETY: the descriptor is open as long as `self`, and `byte` is one writable byte.
        let got = unsafe {
            let fd = BorrowedFd::borrow_raw(self.socket.as_raw_fd());
            libc::recv(
                fd.as_raw_fd(),
                (&raw mut byte).cast(),
                1,
                libc::MSG_PEEK | libc::MSG_DONTWAIT,
            )
        };
        self.read.is_empty() && got == -1 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock
    }

    /// Whether the process has ever held most of what its heap may hold.
    fn full(&self) -> bool {
        process::peak_memory(self.process.pid()) >= self.memory / 4 * 3
    }

    /// Kills the process and waits until it is gone.
    pub async fn end(self) {
        self.process.end().await;
    }

    async fn ended(self, bad: Bad) -> Failure {
        let limit = self.memory;
        let ending = self.process.end().await;
        match bad {
            Bad::Closed if ending == Ending::Exit(worker::OUT_OF_MEMORY) => Failure::Memory { limit },
            Bad::Closed => Failure::Crashed(ending),
            Bad::Malformed(why) => Failure::Protocol(why.into()),
        }
    }

    /// The next frame. Can be dropped at any await without losing a byte.
    async fn frame(&mut self) -> Result<FromWorker, Bad> {
        loop {
            if let Some((prefix, rest)) = self.read.split_first_chunk::<4>() {
                let length = frame::length(*prefix, frame::most(self.memory))
                    .map_err(|malformed| Bad::Malformed(malformed.0))?;
                if let Some(body) = rest.get(..length) {
                    let frame = FromWorker::decode(body).map_err(|malformed| Bad::Malformed(malformed.0));
                    self.read.drain(..4 + length);
                    self.read.shrink_to(1 << 20);
                    return frame;
                }
            }
            // Grows with what really arrives, never by what a length field promises.
            match self.socket.read_buf(&mut self.read).await {
                Ok(0) | Err(_) => return Err(Bad::Closed),
                Ok(_) => {}
            }
        }
    }
}

/// The host's own clock over the plugin's running code.
struct Clock {
    limit: Duration,
    used: Duration,
    since: Option<Instant>,
}

impl Clock {
    fn start(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }
    fn stop(&mut self) {
        if let Some(since) = self.since.take() {
            self.used += since.elapsed();
        }
    }
    fn used(&self) -> Duration {
        self.used + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.used())
    }
}

/// How a call ended, with the worker when it can serve another one.
pub struct Ended {
    pub result: Result<Outcome, Failure>,
    pub worker: Option<Worker>,
}

/// Peak resident memory above half the limit makes a worker old: its heap is full of holes, and it may have met "out of
/// memory", after which the engine is not trusted again. Below this much running time a call cannot have got there.
const LONG_ENOUGH_TO_FILL: Duration = Duration::from_millis(3);

/// Bytes of JSON from which on it is parsed beside the threads that everybody waits for: four plugins that send large
/// arguments without end made all others wait for seconds.
const LARGE: usize = 256 << 10;

type Open<'a> = FuturesUnordered<BoxFuture<'a, (u32, Result<serde_json::Value, String>, Cost)>>;

/// Runs one call. `held` is the plugin's lock, already taken; it is free again when this returns.
pub async fn run(
    mut worker: Worker,
    lock: Arc<Mutex<()>>,
    held: OwnedMutexGuard<()>,
    call: &Call,
    host: &Arc<dyn Host>,
    ended_from_outside: impl Future<Output = Failure>,
) -> Ended {
    let mut clock = Clock {
        limit: call.limits.running,
        used: Duration::ZERO,
        since: None,
    };
    let result = tokio::select! {
        biased;
        // First: on a busy machine a worker can be given its last answer and reply to it between two looks.
        failure = ended_from_outside => Err(Stopped::Failure(failure)),
        result = talk(&mut worker, lock, held, call, host, &mut clock) => result,
    };
    clock.stop();
    let running = clock.used();
    match result {
        Ok((mut outcome, clean)) => {
            outcome.running = running;
            let worker = (clean && fit(&worker, running)).then_some(worker);
            Ended {
                result: Ok(outcome),
                worker,
            }
        }
        Err(Stopped::Script(failed)) => {
            let clean = failed.clean;
            let memory = failed.memory || (failed.null && worker.full());
            let error = if memory {
                Failure::Memory {
                    limit: call.limits.memory,
                }
            } else {
                Failure::Script(Box::new(failed.into()))
            };
            let worker = (clean && !memory && fit(&worker, running)).then_some(worker);
            Ended {
                result: Err(error),
                worker,
            }
        }
        Err(Stopped::Failure(failure)) => Ended {
            result: Err(failure),
            worker: None,
        },
        Err(Stopped::Bad(bad)) => Ended {
            result: Err(worker.ended(bad).await),
            worker: None,
        },
    }
}

impl From<Failed> for ScriptError {
    fn from(failed: Failed) -> ScriptError {
        let Failed {
            message,
            file,
            line,
            column,
            stack,
            ..
        } = failed;
        ScriptError {
            message,
            file,
            line,
            column,
            stack,
        }
    }
}

/// Sends one frame to a worker that runs nothing, gives its next one, and ends it.
pub async fn ask(mut worker: Worker, question: &ToWorker, time: Duration) -> Result<FromWorker, Failure> {
    let bytes = question.encode().map_err(|error| Failure::Limit(error.0.into()))?;
    let asked = async {
        worker.socket.write_all(&bytes).await.map_err(|_| Bad::Closed)?;
        worker.frame().await
    };
    match tokio::time::timeout(time, asked).await {
        Ok(Ok(frame)) => Ok(frame),
        Ok(Err(bad)) => Err(worker.ended(bad).await),
        Err(_) => Err(Failure::Timeout { limit: time }),
    }
}

fn fit(worker: &Worker, running: Duration) -> bool {
    // A lasting context is kept for its state, which may well be large.
    worker.program.persistent
        || running < LONG_ENOUGH_TO_FILL
        || process::peak_memory(worker.process.pid()) < worker.memory / 2
}

enum Stopped {
    Script(Failed),
    Failure(Failure),
    Bad(Bad),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failure(failure)
    }
}

fn protocol(why: &str) -> Stopped {
    Stopped::Failure(Failure::Protocol(why.into()))
}

async fn talk(
    worker: &mut Worker,
    lock: Arc<Mutex<()>>,
    held: OwnedMutexGuard<()>,
    call: &Call,
    host: &Arc<dyn Host>,
    clock: &mut Clock,
) -> Result<(Outcome, bool), Stopped> {
    let limits = &call.limits;
    let args = match &call.args {
        serde_json::Value::Array(_) => call.args.to_string(),
        single => format!("[{single}]"),
    };
    let first = ToWorker::Run {
        export: call.export.clone(),
        args,
        data: call.data.to_string(),
    };
    let most = frame::most(worker.memory);
    let first = first
        .encode_within(most)
        .map_err(|error| Failure::Limit(format!("what it was called with is {}", error.0)))?;

    let mut held = Some(held);
    let mut open: Open = FuturesUnordered::new();
    let mut ready: Vec<(u32, Answer)> = Vec::new();
    let mut budget = Budget::new(worker.memory);
    let (mut calls, mut lines, mut now_used) = (0u32, 0u32, Duration::ZERO);

    clock.start();
    send(worker, clock, &first).await?;
    loop {
        let running = clock.since.is_some();
        if running && clock.left().is_zero() {
            return Err(timeout(limits));
        }
        let frame = tokio::select! {
            biased;
            frame = worker.frame() => Some(frame.map_err(Stopped::Bad)?),
            Some((id, answer, cost)) = open.next(), if !open.is_empty() => {
                budget.release(cost);
                ready.push((id, answer.map(|value| value.to_string())));
                None
            }
            () = tokio::time::sleep(clock.left()), if running => return Err(timeout(limits)),
        };
        match frame {
            None => {}
            Some(_) if !running => return Err(protocol("it spoke while it said it was waiting")),
            Some(FromWorker::Waiting) => {
                clock.stop();
                held = None;
            }
            Some(FromWorker::Call { id, method, args }) => {
                calls = count(calls, limits)?;
                if open.len() >= limits.open_calls {
                    let most = limits.open_calls;
                    ready.push((
                        id,
                        Err(format!("{method}: only {most} calls to the engine may be open at once")),
                    ));
                } else {
                    match budget.take(&args) {
                        Err(why) => ready.push((id, Err(format!("{method}: its arguments are {why}")))),
                        Ok(cost) => {
                            let host = host.clone();
                            open.push(Box::pin(async move {
                                let answer = match parsed(args).await {
                                    Ok(args) => host.call(&method, args).await,
                                    Err(why) => Err(format!("{method}: its arguments are {why}")),
                                };
                                (id, answer, cost)
                            }));
                        }
                    }
                }
            }
            Some(FromWorker::CallNow { method, args }) => {
                calls = count(calls, limits)?;
                clock.stop();
                let since = Instant::now();
                let answer = if args.len() >= LARGE || host.lengthy(&method) {
                    let left = limits.now.saturating_sub(now_used);
                    aside(host, method, args, left, &mut open, &mut ready, &mut budget).await
                } else {
                    match budget.parse(&args) {
                        Err(why) => Err(format!("{method}: its arguments are {why}")),
                        Ok((args, cost)) => {
                            budget.release(cost);
                            host.call_now(&method, args).map(|value| value.to_string())
                        }
                    }
                };
                now_used += since.elapsed();
                if now_used >= limits.now {
                    let most = limits.now;
                    return Err(
                        Failure::Limit(format!("its synchronous calls took longer than {most:?} in all")).into(),
                    );
                }
                clock.start();
                let bytes = answer_now(answer, most);
                send(worker, clock, &bytes).await?;
            }
            Some(FromWorker::Log { level, line }) if lines < limits.log_lines => {
                lines += 1;
                let line: String = line.chars().take(limits.log_line).collect();
                let level: String = level.chars().take(16).collect();
                host.log(&level, &line);
            }
            Some(FromWorker::Log { .. }) => {}
            Some(FromWorker::Done {
                exported,
                value,
                heap,
                clean,
            }) => {
                clock.stop();
                let result = |why| Stopped::Failure(Failure::Limit(format!("its result is {why}")));
                Budget::new(worker.memory).take(&value).map_err(result)?;
                let value = parsed(value).await.map_err(result)?;
                return Ok((
                    Outcome {
                        value,
                        exported,
                        running: Duration::ZERO,
                        heap,
                    },
                    clean,
                ));
            }
            Some(FromWorker::Failed(failed)) => return Err(Stopped::Script(failed)),
            Some(FromWorker::Hello { .. } | FromWorker::Refused(_)) => return Err(protocol("it said hello twice")),
        }
        if clock.since.is_none() {
            if !ready.is_empty() {
                // What else is already there travels along.
                if held.is_none() {
                    held = Some(take(&lock, &mut open, &mut ready, &mut budget).await);
                }
                let bytes = answers(&mut ready, most);
                clock.start();
                send(worker, clock, &bytes).await?;
            } else if open.is_empty() {
                return Err(protocol("it waits, but nothing is open"));
            }
        }
    }
}

/// Parses a text on a thread for blocking work when it is large.
async fn parsed(text: String) -> Result<serde_json::Value, String> {
    if text.len() < LARGE {
        return json::read(&text);
    }
    let read = tokio::task::spawn_blocking(move || json::read(&text));
    read.await
        .unwrap_or_else(|_| Err("not read: the engine is stopping".into()))
}

/// A synchronous call on a thread for blocking work, while the open calls go on; its arguments are parsed there too. Past
/// `left` it is not waited for: its time is over then, and the caller ends the plugin's call.
async fn aside(
    host: &Arc<dyn Host>,
    method: String,
    args: String,
    left: Duration,
    open: &mut Open<'_>,
    ready: &mut Vec<(u32, Answer)>,
    budget: &mut Budget,
) -> Answer {
    let host = host.clone();
    // Also the text is written there: it can be as large as an archive.
    // The plugin stands still, so that the budget can only grow meanwhile, and what is taken here is gone at the end.
    let mut room = budget.clone();
    let work = tokio::task::spawn_blocking(move || match room.parse(&args) {
        Ok((args, _)) => host.call_now(&method, args).map(|value| value.to_string()),
        Err(why) => Err(format!("{method}: its arguments are {why}")),
    });
    tokio::pin!(work);
    let end = tokio::time::sleep(left);
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            done = &mut work => {
                return done.unwrap_or_else(|_| Err("the engine failed while it answered this call; see its log".into()));
            }
            Some((id, answer, cost)) = open.next(), if !open.is_empty() => {
                budget.release(cost);
                ready.push((id, answer.map(|value| value.to_string())));
            }
            () = &mut end => return Err(String::new()),
        }
    }
}

/// Waits for the plugin's lock while the open calls go on.
async fn take(
    lock: &Arc<Mutex<()>>,
    open: &mut Open<'_>,
    ready: &mut Vec<(u32, Answer)>,
    budget: &mut Budget,
) -> OwnedMutexGuard<()> {
    let locked = lock.clone().lock_owned();
    tokio::pin!(locked);
    loop {
        tokio::select! {
            biased;
            Some((id, answer, cost)) = open.next(), if !open.is_empty() => {
                budget.release(cost);
                ready.push((id, answer.map(|value| value.to_string())));
            }
            guard = &mut locked => return guard,
        }
    }
}

fn count(calls: u32, limits: &Limits) -> Result<u32, Stopped> {
    if calls >= limits.calls {
        return Err(Failure::Limit(format!("it made more than {} calls to the engine", limits.calls)).into());
    }
    Ok(calls + 1)
}

fn timeout(limits: &Limits) -> Stopped {
    Stopped::Failure(Failure::Timeout { limit: limits.running })
}

/// A worker that does not read is a worker that runs: the clock goes on, and its end ends the sending.
async fn send(worker: &mut Worker, clock: &Clock, bytes: &[u8]) -> Result<(), Stopped> {
    match tokio::time::timeout(clock.left(), worker.socket.write_all(bytes)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(Stopped::Bad(Bad::Closed)),
        Err(_) => Err(Stopped::Failure(Failure::Timeout { limit: clock.limit })),
    }
}

/// Instead of an answer that does not fit into one message.
fn too_large(most: usize) -> Answer {
    Err(format!(
        "the answer is larger than the {} MiB that fit into one message",
        most >> 20
    ))
}

fn answer_now(answer: Answer, most: usize) -> Vec<u8> {
    let frame = ToWorker::AnswerNow(answer).encode_within(most);
    frame
        .or_else(|_| ToWorker::AnswerNow(too_large(most)).encode())
        .unwrap_or_default()
}

/// As many answers as fit into one frame, in order. The others wait for the worker's next `Waiting`.
fn answers(ready: &mut Vec<(u32, Answer)>, most: usize) -> Vec<u8> {
    // Tag, count, and for each answer its id, flag and length.
    let room = most - 5;
    let size = |answer: &Answer| 9 + answer.as_ref().unwrap_or_else(|message| message).len();
    for (_, answer) in ready.iter_mut() {
        if size(answer) > room {
            *answer = too_large(most);
        }
    }
    let mut total = 0;
    let fit = ready.iter().take_while(|(_, answer)| {
        total += size(answer);
        total <= room
    });
    let fit = fit.count();
    ToWorker::Answers(ready.drain(..fit).collect())
        .encode_within(most)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_do_not_fit_together_go_one_after_the_other() {
        let large = || Ok("1".repeat(40 << 20));
        let mut ready = vec![(1, large()), (2, large()), (3, Ok("2".repeat(65 << 20)))];
        let body = |bytes: Vec<u8>| ToWorker::decode(&bytes[4..]).unwrap();
        assert!(
            matches!(body(answers(&mut ready, frame::MAX_FRAME)), ToWorker::Answers(list) if list.len() == 1 && list[0].0 == 1)
        );
        let ToWorker::Answers(list) = body(answers(&mut ready, frame::MAX_FRAME)) else {
            panic!("not answers")
        };
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].1, too_large(frame::MAX_FRAME));
        assert!(ready.is_empty());
    }
}
