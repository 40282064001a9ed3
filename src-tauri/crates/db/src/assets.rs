use policy::{AccountId, AppId};
use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;

use crate::{Db, Result, now_ms};

/// A stored picture, sound or file, named by the SHA-256 of its bytes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AssetRow {
    pub id: String,
    pub mime: String,
    pub name: String,
    pub size: i64,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Apps that stored it; others do not see it.
    pub apps: Vec<String>,
}

fn read(row: &Row<'_>) -> rusqlite::Result<AssetRow> {
    let apps: Option<String> = row.get(5)?;
    Ok(AssetRow {
        id: row.get(0)?,
        mime: row.get(1)?,
        name: row.get(2)?,
        size: row.get(3)?,
        created_at: row.get(4)?,
        apps: apps
            .map(|a| a.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    })
}

const SELECT: &str = "SELECT a.id, a.mime, a.name, a.size, a.created_at,
  (SELECT group_concat(app) FROM asset_apps x WHERE x.account = a.account AND x.asset = a.id) FROM assets a";
/// Whether the app `?2` stored the asset.
const STORED_BY: &str =
    "EXISTS (SELECT 1 FROM asset_apps y WHERE y.account = a.account AND y.asset = a.id AND y.app = ?2)";

impl Db {
    /// Records an asset; the first writer's name and type stay. `app` gains sight of it.
    pub fn add_asset(
        &self,
        account: &AccountId,
        app: Option<&AppId>,
        id: &str,
        mime: &str,
        name: &str,
        size: u64,
    ) -> Result<AssetRow> {
        {
            let mut connection = self.careful.lock();
            let work = connection.transaction()?;
            work.execute(
                "INSERT OR IGNORE INTO assets (account, id, mime, name, size, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![account.as_str(), id, mime, name, size as i64, now_ms()],
            )?;
            if let Some(app) = app {
                work.execute(
                    "INSERT OR IGNORE INTO asset_apps (account, asset, app) VALUES (?1, ?2, ?3)",
                    params![account.as_str(), id, app.as_str()],
                )?;
            }
            work.commit()?;
        }
        Ok(self.asset(account, None, id)?.expect("just written"))
    }

    /// One asset by its id; with `app`, only if that app stored it.
    pub fn asset(&self, account: &AccountId, app: Option<&AppId>, id: &str) -> Result<Option<AssetRow>> {
        let connection = self.quick.lock();
        let sql = format!("{SELECT} WHERE a.account = ?1 AND (?2 IS NULL OR {STORED_BY}) AND a.id = ?3");
        let mut statement = connection.prepare_cached(&sql)?;
        let app = app.map(AppId::as_str);
        Ok(statement
            .query_row(params![account.as_str(), app, id], read)
            .optional()?)
    }

    /// Assets of an account; with `app`, only those that app stored.
    pub fn assets(&self, account: &AccountId, app: Option<&AppId>) -> Result<Vec<AssetRow>> {
        let connection = self.quick.lock();
        let sql =
            format!("{SELECT} WHERE a.account = ?1 AND (?2 IS NULL OR {STORED_BY}) ORDER BY a.created_at DESC, a.id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params![account.as_str(), app.map(AppId::as_str)], read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// How many assets an account has, and the bytes they take together.
    pub fn asset_totals(&self, account: &AccountId) -> Result<(usize, u64)> {
        let (count, bytes): (i64, i64) = self.quick.lock().query_row(
            "SELECT count(*), coalesce(sum(size), 0) FROM assets WHERE account = ?1",
            [account.as_str()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        Ok((count as usize, bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_finds_what_it_stored_by_id_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(&folder.path().join("x.db")).unwrap().db;
        let account = AccountId::random();
        db.add_account(&account, "ann", "admin").unwrap();
        let (a, b) = (AppId::parse("a").unwrap(), AppId::parse("b").unwrap());
        assert_eq!(
            db.add_asset(&account, Some(&a), "1", "image/png", "one", 5)
                .unwrap()
                .apps,
            ["a"]
        );
        db.add_asset(&account, None, "2", "image/png", "two", 7).unwrap();
        let found = |app, id| db.asset(&account, app, id).unwrap().map(|row| row.name);
        assert_eq!(found(Some(&a), "1").as_deref(), Some("one"));
        assert_eq!(found(Some(&b), "1"), None);
        assert_eq!(found(Some(&a), "2"), None);
        assert_eq!(found(None, "2").as_deref(), Some("two"));
        assert_eq!(found(None, "3"), None);
        assert_eq!(db.asset_totals(&account).unwrap(), (2, 12));
    }
}
