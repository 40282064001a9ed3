//! Which models a server has, and what it says of them.

pub(crate) mod beside;
mod read;

pub use read::likely_reasons;

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use net::Net;
use policy::CallContext;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Blame, error_in};
use crate::http_in::{Ask, Asked, is_web_page, read_body};
use crate::{Api, Endpoint, Price, ProviderError, ProviderErrorKind};

/// How long a model list may take (contract section 8).
const PATIENCE: Duration = Duration::from_secs(15);
/// Largest list accepted, in bytes; the largest public one is about 2 MB.
const MAX_LIST: usize = 16 << 20;
/// Most objects in a list that is parsed. One takes some 700 bytes in memory, whatever its few bytes on the way; the
/// largest public list has about 5,000.
const MAX_OBJECTS: usize = 100_000;
/// Most models kept of one server. Every page that asks for models is sent all of them.
const MAX_MODELS: usize = 5_000;
/// Longest model id accepted, in bytes; also the longest that settings keep (contract section 6).
const MAX_ID: usize = 200;

/// A model, and what its server says of it. `None` is for what it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelInfo {
    /// As the server wants it back.
    pub id: String,
    /// In tokens, as the model is loaded where that is known, and otherwise what it was made for.
    pub context_window: Option<u64>,
    /// A name for people, where there is one beside the id; at most 120 characters.
    pub label: Option<String>,
    /// Whether it can think before it answers.
    pub reasoning: Option<bool>,
    /// The levels of thinking it takes, in the words of [`crate::Level`], lowest first. Empty where they are not said.
    pub reasoning_levels: Vec<String>,
    /// Whether it takes images.
    pub images: Option<bool>,
    /// Whether it answers in words. Those that do not, such as models for embeddings, are at the list's end.
    pub chat: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelList {
    /// In the server's order, without repetitions; those that do not answer in words are last.
    pub models: Vec<ModelInfo>,
    /// Entries without a usable id, and those beyond the 5,000 that are kept.
    pub skipped: usize,
    /// What the list says models cost, by their ids.
    #[serde(skip)]
    pub prices: Vec<(String, Price)>,
}

/// Asks a server for its models, with the key if there is one, within 15 seconds. Ollama is asked about its first 32
/// models one by one, and other servers at home about their model, if they have just one and do not say how much it takes;
/// what that adds comes within 5 of those seconds or is left out.
pub async fn list_models(ctx: &CallContext, net: &Net, endpoint: &Endpoint) -> Result<ModelList, ProviderError> {
    let ctx = ctx.clone().within(PATIENCE);
    let mut found = list(&ctx, net, endpoint, "models").await?;
    beside::complete(&ctx, net, endpoint, &mut found).await;
    Ok(found)
}

/// The page of the list.
fn page(api: Api) -> &'static str {
    match api {
        Api::AnthropicMessages => "models?limit=1000",
        Api::GoogleGenerativeAi => "models?pageSize=1000",
        Api::Ollama => "api/tags",
        Api::OpenaiCompletions | Api::OpenaiResponses | Api::OpenaiText => "models",
    }
}

pub(crate) async fn list(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    purpose: &'static str,
) -> Result<ModelList, ProviderError> {
    let blame = Blame {
        name: endpoint.name.clone(),
        model: None,
        key: endpoint.key.clone(),
    };
    let ask = Ask {
        ctx,
        net,
        endpoint,
        blame: &blame,
        purpose,
    };
    let mut headers = HeaderMap::new();
    headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
    endpoint.api.wire().headers(&mut headers);
    let (incoming, url) = match ask.send(Method::GET, page(endpoint.api), headers, Bytes::new()).await? {
        Asked::Answer(incoming, url) => (incoming, url),
        Asked::Refusal(refusal) => return Err(blame.status(&refusal)),
    };
    let headers = incoming.headers.clone();
    let body = read_body(incoming, &url, MAX_LIST)
        .await
        .map_err(|error| blame.network(error))?;
    if is_web_page(&headers, &body) {
        return Err(blame.web_page(&url));
    }
    if body.iter().filter(|byte| **byte == b'{').count() > MAX_OBJECTS {
        let what = format!("sent a list of models with more than {MAX_OBJECTS} entries (tried {url})");
        return Err(blame.error(ProviderErrorKind::NotTheApi, what));
    }
    let text = String::from_utf8_lossy(&body);
    let Ok(value) = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) else {
        return Err(blame.unreadable(&text, &url));
    };
    if error_in(&value).is_some() {
        return Err(blame.in_answer(&value, &url));
    }
    read::read_list(endpoint.api, &value).ok_or_else(|| {
        let what = format!("answered without a list of models (tried {url}); check the address");
        blame.error(ProviderErrorKind::NotTheApi, what)
    })
}
