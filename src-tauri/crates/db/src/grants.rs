use std::collections::HashMap;

use policy::{AccountId, AppId, Capability, CodeHash, Grant, PluginId};
use rusqlite::params;

use crate::{Db, Result, now_ms};

impl Db {
    /// Every grant of one plugin, for whatever code it was given.
    pub fn grants(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<Vec<Grant>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT capability, code, granted_at, granted_by FROM grants WHERE account = ?1 AND app = ?2 AND plugin = ?3",
        )?;
        let rows = statement.query_map(params![account.as_str(), app.as_str(), plugin.as_str()], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, Vec<u8>>(1)?,
                row.get(2)?,
                row.get(3)?,
            ))
        })?;
        let mut found = Vec::new();
        for row in rows {
            let (capability, code, granted_at, granted_by) = row?;
            // A row this program cannot read grants nothing.
            let (Ok(capability), Ok(code)) = (Capability::parse(&capability), <[u8; 32]>::try_from(code)) else {
                continue;
            };
            found.push(Grant {
                account: account.clone(),
                app: app.clone(),
                plugin: plugin.clone(),
                capability,
                code: CodeHash(code),
                granted_at,
                granted_by,
            });
        }
        Ok(found)
    }

    /// Replaces everything a plugin was granted by `capabilities`, for exactly `code`.
    pub fn replace_grants(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        code: CodeHash,
        capabilities: &[Capability],
        granted_by: &str,
    ) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction()?;
        work.execute(
            "DELETE FROM grants WHERE account = ?1 AND app = ?2 AND plugin = ?3",
            params![account.as_str(), app.as_str(), plugin.as_str()],
        )?;
        for capability in capabilities {
            work.execute(
                "INSERT OR REPLACE INTO grants (account, app, plugin, capability, code, granted_at, granted_by)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    account.as_str(),
                    app.as_str(),
                    plugin.as_str(),
                    capability.as_str(),
                    code.0.as_slice(),
                    now_ms(),
                    granted_by
                ],
            )?;
        }
        Ok(work.commit()?)
    }

    /// Notes where an app came from: `box` (shipped in the program) or `folder`, and the content hash that was added.
    /// Kept here and not in the app's folder, so that nothing in a workspace can claim to be official.
    pub fn note_install(&self, account: &AccountId, app: &AppId, source: &str, head: &str) -> Result<()> {
        self.careful.lock().execute(
            "INSERT OR REPLACE INTO installs (account, app, source, head, added_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![account.as_str(), app.as_str(), source, head, now_ms()],
        )?;
        Ok(())
    }

    /// Where each app of an account came from, by id.
    pub fn installs(&self, account: &AccountId) -> Result<HashMap<String, String>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached("SELECT app, source FROM installs WHERE account = ?1")?;
        let rows = statement.query_map([account.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Removes all that hangs on an app: grants, plugin stores, page storage, and its claim on assets.
    pub fn forget_app(&self, account: &AccountId, app: &AppId) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction()?;
        for table in [
            "installs",
            "grants",
            "store",
            "store_size",
            "page_storage",
            "asset_apps",
        ] {
            work.execute(
                &format!("DELETE FROM {table} WHERE account = ?1 AND app = ?2"),
                params![account.as_str(), app.as_str()],
            )?;
        }
        Ok(work.commit()?)
    }
}
