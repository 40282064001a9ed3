//! Requests of guests over real connections: which hosts are reached, where redirects may lead, and what is said on the
//! way. Public hosts cannot be reached from a test, so that what must work is shown with hosts of the local network and
//! what must not with both.

mod common;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::guest::*;
use common::*;
use net::{CheckedUrl, Granted, HostPattern, Net, NetError, Outcome, Reach};

#[test]
fn what_is_granted_and_nothing_else() {
    let reach = granted(
        &[
            "api.example.com",
            "*.cdn.example.com",
            "only.example.com:8443",
            "1.1.1.1",
            "10.0.0.9",
        ],
        &[
            "localhost:3000",
            "10.0.0.7",
            "nas.lan:8080",
            "[::1]:9",
            "169.254.169.254",
            "0.0.0.0",
            "[fe80::1]",
            "224.0.0.1",
        ],
    );
    for good in [
        "https://api.example.com/",
        "http://api.example.com:8080/",
        "https://API.example.com./x",
        "https://a.cdn.example.com/",
        "https://a.b.cdn.example.com/",
        "https://only.example.com:8443/",
        "https://1.1.1.1/",
        "http://localhost:3000/",
        "http://localhost.:3000/",
        "http://10.0.0.7/",
        "https://10.0.0.7:1/",
        "http://0xa.7/",
        "http://nas.lan:8080/",
        "http://[::1]:9/",
        "http://[0:0::1]:9/",
    ] {
        assert!(CheckedUrl::check(good, &reach).is_ok(), "{good}");
    }
    for bad in [
        "https://example.com/",
        "https://cdn.example.com/",
        "https://evil-api.example.com/",
        "https://api.example.com.evil.com/",
        "https://only.example.com/",
        "https://only.example.com:8444/",
        "https://1.0.0.1/",
        // Listed as a host of the internet, which it is not.
        "http://10.0.0.9/",
        "http://10.0.0.8/",
        "http://localhost/",
        "http://localhost:3001/",
        "http://a.localhost:3000/",
        "http://127.0.0.1:3000/",
        "http://[::1]:3000/",
        "http://nas.lan/",
        "http://nas.lan:8081/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.7]/",
        // Never, whatever is listed.
        "http://169.254.169.254/latest/meta-data/",
        "http://0.0.0.0/",
        "http://0/",
        "http://[fe80::1]/",
        "http://224.0.0.1/",
    ] {
        let error = CheckedUrl::check(bad, &reach).unwrap_err();
        assert!(matches!(error, NetError::Refused { .. }), "{bad}: {error:?}");
    }
    for bad in [
        "https://user@api.example.com/",
        "https://u:p@api.example.com/",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "http://nas.lan:0/",
    ] {
        let error = CheckedUrl::check(bad, &reach).unwrap_err();
        assert!(matches!(error, NetError::Address { .. }), "{bad}: {error:?}");
    }
    let nothing = Reach::Granted(Granted::default());
    let error = CheckedUrl::check("https://api.example.com/", &nothing).unwrap_err();
    assert!(error.to_string().contains("networkHosts"), "{error}");
}

#[test]
fn restrictions_from_above_narrow_and_never_widen() {
    let grant = |also: Vec<Arc<[HostPattern]>>| {
        Reach::Granted(Granted {
            hosts: patterns(&["*.example.com"]),
            local: patterns(&["10.0.0.7"]),
            also,
        })
    };
    let check = |url: &str, also: &[&[&str]]| {
        CheckedUrl::check(url, &grant(also.iter().map(|list| patterns(list)).collect())).is_ok()
    };
    assert!(check("https://a.example.com/", &[]));
    assert!(check(
        "https://a.example.com/",
        &[&["*.example.com"], &["a.example.com:443", "10.0.0.7"]]
    ));
    assert!(!check(
        "https://a.example.com/",
        &[&["*.example.com"], &["b.example.com"]]
    ));
    assert!(!check("https://a.example.com/", &[&[]]));
    assert!(!check("https://other.com/", &[&["other.com"]]));
    assert!(check("http://10.0.0.7/", &[&["10.0.0.7"]]));
    assert!(!check("http://10.0.0.7/", &[&["*.example.com"]]));
    assert!(!check("http://10.0.0.8/", &[&["10.0.0.8"]]));
}

/// failures.md C.2 row 16: a grant for one server of the local network works, for it alone.
#[tokio::test]
async fn regress_16_a_granted_local_server_works_and_its_neighbours_do_not() {
    let (server, neighbour) = (Server::sending(OK).await, Server::sending(OK).await);
    let (net, log) = net();
    let reach = granted(&[], &[&format!("127.0.0.1:{}", server.port())]);
    let answer = success(&net, get(server.url("/x"), &reach)).await;
    assert_eq!(
        (answer.status, answer.status_text.as_str(), &answer.body[..]),
        (200, "OK", &b"ok"[..])
    );
    assert_eq!(answer.url, server.url("/x"));
    for other in [
        neighbour.url("/"),
        format!("http://127.0.0.2:{}/", server.port()),
        format!("http://localhost:{}/", server.port()),
        format!("http://[::ffff:127.0.0.1]:{}/", server.port()),
        "http://10.10.0.88:11434/".into(),
    ] {
        let error = failure(&net, get(&other, &reach)).await;
        assert!(matches!(error, NetError::Refused { .. }), "{other}: {error}");
    }
    assert_eq!((server.seen(), neighbour.seen()), (1, 0));
    assert_eq!((log.opened().len(), log.refusals().len()), (1, 5));
    // Without the port in the pattern, any port of that host.
    let reach = granted(&[], &["127.0.0.1"]);
    success(&net, get(server.url("/"), &reach)).await;
    success(&net, get(neighbour.url("/"), &reach)).await;
}

#[tokio::test]
async fn a_name_is_trusted_with_a_private_address_only_where_it_was_named() {
    let server = Server::sending(OK).await;
    let port = server.port();
    for (name, answers, hosts, local, works) in [
        ("nas.lan", &["127.0.0.1"][..], &[][..], &["nas.lan"][..], true),
        ("nas.example.com", &["127.0.0.1"], &[], &["nas.example.com"], true),
        (
            "nas.example.com",
            &["127.0.0.1"],
            &["*.example.com"],
            &["nas.example.com"],
            true,
        ),
        ("a.nas.lan", &["127.0.0.1"], &[], &["*.nas.lan"], true),
        ("localhost", &["127.0.0.1"], &[], &["localhost"], true),
        // The public pattern matches, but says nothing about private addresses.
        ("nas.example.com", &["127.0.0.1"], &["nas.example.com"], &[], false),
        (
            "nas.example.com",
            &["10.0.0.1"],
            &["*.example.com"],
            &["nas.lan"],
            false,
        ),
        ("nas.lan", &["127.0.0.1"], &["nas.lan"], &["nas.lan:1"], false),
        // Below a public name, anybody's subdomain would be vouched for.
        ("evil.example.com", &["127.0.0.1"], &[], &["*.example.com"], false),
        // One bad answer spoils a name; some addresses are never reached.
        ("nas.lan", &["127.0.0.1", "169.254.169.254"], &[], &["nas.lan"], false),
        ("nas.lan", &["::ffff:169.254.169.254"], &[], &["nas.lan"], false),
        ("nas.lan", &["0.0.0.0"], &[], &["nas.lan"], false),
        ("nas.lan", &["224.0.0.1"], &[], &["nas.lan"], false),
        ("localhost", &["10.0.0.1"], &[], &["localhost"], false),
    ] {
        let log = Arc::new(Memory::default());
        let net = Net::with_resolver(log.clone(), Script::new(&[answers]));
        let before = server.seen();
        let reach = granted(hosts, local);
        let result = net
            .fetch(&context(), get(format!("http://{name}:{port}/"), &reach))
            .await;
        assert_eq!(
            result.is_ok(),
            works,
            "{name} {answers:?} {hosts:?} {local:?}: {result:?}"
        );
        if let Err(error) = result {
            assert!(matches!(error, NetError::Refused { .. }), "{name} {answers:?}: {error}");
            assert!(matches!(log.ends()[0].outcome, Outcome::Refused(_)), "{name}");
        }
        assert_eq!(server.seen() - before, usize::from(works), "{name} {answers:?}");
    }
    let net = Net::with_resolver(Arc::new(Memory::default()), Script::new(&[&["10.0.0.1"]]));
    let error = failure(
        &net,
        get("http://nas.example.com/", &granted(&["nas.example.com"], &[])),
    )
    .await;
    assert!(error.to_string().contains("localHosts"), "{error}");
}

/// failures.md C.2 row 12: a redirect is no way around the rules.
#[tokio::test]
async fn regress_12_a_redirect_leads_nowhere_that_was_not_granted() {
    let target = Server::sending(OK).await;
    let port = target.port();
    let (net, log) = home();
    for location in [
        target.url("/"),
        format!("//127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://public.example:{port}/"),
        format!("//b.lan:{port}/"),
        format!("http://a.lan:{port}/"),
        format!("http://a.lan@127.0.0.1:{port}/"),
        "http://169.254.169.254/latest/meta-data/".into(),
        "http://0/".into(),
        "file:///etc/passwd".into(),
        "data:text/plain,x".into(),
        "javascript:0".into(),
        "http://[".into(),
    ] {
        for status in [301, 302, 303, 307, 308] {
            let sent = redirect(status, &location);
            let server = Server::paths(move |_| sent.clone()).await;
            // The target's port is granted for no host, `public.example` for public addresses only.
            let reach = granted(&["public.example"], &[&format!("a.lan:{}", server.port())]);
            let refusals = log.refusals().len();
            let error = failure(&net, get(format!("http://a.lan:{}/", server.port()), &reach)).await;
            assert!(error.is_refusal(), "{location}: {error}");
            assert_eq!(server.seen(), 1, "{location}");
            let ends = log.ends();
            match location.contains("public.example") {
                // Only its address shows that it is out of reach, and that is known once the line is open.
                true => assert!(matches!(ends.last().unwrap().outcome, Outcome::Refused(_))),
                false => {
                    assert_eq!(log.refusals().len(), refusals + 1, "{location}");
                    let end = ends.last().unwrap();
                    assert_eq!((&end.outcome, end.status), (&Outcome::Done, Some(status)), "{location}");
                }
            }
        }
    }
    assert_eq!(target.seen(), 0);
}

#[tokio::test]
async fn redirects_are_followed_and_each_has_its_line() {
    let server = Server::paths(|path| match path {
        "/1" => redirect(302, "/2?q=canary"),
        "/2?q=canary" => redirect(307, "3#fragment"),
        "/3" => "HTTP/1.1 201 X\r\nX-A: 1\r\nx-a: 2\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone".into(),
        // None or an odd one: that is the answer.
        "/none" => "HTTP/1.1 302 X\r\nContent-Length: 4\r\nConnection: close\r\n\r\nhere".into(),
        "/304" => "HTTP/1.1 304 X\r\nLocation: /3\r\nConnection: close\r\n\r\n".into(),
        "/300" => "HTTP/1.1 300 X\r\nLocation: /3\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into(),
        path => redirect(302, path),
    })
    .await;
    let (net, log) = home();
    let reach = granted(&[], &["a.lan"]);
    let at = |path: &str| format!("http://a.lan:{}{path}", server.port());
    let answer = success(&net, get(at("/1"), &reach)).await;
    assert_eq!(
        (answer.status, &answer.body[..], answer.url),
        (201, &b"done"[..], at("/3"))
    );
    let wanted = [("x-a", "1, 2"), ("set-cookie", "a=1"), ("set-cookie", "b=2")];
    let got: Vec<(&str, &str)> = answer
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .filter(|(name, _)| ["x-a", "set-cookie"].contains(name))
        .collect();
    assert_eq!(got, wanted);
    let lines: Vec<(String, &str, String)> = log
        .opened()
        .into_iter()
        .map(|line| (line.url, line.purpose, line.trace))
        .collect();
    let trace = lines[0].2.clone();
    assert_eq!(
        lines,
        [
            (at("/1"), "test", trace.clone()),
            (at("/2"), "redirect", trace.clone()),
            (at("/3"), "redirect", trace)
        ]
    );
    let ends: Vec<_> = log.ends().into_iter().map(|end| (end.outcome, end.status)).collect();
    assert_eq!(ends, [302, 307, 201].map(|status| (Outcome::Done, Some(status))));
    for (path, status) in [("/none", 302), ("/304", 304), ("/300", 300)] {
        assert_eq!(success(&net, get(at(path), &reach)).await.status, status, "{path}");
    }

    let before = server.seen();
    let error = failure(&net, get(at("/again"), &reach)).await;
    assert!(error.to_string().contains("more than 5 times"), "{error}");
    assert_eq!(server.seen() - before, 6);
    let mut none = get(at("/1"), &reach);
    none.max_hops = 0;
    assert!(failure(&net, none).await.is_refusal());
}

#[tokio::test]
async fn every_hop_is_looked_up_anew() {
    let server = Server::paths(|path| match path {
        "/1" => redirect(302, "/2"),
        _ => OK.into(),
    })
    .await;
    let reach = granted(&[], &["a.lan"]);
    let url = format!("http://a.lan:{}/1", server.port());
    let net = |answers: &[&[&str]]| {
        let names = Names::new(&[("a.lan", answers)]);
        Net::with_resolver(Arc::new(Memory::default()), names)
    };
    success(&net(&[&["127.0.0.1"]]), get(&url, &reach)).await;
    let rebound = net(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let error = failure(&rebound, get(&url, &reach)).await;
    assert!(matches!(error, NetError::Refused { .. }), "{error}");
    assert_eq!(server.seen(), 3);
}

#[tokio::test]
async fn a_post_that_is_redirected_becomes_a_get_where_it_should() {
    for (status, becomes) in [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")] {
        let server = Server::paths(move |path| match path {
            "/1" => redirect(status, "/2"),
            _ => OK.into(),
        })
        .await;
        let (net, _) = home();
        let mut fetch = get(format!("http://a.lan:{}/1", server.port()), &granted(&[], &["a.lan"]));
        fetch.method = "POST".into();
        fetch.body = Bytes::from_static(b"the body");
        fetch.headers = vec![text("Content-Type", "text/plain"), text("X-Note", "kept")];
        success(&net, fetch).await;
        let second = server.heard.lock()[1].clone();
        let whole = becomes == "POST";
        assert!(second.starts_with(&format!("{becomes} /2 ")), "{status} {second}");
        for part in ["content-type", "content-length: 8", "the body"] {
            assert_eq!(second.contains(part), whole, "{status} {second}");
        }
        assert!(second.contains("x-note: kept"), "{status} {second}");
    }
}

#[tokio::test]
async fn requests_that_may_not_be_sent() {
    let server = Server::sending(OK).await;
    let (net, log) = home();
    let reach = granted(&[], &["a.lan"]);
    let url = format!("http://a.lan:{}/", server.port());
    let mut bad = Vec::new();
    for method in ["CONNECT", "TRACE", "get", "GET / HTTP/1.1\r\nX: "] {
        let mut fetch = get(&url, &reach);
        fetch.method = method.into();
        bad.push(fetch);
    }
    for header in [
        text("Host", "evil"),
        text("Proxy-Authorization", "x"),
        text("X", "a\r\nHost: evil"),
        text("Content-Length", "3"),
    ] {
        let mut fetch = get(&url, &reach);
        fetch.headers = vec![header];
        bad.push(fetch);
    }
    let mut plain = get(&url, &reach);
    plain.https_only = true;
    bad.push(plain);
    bad.push(get(format!("{url}{}", "a".repeat(40_000)), &reach));
    bad.push(get(url.replace("a.lan", "user@a.lan"), &reach));
    let count = bad.len();
    for fetch in bad {
        let error = failure(&net, fetch).await;
        assert!(error.is_refusal(), "{error}");
        assert!(error.to_string().len() < 600, "{error}");
    }
    let mut late = get(&url, &reach);
    late.timeout = Duration::ZERO;
    assert!(matches!(failure(&net, late).await, NetError::TimedOut { .. }));
    assert_eq!(server.seen(), 0);
    assert_eq!((log.opened().len(), log.refusals().len()), (0, count + 1));
    success(&net, get(&url, &reach)).await;
}

#[tokio::test]
async fn an_ipv6_address_is_reached_only_where_it_was_named() {
    let (net, _) = net();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://[::1]:{port}/");
    for (pattern, allowed) in [
        (format!("[::1]:{port}"), true),
        ("::1".into(), true),
        ("[::1]:1".into(), false),
        ("127.0.0.1".into(), false),
        ("localhost".into(), false),
        ("[::ffff:127.0.0.1]".into(), false),
    ] {
        let mut fetch = get(&url, &granted(&[], &[&pattern]));
        fetch.timeout = Duration::from_secs(5);
        // Nothing listens there, which is found out by asking only.
        let error = failure(&net, fetch).await;
        assert_eq!(matches!(error, NetError::Connect { .. }), allowed, "{pattern}: {error}");
        assert_eq!(
            matches!(error, NetError::Refused { .. }),
            !allowed,
            "{pattern}: {error}"
        );
    }
}
