use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use db::SpendLimitRow;
use policy::{AppId, Caller};
use providers::{Event, Usage};
use serde_json::json;
use url::Url;

use super::*;

/// 2026-12-31, 23:59:59.
const LAST_SECOND: i64 = 20_819 * 86_400_000 - 1000;

struct House {
    spend: Arc<Spend>,
    account: AccountId,
    /// Asks as the app "alpha".
    context: CallContext,
    /// Is on the internet, but in no table.
    endpoint: Endpoint,
    _folder: tempfile::TempDir,
}

fn house_at(clock: fn() -> i64) -> House {
    let folder = tempfile::tempdir().unwrap();
    let db = Arc::new(Db::open(&folder.path().join("db")).unwrap().db);
    let account = AccountId::random();
    db.add_account(&account, "zoe", "admin").unwrap();
    let context = CallContext::root(&Caller::App {
        account: account.clone(),
        app: app("alpha"),
    });
    let endpoint = Endpoint::new("c_x-000000", "Far", Url::parse("https://models.example/v1").unwrap());
    House {
        spend: Arc::new(Spend::with_clock(db, clock)),
        account,
        context,
        endpoint,
        _folder: folder,
    }
}

fn house() -> House {
    house_at(now_ms)
}

fn app(id: &str) -> AppId {
    AppId::parse(id).unwrap()
}

fn text(bytes: u64, max_tokens: u64) -> What<'static> {
    What::Text {
        bytes,
        max_tokens: Some(max_tokens),
    }
}

fn usage(input: u64, output: u64) -> Usage {
    Usage {
        input,
        output,
        ..Usage::default()
    }
}

impl House {
    /// A dollar per million tokens sent, ten per million of the answer.
    fn price(&self) {
        let price = json!({"input": 1, "output": 10});
        self.spend
            .db
            .set_price(&self.account, "c_x-000000/m", Some(&price))
            .unwrap();
    }

    fn limit(&self, app: Option<&str>, span: Span, limits: SpendLimits) {
        let row = SpendLimitRow {
            app: app.map(self::app),
            span,
            limits,
        };
        self.spend.db.put_spend_limits(&self.account, &[row]).unwrap();
    }

    fn money(&self, app: Option<&str>, span: Span, cost_micros: u64) {
        let limits = SpendLimits {
            cost_micros: Some(cost_micros),
            ..SpendLimits::default()
        };
        self.limit(app, span, limits);
    }

    fn ask(&self, what: What<'_>) -> Result<Reservation, String> {
        self.spend.reserve(&self.context, &self.endpoint, "m", what)
    }

    fn spent(&self) -> Spent {
        self.spend.db.spent(&self.account, None, 0, i64::MAX).unwrap()
    }

    fn held(&self) -> usize {
        self.spend.open.lock().held.len()
    }
}

fn done(usage: Usage) -> Event {
    Event::Done {
        finish_reason: None,
        usage,
        model: None,
        response_id: None,
    }
}

#[test]
fn the_truth_takes_the_place_of_what_was_set_aside() {
    let house = house();
    house.price();
    house.money(None, Span::Day, 1_000_000);
    // 1,000 tokens sent for 1,000 micros, 5,000 tokens of answer for 50,000.
    let reserved = house.ask(text(4000, 5000)).unwrap();
    assert_eq!(house.held(), 1);
    let mut event = done(usage(900, 100));
    reserved.heard(&mut event).unwrap();
    let Event::Done { usage, .. } = event else { panic!() };
    assert!(usage.priced && (usage.cost_total - 0.0019).abs() < 1e-9, "{usage:?}");
    let cost = reserved.settle_text(false).unwrap();
    assert!((cost - 0.0019).abs() < 1e-9);
    let want = Spent {
        priced_calls: 1,
        tokens_in: 900,
        tokens_out: 100,
        cost_micros: 1900,
        ..Spent::default()
    };
    assert_eq!(house.spent(), want);
    drop(reserved);
    assert_eq!((house.spent(), house.held()), (want, 0), "settled once");
}

#[test]
fn requests_side_by_side_cannot_pass_a_limit_together() {
    let house = house();
    house.price();
    // Each may take 250 tokens sent and 100 of answer: 1,250 micros, of which a limit has room for 8.
    house.money(None, Span::Day, 10_000);
    let (passed, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let kept = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..5 {
                    match house.ask(text(1000, 100)) {
                        Ok(reserved) => {
                            passed.fetch_add(1, Ordering::SeqCst);
                            kept.lock().push(reserved);
                        }
                        Err(_) => drop(refused.fetch_add(1, Ordering::SeqCst)),
                    }
                }
            });
        }
    });
    assert_eq!((passed.into_inner(), refused.into_inner()), (8, 72));
    // They take less than was set aside, so others have room again.
    for reserved in kept.into_inner() {
        reserved.heard(&mut done(usage(250, 10))).unwrap();
        reserved.settle_text(false);
    }
    assert_eq!(house.spent().cost_micros, 8 * 350);
    assert!(house.ask(text(1000, 100)).is_ok());
}

#[test]
fn a_refusal_says_all_there_is_to_know() {
    static CLOCK: AtomicI64 = AtomicI64::new(LAST_SECOND);
    let house = house_at(|| CLOCK.load(Ordering::SeqCst));
    house.price();
    house.money(None, Span::Month, 100_000);
    house.limit(
        Some("alpha"),
        Span::Day,
        SpendLimits {
            tokens: Some(300),
            ..SpendLimits::default()
        },
    );
    let day = utc_day(LAST_SECOND);
    let before = Spent {
        cost_micros: 99_000,
        priced_calls: 1,
        ..Spent::default()
    };
    house
        .spend
        .db
        .add_spend(&house.account, &Spender::Launcher, day - 30, &before)
        .unwrap();
    let why = house.ask(text(400, 100)).err().unwrap();
    for part in [
        "everything together",
        "for a month",
        "$0.10",
        "2027-01-01",
        "Activity → Spending",
        "raise",
    ] {
        assert!(why.contains(part), "{why}");
    }
    house.money(None, Span::Month, 1_000_000);
    let why = house.ask(text(400, 500)).err().unwrap();
    for part in [
        "the app \"alpha\"",
        "for a day",
        "300 tokens",
        "0 tokens are used",
        "600 tokens",
        "2027-01-01",
    ] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(house.held(), 0);
}

#[test]
fn a_month_begins_anew_and_another_app_has_its_own() {
    static CLOCK: AtomicI64 = AtomicI64::new(LAST_SECOND);
    let mut house = house_at(|| CLOCK.load(Ordering::SeqCst));
    house.price();
    house.money(Some("alpha"), Span::Month, 2000);
    let take = |house: &House| {
        let reserved = house.ask(text(400, 100))?;
        reserved.heard(&mut done(usage(100, 100))).unwrap();
        reserved.settle_text(false).ok_or_else(|| "no cost".to_owned())
    };
    assert!(take(&house).is_ok());
    assert!(take(&house).is_err(), "1,100 of 2,000 are used");
    let alpha = house.context.clone();
    house.context = CallContext::root(&Caller::App {
        account: house.account.clone(),
        app: app("beta"),
    });
    assert!(take(&house).is_ok());
    house.context = alpha;
    assert!(take(&house).is_err());
    // One second later it is January.
    CLOCK.store(LAST_SECOND + 1000, Ordering::SeqCst);
    assert!(take(&house).is_ok());
    assert!(take(&house).is_err());
    // What runs over midnight counts where it ends.
    CLOCK.store(LAST_SECOND + 31 * 86_400_000, Ordering::SeqCst);
    assert!(take(&house).is_err(), "the last day of January");
    CLOCK.store(LAST_SECOND + 1000 + 31 * 86_400_000, Ordering::SeqCst);
    assert!(take(&house).is_ok());
}

#[test]
fn with_a_limit_in_money_an_unknown_price_is_refused_unless_it_is_here() {
    let mut house = house();
    assert!(house.ask(text(400, 100)).is_ok(), "without a limit it is asked");
    house.money(Some("alpha"), Span::Day, 1_000_000);
    let why = house.ask(text(400, 100)).err().unwrap();
    for part in [
        "No price is known for Far/m",
        "the app \"alpha\"",
        "Set its price",
        "take the limit away",
    ] {
        assert!(why.contains(part), "{why}");
    }
    house.endpoint = Endpoint::new("c_x-000000", "Near", Url::parse("http://127.0.0.1:1/v1").unwrap());
    let reserved = house.ask(text(400, 100)).unwrap();
    let mut event = done(usage(90, 10));
    reserved.heard(&mut event).unwrap();
    assert!(matches!(event, Event::Done { usage, .. } if !usage.priced && usage.cost_total == 0.0));
    assert_eq!(reserved.settle_text(false), None, "unknown, not free");
    let spent = house.spent();
    assert_eq!((spent.priced_calls, spent.unpriced_calls, spent.tokens_in), (0, 1, 90));
}

#[test]
fn whose_price_counts() {
    let mut house = house();
    let cost = |house: &House, usage: Usage| {
        let reserved = house.ask(text(400, 100)).unwrap();
        reserved.heard(&mut done(usage)).unwrap();
        reserved.settle_text(false)
    };
    let million = usage(1_000_000, 0);
    let stated = Usage {
        cost_total: 0.5,
        priced: true,
        ..million
    };
    assert_eq!(cost(&house, million), None);
    assert_eq!(cost(&house, stated), Some(0.5), "the server's own word");
    let listed = Price {
        input: 7.0,
        ..Price::default()
    };
    house
        .spend
        .note_listed(&house.account, "c_x-000000", [("m".to_owned(), listed)]);
    assert_eq!(cost(&house, million), Some(7.0), "the server's list");
    assert_eq!(cost(&house, stated), Some(0.5), "its word before its list");
    house.price();
    assert_eq!(cost(&house, stated), Some(1.0), "the person's before all");
    house.spend.db.set_price(&house.account, "c_x-000000/m", None).unwrap();
    house.spend.note_listed(&house.account, "c_x-000000", []);
    assert_eq!(cost(&house, million), None, "a list without it");

    house.endpoint = Endpoint::new("c_x-000000", "OpenAI", Url::parse("https://api.openai.com/v1").unwrap());
    let of = |model: &str| {
        let known = house
            .spend
            .known(&house.account, &house.endpoint, model, None, None)
            .unwrap();
        known.price.map(|(price, source)| (price.input, source))
    };
    assert_eq!(of("gpt-4o"), Some((2.5, Source::Table)));
    let free = json!({"input": 0, "output": 0});
    house
        .spend
        .db
        .set_price(&house.account, "c_x-000000/gpt-4o", Some(&free))
        .unwrap();
    assert_eq!(of("gpt-4o"), Some((0.0, Source::You)), "free when the person says so");
    // A foreign number is no number to believe.
    for odd in [f64::NAN, f64::INFINITY, -1.0] {
        let odd = Usage {
            cost_total: odd,
            priced: true,
            ..million
        };
        assert_eq!(cost(&house, odd), None, "{odd:?}");
    }
}

#[test]
fn every_round_is_paid_and_asked_for() {
    let house = house();
    house.price();
    house.limit(
        None,
        Span::Day,
        SpendLimits {
            tokens: Some(1000),
            ..SpendLimits::default()
        },
    );
    let reserved = house.ask(text(400, 100)).unwrap();
    reserved.heard(&mut Event::Used(usage(300, 50))).unwrap();
    // As much again went and came: 350 more, and room for an answer of 100.
    reserved.before_round().unwrap();
    let mut event = Event::Used(usage(700, 120));
    reserved.heard(&mut event).unwrap();
    assert!(matches!(event, Event::Used(usage) if usage.priced && (usage.cost_total - 0.0019).abs() < 1e-9));
    let why = reserved.before_round().unwrap_err();
    assert!(why.contains("1000 tokens"), "{why}");
    reserved.settle_text(true);
    let spent = house.spent();
    assert_eq!((spent.tokens_in, spent.tokens_out, spent.cost_micros), (700, 120, 1900));
}

#[test]
fn an_answer_that_does_not_end_is_ended() {
    let house = house();
    house.price();
    house.limit(
        None,
        Span::Day,
        SpendLimits {
            tokens: Some(2000),
            ..SpendLimits::default()
        },
    );
    let what = What::Text {
        bytes: 400,
        max_tokens: None,
    };
    let reserved = house.ask(what).unwrap();
    let mut bytes = 0;
    let why = loop {
        bytes += 400;
        match reserved.heard(&mut Event::Delta("x".repeat(400))) {
            Ok(()) => assert!(bytes < 100_000, "it goes on for ever"),
            Err(why) => break why,
        }
    };
    assert!(why.contains("2000 tokens"), "{why}");
    reserved.settle_text(true);
    let spent = house.spent();
    let tokens = spent.tokens_in + spent.tokens_out;
    assert!((1400..=2000).contains(&tokens), "{spent:?}");
    assert_eq!(
        spent.cost_micros,
        spent.tokens_in + 10 * spent.tokens_out,
        "an estimate by what came"
    );
}

#[test]
fn what_ends_early_counts_as_far_as_it_came() {
    let house = house();
    house.price();
    // Refused by its server: nothing is to be paid.
    let reserved = house.ask(text(4000, 100)).unwrap();
    assert_eq!(reserved.settle_text(true), None);
    // Dropped before it was sent.
    drop(house.ask(text(4000, 100)).unwrap());
    assert_eq!((house.spent(), house.held()), (Spent::default(), 0));
    // Dropped in the midst of its answer.
    let reserved = house.ask(text(4000, 100)).unwrap();
    reserved.heard(&mut Event::Delta("four".repeat(10))).unwrap();
    let other = reserved.clone();
    drop(reserved);
    assert_eq!(house.held(), 1, "a clone is left");
    drop(other);
    let spent = house.spent();
    assert_eq!((spent.tokens_in, spent.tokens_out, spent.cost_micros), (1000, 10, 1100));
    assert_eq!(house.held(), 0);
    // Stopped before a word of it: the prompt was read all the same.
    let reserved = house.ask(text(4000, 100)).unwrap();
    assert!(reserved.settle_text(false).is_some());
    assert_eq!(house.spent().tokens_in, 2000);
}

#[test]
fn pictures_and_speech_have_limits_of_their_own() {
    let mut house = house();
    house.endpoint = Endpoint::new("c_x-000000", "OpenAI", Url::parse("https://api.openai.com/v1").unwrap());
    let limits = SpendLimits {
        images: Some(2),
        speech_ms: Some(10_000),
        cost_micros: Some(1_000_000),
        ..SpendLimits::default()
    };
    house.limit(Some("alpha"), Span::Day, limits);
    let ask = |model: &str, what| house.spend.reserve(&house.context, &house.endpoint, model, what);
    let image = What::Images {
        count: 1,
        size: Some("1024x1024"),
        quality: Some("standard"),
    };
    let first = ask("dall-e-3", image).unwrap();
    let second = ask("dall-e-3", image).unwrap();
    let why = ask("dall-e-3", image).err().unwrap();
    assert!(why.contains("2 images"), "{why}");
    assert_eq!(first.settle(Truth::Images { count: 1, cost: None }), Some(0.04));
    assert_eq!(second.settle(Truth::Nothing), None);
    let third = ask("dall-e-3", image).unwrap();
    // A request that was cut off is paid as it was asked for.
    drop(third);
    assert_eq!((house.spent().images, house.spent().cost_micros), (2, 80_000));

    let speech = |characters| What::Speech { characters };
    let why = ask("tts-1", speech(151)).err().unwrap();
    assert!(why.contains("10.0 seconds of speech"), "{why}");
    let spoken = ask("tts-1", speech(150)).unwrap();
    let cost = spoken.settle(Truth::Speech { ms: Some(9000) }).unwrap();
    assert!((cost - 0.00225).abs() < 1e-9, "{cost}");
    assert_eq!(house.spent().speech_ms, 9000);
    let texts = ask("text-embedding-3-small", What::Embeddings { bytes: 4000 }).unwrap();
    assert!(texts.settle(Truth::Embeddings { tokens: Some(900) }).is_some());
    assert_eq!(house.spent().tokens_in, 900);
    let why = ask("dall-e-9", image).err().unwrap();
    assert!(why.contains("No price is known"), "{why}");
    assert_eq!(house.held(), 0);
}

#[test]
fn foreign_counts_do_not_break_the_sums() {
    let house = house();
    house.price();
    let reserved = house.ask(text(u64::MAX, u64::MAX)).unwrap();
    let mut event = done(usage(u64::MAX, u64::MAX));
    reserved.heard(&mut event).unwrap();
    reserved.settle_text(false);
    let spent = house.spent();
    assert!(
        spent.tokens_in <= 300_000_000 && spent.cost_micros < 10_000_000_000,
        "{spent:?}"
    );
    // Sums that go down are no reason to pay less.
    let reserved = house.ask(text(400, 100)).unwrap();
    reserved.heard(&mut Event::Used(usage(100, 100))).unwrap();
    reserved.heard(&mut Event::Used(usage(1, 1))).unwrap();
    reserved.heard(&mut Event::Used(usage(100, 100))).unwrap();
    reserved.settle_text(false);
    assert!(house.spent().tokens_out >= spent.tokens_out + 100);
}
