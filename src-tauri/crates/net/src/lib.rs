//! The only crate that opens outgoing connections. An address is checked when it is written ([`CheckedUrl`]) and again
//! when its name has been resolved, redirects are refused, a key is attached only for the origin it is bound to, and
//! every connection is in the activity log before it is made.

mod address;
mod body;
mod checked;
mod error;
mod guard;
mod log;
mod send;

pub use address::Reach;
pub use body::Body;
pub use checked::CheckedUrl;
pub use error::NetError;
pub use guard::{Resolver, SystemResolver};
pub use log::{Attempt, ConnectionLog, End, Outcome};
pub use send::{Incoming, KeyStyle, Net, Outgoing};
