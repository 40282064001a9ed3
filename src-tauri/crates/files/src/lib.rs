//! The only crate that opens a path on someone else's behalf.
//!
//! A [`Folder`] is an open directory handle. Every path given to it is a text of `/`-separated portable names
//! ([`check_path`]) and is walked one name at a time from that handle, never following a symbolic link, so that neither
//! a crafted name nor a race with whoever writes in the folder leads out of it. Reading opens regular files with a
//! single name on disk only: a FIFO would block, and a hard link may be a file from elsewhere.
//!
//! A [`GuestFolder`] is what a plugin's `host.fs` stands on: an app's data folder, with writing, streaming, transactions
//! that outlast a kill, and a count of what it takes up.

mod error;
mod folder;
mod guest;
mod name;
mod remove;
mod walk;
mod write;

pub use error::{FileError, Kind};
pub use folder::{Contained, Entry, Folder, MAX_ENTRIES};
pub use guest::{GuestFolder, MAX_GUEST_ENTRIES, Stat, Transaction, Upload, cost};
pub use name::{MAX_DEPTH, MAX_NAME, MAX_PATH, NameError, PortableName, check_path, fold};
pub use walk::{Found, WalkLimits};
