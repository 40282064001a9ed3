//! What commands print. `println!` would panic where the reader has gone (`chrysalis plugin list | head -1`), in the
//! middle of what the command does; here it goes on, and says nothing more.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static BROKEN: AtomicBool = AtomicBool::new(false);

/// Prints a line to standard output.
macro_rules! say {
    ($($part:tt)*) => { $crate::cli::out::line(format_args!($($part)*)) };
}

/// Prints a line to standard error.
macro_rules! note {
    ($($part:tt)*) => { $crate::cli::out::error_line(format_args!($($part)*)) };
}

pub(crate) use {note, say};

pub fn line(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // On a terminal a line is shown at once anyway; elsewhere what is buffered is written here, so that errors are seen.
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe && !BROKEN.swap(true, Relaxed) => {
            error_line(format_args!("chrysalis: the output could not be written: {error}"));
        }
        _ => {}
    }
}

pub fn error_line(text: Arguments<'_>) {
    // There is nowhere left to say that this failed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether something could not be printed though there was somebody to read it: a full disk, say.
pub fn broken() -> bool {
    BROKEN.load(Relaxed)
}
