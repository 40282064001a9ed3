use std::time::Duration;

use secrets::{KeyHandle, Origin, OriginError};
use url::Url;

use crate::{ModelInfo, Quirks};

/// A model server the owner named.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The connection's id, `c_<slug>-<6 hex>`; the part before the slash of `connection/model`.
    pub connection_id: String,
    /// What the person calls it; used in errors.
    pub name: String,
    /// As typed: `http://h:11434`, `…/v1`, `…/v1/`, `…/v1/chat/completions` all mean the same.
    pub base_url: Url,
    pub key: Option<KeyHandle>,
    /// Models known from the last listing; the first one is used when a request names none.
    pub models: Vec<ModelInfo>,
    pub limits: Limits,
    /// What its models were found not to take.
    pub quirks: Quirks,
}

/// How long a model server may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub connect: Duration,
    /// Until the answer's headers: a local server may have to load the model from disk first.
    pub first_byte: Duration,
    /// Longest silence within an answer.
    pub idle: Duration,
    /// Largest answer accepted, in bytes of the wire format.
    pub max_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(180),
            max_bytes: 256 << 20,
        }
    }
}

impl Endpoint {
    /// An endpoint with no key, no known models and the usual limits.
    pub fn new(connection_id: impl Into<String>, name: impl Into<String>, base_url: Url) -> Self {
        Self {
            connection_id: connection_id.into(),
            name: name.into(),
            base_url,
            key: None,
            models: Vec::new(),
            limits: Limits::default(),
            quirks: Quirks::default(),
        }
    }

    /// What a key for this endpoint must be bound to.
    pub fn origin(&self) -> Result<Origin, OriginError> {
        Origin::of(&self.base_url)
    }

    /// A model's id without the connection in front of it.
    pub(crate) fn bare<'a>(&self, model: &'a str) -> &'a str {
        model
            .strip_prefix(self.connection_id.as_str())
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|rest| !rest.is_empty())
            .unwrap_or(model)
    }

    /// Where `what` (`chat/completions`, `models`) may be, likeliest first. The second one is for when the first
    /// answers that there is no such page.
    pub(crate) fn candidates(&self, what: &str) -> Vec<Url> {
        let base = base_path(self.base_url.path());
        let versioned = base.split('/').any(is_version);
        let bases = match (base.is_empty(), versioned) {
            (true, _) => vec!["/v1".to_owned(), String::new()],
            (false, true) => vec![base],
            (false, false) => vec![base.clone(), format!("{base}/v1")],
        };
        let url = |base: String| {
            let mut url = self.base_url.clone();
            url.set_query(None);
            url.set_fragment(None);
            url.set_path(&format!("{base}/{what}"));
            url
        };
        bases.into_iter().map(url).collect()
    }
}

/// The base address that [`Endpoint`] will use, as the person is to see it.
pub fn normal_base(url: &Url) -> Url {
    let mut shown = url.clone();
    let base = base_path(url.path());
    shown.set_query(None);
    shown.set_fragment(None);
    shown.set_path(if base.is_empty() { "/v1" } else { &base });
    shown
}

/// `v1`, `v1beta`, `v4`.
fn is_version(segment: &str) -> bool {
    let mut bytes = segment.bytes();
    bytes.next() == Some(b'v') && bytes.next().is_some_and(|byte| byte.is_ascii_digit())
}

/// The path without doubled slashes, a doubled version, and the page names people paste along with it.
fn base_path(path: &str) -> String {
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    for ending in [
        &["chat", "completions"][..],
        &["completions"],
        &["models"],
        &["embeddings"],
    ] {
        if segments.ends_with(ending) {
            segments.truncate(segments.len() - ending.len());
            break;
        }
    }
    segments.dedup_by(|next, before| next == before && is_version(next));
    segments.iter().flat_map(|segment| ["/", segment]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_type_them() {
        let at = |text: &str| {
            let endpoint = Endpoint::new("c", "c", Url::parse(text).unwrap());
            endpoint.candidates("chat/completions")[0].to_string()
        };
        let local = "http://h:11434/v1/chat/completions";
        for text in [
            "http://h:11434",
            "http://h:11434/",
            "http://h:11434/v1",
            "http://h:11434/v1/",
            "http://h:11434//v1//",
            "http://h:11434/v1/v1",
            "http://h:11434/v1/chat/completions",
            "http://h:11434/v1/chat/completions/",
            "http://h:11434/v1/completions",
            "http://h:11434/v1/models",
            "http://h:11434/chat/completions",
            "http://h:11434/?a=b#c",
        ] {
            assert_eq!(at(text), local, "{text}");
        }
        for (text, want) in [
            (
                "https://generativelanguage.googleapis.com/v1beta/openai/",
                "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions",
            ),
            (
                "https://openrouter.ai/api/v1",
                "https://openrouter.ai/api/v1/chat/completions",
            ),
            (
                "https://api.z.ai/api/paas/v4/",
                "https://api.z.ai/api/paas/v4/chat/completions",
            ),
            ("https://h/llama", "https://h/llama/chat/completions"),
        ] {
            assert_eq!(at(text), want, "{text}");
        }
    }

    #[test]
    fn a_second_guess_where_the_first_is_one() {
        let at = |text: &str| {
            let endpoint = Endpoint::new("c", "c", Url::parse(text).unwrap());
            endpoint
                .candidates("models")
                .iter()
                .map(Url::to_string)
                .collect::<Vec<_>>()
        };
        assert_eq!(at("http://h"), ["http://h/v1/models", "http://h/models"]);
        assert_eq!(
            at("http://h/llama/"),
            ["http://h/llama/models", "http://h/llama/v1/models"]
        );
        assert_eq!(at("http://h/v1"), ["http://h/v1/models"]);
    }
}
