//! Sending one request to the first address that has the page.

use bytes::Bytes;
use futures::StreamExt;
use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue, Method};
use net::{Incoming, Net, NetError, Outgoing, Reach};
use policy::CallContext;
use serde_json::Value;

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
    /// When to ask again, in milliseconds, if the server said so.
    pub(crate) retry_after: Option<u64>,
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
            // Packing makes small events wait for each other. A server that packs nevertheless is understood.
            outgoing
                .headers
                .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            outgoing.body = body.clone();
            outgoing.key = self.endpoint.key.clone();
            outgoing.key_style = self.endpoint.api.wire().key_style();
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
            let retry_after = retry_after(&incoming.headers);
            let body = read_error_body(incoming).await;
            let absent = matches!(status, 404 | 405) && !says_why(&body);
            // The first answer is the more telling one, unless it only says that there is nothing.
            if !absent || last.is_none() {
                last = Some((status, body, retry_after));
            }
            if !absent {
                break;
            }
        }
        let (status, body, retry_after) = last.unwrap_or((404, Vec::new(), None));
        Ok(Asked::Refusal(Refusal {
            status,
            body,
            tried,
            retry_after,
        }))
    }
}

/// How long a server wants to be left alone: `retry-after-ms`, or `Retry-After` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
        return (0.0..1e9).contains(&ms).then_some(ms as u64);
    }
    let given = text("retry-after")?;
    if let Ok(seconds) = given.parse::<f64>() {
        return (0.0..1e6).contains(&seconds).then_some((seconds * 1000.0) as u64);
    }
    let at = httpdate::parse_http_date(given).ok()?;
    let wait = at.duration_since(std::time::SystemTime::now()).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

/// How long a server at home has to take note that an answer is not wanted any more.
const TELL: std::time::Duration = std::time::Duration::from_secs(5);

/// Tells a server something, on a page below its root. Nobody waits for the answer.
pub(crate) async fn tell(ctx: &CallContext, net: &Net, endpoint: &Endpoint, page: &str) {
    let Ok(origin) = endpoint.origin() else { return };
    let (reach, purpose) = (Reach::Named(origin), "abort");
    let Ok(url) = net.check(ctx, &Method::POST, endpoint.below_root(page), &reach, purpose) else {
        return;
    };
    let mut outgoing = Outgoing::new(Method::POST, url, purpose);
    outgoing.key = endpoint.key.clone();
    outgoing.key_style = endpoint.api.wire().key_style();
    outgoing
        .headers
        .insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    outgoing.body = Bytes::from_static(b"{}");
    outgoing.connect_timeout = TELL;
    outgoing.first_byte_timeout = TELL;
    let _ = net.send(ctx, outgoing).await;
}

/// Whether a "not found" is about something inside the API, such as an unknown model, and not about the page. Some put
/// the latter into the form of their errors, too: then it says nothing more than that.
fn says_why(body: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        return false;
    };
    let Some(error) = error_in(&value) else {
        return false;
    };
    let words = error.get("message").unwrap_or(error).as_str().unwrap_or("?");
    let words = words.trim().trim_end_matches('.').to_ascii_lowercase();
    !matches!(words.as_str(), "not found" | "method not allowed") && !words.starts_with("invalid url")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_not_there_says_no_more_than_that() {
        for body in [
            r#"{"type":"error","error":{"type":"not_found_error","message":"Not Found"}}"#,
            r#"{"error":{"message":"Invalid URL (POST /v1/messages)","type":"invalid_request_error"}}"#,
            r#"{"error":"Not found."}"#,
            r#"{"detail":"Not Found"}"#,
            "<h1>404</h1>",
            "",
        ] {
            assert!(!says_why(body.as_bytes()), "{body}");
        }
        for body in [
            r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
            r#"{"error":"model 'x' not found"}"#,
            r#"{"error":{"code":404}}"#,
        ] {
            assert!(says_why(body.as_bytes()), "{body}");
        }
    }
}
