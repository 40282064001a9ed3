//! What pictures and sounds have in common: one question to one page, and an answer whose type its bytes decide.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use net::Net;
use policy::CallContext;
use serde_json::Value;

use crate::error::{Blame, error_in, looks_like_html};
use crate::http_in::{Ask, Asked, read_body};
use crate::{Api, Endpoint, ProviderError};

/// The OpenAI-compatible side of a server. Ollama's and Google's are at other addresses than their own formats; the
/// others have theirs where the connection points.
pub(crate) fn openai_side(endpoint: &Endpoint) -> Endpoint {
    let mut side = endpoint.clone();
    side.api = Api::OpenaiCompletions;
    if endpoint.api == Api::GoogleGenerativeAi {
        // `https://generativelanguage.googleapis.com/v1beta/openai/images/generations`
        side.base_url = endpoint.below_version("openai");
    }
    side
}

/// How long, and how much.
pub(crate) struct Bounds {
    /// For the whole request.
    pub(crate) patience: Duration,
    /// Of the answer's body, in bytes.
    pub(crate) most: usize,
}

/// An answer with a success status, read whole.
pub(crate) struct Whole {
    pub(crate) body: Vec<u8>,
    /// The address that gave it.
    pub(crate) url: String,
}

/// Sends `question` to `page` of a server's OpenAI-compatible side. `endpoint` is that side already. An error status, a
/// web page and an empty answer are errors.
pub(crate) async fn ask(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    blame: &Blame,
    (method, page, purpose): (Method, &str, &'static str),
    question: Option<&Value>,
    bounds: Bounds,
) -> Result<Whole, ProviderError> {
    let ctx = ctx.clone().within(bounds.patience);
    let mut endpoint = endpoint.clone();
    endpoint.limits.first_byte = bounds.patience;
    endpoint.limits.max_bytes = bounds.most as u64;
    let ask = Ask {
        ctx: &ctx,
        net,
        endpoint: &endpoint,
        blame,
        purpose,
    };
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let mut body = Bytes::new();
    if let Some(question) = question {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        body = Bytes::from(question.to_string());
    }
    if endpoint.key.is_none() {
        // As in `chat`: some local servers insist on any key at all.
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer no-key"));
    }
    let (incoming, url) = match ask.send(method, page, headers, body).await? {
        Asked::Answer(incoming, url) => (incoming, url),
        Asked::Refusal(refusal) => return Err(blame.status(&refusal)),
    };
    let body = read_body(incoming, &url, bounds.most)
        .await
        .map_err(|error| blame.network(error))?;
    if body.trim_ascii().is_empty() {
        return Err(blame.unexpected("answered with nothing", &url));
    }
    // By its bytes alone: what a server claims of a picture or a sound is often wrong.
    if looks_like_html(&body) {
        return Err(blame.web_page(&url));
    }
    Ok(Whole { body, url })
}

/// Reads an answer as JSON that is not an error.
pub(crate) fn json(blame: &Blame, whole: &Whole) -> Result<Value, ProviderError> {
    let text = String::from_utf8_lossy(&whole.body);
    let Ok(value) = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) else {
        return Err(blame.unreadable(&text, &whole.url));
    };
    match error_in(&value) {
        Some(_) => Err(blame.in_answer(&value, &whole.url)),
        None => Ok(value),
    }
}

/// The type of a sound by its first bytes; those that browsers play.
pub(crate) fn sound_kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'I', b'D', b'3', ..] => Some("audio/mpeg"),
        // A frame's first eleven bits, and a layer that is not the reserved one, which AAC has.
        [0xff, second, ..] if second & 0xe0 == 0xe0 && second & 0x06 != 0 => Some("audio/mpeg"),
        [b'O', b'g', b'g', b'S', ..] => Some("audio/ogg"),
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Some("audio/webm"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => Some("audio/wav"),
        [b'f', b'L', b'a', b'C', ..] => Some("audio/flac"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn sounds_by_their_bytes() {
        for (bytes, want) in [
            (&b"ID3\x04"[..], Some("audio/mpeg")),
            (b"\xff\xfb\x90\x00", Some("audio/mpeg")),
            (b"\xff\xf3\x90\x00", Some("audio/mpeg")),
            (b"\xff\xf1\x50\x80", None),
            (b"OggS\0", Some("audio/ogg")),
            (b"\x1a\x45\xdf\xa3", Some("audio/webm")),
            (b"RIFF\0\0\0\0WAVEfmt ", Some("audio/wav")),
            (b"RIFF\0\0\0\0WEBPVP8 ", None),
            (b"fLaC", Some("audio/flac")),
            (b"{\"error\":1}", None),
            (b"<html>", None),
            (b"", None),
        ] {
            assert_eq!(sound_kind(bytes), want, "{bytes:?}");
        }
    }

    #[test]
    fn where_the_compatible_pages_are() {
        for (api, base, want) in [
            (
                Api::Ollama,
                "http://127.0.0.1:11434",
                "http://127.0.0.1:11434/v1/embeddings",
            ),
            (Api::Ollama, "http://h:1/ollama/api", "http://h:1/ollama/api/embeddings"),
            (
                Api::GoogleGenerativeAi,
                "https://generativelanguage.googleapis.com/v1beta",
                "https://generativelanguage.googleapis.com/v1beta/openai/embeddings",
            ),
            (
                Api::GoogleGenerativeAi,
                "https://generativelanguage.googleapis.com",
                "https://generativelanguage.googleapis.com/v1beta/openai/embeddings",
            ),
            (
                Api::OpenaiResponses,
                "https://api.openai.com/v1",
                "https://api.openai.com/v1/embeddings",
            ),
        ] {
            let mut endpoint = Endpoint::new("c", "c", Url::parse(base).unwrap());
            endpoint.api = api;
            let url = openai_side(&endpoint).candidates("embeddings").remove(0);
            assert_eq!(url.as_str(), want);
        }
    }
}
