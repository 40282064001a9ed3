//! What is kept about plugins beside their grants and stores.

use std::collections::HashSet;

use policy::{AccountId, AppId, CodeHash, PluginId};
use rusqlite::{OptionalExtension, params};

use crate::{Db, Result, now_ms};

/// Bytes of file names and text that [`Db::keep_code`] keeps of one plugin; a difference of more is not read by anyone.
pub const KEPT_CODE_LIMIT: u64 = 8 << 20;

/// A secret a person gave to one plugin. Its value is in the keychain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginSecret {
    pub plugin: String,
    pub name: String,
    /// The only origin it is sent to, as `https://host[:port]`.
    pub origin: String,
    /// Milliseconds since the Unix epoch.
    pub added_at: i64,
}

/// A plugin whose app was updated and whose `onAppUpdate` has not been through yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingUpdate {
    pub app: String,
    pub plugin: String,
    /// The version it last was ready for, and the one that is there now.
    pub from: String,
    pub to: String,
    /// Milliseconds since the Unix epoch.
    pub noted_at: i64,
    /// Why the last try failed.
    pub error: Option<String>,
}

impl Db {
    /// Keeps the text (path and content) of the code a person looked at, in place of what was kept of this plugin before,
    /// to show the difference when it changes. Of more than [`KEPT_CODE_LIMIT`] bytes nothing is kept.
    pub fn keep_code(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        code: CodeHash,
        files: &[(String, String)],
    ) -> Result<()> {
        let bytes: usize = files.iter().map(|(path, text)| path.len() + text.len()).sum();
        let connection = self.careful.lock();
        if bytes as u64 > KEPT_CODE_LIMIT {
            connection.execute(
                "DELETE FROM kept_code WHERE account = ?1 AND app = ?2 AND plugin = ?3",
                params![account.as_str(), app.as_str(), plugin.as_str()],
            )?;
            return Ok(());
        }
        connection.execute(
            "INSERT OR REPLACE INTO kept_code (account, app, plugin, code, files) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                account.as_str(),
                app.as_str(),
                plugin.as_str(),
                code.0.as_slice(),
                serde_json::to_string(files)?
            ],
        )?;
        Ok(())
    }

    /// What [`Db::keep_code`] kept, and the hash it was kept with.
    #[expect(clippy::type_complexity, reason = "a hash, and files as path and text")]
    pub fn kept_code(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
    ) -> Result<Option<(CodeHash, Vec<(String, String)>)>> {
        let connection = self.quick.lock();
        let kept: Option<(Vec<u8>, String)> = connection
            .prepare_cached("SELECT code, files FROM kept_code WHERE account = ?1 AND app = ?2 AND plugin = ?3")?
            .query_row(params![account.as_str(), app.as_str(), plugin.as_str()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((code, files)) = kept else { return Ok(None) };
        let Ok(code) = <[u8; 32]>::try_from(code) else {
            return Ok(None);
        };
        Ok(Some((CodeHash(code), serde_json::from_str(&files)?)))
    }

    /// Turns a plugin on or off. Its grants stay as they are; while it is off it is not called at all.
    pub fn set_plugin_enabled(&self, account: &AccountId, app: &AppId, plugin: &PluginId, enabled: bool) -> Result<()> {
        self.careful.lock().execute(
            "INSERT OR REPLACE INTO plugin_flags (account, app, plugin, enabled) VALUES (?1, ?2, ?3, ?4)",
            params![account.as_str(), app.as_str(), plugin.as_str(), enabled],
        )?;
        Ok(())
    }

    /// Whether a plugin is on; it is unless somebody turned it off.
    pub fn plugin_enabled(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<bool> {
        let connection = self.quick.lock();
        let enabled: Option<bool> = connection
            .prepare_cached("SELECT enabled FROM plugin_flags WHERE account = ?1 AND app = ?2 AND plugin = ?3")?
            .query_row(params![account.as_str(), app.as_str(), plugin.as_str()], |row| {
                row.get(0)
            })
            .optional()?;
        Ok(enabled.unwrap_or(true))
    }

    /// Every plugin of an account that is off, as app and plugin.
    pub fn disabled_plugins(&self, account: &AccountId) -> Result<HashSet<(String, String)>> {
        let connection = self.quick.lock();
        let mut statement =
            connection.prepare_cached("SELECT app, plugin FROM plugin_flags WHERE account = ?1 AND enabled = 0")?;
        let rows = statement.query_map([account.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Notes that a secret of this name was saved for `origin`, in place of an earlier one of this name.
    pub fn note_plugin_secret(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        name: &str,
        origin: &str,
    ) -> Result<()> {
        self.careful.lock().execute(
            "INSERT OR REPLACE INTO plugin_secrets (account, app, plugin, name, origin, added_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![account.as_str(), app.as_str(), plugin.as_str(), name, origin, now_ms()],
        )?;
        Ok(())
    }

    /// The origin a plugin's secret is for, if it has one of this name.
    pub fn plugin_secret(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        name: &str,
    ) -> Result<Option<String>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT origin FROM plugin_secrets WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4",
        )?;
        Ok(statement
            .query_row(params![account.as_str(), app.as_str(), plugin.as_str(), name], |row| {
                row.get(0)
            })
            .optional()?)
    }

    /// A plugin's secrets by name.
    pub fn plugin_secrets(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<Vec<PluginSecret>> {
        self.secrets_of(account, app, Some(plugin))
    }

    /// The secrets of every plugin of an app.
    pub fn app_secrets(&self, account: &AccountId, app: &AppId) -> Result<Vec<PluginSecret>> {
        self.secrets_of(account, app, None)
    }

    fn secrets_of(&self, account: &AccountId, app: &AppId, plugin: Option<&PluginId>) -> Result<Vec<PluginSecret>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT plugin, name, origin, added_at FROM plugin_secrets
             WHERE account = ?1 AND app = ?2 AND (?3 IS NULL OR plugin = ?3) ORDER BY plugin, name",
        )?;
        let plugin = plugin.map(PluginId::as_str);
        let rows = statement.query_map(params![account.as_str(), app.as_str(), plugin], |row| {
            Ok(PluginSecret {
                plugin: row.get(0)?,
                name: row.get(1)?,
                origin: row.get(2)?,
                added_at: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns whether there was a secret of this name. Its value is to be deleted from the keychain first.
    pub fn forget_plugin_secret(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        name: &str,
    ) -> Result<bool> {
        let gone = self.careful.lock().execute(
            "DELETE FROM plugin_secrets WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4",
            params![account.as_str(), app.as_str(), plugin.as_str(), name],
        )?;
        Ok(gone > 0)
    }

    /// Notes that a plugin has to be told of an update. If it has not been told of an earlier one yet, it will hear of both
    /// as one, from the earlier version on.
    pub fn note_update(&self, account: &AccountId, app: &AppId, plugin: &PluginId, from: &str, to: &str) -> Result<()> {
        self.careful.lock().execute(
            "INSERT INTO app_updates (account, app, plugin, from_version, to_version, noted_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (account, app, plugin)
             DO UPDATE SET to_version = excluded.to_version, noted_at = excluded.noted_at, error = NULL",
            params![account.as_str(), app.as_str(), plugin.as_str(), from, to, now_ms()],
        )?;
        Ok(())
    }

    /// Updates that plugins have not been told of, or failed to deal with, oldest first.
    pub fn pending_updates(&self, account: &AccountId) -> Result<Vec<PendingUpdate>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT app, plugin, from_version, to_version, noted_at, error FROM app_updates WHERE account = ?1
             ORDER BY noted_at, app, plugin",
        )?;
        let rows = statement.query_map([account.as_str()], |row| {
            Ok(PendingUpdate {
                app: row.get(0)?,
                plugin: row.get(1)?,
                from: row.get(2)?,
                to: row.get(3)?,
                noted_at: row.get(4)?,
                error: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    pub fn update_done(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<()> {
        self.careful.lock().execute(
            "DELETE FROM app_updates WHERE account = ?1 AND app = ?2 AND plugin = ?3",
            params![account.as_str(), app.as_str(), plugin.as_str()],
        )?;
        Ok(())
    }

    /// Keeps why a try failed; the update stays pending.
    pub fn update_failed(&self, account: &AccountId, app: &AppId, plugin: &PluginId, error: &str) -> Result<()> {
        self.careful.lock().execute(
            "UPDATE app_updates SET error = ?4 WHERE account = ?1 AND app = ?2 AND plugin = ?3",
            params![account.as_str(), app.as_str(), plugin.as_str(), error],
        )?;
        Ok(())
    }
}
