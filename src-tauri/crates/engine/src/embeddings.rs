//! `host.llm.embed` and `/v1/embeddings`: vectors for texts (contract section 4.4).

use std::time::Instant;

use apps::budget::Spend;
use db::{ActivityEnd, ConnectionRow, DbError, NewActivity};
use policy::{AccountId, AppId, CallContext};
use providers::Api;
use serde_json::{Map, Value, json};

use crate::Engine;
use crate::activity::line;
use crate::generate::BYTES_PER_TOKEN;
use crate::spend::{Truth, What};

/// Texts of one request.
const TEXTS: usize = 2048;
/// The model where none is named (contract section 4.4).
const MODEL: &str = "text-embedding-3-small";
/// Where the choice is kept. It is no setting of `/v1/settings`: it has a route of its own.
const SETTING: &str = "embedModel";

/// What the person chose for embeddings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) model: Option<String>,
    /// A connection's id.
    pub(crate) connection: Option<String>,
}

/// Who makes embeddings, and with which model.
pub(crate) struct Embedder {
    row: ConnectionRow,
    pub(crate) model: String,
}

fn app_of(context: &CallContext) -> Option<&AppId> {
    context.chain.iter().rev().find_map(|caller| caller.app())
}

impl Engine {
    /// `{texts, model?}` to one list of numbers per text. `null` where no connection is chosen and none has a key: there is
    /// nobody to ask, and plugins of the reference engine go on without.
    pub(crate) async fn embeddings(&self, context: &CallContext, request: Value) -> Result<Value, String> {
        let account = context.account.clone().ok_or("embeddings need an account")?;
        let texts: Vec<String> = serde_json::from_value(request["texts"].clone())
            .map_err(|_| "host.llm.embed: texts must be a list of texts".to_owned())?;
        if texts.len() > TEXTS {
            return Err(format!(
                "host.llm.embed: at most {TEXTS} texts at once, these are {}",
                texts.len()
            ));
        }
        let wanted = request["model"].as_str().filter(|model| !model.is_empty());
        let Some(embedder) = self.embedder(&account, app_of(context), wanted, None)? else {
            return Ok(Value::Null);
        };
        if texts.is_empty() {
            return Ok(json!([]));
        }
        let vectors = self.embed_with(context, &account, &embedder, &texts).await?;
        Ok(json!(vectors))
    }

    /// Has texts embedded, within limits and budgets, and writes that down.
    pub(crate) async fn embed_with(
        &self,
        context: &CallContext,
        account: &AccountId,
        embedder: &Embedder,
        texts: &[String],
    ) -> Result<Vec<Vec<f64>>, String> {
        let (row, model) = (&embedder.row, embedder.model.as_str());
        let endpoint = self.usable_endpoint(account, row)?;
        let bytes = texts.iter().map(String::len).sum::<usize>() as u64;
        let app = app_of(context);
        if let Some(app) = app {
            let budgets = self.plugins().budgets();
            budgets.before(account, app, Spend::Tokens, 0)?;
            budgets.before(account, app, Spend::ModelCalls, 1)?;
        }
        let reserved = self
            .spend()
            .reserve(context, &endpoint, model, What::Embeddings { bytes })?;
        if let Some(app) = app {
            // Servers rarely say how many tokens a text had.
            let tokens = bytes.div_ceil(BYTES_PER_TOKEN);
            self.plugins().budgets().add(account, app, Spend::Tokens, tokens);
        }
        let target = format!("{}/{model}", row.id);
        let began = Instant::now();
        let line = self.activity().add(&NewActivity {
            detail: Some(format!("embeddings of {} texts", texts.len())),
            ..line(context, "model", target, "running")
        });
        let found = providers::embed(context, self.net(), &endpoint, Some(model), texts).await;
        let cost = match &found {
            Ok(_) => reserved.settle(Truth::Embeddings { tokens: None }),
            Err(error) if error.unpaid || error.status.is_some() => reserved.settle(Truth::Nothing),
            // It may be billed: what was set aside counts.
            Err(_) => None,
        };
        let detail = found.as_ref().err().map(ToString::to_string);
        let end = ActivityEnd {
            outcome: if found.is_ok() { "done" } else { "failed" },
            ms: began.elapsed().as_millis() as u64,
            detail: detail.as_deref(),
            model: Some(model),
            cost,
            ..ActivityEnd::default()
        };
        self.activity().finish(line, &end);
        found.map_err(|error| {
            if app.is_some() {
                error.guest()
            } else {
                error.to_string()
            }
        })
    }

    /// What the person chose.
    pub(crate) fn chosen_embedder(&self, account: &AccountId) -> Result<Chosen, DbError> {
        let value = self.db().setting(account, SETTING)?.unwrap_or_default();
        let text = |name: &str| value[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Chosen {
            model: text("model"),
            connection: text("connection"),
        })
    }

    pub(crate) fn choose_embedder(&self, account: &AccountId, chosen: &Chosen) -> Result<(), DbError> {
        let value = json!({"model": chosen.model, "connection": chosen.connection});
        self.db()
            .put_settings(account, &Map::from_iter([(SETTING.to_owned(), value)]))
    }

    /// Who is asked: the connection of a `connection/model`, else `connection`, else the chosen one, else the first one with
    /// a key. `None` where there is nobody; an error where the app may not use it.
    pub(crate) fn embedder(
        &self,
        account: &AccountId,
        app: Option<&AppId>,
        wanted: Option<&str>,
        connection: Option<&str>,
    ) -> Result<Option<Embedder>, String> {
        let rows = self.db().connections(account).map_err(|e| e.to_string())?;
        let chosen = self.chosen_embedder(account).map_err(|e| e.to_string())?;
        let of = |id: &str| rows.iter().find(|row| row.id == id);
        let named = wanted.and_then(|wanted| wanted.split_once('/'));
        let named = named.and_then(|(connection, model)| Some((of(connection)?, model)));
        let found = if let Some((row, model)) = named {
            (row, model.to_owned())
        } else {
            let model = wanted.map(str::to_owned).or(chosen.model);
            let model = model.unwrap_or_else(|| MODEL.to_owned());
            match connection.or(chosen.connection.as_deref()).and_then(of) {
                Some(row) => (row, model),
                None => {
                    let allowed = self.allowed_models(account, app).map_err(|e| e.to_string())?;
                    let fits = |row: &&ConnectionRow| {
                        // Anthropic has no embeddings.
                        row.api != Api::AnthropicMessages.name()
                            && allowed.includes_some_of(&row.id)
                            && self.key_of(account, row).is_some()
                    };
                    match rows.iter().find(fits) {
                        Some(row) => (row, model),
                        None => return Ok(None),
                    }
                }
            }
        };
        let (row, model) = found;
        self.may_use(account, app, &format!("{}/{model}", row.id))?;
        Ok(Some(Embedder {
            row: row.clone(),
            model,
        }))
    }
}
