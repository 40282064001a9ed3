//! What a request of a guest may look like, and what becomes of it on the way from one redirect to the next.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use secrets::KeyHandle;
use url::Url;

use crate::mask::Mask;
use crate::send::secret_value;

/// Most headers of one request, and their names and values together in bytes: what common servers accept at all (Apache
/// takes 100 fields, nginx 32 KiB).
const MAX_HEADERS: usize = 100;
const MAX_HEADER_BYTES: usize = 32 << 10;
/// Largest body of a request, in bytes; the same as the largest body a page can send to a plugin.
const MAX_BODY: usize = 32 << 20;

/// Headers by which a request would say something about the connection or about itself that only `net` knows.
const FORBIDDEN: [&str; 10] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "keep-alive",
    "http2-settings",
];

/// The value of a header that a guest asks for.
#[derive(Debug, Clone)]
pub enum HeaderOut {
    Text(String),
    /// A secret the guest may use without seeing it: sent as `prefix` and the secret, to the origin it is bound to only.
    Secret {
        handle: KeyHandle,
        prefix: String,
    },
}

/// A checked request that changes as redirects are followed.
pub(crate) struct Request {
    pub(crate) method: Method,
    headers: Vec<(HeaderName, HeaderOut)>,
    pub(crate) body: Bytes,
}

impl Request {
    pub(crate) fn check(method: &str, headers: Vec<(String, HeaderOut)>, body: Bytes) -> Result<Self, String> {
        if body.len() > MAX_BODY {
            return Err(format!("its body has more than {MAX_BODY} bytes"));
        }
        if headers.len() > MAX_HEADERS {
            return Err(format!("it has more than {MAX_HEADERS} headers"));
        }
        let method = check_method(method)?;
        let mut kept = Vec::with_capacity(headers.len());
        let mut bytes = 0;
        for (name, value) in headers {
            let name = check_name(&name)?;
            let text = match &value {
                HeaderOut::Text(text) => text,
                HeaderOut::Secret { prefix, .. } => prefix,
            };
            bytes += name.as_str().len() + text.len();
            if bytes > MAX_HEADER_BYTES {
                return Err(format!("its headers have more than {MAX_HEADER_BYTES} bytes"));
            }
            HeaderValue::from_str(text)
                .or_else(|_| HeaderValue::from_bytes(text.as_bytes()))
                .map_err(|_| {
                    format!("the value of the header \"{name}\" contains a line break or a control character")
                })?;
            // Answers are handed on as they come; one that is packed would be of no use.
            if name != ACCEPT_ENCODING {
                kept.push((name, value));
            }
        }
        Ok(Self {
            method,
            headers: kept,
            body,
        })
    }

    /// The headers for a request to `url`. Secrets that go out are noted in `mask`.
    pub(crate) fn headers_for(&self, url: &Url, mask: &mut Mask) -> Result<HeaderMap, String> {
        let mut map = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let unusable = || format!("the value of the header \"{name}\" cannot be sent");
            let value = match value {
                HeaderOut::Text(text) => HeaderValue::from_bytes(text.as_bytes()).map_err(|_| unusable())?,
                HeaderOut::Secret { handle, prefix } => {
                    let secret = handle.reveal_to_net(url).ok_or_else(|| {
                        format!(
                            "the secret for the header \"{name}\" is kept for {} and no other address, or was removed",
                            handle.bound()
                        )
                    })?;
                    let value = secret_value(prefix, &secret).ok_or_else(unusable)?;
                    mask.add(secret);
                    value
                }
            };
            map.append(name, value);
        }
        Ok(map)
    }

    /// What is sent after a redirect: as the Fetch standard has it, 303 (and 301 or 302 to a POST) becomes a GET without
    /// a body. On the way to another origin every credential is left behind for good, also where a later redirect
    /// leads back: secrets, and headers whose names say that they hold one ([`is_credential`]).
    pub(crate) fn redirected(&mut self, status: StatusCode, elsewhere: bool) {
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = Bytes::new();
            self.headers.retain(|(name, _)| !name.as_str().starts_with("content-"));
        }
        if elsewhere {
            self.headers
                .retain(|(name, value)| matches!(value, HeaderOut::Text(_)) && !is_credential(name.as_str()));
        }
    }
}

/// Whether a header's name (in lower case) says that its value is a credential.
pub(crate) fn is_credential(name: &str) -> bool {
    [
        "auth",
        "cookie",
        "token",
        "secret",
        "key",
        "password",
        "session",
        "credential",
        "signature",
    ]
    .iter()
    .any(|word| name.contains(word))
}

fn check_method(text: &str) -> Result<Method, String> {
    let mut bytes = text.bytes();
    let form = text.len() <= 16
        && bytes.next().is_some_and(|first| first.is_ascii_uppercase())
        && bytes.all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'-');
    let shown: String = text.chars().take(20).collect();
    match Method::from_bytes(text.as_bytes()) {
        Ok(method) if form && method != Method::CONNECT && method != Method::TRACE => Ok(method),
        Ok(_) if form => Err(format!("the method {shown} is not allowed")),
        _ => Err(format!(
            "\"{shown}\" is no method: it begins with a capital letter and has up to 16 capital letters, digits and dashes"
        )),
    }
}

fn check_name(text: &str) -> Result<HeaderName, String> {
    let shown: String = text.chars().take(80).collect();
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("\"{shown}\" is no name of a header"))?;
    match FORBIDDEN.contains(&name.as_str()) || name.as_str().starts_with("proxy-") {
        true => Err(format!("the header \"{name}\" is set by Chrysalis alone; leave it out")),
        false => Ok(name),
    }
}

/// Where a redirect leads. The status is one of those that are followed.
pub(crate) fn onward(from: &Url, location: &HeaderValue) -> Result<Url, String> {
    let to = std::str::from_utf8(location.as_bytes())
        .ok()
        .and_then(|text| from.join(text).ok())
        .ok_or("it was redirected to an unreadable address")?;
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err("it was redirected from https to http, which is not followed".into());
    }
    Ok(to)
}

/// Whether the status says that the answer is elsewhere and the request may be sent there.
pub(crate) fn is_followed(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> (String, HeaderOut) {
        (name.into(), HeaderOut::Text(value.into()))
    }

    fn check(method: &str, headers: &[(&str, &str)]) -> Result<Request, String> {
        let headers = headers.iter().map(|(name, value)| header(name, value)).collect();
        Request::check(method, headers, Bytes::from_static(b"body"))
    }

    fn names(request: &Request) -> Vec<String> {
        request.headers.iter().map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn methods() {
        for good in ["GET", "POST", "PATCH", "M-SEARCH", "A", "X123456789012345"] {
            assert!(check(good, &[]).is_ok(), "{good}");
        }
        for bad in [
            "",
            "get",
            "GeT",
            "1GET",
            "-GET",
            "GET /",
            "G\r\nX",
            "X1234567890123456",
            "ÄT",
            "CONNECT",
            "TRACE",
        ] {
            assert!(check(bad, &[]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn headers_that_a_guest_may_not_set() {
        for bad in [
            "Host",
            "content-length",
            "Transfer-Encoding",
            "connection",
            "Upgrade",
            "TE",
            "trailer",
            "Expect",
            "Keep-Alive",
            "Proxy-Authorization",
            "proxy-connection",
            "",
            "a b",
            "a:b",
            "a\r\nb",
            "ä",
        ] {
            let error = check("GET", &[(bad, "x")]).err().unwrap_or_default();
            assert!(error.to_lowercase().contains(&bad.to_lowercase()), "{bad:?}: {error}");
            assert!(!error.is_empty(), "{bad:?}");
        }
        for bad in ["a\rb", "a\nb", "a\r\nHost: evil", "a\0b", "\x7f", "\x1b"] {
            let error = check("GET", &[("x-note", bad)]).err().unwrap_or_default();
            assert!(error.contains("x-note"), "{bad:?}: {error}");
        }
        let many: Vec<_> = (0..101).map(|i| header(&format!("x-{i}"), "")).collect();
        assert!(Request::check("GET", many, Bytes::new()).is_err());
        assert!(check("GET", &[("x", &"a".repeat(40_000))]).is_err());
        assert!(Request::check("GET", vec![], vec![0; MAX_BODY + 1].into()).is_err());
        let fine = check(
            "GET",
            &[("Accept-Encoding", "gzip"), ("X-Note", "ä\t!"), ("cookie", "a=b")],
        )
        .unwrap();
        assert_eq!(names(&fine), ["x-note", "cookie"]);
    }

    #[test]
    fn what_a_redirect_does_to_a_request() {
        let sent = [
            ("content-type", "text/plain"),
            ("content-language", "en"),
            ("x-note", "1"),
        ];
        for (method, status, want) in [
            ("POST", 301, "GET"),
            ("POST", 302, "GET"),
            ("POST", 303, "GET"),
            ("PUT", 303, "GET"),
            ("HEAD", 303, "HEAD"),
            ("PUT", 301, "PUT"),
            ("DELETE", 302, "DELETE"),
            ("POST", 307, "POST"),
            ("POST", 308, "POST"),
        ] {
            let mut request = check(method, &sent).unwrap();
            request.redirected(StatusCode::from_u16(status).unwrap(), false);
            assert_eq!(request.method, want, "{method} {status}");
            let emptied = want == "GET";
            assert_eq!(request.body.is_empty(), emptied, "{method} {status}");
            assert_eq!(names(&request).len(), if emptied { 1 } else { 3 }, "{method} {status}");
        }
    }

    #[test]
    fn credentials_stay_behind() {
        let sent = [
            ("Authorization", "1"),
            ("Cookie", "1"),
            ("X-Api-Key", "1"),
            ("x-auth", "1"),
            ("X-CSRF-Token", "1"),
            ("client-secret", "1"),
            ("Ocp-Apim-Subscription-Key", "1"),
            ("Accept", "1"),
            ("X-Note", "1"),
        ];
        let mut request = check("GET", &sent).unwrap();
        request.redirected(StatusCode::FOUND, false);
        assert_eq!(names(&request).len(), sent.len());
        request.redirected(StatusCode::FOUND, true);
        assert_eq!(names(&request), ["accept", "x-note"]);
    }

    #[test]
    fn where_a_redirect_leads() {
        let from = Url::parse("https://a.example/x/y?q").unwrap();
        for (location, want) in [
            ("/z", "https://a.example/z"),
            ("z", "https://a.example/x/z"),
            ("//b.example/", "https://b.example/"),
            ("https://b.example", "https://b.example/"),
            ("file:///etc/passwd", "file:///etc/passwd"),
        ] {
            assert_eq!(
                onward(&from, &HeaderValue::from_static(location)).unwrap().as_str(),
                want
            );
        }
        for bad in ["http://a.example/", "http:z", "https://[", "https://"] {
            assert!(onward(&from, &HeaderValue::from_static(bad)).is_err(), "{bad}");
        }
        assert!(onward(&from, &HeaderValue::from_bytes(b"/\xff").unwrap()).is_err());
        let plain = Url::parse("http://a.example/").unwrap();
        assert!(onward(&plain, &HeaderValue::from_static("https://a.example/")).is_ok());
    }
}
