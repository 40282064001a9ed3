//! Calls a plugin's exports: which arguments each gets, the passes of the two-phase protocol, and how answers are read.

use std::sync::Arc;

use db::Db;
use policy::{AccountId, AppId, CallContext, Caller, Capability, PluginId};
use sandbox::{Call, Failure, Limits, Pool, Program};
use serde_json::{Map, Value, json};

use crate::budget::Budgets;
use crate::host::{Beyond, Entry, Guest, GuestHost, Results};
use crate::permission::Permissions;
use crate::route::{RouteAnswer, RouteRequest};
use crate::workspace::{PluginOnDisk, Workspace};

/// Passes of one call (contract section 3.3).
pub const PASSES: usize = 3;
/// Tools one plugin may offer, and bytes of their definitions together.
const TOOLS_LIMIT: usize = 64;
const TOOLS_BYTES: usize = 256 << 10;

/// Puts up the globals of plugins, then builds `host`. One module text, so that each context evaluates one.
const PRELUDE: &str = concat!(include_str!("globals.js"), "\n", include_str!("prelude.js"));

#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error("plugin {plugin}: {failure}")]
    Failed { plugin: String, failure: Failure },
    #[error("plugin {plugin}: {message}")]
    Answer { plugin: String, message: String },
    #[error("{0}")]
    Depth(#[from] policy::ContextError),
}

/// What a tool answered a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolText {
    pub text: String,
    pub is_error: bool,
}

/// The two hooks (contract section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    Request,
    Response,
}

impl Hook {
    pub fn export(self) -> &'static str {
        match self {
            Self::Request => "llmRequest",
            Self::Response => "llmResponse",
        }
    }
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

/// One plugin that is about to be called, and on whose behalf.
#[derive(Clone)]
pub struct Target<'a> {
    /// The context of the caller; the plugin itself is entered here.
    pub context: &'a CallContext,
    pub beyond: &'a Arc<dyn Beyond>,
    pub workspace: &'a Workspace,
    pub account: &'a AccountId,
    pub app: &'a AppId,
    pub plugin: &'a PluginOnDisk,
}

impl Target<'_> {
    fn name(&self) -> String {
        self.plugin.id.to_string()
    }

    /// `<app>__<plugin>`, or the plugin's id alone when it belongs to no app.
    pub fn global_id(&self) -> String {
        global_id(self.app, &self.plugin.id)
    }
}

/// `<app>__<plugin>`, or the plugin's id alone when it belongs to no app.
pub fn global_id(app: &AppId, plugin: &PluginId) -> String {
    if app.is_shelf() {
        plugin.to_string()
    } else {
        format!("{app}__{plugin}")
    }
}

/// One call of one export, before its first pass.
struct Export {
    name: &'static str,
    entry: Entry,
    /// All arguments in front of `host`.
    args: Vec<Value>,
    limits: Limits,
    siblings: Value,
    archive: Option<Arc<archive::Archive>>,
    /// Whether it may be asked again when its worker died under it.
    safe: bool,
}

impl Export {
    fn new(name: &'static str, entry: Entry, args: Vec<Value>) -> Self {
        Self {
            name,
            entry,
            args,
            limits: Limits::ordinary(),
            siblings: Value::Null,
            archive: None,
            safe: false,
        }
    }
}

impl Plugins {
    pub fn new(pool: Pool, db: Arc<Db>, net: net::Net, permissions: Arc<Permissions>, budgets: Arc<Budgets>) -> Self {
        Self::with_prelude(pool, db, net, permissions, budgets, PRELUDE)
    }

    /// With other glue around the plugins' code. For tests that speak to the engine as a worker that was taken over.
    #[doc(hidden)]
    pub fn with_prelude(
        pool: Pool,
        db: Arc<Db>,
        net: net::Net,
        permissions: Arc<Permissions>,
        budgets: Arc<Budgets>,
        prelude: &str,
    ) -> Self {
        Self {
            pool,
            db,
            net,
            permissions,
            budgets,
            prelude: prelude.into(),
        }
    }

    pub fn pool(&self) -> &Pool {
        &self.pool
    }
    pub fn permissions(&self) -> &Arc<Permissions> {
        &self.permissions
    }
    pub fn budgets(&self) -> &Arc<Budgets> {
        &self.budgets
    }

    /// Whether exactly this code may use `capability` now.
    pub fn allowed(&self, account: &AccountId, app: &AppId, plugin: &PluginOnDisk, capability: Capability) -> bool {
        self.permissions
            .check(account, app, &plugin.id, plugin.code, capability)
            .is_ok()
    }

    /// Asks one plugin's `handleRoute`. `None` when it has no such export or did not answer.
    pub async fn route(
        &self,
        of: &Target<'_>,
        request: &RouteRequest,
        siblings: Value,
        archive: Option<Arc<archive::Archive>>,
    ) -> Result<Option<RouteAnswer>, PluginError> {
        let asked = json!({
            "method": request.method, "path": request.path, "query": request.query, "body": request.body,
        });
        let mut export = Export::new("handleRoute", Entry::Route, vec![asked]);
        export.siblings = siblings;
        export.safe = matches!(request.method.as_str(), "GET" | "HEAD");
        if archive.is_some() {
            export.limits = Limits::zip();
            export.archive = archive;
        }
        let Some(value) = self.passes(of, export).await? else {
            return Ok(None);
        };
        crate::route::answer(value).map_err(|message| PluginError::Answer {
            plugin: of.name(),
            message,
        })
    }

    /// The tools a plugin declares once and for all (`TOOLS`), each `{name, description, parameters}`.
    pub async fn fixed_tools(&self, of: &Target<'_>) -> Result<Vec<Value>, PluginError> {
        let value = self
            .passes(of, Export::new("TOOLS", Entry::AppTools, Vec::new()))
            .await?;
        Ok(definitions(value))
    }

    /// The tools a plugin offers to the model requests of its app's other plugins (`appTools`).
    pub async fn app_tools(&self, of: &Target<'_>, asking: &str) -> Result<Vec<Value>, PluginError> {
        let about = json!({"app": of.app, "plugin": asking});
        let export = Export::new("appTools", Entry::AppTools, vec![about]);
        let value = self.passes(of, export).await?;
        Ok(definitions(value.map(|mut value| value["tools"].take())))
    }

    /// Runs one tool. Errors of the plugin are errors here; the caller tells the model.
    pub async fn tool(&self, of: &Target<'_>, name: &str, args: Value) -> Result<ToolText, PluginError> {
        let export = Export::new("handleTool", Entry::Tool, vec![name.into(), args]);
        let value = self.passes(of, export).await?.ok_or_else(|| PluginError::Answer {
            plugin: of.name(),
            message: "it offers tools but exports no handleTool".into(),
        })?;
        Ok(match value {
            Value::String(text) => ToolText { text, is_error: false },
            Value::Object(ref fields) => {
                let text = match fields.get("text") {
                    Some(Value::String(text)) => text.clone(),
                    _ => value.to_string(),
                };
                let is_error = fields.get("isError").and_then(Value::as_bool).unwrap_or(false);
                ToolText { text, is_error }
            }
            Value::Null => ToolText {
                text: String::new(),
                is_error: false,
            },
            other => ToolText {
                text: other.to_string(),
                is_error: false,
            },
        })
    }

    /// Runs a hook. `None` when the plugin has none or patches nothing.
    pub async fn hook(
        &self,
        of: &Target<'_>,
        hook: Hook,
        about: Value,
    ) -> Result<Option<Map<String, Value>>, PluginError> {
        let export = Export::new(hook.export(), Entry::Hook, vec![about]);
        match self.passes(of, export).await? {
            Some(Value::Object(patch)) => Ok(Some(patch)),
            _ => Ok(None),
        }
    }

    /// Runs a scheduled call; what it gives goes to the app's pages.
    pub async fn tick(&self, of: &Target<'_>) -> Result<Option<Value>, PluginError> {
        let about = json!({"pluginId": of.global_id()});
        self.passes(of, Export::new("onTick", Entry::Tick, vec![about])).await
    }

    /// What a plugin shows of itself: an object with a `label`, anything else counts as nothing.
    pub async fn panel(&self, of: &Target<'_>) -> Result<Option<Map<String, Value>>, PluginError> {
        let about = json!({"app": of.app, "plugin": of.global_id()});
        match self
            .passes(of, Export::new("uiPanel", Entry::Panel, vec![about]))
            .await?
        {
            Some(Value::Object(panel)) if panel.get("label").is_some_and(Value::is_string) => Ok(Some(panel)),
            _ => Ok(None),
        }
    }

    /// Lets a plugin bring its data from one version to another. `false` when it has nothing to do.
    pub async fn app_update(&self, of: &Target<'_>, from: &str, to: &str) -> Result<bool, PluginError> {
        let mut export = Export::new("onAppUpdate", Entry::AppUpdate, vec![json!({"from": from, "to": to})]);
        export.limits = Limits::app_update();
        Ok(self.passes(of, export).await?.is_some())
    }

    /// Runs one export to its end. `None` when there is no such export.
    ///
    /// A pass in which something permitted was queued, or that says `__llmPending`, is not the last unless it is the
    /// third: what was queued is done, and the export is called again from the start (contract section 3.3).
    async fn passes(&self, of: &Target<'_>, mut export: Export) -> Result<Option<Value>, PluginError> {
        let caller = Caller::Plugin {
            account: of.account.clone(),
            app: of.app.clone(),
            plugin: of.plugin.id.clone(),
        };
        let context = of.context.enter(&caller)?;
        // The outermost plugin call stands at depth 2: behind the page, the person or the clock that asked.
        export.limits.depth = context.depth.saturating_sub(1).max(1);
        let host = Arc::new(GuestHost::new(Guest {
            db: self.db.clone(),
            net: self.net.clone(),
            beyond: of.beyond.clone(),
            permissions: self.permissions.clone(),
            budgets: self.budgets.clone(),
            data: of.workspace.data(of.app),
            archive: export.archive.take(),
            context,
            code: of.plugin.code,
            entry: export.entry,
            siblings: export.siblings.take(),
        }));
        let program = Arc::new(Program::with_hash(
            format!("{}/{}/{}", of.account, of.app, of.plugin.id),
            format!("{}/{}/plugin.js", of.app, of.plugin.id),
            of.plugin.source.clone(),
            self.prelude.clone(),
            of.plugin.manifest.persistent,
            // Made when the source was read, over it and the manifest.
            of.plugin.code.0,
        ));
        let failed = |failure| PluginError::Failed {
            plugin: of.name(),
            failure,
        };
        let mut results = Results::default();
        let mut pass = 1;
        loop {
            let call = |export: &Export| Call {
                export: export.name.into(),
                args: Value::Array(export.args.clone()),
                data: host.call_data(&results),
                limits: export.limits.clone(),
            };
            let mut outcome = self.pool.call(&program, call(&export), host.clone()).await;
            // A read may be asked again, once, when its worker died under it (contract section 3.5): the pass it was in,
            // because what the passes before it asked for is done.
            if export.safe && matches!(outcome, Err(Failure::Crashed(_))) {
                export.safe = false;
                host.take_queue();
                outcome = self.pool.call(&program, call(&export), host.clone()).await;
            }
            let outcome = outcome.map_err(failed)?;
            if !outcome.exported {
                return Ok(None);
            }
            let queued = host.take_queue();
            let asked = outcome.value.get("__llmPending").and_then(Value::as_bool) == Some(true);
            if pass == PASSES || (queued.is_empty() && !asked) {
                return Ok(Some(outcome.value));
            }
            host.perform(queued, &mut results).await;
            carry(&mut export, outcome.value);
            pass += 1;
        }
    }
}

/// What the next pass gets from the one before: a route its stash, a hook what it returned.
fn carry(export: &mut Export, mut returned: Value) {
    match export.entry {
        Entry::Route => {
            if let Some(stash) = returned.get_mut("stash") {
                export.args[0]["stash"] = stash.take();
            }
        }
        Entry::Hook if returned.is_object() => export.args[0] = returned,
        _ => {}
    }
}

/// Tool definitions worth offering: named objects, within bounds.
fn definitions(value: Option<Value>) -> Vec<Value> {
    let Some(Value::Array(list)) = value else {
        return Vec::new();
    };
    let mut bytes = 0;
    list.into_iter()
        .filter(|tool| tool.get("name").is_some_and(Value::is_string))
        .take(TOOLS_LIMIT)
        .take_while(|tool| {
            bytes += tool.to_string().len();
            bytes <= TOOLS_BYTES
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_tools_within_bounds_are_offered() {
        let tool = |name: &str| json!({"name": name, "description": "d", "parameters": {}});
        assert!(definitions(None).is_empty());
        assert!(definitions(Some(json!({"name": "x"}))).is_empty());
        assert_eq!(
            definitions(Some(json!([tool("a"), 5, {"description": "x"}, tool("b")]))),
            [tool("a"), tool("b")]
        );
        let many: Vec<Value> = (0..100).map(|n| tool(&n.to_string())).collect();
        assert_eq!(definitions(Some(many.into())).len(), TOOLS_LIMIT);
        let large = json!([{"name": "a", "description": "x".repeat(TOOLS_BYTES)}, tool("b")]);
        assert!(definitions(Some(large)).is_empty());
    }
}
