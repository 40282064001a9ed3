//! What is left behind, seen from outside. One test at a time, because it counts this process's children.

mod common;

use std::sync::Arc;

use common::*;
use sandbox::{Ending, Failure, Pool};
use serde_json::json;
use tokio::sync::Mutex;

static ALONE: Mutex<()> = Mutex::const_new(());

#[tokio::test]
async fn a_worker_killed_from_outside_fails_one_call() {
    let _alone = ALONE.lock().await;
    let pool = Arc::new(pool());
    let host = host();
    let task = {
        let (pool, host) = (pool.clone(), host.clone());
        let program = program("a/b/c", "export const main = (h) => h.call('never')");
        tokio::spawn(async move { pool.call(&program, call("main", json!([])), host).await })
    };
    eventually("it waits", || *host.entered.lock().unwrap() == 1).await;
    let pids = children();
    assert_eq!(pids.len(), 1);
    // SAFETY: a signal to the one child this test started.
    unsafe { libc::kill(pids[0] as i32, libc::SIGKILL) };
    assert!(matches!(
        task.await.unwrap(),
        Err(Failure::Crashed(Ending::Signal(libc::SIGKILL)))
    ));
    assert_eq!(value(&pool, "export const main = () => 1").await, json!(1));
    // One that dies while idle fails no call at all.
    let pids = children();
    assert_eq!(pids.len(), 1);
    // SAFETY: as above.
    unsafe { libc::kill(pids[0] as i32, libc::SIGKILL) };
    eventually("it is dead", || {
        std::fs::read_to_string(format!("/proc/{}/stat", pids[0])).is_ok_and(|stat| stat.contains(") Z "))
    })
    .await;
    assert_eq!(value(&pool, "export const main = () => 1").await, json!(1));
    pool.shutdown().await;
    assert!(children().is_empty());
}

#[tokio::test]
async fn a_dropped_call_takes_its_worker_along() {
    let _alone = ALONE.lock().await;
    let pool = pool();
    for source in [
        "export function main(h) { h.log('on'); for (;;) {} }",
        "export const main = (h) => { h.log('on'); return h.call('never') }",
    ] {
        let host = host();
        let program = program("a/b/c", source);
        tokio::select! {
            result = pool.call(&program, call("main", json!([])), host.clone()) => panic!("{result:?}"),
            () = eventually("it runs", || !host.lines.lock().unwrap().is_empty()) => {}
        }
        eventually("no process", || children().is_empty()).await;
        assert_eq!(pool.alive(), 0);
    }
}

#[tokio::test]
async fn a_dropped_pool_leaves_no_process() {
    let _alone = ALONE.lock().await;
    let pool = pool();
    run(&pool, "export const main = 1").await.unwrap();
    assert_eq!(children().len(), 1);
    drop(pool);
    eventually("no process", || children().is_empty()).await;
}

#[tokio::test]
async fn a_worker_has_nothing_to_find() {
    let _alone = ALONE.lock().await;
    let pool = Arc::new(pool());
    let host = host();
    let task = {
        let (pool, host) = (pool.clone(), host.clone());
        let program = program("a/b/c", "export const main = (h) => h.call('never')");
        tokio::spawn(async move { pool.call(&program, call("main", json!([])), host).await })
    };
    eventually("it waits", || *host.entered.lock().unwrap() == 1).await;
    let pid = children()[0];
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    let status = read("status").unwrap();
    let field = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("Seccomp:"), ["2"]);
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    assert_eq!(field("Threads:"), ["1"]);
    assert_eq!(field("CapEff:"), ["0000000000000000"]);
    let limits = read("limits").unwrap();
    let limit = |name: &str| {
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default();
        line.split_whitespace().next().map(str::to_owned)
    };
    assert_eq!(limit("Max address space").as_deref(), Some("536870912"));
    assert_eq!(limit("Max core file size").as_deref(), Some("0"));
    assert_eq!(limit("Max file size").as_deref(), Some("0"));
    assert_eq!(limit("Max processes").as_deref(), Some("1"));
    // SAFETY: asks for the caller's own user id.
    if unsafe { libc::geteuid() } == 0 {
        assert_eq!(field("Uid:"), ["65534"; 4]);
        assert_eq!(field("Gid:"), ["65534"; 4]);
        assert_eq!(field("Groups:"), Vec::<String>::new());
        // Only root may look into a process that is hidden from debuggers.
        assert_eq!(read("environ").unwrap(), "");
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut links: Vec<_> = descriptors
            .map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap())
            .collect();
        links.sort();
        assert_eq!(links.len(), 3, "{links:?}");
        assert_eq!(links[0].to_str(), Some("/dev/null"));
        assert_eq!(links[1].to_str(), Some("/dev/null"));
        assert!(links[2].to_str().unwrap().starts_with("socket:"));
        for line in read("maps").unwrap().lines() {
            let rights = line.split(' ').nth(1).unwrap_or_default();
            assert!(!(rights.contains('w') && rights.contains('x')), "{line}");
        }
    }
    task.abort();
    eventually("no process", || children().is_empty()).await;
}

#[tokio::test]
async fn idle_workers_make_room_the_longest_idle_first() {
    let _alone = ALONE.lock().await;
    let pool = Pool::new(options(&worker(), 5));
    let plain = "export const main = () => 1";
    let run = async |key: &str| {
        let mut call = call("main", json!([]));
        call.limits.depth = 5;
        pool.call(&program(key, plain), call, host()).await.unwrap();
    };
    for key in ["a", "b", "c", "d", "e", "a"] {
        run(key).await;
    }
    assert_eq!(pool.alive(), 5);
    let before = children();
    run("f").await;
    assert_eq!(pool.alive(), 5);
    let after = children();
    assert_eq!(before.iter().filter(|pid| !after.contains(pid)).count(), 1);
    // "b" went; "a", used again, did not.
    run("a").await;
    assert_eq!(children(), after);
    run("b").await;
    assert_ne!(children(), after);
}

/// Set for the second process of the next test: it is then an engine with a worker that loops.
const TO_BE_KILLED: &str = "CHRYSALIS_TEST_ENGINE_TO_BE_KILLED";

async fn an_engine_to_be_killed() {
    let pool = pool();
    let program = program("a/b/c", "export function main(h) { h.log('on'); for (;;) {} }");
    let host = host();
    let call = pool.call(&program, call("main", json!([])), host.clone());
    tokio::join!(call, async {
        eventually("it runs", || !host.lines.lock().unwrap().is_empty()).await;
        println!("\nworker {}", children()[0]);
    })
    .0
    .unwrap();
}

#[tokio::test]
async fn a_killed_engine_takes_a_looping_worker_along() {
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };
    if std::env::var_os(TO_BE_KILLED).is_some() {
        return an_engine_to_be_killed().await;
    }
    let _alone = ALONE.lock().await;
    let mut engine = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_engine_takes_a_looping_worker_along", "--nocapture"])
        .env(TO_BE_KILLED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(engine.stdout.take().unwrap()).lines();
    let worker = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("worker ")?.parse::<u32>().ok())
        .unwrap();
    assert!(std::fs::exists(format!("/proc/{worker}")).unwrap());
    engine.kill().unwrap();
    engine.wait().unwrap();
    eventually("the worker is gone", || {
        // A zombie until its new parent looks: dead all the same.
        std::fs::read_to_string(format!("/proc/{worker}/stat")).map_or(true, |stat| stat.contains(") Z "))
    })
    .await;
}
