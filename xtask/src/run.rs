//! `cargo xtask run`: from a fresh clone to the running program.

use std::process::Stdio;

use crate::place::{Place, has_display};
use crate::provision;
use crate::step::{self, cargo, command};

pub fn run(place: &Place, args: Vec<String>) -> Result<(), String> {
    // `cargo xtask run -- ARGS` and `cargo xtask run ARGS` mean the same.
    let args: Vec<String> = args.into_iter().skip_while(|arg| arg == "--").collect();
    provision::for_run(place)?;
    provision::interfaces(place)?;
    step::must(
        "build",
        cargo(&place.root, &["build", "--locked"]),
        "read the compiler's error above",
    )?;
    let args = with_door(args, has_display());
    let mut chrysalis = command(&place.root, place.program("debug", "chrysalis"), &[]);
    chrysalis.args(&args).stdin(Stdio::inherit());
    println!("\n==> start: {}", step::line_of(&chrysalis));
    start(chrysalis)
}

/// Without a display the desktop cannot start: unless a subcommand was given, the server is started in its place.
fn with_door(args: Vec<String>, display: bool) -> Vec<String> {
    let desktop = !args
        .iter()
        .any(|arg| is_subcommand(arg) || matches!(arg.as_str(), "--help" | "-h" | "--version" | "-V"));
    if display || !desktop {
        return args;
    }
    println!(
        "\n==> no display (neither DISPLAY nor WAYLAND_DISPLAY is set): starting `chrysalis serve`, open its address in a browser"
    );
    let mut serve = vec!["serve".to_string(), "--no-open".to_string()];
    serve.extend(args.into_iter().filter(|arg| arg != "--no-open"));
    serve
}

fn is_subcommand(arg: &str) -> bool {
    matches!(arg, "serve" | "app" | "paths" | "reset-password" | "help")
}

/// On Unix the program takes xtask's place, so that signals and the exit code are its own.
fn start(mut chrysalis: std::process::Command) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        Err(format!(
            "{} cannot be started: {}",
            step::line_of(&chrysalis),
            chrysalis.exec()
        ))
    }
    #[cfg(not(unix))]
    match chrysalis.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("chrysalis ended with {status}")),
        Err(e) => Err(format!("{} cannot be started: {e}", step::line_of(&chrysalis))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], display: bool, expected: &[&str]) {
        let args = args.iter().map(|arg| arg.to_string()).collect();
        assert_eq!(with_door(args, display), expected);
    }

    #[test]
    fn without_a_display_the_server_is_started() {
        check(&[], true, &[]);
        check(&["--home", "x"], true, &["--home", "x"]);
        check(&[], false, &["serve", "--no-open"]);
        check(&["--home", "x"], false, &["serve", "--no-open", "--home", "x"]);
        check(&["app", "list"], false, &["app", "list"]);
        check(&["--version"], false, &["--version"]);
    }
}
