use std::collections::BTreeSet;
use std::io::{self, Write};

use cap_std::fs::{Dir, OpenOptions};

use crate::{FileError, Folder, Kind, check_path};

impl Folder {
    /// Writes a new file; one that is there already stays as it is and is the error [`FileError::Exists`].
    ///
    /// The bytes go to a temporary name in the same folder, are synced, and the file is renamed: whoever looks sees the
    /// whole file or none, also after a crash.
    pub fn write_new(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let (parent, name) = self.parent(path)?;
        parent.write(name, path, bytes, |temporary| {
            rename_new(&parent.dir, temporary, &parent.dir, name)
        })
    }

    /// As [`Folder::write_new`], taking the place of a file or link that is there.
    pub fn replace(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let (parent, name) = self.parent(path)?;
        parent.write(name, path, bytes, |temporary| {
            parent.dir.rename(temporary, &parent.dir, name)
        })
    }

    fn write(
        &self,
        name: &str,
        path: &str,
        bytes: &[u8],
        place: impl FnOnce(&str) -> io::Result<()>,
    ) -> Result<(), FileError> {
        if let Ok(about) = self.dir.symlink_metadata(name)
            && Kind::of(about.file_type()) == Kind::Folder
        {
            let path = path.to_owned();
            return Err(FileError::Wrong {
                path,
                kind: Kind::Folder,
            });
        }
        let temporary = format!(".writing-{}", random());
        let done = write_synced(&self.dir, &temporary, bytes).and_then(|()| place(&temporary));
        if let Err(error) = done {
            // It may not even exist; the first error is the one to tell.
            let _ = self.dir.remove_file(&temporary);
            return Err(FileError::io(path, error));
        }
        sync(&self.dir).map_err(|e| FileError::io(path, e))
    }

    /// Writes many files into this folder, which nobody else reads yet, making the folders they stand in. Each file and
    /// folder is synced once at its end, so the whole may then be renamed into place.
    pub fn write_tree<'a>(&self, files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Result<(), FileError> {
        let mut folders = BTreeSet::new();
        for (path, bytes) in files {
            let names = check_path(path).map_err(|e| FileError::name(path, e))?;
            let (name, above) = names.split_last().expect("check_path gives at least one name");
            let parent = match path.rsplit_once('/') {
                Some((at, _)) => {
                    if folders.insert(at.to_owned()) {
                        self.create_folder(at)?;
                    }
                    self.descend(path, above)?
                }
                None => self.clone(),
            };
            write_synced(&parent.dir, name, bytes).map_err(|e| FileError::io(path, e))?;
        }
        for at in &folders {
            sync(&self.sub(at)?.dir).map_err(|e| FileError::io(at, e))?;
        }
        sync(&self.dir).map_err(|e| FileError::io(".", e))
    }

    /// Makes the folder at `path` and its parents, and opens it; one that is there already is used as it is.
    pub fn create_folder(&self, path: &str) -> Result<Self, FileError> {
        let names = check_path(path).map_err(|e| FileError::name(path, e))?;
        let mut at = self.clone();
        let mut end = 0;
        for name in names {
            end += name.len();
            match at.dir.create_dir(name) {
                Ok(()) => sync(&at.dir).map_err(|e| FileError::io(&path[..end], e))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FileError::io(&path[..end], error)),
            }
            at = at.descend(name, &[name]).map_err(|error| match error {
                FileError::Wrong { kind, .. } => FileError::Wrong {
                    path: path[..end].to_owned(),
                    kind,
                },
                other => other,
            })?;
            end += 1;
        }
        Ok(at)
    }

    /// Moves what stands at `from` to `to`, both below this folder. Something at `to` stays as it is and is the error
    /// [`FileError::Exists`].
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FileError> {
        let (source, old) = self.parent(from)?;
        let (target, new) = self.parent(to)?;
        source.dir.symlink_metadata(old).map_err(|e| FileError::io(from, e))?;
        rename_new(&source.dir, old, &target.dir, new).map_err(|e| match e.kind() {
            io::ErrorKind::DirectoryNotEmpty => FileError::Exists { path: to.to_owned() },
            _ => FileError::io(to, e),
        })?;
        sync(&source.dir).map_err(|e| FileError::io(from, e))?;
        sync(&target.dir).map_err(|e| FileError::io(to, e))
    }
}

/// 16 random hex digits for a name that must not be there yet.
///
/// # Panics
/// When the operating system has no randomness to give.
pub(crate) fn random() -> String {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    hex::encode(bytes)
}

fn write_synced(dir: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    // create_new never opens what is there, links included.
    let mut file = dir.open_with(name, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// A rename lasts through a power cut only once its folder is synced.
#[cfg(unix)]
pub(crate) fn sync(dir: &Dir) -> io::Result<()> {
    // The handle of a `Dir` may be a path-only one, which cannot be synced; a fresh one for reading can.
    dir.open(".")?.sync_all()
}

/// Windows has no such call for folders; NTFS journals renames.
#[cfg(not(unix))]
pub(crate) fn sync(_dir: &Dir) -> io::Result<()> {
    Ok(())
}

/// Renames without ever taking the place of something. Both names are single checked names.
#[cfg(target_os = "linux")]
pub(crate) fn rename_new(from: &Dir, old: &str, to: &Dir, new: &str) -> io::Result<()> {
    use std::ffi::CString;
    use std::os::fd::AsRawFd;
    let (old_c, new_c) = (CString::new(old)?, CString::new(new)?);
    // SAFETY: both strings end with NUL and outlive the call, and both descriptors are open directories.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            from.as_raw_fd(),
            old_c.as_ptr(),
            to.as_raw_fd(),
            new_c.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    };
    if done == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Old kernels and some file systems do not know the flag.
        Some(libc::ENOSYS | libc::EINVAL) => rename_checked(from, old, to, new),
        _ => Err(error),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn rename_new(from: &Dir, old: &str, to: &Dir, new: &str) -> io::Result<()> {
    rename_checked(from, old, to, new)
}

/// The next best where the system cannot refuse by itself: looks first. Two writers in the same instant could both find
/// the place free.
fn rename_checked(from: &Dir, old: &str, to: &Dir, new: &str) -> io::Result<()> {
    if to.symlink_metadata(new).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    from.rename(old, to, new)
}
