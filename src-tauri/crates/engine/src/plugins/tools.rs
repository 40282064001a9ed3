//! The tools that go with a model request, and who runs each (contract sections 3.2 and 3.4).

use std::collections::HashSet;

use apps::budget::Spend;
use async_trait::async_trait;
use db::{ActivityEnd, NewActivity};
use policy::{CallContext, Caller, Capability};
use providers::{Tool, ToolAnswer, ToolBox};
use serde_json::Value;
use std::time::Instant;

use super::Owned;
use crate::Engine;
use crate::activity::line;
use crate::spend::Reservation;

/// Tools of other plugins that one request may carry.
const SIBLING_TOOLS: usize = 64;

struct Offered {
    tool: Tool,
    of: Owned,
}

/// Tools with their owners, for one model request.
pub(crate) struct Tools {
    engine: Engine,
    context: CallContext,
    offered: Vec<Offered>,
    /// What the request may cost, once it is set aside.
    pub(crate) reserved: Option<Reservation>,
}

impl Engine {
    /// What the app's other plugins offer, as definitions with their owners. `asking` is the plugin that would use them.
    pub(crate) async fn sibling_tools(&self, context: &CallContext, asking: &Caller) -> Vec<(Value, Owned)> {
        let Caller::Plugin { account, app, plugin } = asking else {
            return Vec::new();
        };
        let Ok(room) = self.room(account) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for of in self.usable(&room, app) {
            let may = self.plugins().allowed(account, app, &of.plugin, Capability::Tools);
            if of.plugin.id == *plugin || !may {
                continue;
            }
            match self
                .plugins()
                .app_tools(&room.target(context, &of), plugin.as_str())
                .await
            {
                Ok(tools) => found.extend(tools.into_iter().map(|tool| (tool, of.clone()))),
                Err(error) => self.note_failure(context, &of, "appTools", &error),
            }
        }
        found.truncate(SIBLING_TOOLS);
        found
    }

    /// The tools of one request: those the plugin sent along, if it may offer any, and those of its siblings if it wants
    /// them. Of two with one name the first counts.
    pub(crate) async fn tools(&self, context: &CallContext, own: Vec<Value>, wants: bool) -> Tools {
        let mut tools = Tools {
            engine: self.clone(),
            context: context.clone(),
            offered: Vec::new(),
            reserved: None,
        };
        let Some(caller @ Caller::Plugin { account, app, plugin }) = context.chain.last() else {
            return tools;
        };
        let mut found = Vec::new();
        if !own.is_empty()
            && let Ok(room) = self.room(account)
            && let Some(of) = self.usable(&room, app).into_iter().find(|of| of.plugin.id == *plugin)
            && self.plugins().allowed(account, app, &of.plugin, Capability::Tools)
        {
            found.extend(own.into_iter().map(|tool| (tool, of.clone())));
        }
        if wants {
            found.extend(self.sibling_tools(context, caller).await);
        }
        let mut names = HashSet::new();
        for (at, (definition, of)) in found.into_iter().enumerate() {
            match Tool::parse(&definition, at) {
                Ok(tool) if names.insert(tool.name().to_owned()) => tools.offered.push(Offered { tool, of }),
                Ok(_) => {}
                Err(why) => self.plugin_failed(context, &of.app, &of.plugin.id, "tools", &why),
            }
        }
        tools
    }
}

#[async_trait]
impl ToolBox for Tools {
    fn tools(&self) -> Vec<Tool> {
        self.offered.iter().map(|offered| offered.tool.clone()).collect()
    }

    async fn run(&self, name: &str, args: Value) -> ToolAnswer {
        let wrong = |text: String| ToolAnswer::error(text);
        let Some(Offered { of, .. }) = self.offered.iter().find(|offered| offered.tool.name() == name) else {
            return wrong(format!("There is no tool \"{name}\"."));
        };
        let Some(account) = &self.context.account else {
            return wrong("This request has no account.".into());
        };
        let (engine, began) = (&self.engine, Instant::now());
        // Looked at again: it may have been taken back while the model was thinking.
        if !engine
            .plugins()
            .allowed(account, &of.app, &of.plugin, Capability::Tools)
        {
            return wrong(format!("The tool \"{name}\" is no longer allowed."));
        }
        let line = engine.activity().add(&NewActivity {
            chain: format!("{} > plugin:{}/{}", self.context.chain_label(), of.app, of.plugin.id),
            app: Some(of.app.to_string()),
            ..line(&self.context, "tool", name, "running")
        });
        let answer = match engine.room(account) {
            Ok(room) => match engine.plugins().tool(&room.target(&self.context, of), name, args).await {
                Ok(answer) => ToolAnswer {
                    text: answer.text,
                    is_error: answer.is_error,
                },
                Err(error) => {
                    engine.note_failure(&self.context, of, "handleTool", &error);
                    wrong(error.to_string())
                }
            },
            Err(error) => wrong(error.message),
        };
        let end = ActivityEnd {
            outcome: if answer.is_error { "failed" } else { "done" },
            received: answer.text.len() as u64,
            ms: began.elapsed().as_millis() as u64,
            ..ActivityEnd::default()
        };
        engine.activity().finish(line, &end);
        answer
    }

    /// The first round was paid for when the request was made.
    fn before_round(&self, round: u32) -> Result<(), String> {
        if round > 0
            && let Some(reserved) = &self.reserved
        {
            reserved.before_round()?;
        }
        match self.context.chain.last() {
            Some(Caller::Plugin { account, app, .. }) if round > 0 => {
                let budgets = self.engine.plugins().budgets();
                budgets.before(account, app, Spend::ModelCalls, 1)
            }
            _ => Ok(()),
        }
    }
}
