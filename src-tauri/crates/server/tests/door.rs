//! Who gets in: hosts, origins, methods, sizes, and the launcher's own files.

mod common;

use std::time::Duration;

use common::House;
use server::{BindError, CONNECTIONS_MAX, Server};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn a_host_that_is_not_ours_gets_nothing() {
    let house = House::open().await;
    let port = house.port;
    for (host, want) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("[::1]:{port}"), 200),
        // A name whose owner points it at 127.0.0.1 (DNS rebinding).
        (format!("rebind.evil.example:{port}"), 403),
        (format!("127.0.0.1.nip.io:{port}"), 403),
        (format!("0.0.0.0:{port}"), 403),
        (format!("localhost.:{port}"), 403),
        (format!("LOCALHOST:{port}"), 403),
        ("localhost".into(), 403),
        ("127.0.0.1".into(), 403),
        (format!("127.0.0.1:{}", port ^ 1), 403),
        (String::new(), 403),
    ] {
        for target in ["/v1/health", "/", "/frame/x/", "/v1/ws"] {
            let reply = house
                .raw(&format!(
                    "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                ))
                .await;
            if want == 403 {
                assert_eq!(reply.status, 403, "{host} {target}");
                assert!(!reply.json()["error"].as_str().unwrap().is_empty());
            } else {
                assert_ne!(reply.status, 403, "{host} {target} {reply:?}");
            }
        }
    }
    for (head, want) in [
        // None, two, and targets that name a server themselves.
        ("GET /v1/health HTTP/1.1\r\n".to_owned(), 403),
        ("GET /v1/health HTTP/1.0\r\n".to_owned(), 403),
        (
            format!("GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: evil.example\r\n"),
            403,
        ),
        (
            format!("GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}\r\n"),
            403,
        ),
        (
            format!("GET http://evil.example/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"),
            403,
        ),
        (
            format!("GET http://127.0.0.1:{port}/v1/health HTTP/1.1\r\nHost: evil.example\r\n"),
            403,
        ),
        (
            format!("GET https://127.0.0.1:{port}/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"),
            403,
        ),
        (
            format!("GET http://127.0.0.1:{port}/v1/health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"),
            200,
        ),
        (
            format!("CONNECT evil.example:443 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"),
            403,
        ),
        (format!("OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"), 405),
    ] {
        let reply = house.raw(&format!("{head}Connection: close\r\n\r\n")).await;
        assert_eq!(reply.status, want, "{head}");
    }
    house.close().await;
}

#[tokio::test]
async fn it_listens_on_loopback_alone() {
    let house = House::open().await;
    // Every other address of this machine is refused by the system, as nobody listens there.
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // No packet leaves: connecting a UDP socket only picks a route, and with it an own address.
    if socket.connect("192.0.2.1:9").is_ok() {
        let own = socket.local_addr().unwrap().ip();
        if !own.is_loopback() {
            assert!(house.connect(&own.to_string()).await.is_err(), "{own}");
        }
    }
    assert!(house.connect("127.0.0.2").await.is_err());
    if let Ok(mut six) = house.connect("::1").await {
        let ask = format!(
            "GET /v1/health HTTP/1.1\r\nHost: [::1]:{}\r\nConnection: close\r\n\r\n",
            house.port
        );
        six.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = String::new();
        six.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    house.close().await;
}

#[tokio::test]
async fn a_port_in_use_is_said() {
    let house = House::open().await;
    let Err(error) = Server::bind(house.engine.clone(), house.port).await else {
        panic!("bound twice");
    };
    assert!(matches!(error, BindError::InUse { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&house.port.to_string()) && text.contains("--port"),
        "{text}"
    );
    // One that only ::1 has in use counts as well: `localhost` would lead there.
    if let Ok(other) = tokio::net::TcpListener::bind("[::1]:0").await {
        let port = other.local_addr().unwrap().port();
        let bound = Server::bind(house.engine.clone(), port).await;
        assert!(matches!(bound, Err(BindError::InUse { .. })));
    }
    house.close().await;
}

/// Written by hand: what is sent, and what a signed-in owner's own cookie makes of it.
#[tokio::test]
async fn origins_over_the_wire() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    let own = house.origin();
    let other_name = format!("http://localhost:{}", house.port);
    let body = r#"{"theme":"dark"}"#;
    type Case<'a> = (&'a str, Vec<(&'a str, &'a str)>, u16);
    let cases: Vec<Case> = vec![
        ("GET", vec![], 200),
        ("GET", vec![("Origin", &own)], 200),
        ("GET", vec![("Origin", "null")], 403),
        ("GET", vec![("Origin", "https://evil.example")], 403),
        ("GET", vec![("Sec-Fetch-Site", "cross-site")], 403),
        ("GET", vec![("Sec-Fetch-Site", "same-site")], 403),
        ("GET", vec![("Sec-Fetch-Site", "none")], 200),
        ("PUT", vec![], 403),
        ("PUT", vec![("X-Chrysalis-Request", "1")], 200),
        ("PUT", vec![("X-Chrysalis-Request", "1"), ("Origin", &own)], 200),
        ("PUT", vec![("X-Chrysalis-Request", "true"), ("Origin", &own)], 403),
        ("PUT", vec![("Origin", &own)], 403),
        ("PUT", vec![("X-Chrysalis-Request", "1"), ("Origin", "null")], 403),
        ("PUT", vec![("X-Chrysalis-Request", "1"), ("Origin", &other_name)], 403),
        (
            "PUT",
            vec![("X-Chrysalis-Request", "1"), ("Origin", "https://evil.example")],
            403,
        ),
        (
            "PUT",
            vec![
                ("X-Chrysalis-Request", "1"),
                ("Origin", &own),
                ("Sec-Fetch-Site", "cross-site"),
            ],
            403,
        ),
    ];
    for (method, mut headers, want) in cases {
        headers.push(("Cookie", &cookie));
        let sent = if method == "GET" { "" } else { body };
        let reply = house.ask(method, "/v1/settings", &headers, sent).await;
        assert_eq!(reply.status, want, "{method} {headers:?} {reply:?}");
        assert!(
            !reply.headers.iter().any(|(name, _)| name.starts_with("access-control")),
            "{reply:?}"
        );
    }
    house.close().await;
}

#[tokio::test]
async fn preflights_get_no_cors() {
    let house = House::open().await;
    for target in ["/", "/v1/settings", "/v1/ws", "/frame/x/app.js"] {
        for origin in ["null", "https://evil.example", &house.origin()] {
            let headers = [
                ("Origin", origin),
                ("Access-Control-Request-Method", "PUT"),
                ("Access-Control-Request-Headers", "x-chrysalis-request"),
                ("Access-Control-Request-Private-Network", "true"),
            ];
            let reply = house.ask("OPTIONS", target, &headers, "").await;
            assert!(matches!(reply.status, 403 | 405), "{target} {origin} {reply:?}");
            assert_eq!(reply.header("access-control-allow-methods"), "");
            assert_eq!(reply.header("access-control-allow-headers"), "");
            if !target.starts_with("/frame/") {
                assert_eq!(reply.header("access-control-allow-origin"), "");
            }
        }
    }
    house.close().await;
}

#[tokio::test]
async fn ten_gigabytes_are_refused_unread() {
    let house = House::open().await;
    let head = format!(
        "PUT /v1/assets?name=x HTTP/1.1\r\nHost: {}\r\nX-Chrysalis-Request: 1\r\nContent-Length: 10737418240\r\n\r\nabc",
        house.host()
    );
    // The client neither sends the rest nor closes: the answer and the end of the connection come all the same.
    let reply = house.raw(&head).await;
    assert_eq!(reply.status, 413, "{reply:?}");
    assert_eq!(reply.header("connection"), "close");
    // One byte over is over.
    let head = head.replace("10737418240", "134217729");
    assert_eq!(house.raw(&head).await.status, 413);
    house.close().await;
}

#[tokio::test]
async fn broken_requests_end_cleanly() {
    let house = House::open().await;
    let long = format!("GET /v1/health HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500));
    for bytes in [
        &long,
        &many,
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "GET\r\n\r\n",
        "GET /v1/health HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "GET /\u{e9} HTTP/1.1\r\n\r\n",
    ] {
        let reply = house.raw(bytes).await;
        assert!(reply.status == 0 || (400..500).contains(&reply.status), "{reply:?}");
    }
    assert_eq!(house.ask("GET", "/v1/health", &[], "").await.status, 200);
    house.close().await;
}

#[tokio::test]
async fn there_is_an_end_to_connections() {
    let house = House::open().await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        held.push(house.connect("127.0.0.1").await.unwrap());
    }
    let reply = house.ask("GET", "/v1/health", &[], "").await;
    assert_eq!(reply.status, 503, "{reply:?}");
    assert!(!reply.json()["error"].as_str().unwrap().is_empty());
    drop(held);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while house.ask("GET", "/v1/health", &[], "").await.status != 200 {
        assert!(tokio::time::Instant::now() < deadline, "room again once they are gone");
    }
    house.close().await;
}

#[tokio::test]
async fn the_launcher_and_its_policy() {
    let house = House::open().await;
    let reply = house.ask("GET", "/", &[], "").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    assert!(
        reply.body.to_ascii_lowercase().starts_with("<!doctype html>"),
        "{}",
        reply.body
    );
    let policy = reply.header("content-security-policy");
    let origin = house.origin();
    for part in [
        "default-src 'none';".to_owned(),
        format!("connect-src 'self' ws://{};", house.host()),
        format!("frame-src {origin}/frame/;"),
        "object-src 'none';".into(),
        "base-uri 'none';".into(),
        "form-action 'none';".into(),
        "frame-ancestors 'none'".into(),
    ] {
        assert!(policy.contains(&part), "{part} in {policy}");
    }
    let scripts = policy
        .split(';')
        .find(|part| part.trim().starts_with("script-src "))
        .unwrap();
    for wide in ["unsafe", "'self'", "*", "blob:", "data:", "/frame"] {
        assert!(!scripts.contains(wide), "{scripts}");
    }
    for source in scripts.trim().split(' ').skip(1).filter(|source| *source != "'none'") {
        let place = source.strip_prefix(&origin).unwrap();
        assert!(place.len() > 1 && place.starts_with('/'), "{source}");
    }
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(reply.header(name), value, "{name}");
    }
    assert!(reply.header("permissions-policy").contains("camera=()"));

    // The policy names the host that was used, not another of our names.
    let ask = format!(
        "GET / HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n\r\n",
        house.port
    );
    let other = house.raw(&ask).await.header("content-security-policy");
    assert!(
        other.contains(&format!("ws://localhost:{};", house.port)) && !other.contains("127.0.0.1"),
        "{other}"
    );

    let etag = reply.header("etag");
    let again = house.ask("GET", "/", &[("If-None-Match", &etag)], "").await;
    assert_eq!((again.status, again.body.as_str()), (304, ""));
    let head = house.ask("HEAD", "/", &[], "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), reply.body.len().to_string());
    for missing in [
        "/nothing",
        "/assets/",
        "/assets/nothing.js",
        "/.env",
        "/../Cargo.toml",
        "/%2e%2e/Cargo.toml",
        "//",
        "/index.html/",
        "/settings",
        "/V1/health",
        "//v1/health",
        "/%76%31/health",
        "/v1%2fhealth",
        "/FRAME/x/",
        "/frame",
        "//frame/x/",
        "/./frame/x/",
        "/%66rame/x/",
    ] {
        let reply = house.ask("GET", missing, &[], "").await;
        assert_eq!(reply.status, 404, "{missing} {reply:?}");
        assert!(reply.json()["error"].is_string(), "{missing}");
    }
    house.close().await;
}

#[tokio::test]
async fn what_v1_answers_is_harmless_to_look_at() {
    let house = House::open().await;
    for target in ["/v1/health", "/v1/nothing", "/v1/settings", "/v1"] {
        let reply = house.ask("GET", target, &[], "").await;
        let policy = reply.header("content-security-policy");
        assert!(
            policy.contains("sandbox; default-src 'none'; frame-ancestors 'none'"),
            "{target} {policy}"
        );
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("cross-origin-resource-policy"), "same-origin");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert!(
            reply.header("content-type").starts_with("application/json"),
            "{target} {reply:?}"
        );
    }
    house.close().await;
}
