use std::time::{Duration, Instant};

use cap_fs_ext::DirExt;

use super::path::WRITING;
use super::shared::State;
use crate::{FileError, Folder, Kind, MAX_DEPTH};

/// After this long the tree is counted anew: other programs write there too.
const RECOUNT: Duration = Duration::from_secs(600);
/// What disks hand out at least (ext4, APFS and NTFS: 4 KiB by default).
const BLOCK: u64 = 4096;
/// Guests make no deeper trees; what others made below that is not counted.
const DEEP: usize = MAX_DEPTH * 2;

/// What a file of `len` bytes takes up: whole blocks of 4 KiB, and one even when it is empty, since a name takes room
/// as well. A folder takes up one.
pub fn cost(len: u64) -> u64 {
    len.div_ceil(BLOCK).max(1).saturating_mul(BLOCK)
}

/// What is at `name` in `folder`, all in all; 0 where it cannot be read.
pub(super) fn measure(folder: &Folder, name: &str) -> u64 {
    let Ok(about) = folder.dir.symlink_metadata(name) else {
        return 0;
    };
    let mut sum = 0;
    match Kind::of(about.file_type()) {
        Kind::File => sum = cost(about.len()),
        Kind::Folder => {
            sum = cost(0);
            if let Ok(inner) = folder.dir.open_dir_nofollow(name) {
                add(&Folder::of(inner), 1, u64::MAX, &mut sum);
            }
        }
        Kind::Link | Kind::Special => {}
    }
    sum
}

/// Adds up what is in `folder`, until `sum` is above `limit`.
fn add(folder: &Folder, depth: usize, limit: u64, sum: &mut u64) {
    let Ok(entries) = folder.dir.entries() else {
        return;
    };
    for entry in entries.flatten() {
        if *sum > limit {
            return;
        }
        match entry.file_type().map(Kind::of) {
            Ok(Kind::File) => *sum = sum.saturating_add(entry.metadata().map_or(0, |about| cost(about.len()))),
            Ok(Kind::Folder) => {
                if entry.file_name() != WRITING {
                    *sum = sum.saturating_add(cost(0));
                }
                if depth < DEEP
                    && let Ok(inner) = folder.dir.open_dir_nofollow(entry.file_name())
                {
                    add(&Folder::of(inner), depth + 1, limit, sum);
                }
            }
            _ => {}
        }
    }
}

pub(super) fn counted(state: &mut State, root: &Folder, limit: u64) -> Result<u64, FileError> {
    if let Some((sum, at)) = state.usage
        && at.elapsed() < RECOUNT
    {
        return Ok(sum);
    }
    let mut sum = 0;
    add(root, 1, limit, &mut sum);
    // A count that was cut short is no count.
    state.usage = (sum <= limit).then(|| (sum, Instant::now()));
    Ok(sum)
}

pub(super) fn grow(state: &mut State, bytes: u64) {
    if let Some((sum, _)) = &mut state.usage {
        *sum = sum.saturating_add(bytes);
    }
}

pub(super) fn shrink(state: &mut State, bytes: u64) {
    if let Some((sum, _)) = &mut state.usage {
        *sum = sum.saturating_sub(bytes);
    }
}
