use std::fmt;

use net::NetError;
use secrets::KeyHandle;
use serde_json::Value;

use crate::window::window_in;

/// Longest part of a provider's own words that is kept, in bytes.
const MAX_MESSAGE: usize = 2 << 10;

/// What kind of failure it was, for deciding what to offer the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// No connection, or it broke, or the rules forbade it.
    Network,
    /// 401 or 403: the key is missing, wrong or not allowed to.
    Key,
    /// 404 or 405: no such page or no such model.
    NotFound,
    /// 402 or 429: too many requests, or no credit.
    Limited,
    /// Any other 4xx.
    Request,
    /// 5xx.
    Server,
    /// An error object inside an answer that began with 200.
    InAnswer,
    /// A web page, or anything else that is not the expected format.
    NotTheApi,
    /// The answer ended before it was finished.
    Truncated,
    /// The request itself cannot be sent: no model, for instance.
    Unusable,
}

/// Why a model gave no answer, or not all of one. `Display` is the whole text for the person: connection and model,
/// what happened, the address tried and what to do. Contains no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    pub kind: ProviderErrorKind,
    /// `connection/model`, or the connection's name.
    pub who: String,
    pub what: String,
    /// HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The provider's own error code, if it gave one.
    pub code: Option<String>,
    /// The provider's id of the answer, if it gave one.
    pub response_id: Option<String>,
    /// The size of the model's context in tokens, where the error is that the request is larger and says so.
    pub window: Option<u64>,
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Local network errors pass unchanged (contract section 4.2).
        match self.kind {
            ProviderErrorKind::Network => f.write_str(&self.what),
            _ => write!(f, "{}: {}", self.who, self.what),
        }
    }
}

impl std::error::Error for ProviderError {}

/// Makes the errors of one request, which share a speaker and a key to hide.
#[derive(Debug, Clone)]
pub(crate) struct Blame {
    pub(crate) who: String,
    pub(crate) key: Option<KeyHandle>,
}

impl Blame {
    pub(crate) fn error(&self, kind: ProviderErrorKind, what: impl Into<String>) -> ProviderError {
        ProviderError {
            kind,
            who: self.who.clone(),
            what: what.into(),
            status: None,
            code: None,
            response_id: None,
            window: None,
        }
    }

    pub(crate) fn network(&self, error: NetError) -> ProviderError {
        self.error(ProviderErrorKind::Network, error.to_string())
    }

    /// An answer with an error status.
    pub(crate) fn status(&self, status: u16, body: &[u8], tried: &[String]) -> ProviderError {
        let kind = match status {
            401 | 403 => ProviderErrorKind::Key,
            404 | 405 => ProviderErrorKind::NotFound,
            402 | 429 => ProviderErrorKind::Limited,
            400..=499 => ProviderErrorKind::Request,
            _ => ProviderErrorKind::Server,
        };
        let json: Option<Value> = serde_json::from_slice(body).ok();
        let words = match &json {
            Some(value) => message_of(value),
            None if looks_like_html(body) => Some("a web page instead of an API answer".to_owned()),
            None => Some(String::from_utf8_lossy(body).trim().to_owned()).filter(|text| !text.is_empty()),
        };
        let window = window_in(
            json.as_ref().unwrap_or(&Value::Null),
            words.as_deref().unwrap_or_default(),
        );
        let words = words.map(|text| format!(": {}", self.clean(&text))).unwrap_or_default();
        let advice = match kind {
            ProviderErrorKind::Key if self.key.is_none() => {
                " — this server wants a key; enter it in the connection's settings"
            }
            ProviderErrorKind::Key => " — check the key in the connection's settings",
            ProviderErrorKind::NotFound => " — check the address and the model's name",
            ProviderErrorKind::Limited => " — wait a moment, or check your plan with the provider",
            ProviderErrorKind::Server => " — the fault is the server's; try again",
            _ => "",
        };
        let tried = tried.join(" and ");
        let mut error = self.error(kind, format!("answered {status}{words} (tried {tried}){advice}"));
        error.status = Some(status);
        error.window = window.filter(|_| (400..500).contains(&status) || status == 500);
        error.code = json.as_ref().and_then(code_of).map(|code| self.clean(&code));
        error
    }

    /// An error object inside an answer that began well.
    pub(crate) fn in_answer(&self, value: &Value, url: &str) -> ProviderError {
        let words = message_of(value).unwrap_or_else(|| "an error without a message".into());
        let what = format!(
            "reported an error: {} (tried {url}) — try again, or choose another model",
            self.clean(&words)
        );
        let mut error = self.error(ProviderErrorKind::InAnswer, what);
        error.window = window_in(value, &words);
        error.code = code_of(value).map(|code| self.clean(&code));
        error.response_id = value.get("id").and_then(Value::as_str).map(|id| self.clean(id));
        error
    }

    pub(crate) fn web_page(&self, url: &str) -> ProviderError {
        let what = format!(
            "answered with a web page instead of an API answer (tried {url}) — check the address; most servers want \
             one that ends in /v1"
        );
        self.error(ProviderErrorKind::NotTheApi, what)
    }

    pub(crate) fn unreadable(&self, sample: &str, url: &str) -> ProviderError {
        let sample: String = self.clean(sample).chars().take(120).collect();
        let what =
            format!("sent something that is not the expected format: \"{sample}\" (tried {url}) — check the address");
        self.error(ProviderErrorKind::NotTheApi, what)
    }

    pub(crate) fn truncated(&self, url: &str) -> ProviderError {
        let what = format!(
            "ended the answer before it was finished (tried {url}); what had arrived is kept — try again for the rest"
        );
        self.error(ProviderErrorKind::Truncated, what)
    }

    /// Foreign words, made fit to be shown: the key hidden, control characters dropped, bounded. The key is hidden
    /// first, so that cutting cannot leave a part of it.
    fn clean(&self, text: &str) -> String {
        let text = match &self.key {
            Some(key) => key.redact(text),
            None => text.to_owned(),
        };
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        cut(&text, MAX_MESSAGE).to_owned()
    }
}

pub(crate) fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

pub(crate) fn looks_like_html(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

/// The error object of an answer, if it has one: `{"error": …}` with something in it.
pub(crate) fn error_in(value: &Value) -> Option<&Value> {
    value.get("error").filter(|error| match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    })
}

/// The provider's words, wherever the many dialects put them.
fn message_of(value: &Value) -> Option<String> {
    let error = value.get("error").unwrap_or(value);
    let places = [
        error.get("message"),
        Some(error),
        value.get("message"),
        value.get("detail"),
        value.get("msg"),
    ];
    let found = places
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
        .filter(|text| !text.trim().is_empty());
    let more = error.pointer("/metadata/raw").and_then(Value::as_str);
    match (found, more) {
        (Some(text), Some(raw)) => Some(format!("{text} ({raw})")),
        (Some(text), None) => Some(text.to_owned()),
        // Validation errors are lists of objects; better shown raw than not at all.
        (None, _) => Some(value.to_string()).filter(|text| text != "{}" && text != "null"),
    }
}

fn code_of(value: &Value) -> Option<String> {
    let error = value.get("error").unwrap_or(value);
    [error.get("code"), error.get("type")]
        .into_iter()
        .flatten()
        .find_map(|code| match code {
            Value::String(text) if !text.is_empty() => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
}
