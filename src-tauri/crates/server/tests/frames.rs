//! App pages in a browser: what a frame token opens, and what it must never open.

mod common;

use common::House;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WRITE: (&str, &str) = ("X-Chrysalis-Request", "1");

#[tokio::test]
async fn a_token_opens_its_apps_files_and_no_cookie_does() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    house.add_app("alpha").await;
    let token = house.frame(&cookie, "alpha").await;
    let base = format!("/frame/{token}");

    // As the sandboxed page's own requests look: no cookie, origin null, from another site.
    let opaque = [("Origin", "null"), ("Sec-Fetch-Site", "cross-site")];
    let page = house.ask("GET", &format!("{base}/"), &opaque, "").await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("<title>page</title>"), "{}", page.body);
    let script = house.ask("GET", &format!("{base}/app.js"), &opaque, "").await;
    assert_eq!(script.status, 200);
    assert!(script.body.contains("code of alpha"), "{}", script.body);
    let head = house.ask("HEAD", &format!("{base}/app.js"), &opaque, "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));

    for reply in [&page, &script] {
        let policy = reply.header("content-security-policy");
        for part in [
            "sandbox allow-scripts",
            "default-src 'none'",
            "connect-src 'none'",
            "form-action 'none'",
        ] {
            assert!(policy.contains(part), "{part} in {policy}");
        }
        assert!(
            !policy.contains("allow-same-origin") && !policy.contains("allow-popups"),
            "{policy}"
        );
        // The token's own path, and not the whole origin with other tokens and the launcher.
        assert!(policy.contains(&format!("{}{base}/", house.origin())), "{policy}");
        assert!(
            policy.contains(&format!("frame-ancestors {}", house.origin())),
            "{policy}"
        );
        assert_eq!(reply.header("access-control-allow-origin"), "*");
        assert_eq!(reply.header("access-control-allow-credentials"), "");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        assert_eq!(reply.header("x-dns-prefetch-control"), "off");
        assert!(
            reply.header("connection-allowlist").starts_with("(response-origin)"),
            "{reply:?}"
        );
        assert_eq!(reply.header("set-cookie"), "");
    }

    // A token that was never given, and the owner's cookie beside it.
    let wrong = token.chars().rev().collect::<String>();
    for target in [
        format!("/frame/{wrong}/"),
        format!("/frame/{}/", &token[1..]),
        format!("/frame/{token}x/"),
        format!(
            "/frame/{}/",
            token.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A")
        ),
        "/frame/".into(),
        "/frame//".into(),
        "/frame//app.js".into(),
        "/frame/alpha/".into(),
        "/frame/%00/".into(),
        format!("/frame/{wrong}"),
    ] {
        let reply = house.ask("GET", &target, &[("Cookie", &cookie)], "").await;
        assert_eq!(reply.status, 404, "{target} {reply:?}");
        let policy = reply.header("content-security-policy");
        assert!(policy.starts_with("sandbox; default-src 'none'"), "{target} {policy}");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
    }

    // Without its slash the page's relative addresses would lose the token.
    let bare = house.ask("GET", &base, &[], "").await;
    assert_eq!((bare.status, bare.header("location")), (308, format!("{base}/")));

    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"] {
        let reply = house
            .ask(method, &format!("{base}/app.js"), &[WRITE, ("Cookie", &cookie)], "")
            .await;
        assert_eq!(reply.status, 405, "{method}");
    }
    house.close().await;
}

#[tokio::test]
async fn a_frames_path_has_one_spelling() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    house.add_app("alpha").await;
    house.add_app("beta").await;
    let token = house.frame(&cookie, "alpha").await;
    for path in [
        "../app.js",
        "./app.js",
        "%2e%2e/app.js",
        "%2E/app.js",
        "..%2fapp.js",
        "..%5capp.js",
        "../../beta/app.js",
        "%2e%2e/%2e%2e/beta/app.js",
        "/app.js",
        "//etc/passwd",
        "/",
        "app.js%00",
        "app.js%0d%0aX:y",
        "%ff",
        "%",
        ".secret",
        "%2esecret",
        "../../../v1/settings",
        "nothing.js",
    ] {
        let reply = house
            .ask("GET", &format!("/frame/{token}/{path}"), &[("Cookie", &cookie)], "")
            .await;
        assert!(matches!(reply.status, 400 | 403 | 404), "{path} {reply:?}");
        assert!(
            !reply.body.contains("code of") && !reply.body.contains("hidden"),
            "{path} {reply:?}"
        );
        assert!(
            reply.header("content-security-policy").contains("sandbox"),
            "{path} {reply:?}"
        );
    }
    // The letter case of the token's own prefix matters too, and a spelling that is not the frame's is nobody's.
    for path in [
        format!("/FRAME/{token}/app.js"),
        format!("//frame/{token}/app.js"),
        format!("/%66rame/{token}/app.js"),
        format!("/./frame/{token}/app.js"),
        format!("/v1/../frame/{token}/app.js"),
        format!("/v1/frame/{token}/app.js"),
    ] {
        let reply = house.ask("GET", &path, &[], "").await;
        assert!(matches!(reply.status, 400 | 401 | 403 | 404), "{path} {reply:?}");
        assert!(!reply.body.contains("code of"), "{path}");
    }
    house.close().await;
}

/// A page's call is the app's, whatever else it carries.
#[tokio::test]
async fn a_frame_token_is_never_the_owner() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    house.add_app("alpha").await;
    house.add_app("beta").await;
    let token = house.frame(&cookie, "alpha").await;
    let both = [
        ("X-Chrysalis-Frame", token.as_str()),
        ("Cookie", cookie.as_str()),
        WRITE,
    ];
    let alone = [("X-Chrysalis-Frame", token.as_str()), WRITE];
    for headers in [&both[..], &alone[..]] {
        for (method, target, want) in [
            ("GET", "/v1/apps/alpha/__storage", 200),
            ("GET", "/v1/models", 200),
            ("GET", "/v1/apps/beta/__storage", 403),
            ("GET", "/v1/apps/alpha%2f..%2fbeta/__storage", 400),
            ("GET", "/v1/apps/alpha/../beta/__storage", 400),
            ("GET", "/v1/settings", 403),
            ("PUT", "/v1/settings", 403),
            ("GET", "/v1/me", 403),
            ("GET", "/v1/activity", 403),
            ("GET", "/v1/launch", 403),
            ("POST", "/v1/auth/logout", 403),
            ("POST", "/v1/apps/alpha/frame", 403),
            ("GET", "/v1/apps/alpha/plugins", 403),
            ("DELETE", "/v1/apps/alpha", 403),
        ] {
            let body = if method == "GET" { "" } else { "{}" };
            let reply = house.ask(method, target, headers, body).await;
            assert_eq!(reply.status, want, "{method} {target} {headers:?} {reply:?}");
            assert_eq!(reply.header("set-cookie"), "", "{method} {target}");
        }
    }
    // A token that is wrong, empty or there twice: refused, and not answered as the owner the cookie speaks of.
    let wrong = "0".repeat(32);
    for frames in [
        vec![wrong.as_str()],
        vec![""],
        vec![" "],
        vec![&token, &token],
        vec![&wrong, &token],
    ] {
        let mut headers = vec![("Cookie", cookie.as_str())];
        headers.extend(frames.iter().map(|token| ("X-Chrysalis-Frame", *token)));
        let reply = house.ask("GET", "/v1/settings", &headers, "").await;
        assert_eq!(reply.status, 403, "{frames:?} {reply:?}");
        assert_eq!(
            house.ask("GET", "/v1/apps/alpha/__storage", &headers, "").await.status,
            403,
            "{frames:?}"
        );
    }
    // A claim in any other place counts for nothing.
    for headers in [
        [("X-Chrysalis-App", "alpha")],
        [("Authorization", &*format!("Bearer {token}"))],
        [("Cookie", &*format!("chrysalis_frame={token}"))],
        [("Cookie", &*format!("chrysalis_session={token}"))],
    ] {
        let reply = house.ask("GET", "/v1/apps/alpha/__storage", &headers, "").await;
        assert_eq!(reply.status, 401, "{headers:?} {reply:?}");
    }
    house.close().await;
}

#[tokio::test]
async fn a_frame_dies_with_its_session_and_by_itself() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    house.add_app("alpha").await;
    let (one, two) = (house.frame(&cookie, "alpha").await, house.frame(&cookie, "alpha").await);
    assert_ne!(one, two, "one per load");
    let owner = [("Cookie", cookie.as_str()), WRITE];
    let closed = house
        .ask("DELETE", &format!("/v1/apps/alpha/frame/{one}"), &owner, "")
        .await;
    assert!((200..300).contains(&closed.status), "{closed:?}");
    assert_eq!(house.ask("GET", &format!("/frame/{one}/"), &[], "").await.status, 404);
    assert_eq!(house.ask("GET", &format!("/frame/{two}/"), &[], "").await.status, 200);
    assert_eq!(house.ask("POST", "/v1/auth/logout", &owner, "").await.status, 200);
    assert_eq!(house.ask("GET", &format!("/frame/{two}/"), &[], "").await.status, 404);
    let page = [("X-Chrysalis-Frame", two.as_str())];
    assert_eq!(
        house.ask("GET", "/v1/apps/alpha/__storage", &page, "").await.status,
        403
    );
    assert_eq!(
        house
            .ask("GET", "/v1/settings", &[("Cookie", &cookie)], "")
            .await
            .status,
        401
    );
    house.close().await;
}

/// A page can navigate to what only pictures are meant to come from; there, too, nothing gets out.
#[tokio::test]
async fn what_the_engine_answers_in_a_frame_is_as_shut_in_as_a_page() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    house.add_app("alpha").await;
    let token = house.frame(&cookie, "alpha").await;
    let as_page = [
        ("X-Chrysalis-Frame", token.as_str()),
        WRITE,
        ("Content-Type", "image/svg+xml"),
    ];
    let kept = house.ask("PUT", "/v1/assets?name=x", &as_page, "<svg/>").await.json();
    let asset = format!("assets/{}", kept["id"].as_str().unwrap());
    for (target, status) in [
        (asset.as_str(), 200),
        ("models", 200),
        ("settings", 403),
        ("apps/alpha/nothing", 404),
    ] {
        let reply = house.ask("GET", &format!("/frame/{token}/v1/{target}"), &[], "").await;
        assert_eq!(reply.status, status, "{target}: {reply:?}");
        assert!(
            reply.header("connection-allowlist").starts_with("(response-origin)"),
            "{target}: {reply:?}"
        );
        assert!(
            reply.header("permissions-policy").contains("camera=()"),
            "{target}: {reply:?}"
        );
        assert_eq!(reply.header("x-dns-prefetch-control"), "off", "{target}");
        let policies: Vec<_> = reply
            .headers
            .iter()
            .filter(|(name, _)| name == "content-security-policy")
            .collect();
        assert!(
            policies
                .iter()
                .any(|(_, p)| p.starts_with("sandbox; default-src 'none'")),
            "{target}: {policies:?}"
        );
        assert!(
            policies.iter().any(|(_, p)| p.contains("webrtc 'block'")),
            "{target}: {policies:?}"
        );
    }
    let asset = house.ask("GET", &format!("/frame/{token}/v1/{asset}"), &[], "").await;
    assert!(asset.header("cache-control").contains("immutable"), "{asset:?}");
    house.close().await;
}

#[tokio::test]
async fn what_listens_at_a_frames_address_ends_with_its_session() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    house.add_app("alpha").await;
    let token = house.frame(&cookie, "alpha").await;
    let mut stream = house.connect("127.0.0.1").await.unwrap();
    let ask = house.request("GET", &format!("/frame/{token}/v1/events"), &[], "");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let long = std::time::Duration::from_secs(20);
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("hello") {
        let read = tokio::time::timeout(long, stream.read_buf(&mut seen)).await;
        assert_ne!(read.unwrap().unwrap(), 0, "{}", String::from_utf8_lossy(&seen));
    }
    let out = [("Cookie", cookie.as_str()), WRITE];
    assert_eq!(house.ask("POST", "/v1/auth/logout", &out, "").await.status, 200);
    let rest = tokio::time::timeout(long, stream.read_to_end(&mut seen)).await;
    rest.expect("ends").unwrap();
    house.close().await;
}

#[tokio::test]
async fn refusals_are_written_down_without_tokens() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    house.add_app("alpha").await;
    let token = house.frame(&cookie, "alpha").await;
    let evil = [("Origin", "https://evil.example"), ("Cookie", cookie.as_str())];
    house
        .ask("DELETE", &format!("/v1/apps/alpha/frame/{token}"), &evil, "")
        .await;
    house
        .ask("GET", "/v1/settings", &[("X-Chrysalis-Frame", &token)], "")
        .await;
    house
        .ask(
            "GET",
            &format!("/%66rame/{token}/app.js"),
            &[("Sec-Fetch-Site", "cross-site")],
            "",
        )
        .await;
    let log = house
        .ask("GET", "/v1/activity?kind=refusal&limit=50", &[("Cookie", &cookie)], "")
        .await;
    let entries = log.json()["entries"].as_array().unwrap().clone();
    let seen = |part: &str| {
        entries
            .iter()
            .any(|e| e["target"].as_str().is_some_and(|t| t.contains(part)))
    };
    for part in ["DELETE /v1/apps/alpha/frame/…", "/v1/settings", "/%66rame/…/app.js"] {
        assert!(seen(part), "{part} {log:?}");
    }
    assert!(!log.body.contains(&token), "{log:?}");
    house.close().await;
}
