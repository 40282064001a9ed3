use std::fmt;

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Scheme, host and port: what a key is bound to. Hosts are in the URL standard's normal form (lower case, punycode,
/// plain IPv4) without a trailing dot, so two spellings of one place are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

/// The text or address has no origin a key could be bound to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not the address of a web server: it must begin with http:// or https:// and name a host")]
pub struct OriginError(String);

impl Origin {
    /// The origin of an `http` or `https` address.
    pub fn of(url: &Url) -> Result<Self, OriginError> {
        let named = || OriginError(format!("{}:", url.scheme()));
        if !matches!(url.scheme(), "http" | "https") {
            return Err(named());
        }
        let host = match url.host().ok_or_else(named)? {
            Host::Domain(name) => name.trim_end_matches('.').to_owned(),
            address => address.to_string(),
        };
        let port = url.port_or_known_default().ok_or_else(named)?;
        if host.is_empty() {
            return Err(named());
        }
        Ok(Self {
            scheme: url.scheme().to_owned(),
            host,
            port,
        })
    }

    /// Reads `https://host:port`; a path, query or user name is dropped.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let url = Url::parse(text).map_err(|_| OriginError(text.chars().take(80).collect()))?;
        Self::of(&url)
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Host name, IPv4 address, or IPv6 address in brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

/// `https://example.com`, with the port only where it is not the scheme's own.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        match (self.scheme.as_str(), self.port) {
            ("http", 80) | ("https", 443) => Ok(()),
            (_, port) => write!(f, ":{port}"),
        }
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> String {
        origin.to_string()
    }
}

impl TryFrom<String> for Origin {
    type Error = OriginError;
    fn try_from(text: String) -> Result<Self, OriginError> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_place_are_equal() {
        let same = [
            ("https://EXAMPLE.com/v1", "https://example.com.:443/"),
            ("http://0x7f.1:80", "http://127.0.0.1"),
            ("http://user:pw@h/x?y", "http://h:80"),
            ("http://[::1]:11434/v1", "http://[0:0::1]:11434"),
        ];
        for (a, b) in same {
            assert_eq!(Origin::parse(a).unwrap(), Origin::parse(b).unwrap(), "{a} {b}");
        }
    }

    #[test]
    fn another_scheme_host_or_port_is_another_origin() {
        let one = Origin::parse("https://example.com").unwrap();
        for other in [
            "http://example.com",
            "https://example.com:444",
            "https://www.example.com",
        ] {
            assert_ne!(one, Origin::parse(other).unwrap(), "{other}");
        }
    }

    #[test]
    fn text_round_trips_and_nonsense_is_refused() {
        for text in ["https://example.com", "http://127.0.0.1:8080", "http://[::1]:1"] {
            assert_eq!(Origin::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "h",
            "ftp://h",
            "file:///etc/passwd",
            "http://",
            "http://.",
            "data:,x",
        ] {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
