//! Choosing where keys are kept, and unlocking that place. Keys move with the choice, all or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ledger::Ledger;
use crate::sealed::SealedError;
use crate::vault::{Held, Inner};
use crate::{Bound, Keychain, Secret, Store, Vault, VaultError};

/// In characters. Argon2id makes each guess slow, not a short word safe.
pub(crate) const SHORTEST_PASSPHRASE: usize = 8;

/// Keys on their way, by id.
type Keys = BTreeMap<String, (Bound, Secret)>;

impl Vault {
    /// Keeps keys in `store` from now on, and moves those there are. Where that fails, all stay where they were and
    /// nothing is changed. For [`Store::Encrypted`] the passphrase opens the file, or makes it where there is none.
    ///
    /// Keys in a locked file under a passphrase cannot be moved: that is an error, unless `discard` says that they are to
    /// be deleted, for who has forgotten the passphrase. Keys in a keychain that does not answer stay in it, and are used again when it is chosen again; the
    /// text that is given says so.
    pub fn choose(
        &self,
        store: Store,
        passphrase: Option<&Secret>,
        discard: bool,
    ) -> Result<Option<String>, VaultError> {
        let inner = &self.0;
        let mut ledger = inner.ledger.lock();
        if inner.file.is_some() {
            return Err(VaultError::Configured);
        }
        let old = inner.store(&ledger);
        if old == Some(Store::Encrypted) && store != Store::Encrypted && inner.open.lock().is_none() && !discard {
            let is_empty = match &inner.sealed {
                Some(sealed) => sealed.ids().map_err(VaultError::NotMoved)?.is_empty(),
                None => true,
            };
            if !is_empty {
                return Err(VaultError::Locked(
                    "the file of keys is locked, so they cannot be moved; unlock it with its passphrase first".into(),
                ));
            }
        }
        let mut made = false;
        match store {
            Store::File => return Err(VaultError::NotConfigured),
            Store::Keychain if inner.keychain == Keychain::None => {
                return Err(VaultError::Locked("the keychain is switched off for this run".into()));
            }
            Store::Keychain => inner
                .ask_again()
                .map_err(|trouble| VaultError::Locked(trouble.reason()))?,
            Store::Encrypted => {
                let forgotten = discard && inner.open.lock().is_none();
                if forgotten && let (Some(sealed), Some(passphrase)) = (&inner.sealed, passphrase) {
                    long_enough(passphrase)?;
                    sealed.remove().map_err(VaultError::NotMoved)?;
                }
                made = inner.open_sealed(passphrase, true)?;
            }
            Store::Run => {}
        }
        let moved = inner.gather(&ledger, old, store).and_then(|(keys, stayed)| {
            inner.bring(&mut ledger, store, &keys)?;
            Ok((keys, stayed))
        });
        let (keys, stayed) = match moved {
            Ok(moved) => moved,
            Err(why) => {
                if made {
                    inner.close_sealed(true);
                }
                return Err(why);
            }
        };
        Ok(inner.clear(&mut ledger, store, keys, stayed))
    }

    /// Opens the file under a passphrase or, where keys are kept elsewhere, asks the keychain for its password once more.
    pub fn unlock(&self, passphrase: Option<&Secret>) -> Result<(), VaultError> {
        let inner = &self.0;
        let ledger = inner.ledger.lock();
        match inner.store(&ledger) {
            Some(Store::Encrypted) => inner.open_sealed(passphrase, false)?,
            Some(Store::File | Store::Run) => return Ok(()),
            Some(Store::Keychain) | None => {
                inner
                    .ask_again()
                    .map_err(|trouble| VaultError::Locked(trouble.reason()))?;
                false
            }
        };
        inner.memory.lock().known_absent.clear();
        Ok(())
    }

    /// Locks the file under a passphrase, and empties every handle to a key of it. Does nothing where keys are kept
    /// elsewhere.
    pub fn lock(&self) {
        let inner = &self.0;
        let _turn = inner.ledger.lock();
        inner.close_sealed(false);
    }
}

fn long_enough(passphrase: &Secret) -> Result<(), VaultError> {
    match passphrase.text().map_or(0, |text| text.chars().count()) {
        length if length < SHORTEST_PASSPHRASE => Err(VaultError::ShortPassphrase),
        _ => Ok(()),
    }
}

impl Inner {
    /// Whether the file had to be made.
    fn open_sealed(&self, passphrase: Option<&Secret>, make: bool) -> Result<bool, VaultError> {
        let sealed = self
            .sealed
            .as_ref()
            .ok_or_else(|| VaultError::NotMoved("there is no folder for it".into()))?;
        let mut open = self.open.lock();
        if !sealed.exists() {
            // What was unlocked is not there any more.
            *open = None;
        }
        let passphrase = match passphrase {
            Some(passphrase) => passphrase,
            None if open.is_some() => return Ok(false),
            None => return Err(VaultError::ShortPassphrase),
        };
        let made = !sealed.exists();
        let result = match made {
            false => sealed.open(passphrase),
            true if !make => return Err(VaultError::Locked(format!("{} is not there", sealed.path().display()))),
            true => {
                long_enough(passphrase)?;
                sealed.make(passphrase)
            }
        };
        *open = Some(result.map_err(|error| match error {
            SealedError::Wrong => VaultError::WrongPassphrase,
            SealedError::Other(why) => VaultError::Locked(why),
        })?);
        Ok(made)
    }

    fn close_sealed(&self, remove: bool) {
        *self.open.lock() = None;
        let mut memory = self.memory.lock();
        memory.held.retain(|_, held| {
            let stays = *held.kept.lock() != Store::Encrypted;
            if !stays {
                *held.key.lock() = None;
            }
            stays
        });
        drop(memory);
        if remove
            && let Some(sealed) = &self.sealed
            && let Err(why) = sealed.remove()
        {
            tracing::warn!(why, "an empty file of keys is left");
        }
    }

    /// Every key that is to be in `to`, and what the person is told of those that cannot be read.
    fn gather(
        self: &Arc<Self>,
        ledger: &Ledger,
        from: Option<Store>,
        to: Store,
    ) -> Result<(Keys, Option<String>), VaultError> {
        let mut keys = Keys::new();
        let mut stayed = None;
        if to != Store::Keychain {
            let ids = ledger.keychain();
            for (at, id) in ids.iter().enumerate() {
                match self.read(ledger, Store::Keychain, id) {
                    Ok(Some(key)) => _ = keys.insert(id.clone(), key),
                    Ok(None) => {}
                    Err(why) => {
                        let (many, them) = match ids.len() - at {
                            1 => (
                                "1 saved key".to_owned(),
                                "It stays in it and is not used: enter it again where you need it.",
                            ),
                            more => (
                                format!("{more} saved keys"),
                                "They stay in it and are not used: enter them again where you need them.",
                            ),
                        };
                        stayed = Some(format!("{many} could not be read from the keychain ({why}). {them}"));
                        break;
                    }
                }
            }
        }
        if from == Some(Store::Encrypted)
            && to != Store::Encrypted
            && let (Some(sealed), Some(open)) = (&self.sealed, &*self.open.lock())
        {
            for id in sealed.ids().map_err(VaultError::NotMoved)? {
                if let Some(key) = sealed.get(open, &id).map_err(VaultError::NotMoved)? {
                    keys.insert(id, key);
                }
            }
        }
        for (id, held) in &self.memory.lock().held {
            if *held.kept.lock() != to
                && let Some(key) = held.key.lock().clone()
            {
                keys.insert(id.clone(), (held.bound.clone(), key));
            }
        }
        Ok((keys, stayed))
    }

    /// Writes all keys to their new place and remembers it, or leaves none there.
    fn bring(self: &Arc<Self>, ledger: &mut Ledger, to: Store, keys: &Keys) -> Result<(), VaultError> {
        let mut written = Vec::new();
        let mut result = Ok(());
        for (id, (bound, key)) in keys {
            result = self.write(ledger, to, id, bound, key);
            if result.is_err() {
                break;
            }
            written.push(id);
        }
        let result = result
            .map_err(|error| VaultError::NotMoved(error.to_string()))
            .and_then(|()| ledger.choose(to).map_err(VaultError::NotMoved));
        if result.is_err() {
            for id in written {
                if let Err(why) = self.erase(ledger, to, id) {
                    tracing::warn!(id, why, "a copy of a key could not be removed again");
                }
            }
        }
        result
    }

    /// Empties the places keys were moved from.
    fn clear(self: &Arc<Self>, ledger: &mut Ledger, to: Store, keys: Keys, stayed: Option<String>) -> Option<String> {
        let mut notice = stayed;
        if to != Store::Encrypted {
            *self.open.lock() = None;
            if let Some(sealed) = &self.sealed
                && let Err(why) = sealed.remove()
            {
                notice = Some(format!(
                    "The file under the passphrase is not used any more, but {why}."
                ));
            }
        }
        let mut memory = self.memory.lock();
        memory.known_absent.clear();
        for (id, (bound, key)) in &keys {
            match memory.held.get(id) {
                Some(held) => *held.kept.lock() = to,
                None => {
                    _ = memory
                        .held
                        .insert(id.clone(), Held::new(bound.clone(), to, key.clone()))
                }
            }
        }
        drop(memory);
        if to != Store::Keychain {
            for id in keys.keys().filter(|id| ledger.listed(id)).cloned().collect::<Vec<_>>() {
                match self.erase(ledger, Store::Keychain, &id) {
                    Ok(later) => notice = later.or(notice),
                    Err(why) => notice = Some(format!("An older copy of a key could not be removed: {why}.")),
                }
            }
        }
        notice
    }
}
