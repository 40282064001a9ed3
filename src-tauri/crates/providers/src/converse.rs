//! A conversation with a model that may call tools in between: ask, run what it calls, ask again with the results.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use net::Net;
use policy::CallContext;
use serde_json::Value;

use crate::answer::{MAX_PART, cut_chars};
use crate::calls::Call;
use crate::chat::Chat;
use crate::error::cut;
use crate::replay;
use crate::request::Round;
use crate::structured::Structured;
use crate::tags::TagSplitter;
use crate::tools::{STRUCTURED, Tool, ToolAnswer, ToolBox, is_name, shown};
use crate::wire::{Choice, ModelTurn, SentCall, Since, Thought, ToolReply};
use crate::{Endpoint, Event, EventStream, GenerateRequest, ProviderError, ProviderErrorKind, Usage};

/// Most rounds in which a model may call tools; after them it is asked once more, without tools (contract section 4.1).
pub const MAX_ROUNDS: u32 = 8;

/// Most bytes of a tool's answer that are sent to the model.
const MAX_ANSWER: usize = 256 << 10;

/// Most bytes of all tools' answers of one conversation, as JSON: every further request carries them all.
const MAX_ANSWERS: usize = 8 << 20;

/// Most calls of one round that are run. Models ask for a handful; each one may cost a connection or a script.
const MAX_AT_ONCE: usize = 32;

/// Asks `endpoint` for an answer, and runs the tools of `toolbox` that the model calls, in order, one at a time. The
/// request's own `tools` are not looked at: whoever runs them has them in the toolbox.
///
/// Beside the events of [`crate::chat`] there are `Sent`, `ToolStart` and `ToolEnd`, `Used` after each round, and for a
/// request with a `schema` `JsonDelta` and `Json`. Usage is the sum of all rounds. Nothing is sent before the stream is
/// polled; dropping the stream drops the tool that runs.
///
/// Of one round's calls the first 32 are run, and the others are answered with an error for the model. Fails with
/// `Truncated`, keeping what had arrived, when the tools' answers are together more than 8 MiB, and when the model gives
/// neither text nor structured output after [`MAX_ROUNDS`].
pub fn converse(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    request: GenerateRequest,
    toolbox: Arc<dyn ToolBox>,
) -> EventStream {
    let talk = Talk {
        ctx: ctx.clone(),
        net: net.clone(),
        endpoint: endpoint.clone(),
        structured: request.schema.as_ref().map(Structured::new),
        request,
        tools: None,
        toolbox,
        round: 0,
        since: Vec::new(),
        answered: 0,
        usage: Usage::default(),
        said: Said::default(),
        text: String::new(),
        stage: Stage::Asking(None),
        queue: VecDeque::new(),
    };
    stream::unfold(talk, |mut talk| async move {
        loop {
            if let Some(event) = talk.queue.pop_front() {
                return Some((event, talk));
            }
            if matches!(talk.stage, Stage::Ended) {
                return None;
            }
            talk.step().await;
        }
    })
    .boxed()
}

struct Talk {
    ctx: CallContext,
    net: Net,
    endpoint: Endpoint,
    request: GenerateRequest,
    structured: Option<Structured>,
    toolbox: Arc<dyn ToolBox>,
    /// What the toolbox offers, once it was asked.
    tools: Option<Vec<Tool>>,
    round: u32,
    /// See [`Round::since`].
    since: Vec<Since>,
    /// Bytes of the tools' answers in it, as JSON.
    answered: usize,
    usage: Usage,
    said: Said,
    /// The answer's text of all rounds.
    text: String,
    stage: Stage,
    queue: VecDeque<Event>,
}

/// What the model has said in this round.
#[derive(Default)]
struct Said {
    /// As it came, inline thinking included.
    raw: String,
    text: String,
    splitter: Option<TagSplitter>,
    /// What the model was made to begin with, as far as it was sent.
    prefill: String,
    /// Bytes of the structured output that were given out.
    json: usize,
}

enum Stage {
    /// Nothing is sent yet, or an answer is arriving.
    Asking(Option<Box<Chat>>),
    /// The calls to run, each announced when its turn comes; `true` once the first one is.
    Calling(VecDeque<Called>, bool),
    Ended,
}

/// A call of this round, with an id that is its own.
struct Called {
    id: String,
    call: Call,
    /// Whether it is one of those that are run: see [`MAX_AT_ONCE`].
    in_turn: bool,
}

impl Talk {
    /// Does the next bit of work. Always gets further or ends.
    async fn step(&mut self) {
        match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Asking(None) => match self.ask() {
                Ok(chat) => self.stage = Stage::Asking(Some(Box::new(chat))),
                Err(error) => self.queue.push_back(Event::Failed(error)),
            },
            Stage::Asking(Some(mut chat)) => {
                chat.step().await;
                match self.hear(&mut chat) {
                    Heard::More => self.stage = Stage::Asking(Some(chat)),
                    Heard::End(last) => match self.end(*chat, last) {
                        Ok(stage) => self.stage = stage,
                        Err(error) => self.queue.push_back(Event::Failed(error)),
                    },
                }
            }
            Stage::Calling(mut calls, true) => {
                if let Some(called) = calls.pop_front() {
                    self.call(called).await;
                }
                if self.answered > MAX_ANSWERS {
                    let what = format!(
                        "was stopped: the answers of its tools are together more than {} MiB, and each further request \
                         would carry them all; what had arrived is kept — ask for less at once, or use tools that \
                         answer more briefly",
                        MAX_ANSWERS >> 20
                    );
                    self.queue
                        .push_back(Event::Failed(self.error(ProviderErrorKind::Truncated, what)));
                    return;
                }
                self.stage = self.next(calls);
            }
            Stage::Calling(calls, false) => self.stage = self.next(calls),
            Stage::Ended => {}
        }
    }

    /// Announces the next call, or goes on to the next round.
    fn next(&mut self, calls: VecDeque<Called>) -> Stage {
        match calls.front() {
            Some(called) => {
                self.queue.push_back(Event::ToolStart {
                    id: called.id.clone(),
                    name: called.call.name.clone(),
                    args: match called.call.args() {
                        Ok(args) => Value::Object(args),
                        Err(_) => Value::String(cut_chars(&called.call.arguments, MAX_PART).to_owned()),
                    },
                });
                Stage::Calling(calls, true)
            }
            None => {
                self.round += 1;
                Stage::Asking(None)
            }
        }
    }

    fn last_round(&self) -> bool {
        self.round >= MAX_ROUNDS
    }

    /// An error that no server reported.
    fn error(&self, kind: ProviderErrorKind, what: String) -> ProviderError {
        ProviderError::new(kind, self.endpoint.name.clone(), None, what)
    }

    fn ask(&mut self) -> Result<Chat, ProviderError> {
        self.toolbox
            .before_round(self.round)
            .map_err(|why| self.error(ProviderErrorKind::Limit, why))?;
        let toolbox = &self.toolbox;
        let tools = self.tools.get_or_insert_with(|| {
            let mut tools: Vec<Tool> = Vec::new();
            for tool in toolbox.tools() {
                if !tools.iter().any(|other| other.name() == tool.name()) {
                    tools.push(tool);
                }
            }
            tools
        });
        let mut round = Round {
            since: self.since.clone(),
            ..Round::default()
        };
        if self.round < MAX_ROUNDS {
            round.tools.clone_from(tools);
        }
        if let Some(structured) = &self.structured {
            round.choice = Some(match round.tools.is_empty() {
                true => Choice::Structured,
                false => Choice::Required,
            });
            round.tools.push(Tool::structured(&structured.parameters));
        }
        self.said = Said::default();
        Ok(Chat::new(
            &self.ctx,
            &self.net,
            &self.endpoint,
            self.request.clone(),
            round,
        ))
    }

    /// Takes what the model has said.
    fn hear(&mut self, chat: &mut Chat) -> Heard {
        if let Some(sent) = chat.sent.take() {
            let prefill = self.request.prefill().filter(|_| chat.prefilled);
            if let Some(splitter) = chat.splitter() {
                self.said.splitter = Some(splitter);
            } else if let Some(tags) = &self.request.reasoning_tags {
                self.said.splitter = Some(TagSplitter::new(tags, prefill));
            }
            self.said.prefill = prefill.unwrap_or_default().to_owned();
            if self.round == 0 {
                self.queue.push_back(Event::Sent(sent));
            }
        }
        let mut end = None;
        let first = self.queue.len();
        for event in chat.intake.queue.drain(..) {
            match event {
                Event::Delta(text) => {
                    self.said.raw.push_str(&text);
                    match &mut self.said.splitter {
                        Some(splitter) => splitter.push(&text, &mut self.queue),
                        None => self.queue.push_back(Event::Delta(text)),
                    }
                }
                Event::Done { .. } | Event::Failed(_) => {
                    if let Some(splitter) = &mut self.said.splitter {
                        splitter.finish(&mut self.queue);
                    }
                    end = Some(event);
                }
                other => self.queue.push_back(other),
            }
        }
        for event in self.queue.iter().skip(first) {
            if let Event::Delta(text) = event {
                self.said.text.push_str(text);
                self.text.push_str(text);
            }
        }
        if self.structured.is_some()
            && let Some(json) = chat.intake.progress.calls.arguments_of(STRUCTURED)
        {
            // Arguments may be taken back; see `calls`.
            let more = json.get(self.said.json..).unwrap_or_default();
            if !more.is_empty() {
                self.said.json = json.len();
                self.queue.push_back(Event::JsonDelta(more.to_owned()));
            }
        }
        match end {
            Some(event) => Heard::End(event),
            None => Heard::More,
        }
    }

    /// A round has ended with `last`.
    fn end(&mut self, mut chat: Chat, last: Event) -> Result<Stage, ProviderError> {
        let progress = std::mem::take(&mut chat.intake.progress);
        let (blame, url) = (&chat.intake.blame, &chat.intake.url);
        self.usage.add(&progress.usage);
        self.queue.push_back(Event::Used(self.usage));
        let Event::Done {
            finish_reason,
            model,
            response_id,
            ..
        } = last
        else {
            self.queue.push_back(last);
            return Ok(Stage::Ended);
        };
        let cut_short = match finish_reason.as_deref() {
            Some(_) => progress.cut_short,
            None => !progress.calls.all_complete(),
        };
        let called = !progress.calls.is_empty();
        if called && cut_short && !self.last_round() {
            let reason = shown(finish_reason.as_deref().unwrap_or("no reason given"));
            let midst = match progress.calls.arguments_of(STRUCTURED) {
                Some(_) => "before its structured part was complete",
                None => "in the midst of calling a tool, which was not run",
            };
            let what =
                format!("ended its answer {midst} ({reason}; tried {url}) — raise the limit of tokens, or try again");
            return Err(blame.tried(ProviderErrorKind::Truncated, what, url));
        }
        let calls = progress.calls.finish().map_err(|why| {
            let what = format!(
                "sent {why} (tried {url}), so that its tool calls cannot be told apart; none was run — try again, or \
                 choose another model"
            );
            blame.tried(ProviderErrorKind::NotTheApi, what, url)
        })?;
        let mut has_json = false;
        let handed_in = calls.iter().find(|call| call.name == STRUCTURED);
        if let Some(structured) = &self.structured {
            let json = match handed_in {
                Some(call) => match call.args() {
                    Ok(args) => Some(structured.unwrap(Value::Object(args))),
                    Err(_) => structured.read_text(&self.said.text),
                },
                None if calls.is_empty() || self.last_round() => structured.read_text(&self.said.text),
                None => None,
            };
            has_json = json.is_some();
            self.queue.extend(json.map(Event::Json));
        }
        if self.last_round() && !has_json && self.said.text.trim().is_empty() {
            let what = format!(
                "gave no answer: its {MAX_ROUNDS} rounds of tool calls are used up, and asked once more without tools it \
                 wrote nothing (tried {url}); what had arrived is kept — ask for less at once, or choose another model"
            );
            return Err(blame.tried(ProviderErrorKind::Truncated, what, url));
        }
        if calls.is_empty() || handed_in.is_some() || self.last_round() {
            if handed_in.is_none() && !cut_short {
                let turn = self.turn(&[], progress.thinking);
                let mut said = std::mem::take(&mut self.since);
                said.push(Since::Model(turn));
                let endpoint = &self.endpoint;
                let model = blame.model.as_deref().unwrap_or_default();
                let replay = replay::of(endpoint.api, &endpoint.connection_id, model, &self.text, said);
                self.queue.extend(replay.map(Event::Replay));
            }
            self.queue.push_back(Event::Done {
                finish_reason,
                usage: self.usage,
                model,
                response_id,
            });
            return Ok(Stage::Ended);
        }
        let calls: Vec<Called> = calls
            .into_iter()
            .enumerate()
            .map(|(at, call)| Called {
                id: call.id.clone().unwrap_or_else(|| format!("call_{}_{at}", self.round)),
                call,
                in_turn: at < MAX_AT_ONCE,
            })
            .collect();
        let turn = self.turn(&calls, progress.thinking);
        self.since.push(Since::Model(turn));
        self.since.push(Since::Tools { results: Vec::new() });
        Ok(Stage::Calling(calls.into(), false))
    }

    /// The model's turn, as it is sent back with the answers to its calls.
    fn turn(&self, calls: &[Called], thinking: Vec<Thought>) -> ModelTurn {
        let calls = calls.iter().map(|called| SentCall {
            id: called.id.clone(),
            name: fit_name(&called.call.name),
            args: called.call.args().unwrap_or_default(),
            extra: called.call.extra.clone(),
        });
        ModelTurn {
            text: format!("{}{}", self.said.prefill, self.said.raw),
            thinking,
            calls: calls.collect(),
        }
    }

    /// Runs one call, and keeps its answer for the model.
    async fn call(&mut self, called: Called) {
        let Called { id, call, in_turn } = called;
        let known = self.tools.iter().flatten().any(|tool| tool.name() == call.name);
        let answer = match call.args() {
            _ if !in_turn => ToolAnswer::error(format!(
                "Not run: at most {MAX_AT_ONCE} tools can be called at once. Call it again in your next turn."
            )),
            _ if !known => ToolAnswer::error(format!("There is no tool \"{}\".", shown(&call.name))),
            Ok(args) => self.toolbox.run(&call.name, Value::Object(args)).await,
            Err(why) => ToolAnswer::error(why),
        };
        let mut content = cut(&answer.text, MAX_ANSWER).to_owned();
        if content.len() < answer.text.len() {
            content += "\n[cut here: the answer is longer than 256 KiB]";
        }
        self.answered += Value::from(content.as_str()).to_string().len();
        let reply = ToolReply {
            id: id.clone(),
            name: fit_name(&call.name),
            text: content,
            is_error: answer.is_error,
        };
        if let Some(Since::Tools { results }) = self.since.last_mut() {
            results.push(reply);
        }
        self.queue.push_back(Event::ToolEnd {
            id,
            name: call.name,
            result: cut_chars(&answer.text, MAX_PART).to_owned(),
            is_error: answer.is_error,
        });
    }
}

enum Heard {
    More,
    End(Event),
}

/// A name that servers accept, for a call of a tool that does not exist.
fn fit_name(name: &str) -> String {
    if is_name(name) {
        return name.to_owned();
    }
    let fit: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
        .collect();
    match fit.is_empty() {
        true => "unknown".into(),
        false => fit,
    }
}
