use policy::{AccountId, AppId, PluginId};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::{Map, Value};

use crate::{Db, DbError, Result};

/// Bytes of keys and JSON values one plugin may keep (contract section 3.4 counts characters; we count bytes).
pub const STORE_QUOTA: u64 = 1 << 20;
/// Bytes of names and values one app's pages may keep in `localStorage` (contract section 5.1), counted in UTF-8 here and
/// in UTF-16 by the page, whichever is hit first.
pub const PAGE_QUOTA: u64 = 2 << 20;

fn size_of(connection: &Connection, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<u64> {
    let bytes: Option<i64> = connection
        .prepare_cached("SELECT bytes FROM store_size WHERE account = ?1 AND app = ?2 AND plugin = ?3")?
        .query_row(params![account.as_str(), app.as_str(), plugin.as_str()], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(bytes.unwrap_or(0) as u64)
}

fn set_size(work: &Transaction<'_>, account: &AccountId, app: &AppId, plugin: &PluginId, bytes: u64) -> Result<()> {
    work.prepare_cached(
        "INSERT INTO store_size (account, app, plugin, bytes) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (account, app, plugin) DO UPDATE SET bytes = excluded.bytes",
    )?
    .execute(params![account.as_str(), app.as_str(), plugin.as_str(), bytes as i64])?;
    Ok(())
}

fn entry_size(
    work: &Transaction<'_>,
    account: &AccountId,
    app: &AppId,
    plugin: &PluginId,
    name: &str,
) -> Result<Option<u64>> {
    let bytes: Option<i64> = work
        .prepare_cached(
            "SELECT length(CAST(name AS BLOB)) + length(CAST(value AS BLOB)) FROM store
             WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4",
        )?
        .query_row(params![account.as_str(), app.as_str(), plugin.as_str(), name], |row| {
            row.get(0)
        })
        .optional()?;
    Ok(bytes.map(|b| b as u64))
}

impl Db {
    /// A plugin's value as JSON text.
    pub fn store_get(&self, account: &AccountId, app: &AppId, plugin: &PluginId, name: &str) -> Result<Option<String>> {
        let connection = self.quick.lock();
        let mut statement = connection
            .prepare_cached("SELECT value FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4")?;
        Ok(statement
            .query_row(params![account.as_str(), app.as_str(), plugin.as_str(), name], |row| {
                row.get(0)
            })
            .optional()?)
    }

    /// Writes one value (JSON text), or refuses it whole when `quota` bytes would be exceeded. Durable against the
    /// process being killed once it returned.
    pub fn store_put(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        name: &str,
        value: &str,
        quota: u64,
    ) -> Result<()> {
        let mut connection = self.quick.lock();
        let work = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let used = size_of(&work, account, app, plugin)?;
        let old = entry_size(&work, account, app, plugin, name)?.unwrap_or(0);
        let new = (name.len() + value.len()) as u64;
        let total = used.saturating_sub(old) + new;
        if total > quota && new > old {
            return Err(DbError::Quota {
                used,
                quota,
                needed: new - old,
            });
        }
        work.prepare_cached(
            "INSERT INTO store (account, app, plugin, name, value) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (account, app, plugin, name) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![account.as_str(), app.as_str(), plugin.as_str(), name, value])?;
        set_size(&work, account, app, plugin, total)?;
        Ok(work.commit()?)
    }

    /// Returns whether there was such a key.
    pub fn store_delete(&self, account: &AccountId, app: &AppId, plugin: &PluginId, name: &str) -> Result<bool> {
        let mut connection = self.quick.lock();
        let work = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let Some(old) = entry_size(&work, account, app, plugin, name)? else {
            return Ok(false);
        };
        work.prepare_cached("DELETE FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4")?
            .execute(params![account.as_str(), app.as_str(), plugin.as_str(), name])?;
        let used = size_of(&work, account, app, plugin)?;
        set_size(&work, account, app, plugin, used.saturating_sub(old))?;
        work.commit()?;
        Ok(true)
    }

    /// A plugin's keys in order, at most `limit`, starting with `prefix`.
    pub fn store_keys(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<String>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT name FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND substr(name, 1, ?5) = ?4
             ORDER BY name LIMIT ?6",
        )?;
        let rows = statement.query_map(
            params![
                account.as_str(),
                app.as_str(),
                plugin.as_str(),
                prefix,
                prefix.chars().count() as i64,
                limit as i64
            ],
            |row| row.get(0),
        )?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// What an app's pages keep in `localStorage`.
    pub fn page_storage(&self, account: &AccountId, app: &AppId) -> Result<Map<String, Value>> {
        let connection = self.quick.lock();
        let mut statement =
            connection.prepare_cached("SELECT name, value FROM page_storage WHERE account = ?1 AND app = ?2")?;
        let rows = statement.query_map(params![account.as_str(), app.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, Value::String(row.get::<_, String>(1)?)))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Sets (`Some`) or removes (`None`) one item, or refuses it whole over [`PAGE_QUOTA`].
    pub fn put_page_item(&self, account: &AccountId, app: &AppId, name: &str, value: Option<&str>) -> Result<()> {
        let mut connection = self.quick.lock();
        let work = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if let Some(value) = value {
            let others: i64 = work
                .prepare_cached(
                    "SELECT coalesce(sum(length(CAST(name AS BLOB)) + length(CAST(value AS BLOB))), 0) FROM page_storage
                     WHERE account = ?1 AND app = ?2 AND name <> ?3",
                )?
                .query_row(params![account.as_str(), app.as_str(), name], |row| row.get(0))?;
            let needed = (name.len() + value.len()) as u64;
            if others as u64 + needed > PAGE_QUOTA {
                return Err(DbError::Quota {
                    used: others as u64,
                    quota: PAGE_QUOTA,
                    needed,
                });
            }
            work.prepare_cached(
                "INSERT INTO page_storage (account, app, name, value) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (account, app, name) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![account.as_str(), app.as_str(), name, value])?;
        } else {
            work.prepare_cached("DELETE FROM page_storage WHERE account = ?1 AND app = ?2 AND name = ?3")?
                .execute(params![account.as_str(), app.as_str(), name])?;
        }
        Ok(work.commit()?)
    }

    pub fn clear_page_storage(&self, account: &AccountId, app: &AppId) -> Result<()> {
        self.quick.lock().execute(
            "DELETE FROM page_storage WHERE account = ?1 AND app = ?2",
            params![account.as_str(), app.as_str()],
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> (tempfile::TempDir, Db, AccountId, AppId, PluginId) {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&folder.path().join("x.db")).unwrap().db;
        let account = AccountId::random();
        db.add_account(&account, "ann", "admin").unwrap();
        (
            folder,
            db,
            account,
            AppId::parse("app").unwrap(),
            PluginId::parse("p").unwrap(),
        )
    }

    #[test]
    fn the_quota_counts_bytes_and_refuses_whole() {
        let (_folder, db, account, app, plugin) = open();
        let put = |name: &str, value: &str| db.store_put(&account, &app, &plugin, name, value, 100);
        put("a", &"x".repeat(60)).unwrap();
        assert!(matches!(
            put("b", &"ä".repeat(25)),
            Err(DbError::Quota {
                used: 61,
                quota: 100,
                needed: 51
            })
        ));
        assert_eq!(db.store_get(&account, &app, &plugin, "b").unwrap(), None);
        put("a", "1").unwrap();
        put("b", &"ä".repeat(25)).unwrap();
        assert!(db.store_delete(&account, &app, &plugin, "b").unwrap());
        assert!(!db.store_delete(&account, &app, &plugin, "b").unwrap());
        put("c", &"x".repeat(90)).unwrap();
        assert_eq!(db.store_keys(&account, &app, &plugin, "", 10).unwrap(), ["a", "c"]);
        assert_eq!(db.store_keys(&account, &app, &plugin, "c", 10).unwrap(), ["c"]);
    }

    #[test]
    fn stores_of_two_plugins_do_not_meet() {
        let (_folder, db, account, app, plugin) = open();
        let other = PluginId::parse("q").unwrap();
        db.store_put(&account, &app, &plugin, "k", "1", STORE_QUOTA).unwrap();
        assert_eq!(db.store_get(&account, &app, &other, "k").unwrap(), None);
        db.forget_app(&account, &app).unwrap();
        assert_eq!(db.store_get(&account, &app, &plugin, "k").unwrap(), None);
    }

    #[test]
    fn page_items_over_the_quota_are_refused() {
        let (_folder, db, account, app, _) = open();
        db.put_page_item(&account, &app, "a", Some("1")).unwrap();
        let big = "x".repeat(PAGE_QUOTA as usize);
        assert!(matches!(
            db.put_page_item(&account, &app, "b", Some(&big)),
            Err(DbError::Quota { .. })
        ));
        assert_eq!(db.page_storage(&account, &app).unwrap().len(), 1);
    }
}
