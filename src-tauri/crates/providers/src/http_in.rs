//! Sending one request to the first address that has the page.

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, Method};
use net::{Incoming, KeyStyle, Net, NetError, Outgoing, Reach};
use policy::CallContext;

use crate::error::{Blame, error_in, looks_like_html};
use crate::{Endpoint, ProviderError, ProviderErrorKind};

/// Longest body read of an answer that is an error, in bytes; only a part of it is shown.
const MAX_ERROR_BODY: usize = 64 << 10;

pub(crate) struct Ask<'a> {
    pub(crate) ctx: &'a CallContext,
    pub(crate) net: &'a Net,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) blame: &'a Blame,
    pub(crate) purpose: &'static str,
}

/// An answer with an error status, read in part.
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) tried: Vec<String>,
}

pub(crate) enum Asked {
    /// A success, and the address that gave it.
    Answer(Incoming, String),
    Refusal(Refusal),
}

impl Ask<'_> {
    /// Asks the addresses where `page` may be, in turn, as long as they answer that there is no such page.
    pub(crate) async fn send(
        &self,
        method: Method,
        page: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Asked, ProviderError> {
        let origin = self
            .endpoint
            .origin()
            .map_err(|error| self.blame.error(ProviderErrorKind::Unusable, error.to_string()))?;
        let reach = Reach::Named(origin);
        let mut tried: Vec<String> = Vec::new();
        let mut last = None;
        for url in self.endpoint.candidates(page) {
            let url = self
                .net
                .check(self.ctx, &method, url, &reach, self.purpose)
                .map_err(|error| self.blame.network(error))?;
            let shown = url.shown();
            tried.push(shown.clone());
            let limits = self.endpoint.limits;
            let mut outgoing = Outgoing::new(method.clone(), url, self.purpose);
            outgoing.headers = headers.clone();
            outgoing.body = body.clone();
            outgoing.key = self.endpoint.key.clone();
            outgoing.key_style = KeyStyle::Bearer;
            outgoing.connect_timeout = limits.connect;
            outgoing.first_byte_timeout = limits.first_byte;
            outgoing.idle_timeout = limits.idle;
            outgoing.max_bytes = limits.max_bytes;
            let incoming = self
                .net
                .send(self.ctx, outgoing)
                .await
                .map_err(|error| self.blame.network(error))?;
            if incoming.status.is_success() {
                return Ok(Asked::Answer(incoming, shown));
            }
            let status = incoming.status.as_u16();
            let body = read_error_body(incoming).await;
            let absent = matches!(status, 404 | 405) && !says_why(&body);
            // The first answer is the more telling one, unless it only says that there is nothing.
            if !absent || last.is_none() {
                last = Some((status, body));
            }
            if !absent {
                break;
            }
        }
        let (status, body) = last.unwrap_or((404, Vec::new()));
        Ok(Asked::Refusal(Refusal { status, body, tried }))
    }
}

/// Whether a "not found" is about something inside the API, such as an unknown model, and not about the page.
fn says_why(body: &[u8]) -> bool {
    serde_json::from_slice(body).is_ok_and(|value| error_in(&value).is_some())
}

/// As much of the body as came in good order.
async fn read_error_body(incoming: Incoming) -> Vec<u8> {
    let mut body = incoming.body;
    let mut out = Vec::new();
    while let Some(Ok(piece)) = body.next().await {
        out.extend_from_slice(&piece);
        if out.len() > MAX_ERROR_BODY {
            out.truncate(MAX_ERROR_BODY);
            break;
        }
    }
    out
}

/// The whole body, at most `max` bytes.
pub(crate) async fn read_body(incoming: Incoming, url: &str, max: usize) -> Result<Vec<u8>, NetError> {
    let mut body = incoming.body;
    let mut out = Vec::new();
    while let Some(piece) = body.next().await {
        out.extend_from_slice(&piece?);
        if out.len() > max {
            return Err(NetError::TooBig {
                url: url.to_owned(),
                max: max as u64,
            });
        }
    }
    Ok(out)
}

pub(crate) fn is_web_page(headers: &HeaderMap, body: &[u8]) -> bool {
    let html = headers
        .get(http::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|kind| kind.trim_start().to_ascii_lowercase().starts_with("text/html"));
    let trimmed = body.trim_ascii_start();
    looks_like_html(trimmed) || (html && !trimmed.starts_with(b"{") && !trimmed.starts_with(b"data:"))
}
