//! Where keys are kept, over HTTP on the built program: chosen, refused with the reason, locked and unlocked, moved, and
//! deleted everywhere. failures.md C.6 row 45.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};
use testkit::folders::{files, holds};
use testkit::{Client, Home, ModelServer, Running};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
const SERVE: &[&str] = &["serve", "--port", "0", "--no-open"];
const KEYS: &str = "/v1/settings/keys";
const CONNECTIONS: &str = "/v1/settings/connections";
const PASSPHRASE: &str = "correct horse";

/// As on a machine without a Secret Service, where nobody has chosen anything.
fn without_keychain(home: &Home) -> Running {
    let mut command = home.command(SERVE);
    command.env_remove("CHRYSALIS_KEYCHAIN");
    home.start(command)
}

fn choose(owner: &Client, store: &str, passphrase: Option<&str>) -> testkit::Reply {
    let mut body = json!({"store": store});
    if let Some(passphrase) = passphrase {
        body["passphrase"] = passphrase.into();
    }
    owner.send("PUT", KEYS, &body)
}

fn add(owner: &Client, base: &str, key: &str) -> (String, Value) {
    let body = json!({"baseUrl": base, "key": key});
    let connection = owner.post(CONNECTIONS, &body).ok()["connection"].clone();
    (
        format!("{CONNECTIONS}/{}", connection["id"].as_str().unwrap()),
        connection,
    )
}

fn kept(owner: &Client) -> Vec<Value> {
    let listed = owner.get(CONNECTIONS).ok();
    let all = listed["connections"].as_array().unwrap().iter();
    all.map(|one| one["keyKept"].clone()).collect()
}

/// The different keys that A was asked for its models with.
fn sent(owner: &Client, a: &ModelServer) -> Vec<String> {
    a.forget();
    owner.get("/v1/models?fresh=1").ok();
    let mut sent: Vec<String> = a
        .seen()
        .iter()
        .map(|one| one.header("authorization").to_owned())
        .collect();
    sent.dedup();
    sent
}

#[test]
fn a_passphrase_is_chosen_locked_unlocked_and_left() {
    let a = ModelServer::saying(&["fine"]);
    let home = Home::new(PROGRAM);
    let mut running = without_keychain(&home);
    let owner = running.set_up();
    let state = owner.get(KEYS).ok();
    assert_eq!(
        (
            &state["store"],
            &state["chosen"],
            &state["keychain"]["usable"],
            &state["keychain"]["locked"]
        ),
        (&Value::Null, &json!(false), &json!(false), &json!(false)),
        "{state}"
    );
    assert_eq!(state["encrypted"], json!({"exists": false, "unlocked": false}));
    assert_eq!(state["file"], json!({"path": null, "reason": null}));
    for (store, passphrase, status, words) in [
        ("encrypted", None, 400, "at least 8"),
        ("encrypted", Some("short"), 400, "at least 8"),
        ("encrypted", Some("ääääääX"), 400, "at least 8"),
        ("encrypted", Some(&*"x".repeat(2000)), 400, "at most 1024"),
        ("file", None, 400, "config.toml"),
        ("cloud", None, 400, "not in \"cloud\""),
        ("", None, 400, "not in"),
        ("keychain", None, 409, "no keychain"),
    ] {
        let said = choose(&owner, store, passphrase).error(status);
        assert!(said.contains(words), "{store} {passphrase:?}: {said}");
        assert_eq!(owner.get(KEYS).ok(), state, "a refused choice changed something");
    }
    let state = choose(&owner, "encrypted", Some(PASSPHRASE)).ok();
    assert_eq!((&state["store"], &state["chosen"]), (&json!("encrypted"), &json!(true)));
    assert_eq!(state["encrypted"], json!({"exists": true, "unlocked": true}));
    let (target, connection) = add(&owner, &a.url(), "sk-sealed-1");
    assert_eq!(
        (&connection["keyKept"], &connection["keyTrouble"]),
        (&json!("encrypted"), &Value::Null)
    );
    assert_eq!(sent(&owner, &a), ["Bearer sk-sealed-1"]);

    // Locked by hand: at once, and in every list.
    let locked = owner.post(&format!("{KEYS}/lock"), &json!({})).ok();
    assert_eq!(locked["encrypted"], json!({"exists": true, "unlocked": false}));
    assert!(!sent(&owner, &a).contains(&"Bearer sk-sealed-1".to_owned()));
    let unlock = |passphrase: &str| owner.post(&format!("{KEYS}/unlock"), &json!({"passphrase": passphrase}));
    assert_eq!((unlock("wrong passphrase").status, unlock("").status), (403, 403));
    assert_eq!(owner.post(&format!("{KEYS}/unlock"), &json!({})).status, 400);
    unlock(PASSPHRASE).ok();
    assert_eq!(sent(&owner, &a), ["Bearer sk-sealed-1"]);

    // After a restart it is locked; leaving it then would lose keys, so that is refused.
    running.stop();
    running = without_keychain(&home);
    let owner = running.login();
    assert_eq!(kept(&owner), ["encrypted"]);
    let refused = choose(&owner, "run", None);
    assert_eq!((refused.status, refused.code().as_str()), (409, "key_store_locked"));
    assert_eq!(choose(&owner, "encrypted", Some("another one")).status, 403);
    choose(&owner, "encrypted", Some(PASSPHRASE)).ok();
    assert_eq!(sent(&owner, &a), ["Bearer sk-sealed-1"]);

    // Deleted while locked: gone, also from the file.
    let (other, _) = add(&owner, "http://127.0.0.1:9/v1", "sk-sealed-2");
    owner.post(&format!("{KEYS}/lock"), &json!({})).ok();
    owner.send("DELETE", &format!("{other}/key"), &json!({})).ok();
    assert_eq!(kept(&owner), [json!("encrypted"), Value::Null]);
    assert_eq!(owner.send("DELETE", &other, &json!({})).status, 204);
    owner
        .post(&format!("{KEYS}/unlock"), &json!({"passphrase": PASSPHRASE}))
        .ok();

    // Left: the keys move, the file goes.
    let state = choose(&owner, "run", None).ok();
    assert_eq!(
        (&state["store"], &state["encrypted"]["exists"]),
        (&json!("run"), &json!(false))
    );
    assert_eq!(kept(&owner), ["run"]);
    assert_eq!(sent(&owner, &a), ["Bearer sk-sealed-1"]);
    running.stop();
    running = without_keychain(&home);
    let owner = running.login();
    let state = owner.get(KEYS).ok();
    assert_eq!(
        (&state["store"], &state["chosen"]),
        (&json!("run"), &json!(true)),
        "the choice was not remembered"
    );
    assert_eq!(kept(&owner), [Value::Null]);

    // A forgotten passphrase: only by saying that the keys may go.
    choose(&owner, "encrypted", Some(PASSPHRASE)).ok();
    owner
        .send("PUT", &format!("{target}/key"), &json!({"key": "sk-sealed-3"}))
        .ok();
    owner.post(&format!("{KEYS}/lock"), &json!({})).ok();
    let anew = json!({"store": "encrypted", "passphrase": "a new one, better kept", "discard": true});
    owner.send("PUT", KEYS, &anew).ok();
    assert_eq!(kept(&owner), [Value::Null]);
    for path in files(home.folder()) {
        let bytes = std::fs::read(&path).unwrap();
        for word in ["sk-sealed", PASSPHRASE, "better kept"] {
            assert!(!holds(&bytes, word.as_bytes()), "{word} in {}", path.display());
        }
    }
}

#[test]
fn only_the_person_chooses_and_pages_learn_nothing() {
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let owner = running.set_up();
    running.add_from_box(&owner, "chat");
    let page = running.page(&owner, "chat");
    for (client, status) in [(&page, 403), (&running.nobody(), 401)] {
        let body = json!({"store": "run", "passphrase": PASSPHRASE});
        assert_eq!(client.get(KEYS).status, status);
        assert_eq!(client.send("PUT", KEYS, &body).status, status);
        assert_eq!(client.post(&format!("{KEYS}/unlock"), &body).status, status);
        assert_eq!(client.post(&format!("{KEYS}/lock"), &body).status, status);
    }
    let listed = page.get(CONNECTIONS).ok();
    assert_eq!((listed.get("keys"), listed.get("keychain")), (None, None), "{listed}");
    assert_eq!(running.command_line().get(KEYS).ok()["store"], "run");
    for bad in [
        "",
        "[]",
        "{",
        "{\"store\": 5}",
        "{\"store\": \"run\", \"passphrase\": []}",
        "{\"passphrase\": \"x\"}",
    ] {
        let reply = owner
            .ask("PUT", KEYS, &[("content-type", "application/json")], bad.as_bytes())
            .unwrap();
        assert!(matches!(reply.status, 400 | 422), "{bad}: {}", reply.text());
    }
    assert_eq!(owner.get(KEYS).ok()["store"], "run");
}

/// The file of a server: in a home that already has keys elsewhere it takes over, and nothing is kept elsewhere again.
#[test]
fn a_servers_file_is_the_configs_choice_alone() {
    let a = ModelServer::saying(&["fine"]);
    let home = Home::new(PROGRAM);
    // Relative to the home.
    home.configure("[keys]\nfile = \"server.keys\"\n");
    let path = home.path().join("server.keys");
    let mut running = home.serve();
    let owner = running.set_up();
    let state = owner.get(KEYS).ok();
    assert_eq!((&state["store"], &state["chosen"]), (&json!("file"), &json!(true)));
    assert_eq!(state["file"], json!({"path": path, "reason": null}));
    let (target, connection) = add(&owner, &a.url(), "sk-server-1");
    assert_eq!(connection["keyKept"], "file");
    for store in ["run", "encrypted", "keychain", "file"] {
        let refused = choose(&owner, store, Some(PASSPHRASE));
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (409, "configured"),
            "{store}"
        );
    }
    running.stop();
    running = home.serve();
    let owner = running.login();
    assert_eq!(sent(&owner, &a), ["Bearer sk-server-1"]);
    running.stop();

    let refused = |words: &str| {
        let mut running = home.serve();
        let owner = running.login();
        let reason = owner.get(KEYS).ok()["file"]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(reason.contains(words), "{words}: {reason}");
        let reply = owner.send("PUT", &format!("{target}/key"), &json!({"key": "sk-server-2"}));
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (409, "key_store_locked"),
            "{words}"
        );
        assert!(reply.error(409).contains(words));
        assert!(
            !sent(&owner, &a).contains(&"Bearer sk-server-1".to_owned()),
            "{words}: it was used all the same"
        );
        running.stop();
    };
    let mode = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    mode(&path, 0o640);
    refused("must have 0600");
    mode(&path, 0o600);
    let real = home.folder().join("elsewhere");
    std::fs::rename(&path, &real).unwrap();
    symlink(&real, &path).unwrap();
    refused("symbolic link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("not a plain file");
    std::fs::remove_dir(&path).unwrap();
    std::fs::rename(&real, &path).unwrap();
    running = home.serve();
    let owner = running.login();
    assert_eq!(sent(&owner, &a), ["Bearer sk-server-1"]);
    assert_eq!(owner.send("DELETE", &target, &json!({})).status, 204);
    assert!(!std::fs::read_to_string(&path).unwrap().contains("sk-server"));
}

/// With GNOME Keyring on a bus of its own and nobody who could type its password.
fn with_keyring(home: &Home, how: &str) -> Running {
    let script = format!("{how} >/dev/null && exec \"$0\" \"$@\"");
    let mut command = home.command_under(&["dbus-run-session", "--", "bash", "-c", &script], SERVE);
    let run = home.folder().join("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
    command
        .env_remove("CHRYSALIS_KEYCHAIN")
        .env("XDG_DATA_HOME", home.folder().join("data"))
        .env("XDG_RUNTIME_DIR", &run);
    home.start(command)
}

const UNLOCKED: &str = "printf pw | gnome-keyring-daemon --unlock --components=secrets";
const LOCKED: &str = "gnome-keyring-daemon --start --components=secrets";

/// failures.md row 45: a locked keyring is said to be locked, keeps nobody waiting, and a key that was deleted meanwhile
/// is not in it afterwards.
#[test]
fn regress_45_a_locked_keyring_is_said_and_deletes_later() {
    let a = ModelServer::saying(&["fine"]);
    let home = Home::new(PROGRAM);
    let mut running = with_keyring(&home, UNLOCKED);
    let owner = running.set_up();
    assert_eq!(owner.get(KEYS).ok()["store"], "keychain");
    let (first, connection) = add(&owner, &a.url(), "sk-ring-1");
    assert_eq!(connection["keyKept"], "keychain");
    let (second, _) = add(&owner, "http://127.0.0.1:9/v1", "sk-ring-2");
    running.stop();

    running = with_keyring(&home, LOCKED);
    let began = std::time::Instant::now();
    let owner = running.login();
    let state = owner.get(KEYS).ok();
    assert_eq!(
        (
            &state["store"],
            &state["keychain"]["usable"],
            &state["keychain"]["locked"]
        ),
        (&Value::Null, &json!(false), &json!(true)),
        "{state}"
    );
    let listed = owner.get(CONNECTIONS).ok();
    for connection in listed["connections"].as_array().unwrap() {
        assert_eq!(
            (&connection["hasKey"], &connection["keyKept"]),
            (&json!(true), &json!("keychain"))
        );
        assert!(
            connection["keyTrouble"].as_str().unwrap().contains("locked"),
            "{connection}"
        );
    }
    assert!(!sent(&owner, &a).contains(&"Bearer sk-ring-1".to_owned()));
    let again = owner.post(&format!("{KEYS}/unlock"), &json!({}));
    assert_eq!((again.status, again.code().as_str()), (409, "key_store_locked"));
    let save = owner.send("PUT", &format!("{second}/key"), &json!({"key": "sk-new"}));
    assert_eq!((save.status, save.code().as_str()), (409, "choose_key_store"));
    let deleted = owner.send("DELETE", &format!("{second}/key"), &json!({})).ok();
    assert_eq!(deleted["connection"]["hasKey"], false);
    assert!(
        deleted["notice"].as_str().unwrap().contains("still in the keychain"),
        "{deleted}"
    );
    // Another place for the time being: nothing is lost by it.
    let chosen = choose(&owner, "run", None).ok();
    assert!(
        chosen["notice"]
            .as_str()
            .unwrap()
            .starts_with("1 saved key could not be read"),
        "{chosen}"
    );
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    running.stop();

    running = with_keyring(&home, UNLOCKED);
    let owner = running.login();
    assert_eq!(kept(&owner), [Value::Null, Value::Null]);
    choose(&owner, "keychain", None).ok();
    assert_eq!(
        kept(&owner),
        [json!("keychain"), Value::Null],
        "the deleted one came back"
    );
    assert_eq!(sent(&owner, &a), ["Bearer sk-ring-1"]);
    assert_eq!(owner.send("DELETE", &first, &json!({})).status, 204);
    running.stop();
}

/// Keys as people paste them: white space around is dropped, everything else is refused with the reason, and the key that
/// was there stays.
#[test]
fn what_is_no_key_is_refused_with_the_reason() {
    let a = ModelServer::saying(&["fine"]);
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let owner = running.set_up();
    let (target, _) = add(&owner, &a.url(), " \t sk-pasted\r\n");
    assert_eq!(sent(&owner, &a), ["Bearer sk-pasted"]);
    for (bad, words) in [
        ("", "empty"),
        (" \r\n ", "empty"),
        ("sk-1\nsk-2", "line break"),
        ("sk-1\r\nX-Evil: 1", "line break"),
        ("sk-1\u{2028}sk-2", "line break"),
        ("Bearer sk-1", "Bearer"),
        ("x-api-key: sk-1", "header"),
        ("\"sk-1\"", "quotation marks"),
        ("OPENAI_API_KEY=sk-1", "behind the ="),
        ("sk-schlüssel", "characters that no key has"),
        ("sk 1", "spaces"),
        ("sk-\u{202e}1", "characters that no key has"),
        (&"x".repeat(4097), "longer than 4096"),
    ] {
        for (method, target, body) in [
            ("PUT", format!("{target}/key"), json!({"key": bad})),
            ("PATCH", target.clone(), json!({"key": bad, "name": "changed"})),
            ("POST", CONNECTIONS.to_owned(), json!({"key": bad, "baseUrl": a.url()})),
        ] {
            let said = owner.send(method, &target, &body).error(400);
            assert!(said.contains(words), "{method} {bad:?}: {said}");
            assert!(
                bad.trim().is_empty() || !said.contains(bad.trim()),
                "it was repeated: {said}"
            );
        }
    }
    let listed = owner.get(CONNECTIONS).ok();
    assert_eq!(listed["connections"].as_array().unwrap().len(), 1);
    assert_ne!(listed["connections"][0]["name"], "changed");
    assert_eq!(sent(&owner, &a), ["Bearer sk-pasted"]);
    owner
        .send("PUT", &format!("{target}/key"), &json!({"key": "x".repeat(4096)}))
        .ok();
}

/// Whatever comes first: no key stays behind without its connection, and no connection comes back.
#[test]
fn a_key_that_is_saved_while_its_owner_is_removed_goes_with_it() {
    let home = Home::new(PROGRAM);
    let running = home.start(home.command(SERVE));
    let owner = running.set_up();
    choose(&owner, "encrypted", Some(PASSPHRASE)).ok();
    for (all, of) in [(CONNECTIONS, "connection"), ("/v1/audio/speech/endpoints", "endpoint")] {
        for turn in 0..12 {
            let body = json!({"baseUrl": "http://127.0.0.1:9", "key": "sk-first"});
            let added = owner.post(all, &body).ok();
            let one = format!("{all}/{}", added[of]["id"].as_str().unwrap());
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        owner
                            .send("PATCH", &one, &json!({"name": "again", "key": "sk-second"}))
                            .status
                    });
                }
                scope.spawn(|| owner.send("DELETE", &one, &Value::Null).status);
            });
            assert_eq!(owner.get(all).ok()[format!("{of}s")], json!([]), "{one}, turn {turn}");
            let left = std::fs::read_to_string(home.path().join("secrets/keys.enc")).unwrap();
            let left: Value = serde_json::from_str(&left).unwrap();
            assert_eq!(left["keys"], json!({}), "{one}, turn {turn}");
        }
    }
}
