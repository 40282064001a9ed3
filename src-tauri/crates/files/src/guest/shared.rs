use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cap_fs_ext::MetadataExt;

use super::journal;
use crate::{FileError, Folder, fold};

/// How long a change waits for a transaction to end: longer than one ordinarily takes, shorter than a plugin may run
/// (10 s, contract section 3.5).
const PATIENCE: Duration = Duration::from_secs(5);
/// Data folders remembered at once. What is forgotten is only counted and looked through again.
const REMEMBERED: usize = 512;
/// Folders whose names are remembered for [`State::clash`], per data folder.
const FOLDED: usize = 8;

/// Device, inode, time of birth: a folder that was removed and made again is another one.
type Key = (u64, u64, u128);

static KNOWN: Mutex<BTreeMap<Key, Arc<Shared>>> = Mutex::new(BTreeMap::new());

/// A data folder, open, with what its users of this process share.
pub(super) struct Rooted {
    pub root: Folder,
    pub shared: Arc<Shared>,
}

impl Rooted {
    pub fn of(root: Folder) -> Result<Self, FileError> {
        let about = root
            .dir
            .dir_metadata()
            .map_err(|e| FileError::io("", e).in_app_data())?;
        let born = about.created().ok().map(|t| t.into_std());
        let born = born.and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let key = (about.dev(), about.ino(), born.map_or(0, |d| d.as_nanos()));
        let shared = {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= REMEMBERED && !known.contains_key(&key) {
                known.retain(|_, shared| Arc::strong_count(shared) > 1);
            }
            Arc::clone(known.entry(key).or_default())
        };
        // The first to come undoes what a killed process left.
        drop(shared.lock(&root)?);
        Ok(Self { root, shared })
    }

    pub fn again(&self) -> Self {
        Self {
            root: self.root.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    idle: Condvar,
}

impl Shared {
    /// The state as it is, for counting only.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, between two steps of any change, with nothing left over from a killed process.
    pub fn lock(&self, root: &Folder) -> Result<MutexGuard<'_, State>, FileError> {
        let mut state = self.state();
        if !state.in_transaction {
            settle(&mut state, root)?;
        }
        Ok(state)
    }

    /// As [`Shared::lock`], once no transaction is under way.
    pub fn lock_idle(&self, root: &Folder) -> Result<MutexGuard<'_, State>, FileError> {
        let end = Instant::now() + PATIENCE;
        let mut state = self.state();
        while state.in_transaction {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(FileError::Busy);
            }
            let woken = self.idle.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        settle(&mut state, root)?;
        Ok(state)
    }

    pub fn end_transaction(&self, state: &mut State) {
        state.in_transaction = false;
        self.idle.notify_all();
    }
}

/// Undoes what is unfinished: once at first, and again when a transaction could not be undone.
fn settle(state: &mut State, root: &Folder) -> Result<(), FileError> {
    if !state.swept {
        journal::sweep(root).map_err(FileError::in_app_data)?;
        state.swept = true;
    }
    if !state.settled {
        journal::recover(root).map_err(FileError::in_app_data)?;
        state.settled = true;
        state.usage = None;
    }
    Ok(())
}

#[derive(Default)]
pub(super) struct State {
    pub in_transaction: bool,
    /// What uploads of a killed process left is gone.
    swept: bool,
    /// No transaction is left unfinished, except one that is under way.
    pub settled: bool,
    /// What all takes up, and when it was counted.
    pub usage: Option<(u64, Instant)>,
    hasher: RandomState,
    folded: Vec<Names>,
}

/// The names in one folder as [`fold`] has them, hashed.
struct Names {
    folder: (u64, u64),
    /// Anything that comes or goes changes it, ours included.
    modified: Option<SystemTime>,
    hashes: HashMap<u64, u32>,
}

impl State {
    /// The name in `folder` that a system which ignores case takes for `name`; `except` is about to go.
    ///
    /// Remembers the names of a few folders: a scan for each new file would make many files slow.
    pub fn clash(&mut self, folder: &Folder, name: &str, except: Option<&str>) -> std::io::Result<Option<String>> {
        let folded = fold(name);
        let hash = self.hasher.hash_one(&folded);
        if !self.names(folder)?.hashes.contains_key(&hash) {
            return Ok(None);
        }
        for entry in folder.dir.entries()? {
            let found = entry?.file_name();
            if let Some(found) = found.to_str()
                && found != name
                && Some(found) != except
                && fold(found) == folded
            {
                return Ok(Some(found.to_owned()));
            }
        }
        Ok(None)
    }

    fn names(&mut self, folder: &Folder) -> std::io::Result<&mut Names> {
        let about = folder.dir.dir_metadata()?;
        let (id, modified) = ((about.dev(), about.ino()), about.modified().ok().map(|t| t.into_std()));
        let at = self.folded.iter().position(|names| names.folder == id);
        let mut names = match at {
            Some(at) => self.folded.remove(at),
            None => Names {
                folder: id,
                modified: None,
                hashes: HashMap::new(),
            },
        };
        if names.modified.is_none() || names.modified != modified {
            names.hashes.clear();
            for entry in folder.dir.entries()? {
                if let Some(name) = entry?.file_name().to_str() {
                    *names.hashes.entry(self.hasher.hash_one(fold(name))).or_default() += 1;
                }
            }
            names.modified = modified;
        }
        // The latest stands last; the first is the one to forget.
        if self.folded.len() >= FOLDED {
            self.folded.remove(0);
        }
        self.folded.push(names);
        let last = self.folded.len() - 1;
        Ok(&mut self.folded[last])
    }

    /// After we ourselves made (`true`) or removed an entry of `folder`, under the lock.
    pub fn changed(&mut self, folder: &Folder, name: &str, came: bool) {
        let Ok(about) = folder.dir.dir_metadata() else {
            return;
        };
        let id = (about.dev(), about.ino());
        let hash = self.hasher.hash_one(fold(name));
        if let Some(names) = self.folded.iter_mut().find(|names| names.folder == id) {
            let count = names.hashes.entry(hash).or_default();
            *count = if came { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                names.hashes.remove(&hash);
            }
            names.modified = about.modified().ok().map(|t| t.into_std());
        }
    }
}
