use std::net::IpAddr;

use secrets::Origin;
use url::{Host, Url};

use crate::address::{Span, is_localhost, looks_local};
use crate::{NetError, Reach};

/// An address whose form, host and reach have been checked, and which is the only thing [`crate::Net`] connects to. A
/// name's addresses are checked against the same reach when they are known.
#[derive(Debug, Clone)]
pub struct CheckedUrl {
    url: Url,
    span: Span,
    origin: Origin,
}

impl CheckedUrl {
    /// Accepts `http` and `https` with a host within `reach` and no user name or password. A trailing dot of the host
    /// and the fragment are removed.
    pub fn check(url: impl AsRef<str>, reach: &Reach) -> Result<Self, NetError> {
        let text = url.as_ref();
        let mut url = Url::parse(text).map_err(|error| NetError::Address {
            url: shown_text(text),
            why: format!("it cannot be read ({error})"),
        })?;
        let wrong = |why: &str| NetError::Address {
            url: shown(&url),
            why: why.into(),
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "it must not contain a user name or password; put the key in its own field",
            ));
        }
        if let Some(Host::Domain(name)) = url.host()
            && name.ends_with('.')
        {
            let bare = name.trim_end_matches('.').to_owned();
            if bare.is_empty() || url.set_host(Some(&bare)).is_err() {
                return Err(NetError::Address {
                    url: shown(&url),
                    why: "it names no host".into(),
                });
            }
        }
        url.set_fragment(None);
        let wrong = |why: &str| NetError::Address {
            url: shown(&url),
            why: why.into(),
        };
        let origin = Origin::of(&url).map_err(|_| wrong("it names no host"))?;
        if origin.port() == 0 {
            return Err(wrong("port 0 is not a port"));
        }
        let refused = |why: String| NetError::Refused { url: shown(&url), why };
        let span = reach.span(&url, &origin).map_err(refused)?;
        let within = match url.host() {
            Some(Host::Ipv4(v4)) => span.allows("", true, IpAddr::V4(v4)),
            Some(Host::Ipv6(v6)) => span.allows("", true, IpAddr::V6(v6)),
            // Never public, whatever a resolver says.
            Some(Host::Domain(name)) => span != Span::Public || !is_localhost(name),
            None => false,
        };
        if !within {
            return Err(refused(span.out_of_reach().into()));
        }
        Ok(Self { url, span, origin })
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// Whether a person typed it and it is not near by: what a proxy is for.
    pub(crate) fn may_use_proxy(&self) -> bool {
        self.span == Span::Typed && !looks_local(&self.url)
    }

    /// The address as logs and errors show it: without its query.
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }
}

/// `url` without user name, password, query and fragment: those may hold secrets.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    bounded(url.as_str())
}

/// The same for text that is no URL.
fn shown_text(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let text = match text.rsplit_once('@') {
        Some((_, host)) => host,
        None => text,
    };
    bounded(text)
}

fn bounded(text: &str) -> String {
    const MAX: usize = 300;
    if text.chars().count() <= MAX {
        return text.to_owned();
    }
    text.chars().take(MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(origin: &str) -> Reach {
        Reach::Named(Origin::parse(origin).unwrap())
    }

    #[test]
    fn spellings_of_private_addresses_are_not_public() {
        for bad in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://017700000001/",
            "http://0177.0.0.1/",
            "http://１２７.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
            "http://[64:ff9b::7f00:1]/",
            "http://[2002:7f00:1::]/",
            "http://[fe80::1]/",
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://0/",
            "http://169.254.169.254/latest/meta-data/",
            "http:\\\\127.0.0.1\\",
            "http://10.1/",
            "http://192.168.257/",
        ] {
            let error = CheckedUrl::check(bad, &Reach::Public).unwrap_err();
            assert!(matches!(error, NetError::Refused { .. }), "{bad}: {error:?}");
        }
        for good in [
            "https://example.com",
            "http://1.1.1.1/",
            "https://[2606:4700::1111]/",
            "http://134744072/",
        ] {
            assert!(CheckedUrl::check(good, &Reach::Public).is_ok(), "{good}");
        }
    }

    #[test]
    fn forms_that_are_refused_everywhere() {
        for bad in [
            "",
            "x",
            "//h",
            "ftp://example.com/",
            "file:///etc/passwd",
            "javascript:0",
            "http://user@example.com/",
            "http://:pw@example.com/",
            "http://.../",
            "http://example.com:0/",
            "data:text/html,x",
            "http://exa mple.com/",
        ] {
            let error = CheckedUrl::check(bad, &Reach::Public).unwrap_err();
            assert!(matches!(error, NetError::Address { .. }), "{bad}: {error:?}");
        }
    }

    #[test]
    fn what_the_owner_named_and_nothing_beside_it() {
        let reach = named("http://10.10.0.88:11434");
        assert!(CheckedUrl::check("http://10.10.0.88:11434/v1/models", &reach).is_ok());
        for other in [
            "http://10.10.0.88:11435/",
            "https://10.10.0.88:11434/",
            "http://10.10.0.89:11434/",
            "http://127.0.0.1:11434/",
            "http://example.com/",
        ] {
            let error = CheckedUrl::check(other, &reach).unwrap_err();
            assert!(matches!(error, NetError::Refused { .. }), "{other}: {error:?}");
        }
        for never in [
            "http://169.254.169.254",
            "http://0.0.0.0:1",
            "http://[fe80::1]",
            "http://168.63.129.16",
            "http://224.0.0.1",
            "http://[::ffff:a9fe:a9fe]",
        ] {
            assert!(CheckedUrl::check(never, &named(never)).is_err(), "{never}");
        }
    }

    #[test]
    fn nothing_secret_is_shown() {
        let checked = CheckedUrl::check("https://example.com./a?key=canary#canary", &Reach::Public).unwrap();
        assert_eq!(checked.shown(), "https://example.com/a");
        for text in [
            "http://canary:canary@h/?canary#canary",
            "canary@x?canary",
            "http://canary@exa mple/?canary",
        ] {
            let error = CheckedUrl::check(text, &Reach::Public).unwrap_err();
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }
}
