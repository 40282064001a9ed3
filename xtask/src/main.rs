//! What the README's commands call: `cargo xtask run`, `test`, `bench`, `docs`, `bundle`.
//!
//! Standard library only, so that it builds in a second on a fresh machine and can then install what everything
//! else needs. Each step is printed before it runs; a failure says what failed and what to do about it.

mod bench;
mod bundle;
mod docs;
mod place;
mod provision;
mod run;
mod step;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND [ARGUMENTS]

  run [ARGS…]    install what is missing, build everything, start Chrysalis (ARGS go to it);
                 without a display it starts `chrysalis serve` instead
  test [STEP…]   install what the tests need and run every check and test; with STEPs, only those
                 (`cargo xtask test --list` names them)
  bench [STEP…]  build in release and print the medians against the goals (`--list` names the steps)
  docs [--write] check the generated tables in SECURITY.md, or write them anew
  bundle         build the .deb and .rpm packages

As root on Debian, missing system packages are installed; otherwise the one line that installs them is printed.";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = place::Place::find().and_then(|place| match command.as_str() {
        "run" => run::run(&place, rest),
        "test" => test::test(&place, &rest),
        "bench" => bench::bench(&place, &rest),
        "docs" => docs::docs(&place, &rest),
        "bundle" => bundle::bundle(&place),
        "" | "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        other => Err(format!("there is no command `{other}`\n\n{HELP}")),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            if !cause.is_empty() {
                eprintln!("\nxtask: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}
