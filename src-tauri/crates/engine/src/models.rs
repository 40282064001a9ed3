//! Which models there are, which one a request means, and running requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apps::host::{Generation, Part};
use async_trait::async_trait;
use db::{ActivityEnd, ConnectionRow, NewActivity};
use futures::StreamExt;
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext, Caller};
use providers::{Endpoint, Event as ModelEvent, EventStream, GenerateRequest, demo};
use serde_json::{Value, json};
use url::Url;

use crate::Engine;
use crate::bus::Event;
use crate::streams::{Answer, End, Place};

/// The built-in model's reference.
pub const DEMO: &str = "demo/canned";
/// Bytes of a model's reference: a connection's id and 200 for the model, as settings and lists keep. It is written into
/// the activity log.
const MODEL_LIMIT: usize = 300;
/// How long a model list is used before the server is asked again.
const LIST_AGE: Duration = Duration::from_secs(60);
/// Text for pages on the bus is gathered for this long, so that a fast model does not make an event per token.
const BUS_PAUSE: Duration = Duration::from_millis(20);

/// One usable model.
#[derive(Debug, Clone)]
pub struct Listed {
    pub connection: String,
    pub connection_name: String,
    pub id: String,
    pub context_window: Option<u64>,
}

impl Listed {
    pub fn reference(&self) -> String {
        format!("{}/{}", self.connection, self.id)
    }
}

type Lists = HashMap<(AccountId, String), (Instant, Result<Vec<Listed>, String>)>;

/// Model lists as the servers last gave them.
#[derive(Default)]
pub struct ModelLists(Mutex<Lists>);

impl ModelLists {
    pub fn forget(&self, account: &AccountId) {
        self.0.lock().retain(|(owner, _), _| owner != account);
    }
}

/// A request's model, found.
enum Target {
    Demo,
    Server(Box<Endpoint>, String),
}

impl Engine {
    fn endpoint(&self, account: &AccountId, row: &ConnectionRow) -> Result<Endpoint, String> {
        let url =
            Url::parse(&row.base_url).map_err(|e| format!("Connection \"{}\" has a bad address: {e}", row.name))?;
        let mut endpoint = Endpoint::new(&row.id, &row.name, url);
        endpoint.key = self.key_of(account, row);
        Ok(endpoint)
    }

    async fn list_one(
        &self,
        context: &CallContext,
        account: &AccountId,
        row: &ConnectionRow,
        fresh: bool,
    ) -> Result<Vec<Listed>, String> {
        let listed = |id: &str, context_window: Option<u64>| Listed {
            connection: row.id.clone(),
            connection_name: row.name.clone(),
            id: id.to_owned(),
            context_window,
        };
        if let Some(names) = row.models.as_array() {
            return Ok(names
                .iter()
                .filter_map(Value::as_str)
                .map(|id| listed(id, None))
                .collect());
        }
        let slot = (account.clone(), row.id.clone());
        if !fresh
            && let Some((at, known)) = self.model_lists().0.lock().get(&slot)
            && at.elapsed() < LIST_AGE
        {
            return known.clone();
        }
        let found = match self.endpoint(account, row) {
            Ok(endpoint) => providers::list_models(context, self.net(), &endpoint)
                .await
                .map(|list| {
                    list.models
                        .iter()
                        .map(|m| listed(&m.id, m.context_window))
                        .collect::<Vec<_>>()
                })
                .map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        self.model_lists()
            .0
            .lock()
            .insert(slot, (Instant::now(), found.clone()));
        found
    }

    /// Every model of every connection, and why some connections gave none.
    pub async fn list_models(
        &self,
        context: &CallContext,
        account: &AccountId,
        fresh: bool,
    ) -> Result<(Vec<Listed>, Vec<Value>), db::DbError> {
        let rows = self.db().connections(account)?;
        let lists = futures::future::join_all(rows.iter().map(|row| self.list_one(context, account, row, fresh))).await;
        let (mut models, mut errors) = (Vec::new(), Vec::new());
        for (row, list) in rows.iter().zip(lists) {
            match list {
                Ok(found) => models.extend(found),
                Err(error) => errors.push(json!({"connection": row.id, "connectionName": row.name, "error": error})),
            }
        }
        Ok((models, errors))
    }

    /// Finds what `wanted` names. A named model is never swapped for another (contract section 4.1).
    async fn target(&self, context: &CallContext, account: &AccountId, wanted: Option<&str>) -> Result<Target, String> {
        let settings = self.db().setting(account, "model").map_err(|e| e.to_string())?;
        let set = settings.as_ref().and_then(Value::as_str).filter(|m| !m.is_empty());
        let rows = self.db().connections(account).map_err(|e| e.to_string())?;
        let wanted = wanted.filter(|w| !w.is_empty()).or(set);
        if wanted == Some(DEMO) {
            return Ok(Target::Demo);
        }
        if let Some(wanted) = wanted {
            if let Some((connection, id)) = wanted.split_once('/')
                && let Some(row) = rows.iter().find(|row| row.id == connection)
            {
                return Ok(Target::Server(Box::new(self.endpoint(account, row)?), id.to_owned()));
            }
            // A bare model id: the first connection that lists it.
            for row in &rows {
                if self
                    .list_one(context, account, row, false)
                    .await
                    .is_ok_and(|list| list.iter().any(|m| m.id == wanted))
                {
                    return Ok(Target::Server(
                        Box::new(self.endpoint(account, row)?),
                        wanted.to_owned(),
                    ));
                }
            }
            return Err(format!(
                "The model \"{wanted}\" is not available: no connection offers it. Choose another model."
            ));
        }
        for row in &rows {
            if let Ok(list) = self.list_one(context, account, row, false).await
                && let Some(first) = list.first()
            {
                return Ok(Target::Server(Box::new(self.endpoint(account, row)?), first.id.clone()));
            }
        }
        match rows.first() {
            None => Err(
                "No model is set up. Add a model server in the launcher's settings, or choose the demo model.".into(),
            ),
            Some(row) => {
                let why = self.list_one(context, account, row, false).await.err();
                Err(why.unwrap_or_else(|| format!("\"{}\" offers no models.", row.name)))
            }
        }
    }

    /// Starts a request in the background; its answer grows whether or not anyone reads it.
    pub fn start(&self, context: &CallContext, request: Value) -> Result<Arc<Answer>, String> {
        let account = context.account.clone().ok_or("a model request needs an account")?;
        let app = context.chain.iter().rev().find_map(|c| c.app()).cloned();
        let tag = tag(&request)?;
        let parsed: GenerateRequest = serde_json::from_value(request).map_err(|e| {
            format!("host.llm: this request cannot be read: {e}. It needs messages: [{{role, content}}]")
        })?;
        if parsed.model.as_deref().is_some_and(|model| model.len() > MODEL_LIMIT) {
            return Err(format!("host.llm: a model's name has at most {MODEL_LIMIT} characters"));
        }
        let answer = Answer::new();
        match (&app, &tag) {
            (Some(app), Some((chat, _))) => self.streams().add(&account, app, chat, &answer),
            (Some(app), None) => self.streams().watch(&account, app, &answer),
            (None, _) => {}
        }
        let run = Run {
            engine: self.clone(),
            context: context.clone(),
            account,
            app,
            tag,
            answer: answer.clone(),
        };
        tokio::spawn(run.go(parsed));
        Ok(answer)
    }
}

/// `stream {chatId, name}` of a request (contract section 3.4).
fn tag(request: &Value) -> Result<Option<(String, String)>, String> {
    let Some(stream) = request.get("stream").filter(|s| s.is_object()) else {
        return Ok(None);
    };
    let text = |name: &str| stream.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (chat, name) = (text("chatId"), text("name"));
    if chat.is_empty() || chat.len() > 200 || name.len() > 200 {
        return Err("host.llm: stream.chatId must be a name of 1 to 200 characters, stream.name at most 200".into());
    }
    Ok(Some((chat, name)))
}

struct Run {
    engine: Engine,
    context: CallContext,
    account: AccountId,
    app: Option<AppId>,
    tag: Option<(String, String)>,
    answer: Arc<Answer>,
}

impl Run {
    async fn go(self, mut request: GenerateRequest) {
        let began = Instant::now();
        let (label, events) = tokio::select! {
            found = self.engine.target(&self.context, &self.account, request.model.as_deref()) => match found {
                Err(error) => return self.fail(&error),
                Ok(Target::Demo) => (DEMO.to_owned(), demo::chat(&request)),
                Ok(Target::Server(endpoint, id)) => {
                    let label = format!("{}/{id}", endpoint.connection_id);
                    request.model = Some(id);
                    (label, providers::chat(&self.context, self.engine.net(), &endpoint, request.clone()))
                }
            },
            () = self.answer.stop_asked() => return self.stop_early(),
        };
        let caller = self.context.chain.last();
        let line = self.engine.activity().add(&NewActivity {
            account: Some(self.account.clone()),
            kind: "model",
            caller: caller.map(Caller::label).unwrap_or_default(),
            chain: self.context.chain_label(),
            trace: self.context.trace.as_str().to_owned(),
            app: self.app.as_ref().map(ToString::to_string),
            target: label.clone(),
            outcome: "running".into(),
            detail: None,
        });
        let (result, stopped) = self.pump(&label, request.assistant_prefill.clone(), events).await;
        let outcome = if stopped {
            "stopped"
        } else if result.error.is_some() {
            "failed"
        } else {
            "done"
        };
        let end = ActivityEnd {
            outcome,
            status: None,
            sent: result.usage.input,
            received: result.text.len() as u64,
            ms: began.elapsed().as_millis() as u64,
            detail: result.error.as_deref(),
            ..Default::default()
        };
        self.engine.activity().finish(line, &end);
        let error = result.error.clone();
        let mut result = json!(result);
        if stopped {
            result["stopped"] = true.into();
        }
        self.end(End { stopped, error, result });
    }

    fn end(&self, end: End) {
        self.announce("", "", Some((end.stopped, end.error.clone())));
        self.answer.finish(end);
        if let Some(app) = &self.app {
            self.engine.streams().settle(&self.account, app);
        }
    }

    /// Reads events until the end, a stop, or an answer that is too large.
    async fn pump(
        &self,
        label: &str,
        prefill: Option<String>,
        mut events: EventStream,
    ) -> (providers::GenerateResult, bool) {
        let mut whole = providers::Answer::new(label, prefill);
        let (mut text, mut thinking) = (String::new(), String::new());
        let mut pause = tokio::time::interval(BUS_PAUSE);
        pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stop = self.answer.stop_asked();
        tokio::pin!(stop);
        let stopped = loop {
            let event = tokio::select! {
                biased;
                () = &mut stop => break true,
                event = events.next() => event,
                _ = pause.tick(), if !text.is_empty() || !thinking.is_empty() => {
                    self.announce(&text, &thinking, None);
                    text.clear();
                    thinking.clear();
                    continue;
                }
            };
            let Some(event) = event else { break false };
            whole.push(&event);
            let fits = match &event {
                ModelEvent::Delta(delta) => {
                    text.push_str(delta);
                    self.answer.push(delta, "")
                }
                ModelEvent::Thinking(delta) => {
                    thinking.push_str(delta);
                    self.answer.push("", delta)
                }
                _ => true,
            };
            if !fits {
                break true;
            }
        };
        // Dropping the events closes the connection to the server.
        drop(events);
        self.announce(&text, &thinking, None);
        (whole.finish(), stopped)
    }

    /// Tells pages on the bus (contract section 5.2: `app_stream`).
    fn announce(&self, text: &str, thinking: &str, end: Option<(bool, Option<String>)>) {
        let (Some(app), Some((chat, name))) = (&self.app, &self.tag) else {
            return;
        };
        if !self.engine.bus().heard() || (text.is_empty() && thinking.is_empty() && end.is_none()) {
            return;
        }
        let mut payload = json!({"app": app, "chatId": chat, "name": name});
        if !text.is_empty() {
            payload["delta"] = text.into();
        }
        if !thinking.is_empty() {
            payload["thinking"] = thinking.into();
        }
        if let Some((stopped, error)) = end {
            payload["done"] = true.into();
            payload["stopped"] = stopped.into();
            payload["error"] = error.into();
        }
        self.engine.bus().send(Event {
            account: self.account.clone(),
            app: Some(app.clone()),
            kind: "app_stream",
            payload,
        });
    }

    fn fail(&self, error: &str) {
        let result = apps::host::failure(error);
        self.end(End {
            stopped: false,
            error: Some(error.to_owned()),
            result,
        });
    }

    fn stop_early(&self) {
        let mut result = apps::host::failure("stopped before it began");
        result["stopped"] = true.into();
        self.end(End {
            stopped: true,
            error: None,
            result,
        });
    }
}

/// A plugin's hold on a running answer. A plugin that dies lets go, and the request with it.
pub struct Held {
    answer: Arc<Answer>,
    place: Place,
    end: Option<Value>,
    /// The last part had text: if the server now falls silent, the plugin is told, once, so that it can save.
    fresh: bool,
}

/// Silence after text that a plugin is told of: half of the 500 ms within which a partial answer is to be saved.
const SILENCE: Duration = Duration::from_millis(250);

impl Held {
    pub fn new(answer: Arc<Answer>) -> Self {
        Self {
            answer,
            place: Place::default(),
            end: None,
            fresh: false,
        }
    }
}

#[async_trait]
impl Generation for Held {
    async fn next(&mut self) -> Part {
        if let Some(result) = self.end.clone() {
            return Part::Done(result);
        }
        let waiting = self.answer.next(&mut self.place);
        let news = if std::mem::take(&mut self.fresh) {
            let Ok(news) = tokio::time::timeout(SILENCE, waiting).await else {
                return Part::Text {
                    delta: String::new(),
                    thinking: String::new(),
                };
            };
            news
        } else {
            waiting.await
        };
        self.fresh = !news.delta.is_empty() || !news.thinking.is_empty();
        self.end = news.end.map(|end| end.result);
        match &self.end {
            Some(result) if news.delta.is_empty() && news.thinking.is_empty() => Part::Done(result.clone()),
            _ => Part::Text {
                delta: news.delta,
                thinking: news.thinking,
            },
        }
    }

    fn abort(&self) {
        self.answer.stop();
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answer.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silence_after_text_is_told_once() {
        let answer = Answer::new();
        let mut held = Held::new(answer.clone());
        answer.push("words", "");
        assert!(matches!(held.next().await, Part::Text { delta, .. } if delta == "words"));
        assert!(matches!(held.next().await, Part::Text { delta, .. } if delta.is_empty()));
        let more = tokio::time::timeout(SILENCE * 10, held.next()).await;
        assert!(more.is_err(), "told once, then it waits");
        answer.push("more", "");
        assert!(matches!(held.next().await, Part::Text { delta, .. } if delta == "more"));
    }
}
