//! `host.store`: a plugin's own values.

use std::sync::Arc;

use db::{DbError, STORE_QUOTA, StoreOp};
use policy::Capability;
use serde_json::{Value, json};

use super::Who;

/// Characters of a store key.
const KEY_LIMIT: usize = 512;
/// Keys one `keys` call answers.
const KEYS_LIMIT: usize = 10_000;
/// Entries one `scan` answers; the database stops at 8 MiB before that.
const SCAN_LIMIT: u64 = 10_000;
const SCAN_DEFAULT: u64 = 1000;
/// Writes of one batch or transaction.
const BATCH_LIMIT: usize = 1000;

/// A key, or what is wrong with it.
fn key<'a>(method: &str, value: Option<&'a Value>, what: &str) -> Result<&'a str, String> {
    let key = value
        .and_then(Value::as_str)
        .ok_or_else(|| format!("host.{method}: {what} must be a string"))?;
    if key.chars().count() > KEY_LIMIT {
        return Err(format!("host.{method}: {what} is longer than {KEY_LIMIT} characters"));
    }
    Ok(key)
}

/// `[{put: key, value} | {delete: key}]`.
fn writes(method: &str, given: &Value) -> Result<Vec<StoreOp>, String> {
    let shape =
        || format!("host.{method}: give a list of at most {BATCH_LIMIT} {{put: key, value}} and {{delete: key}}");
    let list = given
        .as_array()
        .filter(|list| list.len() <= BATCH_LIMIT)
        .ok_or_else(shape)?;
    let one = |write: &Value| match (write.get("put"), write.get("delete")) {
        (Some(name), None) => Ok(StoreOp::Put {
            key: key(method, Some(name), "put")?.to_owned(),
            json: write.get("value").unwrap_or(&Value::Null).to_string(),
        }),
        (None, Some(name)) => Ok(StoreOp::Delete {
            key: key(method, Some(name), "delete")?.to_owned(),
        }),
        _ => Err(shape()),
    };
    list.iter().map(one).collect()
}

/// Every method of `host.store`, synchronous or not: all of them are short.
pub fn call(who: &Arc<Who>, method: &str, args: &[Value]) -> Result<Value, String> {
    let granted = who.need(Capability::Store, method)?;
    let (account, app, plugin) = who.ids()?;
    let quota = granted.quota.unwrap_or(STORE_QUOTA);
    let said = |error: DbError| format!("host.{method}: {error}");
    let parsed = |text: String| serde_json::from_str::<Value>(&text).map_err(|e| format!("host.{method}: {e}"));
    let db = &who.db;
    match method {
        "store.get" => {
            let found = db.store_get(account, app, plugin, key(method, args.first(), "the key")?);
            found.map_err(said)?.map_or(Ok(Value::Null), parsed)
        }
        "store.put" => {
            let value = args.get(1).unwrap_or(&Value::Null).to_string();
            let key = key(method, args.first(), "the key")?;
            db.store_put(account, app, plugin, key, &value, quota).map_err(said)?;
            Ok(Value::Null)
        }
        "store.delete" => {
            let key = key(method, args.first(), "the key")?;
            Ok(db.store_delete(account, app, plugin, key).map_err(said)?.into())
        }
        "store.keys" => {
            let prefix = match args.first() {
                None | Some(Value::Null) => "",
                given => key(method, given, "the prefix")?,
            };
            Ok(db
                .store_keys(account, app, plugin, prefix, KEYS_LIMIT)
                .map_err(said)?
                .into())
        }
        "store.cas" => {
            let key = key(method, args.first(), "the key")?;
            let new = args.get(2).map(Value::to_string);
            let write = |expected: Option<&str>| {
                db.store_cas(account, app, plugin, key, expected, new.as_deref(), quota)
                    .map_err(said)
            };
            // `get` gives null for a key that is absent and for one that holds null, so either is what null expects.
            Ok(match args.get(1) {
                None | Some(Value::Null) => write(None)? || write(Some("null"))?,
                Some(expected) => write(Some(&expected.to_string()))?,
            }
            .into())
        }
        "store.scan" => {
            let options = args.first().unwrap_or(&Value::Null);
            let option = |name: &str| options.get(name).filter(|v| !v.is_null());
            let prefix = match option("prefix") {
                None => "",
                given => key(method, given, "prefix")?,
            };
            let after = option("after")
                .map(|given| key(method, Some(given), "after"))
                .transpose()?;
            let limit = match option("limit") {
                None => SCAN_DEFAULT,
                Some(given) => given
                    .as_u64()
                    .filter(|limit| (1..=SCAN_LIMIT).contains(limit))
                    .ok_or_else(|| format!("host.{method}: limit must be a whole number from 1 to {SCAN_LIMIT}"))?,
            };
            let found = db
                .store_scan(account, app, plugin, prefix, after, limit as usize)
                .map_err(said)?;
            let pairs = found.into_iter().map(|(key, json)| Ok(json!([key, parsed(json)?])));
            Ok(Value::Array(pairs.collect::<Result<_, String>>()?))
        }
        "store.batch" => {
            let writes = writes(method, args.first().unwrap_or(&Value::Null))?;
            Ok(db
                .store_batch(account, app, plugin, &writes, quota)
                .map_err(said)?
                .into())
        }
        other => Err(format!("host.{other} does not exist")),
    }
}
