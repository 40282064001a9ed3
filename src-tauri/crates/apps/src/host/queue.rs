//! The older form of `host.llm` and `host.net`: requests are queued, done after the call has returned, and the call is
//! made again with their results (contract section 3.3).

use policy::Capability;
use serde_json::{Map, Value};

use super::{GuestHost, llm};

/// Requests of each kind queued in one pass (contract section 3.4).
const MODEL_REQUESTS: usize = 16;
const EMBEDDINGS: usize = 8;
const NETWORK_REQUESTS: usize = 32;
/// Characters of a key.
const KEY_LIMIT: usize = 512;

/// What one pass queued; permitted requests only.
#[derive(Debug, Default)]
pub struct Queued {
    pub embeds: Vec<(String, Value)>,
    pub fetches: Vec<(String, Value)>,
    pub llms: Vec<(String, Value)>,
}

impl Queued {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn len(&self) -> usize {
        self.embeds.len() + self.fetches.len() + self.llms.len()
    }
}

/// What came of the requests of all passes so far, by their keys.
#[derive(Debug, Clone, Default)]
pub struct Results {
    pub results: Map<String, Value>,
    pub embed_results: Map<String, Value>,
    pub net_results: Map<String, Value>,
}

impl GuestHost {
    /// Takes what the last pass queued. A pass in which anything was queued is pending.
    pub fn take_queue(&self) -> Queued {
        self.models.queue_taken();
        std::mem::take(&mut self.queue.lock())
    }

    /// Does queued requests one after another: embeddings, then the network, then models. A failure is a result, never
    /// an error.
    pub async fn perform(&self, queued: Queued, results: &mut Results) {
        for (key, request) in queued.embeds {
            let vectors = match self.who.need(Capability::Llm, "llm.embed") {
                Ok(_) => llm::embed(&self.who, request).await,
                Err(why) => Err(why),
            };
            let vectors = vectors.unwrap_or_else(|why| {
                self.who.beyond.logged(&self.who.context, "warn", &why);
                Value::Null
            });
            results.embed_results.insert(key, vectors);
        }
        for (key, spec) in queued.fetches {
            let result = self.wires.fetch(&self.who, "net.request", &spec).await;
            results.net_results.insert(key, result);
        }
        for (key, request) in queued.llms {
            let result = llm::finish(&self.who, &key, request).await;
            results.results.insert(key, result);
        }
    }

    pub(super) fn enqueue(&self, method: &str, args: &[Value]) -> Result<Value, String> {
        let key = args
            .first()
            .and_then(Value::as_str)
            .filter(|key| key.chars().count() <= KEY_LIMIT)
            .ok_or_else(|| format!("host.{method}: the key must be a string of at most {KEY_LIMIT} characters"))?;
        let request = args.get(1).cloned().unwrap_or(Value::Null);
        let permitted = match method {
            "net.request" => self.who.reach(method).is_ok(),
            _ => self.who.need(Capability::Llm, method).is_ok(),
        };
        // An ungranted request is dropped, never executed (contract section 12, guest).
        if !permitted {
            return Ok(Value::Null);
        }
        let mut queue = self.queue.lock();
        let (list, most) = match method {
            "net.request" => (&mut queue.fetches, NETWORK_REQUESTS),
            "llm.embed" => (&mut queue.embeds, EMBEDDINGS),
            _ => (&mut queue.llms, MODEL_REQUESTS),
        };
        if list.len() >= most {
            return Err(format!("host.{method}: at most {most} requests per pass"));
        }
        self.models.queue(&request)?;
        list.push((key.to_owned(), request));
        Ok(Value::Null)
    }
}
