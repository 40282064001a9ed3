use std::collections::HashMap;

use policy::{AccountId, AppId, Capability, CodeHash, Grant, PluginId};
use rusqlite::{Transaction, TransactionBehavior, params};

use crate::{Db, Result, now_ms};

/// Tables with rows of one plugin, and those with rows of an app besides.
const OF_PLUGIN: &[&str] = &[
    "grants",
    "kept_code",
    "plugin_flags",
    "plugin_secrets",
    "app_updates",
    "store",
    "store_size",
];
const OF_APP: &[&str] = &[
    "installs",
    "page_storage",
    "asset_apps",
    "usage",
    "budgets",
    "spend_limits",
    "model_access",
];

/// What stands in a denied row for which nobody looked at any code.
const NO_CODE: CodeHash = CodeHash([0; 32]);

impl Db {
    /// Every decision about one plugin, for whatever code it was made.
    pub fn grants(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<Vec<Grant>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT capability, code, scope, denied, granted_at, granted_by FROM grants
             WHERE account = ?1 AND app = ?2 AND plugin = ?3",
        )?;
        let mut rows = statement.query(params![account.as_str(), app.as_str(), plugin.as_str()])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let capability: String = row.get(0)?;
            let code: Vec<u8> = row.get(1)?;
            let scope: String = row.get(2)?;
            // A row this program cannot read grants nothing.
            let (Ok(capability), Ok(code), Ok(scope)) = (
                Capability::parse(&capability),
                <[u8; 32]>::try_from(code),
                serde_json::from_str(&scope),
            ) else {
                continue;
            };
            found.push(Grant {
                account: account.clone(),
                app: app.clone(),
                plugin: plugin.clone(),
                capability,
                code: CodeHash(code),
                scope,
                denied: row.get(3)?,
                granted_at: row.get(4)?,
                granted_by: row.get(5)?,
            });
        }
        Ok(found)
    }

    /// Replaces every decision about a plugin: `granted` is allowed to exactly `code`, each within its scope (see
    /// [`Grant::scope`]); to `denied` a person said no; the rest is undecided. What is in both is denied. `by` is the
    /// [`policy::Caller::label`] of who decided.
    #[expect(
        clippy::too_many_arguments,
        reason = "one decision, all parts of which the caller has at hand"
    )]
    pub fn decide(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        code: CodeHash,
        granted: &[(Capability, Vec<String>)],
        denied: &[Capability],
        by: &str,
    ) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        work.execute(
            "DELETE FROM grants WHERE account = ?1 AND app = ?2 AND plugin = ?3",
            params![account.as_str(), app.as_str(), plugin.as_str()],
        )?;
        for (capability, scope) in granted {
            write(&work, account, app, plugin, (*capability, code, scope, false), by)?;
        }
        for capability in denied {
            write(&work, account, app, plugin, (*capability, code, &[], true), by)?;
        }
        Ok(work.commit()?)
    }

    /// Takes one capability back, or with `None` every one there is a decision about: a person's no, which stays whatever
    /// the code becomes. A capability nobody decided about is denied too. Returns whether anything was allowed until now
    /// (to whatever code).
    pub fn revoke(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        capability: Option<Capability>,
        by: &str,
    ) -> Result<bool> {
        let mut connection = self.careful.lock();
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let taken = work.execute(
            "UPDATE grants SET denied = 1, scope = '[]', granted_at = ?5, granted_by = ?6
             WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND (?4 IS NULL OR capability = ?4) AND denied = 0",
            params![
                account.as_str(),
                app.as_str(),
                plugin.as_str(),
                capability.map(Capability::as_str),
                now_ms(),
                by
            ],
        )?;
        if let (Some(capability), 0) = (capability, taken) {
            write(&work, account, app, plugin, (capability, NO_CODE, &[], true), by)?;
        }
        work.commit()?;
        Ok(taken > 0)
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

    /// Removes all that hangs on one plugin: decisions, the code that was looked at, whether it is on, its secrets' names,
    /// its store and a pending update. What it did stays in the activity log. The secrets' values are not here: delete
    /// those of [`Db::plugin_secrets`] from the keychain first.
    pub fn forget_plugin(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for table in OF_PLUGIN {
            work.execute(
                &format!("DELETE FROM {table} WHERE account = ?1 AND app = ?2 AND plugin = ?3"),
                params![account.as_str(), app.as_str(), plugin.as_str()],
            )?;
        }
        Ok(work.commit()?)
    }

    /// Removes all that hangs on an app: that of its plugins ([`Db::forget_plugin`]), page storage, use and budgets, where
    /// it came from, and its claim on assets. What it spent counts as spent by removed apps from then on. The values of [`Db::app_secrets`] are to be deleted from the keychain first.
    pub fn forget_app(&self, account: &AccountId, app: &AppId) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for table in OF_PLUGIN.iter().chain(OF_APP) {
            work.execute(
                &format!("DELETE FROM {table} WHERE account = ?1 AND app = ?2"),
                params![account.as_str(), app.as_str()],
            )?;
        }
        crate::spend::forget_app(&work, account, app)?;
        Ok(work.commit()?)
    }
}

fn write(
    work: &Transaction<'_>,
    account: &AccountId,
    app: &AppId,
    plugin: &PluginId,
    (capability, code, scope, denied): (Capability, CodeHash, &[String], bool),
    by: &str,
) -> Result<()> {
    work.prepare_cached(
        "INSERT OR REPLACE INTO grants (account, app, plugin, capability, code, scope, denied, granted_at, granted_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        account.as_str(),
        app.as_str(),
        plugin.as_str(),
        capability.as_str(),
        code.0.as_slice(),
        serde_json::to_string(scope)?,
        denied,
        now_ms(),
        by
    ])?;
    Ok(())
}
