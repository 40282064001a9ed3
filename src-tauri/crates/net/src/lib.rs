//! The only crate that opens outgoing connections. An address is checked when it is written ([`CheckedUrl`]) and again
//! when its name has been resolved, redirects are refused, a key is attached only for the origin it is bound to, and
//! every connection is in the activity log before it is made.

mod address;
mod body;
mod checked;
mod error;
mod guard;
mod log;
mod mask;
mod pattern;
mod proxy;
mod request;
mod send;
pub mod spec;
mod walk;

pub use address::{Granted, Reach};
pub use body::{Body, Spend};
pub use checked::CheckedUrl;
pub use error::NetError;
pub use guard::{Resolver, SystemResolver};
pub use log::{Attempt, ConnectionLog, End, Outcome};
pub use pattern::{HostPattern, PatternError};
pub use proxy::{Proxy, ProxyError};
pub use request::HeaderOut;
pub use send::{Incoming, KeyStyle, Net, Outgoing};
pub use spec::{FetchSpec, SpecHeader};
pub use walk::{Fetch, FetchResult, Fetched};
