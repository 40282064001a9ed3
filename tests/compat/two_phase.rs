//! Contract 3.3: the passes.

use serde_json::{Value, json};

use crate::house::House;

#[test]
fn passes_and_what_makes_them() {
    let house = House::open(&["passes"]);
    let post = |path: &str| house.post("passes", path, &json!({})).ok();
    let models = || {
        let count = house.asked().len();
        house.model.forget();
        count
    };
    assert_eq!(
        post("/value"),
        json!({"n": 3, "seen": [1, 2]}),
        "pending by value; the last value is taken as it is"
    );
    assert_eq!(post("/not-true"), json!({"n": 1}), "only true is pending");
    assert_eq!(post("/one"), json!({"n": 1}));
    assert_eq!(models(), 0);
    let got = post("/queue");
    assert_eq!(
        got,
        json!({"stash": null, "keys": ["a", "b"], "b": "said: two said: one"})
    );
    assert_eq!(models(), 2);
    assert_eq!(post("/queue-embed"), json!([[4, 0]]));
    assert_eq!(post("/queue-net"), json!({"web": "/json"}));
    models();
    assert_eq!(post("/last"), json!({"n": 3, "keys": ["k1", "k2"]}));
    assert_eq!(models(), 2, "what the last pass queues is not done");
    assert_eq!(post("/again"), json!("said: n2"));
    assert_eq!(models(), 2);
    assert_eq!(post("/async"), json!({"n": 2, "text": "said: async"}));
}

#[test]
fn a_failure_is_a_result() {
    let house = House::open(&["passes"]);
    let got = house.post("passes", "/failed", &json!({})).ok();
    for key in ["bad", "worse", "missing"] {
        let result = &got["llm"][key];
        assert_eq!(
            (&result["text"], &result["model"]),
            (&json!(""), &json!("error")),
            "{key}: {got}"
        );
        assert!(result["error"].as_str().is_some_and(|e| !e.is_empty()), "{key}: {got}");
        let usage = &result["usage"];
        assert_eq!(
            (&usage["input"], &usage["priced"]),
            (&json!(0), &json!(false)),
            "{key}: {got}"
        );
    }
    assert!(
        got["llm"]["bad"]["error"].as_str().unwrap().contains("as it was told"),
        "{got}"
    );
    assert_eq!(
        (&got["net"]["bad"]["ok"], &got["net"]["bad"]["status"]),
        (&json!(false), &json!(404)),
        "{got}"
    );
    assert_eq!(got["net"]["bad"]["text"], "nothing here");
    assert_eq!(got["net"]["worse"]["ok"], false);
    assert!(
        got["net"]["worse"]["error"].is_string() && got["net"]["worse"]["status"].is_null(),
        "{got}"
    );
    assert_eq!(got["embed"], json!({"worse": null}));
}

#[test]
fn store_writes_stay_when_a_later_pass_fails() {
    let house = House::open(&["passes"]);
    let error = house.post("passes", "/writes", &json!({})).error(500);
    assert!(error.contains("third"), "{error}");
    let keys = house.post("passes", "/written", &json!({})).ok();
    let keys: Vec<&str> = keys.as_array().unwrap().iter().map(|k| k.as_str().unwrap()).collect();
    assert!(keys.contains(&"pass1") && keys.contains(&"pass2"), "{keys:?}");
}

#[test]
fn one_after_another_embeddings_network_models() {
    let house = House::open(&["one-by-one"]);
    let want = ["embeddings", "embeddings", "web /a", "web /b", "model one", "model two"];
    let got = house.post("one-by-one", "/rule", &json!({})).ok();
    assert_eq!(got, json!(["one", "two"]));
    assert_eq!(*house.order.lock().unwrap(), want);
}

#[test]
fn each_pass_begins_anew() {
    let house = House::open(&["fresh"]);
    for _ in 0..3 {
        let got = house.post("fresh", "/rule", &json!({})).ok();
        assert_eq!(got, json!({"first": [1, 1, 1], "now": [1, 1, 1]}));
    }
}

#[test]
fn requests_per_pass() {
    let house = House::open(&["limits"]);
    for (kind, most) in [("llm", 16), ("embed", 8), ("net", 32)] {
        let got = house.post("limits", &format!("/{kind}/{most}"), &json!({})).ok();
        assert_eq!(got, json!({"done": most, "error": null}), "{kind}");
        // The one too many is an error that the plugin can catch; those before it are done.
        let got = house.post("limits", &format!("/{kind}/{}", most + 1), &json!({})).ok();
        assert_eq!(got["done"], most, "{kind}: {got}");
        assert!(
            got["error"].as_str().is_some_and(|e| e.contains(&most.to_string())),
            "{kind}: {got}"
        );
    }
}

#[test]
fn without_a_key_there_are_no_embeddings() {
    let house = House::with(&[], None, "");
    house.add("no-embeddings");
    let got = house.post("no-embeddings", "/rule", &json!({})).ok();
    assert_eq!(got, json!({"e": null}));
}

#[test]
fn what_was_not_granted() {
    let house = House::open(&["ungranted"]);
    house.allow("ungranted", "p", &["routes"]);
    let got = house.post("ungranted", "/rule", &json!({})).ok();
    assert_eq!(
        (&got["n"], &got["net"], &got["results"]),
        (&json!(1), &json!(false), &json!([])),
        "{got}"
    );
    for (name, capability) in [
        ("store", "store"),
        ("put", "store"),
        ("read", "fs"),
        ("write", "fs"),
        ("zip", "zip"),
    ] {
        let error = got[name].as_str().unwrap_or_default();
        assert!(error.contains(&format!("\"{capability}\"")), "{name}: {got}");
    }
    assert!(house.asked().is_empty() && house.order.lock().unwrap().is_empty());
    // The twin.
    house.allow("ungranted", "p", &["routes", "llm", "network", "store", "fs"]);
    let got = house.post("ungranted", "/rule", &json!({})).ok();
    assert_eq!(
        (&got["net"], &got["results"]),
        (&json!(true), &json!(["a", "e"])),
        "{got}"
    );
    assert_eq!(
        (&got["store"], &got["put"], &got["write"]),
        (&Value::Null, &Value::Null, &Value::Null),
        "{got}"
    );
}
