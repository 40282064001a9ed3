//! What this process is kept from doing.

/// Keys are in this process's memory, so none of it may end up in a core dump.
pub fn no_core_dumps() {
    #[cfg(target_os = "linux")]
    {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: a plain system call with a struct that lives throughout.
        unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
        // The limit does not count where the system pipes dumps to a program; an empty filter leaves such a dump without
        // any of our memory.
        let _ = std::fs::write("/proc/self/coredump_filter", "0");
    }
}
