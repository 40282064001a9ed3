//! Model servers over their wire formats: the OpenAI chat-completions stream, model lists, the servers people run at
//! home, and the built-in offline demo. Connections are made by crate `net`, keys are attached by it and never seen
//! here; whatever a server sends is foreign input and becomes either text or an error, never a panic.

mod answer;
mod chat;
mod chunk;
pub mod demo;
mod endpoint;
mod error;
mod http_in;
mod local;
mod models;
mod request;
mod sse;

pub use answer::{Answer, Event, GenerateResult, Usage};
pub use chat::{EventStream, chat};
pub use endpoint::{Endpoint, Limits, normal_base};
pub use error::{ProviderError, ProviderErrorKind};
pub use local::{Found, Preset, presets, probe, probe_local};
pub use models::{ModelInfo, ModelList, list_models};
pub use request::{GenerateRequest, Message, PresetParams, Role};
