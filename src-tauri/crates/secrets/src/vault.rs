use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use serde::Serialize;
use url::Url;

use crate::store::{self, PATIENCE, Trouble};
use crate::{Bound, Origin, Secret};

/// Longest key accepted, in bytes (contract section 8).
pub const MAX_KEY_BYTES: usize = 4096;

/// Where keys are to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keychain {
    /// The operating system's: Keychain, Credential Manager, Secret Service.
    System,
    /// Nowhere but in memory, because the person said so.
    None,
}

/// Whether keys outlive this run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeychainStatus {
    pub usable: bool,
    /// What is wrong, in words for the person; `None` when usable.
    pub reason: Option<String>,
}

/// Where a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kept {
    /// In the operating system's keychain.
    Keychain,
    /// In memory only; gone when the program ends. [`Vault::status`] says why.
    ThisRun,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    #[error("the key is empty")]
    Empty,
    #[error("the key is longer than {MAX_KEY_BYTES} bytes; check that only the key was pasted")]
    TooLong,
    #[error("the key contains line breaks or characters that no key has; check that only the key was pasted")]
    Characters,
    /// The key is out of memory, but an older run's copy may still be in the keychain.
    #[error("the key is no longer used, but could not be removed from the keychain: {0}")]
    StillInKeychain(String),
}

/// A key together with where it may go. Emptied when the key is forgotten, so that a handle given out before that is empty
/// too.
struct Held {
    bound: Bound,
    kept: Kept,
    key: Mutex<Option<Secret>>,
}

enum State {
    Checking { since: Instant },
    Usable,
    Unusable(Trouble),
}

#[derive(Default)]
struct Memory {
    held: HashMap<String, Arc<Held>>,
    /// Ids the keychain was asked about and has nothing for.
    known_absent: std::collections::HashSet<String>,
}

struct Inner {
    service: String,
    state: Mutex<State>,
    checked: Condvar,
    memory: Mutex<Memory>,
    /// One writer at a time, so that a slow `put` cannot overtake the `forget` that came after it.
    writing: Mutex<()>,
}

/// All keys of one home. Cheap to clone. Methods that may ask the keychain block for at most three seconds (normally a
/// few milliseconds, and only the first time for each id): call them where blocking is allowed.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

impl Vault {
    /// Opens the keys kept under `service`, a name unique to the home. Returns at once; the keychain is tried out (a
    /// write, a read and a removal) in the background, and what needs the result waits for it.
    pub fn open(keychain: Keychain, service: &str) -> Self {
        let state = match keychain {
            Keychain::System => State::Checking { since: Instant::now() },
            Keychain::None => State::Unusable(Trouble::Absent("the keychain is switched off for this run".into())),
        };
        let inner = Arc::new(Inner {
            service: service.to_owned(),
            state: Mutex::new(state),
            checked: Condvar::new(),
            memory: Mutex::new(Memory::default()),
            writing: Mutex::new(()),
        });
        if keychain == Keychain::System {
            let probed = inner.clone();
            let started = std::thread::Builder::new()
                .name("keychain-probe".into())
                .spawn(move || {
                    let result = store::probe(&probed.service);
                    probed.settle(result);
                });
            if started.is_err() {
                inner.settle(Err(Trouble::Refused(
                    "no thread could be started to ask the keychain".into(),
                )));
            }
        }
        Self(inner)
    }

    /// Waits for the first try-out to end, at most three seconds after [`Vault::open`].
    pub fn status(&self) -> KeychainStatus {
        match self.0.ready() {
            Ok(()) => KeychainStatus {
                usable: true,
                reason: None,
            },
            Err(trouble) => KeychainStatus {
                usable: false,
                reason: Some(trouble.reason()),
            },
        }
    }

    /// Keeps `secret` under `id`, for requests to what `bound` covers only, and replaces what was there. White space around the
    /// key is dropped. With no usable keychain, or when it refuses, the key is kept for this run.
    pub fn put(&self, id: &str, bound: impl Into<Bound>, secret: Secret) -> Result<Kept, VaultError> {
        let text = secret.text().ok_or(VaultError::Characters)?.trim();
        if text.is_empty() {
            return Err(VaultError::Empty);
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(VaultError::TooLong);
        }
        // A key travels in a header: visible ASCII only.
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(VaultError::Characters);
        }
        let key = Secret::new(text.to_owned());
        let bound = bound.into();
        let inner = &self.0;
        let _turn = inner.writing.lock();
        // The old key must not answer for the new origin, nor the other way round, while the keychain is busy.
        inner.drop_from_memory(id, false);
        let kept = match inner.save(id, &bound, &key) {
            Ok(()) => Kept::Keychain,
            Err(trouble) => {
                tracing::warn!(id, reason = trouble.reason(), "a key is kept for this run only");
                Kept::ThisRun
            }
        };
        let held = Held {
            bound,
            kept,
            key: Mutex::new(Some(key)),
        };
        let mut memory = inner.memory.lock();
        memory.known_absent.remove(id);
        memory.held.insert(id.to_owned(), Arc::new(held));
        Ok(kept)
    }

    /// Removes the key from memory, from every [`KeyHandle`] given out, and from the keychain. Forgetting what is not
    /// there succeeds.
    pub fn forget(&self, id: &str) -> Result<(), VaultError> {
        let inner = &self.0;
        let _turn = inner.writing.lock();
        inner.drop_from_memory(id, true);
        match inner.ready() {
            // Nothing was ever written to a keychain that does not exist.
            Err(Trouble::Absent(_)) => return Ok(()),
            Err(Trouble::Silent) => return Err(VaultError::StillInKeychain(Trouble::Silent.reason())),
            Ok(()) | Err(_) => {}
        }
        let (service, name) = (inner.service.clone(), id.to_owned());
        store::on_a_thread(move || store::erase(&service, &name), |_| {})
            .map_err(|trouble| VaultError::StillInKeychain(trouble.reason()))
    }

    /// The key under `id`, if there is one and it is bound to exactly `expected`.
    pub fn handle(&self, id: &str, expected: impl Into<Bound>) -> Option<KeyHandle> {
        let held = self.0.find(id)?;
        (held.bound == expected.into()).then_some(KeyHandle(held))
    }

    /// Where the key under `id` is kept, whatever it is bound to.
    pub fn has(&self, id: &str) -> Option<Kept> {
        self.0.find(id).map(|held| held.kept)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({})", self.0.service)
    }
}

impl Inner {
    fn settle(&self, result: Result<(), Trouble>) {
        let state = match result {
            Ok(()) => State::Usable,
            Err(trouble) => State::Unusable(trouble),
        };
        *self.state.lock() = state;
        self.checked.notify_all();
    }

    fn ready(&self) -> Result<(), Trouble> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Usable => return Ok(()),
                State::Unusable(trouble) => return Err(trouble.clone()),
                State::Checking { since } => {
                    let until = *since + PATIENCE;
                    if self.checked.wait_until(&mut state, until).timed_out() {
                        return match &*state {
                            State::Usable => Ok(()),
                            State::Unusable(trouble) => Err(trouble.clone()),
                            State::Checking { .. } => Err(Trouble::Silent),
                        };
                    }
                }
            }
        }
    }

    fn save(self: &Arc<Self>, id: &str, bound: &Bound, key: &Secret) -> Result<(), Trouble> {
        match self.ready() {
            // A locked keychain may have been unlocked since; anything else stays as it is until the next start.
            Ok(()) | Err(Trouble::Refused(_)) => {}
            Err(trouble) => return Err(trouble),
        }
        let (service, name) = (self.service.clone(), id.to_owned());
        let (late, late_name) = (self.clone(), name.clone());
        let (bound, key) = (bound.clone(), key.clone());
        let result = store::on_a_thread(
            move || store::write(&service, &name, &bound, &key),
            // The person was told "for this run only": an entry that arrives after that must not stay.
            move |result| {
                if result.is_ok() {
                    let _ = store::erase(&late.service, &late_name);
                    late.settle(Ok(()));
                }
            },
        );
        match &result {
            Ok(()) => self.settle(Ok(())),
            Err(Trouble::ThisKey(_)) => {}
            Err(trouble) => self.settle(Err(trouble.clone())),
        }
        if result.is_err() {
            // An older key under this id must not come back at the next start. Best effort: it just refused a write.
            let (service, name) = (self.service.clone(), id.to_owned());
            let _ = store::on_a_thread(move || store::erase(&service, &name), |_| {});
        }
        result
    }

    fn drop_from_memory(&self, id: &str, absent: bool) {
        let mut memory = self.memory.lock();
        if let Some(held) = memory.held.remove(id) {
            *held.key.lock() = None;
        }
        if absent {
            memory.known_absent.insert(id.to_owned());
        }
    }

    fn find(self: &Arc<Self>, id: &str) -> Option<Arc<Held>> {
        {
            let memory = self.memory.lock();
            if let Some(held) = memory.held.get(id) {
                return Some(held.clone());
            }
            if memory.known_absent.contains(id) {
                return None;
            }
        }
        match self.ready() {
            Ok(()) | Err(Trouble::Refused(_)) => {}
            Err(_) => return None,
        }
        // In turn with put and forget, so that what is read here is not older than what they did.
        let _turn = self.writing.lock();
        {
            let memory = self.memory.lock();
            if memory.held.contains_key(id) || memory.known_absent.contains(id) {
                return memory.held.get(id).cloned();
            }
        }
        let (service, name) = (self.service.clone(), id.to_owned());
        let late = self.clone();
        let found = store::on_a_thread(
            move || store::read(&service, &name),
            // It was only slow, for instance until its password was typed: ask again next time.
            move |result| {
                if result.is_ok() {
                    late.settle(Ok(()));
                }
            },
        );
        let mut memory = self.memory.lock();
        match found {
            Ok(Some((bound, key))) => {
                let held = Arc::new(Held {
                    bound,
                    kept: Kept::Keychain,
                    key: Mutex::new(Some(key)),
                });
                memory.held.insert(id.to_owned(), held.clone());
                Some(held)
            }
            Ok(None) => {
                memory.known_absent.insert(id.to_owned());
                None
            }
            Err(trouble) => {
                tracing::warn!(id, reason = trouble.reason(), "a key could not be read");
                drop(memory);
                if matches!(trouble, Trouble::Silent | Trouble::Absent(_)) {
                    self.settle(Err(trouble));
                }
                None
            }
        }
    }
}

/// Permission to use one key at one address, without seeing it. Cheap to clone; empty once the key is forgotten.
#[derive(Clone)]
pub struct KeyHandle(Arc<Held>);

impl KeyHandle {
    pub fn origin(&self) -> &Origin {
        self.0.bound.origin()
    }

    /// What it may be sent to.
    pub fn bound(&self) -> &Bound {
        &self.0.bound
    }

    /// The key, for a request to `target`, when that is what it is bound to; `None` for any other address, and once it
    /// is forgotten. For crate `net` alone: a `tidy` test sees to it that no other crate says this name.
    pub fn reveal_to_net(&self, target: &Url) -> Option<Secret> {
        if !self.0.bound.covers(target) {
            return None;
        }
        self.0.key.lock().clone()
    }

    /// `text` with every occurrence of the key replaced: for messages of a server that repeats what it was sent.
    pub fn redact(&self, text: &str) -> String {
        match self.0.key.lock().as_ref().and_then(Secret::text) {
            Some(key) if text.contains(key) => text.replace(key, "[key]"),
            _ => text.to_owned(),
        }
    }
}

impl fmt::Debug for KeyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyHandle({})", self.0.bound)
    }
}
