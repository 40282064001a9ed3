//! `host.net` through a real worker, against a server on loopback.

mod host_kit;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use apps::host::Results;
use futures::future::BoxFuture;
use host_kit::{House, THROWN, World};
use net::{Net, Resolver};
use parking_lot::Mutex;
use policy::{Capability, PluginPolicy};
use sandbox::Host;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers by path and remembers the requests.
struct Server {
    port: u16,
    host: String,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let list = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, list.clone()));
            }
        });
        Self {
            port,
            host: format!("127.0.0.1:{port}"),
            seen,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let Ok(got @ 1..) = stream.read(&mut piece).await else {
            return;
        };
        request.extend_from_slice(&piece[..got]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
            .unwrap_or(0);
        if body.len() >= length {
            break;
        }
    }
    let text = String::from_utf8_lossy(&request).into_owned();
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().push(text);
    let whole = |kind: &str, body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nx-test: yes\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let answer = match path.as_str() {
        "/json" => whole("application/json", "{\"a\":[1,2]}"),
        "/text" => whole("text/plain", "plain é"),
        "/missing" => "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno".into(),
        "/big" => whole("text/plain", &"x".repeat(300_000)),
        "/away" => "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n".into(),
        "/pieces" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            // A character arrives in two halves.
            for part in [&b"one \xe6\x97"[..], b"\xa5 two", b" end\xff"] {
                let _ = stream.write_all(part).await;
                let _ = stream.flush().await;
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
            return;
        }
        "/slow" => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 100\r\n\r\nfirst";
            stream.write_all(head.as_bytes()).await.unwrap();
            let _ = stream.read(&mut piece).await;
            return;
        }
        _ => whole("text/plain", "fine"),
    };
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn says(value: &Value, part: &str) {
    assert!(
        value.as_str().is_some_and(|text| text.contains(part)),
        "{value} should say: {part}"
    );
}

#[tokio::test]
async fn awaited_requests_give_the_contracts_result() {
    let (house, server) = (House::new(), Server::start().await);
    let body = r#"
        const get = (path, more) => host.net.fetch({ url: given + path, ...more });
        const [json, text, missing, bytes] = await Promise.all([
            get("/json"), get("/text"), get("/missing"), get("/text", { binary: true })]);
        const posted = await get("/post", { method: "POST", headers: { "X-Mine": "1" }, body: { n: 1 } });
        const form = await get("/form", { method: "PUT", form: { a: "x y" } });
        return { json, text, missing, bytes: bytes.base64, posted: posted.text, form: form.ok };
    "#;
    let local = &[(Capability::LocalNetwork, &[server.host.as_str()][..])];
    let got = house.does(local, body, json!(server.url(""))).await.unwrap();
    let json = &got["json"];
    assert_eq!(
        (&json["ok"], &json["status"], &json["json"]),
        (&json!(true), &json!(200), &json!({"a": [1, 2]}))
    );
    assert_eq!(
        (&json["contentType"], &json["headers"]["x-test"]),
        (&json!("application/json"), &json!("yes"))
    );
    assert_eq!(
        (&got["text"]["text"], &got["bytes"]),
        (&json!("plain é"), &json!("cGxhaW4gw6k="))
    );
    assert_eq!(
        (&got["missing"]["ok"], &got["missing"]["status"]),
        (&json!(false), &json!(404))
    );
    assert_eq!((&got["posted"], &got["form"]), (&json!("fine"), &json!(true)));
    let seen = server.seen.lock();
    let post = seen.iter().find(|request| request.starts_with("POST /post")).unwrap();
    assert!(
        post.to_lowercase().contains("x-mine: 1") && post.ends_with("{\"n\":1}"),
        "{post}"
    );
    assert!(
        seen.iter()
            .any(|request| request.starts_with("PUT /form") && request.ends_with("a=x+y")),
        "{seen:?}"
    );
    let lines = house.lines.0.lock();
    assert_eq!(lines.len(), 6);
    assert!(
        lines.iter().all(|line| line.starts_with("plugin:alpha/p ")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn queued_requests_come_back_by_key() {
    let (house, server) = (House::new(), Server::start().await);
    let body = format!(
        "{THROWN}
        if (!host.net.results.a) {{
            const errors = [];
            for (let i = 0; i < 33; i++) errors.push(await thrown(() => host.net.request(i ? `k${{i}}` : 'a', {{ url: given }})));
            host.net.request; host.store.put('errors', errors.filter(Boolean));
            return 1;
        }}
        host.net.results.a.json.mine = 1;
        return {{ a: host.net.results.a.json, n: Object.keys(host.net.results).length, errors: host.store.get('errors') }};"
    );
    let host = server.host.clone();
    let local: &[(Capability, &[&str])] = &[(Capability::LocalNetwork, &[&host]), (Capability::Store, &[])];
    let got = house.does(local, &body, json!(server.url("/json"))).await.unwrap();
    assert_eq!((&got["a"], &got["n"]), (&json!({"a": [1, 2], "mine": 1}), &json!(32)));
    says(&got["errors"][0], "at most 32 requests");
    assert_eq!(got["errors"].as_array().map(Vec::len), Some(1));

    let bad = house
        .does(
            local,
            "if (!host.net.results.a) { host.net.request('a', { url: 5 }); host.net.request('b', { url: 'http://example.com/' }); return }
             return [host.net.results.a, host.net.results.b]",
            json!(null),
        )
        .await
        .unwrap();
    for result in bad.as_array().unwrap() {
        assert_eq!(result["ok"], false, "{bad}");
    }
    says(&bad[0]["error"], "url must be a text");
    says(&bad[1]["error"], "example.com");
}

#[tokio::test]
async fn without_a_grant_there_is_no_net() {
    let (house, server) = (House::new(), Server::start().await);
    let source = "export function run(given, host) { return [!host.net, typeof host.net, 'net' in host] }";
    house.grant(source, &[(Capability::Llm, &[])]);
    assert_eq!(
        house.run(source, json!(null)).await.unwrap(),
        json!([true, "undefined", true])
    );
    // The same request as a raw message, past the prelude.
    let host = house.host(source);
    let spec = json!({"url": server.url("/json")});
    assert!(
        host.call("net.fetch", json!([spec]))
            .await
            .unwrap_err()
            .contains("needs the permission \"network\"")
    );
    assert!(host.call("net.open", json!([spec])).await.is_err());
    host.call_now("net.request", json!(["a", spec])).unwrap();
    assert!(host.take_queue().is_empty());
    let mut queued = apps::host::Queued::default();
    queued.fetches.push(("a".into(), spec));
    let mut results = Results::default();
    host.perform(queued, &mut results).await;
    says(&results.net_results["a"]["error"], "needs the permission");
    assert!(server.seen.lock().is_empty());
}

#[tokio::test]
async fn only_hosts_of_the_grant_and_their_ports() {
    let (mut house, server) = (House::new(), Server::start().await);
    let other = Server::start().await;
    let body = "const all = []; for (const url of given) { const r = await host.net.fetch({ url }); all.push([r.ok, r.error ?? null]) } return all";
    let urls = json!([
        server.url("/json"),
        other.url("/json"),
        format!("http://localhost:{}/json", server.port),
        format!("http://user:pw@127.0.0.1:{}/json", server.port),
        server.url("/away"),
        format!("http://0x7f000001:{}/json", server.port),
        "http://example.com/",
        "file:///etc/passwd",
    ]);
    let host = server.host.clone();
    let local: &[(Capability, &[&str])] = &[
        (Capability::LocalNetwork, &[&host]),
        (Capability::Network, &["api.example.com"]),
    ];
    let got = house.does(local, body, urls.clone()).await.unwrap();
    let ok: Vec<bool> = got.as_array().unwrap().iter().map(|r| r[0] == true).collect();
    // The sixth is the same address in another spelling.
    assert_eq!(ok, [true, false, false, false, false, true, false, false], "{got}");
    assert!(other.seen.lock().is_empty());

    // As a host on the internet the same address is none.
    let network: &[(Capability, &[&str])] = &[(Capability::Network, &[&host])];
    let got = house.does(network, body, json!([server.url("/json")])).await.unwrap();
    assert_eq!(got[0][0], false, "{got}");

    // The administrator's word is above the grant.
    let narrow = PluginPolicy {
        hosts: Some(vec!["example.com".into()]),
        ..PluginPolicy::default()
    };
    house.policy.plugins.insert("alpha/p".into(), narrow);
    let got = house.does(local, body, json!([server.url("/json")])).await.unwrap();
    assert_eq!(got[0][0], false, "{got}");
    house.policy.plugins.get_mut("alpha/p").unwrap().hosts = Some(vec![host.clone()]);
    let got = house.does(local, body, json!([server.url("/json")])).await.unwrap();
    assert_eq!(got[0][0], true, "{got}");
}

struct To(&'static str);

impl Resolver for To {
    fn resolve(&self, _: String) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        let address = self.0.parse().unwrap();
        Box::pin(async move { Ok(vec![address]) })
    }
}

#[tokio::test]
async fn a_public_name_with_a_private_address_behind_it_is_refused() {
    let (mut house, server) = (House::new(), Server::start().await);
    house.net = Net::with_resolver(house.lines.clone(), Arc::new(To("127.0.0.1")));
    let body = "const r = await host.net.fetch({ url: given }); return [r.ok, r.error ?? null]";
    let url = json!(format!("http://rebind.example.com:{}/json", server.port));
    let network: &[(Capability, &[&str])] = &[(Capability::Network, &["rebind.example.com"])];
    let got = house.does(network, body, url.clone()).await.unwrap();
    assert_eq!(got[0], false, "{got}");
    assert!(server.seen.lock().is_empty());
    // Named as a host of the local network, it is what the person allowed.
    let local: &[(Capability, &[&str])] = &[(Capability::LocalNetwork, &["rebind.example.com"])];
    assert_eq!(house.does(local, body, url).await.unwrap()[0], true);
}

#[tokio::test]
async fn answers_can_be_read_as_they_arrive() {
    let (house, server) = (House::new(), Server::start().await);
    let body = r#"
        const text = await host.net.fetch({ url: given + "/pieces", stream: true });
        let parts = [];
        for await (const part of text.body) parts.push(part);
        const raw = await host.net.fetch({ url: given + "/text", stream: true, binary: true });
        let bytes = [];
        for await (const part of raw.body) bytes.push(...part);
        const slow = await host.net.fetch({ url: given + "/slow", stream: true });
        let first;
        for await (const part of slow.body) { first = part; break; }
        const refused = await host.net.fetch({ url: "http://example.com/", stream: true });
        return { status: text.status, id: text.id ?? null, parts, bytes: bytes.length, first, refused };
    "#;
    let local = &[(Capability::LocalNetwork, &[server.host.as_str()][..])];
    let got = house.does(local, body, json!(server.url(""))).await.unwrap();
    assert_eq!((&got["status"], &got["id"]), (&json!(200), &Value::Null));
    let parts: Vec<&str> = got["parts"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(parts.concat(), "one 日 two end\u{fffd}");
    assert!(
        parts
            .iter()
            .all(|part| !part.trim_end_matches('\u{fffd}').contains('\u{fffd}')),
        "{parts:?}"
    );
    assert_eq!((&got["bytes"], &got["first"]), (&json!(8), &json!("first")));
    assert_eq!(got["refused"]["ok"], false);
}

#[tokio::test]
async fn a_request_can_be_aborted() {
    let (house, server) = (House::new(), Server::start().await);
    let body = format!(
        "{THROWN}
        const run = host.net.fetch({{ url: given }});
        const error = thrown(() => run);
        await host.sleep(30);
        run.abort();
        return await error;"
    );
    let began = Instant::now();
    let local = &[(Capability::LocalNetwork, &[server.host.as_str()][..])];
    let got = house.does(local, &body, json!(server.url("/slow"))).await.unwrap();
    says(&got, "aborted");
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "well before the request's own 15 s"
    );
}

#[tokio::test]
async fn a_secret_is_sent_and_never_seen() {
    let (house, server) = (House::new(), Server::start().await);
    let vault = secrets::Vault::open(secrets::Keychain::None, "test");
    let origin = secrets::Origin::parse(&server.url("")).unwrap();
    vault
        .put("token", origin.clone(), secrets::Secret::new("s3cret-value".into()))
        .unwrap();
    *house.world.secrets.lock() = Some((vault, origin));
    let other = Server::start().await;
    let body = r#"
        const ask = (url, secret) => host.net.fetch({ url, headers: { Authorization: { secret, prefix: "Bearer " } } });
        const good = await ask(given[0], "token"), none = await ask(given[0], "other"), foreign = await ask(given[1], "token");
        return { good: good.ok, none: none.error, foreign: foreign.error ?? null };
    "#;
    let hosts = [server.host.clone(), other.host.clone()];
    let local = &[(Capability::LocalNetwork, &[hosts[0].as_str(), hosts[1].as_str()][..])];
    let got = house
        .does(local, body, json!([server.url("/x"), other.url("/x")]))
        .await
        .unwrap();
    assert_eq!(got["good"], true, "{got}");
    says(&got["none"], "does not have");
    assert!(got["foreign"].is_string(), "{got}");
    let seen = server.seen.lock();
    assert_eq!(seen.len(), 1);
    assert!(
        seen[0].to_lowercase().contains("authorization: bearer s3cret-value"),
        "{seen:?}"
    );
    assert!(other.seen.lock().is_empty() && !got.to_string().contains("s3cret"));
}

#[tokio::test]
async fn bytes_are_counted_and_end_with_the_budget() {
    let (mut house, server) = (House::new(), Server::start().await);
    let used = |house: &House| {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        let day = db::utc_day(now.as_millis() as i64);
        house.db.usage(&house.account, &house.app, day).unwrap().network_bytes
    };
    house.limits.network_bytes = Some(350_000);
    let body = "const r = await host.net.fetch({ url: given }); return r.error ?? r.text.length";
    let local = &[(Capability::LocalNetwork, &[server.host.as_str()][..])];
    let big = json!(server.url("/big"));
    assert_eq!(house.does(local, body, big.clone()).await.unwrap(), 300_000);
    let after = used(&house);
    assert!(
        (300_000..302_000).contains(&after),
        "what was taken and not used is given back: {after}"
    );
    let error = house.does(local, body, big.clone()).await.unwrap();
    says(&error, "begins anew at midnight UTC");
    assert!(used(&house) <= 350_000);
    house.limits.network_bytes = Some(0);
    let before = server.seen.lock().len();
    says(&house.does(local, body, big).await.unwrap(), "of its 0 bytes");
    assert_eq!(server.seen.lock().len(), before, "asked before anything is sent");
}

#[tokio::test]
async fn a_call_that_ends_lets_its_requests_go() {
    let (house, server) = (House::new(), Server::start().await);
    let body = "host.net.fetch({ url: given }); await host.sleep(30); return 1";
    let local = &[(Capability::LocalNetwork, &[server.host.as_str()][..])];
    assert_eq!(house.does(local, body, json!(server.url("/slow"))).await.unwrap(), 1);
    let World { aborted, .. } = &*house.world;
    assert_eq!(aborted.load(Ordering::SeqCst), 0);
    assert_eq!(server.seen.lock().len(), 1);
}
