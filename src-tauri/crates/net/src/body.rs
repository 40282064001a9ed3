use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use tokio::time::Instant;

use crate::NetError;
use crate::error::from_body;
use crate::log::Line;
use crate::mask::Mask;

/// Called with a number of bytes before they count as used; an error ends the transfer with its text.
pub type Spend = Arc<dyn Fn(u64) -> Result<(), String> + Send + Sync>;

/// The body of an answer, piece by piece as it arrives. Dropping it closes the connection (or resets the HTTP/2 stream),
/// which is how a request is cancelled. After an error nothing more comes.
pub struct Body {
    pieces: BoxStream<'static, Result<Bytes, NetError>>,
    enough: Arc<AtomicBool>,
}

pub(crate) struct Limits {
    /// Longest silence between two pieces.
    pub(crate) idle: Duration,
    pub(crate) max_bytes: u64,
    pub(crate) deadline: Option<Instant>,
    pub(crate) began: Instant,
    /// Asked for each piece that arrives.
    pub(crate) spend: Option<Spend>,
}

/// An answer on its way in.
struct Flow {
    pieces: BoxStream<'static, reqwest::Result<Bytes>>,
    line: Line,
    url: String,
    limits: Limits,
    mask: Mask,
    /// Bytes since others last had their turn.
    unbroken: usize,
}

/// Bytes after which a body lets others have their turn on the thread.
const TURN: usize = 64 << 10;

impl Body {
    pub(crate) fn new(response: reqwest::Response, url: String, limits: Limits, line: Line, mask: Mask) -> Self {
        let enough = line.enough.clone();
        let flow = Flow {
            pieces: response.bytes_stream().boxed(),
            line,
            url,
            limits,
            mask,
            unbroken: 0,
        };
        Self {
            enough,
            pieces: stream::unfold(Some(flow), |open| async move {
                let mut flow = open?;
                match flow.next().await {
                    Ok(Some(piece)) => Some((Ok(piece), Some(flow))),
                    Ok(None) => {
                        flow.line.done();
                        let rest = flow.mask.rest();
                        (!rest.is_empty()).then_some((Ok(rest), None))
                    }
                    Err(error) => {
                        flow.line.failed(&error);
                        Some((Err(error), None))
                    }
                }
            })
            .boxed(),
        }
    }

    /// Says that what has been read is all that matters, as after the last event of a stream: dropping the rest is then
    /// no cancelling, and the activity log does not call it so.
    pub fn enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }
}

impl Flow {
    /// The next piece that has anything in it.
    async fn next(&mut self) -> Result<Option<Bytes>, NetError> {
        loop {
            let Some(piece) = self.arriving().await? else {
                return Ok(None);
            };
            self.line.bytes += piece.len() as u64;
            self.unbroken += piece.len();
            if self.unbroken >= TURN {
                // What unpacks from little is always there at once: others have their turn all the same.
                self.unbroken = 0;
                tokio::task::yield_now().await;
            }
            if self.line.bytes > self.limits.max_bytes {
                return Err(NetError::TooBig {
                    url: self.url.clone(),
                    max: self.limits.max_bytes,
                });
            }
            if let Some(spend) = &self.limits.spend {
                spend(piece.len() as u64).map_err(|why| NetError::Spent {
                    url: self.url.clone(),
                    why,
                })?;
            }
            let piece = self.mask.pass(piece);
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
    }

    async fn arriving(&mut self) -> Result<Option<Bytes>, NetError> {
        let idle = Instant::now() + self.limits.idle;
        let until = self.limits.deadline.map_or(idle, |deadline| deadline.min(idle));
        let (what, after) = match tokio::time::timeout_at(until, self.pieces.next()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(piece))) => return Ok(Some(piece)),
            Ok(Some(Err(error))) => return Err(from_body(&self.url, &error)),
            Err(_) if until < idle => ("was not done", self.limits.began.elapsed()),
            Err(_) => ("stopped sending and sent nothing more", self.limits.idle),
        };
        Err(NetError::TimedOut {
            url: self.url.clone(),
            what,
            after,
        })
    }
}

impl Stream for Body {
    type Item = Result<Bytes, NetError>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.poll_next_unpin(cx)
    }
}
