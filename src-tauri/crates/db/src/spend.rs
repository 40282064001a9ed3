//! What model requests cost on which day, by app, and the limits a person set for that.

use policy::{AccountId, AppId};
use rusqlite::{Connection, Row, TransactionBehavior, params};

use crate::{Db, Result};

/// Days of spending that are kept, the day of the last write among them: thirteen months and a little.
pub const SPEND_DAYS: i64 = 400;

/// How the launcher itself stands in the table.
const LAUNCHER: &str = "";
/// How apps stand in it that were removed.
pub(crate) const REMOVED: &str = "*";

/// What was spent. Counts are added up without ever wrapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Calls whose cost is in `cost_micros`.
    pub priced_calls: u64,
    /// Calls nobody knew a price for.
    pub unpriced_calls: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub images: u64,
    /// Milliseconds of speech.
    pub speech_ms: u64,
    /// Millionths of a US dollar.
    pub cost_micros: u64,
}

/// Who spent it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spender {
    /// The person in the launcher.
    Launcher,
    App(AppId),
    /// All apps that were removed, together.
    Removed,
}

impl Spender {
    fn word(&self) -> &str {
        match self {
            Self::Launcher => LAUNCHER,
            Self::App(app) => app.as_str(),
            Self::Removed => REMOVED,
        }
    }

    fn read(word: &str) -> Self {
        match word {
            LAUNCHER => Self::Launcher,
            word => app(word).map_or(Self::Removed, Self::App),
        }
    }
}

/// The app of a row, if it is one's: also the shelf, which [`AppId::parse`] refuses.
fn app(word: &str) -> Option<AppId> {
    let shelf = AppId::shelf();
    if word == shelf.as_str() {
        return Some(shelf);
    }
    AppId::parse(word).ok()
}

/// What a limit is counted over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    Day,
    Month,
}

impl Span {
    fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

/// Limits of one span. `None`: as much as one likes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpendLimits {
    /// Millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// Prompt and answer together.
    pub tokens: Option<u64>,
    pub images: Option<u64>,
    /// Milliseconds of speech.
    pub speech_ms: Option<u64>,
}

/// Limits of one span for one app, or with no app over all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpendLimitRow {
    pub app: Option<AppId>,
    pub span: Span,
    pub limits: SpendLimits,
}

impl Spent {
    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            priced_calls: self.priced_calls.saturating_add(other.priced_calls),
            unpriced_calls: self.unpriced_calls.saturating_add(other.unpriced_calls),
            tokens_in: self.tokens_in.saturating_add(other.tokens_in),
            tokens_out: self.tokens_out.saturating_add(other.tokens_out),
            images: self.images.saturating_add(other.images),
            speech_ms: self.speech_ms.saturating_add(other.speech_ms),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
        }
    }
}

const COUNTS: &str = "priced_calls, unpriced_calls, tokens_in, tokens_out, images, speech_ms, cost_micros";

/// Reads [`COUNTS`] from column `at` on.
fn counts(row: &Row<'_>, at: usize) -> rusqlite::Result<Spent> {
    let count = |offset: usize| row.get::<_, i64>(at + offset).map(|count| count as u64);
    Ok(Spent {
        priced_calls: count(0)?,
        unpriced_calls: count(1)?,
        tokens_in: count(2)?,
        tokens_out: count(3)?,
        images: count(4)?,
        speech_ms: count(5)?,
        cost_micros: count(6)?,
    })
}

/// No cell ever holds more than this, so that sums of a year of many apps cannot pass what SQLite counts to.
const CELL: u64 = 1 << 52;

fn cell(count: u64) -> i64 {
    count.min(CELL) as i64
}

fn add(connection: &Connection, account: &AccountId, app: &str, day: i64, more: &Spent) -> Result<()> {
    connection
        .prepare_cached(&format!(
            "INSERT INTO spend (account, app, day, {COUNTS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT (account, day, app) DO UPDATE SET
               priced_calls = min(priced_calls + excluded.priced_calls, ?11),
               unpriced_calls = min(unpriced_calls + excluded.unpriced_calls, ?11),
               tokens_in = min(tokens_in + excluded.tokens_in, ?11),
               tokens_out = min(tokens_out + excluded.tokens_out, ?11),
               images = min(images + excluded.images, ?11),
               speech_ms = min(speech_ms + excluded.speech_ms, ?11),
               cost_micros = min(cost_micros + excluded.cost_micros, ?11)"
        ))?
        .execute(params![
            account.as_str(),
            app,
            day,
            cell(more.priced_calls),
            cell(more.unpriced_calls),
            cell(more.tokens_in),
            cell(more.tokens_out),
            cell(more.images),
            cell(more.speech_ms),
            cell(more.cost_micros),
            CELL as i64
        ])?;
    Ok(())
}

/// What a removed app spent stays in the sums over all.
pub(crate) fn forget_app(connection: &Connection, account: &AccountId, app: &AppId) -> Result<()> {
    let mut statement = connection.prepare_cached(&format!(
        "SELECT day, {COUNTS} FROM spend WHERE account = ?1 AND app = ?2"
    ))?;
    let rows: Vec<(i64, Spent)> = statement
        .query_map(params![account.as_str(), app.as_str()], |row| {
            Ok((row.get(0)?, counts(row, 1)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (day, spent) in rows {
        add(connection, account, REMOVED, day, &spent)?;
    }
    connection.execute(
        "DELETE FROM spend WHERE account = ?1 AND app = ?2",
        params![account.as_str(), app.as_str()],
    )?;
    Ok(())
}

impl Db {
    /// Adds what was spent on `day` (see [`crate::utc_day`]), whatever the limits.
    pub fn add_spend(&self, account: &AccountId, by: &Spender, day: i64, more: &Spent) -> Result<()> {
        let mut connection = self.quick.lock();
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        add(&work, account, by.word(), day, more)?;
        work.prepare_cached("DELETE FROM spend WHERE account = ?1 AND day <= ?2")?
            .execute(params![account.as_str(), day.saturating_sub(SPEND_DAYS)])?;
        Ok(work.commit()?)
    }

    /// What was spent from day `from` to day `to`, both among them, by one spender or with `None` by all together, on each
    /// day something was, oldest first.
    pub fn spend_days(
        &self,
        account: &AccountId,
        by: Option<&Spender>,
        from: i64,
        to: i64,
    ) -> Result<Vec<(i64, Spent)>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT day, {COUNTS} FROM spend
             WHERE account = ?1 AND day BETWEEN ?2 AND ?3 AND (?4 IS NULL OR app = ?4) ORDER BY day"
        ))?;
        let rows = statement.query_map(params![account.as_str(), from, to, by.map(Spender::word)], |row| {
            Ok((row.get::<_, i64>(0)?, counts(row, 1)?))
        })?;
        let mut days: Vec<(i64, Spent)> = Vec::new();
        for row in rows {
            let (day, spent) = row?;
            match days.last_mut() {
                Some((last, sum)) if *last == day => *sum = sum.plus(&spent),
                _ => days.push((day, spent)),
            }
        }
        Ok(days)
    }

    /// The sum of [`Db::spend_days`].
    pub fn spent(&self, account: &AccountId, by: Option<&Spender>, from: i64, to: i64) -> Result<Spent> {
        let days = self.spend_days(account, by, from, to)?;
        Ok(days.iter().fold(Spent::default(), |sum, (_, spent)| sum.plus(spent)))
    }

    /// Who spent how much from day `from` to day `to`, both among them.
    pub fn spenders(&self, account: &AccountId, from: i64, to: i64) -> Result<Vec<(Spender, Spent)>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT app, {COUNTS} FROM spend WHERE account = ?1 AND day BETWEEN ?2 AND ?3 ORDER BY app"
        ))?;
        let rows = statement.query_map(params![account.as_str(), from, to], |row| {
            Ok((row.get::<_, String>(0)?, counts(row, 1)?))
        })?;
        let mut sums: Vec<(Spender, Spent)> = Vec::new();
        for row in rows {
            let (word, spent) = row?;
            let by = Spender::read(&word);
            match sums.last_mut() {
                Some((last, sum)) if *last == by => *sum = sum.plus(&spent),
                _ => sums.push((by, spent)),
            }
        }
        Ok(sums)
    }

    /// Every limit that is set.
    pub fn spend_limits(&self, account: &AccountId) -> Result<Vec<SpendLimitRow>> {
        let connection = self.quick.lock();
        let mut statement = connection.prepare_cached(
            "SELECT app, span, cost_micros, tokens, images, speech_ms FROM spend_limits WHERE account = ?1
             ORDER BY app, span",
        )?;
        let rows = statement.query_map([account.as_str()], |row| {
            let count = |at: usize| {
                row.get::<_, Option<i64>>(at)
                    .map(|count| count.map(|count| count as u64))
            };
            let limits = SpendLimits {
                cost_micros: count(2)?,
                tokens: count(3)?,
                images: count(4)?,
                speech_ms: count(5)?,
            };
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, limits))
        })?;
        let mut found = Vec::new();
        for row in rows {
            let (app, span, limits) = row?;
            let span = if span == Span::Day.word() {
                Span::Day
            } else {
                Span::Month
            };
            let app = self::app(&app);
            found.push(SpendLimitRow { app, span, limits });
        }
        Ok(found)
    }

    /// Sets all of these limits or none; one without any number is no limit. Those not named stay.
    pub fn put_spend_limits(&self, account: &AccountId, rows: &[SpendLimitRow]) -> Result<()> {
        let mut connection = self.careful.lock();
        let work = connection.transaction()?;
        for SpendLimitRow { app, span, limits } in rows {
            let app = app.as_ref().map_or("", AppId::as_str);
            if *limits == SpendLimits::default() {
                work.execute(
                    "DELETE FROM spend_limits WHERE account = ?1 AND app = ?2 AND span = ?3",
                    params![account.as_str(), app, span.word()],
                )?;
                continue;
            }
            work.execute(
                "INSERT OR REPLACE INTO spend_limits (account, app, span, cost_micros, tokens, images, speech_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    account.as_str(),
                    app,
                    span.word(),
                    limits.cost_micros.map(cell),
                    limits.tokens.map(cell),
                    limits.images.map(cell),
                    limits.speech_ms.map(cell)
                ],
            )?;
        }
        Ok(work.commit()?)
    }
}
