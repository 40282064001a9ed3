//! Places by depth, processes of a call's own, long synchronous calls, stopping from outside.

mod common;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use common::*;
use sandbox::{Call, Failure, Host, Limits, Pool, Program};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A host whose `deeper` makes a call of the next depth on the same pool, by a plugin of its own.
struct Chain {
    pool: Arc<Pool>,
    depth: u8,
    last: u8,
    who: usize,
}

const DEEPER: &str = "export const main = async (h) => 1 + await h.call('deeper')";

fn at_depth(depth: u8) -> Call {
    let mut call = call("main", json!([]));
    call.limits.depth = depth;
    call.limits.queue = Duration::from_secs(60);
    call
}

#[async_trait]
impl Host for Chain {
    async fn call(&self, _: &str, _: Value) -> Result<Value, String> {
        if self.depth == self.last {
            return Ok(json!(0));
        }
        let (pool, depth, last, who) = (self.pool.clone(), self.depth + 1, self.last, self.who);
        let program = program(&format!("a/{who}/{depth}"), DEEPER);
        let inner = Arc::new(Chain { pool, depth, last, who });
        let outcome = self.pool.call(&program, at_depth(depth), inner).await;
        outcome
            .map(|outcome| outcome.value)
            .map_err(|failure| failure.to_string())
    }
    fn call_now(&self, _: &str, _: Value) -> Result<Value, String> {
        Err("no".into())
    }
    fn log(&self, _: &str, _: &str) {}
}

async fn chains(max_alive: usize, count: usize, last: u8) {
    let pool = Arc::new(Pool::new(options(&worker(), max_alive)));
    for round in 0..2 {
        let calls = (0..count).map(|who| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let host = Arc::new(Chain {
                    pool: pool.clone(),
                    depth: 1,
                    last,
                    who,
                });
                pool.call(&program(&format!("a/{who}/1"), DEEPER), at_depth(1), host)
                    .await
            })
        });
        let calls: Vec<_> = calls.collect();
        let begin = Instant::now();
        for call in calls {
            let outcome = call.await.unwrap();
            assert_eq!(
                outcome.unwrap().value,
                json!(last),
                "{max_alive} {count} {last} {round}"
            );
            assert!(pool.alive() <= max_alive);
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "somebody waited for `queue`");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chains_of_waiting_calls_never_wait_for_each_other() {
    chains(8, 8, 2).await;
    chains(8, 20, 5).await;
    chains(5, 6, 5).await;
    chains(4, 6, 2).await;
    chains(1, 3, 1).await;
}

#[tokio::test]
async fn a_call_with_a_process_of_its_own_meets_a_new_one_and_leaves_none() {
    let pool = pool();
    let program = Arc::new(Program::new(
        "a/b/c",
        "plugin.js",
        "let calls = 0; export const main = () => [++calls, new Uint8Array(200 << 20).length]",
        PRELUDE,
        true,
    ));
    for limits in [Limits::zip(), Limits::app_update()] {
        let call = Call {
            limits,
            ..call("main", json!([]))
        };
        for _ in 0..2 {
            let outcome = pool.call(&program, call.clone(), host()).await.unwrap();
            assert_eq!(outcome.value, json!([1, 200 << 20]));
            eventually("it is gone", || pool.alive() == 0).await;
        }
    }
    match pool.call(&program, call("main", json!([])), host()).await {
        Err(Failure::Memory { limit }) => assert_eq!(limit, 64 << 20),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn large_messages_pass_where_the_heap_is_large() {
    struct Large;
    #[async_trait]
    impl Host for Large {
        async fn call(&self, _: &str, args: Value) -> Result<Value, String> {
            let text = args[0].as_str().ok_or("no text")?;
            Ok(json!([text.len(), "x".repeat(text.len() - 100)]))
        }
        fn call_now(&self, _: &str, args: Value) -> Result<Value, String> {
            let length = args[0].as_u64().ok_or("no number")? as usize;
            Ok(json!("y".repeat(length)))
        }
        fn log(&self, _: &str, _: &str) {}
    }
    let pool = pool();
    let source = r#"export async function main(large, size, h) {
        const now = h.now("large", large).length;
        const [there, back] = await h.call("large", "z".repeat(size));
        return { now, there, back: back.length, result: "r".repeat(size) };
    }"#;
    let program = program("a/b/c", source);
    let large = Call {
        limits: Limits::zip(),
        ..call("main", json!([66 << 20, 66 << 20]))
    };
    let value = pool.call(&program, large, Arc::new(Large)).await.unwrap().value;
    assert_eq!((&value["now"], &value["there"]), (&json!(66 << 20), &json!(66 << 20)));
    assert_eq!(value["back"], json!((66 << 20) - 100));
    assert_eq!(value["result"].as_str().map(str::len), Some(66 << 20));
    // The same in an ordinary call is an error the plugin can catch.
    let source = "export function main(h) { try { h.now('large', 65 << 20) } catch (error) { return error.message } }";
    let small = call("main", json!([]));
    let value = pool
        .call(&common::program("a/b/d", source), small, Arc::new(Large))
        .await;
    let value = value.unwrap().value;
    assert!(value.as_str().unwrap().contains("larger than the 64 MiB"), "{value}");
}

/// `slow` blocks its thread until the test opens it.
#[derive(Default)]
struct Slow {
    entered: Mutex<usize>,
    open: (Mutex<bool>, std::sync::Condvar),
    answered: Notify,
}

#[async_trait]
impl Host for Slow {
    async fn call(&self, _: &str, _: Value) -> Result<Value, String> {
        self.answered.notify_one();
        Ok(Value::Null)
    }
    fn call_now(&self, method: &str, _: Value) -> Result<Value, String> {
        *self.entered.lock().unwrap() += 1;
        if method == "panics" {
            panic!("as it should");
        }
        let (open, changed) = &self.open;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
        Ok(json!("read"))
    }
    fn lengthy(&self, _: &str) -> bool {
        true
    }
    fn log(&self, _: &str, _: &str) {}
}

#[tokio::test]
async fn a_long_synchronous_call_holds_up_nobody_else() {
    let pool = Arc::new(pool());
    let slow = Arc::new(Slow::default());
    let source = "export async function main(h) { const open = h.call('x'); const read = h.now('slow'); await open; return read }";
    let task = {
        let (pool, slow) = (pool.clone(), slow.clone());
        tokio::spawn(async move {
            pool.call(&program("a/b/c", source), call("main", json!([])), slow)
                .await
        })
    };
    eventually("it stands still", || *slow.entered.lock().unwrap() == 1).await;
    // This runtime has one thread: others run, and the calls that were open go on.
    let quick = program("a/b/d", "export const main = () => 1");
    let other = pool.call(&quick, call("main", json!([])), host()).await.unwrap();
    assert_eq!(other.value, json!(1));
    slow.answered.notified().await;
    *slow.open.0.lock().unwrap() = true;
    slow.open.1.notify_all();
    let outcome = task.await.unwrap().unwrap();
    assert_eq!(outcome.value, json!("read"));
    assert!(outcome.running < Duration::from_secs(5));
    let source = "export function main(h) { try { h.now('panics') } catch (error) { return error.message } }";
    let value = pool
        .call(&program("a/b/e", source), call("main", json!([])), slow)
        .await;
    let value = value.unwrap().value;
    assert!(value.as_str().unwrap().contains("the engine failed"), "{value}");
}

#[tokio::test]
async fn a_long_synchronous_call_has_an_end() {
    let pool = pool();
    let slow = Arc::new(Slow::default());
    let mut call = call("main", json!([]));
    call.limits.now = Duration::from_millis(50);
    let program = program("a/b/c", "export const main = (h) => h.now('slow')");
    let result = pool.call(&program, call, slow.clone()).await;
    assert!(
        matches!(&result, Err(Failure::Limit(why)) if why.contains("synchronous calls")),
        "{result:?}"
    );
    // So that the thread it stands on ends too.
    *slow.open.0.lock().unwrap() = true;
    slow.open.1.notify_all();
}

#[tokio::test]
async fn stopping_ends_calls_of_just_these_plugins() {
    let pool = Arc::new(pool());
    let (host, bystander) = (host(), host());
    let start = |key: &str, source: &str, host: &Arc<TestHost>| {
        let (pool, program, host) = (pool.clone(), program(key, source), host.clone());
        tokio::spawn(async move { pool.call(&program, call("main", json!([])), host).await })
    };
    let never = "export const main = (h) => { h.log('on'); return h.call('never') }";
    let waiting = start("ann/app/p", never, &host);
    let looping = start(
        "ann/app/q",
        "export function main(h) { h.log('on'); for (;;) {} }",
        &host,
    );
    eventually("both are on", || host.lines.lock().unwrap().len() == 2).await;
    // This one waits for the lock of the looping one.
    let queued = start(
        "ann/app/q",
        "export function main(h) { h.log('on'); for (;;) {} }",
        &host,
    );
    let gate = start("ann/other/p", "export const main = (h) => h.call('gate')", &bystander);
    eventually("it waits", || *bystander.entered.lock().unwrap() == 1).await;
    let idle = start("ann/app/r", "export const main = () => 1", &host).await.unwrap();
    assert_eq!(idle.unwrap().value, json!(1));
    assert_eq!(pool.alive(), 4);

    assert_eq!(pool.stop(|key| key.starts_with("ann/app/")), 3);
    for call in [waiting, looping, queued] {
        assert!(matches!(call.await.unwrap(), Err(Failure::Stopped)));
    }
    eventually("their workers are gone", || pool.alive() == 1).await;
    assert_eq!(pool.stop(|key| key.starts_with("ann/app/")), 0);
    bystander.gate.notify_one();
    assert_eq!(gate.await.unwrap().unwrap().value, json!("opened"));
    // Stopping is for what runs; the plugin can be called again.
    let again = start("ann/app/p", "export const main = () => 2", &host).await.unwrap();
    assert_eq!(again.unwrap().value, json!(2));
}
