//! Contract 3.2: panels, ticks and updates, each in three passes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::wait_for;

use crate::house::House;

#[test]
fn panels_have_labels() {
    let house = House::open(&["panel"]);
    let got = house.owner.get("/v1/apps/panel/__panels").ok();
    let panels = got["panels"].as_array().unwrap();
    assert_eq!(panels.len(), 2, "{got}");
    let good = panels.iter().find(|p| p["label"] == "Good").unwrap();
    assert_eq!(
        good["seen"],
        json!([[[1, 0]], {"web": "/json"}, "said: and said: panel"])
    );
    assert_eq!(good["more"], json!({"any": [1]}));
    assert_eq!(good["plugin"], "panel__good");
    assert_eq!(house.streamed("panel", "panel"), "said: panel");
    assert!(panels.iter().any(|p| p["label"] == "Plain"), "{got}");
    let errors = house.activity("error", "panel");
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0]["detail"].as_str().unwrap().contains("no panel"), "{errors:?}");
}

#[test]
fn ticks_are_broadcast_and_never_faster_than_five_seconds() {
    let house = House::open(&[]);
    let events = house.owner.listen("/v1/events");
    let began = Instant::now();
    house.tick();
    let event = house.event(events, |event| event.to_string().contains("\"tick__p\""));
    assert!(
        began.elapsed() >= Duration::from_secs(4),
        "{:?}: {event}",
        began.elapsed()
    );
    let payload = find(&event, "payload")
        .and_then(|p| find(p, "ctx").map(|_| p))
        .unwrap_or_else(|| panic!("{event}"));
    let payload = if payload.get("ctx").is_some() {
        payload
    } else {
        find(payload, "payload").unwrap()
    };
    assert_eq!(payload["ctx"]["pluginId"], "tick__p");
    assert_eq!(payload["passes"], 3, "{payload}");
    assert_eq!(payload["text"], "said: tock said: tick");
    assert_eq!(
        (&payload["vectors"], &payload["page"]),
        (&json!([[4, 0]]), &json!({"web": "/json"}))
    );
    house.both("tick", json!({}), |got| assert_eq!(got["waits"], true));
    // Turned off, the clock passes it by.
    house.post("tick", "/plugins/p/disable", &json!({})).ok();
    house.post("tick-3", "/plugins/p/disable", &json!({})).ok();
}

/// The first value of this name, however deep.
fn find<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields
            .get(name)
            .or_else(|| fields.values().find_map(|value| find(value, name))),
        Value::Array(list) => list.iter().find_map(|value| find(value, name)),
        _ => None,
    }
}

impl House {
    fn tick(&self) {
        self.add("tick");
    }
}

#[test]
fn updates_reach_every_plugin_and_failures_are_kept() {
    let house = House::open(&["update"]);
    let done = house
        .owner
        .post("/v1/data-updates/update", &json!({"from": "1.0.0", "to": "2.0.0"}))
        .ok();
    assert_eq!(done["failed"].as_array().unwrap().len(), 1, "{done}");
    assert_eq!(done["failed"][0]["plugin"], "throws");
    assert!(
        done["failed"][0]["error"]
            .as_str()
            .unwrap()
            .contains("cannot go from 1.0.0"),
        "{done}"
    );
    let seen = house.post("update", "/seen", &json!({})).ok();
    assert_eq!(seen["ctx"], json!({"from": "1.0.0", "to": "2.0.0"}));
    assert_eq!(seen["b"], "said: again said: update");
    assert_eq!((&seen["e"], &seen["n"]), (&json!([[6, 0]]), &json!({"web": "/json"})));
    assert_eq!(house.streamed("update", "update"), "said: update");
    wait_for("the failure to be written down", || {
        let errors = house.activity("error", "update");
        errors.iter().any(|e| e["target"] == "onAppUpdate").then_some(())
    });
}
