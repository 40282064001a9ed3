//! What every answer carries, whoever wrote it.

use axum::body::Body;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

/// Sent as it stands when there is no room for another connection.
pub const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 57\r\n\
    Retry-After: 5\r\nConnection: close\r\n\r\n{\"error\":\"too many connections at once: try again later\"}";

const CONNECTION_ALLOWLIST: HeaderName = HeaderName::from_static("connection-allowlist");
pub const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
pub const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
pub const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// `{"error": …}`.
pub fn error(status: StatusCode, message: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(serde_json::json!({ "error": message }).to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    seal(headers);
    response
}

/// Makes an answer under `/v1` harmless to look at. A picture, or what a plugin answered, has the launcher's own origin
/// when someone opens its address in a tab: without the sandbox its script would be the owner. Policies add up, so this
/// can only narrow what the engine sent along. Other origins get nothing: no CORS header survives, whoever set it.
pub fn seal(headers: &mut HeaderMap) {
    headers.append(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'"),
    );
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    remove_all(headers, |name| name.starts_with("access-control-"));
    strip_connection(headers);
}

/// What holds for every file under `/frame/`, on top of what the engine says about it: readable by the page's own
/// opaque origin, and never a cookie.
pub fn seal_frame(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("cross-origin"));
    headers.remove(header::ACCESS_CONTROL_ALLOW_CREDENTIALS);
    headers.remove(header::SET_COOKIE);
    strip_connection(headers);
}

/// An answer under `/frame/` that is not the app's: as powerless as its pages.
pub fn frame_error(status: StatusCode, message: &str, origin: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(message.to_owned()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let policy = format!(
        "sandbox; default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors {origin}; webrtc 'block'"
    );
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(
        CONNECTION_ALLOWLIST,
        HeaderValue::from_static("(response-origin);webrtc=block"),
    );
    headers.insert(header::X_DNS_PREFETCH_CONTROL, HeaderValue::from_static("off"));
    seal_frame(headers);
    response
}

/// The connection is this crate's and hyper's: no answer decides about it.
fn strip_connection(headers: &mut HeaderMap) {
    for name in [
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
        header::TRAILER,
    ] {
        headers.remove(name);
    }
}

fn remove_all(headers: &mut HeaderMap, doomed: impl Fn(&str) -> bool) {
    let names: Vec<HeaderName> = headers.keys().filter(|name| doomed(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_answer_counts_its_own_bytes() {
        let (head, body) = FULL.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{}",
            body.len()
        );
        serde_json::from_str::<serde_json::Value>(body).unwrap();
    }

    #[test]
    fn sealing_narrows_and_never_widens() {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("script-src *"),
        );
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert("access-control-allow-private-network", HeaderValue::from_static("true"));
        headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=1"));
        seal(&mut headers);
        let policies: Vec<_> = headers.get_all(header::CONTENT_SECURITY_POLICY).iter().collect();
        assert_eq!(policies.len(), 2, "both apply");
        assert!(headers.keys().all(|name| !name.as_str().starts_with("access-control")));
        assert!(!headers.contains_key(header::TRANSFER_ENCODING));
        assert_eq!(headers[header::CACHE_CONTROL], "max-age=1");
    }
}
