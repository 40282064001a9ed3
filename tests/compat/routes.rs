//! Contract 3.1 and 3.2: manifests, discovery, and `handleRoute`.

use serde_json::{Value, json};

use crate::house::House;

#[test]
fn names_of_permissions_and_fields_that_are_not_known() {
    let house = House::open(&["aliases"]);
    house.both("aliases", json!({}), |got| assert_eq!(got["answered"], true, "{got}"));
    let listed = house.owner.get("/v1/apps/aliases/plugins").ok();
    let permissions: Vec<&str> = listed["plugins"][0]["permissions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["capability"].as_str().unwrap())
        .collect();
    assert_eq!(permissions, ["routes", "tools"]);
    assert_eq!(listed["plugins"][0]["version"], Value::Null);
}

#[test]
fn what_cannot_be_read_is_passed_over_and_named() {
    let house = House::open(&["discovery"]);
    let folder = house.workspace().join("apps/discovery/plugins");
    for (id, manifest, code) in [
        ("bad-json", Some("{\"name\": \"x\","), Some("export const a = 1;")),
        ("no-permissions", Some("{\"name\": \"x\"}"), Some("export const a = 1;")),
        ("no-manifest", None, Some("export const a = 1;")),
        ("no-code", Some("{\"name\": \"x\", \"permissions\": []}"), None),
        (
            "good-unknown",
            Some("{\"name\": \"x\", \"permissions\": [\"everything\"]}"),
            Some("export const a = 1;"),
        ),
    ] {
        let folder = folder.join(id);
        std::fs::create_dir(&folder).unwrap();
        if let Some(manifest) = manifest {
            std::fs::write(folder.join("manifest.json"), manifest).unwrap();
        }
        if let Some(code) = code {
            std::fs::write(folder.join("plugin.js"), code).unwrap();
        }
    }
    for by in ["good", "last"] {
        let got = house.post("discovery", &format!("/{by}"), &json!({})).ok();
        assert_eq!(got["by"], by);
    }
    let listed = house.owner.get("/v1/apps/discovery/plugins").ok();
    let plugins = listed["plugins"].as_array().unwrap();
    let broken: Vec<&Value> = plugins.iter().filter(|p| p["error"].is_string()).collect();
    assert_eq!(broken.len(), 5, "{listed}");
    // What is changed on disk is what is found next, and nobody has looked at it yet.
    std::fs::write(
        folder.join("good/plugin.js"),
        "export const handleRoute = () => ({ json: 1 });",
    )
    .unwrap();
    let refused = house.post("discovery", "/good", &json!({}));
    assert!((400..600).contains(&refused.status), "{}", refused.text());
    house.allow("discovery", "good", &["routes"]);
    assert_eq!(house.post("discovery", "/good", &json!({})).ok(), json!(1));
}

#[test]
fn typescript_fails_to_load() {
    let house = House::open(&["forms"]);
    let app = testkit::AppFolder::new(house.home.folder(), "typescript");
    let from = crate::house::rule("typescript");
    for file in ["manifest.json", "plugin.js"] {
        let text = std::fs::read_to_string(from.join(file)).unwrap();
        app.file(&format!("plugins/p/{file}"), &text);
    }
    house.running.add(app.path(), "typescript");
    let error = house.post("typescript", "/any", &json!({})).error(500);
    assert!(error.contains("plugin p"), "it names the plugin: {error}");
    assert_eq!(house.post("forms", "/json", &json!({})).ok()["a"][0], 1, "the twin");
}

#[test]
fn forms_of_an_answer() {
    let house = House::open(&["forms"]);
    for (path, status, kind, text) in [
        ("/json", 200, "application/json", "{\"a\":[1,null,\"ü\"]}"),
        ("/text", 200, "text/plain; charset=utf-8", "plain ü"),
        ("/status", 201, "", ""),
        ("/both", 418, "text/x-teapot", "short and stout"),
        ("/json-null", 200, "application/json", "null"),
        ("/json-typed", 200, "application/ld+json", "[1]"),
        ("/text-empty", 200, "text/plain; charset=utf-8", ""),
        ("/error", 503, "application/json", "{\"error\":\"later\"}"),
    ] {
        let reply = house.post("forms", path, &json!({}));
        assert_eq!((reply.status, reply.text().as_str()), (status, text), "{path}");
        if !kind.is_empty() {
            assert_eq!(reply.header("content-type"), kind, "{path}");
        }
    }
    house.both("forms", json!({}), |got| assert_eq!(*got, json!({"answered": "POST"})));
}

#[test]
fn what_a_route_is_asked() {
    let house = House::open(&["request"]);
    let url = |path: &str| format!("/v1/apps/request{path}");
    let got = house.owner.get(&url("/echo/a%20b/%C3%BC?x=1&y=a%26b&x=2&empty")).ok();
    assert_eq!(got["method"], "GET");
    assert_eq!(got["path"], "/echo/a b/ü");
    assert_eq!(
        (&got["query"]["y"], &got["query"]["empty"]),
        (&json!("a&b"), &json!(""))
    );
    assert_eq!((&got["body"], &got["stash"]), (&Value::Null, &json!("none")));
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let got = house
            .owner
            .send(method, &url("/echo"), &json!({"a": [1, {"b": null}]}))
            .ok();
        assert_eq!(
            (&got["method"], &got["body"]),
            (&json!(method), &json!({"a": [1, {"b": null}]}))
        );
    }
    let head = house.owner.ask("HEAD", &url("/echo"), &[], b"").unwrap();
    assert_eq!((head.status, head.body.len()), (200, 0));
    let text = house.owner.ask("POST", &url("/echo"), &[], b"no json").unwrap();
    assert_eq!(text.ok()["body"], "no json");
    house.both("request", json!({"n": 1}), |got| {
        assert_eq!(
            (&got["method"], &got["path"], &got["body"]["n"]),
            (&json!("POST"), &json!("/rule"), &json!(1))
        );
        assert_eq!((&got["query"], &got["stash"]), (&json!({}), &json!("none")));
    });
}

#[test]
fn the_first_answer_wins_and_nothing_is_no_answer() {
    let house = House::open(&["order"]);
    for kind in ["undefined", "null", "empty", "number", "text", "list", "type", "other"] {
        for path in ["/all", "/late"] {
            let got = house.post("order", &format!("{path}?kind={kind}"), &json!({})).ok();
            assert_eq!(got, json!({"by": "c", "path": path}), "{kind}");
        }
    }
    assert_eq!(house.post("order", "/first", &json!({})).ok()["by"], "a");
    assert_eq!(house.post("order", "/last", &json!({})).ok()["by"], "d");
    // Turned off, a plugin is not asked, and the next one is.
    house.post("order", "/plugins/a/disable", &json!({})).ok();
    assert_eq!(house.post("order", "/first", &json!({})).ok()["by"], "c");
    house.post("order", "/plugins/a/enable", &json!({})).ok();
    assert_eq!(house.post("order", "/first", &json!({})).ok()["by"], "a");
}

#[test]
fn a_crash_is_a_500_that_names_the_plugin() {
    let house = House::open(&["crash"]);
    for (path, why) in [
        ("/throw", "on purpose"),
        ("/throw-text", "only words"),
        ("/reject", "later"),
        ("/status", "99"),
        ("/third", "in the third pass"),
    ] {
        let error = house.post("crash", path, &json!({})).error(500);
        assert!(error.contains("plugin p") && error.contains(why), "{path}: {error}");
    }
    assert_eq!(house.post("crash", "/other", &json!({})).status, 404);
    house.both("crash", json!({}), |got| assert_eq!(*got, json!("fine")));
}

#[test]
fn siblings_tools_for_a_route() {
    let house = House::open(&["siblings"]);
    for path in ["/now", "/three"] {
        let got = house
            .post("siblings", &format!("{path}?siblingtools=1"), &json!({}))
            .ok();
        let tools = got["siblings"].as_array().unwrap();
        assert_eq!(tools.len(), 1, "of others, and only where allowed: {got}");
        assert_eq!(tools[0]["name"], "look");
        assert_eq!(tools[0]["parameters"], json!({"type": "object", "properties": {}}));
        for query in ["", "?siblingtools=0", "?siblingtools=true"] {
            let got = house.post("siblings", &format!("{path}{query}"), &json!({})).ok();
            assert!(
                matches!(&got["siblings"], Value::Null) || got["siblings"] == json!([]),
                "{query}: {got}"
            );
        }
    }
}
