//! Databases of earlier formats, with rows, come up to date whole.

use db::{ActivityFilter, Db, Usage, VERSION};
use policy::{AccountId, AppId, Capability, CodeHash, Grant, GrantState, PluginId};
use rusqlite::{Connection, params};

const CODE: CodeHash = CodeHash([7; 32]);

/// What the first format's program wrote.
fn first_format(path: &std::path::Path, account: &AccountId) {
    let old = Connection::open(path).unwrap();
    old.pragma_update(None, "journal_mode", "WAL").unwrap();
    old.execute_batch(include_str!("../src/schema/1.sql")).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old.execute(
        "INSERT INTO accounts VALUES (?1, 'Ann', 'ann', NULL, 'admin', 5)",
        [account.as_str()],
    )
    .unwrap();
    for word in ["network", "store", "a word from nowhere"] {
        old.execute(
            "INSERT INTO grants VALUES (?1, 'chat', 'p', ?2, ?3, 6, 'owner')",
            params![account.as_str(), word, CODE.0.as_slice()],
        )
        .unwrap();
    }
    old.execute(
        "INSERT INTO store VALUES (?1, 'chat', 'p', 'key', '[1]')",
        [account.as_str()],
    )
    .unwrap();
    old.execute("INSERT INTO store_size VALUES (?1, 'chat', 'p', 6)", [account.as_str()])
        .unwrap();
    old.execute(
        "INSERT INTO activity (at, account, kind, caller, chain, trace, app, target, outcome)
         VALUES (9, ?1, 'model', 'app:chat', 'owner > app:chat', 't', 'chat', 'm', 'done')",
        [account.as_str()],
    )
    .unwrap();
}

#[test]
fn the_first_format_keeps_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let account = AccountId::random();
    first_format(&path, &account);
    let opened = Db::open(&path).unwrap();
    assert!(opened.set_aside.is_none());
    let db = opened.db;
    let (app, plugin) = (AppId::parse("chat").unwrap(), PluginId::parse("p").unwrap());

    assert_eq!(db.account(&account).unwrap().unwrap().username, "Ann");
    let grants = db.grants(&account, &app, &plugin).unwrap();
    assert_eq!(grants.len(), 2, "{grants:?}");
    assert!(
        grants
            .iter()
            .all(|g| g.scope.is_empty() && !g.denied && g.granted_at == 6 && g.granted_by == "owner")
    );
    // A grant of the network said nothing of hosts, so it has to be looked at again; the others are as good as before.
    let hosts = ["a.example".to_owned()];
    assert_eq!(
        Grant::state(&grants, Capability::Network, &hosts, CODE),
        GrantState::Stale
    );
    assert_eq!(Grant::state(&grants, Capability::Store, &[], CODE), GrantState::Granted);

    assert_eq!(
        db.store_all(&account, &app, &plugin).unwrap(),
        [("key".to_owned(), "[1]".to_owned())]
    );
    assert_eq!(db.store_size(&account, &app, &plugin).unwrap(), 6);
    let filter = ActivityFilter {
        limit: 10,
        trace: Some("t".into()),
        ..Default::default()
    };
    let lines = db.activity(&account, &filter).unwrap();
    assert_eq!((lines.len(), lines[0].at, lines[0].tokens_in), (1, 9, None));
    assert!(db.plugin_enabled(&account, &app, &plugin).unwrap());
    assert_eq!(db.usage(&account, &app, 1).unwrap(), Usage::default());
    db.close();

    let again = Connection::open(&path).unwrap();
    let version: i64 = again
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, VERSION);
    assert_eq!(schema(&path), schema(&new(folder.path())), "one migrated and one new");
}

/// What the second format's program wrote: the first with what it added.
fn second_format(path: &std::path::Path, account: &AccountId) {
    first_format(path, account);
    let old = Connection::open(path).unwrap();
    old.execute_batch(include_str!("../src/schema/2.sql")).unwrap();
    old.pragma_update(None, "user_version", 2).unwrap();
    for sql in [
        r#"INSERT INTO connections VALUES (?1, 'c_home-abcdef', 'Home', 'openai-completions', 'http://localhost/v1', '["a"]', 7)"#,
        "INSERT INTO usage VALUES (?1, 'chat', 20000, 3, 400, 5000)",
        "INSERT INTO budgets VALUES (?1, 'chat', 9, NULL, 8, 7)",
        "UPDATE activity SET model = 'c_home-abcdef/a', tokens_in = 4, tokens_out = 5, cost = 0.25 WHERE account = ?1",
    ] {
        assert_eq!(old.execute(sql, [account.as_str()]).unwrap(), 1, "{sql}");
    }
}

#[test]
fn the_second_format_keeps_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let account = AccountId::random();
    second_format(&path, &account);
    let opened = Db::open(&path).unwrap();
    assert!(opened.set_aside.is_none());
    let (db, app) = (opened.db, AppId::parse("chat").unwrap());
    let connections = db.connections(&account).unwrap();
    assert_eq!(connections.len(), 1);
    let row = &connections[0];
    assert_eq!((row.id.as_str(), row.name.as_str()), ("c_home-abcdef", "Home"));
    assert_eq!(
        (row.models[0].as_str(), &row.preset, &row.prompt_format),
        (Some("a"), &None, &None)
    );
    let used = Usage {
        model_calls: 3,
        tokens: 400,
        network_bytes: 5000,
    };
    assert_eq!(db.usage(&account, &app, 20_000).unwrap(), used);
    let limits = db.budgets(&account, &app).unwrap().unwrap();
    assert_eq!(
        (limits.model_calls, limits.tokens, limits.disk_bytes),
        (Some(9), None, Some(7))
    );
    let filter = ActivityFilter {
        limit: 10,
        ..Default::default()
    };
    assert_eq!(db.activity(&account, &filter).unwrap()[0].cost, Some(0.25));
    // Nothing is limited or kept from an app by the step alone.
    assert_eq!(db.spend_limits(&account).unwrap(), []);
    assert_eq!(db.model_access(&account, &app).unwrap(), None);
    assert_eq!(db.speech_endpoints(&account).unwrap(), []);
    assert_eq!(db.spenders(&account, 0, i64::MAX).unwrap(), []);
    db.close();
    let again = Connection::open(&path).unwrap();
    let version: i64 = again
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, VERSION);
    assert_eq!(schema(&path), schema(&new(folder.path())), "one migrated and one new");
}

/// The same for the step that made the third format.
#[test]
fn a_third_step_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let account = AccountId::random();
    second_format(&path, &account);
    let old = Connection::open(&path).unwrap();
    // In the way of the last table it adds.
    old.execute_batch("CREATE TABLE spend_limits (x)").unwrap();
    drop(old);
    let before = schema(&path);
    let error = Db::open(&path).unwrap_err().to_string();
    assert!(error.contains("spend_limits"), "{error}");
    assert_eq!(schema(&path), before);
    let old = Connection::open(&path).unwrap();
    old.execute_batch("DROP TABLE spend_limits").unwrap();
    drop(old);
    assert_eq!(Db::open(&path).unwrap().db.connections(&account).unwrap().len(), 1);
}

fn new(folder: &std::path::Path) -> std::path::PathBuf {
    let path = folder.join("new.db");
    Db::open(&path).unwrap().db.close();
    path
}

fn schema(path: &std::path::Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let mut statement = connection
        .prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name")
        .unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// A step that fails half way leaves the file as it was, and the error names it.
#[test]
fn a_step_that_fails_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let account = AccountId::random();
    first_format(&path, &account);
    let old = Connection::open(&path).unwrap();
    // In the way of a table that the second format adds after changing another.
    old.execute_batch("CREATE TABLE budgets (x)").unwrap();
    drop(old);
    let before = schema(&path);
    let error = Db::open(&path).unwrap_err().to_string();
    assert!(error.contains("x.db") && error.contains("budgets"), "{error}");
    assert_eq!(schema(&path), before);
    let old = Connection::open(&path).unwrap();
    old.execute_batch("DROP TABLE budgets").unwrap();
    drop(old);
    assert_eq!(Db::open(&path).unwrap().db.usernames().unwrap(), ["Ann"]);
}
