//! What models cost, and the limits for it.

use std::collections::BTreeMap;

use apps::budget::{date, month};
use axum::Json;
use axum::extract::State;
use db::{Span, SpendLimitRow, SpendLimits, Spender, Spent, now_ms, utc_day};
use policy::{AccountId, AppId, Callers, Condition};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::app_or_shelf;
use crate::door::{Asked, Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let (person, always) = (Callers::PERSON, Condition::Always);
    table
        .route("GET", "/v1/spend", person, always, spend)
        .route("GET", "/v1/spend/limits", person, always, limits)
        .route("PUT", "/v1/spend/limits", person, always, put_limits)
}

/// Days shown unless asked otherwise.
const DAYS: i64 = 30;
/// Most dollars of a limit.
const MOST_USD: f64 = 1e6;
/// Most seconds of speech of a limit: 31 years.
const MOST_SECONDS: f64 = 1e9;
/// Most tokens or images of a limit.
const MOST_COUNT: u64 = 1 << 50;
/// Apps that one request sets limits for.
const MOST_APPS: usize = 1000;

#[derive(Deserialize)]
struct Wanted {
    days: Option<i64>,
    app: Option<String>,
}

fn shown(spent: &Spent) -> Map<String, Value> {
    let Value::Object(fields) = json!({
        "cost": spent.cost_micros as f64 / 1e6,
        "pricedCalls": spent.priced_calls,
        "unpricedCalls": spent.unpriced_calls,
        "calls": spent.priced_calls.saturating_add(spent.unpriced_calls),
        "tokensIn": spent.tokens_in,
        "tokensOut": spent.tokens_out,
        "images": spent.images,
        "speechSeconds": spent.speech_ms as f64 / 1000.0,
    }) else {
        return Map::new();
    };
    fields
}

/// [`shown`] with a field in front.
fn named(name: &str, value: Value, spent: &Spent) -> Value {
    let mut fields = Map::new();
    fields.insert(name.to_owned(), value);
    fields.extend(shown(spent));
    Value::Object(fields)
}

async fn spend(State(engine): State<Engine>, person: Person, Asked(wanted): Asked<Wanted>) -> Answer<Json<Value>> {
    let by = match wanted.app.as_deref().filter(|app| !app.is_empty()) {
        Some(app) => Some(Spender::App(app_or_shelf(app)?)),
        None => None,
    };
    let count = wanted.days.unwrap_or(DAYS).clamp(1, db::SPEND_DAYS);
    let (db, account) = (engine.db().clone(), person.account);
    let answer = blocking(move || -> Answer<Value> {
        let today = utc_day(now_ms());
        let (first, _) = month(today);
        let from = today - count + 1;
        let found: BTreeMap<i64, Spent> = db.spend_days(&account, by.as_ref(), from, today)?.into_iter().collect();
        let on = |day: i64| found.get(&day).copied().unwrap_or_default();
        let days = (from..=today).map(|day| named("day", date(day).into(), &on(day)));
        let mut spenders = db.spenders(&account, first, today)?;
        spenders.sort_by_key(|(_, spent)| std::cmp::Reverse((spent.cost_micros, spent.unpriced_calls)));
        let apps = spenders.iter().map(|(by, spent)| {
            let app = match by {
                Spender::App(app) => json!(app.as_str()),
                Spender::Launcher | Spender::Removed => Value::Null,
            };
            let mut one = named("app", app, spent);
            if *by == Spender::Removed {
                one["removed"] = true.into();
            }
            one
        });
        Ok(json!({
            "currency": "USD",
            "today": shown(&on(today)),
            "month": shown(&db.spent(&account, by.as_ref(), first, today)?),
            "days": days.collect::<Vec<_>>(),
            "apps": apps.collect::<Vec<_>>(),
            // When the table of prices that ships was written.
            "pricesStated": providers::prices_stated(),
        }))
    })
    .await?;
    Ok(Json(answer))
}

fn limits_shown(limits: &SpendLimits) -> Value {
    json!({
        "usd": limits.cost_micros.map(|micros| micros as f64 / 1e6),
        "tokens": limits.tokens,
        "images": limits.images,
        "speechSeconds": limits.speech_ms.map(|ms| ms as f64 / 1000.0),
    })
}

/// `{all: {day, month}, apps: {<app>: {day, month}}}`; only apps with a limit are in it.
fn all_limits(engine: &Engine, account: &AccountId) -> Answer<Value> {
    let none = || json!({"day": limits_shown(&SpendLimits::default()), "month": limits_shown(&SpendLimits::default())});
    let (mut all, mut apps) = (none(), Map::new());
    for row in engine.db().spend_limits(account)? {
        let of = match &row.app {
            Some(app) => apps.entry(app.to_string()).or_insert_with(none),
            None => &mut all,
        };
        of[word(row.span)] = limits_shown(&row.limits);
    }
    Ok(json!({"all": all, "apps": apps}))
}

fn word(span: Span) -> &'static str {
    match span {
        Span::Day => "day",
        Span::Month => "month",
    }
}

async fn limits(State(engine): State<Engine>, person: Person) -> Answer<Json<Value>> {
    Ok(Json(all_limits(&engine, &person.account)?))
}

/// What a request says: of what it does not name nothing changes; `null` takes a limit, or all below it, away.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsGiven {
    #[serde(default, deserialize_with = "there")]
    all: Option<Value>,
    #[serde(default)]
    apps: Map<String, Value>,
}

fn there<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

async fn put_limits(
    State(engine): State<Engine>,
    person: Person,
    Given(given): Given<LimitsGiven>,
) -> Answer<Json<Value>> {
    if given.apps.len() > MOST_APPS {
        return Err(ApiError::bad(format!("At most {MOST_APPS} apps at once.")));
    }
    let answer = blocking(move || -> Answer<Value> {
        let mut known: BTreeMap<(Option<AppId>, Span), SpendLimits> = BTreeMap::new();
        for row in engine.db().spend_limits(&person.account)? {
            known.insert((row.app, row.span), row.limits);
        }
        let mut rows = Vec::new();
        let mut change = |app: Option<AppId>, given: &Value, at: &str| -> Answer<()> {
            for span in [Span::Day, Span::Month] {
                let before = known.get(&(app.clone(), span)).copied().unwrap_or_default();
                let limits = spans(given, span, before, at)?;
                rows.push(SpendLimitRow {
                    app: app.clone(),
                    span,
                    limits,
                });
            }
            Ok(())
        };
        if let Some(all) = &given.all {
            change(None, all, "all")?;
        }
        for (app, given) in &given.apps {
            let id = app_or_shelf(app)?;
            // A limit may outlive its app only by being taken away.
            if !id.is_shelf() && !given.is_null() {
                let folder = engine.workspace(&person.account)?.app_folder(&id);
                folder.map_err(|_| ApiError::missing(format!("There is no app \"{id}\".")))?;
            }
            change(Some(id), given, app)?;
        }
        engine.db().put_spend_limits(&person.account, &rows)?;
        all_limits(&engine, &person.account)
    })
    .await?;
    Ok(Json(answer))
}

/// The limits of one span, as `given` (`{day?, month?}`) changes them.
fn spans(given: &Value, span: Span, before: SpendLimits, at: &str) -> Answer<SpendLimits> {
    let fields = match given {
        Value::Null => return Ok(SpendLimits::default()),
        Value::Object(fields) => fields,
        _ => {
            return Err(ApiError::bad(format!(
                "Limits of \"{at}\" are {{day?, month?}}, or null for none."
            )));
        }
    };
    if let Some(other) = fields.keys().find(|name| !matches!(name.as_str(), "day" | "month")) {
        let other: String = other.chars().take(80).collect();
        return Err(ApiError::bad(format!(
            "Limits of \"{at}\" are for a day or a month; there is no \"{other}\"."
        )));
    }
    match fields.get(word(span)) {
        None => Ok(before),
        Some(Value::Null) => Ok(SpendLimits::default()),
        Some(Value::Object(given)) => numbers(given, before),
        Some(_) => Err(ApiError::bad(
            "A limit is {usd?, tokens?, images?, speechSeconds?}, each a number or null.",
        )),
    }
}

fn numbers(given: &Map<String, Value>, mut limits: SpendLimits) -> Answer<SpendLimits> {
    for (name, value) in given {
        let decimal = |most: f64| -> Answer<Option<f64>> {
            match value {
                Value::Null => Ok(None),
                value => match value.as_f64().filter(|number| (0.0..=most).contains(number)) {
                    Some(number) => Ok(Some(number)),
                    None => Err(ApiError::bad(format!(
                        "\"{name}\" must be a number from 0 to {most}, or null for no limit."
                    ))),
                },
            }
        };
        let whole = || -> Answer<Option<u64>> {
            match value {
                Value::Null => Ok(None),
                value => match value.as_u64().filter(|number| *number <= MOST_COUNT) {
                    Some(number) => Ok(Some(number)),
                    None => Err(ApiError::bad(format!(
                        "\"{name}\" must be a whole number of at least 0, or null for no limit."
                    ))),
                },
            }
        };
        match name.as_str() {
            "usd" => limits.cost_micros = decimal(MOST_USD)?.map(|usd| (usd * 1e6).round() as u64),
            "tokens" => limits.tokens = whole()?,
            "images" => limits.images = whole()?,
            "speechSeconds" => limits.speech_ms = decimal(MOST_SECONDS)?.map(|s| (s * 1000.0).round() as u64),
            other => {
                let other: String = other.chars().take(80).collect();
                return Err(ApiError::bad(format!(
                    "There is no limit \"{other}\": there are usd, tokens, images and speechSeconds."
                )));
            }
        }
    }
    Ok(limits)
}
