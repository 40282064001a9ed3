//! One place has many spellings, and a key works in all of them; what only looks like it gets none. And what stands in the
//! environment is not picked up.

mod keys;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use keys::*;
use serde_json::json;

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
        let (asked, with_key) = keyed();
        assert!(
            asked >= 1 && with_key == asked,
            "{same}: {with_key} of {asked} requests had the key"
        );
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
