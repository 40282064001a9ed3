//! Calls a plugin's exports: the passes of the two-phase protocol, and what a route answers.

use std::sync::Arc;

use bytes::Bytes;
use db::Db;
use policy::{AccountId, AppId, CallContext, Caller, Capability};
use sandbox::{Call, Failure, Limits, Pool, Program};
use serde_json::{Map, Value, json};

use crate::budget::Budgets;
use crate::host::{Beyond, Entry, Guest, GuestHost, Results};
use crate::permission::Permissions;
use crate::workspace::PluginOnDisk;

/// Passes of one call (contract section 3.3).
pub const PASSES: usize = 3;

const PRELUDE: &str = include_str!("prelude.js");

/// A request to an app's plugins.
#[derive(Debug, Clone)]
pub struct RouteRequest {
    pub method: String,
    /// Decoded, relative to the app, with a leading slash.
    pub path: String,
    pub query: Map<String, Value>,
    /// JSON, or a string where the body was not JSON.
    pub body: Value,
}

/// What a plugin answered.
#[derive(Debug, PartialEq, Eq)]
pub struct RouteAnswer {
    pub status: u16,
    pub content_type: String,
    pub body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error("plugin {plugin}: {failure}")]
    Failed { plugin: String, failure: Failure },
    #[error("plugin {plugin}: {message}")]
    Answer { plugin: String, message: String },
    #[error("{0}")]
    Depth(#[from] policy::ContextError),
}

/// Runs plugins' code.
pub struct Plugins {
    pool: Pool,
    db: Arc<Db>,
    net: net::Net,
    permissions: Arc<Permissions>,
    budgets: Arc<Budgets>,
    prelude: Arc<str>,
}

impl Plugins {
    pub fn new(
        pool: Pool,
        db: Arc<Db>,
        net: net::Net,
        permissions: Arc<Permissions>,
        budgets: Arc<Budgets>,
    ) -> Self {
        Self {
            pool,
            db,
            net,
            permissions,
            budgets,
            prelude: PRELUDE.into(),
        }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Whether exactly this code was granted `capability`.
    pub fn granted(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginOnDisk,
        capability: Capability,
    ) -> db::Result<bool> {
        let grants = self.db.grants(account, app, &plugin.id)?;
        Ok(grants.iter().any(|g| g.allows(capability, plugin.code)))
    }

    /// Asks one plugin's `handleRoute`. `None` when it has no such export or did not answer.
    pub async fn route(
        &self,
        context: &CallContext,
        beyond: Arc<dyn Beyond>,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginOnDisk,
        request: &RouteRequest,
    ) -> Result<Option<RouteAnswer>, PluginError> {
        let caller = Caller::Plugin {
            account: account.clone(),
            app: app.clone(),
            plugin: plugin.id.clone(),
        };
        let context = context.enter(&caller)?;
        let host = Arc::new(GuestHost::new(Guest {
            db: self.db.clone(),
            net: self.net.clone(),
            beyond,
            permissions: self.permissions.clone(),
            budgets: self.budgets.clone(),
            context,
            code: plugin.code,
            data: None,
            archive: None,
            entry: Entry::Route,
            siblings: json!([]),
        }));
        let program = Arc::new(Program::new(
            format!("{account}/{app}/{}", plugin.id),
            format!("{app}/{}/plugin.js", plugin.id),
            plugin.source.clone(),
            self.prelude.clone(),
            plugin.manifest.persistent,
        ));
        let mut guest_request = json!({
            "method": request.method, "path": request.path, "query": request.query, "body": request.body,
        });
        let value = self
            .passes(&program, &host, &mut guest_request, plugin, safe(&request.method))
            .await?;
        value.map_or(Ok(None), |value| answer(plugin, value))
    }

    async fn passes(
        &self,
        program: &Arc<Program>,
        host: &Arc<GuestHost>,
        request: &mut Value,
        plugin: &PluginOnDisk,
        safe: bool,
    ) -> Result<Option<Value>, PluginError> {
        let mut results = Results::default();
        for pass in 1..=PASSES {
            let call = || Call {
                export: "handleRoute".into(),
                args: json!([request]),
                data: host.call_data(&results),
                limits: Limits::ordinary(),
            };
            let mut outcome = self.pool.call(program, call(), host.clone()).await;
            // A read may be asked again when its worker died under it (contract section 3.5).
            if safe && pass == 1 && matches!(outcome, Err(Failure::Crashed(_))) {
                host.take_queue();
                outcome = self.pool.call(program, call(), host.clone()).await;
            }
            let outcome = outcome.map_err(|failure| PluginError::Failed {
                plugin: plugin.id.to_string(),
                failure,
            })?;
            if !outcome.exported {
                return Ok(None);
            }
            let queued = host.take_queue();
            let asked = outcome.value.get("__llmPending").and_then(Value::as_bool) == Some(true);
            if pass == PASSES || (queued.is_empty() && !asked) {
                return Ok(Some(outcome.value));
            }
            host.perform(queued, &mut results).await;
            if let Some(stash) = outcome.value.get("stash") {
                request["stash"] = stash.clone();
            }
        }
        unreachable!("the last pass returns")
    }
}

fn safe(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

/// Reads `{status=200, json | text, contentType?}`; none of them means "not mine".
fn answer(plugin: &PluginOnDisk, value: Value) -> Result<Option<RouteAnswer>, PluginError> {
    let wrong = |message: String| PluginError::Answer {
        plugin: plugin.id.to_string(),
        message,
    };
    let Value::Object(mut fields) = value else {
        return Ok(None);
    };
    if !["status", "json", "text"].iter().any(|name| fields.contains_key(*name)) {
        return Ok(None);
    }
    let status = match fields.get("status") {
        None | Some(Value::Null) => 200,
        Some(given) => given.as_u64().filter(|s| (200..600).contains(s)).ok_or_else(|| {
            wrong(format!(
                "handleRoute answered status {given}: use a whole number from 200 to 599"
            ))
        })? as u16,
    };
    let given_type = fields.get("contentType").and_then(Value::as_str).map(str::to_owned);
    let (default, body) = if let Some(json) = fields.remove("json") {
        ("application/json", Bytes::from(json.to_string()))
    } else {
        let body = match fields.remove("text") {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        ("text/plain; charset=utf-8", Bytes::from(body))
    };
    Ok(Some(RouteAnswer {
        status,
        content_type: given_type.unwrap_or_else(|| default.into()),
        body,
    }))
}
