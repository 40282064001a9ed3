//! The host's side of the bridge that an app's page speaks through: requests in, streamed answers out.
//!
//! Whose page it is comes from the webview that the message arrived through; one [`Bridge`] belongs to one window.
//! On the thread that draws all windows nothing happens but a count and a bounded queue; everything else runs on the
//! runtime.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use policy::{AppId, Caller};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::door::Door;
use super::flood::{BAD_MESSAGE_COST, Bucket, FILE_COST, Verdict};
use super::message::MAX_MESSAGE;
use super::session::Reader;
use super::storage::Storage;

/// Scheme of app pages: `chrysalis-app://<app id>/`.
pub const SCHEME: &str = "chrysalis-app";
/// The script that carries a page load's secret.
const BRIDGE_SCRIPT: &str = "/__chrysalis/bridge.js";
/// What the script between page and host (where a system has one) says when it has to drop messages, and when it has
/// stopped for good. A page may say it too, and harms nobody but itself.
const LOST: &str = "lost";
const FLOOD: &str = "flood";
/// A message of this many bytes ends its page at once: the bridge's own script never sends a quarter of it, and
/// taking it in costs every window time.
const ENORMOUS: usize = 4 * MAX_MESSAGE;
/// Messages and bytes waiting to be read, per window.
const INBOX_MESSAGES: usize = 8_192;
const INBOX_BYTES: usize = 20 * 1024 * 1024;
/// Files a page may be waiting for, and those among them that are read at once.
const FILES_WAITING: usize = 1_024;
const FILES_AT_ONCE: usize = 16;
/// Largest file handed to a page in one piece; media larger than this is read in ranges.
const MAX_FILE: usize = 256 * 1024 * 1024;

/// A question for the person, shown where the page cannot reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    pub yes: &'static str,
    pub no: &'static str,
}

/// What the bridge needs from the window of its page. Every method returns at once and may be called from any thread.
pub trait Page: Send + Sync + 'static {
    /// Runs a script in the page; `done` once the page's process has run it, or never will.
    fn evaluate(&self, script: String, done: Box<dyn FnOnce() + Send>);
    /// Asks the person. A sender dropped without an answer means no; once the receiver is dropped, nobody waits for the
    /// answer any more and the question is taken away.
    fn ask(&self, question: Question) -> oneshot::Receiver<bool>;
    /// Opens an address in the person's browser.
    fn open_link(&self, url: String);
    /// Ends the page's process and offers to load the page again.
    fn stop(&self, why: &'static str);
}

/// What the reading task gets, in the order in which the page caused it.
pub enum Inbound {
    Message(String),
    /// The page loads anew: answered with the secret of the new load, after every earlier message was taken.
    Load(oneshot::Sender<String>),
}

/// Gives an answer for a file back to the webview; may be called from any thread.
pub type Respond = Box<dyn FnOnce(Response<Vec<u8>>) + Send>;

/// One window's bridge.
pub struct Bridge {
    shared: Arc<Shared>,
    inbox: mpsc::Sender<Inbound>,
    runtime: tokio::runtime::Handle,
}

/// What the bridge's tasks have in common.
pub struct Shared {
    pub door: Arc<dyn Door>,
    pub app: AppId,
    pub caller: Caller,
    pub page: Arc<dyn Page>,
    pub storage: Storage,
    inbox_bytes: AtomicUsize,
    files: AtomicUsize,
    reading: Semaphore,
    lost: AtomicBool,
    bucket: Mutex<Bucket>,
}

impl Bridge {
    pub fn start(runtime: tokio::runtime::Handle, door: Arc<dyn Door>, app: AppId, page: Arc<dyn Page>) -> Arc<Bridge> {
        let _guard = runtime.enter();
        let caller = Caller::App {
            account: door.owner(),
            app: app.clone(),
        };
        let (inbox, messages) = mpsc::channel(INBOX_MESSAGES);
        let shared = Arc::new(Shared {
            storage: Storage::start(door.clone(), caller.clone(), app.clone()),
            door,
            app,
            caller,
            page,
            inbox_bytes: AtomicUsize::new(0),
            files: AtomicUsize::new(0),
            reading: Semaphore::new(FILES_AT_ONCE),
            lost: AtomicBool::new(false),
            bucket: Mutex::new(Bucket::new(Instant::now())),
        });
        runtime.spawn(Reader::new(shared.clone()).run(messages));
        Arc::new(Bridge { shared, inbox, runtime })
    }

    /// A message from the page, as the webview's own IPC delivered it.
    pub fn message(&self, text: String) {
        match text.as_str() {
            FLOOD => return self.shared.stop("it sent far too many messages"),
            LOST => return self.shared.lost.store(true, Ordering::Relaxed),
            _ => {}
        }
        let length = text.len();
        if length > ENORMOUS {
            return self.shared.stop("it sent a message of an enormous size");
        }
        let cost = if length > MAX_MESSAGE { BAD_MESSAGE_COST } else { 1.0 };
        if !self.shared.allow(cost, length) || length > MAX_MESSAGE {
            self.shared.lost.store(true, Ordering::Relaxed);
            return;
        }
        let waiting = self.shared.inbox_bytes.fetch_add(length, Ordering::Relaxed);
        if waiting + length > INBOX_BYTES || self.inbox.try_send(Inbound::Message(text)).is_err() {
            self.shared.inbox_bytes.fetch_sub(length, Ordering::Relaxed);
            self.shared.lost.store(true, Ordering::Relaxed);
            self.shared.allow(BAD_MESSAGE_COST, 0);
        }
    }

    /// A file that the page's webview asks for through the scheme. Only the page's own app is served.
    pub fn file(&self, request: Request<()>, respond: Respond) {
        if !self.shared.allow(FILE_COST, 0) {
            return respond(refusal(StatusCode::TOO_MANY_REQUESTS, "too many requests"));
        }
        let uri = request.uri();
        let own = uri.scheme_str() == Some(SCHEME)
            && uri.authority().map(http::uri::Authority::as_str) == Some(self.shared.app.as_str());
        if !own {
            let target: String = uri.to_string().chars().take(200).collect();
            let shared = self.shared.clone();
            self.runtime.spawn_blocking(move || {
                shared
                    .door
                    .refused(&shared.caller, &target, "a page may only load its own app's files");
            });
            return respond(refusal(StatusCode::FORBIDDEN, "not this app's address"));
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return respond(refusal(StatusCode::METHOD_NOT_ALLOWED, "files can only be read"));
        }
        if self.shared.files.fetch_add(1, Ordering::Relaxed) >= FILES_WAITING {
            self.shared.files.fetch_sub(1, Ordering::Relaxed);
            return respond(refusal(StatusCode::TOO_MANY_REQUESTS, "too many requests at once"));
        }
        let mut secret = None;
        if uri.path() == BRIDGE_SCRIPT {
            let (answer, new) = oneshot::channel();
            // Sent at once where there is room, so that it keeps its place among the page's messages.
            if let Err(TrySendError::Full(load)) = self.inbox.try_send(Inbound::Load(answer)) {
                let inbox = self.inbox.clone();
                self.runtime.spawn(async move { inbox.send(load).await });
            }
            secret = Some(new);
        }
        let shared = self.shared.clone();
        self.runtime.spawn(async move {
            let response = shared.serve(request, secret).await;
            shared.files.fetch_sub(1, Ordering::Relaxed);
            respond(response);
        });
    }

    /// The person chose to load a stopped page again: it starts with a clean count.
    pub fn forgive(&self) {
        if let Ok(mut bucket) = self.shared.bucket.lock() {
            *bucket = Bucket::new(Instant::now());
        }
    }

    /// Waits until everything the page stored has reached the engine.
    pub async fn flush(&self) {
        self.shared.storage.flush().await;
    }
}

impl Shared {
    /// Counts something the page did. `false`: the page is paused and it is to be ignored.
    pub fn allow(&self, cost: f64, bytes: usize) -> bool {
        let Ok(mut bucket) = self.bucket.lock() else {
            return false;
        };
        match bucket.take(Instant::now(), cost, bytes) {
            Verdict::Pass => true,
            Verdict::Drop => false,
            Verdict::Stop => {
                let dropped = bucket.dropped();
                drop(bucket);
                tracing::warn!(app = %self.app, dropped, "page stopped: it kept sending after it was paused");
                self.page.stop("it sent far too many messages");
                false
            }
        }
    }

    fn stop(&self, why: &'static str) {
        let first = self.bucket.lock().is_ok_and(|mut bucket| bucket.stop());
        if first {
            tracing::warn!(app = %self.app, why, "page stopped");
            self.page.stop(why);
        }
    }

    /// Whether messages were dropped since the last time this was asked.
    pub fn lost_some(&self) -> bool {
        self.lost.swap(false, Ordering::Relaxed)
    }

    /// A message was read.
    pub fn taken(&self, length: usize) {
        self.inbox_bytes.fetch_sub(length, Ordering::Relaxed);
    }

    /// A message broke the rules. Messages of an earlier page load are not of this kind: they may simply be late.
    pub fn bad(&self, why: &str) {
        tracing::debug!(app = %self.app, why, "page message dropped");
        self.allow(BAD_MESSAGE_COST, 0);
    }

    async fn serve(&self, request: Request<()>, secret: Option<oneshot::Receiver<String>>) -> Response<Vec<u8>> {
        let secret = match secret {
            None => String::new(),
            Some(new) => match new.await {
                Ok(secret) => secret,
                Err(_) => return refusal(StatusCode::SERVICE_UNAVAILABLE, "the window is closing"),
            },
        };
        // The engine serves by path; which app it is was settled above and is said by us, not by the address.
        let (mut parts, ()) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        match http::Uri::try_from(path) {
            Ok(uri) => parts.uri = uri,
            Err(_) => return refusal(StatusCode::BAD_REQUEST, "not a valid path"),
        }
        let request = Request::from_parts(parts, ());
        let _turn = self.reading.acquire().await;
        let answer = self.door.page(self.app.clone(), secret, request).await;
        let (parts, body) = answer.into_parts();
        match Limited::new(body, MAX_FILE).collect().await {
            Ok(body) => Response::from_parts(parts, body.to_bytes().into()),
            Err(error) => {
                tracing::warn!(app = %self.app, %error, "file not delivered");
                refusal(StatusCode::INTERNAL_SERVER_ERROR, "the file could not be read in full")
            }
        }
    }

    /// Calls the engine as this page's app.
    pub async fn call(&self, request: Request<Body>) -> Response<Body> {
        self.door.call(self.caller.clone(), request).await
    }
}

/// An answer of our own. It carries no policy header since it carries no script, and a type that is never run.
fn refusal(status: StatusCode, text: &str) -> Response<Vec<u8>> {
    let mut response = Response::new(text.as_bytes().to_vec());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    headers.insert(
        http::header::CONTENT_SECURITY_POLICY,
        http::HeaderValue::from_static("default-src 'none'; sandbox"),
    );
    headers.insert(
        http::header::X_CONTENT_TYPE_OPTIONS,
        http::HeaderValue::from_static("nosniff"),
    );
    response
}

/// How long stored values may take to reach the engine before a new page load is served without waiting further.
pub const FLUSH_LIMIT: Duration = Duration::from_secs(5);
