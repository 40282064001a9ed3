use policy::AccountId;
use rusqlite::{OptionalExtension, params};
use serde_json::{Map, Value};

use crate::{Db, Result};

impl Db {
    /// Every setting of an account, by name.
    pub fn settings(&self, account: &AccountId) -> Result<Map<String, Value>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached("SELECT name, value FROM settings WHERE account = ?1")?;
        let rows = statement.query_map([account.as_str()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })?;
        let mut found = Map::new();
        for row in rows {
            let (name, value) = row?;
            found.insert(name, serde_json::from_str(&value)?);
        }
        Ok(found)
    }

    pub fn setting(&self, account: &AccountId, name: &str) -> Result<Option<Value>> {
        let connection = self.quick.lock();
        let text: Option<String> = connection
            .prepare_cached("SELECT value FROM settings WHERE account = ?1 AND name = ?2")?
            .query_row(params![account.as_str(), name], |row| row.get(0))
            .optional()?;
        Ok(text.map(|t| serde_json::from_str(&t)).transpose()?)
    }

    /// Sets all of `values` or none.
    pub fn put_settings(&self, account: &AccountId, values: &Map<String, Value>) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction()?;
        for (name, value) in values {
            work.execute(
                "INSERT INTO settings (account, name, value) VALUES (?1, ?2, ?3)
                 ON CONFLICT (account, name) DO UPDATE SET value = excluded.value",
                params![account.as_str(), name, value.to_string()],
            )?;
        }
        Ok(work.commit()?)
    }
}
