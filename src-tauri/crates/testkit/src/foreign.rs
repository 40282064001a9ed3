//! Model servers that nobody here wrote, started unmodified on a free port of 127.0.0.1. `cargo xtask test` installs them.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::http::{Client, Door};
use crate::wait_for;

/// A server's process. Killed when dropped.
pub(crate) struct Foreign {
    child: Child,
    pub port: u16,
}

impl Foreign {
    /// Starts what `command` makes of a port, and waits until it listens there.
    pub fn start(name: &str, command: impl FnOnce(u16) -> Command) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        let mut server = Self { child, port };
        wait_for(&format!("{name} to listen"), || {
            if let Ok(Some(status)) = server.child.try_wait() {
                panic!("{name} ended instead of listening: {status}");
            }
            TcpStream::connect(("127.0.0.1", port)).ok()
        });
        server
    }

    pub fn client(&self) -> Client {
        Client {
            door: Door::Port(self.port),
            headers: Vec::new(),
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of the Python environment that `cargo xtask test` makes. `None`, after saying so, where this test was not
/// started by it.
pub(crate) fn python_program(name: &str) -> Option<PathBuf> {
    let program = environment(name)?.join("bin").join(name);
    assert!(
        program.is_file(),
        "{} is missing: run `cargo xtask test`",
        program.display()
    );
    Some(program)
}

/// A file of the npm packages in `tests/foreign`, on the same terms.
pub(crate) fn npm_file(name: &str, path: &str) -> Option<PathBuf> {
    environment(name)?;
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/foreign/node_modules");
    let file = modules.join(path);
    assert!(file.is_file(), "{} is missing: run `cargo xtask test`", file.display());
    Some(file)
}

fn environment(name: &str) -> Option<PathBuf> {
    let venv = std::env::var_os("CHRYSALIS_TEST_VENV").map(PathBuf::from);
    if venv.is_none() {
        eprintln!("skipped: CHRYSALIS_TEST_VENV names no environment with {name} (`cargo xtask test` makes one)");
    }
    venv
}
