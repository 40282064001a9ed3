//! `fakellm` (PyPI, MIT): OpenAI chat completions and Anthropic messages, answered by rules from a file.

use std::process::Command;

use serde_json::{Value, json};

use crate::foreign::{Foreign, python_program};

/// A running `fakellm`.
pub struct Fakellm {
    server: Foreign,
    _folder: tempfile::TempDir,
}

impl Fakellm {
    /// Starts one with this `fakellm.yaml`. `None`, after saying so, where `CHRYSALIS_TEST_VENV` is not set.
    pub fn start(rules: &str) -> Option<Self> {
        let program = python_program("fakellm")?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = folder.path().join("fakellm.yaml");
        std::fs::write(&config, rules).expect("its rules");
        let server = Foreign::start("fakellm", |port| {
            let mut command = Command::new(program);
            command.args(["serve", "--host", "127.0.0.1", "--port", &port.to_string(), "--config"]);
            command.arg(config);
            command
        });
        Some(Self {
            server,
            _folder: folder,
        })
    }

    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// An address on it.
    pub fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.server.port)
    }

    /// How many requests it had, by rule, and the latest ones, newest first.
    pub fn stats(&self) -> Value {
        self.server.client().get("/_fakellm/stats").ok()
    }

    /// Forgets the conversations it has seen, with their count of turns.
    pub fn reset(&self) {
        self.server.client().post("/_fakellm/reset", &json!({})).ok();
    }
}
