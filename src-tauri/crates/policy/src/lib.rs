//! Who may ask for what: callers, capabilities, grants, the access table's types and the context that travels with a
//! call. This crate does no I/O and keeps no state; every other crate may depend on it and it depends on none of them.

mod access;
mod caller;
mod context;
mod grant;
mod host_policy;
mod id;

pub use access::{Access, Callers, Condition, MANAGEMENT_HEADS, MANAGEMENT_TREES, is_management_head};
pub use caller::{Caller, CallerKind};
pub use context::{CallContext, ContextError, MAX_DEPTH, TraceId};
pub use grant::{Capability, CodeHash, Grant, GrantState, UnknownCapability};
pub use host_policy::{HostPolicy, PluginPolicy};
pub use id::{AccountId, AppId, IdError, JOINT, PluginId, random_hex};
