use policy::AccountId;
use rusqlite::{OptionalExtension, Row, params};

use crate::{Db, DbError, Result, now_ms};

/// One person.
#[derive(Debug, Clone)]
pub struct AccountRow {
    pub id: AccountId,
    pub username: String,
    /// bcrypt hash; `None` until the HTTP door gave this account a password.
    pub password: Option<String>,
    pub role: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
}

/// A signed-in browser. Only the SHA-256 of its token is stored.
#[derive(Debug, Clone)]
pub struct SessionRow {
    pub account: AccountId,
    pub expires_at: i64,
}

fn account(row: &Row<'_>) -> rusqlite::Result<AccountRow> {
    let id: String = row.get(0)?;
    let id = AccountId::parse(&id)
        .map_err(|e| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(e)))?;
    Ok(AccountRow {
        id,
        username: row.get(1)?,
        password: row.get(2)?,
        role: row.get(3)?,
        created_at: row.get(4)?,
    })
}

const COLUMNS: &str = "id, username, password, role, created_at";

impl Db {
    /// Creates an account. Names are unique ignoring case.
    pub fn add_account(&self, id: &AccountId, username: &str, role: &str) -> Result<()> {
        self.careful
            .lock()
            .execute(
                "INSERT INTO accounts (id, username, username_key, role, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![id.as_str(), username, username.to_lowercase(), role, now_ms()],
            )
            .map_err(|e| name_taken(e, username))?;
        Ok(())
    }

    /// The account made on first start, or `None` in a new home.
    pub fn first_account(&self) -> Result<Option<AccountRow>> {
        let sql = format!("SELECT {COLUMNS} FROM accounts ORDER BY created_at, id LIMIT 1");
        Ok(self
            .quick
            .lock()
            .prepare_cached(&sql)?
            .query_row([], account)
            .optional()?)
    }

    /// The ids of all accounts.
    pub fn account_ids(&self) -> Result<Vec<AccountId>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached("SELECT id FROM accounts ORDER BY created_at, id")?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        let ids = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(ids.iter().filter_map(|id| AccountId::parse(id).ok()).collect())
    }

    pub fn account(&self, id: &AccountId) -> Result<Option<AccountRow>> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE id = ?1");
        Ok(self
            .quick
            .lock()
            .prepare_cached(&sql)?
            .query_row([id.as_str()], account)
            .optional()?)
    }

    /// Looks a name up ignoring case.
    pub fn account_by_name(&self, username: &str) -> Result<Option<AccountRow>> {
        let sql = format!("SELECT {COLUMNS} FROM accounts WHERE username_key = ?1");
        Ok(self
            .quick
            .lock()
            .prepare_cached(&sql)?
            .query_row([username.to_lowercase()], account)
            .optional()?)
    }

    pub fn usernames(&self) -> Result<Vec<String>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached("SELECT username FROM accounts ORDER BY username_key")?;
        let names = statement
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(names)
    }

    pub fn rename_account(&self, id: &AccountId, username: &str) -> Result<()> {
        self.careful
            .lock()
            .execute(
                "UPDATE accounts SET username = ?2, username_key = ?3 WHERE id = ?1",
                params![id.as_str(), username, username.to_lowercase()],
            )
            .map_err(|e| name_taken(e, username))?;
        Ok(())
    }

    /// Gives an account a name and its first password, unless it has one. Returns whether it did.
    pub fn set_first_password(&self, id: &AccountId, username: &str, hash: &str) -> Result<bool> {
        let changed = self
            .careful
            .lock()
            .execute(
                "UPDATE accounts SET username = ?2, username_key = ?3, password = ?4 WHERE id = ?1 AND password IS NULL",
                params![id.as_str(), username, username.to_lowercase(), hash],
            )
            .map_err(|e| name_taken(e, username))?;
        Ok(changed == 1)
    }

    /// Replaces a password and ends every session of the account except `keep` (a token hash).
    pub fn set_password(&self, id: &AccountId, hash: &str, keep: Option<&[u8]>) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction()?;
        work.execute(
            "UPDATE accounts SET password = ?2 WHERE id = ?1",
            params![id.as_str(), hash],
        )?;
        work.execute(
            "DELETE FROM sessions WHERE account = ?1 AND token_hash IS NOT ?2",
            params![id.as_str(), keep],
        )?;
        Ok(work.commit()?)
    }

    pub fn add_session(&self, token_hash: &[u8], account: &AccountId, lifetime_ms: i64) -> Result<()> {
        let now = now_ms();
        let connection = self.careful.lock();
        connection.execute("DELETE FROM sessions WHERE expires_at <= ?1", [now])?;
        connection.execute(
            "INSERT INTO sessions (token_hash, account, created_at, expires_at) VALUES (?1, ?2, ?3, ?4)",
            params![token_hash, account.as_str(), now, now + lifetime_ms],
        )?;
        Ok(())
    }

    /// A session that has not expired.
    pub fn session(&self, token_hash: &[u8]) -> Result<Option<SessionRow>> {
        let connection = self.quick.lock();
        let mut statement = connection
            .prepare_cached("SELECT account, expires_at FROM sessions WHERE token_hash = ?1 AND expires_at > ?2")?;
        let found = statement
            .query_row(params![token_hash, now_ms()], |row| {
                Ok((row.get::<_, String>(0)?, row.get(1)?))
            })
            .optional()?;
        Ok(found.and_then(|(account, expires_at)| {
            Some(SessionRow {
                account: AccountId::parse(&account).ok()?,
                expires_at,
            })
        }))
    }

    pub fn end_session(&self, token_hash: &[u8]) -> Result<()> {
        self.careful
            .lock()
            .execute("DELETE FROM sessions WHERE token_hash = ?1", [token_hash])?;
        Ok(())
    }
}

fn name_taken(error: rusqlite::Error, name: &str) -> DbError {
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) {
        DbError::NameTaken(name.to_owned())
    } else {
        DbError::Sql(error)
    }
}
