use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use policy::CallContext;
use secrets::{KeyHandle, Secret};
use tokio::time::Instant;

use crate::address::Span;
use crate::body::Limits;
use crate::checked::shown;
use crate::error::{from_send, from_send_through};
use crate::guard::Guard;
use crate::log::{Attempt, Line};
use crate::mask::Mask;
use crate::{Body, CheckedUrl, ConnectionLog, NetError, Proxy, Reach, Resolver, SystemResolver};

/// How a key is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyStyle {
    /// `Authorization: Bearer KEY`
    Bearer,
    /// The bare key in a header of this name, such as `x-api-key`.
    Header(HeaderName),
}

/// A request to be sent.
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub method: Method,
    pub url: CheckedUrl,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Attached only when what it is bound to covers `url`; otherwise nothing is sent at all.
    pub key: Option<KeyHandle>,
    pub key_style: KeyStyle,
    /// For looking the name up and connecting, TLS included.
    pub connect_timeout: Duration,
    /// From then until the answer's headers.
    pub first_byte_timeout: Duration,
    /// Longest silence within the answer's body.
    pub idle_timeout: Duration,
    /// Largest body accepted, in bytes.
    pub max_bytes: u64,
    /// What for, in a word or two, for the activity log.
    pub purpose: &'static str,
}

impl Outgoing {
    /// A request with no body, no key and the usual limits: 10 s to connect, 60 s to the first byte, 60 s of silence,
    /// 8 MiB.
    pub fn new(method: Method, url: CheckedUrl, purpose: &'static str) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            key: None,
            key_style: KeyStyle::Bearer,
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            max_bytes: 8 << 20,
            purpose,
        }
    }
}

/// An answer whose body is still arriving.
pub struct Incoming {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Body,
}

/// One request of a walk, checked and ready.
pub(crate) struct Hop<'a> {
    pub(crate) method: Method,
    pub(crate) url: &'a CheckedUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) connect_timeout: Duration,
    /// When the call began, for messages.
    pub(crate) began: Instant,
    /// When the answer's head must be here.
    pub(crate) until: Instant,
    pub(crate) attempt: Attempt,
    /// What it goes through instead of straight to the server.
    pub(crate) proxy: Option<&'a Proxy>,
}

/// One HTTP client per span, because the guard inside it must know how far its names may lead. Sharing one would let a
/// pooled connection of a wide span serve a narrow one. Within a span, the same host and port always mean the same
/// addresses, whoever asks.
const CLIENTS_KEPT: usize = 32;

#[derive(PartialEq)]
struct ClientKey {
    span: Span,
    connect_timeout: Duration,
    secure: bool,
    proxied: bool,
}

struct Inner {
    log: Arc<dyn ConnectionLog>,
    resolver: Arc<dyn Resolver>,
    proxy: Option<Proxy>,
    clients: Mutex<VecDeque<(ClientKey, reqwest::Client)>>,
}

/// The way out. Cheap to clone.
#[derive(Clone)]
pub struct Net(Arc<Inner>);

/// A header's bytes that are wiped when the last copy is dropped.
struct HeaderBytes(Secret);

impl AsRef<[u8]> for HeaderBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.expose_to_net()
    }
}

impl Net {
    pub fn new(log: Arc<dyn ConnectionLog>) -> Self {
        Self::with_resolver(log, Arc::new(SystemResolver))
    }

    /// With names looked up by `resolver` instead of the operating system.
    pub fn with_resolver(log: Arc<dyn ConnectionLog>, resolver: Arc<dyn Resolver>) -> Self {
        Self(Arc::new(Inner {
            log,
            resolver,
            proxy: None,
            clients: Mutex::new(VecDeque::new()),
        }))
    }

    /// With [`Net::send`] going through `proxy` to addresses that a person typed ([`Reach::Named`]) and that are not near
    /// by as they are written: no private address, no name like `localhost`, `box`, `box.local`, `box.lan`. Such a request
    /// must be https, and the proxy, not this program, looks its name up. [`Net::fetch`] never uses it. Without this, and
    /// whatever the environment says, there is no proxy.
    pub fn through(self, proxy: Option<Proxy>) -> Self {
        Self(Arc::new(Inner {
            log: self.0.log.clone(),
            resolver: self.0.resolver.clone(),
            proxy,
            clients: Mutex::new(VecDeque::new()),
        }))
    }

    /// [`CheckedUrl::check`], with a refusal written to the activity log.
    pub fn check(
        &self,
        ctx: &CallContext,
        method: &Method,
        url: impl AsRef<str>,
        reach: &Reach,
        purpose: &'static str,
    ) -> Result<CheckedUrl, NetError> {
        CheckedUrl::check(url, reach).inspect_err(|error| {
            let attempt = Attempt::new(ctx, method.as_str(), error.url().to_owned(), purpose);
            self.0.log.refused(&attempt, &error.to_string());
        })
    }

    /// Sends one request and waits for the answer's headers. Redirects are not followed. The context's deadline ends
    /// the request and its body. Dropping the future or the body closes the connection.
    pub async fn send(&self, ctx: &CallContext, request: Outgoing) -> Result<Incoming, NetError> {
        let began = Instant::now();
        let deadline = ctx.deadline.map(Instant::from_std);
        let url = request.url.shown();
        let attempt = Attempt::new(ctx, request.method.as_str(), url.clone(), request.purpose);
        let refuse = |error: NetError| {
            self.refused(&attempt, &error);
            error
        };

        let proxy = self.0.proxy.as_ref().filter(|_| request.url.may_use_proxy());
        if let Some(proxy) = proxy
            && request.url.origin().scheme() != "https"
        {
            return Err(refuse(NetError::Refused {
                url,
                why: format!(
                    "config.toml sends model servers on the internet through the proxy {proxy}, which would read the key \
                     and every word of a request by plain http; use an address that begins with https://"
                ),
            }));
        }
        let mut headers = request.headers;
        // A server that repeats what it was sent, in an answer or as the name of a model, must not show it to an app.
        let sent = request
            .key
            .as_ref()
            .and_then(|key| key.reveal_to_net(request.url.url()));
        let mask = Mask::of_key(sent);
        if let Some(handle) = &request.key {
            let (name, value) = key_header(handle, &request.key_style, &request.url).map_err(refuse)?;
            headers.insert(name, value);
        }
        let patience = began + request.connect_timeout + request.first_byte_timeout;
        let hop = Hop {
            method: request.method,
            url: &request.url,
            headers,
            body: request.body,
            connect_timeout: request.connect_timeout,
            began,
            until: deadline.map_or(patience, |at| at.min(patience)),
            attempt,
            proxy,
        };
        let (response, mut line) = self.exchange(hop).await?;
        let status = response.status();
        if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
            let to = redirect_target(&request.url, response.headers());
            let error = NetError::Redirected {
                // Some servers repeat in the new address what they were sent.
                to: request.key.as_ref().map_or(to.clone(), |key| key.redact(&to)),
                url,
                status: status.as_u16(),
            };
            line.failed(&error);
            return Err(error);
        }
        let headers = response.headers().clone();
        let limits = Limits {
            idle: request.idle_timeout,
            max_bytes: request.max_bytes,
            deadline,
            began,
            spend: None,
        };
        Ok(Incoming {
            status,
            headers,
            body: Body::new(response, url, limits, line, mask),
        })
    }

    /// One request and the head of its answer, with the line of the activity log that is open until its body is read.
    pub(crate) async fn exchange(&self, hop: Hop<'_>) -> Result<(reqwest::Response, Line), NetError> {
        let url = hop.url.shown();
        let refuse = |error: NetError| {
            self.refused(&hop.attempt, &error);
            error
        };
        if hop.until <= Instant::now() {
            return Err(refuse(NetError::TimedOut {
                url,
                what: "was not asked, because the time for this call was used up",
                after: hop.began.elapsed(),
            }));
        }
        let client = self.client(hop.url, hop.connect_timeout, hop.proxy).map_err(refuse)?;
        let mut line = self.open_line(&hop.attempt, &url).await?;
        let sending = client
            .request(hop.method, hop.url.url().clone())
            .headers(hop.headers)
            .body(hop.body)
            .send();
        let error = match tokio::time::timeout_at(hop.until, sending).await {
            Ok(Ok(response)) => {
                line.status = Some(response.status().as_u16());
                return Ok((response, line));
            }
            Ok(Err(error)) => match hop.proxy {
                Some(proxy) => from_send_through(proxy, &url, &error, hop.connect_timeout),
                None => from_send(&url, &error, hop.connect_timeout),
            },
            Err(_) => NetError::TimedOut {
                url,
                what: "did not begin to answer",
                after: hop.began.elapsed(),
            },
        };
        line.failed(&error);
        Err(error)
    }

    /// Writes a refusal to the activity log.
    pub(crate) fn refused(&self, attempt: &Attempt, error: &NetError) {
        self.0.log.refused(attempt, &error.to_string());
    }

    async fn open_line(&self, attempt: &Attempt, url: &str) -> Result<Line, NetError> {
        let (log, row) = (self.0.log.clone(), attempt.clone());
        // The line is made on the blocking thread, so that one whose request was given up meanwhile is closed too.
        let opened = tokio::task::spawn_blocking(move || log.connecting(&row).map(|id| Line::new(log.clone(), id)));
        let why = match opened.await {
            Ok(Ok(line)) => return Ok(line),
            Ok(Err(why)) => why,
            Err(_) => "writing it failed".into(),
        };
        Err(NetError::Log {
            url: url.to_owned(),
            why,
        })
    }

    fn client(
        &self,
        url: &CheckedUrl,
        connect_timeout: Duration,
        proxy: Option<&Proxy>,
    ) -> Result<reqwest::Client, NetError> {
        let key = ClientKey {
            span: url.span(),
            connect_timeout,
            secure: url.origin().scheme() == "https",
            proxied: proxy.is_some(),
        };
        let mut clients = self.0.clients.lock();
        if let Some(at) = clients.iter().position(|(known, _)| *known == key)
            && let Some(found) = clients.remove(at)
        {
            let client = found.1.clone();
            clients.push_back(found);
            return Ok(client);
        }
        let guard = Guard {
            resolver: self.0.resolver.clone(),
            // Through a proxy only the proxy's own name is looked up here. A person typed it, and most are near by.
            span: if key.proxied { Span::Local } else { key.span },
        };
        let mut builder = reqwest::Client::builder();
        if !key.secure {
            // Reading the system's certificates takes time, and fails where there are none; plain HTTP needs neither.
            builder = builder.tls_certs_only([]);
        }
        builder = builder.no_proxy();
        if let Some(proxy) = proxy {
            builder = builder.proxy(proxy.for_client().map_err(|_| NetError::Proxy {
                url: url.shown(),
                proxy: proxy.to_string(),
                why: "its address cannot be used".into(),
            })?);
        }
        let client = builder
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .dns_resolver(Arc::new(guard))
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(Duration::from_secs(20))
            .user_agent(concat!("chrysalis/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| NetError::Tls {
                url: url.shown(),
                why: format!("the system's certificates could not be read ({error})"),
            })?;
        if clients.len() == CLIENTS_KEPT {
            clients.pop_front();
        }
        clients.push_back((key, client.clone()));
        Ok(client)
    }
}

fn key_header(handle: &KeyHandle, style: &KeyStyle, url: &CheckedUrl) -> Result<(HeaderName, HeaderValue), NetError> {
    let unusable = || NetError::KeyBound {
        url: url.shown(),
        bound: handle.bound().to_string(),
    };
    let key = handle.reveal_to_net(url.url()).ok_or_else(unusable)?;
    let (name, prefix) = match style {
        KeyStyle::Bearer => (AUTHORIZATION, "Bearer "),
        KeyStyle::Header(name) => (name.clone(), ""),
    };
    let value = secret_value(prefix, &key).ok_or_else(unusable)?;
    Ok((name, value))
}

/// A header's value with a secret in it: wiped when the last copy is dropped, and marked so that nothing prints it.
/// `None` when it could not be a header.
pub(crate) fn secret_value(prefix: &str, key: &Secret) -> Option<HeaderValue> {
    let mut bytes = Vec::with_capacity(prefix.len() + key.expose_to_net().len());
    bytes.extend_from_slice(prefix.as_bytes());
    bytes.extend_from_slice(key.expose_to_net());
    let bytes = Bytes::from_owner(HeaderBytes(Secret::from_bytes(bytes)));
    let mut value = HeaderValue::from_maybe_shared(bytes).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Where a redirect pointed, without its query.
fn redirect_target(from: &CheckedUrl, headers: &HeaderMap) -> String {
    headers
        .get(LOCATION)
        .and_then(|value| std::str::from_utf8(value.as_bytes()).ok())
        .and_then(|text| from.url().join(text).ok())
        .map_or_else(|| "an unreadable address".into(), |url| shown(&url))
}
