//! The engine as the windows see it: one way to call `/v1`, one way to get a file of an app's page.

use std::sync::Arc;

use axum::body::Body;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use policy::{AccountId, AppId, Caller};

/// What the desktop needs from the engine. A trait, so that the bridge's tests put a plain router behind it.
pub trait Door: Send + Sync + 'static {
    /// The account that the launcher's window and every app window act for.
    fn owner(&self) -> AccountId;
    /// `engine.call`: answers any `/v1` request; the body of the answer streams.
    fn call(&self, caller: Caller, request: Request<Body>) -> BoxFuture<'static, Response<Body>>;
    /// A file of an app for its window's page, with every policy header on it. `secret` is written into
    /// `/__chrysalis/bridge.js` and nowhere else.
    fn page(&self, app: AppId, secret: String, request: Request<()>) -> BoxFuture<'static, Response<Body>>;
    /// Writes a refusal to the activity log.
    fn refused(&self, caller: &Caller, target: &str, why: &str);
    /// Ends running work in order.
    fn shutdown(&self) -> BoxFuture<'static, ()>;
}

/// The engine once it is open, or why it could not be opened (a text for the person).
pub type Opened = Result<Arc<dyn Door>, String>;

/// Whether an answer is an event stream.
pub fn is_event_stream(answer: &Response<Body>) -> bool {
    content_type(answer).is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

/// The answer's content type, as sent.
pub fn content_type(answer: &Response<Body>) -> Option<&str> {
    answer.headers().get(http::header::CONTENT_TYPE)?.to_str().ok()
}

/// Reads the rest of an answer that nobody waits for any more, so that the work behind it comes to its own end: a page
/// that reloads loses only its deliveries. Event streams that were merely being watched are let go, since they have no
/// end and watching them is all the work there is.
pub async fn finish(method: Method, answer: Response<Body>) {
    if method == Method::GET && is_event_stream(&answer) {
        return;
    }
    let mut body = answer.into_body();
    while let Some(Ok(_)) = body.frame().await {}
}

/// The engine behind the windows, with what must live as long as it.
pub struct OpenHome<T> {
    engine: engine::Engine,
    _alive: T,
}

impl<T> OpenHome<T> {
    pub fn new(engine: engine::Engine, alive: T) -> Self {
        Self { engine, _alive: alive }
    }
}

impl<T: Send + Sync + 'static> Door for OpenHome<T> {
    fn owner(&self) -> AccountId {
        self.engine.owner()
    }

    fn call(&self, caller: Caller, request: Request<Body>) -> BoxFuture<'static, Response<Body>> {
        let engine = self.engine.clone();
        Box::pin(async move { engine.call(caller, request).await })
    }

    fn page(&self, app: AppId, secret: String, request: Request<()>) -> BoxFuture<'static, Response<Body>> {
        let engine = self.engine.clone();
        Box::pin(async move {
            let door = engine::PageDoor::Window { secret };
            engine.page(&engine.owner(), &app, &door, request).await
        })
    }

    fn refused(&self, caller: &Caller, target: &str, why: &str) {
        self.engine.refused(caller, target, why);
    }

    fn shutdown(&self) -> BoxFuture<'static, ()> {
        let engine = self.engine.clone();
        Box::pin(async move { engine.shutdown().await })
    }
}
