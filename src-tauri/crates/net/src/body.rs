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
}

impl Body {
    pub(crate) fn new(response: reqwest::Response, url: String, limits: Limits, line: Line) -> Self {
        let pieces = response.bytes_stream().boxed();
        let enough = line.enough.clone();
        let start = Some((pieces, line));
        Self {
            enough,
            pieces: stream::unfold((start, url, limits), |(open, url, limits)| async move {
                let (mut pieces, mut line) = open?;
                let result = next(&mut pieces, &url, &limits, &mut line).await;
                match result {
                    Ok(Some(piece)) => Some((Ok(piece), (Some((pieces, line)), url, limits))),
                    Ok(None) => {
                        line.done();
                        None
                    }
                    Err(error) => {
                        line.failed(&error);
                        Some((Err(error), (None, url, limits)))
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

async fn next(
    pieces: &mut BoxStream<'static, reqwest::Result<Bytes>>,
    url: &str,
    limits: &Limits,
    line: &mut Line,
) -> Result<Option<Bytes>, NetError> {
    let idle = Instant::now() + limits.idle;
    let until = limits.deadline.map_or(idle, |deadline| deadline.min(idle));
    let piece = match tokio::time::timeout_at(until, pieces.next()).await {
        Ok(None) => return Ok(None),
        Ok(Some(Ok(piece))) => piece,
        Ok(Some(Err(error))) => return Err(from_body(url, &error)),
        Err(_) if until < idle => {
            return Err(NetError::TimedOut {
                url: url.into(),
                what: "was not done",
                after: limits.began.elapsed(),
            });
        }
        Err(_) => {
            return Err(NetError::TimedOut {
                url: url.into(),
                what: "stopped sending and sent nothing more",
                after: limits.idle,
            });
        }
    };
    line.bytes += piece.len() as u64;
    if line.bytes > limits.max_bytes {
        return Err(NetError::TooBig {
            url: url.into(),
            max: limits.max_bytes,
        });
    }
    Ok(Some(piece))
}

impl Stream for Body {
    type Item = Result<Bytes, NetError>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.pieces.poll_next_unpin(cx)
    }
}
