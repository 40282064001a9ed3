//! What pages write to `localStorage` and `sessionStorage`, on its way to the engine.
//!
//! Writes go out in order, one at a time, and outlive the page that made them: a page that stores something and
//! reloads in the next line finds it stored. A later write to the same key replaces one that has not gone out yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use policy::{AppId, Caller};
use tokio::sync::{Notify, watch};

use super::door::Door;
use super::message::{StorageArea, StorageOp, StorageWrite, StorageWriteName, ToPage};
use super::outbox::Outbox;

/// Keys and values that may wait to be stored, in bytes: the quota of both areas, in three-byte characters, twice.
const MAX_WAITING: usize = 12 * 1024 * 1024;

/// The queue of one window.
pub struct Storage {
    state: Arc<State>,
}

struct State {
    waiting: Mutex<Waiting>,
    more: Notify,
    /// Writes accepted and not yet answered.
    open: watch::Sender<usize>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    bytes: usize,
    writes: BTreeMap<u64, (StorageWrite, Arc<Outbox>)>,
    by_key: HashMap<(StorageArea, String), u64>,
    closed: bool,
}

impl Storage {
    pub fn start(door: Arc<dyn Door>, caller: Caller, app: AppId) -> Storage {
        let state = Arc::new(State {
            waiting: Mutex::default(),
            more: Notify::new(),
            open: watch::Sender::new(0),
        });
        tokio::spawn(store(state.clone(), door, caller, app));
        Storage { state }
    }

    /// Queues a write. Failures are told to `page`; the error is one that the page is to be told at once.
    pub fn write(&self, write: StorageWrite, page: &Arc<Outbox>) -> Result<(), &'static str> {
        let weight = weigh(&write);
        let Ok(mut waiting) = self.state.waiting.lock() else {
            return Err("storage is not available");
        };
        if waiting.bytes + weight > MAX_WAITING {
            return Err("too much is waiting to be stored");
        }
        let superseded: Vec<u64> = match (write.op, &write.key) {
            (StorageOp::Clear, _) => waiting
                .writes
                .iter()
                .filter(|(_, (earlier, _))| earlier.which == write.which)
                .map(|(number, _)| *number)
                .collect(),
            (_, Some(key)) => waiting.by_key.remove(&(write.which, key.clone())).into_iter().collect(),
            (_, None) => return Err("a key is missing"),
        };
        let gone = superseded.len();
        for number in superseded {
            waiting.take(number);
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.bytes += weight;
        if let (StorageOp::Set | StorageOp::Remove, Some(key)) = (write.op, &write.key) {
            waiting.by_key.insert((write.which, key.clone()), number);
        }
        waiting.writes.insert(number, (write, page.clone()));
        // Still under the lock: the task must not be done with the write before it is counted.
        self.state.open.send_modify(|open| *open = *open + 1 - gone);
        drop(waiting);
        self.state.more.notify_one();
        Ok(())
    }

    /// Waits until everything queued so far has been answered.
    pub async fn flush(&self) {
        let _ = self.state.open.subscribe().wait_for(|open| *open == 0).await;
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Ok(mut waiting) = self.state.waiting.lock() {
            waiting.closed = true;
        }
        self.state.more.notify_one();
    }
}

impl Waiting {
    fn take(&mut self, number: u64) -> Option<(StorageWrite, Arc<Outbox>)> {
        let (write, page) = self.writes.remove(&number)?;
        self.bytes = self.bytes.saturating_sub(weigh(&write));
        if let Some(key) = &write.key {
            let key = (write.which, key.clone());
            if self.by_key.get(&key) == Some(&number) {
                self.by_key.remove(&key);
            }
        }
        Some((write, page))
    }

    fn first(&mut self) -> Option<(StorageWrite, Arc<Outbox>)> {
        let number = *self.writes.first_key_value()?.0;
        self.take(number)
    }
}

fn weigh(write: &StorageWrite) -> usize {
    64 + write.key.as_ref().map_or(0, String::len) + write.value.as_ref().map_or(0, String::len)
}

async fn store(state: Arc<State>, door: Arc<dyn Door>, caller: Caller, app: AppId) {
    loop {
        let next = match state.waiting.lock() {
            Ok(mut waiting) => match waiting.first() {
                None if waiting.closed => return,
                next => next,
            },
            Err(_) => return,
        };
        let Some((write, page)) = next else {
            state.more.notified().await;
            continue;
        };
        if let Err(message) = store_one(&*door, &caller, &app, &write).await {
            let write = StorageWriteName {
                which: write.which,
                op: write.op,
                key: write.key,
            };
            page.push(ToPage::StorageError { write, message }).await;
        }
        state.open.send_modify(|open| *open -= 1);
    }
}

async fn store_one(door: &dyn Door, caller: &Caller, app: &AppId, write: &StorageWrite) -> Result<(), String> {
    let body = serde_json::to_vec(write).map_err(|error| error.to_string())?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("/v1/apps/{app}/__storage"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .map_err(|error| error.to_string())?;
    let answer = door.call(caller.clone(), request).await;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let text = Limited::new(answer.into_body(), 16 * 1024).collect().await;
    let error = text
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text.to_bytes()).ok())
        .and_then(|error| error["error"].as_str().map(str::to_owned));
    Err(error.unwrap_or_else(|| match status {
        StatusCode::PAYLOAD_TOO_LARGE => "the storage of this app is full".into(),
        other => format!("not stored ({other})"),
    }))
}
