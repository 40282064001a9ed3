//! `host.net`: requests to the hosts that were granted.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt;
use net::{Body, FetchSpec, Net, Reach, SpecHeader, Spend};
use parking_lot::Mutex;
use policy::{AccountId, AppId, Capability};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{OPEN_CALLS, Who};
use crate::budget::{self, Budgets};

/// What the activity log calls a plugin's request.
const PURPOSE: &str = "plugin";
/// Bytes taken from the app's budget at a time; what is left over at the end of a request is given back.
const BLOCK: u64 = 64 << 10;

type Shared = Arc<tokio::sync::Mutex<Incoming>>;

/// The requests of one call.
pub struct Wires {
    net: Net,
    /// Answers that are read piece by piece, and the last number given to one.
    open: Mutex<(u64, HashMap<u64, Shared>)>,
    /// What an abort of the request with this number wakes.
    running: Mutex<HashMap<u64, Arc<Notify>>>,
}

/// An answer that is read piece by piece.
struct Incoming {
    body: Body,
    binary: bool,
    /// The beginning of a character whose end has not arrived.
    rest: Vec<u8>,
    ended: bool,
}

impl Incoming {
    /// The next piece, or null at the end.
    async fn next(&mut self) -> Result<Value, String> {
        while !self.ended {
            let Some(piece) = self.body.next().await else {
                self.ended = true;
                if self.rest.is_empty() {
                    break;
                }
                return Ok(json!({"text": String::from_utf8_lossy(&std::mem::take(&mut self.rest))}));
            };
            let piece = piece.map_err(|error| {
                self.ended = true;
                error.to_string()
            })?;
            if self.binary {
                return Ok(json!({"base64": BASE64_STANDARD.encode(piece)}));
            }
            self.rest.extend_from_slice(&piece);
            let text = whole_characters(&mut self.rest);
            if !text.is_empty() {
                return Ok(json!({"text": text}));
            }
        }
        Ok(json!({}))
    }
}

/// Takes the text off the front of `bytes` and leaves a character that is cut off there. What is no UTF-8 becomes U+FFFD.
fn whole_characters(bytes: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut left = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let invalid = chunk.invalid();
        left = 0;
        if !invalid.is_empty() {
            // Only the last chunk of the bytes can be one that goes on: elsewhere it was followed by something wrong.
            let end = chunk.valid().as_ptr() as usize + chunk.valid().len() + invalid.len();
            let at_end = end == bytes.as_ptr() as usize + bytes.len();
            if at_end && may_go_on(invalid) {
                left = invalid.len();
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }
    bytes.drain(..bytes.len() - left);
    text
}

/// Whether these bytes begin a character of UTF-8 and are not all of it.
fn may_go_on(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Takes bytes from the app's budget in blocks, as a request uses them.
struct Meter {
    budgets: Arc<Budgets>,
    account: AccountId,
    app: AppId,
    left: Mutex<u64>,
}

impl Meter {
    fn spend(&self, bytes: u64) -> Result<(), String> {
        let mut left = self.left.lock();
        if *left < bytes {
            let missing = bytes - *left;
            let take = |amount| {
                self.budgets
                    .take(&self.account, &self.app, budget::Spend::NetworkBytes, amount)
            };
            let block = missing.max(BLOCK);
            // Near the limit a whole block may be too much where the bytes themselves are not.
            *left += match take(block) {
                Ok(()) => block,
                Err(_) => take(missing).map(|()| missing)?,
            };
        }
        *left -= bytes;
        Ok(())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let left = *self.left.get_mut();
        self.budgets
            .give_back(&self.account, &self.app, budget::Spend::NetworkBytes, left);
    }
}

impl Who {
    /// The hosts that count now: `network` and `local-network`, within the administrator's bounds.
    pub(super) fn reach(&self, method: &str) -> Result<Reach, String> {
        let (_, app, plugin) = self.ids()?;
        let local = self.check(Capability::LocalNetwork).map(|granted| granted.scope);
        let hosts = match (&local, self.check(Capability::Network)) {
            (_, Ok(granted)) => granted.scope,
            (Ok(_), Err(_)) => Vec::new(),
            (Err(_), Err(_)) => self.need(Capability::Network, method)?.scope,
        };
        Ok(Reach::Granted(net::Granted {
            hosts: hosts.into(),
            local: local.unwrap_or_default().into(),
            also: self.permissions.bounds(app, plugin),
        }))
    }

    fn meter(&self) -> Result<Spend, String> {
        let (account, app, _) = self.ids()?;
        let meter = Meter {
            budgets: self.budgets.clone(),
            account: account.clone(),
            app: app.clone(),
            left: Mutex::new(0),
        };
        Ok(Arc::new(move |bytes| meter.spend(bytes)))
    }
}

/// Reads a plugin's request, and finds the hosts it may reach and the secrets it names.
async fn prepare(who: &Arc<Who>, method: &str, given: &Value) -> Result<(FetchSpec, net::Fetch), String> {
    let reach = who.reach(method)?;
    let said = |why: String| format!("host.{method}: {why}");
    let spec = FetchSpec::parse(given).map_err(said)?;
    let mut handles = HashMap::new();
    for (_, value) in &spec.headers {
        let SpecHeader::Secret { name, .. } = value else {
            continue;
        };
        // The keychain of the system may take its time.
        let (asking, wanted) = (who.clone(), name.clone());
        let look = move || asking.beyond.plugin_secret(&asking.context, &wanted);
        let found = tokio::task::spawn_blocking(look).await;
        handles.insert(name.clone(), found.map_err(|_| said("the engine is stopping".into()))?);
    }
    let fetch = spec.fetch(reach, PURPOSE, who.meter()?, |name| {
        handles.get(name).cloned().flatten()
    });
    let fetch = fetch.map_err(said)?;
    Ok((spec, fetch))
}

/// Takes an entry off its list, also when the wait is dropped.
struct Forget<'a>(&'a Mutex<HashMap<u64, Arc<Notify>>>, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

impl Wires {
    pub fn new(net: Net) -> Self {
        Self {
            net,
            open: Mutex::default(),
            running: Mutex::default(),
        }
    }

    /// One whole request; whatever goes wrong is in the result (contract section 3.4).
    pub async fn fetch(&self, who: &Arc<Who>, method: &str, spec: &Value) -> Value {
        let prepared = || -> Result<(FetchSpec, net::Fetch), String> {
            let reach = who.reach(method)?;
            let spec = FetchSpec::parse(spec).map_err(|why| format!("host.{method}: {why}"))?;
            let fetch = spec
                .fetch(reach, PURPOSE, who.meter()?, |name| {
                    who.beyond.plugin_secret(&who.context, name)
                })
                .map_err(|why| format!("host.{method}: {why}"))?;
            Ok((spec, fetch))
        };
        match prepared() {
            Ok((spec, fetch)) => spec.result(self.net.fetch(&who.context, fetch).await),
            Err(why) => net::spec::failure(&why),
        }
    }

    /// Opens a request whose body is read with `net.next`.
    async fn open(&self, who: &Arc<Who>, method: &str, given: &Value) -> Result<Value, String> {
        if self.open.lock().1.len() >= OPEN_CALLS {
            return Err(format!(
                "host.net.fetch: {OPEN_CALLS} answers are being read already: read one to its end first"
            ));
        }
        let (spec, fetched) = match prepare(who, method, given).await {
            Ok((spec, fetch)) => {
                let fetched = self.net.fetch_stream(&who.context, fetch).await;
                (spec, fetched.map_err(|e| e.to_string()))
            }
            Err(why) => return Ok(net::spec::failure(&why)),
        };
        let fetched = match fetched {
            Ok(fetched) => fetched,
            Err(why) => return Ok(net::spec::failure(&why)),
        };
        let mut head = net::spec::head(fetched.status, &fetched.status_text, &fetched.headers, &fetched.url);
        let mut open = self.open.lock();
        open.0 += 1;
        let id = open.0;
        let incoming = Incoming {
            body: fetched.body,
            binary: spec.binary,
            rest: Vec::new(),
            ended: false,
        };
        open.1.insert(id, Arc::new(tokio::sync::Mutex::new(incoming)));
        head.insert("id".into(), id.into());
        Ok(head.into())
    }

    /// The awaited methods.
    pub async fn call(&self, who: &Arc<Who>, method: &str, args: &[Value]) -> Result<Value, String> {
        let number = |at: usize| args.get(at).and_then(Value::as_u64);
        match method {
            "net.fetch" | "net.open" => {
                who.reach("net.fetch")?;
                let spec = args.first().unwrap_or(&Value::Null);
                let stop = Arc::new(Notify::new());
                let ticket = number(1).unwrap_or(0);
                self.running.lock().insert(ticket, stop.clone());
                let _forget = Forget(&self.running, ticket);
                let answer = async {
                    if method == "net.open" {
                        self.open(who, "net.fetch", spec).await
                    } else {
                        Ok(self.fetch(who, "net.fetch", spec).await)
                    }
                };
                tokio::select! {
                    biased;
                    () = stop.notified() => Err("host.net.fetch: aborted".into()),
                    answer = answer => answer,
                }
            }
            "net.next" => {
                let id = number(0).ok_or("host.net: no such answer")?;
                let incoming = self.open.lock().1.get(&id).cloned().ok_or("host.net: no such answer")?;
                let part = incoming.lock().await.next().await;
                if part
                    .as_ref()
                    .map_or(true, |part| part.as_object().is_some_and(|fields| fields.is_empty()))
                {
                    self.open.lock().1.remove(&id);
                }
                part
            }
            "net.close" => Ok(number(0).and_then(|id| self.open.lock().1.remove(&id)).is_some().into()),
            "net.abort" => {
                let stop = number(0).and_then(|ticket| self.running.lock().get(&ticket).cloned());
                if let Some(stop) = &stop {
                    stop.notify_one();
                }
                Ok(stop.is_some().into())
            }
            other => Err(format!("host.{other} does not exist")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn a_text_is_the_same_however_it_was_cut() {
        for bytes in [
            "data: 日本🦋 é\r\n".as_bytes(),
            b"a\xffb\xe6\x97",
            b"\xf0\x9f\xa6\x8b\xf0\x9f",
            b"\xe6\x97\xe6\x97\xa5",
        ] {
            let want = String::from_utf8_lossy(bytes);
            for at in 0..=bytes.len() {
                let mut rest = Vec::new();
                let mut text = String::new();
                for part in [&bytes[..at], &bytes[at..]] {
                    rest.extend_from_slice(part);
                    text.push_str(&whole_characters(&mut rest));
                }
                text.push_str(&String::from_utf8_lossy(&rest));
                assert_eq!(text, want, "cut at {at}");
            }
        }
    }
}
