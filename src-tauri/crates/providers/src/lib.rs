//! Model servers over their wire formats: the OpenAI chat-completions stream, model lists, the servers people run at
//! home, and the built-in offline demo. Connections are made by crate `net`, keys are attached by it and never seen
//! here; whatever a server sends is foreign input and becomes either text or an error, never a panic.
#![allow(
    clippy::result_large_err,
    reason = "an error ends its request, and says much: it is made once, and moved a few times"
)]

mod answer;
mod cache;
mod calls;
mod chat;
mod converse;
mod decode;
pub mod demo;
mod embed;
mod endpoint;
mod error;
mod formats;
mod halves;
mod http_in;
mod images;
mod intake;
mod local;
mod media;
mod models;
mod picture;
mod presets;
mod prices;
mod progress;
mod quirks;
mod replay;
mod request;
mod schema;
mod speech;
mod sse;
mod structured;
mod tags;
mod tools;
mod values;
mod window;
mod wire;

pub use answer::{Answer, Event, GenerateResult, Usage};
pub use chat::{EventStream, chat};
pub use converse::{MAX_ROUNDS, converse};
pub use decode::{StreamDecode, StreamDecoder};
pub use embed::{EMBEDDING_MODEL, MAX_TEXTS, embed};
pub use endpoint::{Endpoint, Limits, is_local, normal_base};
pub use error::{ProviderError, ProviderErrorKind};
pub use formats::{
    FormatSource, PromptFormat, check_prompt_format, prompt_format, prompt_format_by_name, prompt_formats,
};
pub use images::{ImageRequest, MadeImage, image, makes_images};
pub use intake::replay;
pub use local::{Found, probe, probe_local};
pub use models::{ModelInfo, ModelList, likely_reasons, list_models};
pub use picture::Picture;
pub use presets::{Preset, presets};
pub use prices::{MediaPrice, Price, media_price_of, price_of, prices_stated, stated_cost};
pub use quirks::Quirks;
pub use request::{GenerateRequest, Level, Message, PresetParams, ReasoningTags, Role};
pub use schema::schema;
pub use speech::{MAX_SPEECH, MAX_VOICE, Sound, SoundFormat, SpeechRequest, Voice, speaks, speech, voices};
pub use tools::{MAX_TOOLS, NoTools, Tool, ToolAnswer, ToolBox};
pub use wire::Api;
