//! Model servers that are down, slow, broken or not model servers at all, on the built program: each a message that says
//! what, why and what to do; what had streamed is kept and marked.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::llmock::Llmock;
use testkit::{Client, Home, ModelServer, Out, Running, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// Each part of a message, in any order.
#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

struct Chat {
    running: Running,
    owner: Client,
    page: Client,
    connection: String,
    _home: Home,
}

impl Chat {
    fn with(url: &str, key: Option<&str>) -> Self {
        let home = Home::new(PROGRAM);
        let running = home.serve();
        let owner = running.set_up();
        let connection = running.connect(&owner, url, key);
        running.add_from_box(&owner, "chat");
        let page = running.page(&owner, "chat");
        Chat {
            running,
            owner,
            page,
            connection,
            _home: home,
        }
    }

    /// Asks once; gives the answer as it is kept, not as the call answered.
    fn ask(&self) -> Value {
        let begun = self.page.post("/v1/apps/chat/conversations", &json!({})).ok();
        let id = begun["conversation"]["id"].as_str().unwrap();
        let body = json!({"text": "my question", "model": format!("{}/m", self.connection)});
        self.page
            .post(&format!("/v1/apps/chat/conversations/{id}/send"), &body)
            .ok();
        let opened = self
            .running
            .page(&self.owner, "chat")
            .get(&format!("/v1/apps/chat/conversations/{id}"))
            .ok();
        assert_eq!(opened["messages"][0]["text"], "my question", "{opened}");
        opened["messages"][1].clone()
    }

    fn list_error(&self) -> String {
        let models = self.owner.get("/v1/models?fresh=1").ok();
        models["errors"][0]["error"].as_str().unwrap_or_default().to_owned()
    }
}

/// A model server that fails: name, what it does, whether a key is set, what is kept of the answer, what the error says.
type Failing = (&'static str, fn(&mut Out), bool, &'static str, &'static [&'static str]);

const FAILING: &[Failing] = &[
    (
        "HTML",
        |o| o.answer(200, "text/html", "<html>Welcome to nginx</html>"),
        false,
        "",
        &["web page", "/v1/chat/completions", "check the address"],
    ),
    (
        "401 without a key",
        |o| o.json(401, &json!({"error": {"message": "No key given"}})),
        false,
        "",
        &["401", "No key given", "wants a key", "settings"],
    ),
    (
        "401 with a key",
        |o| o.json(401, &json!({"error": {"message": "Bad key"}})),
        true,
        "",
        &["401", "Bad key", "check the key"],
    ),
    (
        "404",
        |o| o.json(404, &json!({"error": "no such model"})),
        false,
        "",
        &[
            "404",
            "no such model",
            "(tried http://127.0.0.1:",
            "/v1/chat/completions",
            "choose another model",
        ],
    ),
    (
        "404 page",
        |o| o.answer(404, "text/html", "<h1>Not Found</h1>"),
        false,
        "",
        &["404", "tried http://127.0.0.1:", "check the address"],
    ),
    (
        "429",
        |o| o.json(429, &json!({"error": {"message": "slow down"}})),
        false,
        "",
        &["429", "slow down", "wait a moment"],
    ),
    (
        "500",
        |o| o.answer(500, "text/plain", "out of memory"),
        false,
        "",
        &["500", "out of memory", "try again"],
    ),
    (
        "error inside a 200",
        |o| o.json(200, &json!({"error": {"message": "model is loading"}})),
        false,
        "",
        &["reported an error", "model is loading", "try again"],
    ),
    (
        "error inside a stream",
        |o| {
            o.begin();
            o.delta("so far ");
            o.raw("data: {\"error\": {\"message\": \"the GPU fell over\"}}\n\n");
        },
        false,
        "so far ",
        &["reported an error", "the GPU fell over", "try again"],
    ),
    (
        "closes mid-stream",
        |o| {
            o.begin();
            o.delta("half an ");
            o.delta("answ");
        },
        false,
        "half an answ",
        &["before it was finished", "what had arrived is kept", "try again"],
    ),
    (
        "closes before anything",
        |_| {},
        false,
        "",
        &["127.0.0.1", "broke", "try again"],
    ),
    (
        "rubbish",
        |o| {
            o.begin();
            o.raw("data: ]]]\n\n");
        },
        false,
        "",
        &["not the expected format", "check the address"],
    ),
    (
        "redirect",
        |o| o.redirect("http://127.0.0.1:9/elsewhere"),
        false,
        "",
        &["redirect", "not followed", "http://127.0.0.1:9/elsewhere"],
    ),
];

/// Each a message with what, why and what to do; what had streamed is kept and marked.
#[test]
fn model_servers_that_fail() {
    for (name, answer, key, kept, want) in FAILING {
        let server = ModelServer::start(move |_, out| answer(out));
        let chat = Chat::with(&server.url(), key.then_some("sk-test-test-test"));
        let message = chat.ask();
        let why = message["error"].as_str().unwrap_or_default();
        eprintln!("{name}: {} {why}", message["state"]);
        assert_eq!(message["text"], *kept, "{name}: {message}");
        let marked = message["state"] == "error" || (message["state"] == "interrupted" && !kept.is_empty());
        assert!(marked, "{name}: {message}");
        let line = &chat.owner.get("/v1/activity?kind=model").ok()["entries"][0];
        // The person's log has the whole of it; what an app is told has no addresses.
        says(line["detail"].as_str().unwrap_or_default(), want);
        assert!(!why.is_empty() && !why.contains("127.0.0.1"), "{name}: {why}");
        assert_eq!(line["outcome"], "failed", "{name}: {line}");
        // The next question is answered as if nothing had been.
        assert_eq!(chat.ask()["state"], message["state"], "{name}");
    }
}

#[test]
fn model_lists_that_fail() {
    let failing: &[Failing] = &[
        (
            "HTML",
            |o| o.answer(200, "text/html", "<html>hi</html>"),
            false,
            "",
            &["web page", "/v1/models", "check the address"],
        ),
        (
            "404",
            |o| o.answer(404, "text/plain", "nope"),
            false,
            "",
            &["404", "/v1/models"],
        ),
        (
            "401",
            |o| o.json(401, &json!({"error": {"message": "who are you"}})),
            false,
            "",
            &["401", "who are you", "wants a key"],
        ),
        (
            "error inside a 200",
            |o| o.json(200, &json!({"error": {"message": "maintenance"}})),
            false,
            "",
            &["maintenance"],
        ),
        (
            "not a list",
            |o| o.json(200, &json!({"hello": "world"})),
            false,
            "",
            &["/v1/models"],
        ),
        (
            "cut off",
            |o| o.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{\"data\": ["),
            false,
            "",
            &["/v1/models"],
        ),
    ];
    for (name, answer, _, _, want) in failing {
        let server = ModelServer::everything(move |_, out| answer(out));
        let chat = Chat::with(&server.url(), None);
        let error = chat.list_error();
        eprintln!("{name}: {error}");
        says(&error, want);
        // An app's page learns that a connection does not work, not where it is.
        let page = chat.page.get("/v1/models").ok().to_string();
        assert!(!page.contains("127.0.0.1"), "{name}: {page}");
    }
}

#[test]
fn a_model_server_that_is_down_is_named() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let chat = Chat::with(&format!("http://127.0.0.1:{free}/v1"), None);
    let (list, message) = (chat.list_error(), chat.ask());
    let line = &chat.owner.get("/v1/activity?kind=model").ok()["entries"][0];
    let told = message["error"].as_str().unwrap();
    for text in [list.as_str(), line["detail"].as_str().unwrap()] {
        eprintln!("{text}");
        says(text, &["could not connect", &format!("127.0.0.1:{free}"), "running"]);
    }
    assert!(
        told.contains("could not connect") && !told.contains("127.0.0.1"),
        "{told}"
    );
    assert_eq!(message["state"], "error");
}

/// One that takes the request and says nothing: the person can stop it at once, and the list gives up by itself.
#[test]
fn a_slow_model_server_can_be_stopped_and_lists_give_up() {
    let server = ModelServer::everything(|_, out| {
        out.gate();
    });
    let chat = Chat::with(&server.url(), None);
    let begun = chat.page.post("/v1/apps/chat/conversations", &json!({})).ok();
    let id = begun["conversation"]["id"].as_str().unwrap().to_owned();
    let name = format!("{id}:1:slow");
    let sending = {
        let (page, target) = (chat.page.clone(), format!("/v1/apps/chat/conversations/{id}/send"));
        let body = json!({"text": "hi", "chatId": name, "model": format!("{}/m", chat.connection)});
        std::thread::spawn(move || page.post(&target, &body))
    };
    wait_for("the model to be asked", || {
        server.seen().iter().any(|s| s.method == "POST").then_some(())
    });
    chat.page.post("/v1/apps/chat/__abort", &json!({"chatId": name})).ok();
    let message = sending.join().unwrap().ok()["message"].clone();
    assert_eq!(message["state"], "stopped", "{message}");
    let began = Instant::now();
    let error = chat.list_error();
    eprintln!("the list gave up after {:?}: {error}", began.elapsed());
    says(&error, &["did not begin to answer", "within 15 seconds", "try again"]);
    assert!(began.elapsed() < Duration::from_secs(25));
}

/// The same with a server that nobody here wrote, told to fail.
#[test]
fn a_foreign_server_that_fails_on_purpose() {
    for (arguments, streamed, want) in [
        (&["--stream-fault", "disconnect=1"][..], true, "127.0.0.1"),
        (&["--stream-fault", "truncate=1"], true, "before it was finished"),
        (&["--stream-fault", "malformed=1"], true, "127.0.0.1"),
        (&["--error-rate-429", "1"], false, "429"),
        (&["--error-rate-500", "1"], false, "500"),
        (&["--error-rate-503", "1"], false, "503"),
        (&["--context-window", "1"], false, "400"),
    ] {
        let Some(llmock) = Llmock::start(arguments) else { return };
        let home = Home::new(PROGRAM);
        let running = home.serve();
        let owner = running.set_up();
        // Named, since one that fails everything lists no models either.
        let body = json!({"name": "llmock", "baseUrl": llmock.url(), "models": ["gpt-4o"]});
        let added = owner.post("/v1/settings/connections", &body).ok();
        let model = format!("{}/gpt-4o", added["connection"]["id"].as_str().unwrap());
        running.add_from_box(&owner, "chat");
        let page = running.page(&owner, "chat");
        let begun = page.post("/v1/apps/chat/conversations", &json!({})).ok();
        let id = begun["conversation"]["id"].as_str().unwrap();
        let target = format!("/v1/apps/chat/conversations/{id}");
        page.post(
            &format!("{target}/send"),
            &json!({"text": "Tell me a long story, please.", "model": model}),
        )
        .ok();
        let message = page.get(&target).ok()["messages"][1].clone();
        let why = message["error"].as_str().unwrap_or_default();
        eprintln!("{arguments:?}: {} {:?} {why}", message["state"], message["text"]);
        assert!(
            matches!(message["state"].as_str(), Some("error" | "interrupted")),
            "{arguments:?}: {message}"
        );
        // The person's log has the address; what an app is told has none.
        let line = &owner.get("/v1/activity?kind=model").ok()["entries"][0];
        says(line["detail"].as_str().unwrap_or_default(), &[want]);
        assert!(!why.is_empty() && !why.contains("127.0.0.1"), "{arguments:?}: {why}");
        if !streamed {
            assert_eq!(message["text"], "", "{arguments:?}");
        }
    }
}
