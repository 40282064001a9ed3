use std::fmt;

use url::Url;

use crate::{Origin, OriginError};

/// Where a key may go: one origin and, on it, one path with everything below it. Gateways give several services to
/// several people at one host, told apart by the path alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bound {
    origin: Origin,
    /// Whole segments as they stand in the address: empty for the whole origin.
    path: Vec<String>,
}

impl Bound {
    /// The binding of a key that is saved for the base address `url`: its path without a version at the end. `/v1` and
    /// no path at all are the whole origin, `/api/v1` is `/api`, `/acct/one` is itself.
    pub fn of(url: &Url) -> Result<Self, OriginError> {
        let mut bound = Self::exactly(url)?;
        if bound.path.last().is_some_and(|last| is_version(last)) {
            bound.path.pop();
        }
        Ok(bound)
    }

    /// Reads what [`fmt::Display`] writes; a query or user name is dropped.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let origin = Origin::parse(text)?;
        match Url::parse(text) {
            Ok(url) => Self::exactly(&url),
            Err(_) => Ok(origin.into()),
        }
    }

    fn exactly(url: &Url) -> Result<Self, OriginError> {
        let segments = url.path().split('/').filter(|segment| !segment.is_empty());
        Ok(Self {
            origin: Origin::of(url)?,
            path: segments.map(str::to_owned).collect(),
        })
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether a request to `url` may carry the key. [`Url`] has resolved dot segments, also escaped ones; a path whose
    /// separators are hidden in escapes may mean another one to the server, so below a path it is not trusted.
    pub fn covers(&self, url: &Url) -> bool {
        if Origin::of(url).ok().as_ref() != Some(&self.origin) {
            return false;
        }
        if self.path.is_empty() {
            return true;
        }
        let path = url.path();
        let mut segments = path.strip_prefix('/').unwrap_or(path).split('/');
        if !self.path.iter().all(|own| segments.next() == Some(own)) {
            return false;
        }
        let hidden = ["%2e", "%2f", "%5c", "%25", "%00", "\\", ";"];
        segments.all(|below| {
            let below = below.to_ascii_lowercase();
            !hidden.iter().any(|part| below.contains(part))
        })
    }
}

/// `https://gw.example/acct/one`, or the origin alone.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin.fmt(f)?;
        self.path.iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

/// The whole origin.
impl From<Origin> for Bound {
    fn from(origin: Origin) -> Self {
        Self {
            origin,
            path: Vec::new(),
        }
    }
}

impl From<&Origin> for Bound {
    fn from(origin: &Origin) -> Self {
        origin.clone().into()
    }
}

impl From<&Bound> for Bound {
    fn from(bound: &Bound) -> Self {
        bound.clone()
    }
}

/// `v1`, `v1beta`, `v1.1`, `v1p1beta2`: part of the interface, not of a gateway's address. Nothing else is, so that
/// `/v1-alice` and `/v1-bob` are two places.
fn is_version(segment: &str) -> bool {
    let number = |text: &str| -> Option<usize> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        (1..=3).contains(&digits).then_some(digits)
    };
    let Some(rest) = segment.strip_prefix('v') else {
        return false;
    };
    let Some(rest) = number(rest).map(|digits| &rest[digits..]) else {
        return false;
    };
    let minor = rest.strip_prefix(['.', 'p']);
    let rest = minor.map_or(Some(rest), |minor| number(minor).map(|digits| &minor[digits..]));
    let stage = rest.map(|rest| rest.strip_prefix("alpha").or(rest.strip_prefix("beta")).ok_or(rest));
    match stage {
        Some(Ok(stage)) => stage.is_empty() || number(stage) == Some(stage.len()),
        Some(Err(rest)) => rest.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Bound {
        Bound::of(&Url::parse(text).unwrap()).unwrap()
    }

    fn covers(base: &str, url: &str) -> bool {
        of(base).covers(&Url::parse(url).unwrap())
    }

    #[test]
    fn the_path_of_a_gateway_belongs_to_it() {
        for (base, want) in [
            ("https://h.example", "https://h.example"),
            ("https://h.example/v1", "https://h.example"),
            ("https://h.example/v1beta/", "https://h.example"),
            ("https://h.example/api/v1", "https://h.example/api"),
            ("https://h.example/v1beta/openai", "https://h.example/v1beta/openai"),
            (
                "https://gw.example:8443//acct//one/v1/?a=b#c",
                "https://gw.example:8443/acct/one",
            ),
            ("https://GW.example.:443/acct/one", "https://gw.example/acct/one"),
        ] {
            assert_eq!(of(base).to_string(), want, "{base}");
            assert_eq!(Bound::parse(want).unwrap(), of(base), "{base}");
        }
        assert!(Bound::parse("file:///etc").is_err() && Bound::parse("gw.example/acct").is_err());
    }

    #[test]
    fn below_it_and_nowhere_else() {
        let base = "https://gw.example/acct/one/v1";
        for url in [
            "https://gw.example/acct/one",
            "https://gw.example/acct/one/",
            "https://gw.example/acct/one/v1/models?x=..%2f",
            "https://gw.example/acct/one/models",
            "https://GW.EXAMPLE.:443/acct/two/../one/v1/chat/completions",
        ] {
            assert!(covers(base, url), "{url}");
        }
        for url in [
            "https://gw.example/",
            "https://gw.example/acct",
            "https://gw.example/acct/two",
            "https://gw.example/acct/one-more",
            "https://gw.example/acct/on",
            "https://gw.example/acct/ONE/v1",
            "https://gw.example//acct/one/v1",
            "https://gw.example/acct/one/../two",
            "https://gw.example/acct/one/%2e%2e/two",
            "https://gw.example/acct/one/%2E%2e/two",
            "https://gw.example/acct/one/.%2e/two",
            "https://gw.example/acct/one/..%2ftwo",
            "https://gw.example/acct/one/..%5Ctwo",
            "https://gw.example/acct/one/..\\two",
            "https://gw.example/acct/one/%252e%252e/two",
            "https://gw.example/acct/one/..;/two",
            "https://gw.example/acct%2fone/v1",
            "http://gw.example/acct/one/v1",
            "https://gw.example:8443/acct/one/v1",
            "https://gw.example.evil.example/acct/one/v1",
            "https://evil.example/acct/one/v1",
        ] {
            assert!(!covers(base, url), "{url}");
        }
    }

    #[test]
    fn only_a_version_is_left_out() {
        for version in ["v1", "v4", "v12", "v1beta", "v1beta1", "v1alpha", "v1.1", "v1p1beta2"] {
            assert_eq!(
                of(&format!("https://gw.example/a/{version}")),
                of("https://gw.example/a"),
                "{version}"
            );
        }
        for account in [
            "v1-alice", "v1alice", "v9x", "v1.", "v1p", "v1betax", "v", "va", "v1234", "v1%2fa", "V1", "v1;a",
        ] {
            let (one, other) = (
                format!("https://gw.example/{account}"),
                "https://gw.example/v1-bob/models",
            );
            assert!(!covers(&one, other), "{account}");
            assert_ne!(of(&one), of("https://gw.example"), "{account}");
        }
    }

    #[test]
    fn without_a_path_everything_at_the_origin() {
        for url in [
            "https://h.example/",
            "https://h.example/v1/models",
            "https://h.example/a%2fb;c",
        ] {
            assert!(covers("https://h.example/v1", url), "{url}");
        }
        assert!(!covers("https://h.example/v1", "https://h.example:444/v1"));
    }
}
