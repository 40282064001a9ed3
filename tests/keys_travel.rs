//! A key that was saved for A is never sent to B, on the built program: changed addresses, redirects, imports. failures.md
//! C.2 row 15. Proxies and keys in the environment stand by all the while.

mod keys;

use std::process::Command;
use std::sync::{Arc, Mutex};

use keys::*;
use serde_json::{Value, json};
use testkit::ModelServer;

#[test]
fn regress_15_a_changed_address_takes_no_key_along() {
    let house = House::open();
    let (a, b) = (house.a.url(), house.b.url());
    for (from, to) in [
        (a.clone(), b.clone()),
        (a.clone(), a.replace("127.0.0.1", "localhost")),
        (a.clone(), a.replace("http:", "https:")),
        (a.clone(), format!("http://127.0.0.1.nip.example:{}/v1", house.a.port)),
        (a.replace("/v1", "/acct/one/v1"), a.replace("/v1", "/acct/two/v1")),
        (a.replace("/v1", "/acct/one"), a.replace("/v1", "/acct/one-more")),
        (a.replace("/v1", "/acct/one"), a.replace("/v1", "/acct/one/../two")),
        (a.replace("/v1", "/acct/one"), a.replace("/v1", "/acct/one/%2e%2e/two")),
        (a.replace("/v1", "/acct/one"), a.replace("/v1", "/acct/one/..%2ftwo")),
        (a.replace("/v1", "/acct/one"), a.clone()),
    ] {
        let id = house.connect(&from);
        house.use_it(&id);
        assert!(house.arrived() >= 2, "{from}: the key is not used at its own address");
        house.forget();
        let changed = house.change(&id, &json!({"baseUrl": to}));
        assert_eq!(changed["connection"]["hasKey"], false, "{from} to {to}: {changed}");
        assert!(
            changed["notice"].as_str().unwrap().contains("key was forgotten"),
            "{changed}"
        );
        house.use_it(&id);
        assert_eq!(house.arrived(), 0, "{from} to {to}");
        // Back again it is not there either: it is deleted, not hidden.
        let back = house.change(&id, &json!({"baseUrl": from}));
        assert_eq!(back["connection"]["hasKey"], false, "{to} to {from}: {back}");
        house.use_it(&id);
        assert_eq!(house.arrived(), 0, "{to} and back to {from}");
        house.forget_connection(&id);
    }
    // A key that comes with the change is for the new address alone.
    let id = house.connect(&a);
    house.forget();
    let changed = house.change(&id, &json!({"baseUrl": b, "key": "sk-for-b"}));
    assert_eq!(changed["connection"]["hasKey"], true);
    house.use_it(&id);
    assert_eq!(house.arrived(), 0);
    let seen = house.b.seen();
    assert!(
        !seen.is_empty() && seen.iter().all(|one| one.header("authorization") == "Bearer sk-for-b"),
        "{seen:?}"
    );
    // A key that is refused changes nothing: neither the address nor the old key.
    let id = house.connect(&a);
    let refused = house.owner.send(
        "PATCH",
        &format!("{CONNECTIONS}/{id}"),
        &json!({"baseUrl": house.b.url(), "key": "two\nlines"}),
    );
    assert!(refused.error(400).contains("line break"));
    assert_eq!(house.connection(&id)["baseUrl"], a);
    assert_eq!(house.connection(&id)["hasKey"], true);
}

#[test]
fn regress_15_no_redirect_is_followed_with_a_key() {
    let to: Arc<Mutex<(u16, String)>> = Arc::default();
    let now = to.clone();
    let a = ModelServer::everything(move |seen, out| {
        let (status, to) = now.lock().unwrap().clone();
        if seen.target.contains("/acct/two") {
            return model(seen, out);
        }
        out.raw(&format!(
            "HTTP/1.1 {status} Scripted\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ));
    });
    let house = House::with(a);
    let id = house.connect(&house.a.url().replace("/v1", "/acct/one/v1"));
    let (own, other) = (house.a.port, house.b.port);
    for status in [301, 302, 303, 307, 308] {
        for target in [
            format!("http://127.0.0.1:{other}/v1/models"),
            format!("http://localhost:{own}/acct/one/v1/models"),
            format!("https://127.0.0.1:{own}/acct/one/v1/models"),
            format!("//127.0.0.1:{other}/v1/models"),
            format!("http://127.0.0.1:{own}/acct/two/v1/models"),
            "/acct/two/v1/models".to_owned(),
            "../../two/v1/models".to_owned(),
        ] {
            *to.lock().unwrap() = (status, target.clone());
            house.forget();
            let said = house.use_it(&id);
            assert!(said.contains("redirect"), "{status} {target}: {said}");
            assert!(house.arrived() >= 1, "{status} {target}");
            assert!(house.b.seen().is_empty(), "{status} {target}: {:?}", house.b.seen());
            let two = house.a.seen().iter().filter(|one| one.target.contains("two")).count();
            assert_eq!(two, 0, "{status} {target}");
        }
    }
}

/// What someone gives away as "my settings" names other addresses for things one has, and hopes for their keys.
#[test]
fn regress_15_an_imported_connection_brings_no_key() {
    let house = House::open();
    let id = house.connect(&house.a.url());
    house.forget();
    let b = house.b.url();
    // With the id of a connection that has a key, in every field that could be meant as one.
    let import = json!({
        "id": id, "connection": id, "keyId": id, "hasKey": true, "keyKept": "keychain", "name": "a", "baseUrl": b,
        "headers": {"authorization": "Bearer {{key}}"},
    });
    let added = house.owner.post(CONNECTIONS, &import).ok();
    let new = added["connection"]["id"].as_str().unwrap().to_owned();
    assert_ne!(new, id);
    assert_eq!(
        (&added["connection"]["hasKey"], &added["connection"]["keyKept"]),
        (&json!(false), &Value::Null)
    );
    house.use_it(&new);
    assert!(house.b.seen().iter().all(|one| is_no_key(one.header("authorization"))));
    // The name of a well-known service with another address.
    for preset in ["openai", "anthropic", "openrouter", "ollama"] {
        let reply = house.owner.post(CONNECTIONS, &json!({"preset": preset, "baseUrl": b}));
        if reply.status == 201 {
            let id = reply.json()["connection"]["id"].as_str().unwrap().to_owned();
            assert_eq!(reply.json()["connection"]["hasKey"], false, "{preset}");
            house.use_it(&id);
        }
    }
    // Changes of the connection that has the key.
    assert!(house.arrived() >= 1, "the list of models asks A with its key");
    for change in [
        json!({"preset": "openai"}),
        json!({"api": "anthropic-messages"}),
        json!({"api": "google-generative-ai"}),
        json!({"api": "openai-completions"}),
        json!({"name": "b", "models": ["m"]}),
        json!({"id": new, "hasKey": true}),
    ] {
        house.forget();
        let reply = house.owner.send("PATCH", &format!("{CONNECTIONS}/{id}"), &change);
        if reply.status == 200 {
            house.use_it(&id);
            house.arrived();
        }
        assert!(
            house.b.seen().iter().all(|one| !one.whole().contains(&house.key)),
            "{change}"
        );
    }
    for change in [
        json!({"preset": "openai", "baseUrl": b}),
        json!({"api": "anthropic-messages", "baseUrl": b}),
        json!({"api": "google-generative-ai", "baseUrl": b.replace("/v1", "/v1beta")}),
    ] {
        let keyed = json!({"api": "openai-completions", "baseUrl": house.a.url(), "key": house.key});
        assert_eq!(house.change(&id, &keyed)["connection"]["hasKey"], true);
        house.forget();
        let reply = house.owner.send("PATCH", &format!("{CONNECTIONS}/{id}"), &change);
        if reply.status == 200 {
            assert_eq!(reply.json()["connection"]["hasKey"], false, "{change}");
            house.use_it(&id);
        }
        assert_eq!(house.arrived(), 0, "{change}");
    }
}

/// Gives every connection in the database `argv[1]` the address `argv[2]`.
const POINT: &str = "\
import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
assert d.execute('UPDATE connections SET base_url = ?', (sys.argv[2],)).rowcount == 1
d.commit()
";

/// A database that came from elsewhere, or was changed behind the program's back, points a connection to B. What the key
/// is for stands beside the key, not in the database.
#[test]
fn regress_15_a_changed_database_moves_no_key() {
    let mut house = House::open();
    let phrase = json!({"store": "encrypted", "passphrase": "a long passphrase"});
    house.owner.send("PUT", "/v1/settings/keys", &phrase).ok();
    let id = house.connect(&house.a.url());
    house.running.stop();
    let changed = Command::new("python3")
        .args(["-c", POINT])
        .arg(house.home.database())
        .arg(house.b.url())
        .status();
    assert!(changed.unwrap().success());
    house.running = house.home.start(House::command(&house.home, &house.proxy));
    house.owner = house.running.login();
    house.page = house.running.page(&house.owner, "chat");
    let unlock = json!({"passphrase": "a long passphrase"});
    house.owner.post("/v1/settings/keys/unlock", &unlock).ok();
    house.forget();
    // It is asked for nothing, with or without a key, until the person has looked at it.
    let told = house.use_it(&id);
    assert!(told.contains("is not sent to this address"), "{told}");
    assert!(house.b.seen().is_empty());
    assert_eq!(house.arrived(), 0);
    let connection = house.connection(&id);
    assert_eq!(connection["hasKey"], false, "{connection}");
    let said = connection["keyTrouble"].as_str().unwrap();
    assert!(
        said.contains(&format!("for http://127.0.0.1:{}", house.a.port)),
        "{said}"
    );
    assert_eq!(
        house.change(&id, &json!({"name": "still b"}))["connection"]["hasKey"],
        false
    );
    house.use_it(&id);
    assert_eq!(house.arrived(), 0);
}
