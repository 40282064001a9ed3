//! Asks a server at home for its model's template: llama.cpp and KoboldCpp on `/props`, Ollama on `/api/show`.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method};
use net::{Net, NetError, Outgoing, Reach};
use parking_lot::Mutex;
use policy::CallContext;
use serde_json::{Value, json};

use super::{Format, detect};
use crate::Endpoint;
use crate::http_in::read_body;

/// How long the answer may take. A person waits for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest answer read, in bytes: the longest published templates have some 20 KB, and `/api/show` lists a model's
/// licence beside them.
const MAX_ANSWER: usize = 1 << 20;
/// How long an answer is used, also one that there is no template (contract section 4.3).
const AGE: Duration = Duration::from_secs(60);
/// Most answers kept; all are forgotten when there are more.
const MAX_KEPT: usize = 500;

/// By connection, address and model.
type Known = HashMap<[String; 3], (Instant, Option<Format>)>;

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// `None` where the server is not at home, does not tell, or tells nothing that is known.
pub(super) async fn by_template(ctx: &CallContext, net: &Net, endpoint: &Endpoint, model: &str) -> Option<Format> {
    if !endpoint.is_local() {
        return None;
    }
    let slot = [
        endpoint.connection_id.clone(),
        endpoint.base_url.to_string(),
        model.to_owned(),
    ];
    if let Some((at, format)) = KNOWN.lock().get(&slot)
        && at.elapsed() < AGE
    {
        return format.clone();
    }
    let ctx = ctx.clone().within(PATIENCE);
    let said = match endpoint.preset.as_deref() {
        Some("ollama") => show(&ctx, net, endpoint, model).await,
        Some("llamacpp" | "llama.cpp" | "koboldcpp") => props(&ctx, net, endpoint).await,
        _ => match futures::join!(props(&ctx, net, endpoint), show(&ctx, net, endpoint, model)) {
            (Said::Template(template), _) | (_, Said::Template(template)) => Said::Template(template),
            (Said::Absent, Said::Absent) => Said::Absent,
            _ => Said::Nothing,
        },
    };
    let format = match said {
        Said::Template(template) => detect::by_template(&template).map(Format::from),
        Said::Nothing => None,
        // It may be on its way up.
        Said::Absent => return None,
    };
    let mut known = KNOWN.lock();
    if known.len() >= MAX_KEPT {
        known.clear();
    }
    known.insert(slot, (Instant::now(), format.clone()));
    format
}

/// What became of asking for a template.
enum Said {
    Template(String),
    /// The server has no such page, or no template, or does not answer in time.
    Nothing,
    /// No connection could be made.
    Absent,
}

async fn props(ctx: &CallContext, net: &Net, endpoint: &Endpoint) -> Said {
    ask(ctx, net, endpoint, Method::GET, "props", Bytes::new(), "chat_template").await
}

async fn show(ctx: &CallContext, net: &Net, endpoint: &Endpoint, model: &str) -> Said {
    let body = Bytes::from(json!({"model": model, "name": model}).to_string());
    ask(ctx, net, endpoint, Method::POST, "api/show", body, "template").await
}

/// The text `field` of the object that `page` answers.
async fn ask(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    method: Method,
    page: &str,
    body: Bytes,
    field: &str,
) -> Said {
    let Ok(origin) = endpoint.origin() else {
        return Said::Nothing;
    };
    let purpose = "prompt format";
    let Ok(url) = net.check(ctx, &method, endpoint.below_root(page), &Reach::Named(origin), purpose) else {
        return Said::Nothing;
    };
    let shown = url.shown();
    let mut outgoing = Outgoing::new(method, url, purpose);
    let json = HeaderValue::from_static("application/json");
    outgoing.headers.insert(ACCEPT, json.clone());
    if !body.is_empty() {
        outgoing.headers.insert(CONTENT_TYPE, json);
    }
    outgoing.body = body;
    outgoing.key = endpoint.key.clone();
    outgoing.key_style = endpoint.api.wire().key_style();
    outgoing.connect_timeout = PATIENCE;
    outgoing.first_byte_timeout = PATIENCE;
    outgoing.idle_timeout = PATIENCE;
    outgoing.max_bytes = MAX_ANSWER as u64;
    let incoming = match net.send(ctx, outgoing).await {
        Ok(incoming) if incoming.status.is_success() => incoming,
        Err(NetError::Connect { .. }) => return Said::Absent,
        Ok(_) | Err(_) => return Said::Nothing,
    };
    let body = read_body(incoming, &shown, MAX_ANSWER).await.unwrap_or_default();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    match answer.get(field).and_then(Value::as_str) {
        Some(template) => Said::Template(template.to_owned()),
        None => Said::Nothing,
    }
}
