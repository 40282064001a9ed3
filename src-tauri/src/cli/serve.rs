//! `chrysalis serve`: the whole engine without a window.

use std::io::Write;
use std::path::Path;

use server::Server;
use tokio::signal::unix::{SignalKind, signal};

use crate::local;

pub async fn run(home: &Path, port: Option<u16>, no_open: bool) -> Result<(), String> {
    let (engine, _log) = super::open(home).await?;
    let port = port.unwrap_or(engine.config().port);
    let server = match Server::bind(engine.clone(), port).await {
        Ok(server) => server,
        Err(error) => {
            engine.shutdown().await;
            return Err(error.to_string());
        }
    };
    let _socket = local::listen(engine.clone())
        .inspect_err(|e| tracing::warn!("the command line cannot reach this Chrysalis: {e}"))
        .ok();
    let url = server.url();
    let address = match engine.setup_token() {
        Some(token) => {
            let address = format!("{url}/#setup={token}");
            // By contract this line is printed and logged; it is good once, and only until the owner has a password.
            tracing::info!("setup: {address}");
            say(&format!("setup: {address}"));
            address
        }
        None => url.clone(),
    };
    say(&format!("listening: {url}"));
    let display = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    if !no_open && engine.config().open_browser && display {
        // What the address holds would stand in the browser's command line, readable by every user of this machine; the
        // person opens the setup link themselves.
        let _ = open::that_detached(&url).inspect_err(|e| tracing::warn!("no browser could be opened: {e}"));
    }
    drop(address);
    let (mut terminate, mut interrupt) = (
        signal(SignalKind::terminate()).map_err(|e| e.to_string())?,
        signal(SignalKind::interrupt()).map_err(|e| e.to_string())?,
    );
    server
        .run(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .await;
    engine.shutdown().await;
    Ok(())
}

/// Prints a line at once, also into a pipe; a closed pipe is no reason to end.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
