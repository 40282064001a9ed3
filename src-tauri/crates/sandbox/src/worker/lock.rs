//! The walls a worker puts up around itself, before it sees a byte of any plugin.
//!
//! seccomp is the layer that counts: without it a worker does not start. Memory-deny-write-execute and Landlock stand
//! behind it and are used where the kernel has them. Measured on Linux 6.18: Landlock alone let `stat`, UDP, unix
//! sockets and `fork` through.

use std::{collections::BTreeMap, io};

use landlock::{ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus, Scope};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// System calls a worker may make with any arguments. Everything else kills the process, except `mmap` and `mprotect`
/// without `PROT_EXEC`.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_futex,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_getrandom,
    libc::SYS_restart_syscall,
];

/// `PR_SET_MDWE` and its flag, Linux 6.3; not in every version of the C library's headers.
const PR_SET_MDWE: libc::c_int = 65;
const PR_MDWE_REFUSE_EXEC_GAIN: libc::c_ulong = 1;

/// Puts up all walls. The text names those that stand, for the log. An error means that the process must end without
/// running anything.
pub fn lock_down() -> Result<String, String> {
    set(libc::PR_SET_DUMPABLE, 0).map_err(|error| format!("it cannot be hidden from debuggers: {error}"))?;
    set(libc::PR_SET_NO_NEW_PRIVS, 1).map_err(|error| format!("no_new_privs cannot be set: {error}"))?;
    let execute = match set(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN) {
        Ok(()) => "mdwe",
        Err(_) => "no mdwe",
    };
    let files = match landlock_nothing() {
        Ok(RulesetStatus::FullyEnforced) => "landlock",
        Ok(RulesetStatus::PartiallyEnforced) => "landlock in part",
        Ok(RulesetStatus::NotEnforced) | Err(_) => "no landlock",
    };
    let filter = filter().map_err(|error| format!("the seccomp filter could not be built: {error}"))?;
    seccompiler::apply_filter(&filter).map_err(|error| format!("seccomp could not be installed: {error}"))?;
    Ok(format!("seccomp, {execute}, {files}"))
}

fn set(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    let none: libc::c_ulong = 0;
    // SAFETY: prctl with integers only.
    match unsafe { libc::prctl(option, value, none, none, none) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Every right that Landlock knows, given to nothing.
fn landlock_nothing() -> Result<RulesetStatus, landlock::RulesetError> {
    // The newest version the library knows of; best effort takes what this kernel has of it.
    let abi = ABI::V7;
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .restrict_self()?;
    Ok(status.ruleset)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED.iter().map(|&call| (call, Vec::new())).collect();
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        // The third argument of both is the protection.
        let no_execute = SeccompCondition::new(
            2,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64),
            0,
        )?;
        rules.insert(call, vec![SeccompRule::new(vec![no_execute])?]);
    }
    SeccompFilter::new(
        rules,
        SeccompAction::KillProcess,
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()
}
