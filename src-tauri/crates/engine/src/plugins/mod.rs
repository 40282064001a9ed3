//! What the engine does with plugins beyond answering their app's page: hooks, tools, the clock, and updates.

pub(crate) mod hooks;
pub(crate) mod ticks;
pub(crate) mod tools;
pub(crate) mod updates;

use std::sync::Arc;

use apps::host::Beyond;
use apps::plugin_call::{PluginError, Target};
use apps::workspace::{PluginOnDisk, Workspace};
use policy::{AccountId, AppId, CallContext, Capability};

use crate::Engine;
use crate::error::Answer;

/// A plugin with the app it belongs to.
#[derive(Clone)]
pub(crate) struct Owned {
    pub app: AppId,
    pub plugin: PluginOnDisk,
}

/// Everything around one plugin that a call needs, kept in one place so that [`Target`]s can borrow from it.
pub(crate) struct Room {
    pub beyond: Arc<dyn Beyond>,
    pub workspace: Workspace,
    pub account: AccountId,
}

impl Room {
    pub fn target<'a>(&'a self, context: &'a CallContext, of: &'a Owned) -> Target<'a> {
        Target {
            context,
            beyond: &self.beyond,
            workspace: &self.workspace,
            account: &self.account,
            app: &of.app,
            plugin: &of.plugin,
        }
    }
}

impl Engine {
    pub(crate) fn room(&self, account: &AccountId) -> Answer<Room> {
        Ok(Room {
            beyond: Arc::new(self.clone()),
            workspace: self.workspace(account)?,
            account: account.clone(),
        })
    }

    /// The plugins of an app that can be loaded and are not turned off, by id.
    pub(crate) fn usable(&self, room: &Room, app: &AppId) -> Vec<Owned> {
        let found = match room.workspace.plugins(app) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%app, %error, "the app's plugins cannot be read");
                return Vec::new();
            }
        };
        found
            .into_iter()
            .filter_map(Result::ok)
            .filter(|plugin| self.enabled(&room.account, app, plugin))
            .map(|plugin| Owned {
                app: app.clone(),
                plugin,
            })
            .collect()
    }

    pub(crate) fn enabled(&self, account: &AccountId, app: &AppId, plugin: &PluginOnDisk) -> bool {
        // A database that cannot be read allows nothing.
        self.db().plugin_enabled(account, app, &plugin.id).unwrap_or(false)
    }

    /// Writes down that a plugin's code failed at `target`, an export's name.
    pub(crate) fn note_failure(&self, context: &CallContext, of: &Owned, target: &str, error: &PluginError) {
        self.plugin_failed(context, &of.app, &of.plugin.id, target, &error.to_string());
    }
}

impl Engine {
    /// All a plugin asks for but what the administrator's policy forbids: what "allow" means when an app is added.
    pub(crate) fn grantable(&self, app: &AppId, plugin: &PluginOnDisk) -> Vec<(Capability, Vec<String>)> {
        let permissions = self.plugins().permissions();
        let mut asks = plugin.manifest.asks();
        asks.retain(|(capability, scope)| permissions.forbidden(app, &plugin.id, *capability, scope).is_none());
        asks
    }
}
