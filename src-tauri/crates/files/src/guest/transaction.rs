use std::fmt;

use super::change::Change;
use super::journal::Journal;
use super::path::GuestPath;
use super::shared::Rooted;
use super::upload::Upload;
use super::{GuestFolder, usage};
use crate::FileError;

/// Changes to an app's data that all stay, with [`Transaction::commit`], or are all undone: when it is dropped or rolled
/// back, or at the next start when the program is killed in between. Every file is then as before, removed and renamed
/// ones too.
///
/// Each verb does what it does on [`GuestFolder`]; one that fails leaves no trace, and the transaction goes on. Reading
/// is done on the `GuestFolder` and sees what was changed so far. What is replaced or removed stays on the disk, hidden,
/// until the end.
pub struct Transaction {
    rooted: Rooted,
    /// `None` once it has ended.
    journal: Option<Journal>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transaction")
    }
}

impl Transaction {
    pub(super) fn begin(rooted: Rooted) -> Result<Self, FileError> {
        let mut state = rooted.shared.lock_idle(&rooted.root)?;
        let journal = Journal::begin(&rooted.root).map_err(FileError::in_app_data)?;
        state.in_transaction = true;
        usage::grow(&mut state, usage::cost(0));
        drop(state);
        let journal = Some(journal);
        Ok(Self { rooted, journal })
    }

    fn changing<T>(&mut self, change: impl FnOnce(&mut Change<'_>) -> Result<T, FileError>) -> Result<T, FileError> {
        let Some(journal) = &mut self.journal else {
            return Err(FileError::Busy);
        };
        let root = &self.rooted.root;
        let mut state = self.rooted.shared.state();
        let before = journal.len();
        let mut one = Change {
            root,
            state: &mut state,
            journal: Some(&mut *journal),
        };
        let done = change(&mut one);
        if done.is_err() && journal.len() > before {
            // A half-made change; when it cannot be undone now, it is with all the others at the end.
            journal.forget_paths();
            state.usage = None;
            journal.undo_to(root, before).map_err(FileError::in_app_data)?;
        }
        done.map_err(FileError::in_app_data)
    }

    /// As [`GuestFolder::write`].
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let mut upload = Upload::begin(self.rooted.again(), GuestPath::file(path)?)?;
        upload.write(bytes)?;
        self.place(upload)
    }

    /// Commits an upload to the same folder as one of this transaction's changes, instead of [`Upload::commit`].
    pub fn place(&mut self, upload: Upload) -> Result<(), FileError> {
        if self.journal.as_mut().is_some_and(Journal::syncs_singly) {
            upload.sync()?;
        }
        let (file, path) = upload.parts();
        self.changing(|change| change.place(file, path))?;
        upload.set_placed();
        Ok(())
    }

    /// As [`GuestFolder::append`].
    pub fn append(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let path = GuestPath::file(path)?;
        self.changing(|change| change.append(&path, bytes))
    }

    /// As [`GuestFolder::mkdir`].
    pub fn mkdir(&mut self, path: &str) -> Result<(), FileError> {
        let path = GuestPath::folder(path)?;
        self.changing(|change| change.folders(&path.names()).map(|_| ()))
    }

    /// As [`GuestFolder::remove`].
    pub fn remove(&mut self, path: &str) -> Result<(), FileError> {
        let path = GuestPath::below(path)?;
        self.changing(|change| change.remove(&path).map(|_| ()))
    }

    /// As [`GuestFolder::rename`].
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), FileError> {
        let (from, to) = (GuestPath::below(from)?, GuestPath::below(to)?);
        self.changing(|change| change.rename(&from, &to))
    }

    /// Makes all changes stay, also through a power cut.
    ///
    /// # Errors
    /// When the disk refuses; everything is then undone.
    pub fn commit(mut self) -> Result<(), FileError> {
        let Some(journal) = self.journal.take() else {
            return Ok(());
        };
        let shared = &self.rooted.shared;
        let mut state = shared.state();
        if let Err(error) = journal.close() {
            drop(state);
            self.journal = Some(journal);
            return self.undo().and(Err(error.in_app_data()));
        }
        shared.end_transaction(&mut state);
        drop(state);
        // From here on all is decided; what cannot be cleared now is at the next start.
        let kept = usage::measure(&self.rooted.root, journal.name());
        if journal.clear(&self.rooted.root).is_ok() {
            usage::shrink(&mut shared.state(), kept);
        }
        Ok(())
    }

    /// Undoes everything; dropping does the same, without telling how it went.
    ///
    /// # Errors
    /// When something could not be put back; what was saved stays, and every later change tries again first.
    pub fn rollback(mut self) -> Result<(), FileError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), FileError> {
        let Some(mut journal) = self.journal.take() else {
            return Ok(());
        };
        let root = &self.rooted.root;
        let mut state = self.rooted.shared.state();
        let undone = journal
            .undo_to(root, 0)
            .and_then(|()| journal.close())
            .and_then(|()| journal.clear(root));
        state.settled = undone.is_ok();
        state.usage = None;
        self.rooted.shared.end_transaction(&mut state);
        undone.map_err(FileError::in_app_data)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // There is nobody to tell: the next change to the folder tries again and tells.
        let _ = self.undo();
    }
}

impl GuestFolder {
    /// Runs `change` as one transaction: committed when it gives `Ok`, undone when not.
    ///
    /// # Errors
    /// What `change` gives, or why it could not be committed.
    pub fn transaction<T, E: From<FileError>>(
        &self,
        change: impl FnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut transaction = self.begin()?;
        let done = change(&mut transaction)?;
        transaction.commit()?;
        Ok(done)
    }
}
