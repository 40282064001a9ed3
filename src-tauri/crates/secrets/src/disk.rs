//! Files that only this user may read. A name in a folder that others can write to may be a trap: nothing is opened
//! before it is known to be a plain file of this user's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Secret;

/// Largest file read, in bytes: 2000 keys of the longest kind, sealed and in hex.
const LARGEST: u64 = 16 << 20;

/// How private a file must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Private {
    /// What is in it is sealed or no secret.
    Own,
    /// Mode 0600 exactly.
    Strict,
}

/// The whole file; `Ok(None)` when there is none. The error says what is wrong with it.
pub(crate) fn read(path: &Path, private: Private) -> Result<Option<Secret>, String> {
    let shown = path.display();
    // Without O_NONBLOCK, opening a FIFO would wait for its other end.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(format!("{shown} is a symbolic link: name the file itself"));
        }
        Err(error) => return Err(format!("{shown} cannot be read: {error}")),
    };
    let about = file
        .metadata()
        .map_err(|error| format!("{shown} cannot be read: {error}"))?;
    if !about.is_file() {
        return Err(format!("{shown} is not a plain file"));
    }
    // SAFETY: a plain system call without arguments, which cannot fail.
    let me = unsafe { libc::geteuid() };
    if about.uid() != me {
        return Err(format!(
            "{shown} belongs to user {}, but Chrysalis runs as user {me}: chown it",
            about.uid()
        ));
    }
    let mode = about.mode() & 0o7777;
    if private == Private::Strict && mode != 0o600 {
        return Err(format!("{shown} has mode {mode:04o}: it must have 0600 (chmod 600)"));
    }
    if about.len() > LARGEST {
        return Err(format!(
            "{shown} has more than {LARGEST} bytes: it is no file of Chrysalis"
        ));
    }
    // The space is there before the bytes are, so that growing leaves no copies behind.
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default() + 1);
    let read = Read::by_ref(&mut file).take(LARGEST).read_to_end(&mut bytes);
    let bytes = Secret::from_bytes(bytes);
    match read {
        Ok(_) => Ok(Some(bytes)),
        Err(error) => Err(format!("{shown} cannot be read: {error}")),
    }
}

/// Puts `bytes` in the place of the file, whole or not at all, with mode 0600.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if bytes.len() as u64 > LARGEST {
        // It could not be read again, and with it all that is in it now.
        return Err(format!("{} is full: it has at most {LARGEST} bytes", path.display()));
    }
    let put = || -> io::Result<()> {
        let beside = beside(path);
        remove_if_there(&beside)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&beside)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written?;
        sync_folder(path)
    };
    put().map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Removes the file, and what an interrupted [`write`] may have left.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    remove_if_there(&beside(path))
        .and_then(|()| remove_if_there(path))
        .and_then(|()| sync_folder(path))
        .map_err(|error| format!("{} cannot be removed: {error}", path.display()))
}

/// Removes what an interrupted [`write`] may have left.
pub(crate) fn tidy(path: &Path) {
    let _ = fs::remove_file(beside(path));
}

/// Always the same name, so that whatever is left there is found again; one that nobody else gives, because what is found
/// is removed.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".chrysalis-new");
    path.with_file_name(name)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        // Nothing is lost where a folder cannot be opened or flushed by itself; it is then flushed with the rest.
        Some(folder) => File::open(folder).and_then(|folder| folder.sync_all()).or(Ok(())),
        None => Ok(()),
    }
}
