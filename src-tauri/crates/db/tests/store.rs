//! Plugin stores: compare-and-set, batches, scans, and exact size accounting under many writers.

mod common;

use std::collections::BTreeMap;

use common::{Dice, House, house};
use db::{Db, DbError, SCAN_LIMIT, STORE_QUOTA, StoreOp};

fn cas(house: &House, key: &str, expected: Option<&str>, new: Option<&str>) -> db::Result<bool> {
    let House {
        db,
        account,
        app,
        plugin,
        ..
    } = house;
    db.store_cas(account, app, plugin, key, expected, new, 100)
}

fn all(house: &House) -> BTreeMap<String, String> {
    let found = house.db.store_all(&house.account, &house.app, &house.plugin).unwrap();
    found.into_iter().collect()
}

/// The size that is counted along is the size of what is there.
fn exact(house: &House) -> u64 {
    let there: usize = all(house).iter().map(|(key, value)| key.len() + value.len()).sum();
    let counted = house.db.store_size(&house.account, &house.app, &house.plugin).unwrap();
    assert_eq!(counted, there as u64);
    counted
}

#[test]
fn compare_and_set_compares_values() {
    let house = house();
    assert!(
        !cas(&house, "k", Some("null"), Some("1")).unwrap(),
        "absent is not null"
    );
    assert!(cas(&house, "k", None, Some(r#"{"a":1,"b":[2.0]}"#)).unwrap());
    assert!(!cas(&house, "k", None, Some("1")).unwrap());
    for other in [
        r#"{"a":1}"#,
        r#"{"a":1,"b":[2,2]}"#,
        r#"{"a":"1","b":[2]}"#,
        "[]",
        "null",
    ] {
        assert!(!cas(&house, "k", Some(other), Some("1")).unwrap(), "{other}");
    }
    assert!(
        cas(&house, "k", Some(r#"{ "b": [2], "a": 1.0 }"#), Some("null")).unwrap(),
        "key order and spelling do not count"
    );
    assert!(matches!(
        cas(&house, "k", Some("not json"), Some("1")),
        Err(DbError::Json(_))
    ));
    let big = format!("\"{}\"", "x".repeat(200));
    assert!(matches!(
        cas(&house, "k", Some("null"), Some(&big)),
        Err(DbError::Quota {
            used: 5,
            quota: 100,
            needed: 198
        })
    ));
    assert_eq!(all(&house)["k"], "null");
    assert!(cas(&house, "k", Some("null"), None).unwrap());
    assert!(
        cas(&house, "k", None, None).unwrap(),
        "absent as expected, and stays so"
    );
    assert_eq!(exact(&house), 0);
}

fn put(key: &str, json: &str) -> StoreOp {
    StoreOp::Put {
        key: key.into(),
        json: json.into(),
    }
}

fn delete(key: &str) -> StoreOp {
    StoreOp::Delete { key: key.into() }
}

fn check(key: &str, expected: Option<&str>) -> StoreOp {
    StoreOp::Check {
        key: key.into(),
        expected: expected.map(Into::into),
    }
}

#[test]
fn a_batch_is_all_or_nothing() {
    let house = house();
    let batch = |ops: &[StoreOp], quota| {
        house
            .db
            .store_batch(&house.account, &house.app, &house.plugin, ops, quota)
    };
    assert!(batch(&[put("a", "1"), put("b", "2"), delete("a"), put("c", "3")], 100).unwrap());
    assert_eq!(all(&house).into_keys().collect::<Vec<_>>(), ["b", "c"]);
    let large = format!("\"{}\"", "x".repeat(90));
    let refused = batch(&[delete("b"), put("d", "4"), put("e", &large), put("f", &large)], 100);
    assert!(matches!(refused, Err(DbError::Quota { used: 4, .. })), "{refused:?}");
    assert!(!batch(&[put("b", "9"), check("c", Some("4")), put("d", "4")], 100).unwrap());
    assert!(!batch(&[check("b", None), delete("b")], 100).unwrap());
    assert_eq!(all(&house).into_values().collect::<Vec<_>>(), ["2", "3"], "untouched");
    // In between it may be too large; what counts is the end. A check sees what came before it.
    let ops = [
        put("e", &large),
        check("e", Some(&large)),
        delete("e"),
        check("e", None),
        put("f", &large),
    ];
    assert!(batch(&ops, 100).unwrap());
    assert_eq!(exact(&house), 97);
    assert!(batch(&[], 100).unwrap());
    // A quota that became smaller refuses growth only.
    assert!(batch(&[put("f", "1")], 3).unwrap());
    assert!(matches!(batch(&[put("g", "1")], 3), Err(DbError::Quota { .. })));
}

#[test]
fn scans_go_in_order_by_prefix_and_in_pieces() {
    let house = house();
    let (db, account, app, plugin) = (&house.db, &house.account, &house.app, &house.plugin);
    let names = [
        "",
        "a",
        "a\0b",
        "a%",
        "aa",
        "ab",
        "a_",
        "aä",
        "b",
        "ä",
        "\u{ffff}",
        "\u{1f98b}",
    ];
    for name in names {
        db.store_put(account, app, plugin, name, "1", STORE_QUOTA).unwrap();
    }
    let mut sorted = names.map(String::from);
    sorted.sort();
    for prefix in ["", "a", "a\0", "aä", "b", "c", "\u{1f98b}", "a%", "a_"] {
        let want: Vec<_> = sorted.iter().filter(|name| name.starts_with(prefix)).cloned().collect();
        assert_eq!(
            db.store_keys(account, app, plugin, prefix, 99).unwrap(),
            want,
            "{prefix:?}"
        );
        for limit in [1, 2, 5, 99] {
            let (mut found, mut after) = (Vec::<String>::new(), None);
            loop {
                let piece = db
                    .store_scan(account, app, plugin, prefix, after.as_deref(), limit)
                    .unwrap();
                assert!(piece.len() <= limit);
                let Some((last, _)) = piece.last() else { break };
                after = Some(last.clone());
                found.extend(piece.into_iter().map(|(key, _)| key));
            }
            assert_eq!(found, want, "{prefix:?} in pieces of {limit}");
        }
    }
    assert_eq!(
        db.store_scan(account, app, plugin, "a", Some("0"), 1).unwrap()[0].0,
        "a"
    );
    assert!(
        db.store_scan(account, app, plugin, "a", Some("b"), 9)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_scan_is_bounded_in_bytes() {
    let house = house();
    let (db, account, app, plugin) = (&house.db, &house.account, &house.app, &house.plugin);
    let third = format!("\"{}\"", "x".repeat(SCAN_LIMIT as usize / 3));
    let huge = format!("\"{}\"", "x".repeat(SCAN_LIMIT as usize + 1));
    for (key, value) in [("a", &third), ("b", &third), ("c", &third), ("d", &huge), ("e", &third)] {
        db.store_put(account, app, plugin, key, value, 64 << 20).unwrap();
    }
    let keys = |after: Option<&str>| -> Vec<String> {
        let found = db.store_scan(account, app, plugin, "", after, 99).unwrap();
        found.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(None), ["a", "b"]);
    assert_eq!(keys(Some("b")), ["c"]);
    assert_eq!(keys(Some("c")), ["d"], "one that is too large alone still comes");
    assert_eq!(keys(Some("d")), ["e"]);
}

/// Thousands of random steps, each compared with a plain map.
#[test]
fn the_store_does_what_a_map_does() {
    const QUOTA: u64 = 200;
    let house = house();
    let (db, account, app, plugin) = (&house.db, &house.account, &house.app, &house.plugin);
    let mut map = BTreeMap::<String, String>::new();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let size = |map: &BTreeMap<String, String>| map.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>() as u64;
    let mut refusals = 0;
    for _ in 0..4000 {
        let mut key = || ["a", "bb", "ä", "\0", "long key", "\u{1f98b}"][dice.below(6) as usize].to_owned();
        let (one, two) = (key(), key());
        let json = format!("\"{}\"", "ö".repeat(dice.below(40) as usize));
        let mut after = map.clone();
        let done = match dice.below(5) {
            0 => {
                after.insert(one.clone(), json.clone());
                db.store_put(account, app, plugin, &one, &json, QUOTA).map(|()| true)
            }
            1 => {
                let was = after.remove(&one).is_some();
                let gone = db.store_delete(account, app, plugin, &one);
                assert_eq!(gone.as_ref().ok(), Some(&was));
                gone.map(|_| true)
            }
            2 => {
                let expected = map.get(&two).cloned();
                let right = map.get(&one) == expected.as_ref();
                if right {
                    after.insert(one.clone(), json.clone());
                }
                db.store_cas(account, app, plugin, &one, expected.as_deref(), Some(&json), QUOTA)
                    .inspect(|done| assert_eq!(*done, right))
            }
            3 => {
                let expected = map.get(&one).cloned();
                after.remove(&one);
                db.store_cas(account, app, plugin, &one, expected.as_deref(), None, QUOTA)
            }
            _ => {
                after.remove(&one);
                after.insert(two.clone(), json.clone());
                db.store_batch(account, app, plugin, &[delete(&one), put(&two, &json)], QUOTA)
            }
        };
        match done {
            Ok(_) => map = after,
            Err(DbError::Quota { used, quota, needed }) => {
                refusals += 1;
                assert_eq!((used, quota, used + needed), (size(&map), QUOTA, size(&after)));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(size(&map) <= QUOTA);
        assert_eq!(db.store_size(account, app, plugin).unwrap(), size(&map));
        assert_eq!(all(&house), map);
    }
    assert!(refusals > 50, "the quota was hardly ever met: {refusals}");
}

/// Writers in many threads, over two openings of the same file: no update is lost, nobody sees half of a batch, and the
/// size is exact in the end.
#[test]
fn no_update_is_lost_between_many_writers() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 150;
    let house = house();
    let second = Db::open(&house.path).unwrap().db;
    let (account, app, plugin) = (&house.account, &house.app, &house.plugin);
    house
        .db
        .store_batch(
            account,
            app,
            plugin,
            &[put("left", "1000"), put("right", "1000")],
            STORE_QUOTA,
        )
        .unwrap();
    let number = |text: Option<String>| text.map_or(0, |text| text.parse::<i64>().unwrap());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = if thread % 2 == 0 { &house.db } else { &second };
            scope.spawn(move || {
                let mut dice = Dice(0x9e37_79b9_7f4a_7c15 + thread);
                for round in 0..ROUNDS {
                    // A counter for all.
                    loop {
                        let now = db.store_get(account, app, plugin, "counter").unwrap();
                        let next = (number(now.clone()) + 1).to_string();
                        let done = db.store_cas(
                            account,
                            app,
                            plugin,
                            "counter",
                            now.as_deref(),
                            Some(&next),
                            STORE_QUOTA,
                        );
                        if done.unwrap() {
                            break;
                        }
                    }
                    // A sum that stays the same.
                    loop {
                        let left = db.store_get(account, app, plugin, "left").unwrap().unwrap();
                        let right = db.store_get(account, app, plugin, "right").unwrap().unwrap();
                        let moved = dice.below(50) as i64 - 25;
                        let ops = [
                            check("left", Some(&left)),
                            check("right", Some(&right)),
                            put("left", &(number(Some(left.clone())) - moved).to_string()),
                            put("right", &(number(Some(right.clone())) + moved).to_string()),
                        ];
                        if db.store_batch(account, app, plugin, &ops, STORE_QUOTA).unwrap() {
                            break;
                        }
                    }
                    let seen: BTreeMap<_, _> = db.store_all(account, app, plugin).unwrap().into_iter().collect();
                    let sum = number(seen.get("left").cloned()) + number(seen.get("right").cloned());
                    assert_eq!(sum, 2000, "half of a batch was seen");
                    // Keys of every size that come and go.
                    let key = format!("{}", dice.below(20));
                    if dice.below(3) == 0 {
                        db.store_delete(account, app, plugin, &key).unwrap();
                    } else {
                        let json = format!("\"{}\"", "x".repeat(dice.below(300) as usize));
                        db.store_put(account, app, plugin, &key, &json, STORE_QUOTA).unwrap();
                    }
                    if round % 50 == 0 {
                        db.store_keys(account, app, plugin, "", 99).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(all(&house)["counter"], (THREADS * ROUNDS).to_string());
    exact(&house);
}
