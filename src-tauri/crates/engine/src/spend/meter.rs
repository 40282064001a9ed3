//! What one request has taken so far.

use std::sync::Arc;

use db::Spent;
use parking_lot::Mutex;
use providers::{Event, Usage};

use super::{
    ANSWER_TOKENS, Amount, Asked, BYTES_PER_TOKEN, CHARACTERS_PER_SECOND, Known, MOST_TOKENS, Source, Spend, What,
    micros,
};

/// Tokens of one kind of one request that are believed: ten times what the largest window of a known model holds.
const TOKENS_AT_MOST: u64 = 100_000_000;

/// What a request that was not for text took in the end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Truth {
    /// It was not sent, or refused: nothing is to be paid.
    Nothing,
    /// Tokens as the server counted them.
    Embeddings { tokens: Option<u64> },
    /// `cost`: in dollars, if the server said so.
    Images { count: u64, cost: Option<f64> },
    /// Milliseconds of sound, where that is known.
    Speech { ms: Option<u64> },
}

/// What is set aside for one request; a clone stands for the same. When the last one is dropped before it was settled, what
/// is known then counts: for text what had come, else all that was set aside.
#[derive(Clone)]
pub(crate) struct Reservation(Arc<Meter>);

struct Meter {
    spend: Arc<Spend>,
    id: u64,
    asked: Asked,
    known: Known,
    kind: Kind,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
enum Kind {
    Text,
    Embeddings,
    Images,
    Speech { characters: u64 },
}

#[derive(Default)]
struct State {
    /// What is set aside or used, as it stands with [`Spend`].
    held: Amount,
    /// The server's own sums of all rounds that ended.
    counted: Usage,
    /// Estimates of rounds that the server did not count: tokens sent, and those of the answer.
    guessed: (u64, u64),
    /// The cost of them all in dollars, as far as it is known, and whether all of it is.
    cost: f64,
    unpriced: bool,
    /// Estimates for the round that runs: tokens sent, and tokens of the answer that are set aside.
    sent: u64,
    answer: u64,
    /// Bytes of its answer so far.
    bytes: u64,
    /// Whether a round runs or may have been asked for.
    running: bool,
    settled: bool,
}

fn tokens(usage: &Usage) -> (u64, u64) {
    let most = |count: u64| count.min(TOKENS_AT_MOST);
    let input = most(usage.input) + most(usage.cache_read) + most(usage.cache_write);
    (input, most(usage.output))
}

impl Reservation {
    pub(super) fn new(spend: Arc<Spend>, id: u64, asked: Asked, known: Known, what: What<'_>, held: Amount) -> Self {
        let mut state = State {
            held,
            running: true,
            ..State::default()
        };
        let kind = match what {
            What::Text { bytes, max_tokens } => {
                state.sent = bytes.div_ceil(BYTES_PER_TOKEN);
                state.answer = max_tokens.unwrap_or(ANSWER_TOKENS).min(MOST_TOKENS);
                Kind::Text
            }
            What::Embeddings { .. } => Kind::Embeddings,
            What::Images { .. } => Kind::Images,
            What::Speech { characters } => Kind::Speech { characters },
        };
        Self(Arc::new(Meter {
            spend,
            id,
            asked,
            known,
            kind,
            state: Mutex::new(state),
        }))
    }

    /// Takes notice of an event of the answer. An error means that the limits do not allow more of it.
    pub(crate) fn heard(&self, event: &mut Event) -> Result<(), String> {
        match event {
            Event::Used(usage) | Event::Done { usage, .. } => self.used(usage),
            Event::Delta(text) | Event::Thinking(text) | Event::JsonDelta(text) => self.grew(text.len())?,
            Event::ToolCallDelta { arguments, .. } => self.grew(arguments.len())?,
            _ => {}
        }
        Ok(())
    }

    /// Puts the cost into what a server counted of all rounds so far: what the person's price makes of it, else what the
    /// server says it costs, else what its list or the table makes of it. A round ends with this.
    pub(super) fn used(&self, usage: &mut Usage) {
        let meter = &self.0;
        let mut state = meter.state.lock();
        let round = difference(usage, &state.counted);
        let (input, output) = tokens(&round);
        let stated = providers::stated_cost(&round);
        if input + output > 0 || stated.is_some_and(|cost| cost > 0.0) {
            let ours = meter.known.price.and_then(|(price, _)| price.cost(&round));
            let set = meter.known.price.is_some_and(|(_, source)| source == Source::You);
            match if set { ours.or(stated) } else { stated.or(ours) } {
                Some(cost) => state.cost += cost,
                None => state.unpriced = true,
            }
            state.counted = *usage;
            state.sent = input + output;
            state.bytes = 0;
            state.running = false;
            state.held = state.so_far();
            meter.spend.hold_anyway(meter.id, state.held);
        }
        let nothing = tokens(&state.counted) == (0, 0) && state.cost == 0.0;
        let known = !nothing || stated.is_some();
        usage.priced = known && !state.unpriced;
        usage.cost_total = state.cost;
    }

    /// Sets aside what another round may take: as much as went and came in the one before, and as long an answer.
    pub(crate) fn before_round(&self) -> Result<(), String> {
        let meter = &self.0;
        let mut state = meter.state.lock();
        if state.running {
            meter.count_myself(&mut state);
        }
        let more = meter.known.text(state.sent, state.answer);
        meter.hold(&mut state, more)?;
        state.running = true;
        Ok(())
    }

    /// Tells of more bytes of the answer. When they are more than was set aside, more is; where that cannot be, the answer
    /// is to be stopped.
    pub(super) fn grew(&self, bytes: usize) -> Result<(), String> {
        let meter = &self.0;
        let mut state = meter.state.lock();
        state.bytes += bytes as u64;
        state.running = true;
        if state.bytes / BYTES_PER_TOKEN <= state.answer {
            return Ok(());
        }
        let answer = state.bytes.div_ceil(BYTES_PER_TOKEN) + ANSWER_TOKENS;
        let more = meter.known.text(state.sent, answer);
        meter.hold(&mut state, more)?;
        state.answer = answer;
        Ok(())
    }

    /// Ends a request for text. With `failed`, a round of which nothing came is not to be paid. Gives the cost in
    /// dollars, where it is known; of an answer that was cut short the server did not say, so it is an estimate.
    pub(crate) fn settle_text(&self, failed: bool) -> Option<f64> {
        let mut state = self.0.state.lock();
        state.running &= !failed || state.bytes > 0;
        self.0.settle_text(&mut state)
    }

    /// Ends any other request. Gives the cost in dollars, where it is known.
    pub(crate) fn settle(&self, truth: Truth) -> Option<f64> {
        let meter = &self.0;
        let mut state = meter.state.lock();
        let known = &meter.known;
        let mut spent = Spent::default();
        let cost = match truth {
            Truth::Nothing => {
                meter.enter(&mut state, None);
                return None;
            }
            Truth::Embeddings { tokens } => {
                spent.tokens_in = tokens.map_or(state.held.tokens, |count| count.min(TOKENS_AT_MOST));
                known.tokens(spent.tokens_in, 0).map(|micros| micros as f64 / 1e6)
            }
            Truth::Images { count, cost } => {
                spent.images = count;
                let ours = known.media.image.map(|price| price * count as f64);
                let stated = cost.filter(|cost| cost.is_finite() && *cost >= 0.0);
                if known.media_set {
                    ours.or(stated)
                } else {
                    stated.or(ours)
                }
            }
            Truth::Speech { ms } => {
                let characters = match meter.kind {
                    Kind::Speech { characters } => characters,
                    _ => 0,
                };
                spent.speech_ms = ms.unwrap_or(characters.saturating_mul(1000) / CHARACTERS_PER_SECOND);
                known.speech(characters, spent.speech_ms)
            }
        };
        meter.enter(&mut state, Some(priced(spent, cost)));
        cost
    }
}

/// One call with its cost, if that is known.
fn priced(mut spent: Spent, cost: Option<f64>) -> Spent {
    match cost {
        Some(cost) => {
            spent.priced_calls = 1;
            spent.cost_micros = micros(cost);
        }
        None => spent.unpriced_calls = 1,
    }
    spent
}

/// What came to `before` to make `now`, which is the sum of both.
fn difference(now: &Usage, before: &Usage) -> Usage {
    let cost = now.cost_total - before.cost_total;
    Usage {
        input: now.input.saturating_sub(before.input),
        output: now.output.saturating_sub(before.output),
        reasoning: None,
        cache_read: now.cache_read.saturating_sub(before.cache_read),
        cache_write: now.cache_write.saturating_sub(before.cache_write),
        cost_total: cost,
        // A cost that is no number, or goes back, is none.
        priced: now.priced && cost.is_finite() && cost >= 0.0,
    }
}

impl State {
    /// Of the rounds that ended: sent, and of the answers.
    fn tokens(&self) -> (u64, u64) {
        let (input, output) = tokens(&self.counted);
        (input + self.guessed.0, output + self.guessed.1)
    }

    /// What the rounds took that ended.
    fn so_far(&self) -> Amount {
        let (input, output) = self.tokens();
        Amount {
            cost_micros: (!self.unpriced).then_some(micros(self.cost)),
            tokens: input + output,
            ..Amount::default()
        }
    }
}

impl Meter {
    /// Sets `more` aside beside what the rounds took that ended.
    fn hold(&self, state: &mut State, more: Amount) -> Result<(), String> {
        let mut want = state.so_far().plus(&more);
        if more.cost_micros.is_none() {
            want.cost_micros = None;
        }
        self.spend.hold(&self.asked, want, Some(self.id))?;
        state.held = want;
        Ok(())
    }

    /// Ends a round that the server did not count.
    fn count_myself(&self, state: &mut State) {
        let answer = state.bytes.div_ceil(BYTES_PER_TOKEN);
        match self.known.tokens(state.sent, answer) {
            Some(micros) => state.cost += micros as f64 / 1e6,
            None => state.unpriced = true,
        }
        state.guessed.0 += state.sent;
        state.guessed.1 += answer;
        state.bytes = 0;
        state.running = false;
    }

    fn settle_text(&self, state: &mut State) -> Option<f64> {
        if state.running {
            self.count_myself(state);
        }
        let (tokens_in, tokens_out) = state.tokens();
        if tokens_in + tokens_out == 0 && state.cost == 0.0 {
            self.enter(state, None);
            return None;
        }
        let cost = (!state.unpriced).then_some(state.cost);
        let spent = Spent {
            tokens_in,
            tokens_out,
            // A part that is known was paid all the same, though another is not.
            cost_micros: micros(state.cost),
            ..Spent::default()
        };
        self.enter(state, Some(priced(spent, cost)));
        cost
    }

    fn enter(&self, state: &mut State, spent: Option<Spent>) {
        if !std::mem::replace(&mut state.settled, true) {
            self.spend.settle(&self.asked, self.id, spent);
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state.lock());
        if state.settled {
            return;
        }
        if matches!(self.kind, Kind::Text) {
            // Before anything came it is not known whether it was sent at all.
            state.running &= state.bytes > 0 || tokens(&state.counted) != (0, 0);
            self.settle_text(&mut state);
            return;
        }
        let held = state.held;
        let spent = Spent {
            tokens_in: held.tokens,
            images: held.images,
            speech_ms: held.speech_ms,
            ..Spent::default()
        };
        let cost = held.cost_micros.map(|micros| micros as f64 / 1e6);
        self.enter(&mut state, Some(priced(spent, cost)));
    }
}
