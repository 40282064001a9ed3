//! What the black-box tests share: a home of their own, the built program started on it, callers over real sockets, a
//! model server that does exactly what a test says, model servers that nobody here wrote, and a look at the processes
//! behind it all. Everything blocks, with deadlines, on plain threads, so that a test reads from top to bottom.

pub mod fakellm;
pub mod folders;
mod foreign;
pub mod http;
pub mod llmock;
pub mod mock_llm;
pub mod model;
pub mod process;
pub mod program;

use std::time::{Duration, Instant};

pub use folders::{AppFolder, QUIET_PAGE};
pub use http::{Client, Incoming, Reply};
pub use model::{ModelServer, Out, Seen};
pub use program::{Home, PASSWORD, Running};

/// How long a test waits for what must happen. Far more than it takes on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `done` again and again until it gives something; panics with `what` after [`PATIENCE`].
pub fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
