use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use net::{Incoming, Net, NetError};
use policy::CallContext;
use serde_json::{Map, Value};

use crate::chunk::Progress;
use crate::error::{Blame, error_in};
use crate::http_in::{Ask, Asked, Refusal, is_web_page};
use crate::request::{Quirk, Round, THINKING};
use crate::sse::{SseEvent, SseParser};
use crate::{Endpoint, Event, GenerateRequest, ProviderError, ProviderErrorKind};

/// The events of one answer. Dropping it cancels the request: the connection to the server is closed.
pub type EventStream = BoxStream<'static, Event>;

/// Largest answer accepted in one piece of JSON, in bytes.
const MAX_JSON: usize = 8 << 20;

/// Once a server has said how the answer ended, how long to wait for the token counts some send after that. They come
/// at once or never.
const FAREWELL: Duration = Duration::from_secs(5);

/// Asks `endpoint` for an answer. Nothing is sent before the stream is polled.
pub fn chat(ctx: &CallContext, net: &Net, endpoint: &Endpoint, request: GenerateRequest) -> EventStream {
    let chat = Chat::new(ctx, net, endpoint, request, Round::default());
    stream::unfold(chat, |mut chat| async move {
        loop {
            if let Some(event) = chat.queue.pop_front() {
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

/// One request to a model and its answer.
pub(crate) struct Chat {
    ctx: CallContext,
    net: Net,
    endpoint: Endpoint,
    request: GenerateRequest,
    round: Round,
    pub(crate) blame: Blame,
    stage: Stage,
    pub(crate) progress: Progress,
    /// What has happened and was not looked at yet.
    pub(crate) queue: VecDeque<Event>,
    /// What was sent beside the messages, once something was.
    pub(crate) sent: Option<Map<String, Value>>,
    /// The address that gave the answer.
    pub(crate) url: String,
}

enum Stage {
    Unsent,
    Open {
        incoming: Box<Incoming>,
        url: String,
        form: Form,
    },
    Ended,
}

/// What the body has turned out to be. Decided by its first bytes and not by its content type, which many servers get
/// wrong.
enum Form {
    Unknown(Vec<u8>),
    Events(SseParser),
    Json(Vec<u8>),
}

impl Chat {
    pub(crate) fn new(
        ctx: &CallContext,
        net: &Net,
        endpoint: &Endpoint,
        request: GenerateRequest,
        round: Round,
    ) -> Self {
        Self {
            ctx: ctx.clone(),
            net: net.clone(),
            blame: Blame {
                who: endpoint.name.clone(),
                key: endpoint.key.clone(),
            },
            endpoint: endpoint.clone(),
            request,
            round,
            stage: Stage::Unsent,
            progress: Progress::default(),
            queue: VecDeque::new(),
            sent: None,
            url: String::new(),
        }
    }

    pub(crate) fn ended(&self) -> bool {
        matches!(self.stage, Stage::Ended)
    }

    /// Does the next bit of work: sending, or taking one piece of the body. Always gets further or ends.
    pub(crate) async fn step(&mut self) {
        let result = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Unsent => self.open().await.map(|(incoming, url)| Stage::Open {
                incoming: Box::new(incoming),
                url,
                form: Form::Unknown(Vec::new()),
            }),
            Stage::Open { incoming, url, form } => self.advance(incoming, url, form).await,
            Stage::Ended => Ok(Stage::Ended),
        };
        match result {
            Ok(stage) => self.stage = stage,
            Err(error) => self.queue.push_back(Event::Failed(error)),
        }
    }

    async fn advance(
        &mut self,
        mut incoming: Box<Incoming>,
        url: String,
        mut form: Form,
    ) -> Result<Stage, ProviderError> {
        let piece = match self.progress.finish_reason.is_some() {
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
            Some(Ok(bytes)) => self.take(&bytes, &incoming.headers, &url, &mut form)?,
            Some(Err(error)) => self.broken(error)?,
            None => {
                self.at_end(form, &incoming.headers, &url)?;
                return Ok(Stage::Ended);
            }
        };
        Ok(match ended {
            true => {
                incoming.body.enough();
                Stage::Ended
            }
            false => Stage::Open { incoming, url, form },
        })
    }

    async fn open(&mut self) -> Result<(Incoming, String), ProviderError> {
        let model = self.model()?;
        self.blame.who = format!("{}/{model}", self.endpoint.name);
        let level = self.request.reasoning.clone();
        let known = self.endpoint.quirks.of(&self.endpoint, &model, level.as_deref());
        let mut quirk = known;
        loop {
            let mut body = self.request.body(&model, &self.round, quirk);
            let ask = Ask {
                ctx: &self.ctx,
                net: &self.net,
                endpoint: &self.endpoint,
                blame: &self.blame,
                purpose: "chat",
            };
            let bytes = Bytes::from(serde_json::to_vec(&body).unwrap_or_default());
            match ask
                .send(Method::POST, "chat/completions", self.headers(), bytes)
                .await?
            {
                Asked::Answer(incoming, url) => {
                    if quirk != known {
                        let quirks = &self.endpoint.quirks;
                        quirks.remember(&self.endpoint, &model, level.as_deref(), quirk);
                    }
                    body.remove("messages");
                    self.sent = Some(body);
                    self.url.clone_from(&url);
                    return Ok((incoming, url));
                }
                Asked::Refusal(refusal) => match without_what_it_refused(&refusal, &body, quirk) {
                    Some(less) => quirk = less,
                    None => return Err(self.blame.status(refusal.status, &refusal.body, &refusal.tried)),
                },
            }
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if self.endpoint.key.is_none() {
            // Some local servers insist on any key at all (contract section 8).
            headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer no-key"));
        }
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
            None => Err(self.blame.error(
                ProviderErrorKind::Unusable,
                "no model is chosen and none is known; refresh the connection's models or name one",
            )),
        }
    }

    /// Takes a piece of the body. `true` when the answer is complete.
    fn take(&mut self, bytes: &[u8], headers: &HeaderMap, url: &str, form: &mut Form) -> Result<bool, ProviderError> {
        if let Form::Unknown(seen) = form {
            seen.extend_from_slice(bytes);
            let text = seen.strip_prefix(b"\xef\xbb\xbf").unwrap_or(seen).trim_ascii_start();
            // One byte of a byte order mark says nothing yet.
            let Some(first) = text
                .first()
                .copied()
                .filter(|_| seen.len() > 2 || !seen.starts_with(b"\xef"))
            else {
                return match seen.len() > crate::sse::MAX_EVENT {
                    true => Err(self.too_long(url)),
                    false => Ok(false),
                };
            };
            let whole = std::mem::take(seen);
            *form = match first {
                b'<' => return Err(self.blame.web_page(url)),
                b'{' | b'[' => Form::Json(Vec::new()),
                _ if is_web_page(headers, &whole) => return Err(self.blame.web_page(url)),
                _ => Form::Events(SseParser::default()),
            };
            return self.take(&whole, headers, url, form);
        }
        match form {
            Form::Unknown(_) => Ok(false),
            Form::Json(body) => {
                body.extend_from_slice(bytes);
                match body.len() > MAX_JSON {
                    true => Err(self.too_long(url)),
                    false => Ok(false),
                }
            }
            Form::Events(parser) => {
                let mut events = Vec::new();
                let fits = parser.feed(bytes, &mut events);
                for event in events {
                    if self.event(&event, url, false)? {
                        return Ok(true);
                    }
                }
                match fits {
                    Ok(()) => Ok(false),
                    Err(_) => Err(self.too_long(url)),
                }
            }
        }
    }

    /// Takes one event. `true` when it was the last.
    fn event(&mut self, event: &SseEvent, url: &str, last: bool) -> Result<bool, ProviderError> {
        let data = event.data.trim();
        match data {
            "" | "\"\"" | "ping" => return Ok(false),
            "[DONE]" => {
                let done = self.progress.done();
                self.queue.push_back(done);
                return Ok(true);
            }
            _ => {}
        }
        let value: Value = match serde_json::from_str(data) {
            Ok(value) => value,
            // The last event of a stream that broke off is a part of one.
            Err(error) if last && error.is_eof() => return Ok(false),
            Err(_) => return Err(self.blame.unreadable(data, url)),
        };
        if event.name == "error" || error_in(&value).is_some() {
            return Err(self.blame.in_answer(&value, url));
        }
        self.progress.read(&value, &mut self.queue);
        Ok(false)
    }

    /// The body has ended in good order.
    fn at_end(&mut self, form: Form, headers: &HeaderMap, url: &str) -> Result<(), ProviderError> {
        match form {
            Form::Unknown(seen) if is_web_page(headers, &seen) => Err(self.blame.web_page(url)),
            Form::Unknown(_) => Err(self.blame.truncated(url)),
            Form::Json(body) => self.whole(&body, url),
            Form::Events(mut parser) => {
                if let Some(event) = parser.finish()
                    && self.event(&event, url, true)?
                {
                    return Ok(());
                }
                if self.progress.finish_reason.is_none() {
                    return Err(self.blame.truncated(url));
                }
                let done = self.progress.done();
                self.queue.push_back(done);
                Ok(())
            }
        }
    }

    /// An answer in one piece, from a server that does not stream.
    fn whole(&mut self, body: &[u8], url: &str) -> Result<(), ProviderError> {
        let text = String::from_utf8_lossy(body);
        let text = text.trim_start_matches('\u{feff}').trim();
        let value: Value = match serde_json::from_str(text) {
            // Some servers wrap an error into a list.
            Ok(Value::Array(mut list)) if !list.is_empty() => list.swap_remove(0),
            Ok(value) => value,
            Err(error) if error.is_eof() => return Err(self.blame.truncated(url)),
            Err(_) => return Err(self.blame.unreadable(text, url)),
        };
        if error_in(&value).is_some() {
            return Err(self.blame.in_answer(&value, url));
        }
        self.progress.read(&value, &mut self.queue);
        if !self.progress.any && self.progress.finish_reason.is_none() {
            return Err(self.blame.unreadable(text, url));
        }
        let done = self.progress.done();
        self.queue.push_back(done);
        Ok(())
    }

    /// The body broke off. After the server said how its answer ended, nothing of it can be missing.
    fn broken(&mut self, error: NetError) -> Result<bool, ProviderError> {
        if self.progress.finish_reason.is_none() {
            return Err(self.blame.network(error));
        }
        let done = self.progress.done();
        self.queue.push_back(done);
        Ok(true)
    }

    fn too_long(&self, url: &str) -> ProviderError {
        let what = format!("sent one piece of an answer that is larger than this program accepts (tried {url})");
        self.blame.error(ProviderErrorKind::NotTheApi, what)
    }
}

/// What to leave out of the next try, if the refusal names something that can be left out. Each thing is left out once,
/// so this comes to an end.
fn without_what_it_refused(refusal: &Refusal, body: &Map<String, Value>, quirk: Quirk) -> Option<Quirk> {
    if !matches!(refusal.status, 400 | 422) {
        return None;
    }
    let words = String::from_utf8_lossy(&refusal.body).to_lowercase();
    let mut less = quirk;
    if words.contains("reasoning is mandatory") {
        less.must_reason = true;
    } else if words.contains("tool_choice") || words.contains("tool choice") {
        // Some take `required` where they do not take a name; those that think take neither.
        match body.get("tool_choice") {
            Some(Value::Object(_)) => less.no_named_choice = true,
            Some(_) => less.no_choice = true,
            None => return None,
        }
    } else if sends_thinking_back(body, &words) {
        less.no_thinking_back = true;
    } else if words.contains("stream_options") {
        // Older servers refuse the option they do not know. Token counts are worth one more try, not a failure.
        less.no_stream_options = true;
    }
    (less != quirk).then_some(less)
}

/// Whether a message has a field for thinking that these words name.
fn sends_thinking_back(body: &Map<String, Value>, words: &str) -> bool {
    let messages = body.get("messages").and_then(Value::as_array);
    let mut named = THINKING.iter().filter(|name| words.contains(**name));
    named.any(|name| {
        messages
            .into_iter()
            .flatten()
            .any(|message| message.get(name).is_some())
    })
}
