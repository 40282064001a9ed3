use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use net::{Incoming, KeyStyle, Net};
use policy::CallContext;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::error::Blame;
use crate::formats;
use crate::http_in::{self, Ask, Asked};
use crate::intake::Intake;
use crate::replay;
use crate::request::{Quirk, Role, Round};
use crate::tags::TagSplitter;
use crate::wire::{Api, Asking, Choice, Item, Since};
use crate::{Endpoint, Event, GenerateRequest, ProviderError, ProviderErrorKind};

/// The events of one answer. Dropping it cancels the request: the connection to the server is closed.
pub type EventStream = BoxStream<'static, Event>;

/// Once a server has said how the answer ended, how long to wait for the token counts some send after that. They come
/// at once or never.
const FAREWELL: Duration = Duration::from_secs(5);

/// Asks `endpoint` for an answer. Nothing is sent before the stream is polled.
pub fn chat(ctx: &CallContext, net: &Net, endpoint: &Endpoint, request: GenerateRequest) -> EventStream {
    let chat = Chat::new(ctx, net, endpoint, request, Round::default());
    stream::unfold(chat, |mut chat| async move {
        loop {
            if let Some(event) = chat.intake.queue.pop_front() {
                return Some((event, chat));
            }
            if chat.ended() {
                return None;
            }
            chat.step().await;
        }
    })
    .boxed()
}

/// How often one request is asked again, and the longest pause before that. A pause is announced by [`Event::Waiting`].
const MAX_RETRIES: u32 = 2;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Pause after a connection could not be made; three times as long after the second time.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// One request to a model and its answer.
pub(crate) struct Chat {
    ctx: CallContext,
    net: Net,
    endpoint: Endpoint,
    request: GenerateRequest,
    round: Round,
    model: String,
    level: Option<String>,
    /// What it was found not to take, and what was known of that before.
    quirk: Quirk,
    known: Quirk,
    stage: Stage,
    pub(crate) intake: Intake,
    /// What was sent beside the messages, once something was.
    pub(crate) sent: Option<Map<String, Value>>,
    /// Whether what was sent begins the answer with the prefill: some formats and models do without.
    pub(crate) prefilled: bool,
    retries: u32,
}

enum Stage {
    Unsent,
    /// Asked again at this time.
    Waiting(Instant),
    Open(Box<Incoming>),
    Ended,
}

/// What became of sending a request.
enum Opened {
    Open(Box<Incoming>),
    /// The server wants to be asked later.
    Later(Duration, String),
}

impl Chat {
    pub(crate) fn new(
        ctx: &CallContext,
        net: &Net,
        endpoint: &Endpoint,
        request: GenerateRequest,
        round: Round,
    ) -> Self {
        let blame = Blame {
            name: endpoint.name.clone(),
            model: None,
            key: endpoint.key.clone(),
        };
        Self {
            ctx: ctx.clone(),
            net: net.clone(),
            intake: Intake::new(endpoint.api, blame),
            endpoint: endpoint.clone(),
            level: request.reasoning.clone(),
            request,
            round,
            model: String::new(),
            quirk: Quirk::default(),
            known: Quirk::default(),
            stage: Stage::Unsent,
            sent: None,
            prefilled: false,
            retries: 0,
        }
    }

    /// What separates thinking from the answer, where the format of the conversation says how it is marked.
    pub(crate) fn splitter(&self) -> Option<TagSplitter> {
        self.round.prompt.as_ref().map(|format| format.splitter(&self.request))
    }

    pub(crate) fn ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Does the next bit of work: sending, waiting, or taking one piece of the body. Always gets further or ends.
    pub(crate) async fn step(&mut self) {
        // The stage stays what it is while the body is waited for: dropping this then still knows that an answer is
        // under way.
        let result = match &mut self.stage {
            Stage::Unsent => self.open().await.map(Some),
            Stage::Waiting(until) => {
                tokio::time::sleep_until(*until).await;
                Ok(Some(Stage::Unsent))
            }
            Stage::Open(incoming) => advance(&mut self.intake, incoming).await,
            Stage::Ended => Ok(None),
        };
        match result {
            Ok(Some(stage)) => self.stage = stage,
            Ok(None) => {}
            Err(error) => {
                self.stage = Stage::Ended;
                self.intake.queue.push_back(Event::Failed(error));
            }
        }
    }

    async fn open(&mut self) -> Result<Stage, ProviderError> {
        if self.model.is_empty() {
            self.model = self.model()?;
            self.intake.blame.model = Some(self.model.clone());
            self.known = self
                .endpoint
                .quirks
                .of(&self.endpoint, &self.model, self.level.as_deref());
            self.quirk = self.known;
        }
        if self.endpoint.api == Api::OpenaiText && self.round.prompt.is_none() {
            let (blame, model) = (&self.intake.blame, &self.model);
            let chosen = formats::choose(&self.ctx, &self.net, &self.endpoint, blame, &self.request, model).await?;
            self.round.prompt = Some(chosen.format);
        }
        match self.send().await? {
            Opened::Open(incoming) => Ok(Stage::Open(incoming)),
            Opened::Later(pause, reason) => {
                self.retries += 1;
                self.intake.queue.push_back(Event::Waiting {
                    ms: u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                    reason,
                });
                Ok(Stage::Waiting(Instant::now() + pause))
            }
        }
    }

    async fn send(&mut self) -> Result<Opened, ProviderError> {
        let wire = self.endpoint.api.wire();
        if let Some(image) = self
            .request
            .messages
            .iter()
            .flat_map(|turn| &turn.images)
            .find(|image| image.inline().is_none())
        {
            let what = format!("the image {image:?} was not found among the assets of whoever asks");
            return Err(self.intake.blame.error(ProviderErrorKind::Unusable, what));
        }
        loop {
            let mut body = body(&self.request, &self.endpoint, &self.model, &self.round, self.quirk);
            let ask = Ask {
                ctx: &self.ctx,
                net: &self.net,
                endpoint: &self.endpoint,
                blame: &self.intake.blame,
                purpose: "chat",
            };
            let bytes = Bytes::from(serde_json::to_vec(&body).unwrap_or_default());
            let asked = match ask
                .send(Method::POST, &wire.page(&self.model), self.headers(), bytes)
                .await
            {
                Ok(asked) => asked,
                Err(error) => {
                    return match self.again(&error) {
                        Some(pause) => Ok(Opened::Later(pause, "the connection could not be made".into())),
                        None => Err(error),
                    };
                }
            };
            let refusal = match asked {
                Asked::Answer(incoming, url) => {
                    if self.quirk != self.known {
                        let quirks = &self.endpoint.quirks;
                        quirks.remember(&self.endpoint, &self.model, self.level.as_deref(), self.quirk);
                    }
                    if self.round.choice == Some(Choice::Structured) && !body.contains_key("tools") {
                        self.intake.text_is_structured();
                    }
                    self.prefilled = self.begins_with_prefill(&body);
                    shown_params(&mut body, &self.round);
                    self.sent = Some(body);
                    self.intake.url = url;
                    return Ok(Opened::Open(Box::new(incoming)));
                }
                Asked::Refusal(refusal) => refusal,
            };
            if matches!(refusal.status, 400 | 422) {
                let words = String::from_utf8_lossy(&refusal.body).to_lowercase();
                if let Some(less) = wire.relent(&words, &body, self.quirk) {
                    self.quirk = less;
                    continue;
                }
            }
            let error = self.intake.blame.status(&refusal);
            return match self.again(&error) {
                Some(pause) => Ok(Opened::Later(pause, error.guest())),
                None => Err(error),
            };
        }
    }

    /// Each format decides for itself what it does with a prefill, so what was sent is compared with what would have been
    /// sent without one.
    fn begins_with_prefill(&self, sent: &Map<String, Value>) -> bool {
        if self.request.prefill().is_none() {
            return false;
        }
        let without = Quirk {
            no_prefill: true,
            ..self.quirk
        };
        *sent != body(&self.request, &self.endpoint, &self.model, &self.round, without)
    }

    /// How long to wait before asking again, where that is no risk: nothing was sent, or the server itself said when to
    /// come back. A request that may have been paid for is never sent twice.
    fn again(&self, error: &ProviderError) -> Option<Duration> {
        if self.retries >= MAX_RETRIES {
            return None;
        }
        let pause = match error.status {
            None if error.never_sent && !self.endpoint.is_local() => CONNECT_PAUSE * 3u32.pow(self.retries),
            Some(429 | 503) => Duration::from_millis(error.retry_after_ms?),
            _ => return None,
        };
        let in_time = self
            .ctx
            .deadline
            .is_none_or(|at| std::time::Instant::now() + pause < at);
        (in_time && pause <= LONGEST_PAUSE).then_some(pause)
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        let wire = self.endpoint.api.wire();
        if self.endpoint.key.is_none() && wire.key_style() == KeyStyle::Bearer {
            // Some local servers insist on any key at all (contract section 8).
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer no-key"));
        }
        wire.headers(&mut headers);
        headers
    }

    /// The model's id without the connection in front of it.
    fn model(&self) -> Result<String, ProviderError> {
        let named = self
            .request
            .model
            .as_deref()
            .map(str::trim)
            .filter(|model| !model.is_empty());
        let bare = named.map(|model| self.endpoint.bare(model));
        match bare.or_else(|| self.endpoint.models.first().map(|model| model.id.as_str())) {
            Some(model) => Ok(model.to_owned()),
            None => Err(self.intake.blame.error(
                ProviderErrorKind::Unusable,
                "no model is chosen and none is known; refresh the connection's models or name one",
            )),
        }
    }
}

impl Drop for Chat {
    /// An answer that nobody wants any more: closing the connection tells most servers, and some of those at home have to
    /// be told on a page of their own (contract section 4.3).
    fn drop(&mut self) {
        // KoboldCpp goes on writing after its listener has gone, whichever of its formats it was asked in.
        let koboldcpp = self.endpoint.preset.as_deref() == Some("koboldcpp");
        let page = self.endpoint.api.wire().abort_page();
        let Some(page) = page.or(koboldcpp.then_some("api/extra/abort")) else {
            return;
        };
        if !matches!(self.stage, Stage::Open(_)) || !self.endpoint.is_local() {
            return;
        }
        self.stage = Stage::Ended;
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (mut ctx, net, endpoint) = (self.ctx.clone(), self.net.clone(), self.endpoint.clone());
            ctx.deadline = None;
            runtime.spawn(async move { http_in::tell(&ctx, &net, &endpoint, page).await });
        }
    }
}

/// Takes one piece of the body. `None`: there is more to come.
async fn advance(intake: &mut Intake, incoming: &mut Incoming) -> Result<Option<Stage>, ProviderError> {
    let piece = match intake.progress.finish_reason.is_some() {
        false => incoming.body.next().await,
        true => {
            // Nothing of the answer is missing from here on, however its stream ends.
            incoming.body.enough();
            tokio::time::timeout(FAREWELL, incoming.body.next())
                .await
                .unwrap_or(None)
        }
    };
    let ended = match piece {
        Some(Ok(bytes)) => intake.take(&bytes, &incoming.headers)?,
        Some(Err(error)) => intake.broken(error)?,
        None => {
            intake.at_end(&incoming.headers)?;
            return Ok(Some(Stage::Ended));
        }
    };
    if !ended {
        return Ok(None);
    }
    incoming.body.enough();
    Ok(Some(Stage::Ended))
}

/// What is sent.
pub(crate) fn body(
    request: &GenerateRequest,
    endpoint: &Endpoint,
    model: &str,
    round: &Round,
    quirk: Quirk,
) -> Map<String, Value> {
    let (system, turns) = request.split();
    let mut items = Vec::with_capacity(turns.len() + round.since.len() + 1);
    let replays: Vec<Option<Vec<Since>>> = turns
        .iter()
        .map(|turn| replay::honoured(turn, endpoint.api, &endpoint.connection_id, model))
        .collect();
    for (turn, replay) in turns.iter().zip(&replays) {
        match (turn.role, replay) {
            (Role::Assistant, Some(since)) => items.extend(since.iter().map(Since::item)),
            (Role::Assistant, None) => items.push(Item::Assistant { text: &turn.content }),
            (Role::User | Role::System, _) => items.push(Item::User {
                text: &turn.content,
                images: &turn.images,
                system: turn.role == Role::System,
            }),
        }
    }
    if let Some(text) = request
        .prefill()
        .filter(|_| round.since.is_empty() && !quirk.no_prefill)
    {
        items.push(Item::Prefill(text));
    }
    items.extend(round.since.iter().map(Since::item));
    endpoint.api.wire().body(&Asking {
        request,
        endpoint,
        model,
        system: system.as_deref(),
        items: &items,
        tools: &round.tools,
        choice: round.choice,
        prompt: round.prompt.as_ref(),
        quirk,
    })
}

/// Leaves of a body what may be shown as `requestParams`: no conversation, and of tools their names.
fn shown_params(body: &mut Map<String, Value>, round: &Round) {
    for name in [
        "messages",
        "input",
        "contents",
        "prompt",
        "system",
        "systemInstruction",
        "instructions",
    ] {
        body.remove(name);
    }
    if body.contains_key("tools") {
        let names = round.tools.iter().map(|tool| tool.name().into()).collect();
        body.insert("tools".into(), Value::Array(names));
    }
}
