//! Answers of real servers on loopback, good and bad, as a caller sees them.

mod common;

use std::time::{Duration, Instant};

use common::*;
use futures::StreamExt;
use providers::{Answer, Endpoint, Event, GenerateRequest, GenerateResult, ModelInfo, ProviderErrorKind, chat, demo};
use secrets::{Keychain, Secret, Vault};
use serde_json::json;

async fn ask(endpoint: &Endpoint, request: GenerateRequest) -> (Vec<Event>, GenerateResult) {
    let all = chat(&context(), &net(), endpoint, request).collect::<Vec<Event>>();
    let events = tokio::time::timeout(PATIENCE, all)
        .await
        .expect("the answer never ended");
    let mut answer = Answer::new("c_test/m", None);
    events.iter().for_each(|event| answer.push(event));
    let last = events
        .iter()
        .filter(|event| matches!(event, Event::Done { .. } | Event::Failed(_)))
        .count();
    assert_eq!(last, 1, "one last event: {events:?}");
    // The text for the person, with addresses.
    let whole = answer.whole_error().map(str::to_owned);
    let mut result = answer.finish();
    result.error = whole;
    (events, result)
}

async fn ask_server(reply: Reply) -> (Vec<Event>, GenerateResult) {
    let server = Server::with(reply).await;
    ask(&server.endpoint(), request()).await
}

fn kind(events: &[Event]) -> Option<ProviderErrorKind> {
    match events.last() {
        Some(Event::Failed(error)) => Some(error.kind),
        _ => None,
    }
}

#[tokio::test]
async fn a_stream_arrives_while_the_server_withholds_the_rest() {
    let mut held = events(&delta("one"));
    held.hold = true;
    let mut server = Server::with(held).await;
    let mut stream = chat(&context(), &net(), &server.endpoint(), request());
    assert_eq!(stream.next().await, Some(Event::Delta("one".into())));
    assert!(server.closed.try_recv().is_err());
    server.more.send(delta(" two").into_bytes()).unwrap();
    assert_eq!(stream.next().await, Some(Event::Delta(" two".into())));
    drop(stream);
    let closed = tokio::time::timeout(PATIENCE, server.closed.recv()).await;
    assert!(closed.is_ok(), "stopping left the request running");
}

#[tokio::test]
async fn an_answer_that_came_to_its_end_is_not_logged_as_cancelled() {
    // Few servers close at once after the last event, and nobody waits for that.
    let mut held = events(&format!("{}data: [DONE]\n\n", delta("one")));
    held.hold = true;
    let server = Server::with(held).await;
    let lines = std::sync::Arc::new(Lines::default());
    let net = net::Net::new(lines.clone());
    let all = chat(&context(), &net, &server.endpoint(), request()).collect::<Vec<Event>>();
    let events = tokio::time::timeout(PATIENCE, all).await.expect("the answer ends");
    assert!(matches!(events.last(), Some(Event::Done { .. })), "{events:?}");
    let last = lines.0.lock().last().cloned().unwrap_or_default();
    assert!(last.contains("outcome: Done"), "{last}");
}

#[tokio::test]
async fn a_whole_stream_gives_text_usage_and_thinking() {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}});
    let body = [
        ": OPENROUTER PROCESSING\n\n".into(),
        format!(
            "data: {}\n\n",
            json!({"choices": [{"delta": {"role": "assistant", "reasoning_content": "hm"}}]})
        ),
        "data: \"\"\n\n: ping\n\ndata:\n\n".into(),
        delta("日本"),
        delta("🦋"),
        stop(),
        format!("data: {usage}\n\n"),
        "data: [DONE]\n\n".into(),
    ]
    .concat();
    let server = Server::with(events(&body)).await;
    let (all, result) = ask(&server.endpoint(), request()).await;
    assert_eq!(result.text, "日本🦋");
    assert_eq!(result.reasoning.as_deref(), Some("hm"));
    assert!(result.reasoning_time_ms.is_some());
    assert_eq!((result.usage.input, result.usage.output), (5, 7));
    assert_eq!(result.finish_reason.as_deref(), Some("stop"));
    assert_eq!(result.model, "c_test/m");
    assert!(!result.truncated && result.error.is_none());
    let Some(Event::Done { model, response_id, .. }) = all.last() else {
        panic!("{all:?}")
    };
    assert_eq!((model.as_deref(), response_id.as_deref()), (Some("m-real"), Some("r1")));
    assert_eq!(server.paths(), ["/v1/chat/completions"]);
    let body = &server.bodies()[0];
    assert_eq!(
        (
            &body["model"],
            &body["stream"],
            &body["stream_options"]["include_usage"]
        ),
        (&json!("m"), &json!(true), &json!(true))
    );
    assert!(server.heard.lock()[0].contains("authorization: Bearer no-key\r\n"));
}

#[tokio::test]
async fn the_same_text_however_the_bytes_are_cut() {
    for ending in ["\n", "\r\n", "\r"] {
        let body = [delta("日本"), delta("🦋"), stop(), "data: [DONE]\n\n".into()]
            .concat()
            .replace('\n', ending);
        let mut whole = events("");
        whole.pieces.pop();
        whole.pieces.extend(body.as_bytes().chunks(1).map(<[u8]>::to_vec));
        let (_, result) = ask_server(whole).await;
        assert_eq!((result.text.as_str(), result.error), ("日本🦋", None), "{ending:?}");
    }
}

#[tokio::test]
async fn ends_without_done_are_judged_by_what_was_said() {
    let finish = stop();
    for (body, text, truncated) in [
        (delta("a") + &finish, "a", false),
        // The last event without its empty line, and even without its line end.
        (delta("a") + finish.trim_end(), "a", false),
        (delta("a") + "data: [DONE]", "a", false),
        (delta("a"), "a", true),
        (delta("a") + &finish[..finish.len() / 2], "a", true),
        (String::new(), "", true),
        (": ping\n\n".into(), "", true),
    ] {
        let (all, result) = ask_server(events(&body)).await;
        assert_eq!((result.text.as_str(), result.truncated), (text, truncated), "{body:?}");
        assert_eq!(
            kind(&all),
            truncated.then_some(ProviderErrorKind::Truncated),
            "{body:?}"
        );
        assert_eq!(result.error.is_some(), truncated);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_keeps_what_streamed() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9000\r\n\r\n";
    let broken = |body: String| Reply {
        pieces: vec![head.into(), body.into_bytes()],
        hold: false,
    };
    let (all, result) = ask_server(broken(delta("kept"))).await;
    assert_eq!((result.text.as_str(), result.truncated), ("kept", true));
    assert_eq!(kind(&all), Some(ProviderErrorKind::Network));
    assert_eq!(result.model, "c_test/m");
    // After the server said how it ended, nothing can be missing.
    let (all, result) = ask_server(broken(delta("kept") + &stop())).await;
    assert_eq!(
        (result.text.as_str(), result.truncated, kind(&all)),
        ("kept", false, None)
    );
}

#[tokio::test]
async fn a_stall_ends_and_keeps_what_streamed() {
    let mut held = events(&delta("kept"));
    held.hold = true;
    let server = Server::with(held).await;
    let mut endpoint = server.endpoint();
    endpoint.limits.idle = Duration::from_millis(150);
    let (all, result) = ask(&endpoint, request()).await;
    assert_eq!(
        (result.text.as_str(), kind(&all)),
        ("kept", Some(ProviderErrorKind::Stalled))
    );
    assert!(result.error.unwrap().contains("stopped sending"));
}

#[tokio::test]
async fn an_error_inside_a_good_answer() {
    let error = json!({"error": {"message": "out of memory", "code": 502}});
    for reply in [
        json_reply("200 OK", error.clone()),
        json_reply("200 OK", json!([error])),
        events(&format!("data: {error}\n\n")),
        events(&format!(
            "event: error\ndata: {}\n\n",
            json!({"message": "out of memory"})
        )),
        events(&format!("data: {}\n\n", json!({"error": "out of memory"}))),
    ] {
        let (all, result) = ask_server(reply).await;
        assert_eq!(kind(&all), Some(ProviderErrorKind::InAnswer), "{all:?}");
        assert_eq!((result.text.as_str(), result.model.as_str()), ("", "error"));
        let text = result.error.unwrap();
        assert!(
            text.starts_with("Test server/m: ")
                && text.contains("out of memory")
                && text.contains("/v1/chat/completions"),
            "{text}"
        );
    }
    let (all, result) = ask_server(events(&(delta("part") + &format!("data: {error}\n\n")))).await;
    assert_eq!(
        (result.text.as_str(), result.truncated, kind(&all)),
        ("part", true, Some(ProviderErrorKind::InAnswer))
    );
    let Some(Event::Failed(error)) = all.last() else {
        panic!()
    };
    assert_eq!(error.code.as_deref(), Some("502"));
    // An empty error field is no error.
    let fine = format!(
        "data: {}\n\n",
        json!({"error": null, "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]})
    );
    let (_, result) = ask_server(events(&fine)).await;
    assert_eq!((result.text.as_str(), result.error), ("x", None));
}

#[tokio::test]
async fn a_web_page_is_called_one() {
    let page = "<!DOCTYPE html><title>Welcome</title><script>alert(1)</script>";
    for reply in [
        reply("200 OK", "text/html; charset=utf-8", page),
        reply("200 OK", "text/event-stream", page),
        reply("200 OK", "TEXT/HTML", "plain words"),
        reply("200 OK", "text/html", ""),
    ] {
        let server = Server::with(reply).await;
        let (all, result) = ask(&server.endpoint(), request()).await;
        let text = result.error.unwrap();
        assert_eq!(kind(&all), Some(ProviderErrorKind::NotTheApi), "{text}");
        let tried = format!("http://127.0.0.1:{}/v1/chat/completions", server.port);
        assert!(
            text.contains("answered with a web page instead of") && text.contains(&tried),
            "{text}"
        );
        assert!(!text.contains("<script>"), "{text}");
    }
    let (all, result) = ask_server(reply("401 Unauthorized", "text/html", page)).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::Key));
    let text = result.error.unwrap();
    assert!(text.contains("web page") && text.contains("wants a key"), "{text}");
}

#[tokio::test]
async fn error_statuses_keep_the_providers_words() {
    let long = "w".repeat(100_000);
    for (status, body, want, said) in [
        (
            "401 Unauthorized",
            json!({"error": {"message": "bad key", "code": "invalid_api_key"}}).to_string(),
            ProviderErrorKind::Key,
            "bad key",
        ),
        ("403 Forbidden", "nope".into(), ProviderErrorKind::Key, "nope"),
        (
            "404 Not Found",
            json!({"error": {"message": "no model m"}}).to_string(),
            ProviderErrorKind::ModelGone,
            "no model m",
        ),
        (
            "429 Too Many Requests",
            json!({"error": "slow down"}).to_string(),
            ProviderErrorKind::RateLimit,
            "slow down",
        ),
        (
            "402 Payment Required",
            json!({"message": "no credit"}).to_string(),
            ProviderErrorKind::Credit,
            "no credit",
        ),
        (
            "422 Unprocessable",
            json!({"detail": [{"loc": ["x"], "msg": "bad field"}]}).to_string(),
            ProviderErrorKind::Request,
            "bad field",
        ),
        ("500 Oops", String::new(), ProviderErrorKind::Server, "answered 500"),
        ("503 Busy", long, ProviderErrorKind::Server, "wwww"),
    ] {
        let (all, result) = ask_server(reply(status, "application/json", body)).await;
        let text = result.error.unwrap();
        assert_eq!(kind(&all), Some(want), "{text}");
        assert!(
            text.contains(said) && text.contains("/v1/chat/completions") && text.starts_with("Test server/m: "),
            "{text}"
        );
        assert!(text.len() < 2600, "{} bytes", text.len());
        let Some(Event::Failed(error)) = all.last() else {
            panic!()
        };
        assert_eq!(error.status, status[..3].parse().ok());
        assert_eq!(error.code.is_some(), status.starts_with("401"));
    }
}

#[tokio::test]
async fn a_key_a_server_repeats_is_hidden() {
    let long = format!("{}sk-canary-key tail", "x".repeat(2040));
    for words in ["you sent sk-canary-key".to_owned(), long] {
        for status in ["401 Unauthorized", "200 OK"] {
            let server = Server::with(json_reply(
                status,
                json!({"error": {"message": words, "code": "sk-canary-key"}}),
            ))
            .await;
            let mut endpoint = server.endpoint();
            let (vault, origin) = (Vault::open(Keychain::None, "test"), endpoint.origin().unwrap());
            vault
                .put("c_test", origin.clone(), Secret::new("sk-canary-key".into()))
                .unwrap();
            endpoint.key = vault.handle("c_test", &origin);
            let (all, result) = ask(&endpoint, request()).await;
            assert!(server.heard.lock()[0].contains("authorization: Bearer sk-canary-key\r\n"));
            assert!(!format!("{all:?}{result:?}").contains("canary"), "{all:?}");
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream() {
    let body = json!({"id": "r", "choices": [{"message": {"role": "assistant", "content": "whole", "reasoning": "hm"}, "finish_reason": "length"}], "usage": {"completion_tokens": 3}});
    for kind in ["application/json", "text/event-stream", "text/html"] {
        let (_, result) = ask_server(reply("200 OK", kind, format!("\n {body}"))).await;
        assert_eq!(
            (result.text.as_str(), result.error.as_deref()),
            ("whole", None),
            "{kind}"
        );
        assert_eq!(
            (
                result.reasoning.as_deref(),
                result.finish_reason.as_deref(),
                result.usage.output
            ),
            (Some("hm"), Some("length"), 3)
        );
    }
    let cut = body.to_string();
    let (all, _) = ask_server(reply("200 OK", "application/json", &cut[..cut.len() - 5])).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::Truncated));
    let (all, _) = ask_server(json_reply("200 OK", json!({"status": "ok"}))).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::NotTheApi));
}

#[tokio::test]
async fn nonsense_is_an_error_and_never_a_panic() {
    for body in [
        "data: {]\n\n",
        "data: nonsense\n\n",
        "\u{feff}data: {]\n\n",
        "hello\n\n",
        "data: [1\n\n",
    ] {
        let (all, _) = ask_server(events(body)).await;
        assert!(kind(&all).is_some(), "{body:?}");
    }
    let endless = format!("data: {}", "x".repeat((1 << 20) + 10));
    let (all, result) = ask_server(events(&(delta("kept") + &endless))).await;
    assert_eq!(
        (result.text.as_str(), kind(&all)),
        ("kept", Some(ProviderErrorKind::NotTheApi))
    );
    for value in [
        json!(null),
        json!([]),
        json!(5),
        json!({"choices": null}),
        json!({"choices": [null]}),
        json!({"choices": [{"delta": []}]}),
    ] {
        let (_, result) = ask_server(events(&(format!("data: {value}\n\n") + &delta("x") + &stop()))).await;
        assert_eq!((result.text.as_str(), result.error), ("x", None), "{value}");
    }
}

#[tokio::test]
async fn redirects_go_nowhere() {
    let target = Server::with(events(&delta("stolen"))).await;
    let location = format!("http://127.0.0.1:{}/v1/chat/completions", target.port);
    let head = format!("HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let (all, result) = ask_server(Reply {
        pieces: vec![head.into()],
        hold: false,
    })
    .await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::Network));
    assert!(result.error.unwrap().contains(&location));
    assert!(target.heard.lock().is_empty());
}

#[tokio::test]
async fn a_server_that_is_down() {
    let server = Server::with(events("")).await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut endpoint = server.endpoint();
    endpoint
        .base_url
        .set_port(Some(free.local_addr().unwrap().port()))
        .unwrap();
    drop(free);
    let (all, result) = ask(&endpoint, request()).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::Network));
    let text = result.error.unwrap();
    assert!(
        text.starts_with("could not connect to http://127.0.0.1:") && text.contains("is the server running"),
        "{text}"
    );
}

#[tokio::test]
async fn servers_without_the_version_are_found_and_a_404_names_what_was_tried() {
    let only = |page: &'static str| {
        move |request: &str| match request.split(' ').nth(1) == Some(page) {
            true => events(&(delta("found") + &stop())),
            false => json_reply("404 Not Found", json!({"detail": "Not Found"})),
        }
    };
    for (typed, page) in [
        ("", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1beta/openai/", "/v1beta/openai/chat/completions"),
        ("", "/chat/completions"),
        ("/llama", "/llama/chat/completions"),
        ("/llama", "/llama/v1/chat/completions"),
    ] {
        let server = Server::answering(only(page)).await;
        let (_, result) = ask(&server.endpoint_at(typed), request()).await;
        assert_eq!((result.text.as_str(), result.error), ("found", None), "{typed} {page}");
    }
    let server = Server::answering(only("/nowhere")).await;
    let (all, result) = ask(&server.endpoint_at(""), request()).await;
    let text = result.error.unwrap();
    assert_eq!(kind(&all), Some(ProviderErrorKind::NotFound));
    let at = format!("http://127.0.0.1:{}", server.port);
    assert!(
        text.contains(&format!("(tried {at}/v1/chat/completions and {at}/chat/completions)")),
        "{text}"
    );
    // A model that is not there is not a page that is not there.
    let server = Server::with(json_reply(
        "404 Not Found",
        json!({"error": {"message": "model m not found"}}),
    ))
    .await;
    ask(&server.endpoint_at(""), request()).await;
    assert_eq!(server.paths().len(), 1);
}

#[tokio::test]
async fn the_model_asked_for_is_the_model_sent() {
    let server = Server::with(events(&(delta("x") + &stop()))).await;
    let mut endpoint = server.endpoint();
    endpoint.models = vec![ModelInfo {
        id: "first".into(),
        ..ModelInfo::default()
    }];
    for named in [
        json!("c_test/org/model"),
        json!("org/model"),
        json!("c_testing/m"),
        json!(null),
        json!(" "),
    ] {
        let request = json!({"model": named, "messages": [{"role": "user", "content": "x"}]});
        ask(&endpoint, serde_json::from_value(request).unwrap()).await;
    }
    let sent: Vec<_> = server
        .bodies()
        .iter()
        .map(|body| body["model"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(sent, ["org/model", "org/model", "c_testing/m", "first", "first"]);
    endpoint.models.clear();
    let request = serde_json::from_value(json!({"messages": []})).unwrap();
    let (all, _) = ask(&endpoint, request).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::Unusable));
    assert_eq!(server.paths().len(), 5);
}

#[tokio::test]
async fn a_server_that_does_not_know_stream_options() {
    let server = Server::answering(|request| match request.contains("stream_options") {
        true => json_reply(
            "400 Bad Request",
            json!({"error": {"message": "unknown field stream_options"}}),
        ),
        false => events(&(delta("x") + &stop())),
    })
    .await;
    let (_, result) = ask(&server.endpoint(), request()).await;
    assert_eq!((result.text.as_str(), server.paths().len()), ("x", 2));
}

#[tokio::test]
async fn a_stopped_answer_is_marked() {
    let mut answer = Answer::new("demo/canned", Some("So".into()));
    let mut stream = demo::chat(&request());
    while answer.text().len() < 30 {
        answer.push(&stream.next().await.unwrap());
    }
    let result = answer.finish();
    assert!(result.truncated && result.error.is_none());
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(
        (&json["model"], &json["assistantPrefill"], &json["truncated"]),
        (&json!("demo/canned"), &json!("So"), &json!(true))
    );
    assert!(json["genTimeMs"].is_u64() && json["usage"]["cacheRead"] == 0 && json["usage"]["priced"] == false);
}

#[tokio::test]
async fn koboldcpp_is_told_to_stop() {
    let mut server = Server::answering(|request| match request.split(' ').nth(1).unwrap_or_default() {
        "/v1/chat/completions" => Reply {
            pieces: events(&delta("Hi")).pieces,
            hold: true,
        },
        _ => json_reply("200 OK", json!({"success": true})),
    })
    .await;
    let mut endpoint = server.endpoint();
    endpoint.preset = Some("koboldcpp".into());
    let mut stream = chat(&context(), &net(), &endpoint, request());
    assert_eq!(stream.next().await, Some(Event::Delta("Hi".into())));
    drop(stream);
    let closed = tokio::time::timeout(PATIENCE, server.closed.recv()).await;
    assert!(closed.unwrap().is_some());
    let until = Instant::now() + PATIENCE;
    while !server.paths().contains(&"/api/extra/abort".to_owned()) {
        assert!(Instant::now() < until, "{:?}", server.paths());
        tokio::task::yield_now().await;
    }
}
