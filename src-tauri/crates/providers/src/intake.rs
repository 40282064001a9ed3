//! From the bytes of an answer's body to events: what the body is, where its events end, and what it means when it stops.

use std::collections::VecDeque;

use http::HeaderMap;
use net::NetError;
use serde_json::Value;

use crate::error::{Blame, error_in};
use crate::halves::Halves;
use crate::http_in::is_web_page;
use crate::progress::Progress;
use crate::sse::{SseEvent, SseParser};
use crate::values::ValuesParser;
use crate::wire::{Api, Next, Reader, Wrong};
use crate::{Event, ProviderError, ProviderErrorKind};

/// The body of one answer.
pub(crate) struct Intake {
    pub(crate) blame: Blame,
    pub(crate) progress: Progress,
    /// What has happened and was not looked at yet.
    pub(crate) queue: VecDeque<Event>,
    /// The address that gives the answer.
    pub(crate) url: String,
    reader: Box<dyn Reader>,
    is_lines: bool,
    form: Form,
    /// Bytes of white space before all else.
    blank: usize,
    halves: Halves,
    events: Vec<Event>,
}

/// What the body has turned out to be. Decided by its first bytes and not by its content type, which many servers get
/// wrong.
enum Form {
    Unknown(Vec<u8>),
    Events(SseParser),
    /// JSON values; how many there were.
    Values(ValuesParser, usize),
}

impl Intake {
    pub(crate) fn new(api: Api, blame: Blame) -> Self {
        let wire = api.wire();
        Self {
            blame,
            progress: Progress::default(),
            queue: VecDeque::new(),
            url: String::new(),
            reader: wire.reader(),
            is_lines: wire.is_lines(),
            form: Form::Unknown(Vec::new()),
            blank: 0,
            halves: Halves::default(),
            events: Vec::new(),
        }
    }

    /// See [`Reader::text_is_structured`].
    pub(crate) fn text_is_structured(&mut self) {
        self.reader.text_is_structured();
    }

    /// Takes a piece of the body. `true` when the answer is complete.
    pub(crate) fn take(&mut self, bytes: &[u8], headers: &HeaderMap) -> Result<bool, ProviderError> {
        let whole;
        let mut bytes = bytes;
        if let Form::Unknown(seen) = &mut self.form {
            // White space before the first byte that says something: not looked at again with each further byte.
            let blank = match seen.is_empty() {
                true => bytes.len() - bytes.trim_ascii_start().len(),
                false => 0,
            };
            self.blank += blank;
            seen.extend_from_slice(&bytes[blank..]);
            let text = seen.strip_prefix(b"\xef\xbb\xbf").unwrap_or(seen).trim_ascii_start();
            // One byte of a byte order mark says nothing yet.
            let Some(first) = text
                .first()
                .copied()
                .filter(|_| seen.len() > 2 || !seen.starts_with(b"\xef"))
            else {
                return match seen.len() + self.blank > crate::sse::MAX_EVENT {
                    true => Err(self.too_long()),
                    false => Ok(false),
                };
            };
            whole = std::mem::take(seen);
            self.form = match first {
                b'<' => return Err(self.blame.web_page(&self.url)),
                b'{' | b'[' => Form::Values(ValuesParser::default(), 0),
                _ if is_web_page(headers, &whole) => return Err(self.blame.web_page(&self.url)),
                _ => Form::Events(SseParser::default()),
            };
            bytes = &whole;
        }
        match &mut self.form {
            Form::Unknown(_) => Ok(false),
            Form::Values(parser, _) => {
                let mut values = Vec::new();
                let fits = parser.feed(bytes, &mut values);
                for text in values {
                    if self.value(&text, false)? {
                        return Ok(true);
                    }
                }
                match fits {
                    Ok(()) => Ok(false),
                    Err(_) => Err(self.too_long()),
                }
            }
            Form::Events(parser) => {
                let mut events = Vec::new();
                let fits = parser.feed(bytes, &mut events);
                for event in events {
                    if self.event(&event, false)? {
                        return Ok(true);
                    }
                }
                match fits {
                    Ok(()) => Ok(false),
                    Err(_) => Err(self.too_long()),
                }
            }
        }
    }

    /// Takes one event. `true` when it was the last.
    fn event(&mut self, event: &SseEvent, last: bool) -> Result<bool, ProviderError> {
        let data = event.data.trim();
        match data {
            "" | "\"\"" | "ping" => return Ok(false),
            "[DONE]" => {
                self.done();
                return Ok(true);
            }
            _ => {}
        }
        match serde_json::from_str(&self.halves.mend(data)) {
            Ok(value) => self.read(&event.name, &value),
            // The last event of a stream that broke off is a part of one.
            Err(error) if last && error.is_eof() => Ok(false),
            Err(_) => Err(self.damaged(data)),
        }
    }

    /// Takes one JSON value that came by itself. `true` when it was the last.
    fn value(&mut self, text: &str, last: bool) -> Result<bool, ProviderError> {
        if let Form::Values(_, count) = &mut self.form {
            *count += 1;
        }
        match serde_json::from_str(&self.halves.mend(text)) {
            Ok(value) => self.read("", &value),
            Err(error) if last && error.is_eof() => Err(self.blame.truncated(&self.url)),
            Err(_) => Err(self.damaged(text)),
        }
    }

    fn read(&mut self, name: &str, value: &Value) -> Result<bool, ProviderError> {
        if name == "error" || error_in(value).is_some() {
            return Err(self.blame.in_answer(value, &self.url));
        }
        let next = self.reader.read(name, value, &mut self.progress, &mut self.events);
        for event in self.events.drain(..) {
            queue(&mut self.queue, event);
        }
        match next {
            Ok(Next::More) => Ok(false),
            Ok(Next::Last) => {
                self.done();
                Ok(true)
            }
            Err(Wrong::Reported(error)) => Err(self.blame.in_answer(&error, &self.url)),
            Err(Wrong::Refused(why)) => Err(self.blame.refused(&why, &self.url)),
        }
    }

    fn done(&mut self) {
        let done = self.progress.done();
        self.queue.push_back(done);
    }

    /// The body has ended in good order.
    pub(crate) fn at_end(&mut self, headers: &HeaderMap) -> Result<(), ProviderError> {
        match std::mem::replace(&mut self.form, Form::Unknown(Vec::new())) {
            Form::Unknown(seen) if is_web_page(headers, &seen) => Err(self.blame.web_page(&self.url)),
            Form::Unknown(_) => Err(self.blame.truncated(&self.url)),
            Form::Values(mut parser, count) => {
                let rest = parser.finish();
                if let Some(text) = rest
                    && self.value(&text, true)?
                {
                    return Ok(());
                }
                // An answer in one piece often does not say how it ended; one of many pieces has to.
                let whole = count <= 1 && !self.is_lines && self.progress.any;
                if self.progress.finish_reason.is_some() || whole {
                    self.done();
                    return Ok(());
                }
                match self.progress.any || self.is_lines {
                    true => Err(self.blame.truncated(&self.url)),
                    false => Err(self.blame.unreadable("a JSON answer without any text", &self.url)),
                }
            }
            Form::Events(mut parser) => {
                if let Some(event) = parser.finish()
                    && self.event(&event, true)?
                {
                    return Ok(());
                }
                if self.progress.finish_reason.is_none() {
                    return Err(self.blame.truncated(&self.url));
                }
                self.done();
                Ok(())
            }
        }
    }

    /// The body broke off. After the server said how its answer ended, nothing of it can be missing.
    pub(crate) fn broken(&mut self, error: NetError) -> Result<bool, ProviderError> {
        if self.progress.finish_reason.is_none() {
            return Err(self.blame.in_the_midst(error, self.progress.any));
        }
        self.done();
        Ok(true)
    }

    /// What is no JSON. Once something of an answer has come, the address is the right one.
    fn damaged(&self, text: &str) -> ProviderError {
        match self.progress.any {
            true => self.blame.damaged(&self.url),
            false => self.blame.unreadable(text, &self.url),
        }
    }

    fn too_long(&self) -> ProviderError {
        let what = format!(
            "sent one piece of an answer that is larger than this program accepts (tried {})",
            self.url
        );
        self.blame.tried(ProviderErrorKind::NotTheApi, what, &self.url)
    }
}

/// Text that came in one piece of the body is handed on in one piece: whoever reads is woken once for it.
fn queue(queue: &mut VecDeque<Event>, event: Event) {
    match (queue.back_mut(), event) {
        (Some(Event::Delta(text)), Event::Delta(more)) | (Some(Event::Thinking(text)), Event::Thinking(more)) => {
            text.push_str(&more);
        }
        (_, event) => queue.push_back(event),
    }
}

/// The events of an answer whose body is exactly these pieces and then ends: for tests and fuzzing of what servers send.
pub fn replay(api: Api, pieces: &[&[u8]]) -> Vec<Event> {
    let mut intake = Intake::new(
        api,
        Blame {
            name: "recording".into(),
            model: Some("model".into()),
            key: None,
        },
    );
    "http://recording.test/".clone_into(&mut intake.url);
    let headers = HeaderMap::new();
    let mut run = || {
        for piece in pieces {
            if intake.take(piece, &headers)? {
                return Ok(());
            }
        }
        intake.at_end(&headers)
    };
    let failed = run().err().map(Event::Failed);
    intake.queue.extend(failed);
    intake.queue.into()
}
