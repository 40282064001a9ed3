//! Whether a request may come in at all, from its head alone.
//!
//! Any page in any browser on this machine can send requests to this door. Three things tell ours apart: the `Host` it
//! used (a name that an attacker points at 127.0.0.1 is not one of ours), the `Origin` and `Sec-Fetch-Site` that the
//! browser adds and script cannot change, and a header of our own on every write, which another origin's script cannot
//! send without asking first, and is never answered.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::Scheme;
use http::{Method, StatusCode};

/// Every write carries it with the value `1`.
pub const REQUEST_HEADER: HeaderName = HeaderName::from_static("x-chrysalis-request");
/// An app page's own proof, on the calls that its shell makes for it.
pub const FRAME_HEADER: HeaderName = HeaderName::from_static("x-chrysalis-frame");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request stays outside. The text is for whoever reads the answer, and for the activity log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    pub status: StatusCode,
    pub why: &'static str,
}

const fn forbidden(why: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::FORBIDDEN,
        why,
    }
}

const HOST: Refusal = forbidden(
    "this address is not one of this program's: open it as http://127.0.0.1 or http://localhost, with its port",
);
const FOREIGN: Refusal =
    forbidden("this request comes from another site's page: type the address into the address bar instead");
const NO_HEADER: Refusal = forbidden("this request changes something and needs the header X-Chrysalis-Request: 1");
const METHOD: Refusal = Refusal {
    status: StatusCode::METHOD_NOT_ALLOWED,
    why: "this method is not answered here",
};

/// The names this door goes by.
pub struct Door {
    /// Exactly as a browser writes them, port included.
    hosts: [String; 3],
}

/// The `Host` a request used, one of the door's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host(String);

impl Host {
    /// `http://127.0.0.1:PORT`, as a browser writes the origin of a page from here.
    pub fn origin(&self) -> String {
        format!("http://{}", self.0)
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Door {
    pub fn new(port: u16) -> Self {
        Self {
            hosts: [
                format!("127.0.0.1:{port}"),
                format!("localhost:{port}"),
                format!("[::1]:{port}"),
            ],
        }
    }

    /// The first check of all: exactly one `Host`, and one of ours to the letter. A target that names a server itself
    /// must name the same one.
    pub fn host(&self, parts: &Parts) -> Result<Host, Refusal> {
        let given = only(&parts.headers, &header::HOST).ok().flatten().ok_or(HOST)?;
        let host = self
            .hosts
            .iter()
            .find(|own| own.as_bytes() == given.as_bytes())
            .ok_or(HOST)?;
        if let Some(authority) = parts.uri.authority() {
            let same = authority.as_str() == host && parts.uri.scheme() == Some(&Scheme::HTTP);
            if !same {
                return Err(HOST);
            }
        }
        Ok(Host(host.clone()))
    }

    /// What everything but a file under `/frame/` must pass besides.
    pub fn check(&self, parts: &Parts, host: &Host) -> Result<(), Refusal> {
        match only(&parts.headers, &FETCH_SITE).map_err(|()| FOREIGN)? {
            None => {}
            Some(site) if site == "same-origin" || site == "none" => {}
            // "same-site" is another port of this machine: another program's page.
            Some(_) => return Err(FOREIGN),
        }
        match only(&parts.headers, &header::ORIGIN).map_err(|()| FOREIGN)? {
            None => {}
            Some(origin) if origin.as_bytes() == host.origin().as_bytes() => {}
            Some(_) => return Err(FOREIGN),
        }
        match parts.method {
            Method::GET | Method::HEAD => Ok(()),
            // Nobody is told what he might send: a preflight is answered without a CORS header, which means no.
            Method::OPTIONS | Method::TRACE | Method::CONNECT => Err(METHOD),
            _ => match only(&parts.headers, &REQUEST_HEADER) {
                Ok(Some(value)) if value == "1" => Ok(()),
                _ => Err(NO_HEADER),
            },
        }
    }
}

/// The value of a header that may stand there once; `Err` when it stands there twice.
pub fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, ()> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        None => Ok(first),
        Some(_) => Err(()),
    }
}

/// A path as it may stand in a log: no query, and no part long enough to be a token, wherever it stands and however the
/// rest is spelled. (A frame token is 32 characters, an asset's id longer still.)
pub fn shown(path: &str) -> String {
    let parts: Vec<&str> = path
        .split('/')
        .take(16)
        .map(|part| if part.len() >= 22 { "…" } else { part })
        .collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, target: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn hosts() {
        let door = Door::new(4141);
        for (host, ok) in [
            ("127.0.0.1:4141", true),
            ("localhost:4141", true),
            ("[::1]:4141", true),
            ("127.0.0.1", false),
            ("localhost", false),
            ("127.0.0.1:80", false),
            ("127.0.0.1:41410", false),
            ("0.0.0.0:4141", false),
            ("127.1:4141", false),
            ("127.0.0.2:4141", false),
            ("2130706433:4141", false),
            ("[::]:4141", false),
            ("[::ffff:127.0.0.1]:4141", false),
            ("[0:0:0:0:0:0:0:1]:4141", false),
            ("LOCALHOST:4141", false),
            ("localhost.:4141", false),
            ("localhost:04141", false),
            ("localhost:4141.evil.example", false),
            ("localhost:4141@evil.example", false),
            ("evil.example@localhost:4141", false),
            ("evil.example:4141", false),
            ("127.0.0.1.nip.io:4141", false),
            ("app.localhost:4141", false),
            ("localhost:4141,localhost:4141", false),
            ("", false),
        ] {
            let got = door.host(&parts("GET", "/", &[("host", host)]));
            assert_eq!(got.is_ok(), ok, "{host}");
        }
        assert_eq!(door.host(&parts("GET", "/", &[])), Err(HOST), "none at all");
        let own = ("host", "localhost:4141");
        assert_eq!(door.host(&parts("GET", "/", &[own, own])), Err(HOST), "twice");
        for (target, ok) in [
            ("http://localhost:4141/v1", true),
            ("https://localhost:4141/v1", false),
            ("http://127.0.0.1:4141/v1", false),
            ("http://evil.example/v1", false),
            ("http://x@localhost:4141/v1", false),
            ("localhost:4141", false),
        ] {
            assert_eq!(door.host(&parts("GET", target, &[own])).is_ok(), ok, "{target}");
        }
    }

    /// By hand: what a browser or a program sends, and whether it comes in.
    #[test]
    fn origins() {
        const OWN: &str = "http://localhost:4141";
        const SENT: (&str, &str) = ("x-chrysalis-request", "1");
        type Case = (&'static str, &'static [(&'static str, &'static str)], bool);
        let cases: &[Case] = &[
            ("GET", &[], true),
            ("HEAD", &[], true),
            ("GET", &[("origin", OWN)], true),
            ("GET", &[("origin", "null")], false),
            ("GET", &[("origin", "https://evil.example")], false),
            ("GET", &[("sec-fetch-site", "none")], true),
            ("GET", &[("sec-fetch-site", "same-origin")], true),
            ("GET", &[("sec-fetch-site", "same-site")], false),
            ("GET", &[("sec-fetch-site", "cross-site")], false),
            ("GET", &[("sec-fetch-site", "Same-Origin")], false),
            (
                "GET",
                &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
                false,
            ),
            ("POST", &[], false),
            ("POST", &[SENT], true),
            ("POST", &[SENT, ("origin", OWN)], true),
            ("POST", &[("origin", OWN)], false),
            ("POST", &[("x-chrysalis-request", "")], false),
            ("POST", &[("x-chrysalis-request", "11")], false),
            ("POST", &[SENT, SENT], false),
            ("POST", &[SENT, ("origin", "null")], false),
            ("POST", &[SENT, ("origin", "http://127.0.0.1:4141")], false),
            ("POST", &[SENT, ("origin", "http://[::1]:4141")], false),
            ("POST", &[SENT, ("origin", "https://localhost:4141")], false),
            ("POST", &[SENT, ("origin", "http://localhost")], false),
            ("POST", &[SENT, ("origin", "http://localhost:8080")], false),
            ("POST", &[SENT, ("origin", "http://localhost:4141.evil.example")], false),
            ("POST", &[SENT, ("origin", "http://localhost:4141/")], false),
            ("POST", &[SENT, ("origin", "HTTP://LOCALHOST:4141")], false),
            ("POST", &[SENT, ("origin", "")], false),
            ("POST", &[SENT, ("origin", OWN), ("origin", OWN)], false),
            (
                "POST",
                &[SENT, ("origin", OWN), ("sec-fetch-site", "cross-site")],
                false,
            ),
            ("PUT", &[], false),
            ("PATCH", &[], false),
            ("DELETE", &[], false),
            ("DELETE", &[SENT], true),
            ("BREW", &[], false),
            ("OPTIONS", &[], false),
            ("OPTIONS", &[SENT, ("origin", OWN)], false),
            ("TRACE", &[SENT], false),
            ("post", &[], false),
            ("get", &[], false),
        ];
        let door = Door::new(4141);
        for (method, headers, ok) in cases {
            let mut parts = parts(method, "/v1/settings", headers);
            parts.headers.insert("host", HeaderValue::from_static("localhost:4141"));
            let host = door.host(&parts).unwrap();
            let got = door.check(&parts, &host);
            assert_eq!(got.is_ok(), *ok, "{method} {headers:?} {got:?}");
        }
    }

    #[test]
    fn tokens_do_not_show() {
        let token = "0123456789abcdef0123456789abcdef";
        for path in [
            format!("/frame/{token}/app.js"),
            format!("//FRAME/{token}"),
            format!("/%66rame/{token}/x"),
            format!("/v1/apps/chat/frame/{token}"),
        ] {
            let shown = shown(&path);
            assert!(!shown.contains("0123"), "{shown}");
            assert!(shown.contains('…'), "{shown}");
        }
        assert_eq!(shown("/v1/apps/chat/plugins"), "/v1/apps/chat/plugins");
    }
}
