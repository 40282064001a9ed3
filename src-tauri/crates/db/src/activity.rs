use policy::{AccountId, AppId};
use rusqlite::{params, types::Value as Sql};
use serde::Serialize;

use crate::{Db, Result, now_ms};

/// What is known before the thing happens.
#[derive(Debug, Clone, Default)]
pub struct NewActivity {
    pub account: Option<AccountId>,
    /// `connection`, `refusal`, `model` or `error`.
    pub kind: &'static str,
    pub caller: String,
    pub chain: String,
    pub trace: String,
    pub app: Option<String>,
    /// A URL without query and user info, or a route.
    pub target: String,
    pub outcome: String,
    pub detail: Option<String>,
}

/// How something that was written down before it happened ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct ActivityEnd<'a> {
    pub outcome: &'a str,
    /// HTTP status, where there was one.
    pub status: Option<i64>,
    /// Bytes, or for a model request the prompt's tokens.
    pub sent: u64,
    /// Bytes.
    pub received: u64,
    pub ms: u64,
    /// Replaces the line's detail when given.
    pub detail: Option<&'a str>,
    /// Of a model request: the model that answered.
    pub model: Option<&'a str>,
    /// Of a model request: tokens of the prompt and of the answer, as the server counted them.
    pub tokens_in: Option<u64>,
    pub tokens_out: Option<u64>,
    /// Of a model request: US dollars, where the price is known.
    pub cost: Option<f64>,
}

/// One line of the activity log.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActivityEntry {
    pub id: i64,
    /// Milliseconds since the Unix epoch.
    pub at: i64,
    pub kind: String,
    pub caller: String,
    pub chain: String,
    pub trace: String,
    pub app: Option<String>,
    pub target: String,
    pub outcome: String,
    pub status: Option<i64>,
    pub bytes_sent: i64,
    pub bytes_received: i64,
    pub ms: Option<i64>,
    pub detail: Option<String>,
    pub model: Option<String>,
    pub tokens_in: Option<i64>,
    pub tokens_out: Option<i64>,
    /// US dollars.
    pub cost: Option<f64>,
}

/// Which lines are wanted: all that is given must hold.
#[derive(Debug, Clone, Default)]
pub struct ActivityFilter {
    /// Lines with a smaller id.
    pub before: Option<i64>,
    /// Lines of this time or later, in milliseconds since the Unix epoch.
    pub since: Option<i64>,
    pub app: Option<String>,
    pub kind: Option<String>,
    pub outcome: Option<String>,
    /// [`policy::Caller::label`] of the innermost caller.
    pub caller: Option<String>,
    /// All lines of one trace are one tree, by their chains.
    pub trace: Option<String>,
    /// At most this many, newest first.
    pub limit: usize,
}

/// Rows kept; older ones are dropped as new ones come, so that a flood of refusals cannot fill the disk.
const KEEP: i64 = 100_000;
/// Among this many of the newest lines are those that were open when a run ended.
const OPEN_AMONG: i64 = 10_000;

impl Db {
    /// Writes a line and returns its id.
    pub fn add_activity(&self, new: &NewActivity) -> Result<i64> {
        let connection = self.quick.lock();
        connection
            .prepare_cached(
                "INSERT INTO activity (at, account, kind, caller, chain, trace, app, target, outcome, detail)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![
                now_ms(),
                new.account.as_ref().map(AccountId::as_str),
                new.kind,
                new.caller,
                new.chain,
                new.trace,
                new.app,
                new.target,
                new.outcome,
                new.detail
            ])?;
        let id = connection.last_insert_rowid();
        if id % 1000 == 0 {
            connection.execute("DELETE FROM activity WHERE id <= ?1", [id - KEEP])?;
        }
        Ok(id)
    }

    /// Completes a line with how it ended.
    pub fn finish_activity(&self, id: i64, end: &ActivityEnd<'_>) -> Result<()> {
        self.quick
            .lock()
            .prepare_cached(
                "UPDATE activity SET outcome = ?2, status = ?3, bytes_sent = ?4, bytes_received = ?5, ms = ?6,
                   detail = coalesce(?7, detail), model = ?8, tokens_in = ?9, tokens_out = ?10, cost = ?11 WHERE id = ?1",
            )?
            .execute(params![
                id,
                end.outcome,
                end.status,
                end.sent as i64,
                end.received as i64,
                end.ms as i64,
                end.detail,
                end.model,
                end.tokens_in.map(|count| count as i64),
                end.tokens_out.map(|count| count as i64),
                end.cost
            ])?;
        Ok(())
    }

    /// Marks what an earlier run left open as `interrupted`: nobody will complete those lines. For the start, before
    /// this run writes any. Looks at the newest [`OPEN_AMONG`] lines only, to keep the start quick.
    pub fn close_activity(&self) -> Result<()> {
        self.quick.lock().execute(
            "UPDATE activity SET outcome = 'interrupted'
             WHERE id > (SELECT coalesce(max(id), 0) - ?1 FROM activity) AND outcome IN ('running', 'connecting')",
            [OPEN_AMONG],
        )?;
        Ok(())
    }

    /// Lines of one account (and those of nobody), newest first.
    pub fn activity(&self, account: &AccountId, filter: &ActivityFilter) -> Result<Vec<ActivityEntry>> {
        let mut sql = String::from(
            "SELECT id, at, kind, caller, chain, trace, app, target, outcome, status, bytes_sent, bytes_received, ms, detail,
               model, tokens_in, tokens_out, cost
             FROM activity WHERE (account = ?1 OR account IS NULL)",
        );
        let mut values = vec![Sql::from(account.as_str().to_owned())];
        let mut narrow = |clause: &str, value: Sql| {
            values.push(value);
            sql.push_str(&format!(" AND {clause} ?{}", values.len()));
        };
        if let Some(before) = filter.before {
            narrow("id <", before.into());
        }
        if let Some(since) = filter.since {
            narrow("at >=", since.into());
        }
        for (clause, value) in [
            ("app =", &filter.app),
            ("kind =", &filter.kind),
            ("outcome =", &filter.outcome),
            ("caller =", &filter.caller),
            ("trace =", &filter.trace),
        ] {
            if let Some(value) = value {
                narrow(clause, value.clone().into());
            }
        }
        sql.push_str(&format!(" ORDER BY id DESC LIMIT {}", filter.limit.min(1000)));
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| {
            Ok(ActivityEntry {
                id: row.get(0)?,
                at: row.get(1)?,
                kind: row.get(2)?,
                caller: row.get(3)?,
                chain: row.get(4)?,
                trace: row.get(5)?,
                app: row.get(6)?,
                target: row.get(7)?,
                outcome: row.get(8)?,
                status: row.get(9)?,
                bytes_sent: row.get(10)?,
                bytes_received: row.get(11)?,
                ms: row.get(12)?,
                detail: row.get(13)?,
                model: row.get(14)?,
                tokens_in: row.get(15)?,
                tokens_out: row.get(16)?,
                cost: row.get(17)?,
            })
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The last `limit` errors of one plugin, newest first. `plugin_label` is its [`policy::Caller::label`].
    pub fn activity_errors(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin_label: &str,
        limit: usize,
    ) -> Result<Vec<ActivityEntry>> {
        self.activity(
            account,
            &ActivityFilter {
                app: Some(app.to_string()),
                kind: Some("error".into()),
                caller: Some(plugin_label.to_owned()),
                limit,
                ..Default::default()
            },
        )
    }
}
