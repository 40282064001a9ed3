//! What goes to a page: a bounded queue, sent in batches, never more than a few of them under way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, watch};

use super::bridge::Page;
use super::message::{Data, ToPage};

/// Batches under way that neither the page's script nor its web process has answered for.
const UNDER_WAY: u64 = 32;
/// Bytes waiting for a page, over all its answers. Whoever wants to send more waits.
const WAITING: usize = 2 * 1024 * 1024;
/// Bytes in one batch, before escaping.
const BATCH: usize = 64 * 1024;
/// Least time between two batches. All pages share the one thread that hands scripts over, so small messages are
/// gathered; two milliseconds stay well under the 5 ms that a token may be late.
const PACE: Duration = Duration::from_millis(2);

/// The sending end of a page load's queue.
pub struct Outbox {
    queue: mpsc::UnboundedSender<(ToPage, u32)>,
    room: Arc<Semaphore>,
    progress: watch::Sender<Progress>,
}

/// Batch numbers start at 1; 0 means none.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    sent: u64,
    /// Acknowledged by the page's script. A page could claim this, so it never counts alone.
    seen: u64,
    /// Completions reported by the webview itself. A page cannot claim these, so a page that acknowledges what it has
    /// not run still cannot make batches pile up.
    run: u64,
    closed: bool,
}

impl Progress {
    fn may_send(&self) -> bool {
        self.sent - self.seen.min(self.run) < UNDER_WAY
    }
}

impl Outbox {
    /// Starts the queue of one page load; `secret` goes with every batch.
    pub fn start(page: Arc<dyn Page>, secret: String) -> Arc<Outbox> {
        let (queue, waiting) = mpsc::unbounded_channel();
        let outbox = Arc::new(Outbox {
            queue,
            room: Arc::new(Semaphore::new(WAITING)),
            progress: watch::Sender::new(Progress::default()),
        });
        let (room, progress) = (outbox.room.clone(), outbox.progress.clone());
        tokio::spawn(send(page, secret, waiting, room, progress));
        outbox
    }

    /// Queues a message, waiting for room. `false` when the page load is over.
    pub async fn push(&self, message: ToPage) -> bool {
        let weight = message.weight().min(WAITING) as u32;
        match self.room.acquire_many(weight).await {
            Ok(permit) => permit.forget(),
            Err(_) => return false,
        }
        self.queue.send((message, weight)).is_ok()
    }

    /// The page's script says that it took every batch up to `n`.
    pub fn seen(&self, n: u64) {
        self.progress
            .send_modify(|progress| progress.seen = progress.seen.max(n.min(progress.sent)));
    }

    /// Waits until the page load is over.
    pub async fn closed(&self) {
        let _ = self.progress.subscribe().wait_for(|progress| progress.closed).await;
    }

    /// Ends the queue; what waits is dropped.
    pub fn close(&self) {
        self.room.close();
        self.progress.send_modify(|progress| progress.closed = true);
    }
}

async fn send(
    page: Arc<dyn Page>,
    secret: String,
    mut waiting: mpsc::UnboundedReceiver<(ToPage, u32)>,
    room: Arc<Semaphore>,
    progress: watch::Sender<Progress>,
) {
    let mut state = progress.subscribe();
    let mut closing = progress.subscribe();
    let mut last: Option<Instant> = None;
    loop {
        let (first, mut weight) = tokio::select! {
            next = waiting.recv() => match next { Some(next) => next, None => return },
            _ = closing.wait_for(|progress| progress.closed) => return,
        };
        match state.wait_for(|progress| progress.closed || progress.may_send()).await {
            Ok(progress) if !progress.closed => {}
            _ => return,
        }
        if let Some(last) = last {
            tokio::time::sleep_until((last + PACE).into()).await;
        }
        last = Some(Instant::now());
        let mut batch = vec![first];
        while (weight as usize) < BATCH {
            let Ok((next, more)) = waiting.try_recv() else { break };
            weight += more;
            join(&mut batch, next);
        }
        let mut number = 0;
        progress.send_modify(|progress| {
            progress.sent += 1;
            number = progress.sent;
        });
        // JSON is JavaScript, U+2028 and U+2029 included, since ECMAScript 2019.
        let Ok(argument) = serde_json::to_string(&(&secret, number, &batch)) else {
            return;
        };
        let done = progress.clone();
        page.evaluate(
            format!("__chrysalisIn({argument})"),
            Box::new(move || done.send_modify(|progress| progress.run += 1)),
        );
        room.add_permits(weight as usize);
    }
}

/// Adds a message to a batch; text of the same answer becomes one piece.
fn join(batch: &mut Vec<ToPage>, next: ToPage) {
    if let ToPage::Chunk {
        id,
        data: Data::Text(more),
    } = &next
        && let Some(ToPage::Chunk {
            id: last,
            data: Data::Text(text),
        }) = batch.last_mut()
        && last == id
    {
        text.push_str(more);
        return;
    }
    batch.push(next);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desktop::testing::TestPage;

    fn text(id: u64, text: &str) -> ToPage {
        let data = Data::Text(text.into());
        ToPage::Chunk { id, data }
    }

    #[tokio::test]
    async fn no_more_than_the_allowed_batches_are_under_way_whatever_the_page_claims() {
        let page = TestPage::holding();
        let outbox = Outbox::start(page.clone(), "secret".into());
        let pushing = tokio::spawn({
            let outbox = outbox.clone();
            async move {
                for _ in 0..200 {
                    // Each fills a batch of its own.
                    if !outbox.push(text(1, &"x".repeat(BATCH))).await {
                        return;
                    }
                }
            }
        });
        page.until(|page| page.scripts().len() == UNDER_WAY as usize).await;
        // The page claims to have seen everything, but its web process has not run one batch.
        outbox.seen(u64::MAX);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(page.scripts().len(), UNDER_WAY as usize);
        page.run_held();
        outbox.seen(u64::MAX);
        page.until(|page| page.scripts().len() > UNDER_WAY as usize).await;
        outbox.close();
        pushing.await.unwrap();
    }

    #[tokio::test]
    async fn batches_carry_the_secret_and_join_text_in_order() {
        let page = TestPage::new();
        let outbox = Outbox::start(page.clone(), "abc".into());
        for piece in ["a", "b\u{2028}", "\"</script>"] {
            assert!(outbox.push(text(7, piece)).await);
        }
        assert!(outbox.push(ToPage::End { id: 7 }).await);
        page.until(|page| page.scripts().concat().contains("\"end\"")).await;
        let mut all = String::new();
        for (number, script) in page.scripts().iter().enumerate() {
            let argument = script
                .strip_prefix("__chrysalisIn(")
                .unwrap()
                .strip_suffix(')')
                .unwrap();
            let (secret, n, batch): (String, usize, Vec<serde_json::Value>) = serde_json::from_str(argument).unwrap();
            assert_eq!((secret.as_str(), n), ("abc", number + 1));
            for message in batch {
                all.push_str(message["text"].as_str().unwrap_or("|end"));
            }
        }
        assert_eq!(all, "ab\u{2028}\"</script>|end");
    }

    #[tokio::test]
    async fn a_closed_queue_lets_every_sender_go() {
        let page = TestPage::holding();
        let outbox = Outbox::start(page.clone(), "s".into());
        let stuck = tokio::spawn({
            let outbox = outbox.clone();
            async move { while outbox.push(text(1, &"x".repeat(BATCH))).await {} }
        });
        page.until(|page| page.scripts().len() == UNDER_WAY as usize).await;
        outbox.close();
        stuck.await.unwrap();
        assert!(!outbox.push(ToPage::End { id: 1 }).await);
    }
}
