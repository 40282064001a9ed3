//! What went out, what was refused, and who caused it.

use axum::Json;
use axum::extract::State;
use db::ActivityFilter;
use policy::{Callers, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;
use crate::door::{Asked, Person, Table};
use crate::error::Answer;

pub fn routes(table: Table) -> Table {
    table.route("GET", "/v1/activity", Callers::PERSON, Condition::Always, list)
}

#[derive(Deserialize)]
struct Wanted {
    before: Option<i64>,
    since: Option<i64>,
    limit: Option<usize>,
    app: Option<String>,
    kind: Option<String>,
    outcome: Option<String>,
    caller: Option<String>,
    trace: Option<String>,
}

async fn list(State(engine): State<Engine>, person: Person, Asked(wanted): Asked<Wanted>) -> Answer<Json<Value>> {
    let filter = ActivityFilter {
        before: wanted.before,
        since: wanted.since,
        app: wanted.app,
        kind: wanted.kind,
        outcome: wanted.outcome,
        caller: wanted.caller,
        trace: wanted.trace,
        limit: wanted.limit.unwrap_or(100).clamp(1, 1000),
    };
    Ok(Json(
        json!({"entries": engine.db().activity(&person.account, &filter)?}),
    ))
}
