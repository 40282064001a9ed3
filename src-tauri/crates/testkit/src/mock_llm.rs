//! `@dwmkerr/mock-llm` (npm, MIT): OpenAI chat completions by rules that can be changed while it runs.

use std::process::Command;

use serde_json::Value;

use crate::foreign::{Foreign, npm_file};

/// A running `mock-llm`.
pub struct MockLlm {
    server: Foreign,
    _folder: tempfile::TempDir,
}

impl MockLlm {
    /// Starts one as it comes. `None`, after saying so, where `CHRYSALIS_TEST_VENV` is not set.
    pub fn start() -> Option<Self> {
        let program = npm_file("mock-llm", "@dwmkerr/mock-llm/dist/main.js")?;
        // It reads a config file from its working folder, if there is one.
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = Foreign::start("mock-llm", |port| {
            let mut command = Command::new("node");
            command
                .arg(program)
                .env("HOST", "127.0.0.1")
                .env("PORT", port.to_string())
                .current_dir(folder.path());
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

    /// Replaces its rules and its way of streaming, as its own manual describes them.
    pub fn configure(&self, config: &Value) {
        self.server.client().post("/config", config).ok();
    }

    /// Back to how it started.
    pub fn reset(&self) {
        self.server.client().send("DELETE", "/config", &Value::Null).ok();
    }
}
