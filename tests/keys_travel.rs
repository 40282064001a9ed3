//! A key that was saved for A is never sent to B, on the built program: changed addresses, redirects, imports, proxies in
//! the environment, other spellings, keys of the environment. failures.md C.2 row 15.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Client, Home, ModelServer, Out, Running, Seen};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
const SERVE: &[&str] = &["serve", "--port", "0", "--no-open"];
const CONNECTIONS: &str = "/v1/settings/connections";

/// Names under which programs expect to find keys. They are never picked up.
const KEY_NAMES: &[&str] = &[
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "OLLAMA_API_KEY",
    "HF_TOKEN",
];
const PROXY_NAMES: &[&str] = &[
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];
/// What stands in the environment under [`KEY_NAMES`].
const FOUND: &str = "sk-found-in-the-environment";

/// Nothing, or the word that local servers are told which want a header, whatever is in it.
fn is_no_key(header: &str) -> bool {
    matches!(header, "" | "Bearer no-key")
}

/// Lists a model and answers with a word, whatever the path.
fn model(seen: &Seen, out: &mut Out) {
    if seen.method == "GET" {
        return out.json(
            200,
            &json!({"object": "list", "data": [{"id": "m", "object": "model"}]}),
        );
    }
    out.begin();
    out.delta("fine");
    out.done();
}

/// The program with an owner, the server A that a key is for, the server B that must never see it, and a proxy in the
/// environment that must never see anything.
struct House {
    home: Home,
    running: Running,
    owner: Client,
    page: Client,
    a: ModelServer,
    b: ModelServer,
    proxy: ModelServer,
    key: String,
}

impl House {
    fn open() -> Self {
        Self::with(ModelServer::everything(model))
    }

    fn with(a: ModelServer) -> Self {
        let (b, proxy) = (ModelServer::everything(model), ModelServer::everything(model));
        let home = Home::new(PROGRAM);
        let running = home.start(Self::command(&home, &proxy));
        let owner = running.set_up();
        running.add_from_box(&owner, "chat");
        let page = running.page(&owner, "chat");
        Self {
            home,
            running,
            owner,
            page,
            a,
            b,
            proxy,
            key: format!("sk-{}", policy::random_hex(20)),
        }
    }

    fn command(home: &Home, proxy: &ModelServer) -> Command {
        let mut command = home.command(SERVE);
        for name in PROXY_NAMES {
            command.env(name, format!("http://127.0.0.1:{}", proxy.port));
        }
        for name in KEY_NAMES {
            command.env(name, FOUND);
        }
        command
            .env("NO_PROXY", "nothing.example")
            .env("no_proxy", "nothing.example");
        command
    }

    /// A connection to `base` with the key.
    fn connect(&self, base: &str) -> String {
        let added = self
            .owner
            .post(CONNECTIONS, &json!({"name": "a", "baseUrl": base, "key": self.key}))
            .ok();
        assert_eq!(added["connection"]["hasKey"], true, "{added}");
        added["connection"]["id"].as_str().unwrap().to_owned()
    }

    fn change(&self, id: &str, wanted: &Value) -> Value {
        self.owner.send("PATCH", &format!("{CONNECTIONS}/{id}"), wanted).ok()
    }

    fn connection(&self, id: &str) -> Value {
        let listed = self.owner.get(CONNECTIONS).ok();
        let all = listed["connections"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id).unwrap().clone()
    }

    /// Everything that sends a key: the list of models, the test of a connection, and an answer in the Chat app.
    fn use_it(&self, id: &str) -> String {
        let listed = self.owner.get("/v1/models?fresh=1").text();
        let tested = self
            .owner
            .post(
                &format!("{CONNECTIONS}/{id}/test"),
                &json!({"model": format!("{id}/m")}),
            )
            .text();
        let begun = self.page.post("/v1/apps/chat/conversations", &json!({})).ok();
        let chat = begun["conversation"]["id"].as_str().unwrap();
        let asked = json!({"text": "hi", "chatId": format!("{chat}:1:x"), "model": format!("{id}/m")});
        let answered = self
            .page
            .post(&format!("/v1/apps/chat/conversations/{chat}/send"), &asked)
            .text();
        let said = format!("{listed}\n{tested}\n{answered}");
        assert!(!said.contains(&self.key), "{said}");
        said
    }

    fn forget(&self) {
        self.a.forget();
        self.b.forget();
    }

    /// How many requests A got with the key, where it belongs; it must be nowhere else.
    #[track_caller]
    fn arrived(&self) -> usize {
        let seen = self.a.seen();
        let keyed: Vec<&Seen> = seen.iter().filter(|one| one.whole().contains(&self.key)).collect();
        for one in &keyed {
            assert_eq!(one.whole().matches(&self.key).count(), 1, "{one:?}");
            let carried = [
                one.header("authorization"),
                one.header("x-api-key"),
                one.header("x-goog-api-key"),
            ];
            assert!(carried.iter().any(|value| value.contains(&self.key)), "{one:?}");
        }
        for one in self.b.seen() {
            assert!(!one.whole().contains(&self.key), "B was sent the key: {one:?}");
        }
        assert!(
            self.proxy.seen().is_empty(),
            "a proxy was used: {:?}",
            self.proxy.seen()
        );
        for one in [seen.clone(), self.b.seen()].concat() {
            assert!(
                !one.whole().contains(FOUND),
                "a key of the environment was sent: {one:?}"
            );
        }
        keyed.len()
    }

    fn forget_connection(&self, id: &str) {
        assert_eq!(
            self.owner
                .send("DELETE", &format!("{CONNECTIONS}/{id}"), &json!({}))
                .status,
            204
        );
        self.forget();
    }
}

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
    house.use_it(&id);
    assert!(!house.b.seen().is_empty());
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

/// One place has many spellings, and the key works in all of them; two places never share one.
#[test]
fn spellings_of_one_place_keep_the_key() {
    let house = House::open();
    let port = house.a.port;
    for same in [
        [
            format!("http://127.0.0.1:{port}/v1"),
            format!("HTTP://127.0.0.1:{port}"),
        ],
        [
            format!("http://127.0.0.1:{port}/v1"),
            format!("http://127.1:{port}//v1/"),
        ],
        [
            format!("http://127.0.0.1:{port}/v1"),
            format!("http://0x7f000001:{port}/v1/chat/completions"),
        ],
        [
            format!("http://127.0.0.1:{port}/v1"),
            format!("http://2130706433:{port}/v1"),
        ],
        [
            format!("http://127.0.0.1:{port}/v1"),
            format!("http://127.0.0.1:{port}/v2"),
        ],
        [
            format!("http://localhost:{port}/v1"),
            format!("http://LOCALHOST:{port}/v1"),
        ],
        [
            format!("http://localhost:{port}/v1"),
            format!("http://localhost.:{port}/v1"),
        ],
        [
            format!("http://127.0.0.1:{port}/acct/one/v1"),
            format!("http://127.0.0.1:{port}/acct/two/../one"),
        ],
    ] {
        let id = house.connect(&same[0]);
        for spelling in [&same[1], &same[0]] {
            let changed = house.change(&id, &json!({"baseUrl": spelling}));
            assert_eq!(changed["connection"]["hasKey"], true, "{spelling}: {changed}");
            house.forget();
            house.use_it(&id);
            assert!(house.arrived() >= 2, "{spelling}");
            assert_eq!(
                house.a.seen().len(),
                house.arrived(),
                "{spelling}: a request without the key"
            );
        }
        house.forget_connection(&id);
    }
    // The scheme's own port, written or not.
    for (one, other) in [
        ("http://models.example/v1", "http://MODELS.example.:80/v1"),
        ("https://models.example/v1", "https://models.EXAMPLE:443"),
    ] {
        let id = house.connect(one);
        let changed = house.change(&id, &json!({"baseUrl": other}));
        assert_eq!(changed["connection"]["hasKey"], true, "{other}: {changed}");
        let moved = house.change(
            &id,
            &json!({"baseUrl": other.replace(":80", ":81").replace(":443", ":444")}),
        );
        assert_eq!(moved["connection"]["hasKey"], false, "{moved}");
        house.forget_connection(&id);
    }
    for bad in [
        format!("http://user@127.0.0.1:{port}/v1"),
        format!("http://user:{}@127.0.0.1:{port}/v1", house.key),
        format!("http://127.0.0.1:{port}@127.0.0.1:{}/v1", house.b.port),
        format!("http://:pw@127.0.0.1:{port}/v1"),
    ] {
        let body = json!({"baseUrl": bad, "key": house.key});
        let said = house.owner.post(CONNECTIONS, &body).error(400);
        assert!(
            said.contains("user name or password") && !said.contains(&house.key),
            "{said}"
        );
        let id = house.connect(&house.a.url());
        let reply = house
            .owner
            .send("PATCH", &format!("{CONNECTIONS}/{id}"), &json!({"baseUrl": bad}));
        assert_eq!(reply.status, 400, "{bad}");
        assert_eq!(house.connection(&id)["hasKey"], true, "nothing was changed");
        house.forget_connection(&id);
    }
}

/// A server at one address that keeps what it was sent.
fn recorder(address: &str) -> Option<(u16, Arc<Mutex<Vec<String>>>)> {
    let listener = TcpListener::bind(address).ok()?;
    let port = listener.local_addr().ok()?.port();
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let keep = heard.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let keep = keep.clone();
            std::thread::spawn(move || answer(stream, &keep));
        }
    });
    Some((port, heard))
}

fn answer(mut stream: TcpStream, keep: &Mutex<Vec<String>>) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    keep.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
    let body = r#"{"data": [{"id": "m"}]}"#;
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
}

#[test]
fn spellings_of_ipv6_are_one_place_and_ipv4_in_it_is_another() {
    let Some((port, heard)) = recorder("[::1]:0") else {
        eprintln!("skipped: this machine has no IPv6 loopback");
        return;
    };
    let house = House::open();
    let keyed = || {
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        (heard.len(), heard.iter().filter(|one| one.contains(&house.key)).count())
    };
    let id = house.connect(&format!("http://[::1]:{port}/v1"));
    for same in [
        format!("http://[0:0:0:0:0:0:0:1]:{port}/v1"),
        format!("http://[0000:0000::0001]:{port}"),
        format!("http://[::0:1]:{port}/v1"),
        format!("http://[::0.0.0.1]:{port}/v1"),
    ] {
        let changed = house.change(&id, &json!({"baseUrl": same}));
        assert_eq!(changed["connection"]["hasKey"], true, "{same}: {changed}");
        keyed();
        house.owner.get("/v1/models?fresh=1").ok();
        assert_eq!(keyed(), (1, 1), "{same}");
    }
    let changed = house.change(&id, &json!({"baseUrl": format!("http://localhost:{port}/v1")}));
    assert_eq!(
        changed["connection"]["hasKey"], false,
        "a name is another place: {changed}"
    );
    house.owner.get("/v1/models?fresh=1").ok();
    assert_eq!(keyed().1, 0);
    // A, in the clothes of IPv6: whether it can be reached is `net`'s business; the key does not go there.
    let id = house.connect(&house.a.url());
    house.forget();
    for other in [
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[::1]",
    ] {
        let address = format!("http://{other}:{}/v1", house.a.port);
        let reply = house
            .owner
            .send("PATCH", &format!("{CONNECTIONS}/{id}"), &json!({"baseUrl": address}));
        if reply.status == 200 {
            assert_eq!(reply.json()["connection"]["hasKey"], false, "{other}");
            house.use_it(&id);
        }
        assert_eq!(house.arrived(), 0, "{other}");
        house.change(&id, &json!({"baseUrl": house.a.url(), "key": house.key}));
        house.forget();
    }
}

/// Keys and proxies that stand in the environment are not taken up, however well known their names are.
#[test]
fn nothing_in_the_environment_is_picked_up() {
    let house = House::open();
    let listed = house.owner.get(CONNECTIONS).ok();
    assert_eq!(listed["connections"], json!([]), "a connection nobody made");
    let said = house.running.said();
    assert!(!said.contains(FOUND), "{said}");
    for api in [
        "openai-completions",
        "anthropic-messages",
        "google-generative-ai",
        "openai-responses",
        "ollama",
    ] {
        let reply = house
            .owner
            .post(CONNECTIONS, &json!({"baseUrl": house.a.url(), "api": api}));
        if reply.status != 201 {
            continue;
        }
        let connection = reply.json()["connection"].clone();
        assert_eq!(connection["hasKey"], false, "{api}");
        let id = connection["id"].as_str().unwrap();
        house.use_it(id);
        assert_eq!(house.arrived(), 0);
        let seen = house.a.seen();
        assert!(!seen.is_empty(), "{api}");
        for one in seen {
            for header in ["authorization", "x-api-key", "x-goog-api-key", "proxy-authorization"] {
                assert!(is_no_key(one.header(header)), "{api} {one:?}");
            }
            assert!(!one.target.contains("key="), "{one:?}");
        }
        house.forget_connection(id);
    }
    let id = house.connect(&house.a.url());
    house.use_it(&id);
    assert!(house.arrived() >= 2);
}
