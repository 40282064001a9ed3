//! The processes of all plugins: who gets which, and when they go.

use std::{
    collections::{HashMap, VecDeque},
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore, oneshot, watch},
    task::JoinHandle,
};

use crate::{
    places::{Place, Places},
    process::{self, Seat},
    program::{Call, Failure, Host, Limits, Outcome, Program},
    run::{self, Worker},
};

/// Bytes of a program from which on two workers take turns when calls come one after another: after each call a worker
/// frees the context and loads the module anew, and with 200 KB of source that takes as long as the call itself
/// (0.7 ms, measured). The second worker does it while the first one answers.
const LARGE: usize = 64 << 10;
/// How long after its call a worker may still be at that.
const TIDYING: Duration = Duration::from_millis(3);

/// How a pool works.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// The worker program (`chrysalis-worker`). Opened at the first call; a change of the file later has no effect.
    pub worker: PathBuf,
    /// Most worker processes at any moment, at least 1. Each waiting call keeps one. From 5 on, a chain of calls that wait
    /// for each other always gets on: up to a quarter of the places (4 of them, below 32) are kept for deeper calls than
    /// the outermost ones ([`crate::Limits::depth`]). With fewer, chains as long as this number can wait for each other
    /// until [`crate::Limits::queue`] ends them. One plugin's calls never take the last places: of 32, it can have 21, of 8,
    /// two, of 4, one; its further calls wait their turn while those of other apps go on.
    pub max_alive: usize,
    /// How long a worker without work is kept.
    pub idle: Duration,
}

/// Runs calls on worker processes. Dropping it kills them.
pub struct Pool(Arc<Inner>);

struct Inner {
    options: PoolOptions,
    /// Who may be under way. A call takes one of these first; a process is then always to be had.
    places: Arc<Places>,
    /// Processes, under way, idle or just dying.
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
    /// Calls that have a place and wait for a process to be gone. While there are any, no worker is put to rest.
    waiting: usize,
    /// Calls under way, each with its plugin's key and the way to stop it.
    running: HashMap<u64, (String, oneshot::Sender<()>)>,
    next: u64,
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
        let most = options.max_alive.clamp(1, Semaphore::MAX_PERMITS);
        let seats = Semaphore::new(most);
        Pool(Arc::new(Inner {
            options,
            places: Places::new(most),
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
        let (under_way, stopped) = UnderWay::begin(inner, program);
        let ended_from_outside = async {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stopping| *stopping) => Failure::Cancelled,
                // The sending half goes away only when it was used, or with this call.
                _ = stopped => Failure::Stopped,
            }
        };
        tokio::pin!(ended_from_outside);
        let waited = call.limits.queue;
        let (worker, held, place) = tokio::select! {
            biased;
            failure = &mut ended_from_outside => return Err(failure),
            got = tokio::time::timeout(waited, inner.worker(program, &call, &under_way.lock)) => {
                got.map_err(|_| Failure::Busy { waited })??
            }
        };
        let ended = run::run(worker, under_way.lock.clone(), held, &call, &host, ended_from_outside).await;
        if let Some(worker) = ended.worker.filter(|_| !call.limits.own) {
            Inner::rest(inner, worker);
        }
        // After the worker was put to rest: the next call may be one that can use it.
        drop(place);
        ended.result
    }

    /// Ends the calls of all plugins whose [`Program::key`] fits, at once, with [`Failure::Stopped`], those that still
    /// wait for their turn included; their workers are killed, idle ones too. Says how many calls that were. What a call
    /// asked of the host and what runs on a blocking thread there ([`Host::lengthy`]) may still come to its end.
    pub fn stop(&self, which: impl Fn(&str) -> bool) -> usize {
        let mut state = self.0.state.lock();
        let keys = state.plugins.iter_mut().filter(|(key, _)| which(key));
        keys.for_each(|(_, plugin)| plugin.generation += 1);
        let idle = state.take_out(|worker| which(&worker.program.key));
        let calls: Vec<_> = state.running.extract_if(|_, (key, _)| which(key)).collect();
        drop(state);
        drop(idle);
        let count = calls.len();
        for (_, (_, stop)) in calls {
            // One that has just ended does not listen any more.
            let _ = stop.send(());
        }
        count
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
    id: u64,
    lock: Arc<Mutex<()>>,
}

impl<'a> UnderWay<'a> {
    fn begin(inner: &'a Arc<Inner>, program: &'a Arc<Program>) -> (UnderWay<'a>, oneshot::Receiver<()>) {
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
        let (stop, stopped) = oneshot::channel();
        let id = state.next;
        state.next += 1;
        state.running.insert(id, (program.key.clone(), stop));
        let old = state.take_out(|worker| worker.program.key == program.key && !worker.program.same(program));
        drop(state);
        drop(old);
        let under_way = UnderWay {
            inner,
            key: &program.key,
            id,
            lock,
        };
        (under_way, stopped)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        state.running.remove(&self.id);
        if let Some(plugin) = state.plugins.get_mut(self.key) {
            plugin.calls -= 1;
        }
    }
}

/// Counts a call as waiting for a process to be gone, and out again.
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
    /// A worker for this program, the plugin's lock and a place. The lock comes first, so that calls that wait for it take
    /// no place; only where there is no free place is it waited for without the lock, because the calls that sit on them
    /// may need the lock to end.
    async fn worker(
        &self,
        program: &Arc<Program>,
        call: &Call,
        lock: &Arc<Mutex<()>>,
    ) -> Result<(Worker, OwnedMutexGuard<()>, Place), Failure> {
        let Limits { memory, depth, own, .. } = call.limits;
        let mut held = lock.clone().lock_owned().await;
        let place = match self.places.try_take(&program.key, depth) {
            Some(place) => place,
            None => {
                drop(held);
                let place = self.places.take(&program.key, depth).await.ok_or(Failure::Cancelled)?;
                held = lock.clone().lock_owned().await;
                place
            }
        };
        if !own && let Some(worker) = self.take_idle(program, memory) {
            return Ok((worker, held, place));
        }
        // Calls with a place are never more than processes may be, so that one is free, or idle and can go, or is just
        // being killed.
        let permit = match self.seats.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _waiting = Waiting::begin(self);
                let permit = self.seats.clone().acquire_owned().await;
                permit.map_err(|_| Failure::Cancelled)?
            }
        };
        Ok((self.start(program, memory, permit).await?, held, place))
    }

    /// The worker for this program that was used last; of a large program the one that has rested longest, or none where
    /// its only one is probably still putting the last call away and another may be started (see [`LARGE`]).
    fn take_idle(&self, program: &Program, memory: u64) -> Option<Worker> {
        let in_turns = program.source.len() >= LARGE && !program.persistent;
        loop {
            let worker = {
                let mut state = self.state.lock();
                let fits = |worker: &Worker| worker.memory == memory && worker.program.same(program);
                let at = if in_turns {
                    let at = state.idle.iter().position(fits)?;
                    let alone = state.idle.iter().filter(|worker| fits(worker)).count() == 1;
                    let busy = state.idle[at].idle_since.elapsed() < TIDYING;
                    if alone && busy && self.seats.available_permits() > 0 {
                        return None;
                    }
                    at
                } else {
                    state.idle.iter().rposition(fits)?
                };
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
