use policy::{AccountId, AppId};
use rusqlite::{Row, params};
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
        Ok(self
            .assets(account, None)?
            .into_iter()
            .find(|a| a.id == id)
            .expect("just written"))
    }

    /// Assets of an account; with `app`, only those that app stored.
    pub fn assets(&self, account: &AccountId, app: Option<&AppId>) -> Result<Vec<AssetRow>> {
        let connection = self.quick.lock();
        let own = "EXISTS (SELECT 1 FROM asset_apps y WHERE y.account = a.account AND y.asset = a.id AND y.app = ?2)";
        let sql = format!("{SELECT} WHERE a.account = ?1 AND (?2 IS NULL OR {own}) ORDER BY a.created_at DESC, a.id");
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params![account.as_str(), app.map(AppId::as_str)], read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Bytes all assets of an account take.
    pub fn asset_bytes(&self, account: &AccountId) -> Result<u64> {
        let total: i64 = self.quick.lock().query_row(
            "SELECT coalesce(sum(size), 0) FROM assets WHERE account = ?1",
            [account.as_str()],
            |row| row.get(0),
        )?;
        Ok(total as u64)
    }
}
