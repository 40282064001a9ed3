//! The worker, for this crate's own tests: the real one under its own name, and one that misbehaves when it is started
//! under a name beginning with `as-`. The product's worker (`chrysalis-worker`) has none of this in it.

use std::{collections::BTreeMap, ptr::null};

use sandbox::{
    frame::{self, FromWorker, ToWorker},
    worker::{channel::Channel, lock},
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

#[global_allocator]
static ALLOCATOR: sandbox::WorkerAllocator = sandbox::WorkerAllocator;

fn main() {
    let name = std::env::args().next().unwrap_or_default();
    let name = name.rsplit('/').next().unwrap_or_default();
    let Some(mode) = name.strip_prefix("as-") else {
        sandbox::worker_main()
    };
    if mode == "list" {
        for (name, _) in FORBIDDEN {
            println!("{name}");
        }
    } else if let Some(call) = mode.strip_prefix("twin-") {
        // The same call without any wall.
        attempt(call);
        std::process::exit(42);
    } else if let Some(call) = mode.strip_prefix("try-") {
        let channel = begin();
        attempt(call);
        done(&channel, "\"survived\"");
    } else {
        lie(mode);
    }
}

/// Everything up to the first line of a plugin, as the real worker does it.
fn begin() -> Channel {
    let channel = Channel::on_stdin();
    let note = lock::lock_down().expect("the walls");
    channel
        .send(&FromWorker::Hello {
            version: frame::VERSION,
            note,
        })
        .expect("hello");
    await_run(&channel);
    channel
}

fn await_run(channel: &Channel) {
    while !matches!(channel.receive(), Ok(ToWorker::Run { .. }) | Err(_)) {}
}

fn done(channel: &Channel, value: &str) {
    let done = FromWorker::Done {
        exported: true,
        value: value.into(),
        heap: 1,
        clean: true,
    };
    let _ = channel.send(&done);
    // Until the host closes the socket.
    while channel.receive().is_ok() {}
}

fn raw(bytes: &[u8]) {
    // SAFETY: writes bytes we have to descriptor 0.
    unsafe { libc::write(0, bytes.as_ptr().cast(), bytes.len()) };
}

/// Workers that lie.
fn lie(mode: &str) {
    match mode {
        "no-seccomp" => {
            // The kernel itself refuses any further filter: what the real worker meets where seccomp is missing.
            let rules = BTreeMap::from([(libc::SYS_seccomp, Vec::new())]);
            let refuse = SeccompAction::Errno(libc::ENOSYS as u32);
            let arch = std::env::consts::ARCH.try_into().expect("a known machine");
            let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).expect("a filter");
            let program: BpfProgram = filter.try_into().expect("a program");
            seccompiler::apply_filter(&program).expect("the filter");
            sandbox::worker_main()
        }
        "unlocked" => {
            let channel = Channel::on_stdin();
            let note = "seccomp, honestly".into();
            let _ = channel.send(&FromWorker::Hello {
                version: frame::VERSION,
                note,
            });
            await_run(&channel);
            done(&channel, "\"ran without walls\"");
        }
        "old" => {
            lock::lock_down().expect("the walls");
            let channel = Channel::on_stdin();
            let _ = channel.send(&FromWorker::Hello {
                version: 999,
                note: String::new(),
            });
            while channel.receive().is_ok() {}
        }
        "exit" => std::process::exit(7),
        _ => lie_later(mode),
    }
}

/// Those that pass for good workers until they should run something.
fn lie_later(mode: &str) {
    let channel = begin();
    let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    match mode {
        "garbage" => raw(b"HTTP/1.1 200 OK\r\n\r\n"),
        "huge" => raw(&[0xff, 0xff, 0xff, 0x7f, 65]),
        "empty" => raw(&[0, 0, 0, 0]),
        "unknown" => raw(&[1, 0, 0, 0, 200]),
        "cut" => raw(&[5, 0, 0, 0, 67, 1, 0, 0, 0]),
        "not-utf8" => raw(&[&[12, 0, 0, 0, 69, 1, 0, 0, 0, 255][..], &[1, 0, 0, 0, 255, 0]].concat()),
        "half" => raw(&[100, 0, 0, 0, 71]),
        "long" => {
            // Announces 60 MiB and sends nothing more: must cost the host nothing.
            raw(&(60u32 << 20).to_le_bytes())
        }
        "hello-again" => drop(channel.send(&FromWorker::Hello {
            version: frame::VERSION,
            note: String::new(),
        })),
        "waits-for-nothing" => drop(channel.send(&FromWorker::Waiting)),
        "talks-while-waiting" => {
            let call = FromWorker::Call {
                id: 1,
                method: "never".into(),
                args: "[]".into(),
            };
            let _ = channel.send(&call);
            let _ = channel.send(&FromWorker::Waiting);
            let _ = channel.send(&FromWorker::Log {
                level: "info".into(),
                line: "psst".into(),
            });
        }
        "not-json" => done(&channel, "{"),
        "deep" => done(&channel, &"[".repeat(1 << 20)),
        "bomb" => done(&channel, &format!("[{}0]", "0,".repeat(8 << 20))),
        "two-answers" => {
            let done = FromWorker::Done {
                exported: true,
                value: "1".into(),
                heap: 1,
                clean: true,
            };
            let frame = done.encode().expect("a frame");
            raw(&[&frame[..], &frame[..]].concat());
        }
        "log-flood" => loop {
            let frame = [&[69][..], &text("info"), &text(&"x".repeat(5000))].concat();
            raw(&[&(frame.len() as u32).to_le_bytes()[..], &frame[..]].concat());
        },
        "call-flood" => {
            for id in 0.. {
                let call = FromWorker::Call {
                    id,
                    method: "never".into(),
                    args: "[]".into(),
                };
                if channel.send(&call).is_err() {
                    break;
                }
            }
        }
        "deaf" => loop {
            std::hint::spin_loop();
        },
        other => panic!("no such mode: {other}"),
    }
    // Until it is killed.
    while channel.receive().is_ok() {}
}

type Attempt = fn() -> libc::c_long;

macro_rules! call {
    ($name:ident $(, $argument:expr)*) => {
        // SAFETY: arguments are integers, null, or pointers to constants; the call is not expected to return when the
        // walls stand, and harmless without them.
        || unsafe { libc::syscall(libc::$name $(, $argument)*) }
    };
}

const ROOT: *const libc::c_char = c"/".as_ptr();
const MISSING: *const libc::c_char = c"/nonexistent/nothing".as_ptr();
const READ: libc::c_int = libc::PROT_READ;
const EXEC: libc::c_int = libc::PROT_READ | libc::PROT_EXEC;
const PRIVATE: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;

/// What a worker must die of. Each does no harm where no wall stands.
const FORBIDDEN: &[(&str, Attempt)] = &[
    ("open", call!(SYS_openat, libc::AT_FDCWD, ROOT, libc::O_RDONLY)),
    ("openat2", call!(SYS_openat2, libc::AT_FDCWD, ROOT, null::<u8>(), 0)),
    ("stat", call!(SYS_newfstatat, libc::AT_FDCWD, ROOT, null::<u8>(), 0)),
    ("statx", call!(SYS_statx, libc::AT_FDCWD, ROOT, 0, 0, null::<u8>())),
    (
        "readlink",
        call!(SYS_readlinkat, libc::AT_FDCWD, MISSING, null::<u8>(), 0),
    ),
    ("unlink", call!(SYS_unlinkat, libc::AT_FDCWD, MISSING, 0)),
    ("mkdir", call!(SYS_mkdirat, libc::AT_FDCWD, MISSING, 0)),
    (
        "rename",
        call!(SYS_renameat2, libc::AT_FDCWD, MISSING, libc::AT_FDCWD, MISSING, 0),
    ),
    ("chmod", call!(SYS_fchmodat, libc::AT_FDCWD, MISSING, 0)),
    ("getdents", call!(SYS_getdents64, -1, null::<u8>(), 0)),
    (
        "name-to-handle",
        call!(
            SYS_name_to_handle_at,
            libc::AT_FDCWD,
            MISSING,
            null::<u8>(),
            null::<u8>(),
            0
        ),
    ),
    ("socket", call!(SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)),
    ("socket-udp", call!(SYS_socket, libc::AF_INET, libc::SOCK_DGRAM, 0)),
    ("socket-unix", call!(SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0)),
    (
        "socketpair",
        call!(SYS_socketpair, libc::AF_UNIX, libc::SOCK_STREAM, 0, null::<u8>()),
    ),
    ("connect", call!(SYS_connect, -1, null::<u8>(), 0)),
    ("bind", call!(SYS_bind, -1, null::<u8>(), 0)),
    ("sendmsg", call!(SYS_sendmsg, -1, null::<u8>(), 0)),
    ("recvmsg", call!(SYS_recvmsg, 0, null::<u8>(), 0)),
    ("execve", call!(SYS_execve, MISSING, null::<u8>(), null::<u8>())),
    (
        "execveat",
        call!(SYS_execveat, libc::AT_FDCWD, MISSING, null::<u8>(), null::<u8>(), 0),
    ),
    ("clone", call!(SYS_clone, libc::CLONE_THREAD, 0, 0, 0, 0)),
    ("clone3", call!(SYS_clone3, null::<u8>(), 0)),
    ("unshare", call!(SYS_unshare, 0)),
    ("setns", call!(SYS_setns, -1, 0)),
    ("ptrace", call!(SYS_ptrace, libc::PTRACE_DETACH, 0, 0, 0)),
    (
        "process-vm-readv",
        call!(SYS_process_vm_readv, 1, null::<u8>(), 0, null::<u8>(), 0, 0),
    ),
    (
        "process-vm-writev",
        call!(SYS_process_vm_writev, 1, null::<u8>(), 0, null::<u8>(), 0, 0),
    ),
    ("pidfd-open", call!(SYS_pidfd_open, 1, 0)),
    ("kill", call!(SYS_kill, 0x3fff_ffff, 0)),
    ("tgkill", call!(SYS_tgkill, 0x3fff_ffff, 0x3fff_ffff, 0)),
    ("getppid", call!(SYS_getppid)),
    ("mmap-exec", call!(SYS_mmap, null::<u8>(), 4096, EXEC, PRIVATE, -1, 0)),
    ("mprotect-exec", || {
        // SAFETY: maps a fresh page and asks to make just that one executable.
        unsafe {
            let page = libc::mmap(std::ptr::null_mut(), 4096, READ, PRIVATE, -1, 0);
            libc::syscall(libc::SYS_mprotect, page, 4096, EXEC)
        }
    }),
    ("pkey-mprotect", call!(SYS_pkey_mprotect, 0, 4096, EXEC, -1)),
    ("memfd-create", call!(SYS_memfd_create, c"x".as_ptr(), 0)),
    ("shmget", call!(SYS_shmget, 0, 4096, 0)),
    ("io-uring-setup", call!(SYS_io_uring_setup, 0, null::<u8>())),
    ("bpf", call!(SYS_bpf, 0, null::<u8>(), 0)),
    (
        "perf-event-open",
        call!(SYS_perf_event_open, null::<u8>(), 0, -1, -1, 0),
    ),
    ("userfaultfd", call!(SYS_userfaultfd, -1)),
    (
        "mount",
        call!(SYS_mount, null::<u8>(), MISSING, null::<u8>(), 0, null::<u8>()),
    ),
    ("umount", call!(SYS_umount2, MISSING, 0)),
    ("chroot", call!(SYS_chroot, MISSING)),
    ("pivot-root", call!(SYS_pivot_root, MISSING, MISSING)),
    ("keyctl", call!(SYS_keyctl, 0, 0, 0, 0, 0)),
    ("prctl", call!(SYS_prctl, libc::PR_GET_DUMPABLE, 0, 0, 0, 0)),
    ("seccomp", call!(SYS_seccomp, 0xffff, 0, null::<u8>())),
    ("setuid", call!(SYS_setuid, 65534)),
    ("setrlimit", call!(SYS_prlimit64, 0, 0xffff, null::<u8>(), null::<u8>())),
    ("inotify", call!(SYS_inotify_init1, 0)),
    ("epoll-create", call!(SYS_epoll_create1, 0)),
    ("eventfd", call!(SYS_eventfd2, 0, 0)),
    ("dup", call!(SYS_dup, 0)),
    ("fcntl", call!(SYS_fcntl, 0, libc::F_GETFD)),
    ("ioctl", call!(SYS_ioctl, 0, libc::FIONREAD, null::<u8>())),
    ("sigaction", call!(SYS_rt_sigaction, 0, null::<u8>(), null::<u8>(), 8)),
    ("reboot", call!(SYS_reboot, 0, 0, 0, null::<u8>())),
    // A number beyond all, and the same `getppid` through the 32-bit numbers of x86-64.
    ("no-such-call", || {
        // SAFETY: no arguments.
        unsafe { libc::syscall(9999) }
    }),
    ("x32", || {
        // SAFETY: no arguments.
        unsafe { libc::syscall(0x4000_0000 | libc::SYS_getppid) }
    }),
];

/// Calls the worker lives by, which must go on working behind the walls.
fn allowed() {
    // SAFETY: each call is given integers or memory of its own.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 8192, READ | libc::PROT_WRITE, PRIVATE, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(page, 4096, READ), 0);
        assert_eq!(libc::madvise(page, 4096, libc::MADV_DONTNEED), 0);
        assert_eq!(libc::munmap(page, 8192), 0);
        let mut time: libc::timespec = std::mem::zeroed();
        assert_eq!(
            libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time),
            0
        );
        let mut bytes = [0u8; 8];
        assert_eq!(libc::getrandom(bytes.as_mut_ptr().cast(), 8, 0), 8);
        assert_eq!(libc::sched_yield(), 0);
    }
}

fn attempt(name: &str) {
    if name == "allowed" {
        return allowed();
    }
    let found = FORBIDDEN.iter().find(|(known, _)| *known == name);
    let (_, call) = found.unwrap_or_else(|| panic!("no such call: {name}"));
    call();
}
