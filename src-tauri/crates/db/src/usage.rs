//! What apps used on which day, and what they may use.

use policy::{AccountId, AppId};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use serde::{Deserialize, Serialize};

use crate::{Db, DbError, Result};

/// Days of use that are kept, the day of the last write among them.
pub const USAGE_DAYS: i64 = 60;

/// What one app used on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub model_calls: u64,
    /// Prompt and answer together.
    pub tokens: u64,
    /// Sent and received together.
    pub network_bytes: u64,
}

/// What an app may use. `None`: as much as it likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageLimits {
    /// Per day.
    pub model_calls: Option<u64>,
    /// Per day.
    pub tokens: Option<u64>,
    /// Per day.
    pub network_bytes: Option<u64>,
    /// In the app's data folder, at any time. Not counted here.
    pub disk_bytes: Option<u64>,
}

/// Nothing was added, because one limit would have been passed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{used} of {limit} {what} are used today and this needs more than is left")]
pub struct Exceeded {
    /// `model calls`, `tokens` or `network bytes`.
    pub what: &'static str,
    pub used: u64,
    pub limit: u64,
}

/// The day (UTC) of a time in milliseconds since the Unix epoch, counted from it.
pub fn utc_day(now_ms: i64) -> i64 {
    now_ms.div_euclid(24 * 60 * 60 * 1000)
}

impl Usage {
    fn each(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            model_calls: join(self.model_calls, other.model_calls),
            tokens: join(self.tokens, other.tokens),
            network_bytes: join(self.network_bytes, other.network_bytes),
        }
    }

    /// Whether `want` more is within `limits`. What is not wanted is not looked at, though it be used up.
    fn check(&self, want: &Self, limits: &UsageLimits) -> std::result::Result<(), Exceeded> {
        for (what, used, want, limit) in [
            ("model calls", self.model_calls, want.model_calls, limits.model_calls),
            ("tokens", self.tokens, want.tokens, limits.tokens),
            (
                "network bytes",
                self.network_bytes,
                want.network_bytes,
                limits.network_bytes,
            ),
        ] {
            if let Some(limit) = limit
                && want > 0
                && used.saturating_add(want) > limit
            {
                return Err(Exceeded { what, used, limit });
            }
        }
        Ok(())
    }
}

/// The row of one day, if there is one.
fn read(connection: &Connection, account: &AccountId, app: &AppId, day: i64) -> Result<Option<Usage>> {
    let mut statement = connection.prepare_cached(
        "SELECT model_calls, tokens, network_bytes FROM usage WHERE account = ?1 AND app = ?2 AND day = ?3",
    )?;
    Ok(statement
        .query_row(params![account.as_str(), app.as_str(), day], |row| {
            Ok(Usage {
                model_calls: row.get::<_, i64>(0)? as u64,
                tokens: row.get::<_, i64>(1)? as u64,
                network_bytes: row.get::<_, i64>(2)? as u64,
            })
        })
        .optional()?)
}

/// SQLite counts to `i64::MAX`; whoever used more has used that.
fn cell(count: u64) -> i64 {
    count.min(i64::MAX as u64) as i64
}

impl Db {
    /// What an app used on `day` (see [`utc_day`]).
    pub fn usage(&self, account: &AccountId, app: &AppId, day: i64) -> Result<Usage> {
        Ok(read(&self.quick.lock(), account, app, day)?.unwrap_or_default())
    }

    /// Adds what was used, whatever the limits.
    pub fn add_usage(&self, account: &AccountId, app: &AppId, day: i64, more: &Usage) -> Result<()> {
        self.change_usage(account, app, day, |used| Ok(used.each(more, u64::saturating_add)))
    }

    /// Takes back what was taken before it was known how much it would be, and then not used.
    pub fn return_usage(&self, account: &AccountId, app: &AppId, day: i64, less: &Usage) -> Result<()> {
        self.change_usage(account, app, day, |used| Ok(used.each(less, u64::saturating_sub)))
    }

    /// Adds `want` if each part of it is within its limit afterwards, else nothing ([`DbError::Exceeded`]). Checked and
    /// added at once, so calls side by side cannot pass a limit together. A part of 0 is not checked.
    pub fn take_usage(
        &self,
        account: &AccountId,
        app: &AppId,
        day: i64,
        want: &Usage,
        limits: &UsageLimits,
    ) -> Result<()> {
        self.change_usage(account, app, day, |used| {
            used.check(want, limits)?;
            Ok(used.each(want, u64::saturating_add))
        })
    }

    fn change_usage(
        &self,
        account: &AccountId,
        app: &AppId,
        day: i64,
        change: impl FnOnce(&Usage) -> std::result::Result<Usage, Exceeded>,
    ) -> Result<()> {
        let mut connection = self.quick.lock();
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let before = read(&work, account, app, day)?;
        let after = change(&before.unwrap_or_default()).map_err(DbError::Exceeded)?;
        if before.is_none() {
            work.execute("DELETE FROM usage WHERE day <= ?1", [day.saturating_sub(USAGE_DAYS)])?;
        }
        work.prepare_cached(
            "INSERT OR REPLACE INTO usage (account, app, day, model_calls, tokens, network_bytes)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            account.as_str(),
            app.as_str(),
            day,
            cell(after.model_calls),
            cell(after.tokens),
            cell(after.network_bytes)
        ])?;
        Ok(work.commit()?)
    }

    /// The limits a person set for an app; `None` when nobody did, and the configured ones count.
    pub fn budgets(&self, account: &AccountId, app: &AppId) -> Result<Option<UsageLimits>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT model_calls, tokens, network_bytes, disk_bytes FROM budgets WHERE account = ?1 AND app = ?2",
        )?;
        let count = |at: Option<i64>| at.map(|count| count as u64);
        Ok(statement
            .query_row(params![account.as_str(), app.as_str()], |row| {
                Ok(UsageLimits {
                    model_calls: count(row.get(0)?),
                    tokens: count(row.get(1)?),
                    network_bytes: count(row.get(2)?),
                    disk_bytes: count(row.get(3)?),
                })
            })
            .optional()?)
    }

    /// Sets an app's limits, or with `None` goes back to the configured ones.
    pub fn set_budgets(&self, account: &AccountId, app: &AppId, limits: Option<&UsageLimits>) -> Result<()> {
        let connection = self.careful.lock();
        match limits {
            Some(limits) => connection.execute(
                "INSERT OR REPLACE INTO budgets (account, app, model_calls, tokens, network_bytes, disk_bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![
                    account.as_str(),
                    app.as_str(),
                    limits.model_calls.map(cell),
                    limits.tokens.map(cell),
                    limits.network_bytes.map(cell),
                    limits.disk_bytes.map(cell)
                ],
            )?,
            None => connection.execute(
                "DELETE FROM budgets WHERE account = ?1 AND app = ?2",
                params![account.as_str(), app.as_str()],
            )?,
        };
        Ok(())
    }
}
