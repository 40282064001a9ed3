//! Failures of other programs of this kind, by their public references.

use serde_json::json;

use crate::attempt::{Came, Want};
use crate::house::{EVERYTHING, House, MODEL_KEY, SECRET};

/// quickjs-ng/quickjs#1221 (CVE-2025-62495): 50 nested `(?:a|)+` made more than 2 GB of regular expression code.
/// quickjs-ng/quickjs#1399: `/^(a+)+$/` tracks back for ever. The plugin alone gets an error.
#[test]
fn regress_2_a_regular_expression_ends_with_an_error_for_its_plugin_only() {
    let house = House::open();
    house.add("neighbour", &["p"], EVERYTHING);
    let engine = house.running.pid();
    let nested = "let p = 'a'; for (let i = 0; i < 50; i++) p = `(?:${p}|)+`; return new RegExp(p).test('aaa')";
    let tracks_back = r#"return /^(a+)+$/.test("a".repeat(30) + "!") || /^(a+)+$/.test("a".repeat(60) + "!")"#;
    let ends = Want::Fails(&[
        "ran longer",
        "ran out of memory",
        "ended unexpectedly",
        "out of memory",
        "stack",
        "too",
    ]);
    for code in [nested, tracks_back] {
        let came = std::thread::scope(|scope| {
            let call = scope.spawn(|| house.run(code));
            let mut calls = 0;
            while !call.is_finished() || calls == 0 {
                assert_eq!(
                    house.run_as("neighbour", "p", "return 1"),
                    Came::Value(json!(1)),
                    "{code}"
                );
                calls += 1;
            }
            call.join().unwrap()
        });
        assert!(ends.fits(&came), "{code}: {came:?}");
        assert_eq!(house.running.pid(), engine);
        let twin = r#"return [new RegExp("(?:(?:a|)+|)+").test("aaa"), /^(a+)+$/.test("aaa")]"#;
        assert_eq!(house.run(twin), Came::Value(json!([true, true])));
    }
}

/// patriksimek/vm2#177, ownpilot/OwnPilot#35: `hostFn.constructor.constructor("return globalThis")()` was the host's
/// global object. Here every function that can be reached from what the plugin is given makes functions of its own global.
#[test]
fn regress_3_constructors_of_host_objects_lead_to_the_plugins_own_global() {
    let house = House::open();
    let code = r#"const error = (() => { try { host.fs.read("none") } catch (e) { return e } })();
        const answer = await host.llm.generate({ messages: [{ role: "user", content: "x" }] });
        let tried = 0; const strange = [];
        for (const at of new Set([host, error, answer, req, given].flatMap((start) => kit.reach(start)))) {
          if (typeof at !== "function" || at === kit.raw || at === kit.reach || at === kit.thrown) continue;
          let Made; try { Made = at.constructor.constructor } catch { continue }
          if (typeof Made !== "function") continue;
          tried++;
          let found; try { found = Made("return globalThis")() } catch (e) { found = e }
          if (found !== globalThis) strange.push(String(found));
        }
        return [tried > 50, strange]"#;
    assert_eq!(house.run(code), Came::Value(json!([true, []])));
    let handles = r#"const own = new Function("return globalThis")();
        return ["__sandbox", "require", "process.binding", "std", "os"].filter((name) => name in own)"#;
    assert_eq!(house.run(handles), Came::Value(json!([])));
    // The twin: the constructor is there and works.
    let twin = r#"return host.sleep.constructor.constructor("return 1 + 1")()"#;
    assert_eq!(house.run(twin), Came::Value(json!(2)));
}

/// SillyTavern/SillyTavern#5565: an installed extension read every API key. Here a plugin calls everything that `host`
/// has, by every path, with arguments that fit secrets, and no answer has key material in it.
#[test]
fn regress_7_no_call_returns_key_material() {
    let house = House::open();
    let code = r#"const said = []; let tried = 0;
        const words = [[], ["token"], ["secrets"], ["", ""], ["connections"], [{}], [{ url: given.granted + "/echo", headers: { "X-T": { secret: "token" } } }],
          ["settings"], ["*"], [{ messages: [{ role: "user", content: "x" }] }]];
        const keep = (value) => { try { said.push(JSON.stringify(value) ?? String(value)) } catch { said.push(String(value)) } };
        const walk = async (at, path, deep) => {
          for (const key of Reflect.ownKeys(at)) {
            const name = path + "." + String(key); let value; try { value = at[key] } catch { continue }
            if (name === "host.sleep") continue;
            if (typeof value === "function") for (const args of words) {
              tried++;
              try { const got = await value.apply(at, args); keep(got); if (got?.result?.then) keep(await got.result); if (got && typeof got === "object") for (const k in got) keep(got[k]) }
              catch (e) { said.push(String(e?.message), String(e?.stack)) }
            } else if (value && typeof value === "object" && deep < 3) await walk(value, name, deep + 1); else keep(value);
          }
        };
        await walk(host, "host", 0);
        return [tried, said.join("\n")]"#;
    let came = house.run(code);
    let Came::Value(found) = &came else { panic!("{came:?}") };
    let (tried, said) = (found[0].as_u64().unwrap(), found[1].as_str().unwrap());
    assert!(tried > 200, "only {tried} calls");
    for key in [SECRET, MODEL_KEY] {
        assert!(!said.contains(key), "a call returned key material");
    }
    // The twins: the answers were read, the secret was sent to where it belongs, and the key to the model server.
    assert!(said.contains("[secret]") && said.contains("hello"), "{said}");
    let sent = |server: &testkit::ModelServer, word: &str| {
        let seen = server.seen();
        seen.iter()
            .any(|seen| seen.headers.iter().any(|(_, value)| value.contains(word)))
    };
    assert!(sent(&house.granted, SECRET));
    assert!(sent(&house.model, MODEL_KEY));
}
