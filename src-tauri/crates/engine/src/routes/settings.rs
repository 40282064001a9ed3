//! A person's settings.

use axum::Json;
use axum::extract::State;
use policy::{Callers, Condition};
use serde_json::{Map, Value, json};

use crate::door::{Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    table
        .route("GET", "/v1/settings", Callers::PERSON, Condition::Always, get)
        .route("PUT", "/v1/settings", Callers::PERSON, Condition::Always, put)
}

/// Names, defaults and rules of contract section 6, plus `onboarded`, `theme`, and what
/// pictures and speech are made with where a request does not say.
fn defaults() -> Map<String, Value> {
    let Value::Object(map) = json!({
        "launchDefault": null, "storeSeen": null, "model": null, "reasoning": null, "autoCompact": null,
        "onboarded": false, "theme": "system", "imageModel": null, "imageSize": null, "speechFrom": null, "speechVoice": null,
        "speechSpeed": null,
    }) else {
        unreachable!("an object")
    };
    map
}

fn check(name: &str, value: &Value) -> Result<(), &'static str> {
    let text = |limit: usize| value.is_null() || value.as_str().is_some_and(|s| s.chars().count() <= limit);
    let fits = match name {
        "launchDefault" => value.is_null() || value.as_str().is_some_and(|s| policy::AppId::parse(s).is_ok()),
        "storeSeen" => text(10),
        "model" => text(200),
        "reasoning" => {
            let levels = ["off", "minimal", "low", "med", "medium", "high", "xhigh", "max"];
            value.is_null() || value.as_str().is_some_and(|s| levels.contains(&s))
        }
        "autoCompact" => {
            value.is_null() || value.is_boolean() || value.as_u64().is_some_and(|n| (1000..=10_000_000).contains(&n))
        }
        // Of the models and speech servers: `connection/model`, and the id of a connection or a speech server.
        "imageModel" => text(400),
        "imageSize" => text(11),
        "speechFrom" => text(200),
        "speechVoice" => text(providers::MAX_VOICE),
        "speechSpeed" => value.is_null() || value.as_f64().is_some_and(|speed| (0.25..=4.0).contains(&speed)),
        "onboarded" => value.is_boolean(),
        "theme" => value.as_str().is_some_and(|s| ["system", "light", "dark"].contains(&s)),
        _ => return Err("there is no such setting"),
    };
    if fits { Ok(()) } else { Err("this value is not allowed") }
}

fn whole(engine: &Engine, person: &Person) -> Answer<Json<Value>> {
    let mut all = defaults();
    for (name, value) in engine.db().settings(&person.account)? {
        if all.contains_key(&name) {
            all.insert(name, value);
        }
    }
    Ok(Json(Value::Object(all)))
}

async fn get(State(engine): State<Engine>, person: Person) -> Answer<Json<Value>> {
    whole(&engine, &person)
}

async fn put(
    State(engine): State<Engine>,
    person: Person,
    Given(given): Given<Map<String, Value>>,
) -> Answer<Json<Value>> {
    for (name, value) in &given {
        check(name, value).map_err(|why| ApiError::bad(format!("Setting \"{name}\": {why}. Nothing was changed.")))?;
    }
    let (db, account) = (engine.db().clone(), person.account.clone());
    blocking(move || db.put_settings(&account, &given)).await?;
    whole(&engine, &person)
}
