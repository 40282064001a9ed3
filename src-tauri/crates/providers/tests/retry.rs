//! What is asked again and what is not: a request that may have been paid for is never sent twice.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::*;
use futures::StreamExt;
use providers::{Event, ProviderErrorKind, chat};

/// `status` with `header`, then good answers.
async fn first_refuses(status: &'static str, header: &'static str) -> Server {
    let next = AtomicUsize::new(0);
    Server::answering(move |_| match next.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let body = "{\"error\": {\"message\": \"slow down\"}}";
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{header}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            Reply {
                pieces: vec![head.into_bytes()],
                hold: false,
            }
        }
        _ => events(&format!("{}{}data: [DONE]\n\n", delta("good"), stop())),
    })
    .await
}

async fn all(server: &Server) -> Vec<Event> {
    let all = chat(&context(), &net(), &server.endpoint(), request()).collect::<Vec<Event>>();
    tokio::time::timeout(PATIENCE, all)
        .await
        .expect("the answer never ended")
}

#[tokio::test]
async fn a_server_that_says_when_is_asked_again_then() {
    for (status, header) in [
        ("429 Too Many", "Retry-After: 0\r\n"),
        ("503 Busy", "retry-after: 1\r\n"),
        ("429 Too Many", "retry-after-ms: 40\r\n"),
        ("429 Too Many", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n"),
    ] {
        let server = first_refuses(status, header).await;
        let events = all(&server).await;
        let [Event::Waiting { ms, reason }, Event::Delta(text), Event::Done { .. }] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert!(
            *ms <= 1000 && reason.contains("slow down") && !reason.contains("http"),
            "{reason}"
        );
        assert_eq!(text, "good");
        assert_eq!(server.connections.load(Ordering::SeqCst), 2, "{header}");
    }
}

#[tokio::test]
async fn nothing_else_is_asked_again() {
    for (status, header, kind) in [
        ("429 Too Many", "", ProviderErrorKind::RateLimit),
        ("429 Too Many", "Retry-After: soon\r\n", ProviderErrorKind::RateLimit),
        ("429 Too Many", "Retry-After: 3600\r\n", ProviderErrorKind::RateLimit),
        ("503 Busy", "", ProviderErrorKind::Server),
        ("500 Oops", "Retry-After: 0\r\n", ProviderErrorKind::Server),
        ("502 Bad", "Retry-After: 0\r\n", ProviderErrorKind::Server),
        ("408 Timeout", "Retry-After: 0\r\n", ProviderErrorKind::Request),
    ] {
        let server = first_refuses(status, header).await;
        let events = all(&server).await;
        let [Event::Failed(error)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(error.kind, kind, "{status} {header}");
        assert_eq!(
            error.retry_after_ms,
            header
                .contains("3600")
                .then_some(3_600_000)
                .or(header.contains(": 0").then_some(0))
        );
        assert_eq!(server.connections.load(Ordering::SeqCst), 1, "{status} {header}");
    }
}

#[tokio::test]
async fn an_answer_that_broke_off_is_not_asked_for_again() {
    // Cut off by its declared length, after some text, and before any.
    for body in [delta("part"), String::new()] {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n";
        let server = Server::with(Reply {
            pieces: vec![head.into(), body.clone().into_bytes()],
            hold: false,
        })
        .await;
        let events = all(&server).await;
        assert!(matches!(events.last(), Some(Event::Failed(_))), "{events:?}");
        assert_eq!(events.len(), if body.is_empty() { 1 } else { 2 });
        assert_eq!(server.connections.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_server_that_never_stops_saying_later_is_given_up() {
    let server = Server::answering(|_| Reply {
        pieces: vec![
            b"HTTP/1.1 429 Later\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec(),
        ],
        hold: false,
    })
    .await;
    let events = all(&server).await;
    assert_eq!(
        events
            .iter()
            .filter(|event| matches!(event, Event::Waiting { .. }))
            .count(),
        2
    );
    assert!(matches!(events.last(), Some(Event::Failed(_))));
    assert_eq!(server.connections.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn the_wait_can_be_left_and_ends_with_the_callers_time() {
    let server = first_refuses("429 Too Many", "Retry-After: 50\r\n").await;
    let mut stream = chat(&context(), &net(), &server.endpoint(), request());
    assert!(matches!(stream.next().await, Some(Event::Waiting { ms: 50_000, .. })));
    drop(stream);
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);

    // There is no time for the wait, so it is not begun.
    let began = Instant::now();
    let context = context().within(Duration::from_secs(20));
    let server = first_refuses("429 Too Many", "Retry-After: 50\r\n").await;
    let events: Vec<Event> = chat(&context, &net(), &server.endpoint(), request()).collect().await;
    let [Event::Failed(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!(error.retry_after_ms, Some(50_000));
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_program_that_does_not_run_here_is_not_waited_for() {
    let server = Server::with(events("")).await;
    let mut endpoint = server.endpoint();
    // Nobody listens there any more.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    endpoint.base_url.set_port(Some(free)).unwrap();
    let events: Vec<Event> = chat(&context(), &net(), &endpoint, request()).collect().await;
    let [Event::Failed(error)] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((error.kind, error.never_sent), (ProviderErrorKind::Network, true));
}
