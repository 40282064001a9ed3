//! Running model requests: what plugins' hooks make of one, which tools go with it, and the answer as it grows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apps::budget::Spend;
use apps::host::Entry;
use apps::plugin_call::Hook;
use db::ActivityEnd;
use futures::StreamExt;
use policy::{AccountId, AppId, CallContext};
use providers::{Event as ModelEvent, EventStream, GenerateRequest, Picture, StreamDecoder, ToolBox, demo};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Engine;
use crate::activity::line;
use crate::bus::Event;
use crate::models::{DEMO, MODEL_LIMIT, Target};
use crate::plugins::hooks::Asking;
use crate::plugins::tools::Tools;
use crate::routes::assets;
use crate::spend::{Reservation, What};
use crate::streams::{Answer, End};

/// Text for pages on the bus is gathered for this long, so that a fast model does not make an event per token.
const BUS_PAUSE: Duration = Duration::from_millis(20);
/// Tokens of one request that are believed: ten times what the largest window of a known model holds.
const TOKENS_AT_MOST: u64 = 100_000_000;
/// Bytes of text that are taken for a token where nobody counted: about what English text has.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;
/// Tokens that an image is taken for before the server counts: about the most that providers count for one.
const IMAGE_TOKENS: u64 = 1600;
/// Bytes of all images of one request, as base64: what a request may have in all.
const IMAGES_LIMIT: usize = 32 << 20;
/// Tools one request may bring of its own (contract section 3.4).
const OWN_TOOLS: usize = 16;

impl Engine {
    /// Starts a request in the background; its answer grows whether or not anyone reads it. `from` says what kind of call
    /// asks, `key` is the name a plugin gave the request.
    pub fn start(
        &self,
        context: &CallContext,
        from: Entry,
        key: &str,
        mut request: Value,
    ) -> Result<Arc<Answer>, String> {
        let account = context.account.clone().ok_or("a model request needs an account")?;
        let app = context.chain.iter().rev().find_map(|c| c.app()).cloned();
        // A tool answers a model that waits: what it asks of a model in turn has no tools, hooks or streaming (contract
        // section 3.3), so that models and tools cannot go round in circles.
        // The same for one that says which tools it offers: it is asked while a request is made ready.
        let bare = matches!(from, Entry::Tool | Entry::AppTools);
        if bare && let Some(fields) = request.as_object_mut() {
            for field in ["tools", "wantsTools", "stream", "streamDecode"] {
                fields.remove(field);
            }
        }
        let tag = tag(&request)?;
        check(&request)?;
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
            from,
            key: key.to_owned(),
            answer: answer.clone(),
        };
        tokio::spawn(run.go(request));
        Ok(answer)
    }
}

/// Reads a request, for its errors too.
pub(crate) fn check(request: &Value) -> Result<GenerateRequest, String> {
    let parsed = GenerateRequest::deserialize(request)
        .map_err(|e| format!("host.llm: this request cannot be read: {e}. It needs messages: [{{role, content}}]"))?;
    if parsed.model.as_deref().is_some_and(|model| model.len() > MODEL_LIMIT) {
        return Err(format!("host.llm: a model's name has at most {MODEL_LIMIT} characters"));
    }
    Ok(parsed)
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

/// Tokens of a request as its server counted them, as far as that can be: what a server says must not use up a budget of
/// years.
fn said(usage: &providers::Usage) -> u64 {
    let parts = [usage.input, usage.cache_read, usage.cache_write, usage.output];
    parts.into_iter().map(|count| count.min(TOKENS_AT_MOST)).sum()
}

struct Run {
    engine: Engine,
    context: CallContext,
    account: AccountId,
    app: Option<AppId>,
    tag: Option<(String, String)>,
    from: Entry,
    key: String,
    answer: Arc<Answer>,
}

/// A request that is ready to be sent.
struct Ready {
    request: GenerateRequest,
    tools: Tools,
    label: String,
    target: Target,
    /// What it may cost; the built-in model costs nothing.
    reserved: Option<Reservation>,
}

/// Why a request is not sent.
struct Unready {
    why: String,
    /// `errorInfo` of the result, where there is one.
    info: Option<Value>,
}

impl From<String> for Unready {
    fn from(why: String) -> Self {
        Self { why, info: None }
    }
}

impl Unready {
    /// A limit of the person's is in the way.
    fn limit(why: String, endpoint: Option<(&str, &str)>) -> Self {
        let (provider, model) = endpoint.unzip();
        let info = Some(json!({"kind": "limit", "provider": provider, "model": model}));
        Self { why, info }
    }
}

/// The names under which the formats know the limit of an answer's tokens.
const LIMITS: [&str; 5] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
    "num_predict",
];

/// The largest limit of tokens that a request states anywhere, for thinking too; none when it states none.
fn most_tokens(request: &GenerateRequest) -> Option<u64> {
    let preset = request.preset_params.as_ref();
    let params = preset.and_then(|preset| preset.params.as_ref());
    let named = LIMITS.iter().filter_map(|name| {
        let value = params?.get(*name)?;
        value.as_u64().or_else(|| value.as_f64().map(|tokens| tokens as u64))
    });
    let thinking = request
        .thinking_budget
        .map(|tokens| tokens as u64)
        .filter(|tokens| *tokens > 0);
    let stated = named.chain(preset.and_then(|preset| preset.max_tokens)).max();
    match (stated, thinking) {
        (Some(stated), thinking) => Some(stated.saturating_add(thinking.unwrap_or(0))),
        (None, thinking) => thinking,
    }
}

/// Bytes of all that a model reads, as far as they can be known.
fn bytes_of(request: &GenerateRequest, tools: &Tools) -> u64 {
    let messages = request.messages.iter().map(|message| {
        let thought = message.reasoning.as_deref().unwrap_or_default().len();
        // Sent in the place of the text, and as long as whoever asks likes.
        let replay = message.replay.as_ref().map_or(0, |replay| replay.to_string().len());
        (message.content.len() + thought + replay) as u64 + message.images.len() as u64 * IMAGE_TOKENS * BYTES_PER_TOKEN
    });
    let texts = [&request.system_prompt, &request.assistant_prefill];
    let texts: usize = texts.iter().map(|text| text.as_deref().unwrap_or_default().len()).sum();
    let schema = request.schema.as_ref().map_or(0, |schema| schema.to_string().len());
    let tools: usize = tools.tools().iter().map(|tool| json!(tool).to_string().len()).sum();
    messages.sum::<u64>() + (texts + schema + tools) as u64
}

impl Run {
    async fn go(self, mut request: Value) {
        let began = Instant::now();
        let ready = tokio::select! {
            ready = self.prepare(&mut request) => match ready {
                Ok(ready) => ready,
                Err(unready) => return self.fail(unready),
            },
            () = self.answer.stop_asked() => return self.stop_early(),
        };
        let Ready {
            request: parsed,
            tools,
            label,
            target,
            reserved,
        } = ready;
        let line = self
            .engine
            .activity()
            .add(&line(&self.context, "model", label.as_str(), "running"));
        let prefill = parsed.assistant_prefill.clone();
        let sent: usize = parsed.messages.iter().map(|message| message.content.len()).sum();
        let decoder = parsed.stream_decode.as_ref().map(StreamDecoder::new);
        let muted = parsed.stream_muted == Some(true);
        let events = match target {
            Target::Demo => demo::chat(&parsed),
            Target::Server(endpoint, _) => {
                providers::converse(&self.context, self.engine.net(), &endpoint, parsed, Arc::new(tools))
            }
        };
        let heard = self.pump(&label, prefill, events, decoder, muted, reserved.as_ref());
        let (result, stopped, whole_error) = heard.await;
        let cost = match &reserved {
            Some(reserved) => reserved.settle_text(result.error.is_some()),
            None => result.usage.priced.then_some(result.usage.cost_total),
        };
        let outcome = if stopped {
            "stopped"
        } else if result.error.is_some() {
            "failed"
        } else {
            "done"
        };
        self.charge(&result, sent);
        let (tokens, out) = (said(&result.usage), result.usage.output.min(TOKENS_AT_MOST));
        let end = ActivityEnd {
            outcome,
            status: None,
            sent: 0,
            received: result.text.len() as u64,
            ms: began.elapsed().as_millis() as u64,
            // The person learns the addresses, too.
            detail: whole_error.as_deref().or(result.error.as_deref()),
            model: Some(label.as_str()),
            tokens_in: Some(tokens - out),
            tokens_out: Some(out),
            cost,
        };
        self.engine.activity().finish(line, &end);
        let error = result.error.clone();
        let mut result = json!(result);
        if stopped {
            result["stopped"] = true.into();
        }
        if error.is_none() && !stopped {
            let asking = self.asking();
            tokio::select! {
                () = self.engine.hooks(&asking, Hook::Response, &mut request, &mut result) => {}
                () = self.answer.stop_asked() => {}
            }
        }
        self.end(End {
            stopped,
            error,
            whole: whole_error,
            result,
        });
    }

    /// Counts the tokens of an answer against the app's day. A server that does not say how many, or was stopped before it
    /// could, is counted by the bytes that went and came.
    fn charge(&self, result: &providers::GenerateResult, sent: usize) {
        let Some(app) = self.app.as_ref().filter(|_| result.model != DEMO) else {
            return;
        };
        let said = said(&result.usage);
        let seen = (sent + result.text.len() + result.reasoning.as_deref().unwrap_or_default().len()) as u64;
        let tokens = if said > 0 { said } else { seen.div_ceil(BYTES_PER_TOKEN) };
        self.engine
            .plugins()
            .budgets()
            .add(&self.account, app, Spend::Tokens, tokens);
    }

    /// Who asks, if hooks are to see the request.
    fn asking(&self) -> Asking<'_> {
        Asking {
            context: &self.context,
            from: self.from,
            key: &self.key,
        }
    }

    /// Asks the budget, lets hooks change the request, gathers tools, and finds the model.
    async fn prepare(&self, request: &mut Value) -> Result<Ready, Unready> {
        if let Some(app) = &self.app {
            let budgets = self.engine.plugins().budgets();
            for (what, amount) in [(Spend::Tokens, 0), (Spend::ModelCalls, 1)] {
                let asked = budgets.before(&self.account, app, what, amount);
                asked.map_err(|why| Unready::limit(why, None))?;
            }
        }
        let own = self.own_tools(request)?;
        let wants = request.get("wantsTools").and_then(Value::as_bool) == Some(true);
        let mut nothing = Value::Null;
        self.engine
            .hooks(&self.asking(), Hook::Request, request, &mut nothing)
            .await;
        let mut parsed = check(request)?;
        // What a hook wrote into it is no tool of anyone.
        parsed.tools.clear();
        self.put_in_images(&mut parsed).await?;
        let mut tools = self.engine.tools(&self.context, own, wants).await;
        let target = self
            .engine
            .target(&self.context, &self.account, parsed.model.as_deref())
            .await?;
        let mut reserved = None;
        let label = match &target {
            Target::Demo => DEMO.to_owned(),
            Target::Server(endpoint, id) => {
                parsed.model = Some(id.clone());
                if parsed.reasoning.is_none() {
                    let set = self.engine.db().setting(&self.account, "reasoning").ok().flatten();
                    parsed.reasoning = set.as_ref().and_then(Value::as_str).map(str::to_owned);
                }
                let what = What::Text {
                    bytes: bytes_of(&parsed, &tools),
                    max_tokens: most_tokens(&parsed),
                };
                self.engine
                    .learn_price(&self.context, &self.account, endpoint, id)
                    .await;
                let asked = self.engine.spend().reserve(&self.context, endpoint, id, what);
                reserved = Some(asked.map_err(|why| Unready::limit(why, Some((&endpoint.name, id))))?);
                tools.reserved.clone_from(&reserved);
                format!("{}/{id}", endpoint.connection_id)
            }
        };
        Ok(Ready {
            request: parsed,
            tools,
            label,
            target,
            reserved,
        })
    }

    /// Puts the bytes of assets in the place of their names, as far as whoever asks may see them.
    async fn put_in_images(&self, request: &mut GenerateRequest) -> Result<(), String> {
        let mut bytes = 0;
        for image in request.messages.iter_mut().flat_map(|message| &mut message.images) {
            if let Picture::Asset(id) = image {
                let found = assets::stored(&self.engine, &self.account, self.app.as_ref(), id).await;
                let (_, content) =
                    found.map_err(|_| format!("the image /v1/assets/{id} is not among this app's assets"))?;
                *image = Picture::of_bytes(&content)?;
            }
            bytes += image.size();
            if bytes > IMAGES_LIMIT {
                return Err(format!(
                    "the images of one request have at most {} MiB together",
                    IMAGES_LIMIT >> 20
                ));
            }
        }
        Ok(())
    }

    /// Takes the tools a plugin sent along out of the request.
    fn own_tools(&self, request: &mut Value) -> Result<Vec<Value>, String> {
        let Some(Value::Array(list)) = request.as_object_mut().and_then(|fields| fields.remove("tools")) else {
            return Ok(Vec::new());
        };
        if list.len() > OWN_TOOLS {
            return Err(format!(
                "host.llm: a request has at most {OWN_TOOLS} tools, this one {}",
                list.len()
            ));
        }
        Ok(list)
    }

    fn end(&self, end: End) {
        self.announce("", "", None, Some((end.stopped, end.error.clone())));
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
        mut decoder: Option<StreamDecoder>,
        muted: bool,
        reserved: Option<&Reservation>,
    ) -> (providers::GenerateResult, bool, Option<String>) {
        let mut whole = providers::Answer::new(label, prefill);
        let (mut text, mut thinking) = (String::new(), String::new());
        let mut pause = tokio::time::interval(BUS_PAUSE);
        pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let stop = self.answer.stop_asked();
        tokio::pin!(stop);
        let mut bytes = 0;
        let mut room = self
            .app
            .as_ref()
            .map(|app| self.engine.streams().room(&self.account, app));
        let stopped = loop {
            let event = tokio::select! {
                biased;
                () = &mut stop => break true,
                event = events.next() => event,
                _ = pause.tick(), if !text.is_empty() || !thinking.is_empty() => {
                    self.announce(&text, &thinking, None, None);
                    text.clear();
                    thinking.clear();
                    continue;
                }
            };
            let Some(mut event) = event else { break false };
            let over = reserved.and_then(|reserved| reserved.heard(&mut event).err());
            whole.push(&event);
            if let Some(why) = over {
                let (provider, model) = label.split_once('/').unwrap_or((label, ""));
                let limit = providers::ProviderErrorKind::Limit;
                let error = providers::ProviderError::new(limit, provider, Some(model.to_owned()), why);
                whole.push(&ModelEvent::Failed(error));
                break false;
            }
            let before = bytes;
            let fits = match event {
                ModelEvent::Delta(delta) => {
                    bytes += delta.len();
                    let shown = match &mut decoder {
                        _ if muted => String::new(),
                        Some(decoder) => decoder.push(&delta),
                        None => delta,
                    };
                    text.push_str(&shown);
                    self.answer.push(&shown, "")
                }
                // Structured output on its way: only fields that were asked for are text to show.
                ModelEvent::JsonDelta(delta) => {
                    bytes += delta.len();
                    let shown = decoder.as_mut().filter(|_| !muted).map(|decoder| decoder.push(&delta));
                    let shown = shown.unwrap_or_default();
                    text.push_str(&shown);
                    self.answer.push(&shown, "")
                }
                ModelEvent::Thinking(delta) if !muted => {
                    bytes += delta.len();
                    thinking.push_str(&delta);
                    self.answer.push("", &delta)
                }
                ModelEvent::Thinking(delta) => {
                    bytes += delta.len();
                    true
                }
                ModelEvent::ToolStart { name, args, .. } => self.tell_tool(
                    &mut text,
                    &mut thinking,
                    json!({"phase": "start", "name": name, "args": args}),
                ),
                ModelEvent::ToolEnd {
                    name, result, is_error, ..
                } => {
                    let tool = json!({"phase": "end", "name": name, "result": result, "isError": is_error});
                    self.tell_tool(&mut text, &mut thinking, tool)
                }
                ModelEvent::Waiting { ms, reason } => {
                    let wait = json!({"ms": ms, "reason": reason});
                    self.tell(json!({"waiting": wait}));
                    self.answer.push_wait(wait);
                    true
                }
                _ => true,
            };
            let roomy = room.as_mut().is_none_or(|room| room.take(bytes - before));
            if !fits || !roomy || bytes > crate::streams::ANSWER_LIMIT {
                break true;
            }
        };
        // Dropping the events closes the connection to the server, and ends a tool that runs.
        drop(events);
        let rest = decoder.as_mut().map(StreamDecoder::finish).unwrap_or_default();
        if !rest.is_empty() && !muted {
            text.push_str(&rest);
            self.answer.push(&rest, "");
        }
        self.announce(&text, &thinking, None, None);
        let whole_error = whole.whole_error().map(str::to_owned);
        (whole.finish(), stopped, whole_error)
    }

    /// A tool's start or end, after all text that came before it.
    fn tell_tool(&self, text: &mut String, thinking: &mut String, tool: Value) -> bool {
        self.announce(text, thinking, None, None);
        text.clear();
        thinking.clear();
        self.announce("", "", Some(&tool), None);
        self.answer.push_tool(tool)
    }

    /// Tells pages on the bus (contract section 5.2: `app_stream`).
    fn announce(&self, text: &str, thinking: &str, tool: Option<&Value>, end: Option<(bool, Option<String>)>) {
        let nothing = text.is_empty() && thinking.is_empty() && tool.is_none() && end.is_none();
        if nothing || self.tag.is_none() || !self.engine.bus().heard() {
            return;
        }
        let mut payload = json!({});
        if !text.is_empty() {
            payload["delta"] = text.into();
        }
        if !thinking.is_empty() {
            payload["thinking"] = thinking.into();
        }
        if let Some(tool) = tool {
            payload["tool"] = tool.clone();
        }
        if let Some((stopped, error)) = end {
            payload["done"] = true.into();
            payload["stopped"] = stopped.into();
            payload["error"] = error.into();
        }
        self.tell(payload);
    }

    /// Puts one `app_stream` on the bus.
    fn tell(&self, news: Value) {
        let (Some(app), Some((chat, name))) = (&self.app, &self.tag) else {
            return;
        };
        let mut payload = json!({"app": app, "chatId": chat, "name": name});
        if let (Some(fields), Value::Object(news)) = (payload.as_object_mut(), news) {
            fields.extend(news);
        }
        self.engine.bus().send(Event {
            account: self.account.clone(),
            app: Some(app.clone()),
            kind: "app_stream",
            payload,
        });
    }

    fn fail(&self, unready: Unready) {
        let mut result = apps::host::failure(&unready.why);
        if let Some(info) = unready.info {
            result["errorInfo"] = info;
        }
        self.end(End {
            stopped: false,
            error: Some(unready.why),
            whole: None,
            result,
        });
    }

    fn stop_early(&self) {
        let mut result = apps::host::failure("stopped before it began");
        result["stopped"] = true.into();
        self.end(End {
            stopped: true,
            error: None,
            whole: None,
            result,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(request: Value) -> Option<u64> {
        let mut whole = json!({"messages": []});
        whole
            .as_object_mut()
            .unwrap()
            .extend(request.as_object().unwrap().clone());
        most_tokens(&serde_json::from_value(whole).unwrap())
    }

    #[test]
    fn limits_of_tokens_are_found_wherever_they_stand() {
        assert_eq!(most(json!({})), None);
        assert_eq!(most(json!({"presetParams": {"max_tokens": 5}})), Some(5));
        for name in LIMITS {
            let params = json!({"max_tokens": 5, "params": {name: 900_000}});
            assert_eq!(most(json!({"presetParams": params})), Some(900_000), "{name}");
        }
        assert_eq!(most(json!({"thinkingBudget": 1e5})), Some(100_000));
        assert_eq!(
            most(json!({"thinkingBudget": 1e5, "presetParams": {"max_tokens": 7}})),
            Some(100_007)
        );
        assert_eq!(
            most(json!({"thinkingBudget": -1, "presetParams": {"params": {"max_tokens": "x"}}})),
            None
        );
    }
}
