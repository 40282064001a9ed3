//! Real connections on loopback: what is logged, refused, attached, cut off and closed.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use common::*;
use futures::StreamExt;
use http::Method;
use net::{CheckedUrl, Incoming, KeyStyle, Net, NetError, Outcome, Outgoing, Reach};
use policy::{AccountId, AppId, CallContext, Caller, PluginId};
use secrets::{Keychain, Origin, Secret, Vault};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

fn context() -> CallContext {
    CallContext::root(&Caller::Nobody)
}

fn named(url: &str) -> CheckedUrl {
    CheckedUrl::check(url, &Reach::Named(Origin::parse(url).unwrap())).unwrap()
}

fn get(url: &str) -> Outgoing {
    Outgoing::new(Method::GET, named(url), "test")
}

async fn text(incoming: Incoming) -> Result<String, NetError> {
    let pieces: Vec<Result<Bytes, NetError>> = incoming.body.collect().await;
    let pieces: Vec<Bytes> = pieces.into_iter().collect::<Result<_, _>>()?;
    Ok(String::from_utf8(pieces.concat()).unwrap())
}

async fn failure(net: &Net, request: Outgoing) -> NetError {
    match net.send(&context(), request).await {
        Err(error) => error,
        Ok(_) => panic!("was not refused"),
    }
}

#[tokio::test]
async fn the_line_is_written_first_and_says_who() {
    let server = Server::sending(OK).await;
    let (net, log) = net();
    *log.server.lock() = Some(server.connections.clone());
    let account = AccountId::random();
    let app = AppId::parse("chat").unwrap();
    let owner = Caller::Owner {
        account: account.clone(),
    };
    let page = Caller::App {
        account: account.clone(),
        app: app.clone(),
    };
    let plugin = Caller::Plugin {
        account: account.clone(),
        app,
        plugin: PluginId::parse("talk").unwrap(),
    };
    let ctx = CallContext::root(&owner).enter(&page).unwrap().enter(&plugin).unwrap();

    let answer = net.send(&ctx, get(&server.url("/a?secret=canary"))).await.unwrap();
    assert_eq!(text(answer).await.unwrap(), "ok");
    assert_eq!(
        *log.seen_at_opening.lock(),
        [0],
        "the connection was there before its line"
    );
    assert!(server.heard.lock()[0].starts_with("GET /a?secret=canary HTTP/1.1\r\n"));

    let line = &log.opened()[0];
    assert_eq!(line.caller, "plugin:chat/talk");
    assert_eq!(line.chain, "owner > app:chat > plugin:chat/talk");
    assert_eq!(line.app.as_deref(), Some("chat"));
    assert_eq!(line.account.as_deref(), Some(account.as_str()));
    assert_eq!(line.trace, ctx.trace.as_str());
    assert_eq!((line.method.as_str(), line.purpose), ("GET", "test"));
    assert_eq!(line.url, server.url("/a"));
    let end = &log.ends()[0];
    assert_eq!((&end.outcome, end.status, end.bytes), (&Outcome::Done, Some(200), 2));
}

#[tokio::test]
async fn without_a_line_there_is_no_connection() {
    let server = Server::sending(OK).await;
    let (net, log) = net();
    *log.fail.lock() = Some("disk full".into());
    let error = failure(&net, get(&server.url("/"))).await;
    assert!(
        matches!(&error, NetError::Log { why, .. } if why == "disk full"),
        "{error}"
    );
    *log.fail.lock() = None;
    net.send(&context(), get(&server.url("/second"))).await.unwrap();
    assert_eq!(server.seen(), 1);
    assert!(server.heard.lock()[0].starts_with("GET /second"));
}

#[tokio::test]
async fn refusals_are_logged_and_nothing_is_sent() {
    let server = Server::sending(OK).await;
    let (net, log) = net();
    let url = server.url("/x?canary");
    let error = net
        .check(&context(), &Method::GET, &url, &Reach::Public, "test")
        .unwrap_err();
    assert!(matches!(error, NetError::Refused { .. }), "{error}");
    assert_eq!(log.refusals()[0].0.url, server.url("/x"));
    assert!(log.opened().is_empty());
    let other = Reach::Named(Origin::parse("http://127.0.0.1:1").unwrap());
    assert!(net.check(&context(), &Method::GET, &url, &other, "test").is_err());
    assert_eq!(log.refusals().len(), 2);
    assert_eq!(server.seen(), 0);
}

#[tokio::test]
async fn names_are_judged_by_every_address_behind_them() {
    let server = Server::sending(OK).await;
    for (host, answers, allowed) in [
        // A public name may not lead home, whoever typed it.
        ("example.com", &["127.0.0.1"][..], false),
        ("example.com", &["93.184.216.34", "127.0.0.1"], false),
        ("example.com", &["::ffff:127.0.0.1"], false),
        ("example.com", &["10.0.0.1"], false),
        ("models.local", &["127.0.0.1", "169.254.169.254"], false),
        ("models.local", &["::"], false),
        ("localhost", &["10.0.0.1"], false),
        ("models.local", &["127.0.0.1"], true),
        ("box", &["127.0.0.1"], true),
        ("a.localhost", &["127.0.0.1"], true),
    ] {
        let log = Arc::new(Memory::default());
        let net = Net::with_resolver(log.clone(), Script::new(&[answers]));
        let before = server.seen();
        let url = format!("http://{host}:{}/", server.port());
        let result = net.send(&context(), get(&url)).await;
        match (allowed, result) {
            (true, Ok(answer)) => assert_eq!(text(answer).await.unwrap(), "ok"),
            (false, Err(error)) => {
                assert!(matches!(error, NetError::Refused { .. }), "{host} {answers:?}: {error}");
                assert!(
                    matches!(log.ends()[0].outcome, Outcome::Refused(_)),
                    "{host} {answers:?}"
                );
            }
            (_, other) => panic!("{host} {answers:?}: {:?}", other.err()),
        }
        assert_eq!(server.seen() - before, usize::from(allowed), "{host} {answers:?}");
    }
    for answers in [
        &["127.0.0.1"][..],
        &["8.8.8.8", "192.168.0.1"],
        &["64:ff9b::7f00:1"],
        &["2002:7f00:1::"],
    ] {
        let net = Net::with_resolver(Arc::new(Memory::default()), Script::new(&[answers]));
        let url = CheckedUrl::check(format!("http://example.com:{}/", server.port()), &Reach::Public).unwrap();
        let error = failure(&net, Outgoing::new(Method::GET, url, "test")).await;
        assert!(matches!(error, NetError::Refused { .. }), "{answers:?}: {error}");
    }
    assert_eq!(server.seen(), 3);
}

#[tokio::test]
async fn a_name_is_looked_up_once_for_each_connection() {
    let server = Server::sending(OK).await;
    let resolver = Script::new(&[&["127.0.0.1"], &["169.254.169.254"], &["127.0.0.1"]]);
    let net = Net::with_resolver(Arc::new(Memory::default()), resolver.clone());
    let url = format!("http://box.local:{}/", server.port());
    // Looking up once to check and again to connect would meet the second answer here.
    text(net.send(&context(), get(&url)).await.unwrap()).await.unwrap();
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
    let error = failure(&net, get(&url)).await;
    assert!(matches!(error, NetError::Refused { .. }), "{error}");
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 2);
    assert_eq!(server.seen(), 1);
}

#[tokio::test]
async fn redirects_are_named_and_not_followed() {
    let target = Server::sending(OK).await;
    let vault = Vault::open(Keychain::None, "test");
    for (location, shown) in [
        (target.url("/there?canary=1#canary"), target.url("/there")),
        (format!("//127.0.0.1:{}/p", target.port()), target.url("/p")),
        ("/same".into(), String::new()),
        (target.url("/login/sk-canary"), target.url("/login/[key]")),
        ("http://[".into(), "an unreadable address".into()),
    ] {
        for status in [301, 302, 303, 307, 308] {
            let head = format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            let server = Server::sending(head).await;
            let origin = Origin::parse(&server.url("/")).unwrap();
            vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
            let (net, log) = net();
            let mut request = get(&server.url("/from?canary"));
            request.key = vault.handle("c", &origin);
            let error = failure(&net, request).await;
            let NetError::Redirected { to, status: got, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(*got, status);
            assert_eq!(
                *to,
                if shown.is_empty() {
                    server.url("/same")
                } else {
                    shown.clone()
                }
            );
            assert!(!error.to_string().contains("canary"), "{error}");
            assert!(matches!(log.ends()[0].outcome, Outcome::Refused(_)));
            assert_eq!(server.seen(), 1);
        }
    }
    assert_eq!(target.seen(), 0, "a redirect was followed");
}

#[tokio::test]
async fn a_key_goes_to_its_own_origin_only() {
    let (server, other) = (Server::sending(OK).await, Server::sending(OK).await);
    let vault = Vault::open(Keychain::None, "test");
    let origin = Origin::parse(&server.url("/")).unwrap();
    vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
    let key = vault.handle("c", &origin).unwrap();
    let (net, log) = net();
    for (style, line) in [
        (KeyStyle::Bearer, "authorization: Bearer sk-canary\r\n"),
        (
            KeyStyle::Header("x-api-key".parse().unwrap()),
            "x-api-key: sk-canary\r\n",
        ),
    ] {
        let mut request = get(&server.url("/"));
        request.key = Some(key.clone());
        request.key_style = style;
        net.send(&context(), request).await.unwrap();
        assert!(server.heard.lock().last().unwrap().contains(line));
    }
    let same_place_other_name = format!("http://localhost:{}/", server.port());
    for url in [other.url("/"), same_place_other_name] {
        let mut request = get(&url);
        request.key = Some(key.clone());
        let error = failure(&net, request).await;
        assert!(matches!(error, NetError::KeyBound { .. }), "{error}");
    }
    vault.forget("c").unwrap();
    let mut request = get(&server.url("/"));
    request.key = Some(key);
    assert!(matches!(failure(&net, request).await, NetError::KeyBound { .. }));
    assert_eq!((server.seen(), other.seen()), (2, 0));
    assert_eq!((log.opened().len(), log.refusals().len()), (2, 3));
    assert!(!format!("{:?}", log.rows.lock()).contains("canary"));
}

#[tokio::test]
async fn dropping_the_answer_closes_the_connection() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream| {
        let tell = tell.clone();
        async move {
            stream
                .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
                .await
                .unwrap();
            closed(&mut stream).await;
            tell.send(()).unwrap();
        }
    })
    .await;
    let (net, log) = net();
    let mut answer = net.send(&context(), get(&server.url("/"))).await.unwrap();
    assert_eq!(answer.body.next().await.unwrap().unwrap(), "one");
    assert!(told.try_recv().is_err());
    drop(answer);
    tokio::time::timeout(PATIENCE, told.recv())
        .await
        .expect("the server still has its connection");
    assert_eq!(log.ends()[0].outcome, Outcome::Cancelled);
    assert_eq!(log.ends()[0].bytes, 3);
}

#[tokio::test]
async fn an_answer_that_was_read_as_far_as_needed_is_not_called_cancelled() {
    let server = Server::start(|mut stream| async move {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
            .await
            .unwrap();
        closed(&mut stream).await;
    })
    .await;
    let (net, log) = net();
    let mut answer = net.send(&context(), get(&server.url("/"))).await.unwrap();
    assert_eq!(answer.body.next().await.unwrap().unwrap(), "one");
    answer.body.enough();
    assert!(log.ends().is_empty(), "the line is open as long as the connection is");
    drop(answer);
    assert_eq!(log.ends()[0].outcome, Outcome::Done);
    assert_eq!(log.ends()[0].bytes, 3);
}

#[tokio::test]
async fn giving_up_before_the_answer_closes_the_connection() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let server = Server::start(move |mut stream| {
        let tell = tell.clone();
        async move {
            closed(&mut stream).await;
            tell.send(()).unwrap();
        }
    })
    .await;
    let (net, log) = net();
    let url = server.url("/");
    let asking = tokio::spawn(async move { net.send(&context(), get(&url)).await.map(|_| ()) });
    eventually("the request arrives", || !server.heard.lock().is_empty()).await;
    asking.abort();
    tokio::time::timeout(PATIENCE, told.recv())
        .await
        .expect("the server still has its connection");
    eventually("the line is closed", || log.ends().len() == 1).await;
    assert_eq!(log.ends()[0].outcome, Outcome::Cancelled);
}

#[tokio::test]
async fn silence_has_an_end() {
    let silent = Server::start(|mut stream| async move { closed(&mut stream).await }).await;
    let stalling = Server::start(|mut stream| async move {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            .await
            .unwrap();
        closed(&mut stream).await;
    })
    .await;
    // A byte now and then keeps the silence short but not the whole.
    let loris = Server::start(|mut stream| async move {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            .await
            .unwrap();
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let (net, log) = net();
    let short = |url: String| {
        let mut request = get(&url);
        request.connect_timeout = Duration::from_millis(100);
        request.first_byte_timeout = Duration::from_millis(200);
        request.idle_timeout = Duration::from_millis(200);
        request
    };
    let error = failure(&net, short(silent.url("/"))).await;
    assert!(
        matches!(
            error,
            NetError::TimedOut {
                what: "did not begin to answer",
                ..
            }
        ),
        "{error}"
    );

    let mut answer = net.send(&context(), short(stalling.url("/"))).await.unwrap();
    assert_eq!(
        answer.body.next().await.unwrap().unwrap(),
        "abc",
        "what came before the stall is kept"
    );
    let error = answer.body.next().await.unwrap().unwrap_err();
    assert!(
        matches!(error, NetError::TimedOut { .. }) && error.to_string().contains("stopped sending"),
        "{error}"
    );
    assert!(answer.body.next().await.is_none());

    let ctx = context().within(Duration::from_millis(300));
    let error = text(net.send(&ctx, short(loris.url("/"))).await.unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            NetError::TimedOut {
                what: "was not done",
                ..
            }
        ),
        "{error}"
    );
    let error = net.send(&ctx, short(loris.url("/"))).await.err().unwrap();
    assert!(matches!(error, NetError::TimedOut { .. }), "{error}");
    assert_eq!(loris.seen(), 1, "asked after the deadline");
    assert!(log.ends().iter().all(|end| matches!(end.outcome, Outcome::Failed(_))));
}

#[tokio::test]
async fn an_answer_that_breaks_off_keeps_what_came() {
    let (net, log) = net();
    let server = Server::sending("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await;
    let mut answer = net.send(&context(), get(&server.url("/"))).await.unwrap();
    assert_eq!(answer.body.next().await.unwrap().unwrap(), "half");
    let error = answer.body.next().await.unwrap().unwrap_err();
    assert!(matches!(error, NetError::Broken { .. }), "{error}");
    assert_eq!(log.ends()[0].bytes, 4);
}

#[tokio::test]
async fn an_answer_has_a_size() {
    let (net, _) = net();
    let body = "x".repeat(5000);
    let server = Server::sending(format!("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{body}")).await;
    for (max, fits) in [(5000, true), (4999, false)] {
        let mut request = get(&server.url("/"));
        request.max_bytes = max;
        let result = text(net.send(&context(), request).await.unwrap()).await;
        assert_eq!(result.is_ok(), fits, "{max}");
        if let Err(error) = result {
            assert!(matches!(error, NetError::TooBig { max: 4999, .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn errors_say_what_to_do_and_show_no_query() {
    let (net, _) = net();
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = gone.local_addr().unwrap().port();
    drop(gone);
    let error = failure(&net, get(&format!("http://127.0.0.1:{port}/v1?canary"))).await;
    assert!(matches!(error, NetError::Connect { .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        format!(
            "could not connect to http://127.0.0.1:{port}/v1: nothing is listening there; is the server running, and is the port right?"
        )
    );

    // A plain server that answers the first bytes of the handshake with words.
    let plain = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = plain.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        let _ = stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            .await;
        closed(&mut stream).await;
    });
    let error = failure(&net, get(&format!("https://127.0.0.1:{port}/v1?canary"))).await;
    assert!(matches!(error, NetError::Tls { .. }), "{error:?}");
    assert!(
        error.to_string().contains("http or https") && !error.to_string().contains("canary"),
        "{error}"
    );

    // One that waits for words of which none come.
    let waiting = Server::sending(OK).await;
    let mut request = get(&format!("https://127.0.0.1:{}/", waiting.port()));
    request.connect_timeout = Duration::from_millis(200);
    let error = failure(&net, request).await;
    assert!(error.to_string().contains("secure connection"), "{error}");

    let nowhere = Net::with_resolver(Arc::new(Memory::default()), Script::new(&[]));
    let error = failure(&nowhere, get("http://no-such-host.example/?canary")).await;
    assert!(matches!(error, NetError::Dns { .. }), "{error:?}");
    assert!(
        error.to_string().contains("no such host") && !error.to_string().contains("canary"),
        "{error}"
    );

    let noise = Server::sending("\x16\x03garbage canary\r\n\r\n").await;
    let error = failure(&net, get(&noise.url("/?canary"))).await;
    assert!(!error.to_string().contains("canary"), "{error}");
}

#[tokio::test]
async fn plain_http_ignores_proxies_and_needs_no_certificates() {
    const TARGET: &str = "CHRYSALIS_NET_TEST_TARGET";
    if let Ok(url) = std::env::var(TARGET) {
        let (net, _) = net();
        assert_eq!(
            text(net.send(&context(), get(&url)).await.unwrap()).await.unwrap(),
            "ok"
        );
        return;
    }
    let (target, proxy) = (Server::sending(OK).await, Server::sending(OK).await);
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "plain_http_ignores_proxies_and_needs_no_certificates"])
        .env(TARGET, target.url("/"));
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        child.env(name, proxy.url(""));
    }
    child.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", "/dev/null");
    child.env_remove("NO_PROXY").env_remove("no_proxy");
    assert!(child.output().await.unwrap().status.success());
    assert_eq!((target.seen(), proxy.seen()), (1, 0));
}

#[tokio::test]
async fn a_key_that_comes_back_in_an_answer_is_not_shown() {
    let body = "data: your key is sk-canary-0123456789, is it? sk-canary-0123\n\n";
    for cut in 0..body.len() {
        let pieces = [&body[..cut], &body[cut..]].map(|piece| match piece {
            "" => String::new(),
            piece => format!("{:x}\r\n{piece}\r\n", piece.len()),
        });
        let answer = format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            pieces.concat()
        );
        let server = Server::sending(answer).await;
        let (net, _log) = net();
        let origin = Origin::parse(&server.url("/")).unwrap();
        let vault = Vault::open(Keychain::None, "test");
        let ask = |key: &str| {
            vault.put("c", origin.clone(), Secret::new(key.into())).unwrap();
            let mut request = get(&server.url("/"));
            request.key = vault.handle("c", &origin);
            request
        };
        let answer = net.send(&context(), ask("sk-canary-0123456789")).await.unwrap();
        let want = body.replace("sk-canary-0123456789", "[key]");
        assert_eq!(text(answer).await.unwrap(), want, "{cut}");
        // Words that local servers are satisfied with may stand in names of models.
        let answer = net.send(&context(), ask("sk-canary")).await.unwrap();
        assert_eq!(text(answer).await.unwrap(), body, "{cut}");
    }
}
