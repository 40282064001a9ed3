//! What apps used, and limits that calls side by side cannot pass together.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::{app, house};
use db::{Db, DbError, Exceeded, USAGE_DAYS, Usage, UsageLimits, utc_day};

fn usage(model_calls: u64, tokens: u64, network_bytes: u64) -> Usage {
    Usage {
        model_calls,
        tokens,
        network_bytes,
    }
}

#[test]
fn days_are_those_of_utc() {
    const DAY: i64 = 86_400_000;
    for (ms, day) in [(0, 0), (DAY - 1, 0), (DAY, 1), (-1, -1), (1_796_083_200_000, 20_788)] {
        assert_eq!(utc_day(ms), day, "{ms}");
    }
}

#[test]
fn what_would_pass_a_limit_takes_nothing() {
    let house = house();
    let (db, account, app) = (&house.db, &house.account, &house.app);
    let limits = UsageLimits {
        model_calls: Some(2),
        tokens: Some(100),
        ..Default::default()
    };
    let take = |want| match db.take_usage(account, app, 5, &want, &limits) {
        Err(DbError::Exceeded(Exceeded { what, used, limit })) => Some((what, used, limit)),
        other => other.map(|()| None).unwrap(),
    };
    assert_eq!(take(usage(1, 90, 1 << 40)), None);
    assert_eq!(take(usage(1, 11, 1)), Some(("tokens", 90, 100)));
    assert_eq!(
        db.usage(account, app, 5).unwrap(),
        usage(1, 90, 1 << 40),
        "nothing taken"
    );
    assert_eq!(take(usage(1, 10, 0)), None);
    assert_eq!(take(usage(1, 0, 0)), Some(("model calls", 2, 2)));
    assert_eq!(take(usage(0, 0, 7)), None, "what is not wanted is not looked at");
    db.return_usage(account, app, 5, &usage(0, 60, 0)).unwrap();
    assert_eq!(take(usage(0, 61, 0)), Some(("tokens", 40, 100)));
    db.add_usage(account, app, 5, &usage(0, 500, 0)).unwrap();
    assert_eq!(
        db.usage(account, app, 5).unwrap().tokens,
        540,
        "what happened is counted anyway"
    );
    assert_eq!(db.usage(account, app, 6).unwrap(), Usage::default(), "a new day");
    db.return_usage(account, app, 5, &usage(9, 9000, 0)).unwrap();
    assert_eq!(db.usage(account, app, 5).unwrap(), usage(0, 0, (1 << 40) + 7));
}

#[test]
fn sums_do_not_overflow() {
    let house = house();
    let (db, account, app) = (&house.db, &house.account, &house.app);
    db.add_usage(account, app, 5, &usage(u64::MAX, 1, 0)).unwrap();
    db.add_usage(account, app, 5, &usage(u64::MAX, 1, 0)).unwrap();
    assert_eq!(db.usage(account, app, 5).unwrap(), usage(i64::MAX as u64, 2, 0));
    let limits = UsageLimits {
        model_calls: Some(u64::MAX),
        tokens: Some(2),
        ..Default::default()
    };
    assert!(db.take_usage(account, app, 5, &usage(1, 0, 0), &limits).is_ok());
    assert!(db.take_usage(account, app, 5, &usage(0, u64::MAX, 0), &limits).is_err());
}

#[test]
fn old_days_go_when_a_new_one_comes() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    let (one, other) = (&house.app, app("other"));
    db.add_usage(account, one, 100, &usage(1, 0, 0)).unwrap();
    db.add_usage(account, &other, 101, &usage(1, 0, 0)).unwrap();
    db.add_usage(account, one, 100 + USAGE_DAYS - 1, &usage(1, 0, 0))
        .unwrap();
    assert_eq!(db.usage(account, one, 100).unwrap().model_calls, 1);
    db.add_usage(account, one, 100 + USAGE_DAYS, &usage(1, 0, 0)).unwrap();
    assert_eq!(db.usage(account, one, 100).unwrap().model_calls, 0);
    assert_eq!(db.usage(account, &other, 101).unwrap().model_calls, 1);
    assert_eq!(db.usage(account, one, 100 + USAGE_DAYS - 1).unwrap().model_calls, 1);
}

#[test]
fn calls_side_by_side_cannot_pass_a_limit_together() {
    let house = house();
    let second = Db::open(&house.path).unwrap().db;
    let (account, app) = (&house.account, &house.app);
    let limits = UsageLimits {
        tokens: Some(1000),
        ..Default::default()
    };
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (db, taken) = (if thread % 2 == 0 { &house.db } else { &second }, &taken);
            scope.spawn(move || {
                for round in 0..100 {
                    let want = 1 + (thread * 7 + round) % 13;
                    match db.take_usage(account, app, 5, &usage(0, want, 0), &limits) {
                        Ok(()) => drop(taken.fetch_add(want, Ordering::SeqCst)),
                        Err(DbError::Exceeded(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let taken = taken.into_inner();
    assert_eq!(house.db.usage(account, app, 5).unwrap().tokens, taken);
    assert_eq!(
        taken, 1000,
        "single tokens were wanted to the end, so all is taken and no more"
    );
}

#[test]
fn budgets_are_the_persons_or_none() {
    let house = house();
    let (db, account, app) = (&house.db, &house.account, &house.app);
    assert_eq!(db.budgets(account, app).unwrap(), None);
    let limits = UsageLimits {
        model_calls: Some(0),
        tokens: None,
        network_bytes: Some(1 << 50),
        disk_bytes: Some(5),
    };
    db.set_budgets(account, app, Some(&limits)).unwrap();
    assert_eq!(db.budgets(account, app).unwrap(), Some(limits));
    let free = UsageLimits::default();
    db.set_budgets(account, app, Some(&free)).unwrap();
    assert_eq!(
        db.budgets(account, app).unwrap(),
        Some(free),
        "no limit at all, said by a person"
    );
    db.set_budgets(account, app, None).unwrap();
    assert_eq!(db.budgets(account, app).unwrap(), None);
}
