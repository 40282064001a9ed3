//! The command line. Two stages: what was typed ([`Args`]), then what it means.

mod app;
mod out;
mod plugin;
mod serve;
mod told;

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use engine::{Config, Engine, Keychain, OpenError, Options};
use serde_json::json;

use self::out::{note, say};
use crate::local::Door;
use crate::{desktop, log, paths};

#[derive(Parser)]
#[command(
    name = "chrysalis",
    version,
    about = "Runs AI apps on your own machine, each behind a real wall."
)]
struct Args {
    /// Folder for everything Chrysalis keeps [default: the platform's data folder; `chrysalis paths` prints it]
    #[arg(long, global = true, env = "CHRYSALIS_HOME", value_name = "DIR")]
    home: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print where everything is kept
    Paths,
    /// Give someone a new password and sign them out everywhere
    ResetPassword {
        /// Their name
        name: String,
    },
    /// Run without a window, for a browser on this machine
    Serve {
        /// Port on this machine; 0 takes any free one [default: `port` of config.toml]
        #[arg(long)]
        port: Option<u16>,
        /// Do not open a browser
        #[arg(long)]
        no_open: bool,
    },
    /// Add, list and remove apps
    #[command(subcommand)]
    App(app::AppCommand),
    /// Check, call and allow plugins
    #[command(subcommand)]
    Plugin(plugin::PluginCommand),
}

pub fn run() -> ExitCode {
    let args = Args::parse();
    let home = match paths::home(args.home) {
        Ok(home) => home,
        Err(error) => return failed(&error),
    };
    let Some(command) = args.command else {
        return run_desktop(home);
    };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let done = runtime.block_on(async {
        let done = match command {
            Command::Paths => print_paths(&home),
            Command::ResetPassword { name } => reset_password(&home, &name).await,
            Command::Serve { port, no_open } => serve::run(&home, port, no_open).await,
            Command::App(command) => app::run(&home, command).await,
            Command::Plugin(command) => return plugin::run(&home, command).await,
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        }
    });
    runtime.shutdown_background();
    if out::broken() { ExitCode::FAILURE } else { done }
}

fn failed(error: &str) -> ExitCode {
    note!("chrysalis: {}", quoted(error));
    ExitCode::FAILURE
}

/// An error for the terminal. Its further lines are indented: a line break in a file's name makes no line of ours.
fn quoted(error: &str) -> String {
    let lines: Vec<String> = error.lines().map(plain).collect();
    lines.join("\n  ")
}

/// Names come from other people's files; control characters could rewrite what the terminal shows above.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("the program could not start its threads: {e}"))
}

fn options(home: &Path) -> Options {
    // For machines without a usable keychain, and for tests: keys then live for one run only.
    let off = std::env::var_os("CHRYSALIS_KEYCHAIN").is_some_and(|v| v == "none");
    Options {
        home: home.to_owned(),
        worker: paths::worker(),
        keychain: if off { Keychain::None } else { Keychain::System },
    }
}

/// Reads settings early enough for logging. A broken file is reported when the engine is opened.
fn log_level(home: &Path) -> String {
    if !home.join("config.toml").exists() {
        return Config::default().log_level;
    }
    Config::load(home).map_or_else(|_| Config::default().log_level, |config| config.log_level)
}

/// Opens the home with its log running.
async fn open(home: &Path) -> Result<(Engine, tracing_appender::non_blocking::WorkerGuard), String> {
    // The home first: a log must not make folders in a home that is someone else's, newer or not writable.
    drop(engine::HomeLock::take(home).map_err(|e| e.to_string())?);
    let guard = log::start(home, &log_level(home))?;
    let engine = Engine::open(options(home)).await.map_err(|e| e.to_string())?;
    for notice in engine.notices() {
        note!("chrysalis: {notice}");
        tracing::warn!("{notice}");
    }
    Ok((engine, guard))
}

/// A door to the home's engine: the running one, or one opened here for this command.
async fn door(home: &Path) -> Result<Door, String> {
    if let Some(door) = Door::running(home).await {
        return Ok(door);
    }
    match Engine::open(options(home)).await {
        Ok(engine) => {
            for notice in engine.notices() {
                note!("chrysalis: {notice}");
            }
            Ok(Door::Here(engine))
        }
        // It may have started between the two looks.
        Err(OpenError::Busy(_)) => Door::running(home)
            .await
            .ok_or_else(|| "Chrysalis is starting or ending on this home; try again in a moment".into()),
        Err(error) => Err(error.to_string()),
    }
}

async fn close(door: Door) {
    if let Door::Here(engine) = door {
        engine.shutdown().await;
    }
}

fn run_desktop(home: PathBuf) -> ExitCode {
    desktop::before_threads();
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let open_home = home.clone();
    let opening = async move {
        let (engine, guard) = open(&open_home).await?;
        let listening = crate::local::listen(engine.clone())
            .inspect_err(|e| tracing::warn!("the command line cannot reach this Chrysalis: {e}"))
            .ok();
        let door: Arc<dyn desktop::door::Door> = Arc::new(desktop::door::OpenHome::new(engine, (guard, listening)));
        Ok(door)
    };
    let code = desktop::run(runtime.handle().clone(), home, opening);
    runtime.shutdown_background();
    code
}

fn print_paths(home: &Path) -> Result<(), String> {
    say!("home      {}", home.display());
    say!("settings  {}", home.join("config.toml").display());
    say!("database  {}", home.join("chrysalis.db").display());
    say!("apps      {}", home.join("accounts/<account>/workspace/apps").display());
    say!("logs      {}", home.join("logs").display());
    say!("worker    {}", paths::worker().display());
    Ok(())
}

async fn reset_password(home: &Path, name: &str) -> Result<(), String> {
    let password = if std::io::stdin().is_terminal() {
        let first = rpassword::prompt_password(format!("New password for {name}: ")).map_err(|e| e.to_string())?;
        let again = rpassword::prompt_password("Once more: ").map_err(|e| e.to_string())?;
        if first != again {
            return Err("the two are not the same; nothing was changed".into());
        }
        first
    } else {
        let mut line = String::new();
        std::io::stdin()
            .lock()
            .read_line(&mut line)
            .map_err(|e| format!("the password could not be read: {e}"))?;
        line.trim_end_matches(['\r', '\n']).to_owned()
    };
    let door = door(home).await?;
    let done = door
        .get(
            "POST",
            "/v1/auth/reset-password",
            Some(json!({"username": name, "password": password})),
        )
        .await;
    close(door).await;
    say!(
        "{} has a new password and is signed out everywhere.",
        done?["username"].as_str().unwrap_or(name)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{plain, quoted};

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        let name = "\u{1b}[2Jevil\u{7}\u{202e}\nadded chat";
        assert_eq!(plain(name), "\u{fffd}[2Jevil\u{fffd}\u{fffd}\u{fffd}added chat");
        assert_eq!(quoted(name), "\u{fffd}[2Jevil\u{fffd}\u{fffd}\n  added chat");
        assert_eq!(quoted("a\r\nb\rc"), "a\n  b\u{fffd}c");
    }
}
