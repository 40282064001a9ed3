//! Failures list, rows 6 and 49: what a worker sends, past its prelude, is judged in the engine alone. Each capability ×
//! each message, on the very object that answers a worker's socket.

mod host_kit;

use std::sync::Arc;

use apps::host::{GuestHost, Queued};
use host_kit::{House, code, zip};
use policy::{AccountId, AppId, Caller, Capability, PluginId};
use sandbox::Host;
use serde_json::{Value, json};

const PICTURE: &str = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

/// Messages that need a capability, with arguments that are good.
fn guarded() -> Vec<(&'static str, Value, Capability)> {
    let text = json!({"text": "x"});
    vec![
        ("llm.generate", json!([{}]), Capability::Llm),
        ("llm.open", json!([{}]), Capability::Llm),
        ("llm.request", json!(["k", {}]), Capability::Llm),
        ("llm.embed", json!([{"texts": ["x"]}]), Capability::Llm),
        ("store.get", json!(["k"]), Capability::Store),
        ("store.put", json!(["k", 1]), Capability::Store),
        ("store.delete", json!(["k"]), Capability::Store),
        ("store.keys", json!([""]), Capability::Store),
        ("store.cas", json!(["k", null, 1]), Capability::Store),
        ("store.scan", json!([{}]), Capability::Store),
        ("store.batch", json!([[{"put": "k", "value": 1}]]), Capability::Store),
        (
            "net.request",
            json!(["k", {"url": "http://127.0.0.1:1/"}]),
            Capability::Network,
        ),
        (
            "net.fetch",
            json!([{"url": "http://127.0.0.1:1/"}]),
            Capability::Network,
        ),
        ("net.open", json!([{"url": "http://127.0.0.1:1/"}]), Capability::Network),
        ("fs.write", json!(["a", "x"]), Capability::Fs),
        ("fs.writeBase64", json!(["a", "eA=="]), Capability::Fs),
        ("fs.read", json!(["a"]), Capability::Fs),
        ("fs.readBase64", json!(["a"]), Capability::Fs),
        ("fs.readChunk", json!(["a", 0, 1]), Capability::Fs),
        ("fs.append", json!(["a", text]), Capability::Fs),
        ("fs.mkdir", json!(["b"]), Capability::Fs),
        ("fs.list", json!(["."]), Capability::Fs),
        ("fs.stat", json!(["a"]), Capability::Fs),
        ("fs.exists", json!(["a"]), Capability::Fs),
        ("fs.rename", json!(["a", "c"]), Capability::Fs),
        ("fs.lookup", json!(["c", "k"]), Capability::Fs),
        ("fs.media", json!([PICTURE]), Capability::Fs),
        ("fs.upload", json!(["d"]), Capability::Fs),
        ("fs.uploadWrite", json!([1, text]), Capability::Fs),
        ("fs.uploadClose", json!([1]), Capability::Fs),
        ("fs.uploadAbort", json!([1]), Capability::Fs),
        ("fs.begin", json!([]), Capability::Fs),
        ("fs.commit", json!([]), Capability::Fs),
        ("fs.rollback", json!([]), Capability::Fs),
        ("fs.remove", json!(["c"]), Capability::Fs),
        ("zip.list", json!([]), Capability::Zip),
        ("zip.entries", json!([]), Capability::Zip),
        ("zip.names", json!([]), Capability::Zip),
        ("zip.stat", json!(["a"]), Capability::Zip),
        ("zip.read", json!(["a"]), Capability::Zip),
        ("zip.readBase64", json!(["a"]), Capability::Zip),
        ("zip.readChunk", json!(["a", 0, 1]), Capability::Zip),
        ("zip.image", json!(["a"]), Capability::Zip),
    ]
}

/// Messages that no capability makes good.
const UNKNOWN: &[&str] = &[
    "",
    "llm",
    "llm.generate ",
    "LLM.GENERATE",
    "store",
    "store.clear",
    "net",
    "net.connect",
    "fs",
    "fs.open",
    "fs.chmod",
    "fs.symlink",
    "zip",
    "zip.extract",
    "sleep.now",
    "log",
    "grants.put",
    "__proto__",
    "settings.get",
    "connections.list",
    "secrets.get",
    "http",
];

const RIGHT: &str = "right code";

fn allow(house: &House, granted: &[Capability]) {
    let granted: Vec<(Capability, &[&str])> = granted.iter().map(|c| (*c, &[][..])).collect();
    house.grant(RIGHT, &granted);
}

/// Whether the message got past what guards it, on either way in. Other errors than the guard's come after it.
async fn gets_through(host: &GuestHost, method: &str, args: &Value) -> bool {
    let past = |answer: Result<Value, String>| match answer {
        Ok(_) => true,
        Err(why) => {
            let stopped = ["needs the permission", "does not exist", "does not come from a plugin"];
            !stopped.iter().any(|word| why.contains(word))
        }
    };
    let (awaited, stood) = (
        host.call(method, args.clone()).await,
        host.call_now(method, args.clone()),
    );
    let queued = !host.take_queue().is_empty();
    match method {
        // A request that may not be queued is dropped without an error (contract section 12).
        "llm.request" | "net.request" => queued,
        // Stood still for, it is the queued form.
        "llm.embed" => queued || past(awaited),
        _ => past(awaited) || past(stood),
    }
}

#[tokio::test]
async fn regress_49_each_capability_by_each_message() {
    let mut house = House::new();
    house.archive = Some(Arc::new(zip(&[("a", b"x")])));
    let sets = std::iter::once(Vec::new())
        .chain(Capability::ALL.iter().map(|one| vec![*one]))
        .chain(
            Capability::ALL
                .iter()
                .map(|one| Capability::ALL.iter().copied().filter(|c| c != one).collect()),
        );
    for granted in sets {
        allow(&house, &granted);
        for (method, args, needed) in guarded() {
            house.world.refused.lock().clear();
            let host = house.host(RIGHT);
            let online = needed == Capability::Network && granted.contains(&Capability::LocalNetwork);
            let may = granted.contains(&needed) || online;
            assert_eq!(
                gets_through(&host, method, &args).await,
                may,
                "{method} with {granted:?}"
            );
            let refused = house.world.refused.lock().join("\n");
            assert_eq!(refused.is_empty(), may, "{method} with {granted:?}: {refused}");
            if !may {
                assert!(
                    refused.contains("alpha/p") && refused.contains(needed.as_str()),
                    "{refused}"
                );
            }
        }
        for method in UNKNOWN {
            let host = house.host(RIGHT);
            let args = json!(["key", "value"]);
            assert!(!gets_through(&host, method, &args).await, "{method} with {granted:?}");
        }
    }
}

/// All that was granted is worth nothing to other code, another plugin, another app, another person, or no plugin at all.
#[tokio::test]
async fn regress_6_a_grant_is_for_one_plugins_one_code() {
    let house = House::new();
    allow(&house, &Capability::ALL);
    let Caller::Plugin { account, app, plugin } = house.caller() else {
        unreachable!()
    };
    let (other_app, other_plugin) = (AppId::parse("beta").unwrap(), PluginId::parse("q").unwrap());
    let of = |account: &AccountId, app: &AppId, plugin: &PluginId| Caller::Plugin {
        account: account.clone(),
        app: app.clone(),
        plugin: plugin.clone(),
    };
    let callers = [
        ("other code", "wrong code", house.caller()),
        ("another plugin", RIGHT, of(&account, &app, &other_plugin)),
        ("another app", RIGHT, of(&account, &other_app, &plugin)),
        ("the shelf", RIGHT, of(&account, &AppId::shelf(), &plugin)),
        ("another person", RIGHT, of(&AccountId::random(), &app, &plugin)),
        (
            "an app's page",
            RIGHT,
            Caller::App {
                account: account.clone(),
                app,
            },
        ),
        ("the owner", RIGHT, Caller::Owner { account }),
        ("nobody", RIGHT, Caller::Nobody),
    ];
    for (who, running, caller) in callers {
        for (method, args, _) in guarded() {
            let host = house.host_for(code(running), &caller);
            assert!(!gets_through(&host, method, &args).await, "{method} as {who}");
        }
    }
    assert!(house.world.asked.lock().is_empty());
    assert!(
        gets_through(&house.host(RIGHT), "llm.generate", &json!([{}])).await,
        "the twin"
    );
}

/// A permission that is taken back counts at once, for a call that is under way too; and streams are nobody else's.
#[tokio::test]
async fn what_is_taken_back_is_gone_at_once() {
    let house = House::new();
    allow(&house, &[Capability::Llm, Capability::Store, Capability::Network]);
    let (host, other) = (house.host(RIGHT), house.host(RIGHT));
    let stream = host.call("llm.open", json!([{}])).await.unwrap();
    assert!(
        other.call("llm.next", json!([stream])).await.is_err(),
        "another call's stream"
    );
    for odd in [
        json!(null),
        json!([]),
        json!(["x"]),
        json!([-1]),
        json!([99]),
        json!({"0": 1}),
    ] {
        for method in ["llm.next", "llm.rest", "llm.abort", "net.next", "sleep"] {
            assert!(
                host.call(method, odd.clone()).await.is_err() || method == "sleep",
                "{method} {odd}"
            );
        }
        assert!(
            host.call_now("store.get", odd.clone()).is_err() || odd == json!(["x"]),
            "{odd}"
        );
    }
    host.call_now("llm.request", json!(["k", {}])).unwrap();
    host.call_now("llm.embed", json!(["e", {"texts": ["x"]}])).unwrap();
    host.call_now("net.request", json!(["n", {"url": "http://127.0.0.1:1/"}]))
        .unwrap();
    let queued: Queued = host.take_queue();
    assert_eq!(queued.len(), 3);
    house.grant(RIGHT, &[]);
    for (method, args, _) in guarded() {
        assert!(!gets_through(&host, method, &args).await, "{method}");
    }
    let before = house.world.asked.lock().len();
    let mut results = apps::host::Results::default();
    host.perform(queued, &mut results).await;
    let told = |value: &Value| {
        value["error"]
            .as_str()
            .is_some_and(|e| e.contains("needs the permission"))
    };
    assert!(told(&results.results["k"]), "{results:?}");
    assert!(told(&results.net_results["n"]), "{results:?}");
    assert_eq!(results.embed_results["e"], Value::Null);
    assert_eq!(
        house.world.asked.lock().len(),
        before,
        "a request that was queued before ran"
    );
    assert!(house.lines.0.lock().is_empty(), "and so did a connection");
}
