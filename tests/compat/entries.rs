//! The four capabilities that stand before entry points, `routes`, `tools`, `hooks` (with `llm`) and `schedule`: without
//! one, no code runs there, and with it, it does. What running code may ask for is in `apps/tests/entries.rs`.

use serde_json::{Value, json};

use crate::house::House;
use crate::tools::system;

const ALL: [&str; 5] = ["routes", "tools", "hooks", "llm", "store"];
const PLUGIN: &str = "/v1/plugins/entries__zz-all";

impl House {
    fn revoke(&self, capability: &str) {
        self.owner
            .post(&format!("{PLUGIN}/revoke"), &json!({"capability": capability}))
            .ok();
    }

    /// Goes to every entry point, and holds what ran against what may.
    fn entries_must_be(&self, may: &[&str], case: &str) {
        let has = |capability: &str| may.contains(&capability);
        let (tools, hooks) = (has("tools"), has("hooks") && has("llm"));
        for form in ["async", "two-phase"] {
            let case = format!("{case}, {form}");
            let ask = |text: &str| {
                self.model.forget();
                let got = self
                    .post("entries", "/ask?siblingtools=1", &json!({"text": text, "form": form}))
                    .ok();
                (got, self.asked())
            };
            let (got, asked) = ask("tools");
            let text = got["text"].as_str().unwrap();
            assert_eq!(text.contains("offered"), tools, "{case}: {got}");
            assert_eq!(got["siblings"].to_string().contains("offered"), tools, "{case}: {got}");
            assert_eq!(text.contains("hooked"), hooks, "{case}: {got}");
            assert_eq!(
                asked.iter().any(|asked| system(asked) == "hooked"),
                hooks,
                "{case}: {asked:?}"
            );
            let (got, _) = ask("use offered");
            assert_eq!(
                got["text"].as_str().unwrap().contains("tool said: ran"),
                tools,
                "{case}: {got}"
            );
            // The route is asked last: the other plugin of the app does not answer it.
            let reply = self.post("entries", "/route", &json!({}));
            if !has("routes") {
                assert_eq!(reply.status, 403, "{case}: {}", reply.text());
                continue;
            }
            assert_eq!(reply.ok(), json!("answered"), "{case}");
            if has("store") {
                let mut want = Vec::new();
                want.extend(tools.then_some(["appTools", "handleTool"]).into_iter().flatten());
                want.extend(hooks.then_some(["llmRequest", "llmResponse"]).into_iter().flatten());
                assert_eq!(
                    self.post("entries", "/ran", &json!({})).ok(),
                    json!(want),
                    "{case}: what ran"
                );
            }
        }
    }
}

#[test]
fn entry_points_and_their_permissions() {
    let house = House::open(&["entries"]);
    house.entries_must_be(&ALL, "all granted");
    for capability in ["routes", "tools", "hooks", "llm"] {
        let rest: Vec<&str> = ALL.into_iter().filter(|c| *c != capability).collect();
        house.allow("entries", "zz-all", &rest);
        house.entries_must_be(&rest, &format!("{capability} not chosen"));
        house.allow("entries", "zz-all", &ALL);
        house.entries_must_be(&ALL, &format!("{capability} granted"));
        house.revoke(capability);
        house.entries_must_be(&rest, &format!("{capability} taken back"));
        house.allow("entries", "zz-all", &ALL);
        // Where the route was not to be reached, the marks of the rest are still there.
        house.post("entries", "/ran", &json!({})).ok();
    }
    house.post("entries", "/plugins/zz-all/disable", &json!({})).ok();
    house.entries_must_be(&[], "turned off");
    house.post("entries", "/plugins/zz-all/enable", &json!({})).ok();
    house.entries_must_be(&ALL, "turned on again");
    let file = house.workspace().join("apps/entries/plugins/zz-all/plugin.js");
    let code = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{code}\n// changed\n")).unwrap();
    house.entries_must_be(&[], "changed on disk");
    house.allow("entries", "zz-all", &ALL);
    house.entries_must_be(&ALL, "allowed again");
    // What its manifest says of where it came from changes nothing but its hash.
    let file = house.workspace().join("apps/entries/plugins/zz-all/manifest.json");
    let mut manifest: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    manifest["origin"] = "local".into();
    std::fs::write(&file, manifest.to_string()).unwrap();
    house.entries_must_be(&[], "said to be local");
}

#[test]
fn the_clock_calls_who_may_be_called() {
    let house = House::open(&[]);
    let states = ["undecided", "denied", "stale", "off", "granted"];
    for state in states {
        let app = testkit::AppFolder::new(house.home.folder(), state);
        for file in ["manifest.json", "plugin.js"] {
            let text = std::fs::read_to_string(crate::house::rule("clock").join(file)).unwrap();
            app.file(&format!("plugins/p/{file}"), &text);
        }
        house.running.add(app.path(), state);
    }
    let plugin = |state: &str| house.workspace().join("apps").join(state).join("plugins/p/plugin.js");
    house.owner.post("/v1/plugins/denied__p/revoke", &json!({})).ok();
    house.post("off", "/plugins/p/disable", &json!({})).ok();
    let code = std::fs::read_to_string(plugin("stale")).unwrap();
    std::fs::write(plugin("stale"), format!("{code}\n// changed\n")).unwrap();
    // Another one in the app's place: nobody was asked about it.
    let folder = house.workspace().join("apps/undecided/plugins");
    std::fs::rename(folder.join("p"), folder.join("q")).unwrap();
    let mut events = house.owner.listen("/v1/events");
    let mut ticks = 0;
    while ticks < 2 {
        let event = events.event().expect("events go on").to_string();
        if !event.contains("ticked") {
            continue;
        }
        assert!(event.contains("granted__p"), "{event}");
        ticks += 1;
    }
}
