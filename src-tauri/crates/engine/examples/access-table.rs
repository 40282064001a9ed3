//! Prints the access table as Markdown, for SECURITY.md; with `--pages`, the part that concerns app pages as JSON, for
//! the page host in the browser's shell.

use engine::{Engine, Keychain, Options};
use policy::{CallerKind, Condition, MANAGEMENT_HEADS, MANAGEMENT_TREES};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let worker = folder.path().join("worker");
    std::fs::write(&worker, b"never started: only the table is read")?;
    let engine = Engine::open(Options {
        home: folder.path().join("home"),
        worker,
        keychain: Keychain::None,
    })
    .await?;
    if std::env::args().any(|argument| argument == "--pages") {
        let routes: Vec<_> = engine::access_table()
            .iter()
            .filter(|access| access.callers.contains(CallerKind::App))
            .map(|access| json!({"method": access.method, "pattern": access.pattern}))
            .collect();
        let table = json!({"routes": routes, "managementHeads": MANAGEMENT_HEADS, "managementTrees": MANAGEMENT_TREES});
        println!("{}", serde_json::to_string_pretty(&table)?);
        engine.shutdown().await;
        return Ok(());
    }
    println!("| method | route | may be used by | and only |");
    println!("| --- | --- | --- | --- |");
    for access in engine::access_table() {
        let condition = match access.condition {
            Condition::Always => "",
            Condition::OwnApp => "an app: for itself",
            Condition::OwnAppRoutes => "an app: for itself, and not a management route",
            Condition::OwnRecords => "an app: what concerns itself",
            Condition::OfficialApp => "an app: one that came in the box",
        };
        let method = if access.method == "*" { "any" } else { access.method };
        println!(
            "| {method} | `{}` | {} | {condition} |",
            access.pattern,
            access.callers.names().join(", ")
        );
    }
    engine.shutdown().await;
    Ok(())
}
