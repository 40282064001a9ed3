//! Puts the rooms together: opens a home and answers `/v1`. Every request, from whatever door, is one
//! [`Engine::call`]; the doors differ only in how they establish the [`Caller`].

mod activity;
mod bodies;
mod bus;
mod config;
mod difference;
mod door;
mod embeddings;
mod error;
mod frames;
mod generate;
mod held;
mod home;
mod media;
mod model_access;
mod models;
mod page_sessions;
mod plugin_side;
mod plugins;
mod routes;
mod spend;
mod streams;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use accounts::{SetupToken, Throttle, Token};
use apps::plugin_call::Plugins;
use apps::workspace::Workspace;
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use db::{ConnectionRow, Db};
use http::{Request, Response};
use parking_lot::{Mutex, RwLock};
use policy::{Access, AccountId, AppId, CallContext, Caller};
use secrets::{Bound, KeyHandle, Standing, Vault};
use serde_json::json;
use tokio::sync::OwnedMutexGuard;
use tower::ServiceExt;
use url::Url;

pub use config::{Config, ConfigError};
pub use home::{HomeLock, OpenError};
pub use secrets::Keychain;

use crate::activity::Activity;
use crate::bus::{Bus, Event};
use crate::error::{Answer, ApiError};
use crate::frames::Frames;
use crate::models::ModelLists;
use crate::page_sessions::PageSessions;
use crate::spend::Spend;
use crate::streams::Streams;

/// This program's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Name of the cookie that carries a session.
pub const SESSION_COOKIE: &str = "chrysalis_session";
/// The page bridge, as built from `ui/bridge`.
const BRIDGE: &str = include_str!(concat!(env!("OUT_DIR"), "/bridge.js"));

/// How to open a home.
#[derive(Debug, Clone)]
pub struct Options {
    pub home: PathBuf,
    /// The `chrysalis-worker` program.
    pub worker: PathBuf,
    pub keychain: Keychain,
}

/// The HTTP peer's address; a request extension set by the HTTP door and used for throttling.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub IpAddr);

/// A signed-in browser; a request extension set by the HTTP door beside the caller it made from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// Hash of the cookie's token, in hex.
    pub id: String,
    pub account: AccountId,
}

/// What a frame token stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub account: AccountId,
    pub app: AppId,
}

/// Where an app's page is shown.
#[derive(Debug, Clone)]
pub enum PageDoor {
    /// A window of its own; `secret` binds the bridge's messages to this load.
    Window { secret: String },
    /// A frame in a browser; `origin` is the door's own, like `http://127.0.0.1:8788`.
    Frame { token: String, origin: String },
}

/// An open home. Cheap to clone; the last clone dropped ends it.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    options: Options,
    config: Config,
    instance: String,
    owner: AccountId,
    db: Arc<Db>,
    /// Open folders, so that a call does not open and tidy its account's again.
    workspaces: Mutex<HashMap<AccountId, Workspace>>,
    vault: Vault,
    /// Held while a key and what it belongs to change together: see [`Engine::changing_keys`].
    changing_keys: Arc<tokio::sync::Mutex<()>>,
    net: net::Net,
    activity: Arc<Activity>,
    bus: Arc<Bus>,
    plugins: Plugins,
    streams: Streams,
    lists: ModelLists,
    bodies: bodies::Bodies,
    /// What model servers turned out not to take, so that it is found out once.
    quirks: providers::Quirks,
    spend: Arc<Spend>,
    media: media::Media,
    frames: Frames,
    page_sessions: PageSessions,
    throttle: Throttle,
    setup: RwLock<Option<Arc<SetupToken>>>,
    notices: Mutex<Vec<String>>,
    /// Goes up when a list that is kept for a while must be made anew.
    changes: AtomicU64,
    /// Holds clones of this engine, so it is taken out at [`Engine::shutdown`].
    router: RwLock<Option<Router>>,
    _lock: HomeLock,
}

/// Runs work that may block for a while where it is asked from asynchronous code and cannot be awaited: other requests go on
/// meanwhile. Looking for a key is such work: it waits for the keychain, and for whoever tries a passphrase.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    let flavor = tokio::runtime::Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

static TABLE: LazyLock<Mutex<&'static [Access]>> = LazyLock::new(|| Mutex::new(&[]));

/// The access table: every route with who may use it. Empty until the first engine of this process was opened.
pub fn access_table() -> &'static [Access] {
    *TABLE.lock()
}

/// Runs blocking work (disk, database, hashing) off the asynchronous threads.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl Engine {
    /// Opens a home, making it when it is new. One process may have it open at a time.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let engine = blocking(move || home::open(options)).await?;
        // Begun at once, but no request waits for what an earlier run left undone.
        let of = engine.clone();
        tokio::spawn(async move { of.finish_updates().await });
        tokio::spawn(plugins::ticks::run(Arc::downgrade(&engine.0)));
        Ok(engine)
    }

    pub fn home(&self) -> &Path {
        &self.0.options.home
    }
    pub fn config(&self) -> &Config {
        &self.0.config
    }
    /// Random id of this run.
    pub fn instance(&self) -> &str {
        &self.0.instance
    }
    /// The account made on first start.
    pub fn owner(&self) -> AccountId {
        self.0.owner.clone()
    }
    /// Things the person must be told, such as a damaged database that was set aside.
    pub fn notices(&self) -> Vec<String> {
        self.0.notices.lock().clone()
    }

    pub(crate) fn db(&self) -> &Arc<Db> {
        &self.0.db
    }
    pub(crate) fn vault(&self) -> &Vault {
        &self.0.vault
    }
    pub(crate) fn net(&self) -> &net::Net {
        &self.0.net
    }
    pub(crate) fn activity(&self) -> &Activity {
        &self.0.activity
    }
    pub(crate) fn bus(&self) -> &Bus {
        &self.0.bus
    }
    pub(crate) fn plugins(&self) -> &Plugins {
        &self.0.plugins
    }
    pub(crate) fn streams(&self) -> &Streams {
        &self.0.streams
    }
    pub(crate) fn model_lists(&self) -> &ModelLists {
        &self.0.lists
    }
    pub(crate) fn bodies(&self) -> &bodies::Bodies {
        &self.0.bodies
    }
    pub(crate) fn quirks(&self) -> &providers::Quirks {
        &self.0.quirks
    }
    pub(crate) fn spend(&self) -> &Arc<Spend> {
        &self.0.spend
    }
    pub(crate) fn media(&self) -> &media::Media {
        &self.0.media
    }
    pub(crate) fn frames(&self) -> &Frames {
        &self.0.frames
    }
    pub(crate) fn page_sessions(&self) -> &PageSessions {
        &self.0.page_sessions
    }
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.0.throttle
    }
    pub(crate) fn setup(&self) -> Option<Arc<SetupToken>> {
        self.0.setup.read().clone()
    }

    /// The one-time token for giving the owner a name and password; `None` once there is a password.
    pub fn setup_token(&self) -> Option<String> {
        self.setup().and_then(|token| token.reveal().map(str::to_owned))
    }
    pub(crate) fn close_setup(&self) {
        *self.0.setup.write() = None;
    }

    pub(crate) fn workspace(&self, account: &AccountId) -> Answer<Workspace> {
        if let Some(known) = self.0.workspaces.lock().get(account) {
            return Ok(known.clone());
        }
        let folder = self.home().join("accounts").join(account.as_str()).join("workspace");
        let workspace = Workspace::open(&folder).map_err(|e| ApiError::bad(e.to_string()))?;
        self.0.workspaces.lock().insert(account.clone(), workspace.clone());
        Ok(workspace)
    }

    /// Whoever saves or deletes a key together with what it belongs to (a connection, a speech server, a plugin) holds
    /// this from before looking that up until both are done. Otherwise a key that is saved while its connection is being
    /// deleted stays behind, where nobody sees it any more, or the connection comes back. Not for use inside of another.
    pub(crate) async fn changing_keys(&self) -> OwnedMutexGuard<()> {
        self.0.changing_keys.clone().lock_owned().await
    }

    /// [`Engine::changing_keys`] where blocking is allowed.
    pub(crate) fn changing_keys_here(&self) -> OwnedMutexGuard<()> {
        self.0.changing_keys.clone().blocking_lock_owned()
    }

    /// How the vault names a connection's key.
    pub(crate) fn key_id(account: &AccountId, connection: &str) -> String {
        format!("{account}/{connection}")
    }

    /// The key of a connection, if there is one for the address the connection has now.
    pub(crate) fn key_of(&self, account: &AccountId, row: &ConnectionRow) -> Option<KeyHandle> {
        let bound = Bound::of(&Url::parse(&row.base_url).ok()?).ok()?;
        in_place(|| self.vault().handle(&Self::key_id(account, &row.id), &bound))
    }

    /// Whether the key of a connection can be used, and what is in the way.
    pub(crate) fn key_standing(&self, account: &AccountId, row: &ConnectionRow) -> Standing {
        let bound = Url::parse(&row.base_url).ok().and_then(|url| Bound::of(&url).ok());
        bound.map_or(Standing::None, |bound| {
            in_place(|| self.vault().standing(&Self::key_id(account, &row.id), &bound))
        })
    }

    /// Counts the changes of what plugins there are and what they may do.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Relaxed)
    }
    pub(crate) fn note_change(&self) {
        self.0.changes.fetch_add(1, Ordering::Relaxed);
    }
    /// Whether [`Engine::shutdown`] was called.
    pub(crate) fn ending(&self) -> bool {
        self.0.router.read().is_none()
    }

    pub(crate) fn models_changed(&self, account: &AccountId) {
        self.0.lists.forget(account);
    }

    pub(crate) fn apps_changed(&self, account: &AccountId, app: &AppId, deleted: bool) {
        self.note_change();
        let payload = json!({"app": app, "deleted": deleted, "updated": !deleted});
        let (account, app) = (account.clone(), app.clone());
        self.bus().send(Event {
            account: account.clone(),
            app: None,
            kind: "apps_changed",
            payload: json!({}),
        });
        self.bus().send(Event {
            account,
            app: Some(app),
            kind: "app_changed",
            payload,
        });
    }

    /// Ends what an app has running; gives how many model answers and how many calls of plugins that were.
    pub(crate) fn stop_running(&self, account: &AccountId, app: &AppId) -> (usize, usize) {
        let answers = self.streams().take_app(account, app);
        // The calls first: one whose answer ends before it does would go on with what had arrived.
        let prefix = format!("{account}/{app}/");
        let calls = self.plugins().pool().stop(|key| key.starts_with(&prefix));
        answers.iter().for_each(|answer| answer.stop());
        (answers.len(), calls)
    }

    /// Ends what a removed app has running.
    pub(crate) fn forget_running(&self, account: &AccountId, app: &AppId) {
        self.stop_running(account, app);
        self.frames().end_app(account, app);
        self.page_sessions().clear(account, app);
    }

    /// A session that is still good, by its cookie's value.
    pub fn session(&self, cookie: &str) -> Option<Session> {
        let id = Token::parse(cookie)?.digest().to_hex();
        let row = self.db().session(id.as_bytes()).ok()??;
        Some(Session {
            id,
            account: row.account,
        })
    }

    pub(crate) async fn end_session(&self, session: &Session) -> Answer<()> {
        self.frames().end_session(&session.id);
        let (db, id) = (self.db().clone(), session.id.clone());
        blocking(move || db.end_session(id.as_bytes())).await?;
        Ok(())
    }

    /// Sets a password and ends every other session, with all that hangs on them.
    pub(crate) async fn replace_password(&self, account: &AccountId, hash: String, keep: Option<String>) -> Answer<()> {
        self.frames().end_account(account, keep.as_deref());
        let (db, account) = (self.db().clone(), account.clone());
        blocking(move || db.set_password(&account, &hash, keep.as_deref().map(str::as_bytes))).await?;
        Ok(())
    }

    /// What a frame token stands for, while its session lives.
    pub fn frame(&self, token: &str) -> Option<Frame> {
        let (frame, session) = self.frames().find(token)?;
        let alive = self.db().session(session.as_bytes()).ok().flatten();
        if alive.is_none() {
            self.frames().end_session(&session);
            return None;
        }
        Some(frame)
    }

    /// Writes a refusal to the activity log.
    pub fn refused(&self, caller: &Caller, target: &str, why: &str) {
        self.activity().refused(&CallContext::root(caller), target, why);
    }

    /// The one door. The request's and the answer's bodies stream.
    pub async fn call(&self, caller: Caller, mut request: Request<Body>) -> Response<Body> {
        if let Err(error) = door::canonical(request.uri().path()) {
            let target = format!("{} {}", request.method(), request.uri().path());
            self.refused(&caller, &target, &error.message);
            return error.into_response();
        }
        let context = CallContext::root(&caller);
        let span = tracing::debug_span!("call", trace = context.trace.as_str(), caller = caller.label());
        tracing::debug!(parent: &span, method = %request.method(), "request");
        request.extensions_mut().insert(context);
        request.extensions_mut().insert(caller);
        let Some(router) = self.0.router.read().clone() else {
            return ApiError::new(http::StatusCode::SERVICE_UNAVAILABLE, "Chrysalis is ending.").into_response();
        };
        match router.oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// A file of an app for its page, with every policy header on it. The URI's path is relative to the app: `/`,
    /// `/app.js`, `/__chrysalis/bridge.js`, or `/v1/…` for what the app may `GET` from the engine.
    pub async fn page(
        &self,
        account: &AccountId,
        app: &AppId,
        door: &PageDoor,
        request: Request<()>,
    ) -> Response<Body> {
        plugin_side::page(self, account, app, door, request).await
    }

    /// Ends workers and folds the database's log in.
    pub async fn shutdown(&self) {
        self.0.router.write().take();
        self.plugins().pool().shutdown().await;
        let db = self.db().clone();
        let _ = tokio::time::timeout(Duration::from_secs(5), blocking(move || db.close())).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn what_waits_in_place_does_not_hold_the_others_up() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let (give, take) = mpsc::channel();
        let waits = runtime.spawn(async move { super::in_place(|| take.recv_timeout(Duration::from_secs(30))) });
        // On the only worker there is.
        runtime.spawn(async move { give.send("done") });
        assert_eq!(runtime.block_on(waits).unwrap(), Ok("done"));
        let single = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(single.block_on(async { super::in_place(|| 7) }), 7);
        assert_eq!(super::in_place(|| 8), 8);
    }
}
