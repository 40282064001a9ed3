//! What model servers were found not to take, so that each is asked in vain only once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::Endpoint;
use crate::request::Quirk;

/// Most models remembered; all are forgotten when there are more.
const MAX_MODELS: usize = 1000;

/// Shared by its clones. Put the same one into every [`Endpoint`] of a program.
#[derive(Debug, Clone, Default)]
pub struct Quirks(Arc<Mutex<Known>>);

/// By connection, address, model and level of reasoning: some refuse only while they think.
type Known = HashMap<[String; 4], Quirk>;

impl Quirks {
    pub(crate) fn of(&self, endpoint: &Endpoint, model: &str, reasoning: Option<&str>) -> Quirk {
        let known = self.0.lock();
        known
            .get(&slot(endpoint, model, reasoning))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn remember(&self, endpoint: &Endpoint, model: &str, reasoning: Option<&str>, quirk: Quirk) {
        let mut known = self.0.lock();
        if known.len() >= MAX_MODELS {
            known.clear();
        }
        known.insert(slot(endpoint, model, reasoning), quirk);
    }
}

fn slot(endpoint: &Endpoint, model: &str, reasoning: Option<&str>) -> [String; 4] {
    [
        endpoint.connection_id.clone(),
        endpoint.base_url.to_string(),
        model.to_owned(),
        reasoning.unwrap_or_default().to_owned(),
    ]
}
