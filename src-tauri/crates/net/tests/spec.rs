//! Requests as plugins write them, and answers as they read them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use net::{FetchResult, FetchSpec, HeaderOut, NetError, Reach, SpecHeader};
use secrets::{Keychain, Origin, Secret, Vault};
use serde_json::{Value, json};

fn parse(spec: Value) -> FetchSpec {
    FetchSpec::parse(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

fn headers(spec: &FetchSpec) -> Vec<(&str, &str)> {
    spec.headers
        .iter()
        .map(|(name, value)| match value {
            SpecHeader::Text(text) => (name.as_str(), text.as_str()),
            SpecHeader::Secret { name: secret, .. } => (name.as_str(), secret.as_str()),
        })
        .collect()
}

#[test]
fn what_is_not_said_is_as_usual() {
    let spec =
        parse(json!({ "url": " https://example.com/ ", "followRedirects": false, "unknown": 1, "method": null }));
    assert_eq!(
        spec,
        FetchSpec {
            url: "https://example.com/".into(),
            method: "GET".into(),
            headers: vec![],
            body: Bytes::new(),
            timeout: Duration::from_secs(15),
            max_bytes: 5 << 20,
            json: None,
            binary: false,
        }
    );
    assert_eq!(parse(json!("https://example.com/")), spec);
}

#[test]
fn numbers_are_brought_into_range() {
    for (given, want) in [
        (json!(1), 500),
        (json!(500), 500),
        (json!(1500.7), 1500),
        (json!(-3), 500),
        (json!(1e300), 60_000),
    ] {
        assert_eq!(
            parse(json!({ "url": "u", "timeoutMs": given })).timeout,
            Duration::from_millis(want)
        );
    }
    for (given, want) in [(json!(0), 1024), (json!(2000), 2000), (json!(u64::MAX), 20 << 20)] {
        assert_eq!(parse(json!({ "url": "u", "maxBytes": given })).max_bytes, want);
    }
}

#[test]
fn bodies() {
    for (spec, body, kind) in [
        (json!({ "body": "a=1" }), "a=1", "text/plain;charset=UTF-8"),
        (
            json!({ "body": { "b": [1, null] } }),
            r#"{"b":[1,null]}"#,
            "application/json",
        ),
        (json!({ "body": [] }), "[]", "application/json"),
        (
            json!({ "form": { "a b": "c&d=ä", "n": 1, "l": ["x", true], "z": null } }),
            "a+b=c%26d%3D%C3%A4&n=1&l=x&l=true",
            "application/x-www-form-urlencoded;charset=UTF-8",
        ),
        (
            json!({ "form": "a=b" }),
            "a=b",
            "application/x-www-form-urlencoded;charset=UTF-8",
        ),
        (json!({ "bodyBase64": "aGk=" }), "hi", "application/octet-stream"),
    ] {
        let mut whole = spec.clone();
        whole["url"] = "u".into();
        let read = parse(whole.clone());
        assert_eq!(sorted(&read.body), sorted(body.as_bytes()), "{spec}");
        assert_eq!(headers(&read), [("content-type", kind)], "{spec}");
        whole["headers"] = json!({ "Content-Type": "x/y" });
        assert_eq!(headers(&parse(whole)), [("Content-Type", "x/y")], "{spec}");
    }
    assert_eq!(parse(json!({ "url": "u", "body": null, "form": null })).body, "");
}

/// The order of an object's fields is not promised.
fn sorted(body: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(body).unwrap();
    let mut parts: Vec<String> = text.split('&').map(str::to_owned).collect();
    parts.sort();
    parts
}

#[test]
fn headers_are_texts_or_secrets() {
    let spec = parse(json!({ "url": "u", "headers": {
        "a": "text", "b": 5, "c": null, "d": { "secret": "token", "prefix": "Bearer " }, "e": { "secret": "token" },
    } }));
    assert!(spec.headers.contains(&("a".into(), SpecHeader::Text("text".into()))));
    assert!(spec.headers.contains(&("b".into(), SpecHeader::Text("5".into()))));
    let secret = |prefix: &str| SpecHeader::Secret {
        name: "token".into(),
        prefix: prefix.into(),
    };
    assert!(spec.headers.contains(&("d".into(), secret("Bearer "))));
    assert!(spec.headers.contains(&("e".into(), secret(""))));
    assert_eq!(spec.headers.len(), 4);
}

#[test]
fn what_is_wrong_is_named() {
    for (spec, field) in [
        (json!(null), "object"),
        (json!([]), "object"),
        (json!({}), "url"),
        (json!({ "url": 1 }), "url"),
        (json!({ "url": "u", "method": 1 }), "method"),
        (json!({ "url": "u", "headers": [] }), "headers"),
        (json!({ "url": "u", "headers": { "x-a": [] } }), "x-a"),
        (json!({ "url": "u", "headers": { "x-a": {} } }), "x-a"),
        (json!({ "url": "u", "headers": { "x-a": { "secret": 1 } } }), "x-a"),
        (
            json!({ "url": "u", "headers": { "x-a": { "secret": "s", "prefix": 1 } } }),
            "x-a",
        ),
        (json!({ "url": "u", "body": "a", "form": {} }), "only one"),
        (json!({ "url": "u", "form": [] }), "form"),
        (json!({ "url": "u", "form": { "f": {} } }), "\"f\""),
        (json!({ "url": "u", "bodyBase64": "%" }), "bodyBase64"),
        (json!({ "url": "u", "bodyBase64": 1 }), "bodyBase64"),
        (json!({ "url": "u", "timeoutMs": "5" }), "timeoutMs"),
        (json!({ "url": "u", "maxBytes": {} }), "maxBytes"),
        (json!({ "url": "u", "json": 1 }), "json"),
        (json!({ "url": "u", "binary": "yes" }), "binary"),
    ] {
        let error = FetchSpec::parse(&spec).unwrap_err();
        assert!(error.contains(field), "{spec}: {error}");
    }
}

#[test]
fn secrets_are_found_by_name() {
    let vault = Vault::open(Keychain::None, "test");
    let origin = Origin::parse("https://example.com").unwrap();
    vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
    let find = |name: &str| vault.handle("c", &origin).filter(|_| name == "token");
    let spec = |name: &str| parse(json!({ "url": "u", "headers": { "x-key": { "secret": name, "prefix": "Key " } } }));
    let fetch = spec("token")
        .fetch(Reach::Public, "test", Arc::new(|_| Ok(())), find)
        .unwrap();
    let HeaderOut::Secret { handle, prefix } = &fetch.headers[0].1 else {
        panic!("{:?}", fetch.headers)
    };
    assert_eq!((handle.origin(), prefix.as_str()), (&origin, "Key "));
    assert!(!format!("{:?}", fetch.headers).contains("canary"));
    let error = spec("other")
        .fetch(Reach::Public, "test", Arc::new(|_| Ok(())), find)
        .err()
        .unwrap();
    assert!(error.contains("x-key") && error.contains("other"), "{error}");
}

fn answer(status: u16, kind: &str, body: &[u8]) -> FetchResult {
    FetchResult {
        status,
        status_text: "Words".into(),
        headers: vec![
            ("content-type".into(), kind.into()),
            ("set-cookie".into(), "a=1".into()),
            ("set-cookie".into(), "b=2".into()),
        ],
        url: "https://example.com/x".into(),
        body: Bytes::copy_from_slice(body),
    }
}

#[test]
fn answers_in_the_form_of_the_contract() {
    let plain = parse(json!({ "url": "u" }));
    assert_eq!(
        plain.result(Ok(answer(200, "text/plain", b"hi"))),
        json!({
            "ok": true, "status": 200, "statusText": "Words", "url": "https://example.com/x", "contentType": "text/plain",
            "headers": { "content-type": "text/plain", "set-cookie": "a=1, b=2" }, "text": "hi",
        })
    );
    let refused = NetError::Refused {
        url: "http://h/".into(),
        why: "no".into(),
    };
    assert_eq!(
        plain.result(Err(refused)),
        json!({ "ok": false, "error": "the connection to http://h/ was refused by Chrysalis: no" })
    );

    let asked = parse(json!({ "url": "u", "json": true }));
    let unasked = parse(json!({ "url": "u", "json": false }));
    let binary = parse(json!({ "url": "u", "binary": true, "json": true }));
    let object = "\u{feff}{\"a\":[1]}";
    for (spec, status, kind, body, field, want) in [
        (&plain, 200, "application/json", object, "json", json!({ "a": [1] })),
        (
            &plain,
            404,
            "application/problem+json; charset=utf-8",
            object,
            "json",
            json!({ "a": [1] }),
        ),
        (&plain, 200, "text/json", "5", "json", json!(5)),
        (&plain, 200, "application/json", "", "json", Value::Null),
        (&plain, 200, "application/json", "{oops", "text", json!("{oops")),
        (&plain, 200, "application/jsonx", "{}", "text", json!("{}")),
        (&plain, 200, "text/html", "\u{feff}{}", "text", json!("{}")),
        (&asked, 200, "text/html", "{}", "json", json!({})),
        (&asked, 500, "text/html", "<p>", "text", json!("<p>")),
        (&unasked, 200, "application/json", "{}", "text", json!("{}")),
        (&binary, 200, "application/json", "{}", "base64", json!("e30=")),
    ] {
        let shown = spec.result(Ok(answer(status, kind, body.as_bytes())));
        assert_eq!(shown.get(field), Some(&want), "{kind} {body}: {shown}");
        let bodies = ["json", "text", "base64"]
            .iter()
            .filter(|name| shown.get(**name).is_some())
            .count();
        assert_eq!(bodies, 1, "{kind} {body}: {shown}");
        let wrong = spec.json == Some(true) && field == "text";
        assert_eq!(shown["ok"], json!(status == 200 && !wrong), "{kind} {body}: {shown}");
        assert_eq!(shown.get("error").is_some(), wrong, "{kind} {body}: {shown}");
        assert_eq!(shown["status"], json!(status));
    }
    let shown = plain.result(Ok(answer(200, "text/plain", b"a\xff\x00b")));
    assert_eq!(shown["text"], json!("a\u{fffd}\0b"));
}

#[test]
fn packed_answers_are_not_taken_for_text() {
    let mut packed = answer(200, "text/plain", b"\x1f\x8b\x08");
    packed.headers.push(("content-encoding".into(), "gzip".into()));
    let shown = parse(json!({ "url": "u" })).result(Ok(packed.clone()));
    assert_eq!(shown["ok"], json!(false));
    assert!(shown["error"].as_str().unwrap().contains("gzip"), "{shown}");
    let shown = parse(json!({ "url": "u", "binary": true })).result(Ok(packed));
    assert_eq!((&shown["ok"], &shown["base64"]), (&json!(true), &json!("H4sI")));
}
