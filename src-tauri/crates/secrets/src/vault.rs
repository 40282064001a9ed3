use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use url::Url;

use crate::asking::State;
use crate::keychain::{self, Trouble};
use crate::ledger::{Ledger, SEALED_FILE};
use crate::plain::PlainFile;
use crate::sealed::{Open, SealedFile};
use crate::text::tidy;
use crate::{
    Bound, EncryptedStatus, FileStatus, KeyStatus, KeychainStatus, MAX_KEY_BYTES, Origin, Secret, Standing, Store,
};

/// Whether the operating system's keychain may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keychain {
    /// The operating system's: Keychain, Credential Manager, Secret Service.
    System,
    /// No: keys are kept for this run only, unless the person chose a file.
    None,
}

/// Where a vault may keep things beside the keychain.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// A folder of its own that only this user can read, for the ledger and the file under a passphrase. Without one
    /// there is neither.
    pub folder: Option<PathBuf>,
    /// The file that `config.toml` names; where there is one, keys are kept in it and nowhere else.
    pub file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VaultError {
    #[error("the key is empty")]
    Empty,
    #[error("the key is longer than {MAX_KEY_BYTES} bytes; check that only the key was pasted")]
    TooLong,
    #[error("the key has a line break in it; check that only the key was pasted, and only once")]
    LineBreak,
    #[error("this is a whole header, not a key: leave out the name or the word Bearer in front of the key")]
    Header,
    #[error("the key stands in quotation marks: leave them out")]
    Quoted,
    #[error("this is a line of a settings file: paste only what stands behind the =")]
    Assignment,
    #[error("the key contains spaces or characters that no key has; check that only the key was pasted")]
    Characters,
    #[error(
        "there is no keychain that can be used, and nothing else was chosen for keeping keys: choose first whether they are \
         kept in a file under a passphrase or only until Chrysalis ends (Settings, Models, or PUT /v1/settings/keys)"
    )]
    ChooseStore,
    #[error("keys cannot be read or saved now: {0}")]
    Locked(String),
    #[error("nothing was saved: {0}")]
    NotSaved(String),
    #[error(
        "the key could not be removed, so it is not used until Chrysalis starts again, and then it is: {0}; try again when \
         that is put right"
    )]
    StillKept(String),
    #[error("this is not the passphrase of the file")]
    WrongPassphrase,
    #[error("a passphrase has at least {} characters", crate::moving::SHORTEST_PASSPHRASE)]
    ShortPassphrase,
    #[error("config.toml names a file for keys ([keys] file): change it there and start Chrysalis again")]
    Configured,
    #[error("a file for keys is named in config.toml ([keys] file) and nowhere else")]
    NotConfigured,
    #[error("the keys stay where they were: {0}")]
    NotMoved(String),
}

/// A key together with where it may go. Emptied when the key is forgotten, so that a handle given out before that is empty
/// too.
pub(crate) struct Held {
    pub(crate) bound: Bound,
    pub(crate) kept: Mutex<Store>,
    pub(crate) key: Mutex<Option<Secret>>,
}

impl Held {
    pub(crate) fn new(bound: Bound, kept: Store, key: Secret) -> Arc<Self> {
        Arc::new(Self {
            bound,
            kept: Mutex::new(kept),
            key: Mutex::new(Some(key)),
        })
    }
}

#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) held: HashMap<String, Arc<Held>>,
    /// Ids the place of keys was asked about and has nothing for.
    pub(crate) known_absent: HashSet<String>,
}

pub(crate) struct Inner {
    pub(crate) service: String,
    pub(crate) keychain: Keychain,
    pub(crate) state: Mutex<State>,
    pub(crate) checked: Condvar,
    /// Threads that wait for the keychain, or for the person in front of its dialog.
    pub(crate) waiting: AtomicUsize,
    pub(crate) memory: Mutex<Memory>,
    /// Held while keys are read, written or moved: one at a time, so that a slow `put` cannot overtake the `forget` that
    /// came after it.
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) sealed: Option<SealedFile>,
    /// The key of the file under a passphrase, while it is unlocked.
    pub(crate) open: Mutex<Option<Open>>,
    pub(crate) file: Option<PlainFile>,
}

/// All keys of one home. Cheap to clone. Methods that may ask the keychain block for at most three seconds each time it is
/// asked (normally a few milliseconds, and only the first time for each id), and those that are given a passphrase for
/// about half a second: call them where blocking is allowed.
#[derive(Clone)]
pub struct Vault(pub(crate) Arc<Inner>);

impl Vault {
    /// Opens the keys kept under `service` without places beside the keychain. See [`Vault::open_in`].
    pub fn open(keychain: Keychain, service: &str) -> Self {
        Self::open_in(keychain, service, Places::default(), Vec::new)
    }

    /// Opens the keys kept under `service`, a name unique to the home. Returns at once; the keychain is tried out (a
    /// write, a read and a removal) in the background, and what needs the result waits for it. Where keys are kept
    /// elsewhere it is only looked for, which asks nobody for a password.
    ///
    /// `known` is asked only where there is no ledger yet: ids of keys that an older version may have put into the
    /// keychain.
    pub fn open_in(keychain: Keychain, service: &str, places: Places, known: impl FnOnce() -> Vec<String>) -> Self {
        let ledger = Ledger::open(places.folder.as_deref(), known);
        let elsewhere = places.file.is_some() || !matches!(ledger.chosen(), None | Some(Store::Keychain));
        let state = match keychain {
            Keychain::System => State::Checking { since: Instant::now() },
            Keychain::None => State::Unusable(Trouble::Absent("the keychain is switched off for this run".into())),
        };
        let inner = Arc::new(Inner {
            service: service.to_owned(),
            keychain,
            state: Mutex::new(state),
            checked: Condvar::new(),
            waiting: AtomicUsize::new(0),
            memory: Mutex::new(Memory::default()),
            ledger: Mutex::new(ledger),
            sealed: places.folder.map(|folder| SealedFile::new(folder.join(SEALED_FILE))),
            open: Mutex::new(None),
            file: places.file.map(PlainFile::new),
        });
        if keychain == Keychain::System {
            match elsewhere {
                false => inner.try_out(|service| keychain::probe(service).map(|()| State::Usable)),
                true => inner.try_out(|service| keychain::look(service).map(|()| State::Present)),
            }
        }
        Self(inner)
    }

    /// Waits for the first try-out of the keychain to end, at most three seconds after [`Vault::open`].
    pub fn status(&self) -> KeychainStatus {
        let (locked, reason) = match self.0.ready() {
            Ok(()) => (false, None),
            Err(trouble) => (
                matches!(trouble, Trouble::Locked(_) | Trouble::Silent),
                Some(trouble.reason()),
            ),
        };
        KeychainStatus {
            usable: reason.is_none(),
            locked,
            reason,
        }
    }

    /// Where keys are kept. Waits as [`Vault::status`] does.
    pub fn keys(&self) -> KeyStatus {
        let inner = &self.0;
        let keychain = self.status();
        let ledger = inner.ledger.lock();
        KeyStatus {
            store: inner.store(&ledger),
            chosen: inner.file.is_some() || ledger.chosen().is_some() || inner.keychain == Keychain::None,
            keychain,
            encrypted: EncryptedStatus {
                exists: inner.sealed.as_ref().is_some_and(SealedFile::exists),
                unlocked: inner.open.lock().is_some(),
            },
            file: FileStatus {
                path: inner.file.as_ref().map(|file| file.path().to_owned()),
                reason: inner.file.as_ref().and_then(|file| file.check().err()),
            },
        }
    }

    /// Whether [`Vault::put`] would take this key now, without saving it.
    pub fn would_keep(&self, secret: &Secret) -> Result<(), VaultError> {
        tidy(secret)?;
        let inner = &self.0;
        let ledger = inner.ledger.lock();
        inner.usable(inner.store(&ledger).ok_or(VaultError::ChooseStore)?)
    }

    /// Keeps `secret` under `id`, for requests to what `bound` covers only, and replaces what was there, wherever it was.
    /// White space around the key is dropped. Where that fails, nothing is changed.
    pub fn put(&self, id: &str, bound: impl Into<Bound>, secret: Secret) -> Result<Store, VaultError> {
        let (bound, key) = (bound.into(), tidy(&secret)?);
        let inner = &self.0;
        let mut ledger = inner.ledger.lock();
        let store = inner.store(&ledger).ok_or(VaultError::ChooseStore)?;
        inner.usable(store)?;
        inner.write(&mut ledger, store, id, &bound, &key)?;
        inner.drop_from_memory(id);
        let mut memory = inner.memory.lock();
        memory.known_absent.remove(id);
        memory.held.insert(id.to_owned(), Held::new(bound, store, key));
        drop(memory);
        // An older copy must not come back when keys are kept there again.
        for other in [Store::Keychain, Store::Encrypted, Store::File] {
            if other != store
                && let Err(why) = inner.erase(&mut ledger, other, id)
            {
                tracing::warn!(id, why, "an older copy of a key could not be removed");
            }
        }
        Ok(store)
    }

    /// Removes the key from memory, from every [`KeyHandle`] given out, and from every place it may be kept in. Forgetting
    /// what is not there succeeds. Gives what to tell the person where a keychain is out of reach: the key is not used
    /// any more, and is removed from there as soon as that is possible.
    pub fn forget(&self, id: &str) -> Result<Option<String>, VaultError> {
        let inner = &self.0;
        let mut ledger = inner.ledger.lock();
        inner.drop_from_memory(id);
        inner.memory.lock().known_absent.insert(id.to_owned());
        // Every place is tried before one that failed is told of.
        let places = [Store::Encrypted, Store::File, Store::Keychain];
        let results = places.map(|place| inner.erase(&mut ledger, place, id));
        let mut notice = None;
        for result in results {
            notice = result.map_err(VaultError::StillKept)?.or(notice);
        }
        Ok(notice)
    }

    /// The key under `id`, if there is one that can be read and is bound to exactly `expected`.
    pub fn handle<B>(&self, id: &str, expected: &B) -> Option<KeyHandle>
    where
        for<'a> &'a B: Into<Bound>,
    {
        let held = self.0.find(id)?;
        (held.bound == expected.into()).then_some(KeyHandle(held))
    }

    /// Where the key under `id` is kept, whatever it is bound to and even where it cannot be read now.
    pub fn has(&self, id: &str) -> Option<Store> {
        match self.0.find(id) {
            Some(held) => Some(*held.kept.lock()),
            None => self.0.locked_away(id),
        }
    }

    /// Whether the key under `id` can be used for `expected`, and what is in the way.
    pub fn standing(&self, id: &str, expected: &Bound) -> Standing {
        match self.0.find(id) {
            Some(held) if held.bound == *expected => Standing::Ready(*held.kept.lock()),
            Some(held) => Standing::Elsewhere(*held.kept.lock(), held.bound.clone()),
            None => self.0.locked_away(id).map_or(Standing::None, Standing::Locked),
        }
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({})", self.0.service)
    }
}

impl Inner {
    /// Where keys are kept now. Waits for the first try-out of the keychain where that decides.
    pub(crate) fn store(&self, ledger: &Ledger) -> Option<Store> {
        match (&self.file, ledger.chosen()) {
            (Some(_), _) => Some(Store::File),
            (None, Some(Store::Encrypted)) if self.sealed.is_some() => Some(Store::Encrypted),
            (None, Some(Store::Run)) => Some(Store::Run),
            _ if self.keychain == Keychain::None => Some(Store::Run),
            (None, Some(Store::Keychain)) => Some(Store::Keychain),
            _ => self.ready().is_ok().then_some(Store::Keychain),
        }
    }

    /// Whether keys can be read from and written to their place now.
    fn usable(&self, store: Store) -> Result<(), VaultError> {
        match store {
            Store::Keychain => self.ready().map_err(|trouble| VaultError::Locked(trouble.reason())),
            Store::Encrypted if self.open.lock().is_none() => Err(VaultError::Locked(
                "the file of keys is locked; unlock it with its passphrase (Settings, Models)".into(),
            )),
            Store::File => match self.file.as_ref().map(PlainFile::check) {
                Some(Err(why)) => Err(VaultError::Locked(why)),
                _ => Ok(()),
            },
            Store::Encrypted | Store::Run => Ok(()),
        }
    }

    pub(crate) fn write(
        self: &Arc<Self>,
        ledger: &mut Ledger,
        store: Store,
        id: &str,
        bound: &Bound,
        key: &Secret,
    ) -> Result<(), VaultError> {
        match (store, &self.sealed, &self.file) {
            (Store::Run, ..) => Ok(()),
            (Store::Keychain, ..) => self.write_keychain(ledger, id, bound, key),
            (Store::Encrypted, Some(sealed), _) => match &*self.open.lock() {
                Some(open) => sealed.put(open, id, bound, key).map_err(VaultError::NotSaved),
                None => Err(VaultError::Locked("the file of keys is locked".into())),
            },
            (Store::File, _, Some(file)) => file.put(id, bound, key).map_err(VaultError::NotSaved),
            (Store::Encrypted | Store::File, ..) => Err(VaultError::ChooseStore),
        }
    }

    fn write_keychain(
        self: &Arc<Self>,
        ledger: &mut Ledger,
        id: &str,
        bound: &Bound,
        key: &Secret,
    ) -> Result<(), VaultError> {
        ledger.expect(id).map_err(VaultError::NotSaved)?;
        let (name, bound, key, late_name) = (id.to_owned(), bound.clone(), key.clone(), id.to_owned());
        let result = self.ask(
            move |service| keychain::write(service, &name, &bound, &key),
            // The person was told that it was not saved: an entry that arrives after that must not stay.
            move |of, result| {
                if result.is_ok() {
                    of.bury();
                    tracing::info!(id = late_name, "the keychain answered too late; the key was not kept");
                }
            },
        );
        match result {
            Ok(()) => Ok(()),
            Err(trouble @ Trouble::Locked(_)) => Err(VaultError::Locked(trouble.reason())),
            Err(trouble) => {
                if trouble == Trouble::Silent {
                    // What will stand there is not known: neither the old key nor the new one is used.
                    let _ = ledger.doom(id);
                    self.drop_from_memory(id);
                }
                Err(VaultError::NotSaved(trouble.reason()))
            }
        }
    }

    /// Removes a key from one place. `Ok` with words for the person where that has to wait for the keychain.
    pub(crate) fn erase(
        self: &Arc<Self>,
        ledger: &mut Ledger,
        place: Store,
        id: &str,
    ) -> Result<Option<String>, String> {
        match place {
            Store::Run => Ok(None),
            Store::Encrypted => self
                .sealed
                .as_ref()
                .map_or(Ok(()), |file| file.erase(id))
                .map(|()| None),
            Store::File => self.file.as_ref().map_or(Ok(()), |file| file.erase(id)).map(|()| None),
            Store::Keychain if !ledger.to_erase(id) => Ok(None),
            Store::Keychain => {
                let known = ledger.listed(id) || ledger.doomed().iter().any(|doomed| doomed == id);
                // Before it is asked, so that the key is gone for good whatever happens meanwhile.
                ledger.doom(id)?;
                let name = id.to_owned();
                let result = self.ask(
                    move |service| keychain::erase(service, &name),
                    |of, result| {
                        if result.is_ok() {
                            of.bury();
                        }
                    },
                );
                match result {
                    Ok(()) => ledger.erased(id).map(|()| None),
                    // Without a ledger nothing is known of this keychain, and there is nothing to wait for.
                    Err(Trouble::Absent(_)) if !known => ledger.erased(id).map(|()| None),
                    Err(trouble) => Ok(Some(format!(
                        "The key is not used any more. It is still in the keychain, which cannot be reached now ({}), and is \
                         removed as soon as it can.",
                        trouble.reason()
                    ))),
                }
            }
        }
    }

    pub(crate) fn drop_from_memory(&self, id: &str) {
        if let Some(held) = self.memory.lock().held.remove(id) {
            *held.key.lock() = None;
        }
    }

    fn remembered(&self, id: &str) -> Option<Option<Arc<Held>>> {
        let memory = self.memory.lock();
        match memory.held.get(id) {
            Some(held) => Some(Some(held.clone())),
            None => memory.known_absent.contains(id).then_some(None),
        }
    }

    fn find(self: &Arc<Self>, id: &str) -> Option<Arc<Held>> {
        if let Some(known) = self.remembered(id) {
            return known;
        }
        // In turn with put and forget, so that what is read here is not older than what they did.
        let mut ledger = self.ledger.lock();
        if let Some(known) = self.remembered(id) {
            return known;
        }
        let store = self.store(&ledger)?;
        let found = self.read(&ledger, store, id);
        if store == Store::Keychain && matches!(found, Ok(None)) && ledger.listed(id) {
            // As with most connections of an older version, which kept no list. It is only asked again if this fails.
            let _ = ledger.erased(id);
        }
        let mut memory = self.memory.lock();
        match found {
            Ok(Some((bound, key))) => {
                let held = Held::new(bound, store, key);
                memory.held.insert(id.to_owned(), held.clone());
                Some(held)
            }
            Ok(None) => {
                memory.known_absent.insert(id.to_owned());
                None
            }
            Err(why) => {
                tracing::debug!(id, why, "a key could not be read");
                None
            }
        }
    }

    pub(crate) fn read(
        self: &Arc<Self>,
        ledger: &Ledger,
        store: Store,
        id: &str,
    ) -> Result<Option<(Bound, Secret)>, String> {
        match (store, &self.sealed, &self.file) {
            (Store::Keychain, ..) if !ledger.in_keychain(id) => Ok(None),
            (Store::Keychain, ..) => {
                let name = id.to_owned();
                self.ask(move |service| keychain::read(service, &name), |_, _| {})
                    .map_err(|trouble| trouble.reason())
            }
            (Store::Encrypted, Some(sealed), _) => match &*self.open.lock() {
                Some(open) => sealed.get(open, id),
                None => Err("the file of keys is locked".into()),
            },
            (Store::File, _, Some(file)) => file.get(id),
            (Store::Run | Store::Encrypted | Store::File, ..) => Ok(None),
        }
    }

    /// The place that has a key of this id but does not give it out now.
    fn locked_away(&self, id: &str) -> Option<Store> {
        let ledger = self.ledger.lock();
        let store = self.store(&ledger);
        match (store, &self.sealed) {
            (Some(Store::Encrypted), Some(sealed)) => {
                let locked = self.open.lock().is_none();
                (locked && sealed.ids().is_ok_and(|ids| ids.iter().any(|own| own == id))).then_some(Store::Encrypted)
            }
            (Some(Store::Keychain) | None, _) => {
                (self.ready().is_err() && ledger.listed(id)).then_some(Store::Keychain)
            }
            _ => None,
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
