//! Carries one answer's body to the page, at the page's own speed.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response, header};
use http_body_util::BodyExt;
use tokio::sync::watch;

use super::door::{self, content_type};
use super::message::{self, Data, ToPage};
use super::outbox::Outbox;

/// Body bytes an answer may be ahead of what the page has consumed.
const INITIAL_CREDIT: u64 = 1024 * 1024;
/// Largest piece of a body in one message.
const PIECE: usize = 48 * 1024;
/// Longest event taken from the event stream, in bytes.
const MAX_EVENT: usize = 1024 * 1024;

/// The valve of one answer.
#[derive(Clone)]
pub struct Flow {
    state: watch::Sender<State>,
}

#[derive(Clone, Copy)]
struct State {
    credit: u64,
    stopped: bool,
}

impl Flow {
    pub fn new() -> Flow {
        let state = State {
            credit: INITIAL_CREDIT,
            stopped: false,
        };
        Flow {
            state: watch::Sender::new(state),
        }
    }

    /// The page consumed `n` more bytes.
    pub fn credit(&self, n: u64) {
        self.state
            .send_modify(|state| state.credit = state.credit.saturating_add(n).min(INITIAL_CREDIT));
    }

    /// The page does not want the rest.
    pub fn stop(&self) {
        self.state.send_modify(|state| state.stopped = true);
    }

    /// Waits until it is stopped.
    pub async fn stopped(&self) {
        let _ = self.state.subscribe().wait_for(|state| state.stopped).await;
    }

    /// Takes credit for at most `wanted` bytes, waiting for some; `None` when stopped.
    async fn take(&self, wanted: usize) -> Option<usize> {
        let mut watch = self.state.subscribe();
        let ready = watch.wait_for(|state| state.stopped || state.credit > 0).await.ok()?;
        if ready.stopped {
            return None;
        }
        let take = ready.credit.min(wanted as u64);
        drop(ready);
        self.state.send_modify(|state| state.credit -= take);
        Some(take as usize)
    }
}

/// Sends an answer to the page. When the page goes away or aborts, the rest is read to its end without being
/// delivered.
pub async fn deliver(outbox: &Outbox, id: u64, flow: &Flow, method: Method, answer: Response<Body>) {
    let head = ToPage::Head {
        id,
        status: answer.status().as_u16(),
        status_text: answer.status().canonical_reason().unwrap_or_default(),
        headers: headers(&answer),
    };
    let alive = tokio::select! {
        alive = outbox.push(head) => alive,
        () = flow.stopped() => false,
    };
    if !alive {
        return door::finish(method, answer).await;
    }
    let text = is_text(&answer);
    let (parts, mut body) = answer.into_parts();
    let end = if method == Method::HEAD {
        Ok(())
    } else {
        tokio::select! {
            end = pump(outbox, id, flow, &mut body, text) => end,
            () = flow.stopped() => Err(Ended::ByPage),
        }
    };
    match end {
        Ok(()) => {
            outbox.push(ToPage::End { id }).await;
        }
        Err(Ended::ByAnswer(why)) => {
            tracing::debug!(why, "answer broke off");
            let message = "the answer broke off before its end".into();
            outbox.push(ToPage::Error { id, message }).await;
        }
        Err(Ended::ByPage) => door::finish(method, Response::from_parts(parts, body)).await,
    }
}

enum Ended {
    ByPage,
    ByAnswer(String),
}

async fn pump(outbox: &Outbox, id: u64, flow: &Flow, body: &mut Body, text: bool) -> Result<(), Ended> {
    let mut pieces = Pieces::new(text);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Ended::ByAnswer(error.to_string()))?;
        let Ok(mut bytes) = frame.into_data() else { continue };
        while !bytes.is_empty() {
            let take = flow.take(bytes.len().min(PIECE)).await.ok_or(Ended::ByPage)?;
            if let Some(data) = pieces.cut(bytes.split_to(take))
                && !outbox.push(ToPage::Chunk { id, data }).await
            {
                return Err(Ended::ByPage);
            }
        }
    }
    if let Some(data) = pieces.rest()
        && !outbox.push(ToPage::Chunk { id, data }).await
    {
        return Err(Ended::ByPage);
    }
    Ok(())
}

/// Cuts bytes into pieces for the page without ever splitting a character.
struct Pieces {
    text: bool,
    /// The start of a character whose end has not come yet: at most three bytes.
    carry: Vec<u8>,
}

impl Pieces {
    fn new(text: bool) -> Pieces {
        let carry = Vec::new();
        Pieces { text, carry }
    }

    fn cut(&mut self, bytes: Bytes) -> Option<Data> {
        if !self.text {
            return Some(Data::B64(message::base64(&bytes)));
        }
        let mut all = std::mem::take(&mut self.carry);
        all.extend_from_slice(&bytes);
        match String::from_utf8(all) {
            Ok(text) => Some(Data::Text(text)),
            Err(error) => {
                let cut = error.utf8_error();
                let mut all = error.into_bytes();
                if cut.error_len().is_some() {
                    // Not UTF-8 after all: the page gets the bytes as they are.
                    return Some(Data::B64(message::base64(&all)));
                }
                self.carry = all.split_off(cut.valid_up_to());
                match String::from_utf8(all) {
                    Ok(text) if !text.is_empty() => Some(Data::Text(text)),
                    _ => None,
                }
            }
        }
    }

    fn rest(&mut self) -> Option<Data> {
        let carry = std::mem::take(&mut self.carry);
        (!carry.is_empty()).then(|| Data::B64(message::base64(&carry)))
    }
}

/// Emulates the WebSocket `/v1/ws` over the event stream.
pub async fn events(outbox: &Outbox, id: u64, flow: &Flow, answer: Response<Body>) {
    let tell = async |event, data| outbox.push(ToPage::Ws { id, event, data }).await;
    if !answer.status().is_success() {
        let why = format!("the engine refused the event stream ({})", answer.status());
        tell("error", Some(why)).await;
        tell("close", None).await;
        return;
    }
    let mut body = answer.into_body();
    let run = async {
        if !tell("open", None).await {
            return;
        }
        let mut events = Events::default();
        while let Some(Ok(frame)) = body.frame().await {
            let Ok(bytes) = frame.into_data() else { continue };
            for data in events.feed(&bytes) {
                if !tell("message", Some(data)).await {
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = run => {}
        () = flow.stopped() => {}
    }
    tell("close", None).await;
}

/// Reads the `data` of server-sent events as our own engine writes them: one or more `data:` lines, a blank line.
#[derive(Default)]
pub struct Events {
    line: Vec<u8>,
    data: Option<String>,
}

impl Events {
    /// Takes the next bytes, gives the data of every event they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                if self.line.len() < MAX_EVENT {
                    self.line.push(byte);
                }
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).into_owned();
            self.line.clear();
            let line = line.trim_end_matches('\r');
            if line.is_empty() {
                out.extend(self.data.take());
            } else if let Some(value) = line.strip_prefix("data:") {
                let value = value.strip_prefix(' ').unwrap_or(value);
                match &mut self.data {
                    None => self.data = Some(value.to_owned()),
                    Some(data) if data.len() < MAX_EVENT => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    Some(_) => {}
                }
            }
        }
        out
    }
}

fn headers(answer: &Response<Body>) -> Vec<(String, String)> {
    answer
        .headers()
        .iter()
        .filter(|(name, _)| {
            ![
                header::SET_COOKIE,
                header::CONNECTION,
                header::TRANSFER_ENCODING,
                header::CONTENT_SECURITY_POLICY,
            ]
            .contains(name)
        })
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn is_text(answer: &Response<Body>) -> bool {
    let kind = content_type(answer).unwrap_or_default().to_ascii_lowercase();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    kind.starts_with("text/") || kind.ends_with("json") || kind.ends_with("javascript") || kind.ends_with("xml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_never_split() {
        let text = "日本🦋ä\u{2028}x";
        for at in 0..=text.len() {
            let mut pieces = Pieces::new(true);
            let mut got = String::new();
            for part in [&text.as_bytes()[..at], &text.as_bytes()[at..]] {
                match pieces.cut(Bytes::copy_from_slice(part)) {
                    Some(Data::Text(text)) => got.push_str(&text),
                    Some(Data::B64(_)) => panic!("text sent as bytes, split at {at}"),
                    None => {}
                }
            }
            assert_eq!(pieces.rest(), None);
            assert_eq!(got, text, "split at {at}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_arrive_unchanged() {
        let bytes = [b'a', 0xff, 0xe6, 0x97];
        let mut pieces = Pieces::new(true);
        let mut got = Vec::new();
        for byte in bytes {
            match pieces.cut(Bytes::copy_from_slice(&[byte])) {
                Some(Data::Text(text)) => got.extend_from_slice(text.as_bytes()),
                Some(Data::B64(data)) => got.extend(message::bytes(&data).unwrap()),
                None => {}
            }
        }
        if let Some(Data::B64(data)) = pieces.rest() {
            got.extend(message::bytes(&data).unwrap());
        }
        assert_eq!(got, bytes);
    }

    #[test]
    fn events_are_the_same_for_every_split() {
        let stream = ": hello\n\ndata: {\"a\":\"日\"}\n\ndata: one\ndata: two\n\n";
        for at in 0..stream.len() {
            let mut events = Events::default();
            let mut got = events.feed(&stream.as_bytes()[..at]);
            got.extend(events.feed(&stream.as_bytes()[at..]));
            assert_eq!(got, ["{\"a\":\"日\"}", "one\ntwo"], "split at {at}");
        }
    }

    #[tokio::test]
    async fn credit_is_given_back_but_never_beyond_the_start() {
        let flow = Flow::new();
        assert_eq!(flow.take(600_000).await, Some(600_000));
        assert_eq!(flow.take(600_000).await, Some(1024 * 1024 - 600_000));
        flow.credit(u64::MAX);
        assert_eq!(flow.take(usize::MAX).await, Some(1024 * 1024));
        flow.stop();
        assert_eq!(flow.take(1).await, None);
    }
}
