//! How much a guest's request may bring in and how long it may take, whatever the server says or does.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::guest::{context, free};
use common::*;
use futures::StreamExt;
use net::{Fetch, FetchResult, Net, NetError, Outcome, Spend};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

fn get(server: &Server, spend: Spend) -> Fetch {
    let reach = guest::granted(&[], &[&server.address.to_string()]);
    Fetch::get(server.url("/"), reach, "test", spend)
}

async fn fetch(net: &Net, fetch: Fetch) -> Result<FetchResult, NetError> {
    net.fetch(&context(), fetch).await
}

#[tokio::test]
async fn the_size_is_counted_and_not_believed() {
    let (net, log) = net();
    let body = "x".repeat(5000);
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n1388\r\n{body}\r\n0\r\n\r\n");
    for (head, max, want) in [
        (format!("Content-Length: 5000\r\n\r\n{body}"), 5000, Ok(5000)),
        (
            format!("Content-Length: 5000\r\n\r\n{body}"),
            4999,
            Err("larger than 4999"),
        ),
        // Says more than fits and sends nothing: refused before waiting for it.
        (
            "Content-Length: 99999999999\r\n\r\n".into(),
            5000,
            Err("larger than 5000"),
        ),
        // Says less than it sends: the rest is not read.
        (format!("Content-Length: 10\r\n\r\n{body}"), 5000, Ok(10)),
        // Says more than it sends.
        (format!("Content-Length: 5001\r\n\r\n{body}"), 6000, Err("broke")),
        (chunked.clone(), 5000, Ok(5000)),
        (chunked, 4999, Err("larger than 4999")),
        // Says nothing and closes.
        (format!("\r\n{body}"), 5000, Ok(5000)),
        (format!("\r\n{body}"), 4999, Err("larger than 4999")),
        (
            format!("Content-Length: 3\r\nContent-Length: 5000\r\n\r\n{body}"),
            5000,
            Err("broke"),
        ),
    ] {
        let server = Server::sending(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{head}")).await;
        let mut request = get(&server, free());
        request.max_bytes = max;
        let got = fetch(&net, request).await.map(|answer| answer.body.len());
        match (&got, &want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(error), Err(want)) => assert!(error.to_string().contains(want), "{error}"),
            _ => panic!("{got:?} instead of {want:?}"),
        }
    }
    // What HEAD tells of is not coming.
    let server = Server::sending("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\nConnection: close\r\n\r\n").await;
    let mut request = get(&server, free());
    request.method = "HEAD".into();
    assert_eq!(fetch(&net, request).await.unwrap().body, "");
    assert_eq!(log.ends().len(), log.opened().len());
}

#[tokio::test]
async fn endless_answers_end() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let endless = Server::start(move |mut stream| {
        let tell = tell.clone();
        async move {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
            let _ = tell.send(());
        }
    })
    .await;
    let (net, _) = net();
    let error = fetch(&net, get(&endless, free())).await.unwrap_err();
    assert!(matches!(error, NetError::TooBig { max: 5_242_880, .. }), "{error}");
    tokio::time::timeout(PATIENCE, told.recv())
        .await
        .expect("the connection is still open");
}

#[tokio::test]
async fn the_whole_has_a_time() {
    let dripping = Server::start(|mut stream| async move {
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            .await;
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let silent = Server::start(|mut stream| async move { closed(&mut stream).await }).await;
    // Each answer comes at once, but they never end.
    let circle = Server::paths(|_| redirect(302, "/")).await;
    let (net, log) = net();
    for server in [&dripping, &silent] {
        let mut request = get(server, free());
        request.timeout = Duration::from_millis(300);
        let began = Instant::now();
        let error = fetch(&net, request).await.unwrap_err();
        assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
        assert!(began.elapsed() < PATIENCE);
    }
    let mut request = get(&circle, free());
    request.timeout = Duration::from_millis(300);
    request.max_hops = usize::MAX;
    let error = fetch(&net, request).await.unwrap_err();
    assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
    assert!(circle.seen() > 1);
    // The call's own deadline, when it is sooner.
    let began = Instant::now();
    let error = net
        .fetch(&context().within(Duration::from_millis(200)), get(&silent, free()))
        .await
        .unwrap_err();
    assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
    assert!(began.elapsed() < PATIENCE, "the request's own 15 s were waited for");
    eventually("every line is closed", || log.ends().len() == log.opened().len()).await;
}

#[tokio::test]
async fn bytes_are_paid_for_as_they_come() {
    let body = "x".repeat(200_000);
    let server = Server::sending(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\nConnection: close\r\n\r\n{body}"
    ))
    .await;
    let (net, log) = net();
    let counted = Arc::new(AtomicU64::new(0));
    let budget = |limit: u64| -> Spend {
        let counted = counted.clone();
        counted.store(0, Ordering::SeqCst);
        Arc::new(move |bytes| {
            if counted.load(Ordering::SeqCst) + bytes > limit {
                return Err("the bytes of today are used up".into());
            }
            counted.fetch_add(bytes, Ordering::SeqCst);
            Ok(())
        })
    };
    let asking = |limit: u64| {
        let mut request = get(&server, budget(limit));
        request.method = "POST".into();
        request.body = Bytes::from(vec![b'y'; 10_000]);
        request
    };

    fetch(&net, asking(u64::MAX)).await.unwrap();
    let all = counted.load(Ordering::SeqCst);
    assert!((210_000..211_000).contains(&all), "{all}");

    // Not enough for the request: nothing is sent.
    let before = server.seen();
    let error = fetch(&net, asking(9_000)).await.unwrap_err();
    assert_eq!(error.to_string(), "the bytes of today are used up");
    assert_eq!(server.seen(), before);
    assert_eq!(log.refusals().len(), 1);

    // Enough to begin with: the answer ends in the middle.
    let error = fetch(&net, asking(100_000)).await.unwrap_err();
    assert_eq!(
        error,
        NetError::Spent {
            url: server.url("/"),
            why: "the bytes of today are used up".into()
        }
    );
    assert_eq!(server.seen(), before + 1);
    let end = log.ends().last().cloned().unwrap();
    assert!(matches!(end.outcome, Outcome::Refused(_)), "{end:?}");
    assert!(counted.load(Ordering::SeqCst) <= 100_000);
}

#[tokio::test]
async fn an_answer_can_be_read_as_it_comes() {
    let (give, take) = mpsc::channel::<&'static str>(1);
    let take = Arc::new(tokio::sync::Mutex::new(take));
    let (tell, mut told) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream| {
        let (take, tell) = (take.clone(), tell.clone());
        async move {
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await;
            while let Some(piece) = take.lock().await.recv().await {
                let _ = stream
                    .write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes())
                    .await;
                if piece == "two" {
                    break;
                }
            }
            closed(&mut stream).await;
            let _ = tell.send(());
        }
    })
    .await;
    let (net, log) = net();
    let mut answer = net.fetch_stream(&context(), get(&server, free())).await.unwrap();
    assert_eq!((answer.status, answer.url), (200, server.url("/")));
    assert!(answer.headers.contains(&("x-a".into(), "b".into())));
    for piece in ["one", "two"] {
        give.send(piece).await.unwrap();
        assert_eq!(answer.body.next().await.unwrap().unwrap(), piece);
    }
    assert!(told.try_recv().is_err());
    drop(answer.body);
    tokio::time::timeout(PATIENCE, told.recv())
        .await
        .expect("the connection is still open");
    assert_eq!(log.ends()[0].outcome, Outcome::Cancelled);
}
