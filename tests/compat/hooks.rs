//! Contract 3.3: hooks.

use serde_json::{Value, json};
use testkit::wait_for;

use crate::house::{House, rule};
use crate::tools::system;

#[test]
fn order_crashes_and_what_later_ones_override() {
    let house = House::open(&["chain"]);
    house.allow("chain", "half", &["hooks"]);
    for path in ["/ask", "/three"] {
        house.model.forget();
        let got = house.post("chain", path, &json!({})).ok();
        // -1.5, then 0 by id, then 5 by id; the crashing one (2) is passed over.
        assert_eq!(got["text"], "said: hi c b e a d", "{path}");
        let asked = house.asked();
        let asked = asked.last().unwrap();
        assert_eq!(system(asked).trim(), "c b e a d", "{path}: {asked}");
        let seen = house.post("chain", "/watched", &json!({})).ok();
        let request = &seen["request"]["request"];
        assert_eq!(
            (&request["sessionId"], &request["reasoning"]),
            (&json!("d"), &json!("low")),
            "{path}: {seen}"
        );
    }
    let failed: Vec<String> = house
        .activity("error", "chain")
        .iter()
        .map(|e| format!("{} {}", e["target"], e["detail"]))
        .collect();
    for (target, why) in [
        ("llmRequest", "the request hook broke"),
        ("llmResponse", "the response hook broke"),
    ] {
        assert!(
            failed.iter().any(|e| e.contains(target) && e.contains(why)),
            "{failed:?}"
        );
    }
}

#[test]
fn what_a_hook_sees() {
    let house = House::open(&["chain"]);
    let request = json!({
        "messages": [{"role": "user", "content": "hi"}], "wantsTools": true, "source": "agent",
        "tools": [{"name": "x", "description": "", "parameters": {}}], "executeTool": "x",
    });
    for (path, key) in [("/ask", ""), ("/three", "the-key")] {
        house.post("chain", path, &json!({"request": request})).ok();
        let seen = house.post("chain", "/watched", &json!({})).ok();
        for which in ["request", "response"] {
            let ctx = &seen[which];
            assert_eq!(
                (&ctx["plugin"], &ctx["key"]),
                (&json!("chain__main"), &json!(key)),
                "{path} {which}: {ctx}"
            );
            assert_eq!(ctx["request"]["source"], "app:chain__main", "{path} {which}: {ctx}");
            assert_eq!(ctx["request"]["messages"], request["messages"], "{path} {which}: {ctx}");
            assert!(ctx["request"].get("tools").is_none(), "{path} {which}: {ctx}");
        }
        assert!(seen["request"].get("result").is_none());
        let result = &seen["response"]["result"];
        assert!(result["text"].as_str().unwrap().starts_with("said: hi"), "{result}");
        assert!(
            result["model"].is_string() && result["usage"]["output"].is_number(),
            "{result}"
        );
    }
}

/// Tells the plugin `patch` what its hooks return.
fn patch(house: &House, request: Value, response: Value) {
    house
        .post("patches", "/patch", &json!({"request": request, "response": response}))
        .ok();
}

#[test]
fn fields_of_a_request_patch() {
    let house = House::open(&["patches"]);
    let model = house.owner.get("/v1/models").ok();
    let model = model["models"].as_array().and_then(|list| {
        list.iter()
            .map(|m| m["ref"].as_str().unwrap())
            .find(|r| r.ends_with("/m"))
            .map(str::to_owned)
    });
    let good = [
        ("messages", json!([{"role": "user", "content": "other"}])),
        ("systemPrompt", json!("be brief")),
        ("model", json!(model.expect("the model of the test's server"))),
        ("sessionId", json!("s1")),
        ("reasoning", json!("low")),
        ("thinkingBudget", json!(512)),
        ("reasoningTags", json!({"open": "<t>", "close": "</t>"})),
        ("assistantPrefill", json!("So")),
        ("promptFormat", json!("auto")),
        ("presetParams", json!({"temperature": 0.5})),
        ("cache", json!({"depth": 1, "retention": "short"})),
        ("schema", json!({"type": "object"})),
        ("streamMuted", json!(true)),
        ("streamDecode", json!({"field": "a"})),
    ];
    let request = json!({"messages": [{"role": "user", "content": "hi"}], "temper": 1});
    let seen = |path: &str| -> Value {
        house.post("patches", path, &json!({"request": request})).ok();
        let seen = house.post("patches", "/watched", &json!({})).ok();
        seen["request"]["request"].clone()
    };
    for path in ["/ask", "/three"] {
        for (name, value) in &good {
            patch(&house, json!({*name: value}), Value::Null);
            assert_eq!(seen(path)[*name], *value, "{path} {name}");
        }
        // Not for hooks.
        for name in ["tools", "executeTool", "source", "wantsTools", "stream", "anything"] {
            let value = if name == "stream" {
                json!({"chatId": "x", "name": "y"})
            } else {
                json!("mine")
            };
            patch(&house, json!({name: value, "systemPrompt": "kept"}), Value::Null);
            let seen = seen(path);
            assert_eq!(seen["systemPrompt"], "kept", "{path} {name}");
            let want = if name == "source" {
                json!("app:patches__main")
            } else {
                Value::Null
            };
            assert_eq!(seen[name], want, "{path} {name}: {seen}");
        }
        // Wrong types are ignored one by one: the good field beside each of them counts.
        for (name, _) in &good {
            let wrong = if *name == "streamMuted" {
                json!("yes")
            } else {
                json!(true)
            };
            let beside = if *name == "sessionId" {
                "systemPrompt"
            } else {
                "sessionId"
            };
            patch(&house, json!({*name: wrong, beside: "fine"}), Value::Null);
            let seen = seen(path);
            assert_eq!(seen[beside], "fine", "{path} {name}");
            let before = if *name == "messages" {
                request["messages"].clone()
            } else {
                Value::Null
            };
            assert_eq!(seen[*name], before, "{path} {name}: {seen}");
        }
        for nothing in [json!(null), json!([]), json!("words"), json!(5)] {
            patch(&house, nothing.clone(), nothing);
            assert_eq!(seen(path)["messages"], request["messages"]);
        }
    }
    // They reach the model.
    patch(
        &house,
        json!({"messages": [{"role": "user", "content": "other"}], "systemPrompt": "be brief", "presetParams": {"temperature": 0.5}}),
        Value::Null,
    );
    house.model.forget();
    let got = house.post("patches", "/three", &json!({"request": request})).ok();
    assert_eq!(got["text"], "said: other");
    let asked = house.asked();
    assert_eq!(asked[0]["temperature"], 0.5, "{asked:?}");
    assert_eq!(system(&asked[0]), "be brief", "{asked:?}");
}

#[test]
fn fields_of_a_response_patch() {
    let house = House::open(&["patches"]);
    for path in ["/ask", "/three"] {
        let ask = |response: Value| {
            patch(&house, Value::Null, response);
            house.post("patches", path, &json!({})).ok()
        };
        let plain = ask(json!(null));
        assert_eq!(plain["text"], "said: hi", "{plain}");
        for (name, value) in [
            ("text", json!("mine")),
            ("reasoning", json!("because")),
            ("assistantPrefill", json!("So")),
            ("json", json!({"a": [1]})),
            ("json", json!("text")),
            ("json", json!(5)),
        ] {
            assert_eq!(ask(json!({name: value}))[name], value, "{path} {name}");
        }
        for (name, value) in [
            ("model", json!("other")),
            ("usage", json!({"input": 9})),
            ("error", json!("no")),
            ("more", json!(1)),
        ] {
            let got = ask(json!({name: value, "text": "kept"}));
            assert_eq!(got["text"], "kept", "{path} {name}");
            assert_eq!(got[name], plain[name], "{path} {name}: {got}");
        }
        for name in ["text", "reasoning", "assistantPrefill"] {
            let got = ask(json!({name: {"not": "text"}, "json": "fine"}));
            assert_eq!(
                (&got["json"], &got[name]),
                (&json!("fine"), &plain[name]),
                "{path} {name}: {got}"
            );
        }
    }
}

#[test]
fn a_hook_in_three_passes_and_its_own_requests() {
    let house = House::open(&["late-hook"]);
    for path in ["/ask", "/three"] {
        house.model.forget();
        let got = house.post("late-hook", path, &json!({})).ok();
        assert_eq!(got["text"], "said: hi | said: then said: after | 3", "{path}");
        let asked = house.asked();
        let main = asked
            .iter()
            .find(|asked| asked["messages"].to_string().contains("\"hi\""))
            .unwrap();
        let seen: Value = serde_json::from_str(&system(main)).unwrap_or_else(|e| panic!("{e}: {main}"));
        // What it returned is its next ctx, whole: `request` is gone because it did not return it.
        let want = json!(["hi", "late-hook__main", false, "mine,theirs", "said: again mine,theirs", [[4, 0]], {"web": "/json"}]);
        assert_eq!(seen, want, "{path}");
        // Its own requests never met a hook, or there would be no end: six in all.
        assert_eq!(asked.len(), 5, "{path}: {asked:?}");
        assert!(
            asked.iter().filter(|asked| !system(asked).is_empty()).count() == 1,
            "{path}: {asked:?}"
        );
    }
    assert_eq!(house.streamed("late-hook", "hook"), "mine,theirs");
}

#[test]
fn hooks_of_plugins_that_belong_to_no_app() {
    let house = House::open(&["chain"]);
    let folder = house.workspace().join("plugins/top");
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["manifest.json", "plugin.js"] {
        std::fs::copy(rule("top-hook").join(file), folder.join(file)).unwrap();
    }
    house.post("chain", "/ask", &json!({})).ok();
    assert!(
        !house.asked().iter().any(|asked| system(asked).contains("top saw")),
        "nobody allowed it"
    );
    house.allow("_", "top", &["hooks", "llm"]);
    house.model.forget();
    house.post("chain", "/ask", &json!({})).ok();
    let asked = house.asked();
    assert!(
        asked.iter().any(|asked| system(asked).contains("top saw chain__main")),
        "{asked:?}"
    );
}

#[test]
fn a_muted_answer_can_still_be_stopped() {
    let house = House::open(&["patches"]);
    patch(&house, json!({"streamMuted": true}), Value::Null);
    let request = json!({
        "messages": [{"role": "user", "content": "wait for it"}], "stream": {"chatId": "muted", "name": "m"},
    });
    for path in ["/ask", "/three"] {
        house.model.forget();
        let (owner, body) = (house.owner.clone(), json!({"request": request}));
        let target = format!("/v1/apps/patches{path}");
        let running = std::thread::spawn(move || owner.post(&target, &body));
        wait_for("the model to be asked", || (!house.asked().is_empty()).then_some(()));
        let events = house.owner.listen("/v1/apps/patches/__streams/muted");
        let stopped = wait_for("the answer to be stopped", || {
            let got = house.post("patches", "/__abort", &json!({"chatId": "muted"})).ok();
            (got["active"] == true).then_some(got)
        });
        assert_eq!(stopped["active"], true);
        let said = crate::house::body(events);
        assert!(
            !said.contains("waiting") && said.contains("\"stopped\":true"),
            "{path}: {said}"
        );
        let got = running.join().unwrap().ok();
        assert_eq!(
            (&got["stopped"], &got["error"]),
            (&json!(true), &Value::Null),
            "{path}: {got}"
        );
    }
    // The whole answer is there for the plugin.
    house.model.release();
    let got = house.post("patches", "/parts", &json!({"request": request})).ok();
    assert_eq!(
        (&got["live"], &got["result"]["text"]),
        (&json!(""), &json!("waitingfor it")),
        "{got}"
    );
}

#[test]
fn a_decoded_answer_changes_live_text_only() {
    let house = House::open(&["patches"]);
    let whole = "{\"note\":\"no\",\"say\":\"Hello \\\"you\\\" **there**\",\"n\":{\"say\":\"deep\"}}";
    for (decode, live) in [
        (json!({"field": "say"}), "Hello \"you\" **there**"),
        (
            json!({"fields": ["say"], "replace": [{"from": "**", "to": "*"}]}),
            "Hello \"you\" *there*",
        ),
        // Between two fields stands an empty line; the contract says nothing of it.
        (json!({"fields": ["note", "say"]}), "no\n\nHello \"you\" **there**"),
        (json!({"field": "none"}), ""),
    ] {
        patch(&house, json!({"streamDecode": decode}), Value::Null);
        let request = json!({
            "messages": [{"role": "user", "content": format!("pieces {whole}")}], "stream": {"chatId": "d", "name": "d"},
        });
        let got = house.post("patches", "/parts", &json!({"request": request})).ok();
        assert_eq!(got["live"], live, "{decode}: {got}");
        assert_eq!(got["result"]["text"], whole, "{decode}");
        assert_eq!(house.streamed("patches", "d"), live, "{decode}");
        let got = house.post("patches", "/three", &json!({"request": request})).ok();
        assert_eq!(got["text"], whole, "{decode}");
        assert_eq!(house.streamed("patches", "d"), live, "{decode}, three passes");
    }
    // What is no JSON passes through.
    let request = json!({"messages": [{"role": "user", "content": "pieces plain words"}]});
    let got = house.post("patches", "/parts", &json!({"request": request})).ok();
    assert_eq!(got["live"], "plain words", "{got}");
}
