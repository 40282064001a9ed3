//! Keys for model servers and secrets given to plugins, each bound to the one address it was given for. The only crate that
//! ever holds key bytes; it gives them to crate `net` alone. They are kept in the operating system's keychain or, where
//! there is none, in the place the person chose: a file under a passphrase, a file that `config.toml` names, or memory.

mod asking;
mod bound;
mod disk;
mod keychain;
mod ledger;
mod moving;
mod origin;
mod plain;
mod plugin;
mod sealed;
mod secret;
mod status;
mod text;
mod vault;

pub use bound::Bound;
pub use origin::{Origin, OriginError};
pub use plugin::plugin_secret_id;
pub use secret::Secret;
pub use status::{EncryptedStatus, FileStatus, KeyStatus, KeychainStatus, Standing, Store};
pub use text::MAX_KEY_BYTES;
pub use vault::{KeyHandle, Keychain, Places, Vault, VaultError};
