//! What is remembered about keys beside the keys themselves: where the person wants them, and which ones a keychain may
//! hold. A keychain cannot be listed, and may be out of reach just when a key is to be deleted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Store;
use crate::disk::{self, Private};

/// Name of the file under a passphrase.
pub(crate) const SEALED_FILE: &str = "keys.enc";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Lines {
    /// What the person chose; `None` until then.
    chosen: Option<Store>,
    /// Ids of keys that the keychain may hold.
    keychain: BTreeSet<String>,
    /// Ids of keys that were deleted while the keychain was out of reach: never used again, and removed from it as soon
    /// as it can be asked.
    doomed: BTreeSet<String>,
}

/// Saved at every change; without a folder (in tests of other crates) it is kept in memory.
pub(crate) struct Ledger {
    path: Option<PathBuf>,
    lines: Lines,
}

impl Ledger {
    /// `known` gives the ids of an older version, which kept no ledger.
    pub(crate) fn open(folder: Option<&Path>, known: impl FnOnce() -> Vec<String>) -> Self {
        let path = folder.map(|folder| folder.join("ledger.json"));
        let read = path.as_deref().map(|path| disk::read(path, Private::Own));
        let lines = match read {
            None => None,
            Some(Ok(bytes)) => bytes.and_then(|bytes| {
                serde_json::from_slice::<Lines>(bytes.expose_to_net())
                    .inspect_err(|why| tracing::warn!(%why, "what was remembered about keys is damaged"))
                    .ok()
            }),
            Some(Err(why)) => {
                tracing::warn!(why, "what was remembered about keys cannot be read");
                None
            }
        };
        // The file is made when it is chosen and removed when something else is: it tells of the choice without a ledger.
        // Otherwise the next key would go elsewhere, and nobody would be asked.
        let sealed = folder.filter(|folder| folder.join(SEALED_FILE).symlink_metadata().is_ok());
        let sealed = sealed.map(|_| Store::Encrypted);
        match (lines, path) {
            (Some(mut lines), path) => {
                lines.chosen = lines.chosen.or(sealed);
                Self { path, lines }
            }
            (None, path) => {
                let lines = Lines {
                    chosen: sealed,
                    keychain: known().into_iter().collect(),
                    ..Lines::default()
                };
                let new = Self { path, lines };
                if let Err(why) = new.save() {
                    tracing::warn!(why, "where keys are kept cannot be remembered");
                }
                new
            }
        }
    }

    pub(crate) fn chosen(&self) -> Option<Store> {
        self.lines.chosen
    }

    pub(crate) fn choose(&mut self, store: Store) -> Result<(), String> {
        self.change(|lines| lines.chosen = Some(store))
    }

    /// Whether the keychain may hold this key. Without a file nothing is known, so it may.
    pub(crate) fn in_keychain(&self, id: &str) -> bool {
        !self.lines.doomed.contains(id) && (self.path.is_none() || self.lines.keychain.contains(id))
    }

    /// Whether the keychain is known to hold this key.
    pub(crate) fn listed(&self, id: &str) -> bool {
        !self.lines.doomed.contains(id) && self.lines.keychain.contains(id)
    }

    /// Whether a copy is to be removed from the keychain when this key is deleted.
    pub(crate) fn to_erase(&self, id: &str) -> bool {
        self.path.is_none() || self.lines.keychain.contains(id) || self.lines.doomed.contains(id)
    }

    pub(crate) fn keychain(&self) -> Vec<String> {
        self.lines.keychain.difference(&self.lines.doomed).cloned().collect()
    }

    pub(crate) fn doomed(&self) -> Vec<String> {
        self.lines.doomed.iter().cloned().collect()
    }

    /// To be said before the keychain is given the key.
    pub(crate) fn expect(&mut self, id: &str) -> Result<(), String> {
        self.change(|lines| {
            lines.doomed.remove(id);
            lines.keychain.insert(id.to_owned());
        })
    }

    pub(crate) fn doom(&mut self, id: &str) -> Result<(), String> {
        self.change(|lines| {
            lines.doomed.insert(id.to_owned());
        })
    }

    pub(crate) fn erased(&mut self, id: &str) -> Result<(), String> {
        self.change(|lines| {
            lines.doomed.remove(id);
            lines.keychain.remove(id);
        })
    }

    /// What could not be written down is not counted as changed.
    fn change(&mut self, change: impl FnOnce(&mut Lines)) -> Result<(), String> {
        let before = self.lines.clone();
        change(&mut self.lines);
        if self.lines == before {
            return Ok(());
        }
        self.save().inspect_err(|_| self.lines = before)
    }

    fn save(&self) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let text = serde_json::to_vec_pretty(&self.lines).map_err(|error| error.to_string())?;
        disk::write(path, &text)
    }
}
