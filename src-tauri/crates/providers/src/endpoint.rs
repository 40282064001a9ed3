use std::time::Duration;

use secrets::{KeyHandle, Origin, OriginError};
use url::{Host, Url};

use crate::wire::Api;
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
    pub api: Api,
    /// The preset it was made from, if any: `openrouter`, `koboldcpp`, ….
    pub preset: Option<String>,
    /// How conversations are written out for text completion: a format's id, `auto`, or a format of one's own.
    pub prompt_format: Option<serde_json::Value>,
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
            api: Api::default(),
            preset: None,
            prompt_format: None,
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

    /// Where `page` (`chat/completions`, `models?limit=5`) may be, likeliest first. The second one is for when the first
    /// answers that there is no such page.
    pub(crate) fn candidates(&self, page: &str) -> Vec<Url> {
        let base = base_path(self.api, self.base_url.path());
        let versioned = base.split('/').any(is_version);
        let version = version(self.api);
        let bases = match (version, base.is_empty(), versioned) {
            (None, ..) | (_, false, true) => vec![base],
            (Some(version), true, _) => vec![format!("/{version}"), String::new()],
            // Where the makers' own libraries add the version to whatever base they are given, addresses are printed
            // without it.
            (Some(version), false, false) if adds_version(self.api) => vec![format!("{base}/{version}"), base],
            (Some(version), false, false) => vec![base.clone(), format!("{base}/{version}")],
        };
        bases.into_iter().map(|base| self.at(&base, page)).collect()
    }

    /// `page` below the server's root: the base address without its version.
    pub(crate) fn below_root(&self, page: &str) -> Url {
        let mut base = base_path(self.api, self.base_url.path());
        if let Some((before, last)) = base.rsplit_once('/')
            && is_version(last)
        {
            base = before.to_owned();
        }
        self.at(&base, page)
    }

    /// The base address with its version and `more` behind it.
    pub(crate) fn below_version(&self, more: &str) -> Url {
        let base = normal_base(self.api, &self.base_url);
        self.at(base.path().trim_end_matches('/'), more)
    }

    fn at(&self, base: &str, page: &str) -> Url {
        let (path, query) = match page.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (page, None),
        };
        let mut url = self.base_url.clone();
        url.set_fragment(None);
        url.set_path(&format!("{base}/{path}"));
        url.set_query(query);
        url
    }

    /// The address that chat requests go to, as the person is to see it; where it has the model's id in it, with a
    /// placeholder.
    pub fn final_url(&self, model: Option<&str>) -> String {
        let urls = self.candidates(&self.api.wire().page(model.unwrap_or("MODEL")));
        urls.first().map(|url| url.to_string()).unwrap_or_default()
    }

    /// Whether it is on this machine or in this network, by its address alone.
    pub fn is_local(&self) -> bool {
        is_local(&self.base_url)
    }
}

/// Whether an address is on this machine or in this network (contract section 8): `localhost`, `*.local`, names of one
/// part, and private addresses.
pub fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost") || name.ends_with(".local") || !name.contains('.')
        }
        Some(Host::Ipv4(v4)) => v4.is_loopback() || v4.is_private(),
        Some(Host::Ipv6(v6)) => match v6.to_ipv4_mapped() {
            Some(v4) => v4.is_loopback() || v4.is_private(),
            None => v6.is_loopback() || v6.is_unique_local(),
        },
        None => false,
    }
}

/// The version that a format's pages are below, where the address names none.
fn version(api: Api) -> Option<&'static str> {
    match api {
        Api::GoogleGenerativeAi => Some("v1beta"),
        Api::Ollama => None,
        _ => Some("v1"),
    }
}

/// Whether a base address in this format usually ends before the version.
fn adds_version(api: Api) -> bool {
    matches!(api, Api::AnthropicMessages | Api::GoogleGenerativeAi)
}

/// The base address that [`Endpoint`] will use, as the person is to see it.
pub fn normal_base(api: Api, url: &Url) -> Url {
    let mut shown = url.clone();
    let base = base_path(api, url.path());
    shown.set_query(None);
    shown.set_fragment(None);
    match (base.is_empty(), version(api)) {
        (true, Some(version)) => shown.set_path(&format!("/{version}")),
        _ => shown.set_path(&base),
    }
    shown
}

/// `v1`, `v1beta`, `v4`.
fn is_version(segment: &str) -> bool {
    let mut bytes = segment.bytes();
    bytes.next() == Some(b'v') && bytes.next().is_some_and(|byte| byte.is_ascii_digit())
}

/// The path without doubled slashes, a doubled version, and the page names people paste along with it.
fn base_path(api: Api, path: &str) -> String {
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    for ending in [
        &["chat", "completions"][..],
        &["completions"],
        &["responses"],
        &["messages"],
        &["models"],
        &["embeddings"],
        &["images", "generations"],
        &["audio", "speech"],
    ] {
        if segments.ends_with(ending) {
            segments.truncate(segments.len() - ending.len());
            break;
        }
    }
    match api {
        Api::GoogleGenerativeAi => {
            // `…/v1beta/models/gemini-…:generateContent`, and the address of Google's OpenAI-compatible pages.
            if let Some(at) = segments.iter().position(|segment| *segment == "models") {
                segments.truncate(at);
            }
            if segments.last() == Some(&"openai") {
                segments.pop();
            }
        }
        Api::Ollama => {
            for ending in [
                &["api", "chat"][..],
                &["api", "tags"],
                &["api", "generate"],
                &["api"],
                &["v1"],
            ] {
                if segments.ends_with(ending) {
                    segments.truncate(segments.len() - ending.len());
                    break;
                }
            }
        }
        _ => {}
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
    fn addresses_of_the_other_formats() {
        for (api, page, typed, want) in [
            (
                Api::AnthropicMessages,
                "messages",
                "https://api.anthropic.com",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                Api::AnthropicMessages,
                "messages",
                "https://api.anthropic.com/v1/messages",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                Api::AnthropicMessages,
                "messages",
                "https://api.deepseek.com/anthropic",
                "https://api.deepseek.com/anthropic/v1/messages",
            ),
            (
                Api::OpenaiResponses,
                "responses",
                "https://api.openai.com/v1/responses/",
                "https://api.openai.com/v1/responses",
            ),
            (
                Api::GoogleGenerativeAi,
                "models/g:streamGenerateContent?alt=sse",
                "https://generativelanguage.googleapis.com",
                "https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse",
            ),
            (
                Api::GoogleGenerativeAi,
                "models",
                "https://g.example/v1beta/openai/",
                "https://g.example/v1beta/models",
            ),
            (
                Api::GoogleGenerativeAi,
                "models",
                "https://g.example/v1beta/models/x:generateContent",
                "https://g.example/v1beta/models",
            ),
            (Api::Ollama, "api/chat", "http://h:11434/v1", "http://h:11434/api/chat"),
            (
                Api::Ollama,
                "api/chat",
                "http://h:11434/api/chat",
                "http://h:11434/api/chat",
            ),
            (
                Api::Ollama,
                "api/chat",
                "http://h:11434/ollama/",
                "http://h:11434/ollama/api/chat",
            ),
            (
                Api::OpenaiText,
                "completions",
                "http://h:5001",
                "http://h:5001/v1/completions",
            ),
        ] {
            let mut endpoint = Endpoint::new("c", "c", Url::parse(typed).unwrap());
            endpoint.api = api;
            assert_eq!(endpoint.candidates(page)[0].as_str(), want, "{typed}");
        }
        let endpoint = Endpoint::new("c", "c", Url::parse("http://h:5001/kobold/v1/").unwrap());
        assert_eq!(
            endpoint.below_root("api/extra/abort").as_str(),
            "http://h:5001/kobold/api/extra/abort"
        );
    }

    #[test]
    fn local_by_address() {
        for (url, want) in [
            ("http://localhost", true),
            ("http://LOCALHOST.", true),
            ("http://nas.local", true),
            ("http://gpu:8000", true),
            ("http://192.168.1.5", true),
            ("http://[::1]", true),
            ("http://[::ffff:10.0.0.1]", true),
            ("http://[fd00::1]", true),
            ("http://169.254.1.1", false),
            ("https://api.example.com", false),
            ("http://localhost.example.com", false),
            ("http://8.8.8.8", false),
        ] {
            assert_eq!(is_local(&Url::parse(url).unwrap()), want, "{url}");
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
