//! Contract 3.4: the `host` object, method by method.

use serde_json::{Value, json};
use testkit::wait_for;

use crate::bytes;
use crate::house::House;

#[test]
fn log_and_console() {
    let house = House::with(&["log"], Some("sk-test"), "log_level = \"debug\"\n");
    house.both("log", json!({}), |got| assert_eq!(*got, json!("logged")));
    let logs = house.home.path().join("logs");
    let lines = || -> Vec<String> {
        let files = std::fs::read_dir(&logs).unwrap().flatten();
        let text: String = files
            .map(|file| std::fs::read_to_string(file.path()).unwrap_or_default())
            .collect();
        let ours = text.lines().filter(|line| line.contains("plugin:log/p"));
        ours.map(str::to_owned).collect()
    };
    let ours = wait_for("the last line that is kept", || {
        let lines = lines();
        lines.iter().any(|line| line.contains("line 190.")).then_some(lines)
    });
    for by in [
        "by host",
        "by console.log",
        "by console.warn",
        "with an error",
        "by console.error",
        "by console.info",
        "of a loop",
    ] {
        assert!(ours.iter().any(|line| line.contains(by)), "{by} in {ours:?}");
    }
    assert!(
        !ours.iter().any(|line| line.contains("END")),
        "500 characters of a line are kept"
    );
    let long = ours.iter().find(|line| line.contains("by host")).unwrap();
    let xs = long.matches('x').count();
    assert!((450..=500).contains(&xs), "{xs} of them: {long}");
    assert!(
        !ours.iter().any(|line| line.contains("line 200.")),
        "200 lines of a call are kept"
    );
}

#[test]
fn store() {
    let house = House::open(&["store"]);
    house.both("store", json!({}), |got| {
        assert_eq!(got["missing"], Value::Null, "{got}");
        assert_eq!(got["a"], json!({"n": [1, null, "ü"]}), "a copy is a copy: {got}");
        assert_eq!(
            (&got["undefined"], &got["false"], &got["gone"]),
            (&Value::Null, &json!(false), &Value::Null),
            "{got}"
        );
        let mut keys: Vec<&str> = got["keys"]
            .as_array()
            .unwrap()
            .iter()
            .map(|key| key.as_str().unwrap())
            .collect();
        keys.sort();
        assert_eq!(
            keys,
            ["a", "false", "null", "undefined"],
            "undefined is kept as null: {got}"
        );
        assert!(got["over"].is_string(), "over 1 MiB throws: {got}");
        assert_eq!(got["afterwards"], got["keys"], "and changes nothing: {got}");
        assert_eq!((&got["put"], &got["odd"]), (&json!("nothing"), &Value::Null), "{got}");
    });
    for app in ["store", "store-3"] {
        let body = json!({"net": house.web_url("")});
        if app == "store" {
            let later = house.post(app, "/later", &body).ok();
            assert_eq!(
                later["a"],
                json!({"n": [1, null, "ü"]}),
                "it is there in the next call: {later}"
            );
            assert_eq!(later["keys"].as_array().unwrap().len(), 5, "deletes survive: {later}");
        }
    }
}

#[test]
fn models_and_embeddings() {
    let house = House::open(&["llm"]);
    let mut events = house.owner.listen("/v1/events");
    house.both("llm", json!({}), |got| {
        let one = &got["one"];
        assert_eq!(one["text"], "said: one", "{got}");
        assert!(
            one["model"].as_str().unwrap().ends_with("/m") && one["genTimeMs"].is_number(),
            "{one}"
        );
        for field in ["input", "output", "cacheRead", "cacheWrite", "costTotal"] {
            assert!(one["usage"][field].is_number(), "{field}: {one}");
        }
        assert_eq!(one["usage"]["priced"], false, "{one}");
        assert!(one.get("error").is_none(), "{one}");
        // A schema that is no object's is wrapped under `value`.
        assert_eq!(got["json"]["json"], json!([1]), "{got}");
        assert_eq!(
            (&got["failed"]["text"], &got["failed"]["model"]),
            (&json!(""), &json!("error")),
            "{got}"
        );
        assert_eq!(got["vectors"], json!([[1, 0], [3, 1]]), "{got}");
        assert_eq!(
            (&got["live"], &got["whole"]),
            (&json!("abcdefg"), &json!("abcdefg")),
            "{got}"
        );
    });
    assert_eq!(house.streamed("llm", "llm"), "abcdefg");
    // What is tagged goes to the app's pages as it comes.
    let (mut text, mut done) = (String::new(), false);
    while !done {
        let event = events.event().expect("events go on");
        let Some(news) = find(&event, "chatId").filter(|news| news["chatId"] == "llm" && news["app"] == "llm") else {
            continue;
        };
        assert_eq!(news["name"], "l", "{event}");
        text += news["delta"].as_str().unwrap_or_default();
        done = news["done"] == true;
    }
    assert_eq!(text, "abcdefg");
    let asked = house.asked();
    let one = asked
        .iter()
        .find(|asked| asked["messages"].to_string().contains("\"one\""))
        .unwrap();
    assert_eq!(crate::tools::system(one), "be good");
    assert_eq!((&one["temperature"], &one["top_k"]), (&json!(0.25), &json!(3)), "{one}");
}

/// The first object that has a field of this name, however deep.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) if fields.contains_key(name) => Some(value),
        Value::Object(fields) => fields.values().find_map(|value| find(value, name)),
        Value::Array(list) => list.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

#[test]
fn values() {
    let house = House::open(&["values"]);
    house.both("values", json!({}), |got| {
        assert_eq!(
            (&got["same"], &got["file"], &got["proto"]),
            (&json!(true), &json!(true), &json!(true)),
            "{got}"
        );
        let keys = json!([
            "1", "2", "numbers", "texts", "", " ", "b", "a", "ü", "date", "list", "map", "deep", "own"
        ]);
        assert_eq!(
            (&got["keys"], &got["own"]),
            (&keys, &json!(["__proto__", "constructor"])),
            "{got}"
        );
        let values = &got["values"];
        assert_eq!(
            values["texts"],
            json!(["", "\0", "\u{2028}", "\u{1f600}", "</script>", "\\u0000"]),
            "{values}"
        );
        let numbers = json!([
            0,
            0,
            1.5,
            1e300,
            -1e-300,
            9007199254740992_u64,
            12345678901234567000_u64,
            null,
            null
        ]);
        assert_eq!(values["numbers"], numbers, "{values}");
        assert_eq!(
            (&values["date"], &values["list"], &values["map"]),
            (
                &json!("1970-01-01T00:00:00.000Z"),
                &json!([null, null, null]),
                &json!({})
            )
        );
    });
    // Half an emoji, which is what `slice` leaves: JSON can say it, and UTF-8 cannot.
    let half = house.post("values", "/half", &json!({})).ok();
    assert_eq!(half["half"], "\u{fffd}", "{half}");
    assert_eq!(house.post("values", "/half-text", &json!({})).text(), "a\u{fffd}");
    let got = house.post("values", "/keys", &json!({})).ok();
    assert_eq!(got["llm"], "said: seven \u{fffd}", "{got}");
    assert!(got["embed"][0][0].as_u64().is_some_and(|length| length >= 5), "{got}");
    assert_eq!(
        (&got["five"], &got["half"], &got["stash"], &got["gone"]),
        (&json!(["five", "five"]), &json!(1), &json!(1), &Value::Null),
        "{got}"
    );
}

#[test]
fn network() {
    let house = House::open(&["net"]);
    let url = |path: &str| house.web_url(path);
    let far = format!("/to/302{}/json", "/to/302".repeat(4));
    let too_far = format!("/to/302{}/json", "/to/302".repeat(5));
    let specs = json!({
        "json": {"url": url("/json")},
        "text": {"url": url("/text")},
        "asked": {"url": url("/json-as-text"), "json": true},
        "not-asked": {"url": url("/json"), "json": false},
        "binary": {"url": url("/bytes"), "binary": true},
        "missing": {"url": url("/missing")},
        "string": {"url": url("/echo"), "method": "POST", "body": "words", "headers": {"X-Mine": "1"}},
        "object": {"url": url("/echo"), "method": "PUT", "body": {"a": [1]}},
        "form": {"url": url("/echo"), "method": "POST", "form": {"a": "1 2", "b": "ü&"}},
        "delete": {"url": url("/echo"), "method": "DELETE"},
        "302": {"url": url("/to/302/echo"), "method": "POST", "body": "words"},
        "303": {"url": url("/to/303/echo"), "method": "PUT", "body": "words"},
        "307": {"url": url("/to/307/echo"), "method": "POST", "body": "words"},
        "302-put": {"url": url("/to/302/echo"), "method": "PUT", "body": "words"},
        "far": {"url": url(&far)},
        "too-far": {"url": url(&too_far)},
        "not-followed": {"url": url("/to/302/json"), "followRedirects": false},
        "large": {"url": url("/large"), "maxBytes": 1024},
        "large-fits": {"url": url("/large")},
        "clamped": {"url": url("/json"), "maxBytes": 1, "timeoutMs": 1000000},
        "silent": {"url": url("/silent"), "timeoutMs": 500},
        "words": {"url": url("/echo"), "method": "A B"},
        "file": {"url": "file:///etc/passwd"},
        "elsewhere": {"url": "http://127.0.0.1:1/"},
        "unlisted": {"url": "https://example.com/"},
        "no-url": {},
        "nothing": null,
        "cookie": {"url": url("/cookie")},
    });
    let judge = |got: &Value| {
        let text = |key: &str, field: &str| got[key][field].as_str().unwrap_or_default().to_owned();
        let json = &got["json"];
        assert_eq!(
            (&json["ok"], &json["status"], &json["statusText"]),
            (&json!(true), &json!(200), &json!("Scripted")),
            "{json}"
        );
        assert_eq!(
            (&json["json"], &json["url"]),
            (&json!({"web": "/json"}), &json!(url("/json"))),
            "{json}"
        );
        assert_eq!(
            (&json["contentType"], &json["headers"]["content-type"]),
            (&json!("application/json"), &json!("application/json"))
        );
        assert!(json.get("text").is_none() && json.get("base64").is_none(), "{json}");
        assert_eq!(text("text", "text"), "plain {\"a\":1}");
        assert_eq!(got["asked"]["json"], json!({"a": 1}));
        assert_eq!(text("not-asked", "text"), "{\"web\":\"/json\"}");
        assert_eq!(text("binary", "base64"), "AQID");
        assert_eq!(
            (
                &got["missing"]["ok"],
                &got["missing"]["status"],
                &got["missing"]["text"]
            ),
            (&json!(false), &json!(404), &json!("nothing here"))
        );
        for (key, method, body, kind) in [
            ("string", "POST", "words", "text/plain"),
            ("object", "PUT", "{\"a\":[1]}", "application/json"),
            ("form", "POST", "a=1+2&b=%C3%BC%26", "application/x-www-form-urlencoded"),
            ("delete", "DELETE", "", ""),
            ("302", "GET", "", ""),
            ("303", "GET", "", ""),
            ("307", "POST", "words", "text/plain"),
            ("302-put", "PUT", "words", "text/plain"),
        ] {
            let seen = &got[key]["json"];
            assert_eq!(
                (&seen["method"], &seen["body"]),
                (&json!(method), &json!(body)),
                "{key}: {}",
                got[key]
            );
            assert!(seen["type"].as_str().unwrap().starts_with(kind), "{key}: {seen}");
            assert!(
                !kind.is_empty() || seen["type"] == "",
                "{key}: no type without a body: {seen}"
            );
        }
        assert_eq!(got["string"]["json"]["mine"], "1");
        assert_eq!(
            (&got["302"]["url"], &got["far"]["status"]),
            (&json!(url("/echo")), &json!(200)),
            "{}",
            got["far"]
        );
        assert_eq!(
            (&got["not-followed"]["status"], &got["clamped"]["status"]),
            (&json!(200), &json!(200)),
            "{got}"
        );
        assert_eq!(text("large-fits", "text").len(), 100_000);
        for key in [
            "too-far",
            "large",
            "silent",
            "words",
            "file",
            "elsewhere",
            "unlisted",
            "no-url",
            "nothing",
        ] {
            assert_eq!(got[key]["ok"], false, "{key}: {}", got[key]);
            assert!(
                got[key]["error"].as_str().is_some_and(|e| !e.is_empty()),
                "{key}: {}",
                got[key]
            );
            assert!(got[key].get("status").is_none(), "{key}: {}", got[key]);
        }
    };
    house.both("net", json!({"specs": specs}), judge);
    let queued = house.post("net", "/queued", &json!({"specs": specs})).ok();
    judge(&queued);
    assert_eq!(queued["mine"], 200, "results can be added to");
    assert_eq!(house.streamed("net", "net"), "said: x");
    let got = house
        .post("net", "/rule", &json!({"specs": {"later": {"url": url("/echo")}}}))
        .ok();
    assert_eq!(got["later"]["json"]["cookie"], "", "cookies are not kept");
    let seen = house.web.seen();
    assert!(
        seen.iter().all(|s| s.method != "get" && s.header("cookie").is_empty()),
        "{seen:?}"
    );
}

#[test]
fn no_host_no_network() {
    let house = House::open(&["net-none"]);
    let got = house
        .post("net-none", "/rule", &json!({"net": house.web_url("/json")}))
        .ok();
    if got["dropped"] != true {
        for key in ["a", "b"] {
            assert_eq!(got[key]["ok"], false, "{got}");
            assert!(got[key]["error"].is_string(), "{got}");
        }
    }
    assert!(house.web.seen().is_empty());
}

#[test]
fn files() {
    let house = House::open(&["fs"]);
    let secret = house.home.folder().join("secret.txt");
    std::fs::write(&secret, "not for plugins").unwrap();
    for app in ["fs", "fs-3"] {
        let data = house.workspace().join("apps").join(app).join("data");
        std::fs::create_dir_all(&data).unwrap();
        let link = |name: &str, to: &std::path::Path| std::os::unix::fs::symlink(to, data.join(name)).unwrap();
        link("to-file", &secret);
        link("to-folder", house.home.folder());
        link("dangling", &house.home.folder().join("made-by-a-plugin"));
        link("inside", std::path::Path::new("x"));
    }
    let links = ["to-file", "to-folder", "to-folder/secret.txt", "dangling", "inside"];
    house.both("fs", json!({"links": links}), |got| {
        for name in ["read", "readBase64"] {
            let error = got["missing"][name].as_str().unwrap_or_default();
            assert!(!error.is_empty(), "a missing file throws: {got}");
        }
        assert_eq!(
            got["missing"]["remove"],
            Value::Null,
            "what is not there can be removed: {got}"
        );
        let told = &got["told"];
        assert_eq!(
            (&told["read"], &told["base64"], &told["empty"]),
            (&json!("zwölf"), &json!("enfDtmxm"), &json!("")),
            "{told}"
        );
        assert_eq!(told["list"], json!(["C", "a", "b", "y"]), "sorted names: {told}");
        assert_eq!(
            (&told["top"], &told["write"]),
            (&told["dot"], &json!("nothing")),
            "{told}"
        );
        let names = |value: &Value| -> Vec<String> {
            let all = value
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap().to_owned());
            all.filter(|name| !links.contains(&name.as_str())).collect()
        };
        assert_eq!(names(&told["top"]), ["deep", "x"], "{told}");
        assert_eq!(names(&got["after"][0]), ["x"], "removed with all that is in it: {got}");
        assert_eq!(got["after"][1], json!(["C", "a", "b", "d"]), "{got}");
        assert!(got["after"][2].is_string(), "{got}");
        assert!(
            got["root"].as_array().unwrap().iter().all(Value::is_string),
            "the root stays: {got}"
        );
        assert_eq!(names(&got["still"]), ["x"], "{got}");
        let all = got["escapes"]
            .as_object()
            .unwrap()
            .iter()
            .chain(got["links"].as_object().unwrap());
        for (path, answers) in all {
            for (n, answer) in answers.as_array().unwrap().iter().enumerate() {
                let error = answer.as_str().unwrap_or_default();
                assert!(!error.is_empty(), "{path} {n}: {answers}");
                assert!(
                    !error.contains("chrysalis-test"),
                    "the data folder has no other name than [app-data]: {error}"
                );
            }
        }
    });
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "not for plugins");
    assert!(!house.home.folder().join("made-by-a-plugin").exists());
    assert!(!house.home.folder().join("in").exists());
}

#[test]
fn lookups() {
    let house = House::open(&["lookup"]);
    house.both("lookup", json!({}), |got| {
        assert_eq!((&got["none"], &got["cleared"]), (&Value::Null, &Value::Null), "{got}");
        let ada = json!({"born": 1815});
        assert_eq!(got["found"], json!([ada, ada, "another collection", [1]]), "{got}");
        let wrong = &got["wrong"];
        assert!(
            wrong["large"].is_string() && wrong["fits"].is_null() && wrong["key"].is_string(),
            "{wrong}"
        );
        assert!(
            wrong["collection"].as_array().unwrap().iter().all(Value::is_string),
            "{wrong}"
        );
        assert_eq!(
            (&got["folders"], &got["files"]),
            (&json!(["other", "people"]), &json!(3)),
            "{got}"
        );
    });
    let folder = house.workspace().join("apps/lookup/data/__lookup/people");
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        let name = file.file_name().into_string().unwrap();
        let (hash, ending) = name.split_once('.').unwrap();
        assert!(
            hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) && ending == "json",
            "{name}"
        );
    }
}

#[test]
fn pictures() {
    let house = House::open(&["media"]);
    let (one, other) = (bytes::png(&[("author", "someone secret")]), bytes::png(&[]));
    let good = [
        bytes::data_uri("png", &one),
        bytes::data_uri("png", &other),
        bytes::data_uri("gif", bytes::GIF),
    ];
    let bad = [
        "words".to_owned(),
        bytes::data_uri("svg+xml", b"<svg/>"),
        format!("data:text/html;base64,{}", bytes::base64(b"<p>")),
        "data:image/png;base64,!!!".to_owned(),
        bytes::data_uri("png", b"no picture at all"),
    ];
    house.both("media", json!({"good": good, "bad": bad}), |got| {
        let urls: Vec<&str> = got["urls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|url| url.as_str().unwrap())
            .collect();
        assert_eq!(got["urls"], got["again"], "by their content: {got}");
        assert_eq!(urls[0], urls[1], "the text of a PNG is taken out: {got}");
        assert!(got["wrong"].as_array().unwrap().iter().all(Value::is_string), "{got}");
        assert_eq!(got["files"].as_array().unwrap().len(), 2, "{got}");
        for (url, kind) in [(urls[0], "png"), (urls[2], "gif")] {
            let (front, name) = url.split_once("/__media/").unwrap();
            assert!(front == "/v1/apps/media" || front == "/v1/apps/media-3", "{url}");
            let (hash, ending) = name.split_once('.').unwrap();
            assert!(hash.len() == 64 && ending == kind, "{url}");
            let reply = house.owner.get(url);
            assert_eq!(
                (reply.status, reply.header("content-type")),
                (200, format!("image/{kind}").as_str())
            );
            assert!(!testkit::folders::holds(&reply.body, b"secret"), "{url}");
        }
        assert_eq!(house.owner.get(urls[0]).body, bytes::png(&[]));
    });
}

#[test]
fn archives() {
    let house = House::open(&["zip"]);
    let (picture, large) = (
        bytes::png(&[("chara", "e30="), ("Title", "Ä")]),
        "x".repeat((2 << 20) + 1),
    );
    let archive = bytes::zip(&[
        ("notes.txt", "grüße".as_bytes()),
        ("data/a.json", b"{\"a\":1}"),
        ("a.jsonl", b"1"),
        ("a.md", b"# a"),
        ("a.js", b"1;"),
        ("a.css", b"a{}"),
        ("a.html", b"<p>"),
        ("a.yml", b"a: 1"),
        ("a.yaml", b"a: 2"),
        ("a.csv", b"a,b"),
        ("a.bin", b"\x01\x02\x03"),
        ("large.txt", large.as_bytes()),
        ("picture.png", &picture),
        ("../evil.txt", b"out"),
        ("/root.txt", b"out"),
        ("x/../../y.txt", b"out"),
    ]);
    let base64 = bytes::base64(&archive);
    house.both("zip", json!({"with": true, "zipBase64": base64}), |got| {
        assert_eq!(got["count"], 13, "{got}");
        let entries = &got["entries"];
        for (name, text) in [
            ("notes.txt", "grüße"),
            ("data/a.json", "{\"a\":1}"),
            ("a.jsonl", "1"),
            ("a.md", "# a"),
            ("a.js", "1;"),
            ("a.css", "a{}"),
            ("a.html", "<p>"),
            ("a.yml", "a: 1"),
            ("a.yaml", "a: 2"),
            ("a.csv", "a,b"),
        ] {
            assert_eq!(entries[name], text, "{name}");
        }
        let binary = &entries["a.bin"];
        assert!(binary.get("__b64__").is_some(), "{binary}");
        assert_eq!(
            (&binary["base64"], &binary["size"]),
            (&json!("AQID"), &json!(3)),
            "{binary}"
        );
        assert_eq!(
            entries["large.txt"]["size"],
            large.len(),
            "text from 2 MiB on is base64"
        );
        assert!(
            !got["names"].to_string().contains("evil") && !got["names"].to_string().contains("root.txt"),
            "{got}"
        );
        assert!(!got["names"].to_string().contains("y.txt"), "{got}");
        let image = &got["image"];
        assert_eq!(image["metadata"], json!({"chara": "e30=", "Title": "Ä"}), "{image}");
        assert!(image["url"].as_str().unwrap().contains("/__media/"), "{image}");
        assert_eq!(house.owner.get(image["url"].as_str().unwrap()).status, 200);
        assert!(got["wrong"].as_array().unwrap().iter().all(Value::is_string), "{got}");
        assert_eq!(got["body"], true, "the archive itself stays outside");
    });
    house.both("zip", json!({}), |got| {
        assert!(
            got.as_array().unwrap().iter().all(Value::is_string),
            "without an archive each throws: {got}"
        );
    });
    let none = house.post(
        "zip",
        "/rule",
        &json!({"with": true, "zipBase64": bytes::base64(b"no archive")}),
    );
    assert!((400..500).contains(&none.status), "{} {}", none.status, none.text());
}
