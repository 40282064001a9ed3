use std::fmt;
use std::io::Write;

use cap_std::fs::{File, OpenOptions};

use super::GuestFolder;
use super::change::step;
use super::path::{GuestPath, WRITING};
use super::shared::Rooted;
use super::usage::{cost, grow, shrink};
use crate::write::random;
use crate::{FileError, Folder};

/// A file that is not in its place yet.
pub(super) struct Temporary {
    pub folder: Folder,
    pub name: String,
}

impl Temporary {
    /// The folder where they stand. They are not beside their places: a name that comes and goes there would make the
    /// list of names that a clash is looked up in useless.
    pub fn folder(root: &Folder) -> Result<Folder, FileError> {
        match step(root, WRITING, WRITING) {
            Err(error) if error.is_missing() => {
                // Two may make it at once; whether it is there is what the next step tells.
                let _ = root.dir.create_dir(WRITING);
                step(root, WRITING, WRITING)
            }
            other => other,
        }
    }
}

/// A file written in pieces. It is at its path, whole, once [`Upload::commit`] has returned; dropped before, nothing
/// of it is left.
pub struct Upload {
    rooted: Rooted,
    path: GuestPath,
    temporary: Temporary,
    file: File,
    len: u64,
    placed: bool,
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload")
            .field("path", &self.path)
            .field("len", &self.len)
            .finish()
    }
}

impl Upload {
    pub(super) fn begin(rooted: Rooted, path: GuestPath) -> Result<Self, FileError> {
        let folder = Temporary::folder(&rooted.root).map_err(FileError::in_app_data)?;
        let name = random();
        let made = folder
            .dir
            .open_with(&name, OpenOptions::new().write(true).create_new(true));
        let file = made.map_err(|e| FileError::io(path.text(), e).in_app_data())?;
        grow(&mut rooted.shared.state(), cost(0));
        Ok(Self {
            rooted,
            path,
            temporary: Temporary { folder, name },
            file,
            len: 0,
            placed: false,
        })
    }

    /// Adds to its end. After an error it can only be dropped.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        let written = self.file.write_all(bytes);
        written.map_err(|e| FileError::io(self.path.text(), e).in_app_data())?;
        let after = self.len.saturating_add(bytes.len() as u64);
        grow(&mut self.rooted.shared.state(), cost(after) - cost(self.len));
        self.len = after;
        Ok(())
    }

    /// Bytes written so far.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts the file in its place, as [`GuestFolder::write`] does, making the parents.
    pub fn commit(mut self) -> Result<(), FileError> {
        self.sync()?;
        GuestFolder::changing(&self.rooted, |change| change.place(&self.temporary, &self.path))?;
        self.placed = true;
        Ok(())
    }

    /// Before the rename, so that a power cut leaves the old file or the new one and not an empty one.
    pub(super) fn sync(&self) -> Result<(), FileError> {
        let synced = self.file.sync_data();
        synced.map_err(|e| FileError::io(self.path.text(), e).in_app_data())
    }

    pub(super) fn parts(&self) -> (&Temporary, &GuestPath) {
        (&self.temporary, &self.path)
    }

    pub(super) fn set_placed(mut self) {
        self.placed = true;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.placed {
            return;
        }
        // There is nobody to tell; what stays is swept when the folder is next opened after a start.
        let _ = self.temporary.folder.dir.remove_file(&self.temporary.name);
        shrink(&mut self.rooted.shared.state(), cost(self.len));
    }
}
