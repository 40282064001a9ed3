//! What one app may use in one day.

use std::collections::HashMap;
use std::sync::Arc;

use db::{Db, DbError, Usage, UsageLimits, now_ms, utc_day};
use files::GuestFolder;
use parking_lot::Mutex;
use policy::{AccountId, AppId};
use serde_json::{Value, json};

/// What is counted by the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spend {
    ModelCalls,
    Tokens,
    NetworkBytes,
}

impl Spend {
    fn of(self, amount: u64) -> Usage {
        let mut usage = Usage::default();
        match self {
            Self::ModelCalls => usage.model_calls = amount,
            Self::Tokens => usage.tokens = amount,
            Self::NetworkBytes => usage.network_bytes = amount,
        }
        usage
    }

    fn used(self, usage: &Usage) -> u64 {
        match self {
            Self::ModelCalls => usage.model_calls,
            Self::Tokens => usage.tokens,
            Self::NetworkBytes => usage.network_bytes,
        }
    }

    fn limit(self, limits: &UsageLimits) -> Option<u64> {
        match self {
            Self::ModelCalls => limits.model_calls,
            Self::Tokens => limits.tokens,
            Self::NetworkBytes => limits.network_bytes,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::ModelCalls => "model calls",
            Self::Tokens => "tokens",
            Self::NetworkBytes => "bytes sent and received",
        }
    }
}

/// The budgets of every app.
pub struct Budgets {
    db: Arc<Db>,
    limits: UsageLimits,
    /// One lock per app, by `account/app`, held from counting its folder to writing in it.
    gates: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl Budgets {
    /// `limits` count for every app that the person set no others for.
    pub fn new(db: Arc<Db>, limits: UsageLimits) -> Self {
        Self {
            db,
            limits,
            gates: Mutex::default(),
        }
    }

    /// The limits that count for an app.
    pub fn limits(&self, account: &AccountId, app: &AppId) -> Result<UsageLimits, DbError> {
        let own = self.db.budgets(account, app)?;
        Ok(own.unwrap_or(self.limits))
    }

    /// Takes `amount` from what is left of today, before it is spent; 0 asks whether anything is left. The error says
    /// what is used up, when it begins anew, and how the limit is raised; nothing was taken then. Atomic: calls side by
    /// side cannot pass a limit together.
    pub fn before(&self, account: &AccountId, app: &AppId, what: Spend, amount: u64) -> Result<(), String> {
        let limits = self.limits(account, app).map_err(|e| e.to_string())?;
        let day = today();
        let (used, limit) = if amount == 0 {
            let used = what.used(&self.db.usage(account, app, day).map_err(|e| e.to_string())?);
            match what.limit(&limits) {
                Some(limit) if used >= limit => (used, limit),
                _ => return Ok(()),
            }
        } else {
            match self.db.take_usage(account, app, day, &what.of(amount), &limits) {
                Ok(()) => return Ok(()),
                Err(DbError::Exceeded(exceeded)) => (exceeded.used, exceeded.limit),
                Err(error) => return Err(error.to_string()),
            }
        };
        Err(format!(
            "the app \"{app}\" has used {used} of its {limit} {} for today. The count begins anew at midnight UTC; the \
             person can raise the limit in the launcher under Plugins",
            what.word()
        ))
    }

    /// [`Budgets::before`] for what is taken bit by bit, such as bytes as they arrive.
    pub fn take(&self, account: &AccountId, app: &AppId, what: Spend, amount: u64) -> Result<(), String> {
        if amount == 0 {
            return Ok(());
        }
        self.before(account, app, what, amount)
    }

    /// Counts what was spent, whatever the limits: for what is known only afterwards.
    pub fn add(&self, account: &AccountId, app: &AppId, what: Spend, amount: u64) {
        if amount > 0
            && let Err(error) = self.db.add_usage(account, app, today(), &what.of(amount))
        {
            tracing::warn!(%app, %error, "what the app used could not be written down");
        }
    }

    /// Gives back what [`Budgets::before`] took and nobody used.
    pub(crate) fn give_back(&self, account: &AccountId, app: &AppId, what: Spend, amount: u64) {
        if amount > 0
            && let Err(error) = self.db.return_usage(account, app, today(), &what.of(amount))
        {
            tracing::warn!(%app, %error, "what the app did not use could not be given back");
        }
    }

    /// The lock that stands between counting an app's folder and writing in it.
    pub(crate) fn disk_gate(&self, account: &AccountId, app: &AppId) -> Arc<Mutex<()>> {
        let mut gates = self.gates.lock();
        // Those that nobody holds are dropped before the list grows long.
        if gates.len() >= 256 {
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        gates.entry(format!("{account}/{app}")).or_default().clone()
    }

    /// Whether the app's data folder, which holds `used` bytes, has room for `more`.
    pub fn disk(&self, account: &AccountId, app: &AppId, used: u64, more: u64) -> Result<(), String> {
        match self.limits(account, app).map_err(|e| e.to_string())?.disk_bytes {
            Some(limit) if used.saturating_add(more) > limit => Err(format!(
                "the app's data folder holds {used} bytes and may hold {limit}: {more} more do not fit. Remove files, or have \
                 the person raise the limit in the launcher under Plugins"
            )),
            _ => Ok(()),
        }
    }

    /// Use against limits, for the launcher: `{day, modelCalls, tokens, networkBytes, diskBytes}`, each
    /// `{used, limit|null}`. Blocks on the disk.
    pub fn shown(&self, account: &AccountId, app: &AppId, data: Option<&GuestFolder>) -> Value {
        let day = today();
        let used = self.db.usage(account, app, day).unwrap_or_default();
        let limits = self.limits(account, app).unwrap_or_default();
        let disk = data.and_then(|data| data.usage(u64::MAX).ok()).unwrap_or(0);
        let each = |used: u64, limit: Option<u64>| json!({"used": used, "limit": limit});
        json!({
            "day": date(day),
            "modelCalls": each(used.model_calls, limits.model_calls),
            "tokens": each(used.tokens, limits.tokens),
            "networkBytes": each(used.network_bytes, limits.network_bytes),
            "diskBytes": each(disk, limits.disk_bytes),
        })
    }
}

fn today() -> i64 {
    utc_day(now_ms())
}

/// `YYYY-MM-DD` of a day since the Unix epoch.
pub fn date(day: i64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The first day of the month that `day` is in, and that of the next month, both as days since the Unix epoch.
pub fn month(day: i64) -> (i64, i64) {
    let begin = |day: i64| day - civil(day).2 + 1;
    let first = begin(day);
    // A month has at most 31 days, and the one after it at least 28.
    (first, begin(first + 31))
}

/// Year, month and day of a day since the Unix epoch, by the proleptic Gregorian calendar (days are counted from
/// 0000-03-01, so that the leap day is the last of its year).
fn civil(day: i64) -> (i64, i64, i64) {
    let days = day + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (day, want) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (789, "1972-02-29"),
            (790, "1972-03-01"),
            (11_016, "2000-02-29"),
            (20_787, "2026-11-30"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
            (-1, "1969-12-31"),
        ] {
            assert_eq!(date(day), want);
        }
    }

    #[test]
    fn months_begin_and_end() {
        // Every day of 400 years, against a walk through the calendar.
        let (mut first, mut year, mut of_year) = (0, 1970, 0);
        let leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        while year < 2370 {
            let days = match of_year {
                1 if leap(year) => 29,
                1 => 28,
                3 | 5 | 8 | 10 => 30,
                _ => 31,
            };
            for day in first..first + days {
                assert_eq!(month(day), (first, first + days), "{}", date(day));
            }
            first += days;
            of_year = (of_year + 1) % 12;
            year += i64::from(of_year == 0);
        }
    }

    #[test]
    fn a_budget_is_asked_before_and_says_what_is_used_up() {
        let folder = tempfile::tempdir().unwrap();
        let db = Arc::new(Db::open(&folder.path().join("db")).unwrap().db);
        let account = AccountId::random();
        db.add_account(&account, "zoe", "admin").unwrap();
        let (app, other) = (AppId::parse("alpha").unwrap(), AppId::parse("beta").unwrap());
        let limits = UsageLimits {
            model_calls: Some(2),
            tokens: Some(100),
            network_bytes: Some(10),
            disk_bytes: Some(50),
        };
        let budgets = Budgets::new(db.clone(), limits);
        for _ in 0..2 {
            budgets.before(&account, &app, Spend::ModelCalls, 1).unwrap();
        }
        let why = budgets.before(&account, &app, Spend::ModelCalls, 1).unwrap_err();
        for part in ["\"alpha\"", "2 of its 2 model calls", "midnight UTC", "raise"] {
            assert!(why.contains(part), "{why}");
        }
        assert!(
            budgets.before(&account, &other, Spend::ModelCalls, 1).is_ok(),
            "another app"
        );

        assert!(budgets.before(&account, &app, Spend::Tokens, 0).is_ok());
        budgets.add(&account, &app, Spend::Tokens, 150);
        assert!(
            budgets.before(&account, &app, Spend::Tokens, 0).is_err(),
            "an overrun counts"
        );

        assert!(budgets.take(&account, &app, Spend::NetworkBytes, 11).is_err());
        assert!(
            budgets.take(&account, &app, Spend::NetworkBytes, 10).is_ok(),
            "a refusal takes nothing"
        );
        assert!(budgets.take(&account, &app, Spend::NetworkBytes, 0).is_ok());

        assert!(budgets.disk(&account, &app, 20, 30).is_ok());
        let why = budgets.disk(&account, &app, 20, 31).unwrap_err();
        assert!(why.contains("may hold 50"), "{why}");

        // The person's own limits stand in the place of the configured ones, also where they are wider.
        let own = UsageLimits {
            model_calls: Some(3),
            ..UsageLimits::default()
        };
        db.set_budgets(&account, &app, Some(&own)).unwrap();
        assert!(budgets.before(&account, &app, Spend::ModelCalls, 1).is_ok());
        assert!(budgets.before(&account, &app, Spend::ModelCalls, 1).is_err());
        assert!(budgets.before(&account, &app, Spend::Tokens, 0).is_ok());
        let shown = budgets.shown(&account, &app, None);
        assert_eq!(shown["modelCalls"], json!({"used": 3, "limit": 3}));
        assert_eq!(shown["tokens"], json!({"used": 150, "limit": null}));
    }
}
