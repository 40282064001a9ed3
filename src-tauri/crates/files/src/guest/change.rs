use std::io::{self, Write};

use cap_fs_ext::{DirExt, MetadataExt};
use cap_std::fs::OpenOptions;

use super::journal::{Journal, Record};
use super::path::GuestPath;
use super::shared::State;
use super::upload::Temporary;
use super::usage::{cost, grow, shrink};
use crate::write::{random, rename_new};
use crate::{FileError, Folder, Kind, MAX_DEPTH, fold};

/// One change, made under the lock; with a journal it is noted there first, so that it can be undone.
pub(super) struct Change<'a> {
    pub root: &'a Folder,
    pub state: &'a mut State,
    pub journal: Option<&'a mut Journal>,
}

/// A folder that was taken out of the guests' sight and waits to be cleared.
pub(super) struct Aside {
    pub folder: Folder,
    pub name: String,
}

/// Opens the folder `name` in `at`, which errors call `path`.
pub(super) fn step(at: &Folder, name: &str, path: &str) -> Result<Folder, FileError> {
    match at.dir.open_dir_nofollow(name) {
        Ok(dir) => Ok(Folder::of(dir)),
        Err(error) => Err(at.explain(name, path, error, Kind::Folder)),
    }
}

/// The length of the plain file `name` in `at`; `None` when nothing is there.
fn plain_file(at: &Folder, name: &str, path: &str) -> Result<Option<u64>, FileError> {
    let about = match at.dir.symlink_metadata(name) {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::io(path, error)),
    };
    let path = path.to_owned();
    match Kind::of(about.file_type()) {
        Kind::File if about.nlink() == 1 => Ok(Some(about.len())),
        Kind::File => Err(FileError::Shared { path }),
        kind => Err(FileError::Wrong { path, kind }),
    }
}

impl Change<'_> {
    fn note(&mut self, record: Record) -> Result<(), FileError> {
        match &mut self.journal {
            Some(journal) => journal.note(record),
            None => Ok(()),
        }
    }

    /// Gives the error of a step that made nothing of what was noted for it.
    fn refused(&mut self, error: FileError) -> FileError {
        match self.journal.as_mut().map(|journal| journal.take_back()) {
            Some(Err(worse)) => worse,
            _ => error,
        }
    }

    /// Refuses a new name that differs from one that is there by case only.
    fn unclashed(&mut self, at: &Folder, name: &str, path: &str, except: Option<&str>) -> Result<(), FileError> {
        let clash = self.state.clash(at, name, except);
        let Some(other) = clash.map_err(|e| FileError::io(path, e))? else {
            return Ok(());
        };
        let other = match path.rsplit_once('/') {
            Some((above, _)) => format!("{above}/{other}"),
            None => other,
        };
        let path = path.to_owned();
        Err(FileError::Clash { path, other })
    }

    /// Makes each folder of `names` that is missing, and opens the last.
    pub fn folders(&mut self, names: &[&str]) -> Result<Folder, FileError> {
        let mut at = self.root.clone();
        let mut path = String::new();
        for name in names {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name);
            at = match step(&at, name, &path) {
                Err(error) if error.is_missing() => {
                    self.unclashed(&at, name, &path, None)?;
                    self.note(Record::Made(path.clone()))?;
                    match at.dir.create_dir(name) {
                        Ok(()) => {
                            self.state.changed(&at, name, true);
                            grow(self.state, cost(0));
                        }
                        // Somebody else's is as good; what it is, the next step tells.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        Err(error) => return Err(FileError::io(&path, error)),
                    }
                    step(&at, name, &path)?
                }
                other => other?,
            };
        }
        Ok(at)
    }

    /// Moves what is at `path` into the journal's folder, to be put back or, at the end, removed.
    fn save(
        &mut self,
        at: &Folder,
        name: &str,
        path: &str,
        record: fn(u64, String) -> Record,
    ) -> Result<(), FileError> {
        if let Some(journal) = &mut self.journal {
            let number = journal.number();
            journal.note(record(number, path.to_owned()))?;
            let moved = rename_new(&at.dir, name, &journal.folder.dir, &number.to_string());
            moved.map_err(|e| FileError::io(path, e))?;
            self.state.changed(at, name, false);
        }
        Ok(())
    }

    /// Whether what is at `path` was made by this transaction, so that undoing removes it whatever it holds.
    fn is_fresh(&self, path: &str) -> bool {
        self.journal
            .as_ref()
            .is_some_and(|journal| journal.fresh.contains(path))
    }

    /// Puts a finished temporary file in its place.
    pub fn place(&mut self, file: &Temporary, path: &GuestPath) -> Result<(), FileError> {
        let (above, name) = path.split();
        let text = path.text();
        let at = self.folders(&above)?;
        let before = plain_file(&at, name, text)?;
        if before.is_none() {
            self.unclashed(&at, name, text, None)?;
        }
        if self.journal.is_some() && !self.is_fresh(text) {
            let placed = if before.is_some() {
                self.save(&at, name, text, Record::Replaced)?;
                rename_new(&file.folder.dir, &file.name, &at.dir, name).map_err(|e| FileError::io(text, e))
            } else {
                self.note(Record::New(text.to_owned()))?;
                rename_new(&file.folder.dir, &file.name, &at.dir, name)
                    .map_err(|e| self.refused(FileError::io(text, e)))
            };
            placed?;
            self.state.changed(&at, name, true);
            if let Some(journal) = &mut self.journal {
                journal.fresh.insert(text.to_owned());
            }
            return Ok(());
        }
        let placed = file.folder.dir.rename(&file.name, &at.dir, name);
        placed.map_err(|e| at.explain(name, text, e, Kind::File))?;
        match before {
            Some(len) => shrink(self.state, cost(len)),
            None => self.state.changed(&at, name, true),
        }
        Ok(())
    }

    pub fn append(&mut self, path: &GuestPath, bytes: &[u8]) -> Result<(), FileError> {
        let (above, name) = path.split();
        let text = path.text();
        let at = self.folders(&above)?;
        let (mut file, before) = match at.open_checked(name, text, OpenOptions::new().append(true)) {
            Ok((file, about)) => {
                let before = about.len();
                if let Some(journal) = &mut self.journal
                    && !journal.fresh.contains(text)
                    && journal.measured.insert(text.to_owned())
                {
                    journal.note(Record::Length(before, text.to_owned()))?;
                }
                (file, before)
            }
            Err(error) if error.is_missing() => {
                self.unclashed(&at, name, text, None)?;
                self.note(Record::New(text.to_owned()))?;
                // create_new never opens what is there, links included.
                let made = at.dir.open_with(name, OpenOptions::new().append(true).create_new(true));
                let file = made.map_err(|e| self.refused(FileError::io(text, e)))?;
                self.state.changed(&at, name, true);
                grow(self.state, cost(0));
                if let Some(journal) = &mut self.journal {
                    journal.fresh.insert(text.to_owned());
                }
                (file, 0)
            }
            Err(error) => return Err(error),
        };
        // What is committed stays, so it is on the disk before the journal goes.
        let synced = self.journal.as_mut().is_some_and(|journal| journal.syncs_singly());
        let written = file.write_all(bytes);
        let written = written.and_then(|()| if synced { file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // All of it or nothing, as far as a full disk lets us. The first error is the one to tell.
            let _ = file.set_len(before);
            return Err(FileError::io(text, error));
        }
        let after = before.saturating_add(bytes.len() as u64);
        grow(self.state, cost(after) - cost(before));
        Ok(())
    }

    /// Removes what is at `path`; a folder only goes out of sight, and clearing it is left to the caller.
    pub fn remove(&mut self, path: &GuestPath) -> Result<Option<Aside>, FileError> {
        let (above, name) = path.split();
        let text = path.text();
        let at = match self.root.descend(text, &above) {
            Ok(at) => at,
            Err(error) if error.is_missing() => return Ok(None),
            Err(error) => return Err(error),
        };
        let about = match at.dir.symlink_metadata(name) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FileError::io(text, error)),
        };
        if let Some(journal) = &mut self.journal {
            journal.forget_paths();
            self.save(&at, name, text, Record::Saved)?;
            return Ok(None);
        }
        let kind = Kind::of(about.file_type());
        if kind == Kind::Folder {
            let folder = Temporary::folder(self.root)?;
            let aside = format!("removed-{}", random());
            let moved = at.dir.rename(name, &folder.dir, &aside);
            moved.map_err(|e| FileError::io(text, e))?;
            self.state.changed(&at, name, false);
            return Ok(Some(Aside { folder, name: aside }));
        }
        let removed = at.dir.remove_file_or_symlink(name);
        removed.map_err(|e| FileError::io(text, e))?;
        self.state.changed(&at, name, false);
        if kind == Kind::File {
            shrink(self.state, cost(about.len()));
        }
        Ok(None)
    }

    pub fn rename(&mut self, from: &GuestPath, to: &GuestPath) -> Result<(), FileError> {
        let (above, old) = from.split();
        let source = self.root.descend(from.text(), &above)?;
        let is_folder = match plain_file(&source, old, from.text()) {
            Ok(Some(_)) => false,
            Ok(None) => {
                return Err(FileError::Missing {
                    path: from.text().to_owned(),
                });
            }
            Err(FileError::Wrong { kind: Kind::Folder, .. }) => true,
            Err(error) => return Err(error),
        };
        if from == to {
            return Ok(());
        }
        let (text, into) = (from.text().to_owned(), to.text().to_owned());
        if into.strip_prefix(&text).is_some_and(|rest| rest.starts_with('/')) {
            return Err(FileError::Inside { path: text, into });
        }
        let (above_new, new) = to.split();
        if is_folder && above_new.len() > above.len() {
            // Guests make no tree that they could not name, and that could not be counted.
            let room = MAX_DEPTH.saturating_sub(above_new.len() + 1);
            if !fits(&step(&source, old, &text)?, room).map_err(|e| FileError::io(&text, e))? {
                return Err(FileError::name(&into, crate::NameError::Deep));
            }
        }
        let target = self.folders(&above_new)?;
        let before = plain_file(&target, new, &into)?;
        if is_folder && before.is_some() {
            return Err(FileError::Exists { path: into });
        }
        // Only its case may change: then the old name is no obstacle.
        let except = (above == above_new && fold(old) == fold(new)).then_some(old);
        if before.is_none() {
            self.unclashed(&target, new, &into, except)?;
        }
        if self.journal.is_some() {
            if before.is_some() {
                self.save(&target, new, &into, Record::Saved)?;
            }
            self.note(Record::Moved(text.clone(), into.clone()))?;
            if let Some(journal) = &mut self.journal {
                journal.forget_paths();
            }
        }
        let moved = if self.journal.is_some() || before.is_none() {
            rename_new(&source.dir, old, &target.dir, new)
        } else {
            source.dir.rename(old, &target.dir, new)
        };
        moved.map_err(|e| self.refused(FileError::io(&into, e)))?;
        self.state.changed(&source, old, false);
        match before {
            Some(len) if self.journal.is_none() => shrink(self.state, cost(len)),
            _ => self.state.changed(&target, new, true),
        }
        Ok(())
    }
}

/// Whether no path below `folder` has more than `room` names.
fn fits(folder: &Folder, room: usize) -> io::Result<bool> {
    for entry in folder.dir.entries()? {
        let entry = entry?;
        if room == 0 {
            return Ok(false);
        }
        if Kind::of(entry.file_type()?) == Kind::Folder
            && !fits(&Folder::of(folder.dir.open_dir_nofollow(entry.file_name())?), room - 1)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}
