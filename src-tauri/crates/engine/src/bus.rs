//! Events on their way to launchers and pages.

use std::sync::Arc;

use policy::{AccountId, AppId, Caller};
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// Events a subscriber may lag behind before it is told that it missed some.
const BACKLOG: usize = 4096;

/// One event, with who may see it.
#[derive(Debug)]
pub struct Event {
    pub account: AccountId,
    /// The app whose pages may see it; `None` is for the person alone.
    pub app: Option<AppId>,
    pub kind: &'static str,
    pub payload: Value,
}

impl Event {
    /// Whether `caller` may see this (contract section 5.2).
    pub fn visible_to(&self, caller: &Caller) -> bool {
        if caller.account() != Some(&self.account) {
            return false;
        }
        match caller {
            Caller::Owner { .. } | Caller::CommandLine { .. } => true,
            Caller::App { app, .. } => self.app.as_ref() == Some(app),
            _ => false,
        }
    }

    /// The frame clients of the reference engine know.
    pub fn frame(&self) -> String {
        json!({"type": self.kind, "payload": self.payload}).to_string()
    }
}

pub struct Bus(broadcast::Sender<Arc<Event>>);

impl Bus {
    pub fn new() -> Self {
        Self(broadcast::channel(BACKLOG).0)
    }

    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Event>> {
        self.0.subscribe()
    }

    /// Whether anyone listens; saves making events for nobody.
    pub fn heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub fn send(&self, event: Event) {
        let _ = self.0.send(Arc::new(event));
    }
}
