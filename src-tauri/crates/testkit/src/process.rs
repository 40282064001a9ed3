//! A look at processes through `/proc`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The processes that `pid` started, directly.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if parent(child) == Some(pid) {
            found.push(child);
        }
    }
    found
}

/// `pid` and all that it started, and all that those started.
pub fn tree(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    all
}

fn stat(pid: u32) -> Option<(String, Vec<String>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, rest) = text.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    Some((name, rest.split_whitespace().map(str::to_owned).collect()))
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.1.get(1)?.parse().ok()
}

/// The first 15 characters of its program's name; empty when it is gone.
pub fn name(pid: u32) -> String {
    stat(pid).map(|(name, _)| name).unwrap_or_default()
}

/// Whether it runs: there, and not merely waiting to be reaped.
pub fn runs(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, fields)| !matches!(fields.first().map(String::as_str), Some("Z" | "X") | None))
}

/// Its command line; empty when it is gone.
pub fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_owned()
}

/// The plugin workers of the engine with this process id. They are started from a descriptor, so that only their command
/// line says what they are.
pub fn workers(engine: u32) -> Vec<u32> {
    let all = children(engine).into_iter();
    all.filter(|pid| command_line(*pid).starts_with("chrysalis-worker") && runs(*pid))
        .collect()
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Private memory of a process, in bytes.
pub fn private_memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with("Private_"));
    let kib = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.sum::<u64>() * 1024
}

/// Memory of the process alone that is no file's, in bytes: what it allocated. Pages of the program's file come and go as
/// the system likes, and are another's too while the same program runs twice.
pub fn anonymous_memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Anonymous:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// How often `needle` stands in the readable memory of a process, and how many bytes were looked at.
pub fn memory_holds(pid: u32, needle: &[u8]) -> std::io::Result<(usize, u64)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let memory = File::open(format!("/proc/{pid}/mem"))?;
    let (mut found, mut read) = (0, 0);
    let mut piece = vec![0; 4 << 20];
    for line in maps.lines() {
        let mut fields = line.split_whitespace();
        let (range, rights) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
        let Some((from, to)) = range.split_once('-') else {
            continue;
        };
        let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16)) else {
            continue;
        };
        if !rights.starts_with('r') || line.ends_with("[vvar]") || line.ends_with("[vsyscall]") {
            continue;
        }
        let mut at = from;
        while at < to {
            let want = piece.len().min((to - at) as usize);
            match memory.read_at(&mut piece[..want], at) {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    found += count(&piece[..n], needle);
                    read += n as u64;
                    // Overlapping, so that nothing hides across two pieces.
                    at += if n > needle.len() && at + (n as u64) < to {
                        (n - needle.len()) as u64
                    } else {
                        n as u64
                    };
                }
            }
        }
    }
    Ok((found, read))
}

fn count(bytes: &[u8], needle: &[u8]) -> usize {
    let (first, mut at, mut found) = (needle[0], 0, 0);
    while let Some(next) = bytes[at..].iter().position(|b| *b == first) {
        at += next;
        if bytes[at..].starts_with(needle) {
            found += 1;
        }
        at += 1;
    }
    found
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: i32) {
    let pid = i32::try_from(pid).expect("a process id");
    assert!(pid > 1, "only processes of this test");
    // SAFETY: a plain system call.
    unsafe { libc::kill(pid, signal) };
}
