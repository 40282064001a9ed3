//! Where keys are kept and whether that works, in words.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Bound;

/// A place where keys are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Store {
    /// The operating system's keychain.
    Keychain,
    /// `secrets/keys.enc` in the home, sealed under a passphrase.
    Encrypted,
    /// The file that `config.toml` names: in clear, for servers.
    File,
    /// Memory only; gone when the program ends.
    Run,
}

impl Store {
    /// As in `/v1` and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Store::Keychain => "keychain",
            Store::Encrypted => "encrypted",
            Store::File => "file",
            Store::Run => "run",
        }
    }
}

/// Whether the operating system's keychain can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeychainStatus {
    /// As far as is known: where keys are kept elsewhere, it is not asked, so that nobody has to type its password.
    pub usable: bool,
    /// It is there and wants its password; it is not asked again until [`crate::Vault::unlock`].
    pub locked: bool,
    /// What is wrong, in words for the person; `None` when usable.
    pub reason: Option<String>,
}

/// The file under a passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EncryptedStatus {
    pub exists: bool,
    pub unlocked: bool,
}

/// The file that `config.toml` names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileStatus {
    pub path: Option<PathBuf>,
    /// Why it cannot be used, in words for the person.
    pub reason: Option<String>,
}

/// The whole state of keeping keys. Serializes as the answer of `GET /v1/settings/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyStatus {
    /// Where a key is kept that is saved now; `None` when the person has to choose first.
    pub store: Option<Store>,
    /// Whether that was chosen: by the person, in `config.toml`, or by switching the keychain off.
    pub chosen: bool,
    pub keychain: KeychainStatus,
    pub encrypted: EncryptedStatus,
    pub file: FileStatus,
}

/// How a key stands to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// There is none.
    None,
    /// It can be used there.
    Ready(Store),
    /// There is one, in a place that is locked; what it is bound to is not known until then.
    Locked(Store),
    /// There is one, for another address.
    Elsewhere(Store, Bound),
}
