//! Keys for model servers and secrets given to plugins: kept in the operating system's keychain, bound to the one address
//! they were given for. The only crate that ever holds key bytes; it gives them to crate `net` alone, and there is no file to fall back on:
//! where no keychain can be used, a key lives in memory until the program ends, and says so.

mod bound;
mod origin;
mod plugin;
mod secret;
mod store;
mod vault;

pub use bound::Bound;
pub use origin::{Origin, OriginError};
pub use plugin::plugin_secret_id;
pub use secret::Secret;
pub use vault::{Kept, KeyHandle, Keychain, KeychainStatus, MAX_KEY_BYTES, Vault, VaultError};
