//! Contract 3.2 to 3.4: tools of siblings, own tools, and what a tool's own requests may.

use serde_json::{Value, json};

use crate::house::House;

/// What the system prompt of a request to the model was.
pub fn system(asked: &Value) -> String {
    let first = &asked["messages"][0];
    if first["role"] != "system" {
        return String::new();
    }
    match &first["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn names(asked: &Value) -> Vec<String> {
    let tools = asked["tools"].as_array().cloned().unwrap_or_default();
    tools
        .iter()
        .filter_map(|tool| tool["function"]["name"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn siblings_tools_in_model_requests() {
    let house = House::open(&["tools"]);
    let wants = |text: &str| json!({"text": text, "more": {"wantsTools": true}});
    for path in ["/ask", "/three"] {
        let ask = |text: &str| house.post("tools", path, &wants(text)).ok();
        // In the order of the plugins' folders; what has no name is left out, what fails takes nothing from the others.
        let offered = ask("tools")["text"].as_str().unwrap().to_owned();
        assert_eq!(
            offered, "made_10,plain,words,wrong,number,nothing,throws,queues,three,asks,greedy",
            "{path}"
        );
        for (tool, want, is_error) in [
            ("plain {\"a\":\"b\"}", "got {\"a\":\"b\"}", false),
            ("words", "later", false),
            ("wrong", "it is wrong", true),
            ("number", "7", false),
            ("queues", "then said: from a tool", false),
            ("three {\"a\":\"end\"}", "said: b said: a [[4,0]] /json end", false),
            ("made_10", "made: made_10", false),
        ] {
            let got = ask(&format!("use {tool}"));
            assert_eq!(got["text"], format!("tool said: {want}"), "{path} {tool}: {got}");
            let trace = &got["toolTrace"][0];
            let name = tool.split(' ').next().unwrap();
            assert_eq!(
                (&trace["name"], &trace["isError"]),
                (&json!(name), &json!(is_error)),
                "{path}: {got}"
            );
            assert_eq!(trace["resultText"], want, "{path}: {got}");
        }
        let broke = ask("use throws");
        assert_eq!(broke["toolTrace"][0]["isError"], true, "{broke}");
        assert!(broke["text"].as_str().unwrap().contains("the tool broke"), "{broke}");
        // Nobody offers it: the model is told nothing of it.
        assert_eq!(ask("use elsewhere")["text"], "said: use elsewhere");
        let without = house.post("tools", path, &json!({"text": "tools"})).ok();
        assert_eq!(without["text"], "", "{path}: only for those that ask: {without}");
    }
    assert_eq!(house.streamed("tools", "before"), "said: before");
    let failures = house.activity("error", "tools");
    let broken = failures
        .iter()
        .find(|e| e["target"] == "appTools")
        .expect("the offer that failed");
    assert!(
        broken["detail"].as_str().unwrap().contains("offers nothing"),
        "{broken}"
    );
}

#[test]
fn a_tools_own_requests_are_bare() {
    let house = House::open(&["tools"]);
    for (tool, open, close) in [("asks", '[', ']'), ("greedy", '<', '>')] {
        house.model.forget();
        let body = json!({"text": format!("use {tool}"), "more": {"wantsTools": true}});
        let got = house.post("tools", "/ask", &body).ok();
        assert_eq!(got["text"], format!("tool said: {open}{close}"), "{got}");
        let asked = house.asked();
        let is_inner = |asked: &&Value| asked["messages"].to_string().contains("\"tools\"");
        let inner: Vec<&Value> = asked.iter().filter(is_inner).collect();
        assert_eq!(inner.len(), 1, "{asked:?}");
        assert!(names(inner[0]).is_empty(), "no tools: {}", inner[0]);
        assert_eq!(system(inner[0]), "", "no hooks: {}", inner[0]);
        let outer = asked
            .iter()
            .find(|asked| asked.to_string().contains(&format!("use {tool}")))
            .unwrap();
        assert_eq!(system(outer), "hooked", "the twin: {outer}");
        assert!(!names(outer).is_empty(), "the twin: {outer}");
    }
    // It asked for a stream and has none.
    assert_eq!(house.owner.get("/v1/apps/tools/__streams/bare").status, 404);
}

#[test]
fn own_tools() {
    let house = House::open(&["own-tools"]);
    house.both_of_two("own-tools", |got| {
        assert_eq!(got["own"], "tool said: mine with {\"x\":1}", "{got}");
        assert_eq!(got["trace"][0]["name"], "mine", "{got}");
        assert_eq!(
            (&got["list"], &got["none"], &got["many"]),
            (&json!("mine,second"), &json!(""), &json!(16)),
            "{got}"
        );
    });
    // Without the permission they are dropped, and the request goes on without.
    house.allow("own-tools", "p", &["routes", "llm", "store"]);
    let got = house.post("own-tools", "/rule", &json!({})).ok();
    assert_eq!(
        (&got["list"], &got["own"]),
        (&json!(""), &json!("said: use mine {\"x\":1}")),
        "{got}"
    );
}

impl House {
    /// A rule that has passes of its own cannot stand in the last of three.
    fn both_of_two(&self, rule: &str, judge: impl Fn(&Value)) {
        judge(&self.post(rule, "/rule", &json!({})).ok());
    }
}
