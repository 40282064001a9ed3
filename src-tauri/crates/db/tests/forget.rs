//! What is removed leaves nothing behind. The tables are read from the database itself, so that a new one cannot be
//! forgotten: it has to be filled here, and then has to be empty.

mod common;

use common::{House, app, house, plugin};
use db::{Db, NewActivity, STORE_QUOTA, Span, SpendLimitRow, SpendLimits, Spender, Spent, Usage, UsageLimits};
use policy::{AccountId, AppId, Capability, CodeHash, PluginId};
use rusqlite::Connection;

/// The log outlives what it is about.
const STAYS: &str = "activity";

fn fill(db: &Db, account: &AccountId, app: &AppId, plugin: &PluginId) {
    let code = CodeHash([1; 32]);
    db.note_install(account, app, "box", "head").unwrap();
    db.decide(account, app, plugin, code, &[(Capability::Llm, vec![])], &[], "owner")
        .unwrap();
    db.keep_code(account, app, plugin, code, &[("plugin.js".into(), "1".into())])
        .unwrap();
    db.set_plugin_enabled(account, app, plugin, false).unwrap();
    db.note_plugin_secret(account, app, plugin, "key", "https://a.example")
        .unwrap();
    db.note_update(account, app, plugin, "1", "2").unwrap();
    db.store_put(account, app, plugin, "k", "1", STORE_QUOTA).unwrap();
    db.put_page_item(account, app, "k", Some("1")).unwrap();
    db.add_asset(account, Some(app), "id", "image/png", "n", 1).unwrap();
    let one = Usage {
        model_calls: 1,
        ..Default::default()
    };
    db.add_usage(account, app, 100, &one).unwrap();
    db.set_budgets(account, app, Some(&UsageLimits::default())).unwrap();
    db.add_activity(&NewActivity {
        account: Some(account.clone()),
        kind: "error",
        app: Some(app.to_string()),
        ..Default::default()
    })
    .unwrap();
    let settings = [("language".to_owned(), "en".into())].into_iter().collect();
    db.put_settings(account, &settings).unwrap();
    db.add_session(policy::random_hex(32).as_bytes(), account, 60_000)
        .unwrap();
    let row = db::ConnectionRow {
        id: "c".into(),
        name: "c".into(),
        api: "openai".into(),
        base_url: "http://localhost".into(),
        models: Default::default(),
        preset: None,
        prompt_format: None,
    };
    db.put_connection(account, &row).unwrap();
    let endpoint = db::SpeechEndpointRow {
        id: "s".into(),
        name: "s".into(),
        base_url: "http://localhost".into(),
        model: None,
        voice: None,
    };
    db.put_speech_endpoint(account, &endpoint).unwrap();
    db.set_context_window(account, "c/m", Some(8192)).unwrap();
    db.set_model_access(account, app, Some(&["c".to_owned()])).unwrap();
    let one = Spent {
        priced_calls: 1,
        cost_micros: 7,
        ..Default::default()
    };
    db.add_spend(account, &Spender::App(app.clone()), 100, &one).unwrap();
    let limit = SpendLimitRow {
        app: Some(app.clone()),
        span: Span::Day,
        limits: SpendLimits {
            images: Some(1),
            ..Default::default()
        },
    };
    db.put_spend_limits(account, &[limit]).unwrap();
}

/// Tables that have a column of this name.
fn tables_with(house: &House, column: &str) -> Vec<String> {
    let connection = Connection::open(&house.path).unwrap();
    let mut statement = connection
        .prepare(
            "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND c.name = ?1 AND m.name <> ?2",
        )
        .unwrap();
    let rows = statement.query_map([column, STAYS], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Rows of `table` for which all the columns have these values.
fn count(house: &House, table: &str, columns: &[(&str, &str)]) -> i64 {
    let mut sql = format!("SELECT count(*) FROM {table} WHERE 1");
    for (at, (column, _)) in columns.iter().enumerate() {
        sql.push_str(&format!(" AND {column} = ?{}", at + 1));
    }
    let values = rusqlite::params_from_iter(columns.iter().map(|(_, value)| value));
    Connection::open(&house.path)
        .unwrap()
        .query_row(&sql, values, |row| row.get(0))
        .unwrap()
}

#[test]
fn forgetting_an_app_clears_every_table_with_apps() {
    let house = house();
    let (db, account, other) = (&house.db, &house.account, app("other"));
    fill(db, account, &house.app, &house.plugin);
    fill(db, account, &house.app, &plugin("q"));
    fill(db, account, &other, &house.plugin);
    let tables = tables_with(&house, "app");
    assert!(tables.len() >= 12, "{tables:?}");
    for table in &tables {
        assert!(count(&house, table, &[("app", "app")]) > 0, "fill {table} in this test");
    }
    db.forget_app(account, &house.app).unwrap();
    for table in &tables {
        assert_eq!(count(&house, table, &[("app", "app")]), 0, "forget_app leaves {table}");
        assert!(
            count(&house, table, &[("app", "other")]) > 0,
            "forget_app takes another app's {table}"
        );
    }
    assert!(count(&house, STAYS, &[("app", "app")]) > 0);
}

#[test]
fn forgetting_a_plugin_clears_every_table_with_plugins() {
    let house = house();
    let (db, account, other) = (&house.db, &house.account, plugin("q"));
    fill(db, account, &house.app, &house.plugin);
    fill(db, account, &house.app, &other);
    fill(db, account, &app("other"), &house.plugin);
    let tables = tables_with(&house, "plugin");
    assert!(tables.len() >= 7, "{tables:?}");
    let of = |app, plugin| [("app", app), ("plugin", plugin)];
    for table in &tables {
        assert!(count(&house, table, &of("app", "p")) > 0, "fill {table} in this test");
    }
    db.forget_plugin(account, &house.app, &house.plugin).unwrap();
    for table in &tables {
        assert_eq!(count(&house, table, &of("app", "p")), 0, "forget_plugin leaves {table}");
        for (app, plugin) in [("app", "q"), ("other", "p")] {
            assert!(
                count(&house, table, &of(app, plugin)) > 0,
                "forget_plugin takes {app}/{plugin}'s {table}"
            );
        }
    }
    assert!(!db.usage(account, &house.app, 100).unwrap().eq(&Usage::default()));
}

#[test]
fn an_accounts_rows_go_with_it() {
    let house = house();
    let other = AccountId::random();
    house.db.add_account(&other, "bob", "user").unwrap();
    for account in [&house.account, &other] {
        fill(&house.db, account, &house.app, &house.plugin);
    }
    let tables = tables_with(&house, "account");
    assert!(tables.len() >= 15, "{tables:?}");
    for table in &tables {
        assert!(
            count(&house, table, &[("account", house.account.as_str())]) > 0,
            "fill {table} in this test"
        );
    }
    let connection = Connection::open(&house.path).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection
        .execute("DELETE FROM accounts WHERE id = ?1", [house.account.as_str()])
        .unwrap();
    for table in &tables {
        assert_eq!(
            count(&house, table, &[("account", house.account.as_str())]),
            0,
            "{table} does not follow its account"
        );
        assert!(count(&house, table, &[("account", other.as_str())]) > 0, "{table}");
    }
}
