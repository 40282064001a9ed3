//! The activity log: every outgoing connection before it is made, every refusal, every model request.

use std::sync::Arc;

use db::{ActivityEnd, Db, NewActivity};
use policy::{AccountId, CallContext};
use serde_json::json;

use crate::bus::{Bus, Event};

/// Writes lines, and tells the launcher of each.
pub struct Activity {
    db: Arc<Db>,
    bus: Arc<Bus>,
}

impl Activity {
    pub fn new(db: Arc<Db>, bus: Arc<Bus>) -> Self {
        Self { db, bus }
    }

    /// Writes a line and returns its id, or 0 when the database would not take it (which is logged).
    pub fn add(&self, new: &NewActivity) -> i64 {
        let id = self.db.add_activity(new).unwrap_or_else(|error| {
            tracing::error!(%error, "an activity line could not be written");
            0
        });
        if let Some(account) = new.account.clone().filter(|_| self.bus.heard()) {
            let payload = json!({
                "id": id, "kind": new.kind, "caller": new.caller, "app": new.app, "target": new.target, "outcome": new.outcome,
            });
            self.bus.send(Event {
                account,
                app: None,
                kind: "activity",
                payload,
            });
        }
        id
    }

    pub fn finish(&self, id: i64, end: &ActivityEnd<'_>) {
        if let Err(error) = self.db.finish_activity(id, end) {
            tracing::error!(%error, "an activity line could not be completed");
        }
    }

    pub fn refused(&self, context: &CallContext, target: &str, why: &str) {
        let caller = context.chain.last();
        self.add(&NewActivity {
            account: context.account.clone(),
            kind: "refusal",
            caller: caller.map(policy::Caller::label).unwrap_or_default(),
            chain: context.chain_label(),
            trace: context.trace.as_str().to_owned(),
            app: caller.and_then(|c| c.app()).map(ToString::to_string),
            target: target.chars().take(300).collect(),
            outcome: "refused".into(),
            detail: Some(why.chars().take(600).collect()),
        });
    }
}

impl net::ConnectionLog for Activity {
    fn connecting(&self, attempt: &net::Attempt) -> Result<i64, String> {
        // A connection that cannot be written down is not made.
        let id = self.add(&row(attempt, "connection", "connecting", None));
        if id == 0 {
            Err("the activity log cannot be written, so no connection is made".into())
        } else {
            Ok(id)
        }
    }

    fn finished(&self, id: i64, end: &net::End) {
        let (outcome, detail) = match &end.outcome {
            net::Outcome::Done => ("done", None),
            net::Outcome::Failed(why) => ("failed", Some(why.as_str())),
            net::Outcome::Refused(why) => ("refused", Some(why.as_str())),
            net::Outcome::Cancelled => ("cancelled", None),
        };
        let ms = end.took.as_millis() as u64;
        let status = end.status.map(i64::from);
        self.finish(
            id,
            &ActivityEnd {
                outcome,
                status,
                sent: 0,
                received: end.bytes,
                ms,
                detail,
            },
        );
    }

    fn refused(&self, attempt: &net::Attempt, why: &str) {
        self.add(&row(attempt, "refusal", "refused", Some(why.to_owned())));
    }
}

fn row(attempt: &net::Attempt, kind: &'static str, outcome: &str, detail: Option<String>) -> NewActivity {
    NewActivity {
        account: attempt.account.as_deref().and_then(|a| AccountId::parse(a).ok()),
        kind,
        caller: attempt.caller.clone(),
        chain: attempt.chain.clone(),
        trace: attempt.trace.clone(),
        app: attempt.app.clone(),
        target: format!("{} {}", attempt.method, attempt.url),
        outcome: outcome.to_owned(),
        detail: detail.or_else(|| Some(attempt.purpose.to_string())),
    }
}
