use policy::AccountId;
use rusqlite::{OptionalExtension, Row, params};
use serde_json::Value;

use crate::{Db, Result, now_ms};

/// A model server the person named. Its key is in the vault, never here.
#[derive(Debug, Clone)]
pub struct ConnectionRow {
    /// `c_<slug>-<6 hex>`.
    pub id: String,
    pub name: String,
    /// The wire format's name, such as `openai-completions`.
    pub api: String,
    pub base_url: String,
    /// `"auto"` or a list of model ids.
    pub models: Value,
    /// Which of the known services it was made as, if any.
    pub preset: Option<String>,
    /// For text completion: how messages become one text.
    pub prompt_format: Option<Value>,
}

const COLUMNS: &str = "id, name, api, base_url, models, preset, prompt_format";

fn read(row: &Row<'_>) -> rusqlite::Result<ConnectionRow> {
    let models: String = row.get(4)?;
    let format: Option<String> = row.get(6)?;
    Ok(ConnectionRow {
        id: row.get(0)?,
        name: row.get(1)?,
        api: row.get(2)?,
        base_url: row.get(3)?,
        models: serde_json::from_str(&models).unwrap_or_else(|_| Value::from("auto")),
        preset: row.get(5)?,
        prompt_format: format.and_then(|text| serde_json::from_str(&text).ok()),
    })
}

impl Db {
    pub fn connections(&self, account: &AccountId) -> Result<Vec<ConnectionRow>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM connections WHERE account = ?1 ORDER BY created_at, id"
        ))?;
        let rows = statement
            .query_map([account.as_str()], read)?
            .collect::<rusqlite::Result<_>>()?;
        Ok(rows)
    }

    pub fn connection(&self, account: &AccountId, id: &str) -> Result<Option<ConnectionRow>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM connections WHERE account = ?1 AND id = ?2"
        ))?;
        Ok(statement.query_row(params![account.as_str(), id], read).optional()?)
    }

    /// Adds or replaces a connection, keeping its place in the list.
    pub fn put_connection(&self, account: &AccountId, row: &ConnectionRow) -> Result<()> {
        self.careful.lock().execute(
            "INSERT INTO connections (account, id, name, api, base_url, models, preset, prompt_format, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
             ON CONFLICT (account, id) DO UPDATE SET name = excluded.name, api = excluded.api,
               base_url = excluded.base_url, models = excluded.models, preset = excluded.preset,
               prompt_format = excluded.prompt_format",
            params![
                account.as_str(),
                row.id,
                row.name,
                row.api,
                row.base_url,
                row.models.to_string(),
                row.preset,
                row.prompt_format.as_ref().map(Value::to_string),
                now_ms()
            ],
        )?;
        Ok(())
    }

    /// Removes a connection and what was set for its models. Returns whether there was one.
    pub fn delete_connection(&self, account: &AccountId, id: &str) -> Result<bool> {
        let mut connection = self.careful.lock();
        let work = connection.transaction()?;
        let changed = work.execute(
            "DELETE FROM connections WHERE account = ?1 AND id = ?2",
            params![account.as_str(), id],
        )?;
        let models = format!("{id}/");
        work.execute(
            "DELETE FROM model_overrides WHERE account = ?1 AND substr(ref, 1, length(?2)) = ?2",
            params![account.as_str(), models],
        )?;
        work.commit()?;
        Ok(changed > 0)
    }
}
