//! The program: reads the command line and hands over. The desktop, the server and every command work on one engine,
//! in this process or, over the local socket, in the one that has the home open.

mod cli;
mod desktop;
mod local;
mod log;
mod paths;
mod process;
mod redact;

use std::process::ExitCode;

fn main() -> ExitCode {
    process::no_core_dumps();
    process::give_memory_back();
    cli::run()
}
