//! What a person set for single models, and which models an app may use.

use std::collections::HashMap;

use policy::{AccountId, AppId};
use rusqlite::{OptionalExtension, Row, params};
use serde_json::Value;

use crate::{Db, Result};

/// What a person set for one model, by its reference `connection/model`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelOverride {
    /// In tokens.
    pub context_window: Option<u64>,
    /// `{input, output, cacheRead, cacheWrite}` in US dollars per million tokens.
    pub price: Option<Value>,
}

fn read(row: &Row<'_>) -> rusqlite::Result<(String, ModelOverride)> {
    let price: Option<String> = row.get(2)?;
    let set = ModelOverride {
        context_window: row.get::<_, Option<i64>>(1)?.map(|tokens| tokens as u64),
        price: price.and_then(|text| serde_json::from_str(&text).ok()),
    };
    Ok((row.get(0)?, set))
}

impl Db {
    /// Everything set for models, by their references.
    pub fn model_overrides(&self, account: &AccountId) -> Result<HashMap<String, ModelOverride>> {
        let connection = self.quick.lock();
        let mut statement =
            connection.prepare_cached("SELECT ref, context_window, price FROM model_overrides WHERE account = ?1")?;
        let rows = statement
            .query_map([account.as_str()], read)?
            .collect::<rusqlite::Result<_>>()?;
        Ok(rows)
    }

    /// What is set for one model; empty where nothing is.
    pub fn model_override(&self, account: &AccountId, reference: &str) -> Result<ModelOverride> {
        let connection = self.quick.lock();
        let mut statement = connection
            .prepare_cached("SELECT ref, context_window, price FROM model_overrides WHERE account = ?1 AND ref = ?2")?;
        let found = statement
            .query_row(params![account.as_str(), reference], read)
            .optional()?;
        Ok(found.map(|(_, set)| set).unwrap_or_default())
    }

    /// Sets a model's context window, or with `None` leaves it to the server again.
    pub fn set_context_window(&self, account: &AccountId, reference: &str, tokens: Option<u64>) -> Result<()> {
        let tokens = tokens.map(|tokens| tokens.min(i64::MAX as u64) as i64);
        let sql = "INSERT INTO model_overrides (account, ref, context_window) VALUES (?1, ?2, ?3)
                   ON CONFLICT (account, ref) DO UPDATE SET context_window = excluded.context_window";
        self.override_model(sql, account, reference, tokens)
    }

    /// Sets a model's price, or with `None` leaves it to the server and the table again.
    pub fn set_price(&self, account: &AccountId, reference: &str, price: Option<&Value>) -> Result<()> {
        let sql = "INSERT INTO model_overrides (account, ref, price) VALUES (?1, ?2, ?3)
                   ON CONFLICT (account, ref) DO UPDATE SET price = excluded.price";
        self.override_model(sql, account, reference, price.map(Value::to_string))
    }

    fn override_model(
        &self,
        sql: &str,
        account: &AccountId,
        reference: &str,
        value: impl rusqlite::ToSql,
    ) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction()?;
        work.execute(sql, params![account.as_str(), reference, value])?;
        work.execute(
            "DELETE FROM model_overrides WHERE account = ?1 AND ref = ?2 AND context_window IS NULL AND price IS NULL",
            params![account.as_str(), reference],
        )?;
        Ok(work.commit()?)
    }

    /// The models an app may use, as references `connection/model` and ids of connections; `None`: all.
    pub fn model_access(&self, account: &AccountId, app: &AppId) -> Result<Option<Vec<String>>> {
        let connection = self.quick.lock();
        let text: Option<String> = connection
            .prepare_cached("SELECT models FROM model_access WHERE account = ?1 AND app = ?2")?
            .query_row(params![account.as_str(), app.as_str()], |row| row.get(0))
            .optional()?;
        Ok(text.map(|text| serde_json::from_str(&text)).transpose()?)
    }

    /// Sets what [`Db::model_access`] gives.
    pub fn set_model_access(&self, account: &AccountId, app: &AppId, models: Option<&[String]>) -> Result<()> {
        let connection = self.careful.lock();
        match models {
            Some(models) => connection.execute(
                "INSERT OR REPLACE INTO model_access (account, app, models) VALUES (?1, ?2, ?3)",
                params![account.as_str(), app.as_str(), serde_json::to_string(models)?],
            )?,
            None => connection.execute(
                "DELETE FROM model_access WHERE account = ?1 AND app = ?2",
                params![account.as_str(), app.as_str()],
            )?,
        };
        Ok(())
    }
}
