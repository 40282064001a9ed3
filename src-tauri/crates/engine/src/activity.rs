//! The activity log: every outgoing connection before it is made, every refusal, every model request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use db::{ActivityEnd, Db, NewActivity};
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext};
use serde_json::json;

use crate::bus::{Bus, Event};

/// Writes lines, and tells the launcher of each.
pub struct Activity {
    db: Arc<Db>,
    bus: Arc<Bus>,
    floods: Mutex<Floods>,
    net_floods: Mutex<Floods>,
    errors: Mutex<Floods>,
    lines: Mutex<Floods>,
}

impl Activity {
    pub fn new(db: Arc<Db>, bus: Arc<Bus>) -> Self {
        Self {
            db,
            bus,
            floods: Mutex::new(Floods::new(BURST)),
            net_floods: Mutex::new(Floods::new(NET_BURST)),
            errors: Mutex::new(Floods::new(BURST)),
            lines: Mutex::new(Floods::new(LOG_BURST)),
        }
    }

    /// Whether to write down one more failure of this plugin, and how many were not since the last one.
    pub fn admit_error(&self, plugin: &str) -> Option<u64> {
        self.errors.lock().admit(plugin, Instant::now())
    }

    /// Whether to write one more line of this plugin into the log, and how many were not since the last one.
    pub fn admit_log(&self, plugin: &str) -> Option<u64> {
        self.lines.lock().admit(plugin, Instant::now())
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

    /// Writes down that a person ended what an app had running.
    pub fn stopped(&self, context: &CallContext, app: &AppId, count: usize) {
        self.add(&NewActivity {
            app: Some(app.to_string()),
            detail: Some(format!("{count} calls and answers were ended")),
            ..line(context, "stop", "everything this app had running", "done")
        });
    }

    /// Writes a refusal. A caller that is refused all the time gets one line with a count now and then, so that it can
    /// neither fill the disk nor bury other lines.
    pub fn refused(&self, context: &CallContext, target: &str, why: &str) {
        let label = context.chain.last().map(policy::Caller::label).unwrap_or_default();
        let Some(missed) = self.floods.lock().admit(&label, Instant::now()) else {
            return;
        };
        let mut detail: String = without_tokens(why).chars().take(600).collect();
        if missed > 0 {
            detail.push_str(&format!(
                " (and {missed} more refusals of this caller since its last line)"
            ));
        }
        let target: String = without_tokens(target).chars().take(300).collect();
        self.add(&NewActivity {
            detail: Some(detail),
            ..line(context, "refusal", target, "refused")
        });
    }
}

/// A line about what the innermost caller of `context` does, with whom it came through and the app it is for.
pub fn line(context: &CallContext, kind: &'static str, target: impl Into<String>, outcome: &str) -> NewActivity {
    NewActivity {
        account: context.account.clone(),
        kind,
        caller: context.chain.last().map(policy::Caller::label).unwrap_or_default(),
        chain: context.chain_label(),
        trace: context.trace.as_str().to_owned(),
        app: context
            .chain
            .iter()
            .rev()
            .find_map(|c| c.app())
            .map(ToString::to_string),
        target: target.into(),
        outcome: outcome.to_owned(),
        detail: None,
    }
}

/// Lines a caller may cause at once, and how often one more.
const BURST: u32 = 20;
const REFILL: Duration = Duration::from_millis(500);
/// Refused connections of one caller that are written down one by one; more come from no honest page of results.
const NET_BURST: u32 = 200;
/// Lines of 500 characters that a plugin may log at once: what two calls may say. After that, two a second: 90 MB a day
/// at worst.
const LOG_BURST: u32 = 400;
/// Callers remembered; more than there can be apps and plugins asking at the same time.
const CALLERS: usize = 1024;

/// How much each caller has been written about lately.
struct Floods {
    burst: u32,
    known: HashMap<String, Flood>,
}

struct Flood {
    left: u32,
    at: Instant,
    missed: u64,
}

impl Floods {
    fn new(burst: u32) -> Self {
        let known = HashMap::new();
        Self { burst, known }
    }

    /// Whether to write a line now, and how many were not written since the last one.
    fn admit(&mut self, caller: &str, now: Instant) -> Option<u64> {
        if self.known.len() >= CALLERS && !self.known.contains_key(caller) {
            self.known
                .retain(|_, flood| now.duration_since(flood.at) < REFILL * self.burst);
        }
        let flood = self.known.entry(caller.to_owned()).or_insert(Flood {
            left: self.burst,
            at: now,
            missed: 0,
        });
        let gained = (now.duration_since(flood.at).as_millis() / REFILL.as_millis()) as u32;
        if gained > 0 {
            flood.left = flood.left.saturating_add(gained).min(self.burst);
            flood.at = now;
        }
        if flood.left == 0 {
            flood.missed += 1;
            return None;
        }
        flood.left -= 1;
        Some(std::mem::take(&mut flood.missed))
    }
}

/// Parts of a path that are as long as a token are left out: whoever asked for one by mistake must not have it written
/// down (tokens have at least 22 characters).
fn without_tokens(text: &str) -> String {
    let part = |part: &str| {
        let word = part.trim_end_matches(['.', ',']);
        let long = word.len() >= 22
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if long { "…".to_owned() } else { part.to_owned() }
    };
    let words = text
        .split(' ')
        .map(|word| word.split('/').map(part).collect::<Vec<_>>().join("/"));
    words.collect::<Vec<_>>().join(" ")
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
                ..Default::default()
            },
        );
    }

    fn refused(&self, attempt: &net::Attempt, why: &str) {
        // As with other refusals: one caller must not be able to push everybody's lines out of the log.
        let Some(missed) = self.net_floods.lock().admit(&attempt.caller, Instant::now()) else {
            return;
        };
        let mut why = why.to_owned();
        if missed > 0 {
            why.push_str(&format!(
                " (and {missed} more refused requests of this caller since its last line)"
            ));
        }
        self.add(&row(attempt, "refusal", "refused", Some(why)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_not_written() {
        let (mut floods, start) = (Floods::new(BURST), Instant::now());
        let written = (0..1000).filter(|_| floods.admit("app:x", start).is_some()).count();
        assert_eq!(written, BURST as usize);
        assert_eq!(floods.admit("app:y", start), Some(0), "others are still heard");
        assert_eq!(floods.admit("app:x", start + REFILL), Some(1000 - u64::from(BURST)));
    }

    #[test]
    fn tokens_are_not_written_down() {
        let token = "0123456789abcdef0123456789abcdef";
        for (text, want) in [
            (format!("GET /v1/apps/a/frame/{token}"), "GET /v1/apps/a/frame/…"),
            (
                format!("app:a may not use DELETE /v1/x/{token}."),
                "app:a may not use DELETE /v1/x/…",
            ),
            ("GET /v1/settings/connections".into(), "GET /v1/settings/connections"),
        ] {
            assert_eq!(without_tokens(&text), want);
        }
    }
}
