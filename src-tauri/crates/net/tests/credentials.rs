//! Which credentials and secrets of a guest's request go where, over real connections.

mod common;

use bytes::Bytes;
use common::guest::*;
use common::*;
use http::Method;
use net::{CheckedUrl, NetError, Outgoing, Reach};
use secrets::{Bound, Keychain, Origin, Secret, Vault};
use url::Url;

fn checked(url: &str) -> CheckedUrl {
    CheckedUrl::check(url, &Reach::Named(Origin::parse(url).unwrap())).unwrap()
}

#[tokio::test]
async fn credentials_do_not_cross_origins() {
    let server = own_port(|path, port| match path {
        "/away" => redirect(307, &format!("http://b.lan:{port}/back")),
        "/back" => redirect(307, &format!("http://a.lan:{port}/end")),
        "/same" => redirect(307, "/end"),
        _ => OK.into(),
    })
    .await;
    let (net, _) = home();
    let reach = granted(&[], &["a.lan", "b.lan"]);
    let at = |path: &str| format!("http://a.lan:{}{path}", server.port());
    let (_vault, handle) = secret(&at("/"), "sk-canary-secret");
    let fetch = |path: &str| {
        let mut fetch = get(at(path), &reach);
        fetch.method = "PUT".into();
        fetch.body = Bytes::from_static(b"the body");
        fetch.headers = vec![
            text("Authorization", "Bearer canary-1"),
            text("Cookie", "canary-2"),
            text("X-Api-Key", "canary-3"),
            text("X-Csrf-Token", "canary-4"),
            text("X-Note", "kept"),
            with(&handle, "X-Signed-By", "Key "),
        ];
        fetch
    };
    success(&net, fetch("/same")).await;
    success(&net, fetch("/away")).await;
    let heard = server.heard.lock();
    assert_eq!(heard.len(), 5);
    for (i, request) in heard.iter().enumerate() {
        let own = i < 3;
        assert_eq!(
            request.matches("canary-").count(),
            if own { 5 } else { 0 },
            "{i} {request}"
        );
        assert_eq!(
            request.contains("x-signed-by: Key sk-canary-secret\r\n"),
            own,
            "{i} {request}"
        );
        assert!(request.contains("x-note: kept\r\n"), "{i} {request}");
        assert!(
            request.starts_with("PUT ") && request.ends_with("the body"),
            "{i} {request}"
        );
    }
}

/// failures.md C.2 row 15: a secret goes to the origin it was given for, whatever address a request names.
#[tokio::test]
async fn regress_15_a_secret_is_not_sent_to_another_address() {
    let server = Server::sending(OK).await;
    let attacker = Server::sending(OK).await;
    let (net, log) = home();
    let reach = granted(&[], &["a.lan", "b.lan"]);
    let own = format!("http://a.lan:{}/v1/models", server.port());
    let (vault, handle) = secret(&own, "sk-canary-secret");
    let ask = |url: &str| {
        let mut fetch = get(url, &reach);
        fetch.headers = vec![with(&handle, "authorization", "Bearer ")];
        fetch
    };
    success(&net, ask(&own)).await;
    assert!(server.heard.lock()[0].contains("authorization: Bearer sk-canary-secret\r\n"));
    for url in [
        format!("http://a.lan:{}/v1/models", attacker.port()),
        format!("http://b.lan:{}/v1/models", server.port()),
        format!("https://a.lan:{}/v1/models", server.port()),
    ] {
        let error = failure(&net, ask(&url)).await;
        let message = error.to_string();
        assert!(matches!(error, NetError::Request { .. }), "{message}");
        assert!(
            message.contains("\"authorization\"") && !message.contains("canary"),
            "{message}"
        );
    }
    vault.forget("c").unwrap();
    assert!(matches!(failure(&net, ask(&own)).await, NetError::Request { .. }));
    assert_eq!((server.seen(), attacker.seen()), (1, 0));
    assert_eq!((log.opened().len(), log.refusals().len()), (1, 4));
    assert!(!format!("{:?}", log.rows.lock()).contains("canary"));
}

/// A gateway tells its customers apart by the path: a key of one is not sent below another, however that is spelled, nor
/// where a redirect on the same host leads.
#[tokio::test]
async fn regress_15_a_gateways_key_stays_below_its_path() {
    let server = own_port(|path, _| match path {
        "/acct/one/away" => redirect(307, "/acct/two/end"),
        "/acct/one/near" => redirect(307, "/acct/one/end"),
        _ => OK.into(),
    })
    .await;
    let (net, log) = home();
    let reach = granted(&[], &["a.lan"]);
    let at = |path: &str| format!("http://a.lan:{}{path}", server.port());
    let vault = Vault::open(Keychain::None, "test");
    let bound = Bound::of(&Url::parse(&at("/acct/one/v1")).unwrap()).unwrap();
    vault.put("c", &bound, Secret::new("sk-canary-secret".into())).unwrap();
    let handle = vault.handle("c", &bound).unwrap();
    let ask = |path: &str| {
        let mut fetch = get(at(path), &reach);
        fetch.headers = vec![with(&handle, "authorization", "Bearer ")];
        fetch
    };
    success(&net, ask("/acct/one/v1/models")).await;
    success(&net, ask("/acct/one/near")).await;
    assert!(
        server
            .heard
            .lock()
            .iter()
            .all(|heard| heard.contains("sk-canary-secret"))
    );
    assert_eq!(server.seen(), 3);
    for path in [
        "/",
        "/acct/two/v1/models",
        "/acct/one-more/v1",
        "/acct/one/../two",
        "/acct/one/%2e%2e/two",
        "/acct/one/..%2ftwo",
    ] {
        let error = failure(&net, ask(path)).await.to_string();
        assert!(error.contains("/acct/one and no other address"), "{path}: {error}");
        let mut request = Outgoing::new(Method::GET, checked(&at(path)), "test");
        request.key = Some(handle.clone());
        let error = net.send(&context(), request).await.err().expect(path).to_string();
        assert!(error.contains("/acct/one and was not sent to"), "{path}: {error}");
    }
    assert_eq!(server.seen(), 3);
    failure(&net, ask("/acct/one/away")).await;
    let heard = server.heard.lock();
    assert_eq!(heard.len(), 4);
    assert!(!heard.iter().any(|heard| heard.contains("/acct/two")), "{heard:?}");
    assert!(!format!("{:?}", log.rows.lock()).contains("canary"));
}

#[tokio::test]
async fn a_secret_that_comes_back_is_not_shown() {
    let server = own_port(|path, port| match path {
        "/echo" => {
            let body = "your key is sk-canary-secret!";
            format!(
                "HTTP/1.1 200 OK\r\nX-Key: sk-canary-secret\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
                 {:x}\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                15,
                &body[..15],
                body.len() - 15,
                &body[15..]
            )
        }
        "/leak" => redirect(302, &format!("http://b.lan:{port}/?key=sk-canary-secret")),
        "/away" => redirect(302, &format!("http://b.lan:{port}/echo")),
        _ => OK.into(),
    })
    .await;
    let (net, log) = home();
    let reach = granted(&[], &["a.lan", "b.lan"]);
    let at = |path: &str| format!("http://a.lan:{}{path}", server.port());
    let (_vault, handle) = secret(&at("/"), "sk-canary-secret");
    let ask = |path: &str| {
        let mut fetch = get(at(path), &reach);
        fetch.headers = vec![with(&handle, "x-key", "")];
        fetch
    };
    for path in ["/echo", "/away"] {
        let answer = success(&net, ask(path)).await;
        assert_eq!(answer.body, "your key is [secret]!", "{path}");
        assert!(answer.headers.contains(&("x-key".into(), "[secret]".into())), "{path}");
    }
    let error = failure(&net, ask("/leak")).await;
    assert!(matches!(error, NetError::Refused { .. }), "{error}");
    assert_eq!(server.seen(), 4);
    assert!(!format!("{error} {:?}", log.rows.lock()).contains("canary"));
}

/// Names of headers and hosts are lower-cased on the way, and so was a secret in one.
#[tokio::test]
async fn a_secret_that_comes_back_in_a_name_is_not_shown() {
    let server = own_port(|path, port| match path {
        "/name" => "HTTP/1.1 200 OK\r\nX-Sk-Canary-Secret-1: a\r\nSk-Canary-SECRET: b\r\nX-Other: kept\r\n\
                    Content-Length: 2\r\nConnection: close\r\n\r\nok"
            .into(),
        "/host" => redirect(302, &format!("http://sk-canary-secret.lan:{port}/end")),
        _ => OK.into(),
    })
    .await;
    let (net, log) = home();
    let reach = granted(&[], &["a.lan", "sk-canary-secret.lan"]);
    let at = |path: &str| format!("http://a.lan:{}{path}", server.port());
    let (_vault, handle) = secret(&at("/"), "Sk-CANARY-secret");
    let ask = |path: &str| {
        let mut fetch = get(at(path), &reach);
        fetch.headers = vec![with(&handle, "x-key", "")];
        fetch
    };
    let answer = success(&net, ask("/name")).await;
    assert!(answer.headers.contains(&("x-other".into(), "kept".into())));
    let shown = format!("{:?}", answer.headers).to_lowercase();
    assert!(!shown.contains("canary"), "{shown}");
    let error = failure(&net, ask("/host")).await;
    assert!(matches!(error, NetError::Refused { .. }), "{error}");
    let shown = format!("{error} {:?}", log.rows.lock()).to_lowercase();
    assert!(!shown.contains("canary"), "{shown}");
    assert!(error.to_string().contains("with the secret in it"), "{error}");
}
