//! Contract 3.5, and what concerns plugins that belong to no app.

use serde_json::{Value, json};
use testkit::{process, wait_for};

use crate::house::{House, rule};

#[test]
fn globals() {
    let house = House::open(&["globals"]);
    house.both("globals", json!({}), |got| {
        for (name, kind) in got["absent"].as_object().unwrap() {
            assert_eq!(kind, "undefined", "{name}");
        }
        for (name, kind) in got["there"].as_object().unwrap() {
            assert_eq!(kind, "function", "{name}");
        }
        assert_eq!(
            got["console"],
            json!(["function", "function", "function", "function", "function"])
        );
        let process = &got["process"];
        assert_eq!(
            (&process["type"], &process["env"]),
            (&json!("object"), &json!([])),
            "{process}"
        );
        assert!(process["exit"].is_string(), "it throws: {process}");
        assert_eq!(got["buffer"], json!(["aMOp", "hi", true, null]), "{got}");
        for name in ["fs", "child"] {
            assert!(
                got[name].as_array().unwrap().iter().all(Value::is_string),
                "{name} is inert: {got}"
            );
        }
        assert_eq!(
            (&got["random"], &got["made"], &got["url"]),
            (&json!([36, 4]), &json!(2), &json!("https://a.example/b?c=1#d"))
        );
        assert_eq!(
            (&got["text"], &got["base64"], &got["clone"]),
            (&json!("ü"), &json!(["aGk=", "hi"]), &json!(0))
        );
    });
}

fn workers(house: &House) -> Vec<u32> {
    process::workers(house.running.pid())
}

#[test]
fn a_get_is_asked_once_more_when_its_worker_died() {
    let house = House::open(&["retried"]);
    for path in ["/now", "/late"] {
        for (method, deaths, times) in [("GET", 1, Some(2)), ("GET", 2, None), ("POST", 1, None)] {
            house.post("retried", "/forget", &json!({})).ok();
            house.web.forget();
            // So that the only worker there is will be the one to be killed.
            wait_for("idle workers to be ended", || workers(&house).is_empty().then_some(()));
            let (owner, target) = (house.owner.clone(), format!("/v1/apps/retried{path}?deaths={deaths}"));
            let asking = std::thread::spawn(move || match method {
                "GET" => owner.get(&target),
                _ => owner.post(&target, &json!({})),
            });
            for death in 1..=deaths {
                wait_for("the call to wait for an answer that does not come", || {
                    let seen = house.web.seen();
                    (seen.iter().filter(|s| s.target == "/silent").count() == death).then_some(())
                });
                let alive = workers(&house);
                assert_eq!(alive.len(), 1, "{alive:?}");
                process::signal(alive[0], libc::SIGKILL);
            }
            let reply = asking.join().unwrap();
            match times {
                Some(times) => assert_eq!(reply.ok()["times"], times, "{method} {path}"),
                None => assert!(reply.error(500).contains("plugin p"), "{method} {path}"),
            }
        }
    }
}

#[test]
fn a_plugin_that_belongs_to_no_app() {
    let house = House::open(&[]);
    let folder = house.workspace().join("plugins/top");
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["manifest.json", "plugin.js"] {
        std::fs::copy(rule("top-level").join(file), folder.join(file)).unwrap();
    }
    let call = json!({"method": "POST", "path": "/rule"});
    assert_eq!(
        house.post("_", "/plugins/top/call", &call).status,
        403,
        "nobody allowed it"
    );
    house.allow("_", "top", &["routes", "fs", "store", "tools"]);
    let got = house.post("_", "/plugins/top/call", &call).ok();
    let got: Value = serde_json::from_str(got["text"].as_str().unwrap()).unwrap();
    assert_eq!(got["store"], 1, "{got}");
    for name in ["fs", "write"] {
        assert!(
            got[name].as_str().is_some_and(|e| e.contains("belongs to no app")),
            "{got}"
        );
    }
    // `TOOLS` is fixed; what has no name is left out.
    let offered = house.owner.get("/v1/apps/_/plugins/top/tools").ok();
    let want =
        json!([{"name": "fixed", "description": "always there", "parameters": {"type": "object", "properties": {}}}]);
    assert_eq!(
        (&offered["tools"], &offered["appTools"]),
        (&want, &json!([])),
        "{offered}"
    );
    house.allow("_", "top", &["routes"]);
    assert_eq!(house.owner.get("/v1/apps/_/plugins/top/tools").status, 403);
}
