//! The bridge against a real router, without a window.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use hyper::service::Service;
use policy::{AccountId, AppId, Caller};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::bridge::Bridge;
use super::door::Door;
use super::testing::TestPage;

struct TestDoor {
    owner: AccountId,
    router: Router,
    secrets: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
    callers: Mutex<Vec<String>>,
}

impl Door for TestDoor {
    fn owner(&self) -> AccountId {
        self.owner.clone()
    }

    fn call(&self, caller: Caller, request: Request<Body>) -> BoxFuture<'static, Response<Body>> {
        self.callers.lock().unwrap().push(caller.label());
        let service = hyper_util::service::TowerToHyperService::new(self.router.clone());
        Box::pin(async move { service.call(request).await.unwrap() })
    }

    fn page(&self, app: AppId, secret: String, request: Request<()>) -> BoxFuture<'static, Response<Body>> {
        if !secret.is_empty() {
            self.secrets.lock().unwrap().push(secret);
        }
        let text = format!("{app} {}", request.uri());
        Box::pin(async move { Response::new(Body::from(text)) })
    }

    fn refused(&self, caller: &Caller, target: &str, _: &str) {
        self.refused
            .lock()
            .unwrap()
            .push(format!("{} {target}", caller.label()));
    }

    fn shutdown(&self) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

struct Bench {
    bridge: Arc<Bridge>,
    page: Arc<TestPage>,
    door: Arc<TestDoor>,
}

impl Bench {
    fn new(router: Router) -> Bench {
        Self::with_page(router, TestPage::new())
    }

    fn with_page(router: Router, page: Arc<TestPage>) -> Bench {
        let door = Arc::new(TestDoor {
            owner: AccountId::random(),
            router,
            secrets: Mutex::default(),
            refused: Mutex::default(),
            callers: Mutex::default(),
        });
        let app = AppId::parse("chat").unwrap();
        let runtime = tokio::runtime::Handle::current();
        let bridge = Bridge::start(runtime, door.clone(), app, page.clone());
        Bench { bridge, page, door }
    }

    async fn file(&self, method: &str, uri: &str) -> Response<Vec<u8>> {
        let (send, receive) = oneshot::channel();
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let respond = move |response| drop(send.send(response));
        self.bridge.file(request, Box::new(respond));
        receive.await.unwrap()
    }

    /// Loads the page; the secret of the load.
    async fn load(&self) -> String {
        let response = self.file("GET", "chrysalis-app://chat/__chrysalis/bridge.js").await;
        assert_eq!(response.status(), StatusCode::OK);
        self.door.secrets.lock().unwrap().last().unwrap().clone()
    }

    fn send(&self, secret: &str, mut message: Value) {
        message["s"] = secret.into();
        self.bridge.message(message.to_string());
    }

    fn text(&self, id: u64) -> String {
        let messages = self.page.messages();
        let own = messages.iter().filter(|message| message["id"] == id);
        own.filter_map(|message| message["text"].as_str()).collect()
    }

    fn got(&self, kind: &str, id: u64) -> Option<Value> {
        let messages = self.page.messages();
        messages
            .into_iter()
            .find(|message| message["t"] == kind && message["id"] == id)
    }
}

type Feed = mpsc::UnboundedSender<Result<Bytes, Infallible>>;

/// A route whose body the test writes piece by piece; its feeds, and how many bodies were read to their end.
fn fed_route() -> (Router, Arc<Mutex<Vec<Feed>>>, Arc<AtomicUsize>) {
    let feeds: Arc<Mutex<Vec<Feed>>> = Arc::default();
    let ended: Arc<AtomicUsize> = Arc::default();
    let (opened, read) = (feeds.clone(), ended.clone());
    let answer = move || {
        let (feed, mut pieces) = mpsc::unbounded_channel();
        opened.lock().unwrap().push(feed);
        let read = read.clone();
        let stream = futures::stream::poll_fn(move |context| {
            let piece = pieces.poll_recv(context);
            if matches!(piece, std::task::Poll::Ready(None)) {
                read.fetch_add(1, Ordering::Relaxed);
            }
            piece
        });
        async move {
            (
                [("content-type", "text/plain; charset=utf-8")],
                Body::from_stream(stream),
            )
        }
    };
    (
        Router::new().route("/v1/apps/chat/x", post(answer.clone()).get(answer)),
        feeds,
        ended,
    )
}

fn fetch(id: u64, method: &str, url: &str) -> Value {
    json!({"t": "fetch", "id": id, "method": method, "url": url, "headers": []})
}

#[tokio::test]
async fn an_answer_streams_while_it_is_being_made() {
    let (router, feeds, _) = fed_route();
    let bench = Bench::new(router);
    let secret = bench.load().await;
    bench.send(&secret, fetch(1, "POST", "/v1/apps/chat/x"));
    bench.page.until(|_| feeds.lock().unwrap().len() == 1).await;
    let feed = feeds.lock().unwrap().remove(0);
    feed.send(Ok(Bytes::from_static("日".as_bytes()))).unwrap();
    bench.page.until(|_| bench.text(1) == "日").await;
    assert!(bench.got("end", 1).is_none());
    assert_eq!(bench.got("head", 1).unwrap()["status"], 200);
    // A character in two pieces.
    feed.send(Ok(Bytes::from_static(&"本".as_bytes()[..1]))).unwrap();
    feed.send(Ok(Bytes::from_static(&"本".as_bytes()[1..]))).unwrap();
    drop(feed);
    bench.page.until(|_| bench.got("end", 1).is_some()).await;
    assert_eq!(bench.text(1), "日本");
    assert_eq!(*bench.door.callers.lock().unwrap(), ["app:chat"]);
}

#[tokio::test]
async fn a_reload_ends_deliveries_and_old_secrets_but_not_the_work() {
    let (router, feeds, ended) = fed_route();
    let bench = Bench::new(router);
    let old = bench.load().await;
    bench.send(&old, fetch(1, "POST", "/v1/apps/chat/x"));
    bench.page.until(|_| feeds.lock().unwrap().len() == 1).await;
    let feed = feeds.lock().unwrap().remove(0);
    feed.send(Ok(Bytes::from_static(b"before"))).unwrap();
    bench.page.until(|_| bench.text(1) == "before").await;
    let new = bench.load().await;
    assert_ne!(old, new);
    // The work goes on: its answer is still being read, to its end, though nobody gets it.
    feed.send(Ok(Bytes::from_static(b"after")))
        .expect("the answer is still wanted");
    drop(feed);
    bench.page.until(|_| ended.load(Ordering::Relaxed) == 1).await;
    assert_eq!(
        bench.text(1),
        "before",
        "nothing of the old load's answers arrives any more"
    );
    // The old load's secret opens nothing.
    bench.send(&old, fetch(3, "POST", "/v1/apps/chat/x"));
    bench.send(&new, fetch(4, "GET", "/other.txt"));
    bench.page.until(|_| bench.got("end", 4).is_some()).await;
    assert_eq!(feeds.lock().unwrap().len(), 0);
    assert_eq!(bench.text(4), "");
    assert_eq!(bench.got("chunk", 4).unwrap()["b64"], "Y2hhdCAvb3RoZXIudHh0");
}

#[tokio::test]
async fn a_page_that_does_not_read_is_not_sent_more_than_its_credit() {
    const BODY: usize = 1_300_000;
    let router = Router::new().route("/v1/apps/chat/big", get(|| async { "x".repeat(BODY) }));
    let bench = Bench::new(router);
    let secret = bench.load().await;
    bench.send(&secret, fetch(1, "GET", "/v1/apps/chat/big"));
    let seen = |bench: &Bench| {
        let n = bench.page.scripts().len();
        bench.send(&secret, json!({"t": "seen", "n": n}));
        bench.text(1).len()
    };
    bench.page.until(|_| seen(&bench) == 1024 * 1024).await;
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(seen(&bench), 1024 * 1024);
    bench.send(&secret, json!({"t": "ack", "id": 1, "n": 1000}));
    bench.page.until(|_| seen(&bench) == 1024 * 1024 + 1000).await;
    let mut acked = 1000;
    bench
        .page
        .until(|_| {
            let have = seen(&bench);
            bench.send(&secret, json!({"t": "ack", "id": 1, "n": have - acked}));
            acked = have;
            bench.got("end", 1).is_some()
        })
        .await;
    assert_eq!(bench.text(1).len(), BODY);
}

// Public reference: tauri-apps/tauri#13224, #9946 (every webview reaches every custom scheme).
#[tokio::test]
async fn regress_another_apps_address_is_refused_and_noted() {
    let bench = Bench::new(Router::new());
    let (ok, foreign) = (StatusCode::OK, StatusCode::FORBIDDEN);
    for (uri, want) in [
        ("chrysalis-app://chat/", ok),
        ("chrysalis-app://chat/a/b.js?c=d", ok),
        ("chrysalis-app://other/secret.json", foreign),
        ("chrysalis-app://CHAT/", foreign),
        ("chrysalis-app://chat:80/", foreign),
        ("chrysalis-app://x@chat/", foreign),
        ("chrysalis-app://chat.evil.example/", foreign),
        ("tauri://localhost/", foreign),
        ("http://chat/", foreign),
        ("/", foreign),
    ] {
        assert_eq!(bench.file("GET", uri).await.status(), want, "{uri}");
    }
    let post = bench.file("POST", "chrysalis-app://chat/").await;
    assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
    bench
        .page
        .until(|_| bench.door.refused.lock().unwrap().len() == 8)
        .await;
    assert!(
        bench
            .door
            .refused
            .lock()
            .unwrap()
            .contains(&"app:chat chrysalis-app://other/secret.json".into())
    );
    let response = bench.file("GET", "chrysalis-app://chat/a?b").await;
    assert_eq!(response.body(), b"chat /a?b");
}

#[tokio::test]
async fn what_a_page_stored_is_there_when_it_loads_again() {
    let stored: Arc<Mutex<Vec<Value>>> = Arc::default();
    let into = stored.clone();
    let store = move |body: Bytes| async move {
        // Slow enough for a reload to overtake it, if it could.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let write: Value = serde_json::from_slice(&body).unwrap();
        let full = write["value"] == "too much";
        into.lock().unwrap().push(write);
        match full {
            true => (
                StatusCode::PAYLOAD_TOO_LARGE,
                json!({"error": "full", "code": "quota"}).to_string(),
            ),
            false => (StatusCode::NO_CONTENT, String::new()),
        }
    };
    let bench = Bench::new(Router::new().route("/v1/apps/chat/__storage", post(store)));
    let secret = bench.load().await;
    let set = |key: &str, value: &str| {
        let write = json!({"t": "storage", "which": "local", "op": "set", "key": key, "value": value});
        bench.send(&secret, write);
    };
    for n in 0..50 {
        set("counter", &n.to_string());
    }
    set("other", "x");
    bench.load().await;
    {
        let stored = stored.lock().unwrap();
        assert_eq!(stored.last().unwrap()["key"], "other");
        let counter: Vec<_> = stored.iter().filter(|write| write["key"] == "counter").collect();
        assert_eq!(counter.last().unwrap()["value"], "49");
        assert!(counter.len() < 50, "later writes replace waiting ones");
    }
    let secret = bench.load().await;
    let write = json!({"t": "storage", "which": "session", "op": "set", "key": "k", "value": "too much"});
    bench.send(&secret, write);
    let error = |message: &Value| message["t"] == "storage-error" && message["key"] == "k";
    bench.page.until(|page| page.messages().iter().any(error)).await;
}

#[tokio::test]
async fn a_flood_stops_its_page_and_reaches_nobody() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let answer = move || {
        count.fetch_add(1, Ordering::Relaxed);
        async { "" }
    };
    let bench = Bench::new(Router::new().route("/v1/apps/chat/x", get(answer)));
    let secret = bench.load().await;
    for id in 0..200_000 {
        bench.send(&secret, fetch(id, "GET", "/v1/apps/chat/x"));
    }
    bench.page.until(|page| !page.stopped.lock().unwrap().is_empty()).await;
    assert_eq!(bench.page.stopped.lock().unwrap().len(), 1, "stopped once");
    assert!(calls.load(Ordering::Relaxed) < 20_000);
    // Loaded again by the person, it works.
    bench.bridge.forgive();
    let secret = bench.load().await;
    bench.send(&secret, fetch(1, "GET", "/again.txt"));
    bench.page.until(|_| bench.got("end", 1).is_some()).await;
}

#[tokio::test]
async fn one_enormous_message_stops_its_page() {
    let bench = Bench::new(Router::new());
    bench.bridge.message("x".repeat(2 * 1024 * 1024));
    assert_eq!(bench.page.stopped.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn garbage_is_dropped_and_the_page_goes_on() {
    let bench = Bench::new(Router::new());
    let secret = bench.load().await;
    for text in ["", "{", "null", "[[[[", "{\"t\":\"fetch\"}", "\u{0}"] {
        bench.bridge.message(text.into());
    }
    bench.send(&secret, json!({"t": "body", "id": 9, "data": "!!!", "last": true}));
    bench.send(&secret, json!({"t": "seen", "n": u64::MAX}));
    bench.send(&secret, json!({"t": "ack", "id": 77, "n": u64::MAX}));
    bench.send(&secret, fetch(1, "GET", "https://evil.example/"));
    bench.send(&secret, fetch(2, "TRACE", "/v1/me"));
    bench.page.until(|_| bench.got("error", 2).is_some()).await;
    assert!(bench.page.stopped.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_body_in_pieces_arrives_whole_and_a_larger_one_is_refused() {
    let answer = |body: Bytes| async move { body.len().to_string() };
    let route = post(answer).layer(axum::extract::DefaultBodyLimit::disable());
    let bench = Bench::new(Router::new().route("/v1/apps/chat/up", route));
    let secret = bench.load().await;
    let piece = super::message::base64(&[7; 100_000]);
    let mut start = fetch(1, "POST", "/v1/apps/chat/up");
    start["more"] = true.into();
    bench.send(&secret, start);
    for n in 0..10 {
        bench.send(&secret, json!({"t": "body", "id": 1, "data": piece, "last": n == 9}));
    }
    bench.page.until(|_| bench.got("end", 1).is_some()).await;
    assert_eq!(bench.text(1), "1000000");
    let mut start = fetch(2, "POST", "/v1/apps/chat/up");
    start["more"] = true.into();
    bench.send(&secret, start);
    for n in 0..336 {
        bench.send(&secret, json!({"t": "body", "id": 2, "data": piece, "last": n == 335}));
        if n % 50 == 0 {
            // At a pace that an honest page keeps.
            tokio::time::sleep(std::time::Duration::from_millis(120)).await;
        }
    }
    bench.page.until(|_| bench.got("error", 2).is_some()).await;
    assert!(
        bench.got("error", 2).unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("32 MiB")
    );
}

#[tokio::test]
async fn links_and_files_are_asked_for_and_a_no_is_a_no() {
    let bench = Bench::new(Router::new());
    let secret = bench.load().await;
    let link = json!({"t": "link", "url": "https://example.org/a"});
    bench.send(&secret, link.clone());
    bench.page.until(|page| page.asked.lock().unwrap().len() == 1).await;
    // One question at a time.
    bench.send(&secret, link.clone());
    bench.send(&secret, fetch(1, "GET", "/x"));
    bench.page.until(|_| bench.got("end", 1).is_some()).await;
    let (question, answer) = bench.page.asked.lock().unwrap().pop().unwrap();
    assert_eq!(question.text, "Open https://example.org/a in your browser?");
    assert!(bench.page.links.lock().unwrap().is_empty());
    answer.send(true).unwrap();
    bench
        .page
        .until(|page| *page.links.lock().unwrap() == ["https://example.org/a"])
        .await;
    for id in 10..13 {
        bench.send(
            &secret,
            json!({"t": "download", "id": id, "name": "../a.sh", "mime": "", "size": 3}),
        );
        bench.send(&secret, json!({"t": "data", "id": id, "data": "YWJj", "last": true}));
        bench.page.until(|page| page.asked.lock().unwrap().len() == 1).await;
        let (question, answer) = bench.page.asked.lock().unwrap().pop().unwrap();
        assert!(
            question.text.contains("\u{201c}a.sh\u{201d} (3 bytes)"),
            "{}",
            question.text
        );
        answer.send(false).unwrap();
        bench.page.until(|_| bench.got("download-refused", id).is_some()).await;
    }
    // Declined three times: this page load does not get to ask again.
    bench.send(
        &secret,
        json!({"t": "download", "id": 20, "name": "b", "mime": "", "size": 3}),
    );
    bench.send(&secret, json!({"t": "data", "id": 20, "data": "YWJj", "last": true}));
    bench.page.until(|_| bench.got("download-refused", 20).is_some()).await;
    assert!(bench.page.asked.lock().unwrap().is_empty());
    bench.send(
        &secret,
        json!({"t": "download", "id": 21, "name": "b", "mime": "", "size": 100 << 20}),
    );
    bench.page.until(|_| bench.got("download-refused", 21).is_some()).await;
}

#[tokio::test]
async fn a_question_of_an_earlier_page_load_is_nobodys() {
    let bench = Bench::new(Router::new());
    let link = json!({"t": "link", "url": "https://example.org/a"});
    let first = bench.load().await;
    bench.send(&first, link.clone());
    bench.page.until(|page| page.asked.lock().unwrap().len() == 1).await;
    let second = bench.load().await;
    // Where the page's window shows it, this is what takes the question away.
    bench
        .page
        .until(|page| page.asked.lock().unwrap()[0].1.is_closed())
        .await;
    let (_, late) = bench.page.asked.lock().unwrap().pop().unwrap();
    assert_eq!(late.send(true), Err(true));
    // The new load may ask at once.
    let other = json!({"t": "link", "url": "https://example.org/b"});
    bench.send(&second, other);
    bench.page.until(|page| page.asked.lock().unwrap().len() == 1).await;
    let (_, answer) = bench.page.asked.lock().unwrap().pop().unwrap();
    answer.send(true).unwrap();
    bench.page.until(|page| !page.links.lock().unwrap().is_empty()).await;
    assert_eq!(*bench.page.links.lock().unwrap(), ["https://example.org/b"]);
}

#[tokio::test]
async fn the_event_socket_carries_events_and_closes() {
    let events = || async {
        let body = "data: {\"type\":\"hello\",\"payload\":{}}\n\ndata: {\"n\":1}\n\n";
        ([("content-type", "text/event-stream")], body)
    };
    let bench = Bench::new(Router::new().route("/v1/events", get(events)));
    let secret = bench.load().await;
    bench.send(&secret, json!({"t": "ws", "id": 1, "url": "/v1/ws"}));
    bench.send(&secret, json!({"t": "ws", "id": 2, "url": "/v1/other"}));
    let events = |id: u64| -> Vec<String> {
        let messages = bench.page.messages();
        let own = messages.iter().filter(|message| message["id"] == id);
        own.map(|message| {
            format!(
                "{}:{}",
                message["event"].as_str().unwrap(),
                message["data"].as_str().unwrap_or("")
            )
        })
        .collect()
    };
    bench
        .page
        .until(|_| events(1).last().is_some_and(|event| event == "close:"))
        .await;
    let want = [
        "open:",
        "message:{\"type\":\"hello\",\"payload\":{}}",
        "message:{\"n\":1}",
        "close:",
    ];
    assert_eq!(events(1), want);
    bench
        .page
        .until(|_| events(2).first().is_some_and(|event| event.starts_with("error:")))
        .await;
}
