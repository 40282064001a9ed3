//! The only test of its program, because it counts what this process has: descriptors, memory, children.

mod common;

use std::time::Duration;

use common::*;
use serde_json::json;

/// What this process has open, by name and sorted.
fn descriptors() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let mut links: Vec<_> = entries
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .collect();
    links.sort();
    links
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn two_hundred_calls_leave_nothing() {
    // The two threads for all pools come first, and stay.
    run(&pool(), "export const main = 1").await.unwrap();
    eventually("the first worker is gone", || children().is_empty()).await;
    let (before, memory) = (descriptors(), resident());
    let pool = pool();
    for n in 0..200 {
        let (source, ends_well) = match n % 5 {
            0 => (
                "export async function main(h) { return await h.call('echo', 'x'.repeat(100000)) }",
                true,
            ),
            1 => ("export const main = () => 1", true),
            2 => ("export function main() { throw new Error('no') }", false),
            3 => ("export function main() { for (;;) {} }", false),
            _ => ("export const main = () => new Uint8Array(200 << 20)", false),
        };
        let mut call = call("main", json!([]));
        call.limits.running = Duration::from_millis(if n % 5 == 3 { 20 } else { 10_000 });
        let result = pool
            .call(&program(&format!("a/b/{}", n % 7), source), call, host())
            .await;
        assert_eq!(result.is_ok(), ends_well, "{n}: {result:?}");
        assert!(children().len() <= 8);
    }
    pool.shutdown().await;
    assert_eq!(children(), Vec::<u32>::new());
    // It keeps the worker program open.
    drop(pool);
    assert_eq!(descriptors(), before);
    let grown = resident().saturating_sub(memory);
    assert!(grown < 8 << 10, "{grown} KiB more than before");
}
