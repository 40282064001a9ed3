use policy::AccountId;
use rusqlite::params;

use crate::{Db, Result, now_ms};

/// A speech server the person named. Its key, if any, is in the vault, never here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeechEndpointRow {
    pub id: String,
    pub name: String,
    pub base_url: String,
    /// What to ask it for, where a request names none.
    pub model: Option<String>,
    pub voice: Option<String>,
}

impl Db {
    /// The account's speech servers, oldest first.
    pub fn speech_endpoints(&self, account: &AccountId) -> Result<Vec<SpeechEndpointRow>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, name, base_url, model, voice FROM speech_endpoints WHERE account = ?1 ORDER BY created_at, id",
        )?;
        let rows = statement
            .query_map([account.as_str()], |row| {
                Ok(SpeechEndpointRow {
                    id: row.get(0)?,
                    name: row.get(1)?,
                    base_url: row.get(2)?,
                    model: row.get(3)?,
                    voice: row.get(4)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(rows)
    }

    /// Adds or replaces a speech server, keeping its place in the list.
    pub fn put_speech_endpoint(&self, account: &AccountId, row: &SpeechEndpointRow) -> Result<()> {
        self.careful.lock().execute(
            "INSERT INTO speech_endpoints (account, id, name, base_url, model, voice, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (account, id) DO UPDATE SET name = excluded.name, base_url = excluded.base_url,
               model = excluded.model, voice = excluded.voice",
            params![
                account.as_str(),
                row.id,
                row.name,
                row.base_url,
                row.model,
                row.voice,
                now_ms()
            ],
        )?;
        Ok(())
    }

    /// Returns whether there was one.
    pub fn delete_speech_endpoint(&self, account: &AccountId, id: &str) -> Result<bool> {
        let changed = self.careful.lock().execute(
            "DELETE FROM speech_endpoints WHERE account = ?1 AND id = ?2",
            params![account.as_str(), id],
        )?;
        Ok(changed > 0)
    }
}
