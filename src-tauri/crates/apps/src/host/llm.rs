//! `host.llm`: awaited and streamed model requests, and embeddings.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use policy::Capability;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Generation, OPEN_CALLS, Part, Who, json_size};
/// Bytes of JSON of the requests that are queued or open at a time. Each is held some four times over while it is sent.
const REQUEST_BYTES: usize = 32 << 20;
/// Longest `timeoutMs`: an hour.
const LONGEST_WAIT: u64 = 3_600_000;
/// Texts of one `embed` (the wire format's own limit).
const TEXTS: usize = 2048;

/// The model requests of one call.
#[derive(Default)]
pub struct Models {
    open: Mutex<(u64, HashMap<u64, Arc<Open>>)>,
    /// Bytes of the queued requests.
    queued: Mutex<usize>,
}

struct Open {
    generation: tokio::sync::Mutex<Running>,
    stop: Notify,
    size: usize,
    until: Option<(Instant, u64)>,
}

struct Running {
    inner: Box<dyn Generation>,
    /// The deadline has passed and the request was told.
    late: bool,
}

impl Open {
    /// What arrived next. An abort and the deadline reach a request that somebody is waiting for.
    async fn next(&self) -> Part {
        let mut generation = self.generation.lock().await;
        loop {
            let until = self.until.filter(|_| !generation.late);
            let late = async {
                match until {
                    Some((at, _)) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let late = tokio::select! {
                biased;
                () = self.stop.notified() => false,
                () = late => true,
                part = generation.inner.next() => return match (part, self.until) {
                    (Part::Done(result), Some((_, ms))) if generation.late => Part::Done(too_late(result, ms)),
                    (part, _) => part,
                },
            };
            generation.late |= late;
            generation.inner.abort();
        }
    }
}

/// What had arrived until the deadline, saying so.
fn too_late(mut result: Value, ms: u64) -> Value {
    if let Some(fields) = result.as_object_mut() {
        fields.insert("stopped".into(), true.into());
        let why = format!("stopped: there was no end within {ms} ms (timeoutMs)");
        fields.entry("error").or_insert(why.into());
    }
    result
}

/// `{timeoutMs?}`, the options beside a request.
fn deadline(options: Option<&Value>) -> Result<Option<(Instant, u64)>, String> {
    match options.and_then(|options| options.get("timeoutMs")) {
        None | Some(Value::Null) => Ok(None),
        Some(given) => match given.as_f64() {
            Some(ms) if (1.0..=LONGEST_WAIT as f64).contains(&ms) => {
                Ok(Some((Instant::now() + Duration::from_millis(ms as u64), ms as u64)))
            }
            _ => Err(format!("host.llm: timeoutMs must be a number from 1 to {LONGEST_WAIT}")),
        },
    }
}

impl Models {
    /// Notes a queued request, if there is room for it beside what is queued and open already.
    pub fn queue(&self, request: &Value) -> Result<(), String> {
        let size = self.room_for(request)?;
        *self.queued.lock() += size;
        Ok(())
    }

    pub fn queue_taken(&self) {
        *self.queued.lock() = 0;
    }

    fn room_for(&self, request: &Value) -> Result<usize, String> {
        let size = json_size(request);
        let open: usize = self.open.lock().1.values().map(|open| open.size).sum();
        if (*self.queued.lock() + open).saturating_add(size) > REQUEST_BYTES {
            return Err(format!(
                "host.llm: the model requests that are open or queued have over {} MiB together: wait for their ends",
                REQUEST_BYTES >> 20
            ));
        }
        Ok(size)
    }

    fn open(&self, who: &Arc<Who>, args: &[Value]) -> Result<u64, String> {
        let request = args.first().cloned().unwrap_or(Value::Null);
        let until = deadline(args.get(1))?;
        if self.open.lock().1.len() >= OPEN_CALLS {
            return Err(format!(
                "host.llm: {OPEN_CALLS} model requests are open already: read them to their end first"
            ));
        }
        let size = self.room_for(&request)?;
        let inner = who.beyond.generate(&who.context, who.entry, "", request)?;
        let mut open = self.open.lock();
        open.0 += 1;
        let id = open.0;
        let entry = Open {
            generation: tokio::sync::Mutex::new(Running { inner, late: false }),
            stop: Notify::new(),
            size,
            until,
        };
        open.1.insert(id, Arc::new(entry));
        Ok(id)
    }

    fn find(&self, args: &[Value]) -> Result<(u64, Arc<Open>), String> {
        let id = args.first().and_then(Value::as_u64).ok_or("host.llm: no such stream")?;
        let found = self.open.lock().1.get(&id).cloned();
        found
            .map(|open| (id, open))
            .ok_or_else(|| "host.llm: no such stream".into())
    }

    /// Reads a request to its end.
    async fn rest(&self, args: &[Value]) -> Result<Value, String> {
        let (id, open) = self.find(args)?;
        let _forget = Forget { models: self, id };
        loop {
            if let Part::Done(result) = open.next().await {
                return Ok(result);
            }
        }
    }

    /// The awaited methods.
    pub async fn call(&self, who: &Arc<Who>, method: &str, args: &[Value]) -> Result<Value, String> {
        match method {
            "llm.generate" => {
                who.need(Capability::Llm, method)?;
                let id = self.open(who, args)?;
                self.rest(&[id.into()]).await
            }
            // What `generate` of the prelude is made of: it has to know the id before the end, to be able to abort.
            "llm.rest" => self.rest(args).await,
            "llm.open" => {
                who.need(Capability::Llm, "llm")?;
                Ok(self.open(who, args)?.into())
            }
            "llm.next" => {
                let (id, open) = self.find(args)?;
                Ok(match open.next().await {
                    Part::Text { delta, thinking } => json!({"delta": delta, "thinking": thinking}),
                    Part::Tool {
                        phase,
                        name,
                        args,
                        result,
                        is_error,
                    } => json!({"tool": {
                        "phase": phase, "name": name, "args": args, "result": result, "isError": is_error,
                    }}),
                    Part::Done(result) => {
                        self.open.lock().1.remove(&id);
                        json!({"result": result})
                    }
                })
            }
            "llm.abort" => {
                // `notify_one` waits for a reader, so an abort between two reads is not lost.
                self.find(args)?.1.stop.notify_one();
                Ok(true.into())
            }
            "llm.embed" => {
                who.need(Capability::Llm, method)?;
                embed(who, args.first().cloned().unwrap_or(Value::Null)).await
            }
            other => Err(format!("host.{other} does not exist")),
        }
    }
}

/// Takes a request off the list, also when the wait for it is dropped.
struct Forget<'a> {
    models: &'a Models,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.models.open.lock().1.remove(&self.id);
    }
}

/// Runs a queued request to its end; a failure is a result (contract section 4.2). The permission is looked at again: it
/// may have been taken back since the request was queued.
pub async fn finish(who: &Arc<Who>, key: &str, request: Value) -> Value {
    if let Err(error) = who.need(Capability::Llm, "llm.request") {
        return super::failure(&error);
    }
    match who.beyond.generate(&who.context, who.entry, key, request) {
        Ok(mut generation) => loop {
            if let Part::Done(result) = generation.next().await {
                return result;
            }
        },
        Err(error) => super::failure(&error),
    }
}

/// `{texts, model?}` → vectors, or null where no connection makes them (contract section 4.4).
pub async fn embed(who: &Arc<Who>, request: Value) -> Result<Value, String> {
    let texts = request
        .get("texts")
        .and_then(Value::as_array)
        .ok_or("host.llm.embed: give {texts: [\"…\"], model?}")?;
    if texts.len() > TEXTS || !texts.iter().all(Value::is_string) {
        return Err(format!(
            "host.llm.embed: texts must be a list of at most {TEXTS} strings"
        ));
    }
    if json_size(&request) > REQUEST_BYTES {
        return Err(format!(
            "host.llm.embed: the texts have over {} MiB together",
            REQUEST_BYTES >> 20
        ));
    }
    who.beyond.embed(&who.context, request).await
}

/// A model result that says only what went wrong.
pub fn failure(error: &str) -> Value {
    json!({
        "text": "", "model": "error", "error": error, "genTimeMs": 0,
        "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "costTotal": 0, "priced": false},
    })
}
