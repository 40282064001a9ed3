use std::fmt;
use std::time::UNIX_EPOCH;

use cap_std::fs::Metadata;

use self::change::Change;
use self::path::{GuestPath, is_ours};
use self::shared::{Rooted, Shared};
use crate::{Contained, Entry, FileError, Folder, Kind, check_path};

mod change;
mod journal;
mod path;
mod shared;
mod transaction;
mod upload;
mod usage;

pub use transaction::Transaction;
pub use upload::Upload;
pub use usage::cost;

/// Most entries [`GuestFolder::list`] gives; a folder with more is an error. An import may make tens of thousands of
/// files in one folder (contract section 3.4: 60,000 entries of an archive).
pub const MAX_GUEST_ENTRIES: usize = 65_536;

/// An app's data folder as its plugins see it. Cheap to clone and to open.
///
/// Paths are `/`-separated portable names as in [`check_path`]; a leading `./` is tolerated, and for folders also a
/// slash at the end, and `.` or nothing for the folder itself. Names beginning with `.writing-` and `.txn-` belong to
/// this crate: they cannot be named and are not listed. No link is followed on the way or at the end, no file with a
/// second name is read, appended to or replaced, no pipe is waited for. Errors call the folder `[app-data]`, as the
/// contract has it (section 3.4), and nothing of the machine stands in them.
///
/// The folder itself is made when something is first written. What writers of one process do is in order, also over
/// several `GuestFolder`s of one folder; two processes must not write in it at once (the engine's home lock sees to
/// that). All calls block on the disk.
#[derive(Clone)]
pub struct GuestFolder {
    within: Folder,
    path: String,
}

impl fmt::Debug for GuestFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuestFolder")
    }
}

/// What [`GuestFolder::stat`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Always [`Kind::File`] or [`Kind::Folder`].
    pub kind: Kind,
    /// Bytes; 0 for a folder.
    pub size: u64,
    /// Milliseconds since 1970 UTC; 0 where the system does not tell or it is earlier.
    pub modified_ms: u64,
}

impl Stat {
    fn of(about: &Metadata) -> Self {
        let kind = Kind::of(about.file_type());
        let modified = about.modified().ok().map(|t| t.into_std());
        let since = modified.and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        Self {
            kind,
            size: if kind == Kind::File { about.len() } else { 0 },
            modified_ms: since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl GuestFolder {
    /// The folder at `path` below `within`, which need not exist yet. `path` is ours, such as `notes/data`, never a
    /// guest's. Undoes what a transaction left unfinished when the program was killed.
    ///
    /// # Errors
    /// When a link or a file stands there, or when an unfinished transaction could not be undone.
    pub fn open(within: &Folder, path: &str) -> Result<Self, FileError> {
        check_path(path).map_err(|e| FileError::name(path, e))?;
        let (within, path) = (within.clone(), path.to_owned());
        let folder = Self { within, path };
        folder.existing()?;
        Ok(folder)
    }

    /// The root and what is known of it; `None` while it does not exist.
    fn existing(&self) -> Result<Option<Rooted>, FileError> {
        match self.within.sub(&self.path) {
            Ok(root) => Rooted::of(root).map(Some),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.of("").in_app_data()),
        }
    }

    /// As [`GuestFolder::existing`], making the folder and its parents.
    fn made(&self) -> Result<Rooted, FileError> {
        if let Some(found) = self.existing()? {
            return Ok(found);
        }
        let root = self.within.create_folder(&self.path);
        Rooted::of(root.map_err(|e| e.of("").in_app_data())?)
    }

    /// Runs `read` while no step of a transaction is half done. `None` while the folder does not exist.
    fn reading<T>(&self, read: impl FnOnce(&Folder) -> Result<T, FileError>) -> Result<Option<T>, FileError> {
        let Some(rooted) = self.existing()? else {
            return Ok(None);
        };
        let _steady = rooted.shared.lock(&rooted.root)?;
        read(&rooted.root).map(Some).map_err(FileError::in_app_data)
    }

    /// Opens the file at `path` for reading, in pieces of any size.
    pub fn open_file(&self, path: &str) -> Result<Contained, FileError> {
        let path = GuestPath::file(path)?;
        let found = self.reading(|root| root.open_file(path.text()))?;
        found.ok_or_else(|| path.missing())
    }

    /// The bytes of the file at `path`, at most `limit` of them, whatever length the file claims.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let path = GuestPath::file(path)?;
        let read = self.open_file(path.text())?.read_whole(limit);
        let read = read.map_err(|e| FileError::io(path.text(), e).in_app_data())?;
        read.ok_or_else(|| {
            let path = path.text().to_owned();
            FileError::Large { path, limit }.in_app_data()
        })
    }

    /// Up to `count` bytes from `offset` on; fewer only where the file ends, none beyond its end.
    pub fn read_at(&self, path: &str, offset: u64, count: usize) -> Result<Vec<u8>, FileError> {
        let path = GuestPath::file(path)?;
        let read = self.open_file(path.text())?.read_at(offset, count);
        read.map_err(|e| FileError::io(path.text(), e).in_app_data())
    }

    /// What stands at `path`, which may be the folder itself. A link, pipe, socket or device there is an error.
    pub fn stat(&self, path: &str) -> Result<Stat, FileError> {
        let path = GuestPath::folder(path)?;
        let found = self.reading(|root| {
            if path.is_root() {
                let about = root.dir.dir_metadata().map_err(|e| FileError::io("", e))?;
                return Ok(Stat::of(&about));
            }
            let (parent, name) = root.parent(path.text())?;
            let about = parent.dir.symlink_metadata(name);
            let stat = Stat::of(&about.map_err(|e| FileError::io(path.text(), e))?);
            match stat.kind {
                Kind::File | Kind::Folder => Ok(stat),
                kind => Err(FileError::Wrong {
                    path: path.text().to_owned(),
                    kind,
                }),
            }
        })?;
        match found {
            Some(stat) => Ok(stat),
            // It is made when something is written; until then it is an empty folder to its guests.
            None if path.is_root() => Ok(Stat {
                kind: Kind::Folder,
                size: 0,
                modified_ms: 0,
            }),
            None => Err(path.missing()),
        }
    }

    /// Whether anything stands at `path`; also true for what [`GuestFolder::stat`] refuses to describe, since nothing
    /// can be written there. False below a file.
    pub fn exists(&self, path: &str) -> Result<bool, FileError> {
        let path = GuestPath::folder(path)?;
        if path.is_root() {
            return Ok(true);
        }
        let found = self.reading(|root| match root.kind(path.text()) {
            Err(FileError::Wrong { kind: Kind::File, .. }) => Ok(false),
            other => other.map(|kind| kind.is_some()),
        })?;
        Ok(found.unwrap_or(false))
    }

    /// Everything directly in the folder at `path`, in the order JavaScript sorts texts (by UTF-16 units).
    ///
    /// # Errors
    /// Also when there are more than [`MAX_GUEST_ENTRIES`].
    pub fn list(&self, path: &str) -> Result<Vec<Entry>, FileError> {
        let path = GuestPath::folder(path)?;
        let found = self.reading(|root| {
            let at = root.descend(path.text(), &path.names())?;
            at.list_at(path.text(), MAX_GUEST_ENTRIES)
        })?;
        let mut entries = match found {
            Some(entries) => entries,
            None if path.is_root() => Vec::new(),
            None => return Err(path.missing()),
        };
        entries.retain(|entry| !is_ours(&entry.name));
        entries.sort_by(|a, b| a.name.encode_utf16().cmp(b.name.encode_utf16()));
        Ok(entries)
    }

    /// Makes one change while no transaction is under way, waiting for one that is.
    fn changing<T>(
        rooted: &Rooted,
        change: impl FnOnce(&mut Change<'_>) -> Result<T, FileError>,
    ) -> Result<T, FileError> {
        let mut state = rooted.shared.lock_idle(&rooted.root)?;
        let mut one = Change {
            root: &rooted.root,
            state: &mut state,
            journal: None,
        };
        change(&mut one).map_err(FileError::in_app_data)
    }

    /// Writes the whole file at `path`, making its parents. Whoever reads sees the old file or the new one, also after
    /// a kill or a power cut; after the latter it may be the old one. How large a file may be is the caller's to check.
    ///
    /// # Errors
    /// When a folder, a link or anything else but a plain file stands there, or a name there differs only by case.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let mut upload = self.upload(path)?;
        upload.write(bytes)?;
        upload.commit()
    }

    /// Begins a file that is written in pieces and takes its place at `path` when committed.
    pub fn upload(&self, path: &str) -> Result<Upload, FileError> {
        let path = GuestPath::file(path)?;
        Upload::begin(self.made()?, path)
    }

    /// Adds to the end of the file at `path`, making it and its parents when they are missing. It outlasts a kill; a
    /// power cut may take the last seconds of it.
    pub fn append(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let path = GuestPath::file(path)?;
        Self::changing(&self.made()?, |change| change.append(&path, bytes))
    }

    /// Makes the folder at `path` and its parents; one that is there already is fine.
    pub fn mkdir(&self, path: &str) -> Result<(), FileError> {
        let path = GuestPath::folder(path)?;
        Self::changing(&self.made()?, |change| change.folders(&path.names()).map(|_| ()))
    }

    /// Removes the file, link or folder at `path`, a folder with everything in it, of any depth; nothing there is fine.
    /// A link is removed itself. The folder itself is refused.
    pub fn remove(&self, path: &str) -> Result<(), FileError> {
        let path = GuestPath::below(path)?;
        let Some(rooted) = self.existing()? else {
            return Ok(());
        };
        let Some(aside) = Self::changing(&rooted, |change| change.remove(&path))? else {
            return Ok(());
        };
        // It is out of the guests' sight already; nobody has to wait for the rest.
        let taken = usage::measure(&aside.folder, &aside.name);
        let cleared = aside.folder.remove_entry(&aside.name);
        cleared.map_err(|e| FileError::io(path.text(), e).in_app_data())?;
        rooted.shared.shrink(taken);
        Ok(())
    }

    /// Moves the file or folder at `from` to `to`, making the parents of `to`. A file there is replaced, a folder is
    /// not, and nothing is replaced by a folder.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        let (from, to) = (GuestPath::below(from)?, GuestPath::below(to)?);
        let Some(rooted) = self.existing()? else {
            return Err(from.missing());
        };
        Self::changing(&rooted, |change| change.rename(&from, &to))
    }

    /// Begins changes that all come to stay with [`Transaction::commit`], or none. Other writers of this folder wait
    /// meanwhile, for some seconds; readers see what is there so far.
    ///
    /// # Errors
    /// [`FileError::Busy`] when another transaction does not end in time.
    pub fn begin(&self) -> Result<Transaction, FileError> {
        Transaction::begin(self.made()?)
    }

    /// What the folder takes up, as the disk counts it (see [`cost`]), unfinished uploads and what a transaction keeps
    /// for its undoing included; links count nothing. Counting stops above `limit`, so that the answer is then only known to be
    /// larger.
    ///
    /// The tree is walked at first and every ten minutes; in between, what is written through this crate is added up.
    pub fn usage(&self, limit: u64) -> Result<u64, FileError> {
        let Some(rooted) = self.existing()? else {
            return Ok(0);
        };
        let mut state = rooted.shared.lock(&rooted.root)?;
        usage::counted(&mut state, &rooted.root, limit).map_err(FileError::in_app_data)
    }

    /// Undoes what a killed transaction left unfinished and sweeps what a killed upload left; [`GuestFolder::open`] does
    /// so the first time a process opens the folder.
    ///
    /// # Errors
    /// When a file could not be put back. What it saved stays, and every later change tries again first.
    pub fn recover(&self) -> Result<(), FileError> {
        match self.existing()? {
            Some(rooted) => rooted.shared.lock_idle(&rooted.root).map(|_| ()),
            None => Ok(()),
        }
    }
}

impl Shared {
    fn shrink(&self, bytes: u64) {
        usage::shrink(&mut self.state(), bytes);
    }
}
