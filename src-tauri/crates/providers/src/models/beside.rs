//! What servers say of their models on pages beside the list: Ollama, and those at home that list a single model without
//! saying how much it takes. Errors are no news: the server speaks another dialect.

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method};
use net::{Net, Outgoing, Reach};
use policy::CallContext;
use serde_json::{Value, json};

use super::read::{chats, takes_images, window};
use super::{ModelInfo, ModelList};
use crate::http_in::read_body;
use crate::{Api, Endpoint};

/// How long all of it may take: a person waits for the list.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer read, in bytes. `/api/show` has a model's licence and the list of its tensors.
const MAX_ANSWER: usize = 4 << 20;
/// How many of Ollama's models are asked about, and how many at once.
const MAX_SHOWN: usize = 32;
const AT_ONCE: usize = 4;

pub(super) async fn complete(ctx: &CallContext, net: &Net, endpoint: &Endpoint, list: &mut ModelList) {
    let ctx = ctx.clone().within(PATIENCE);
    let asker = Asker {
        ctx: &ctx,
        net,
        endpoint,
        purpose: "models",
    };
    if endpoint.api == Api::Ollama {
        return ollama(&asker, list).await;
    }
    if !endpoint.is_local() {
        return;
    }
    let lm_studio = endpoint.preset.as_deref() == Some("lm-studio") || endpoint.base_url.port() == Some(1234);
    if lm_studio && let Some(more) = asker.get("api/v0/models").await {
        studio(&more, list);
    }
    // Contract section 8: a single local model takes its window from `/props`.
    if let [model] = list.models.as_mut_slice()
        && model.context_window.is_none()
    {
        single(&asker, model).await;
    }
}

async fn single(asker: &Asker<'_>, model: &mut ModelInfo) {
    if let Some(props) = asker.get("props").await {
        let places = ["/default_generation_settings/n_ctx", "/n_ctx"];
        model.context_window = places.iter().find_map(|path| window(props.pointer(path)?));
        let sees = props.pointer("/modalities/vision").and_then(Value::as_bool);
        model.images = model.images.or(sees);
    }
    if model.context_window.is_none()
        && let Some(answer) = asker.get("api/extra/true_max_context_length").await
    {
        model.context_window = answer.get("value").and_then(window);
    }
}

/// LM Studio's own list says more than the one it has for others.
fn studio(more: &Value, list: &mut ModelList) {
    let Some(entries) = more.get("data").and_then(Value::as_array) else {
        return;
    };
    for model in &mut list.models {
        let Some(entry) = entries
            .iter()
            .find(|entry| entry.get("id").is_some_and(|id| *id == *model.id))
        else {
            continue;
        };
        let places = ["loaded_context_length", "max_context_length"];
        let said = places.iter().find_map(|name| window(entry.get(*name)?));
        model.context_window = model.context_window.or(said);
        model.images = model.images.or_else(|| takes_images(entry));
        model.chat = model.chat.or_else(|| chats(entry));
    }
    list.models.sort_by_key(|model| model.chat == Some(false));
}

async fn ollama(asker: &Asker<'_>, list: &mut ModelList) {
    let running = async {
        match asker.endpoint.is_local() {
            true => asker.get("api/ps").await,
            false => None,
        }
    };
    let names: Vec<(usize, String)> = list.models.iter().map(|model| model.id.clone()).enumerate().collect();
    let asked = stream::iter(names.into_iter().take(MAX_SHOWN)).map(|(at, name)| async move {
        let body = Bytes::from(json!({"model": name}).to_string());
        let shown = asker.ask(Method::POST, "api/show", body).await;
        (at, shown)
    });
    let (running, shown) = futures::join!(running, asked.buffer_unordered(AT_ONCE).collect::<Vec<_>>());
    for (at, shown) in shown {
        if let (Some(model), Some(shown)) = (list.models.get_mut(at), shown) {
            describe(&shown, model);
        }
    }
    // A loaded model has the context that it was loaded with, whatever it could have.
    let running = running.as_ref().and_then(|answer| answer.get("models")?.as_array());
    for entry in running.into_iter().flatten() {
        let name = entry.get("model").or_else(|| entry.get("name")).and_then(Value::as_str);
        if let Some(model) = list.models.iter_mut().find(|model| Some(model.id.as_str()) == name)
            && let Some(tokens) = entry.get("context_length").and_then(window)
        {
            model.context_window = Some(tokens);
        }
    }
    list.models.sort_by_key(|model| model.chat == Some(false));
}

fn describe(shown: &Value, model: &mut ModelInfo) {
    let can = shown.get("capabilities").and_then(Value::as_array);
    let says = |word: &str| Some(can?.iter().any(|item| item == word));
    model.chat = says("completion");
    model.images = says("vision");
    model.reasoning = says("thinking");
    // What its Modelfile sets, before what it was made for.
    let set = shown.get("parameters").and_then(Value::as_str).and_then(|text| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix("num_ctx"))?;
        window(&Value::from(line.trim()))
    });
    let made_for = shown.get("model_info").and_then(Value::as_object).and_then(|info| {
        let (_, tokens) = info.iter().find(|(name, _)| name.ends_with(".context_length"))?;
        window(tokens)
    });
    model.context_window = set.or(made_for);
}

/// Asks one server small questions.
pub(crate) struct Asker<'a> {
    pub(crate) ctx: &'a CallContext,
    pub(crate) net: &'a Net,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) purpose: &'static str,
}

impl Asker<'_> {
    /// The JSON on a page below the server's root; `None` if there is none in time.
    pub(crate) async fn get(&self, page: &str) -> Option<Value> {
        self.ask(Method::GET, page, Bytes::new()).await
    }

    async fn ask(&self, method: Method, page: &str, body: Bytes) -> Option<Value> {
        let endpoint = self.endpoint;
        let reach = Reach::Named(endpoint.origin().ok()?);
        let url = endpoint.below_root(page);
        let url = self.net.check(self.ctx, &method, url, &reach, self.purpose).ok()?;
        let shown = url.shown();
        let mut outgoing = Outgoing::new(method, url, self.purpose);
        let json = HeaderValue::from_static("application/json");
        if !body.is_empty() {
            outgoing.headers.insert(CONTENT_TYPE, json.clone());
        }
        outgoing.headers.insert(ACCEPT, json);
        outgoing.body = body;
        outgoing.key = endpoint.key.clone();
        outgoing.key_style = endpoint.api.wire().key_style();
        outgoing.connect_timeout = PATIENCE;
        outgoing.first_byte_timeout = PATIENCE;
        outgoing.idle_timeout = PATIENCE;
        outgoing.max_bytes = MAX_ANSWER as u64;
        let incoming = self.net.send(self.ctx, outgoing).await.ok()?;
        if !incoming.status.is_success() {
            return None;
        }
        let body = read_body(incoming, &shown, MAX_ANSWER).await.ok()?;
        serde_json::from_slice(&body).ok()
    }
}
