//! What requests to models cost, and the limits a person set for that.
//!
//! Before a request is sent, what it may cost is set aside ([`Spend::reserve`]); requests side by side see what the others
//! set aside, so that they cannot pass a limit together. When it ends, what it did cost takes that place in the ledger. What
//! is set aside is in memory only: a home is open in one process at a time, and nothing is left of it after a crash.

mod meter;

use std::collections::HashMap;
use std::sync::Arc;

use apps::budget::{date, month};
use db::{Db, DbError, ModelOverride, Span, SpendLimits, Spender, Spent, now_ms, utc_day};
use parking_lot::Mutex;
use policy::{AccountId, CallContext};
use providers::{Endpoint, MediaPrice, Price};

pub(crate) use meter::{Reservation, Truth};

use crate::Engine;
use crate::generate::BYTES_PER_TOKEN;

/// Tokens of an answer that are set aside at first where a request does not say how many it may have at most, and each
/// time that was too few: about 350 words.
const ANSWER_TOKENS: u64 = 500;
/// Most tokens of an answer that are set aside at once, whatever the request says.
const MOST_TOKENS: u64 = 10_000_000;
/// Characters read aloud in a second, for what is set aside and where nobody says how long the sound is.
const CHARACTERS_PER_SECOND: u64 = 15;
/// Connections whose prices are remembered.
const LISTS: usize = 256;

/// What is about to be asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum What<'a> {
    /// An answer in text. `bytes`: of all that is sent; `max_tokens`: what the request allows the answer.
    Text {
        bytes: u64,
        max_tokens: Option<u64>,
    },
    Embeddings {
        bytes: u64,
    },
    Images {
        count: u64,
        size: Option<&'a str>,
        quality: Option<&'a str>,
    },
    Speech {
        characters: u64,
    },
}

/// Where a price is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The person set it.
    You,
    /// The server's list of models says so.
    Server,
    /// The table that ships.
    Table,
}

impl Source {
    /// As `priceSource` of `/v1/models`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::You => "you",
            Self::Server => "server",
            Self::Table => "table",
        }
    }
}

/// What is known of a model's prices.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    price: Option<(Price, Source)>,
    media: MediaPrice,
    /// `media` is the person's.
    media_set: bool,
}

impl Known {
    /// Millionths of a dollar for so many tokens; `None` where no price is known.
    fn tokens(&self, input: u64, output: u64) -> Option<u64> {
        let usage = providers::Usage {
            input,
            output,
            ..Default::default()
        };
        let (price, _) = self.price?;
        Some(price.cost(&usage).map_or(0, micros))
    }

    fn speech(&self, characters: u64, ms: u64) -> Option<f64> {
        let by_length = self.media.characters.map(|price| price * characters as f64 / 1e6);
        by_length.or_else(|| self.media.minute.map(|price| price * ms as f64 / 60_000.0))
    }
}

/// Millionths of a dollar, rounded up, so that many small calls are not free together.
fn micros(usd: f64) -> u64 {
    // A float's cast stops at the ends. Half a thousandth of a millionth is what sums of floats are off by.
    (usd * 1e6 - 5e-4).ceil().max(0.0) as u64
}

/// What a request may take, or took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Amount {
    cost_micros: Option<u64>,
    tokens: u64,
    images: u64,
    speech_ms: u64,
}

struct Held {
    account: AccountId,
    by: Spender,
    amount: Amount,
}

#[derive(Default)]
struct Open {
    next: u64,
    held: HashMap<u64, Held>,
}

type Listed = HashMap<(AccountId, String), HashMap<String, Price>>;

/// The spending of every account of a home.
pub(crate) struct Spend {
    db: Arc<Db>,
    /// Locked from reading what is spent to setting aside, and from entering into the ledger to letting go.
    open: Mutex<Open>,
    /// What servers' lists of models said in this run, by account and connection.
    listed: Mutex<Listed>,
    /// Milliseconds since the Unix epoch.
    clock: fn() -> i64,
}

/// Who asks, for what.
#[derive(Clone)]
struct Asked {
    account: AccountId,
    by: Spender,
    /// `connection's name/model`, for errors.
    name: String,
    /// On this machine or in this network: costs nobody money.
    local: bool,
}

impl Spend {
    pub(crate) fn new(db: Arc<Db>) -> Self {
        Self::with_clock(db, now_ms)
    }

    fn with_clock(db: Arc<Db>, clock: fn() -> i64) -> Self {
        Self {
            db,
            open: Mutex::default(),
            listed: Mutex::default(),
            clock,
        }
    }

    fn today(&self) -> i64 {
        utc_day((self.clock)())
    }

    /// Remembers the prices in a server's list of models, instead of those in its last one.
    pub(crate) fn note_listed(
        &self,
        account: &AccountId,
        connection: &str,
        prices: impl IntoIterator<Item = (String, Price)>,
    ) {
        let mut listed = self.listed.lock();
        let slot = (account.clone(), connection.to_owned());
        if listed.len() >= LISTS && !listed.contains_key(&slot) {
            listed.clear();
        }
        listed.insert(slot, prices.into_iter().collect());
    }

    /// Whether a list of this connection was seen in this run.
    fn has_list(&self, account: &AccountId, connection: &str) -> bool {
        let slot = (account.clone(), connection.to_owned());
        self.listed.lock().contains_key(&slot)
    }

    /// Sets aside what a request may cost. Without an `Ok` it must not be sent: the error says which limit is in the way,
    /// how far it is used up, when it begins anew and where it is raised. With a limit in money, a model on the internet
    /// that no price is known of is refused.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        context: &CallContext,
        endpoint: &Endpoint,
        model: &str,
        what: What<'_>,
    ) -> Result<Reservation, String> {
        let account = context.account.clone().ok_or("a request to a model needs an account")?;
        let app = context.chain.iter().rev().find_map(|caller| caller.app()).cloned();
        let asked = Asked {
            account,
            by: app.map_or(Spender::Launcher, Spender::App),
            name: format!("{}/{model}", endpoint.name),
            local: endpoint.is_local(),
        };
        let (size, quality) = match what {
            What::Images { size, quality, .. } => (size, quality),
            _ => (None, None),
        };
        let known = self.known(&asked.account, endpoint, model, size, quality)?;
        let amount = known.estimate(what);
        let id = self.hold(&asked, amount, None)?;
        Ok(Reservation::new(self.clone(), id, asked, known, what, amount))
    }

    /// What is known of a model's prices: what the person set, else what the server's list says, else the table.
    fn known(
        &self,
        account: &AccountId,
        endpoint: &Endpoint,
        model: &str,
        size: Option<&str>,
        quality: Option<&str>,
    ) -> Result<Known, String> {
        let reference = format!("{}/{model}", endpoint.connection_id);
        let set = self
            .db
            .model_override(account, &reference)
            .map_err(|error| error.to_string())?;
        let media = set.price.as_ref().and_then(|set| MediaPrice::given(set).ok());
        let media = media.filter(|media| !media.is_unknown());
        Ok(Known {
            price: self.price(account, endpoint, model, &set),
            media_set: media.is_some(),
            media: media.unwrap_or_else(|| providers::media_price_of(endpoint, model, size, quality)),
        })
    }

    fn price(
        &self,
        account: &AccountId,
        endpoint: &Endpoint,
        model: &str,
        set: &ModelOverride,
    ) -> Option<(Price, Source)> {
        if let Some(price) = set.price.as_ref().and_then(|set| Price::given(set).ok().flatten()) {
            return Some((price, Source::You));
        }
        // A list on this machine can say what it likes: nobody is billed for it.
        if !endpoint.is_local() {
            let slot = (account.clone(), endpoint.connection_id.clone());
            let listed = self.listed.lock();
            if let Some(price) = listed.get(&slot).and_then(|prices| prices.get(model)) {
                return Some((*price, Source::Server));
            }
        }
        providers::price_of(endpoint, model).map(|price| (price, Source::Table))
    }

    /// Sets `amount` aside, in the place of what `id` stands for if it is given, unless a limit is in the way.
    fn hold(&self, asked: &Asked, amount: Amount, id: Option<u64>) -> Result<u64, String> {
        let mut open = self.open.lock();
        self.check(asked, amount, id, &open).map_err(|error| match error {
            Refused::Limit(why) => why,
            Refused::Database(error) => format!("what was spent cannot be read, so nothing more is: {error}"),
        })?;
        let id = id.unwrap_or_else(|| {
            open.next += 1;
            open.next
        });
        let held = Held {
            account: asked.account.clone(),
            by: asked.by.clone(),
            amount,
        };
        open.held.insert(id, held);
        Ok(id)
    }

    /// Sets aside exactly `amount` for `id`, whatever the limits: for what has been used already.
    fn hold_anyway(&self, id: u64, amount: Amount) {
        if let Some(held) = self.open.lock().held.get_mut(&id) {
            held.amount = amount;
        }
    }

    /// Enters into the ledger what a request took, and lets go what was set aside for it.
    fn settle(&self, asked: &Asked, id: u64, spent: Option<Spent>) {
        let mut open = self.open.lock();
        if let Some(spent) = spent
            && let Err(error) = self.db.add_spend(&asked.account, &asked.by, self.today(), &spent)
        {
            tracing::warn!(%error, "what a request cost could not be written down");
        }
        open.held.remove(&id);
    }

    fn check(&self, asked: &Asked, want: Amount, own: Option<u64>, open: &Open) -> Result<(), Refused> {
        let day = self.today();
        for row in self.db.spend_limits(&asked.account)? {
            let whose = row.app.map(Spender::App);
            if whose.as_ref().is_some_and(|whose| *whose != asked.by) {
                continue;
            }
            let (from, next) = match row.span {
                Span::Day => (day, day + 1),
                Span::Month => month(day),
            };
            let mut used = Amount::of(&self.db.spent(&asked.account, whose.as_ref(), from, next - 1)?);
            let others = open.held.iter().filter(|(id, held)| {
                Some(**id) != own && held.account == asked.account && whose.as_ref().is_none_or(|by| *by == held.by)
            });
            for (_, held) in others {
                used = used.plus(&held.amount);
            }
            let limit = LimitAt {
                limits: row.limits,
                whose: whose.as_ref(),
                span: row.span,
                anew: next,
            };
            limit.check(asked, used, want).map_err(Refused::Limit)?;
        }
        Ok(())
    }
}

enum Refused {
    Limit(String),
    Database(DbError),
}

impl From<DbError> for Refused {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

/// One limit at this time.
struct LimitAt<'a> {
    limits: SpendLimits,
    whose: Option<&'a Spender>,
    span: Span,
    /// The day it begins anew.
    anew: i64,
}

impl LimitAt<'_> {
    fn check(&self, asked: &Asked, used: Amount, want: Amount) -> Result<(), String> {
        if self.limits.cost_micros.is_some() && want.cost_micros.is_none() && !asked.local {
            return Err(format!(
                "No price is known for {}, and {}{} has a spending limit in money, so it was not asked. Set its price in \
                 the launcher under Settings → Models, choose a model with a known price, or take the limit away",
                asked.name,
                self.owner(),
                self.each()
            ));
        }
        let dollars = |micros: u64| match micros {
            0 => "$0".to_owned(),
            1..10_000 => format!("${:.6}", micros as f64 / 1e6),
            _ => format!("${:.2}", micros as f64 / 1e6),
        };
        let tokens = |count: u64| format!("{count} tokens");
        let images = |count: u64| format!("{count} images");
        let speech = |ms: u64| format!("{:.1} seconds of speech", ms as f64 / 1000.0);
        type Shown<'a> = &'a dyn Fn(u64) -> String;
        let parts: [(Option<u64>, u64, u64, Shown<'_>); 4] = [
            (
                self.limits.cost_micros,
                used.cost_micros.unwrap_or(0),
                want.cost_micros.unwrap_or(0),
                &dollars,
            ),
            (self.limits.tokens, used.tokens, want.tokens, &tokens),
            (self.limits.images, used.images, want.images, &images),
            (self.limits.speech_ms, used.speech_ms, want.speech_ms, &speech),
        ];
        for (limit, used, want, shown) in parts {
            let Some(limit) = limit else { continue };
            if want == 0 || used.saturating_add(want) <= limit {
                continue;
            }
            return Err(format!(
                "The spending limit of {}{} is {}: {} are used, requests that run now included, and this one may take {}. \
                 The count begins anew on {} at 00:00 UTC; the person can raise the limit in the launcher under Activity → \
                 Spending",
                self.owner(),
                self.each(),
                shown(limit),
                shown(used),
                shown(want),
                date(self.anew)
            ));
        }
        Ok(())
    }

    fn owner(&self) -> String {
        match self.whose {
            Some(Spender::App(app)) if app.is_shelf() => "the plugins of no app".into(),
            Some(Spender::App(app)) => format!("the app \"{app}\""),
            _ => "everything together".into(),
        }
    }

    fn each(&self) -> &'static str {
        match self.span {
            Span::Day => " for a day",
            Span::Month => " for a month",
        }
    }
}

impl Amount {
    fn of(spent: &Spent) -> Self {
        Self {
            cost_micros: Some(spent.cost_micros),
            tokens: spent.tokens_in.saturating_add(spent.tokens_out),
            images: spent.images,
            speech_ms: spent.speech_ms,
        }
    }

    /// Both together. What no price is known of adds no cost.
    fn plus(&self, other: &Self) -> Self {
        let cost = self
            .cost_micros
            .unwrap_or(0)
            .saturating_add(other.cost_micros.unwrap_or(0));
        Self {
            cost_micros: Some(cost),
            tokens: self.tokens.saturating_add(other.tokens),
            images: self.images.saturating_add(other.images),
            speech_ms: self.speech_ms.saturating_add(other.speech_ms),
        }
    }
}

impl Known {
    /// What a request may take.
    fn estimate(&self, what: What<'_>) -> Amount {
        match what {
            What::Text { bytes, max_tokens } => {
                let answer = max_tokens.unwrap_or(ANSWER_TOKENS).min(MOST_TOKENS);
                self.text(bytes.div_ceil(BYTES_PER_TOKEN), answer)
            }
            What::Embeddings { bytes } => self.text(bytes.div_ceil(BYTES_PER_TOKEN), 0),
            What::Images { count, .. } => Amount {
                cost_micros: self.media.image.map(|price| micros(price * count as f64)),
                images: count,
                ..Amount::default()
            },
            What::Speech { characters } => {
                let ms = characters.saturating_mul(1000).div_ceil(CHARACTERS_PER_SECOND);
                Amount {
                    cost_micros: self.speech(characters, ms).map(micros),
                    speech_ms: ms,
                    ..Amount::default()
                }
            }
        }
    }

    fn text(&self, input: u64, output: u64) -> Amount {
        Amount {
            cost_micros: self.tokens(input, output),
            tokens: input.saturating_add(output),
            ..Amount::default()
        }
    }
}

/// What is known of all models of an account, for lists of them.
pub(crate) struct PriceBook {
    spend: Arc<Spend>,
    account: AccountId,
    set: HashMap<String, ModelOverride>,
}

impl PriceBook {
    /// The price of one model of an endpoint, and where it is from.
    pub(crate) fn price(&self, endpoint: &Endpoint, model: &str) -> Option<(Price, Source)> {
        let nothing = ModelOverride::default();
        let set = self.set.get(&format!("{}/{model}", endpoint.connection_id));
        self.spend
            .price(&self.account, endpoint, model, set.unwrap_or(&nothing))
    }

    /// The context window the person set for `connection/model`, in tokens.
    pub(crate) fn window(&self, reference: &str) -> Option<u64> {
        self.set.get(reference)?.context_window
    }
}

impl Engine {
    /// Prices and windows for a list of models.
    pub(crate) fn price_book(&self, account: &AccountId) -> Result<PriceBook, DbError> {
        Ok(PriceBook {
            spend: self.spend().clone(),
            account: account.clone(),
            set: self.db().model_overrides(account)?,
        })
    }

    /// Asks an unknown price's server for its list of models, once in a run, where a limit in money hangs on it.
    pub(crate) async fn learn_price(
        &self,
        context: &CallContext,
        account: &AccountId,
        endpoint: &Endpoint,
        model: &str,
    ) {
        let spend = self.spend();
        let limited = |db: &Db| {
            let limits = db.spend_limits(account).unwrap_or_default();
            limits.iter().any(|row| row.limits.cost_micros.is_some())
        };
        if endpoint.is_local() || spend.has_list(account, &endpoint.connection_id) || !limited(self.db()) {
            return;
        }
        let known = spend.known(account, endpoint, model, None, None);
        if known.is_ok_and(|known| known.price.is_some()) {
            return;
        }
        let Ok(Some(row)) = self.db().connection(account, &endpoint.connection_id) else {
            return;
        };
        let _ = self.list_one(context, account, &row, true).await;
        // Also where there is no list, or none with prices: it is not asked for again.
        if !spend.has_list(account, &endpoint.connection_id) {
            spend.note_listed(account, &endpoint.connection_id, []);
        }
    }
}

#[cfg(test)]
mod tests;
