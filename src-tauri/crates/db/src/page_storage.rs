use policy::{AccountId, AppId};
use rusqlite::params;
use serde_json::{Map, Value};

use crate::{Db, DbError, Result};

/// Bytes of names and values one app's pages may keep in `localStorage` (contract section 5.1), counted in UTF-8 here and
/// in UTF-16 by the page, whichever is hit first.
pub const PAGE_QUOTA: u64 = 2 << 20;

impl Db {
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

    #[test]
    fn page_items_over_the_quota_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&folder.path().join("x.db")).unwrap().db;
        let (account, app) = (AccountId::random(), AppId::parse("app").unwrap());
        db.add_account(&account, "ann", "admin").unwrap();
        db.put_page_item(&account, &app, "a", Some("1")).unwrap();
        let big = "x".repeat(PAGE_QUOTA as usize);
        assert!(matches!(
            db.put_page_item(&account, &app, "b", Some(&big)),
            Err(DbError::Quota { .. })
        ));
        assert_eq!(db.page_storage(&account, &app).unwrap().len(), 1);
    }
}
