//! What requests cost by day and app, the limits for it, and what a person set for models.

mod common;

use common::{app, house};
use db::{ModelOverride, SPEND_DAYS, Span, SpeechEndpointRow, SpendLimitRow, SpendLimits, Spender, Spent};
use serde_json::json;

fn cost(micros: u64) -> Spent {
    Spent {
        priced_calls: 1,
        cost_micros: micros,
        tokens_in: 10,
        tokens_out: 5,
        ..Default::default()
    }
}

#[test]
fn days_and_spenders_add_up() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    let (one, other) = (Spender::App(house.app.clone()), Spender::App(app("other")));
    let unpriced = Spent {
        unpriced_calls: 1,
        images: 2,
        speech_ms: 1500,
        ..Default::default()
    };
    db.add_spend(account, &one, 10, &cost(100)).unwrap();
    db.add_spend(account, &one, 10, &cost(11)).unwrap();
    db.add_spend(account, &other, 10, &unpriced).unwrap();
    db.add_spend(account, &Spender::Launcher, 11, &cost(1000)).unwrap();
    db.add_spend(account, &one, 12, &cost(5)).unwrap();

    let days = db.spend_days(account, None, 10, 11).unwrap();
    assert_eq!(days.iter().map(|(day, _)| *day).collect::<Vec<_>>(), [10, 11]);
    assert_eq!(days[0].1, cost(100).plus(&cost(11)).plus(&unpriced));
    assert_eq!(db.spent(account, Some(&one), 0, 100).unwrap().cost_micros, 116);
    assert_eq!(db.spent(account, Some(&one), 12, 12).unwrap(), cost(5));
    assert_eq!(db.spent(account, None, 10, 12).unwrap().cost_micros, 1116);
    let sums = db.spenders(account, 10, 11).unwrap();
    assert_eq!(
        sums.iter()
            .map(|(by, spent)| (by.clone(), spent.cost_micros))
            .collect::<Vec<_>>(),
        [(Spender::Launcher, 1000), (one.clone(), 111), (other, 0)]
    );
    let nobody = policy::AccountId::random();
    db.add_account(&nobody, "bob", "user").unwrap();
    assert_eq!(db.spent(&nobody, None, 0, 100).unwrap(), Spent::default());
}

#[test]
fn what_a_removed_app_spent_still_counts_over_all() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    let one = Spender::App(house.app.clone());
    db.add_spend(account, &one, 10, &cost(100)).unwrap();
    db.forget_app(account, &house.app).unwrap();
    db.add_spend(account, &one, 10, &cost(1)).unwrap();
    db.forget_app(account, &house.app).unwrap();
    assert_eq!(db.spent(account, Some(&one), 0, 100).unwrap(), Spent::default());
    assert_eq!(
        db.spenders(account, 0, 100).unwrap(),
        [(Spender::Removed, cost(100).plus(&cost(1)))]
    );
}

#[test]
fn thirteen_months_are_kept_and_counts_do_not_wrap() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    let one = Spender::App(house.app.clone());
    db.add_spend(account, &one, 1000, &cost(1)).unwrap();
    db.add_spend(account, &one, 1000 + SPEND_DAYS - 1, &cost(u64::MAX))
        .unwrap();
    assert_eq!(db.spent(account, None, 1000, 1000).unwrap(), cost(1));
    db.add_spend(account, &one, 1000 + SPEND_DAYS - 1, &cost(u64::MAX))
        .unwrap();
    let most = db.spent(account, None, 1001, i64::MAX).unwrap().cost_micros;
    assert!(most > 1 << 50, "{most}");
    db.add_spend(account, &one, 1000 + SPEND_DAYS, &cost(1)).unwrap();
    assert_eq!(db.spent(account, None, 1000, 1000).unwrap(), Spent::default());
}

#[test]
fn limits_are_set_together_and_taken_back() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    assert_eq!(db.spend_limits(account).unwrap(), []);
    let row = |app: Option<policy::AppId>, span, cost_micros| SpendLimitRow {
        app,
        span,
        limits: SpendLimits {
            cost_micros,
            images: cost_micros.map(|_| 0),
            ..Default::default()
        },
    };
    let rows = [
        row(None, Span::Day, Some(5)),
        row(None, Span::Month, Some(6)),
        row(Some(policy::AppId::shelf()), Span::Day, Some(8)),
        row(Some(house.app.clone()), Span::Day, Some(7)),
    ];
    db.put_spend_limits(account, &rows).unwrap();
    assert_eq!(db.spend_limits(account).unwrap(), rows);
    db.put_spend_limits(account, &[row(None, Span::Day, None)]).unwrap();
    assert_eq!(db.spend_limits(account).unwrap(), rows[1..]);
}

#[test]
fn overrides_and_access_are_set_and_taken_back() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    assert_eq!(db.model_override(account, "c/m").unwrap(), ModelOverride::default());
    let price = json!({"input": 1.5, "output": 6, "cacheRead": 0, "cacheWrite": 0});
    db.set_context_window(account, "c/m", Some(8192)).unwrap();
    db.set_price(account, "c/m", Some(&price)).unwrap();
    db.set_price(account, "c2/m", Some(&price)).unwrap();
    let both = ModelOverride {
        context_window: Some(8192),
        price: Some(price),
    };
    assert_eq!(db.model_override(account, "c/m").unwrap(), both);
    assert_eq!(db.model_overrides(account).unwrap()["c/m"], both);
    db.set_price(account, "c/m", None).unwrap();
    assert_eq!(
        db.model_override(account, "c/m").unwrap(),
        ModelOverride {
            price: None,
            ..both.clone()
        }
    );
    db.delete_connection(account, "c").unwrap();
    assert_eq!(
        db.model_overrides(account).unwrap().into_keys().collect::<Vec<_>>(),
        ["c2/m"]
    );
    db.set_price(account, "c2/m", None).unwrap();
    assert!(db.model_overrides(account).unwrap().is_empty());

    assert_eq!(db.model_access(account, &house.app).unwrap(), None);
    let models = ["c".to_owned(), "d/m".to_owned()];
    db.set_model_access(account, &house.app, Some(&models)).unwrap();
    assert_eq!(db.model_access(account, &house.app).unwrap(), Some(models.to_vec()));
    assert_eq!(db.model_access(account, &app("other")).unwrap(), None);
    db.set_model_access(account, &house.app, Some(&[])).unwrap();
    assert_eq!(db.model_access(account, &house.app).unwrap(), Some(Vec::new()));
    db.set_model_access(account, &house.app, None).unwrap();
    assert_eq!(db.model_access(account, &house.app).unwrap(), None);
}

#[test]
fn connections_and_speech_servers_come_back_as_they_were() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    let mut row = db::ConnectionRow {
        id: "c".into(),
        name: "Home".into(),
        api: "openai-text".into(),
        base_url: "http://localhost:5001/".into(),
        models: json!(["a"]),
        preset: Some("koboldcpp".into()),
        prompt_format: Some(json!({"id": "chatml"})),
    };
    for name in ["Home", "Shed"] {
        row.name = name.into();
        db.put_connection(account, &row).unwrap();
        let found = db.connection(account, "c").unwrap().unwrap();
        assert_eq!(
            (found.name, found.preset, found.prompt_format, found.models),
            (
                row.name.clone(),
                row.preset.clone(),
                row.prompt_format.clone(),
                json!(["a"])
            )
        );
        row.preset = None;
        row.prompt_format = None;
    }
    assert_eq!(db.connections(account).unwrap().len(), 1);

    let mut voice = SpeechEndpointRow {
        id: "s".into(),
        name: "Kokoro".into(),
        base_url: "http://localhost:8880/v1".into(),
        model: Some("kokoro".into()),
        voice: None,
    };
    db.put_speech_endpoint(account, &voice).unwrap();
    voice.voice = Some("af_sky".into());
    db.put_speech_endpoint(account, &voice).unwrap();
    assert_eq!(db.speech_endpoints(account).unwrap(), [voice]);
    assert!(db.delete_speech_endpoint(account, "s").unwrap());
    assert!(!db.delete_speech_endpoint(account, "s").unwrap());
}
