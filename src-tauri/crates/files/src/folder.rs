use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use cap_fs_ext::{DirExt, FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use sha2::{Digest, Sha256};

use crate::{FileError, Kind, check_path};

/// Most entries [`Folder::list`] returns; a folder with more is an error, since guests can make any number.
pub const MAX_ENTRIES: usize = 10_000;

/// How often a file is opened that is replaced in the same moment, before that is an error.
const OPENINGS: usize = 100;

/// An open directory, and the root of every path given to it. Cheap to clone.
///
/// All calls block on the disk: from asynchronous code, use them inside `spawn_blocking`.
#[derive(Clone)]
pub struct Folder {
    pub(crate) dir: Arc<Dir>,
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The handle's own Debug prints the absolute path, which would end up in logs and errors.
        f.write_str("Folder")
    }
}

/// A regular file inside its folder, opened, checked, and with a single name on disk.
#[derive(Debug)]
pub struct Contained {
    pub file: std::fs::File,
    /// Bytes.
    pub len: u64,
    pub modified: Option<SystemTime>,
    /// 32 hex digits that change when the file is replaced or written (device, inode, length, times); the same length
    /// written twice within the file system's clock tick is the one change it cannot see.
    pub stamp: String,
}

impl Contained {
    /// Up to `count` bytes from `offset` on; fewer only where the file ends. Room is made for what comes, not for `count`.
    pub fn read_at(&self, offset: u64, count: usize) -> io::Result<Vec<u8>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(offset))?;
        let expected = self.len.saturating_sub(offset).min(count as u64);
        let mut bytes = Vec::with_capacity(expected as usize);
        file.take(count as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The whole file as it is now; `None` when that is more than `limit` bytes, whatever length it claimed.
    pub fn read_whole(self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        if self.len > limit {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(self.len as usize);
        self.file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= limit).then_some(bytes))
    }
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As on disk. A name that is not UTF-8 is shown with U+FFFD and so cannot be opened by it.
    pub name: String,
    pub kind: Kind,
}

impl Folder {
    /// Opens the trusted root. `path` must come from us or from the machine's owner, never from a guest: links in it
    /// are followed. Errors do not repeat it.
    pub fn open_ambient(path: &Path) -> Result<Self, FileError> {
        let dir = Dir::open_ambient_dir(path, ambient_authority()).map_err(|e| FileError::io(".", e))?;
        Ok(Self::of(dir))
    }

    /// As [`Folder::open_ambient`], making the folder and its parents when they are missing.
    pub fn create_ambient(path: &Path) -> Result<Self, FileError> {
        Dir::create_ambient_dir_all(path, ambient_authority()).map_err(|e| FileError::io(".", e))?;
        Self::open_ambient(path)
    }

    pub(crate) fn of(dir: Dir) -> Self {
        Self { dir: Arc::new(dir) }
    }

    /// The folder at `path`, as a root of its own.
    pub fn sub(&self, path: &str) -> Result<Self, FileError> {
        let names = check_path(path).map_err(|e| FileError::name(path, e))?;
        self.descend(path, &names)
    }

    /// Walks down one name at a time, each opened from the handle of the one before and never through a link.
    pub(crate) fn descend(&self, path: &str, names: &[&str]) -> Result<Self, FileError> {
        let mut at = self.clone();
        let mut end = 0;
        for name in names {
            end += name.len();
            let opened = at.dir.open_dir_nofollow(name);
            at = Self::of(opened.map_err(|e| at.explain(name, &path[..end], e, Kind::Folder))?);
            end += 1;
        }
        Ok(at)
    }

    /// The parent folder of `path` and its last name.
    pub(crate) fn parent<'a>(&self, path: &'a str) -> Result<(Self, &'a str), FileError> {
        let names = check_path(path).map_err(|e| FileError::name(path, e))?;
        let (last, above) = names.split_last().expect("check_path gives at least one name");
        Ok((self.descend(path, above)?, last))
    }

    /// Turns a failed open into what stands there, when that is the reason.
    pub(crate) fn explain(&self, name: &str, path: &str, error: io::Error, wanted: Kind) -> FileError {
        match self.dir.symlink_metadata(name) {
            Ok(found) if Kind::of(found.file_type()) != wanted => FileError::Wrong {
                path: path.to_owned(),
                kind: Kind::of(found.file_type()),
            },
            _ => FileError::io(path, error),
        }
    }

    /// Opens the regular file at `path` for reading.
    ///
    /// Refuses links, folders, pipes, sockets, devices and files with a second name. The checks are made on the opened
    /// handle, so nothing can be swapped in between.
    pub fn open_file(&self, path: &str) -> Result<Contained, FileError> {
        let (parent, name) = self.parent(path)?;
        let (file, about) = parent.open_checked(name, path, OpenOptions::new().read(true))?;
        Ok(Contained {
            len: about.len(),
            modified: about.modified().ok().map(|t| t.into_std()),
            stamp: stamp(&about),
            file: file.into_std(),
        })
    }

    /// Opens the file `name` directly in this folder, which must be a regular one with a single name on disk; `path` is
    /// what errors call it. `options` must not create or truncate: both happen before the checks.
    pub(crate) fn open_checked(
        &self,
        name: &str,
        path: &str,
        options: &mut OpenOptions,
    ) -> Result<(File, Metadata), FileError> {
        // Without O_NONBLOCK, opening a pipe waits for its other end for ever.
        options.follow(FollowSymlinks::No).nonblock(true);
        for _ in 0..OPENINGS {
            let opened = self.dir.open_with(name, options);
            let file = opened.map_err(|e| self.explain(name, path, e, Kind::File))?;
            let about = file.metadata().map_err(|e| FileError::io(path, e))?;
            let kind = Kind::of(about.file_type());
            if kind != Kind::File {
                let path = path.to_owned();
                return Err(FileError::Wrong { path, kind });
            }
            // The handle alone does not tell: opened by a second name that was then taken away, a file from elsewhere
            // has one name again, the other one. So this name must be the file's as well, in a span in which no name
            // of it came or went: each of those moves its change time (Linux 6.13 on, to the nanosecond once it was
            // looked at; before, by ticks of some milliseconds).
            let named = match self.dir.symlink_metadata(name) {
                Ok(named) => named,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(FileError::io(path, error)),
            };
            let again = file.metadata().map_err(|e| FileError::io(path, e))?;
            if identity(&named) != identity(&about) || identity(&again) != identity(&about) {
                continue;
            }
            if about.nlink() != 1 {
                return Err(FileError::Shared { path: path.to_owned() });
            }
            return Ok((file, about));
        }
        let busy = io::Error::new(io::ErrorKind::ResourceBusy, "it is being replaced all the time");
        Err(FileError::io(path, busy))
    }

    /// The bytes of the file at `path`, at most `limit` of them, whatever length the file claims.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let read = self.open_file(path)?.read_whole(limit);
        read.map_err(|e| FileError::io(path, e))?
            .ok_or_else(|| FileError::Large {
                path: path.to_owned(),
                limit,
            })
    }

    /// What stands at `path`, without following a link there; `None` when nothing does.
    pub fn kind(&self, path: &str) -> Result<Option<Kind>, FileError> {
        let found = self.parent(path).and_then(|(parent, name)| {
            let about = parent.dir.symlink_metadata(name).map_err(|e| FileError::io(path, e))?;
            Ok(Kind::of(about.file_type()))
        });
        match found {
            Ok(kind) => Ok(Some(kind)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// When what stands at `path` was last changed, a link not followed; for a folder, when an entry came or went.
    pub fn modified(&self, path: &str) -> Result<SystemTime, FileError> {
        let (parent, name) = self.parent(path)?;
        let about = parent.dir.symlink_metadata(name).map_err(|e| FileError::io(path, e))?;
        about
            .modified()
            .map(|t| t.into_std())
            .map_err(|e| FileError::io(path, e))
    }

    /// Everything directly in this folder, sorted by name; more than [`MAX_ENTRIES`] is an error.
    pub fn list(&self) -> Result<Vec<Entry>, FileError> {
        self.list_at(".", MAX_ENTRIES)
    }

    pub(crate) fn list_at(&self, path: &str, limit: usize) -> Result<Vec<Entry>, FileError> {
        let mut entries = Vec::new();
        for entry in self.dir.entries().map_err(|e| FileError::io(path, e))? {
            let entry = entry.map_err(|e| FileError::io(path, e))?;
            if entries.len() >= limit {
                let path = path.to_owned();
                return Err(FileError::Crowded { path, limit });
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().map_err(|e| FileError::io(&name, e))?;
            entries.push(Entry {
                name,
                kind: Kind::of(kind),
            });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }
}

/// Which file it is, and when it or its names last changed.
fn identity(about: &Metadata) -> (u64, u64, i64, i64) {
    #[cfg(unix)]
    let changed = {
        use cap_std::fs::MetadataExt as _;
        (about.ctime(), about.ctime_nsec())
    };
    #[cfg(not(unix))]
    let changed = (0, 0);
    (about.dev(), about.ino(), changed.0, changed.1)
}

fn stamp(about: &Metadata) -> String {
    let mut hash = Sha256::new();
    for number in [about.dev(), about.ino(), about.len()] {
        hash.update(number.to_le_bytes());
    }
    let modified = about.modified().ok().map(|t| t.into_std());
    let since = modified.and_then(|t| t.duration_since(SystemTime::UNIX_EPOCH).ok());
    hash.update(since.map_or(0, |d| d.as_nanos()).to_le_bytes());
    #[cfg(unix)]
    {
        // The change time cannot be set back by a program, the modification time can.
        use cap_std::fs::MetadataExt as _;
        hash.update(about.ctime().to_le_bytes());
        hash.update(about.ctime_nsec().to_le_bytes());
    }
    hex::encode(&hash.finalize()[..16])
}
