use std::time::Duration;

use crate::Proxy;
use crate::guard::LookupError;

/// Why a request got no answer, or only a part of one. Texts say what was tried and what to do; they contain neither
/// keys nor query strings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// The text is not an address that can be used.
    #[error("the address \"{url}\" cannot be used: {why}")]
    Address { url: String, why: String },
    /// The rules forbid this connection; nothing was sent.
    #[error("the connection to {url} was refused by Chrysalis: {why}")]
    Refused { url: String, why: String },
    /// The key belongs to another server, or was forgotten; nothing was sent.
    #[error("the key is bound to {bound} and was not sent to {url}; enter the key again for this address")]
    KeyBound { url: String, bound: String },
    /// The request itself is not one that may be sent: its method, a header or its size. Nothing was sent.
    #[error("the request to {url} was not sent: {why}")]
    Request { url: String, why: String },
    /// Whoever counts the bytes said that there are none left; the text is theirs.
    #[error("{why}")]
    Spent { url: String, why: String },
    /// The server pointed somewhere else. Not followed.
    #[error(
        "{url} answered with a redirect ({status}) to {to}, which is not followed; enter that address if you trust it"
    )]
    Redirected { url: String, status: u16, to: String },
    #[error("the name in {url} could not be looked up ({why}); check the spelling and your internet connection")]
    Dns { url: String, why: String },
    #[error("could not connect to {url}: {why}")]
    Connect { url: String, why: String },
    /// The proxy that config.toml names could not be reached, or would not connect to the server. Nothing of the request
    /// was sent.
    #[error(
        "could not connect to {url} through the proxy {proxy}: {why}; check [network] proxy in config.toml, or take it out \
         to connect without one, and start Chrysalis anew"
    )]
    Proxy { url: String, proxy: String, why: String },
    #[error("no secure connection to {url}: {why}; check the address (http or https?) and the server's certificate")]
    Tls { url: String, why: String },
    #[error("{url} {what} within {} seconds; it may be busy or starting: try again", seconds(*.after))]
    TimedOut {
        url: String,
        /// `did not accept a connection`, `did not begin to answer`, `stopped sending`, …
        what: &'static str,
        after: Duration,
    },
    /// The answer is larger than the caller allowed, in bytes.
    #[error("the answer of {url} is larger than {max} bytes and was cut off")]
    TooBig { url: String, max: u64 },
    /// The connection broke after it was made.
    #[error("the connection to {url} broke: {why}; try again, and look at the server if it stays so")]
    Broken { url: String, why: String },
    /// The activity log could not be written; without its line no connection is made.
    #[error("no connection to {url} was made because it could not be written to the activity log: {why}")]
    Log { url: String, why: String },
}

/// Seconds for people: one decimal at most.
fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f32()).trim_end_matches(".0").to_owned()
}

impl NetError {
    /// Whether the rules forbade it, as opposed to the network failing.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Address { .. }
                | Self::Refused { .. }
                | Self::KeyBound { .. }
                | Self::Request { .. }
                | Self::Spent { .. }
                | Self::Redirected { .. }
                | Self::Log { .. }
        )
    }

    /// The address that was tried, without its query.
    pub fn url(&self) -> &str {
        match self {
            Self::Address { url, .. }
            | Self::Refused { url, .. }
            | Self::KeyBound { url, .. }
            | Self::Request { url, .. }
            | Self::Spent { url, .. }
            | Self::Redirected { url, .. }
            | Self::Dns { url, .. }
            | Self::Connect { url, .. }
            | Self::Proxy { url, .. }
            | Self::Tls { url, .. }
            | Self::TimedOut { url, .. }
            | Self::TooBig { url, .. }
            | Self::Broken { url, .. }
            | Self::Log { url, .. } => url,
        }
    }
}

/// Every message of an error's chain below the client's own summary, which repeats the whole URL.
fn causes(error: &reqwest::Error) -> Vec<&(dyn std::error::Error + 'static)> {
    let mut found = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        found.push(cause);
        next = cause.source();
    }
    found
}

/// The innermost cause, in words; bounded, because part of it may come from the server.
fn innermost(error: &reqwest::Error) -> String {
    let text = causes(error)
        .last()
        .map_or_else(|| "the request failed".into(), ToString::to_string);
    text.chars().take(200).collect()
}

/// The error of a request that got no answer.
pub(crate) fn from_send(url: &str, error: &reqwest::Error, connect_timeout: Duration) -> NetError {
    let url = url.to_owned();
    for cause in causes(error) {
        match cause.downcast_ref::<LookupError>() {
            Some(LookupError::Forbidden(why)) => {
                return NetError::Refused {
                    url,
                    why: (*why).into(),
                };
            }
            Some(LookupError::Failed(why)) => {
                return NetError::Dns {
                    url,
                    why: why.chars().take(200).collect(),
                };
            }
            None => {}
        }
    }
    if error.is_connect() && error.is_timeout() {
        let what = match url.starts_with("https:") {
            true => "did not complete a secure connection (is it http rather than https?)",
            false => "did not accept a connection",
        };
        return NetError::TimedOut {
            url,
            what,
            after: connect_timeout,
        };
    }
    let why = innermost(error);
    let tls = url.starts_with("https:")
        && [
            "ertificate",
            "TLS",
            "tls",
            "corrupt message",
            "InvalidContentType",
            "handshake",
        ]
        .iter()
        .any(|word| why.contains(word));
    if tls {
        let why = in_plain_words(&why).map_or(why.clone(), |plain| format!("{plain} ({why})"));
        return NetError::Tls { url, why };
    }
    if error.is_connect() {
        let why = match nobody_listens(error) {
            true => "nothing is listening there; is the server running, and is the port right?".into(),
            false => why,
        };
        return NetError::Connect { url, why };
    }
    NetError::Broken { url, why }
}

/// The error of a request that got no answer and was to go through `proxy`.
pub(crate) fn from_send_through(
    proxy: &Proxy,
    url: &str,
    error: &reqwest::Error,
    connect_timeout: Duration,
) -> NetError {
    let failed = |why: String| NetError::Proxy {
        url: url.to_owned(),
        proxy: proxy.to_string(),
        why,
    };
    let causes = causes(error);
    if let Some(lookup) = causes.iter().find_map(|cause| cause.downcast_ref::<LookupError>()) {
        return failed(match lookup {
            LookupError::Forbidden(why) => (*why).into(),
            LookupError::Failed(why) => {
                let why: String = why.chars().take(200).collect();
                format!("the proxy's name could not be looked up ({why})")
            }
        });
    }
    if error.is_connect() && error.is_timeout() {
        let seconds = seconds(connect_timeout);
        return failed(format!(
            "no secure connection to the server came about within {seconds} seconds"
        ));
    }
    // The client's own words for what the proxy did; it does not say which status the proxy answered with.
    let tunnel = causes
        .iter()
        .map(ToString::to_string)
        .find_map(|text| Some(text.strip_prefix("tunnel error: ")?.to_owned()));
    match tunnel.as_deref() {
        Some("proxy authorization required") => failed(
            "the proxy wants a user name and a password, or other ones (407); write them before its host, \
             http://user:password@host:port"
                .into(),
        ),
        Some("unsuccessful" | "proxy response headers too long") => failed(
            "the proxy did not make the connection (it answered CONNECT with something else than 200); it may not know \
             the server or not allow it, or be no proxy at all"
                .into(),
        ),
        Some("unexpected end of file") => failed("the proxy closed the connection without an answer".into()),
        Some(_) if nobody_listens(error) => failed("nothing is listening there; is the proxy running?".into()),
        Some(_) => failed(innermost(error)),
        // Behind the proxy: the server's certificate, or the connection once it was made.
        None => from_send(url, error, connect_timeout),
    }
}

fn nobody_listens(error: &reqwest::Error) -> bool {
    causes(error)
        .iter()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::ConnectionRefused)
}

/// What the TLS library means, for people.
fn in_plain_words(why: &str) -> Option<&'static str> {
    const WORDS: [(&str, &str); 8] = [
        (
            "UnknownIssuer",
            "nobody this computer trusts has vouched for the server's certificate",
        ),
        // Of one who bears the name of somebody trusted.
        (
            "BadSignature",
            "nobody this computer trusts has vouched for the server's certificate",
        ),
        ("not valid for name", "the server's certificate is for another name"),
        (
            "expired",
            "the server's certificate has expired, or this computer's clock is wrong",
        ),
        (
            "not valid yet",
            "the server's certificate is not valid yet, or this computer's clock is wrong",
        ),
        ("handshake eof", "the server hung up when it was asked for TLS"),
        ("corrupt message", "the server does not answer in TLS"),
        ("InvalidContentType", "the server does not answer in TLS"),
    ];
    let found = WORDS.iter().find(|(theirs, _)| why.contains(theirs));
    found.map(|(_, ours)| *ours)
}

/// The error of an answer that broke off.
pub(crate) fn from_body(url: &str, error: &reqwest::Error) -> NetError {
    NetError::Broken {
        url: url.to_owned(),
        why: innermost(error),
    }
}
