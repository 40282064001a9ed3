//! The host object itself: what it is made of, and that it is the guest's own.

mod host_kit;

use host_kit::House;
use policy::Capability;
use serde_json::json;

#[tokio::test]
async fn it_is_an_ordinary_object() {
    let house = House::new();
    let got = house
        .does(
            &[(Capability::Store, &[])],
            r#"
            const before = Object.keys(host).sort();
            const copy = { ...host };
            host.fs = { mine: 1 };
            host.store.get = () => "mine";
            host.llm.results.x = { a: 1 };
            return {
                before, copied: Object.keys(copy).sort(), rooms: [copy.store, copy.llm, copy.zip].map((room) => typeof room),
                fs: host.fs, store: host.store.get("k"), results: host.llm.results, same: host.zip === host.zip,
                plain: [host, host.llm.results, host.permissions].map((o) => Object.getPrototypeOf(o) === Object.prototype),
                siblings: host.siblingTools, app: host.app, plugin: host.plugin,
            };
            "#,
            json!(null),
        )
        .await
        .unwrap();
    let names = json!([
        "app",
        "fs",
        "llm",
        "log",
        "net",
        "permissions",
        "plugin",
        "siblingTools",
        "sleep",
        "store",
        "zip"
    ]);
    assert_eq!((&got["before"], &got["copied"]), (&names, &names));
    assert_eq!(got["rooms"], json!(["object", "object", "object"]));
    assert_eq!((&got["fs"], &got["store"]), (&json!({"mine": 1}), &json!("mine")));
    assert_eq!((&got["results"], &got["same"]), (&json!({"x": {"a": 1}}), &json!(true)));
    assert_eq!(got["plain"], json!([true, true, true]));
    assert_eq!(got["siblings"], json!([{"name": "theirs"}]));
    assert_eq!((&got["app"], &got["plugin"]), (&json!("alpha"), &json!("p")));
}

/// Whatever a plugin reaches from what it was given, through getters, prototypes, constructors and errors: it meets its
/// own context and nothing that speaks to the engine past the host's methods.
#[tokio::test]
async fn nothing_behind_it_is_reached() {
    let house = House::new();
    let got = house
        .does(
            &[(Capability::Store, &[])],
            r#"
            const seen = new Set(), names = new Set();
            const walk = (value, depth) => {
                if (depth > 6 || (typeof value !== "object" && typeof value !== "function") || !value || seen.has(value)) return;
                seen.add(value);
                for (const key of Reflect.ownKeys(value)) {
                    names.add(String(key));
                    const d = Object.getOwnPropertyDescriptor(value, key);
                    walk(d.get, depth + 1); walk(d.set, depth + 1);
                    try { walk(value[key], depth + 1) } catch {}
                }
                walk(Object.getPrototypeOf(value), depth + 1);
            };
            walk(host, 0); walk(globalThis, 0);
            try { host.store.get(5) } catch (error) { walk(error, 0) }
            const wanted = ["__sandbox", "__makeHost", "callNow", "native", "web", "urlParse", "base64Decode"];
            const own = host.store.get.constructor("return [typeof __sandbox, typeof __makeHost, typeof callNow, this === globalThis]")();
            return { found: wanted.filter((name) => names.has(name)), own, walked: seen.size > 200 };
            "#,
            json!(null),
        )
        .await
        .unwrap();
    assert_eq!(got["found"], json!([]), "{got}");
    assert_eq!(got["own"], json!(["undefined", "undefined", "undefined", true]));
    assert_eq!(got["walked"], true, "{got}");
}

#[tokio::test]
async fn what_one_call_does_to_it_ends_with_the_call() {
    let house = House::new();
    let spoil =
        "Object.prototype.get = () => 'spoiled'; JSON.stringify = () => 'spoiled'; Promise.prototype.then = null;
        globalThis.leak = 1; host.store.put('k', 'kept'); return 1";
    let store: &[(Capability, &[&str])] = &[(Capability::Store, &[])];
    // It may well break this very call, and no other.
    let _ = house.does(store, spoil, json!(null)).await;
    let next = "return [typeof globalThis.leak, ({}).get === undefined, await host.store.cas('a', null, 1)]";
    assert_eq!(
        house.does(store, next, json!(null)).await.unwrap(),
        json!(["undefined", true, true])
    );
}
