//! `llmock` (PyPI, MIT): ten providers' formats, faults on demand, and a verdict on how the client took them.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::foreign::{Foreign, python_program};
use crate::program::Ran;

/// A running `llmock`.
pub struct Llmock {
    server: Foreign,
    program: PathBuf,
    pub port: u16,
}

impl Llmock {
    /// Starts one with these further arguments. `None`, after saying so, where `CHRYSALIS_TEST_VENV` is not set.
    pub fn start(arguments: &[&str]) -> Option<Self> {
        let program = python_program("llmock")?;
        let server = Foreign::start("llmock", |port| {
            let mut command = Command::new(&program);
            command
                .args(["serve", "--host", "127.0.0.1", "--port", &port.to_string()])
                .args(arguments);
            command
        });
        Some(Self {
            port: server.port,
            server,
            program,
        })
    }

    /// The base address of its OpenAI side.
    pub fn url(&self) -> String {
        self.at("/v1")
    }

    /// An address on it.
    pub fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Tells it what to do with the next requests: a list of behaviours, as its own manual calls them.
    pub fn script(&self, behaviors: Value) {
        let body = json!({ "behaviors": behaviors });
        let reply = self.server.client().post("/_llmock/scenario", &body);
        assert_eq!(reply.status, 201, "{}: {behaviors}", reply.text());
    }

    /// Takes back what of the script has not been used yet.
    pub fn clear_script(&self) {
        self.server
            .client()
            .send("DELETE", "/_llmock/scenario", &Value::Null)
            .ok();
    }

    /// What of the script has not been used yet.
    pub fn pending(&self) -> Vec<Value> {
        self.list("/_llmock/scenario", "pending")
    }

    /// Every request it has answered or given up, in the order of their arrival. Waits up to 2 s for those that it still
    /// answers, and leaves them out after that.
    pub fn requests(&self) -> Vec<Value> {
        self.list("/_llmock/requests", "requests")
    }

    /// Those of them that ask a model for something.
    pub fn asked(&self) -> Vec<Value> {
        let all = self.requests().into_iter();
        all.filter(|request| request["method"] == "POST").collect()
    }

    fn list(&self, target: &str, name: &str) -> Vec<Value> {
        let mut all = self.server.client().get(target).ok();
        match all[name].take() {
            Value::Array(list) => list,
            other => panic!("{target}: {other}"),
        }
    }

    /// Forgets requests and script.
    pub fn reset(&self) {
        self.server.client().post("/_llmock/reset", &json!({})).ok();
    }

    /// Its judgement of the client so far.
    pub fn verdict(&self) -> Value {
        self.server.client().get("/_llmock/verdict").ok()
    }

    /// `llmock report`, for the same. `Ran::ok` is its exit status: false when the client misbehaved, with `--strict`
    /// also when there are warnings.
    pub fn report(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(&self.program);
        command.args(["report", "--url", &self.at("")]).args(arguments);
        // Its table is as wide as the terminal it believes to have.
        command.env("COLUMNS", "120").env("NO_COLOR", "1");
        Ran::of(command.output())
    }
}
