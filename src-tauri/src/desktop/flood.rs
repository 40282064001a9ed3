//! How much a page may send before it is paused, and then stopped.

use std::time::Instant;

/// Messages per second that a page may keep up for good. One token of an answer costs a page one acknowledgement at
/// most, and acknowledgements are batched, so an honest page stays far below this.
const RATE: f64 = 2_000.0;
/// Messages at once: a page that restores its whole storage in a loop fits, a flood is noticed within a few
/// milliseconds.
const BURST: f64 = 6_000.0;
/// Bytes per second, and at once. Where a script stands between page and host (linux/relay.js) it lets through a third
/// of this in characters, which have at most three bytes.
const BYTE_RATE: f64 = 48.0 * 1024.0 * 1024.0;
const BYTE_BURST: f64 = 18.0 * 1024.0 * 1024.0;
/// Messages dropped in one go before the page is stopped; every KiB counts as one.
const STOP_AFTER: u64 = 5_000;
const DROPPED_UNIT: f64 = 1024.0;
/// What a file costs, in messages: a thousand pictures in one page are no flood. Each file asked for takes the main
/// process some 10 kB until it is answered, which is what bounds this.
pub const FILE_COST: f64 = 10.0;
/// What an oversized or malformed message costs, in messages: a page that keeps sending them is stopped sooner.
pub const BAD_MESSAGE_COST: f64 = 50.0;

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    /// The page is paused: the message is dropped and counted.
    Drop,
    /// The page went on although paused: end it. Given once per episode.
    Stop,
}

/// A token bucket over messages and bytes.
#[derive(Debug)]
pub struct Bucket {
    messages: f64,
    bytes: f64,
    at: Instant,
    dropped: u64,
    stopped: bool,
}

impl Bucket {
    pub fn new(now: Instant) -> Self {
        Self {
            messages: BURST,
            bytes: BYTE_BURST,
            at: now,
            dropped: 0,
            stopped: false,
        }
    }

    /// Accounts for something that costs `messages` and `bytes`.
    pub fn take(&mut self, now: Instant, messages: f64, bytes: usize) -> Verdict {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = now;
        self.messages = (self.messages + passed * RATE).min(BURST);
        self.bytes = (self.bytes + passed * BYTE_RATE).min(BYTE_BURST);
        let bytes = bytes as f64;
        if !self.stopped && self.messages >= messages && self.bytes >= bytes {
            self.messages -= messages;
            self.bytes -= bytes;
            // Half full again: whatever was dropped before belongs to an episode that is over.
            if self.messages > BURST / 2.0 {
                self.dropped = 0;
            }
            return Verdict::Pass;
        }
        self.dropped += messages.max(bytes / DROPPED_UNIT).max(1.0) as u64;
        if self.dropped >= STOP_AFTER && !self.stopped {
            self.stopped = true;
            return Verdict::Stop;
        }
        Verdict::Drop
    }

    /// Lets nothing pass any more. `true` the first time.
    pub fn stop(&mut self) -> bool {
        !std::mem::replace(&mut self.stopped, true)
    }

    /// Messages dropped in this episode.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_steady_page_passes_for_good() {
        let start = Instant::now();
        let mut bucket = Bucket::new(start);
        for n in 0..100_000u64 {
            let now = start + Duration::from_micros(n * 600);
            assert_eq!(bucket.take(now, 1.0, 200), Verdict::Pass, "message {n}");
        }
    }

    #[test]
    fn a_flood_is_paused_then_stopped_once() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now);
        let verdicts: Vec<_> = (0..30_000).map(|_| bucket.take(now, 1.0, 10)).collect();
        let count = |what| verdicts.iter().filter(|v| **v == what).count();
        assert_eq!(count(Verdict::Pass), BURST as usize);
        assert_eq!(count(Verdict::Stop), 1);
        let stop = verdicts.iter().position(|v| *v == Verdict::Stop).unwrap();
        assert_eq!(stop, BURST as usize + STOP_AFTER as usize - 1);
    }

    #[test]
    fn a_pause_ends_when_the_page_calms_down() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now);
        for _ in 0..8_000 {
            bucket.take(now, 1.0, 10);
        }
        assert_eq!(bucket.dropped(), 2_000);
        let later = now + Duration::from_secs(4);
        assert_eq!(bucket.take(later, 1.0, 10), Verdict::Pass);
        assert_eq!(bucket.dropped(), 0);
    }

    #[test]
    fn bytes_count_too() {
        let now = Instant::now();
        let mut bucket = Bucket::new(now);
        let mut passed = 0;
        while bucket.take(now, 1.0, 256 * 1024) == Verdict::Pass {
            passed += 1;
        }
        assert_eq!(passed, 72);
        let dropped = std::iter::repeat_with(|| bucket.take(now, 1.0, 256 * 1024)).position(|v| v == Verdict::Stop);
        assert_eq!(dropped, Some(18), "large messages are stopped sooner");
    }
}
