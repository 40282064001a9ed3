//! The one proxy a person may have set, for model servers on the internet.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use crate::address::is_nameable;
use crate::checked::shown;

/// A proxy that secure connections to model servers go through (HTTP `CONNECT`). It sees the server's name and port and
/// how much is sent, and nothing of what is in it. It looks the server's name up, so what stands behind that name is its
/// to judge: names that are local by their spelling never get there.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    /// With its user name and password.
    url: Url,
}

/// Why a text names no proxy. It never holds the text, which may have a password in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProxyError(&'static str);

impl Proxy {
    /// Reads `http://host:port` or `https://host:port`, with `user:password@` before the host where the proxy wants that
    /// (percent-encoded, as in any URL). The port may be left out where it is the scheme's own. Other kinds, SOCKS among
    /// them, are errors, and so are a path, a query and an address that is never connected to.
    pub fn parse(text: &str) -> Result<Self, ProxyError> {
        let url = Url::parse(text.trim()).map_err(|_| ProxyError("it cannot be read as a URL"))?;
        match url.scheme() {
            "http" | "https" => {}
            "socks4" | "socks4a" | "socks5" | "socks5h" => return Err(ProxyError("SOCKS proxies are not supported")),
            _ => return Err(ProxyError("it must begin with http:// or https://")),
        }
        let within = match url.host() {
            Some(Host::Ipv4(v4)) => is_nameable(IpAddr::V4(v4)),
            Some(Host::Ipv6(v6)) => is_nameable(IpAddr::V6(v6)),
            Some(Host::Domain(name)) => !name.is_empty(),
            None => false,
        };
        if !within || url.port() == Some(0) {
            return Err(ProxyError("its host or port is none that can be connected to"));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(ProxyError("nothing may stand behind the port"));
        }
        Ok(Self { url })
    }

    pub(crate) fn for_client(&self) -> reqwest::Result<reqwest::Proxy> {
        reqwest::Proxy::https(self.url.clone())
    }
}

/// Without user name and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(shown(&self.url).trim_end_matches('/'))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_proxy_may_be() {
        for (text, want) in [
            ("http://proxy.corp:3128", "http://proxy.corp:3128"),
            (" http://ann:canary@10.0.0.1:3128/ ", "http://10.0.0.1:3128"),
            ("https://proxy.example", "https://proxy.example"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            let proxy = Proxy::parse(text).unwrap();
            assert_eq!(proxy.to_string(), want);
            assert!(!format!("{proxy:?}").contains("canary"));
        }
        for (text, want) in [
            ("", "cannot be read"),
            ("proxy.corp:3128", "begin with http"),
            ("proxy.corp", "cannot be read"),
            ("http://ann:canary@", "cannot be read"),
            ("socks5://canary:canary@h:1080", "SOCKS"),
            ("ftp://h", "begin with http"),
            ("http://169.254.169.254:80", "host or port"),
            ("http://0.0.0.0:80", "host or port"),
            ("http://h:0", "host or port"),
            ("http://h:1/canary", "behind the port"),
            ("http://h:1?canary", "behind the port"),
        ] {
            let error = Proxy::parse(text).unwrap_err().to_string();
            assert!(error.contains(want) && !error.contains("canary"), "{text}: {error}");
        }
    }
}
