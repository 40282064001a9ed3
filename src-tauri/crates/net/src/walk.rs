use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::header::{HeaderMap, LOCATION, SET_COOKIE};
use policy::CallContext;
use tokio::time::Instant;

use crate::address::Span;
use crate::body::Limits;
use crate::log::{Attempt, Line};
use crate::mask::Mask;
use crate::request::{Request, is_followed, onward};
use crate::send::Hop;
use crate::{Body, CheckedUrl, HeaderOut, Net, NetError, Reach, Spend};

/// For looking a name up and connecting, TLS included; the whole has its own limit.
const CONNECT: Duration = Duration::from_secs(10);
/// Longest address, in bytes. Browsers and servers agree on no limit; common ones end at 8 to 64 KiB.
const MAX_URL: usize = 32 << 10;
/// What the activity log calls a request that a redirect led to.
const REDIRECT: &str = "redirect";

/// A request made for a guest, whose redirects are followed one by one.
#[derive(Clone)]
pub struct Fetch {
    pub url: String,
    /// `^[A-Z][A-Z0-9-]{0,15}$`; not CONNECT or TRACE.
    pub method: String,
    /// Not those that only the connection knows (Host, Content-Length, Connection, Proxy-… and the like): those are
    /// errors. Accept-Encoding is left out, because answers are handed on as they come.
    pub headers: Vec<(String, HeaderOut)>,
    /// At most 32 MiB.
    pub body: Bytes,
    /// Asked again for every redirect.
    pub reach: Reach,
    /// Most redirects followed.
    pub max_hops: usize,
    /// For the whole, body included. The context's deadline may be sooner.
    pub timeout: Duration,
    /// Largest body of the answer, in bytes.
    pub max_bytes: u64,
    /// What for, in a word or two, for the activity log. Requests that a redirect led to are called `redirect`.
    pub purpose: &'static str,
    /// Refuses plain http, at the start and in redirects.
    pub https_only: bool,
    /// Asked before each request (for its head and body) and for what arrives, as it arrives.
    pub spend: Spend,
}

impl Fetch {
    /// A GET with the limits of the plugin contract: 5 redirects, 15 s, 5 MiB.
    pub fn get(url: impl Into<String>, reach: Reach, purpose: &'static str, spend: Spend) -> Self {
        Self {
            url: url.into(),
            method: "GET".into(),
            headers: Vec::new(),
            body: Bytes::new(),
            reach,
            max_hops: 5,
            timeout: Duration::from_secs(15),
            max_bytes: 5 << 20,
            purpose,
            https_only: false,
            spend,
        }
    }
}

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchResult {
    pub status: u16,
    /// The standard's words for the status; empty where it has none.
    pub status_text: String,
    /// Names in lower case, in the order they came. A repeated one is joined with `, `; each `set-cookie` stays by itself.
    pub headers: Vec<(String, String)>,
    /// The address that answered, after redirects, with its query.
    pub url: String,
    pub body: Bytes,
}

/// An answer whose body is still arriving. The limits of its [`Fetch`] hold for the body too.
pub struct Fetched {
    pub status: u16,
    pub status_text: String,
    pub headers: Vec<(String, String)>,
    pub url: String,
    pub body: Body,
}

impl Net {
    /// Sends the request, follows redirects, and reads the whole answer. See [`Net::fetch_stream`].
    pub async fn fetch(&self, ctx: &CallContext, fetch: Fetch) -> Result<FetchResult, NetError> {
        let mut fetched = self.fetch_stream(ctx, fetch).await?;
        let mut body = Vec::new();
        while let Some(piece) = fetched.body.next().await {
            body.extend_from_slice(&piece?);
        }
        Ok(FetchResult {
            status: fetched.status,
            status_text: fetched.status_text,
            headers: fetched.headers,
            url: fetched.url,
            body: body.into(),
        })
    }

    /// Sends the request and follows redirects (301, 302, 303, 307, 308 with a Location) until there is an answer.
    ///
    /// Every hop is checked as if it were the first, looked up anew, and has a line of its own in the activity log. A
    /// redirect from https to http is refused. On the way to another origin (scheme, host, port), secrets and headers
    /// whose names contain `auth`, `cookie`, `token`, `secret`, `key`, `password`, `session`, `credential` or
    /// `signature` are left behind for good. A secret that is bound to another origin than the first hop's is an error.
    ///
    /// A secret that was sent and comes back, in the body, a header or the address, is replaced by `[secret]`, as far as
    /// it has at least 8 characters and was not encoded; a header whose name has one in it, in small or large letters, is
    /// left out; a redirect that carries one on is refused.
    pub async fn fetch_stream(&self, ctx: &CallContext, fetch: Fetch) -> Result<Fetched, NetError> {
        let began = Instant::now();
        let until = began + fetch.timeout;
        let deadline = ctx.deadline.map_or(until, |at| until.min(Instant::from_std(at)));
        let attempt = |error: &NetError, method: &str, purpose: &'static str| {
            let method: String = method.chars().take(16).collect();
            Attempt::new(ctx, &method, error.url().to_owned(), purpose)
        };
        let refuse = |error: NetError, method: &str, purpose: &'static str| {
            self.refused(&attempt(&error, method, purpose), &error);
            error
        };

        let mut url = check(&fetch.url, &fetch).map_err(|error| refuse(error, &fetch.method, fetch.purpose))?;
        let not_sent = |url: &CheckedUrl, why: String| NetError::Request { url: url.shown(), why };
        let mut request = Request::check(&fetch.method, fetch.headers.clone(), fetch.body.clone())
            .map_err(|why| refuse(not_sent(&url, why), &fetch.method, fetch.purpose))?;
        let mut mask = Mask::default();
        let mut purpose = fetch.purpose;

        let mut hops = 0;
        loop {
            let method = request.method.clone();
            let refuse = |error: NetError| refuse(error, method.as_str(), purpose);
            let headers = request
                .headers_for(url.url(), &mut mask)
                .map_err(|why| refuse(not_sent(&url, why)))?;
            let bytes = size(&headers) + url.url().as_str().len() + request.body.len();
            spend(&fetch, &url, bytes).map_err(refuse)?;
            let exchange = Hop {
                method: method.clone(),
                url: &url,
                headers,
                body: request.body.clone(),
                connect_timeout: CONNECT,
                began,
                until: deadline,
                attempt: Attempt::new(ctx, method.as_str(), url.shown(), purpose),
                // What a guest may reach is judged by the address that is connected to; a proxy would hide it.
                proxy: None,
            };
            let (response, mut line) = self
                .exchange(exchange)
                .await
                .map_err(|error| explained(error, &url, &fetch))?;
            if let Err(error) = spend(&fetch, &url, size(response.headers())) {
                line.failed(&error);
                return Err(error);
            }
            let (status, location) = (response.status(), response.headers().get(LOCATION));
            let Some(location) = location.filter(|_| is_followed(status)) else {
                let limits = Limits {
                    idle: fetch.timeout,
                    max_bytes: fetch.max_bytes,
                    deadline: Some(deadline),
                    began,
                    spend: Some(fetch.spend.clone()),
                };
                return answer(response, &url, limits, line, mask);
            };
            let next = onward(url.url(), location);
            line.done();
            let refused = |why: String| NetError::Refused { url: url.shown(), why };
            let to = next.map_err(|why| refuse(refused(why)))?;
            let in_host = to.host_str().is_some_and(|host| mask.is_in_name(host));
            if in_host || mask.text(to.as_str()) != to.as_str() {
                return Err(refuse(refused(
                    "it was redirected to an address with the secret in it".into(),
                )));
            }
            if hops == fetch.max_hops {
                let why = format!("it was redirected more than {} times", fetch.max_hops);
                return Err(refuse(refused(why)));
            }
            let from = url.clone();
            hops += 1;
            purpose = REDIRECT;
            url = check(to.as_str(), &fetch).map_err(|error| {
                let error = refused_on_the_way(error, &from.shown());
                self.refused(&attempt(&error, method.as_str(), purpose), &error);
                error
            })?;
            request.redirected(status, url.origin() != from.origin());
        }
    }
}

fn check(url: &str, fetch: &Fetch) -> Result<CheckedUrl, NetError> {
    if url.len() > MAX_URL {
        return Err(NetError::Address {
            url: url.chars().take(80).chain(['…']).collect::<String>(),
            why: format!("it is longer than {MAX_URL} bytes"),
        });
    }
    let checked = CheckedUrl::check(url, &fetch.reach)?;
    match fetch.https_only && checked.origin().scheme() != "https" {
        true => Err(NetError::Refused {
            url: checked.shown(),
            why: "only https is allowed here".into(),
        }),
        false => Ok(checked),
    }
}

/// Says in a refusal that it was a redirect that led there.
fn refused_on_the_way(error: NetError, from: &str) -> NetError {
    match error {
        NetError::Refused { url, why } => NetError::Refused {
            url,
            why: format!("{why} ({from} redirected there)"),
        },
        NetError::Address { url, why } => NetError::Address {
            url,
            why: format!("{why} ({from} redirected there)"),
        },
        other => other,
    }
}

/// Says what to do about a granted name that turned out to be a private address.
fn explained(error: NetError, url: &CheckedUrl, fetch: &Fetch) -> NetError {
    match (error, &fetch.reach) {
        (NetError::Refused { url: shown, why }, Reach::Granted(_)) if url.span() == Span::Public => NetError::Refused {
            url: shown,
            why: format!(
                "{why}; if {} is meant to be in your own network, the plugin must ask for it there (localHosts)",
                url.origin().host()
            ),
        },
        (error, _) => error,
    }
}

fn spend(fetch: &Fetch, url: &CheckedUrl, bytes: usize) -> Result<(), NetError> {
    (fetch.spend)(bytes as u64).map_err(|why| NetError::Spent { url: url.shown(), why })
}

/// About what headers take on the wire: name, value, and `: ` with the line's end.
fn size(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum()
}

fn answer(
    response: reqwest::Response,
    url: &CheckedUrl,
    limits: Limits,
    mut line: Line,
    mask: Mask,
) -> Result<Fetched, NetError> {
    if response
        .content_length()
        .is_some_and(|length| length > limits.max_bytes)
    {
        let error = NetError::TooBig {
            url: url.shown(),
            max: limits.max_bytes,
        };
        line.failed(&error);
        return Err(error);
    }
    let status = response.status();
    // The server's own words, where HTTP/1 carried others than the usual ones.
    let status_text = match response.extensions().get::<hyper::ext::ReasonPhrase>() {
        Some(words) => mask.text(&String::from_utf8_lossy(words.as_bytes())),
        None => status.canonical_reason().unwrap_or_default().to_owned(),
    };
    Ok(Fetched {
        status: status.as_u16(),
        status_text,
        headers: listed(response.headers(), &mask),
        url: mask.text(url.url().as_str()),
        body: Body::new(response, url.shown(), limits, line, mask),
    })
}

fn listed(headers: &HeaderMap, mask: &Mask) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| mask.text(&String::from_utf8_lossy(value.as_bytes()));
    let mut list = Vec::with_capacity(headers.keys_len());
    // Names arrive in lower case. One with a secret in it is left out: nothing else could stand there and be a name.
    for name in headers.keys().filter(|name| !mask.is_in_name(name.as_str())) {
        let values = headers.get_all(name).iter().map(text);
        if name == SET_COOKIE {
            list.extend(values.map(|value| (name.to_string(), value)));
        } else {
            let values: Vec<String> = values.collect();
            list.push((name.to_string(), values.join(", ")));
        }
    }
    list
}
