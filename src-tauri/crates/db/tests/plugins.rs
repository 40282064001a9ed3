//! Decisions about plugins, and what else is kept of them.

mod common;

use common::{app, house, plugin};
use db::{ActivityEnd, ActivityFilter, KEPT_CODE_LIMIT, NewActivity};
use policy::{Capability, CodeHash, Grant, GrantState};

const CODE: CodeHash = CodeHash([1; 32]);
const CHANGED: CodeHash = CodeHash([2; 32]);

#[test]
fn a_decision_replaces_the_one_before() {
    let house = house();
    let (db, account, app, plugin) = (&house.db, &house.account, &house.app, &house.plugin);
    let hosts = vec!["a.example".to_owned(), "*.b.example:8443".to_owned()];
    let state = |capability, code| {
        let scope: &[String] = if capability == Capability::Network { &hosts } else { &[] };
        Grant::state(&db.grants(account, app, plugin).unwrap(), capability, scope, code)
    };
    use Capability::*;
    use GrantState::*;
    db.decide(
        account,
        app,
        plugin,
        CODE,
        &[(Network, hosts.clone()), (Llm, vec![]), (Zip, vec![])],
        &[Fs, Zip],
        "owner",
    )
    .unwrap();
    let want = [
        (Network, Granted),
        (Llm, Granted),
        (Zip, Denied),
        (Fs, Denied),
        (Store, Asked),
    ];
    for (capability, want) in want {
        assert_eq!(state(capability, CODE), want, "{capability:?}");
    }
    let grants = db.grants(account, app, plugin).unwrap();
    let network = grants.iter().find(|grant| grant.capability == Network).unwrap();
    assert_eq!((&network.scope, network.granted_by.as_str()), (&hosts, "owner"));
    assert!(
        grants
            .iter()
            .all(|grant| grant.allows(grant.capability, CODE) != grant.denied)
    );

    db.decide(account, app, plugin, CHANGED, &[(Llm, vec![])], &[], "command-line")
        .unwrap();
    for (capability, want) in [(Network, Asked), (Llm, Granted), (Zip, Asked), (Fs, Asked)] {
        assert_eq!(state(capability, CHANGED), want, "{capability:?}");
    }
    assert_eq!(state(Llm, CODE), Stale);
}

#[test]
fn what_is_taken_back_is_denied_for_any_code() {
    let house = house();
    let (db, account, app, plugin) = (&house.db, &house.account, &house.app, &house.plugin);
    use Capability::*;
    let both = [(Llm, vec![]), (Store, vec![])];
    db.decide(account, app, plugin, CODE, &both, &[], "owner").unwrap();
    assert!(db.revoke(account, app, plugin, Some(Llm), "command-line").unwrap());
    assert!(!db.revoke(account, app, plugin, Some(Llm), "owner").unwrap(), "already");
    assert!(
        !db.revoke(account, app, plugin, Some(Fs), "owner").unwrap(),
        "nobody had decided"
    );
    let state = |capability, code| {
        let grants = db.grants(account, app, plugin).unwrap();
        Grant::state(&grants, capability, &[], code)
    };
    for code in [CODE, CHANGED] {
        assert_eq!(state(Llm, code), GrantState::Denied);
        assert_eq!(state(Fs, code), GrantState::Denied);
    }
    assert_eq!(state(Store, CODE), GrantState::Granted);
    assert!(db.revoke(account, app, plugin, None, "owner").unwrap());
    assert_eq!(state(Store, CODE), GrantState::Denied);
    assert_eq!(state(Zip, CODE), GrantState::Asked);
    // Another plugin's decisions are its own.
    let q = common::plugin("q");
    db.decide(account, app, &q, CODE, &both, &[], "owner").unwrap();
    db.revoke(account, app, plugin, None, "owner").unwrap();
    assert!(db.grants(account, app, &q).unwrap().iter().all(|grant| !grant.denied));
}

#[test]
fn the_code_that_was_looked_at_is_kept() {
    let house = house();
    let (db, account, app, plugin) = (&house.db, &house.account, &house.app, &house.plugin);
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    assert_eq!(db.kept_code(account, app, plugin).unwrap(), None);
    let first = vec![file("plugin.js", "a\0\u{202e}\n"), file("lib/b.js", "")];
    db.keep_code(account, app, plugin, CODE, &first).unwrap();
    assert_eq!(db.kept_code(account, app, plugin).unwrap(), Some((CODE, first)));
    let second = vec![file("plugin.js", "c")];
    db.keep_code(account, app, plugin, CHANGED, &second).unwrap();
    assert_eq!(db.kept_code(account, app, plugin).unwrap(), Some((CHANGED, second)));
    let large = vec![file("plugin.js", &"x".repeat(KEPT_CODE_LIMIT as usize))];
    db.keep_code(account, app, plugin, CODE, &large).unwrap();
    assert_eq!(
        db.kept_code(account, app, plugin).unwrap(),
        None,
        "not the wrong one either"
    );
}

#[test]
fn plugins_are_on_until_turned_off() {
    let house = house();
    let (db, account, plugin) = (&house.db, &house.account, &house.plugin);
    let shelf = policy::AppId::shelf();
    assert!(db.plugin_enabled(account, &shelf, plugin).unwrap());
    db.set_plugin_enabled(account, &shelf, plugin, false).unwrap();
    db.set_plugin_enabled(account, &house.app, plugin, false).unwrap();
    db.set_plugin_enabled(account, &house.app, plugin, true).unwrap();
    assert!(!db.plugin_enabled(account, &shelf, plugin).unwrap());
    assert!(db.plugin_enabled(account, &house.app, plugin).unwrap());
    let off = db.disabled_plugins(account).unwrap();
    assert_eq!(off, [("_".to_owned(), "p".to_owned())].into());
}

#[test]
fn secrets_are_names_and_origins() {
    let house = house();
    let (db, account, app) = (&house.db, &house.account, &house.app);
    let (p, q) = (&house.plugin, &plugin("q"));
    db.note_plugin_secret(account, app, p, "key", "https://a.example")
        .unwrap();
    db.note_plugin_secret(account, app, p, "key", "https://b.example")
        .unwrap();
    db.note_plugin_secret(account, app, q, "key", "https://c.example")
        .unwrap();
    db.note_plugin_secret(account, app, p, "another", "https://a.example")
        .unwrap();
    let origin = |plugin, name| db.plugin_secret(account, app, plugin, name).unwrap();
    assert_eq!(origin(p, "key").as_deref(), Some("https://b.example"));
    assert_eq!(origin(q, "another"), None);
    let list = db.plugin_secrets(account, app, p).unwrap();
    let names: Vec<_> = list.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(names, ["another", "key"]);
    assert!(list.iter().all(|secret| secret.plugin == "p" && secret.added_at > 0));
    assert_eq!(db.app_secrets(account, app).unwrap().len(), 3);
    assert!(db.forget_plugin_secret(account, app, p, "key").unwrap());
    assert!(!db.forget_plugin_secret(account, app, p, "key").unwrap());
    assert_eq!(origin(p, "key"), None);
    assert_eq!(origin(q, "key").as_deref(), Some("https://c.example"));
}

#[test]
fn an_update_stays_until_it_is_dealt_with() {
    let house = house();
    let (db, account, plugin) = (&house.db, &house.account, &house.plugin);
    let (one, two) = (&house.app, &app("two"));
    db.note_update(account, one, plugin, "1.0.0", "1.1.0").unwrap();
    db.note_update(account, two, plugin, "3", "4").unwrap();
    db.update_failed(account, one, plugin, "no such table").unwrap();
    let pending = |app: &policy::AppId| {
        let mut all = db.pending_updates(account).unwrap().into_iter();
        let found = all.find(|update| update.app == app.as_str())?;
        Some((found.from, found.to, found.error))
    };
    assert_eq!(
        pending(one),
        Some(("1.0.0".into(), "1.1.0".into(), Some("no such table".into())))
    );
    db.note_update(account, one, plugin, "1.1.0", "2.0.0").unwrap();
    assert_eq!(
        pending(one),
        Some(("1.0.0".into(), "2.0.0".into(), None)),
        "both as one"
    );
    db.update_done(account, one, plugin).unwrap();
    assert_eq!(pending(one), None);
    assert_eq!(pending(two), Some(("3".into(), "4".into(), None)));
    db.update_failed(account, one, plugin, "late").unwrap();
    assert_eq!(pending(one), None, "a failure makes no update");
}

#[test]
fn activity_is_found_by_what_is_asked_for() {
    let house = house();
    let (db, account) = (&house.db, &house.account);
    let add = |kind, caller: &str, trace: &str, outcome: &str| {
        db.add_activity(&NewActivity {
            account: Some(account.clone()),
            kind,
            caller: caller.into(),
            chain: format!("owner > {caller}"),
            trace: trace.into(),
            app: Some("app".into()),
            target: "t".into(),
            outcome: outcome.into(),
            detail: None,
        })
        .unwrap()
    };
    let model = add("model", "app:app", "t1", "running");
    let error = add("error", "plugin:app/p", "t1", "failed");
    let newer = add("error", "plugin:app/p", "t2", "failed");
    let others = add("error", "plugin:app/q", "t2", "failed");
    db.finish_activity(
        model,
        &ActivityEnd {
            outcome: "done",
            model: Some("m-1"),
            tokens_in: Some(12),
            tokens_out: Some(34),
            cost: Some(0.25),
            ..Default::default()
        },
    )
    .unwrap();
    let find = |change: &dyn Fn(&mut ActivityFilter)| -> Vec<i64> {
        let mut filter = ActivityFilter {
            limit: 10,
            ..Default::default()
        };
        change(&mut filter);
        let found = db.activity(account, &filter).unwrap();
        found.into_iter().map(|line| line.id).collect()
    };
    assert_eq!(find(&|f| f.outcome = Some("failed".into())), [others, newer, error]);
    assert_eq!(find(&|f| f.caller = Some("plugin:app/p".into())), [newer, error]);
    assert_eq!(find(&|f| f.trace = Some("t1".into())), [error, model]);
    assert_eq!(
        find(&|f| (f.trace, f.kind) = (Some("t1".into()), Some("model".into()))),
        [model]
    );
    assert_eq!(find(&|f| f.since = Some(0)).len(), 4);
    assert_eq!(find(&|f| f.since = Some(db::now_ms() + 60_000)), [] as [i64; 0]);

    let errors = db.activity_errors(account, &house.app, "plugin:app/p", 1).unwrap();
    assert_eq!(errors.iter().map(|line| line.id).collect::<Vec<_>>(), [newer]);

    let lines = db
        .activity(
            account,
            &ActivityFilter {
                limit: 1,
                kind: Some("model".into()),
                ..Default::default()
            },
        )
        .unwrap();
    let json = serde_json::to_value(&lines[0]).unwrap();
    for (field, want) in [
        ("trace", serde_json::json!("t1")),
        ("chain", "owner > app:app".into()),
        ("model", "m-1".into()),
        ("tokensIn", 12.into()),
        ("tokensOut", 34.into()),
        ("cost", 0.25.into()),
    ] {
        assert_eq!(json[field], want, "{field}");
    }
}
