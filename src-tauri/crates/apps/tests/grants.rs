//! Failures list, rows 6 and 49: what a worker sends, past its prelude, is judged in the engine alone. Each capability ×
//! each message, on the very object that answers a worker's socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apps::host::{Beyond, Generation, GuestHost, Part};
use db::Db;
use parking_lot::Mutex;
use policy::{AccountId, AppId, CallContext, Caller, Capability, CodeHash, PluginId};
use sandbox::Host;
use serde_json::{Value, json};

/// Counts what was let through, and remembers what was refused.
#[derive(Default)]
struct World {
    generated: AtomicUsize,
    refused: Mutex<Vec<String>>,
}

struct Said;

#[async_trait::async_trait]
impl Generation for Said {
    async fn next(&mut self) -> Part {
        Part::Done(json!({"text": "said"}))
    }
    fn abort(&self) {}
}

impl Beyond for World {
    fn generate(&self, _: &CallContext, _: Value) -> Result<Box<dyn Generation>, String> {
        self.generated.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Said))
    }
    fn refused(&self, context: &CallContext, target: &str, why: &str) {
        let caller = context.chain.last().map(Caller::label).unwrap_or_default();
        self.refused.lock().push(format!("{caller} {target}: {why}"));
    }
    fn logged(&self, _: &CallContext, _: &str, _: &str) {}
}

/// Messages that need a capability, whether they are awaited or stood still for.
const GUARDED: &[(&str, Capability)] = &[
    ("llm.generate", Capability::Llm),
    ("llm.open", Capability::Llm),
    ("llm.request", Capability::Llm),
    ("store.get", Capability::Store),
    ("store.put", Capability::Store),
    ("store.delete", Capability::Store),
    ("store.keys", Capability::Store),
];
/// Messages that no capability makes good.
const UNKNOWN: &[&str] = &[
    "",
    "llm",
    "llm.generate ",
    "LLM.GENERATE",
    "llm.embed",
    "store",
    "store.clear",
    "net.request",
    "fs.read",
    "zip.list",
    "log",
    "grants.put",
    "__proto__",
    "settings.get",
    "connections.list",
    "http",
];

struct House {
    db: Arc<Db>,
    world: Arc<World>,
    caller: Caller,
    _folder: tempfile::TempDir,
}

const RIGHT: &str = "right code";

fn code(text: &str) -> CodeHash {
    apps::code::code_hash([("plugin.js", text.as_bytes())])
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Arc::new(Db::open(&folder.path().join("db")).unwrap().db);
        let account = AccountId::random();
        db.add_account(&account, "zoe", "admin").unwrap();
        House {
            db,
            world: Arc::default(),
            caller: Caller::Plugin {
                account,
                app: AppId::parse("alpha").unwrap(),
                plugin: PluginId::parse("p").unwrap(),
            },
            _folder: folder,
        }
    }

    fn grant(&self, granted: &[Capability]) {
        let Caller::Plugin { account, app, plugin } = &self.caller else {
            unreachable!()
        };
        let granted: Vec<_> = granted.iter().map(|one| (*one, Vec::new())).collect();
        self.db
            .decide(account, app, plugin, code(RIGHT), &granted, &[], "owner")
            .unwrap();
    }

    fn host(&self, running: &str, caller: &Caller) -> GuestHost {
        GuestHost::new(
            self.db.clone(),
            self.world.clone(),
            CallContext::root(caller),
            code(running),
        )
    }

    /// Whether the message got through to what it asks for, on both ways in.
    async fn gets_through(&self, host: &GuestHost, method: &str) -> bool {
        let args = json!(["key", "value"]);
        let before = self.world.generated.load(Ordering::SeqCst);
        let awaited = host.call(method, args.clone()).await.is_ok();
        let stood = host.call_now(method, args).is_ok();
        let queued = !host.take_queue().is_empty();
        let generated = self.world.generated.load(Ordering::SeqCst) > before;
        // A request that may not be queued is dropped without an error (contract section 12), so that counts as nothing.
        queued || generated || ((awaited || stood) && method != "llm.request")
    }
}

#[tokio::test]
async fn regress_49_each_capability_by_each_message() {
    let house = House::new();
    let sets = std::iter::once(Vec::new())
        .chain(Capability::ALL.iter().map(|one| vec![*one]))
        .chain(
            Capability::ALL
                .iter()
                .map(|one| Capability::ALL.iter().copied().filter(|c| c != one).collect()),
        );
    for granted in sets {
        house.grant(&granted);
        for (method, needed) in GUARDED {
            house.world.refused.lock().clear();
            let host = house.host(RIGHT, &house.caller);
            let may = granted.contains(needed);
            assert_eq!(
                house.gets_through(&host, method).await,
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
            let host = house.host(RIGHT, &house.caller);
            assert!(!house.gets_through(&host, method).await, "{method} with {granted:?}");
        }
    }
}

/// All that was granted is worth nothing to other code, another plugin, another app, another person, or no plugin at all.
#[tokio::test]
async fn regress_6_a_grant_is_for_one_plugins_one_code() {
    let house = House::new();
    house.grant(&Capability::ALL);
    let Caller::Plugin { account, app, plugin } = house.caller.clone() else {
        unreachable!()
    };
    let (other_app, other_plugin) = (AppId::parse("beta").unwrap(), PluginId::parse("q").unwrap());
    let callers = [
        ("other code", "wrong code", house.caller.clone()),
        (
            "another plugin",
            RIGHT,
            Caller::Plugin {
                account: account.clone(),
                app: app.clone(),
                plugin: other_plugin,
            },
        ),
        (
            "another app",
            RIGHT,
            Caller::Plugin {
                account: account.clone(),
                app: other_app,
                plugin: plugin.clone(),
            },
        ),
        (
            "another person",
            RIGHT,
            Caller::Plugin {
                account: AccountId::random(),
                app: app.clone(),
                plugin,
            },
        ),
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
        for (method, _) in GUARDED {
            let host = house.host(running, &caller);
            assert!(!house.gets_through(&host, method).await, "{method} as {who}");
        }
    }
    assert_eq!(house.world.generated.load(Ordering::SeqCst), 0);
    assert!(
        house
            .gets_through(&house.host(RIGHT, &house.caller), "llm.generate")
            .await,
        "the twin"
    );
}

/// A permission that is taken back counts at once, for a call that is under way too; and streams are nobody else's.
#[tokio::test]
async fn what_is_taken_back_is_gone_at_once() {
    let house = House::new();
    house.grant(&[Capability::Llm, Capability::Store]);
    let (host, other) = (house.host(RIGHT, &house.caller), house.host(RIGHT, &house.caller));
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
        assert!(host.call("llm.next", odd.clone()).await.is_err(), "{odd}");
        assert!(host.call("llm.abort", odd.clone()).await.is_err(), "{odd}");
        assert!(
            host.call_now("store.get", odd.clone()).is_err() || odd == json!(["x"]),
            "{odd}"
        );
    }
    host.call_now("llm.request", json!(["k", {}])).unwrap();
    let queued = host.take_queue();
    assert_eq!(queued.len(), 1);
    house.grant(&[]);
    for (method, _) in GUARDED {
        assert!(!house.gets_through(&host, method).await, "{method}");
    }
    let before = house.world.generated.load(Ordering::SeqCst);
    for (_, request) in queued {
        let result = host.finish(request).await;
        assert!(
            result["error"].as_str().is_some_and(|e| e.contains("\"llm\"")),
            "{result}"
        );
    }
    assert_eq!(
        house.world.generated.load(Ordering::SeqCst),
        before,
        "a request that was queued before ran"
    );
}
