//! The program with a server that a key is for, one that must never see it, and a hostile environment.
#![allow(dead_code)] // Each of the tests that share this uses a part of it.

use std::process::Command;

use serde_json::{Value, json};
use testkit::{Client, Home, ModelServer, Out, Running, Seen};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
pub const SERVE: &[&str] = &["serve", "--port", "0", "--no-open"];
pub const CONNECTIONS: &str = "/v1/settings/connections";

/// Names under which programs expect to find keys. They are never picked up.
pub const KEY_NAMES: &[&str] = &[
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "OLLAMA_API_KEY",
    "HF_TOKEN",
];
pub const PROXY_NAMES: &[&str] = &[
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];
/// What stands in the environment under [`KEY_NAMES`].
pub const FOUND: &str = "sk-found-in-the-environment";

/// Nothing, or the word that local servers are told which want a header, whatever is in it.
pub fn is_no_key(header: &str) -> bool {
    matches!(header, "" | "Bearer no-key")
}

/// Lists a model and answers with a word, whatever the path.
pub fn model(seen: &Seen, out: &mut Out) {
    if seen.method == "GET" {
        return out.json(
            200,
            &json!({"object": "list", "data": [{"id": "m", "object": "model"}]}),
        );
    }
    out.begin();
    out.delta("fine");
    out.done();
}

/// The program with an owner, the server A that a key is for, the server B that must never see it, and a proxy in the
/// environment that must never see anything.
pub struct House {
    pub home: Home,
    pub running: Running,
    pub owner: Client,
    pub page: Client,
    pub a: ModelServer,
    pub b: ModelServer,
    pub proxy: ModelServer,
    pub key: String,
}

impl House {
    pub fn open() -> Self {
        Self::with(ModelServer::everything(model))
    }

    pub fn with(a: ModelServer) -> Self {
        let (b, proxy) = (ModelServer::everything(model), ModelServer::everything(model));
        let home = Home::new(PROGRAM);
        let running = home.start(Self::command(&home, &proxy));
        let owner = running.set_up();
        running.add_from_box(&owner, "chat");
        let page = running.page(&owner, "chat");
        Self {
            home,
            running,
            owner,
            page,
            a,
            b,
            proxy,
            key: format!("sk-{}", policy::random_hex(20)),
        }
    }

    pub fn command(home: &Home, proxy: &ModelServer) -> Command {
        let mut command = home.command(SERVE);
        for name in PROXY_NAMES {
            command.env(name, format!("http://127.0.0.1:{}", proxy.port));
        }
        for name in KEY_NAMES {
            command.env(name, FOUND);
        }
        command
            .env("NO_PROXY", "nothing.example")
            .env("no_proxy", "nothing.example");
        command
    }

    /// A connection to `base` with the key.
    pub fn connect(&self, base: &str) -> String {
        let added = self
            .owner
            .post(CONNECTIONS, &json!({"name": "a", "baseUrl": base, "key": self.key}))
            .ok();
        assert_eq!(added["connection"]["hasKey"], true, "{added}");
        added["connection"]["id"].as_str().unwrap().to_owned()
    }

    pub fn change(&self, id: &str, wanted: &Value) -> Value {
        self.owner.send("PATCH", &format!("{CONNECTIONS}/{id}"), wanted).ok()
    }

    pub fn connection(&self, id: &str) -> Value {
        let listed = self.owner.get(CONNECTIONS).ok();
        let all = listed["connections"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id).unwrap().clone()
    }

    /// Everything that sends a key: the list of models, the test of a connection, and an answer in the Chat app.
    pub fn use_it(&self, id: &str) -> String {
        let listed = self.owner.get("/v1/models?fresh=1").text();
        let tested = self
            .owner
            .post(
                &format!("{CONNECTIONS}/{id}/test"),
                &json!({"model": format!("{id}/m")}),
            )
            .text();
        let begun = self.page.post("/v1/apps/chat/conversations", &json!({})).ok();
        let chat = begun["conversation"]["id"].as_str().unwrap();
        let asked = json!({"text": "hi", "chatId": format!("{chat}:1:x"), "model": format!("{id}/m")});
        let answered = self
            .page
            .post(&format!("/v1/apps/chat/conversations/{chat}/send"), &asked)
            .text();
        let said = format!("{listed}\n{tested}\n{answered}");
        assert!(!said.contains(&self.key), "{said}");
        said
    }

    pub fn forget(&self) {
        self.a.forget();
        self.b.forget();
    }

    /// How many requests A got with the key, where it belongs; it must be nowhere else.
    #[track_caller]
    pub fn arrived(&self) -> usize {
        let seen = self.a.seen();
        let keyed: Vec<&Seen> = seen.iter().filter(|one| one.whole().contains(&self.key)).collect();
        for one in &keyed {
            assert_eq!(one.whole().matches(&self.key).count(), 1, "{one:?}");
            let carried = [
                one.header("authorization"),
                one.header("x-api-key"),
                one.header("x-goog-api-key"),
            ];
            assert!(carried.iter().any(|value| value.contains(&self.key)), "{one:?}");
        }
        for one in self.b.seen() {
            assert!(!one.whole().contains(&self.key), "B was sent the key: {one:?}");
        }
        assert!(
            self.proxy.seen().is_empty(),
            "a proxy was used: {:?}",
            self.proxy.seen()
        );
        for one in [seen.clone(), self.b.seen()].concat() {
            assert!(
                !one.whole().contains(FOUND),
                "a key of the environment was sent: {one:?}"
            );
        }
        keyed.len()
    }

    pub fn forget_connection(&self, id: &str) {
        assert_eq!(
            self.owner
                .send("DELETE", &format!("{CONNECTIONS}/{id}"), &json!({}))
                .status,
            204
        );
        self.forget();
    }
}
