//! The clock: plugins with a schedule (contract section 3.5).

use std::collections::HashMap;
use std::sync::Weak;
use std::time::{Duration, Instant};

use policy::{AccountId, AppId, CallContext, Caller, Capability, PluginId};
use serde_json::json;

use super::{Owned, Room};
use crate::bus::Event;
use crate::{Engine, Inner, blocking};

/// How often the clock looks whose turn it is.
const STEP: Duration = Duration::from_secs(1);
/// How long a list of scheduled plugins is used; a change in the launcher is noticed at the next step.
const LIST_AGE: Duration = Duration::from_secs(10);

type Key = (AccountId, AppId, PluginId);

struct Due {
    of: Owned,
    every: Duration,
}

/// Runs until the engine is gone. Holds it only while it works.
pub(crate) async fn run(engine: Weak<Inner>) {
    let mut last: HashMap<Key, Instant> = HashMap::new();
    let mut running: HashMap<Key, tokio::task::JoinHandle<()>> = HashMap::new();
    let mut list: Vec<(AccountId, Due)> = Vec::new();
    let mut listed: Option<Instant> = None;
    let mut seen_changes = 0;
    loop {
        tokio::time::sleep(STEP).await;
        let Some(engine) = engine.upgrade().map(Engine) else {
            return;
        };
        if engine.ending() {
            return;
        }
        let changes = engine.changes();
        if listed.is_none_or(|at| at.elapsed() >= LIST_AGE) || changes != seen_changes {
            seen_changes = changes;
            let of = engine.clone();
            list = blocking(move || of.scheduled()).await;
            listed = Some(Instant::now());
            last.retain(|key, _| list.iter().any(|(account, due)| *key == due.key(account)));
        }
        running.retain(|_, task| !task.is_finished());
        for (account, due) in &list {
            let key = due.key(account);
            // The first turn comes one interval after the plugin was first seen, and a tick never overlaps itself.
            let at = *last.entry(key.clone()).or_insert_with(Instant::now);
            if at.elapsed() < due.every || running.contains_key(&key) {
                continue;
            }
            last.insert(key.clone(), Instant::now());
            let (engine, account, of) = (engine.clone(), account.clone(), due.of.clone());
            running.insert(key, tokio::spawn(async move { engine.tick(&account, &of).await }));
        }
    }
}

impl Due {
    fn key(&self, account: &AccountId) -> Key {
        (account.clone(), self.of.app.clone(), self.of.plugin.id.clone())
    }
}

impl Engine {
    /// Every plugin of every account that has a schedule and may follow it.
    fn scheduled(&self) -> Vec<(AccountId, Due)> {
        let mut found = Vec::new();
        for account in self.db().account_ids().unwrap_or_default() {
            let Ok(room) = self.room(&account) else { continue };
            let apps = room.workspace.list().map(|(apps, _)| apps).unwrap_or_default();
            let ids = apps.into_iter().map(|app| app.id).chain([AppId::shelf()]);
            for of in ids.flat_map(|app| self.usable(&room, &app)) {
                if let Some(every) = self.every(&room, &of) {
                    found.push((account.clone(), Due { of, every }));
                }
            }
        }
        found
    }

    fn every(&self, room: &Room, of: &Owned) -> Option<Duration> {
        let every = Duration::from_millis(of.plugin.manifest.interval_ms?);
        self.plugins()
            .allowed(&room.account, &of.app, &of.plugin, Capability::Schedule)
            .then_some(every)
    }

    /// One tick, with the code that is on disk now.
    pub(crate) async fn tick(&self, account: &AccountId, of: &Owned) {
        let Ok(room) = self.room(account) else { return };
        let Ok(plugin) = room.workspace.plugin(&of.app, &of.plugin.id) else {
            return;
        };
        let of = Owned {
            app: of.app.clone(),
            plugin,
        };
        if self.every(&room, &of).is_none() {
            return;
        }
        let context = CallContext::root(&Caller::Engine {
            account: account.clone(),
        });
        match self.plugins().tick(&room.target(&context, &of)).await {
            Ok(Some(payload)) if !payload.is_null() && !of.app.is_shelf() => self.bus().send(Event {
                account: account.clone(),
                app: Some(of.app.clone()),
                kind: "plugin_event",
                payload: json!({"app": of.app, "plugin": of.plugin.id, "payload": payload}),
            }),
            Ok(_) => {}
            Err(error) => self.note_failure(&context, &of, "onTick", &error),
        }
    }
}
