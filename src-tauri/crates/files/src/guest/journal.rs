use std::collections::HashSet;
use std::io::{self, Read, Write};

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, File, OpenOptions};

use super::change::step;
use super::path::{GuestPath, TXN};
use crate::write::{random, rename_new, sync};
use crate::{FileError, Folder, Kind};

/// The journal of a transaction, in its folder beside what it saved.
const JOURNAL: &str = "journal";
/// Most changes of one transaction: what undoing them in a moment allows, and an import's 60,000 files.
const MAX_RECORDS: usize = 200_000;
/// Files synced one by one, before syncing all that the disk has is quicker. (On a cloud disk with ext4 one took 0.2 to
/// 0.4 ms when idle, and tens of thousands minutes.)
const SINGLY: usize = 64;
/// Largest journal that is read back: [`MAX_RECORDS`] of ordinary paths.
const MAX_JOURNAL: u64 = 64 * 1024 * 1024;

/// How one step is undone. It is noted before the step is made, so undoing must also be right when it never was, and
/// when undoing it was interrupted.
///
/// On the disk a line: the word, and the rest with tabs between, which no path has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A folder was made: it goes, if it is empty.
    Made(String),
    /// A file was put where nothing was: it goes.
    New(String),
    /// What was there was moved to this number in the transaction's folder: it comes back.
    Saved(u64, String),
    /// As `Saved`, and a file was put in its place: that goes first.
    Replaced(u64, String),
    /// Something was moved from the one to the other: it goes back.
    Moved(String, String),
    /// A file was of this length: it is cut to that.
    Length(u64, String),
}

impl Record {
    fn line(&self) -> String {
        match self {
            Self::Made(path) => format!("made\t{path}\n"),
            Self::New(path) => format!("new\t{path}\n"),
            Self::Saved(number, path) => format!("saved\t{number}\t{path}\n"),
            Self::Replaced(number, path) => format!("replaced\t{number}\t{path}\n"),
            Self::Moved(from, to) => format!("moved\t{from}\t{to}\n"),
            Self::Length(len, path) => format!("length\t{len}\t{path}\n"),
        }
    }

    /// `None` for what we never write: a package may bring a forged journal along, and its paths are a guest's.
    fn parse(line: &str) -> Option<Self> {
        let path = |text: &str| GuestPath::file(text).ok().map(|path| path.text().to_owned());
        let mut parts = line.split('\t');
        let mut next = || parts.next();
        let record = match next()? {
            "made" => Self::Made(path(next()?)?),
            "new" => Self::New(path(next()?)?),
            "saved" => Self::Saved(next()?.parse().ok()?, path(next()?)?),
            "replaced" => Self::Replaced(next()?.parse().ok()?, path(next()?)?),
            "moved" => Self::Moved(path(next()?)?, path(next()?)?),
            "length" => Self::Length(next()?.parse().ok()?, path(next()?)?),
            _ => return None,
        };
        parts.next().is_none().then_some(record)
    }
}

/// What an unfinished transaction needs to be undone: a folder `.txn-…` in the data folder with a journal and with what
/// was replaced or removed. Without a journal such a folder is done with.
pub(super) struct Journal {
    name: String,
    pub folder: Folder,
    file: File,
    /// Each with where its line begins.
    records: Vec<(u64, Record)>,
    end: u64,
    numbers: u64,
    /// Files this transaction put in place; what they hold need not be kept.
    pub fresh: HashSet<String>,
    /// Files that were synced one by one; beyond [`SINGLY`] it is done for all of them at the end.
    synced: usize,
    /// Files whose length is noted.
    pub measured: HashSet<String>,
}

impl Journal {
    pub fn begin(root: &Folder) -> Result<Self, FileError> {
        let name = format!("{TXN}{}", random());
        root.dir.create_dir(&name).map_err(|e| FileError::io("", e))?;
        let made = step(root, &name, "").and_then(|folder| {
            let mut options = OpenOptions::new();
            let file = folder.dir.open_with(JOURNAL, options.write(true).create_new(true));
            let file = file.map_err(|e| FileError::io("", e))?;
            sync(&folder.dir)
                .and_then(|()| sync(&root.dir))
                .map_err(|e| FileError::io("", e))?;
            Ok((folder, file))
        });
        match made {
            Ok((folder, file)) => Ok(Self::of(name, folder, file)),
            Err(error) => {
                // The first error is the one to tell.
                let _ = root.remove_entry(&name);
                Err(error)
            }
        }
    }

    fn of(name: String, folder: Folder, file: File) -> Self {
        Self {
            name,
            folder,
            file,
            records: Vec::new(),
            end: 0,
            numbers: 0,
            synced: 0,
            fresh: HashSet::new(),
            measured: HashSet::new(),
        }
    }

    /// What a killed process left in `.txn-…`; `None` when nothing is to be undone.
    fn read(root: &Folder, name: &str) -> Result<Option<Self>, FileError> {
        let opened = step(root, name, name).and_then(|folder| {
            let mut options = OpenOptions::new();
            let (file, about) = folder.open_checked(JOURNAL, name, options.read(true).write(true))?;
            Ok((folder, file, about.len()))
        });
        let (folder, mut file, len) = match opened {
            Ok(opened) => opened,
            // Not there, or nothing we would have made.
            Err(FileError::Missing { .. } | FileError::Wrong { .. } | FileError::Shared { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if len > MAX_JOURNAL {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut file).take(MAX_JOURNAL).read_to_end(&mut bytes);
        read.map_err(|e| FileError::io(name, e))?;
        let mut journal = Self::of(name.to_owned(), folder, file);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let start = journal.end;
            journal.end += line.len() as u64;
            // A line without an end was being written; its step was not begun.
            let text = line.strip_suffix(b"\n").and_then(|line| str::from_utf8(line).ok());
            if let Some(record) = text.and_then(Record::parse) {
                journal.records.push((start, record));
            }
        }
        Ok(Some(journal))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether what is written to the next file is to be synced at once.
    pub fn syncs_singly(&mut self) -> bool {
        self.synced += 1;
        self.synced <= SINGLY
    }

    /// The next free name in the folder.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// After folders were moved or removed, paths no longer say which file is meant.
    pub fn forget_paths(&mut self) {
        self.fresh.clear();
        self.measured.clear();
    }

    /// Notes how the step that is about to be made is undone.
    ///
    /// A killed program leaves what it wrote, so this would do unsynced. A power cut could take the note and leave the
    /// step, and so a note of something taken away is synced. One of something new is not: what is worst then is a file
    /// too many, and an import makes tens of thousands.
    pub fn note(&mut self, record: Record) -> Result<(), FileError> {
        if self.records.len() >= MAX_RECORDS {
            return Err(FileError::Long { limit: MAX_RECORDS });
        }
        let line = record.line();
        let written = self.file.write_all(line.as_bytes()).and_then(|()| match record {
            Record::Made(_) | Record::New(_) => Ok(()),
            _ => self.file.sync_data(),
        });
        if let Err(error) = written {
            let _ = self.cut(self.end);
            return Err(FileError::io("", error));
        }
        self.records.push((self.end, record));
        self.end += line.len() as u64;
        Ok(())
    }

    /// Takes the latest note back, whose step was refused: undoing it could take somebody else's file.
    pub fn take_back(&mut self) -> Result<(), FileError> {
        if let Some((start, _)) = self.records.pop() {
            self.cut(start).map_err(|e| FileError::io("", e))?;
        }
        Ok(())
    }

    fn cut(&mut self, end: u64) -> io::Result<()> {
        use std::io::Seek;
        self.file.set_len(end)?;
        self.file.seek(io::SeekFrom::Start(end))?;
        self.end = end;
        Ok(())
    }

    /// Undoes the latest steps until `count` are left. Each line goes when its step is undone, so that an interrupted
    /// undoing repeats at most one.
    pub fn undo_to(&mut self, root: &Folder, count: usize) -> Result<(), FileError> {
        while self.records.len() > count
            && let Some((start, record)) = self.records.last().cloned()
        {
            self.undo(root, &record)?;
            self.cut(start).map_err(|e| FileError::io("", e))?;
            self.records.pop();
        }
        Ok(())
    }

    fn undo(&self, root: &Folder, record: &Record) -> Result<(), FileError> {
        match record {
            Record::Made(path) => remove_if(root, path, Kind::Folder),
            Record::New(path) => remove_if(root, path, Kind::File),
            Record::Saved(number, path) => self.put_back(root, *number, path),
            Record::Replaced(number, path) => {
                // What stands there while nothing is saved is the old file itself.
                if self.has(*number, path)? {
                    remove_if(root, path, Kind::File)?;
                }
                self.put_back(root, *number, path)
            }
            Record::Moved(from, to) => move_back(root, from, to),
            Record::Length(len, path) => {
                let cut = root.parent(path).and_then(|(at, name)| {
                    let (file, about) = at.open_checked(name, path, OpenOptions::new().write(true))?;
                    if about.len() > *len {
                        let cut = file.set_len(*len).and_then(|()| file.sync_data());
                        cut.map_err(|e| FileError::io(path, e))?;
                    }
                    Ok(())
                });
                gone_is_fine(cut)
            }
        }
    }

    /// Whether something is saved under this number.
    fn has(&self, number: u64, path: &str) -> Result<bool, FileError> {
        match self.folder.dir.symlink_metadata(number.to_string()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(FileError::io(path, error)),
        }
    }

    fn put_back(&self, root: &Folder, number: u64, path: &str) -> Result<(), FileError> {
        // Otherwise it was not moved yet, or is back already.
        if !self.has(number, path)? {
            return Ok(());
        }
        let saved = number.to_string();
        let above = path.rsplit_once('/').map(|(above, _)| above);
        // Where other programs were at work meanwhile, the parents may be gone, or no folders any more.
        let parent = above.map_or(Ok(root.clone()), |above| root.create_folder(above));
        let placed = parent.and_then(|at| {
            let name = path.rsplit('/').next().unwrap_or(path);
            rename_new(&self.folder.dir, &saved, &at.dir, name).map_err(|e| FileError::io(path, e))
        });
        match placed {
            Err(FileError::Io { path, source }) if source.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(FileError::Io { path, source })
            }
            // Somebody else's file has the place. Nothing saved is thrown away: it goes where it is seen.
            Err(_) => {
                let name = format!("recovered-{}-{saved}", random());
                rename_new(&self.folder.dir, &saved, &root.dir, &name).map_err(|e| FileError::io(&name, e))
            }
            Ok(()) => Ok(()),
        }
    }

    /// Ends the transaction as it stands: without a journal nothing is undone any more.
    pub fn close(&self) -> Result<(), FileError> {
        if self.synced > SINGLY {
            sync_all(&self.folder.dir).map_err(|e| FileError::io("", e))?;
        }
        let closed = self
            .folder
            .dir
            .remove_file(JOURNAL)
            .and_then(|()| sync(&self.folder.dir));
        closed.map_err(|e| FileError::io("", e))
    }

    /// Removes what it kept, which nothing needs once it is closed.
    pub fn clear(&self, root: &Folder) -> Result<(), FileError> {
        root.remove_entry(&self.name).map_err(|e| FileError::io("", e))
    }
}

/// Everything written to the disk that `dir` is on.
#[cfg(target_os = "linux")]
fn sync_all(dir: &Dir) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    // The handle of a `Dir` may be a path-only one, which cannot be synced; a fresh one for reading can.
    let opened = dir.open(".")?;
    // SAFETY: the descriptor is open as long as `opened` is.
    match unsafe { libc::syncfs(opened.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Elsewhere the system writes it within seconds.
#[cfg(not(target_os = "linux"))]
fn sync_all(_dir: &Dir) -> io::Result<()> {
    Ok(())
}

/// Removes what a step made, as long as it is what it was.
fn remove_if(root: &Folder, path: &str, kind: Kind) -> Result<(), FileError> {
    let removed = root.parent(path).and_then(|(at, name)| {
        let about = at.dir.symlink_metadata(name).map_err(|e| FileError::io(path, e))?;
        let found = Kind::of(about.file_type());
        let removed = match (kind, found) {
            (Kind::Folder, Kind::Folder) => match at.dir.remove_dir(name) {
                // Somebody else put something there.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
                other => other,
            },
            (Kind::File, Kind::File) => at.dir.remove_file_or_symlink(name),
            _ => Ok(()),
        };
        removed.map_err(|e| FileError::io(path, e))
    });
    gone_is_fine(removed)
}

fn move_back(root: &Folder, from: &str, to: &str) -> Result<(), FileError> {
    let moved = root.parent(to).and_then(|(target, new)| {
        let (source, old) = root.parent(from)?;
        rename_new(&target.dir, new, &source.dir, old).map_err(|e| FileError::io(from, e))
    });
    gone_is_fine(moved)
}

/// A step that was never made, was undone already, or whose place others have changed is left as it is; only what the
/// disk refuses stops the undoing.
fn gone_is_fine(result: Result<(), FileError>) -> Result<(), FileError> {
    match result {
        Err(FileError::Io { path, source }) if source.kind() != io::ErrorKind::DirectoryNotEmpty => {
            Err(FileError::Io { path, source })
        }
        _ => Ok(()),
    }
}

/// The names in the data folder that begin so; others' names are not looked at.
fn beginning(root: &Folder, start: &str) -> Result<Vec<String>, FileError> {
    let mut found = Vec::new();
    for entry in root.dir.entries().map_err(|e| FileError::io("", e))? {
        let name = entry.map_err(|e| FileError::io("", e))?.file_name();
        if let Some(name) = name.to_str()
            && name.starts_with(start)
        {
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the uploads of a killed process.
pub(super) fn sweep(root: &Folder) -> Result<(), FileError> {
    for name in beginning(root, ".writing-")? {
        root.remove_entry(&name).map_err(|e| FileError::io(&name, e))?;
    }
    Ok(())
}

/// Undoes each transaction that was not committed, and removes what they kept.
pub(super) fn recover(root: &Folder) -> Result<(), FileError> {
    for name in beginning(root, TXN)? {
        if let Some(mut journal) = Journal::read(root, &name)? {
            journal.undo_to(root, 0)?;
            journal.close()?;
        }
        root.remove_entry(&name).map_err(|e| FileError::io(&name, e))?;
    }
    Ok(())
}
