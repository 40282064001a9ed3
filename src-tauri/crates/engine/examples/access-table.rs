//! Prints the access table as Markdown, for SECURITY.md.

use engine::{Engine, Keychain, Options};
use policy::Condition;

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
    println!("| method | route | may be used by | and only |");
    println!("| --- | --- | --- | --- |");
    for access in engine::access_table() {
        let condition = match access.condition {
            Condition::Always => "",
            Condition::OwnApp => "an app: for itself",
            Condition::OwnAppRoutes => "an app: for itself, and not a management route",
            Condition::OwnRecords => "an app: what concerns itself",
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
