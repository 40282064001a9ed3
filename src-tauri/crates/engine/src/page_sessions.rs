//! `sessionStorage` of app pages: kept in memory until the program ends.

use std::collections::HashMap;

use parking_lot::Mutex;
use policy::{AccountId, AppId};
use serde_json::{Map, Value};

type Items = HashMap<(AccountId, AppId), Map<String, Value>>;

#[derive(Default)]
pub struct PageSessions(Mutex<Items>);

impl PageSessions {
    pub fn all(&self, account: &AccountId, app: &AppId) -> Map<String, Value> {
        self.0
            .lock()
            .get(&(account.clone(), app.clone()))
            .cloned()
            .unwrap_or_default()
    }

    pub fn clear(&self, account: &AccountId, app: &AppId) {
        self.0.lock().remove(&(account.clone(), app.clone()));
    }

    /// Sets or removes one item; over [`db::PAGE_QUOTA`] it is refused whole.
    pub fn put(&self, account: &AccountId, app: &AppId, name: &str, value: Option<&str>) -> Result<(), db::DbError> {
        let mut all = self.0.lock();
        let items = all.entry((account.clone(), app.clone())).or_default();
        let Some(value) = value else {
            items.remove(name);
            return Ok(());
        };
        let size = |(name, value): (&String, &Value)| (name.len() + value.as_str().map_or(0, str::len)) as u64;
        let used: u64 = items.iter().filter(|(n, _)| *n != name).map(size).sum();
        let needed = (name.len() + value.len()) as u64;
        if used + needed > db::PAGE_QUOTA {
            return Err(db::DbError::Quota {
                used,
                quota: db::PAGE_QUOTA,
                needed,
            });
        }
        items.insert(name.to_owned(), Value::String(value.to_owned()));
        Ok(())
    }
}
