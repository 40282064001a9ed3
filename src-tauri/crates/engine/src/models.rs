//! Which models there are, and which one a request means.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use db::ConnectionRow;
use parking_lot::Mutex;
use policy::{AccountId, CallContext};
use providers::{Api, Endpoint, ModelInfo};
use serde_json::{Value, json};
use url::Url;

use crate::Engine;
use crate::routes::key_trouble;

/// The built-in model's reference.
pub const DEMO: &str = "demo/canned";
/// Bytes of a model's reference: a connection's id and 200 for the model, as settings and lists keep. It is written into
/// the activity log.
pub(crate) const MODEL_LIMIT: usize = 300;
/// How long a model list is used before the server is asked again.
const LIST_AGE: Duration = Duration::from_secs(60);

/// One usable model.
#[derive(Debug, Clone)]
pub struct Listed {
    pub connection: String,
    pub connection_name: String,
    pub id: String,
    pub info: ModelInfo,
}

impl Listed {
    pub fn reference(&self) -> String {
        format!("{}/{}", self.connection, self.id)
    }
}

/// Why a server gave no list.
#[derive(Debug, Clone)]
pub struct NoList {
    /// For the person, addresses included.
    pub whole: String,
    /// For apps and plugins.
    pub guest: String,
    /// What kind of failure it was, where a server was asked.
    pub info: Option<Value>,
}

impl From<String> for NoList {
    fn from(why: String) -> Self {
        Self {
            guest: why.clone(),
            whole: why,
            info: None,
        }
    }
}

type Lists = HashMap<(AccountId, String), (Instant, Result<Vec<Listed>, NoList>)>;

/// Model lists as the servers last gave them.
#[derive(Default)]
pub struct ModelLists(Mutex<Lists>);

impl ModelLists {
    pub fn forget(&self, account: &AccountId) {
        self.0.lock().retain(|(owner, _), _| owner != account);
    }
}

/// A request's model, found.
pub(crate) enum Target {
    Demo,
    Server(Box<Endpoint>, String),
}

impl Engine {
    /// A connection's server without its key: for its address, its format and its prices.
    pub(crate) fn address(row: &ConnectionRow) -> Result<Endpoint, String> {
        let url =
            Url::parse(&row.base_url).map_err(|e| format!("Connection \"{}\" has a bad address: {e}", row.name))?;
        let mut endpoint = Endpoint::new(&row.id, &row.name, url);
        endpoint.api = Api::parse(&row.api)
            .ok_or_else(|| format!("Connection \"{}\" has an unknown format: {}", row.name, row.api))?;
        endpoint.preset.clone_from(&row.preset);
        endpoint.prompt_format.clone_from(&row.prompt_format);
        Ok(endpoint)
    }

    pub(crate) fn endpoint(&self, account: &AccountId, row: &ConnectionRow) -> Result<Endpoint, String> {
        let mut endpoint = Self::address(row)?;
        endpoint.key = self.key_of(account, row);
        endpoint.quirks = self.quirks().clone();
        Ok(endpoint)
    }

    /// [`Engine::endpoint`], unless its key is there and cannot be used: a request without it would only be refused.
    pub(crate) fn usable_endpoint(&self, account: &AccountId, row: &ConnectionRow) -> Result<Endpoint, String> {
        match key_trouble(&self.key_standing(account, row)) {
            Some(why) => Err(format!("Connection \"{}\": {why}", row.name)),
            None => self.endpoint(account, row),
        }
    }

    pub(crate) async fn list_one(
        &self,
        context: &CallContext,
        account: &AccountId,
        row: &ConnectionRow,
        fresh: bool,
    ) -> Result<Vec<Listed>, NoList> {
        let listed = |info: ModelInfo| Listed {
            connection: row.id.clone(),
            connection_name: row.name.clone(),
            id: info.id.clone(),
            info,
        };
        if let Some(names) = row.models.as_array() {
            return Ok(names
                .iter()
                .filter_map(Value::as_str)
                .map(|id| {
                    listed(ModelInfo {
                        id: id.to_owned(),
                        ..ModelInfo::default()
                    })
                })
                .collect());
        }
        let slot = (account.clone(), row.id.clone());
        if !fresh
            && let Some((at, known)) = self.model_lists().0.lock().get(&slot)
            && at.elapsed() < LIST_AGE
        {
            return known.clone();
        }
        let found = match self.usable_endpoint(account, row) {
            Ok(endpoint) => providers::list_models(context, self.net(), &endpoint)
                .await
                .map(|list| {
                    self.spend().note_listed(account, &row.id, list.prices);
                    list.models.into_iter().map(listed).collect::<Vec<_>>()
                })
                .map_err(|error| NoList {
                    whole: error.to_string(),
                    guest: error.guest(),
                    info: Some(error.info()),
                }),
            Err(error) => Err(error.into()),
        };
        self.model_lists()
            .0
            .lock()
            .insert(slot, (Instant::now(), found.clone()));
        found
    }

    /// The first model that a connection lists.
    pub(crate) async fn first_model(
        &self,
        context: &CallContext,
        account: &AccountId,
        row: &ConnectionRow,
    ) -> Result<String, NoList> {
        let list = self.list_one(context, account, row, true).await?;
        let none = || NoList::from(format!("\"{}\" offers no models.", row.name));
        list.first().map(|model| model.id.clone()).ok_or_else(none)
    }

    /// Every model of every connection, and why some connections gave none.
    pub async fn list_models(
        &self,
        context: &CallContext,
        account: &AccountId,
        fresh: bool,
    ) -> Result<(Vec<Listed>, Vec<Value>), db::DbError> {
        let rows = self.db().connections(account)?;
        let lists = futures::future::join_all(rows.iter().map(|row| self.list_one(context, account, row, fresh))).await;
        let (mut models, mut errors) = (Vec::new(), Vec::new());
        for (row, list) in rows.iter().zip(lists) {
            match list {
                Ok(found) => models.extend(found),
                Err(error) => {
                    errors.push(json!({"connection": row.id, "connectionName": row.name, "error": error.whole}))
                }
            }
        }
        Ok((models, errors))
    }

    /// Finds what `wanted` names. A named model is never swapped for another (contract section 4.1).
    pub(crate) async fn target(
        &self,
        context: &CallContext,
        account: &AccountId,
        wanted: Option<&str>,
    ) -> Result<Target, String> {
        let settings = self.db().setting(account, "model").map_err(|e| e.to_string())?;
        let set = settings.as_ref().and_then(Value::as_str).filter(|m| !m.is_empty());
        let rows = self.db().connections(account).map_err(|e| e.to_string())?;
        let app = context.chain.iter().rev().find_map(|caller| caller.app());
        let allowed = self.allowed_models(account, app).map_err(|e| e.to_string())?;
        let of = |row: &ConnectionRow, id: &str| allowed.includes(&format!("{}/{id}", row.id));
        // The person's choice for all is none for an app that may not use it; what an app names itself is refused.
        let set = set.filter(|set| !set.contains('/') || allowed.includes(set));
        // As it is sent: a name with white space around it, or with its connection twice, is not priced as another.
        let wanted = wanted.map(str::trim).filter(|w| !w.is_empty()).or(set);
        if wanted == Some(DEMO) {
            return Ok(Target::Demo);
        }
        if let Some(wanted) = wanted {
            if let Some((connection, id)) = wanted.split_once('/')
                && let Some(row) = rows.iter().find(|row| row.id == connection)
            {
                if id.trim() != id || id.split_once('/').is_some_and(|(again, _)| again == connection) {
                    return Err(format!("\"{wanted}\" is no model's name: it is connection/model."));
                }
                self.may_use(account, app, wanted)?;
                return Ok(Target::Server(
                    Box::new(self.usable_endpoint(account, row)?),
                    id.to_owned(),
                ));
            }
            // A bare model id: the first connection that lists it.
            for row in rows.iter().filter(|row| of(row, wanted)) {
                if self
                    .list_one(context, account, row, false)
                    .await
                    .is_ok_and(|list| list.iter().any(|m| m.id == wanted))
                {
                    return Ok(Target::Server(
                        Box::new(self.usable_endpoint(account, row)?),
                        wanted.to_owned(),
                    ));
                }
            }
            return Err(format!(
                "The model \"{wanted}\" is not available: no connection offers it. Choose another model."
            ));
        }
        let usable: Vec<&ConnectionRow> = rows.iter().filter(|row| allowed.includes_some_of(&row.id)).collect();
        for row in &usable {
            if let Ok(list) = self.list_one(context, account, row, false).await
                && let Some(first) = list.iter().find(|model| of(row, &model.id))
            {
                return Ok(Target::Server(
                    Box::new(self.usable_endpoint(account, row)?),
                    first.id.clone(),
                ));
            }
        }
        match usable.first() {
            None if !rows.is_empty() => Err(
                "This app may use none of the models there are: the person chose which it may use, in the launcher under \
                 Settings → Models."
                    .into(),
            ),
            None => Err(
                "No model is set up. Add a model server in the launcher's settings, or choose the demo model.".into(),
            ),
            Some(row) => {
                let why = self.list_one(context, account, row, false).await.err();
                let why = why.map(|why| if app.is_some() { why.guest } else { why.whole });
                Err(why.unwrap_or_else(|| format!("\"{}\" offers no models.", row.name)))
            }
        }
    }
}
