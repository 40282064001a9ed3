use std::fmt;

use net::NetError;
use secrets::KeyHandle;
use serde_json::{Value, json};

use crate::http_in::Refusal;
use crate::window::window_in;

/// Longest part of a provider's own words that is kept, in bytes.
const MAX_MESSAGE: usize = 2 << 10;

/// What kind of failure it was, for deciding what to offer the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderErrorKind {
    /// No connection, or it broke, or the rules forbade it.
    Network,
    /// The key is missing, wrong or not allowed to.
    Key,
    /// There is no credit left with the provider.
    Credit,
    /// Too many requests; `retry_after_ms` says how long, where the provider said so.
    RateLimit,
    /// The provider does not have this model, or not any more.
    ModelGone,
    /// No such page: the address is not that of the API.
    NotFound,
    /// The request is longer than the model's context; `window` is its true size, where the server said so.
    Context,
    /// The provider does not want to answer this.
    Refused,
    /// Any other 4xx, in the server's own words.
    Request,
    /// 5xx.
    Server,
    /// An error object inside an answer that began with 200.
    InAnswer,
    /// A web page, or anything else that is not the expected format.
    NotTheApi,
    /// The answer ended before it was finished.
    Truncated,
    /// The server stopped sending in the midst of its answer, or did not begin one.
    Stalled,
    /// The request itself cannot be sent: no model, for instance.
    Unusable,
    /// A limit that the person set is reached.
    Limit,
}

impl ProviderErrorKind {
    pub const ALL: [Self; 16] = [
        Self::Network,
        Self::Key,
        Self::Credit,
        Self::RateLimit,
        Self::ModelGone,
        Self::NotFound,
        Self::Context,
        Self::Refused,
        Self::Request,
        Self::Server,
        Self::InAnswer,
        Self::NotTheApi,
        Self::Truncated,
        Self::Stalled,
        Self::Unusable,
        Self::Limit,
    ];

    /// The word for it in results (`errorInfo.kind`): a small set that interfaces can explain.
    pub fn code(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Key => "key",
            Self::Credit => "credit",
            Self::RateLimit => "rate_limit",
            Self::ModelGone => "model_gone",
            Self::Context => "context",
            Self::Refused => "refused",
            Self::Request | Self::Server | Self::InAnswer => "server",
            Self::NotFound | Self::NotTheApi => "not_the_api",
            Self::Truncated => "truncated",
            Self::Stalled => "stalled",
            Self::Unusable => "unusable",
            Self::Limit => "limit",
        }
    }
}

/// Why a model gave no answer, or not all of one. `Display` is the whole text for the person: connection and model,
/// what happened, the address tried and what to do. Contains no key and no header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderError {
    pub kind: ProviderErrorKind,
    /// The connection's name.
    pub provider: String,
    pub model: Option<String>,
    pub what: String,
    /// HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The provider's own error code, if it gave one.
    pub code: Option<String>,
    /// The provider's id of the answer, if it gave one.
    pub response_id: Option<String>,
    /// The size of the model's context in tokens, where the error is that the request is larger and says so.
    pub window: Option<u64>,
    /// When the provider wants to be asked again, from the moment of its answer.
    pub retry_after_ms: Option<u64>,
    /// The addresses in `what`.
    pub tried: Vec<String>,
    /// No connection was made, so that nothing can have been paid for.
    pub never_sent: bool,
    /// Nothing reached the server that it could ask money for: as [`ProviderError::never_sent`], and where the name, the
    /// rules or a redirect were in the way.
    pub unpaid: bool,
}

impl ProviderError {
    pub fn new(
        kind: ProviderErrorKind,
        provider: impl Into<String>,
        model: Option<String>,
        what: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            provider: provider.into(),
            model,
            what: what.into(),
            status: None,
            code: None,
            response_id: None,
            window: None,
            retry_after_ms: None,
            tried: Vec::new(),
            never_sent: false,
            unpaid: false,
        }
    }

    /// `connection/model`, or the connection's name.
    pub fn who(&self) -> String {
        match &self.model {
            Some(model) => format!("{}/{model}", self.provider),
            None => self.provider.clone(),
        }
    }

    /// The text for apps and plugins, which do not learn where a connection leads.
    pub fn guest(&self) -> String {
        let mut text = self.to_string();
        if !self.tried.is_empty() {
            text = text.replace(&format!(" (tried {})", self.tried.join(" and ")), "");
        }
        // The longest first: one address may begin another.
        let mut addresses: Vec<&String> = self.tried.iter().collect();
        addresses.sort_by_key(|address| std::cmp::Reverse(address.len()));
        for address in addresses {
            text = text.replace(address.as_str(), "its address");
        }
        text
    }

    /// `{kind, provider, model, status?, code?, retryAfterMs?, window?, responseId?}`.
    pub fn info(&self) -> Value {
        let mut info = json!({"kind": self.kind.code(), "provider": self.provider, "model": self.model});
        let more = [
            ("status", self.status.map(Value::from)),
            ("code", self.code.clone().map(Value::from)),
            ("retryAfterMs", self.retry_after_ms.map(Value::from)),
            ("window", self.window.map(Value::from)),
            ("responseId", self.response_id.clone().map(Value::from)),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                info[name] = value;
            }
        }
        info
    }
}

impl fmt::Display for ProviderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Local network errors pass unchanged (contract section 4.2).
        match self.kind {
            ProviderErrorKind::Network | ProviderErrorKind::Stalled | ProviderErrorKind::Limit => {
                f.write_str(&self.what)
            }
            _ => write!(f, "{}: {}", self.who(), self.what),
        }
    }
}

impl std::error::Error for ProviderError {}

/// Makes the errors of one request, which share a speaker and a key to hide.
#[derive(Debug, Clone)]
pub(crate) struct Blame {
    /// The connection's.
    pub(crate) name: String,
    pub(crate) model: Option<String>,
    pub(crate) key: Option<KeyHandle>,
}

impl Blame {
    pub(crate) fn error(&self, kind: ProviderErrorKind, what: impl Into<String>) -> ProviderError {
        ProviderError::new(kind, self.name.clone(), self.model.clone(), what)
    }

    /// [`Blame::error`] with the address that is in the text.
    pub(crate) fn tried(&self, kind: ProviderErrorKind, what: impl Into<String>, url: &str) -> ProviderError {
        let mut error = self.error(kind, what);
        error.tried.push(url.to_owned());
        error
    }

    pub(crate) fn network(&self, error: NetError) -> ProviderError {
        let kind = match error {
            NetError::TimedOut { .. } => ProviderErrorKind::Stalled,
            _ => ProviderErrorKind::Network,
        };
        let mut made = self.tried(kind, error.to_string(), error.url());
        made.never_sent = matches!(error, NetError::Connect { .. });
        made.unpaid = !matches!(
            error,
            NetError::TimedOut { .. } | NetError::TooBig { .. } | NetError::Broken { .. }
        );
        if let NetError::Redirected { to, .. } = &error {
            made.tried.push(to.clone());
        }
        made
    }

    /// The connection broke, or went silent, before the answer's end. `any`: after something of it had arrived.
    pub(crate) fn in_the_midst(&self, error: NetError, any: bool) -> ProviderError {
        let mut made = self.network(error);
        if any {
            made.what += "; what had arrived is kept";
        }
        made
    }

    /// The provider does not want to answer.
    pub(crate) fn refused(&self, why: &str, url: &str) -> ProviderError {
        let what = format!(
            "refused to answer: {} (tried {url}) — say it in another way, or choose another model",
            self.clean(why)
        );
        self.tried(ProviderErrorKind::Refused, what, url)
    }

    /// An answer with an error status.
    pub(crate) fn status(&self, refusal: &Refusal) -> ProviderError {
        let Refusal {
            status,
            body,
            tried,
            retry_after,
        } = refusal;
        let status = *status;
        let json: Option<Value> = serde_json::from_slice(body).ok().map(|value| match value {
            // Some servers wrap an error into a list.
            Value::Array(mut list) if !list.is_empty() => list.swap_remove(0),
            value => value,
        });
        let words = match &json {
            Some(value) => message_of(value),
            None if looks_like_html(body) => Some("a web page instead of an API answer".to_owned()),
            None => Some(String::from_utf8_lossy(body).trim().to_owned()).filter(|text| !text.is_empty()),
        };
        let said = words.clone().unwrap_or_default();
        let code = json.as_ref().and_then(code_of);
        let kind = kind_of(Some(status), code.as_deref(), &said, json.as_ref());
        let window = window_in(json.as_ref().unwrap_or(&Value::Null), &said);
        let words = words.map(|text| format!(": {}", self.clean(&text))).unwrap_or_default();
        let advice = self.advice(kind);
        let tried_words = tried.join(" and ");
        let mut error = self.error(kind, format!("answered {status}{words} (tried {tried_words}){advice}"));
        error.tried.clone_from(tried);
        error.status = Some(status);
        error.window = window.filter(|_| (400..500).contains(&status) || status == 500);
        error.code = code.map(|code| self.clean(&code));
        error.retry_after_ms = retry_after.or_else(|| json.as_ref().and_then(retry_delay));
        error.response_id = json.as_ref().and_then(id_of).map(|id| self.clean(id));
        error
    }

    fn advice(&self, kind: ProviderErrorKind) -> &'static str {
        match kind {
            ProviderErrorKind::Key if self.key.is_none() => {
                " — this server wants a key; enter it in the connection's settings"
            }
            ProviderErrorKind::Key => " — check the key in the connection's settings",
            ProviderErrorKind::Credit => " — there is no credit left; look at your account with the provider",
            ProviderErrorKind::NotFound => " — check the address and the model's name",
            ProviderErrorKind::ModelGone => " — choose another model, or refresh the connection's models",
            ProviderErrorKind::RateLimit => " — wait a moment, or check your plan with the provider",
            ProviderErrorKind::Context => " — make the conversation shorter, or choose a model with a larger context",
            ProviderErrorKind::Refused => " — say it in another way, or choose another model",
            ProviderErrorKind::Server => " — the fault is the server's; try again",
            _ => "",
        }
    }

    /// An error object inside an answer that began well.
    pub(crate) fn in_answer(&self, value: &Value, url: &str) -> ProviderError {
        let words = message_of(value).unwrap_or_else(|| "an error without a message".into());
        let code = code_of(value);
        let kind = kind_of(None, code.as_deref(), &words, Some(value));
        let advice = match self.advice(kind) {
            "" => " — try again, or choose another model",
            advice => advice,
        };
        let what = format!("reported an error: {} (tried {url}){advice}", self.clean(&words));
        let mut error = self.tried(kind, what, url);
        error.window = window_in(value, &words);
        error.code = code.map(|code| self.clean(&code));
        error.retry_after_ms = retry_delay(value);
        error.response_id = id_of(value).map(|id| self.clean(id));
        error
    }

    pub(crate) fn web_page(&self, url: &str) -> ProviderError {
        let what = format!(
            "answered with a web page instead of an API answer (tried {url}) — check the address; most servers want \
             one that ends in /v1"
        );
        self.tried(ProviderErrorKind::NotTheApi, what, url)
    }

    pub(crate) fn unreadable(&self, sample: &str, url: &str) -> ProviderError {
        let sample: String = self.clean(sample).chars().take(120).collect();
        if sample.trim().is_empty() {
            let what = format!("answered with nothing (tried {url}) — check the address, and that the server is well");
            return self.tried(ProviderErrorKind::NotTheApi, what, url);
        }
        let what =
            format!("sent something that is not the expected format: \"{sample}\" (tried {url}) — check the address");
        self.tried(ProviderErrorKind::NotTheApi, what, url)
    }

    pub(crate) fn damaged(&self, url: &str) -> ProviderError {
        let what = format!(
            "sent a damaged piece in the midst of its answer (tried {url}); what had arrived is kept — try again for the rest"
        );
        self.tried(ProviderErrorKind::InAnswer, what, url)
    }

    pub(crate) fn truncated(&self, url: &str) -> ProviderError {
        let what = format!(
            "ended the answer before it was finished (tried {url}); what had arrived is kept — try again for the rest"
        );
        self.tried(ProviderErrorKind::Truncated, what, url)
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

fn id_of(value: &Value) -> Option<&str> {
    let names = ["id", "request_id", "response_id"];
    names
        .iter()
        .find_map(|name| value.get(*name)?.as_str())
        .filter(|id| !id.is_empty())
}

/// How long Google wants to be left alone, which it says in the body: `{"@type": "…RetryInfo", "retryDelay": "17s"}`.
fn retry_delay(value: &Value) -> Option<u64> {
    let details = value.pointer("/error/details").and_then(Value::as_array)?;
    let text = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    let seconds: f64 = text.trim_end_matches('s').parse().ok()?;
    (0.0..1e6).contains(&seconds).then_some((seconds * 1000.0) as u64)
}

/// Sorts a failure by status, code and words; `status` is none for an error inside an answer.
fn kind_of(status: Option<u16>, code: Option<&str>, words: &str, json: Option<&Value>) -> ProviderErrorKind {
    let words = words.to_lowercase();
    let given = status;
    // An error inside an answer often has the status as its code.
    let status = status.or_else(|| code?.parse().ok());
    let kind = json.and_then(|value| value.pointer("/error/type")?.as_str());
    let code = format!("{} {}", code.unwrap_or_default(), kind.unwrap_or_default()).to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    let named = |codes: &[&str]| codes.iter().any(|name| code.contains(name));
    let google = json
        .and_then(|value| value.pointer("/error/status"))
        .and_then(Value::as_str);
    let too_long = named(&["context_length", "exceed_context", "string_above_max_length"])
        || says(&[
            "context length",
            "context window",
            "context size",
            "maximum prompt length",
            "prompt is too long",
            "input is too long",
            "maximum number of tokens allowed",
        ]);
    if status != Some(404) && too_long {
        return ProviderErrorKind::Context;
    }
    if status == Some(402)
        || named(&["insufficient_quota", "insufficient_balance", "billing"])
        || says(&[
            "insufficient balance",
            "credit balance",
            "insufficient credit",
            "out of credits",
            "billing",
        ])
    {
        return ProviderErrorKind::Credit;
    }
    if status == Some(429) || named(&["rate_limit", "too_many_requests"]) || google == Some("RESOURCE_EXHAUSTED") {
        return ProviderErrorKind::RateLimit;
    }
    if named(&[
        "model_not_found",
        "model_not_exist",
        "model_decommissioned",
        "deployment_not_found",
    ]) || (says(&["model"])
        && (says(&[
            "does not exist",
            "not found",
            "no longer",
            "deprecated",
            "decommissioned",
            "unknown model",
        ]) || says(&["not_found"])
            || (status == Some(404) && json.is_some())))
    {
        return ProviderErrorKind::ModelGone;
    }
    if named(&["content_policy", "content_filter", "moderation", "safety"])
        || says(&[
            "content policy",
            "content management policy",
            "flagged",
            "safety system",
        ])
    {
        return ProviderErrorKind::Refused;
    }
    if matches!(status, Some(401 | 403))
        || named(&["invalid_api_key", "authentication", "permission_denied", "unauthorized"])
        || says(&["api key not valid", "invalid api key", "incorrect api key"])
    {
        return ProviderErrorKind::Key;
    }
    match given {
        Some(404 | 405) => ProviderErrorKind::NotFound,
        Some(400..=499) => ProviderErrorKind::Request,
        Some(_) => ProviderErrorKind::Server,
        None => ProviderErrorKind::InAnswer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_sorted_into_a_small_set() {
        for (status, body, want) in [
            (
                Some(401),
                json!({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}),
                "key",
            ),
            (
                Some(400),
                json!({"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}}),
                "key",
            ),
            (
                Some(402),
                json!({"error": {"message": "Insufficient Balance"}}),
                "credit",
            ),
            (
                Some(429),
                json!({"error": {"code": "insufficient_quota", "message": "You exceeded your current quota, please check your plan and billing details."}}),
                "credit",
            ),
            (
                Some(400),
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}}),
                "credit",
            ),
            (
                Some(429),
                json!({"error": {"message": "Rate limit reached"}}),
                "rate_limit",
            ),
            (
                Some(429),
                json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota."}}),
                "rate_limit",
            ),
            (
                Some(404),
                json!({"error": {"message": "The model `gpt-9` does not exist or you do not have access to it."}}),
                "model_gone",
            ),
            (
                Some(404),
                json!({"error": "model 'x' not found, try pulling it first"}),
                "model_gone",
            ),
            (
                Some(400),
                json!({"error": {"code": "model_decommissioned", "message": "The model has been decommissioned"}}),
                "model_gone",
            ),
            (Some(404), json!({"detail": "Not Found"}), "not_the_api"),
            (
                Some(400),
                json!({"error": {"code": "context_length_exceeded", "message": "maximum context length is 8192 tokens"}}),
                "context",
            ),
            (
                Some(400),
                json!({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
                "context",
            ),
            (
                Some(400),
                json!({"error": {"code": "content_policy_violation", "message": "x"}}),
                "refused",
            ),
            (Some(400), json!({"error": {"message": "bad temperature"}}), "server"),
            (Some(503), json!({"error": {"message": "overloaded"}}), "server"),
            (
                None,
                json!({"error": {"type": "overloaded_error", "message": "Overloaded"}}),
                "server",
            ),
            (
                None,
                json!({"error": {"code": 429, "message": "rate", "type": "rate_limit_error"}}),
                "rate_limit",
            ),
        ] {
            let words = message_of(&body).unwrap_or_default();
            let kind = kind_of(status, code_of(&body).as_deref(), &words, Some(&body));
            assert_eq!(kind.code(), want, "{body}");
        }
    }

    #[test]
    fn guests_do_not_learn_addresses() {
        let blame = Blame {
            name: "Mine".into(),
            model: Some("m".into()),
            key: None,
        };
        let url = "http://10.0.0.7:8000/v1/chat/completions";
        let refusal = Refusal {
            status: 404,
            body: b"{}".to_vec(),
            tried: vec![url.into(), "http://10.0.0.7:8000/chat/completions".into()],
            retry_after: None,
        };
        let error = NetError::Connect {
            url: url.into(),
            why: "refused".into(),
        };
        for error in [
            blame.status(&refusal),
            blame.truncated(url),
            blame.web_page(url),
            blame.network(error),
        ] {
            assert!(error.to_string().contains("10.0.0.7"), "{error}");
            let guest = error.guest();
            assert!(!guest.contains("10.0.0.7") && !guest.contains("http"), "{guest}");
        }
    }

    #[test]
    fn google_says_when_in_the_body() {
        let body = json!({"error": {"details": [{"@type": "x"}, {"@type": "y.RetryInfo", "retryDelay": "17.5s"}]}});
        assert_eq!(retry_delay(&body), Some(17_500));
        assert_eq!(
            retry_delay(&json!({"error": {"details": [{"retryDelay": "-1s"}]}})),
            None
        );
    }
}
