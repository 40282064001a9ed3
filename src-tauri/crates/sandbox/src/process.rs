//! Starting a worker process, proving its walls, and getting rid of it.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, OnceLock, mpsc},
    thread,
};

use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};

use crate::program::Ending;

/// Address space a worker gets on top of the JavaScript heap: program, libraries, stack, frames, and the allocator's
/// slack. Measured: the engine itself crashes less often when allocation outside its heap still works.
const ROOM: u64 = 448 << 20;

/// The user and group `nobody`, which a worker becomes where the engine runs as root.
const NOBODY: u32 = 65534;

/// Descriptors a worker may have open while it starts (libraries, the Landlock ruleset). It keeps three.
const DESCRIPTORS: u64 = 16;

/// One of the pool's places for a process. Held until the process is gone from the process table, so that the pool's
/// limit counts processes and not intentions.
pub struct Seat {
    _permit: OwnedSemaphorePermit,
    alive: Arc<watch::Sender<usize>>,
}

impl Seat {
    pub fn new(permit: OwnedSemaphorePermit, alive: Arc<watch::Sender<usize>>) -> Seat {
        alive.send_modify(|n| *n += 1);
        Seat { _permit: permit, alive }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.alive.send_modify(|n| *n = n.saturating_sub(1));
    }
}

/// A running worker process. Dropping it kills the process; it is then waited for on a thread of its own.
pub struct Process {
    body: Option<(Child, Seat)>,
    pid: u32,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills the process and waits until it is gone. Says how it ended, which is not by this kill when it had died
    /// before.
    pub async fn end(mut self) -> Ending {
        let (tell, told) = oneshot::channel();
        self.hand_over(Some(tell));
        match told.await {
            Ok(Ok(status)) => match (status.signal(), status.code()) {
                (Some(signal), _) => Ending::Signal(signal),
                (_, Some(code)) => Ending::Exit(code),
                _ => Ending::Unknown,
            },
            _ => Ending::Unknown,
        }
    }

    fn hand_over(&mut self, tell: Option<oneshot::Sender<io::Result<ExitStatus>>>) {
        if let Some((mut child, seat)) = self.body.take() {
            // At once, on this thread: the deadline is kept by this line. An error means that it is gone already.
            let _ = child.kill();
            threads().reap(Reap { child, seat, tell });
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.hand_over(None);
    }
}

struct Spawn {
    program: Arc<OwnedFd>,
    name: String,
    memory: u64,
    seat: Seat,
    tell: oneshot::Sender<io::Result<(Process, UnixStream)>>,
}

struct Reap {
    child: Child,
    seat: Seat,
    tell: Option<oneshot::Sender<io::Result<ExitStatus>>>,
}

/// The two threads that live as long as this program. Starting needs one because a worker is killed by the kernel when
/// the *thread* that started it ends (`PR_SET_PDEATHSIG`), and the threads of an async runtime come and go. Waiting
/// needs another because tearing down 64 MiB takes milliseconds in which nothing could be started.
struct Threads {
    spawn: mpsc::Sender<Spawn>,
    reap: mpsc::Sender<Reap>,
}

impl Threads {
    fn reap(&self, reap: Reap) {
        if let Err(mpsc::SendError(mut reap)) = self.reap.send(reap) {
            let _ = reap.child.wait();
        }
    }
}

fn threads() -> &'static Threads {
    static THREADS: OnceLock<Threads> = OnceLock::new();
    THREADS.get_or_init(|| {
        let (spawn, jobs) = mpsc::channel::<Spawn>();
        // A thread that cannot be started leaves a closed channel, which every caller takes as a failed start.
        let _ = thread::Builder::new().name("sandbox-spawn".into()).spawn(move || {
            for job in jobs {
                let started = start_now(&job.program, &job.name, job.memory);
                let answer = started.map(|(child, socket)| {
                    let pid = child.id();
                    (
                        Process {
                            body: Some((child, job.seat)),
                            pid,
                        },
                        socket,
                    )
                });
                // Nobody waits any more: dropping the answer kills the process.
                let _ = job.tell.send(answer);
            }
        });
        let (reap, jobs) = mpsc::channel::<Reap>();
        let _ = thread::Builder::new().name("sandbox-reap".into()).spawn(move || {
            for mut job in jobs {
                let status = job.child.wait();
                drop(job.seat);
                if let Some(tell) = job.tell {
                    let _ = tell.send(status);
                }
            }
        });
        Threads { spawn, reap }
    })
}

/// Opens the worker program. It is later executed through this descriptor: the path to it may lead through folders
/// that `nobody` cannot enter, and what was opened once cannot be swapped under a running engine.
pub fn open_program(path: &Path) -> io::Result<OwnedFd> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_CLOEXEC)
        .open(path)
        .map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("the worker program {} cannot be opened: {error}", path.display()),
            )
        })?;
    Ok(file.into())
}

/// Starts a worker with everything that has to be set before its program begins. Its socket comes back non-blocking.
pub async fn start(program: Arc<OwnedFd>, name: String, memory: u64, seat: Seat) -> io::Result<(Process, UnixStream)> {
    let (tell, told) = oneshot::channel();
    let gone = || io::Error::other("the thread that starts workers is not running");
    threads()
        .spawn
        .send(Spawn {
            program,
            name,
            memory,
            seat,
            tell,
        })
        .map_err(|_| gone())?;
    told.await.map_err(|_| gone())?
}

fn start_now(program: &OwnedFd, name: &str, memory: u64) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let parent = std::process::id();
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command
        .arg0(name)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: `confine` makes only async-signal-safe system calls and does not allocate.
    unsafe { command.pre_exec(move || confine(parent, memory)) };
    Ok((command.spawn()?, ours))
}

/// Runs in the forked child, before the worker program.
fn confine(parent: u32, memory: u64) -> io::Result<()> {
    fn check(result: libc::c_int) -> io::Result<()> {
        if result == -1 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
    fn limit(resource: libc::__rlimit_resource_t, value: u64) -> io::Result<()> {
        let limit = libc::rlimit {
            rlim_cur: value as libc::rlim_t,
            rlim_max: value as libc::rlim_t,
        };
        // SAFETY: `limit` is a valid rlimit for the time of the call.
        check(unsafe { libc::setrlimit(resource, &limit) })
    }
    // SAFETY: plain system calls with integers or null pointers as the kernel documents them.
    unsafe {
        check(libc::setsid())?;
        limit(libc::RLIMIT_AS, memory.saturating_add(ROOM))?;
        limit(libc::RLIMIT_CORE, 0)?;
        limit(libc::RLIMIT_FSIZE, 0)?;
        limit(libc::RLIMIT_NOFILE, DESCRIPTORS)?;
        if libc::geteuid() == 0 {
            // In a user namespace without that id (some containers) root is nobody's root and these fail with EINVAL;
            // the worker then stays what it is, behind all the other walls.
            let unmapped = |result: io::Result<()>| match result {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                other => other,
            };
            unmapped(check(
                libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) as libc::c_int
            ))?;
            unmapped(check(
                libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) as libc::c_int
            ))?;
            unmapped(check(
                libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) as libc::c_int
            ))?;
        }
        // After the change of user: before it, the kernel would refuse to run a program for a user that already has
        // more processes than this.
        limit(libc::RLIMIT_NPROC, 1)?;
        // Also after it, because changing the user clears this setting.
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        if libc::getppid() as u32 != parent {
            // The engine ended between the fork and the line above: no signal will come.
            libc::_exit(1);
        }
        check(libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) as libc::c_int)?;
    }
    Ok(())
}

/// Asks the kernel, not the worker, whether the seccomp filter is in place and privileges cannot be gained.
pub fn check_walls(pid: u32) -> Result<(), String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|error| format!("/proc/{pid}/status, which proves the lock, cannot be read: {error}"))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    // 2 is SECCOMP_MODE_FILTER.
    match (field("Seccomp:"), field("NoNewPrivs:")) {
        (Some("2"), Some("1")) => Ok(()),
        (seccomp, privileges) => Err(format!(
            "the worker reported ready, but the kernel says otherwise: seccomp mode {}, no_new_privs {}",
            seccomp.unwrap_or("unknown"),
            privileges.unwrap_or("unknown"),
        )),
    }
}

/// The most memory the process ever had resident, in bytes. 0 when it cannot be read.
pub fn peak_memory(pid: u32) -> u64 {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return 0;
    };
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0u64) << 10
}
