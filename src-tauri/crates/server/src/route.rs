//! What happens to a request, in order: its `Host`, then a frame's file or the rest; for the rest its origin, then the
//! launcher's files or the engine.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::body::Body;
use engine::{Engine, PageDoor, Peer};
use futures::{FutureExt, StreamExt};
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Incoming};
use percent_encoding::percent_decode_str;
use policy::Caller;
use tokio::sync::{mpsc, watch};

use crate::door::{Door, FRAME_HEADER, Host, REQUEST_HEADER, Refusal, shown};
use crate::proof::{Proof, establish};
use crate::{answer, launcher, socket};

/// Largest request body (contract section 6): 128 MiB.
pub const BODY_MAX: u64 = 128 * 1024 * 1024;
/// A body of which nothing arrives for so long, while it is being waited for, is given up.
const BODY_STALL: Duration = Duration::from_secs(60);

/// Everything a connection needs to answer.
pub struct Routes {
    engine: Engine,
    door: Door,
    closing: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
}

impl Routes {
    /// `closing` turns true at the shutdown; `alive` is held by whatever outlives its connection.
    pub fn new(engine: Engine, door: Door, closing: watch::Receiver<bool>, alive: mpsc::Sender<()>) -> Self {
        Self {
            engine,
            door,
            closing,
            alive,
        }
    }

    /// Answers one request from `peer`. Never panics: a panic further in becomes a 500.
    pub async fn answer(&self, peer: IpAddr, request: Request<Incoming>) -> Response<Body> {
        let start = Instant::now();
        let (parts, body) = request.into_parts();
        let (method, path) = (parts.method.clone(), shown(parts.uri.path()));
        let response = AssertUnwindSafe(self.route(peer, parts, body))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                tracing::error!(%method, path, "a request ended in a panic");
                let message = "something went wrong inside Chrysalis: the log says more";
                answer::error(StatusCode::INTERNAL_SERVER_ERROR, message)
            });
        let status = response.status().as_u16();
        tracing::debug!(%method, path, status, ms = start.elapsed().as_millis() as u64, "request");
        response
    }

    async fn route(&self, peer: IpAddr, parts: Parts, body: Incoming) -> Response<Body> {
        let host = match self.door.host(&parts) {
            Ok(host) => host,
            Err(refusal) => return self.refuse(&parts, refusal),
        };
        // To the letter: any other spelling of these two beginnings is a file that the launcher does not have.
        if parts.uri.path().starts_with("/frame/") {
            return self.frame(&parts, &host).await;
        }
        if let Err(refusal) = self.door.check(&parts, &host) {
            return self.refuse(&parts, refusal);
        }
        let path = parts.uri.path();
        if path != "/v1" && !path.starts_with("/v1/") {
            return launcher::file(&parts.method, path, &parts.headers, &host);
        }
        let (caller, proof) = match establish(&self.engine, &parts.headers) {
            Ok(established) => established,
            Err(refusal) => return self.refuse(&parts, refusal),
        };
        if let Proof::Session(_, session) = &proof
            && parts.uri.path() == "/v1/ws"
            && parts.headers.contains_key(header::UPGRADE)
        {
            let (engine, closing, alive) = (self.engine.clone(), self.closing.clone(), self.alive.clone());
            let asker = (caller, session.clone(), proof);
            return socket::open(engine, asker, peer, parts, closing, alive).await;
        }
        self.call(caller, proof, peer, parts, body).await
    }

    fn refuse(&self, parts: &Parts, refusal: Refusal) -> Response<Body> {
        let target = format!("{} {}", parts.method, shown(parts.uri.path()));
        self.engine.refused(&Caller::Nobody, &target, refusal.why);
        closing(answer::error(refusal.status, refusal.why))
    }

    /// `/frame/<token>/…`: an app's file for its own sandboxed page. No cookie counts here and no origin is asked for
    /// (every such page has the origin `null`): the token alone opens it.
    async fn frame(&self, parts: &Parts, host: &Host) -> Response<Body> {
        let origin = host.origin();
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            let message = "an app's files can only be read";
            return answer::frame_error(StatusCode::METHOD_NOT_ALLOWED, message, &origin);
        }
        let missing = |message: &str| answer::frame_error(StatusCode::NOT_FOUND, message, &origin);
        let path = &parts.uri.path()["/frame/".len()..];
        let (token, file) = path
            .split_once('/')
            .map_or((path, None), |(token, file)| (token, Some(file)));
        let Some(frame) = self.engine.frame(token) else {
            return missing("this page is no longer open: open the app again");
        };
        let Some(file) = file else {
            // Relative addresses inside would lose the token without the slash.
            let mut response = answer::frame_error(StatusCode::PERMANENT_REDIRECT, "", &origin);
            if let Ok(to) = HeaderValue::from_str(&format!("/frame/{token}/")) {
                response.headers_mut().insert(header::LOCATION, to);
            }
            return response;
        };
        if !is_plain(file) {
            return missing("there is no such file");
        }
        let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let Ok(uri) = format!("/{file}{query}").parse::<Uri>() else {
            return missing("there is no such file");
        };
        let mut request = Request::new(());
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = without_proofs(parts.headers.clone());
        let door = PageDoor::Frame {
            token: token.to_owned(),
            origin,
        };
        let mut response = self.engine.page(&frame.account, &frame.app, &door, request).await;
        answer::seal_frame(response.headers_mut());
        if !is_event_stream(response.headers()) {
            return response;
        }
        // `/frame/<token>/v1/events`: what listens ends with the token, as under `/v1`.
        let proof = Proof::Frame(token.to_owned());
        response.map(|body| proof.bounds(self.engine.clone(), self.closing.clone(), body))
    }

    async fn call(&self, caller: Caller, proof: Proof, peer: IpAddr, parts: Parts, body: Incoming) -> Response<Body> {
        if body.size_hint().lower() > BODY_MAX {
            let message = "this is too large: at most 128 MiB can be sent at once";
            return closing(answer::error(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        // Signing in and out are the only routes that set a cookie; nothing that an app or plugin answers may.
        let may_set_cookie = parts.uri.path().starts_with("/v1/auth/") && !matches!(proof, Proof::Frame(_));
        let mut request = Request::new(incoming(body));
        *request.method_mut() = parts.method;
        *request.uri_mut() = origin_form(&parts.uri);
        *request.headers_mut() = without_proofs(parts.headers);
        request.extensions_mut().insert(Peer(peer));
        if let Proof::Session(_, session) = &proof {
            request.extensions_mut().insert(session.clone());
        }
        let response = self.engine.call(caller, request).await;
        let (mut head, body) = response.into_parts();
        answer::seal(&mut head.headers);
        if !may_set_cookie {
            head.headers.remove(header::SET_COOKIE);
        }
        let body = if is_event_stream(&head.headers) {
            proof.bounds(self.engine.clone(), self.closing.clone(), body)
        } else {
            body
        };
        Response::from_parts(head, body)
    }
}

/// Ends the connection after this answer: nobody is going to read what else the request brought.
fn closing(mut response: Response<Body>) -> Response<Body> {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// Past this point the caller is known: what proved it is nobody else's business, a plugin's least of all.
fn without_proofs(mut headers: HeaderMap) -> HeaderMap {
    for name in [header::COOKIE, header::AUTHORIZATION, FRAME_HEADER, REQUEST_HEADER] {
        headers.remove(name);
    }
    headers
}

/// The target without the server's name, which a client may write there and the checks have seen.
fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(path) => Uri::from(path.clone()),
        None => Uri::from_static("/"),
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("text/event-stream"))
}

/// Whether a file's path needs no interpreting: no empty part but the last, no `.` or `..`, and no separator or control
/// character behind an encoding.
fn is_plain(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    parts.iter().enumerate().all(|(at, part)| {
        let Ok(part) = percent_decode_str(part).decode_utf8() else {
            return false;
        };
        let empty = part.is_empty() && at + 1 < parts.len();
        !empty && part != "." && part != ".." && !part.chars().any(|c| matches!(c, '/' | '\\') || c.is_control())
    })
}

/// The body as the engine reads it: at most [`BODY_MAX`] bytes, whatever was declared, and given up when it stalls.
fn incoming(body: Incoming) -> Body {
    if body.is_end_stream() {
        return Body::empty();
    }
    let timed = futures::stream::unfold(Some(body.into_data_stream()), |body| async move {
        let mut body = body?;
        match tokio::time::timeout(BODY_STALL, body.next()).await {
            Ok(None) => None,
            Ok(Some(Ok(bytes))) => Some((Ok(bytes), Some(body))),
            Ok(Some(Err(error))) => Some((Err(axum::BoxError::from(error)), None)),
            Err(_) => Some((Err("the request's body stopped arriving".into()), None)),
        }
    });
    Body::new(Limited::new(Body::from_stream(timed), BODY_MAX as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths() {
        for (path, want) in [
            ("", true),
            ("app.js", true),
            ("a/b/", true),
            ("a%20b/%F0%9F%A6%8B.png", true),
            ("...", true),
            ("..", false),
            (".", false),
            ("a/../b", false),
            ("a/%2e%2E/b", false),
            (".%2e/b", false),
            ("a//b", false),
            ("/a", false),
            ("a%2fb", false),
            ("a%5cb", false),
            ("a\\b", false),
            ("a%00", false),
            ("a%0d%0a", false),
            ("%ff", false),
        ] {
            assert_eq!(is_plain(path), want, "{path}");
        }
    }

    #[test]
    fn proofs_go_no_further() {
        let mut headers = HeaderMap::new();
        for name in [
            "cookie",
            "authorization",
            "x-chrysalis-frame",
            "x-chrysalis-request",
            "accept",
        ] {
            headers.append(header::HeaderName::from_static(name), HeaderValue::from_static("a"));
            headers.append(header::HeaderName::from_static(name), HeaderValue::from_static("b"));
        }
        let left = without_proofs(headers);
        assert_eq!(left.keys().map(|k| k.as_str()).collect::<Vec<_>>(), ["accept"]);
    }
}
