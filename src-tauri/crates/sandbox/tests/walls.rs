//! The walls of a worker, tried from inside by a test build of it, and a host that believes none of its words.

mod common;

use std::{
    os::unix::process::CommandExt, os::unix::process::ExitStatusExt, process::Command, process::Stdio, time::Duration,
};

use common::*;
use sandbox::{Ending, Failure, Limits, Outcome};
use serde_json::json;

const SIGSYS: i32 = 31;

async fn as_mode(mode: &str) -> Result<Outcome, Failure> {
    let (pool, _folder) = pool_as(mode);
    let mut call = call("main", json!([]));
    call.limits = Limits {
        running: Duration::from_millis(500),
        ..Limits::ordinary()
    };
    let result = pool
        .call(&program("a/b/c", "export const main = () => 1"), call, host())
        .await;
    pool.shutdown().await;
    assert_eq!(pool.alive(), 0, "{mode}");
    result
}

#[tokio::test]
async fn forbidden_system_calls_kill_the_worker() {
    let list = Command::new(worker()).arg0("as-list").output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let names: Vec<_> = list.lines().collect();
    assert!(names.len() >= 55, "the list got shorter: {}", names.len());
    for name in names {
        // Without the walls the same call does not end the process: it is the filter that kills, not the call.
        let twin = Command::new(worker())
            .arg0(format!("as-twin-{name}"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(
            (twin.status.code(), twin.status.signal()),
            (Some(42), None),
            "{name} without walls: {twin:?}"
        );
        match as_mode(&format!("try-{name}")).await {
            Err(Failure::Crashed(Ending::Signal(SIGSYS))) => {}
            other => panic!("{name} behind the walls: {other:?}"),
        }
    }
}

#[tokio::test]
async fn allowed_system_calls_work() {
    assert_eq!(as_mode("try-allowed").await.unwrap().value, json!("survived"));
}

#[tokio::test]
async fn no_seccomp_no_start() {
    match as_mode("no-seccomp").await {
        Err(Failure::NoSandbox(cause)) => assert!(cause.contains("seccomp could not be installed"), "{cause}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_kernel_is_asked_not_the_worker() {
    match as_mode("unlocked").await {
        Err(Failure::NoSandbox(cause)) => assert!(cause.contains("seccomp mode 0"), "{cause}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_worker_of_another_build_is_refused() {
    match as_mode("old").await {
        Err(Failure::NoSandbox(cause)) => assert!(cause.contains("999"), "{cause}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_worker_that_cannot_start_says_why() {
    assert!(matches!(as_mode("exit").await, Err(Failure::Crashed(Ending::Exit(7)))));
    let pool = sandbox::Pool::new(options("/nonexistent/worker".as_ref(), 1));
    match run(&pool, "export const main = 1").await {
        Err(Failure::Start(error)) => assert!(error.to_string().contains("/nonexistent/worker"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.alive(), 0);
}

#[tokio::test]
async fn lying_workers_are_caught() {
    for mode in [
        "garbage",
        "huge",
        "empty",
        "unknown",
        "cut",
        "not-utf8",
        "hello-again",
        "waits-for-nothing",
        "talks-while-waiting",
    ] {
        match as_mode(mode).await {
            Err(Failure::Protocol(_)) => {}
            other => panic!("{mode}: {other:?}"),
        }
    }
    for mode in ["half", "long", "deaf", "log-flood"] {
        match as_mode(mode).await {
            Err(Failure::Timeout { .. }) => {}
            other => panic!("{mode}: {other:?}"),
        }
    }
    for mode in ["not-json", "deep", "bomb"] {
        match as_mode(mode).await {
            Err(Failure::Limit(why)) => assert!(why.starts_with("its result is"), "{mode}: {why}"),
            other => panic!("{mode}: {other:?}"),
        }
    }
    match as_mode("call-flood").await {
        Err(Failure::Limit(_) | Failure::Timeout { .. }) => {}
        other => panic!("call-flood: {other:?}"),
    }
}

#[tokio::test]
async fn a_second_answer_never_becomes_the_next_calls() {
    let (pool, _folder) = pool_as("two-answers");
    for _ in 0..3 {
        // Each call meets a new worker: the one with something left in its socket is never used again.
        assert_eq!(run(&pool, "").await.unwrap().value, json!(1));
    }
}
