//! Making pictures.

use std::time::Duration;

use base64::Engine as _;
use http::Method;
use net::{Net, NetError, Outgoing, Reach};
use policy::CallContext;
use secrets::Origin;
use serde_json::{Value, json};
use url::Url;

use crate::error::{Blame, looks_like_html};
use crate::http_in::read_body;
use crate::media::{Bounds, Whole, ask, json as read_json, openai_side};
use crate::picture::kind;
use crate::{Endpoint, ProviderError, ProviderErrorKind};

/// How long a picture may take (contract section 4.4).
const PATIENCE: Duration = Duration::from_secs(600);
/// Largest picture accepted, in bytes. A raw one of 4096 by 2048 pixels at four bytes is this large.
const MAX_IMAGE: usize = 32 << 20;
/// Largest answer: such a picture in base64, which is a third more, and a mebibyte for what is around it.
const MAX_ANSWER: usize = MAX_IMAGE / 3 * 4 + (1 << 20);

/// A picture to be made.
#[derive(Debug, Clone, Copy)]
pub struct ImageRequest<'a> {
    pub prompt: &'a str,
    /// A bare id, or with the connection in front.
    pub model: &'a str,
    /// `1024x1024`, `auto`, …: the server decides which it takes.
    pub size: Option<&'a str>,
    /// `standard`, `hd`, `low`, `high`, …: likewise.
    pub quality: Option<&'a str>,
}

/// A picture that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeImage {
    pub bytes: Vec<u8>,
    /// What the bytes show: PNG, JPEG, GIF or WebP.
    pub mime: &'static str,
    /// US dollars, if the server says.
    pub cost: Option<f64>,
}

/// Has one picture made, within ten minutes and 32 MiB. A picture that the server gives the address of is fetched without
/// the key: from the internet, or from the server itself.
pub async fn image(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    request: &ImageRequest<'_>,
) -> Result<MadeImage, ProviderError> {
    let ctx = ctx.clone().within(PATIENCE);
    let model = endpoint.bare(request.model);
    let blame = Blame {
        name: endpoint.name.clone(),
        model: Some(model.to_owned()),
        key: endpoint.key.clone(),
    };
    let side = openai_side(endpoint);
    let (page, question) = if makes_them_in_chat(endpoint) {
        ("chat/completions", chat_question(model, request))
    } else {
        ("images/generations", question(model, request))
    };
    let bounds = Bounds {
        patience: PATIENCE,
        most: MAX_ANSWER,
    };
    let what = (Method::POST, page, "image");
    let whole = ask(&ctx, net, &side, &blame, what, Some(&question), bounds).await?;
    let value = read_json(&blame, &whole)?;
    let cost = value.pointer("/usage/cost").and_then(Value::as_f64);
    let cost = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
    let bytes = match place(&value) {
        Some(Place::Base64(text)) => decode(text).map_err(|why| blame.unexpected(why, &whole.url))?,
        Some(Place::Url(text)) => match text.strip_prefix("data:") {
            Some(rest) => {
                let data = rest.split_once(',').map_or("", |(_, data)| data);
                decode(data).map_err(|why| blame.unexpected(why, &whole.url))?
            }
            None => fetch(&ctx, net, &side, &blame, text).await?,
        },
        None => return Err(none_in(&blame, &value, &whole)),
    };
    if bytes.len() > MAX_IMAGE {
        let error = NetError::TooBig {
            url: whole.url,
            max: MAX_IMAGE as u64,
        };
        return Err(blame.network(error));
    }
    let mime =
        kind(&bytes).ok_or_else(|| blame.unexpected("sent something that is no PNG, JPEG, GIF or WebP", &whole.url))?;
    Ok(MadeImage { bytes, mime, cost })
}

/// OpenRouter has no page for pictures: its models put them into an answer.
fn makes_them_in_chat(endpoint: &Endpoint) -> bool {
    let host = endpoint.base_url.host_str().unwrap_or_default();
    endpoint.preset.as_deref() == Some("openrouter") || host == "openrouter.ai" || host.ends_with(".openrouter.ai")
}

fn question(model: &str, request: &ImageRequest<'_>) -> Value {
    let mut question = json!({"model": model, "prompt": request.prompt, "n": 1});
    if model.contains("dall-e") {
        // The only ones that take it. An address of theirs would have to be fetched in addition.
        question["response_format"] = "b64_json".into();
    }
    for (name, value) in [("size", request.size), ("quality", request.quality)] {
        if let Some(value) = value {
            question[name] = value.into();
        }
    }
    question
}

fn chat_question(model: &str, request: &ImageRequest<'_>) -> Value {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": request.prompt}],
        "modalities": ["image", "text"],
        "usage": {"include": true},
    })
}

enum Place<'a> {
    Base64(&'a str),
    Url(&'a str),
}

/// Where an answer has its picture.
fn place(value: &Value) -> Option<Place<'_>> {
    let text = |at: &str| value.pointer(at)?.as_str().filter(|text| !text.is_empty());
    if let Some(text) = ["/data/0/b64_json", "/images/0/b64_json", "/images/0"]
        .into_iter()
        .find_map(text)
    {
        return Some(match text.starts_with("data:") || text.starts_with("http") {
            true => Place::Url(text),
            false => Place::Base64(text),
        });
    }
    let addresses = [
        "/data/0/url",
        "/images/0/url",
        "/choices/0/message/images/0/image_url/url",
        "/choices/0/message/images/0/url",
    ];
    addresses.into_iter().find_map(text).map(Place::Url)
}

/// Why there is none, in the server's words where it has some.
fn none_in(blame: &Blame, value: &Value, whole: &Whole) -> ProviderError {
    let words = value.pointer("/choices/0/message/content").and_then(Value::as_str);
    match words.filter(|words| !words.trim().is_empty()) {
        Some(words) => blame.refused(words.trim(), &whole.url),
        None => blame.unexpected("answered without a picture", &whole.url),
    }
}

fn decode(text: &str) -> Result<Vec<u8>, &'static str> {
    let text: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let engine = base64::engine::general_purpose::STANDARD;
    engine.decode(text).map_err(|_| "sent base64 that cannot be read")
}

/// Fetches a picture without any key.
async fn fetch(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    blame: &Blame,
    text: &str,
) -> Result<Vec<u8>, ProviderError> {
    // Servers at home give an address of their own. Nothing else in the house is asked for at a server's word.
    let own = endpoint.origin().ok();
    let at = Url::parse(text).ok().and_then(|url| Origin::of(&url).ok());
    let reach = match own {
        Some(own) if at.as_ref() == Some(&own) => Reach::Named(own),
        _ => Reach::Public,
    };
    let purpose = "image";
    let url = net
        .check(ctx, &Method::GET, text, &reach, purpose)
        .map_err(|error| blame.network(error))?;
    let shown = url.shown();
    let mut outgoing = Outgoing::new(Method::GET, url, purpose);
    outgoing.max_bytes = MAX_IMAGE as u64;
    let incoming = net.send(ctx, outgoing).await.map_err(|error| blame.network(error))?;
    if !incoming.status.is_success() {
        let what = format!("answered {} where its picture should be", incoming.status.as_u16());
        return Err(blame.unexpected(&what, &shown));
    }
    let body = read_body(incoming, &shown, MAX_IMAGE)
        .await
        .map_err(|error| blame.network(error))?;
    match looks_like_html(&body) {
        true => Err(blame.web_page(&shown)),
        false => Ok(body),
    }
}

/// Whether a model makes pictures, by its id: lists rarely say.
pub fn makes_images(id: &str) -> bool {
    const NAMES: [&str; 13] = [
        "dall-e",
        "gpt-image",
        "flux",
        "stable-diffusion",
        "imagen",
        "seedream",
        "hidream",
        "ideogram",
        "recraft",
        "kolors",
        "playground-v",
        "midjourney",
        "riverflow",
    ];
    let id = id.to_ascii_lowercase();
    if ["embed", "caption", "vision", "moderation"]
        .iter()
        .any(|no| id.contains(no))
    {
        return false;
    }
    let mut words = id.split(|c: char| !c.is_ascii_alphanumeric());
    NAMES.iter().any(|name| id.contains(name))
        || words.any(|word| {
            let version = word.strip_prefix("sd");
            word == "image" || version.is_some_and(|v| v.is_empty() || v.starts_with("xl") || is_number(v))
        })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Blame {
    /// An answer that is not what was asked for.
    pub(crate) fn unexpected(&self, what: &str, url: &str) -> ProviderError {
        let what = format!("{what} (tried {url}) — check the address and the model");
        self.tried(ProviderErrorKind::NotTheApi, what, url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_models_make_pictures() {
        for id in [
            "dall-e-3",
            "gpt-image-1",
            "chatgpt-image-latest",
            "black-forest-labs/FLUX.1-schnell",
            "stabilityai/stable-diffusion-xl-base-1.0",
            "sd",
            "sd3.5-large",
            "sdxl-turbo",
            "imagen-4.0-generate-001",
            "google/gemini-2.5-flash-image",
            "Qwen/Qwen-Image",
        ] {
            assert!(makes_images(id), "{id}");
        }
        for id in [
            "gpt-4o",
            "sdk-model",
            "text-embedding-image",
            "wisdom-7b",
            "llama-3.2-vision",
            "",
            "imagine-chat",
        ] {
            // The last one has `imagin`, not `imagen`.
            assert!(!makes_images(id), "{id}");
        }
    }
}
