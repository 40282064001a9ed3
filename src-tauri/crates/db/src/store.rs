use policy::{AccountId, AppId, PluginId};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde_json::Value;

use crate::{Db, DbError, Result};

/// Bytes of keys and JSON values one plugin may keep (contract section 3.4 counts characters; we count bytes).
pub const STORE_QUOTA: u64 = 1 << 20;
/// Bytes of keys and JSON values that one [`Db::store_scan`] gives at most, so that an answer fits into a message.
pub const SCAN_LIMIT: u64 = 8 << 20;

/// One part of a [`Db::store_batch`]. Parts see what the parts before them did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreOp {
    /// Nothing is written unless the value is this JSON, or absent where `None`.
    Check {
        key: String,
        expected: Option<String>,
    },
    Put {
        key: String,
        json: String,
    },
    /// A key that is not there is no error.
    Delete {
        key: String,
    },
}

/// One plugin's store inside a transaction, with its size before and after what was done.
struct Store<'a> {
    work: Transaction<'a>,
    ids: [&'a str; 3],
    before: u64,
    after: u64,
}

fn read(connection: &Connection, [account, app, plugin]: [&str; 3], key: &str) -> Result<Option<String>> {
    let mut statement = connection
        .prepare_cached("SELECT value FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4")?;
    Ok(statement
        .query_row(params![account, app, plugin, key], |row| row.get(0))
        .optional()?)
}

fn size(connection: &Connection, [account, app, plugin]: [&str; 3]) -> Result<u64> {
    let bytes: Option<i64> = connection
        .prepare_cached("SELECT bytes FROM store_size WHERE account = ?1 AND app = ?2 AND plugin = ?3")?
        .query_row([account, app, plugin], |row| row.get(0))
        .optional()?;
    Ok(bytes.unwrap_or(0) as u64)
}

impl<'a> Store<'a> {
    /// Immediate: what is read here stays true until [`Store::commit`].
    fn begin(connection: &'a mut Connection, ids: [&'a str; 3]) -> Result<Self> {
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let before = size(&work, ids)?;
        Ok(Self {
            work,
            ids,
            before,
            after: before,
        })
    }

    fn entry_size(&self, key: &str) -> Result<Option<u64>> {
        let [account, app, plugin] = self.ids;
        let bytes: Option<i64> = self
            .work
            .prepare_cached(
                "SELECT length(CAST(name AS BLOB)) + length(CAST(value AS BLOB)) FROM store
                 WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4",
            )?
            .query_row(params![account, app, plugin, key], |row| row.get(0))
            .optional()?;
        Ok(bytes.map(|b| b as u64))
    }

    fn put(&mut self, key: &str, json: &str) -> Result<()> {
        let [account, app, plugin] = self.ids;
        let old = self.entry_size(key)?.unwrap_or(0);
        self.work
            .prepare_cached(
                "INSERT INTO store (account, app, plugin, name, value) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (account, app, plugin, name) DO UPDATE SET value = excluded.value",
            )?
            .execute(params![account, app, plugin, key, json])?;
        self.after = self.after.saturating_sub(old) + (key.len() + json.len()) as u64;
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<bool> {
        let [account, app, plugin] = self.ids;
        let Some(old) = self.entry_size(key)? else {
            return Ok(false);
        };
        self.work
            .prepare_cached("DELETE FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name = ?4")?
            .execute(params![account, app, plugin, key])?;
        self.after = self.after.saturating_sub(old);
        Ok(true)
    }

    fn holds(&self, key: &str, expected: Option<&str>) -> Result<bool> {
        Ok(match (read(&self.work, self.ids, key)?, expected) {
            (None, None) => true,
            (Some(there), Some(expected)) => {
                there == expected || same(&serde_json::from_str(&there)?, &serde_json::from_str(expected)?)
            }
            _ => false,
        })
    }

    /// Commits, or refuses all of it when the store grew beyond `quota`. One that is too large already (the quota became
    /// smaller) may shrink.
    fn commit(self, quota: u64) -> Result<()> {
        if self.after > quota && self.after > self.before {
            return Err(DbError::Quota {
                used: self.before,
                quota,
                needed: self.after - self.before,
            });
        }
        let [account, app, plugin] = self.ids;
        self.work
            .prepare_cached(
                "INSERT INTO store_size (account, app, plugin, bytes) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (account, app, plugin) DO UPDATE SET bytes = excluded.bytes",
            )?
            .execute(params![account, app, plugin, self.after as i64])?;
        Ok(self.work.commit()?)
    }
}

/// Whether two JSON values are the same to JavaScript: the order of an object's keys is nothing, and 1 is 1.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || (x.is_f64() != y.is_f64() && x.as_f64() == y.as_f64()),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| same(x, y)))
        }
        _ => a == b,
    }
}

fn ids<'a>(account: &'a AccountId, app: &'a AppId, plugin: &'a PluginId) -> [&'a str; 3] {
    [account.as_str(), app.as_str(), plugin.as_str()]
}

impl Db {
    /// A plugin's value as JSON text.
    pub fn store_get(&self, account: &AccountId, app: &AppId, plugin: &PluginId, name: &str) -> Result<Option<String>> {
        read(&self.quick.lock(), ids(account, app, plugin), name)
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
        let mut store = Store::begin(&mut connection, ids(account, app, plugin))?;
        store.put(name, value)?;
        store.commit(quota)
    }

    /// Returns whether there was such a key.
    pub fn store_delete(&self, account: &AccountId, app: &AppId, plugin: &PluginId, name: &str) -> Result<bool> {
        let mut connection = self.quick.lock();
        let mut store = Store::begin(&mut connection, ids(account, app, plugin))?;
        let there = store.delete(name)?;
        if there {
            store.commit(u64::MAX)?;
        }
        Ok(there)
    }

    /// Writes `new` (JSON text; `None` deletes) if the value is `expected` (JSON text; `None`: absent), and returns whether
    /// it was. Compared as JSON values, so the order of keys and the spelling of numbers do not count. Nothing can come
    /// between comparing and writing. `expected` that is no JSON is [`DbError::Json`].
    #[expect(clippy::too_many_arguments, reason = "as store_put, and what is expected")]
    pub fn store_cas(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        key: &str,
        expected: Option<&str>,
        new: Option<&str>,
        quota: u64,
    ) -> Result<bool> {
        let mut connection = self.quick.lock();
        let mut store = Store::begin(&mut connection, ids(account, app, plugin))?;
        if !store.holds(key, expected)? {
            return Ok(false);
        }
        match new {
            Some(json) => store.put(key, json)?,
            None => drop(store.delete(key)?),
        }
        store.commit(quota)?;
        Ok(true)
    }

    /// Does all of `ops` in order or, when a [`StoreOp::Check`] does not hold (`false`) or the end would be over `quota`
    /// bytes (an error), none of them.
    pub fn store_batch(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        ops: &[StoreOp],
        quota: u64,
    ) -> Result<bool> {
        let mut connection = self.quick.lock();
        let mut store = Store::begin(&mut connection, ids(account, app, plugin))?;
        for op in ops {
            match op {
                StoreOp::Check { key, expected } => {
                    if !store.holds(key, expected.as_deref())? {
                        return Ok(false);
                    }
                }
                StoreOp::Put { key, json } => store.put(key, json)?,
                StoreOp::Delete { key } => drop(store.delete(key)?),
            }
        }
        store.commit(quota)?;
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
        let [account, app, plugin] = ids(account, app, plugin);
        let mut statement = connection.prepare_cached(
            "SELECT name FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3 AND name >= ?4 ORDER BY name",
        )?;
        let mut rows = statement.query(params![account, app, plugin, prefix])?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let name: String = row.get(0)?;
            // Keys with one prefix stand together in their order.
            if !name.starts_with(prefix) {
                break;
            }
            found.push(name);
        }
        Ok(found)
    }

    /// Keys that start with `prefix` and their values as JSON text, in the keys' order (by code points), from the first one
    /// behind `after` on. At most `limit`, and [`SCAN_LIMIT`] bytes unless the first alone is larger; so fewer than `limit`
    /// need not be the last ones: go on with the last key as `after` until nothing comes.
    pub fn store_scan(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, String)>> {
        let connection = self.quick.lock();
        let [account, app, plugin] = ids(account, app, plugin);
        let mut statement = connection.prepare_cached(
            "SELECT name, value FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3
             AND name >= ?4 AND (?5 IS NULL OR name > ?5) ORDER BY name",
        )?;
        let from = after.map_or(prefix, |after| after.max(prefix));
        let mut rows = statement.query(params![account, app, plugin, from, after])?;
        let (mut found, mut bytes) = (Vec::new(), 0);
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let (name, value): (String, String) = (row.get(0)?, row.get(1)?);
            bytes += (name.len() + value.len()) as u64;
            if !name.starts_with(prefix) || (bytes > SCAN_LIMIT && !found.is_empty()) {
                break;
            }
            found.push((name, value));
        }
        Ok(found)
    }

    /// All that a plugin keeps, as of one moment. As large as the quota it was written with.
    pub fn store_all(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<Vec<(String, String)>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT name, value FROM store WHERE account = ?1 AND app = ?2 AND plugin = ?3 ORDER BY name",
        )?;
        let rows = statement.query_map(ids(account, app, plugin), |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Bytes of keys and JSON values that a plugin keeps.
    pub fn store_size(&self, account: &AccountId, app: &AppId, plugin: &PluginId) -> Result<u64> {
        size(&self.quick.lock(), ids(account, app, plugin))
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
}
