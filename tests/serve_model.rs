//! The main job over HTTP, on the built program: from nothing to a streamed answer of the Chat app.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::llmock::Llmock;
use testkit::{Client, Home, Incoming, ModelServer, Running, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// A signed-in owner with a model server and the Chat app, and its page.
fn chat(home: &Home, model: &str) -> (Running, Client, Client) {
    let running = home.serve();
    let owner = running.set_up();
    running.connect(&owner, model, None);
    running.add_from_box(&owner, "chat");
    let page = running.page(&owner, "chat");
    (running, owner, page)
}

/// Begins a conversation and asks in it, as the page does: the send runs while the page listens to the stream.
fn ask(page: &Client, text: &str) -> (String, String, std::thread::JoinHandle<testkit::Reply>) {
    let begun = page.post("/v1/apps/chat/conversations", &json!({})).ok();
    let id = begun["conversation"]["id"].as_str().unwrap().to_owned();
    let chat = format!("{id}:1:test");
    let (sender, target) = (page.clone(), format!("/v1/apps/chat/conversations/{id}/send"));
    let body = json!({"text": text, "chatId": chat});
    let sending = std::thread::spawn(move || sender.post(&target, &body));
    (id, chat, sending)
}

fn listen(page: &Client, chat: &str) -> Incoming {
    wait_for("the answer's stream", || {
        let incoming = page.listen(&format!("/v1/apps/chat/__streams/{chat}"));
        (incoming.status == 200).then_some(incoming)
    })
}

fn last_message(page: &Client, id: &str) -> Value {
    let opened = page.get(&format!("/v1/apps/chat/conversations/{id}")).ok();
    opened["messages"].as_array().unwrap().last().unwrap().clone()
}

/// Reads a stream to its end: its text, and its last event.
fn read(mut stream: Incoming) -> (String, usize, Value) {
    let (mut text, mut pieces) = (String::new(), 0);
    while let Some(event) = stream.event() {
        if let Some(delta) = event["delta"].as_str() {
            text += delta;
            pieces += 1;
        }
        if event["done"] == true {
            return (text, pieces, event);
        }
    }
    panic!("the stream ended without saying so, after: {text}");
}

/// With a model server that nobody here wrote.
#[test]
fn from_nothing_to_a_streamed_answer() {
    let Some(llmock) = Llmock::start(&["--response-style", "varied", "--stream-chunk-delay-ms", "40"]) else {
        return;
    };
    let home = Home::new(PROGRAM);
    let running = home.serve();
    assert_eq!(
        running.setup.as_deref(),
        Some(format!("http://127.0.0.1:{}/#setup={}", running.port, testkit::program::SETUP).as_str())
    );
    assert_eq!(running.nobody().get("/v1/auth/users").ok()["setup"], true);
    let owner = running.set_up();
    assert_eq!(
        running.nobody().get("/v1/auth/users").ok(),
        json!({"users": ["zoe"], "setup": false})
    );
    let connection = running.connect(&owner, &llmock.url(), None);
    let models = owner.get("/v1/models").ok();
    let found = models["models"].as_array().unwrap().iter();
    let found = found.filter(|m| m["provider"] == connection.as_str()).count();
    assert!(found > 0, "{models}");
    assert_eq!(models["errors"], json!([]), "{models}");
    running.add_from_box(&owner, "chat");
    let page = running.page(&owner, "chat");
    let (id, chat, sending) = ask(&page, "Say something.");
    let (text, pieces, end) = read(listen(&page, &chat));
    assert_eq!(end, json!({"done": true, "stopped": false}));
    assert!(pieces > 2, "it came in {pieces} pieces, so it was not streamed: {text}");
    sending.join().unwrap().ok();
    let kept = last_message(&page, &id);
    assert_eq!((&kept["state"], &kept["text"]), (&json!("done"), &json!(text)));
    let activity = owner.get("/v1/activity?kind=model").ok();
    assert_eq!(activity["entries"][0]["outcome"], "done", "{activity}");
}

/// The page has the first piece while the server still withholds the second.
#[test]
fn the_first_piece_is_there_before_the_second_is_sent() {
    let server = ModelServer::start(|_, out| {
        out.begin();
        out.delta("first ");
        if out.gate() {
            out.delta("second");
            out.done();
        }
    });
    let home = Home::new(PROGRAM);
    let (_running, _, page) = chat(&home, &server.url());
    let (_, chat, sending) = ask(&page, "hi");
    let mut stream = listen(&page, &chat);
    assert_eq!(stream.event().unwrap(), json!({"delta": "first "}));
    // The server notes a piece when it has written it, so the page may be quicker.
    testkit::wait_for("the server to note its piece", || {
        (!server.sent().is_empty()).then_some(())
    });
    assert_eq!(server.sent().len(), 1);
    server.release();
    let (text, _, end) = read(stream);
    assert_eq!((text.as_str(), &end["stopped"]), ("second", &json!(false)));
    assert_eq!(sending.join().unwrap().ok()["message"]["text"], "first second");
}

/// An explicit stop closes the connection to the model server, and what had come is kept.
#[test]
fn a_stop_reaches_the_model_server() {
    let server = ModelServer::start(|_, out| {
        out.begin();
        out.delta("kept");
        out.gate();
    });
    let home = Home::new(PROGRAM);
    let (_running, owner, page) = chat(&home, &server.url());
    let (id, chat, sending) = ask(&page, "hi");
    let mut stream = listen(&page, &chat);
    assert_eq!(stream.event().unwrap(), json!({"delta": "kept"}));
    assert_eq!(server.closed(), 0);
    let began = Instant::now();
    let stopped = page.post("/v1/apps/chat/__abort", &json!({"chatId": chat})).ok();
    assert_eq!(stopped, json!({"ok": true, "active": true}));
    wait_for("the model server's connection to be closed", || {
        (server.closed() == 1).then_some(())
    });
    eprintln!("stop until the server's socket was closed: {:?}", began.elapsed());
    assert_eq!(stream.event().unwrap(), json!({"done": true, "stopped": true}));
    assert_eq!(sending.join().unwrap().ok()["message"]["state"], "stopped");
    let kept = last_message(&page, &id);
    assert_eq!((&kept["state"], &kept["text"]), (&json!("stopped"), &json!("kept")));
    let again = page.post("/v1/apps/chat/__abort", &json!({"chatId": chat})).ok();
    assert_eq!(again["active"], false);
    let line = &owner.get("/v1/activity?kind=model").ok()["entries"][0];
    assert_eq!(line["outcome"], "stopped", "{line}");
}

/// A page that vanishes cancels nothing: the whole answer waits for it.
#[test]
fn a_page_that_goes_away_loses_nothing() {
    let server = ModelServer::start(|_, out| {
        out.begin();
        out.delta("before, ");
        if out.gate() {
            out.delta("after");
            out.done();
        }
    });
    let home = Home::new(PROGRAM);
    let (running, owner, page) = chat(&home, &server.url());
    let begun = page.post("/v1/apps/chat/conversations", &json!({})).ok();
    let id = begun["conversation"]["id"].as_str().unwrap().to_owned();
    let chat = format!("{id}:1:gone");
    // The request is sent and its connection dropped, as a browser does when a page is closed.
    let body = json!({"text": "hi", "chatId": chat}).to_string();
    let sending = send_only(
        &running,
        &page,
        &format!("/v1/apps/chat/conversations/{id}/send"),
        &body,
    );
    wait_for("the first piece", || (!server.sent().is_empty()).then_some(()));
    drop(sending);
    let mut stream = listen(&page, &chat);
    assert_eq!(stream.event().unwrap(), json!({"delta": "before, "}));
    drop(stream);
    let token = page.headers.last().unwrap().1.clone();
    let closed = owner.send("DELETE", &format!("/v1/apps/chat/frame/{token}"), &json!({}));
    assert_eq!(closed.status, 204);
    assert_eq!(
        page.get("/v1/apps/chat/conversations").status,
        403,
        "the frame is closed"
    );
    server.release();
    let later = running.page(&owner, "chat");
    let kept = wait_for("the whole answer", || {
        Some(last_message(&later, &id)).filter(|m| m["state"] == "done")
    });
    assert_eq!(kept["text"], "before, after");
    let (text, _, _) = read(listen(&later, &chat));
    assert_eq!(text, "before, after", "the stream can still be read from its beginning");
}

fn send_only(running: &Running, page: &Client, target: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", running.port)).unwrap();
    let headers: String = page.headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    let host = format!("127.0.0.1:{}", running.port);
    let length = body.len();
    write!(
        stream,
        "POST {target} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Type: application/json\r\nContent-Length: \
         {length}\r\n\r\n{body}"
    )
    .unwrap();
    stream
}

/// The built-in demo needs no server, and says what it is wherever it shows.
#[test]
fn the_demo_model_is_labelled_as_canned() {
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let owner = running.set_up();
    let models = owner.get("/v1/models").ok();
    let demo = models["models"]
        .as_array()
        .unwrap()
        .iter()
        .find(|m| m["ref"] == "demo/canned")
        .unwrap();
    assert_eq!(demo["canned"], true);
    assert!(demo["label"].as_str().unwrap().contains("canned"), "{demo}");
    owner.send("PUT", "/v1/settings", &json!({"model": "demo/canned"})).ok();
    running.add_from_box(&owner, "chat");
    let page = running.page(&owner, "chat");
    let (id, chat, sending) = ask(&page, "hello");
    let (text, pieces, _) = read(listen(&page, &chat));
    assert!(pieces > 1 && text.to_lowercase().contains("canned"), "{text}");
    sending.join().unwrap().ok();
    assert_eq!(last_message(&page, &id)["state"], "done");
    let connections = owner.get("/v1/activity?kind=connection").ok();
    assert_eq!(connections["entries"], json!([]), "the demo went out");
}
