//! Which hosts a grant names. Both sides, the pattern and the address, go through the URL standard's host parser first,
//! so that letter case, IDNA, percent signs, full-width digits and the odd spellings of IPv4 are gone before anything
//! is compared, and names are compared label by label.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

use crate::address::{is_localhost, is_public};

/// Longest text of a pattern, in bytes: a DNS name of 253 octets (RFC 1035), its port, and some room for a spelling
/// that the host parser makes shorter.
const MAX_TEXT: usize = 512;
/// Longest DNS name and label, in octets (RFC 1035).
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// One host, or all hosts below a name, with or without a port. In its text form: `example.com`, `*.example.com` (which
/// is not `example.com` itself), `10.0.0.7`, `[fd00::7]`, each with `:PORT` behind it or, for every port, without.
///
/// There is no list of public suffixes here: `*.co.uk` is a pattern like any other. What is refused is a suffix of one
/// label (`*.com`), because that is everybody.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPattern {
    host: Named,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Named {
    /// A name in normal form, without a trailing dot.
    Name(String),
    Address(IpAddr),
    /// The names that end in a dot and this one.
    Below(String),
}

/// The text is no pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" names no host that can be allowed: {why}")]
pub struct PatternError {
    text: String,
    why: &'static str,
}

impl HostPattern {
    /// Reads the text form. Refused are a bare `*`, a star anywhere but as the whole first label, a suffix of one label
    /// (but `*.localhost` is fine), schemes, paths, user names, white space, empty labels and port 0.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        read(text).map_err(|why| PatternError {
            text: text.chars().take(80).collect(),
            why,
        })
    }

    /// Whether the address's host is among those named, and its port too where one is named. Says nothing about the
    /// scheme, nor about where the name leads.
    pub fn matches(&self, url: &Url) -> bool {
        if self.port.is_some() && self.port != url.port_or_known_default() {
            return false;
        }
        match (&self.host, url.host()) {
            (Named::Address(named), Some(Host::Ipv4(v4))) => *named == IpAddr::V4(v4),
            (Named::Address(named), Some(Host::Ipv6(v6))) => *named == IpAddr::V6(v6),
            (Named::Name(named), Some(Host::Domain(name))) => named == bare(name),
            (Named::Below(suffix), Some(Host::Domain(name))) => bare(name)
                .strip_suffix(suffix.as_str())
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|rest| rest.split('.').all(|label| !label.is_empty())),
            _ => false,
        }
    }

    /// Whether the pattern asks for this machine or the local network by what it is: `localhost`, names below it, or an
    /// address that is not a public one.
    pub fn is_local(&self) -> bool {
        match &self.host {
            Named::Name(name) | Named::Below(name) => is_localhost(name),
            Named::Address(address) => !is_public(*address),
        }
    }

    /// Whether the pattern may vouch for a private address behind the name it matched. An exact host may; a wildcard
    /// only where no name can be public, because below a public suffix anyone's subdomain would be vouched for.
    pub(crate) fn vouches(&self) -> bool {
        match &self.host {
            Named::Name(_) | Named::Address(_) => true,
            // Names that the public DNS does not have: RFC 6761, 6762, 8375, and what ICANN reserved in 2024; `lan` is
            // what home routers hand out.
            Named::Below(suffix) => ["localhost", "local", "home.arpa", "internal", "lan"]
                .iter()
                .any(|zone| {
                    suffix
                        .strip_suffix(zone)
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                }),
        }
    }
}

/// A name without its trailing dot, as [`crate::CheckedUrl`] leaves it.
fn bare(name: &str) -> &str {
    name.trim_end_matches('.')
}

fn read(text: &str) -> Result<HostPattern, &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > MAX_TEXT {
        return Err("it is too long");
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("it contains white space or a control character");
    }
    if text.contains("://") || text.contains(['/', '\\', '?', '#']) {
        return Err("write the host alone, without scheme and path: example.com");
    }
    if text.contains('@') {
        return Err("a user name or password does not belong here");
    }
    let (host, port) = split(text)?;
    let (below, host) = match host.strip_prefix("*.") {
        Some(suffix) => (true, suffix),
        None => (false, host),
    };
    let host = match host.contains(':') && !host.starts_with('[') {
        true => Host::parse(&format!("[{host}]")),
        false => Host::parse(host),
    };
    let host = match host.map_err(|_| "that is no host name and no IP address")? {
        Host::Ipv4(v4) => Named::Address(IpAddr::V4(v4)),
        Host::Ipv6(v6) => Named::Address(IpAddr::V6(v6)),
        Host::Domain(name) => Named::Name(name.strip_suffix('.').map(str::to_owned).unwrap_or(name)),
    };
    let host = match host {
        Named::Name(name) => {
            if name.contains('*') {
                return Err("a star may only stand for all subdomains, as in *.example.com");
            }
            if name.split('.').any(str::is_empty) {
                return Err("a part between two dots is empty");
            }
            if name.len() > MAX_NAME || name.split('.').any(|label| label.len() > MAX_LABEL) {
                return Err("no host name is that long");
            }
            match below {
                false => Named::Name(name),
                true if !name.contains('.') && name != "localhost" => {
                    return Err("that would be a whole top-level domain; name at least two parts, as in *.example.com");
                }
                true => Named::Below(name),
            }
        }
        _ if below => return Err("an IP address has no subdomains"),
        address => address,
    };
    Ok(HostPattern { host, port })
}

/// The host and the port of a pattern's text.
fn split(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (host, port) = match text.rfind(']') {
        Some(end) if text.starts_with('[') => match text[end + 1..].strip_prefix(':') {
            Some(port) => (&text[..=end], Some(port)),
            None if end + 1 == text.len() => (text, None),
            None => return Err("something other than a port follows the closing bracket"),
        },
        _ => match text.split_once(':') {
            None => (text, None),
            // More than one colon and no bracket is an IPv6 address without a port.
            Some((_, rest)) if rest.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
        },
    };
    let Some(port) = port else {
        return Ok((host, None));
    };
    let digits = !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse() {
        Ok(port) if digits && port > 0 => Ok((host, Some(port))),
        _ => Err("the port must be a number from 1 to 65535"),
    }
}

/// The one spelling that is kept, compared and shown.
impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Named::Name(name) => f.write_str(name)?,
            Named::Address(IpAddr::V4(v4)) => write!(f, "{v4}")?,
            // As the URL standard writes it (no dotted tail), so that this text and a URL's host look the same.
            Named::Address(IpAddr::V6(v6)) => write!(f, "{}", Host::<&str>::Ipv6(*v6))?,
            Named::Below(suffix) => write!(f, "*.{suffix}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for HostPattern {
    type Err = PatternError;
    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}
