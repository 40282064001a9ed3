//! The processes of all plugins: who gets which, and when they go.

use std::{
    collections::{HashMap, VecDeque},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, watch},
    task::JoinHandle,
};

use crate::{
    process::{self, Seat},
    program::{Call, Failure, Host, Outcome, Program},
    run::{self, Worker},
};

/// How a pool works.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// The worker program (`chrysalis-worker`). Opened at the first call; a change of the file later has no effect.
    pub worker: PathBuf,
    /// Most worker processes at any moment, at least 1. Each waiting call keeps one.
    pub max_alive: usize,
    /// How long a worker without work is kept.
    pub idle: Duration,
}

/// Runs calls on worker processes. Dropping it kills them.
pub struct Pool(Arc<Inner>);

struct Inner {
    options: PoolOptions,
    seats: Arc<Semaphore>,
    alive: Arc<watch::Sender<usize>>,
    stopping: watch::Sender<bool>,
    program: OnceLock<Arc<OwnedFd>>,
    state: parking_lot::Mutex<State>,
}

#[derive(Default)]
struct State {
    plugins: HashMap<String, Plugin>,
    /// Workers without work, longest idle first.
    idle: VecDeque<Worker>,
    /// Calls that wait for a seat. While there are any, no worker is put to rest.
    waiting: usize,
    sweeper: Option<JoinHandle<()>>,
}

struct Plugin {
    lock: Arc<Mutex<()>>,
    hash: [u8; 32],
    /// Goes up when the plugin's workers must not be used again.
    generation: u64,
    /// Calls under way.
    calls: usize,
}

impl Pool {
    /// A pool without any process yet.
    pub fn new(options: PoolOptions) -> Pool {
        let seats = Semaphore::new(options.max_alive.clamp(1, Semaphore::MAX_PERMITS));
        Pool(Arc::new(Inner {
            options,
            seats: Arc::new(seats),
            alive: Arc::new(watch::Sender::new(0)),
            stopping: watch::Sender::new(false),
            program: OnceLock::new(),
            state: parking_lot::Mutex::default(),
        }))
    }

    /// Calls one export of a program and waits for its end. Dropping the future kills the process it runs in.
    ///
    /// Calls of the same [`Program::key`] never run JavaScript at the same moment; a call that waits for the host lets
    /// others run, each in a process of its own. When all processes are busy, or the plugin itself is, the call waits its
    /// turn, at most [`crate::Limits::queue`].
    pub async fn call(&self, program: &Arc<Program>, call: Call, host: Arc<dyn Host>) -> Result<Outcome, Failure> {
        let inner = &self.0;
        let mut stopping = inner.stopping.subscribe();
        if *stopping.borrow() {
            return Err(Failure::Cancelled);
        }
        let under_way = UnderWay::begin(inner, program);
        let waited = call.limits.queue;
        let (worker, held) = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => return Err(Failure::Cancelled),
            got = tokio::time::timeout(waited, inner.worker(program, &call, &under_way.lock)) => {
                got.map_err(|_| Failure::Busy { waited })??
            }
        };
        let ended = run::run(worker, under_way.lock.clone(), held, &call, &host, &mut stopping).await;
        if let Some(worker) = ended.worker {
            Inner::rest(inner, worker);
        }
        ended.result
    }

    /// Worker processes that exist, including those being killed.
    pub fn alive(&self) -> usize {
        *self.0.alive.borrow()
    }

    /// Fails all calls with [`Failure::Cancelled`], kills all workers and waits until they are gone. No call works
    /// afterwards.
    pub async fn shutdown(&self) {
        self.0.stopping.send_replace(true);
        let idle = std::mem::take(&mut self.0.state.lock().idle);
        drop(idle);
        // The sender lives in `self`, so this ends only when the count is 0.
        let _ = self.0.alive.subscribe().wait_for(|alive| *alive == 0).await;
    }

    /// Ends a plugin's workers: those without work now (this waits until they are gone), the others after their call.
    pub async fn retire(&self, key: &str) {
        let gone = {
            let mut state = self.0.state.lock();
            if let Some(plugin) = state.plugins.get_mut(key) {
                plugin.generation += 1;
            }
            state.take_out(|worker| worker.program.key == key)
        };
        for worker in gone {
            worker.end().await;
        }
    }
}

/// Counts a call in its plugin's entry, and out again however it ends.
struct UnderWay<'a> {
    inner: &'a Arc<Inner>,
    key: &'a str,
    lock: Arc<Mutex<()>>,
}

impl<'a> UnderWay<'a> {
    fn begin(inner: &'a Arc<Inner>, program: &'a Arc<Program>) -> UnderWay<'a> {
        let mut state = inner.state.lock();
        let plugin = state.plugins.entry(program.key.clone()).or_insert_with(|| Plugin {
            lock: Arc::default(),
            hash: program.hash,
            generation: 0,
            calls: 0,
        });
        if plugin.hash != program.hash {
            plugin.hash = program.hash;
            plugin.generation += 1;
        }
        plugin.calls += 1;
        let lock = plugin.lock.clone();
        let old = state.take_out(|worker| worker.program.key == program.key && !worker.program.same(program));
        drop(state);
        drop(old);
        UnderWay {
            inner,
            key: &program.key,
            lock,
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(plugin) = self.inner.state.lock().plugins.get_mut(self.key) {
            plugin.calls -= 1;
        }
    }
}

/// Counts a call as waiting for a seat, and out again.
struct Waiting<'a>(&'a Inner);

impl<'a> Waiting<'a> {
    fn begin(inner: &'a Inner) -> Waiting<'a> {
        let mut state = inner.state.lock();
        state.waiting += 1;
        // Make room: the worker that has been without work the longest goes. Its seat is free once it is gone.
        let oldest = state.idle.pop_front();
        drop(state);
        drop(oldest);
        Waiting(inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

impl State {
    fn take_out(&mut self, which: impl Fn(&Worker) -> bool) -> Vec<Worker> {
        let (gone, kept) = std::mem::take(&mut self.idle)
            .into_iter()
            .partition(|worker| which(worker));
        self.idle = kept;
        Vec::from_iter::<VecDeque<Worker>>(gone)
    }
}

impl Inner {
    /// A worker for this program and the plugin's lock. The lock comes first, so that calls that wait for it keep no
    /// process; only where there is no free seat is the seat waited for without the lock, because the calls that sit on
    /// them may need the lock to end.
    async fn worker(
        &self,
        program: &Arc<Program>,
        call: &Call,
        lock: &Arc<Mutex<()>>,
    ) -> Result<(Worker, OwnedMutexGuard<()>), Failure> {
        let memory = call.limits.memory;
        let mut held = lock.clone().lock_owned().await;
        if let Some(worker) = self.take_idle(program, memory) {
            return Ok((worker, held));
        }
        let permit = match self.seats.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                drop(held);
                let waiting = Waiting::begin(self);
                let permit = self
                    .seats
                    .clone()
                    .acquire_owned()
                    .await
                    .map_err(|_| Failure::Cancelled)?;
                drop(waiting);
                held = lock.clone().lock_owned().await;
                if let Some(worker) = self.take_idle(program, memory) {
                    return Ok((worker, held));
                }
                permit
            }
        };
        Ok((self.start(program, memory, permit).await?, held))
    }

    /// The worker for this program that was used last.
    fn take_idle(&self, program: &Program, memory: u64) -> Option<Worker> {
        loop {
            let worker = {
                let mut state = self.state.lock();
                let fits = |worker: &Worker| worker.memory == memory && worker.program.same(program);
                let at = state.idle.iter().rposition(fits)?;
                state.idle.remove(at)?
            };
            // One that died while nobody looked is no reason to fail a call.
            if worker.quiet() {
                return Some(worker);
            }
        }
    }

    async fn start(
        &self,
        program: &Arc<Program>,
        memory: u64,
        permit: OwnedSemaphorePermit,
    ) -> Result<Worker, Failure> {
        let generation = self
            .state
            .lock()
            .plugins
            .get(&program.key)
            .map_or(0, |plugin| plugin.generation);
        let file = match self.program.get() {
            Some(file) => file.clone(),
            None => {
                let opened = Arc::new(process::open_program(&self.options.worker)?);
                self.program.get_or_init(|| opened).clone()
            }
        };
        let name = self
            .options
            .worker
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let seat = Seat::new(permit, self.alive.clone());
        let (process, socket) = process::start(file, name, memory, seat).await?;
        Worker::greet(process, socket, program.clone(), memory, generation).await
    }

    /// Puts a worker to rest until its next call, unless it has no future.
    fn rest(inner: &Arc<Inner>, mut worker: Worker) {
        let mut state = inner.state.lock();
        let current = state.plugins.get(&worker.program.key).map(|plugin| plugin.generation);
        if state.waiting > 0 || current != Some(worker.generation) || *inner.stopping.borrow() {
            drop(state);
            drop(worker);
            return;
        }
        worker.idle_since = Instant::now();
        state.idle.push_back(worker);
        if state.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            let every = (inner.options.idle / 4).clamp(Duration::from_millis(10), Duration::from_secs(10));
            state.sweeper = Some(tokio::spawn(sweep(Arc::downgrade(inner), every)));
        }
    }
}

/// Ends workers that were idle too long and forgets plugins nothing is left of. Ends when nothing is idle, or with the
/// pool.
async fn sweep(inner: Weak<Inner>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = inner.upgrade() else { return };
        let mut state = inner.state.lock();
        let old = state.take_out(|worker| worker.idle_since.elapsed() >= inner.options.idle);
        let State { plugins, idle, .. } = &mut *state;
        plugins.retain(|key, plugin| plugin.calls > 0 || idle.iter().any(|worker| worker.program.key == *key));
        if state.idle.is_empty() {
            // Under the lock, so that a worker put to rest after this sees that nobody sweeps.
            state.sweeper = None;
            drop(state);
            drop(old);
            return;
        }
        drop(state);
        drop(old);
    }
}
