//! `host.llm.embed`: vectors for texts (contract section 4.4).

use std::time::Instant;

use apps::budget::Spend;
use db::{ActivityEnd, ConnectionRow, NewActivity};
use policy::{AccountId, CallContext};
use serde_json::{Value, json};

use crate::Engine;
use crate::activity::line;
use crate::generate::BYTES_PER_TOKEN;
use crate::spend::{Truth, What};

/// Texts of one request.
const TEXTS: usize = 2048;

impl Engine {
    /// `{texts, model?}` to one list of numbers per text. `null` where no connection has a key: there is nobody to ask, and
    /// plugins of the reference engine go on without.
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
        let Some((row, model)) = self.embedder(&account, wanted)? else {
            return Ok(Value::Null);
        };
        if texts.is_empty() {
            return Ok(json!([]));
        }
        let endpoint = self.endpoint(&account, &row)?;
        let app = context.chain.iter().rev().find_map(|c| c.app()).cloned();
        let asked = model.as_deref().unwrap_or(providers::EMBEDDING_MODEL);
        self.may_use(&account, app.as_ref(), &format!("{}/{asked}", row.id))?;
        let bytes = texts.iter().map(|text| text.len() as u64).sum::<u64>();
        self.learn_price(context, &account, &endpoint, asked).await;
        let reserved = self
            .spend()
            .reserve(context, &endpoint, asked, What::Embeddings { bytes })?;
        if let Some(app) = &app {
            let budgets = self.plugins().budgets();
            let left = budgets.before(&account, app, Spend::Tokens, 0);
            if let Err(why) = left.and_then(|()| budgets.before(&account, app, Spend::ModelCalls, 1)) {
                reserved.settle(Truth::Nothing);
                return Err(why);
            }
            // Servers rarely say how many tokens a text had.
            budgets.add(&account, app, Spend::Tokens, bytes.div_ceil(BYTES_PER_TOKEN));
        }
        let target = format!("{}/{}", row.id, model.as_deref().unwrap_or("embeddings"));
        let began = Instant::now();
        let line = self.activity().add(&NewActivity {
            detail: Some(format!("embeddings of {} texts", texts.len())),
            ..line(context, "model", target, "running")
        });
        let found = providers::embed(context, self.net(), &endpoint, model.as_deref(), &texts).await;
        let cost = reserved.settle(match &found {
            Ok(_) => Truth::Embeddings { tokens: None },
            Err(_) => Truth::Nothing,
        });
        let detail = found.as_ref().err().map(ToString::to_string);
        let end = ActivityEnd {
            outcome: if found.is_ok() { "done" } else { "failed" },
            ms: began.elapsed().as_millis() as u64,
            detail: detail.as_deref(),
            model: model.as_deref(),
            cost,
            ..ActivityEnd::default()
        };
        self.activity().finish(line, &end);
        found.map(|vectors| json!(vectors)).map_err(|e| e.to_string())
    }

    /// The connection to ask, and the model if one was named: that of a `connection/model`, else the first one with a key.
    fn embedder(
        &self,
        account: &AccountId,
        wanted: Option<&str>,
    ) -> Result<Option<(ConnectionRow, Option<String>)>, String> {
        let rows = self.db().connections(account).map_err(|e| e.to_string())?;
        if let Some((connection, model)) = wanted.and_then(|wanted| wanted.split_once('/'))
            && let Some(row) = rows.iter().find(|row| row.id == connection)
        {
            return Ok(Some((row.clone(), Some(model.to_owned()))));
        }
        let keyed = rows.into_iter().find(|row| self.key_of(account, row).is_some());
        Ok(keyed.map(|row| (row, wanted.map(str::to_owned))))
    }
}
