//! `llmock`, a model server that nobody here wrote, from the Python environment that `cargo xtask test` makes.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::wait_for;

/// A running `llmock`. Killed when dropped.
pub struct Llmock {
    child: Child,
    pub port: u16,
}

impl Llmock {
    /// Starts one with these further arguments. `None`, after saying so, where `CHRYSALIS_TEST_VENV` names no
    /// environment that has it.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let venv = std::env::var_os("CHRYSALIS_TEST_VENV").map(PathBuf::from);
        let Some(program) = venv.map(|venv| venv.join("bin/llmock")).filter(|path| path.is_file()) else {
            eprintln!("skipped: CHRYSALIS_TEST_VENV names no environment with llmock (`cargo xtask test` makes one)");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .ok()?
            .port();
        let child = Command::new(program)
            .args(["serve", "--host", "127.0.0.1", "--port", &port.to_string()])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("llmock starts");
        let llmock = Self { child, port };
        wait_for("llmock to listen", || TcpStream::connect(("127.0.0.1", port)).ok());
        Some(llmock)
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
}

impl Drop for Llmock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
