//! The built program with an app that asks models, for the tests against model servers that nobody here wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, Reply, Running, wait_for};

/// Asks a model what it is told to, and gives every part of the answer as it came, and the result.
const ASKS: &str = r#"
export async function handleRoute(req, host) {
  if (req.path !== "/ask") return;
  const run = host.llm.stream(req.body);
  const parts = [];
  for await (const part of run) parts.push(part);
  return { json: { parts, result: await run.result } };
}
"#;

/// Has a tool, and remembers what it was called with until somebody asks.
const SHOP: &str = r#"
export function appTools() {
  const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
  return { tools: [{ name: "get_weather", description: "The weather in a city", parameters }] };
}
export async function handleTool(name, args, host) {
  await host.store.update("calls", (calls) => [...(calls ?? []), args]);
  return { text: `sunny in ${args.city}` };
}
export function handleRoute(req, host) {
  if (req.path !== "/calls") return;
  const calls = host.store.get("calls") ?? [];
  host.store.delete("calls");
  return { json: { calls } };
}
"#;

/// The program, its owner, and the app's page.
pub struct Lab {
    pub running: Running,
    pub owner: Client,
    pub page: Client,
    chats: AtomicUsize,
    _home: Home,
}

/// An answer: the parts in the order they came, and the result.
#[derive(Debug)]
pub struct Asked {
    pub parts: Vec<Value>,
    pub result: Value,
}

impl Lab {
    pub fn open(program: &str) -> Self {
        let home = Home::new(program);
        let running = home.serve();
        let owner = running.set_up();
        let app = AppFolder::new(home.folder(), "lab")
            .plugin("asks", &["routes", "llm"], ASKS)
            .plugin("shop", &["routes", "tools", "store"], SHOP);
        running.add(app.path(), "lab");
        let page = running.page(&owner, "lab");
        Self {
            running,
            owner,
            page,
            chats: AtomicUsize::new(0),
            _home: home,
        }
    }

    /// Saves a connection as the settings do; gives its id.
    pub fn connect(&self, name: &str, api: &str, base_url: &str, more: Value) -> String {
        let mut body = json!({"name": name, "api": api, "baseUrl": base_url});
        merge(&mut body, more);
        let added = self.owner.post("/v1/settings/connections", &body).ok();
        added["connection"]["id"].as_str().expect("an id").to_owned()
    }

    /// The models that a connection's server lists, by their own names. Panics when the list cannot be had.
    pub fn models(&self, connection: &str) -> Vec<String> {
        let all = self.owner.get("/v1/models?fresh=1").ok();
        let errors = all["errors"].as_array().expect("a list");
        let wrong: Vec<_> = errors.iter().filter(|e| e.to_string().contains(connection)).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        let models = all["models"].as_array().expect("a list").iter();
        models
            .filter(|model| model["provider"] == connection)
            .map(|model| model["modelId"].as_str().expect("a name").to_owned())
            .collect()
    }

    /// Asks one question; `more` is the rest of the request.
    pub fn ask(&self, model: &str, question: &str, more: Value) -> Asked {
        asked(self.page.post("/v1/apps/lab/ask", &request(model, question, more)))
    }

    /// The same beside whatever else the test does, as a stream that the page can stop: its name comes back.
    pub fn begin(&self, model: &str, question: &str, more: Value) -> (String, JoinHandle<Asked>) {
        let chat = format!("chat:{}", self.chats.fetch_add(1, Ordering::SeqCst));
        let mut body = request(model, question, more);
        body["stream"] = json!({"chatId": chat, "name": "answer"});
        let page = self.page.clone();
        let asking = std::thread::spawn(move || asked(page.post("/v1/apps/lab/ask", &body)));
        (chat, asking)
    }

    /// Waits for an event of a stream that [`Lab::begin`] began.
    pub fn wait_in(&self, chat: &str, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        let mut stream = wait_for("the answer's stream", || {
            let incoming = self.page.listen(&format!("/v1/apps/lab/__streams/{chat}"));
            (incoming.status == 200).then_some(incoming)
        });
        while let Some(event) = stream.event() {
            if wanted(&event) {
                return event;
            }
        }
        panic!("the stream of {chat} ended without what was waited for");
    }

    /// Begins as [`Lab::begin`] does, and waits until the program says that it waits: for how many milliseconds. `None`
    /// when the answer ends without that.
    pub fn begin_and_wait(&self, model: &str, question: &str) -> (String, JoinHandle<Asked>, Option<u64>) {
        let mut bus = self.page.listen("/v1/events");
        // Its first event says that it is heard from now on.
        bus.event().expect("the bus greets");
        let (chat, asking) = self.begin(model, question, json!({}));
        let wait = loop {
            let event = bus.event().expect("the bus goes on");
            let payload = &event["payload"];
            if event["type"] != "app_stream" || payload["chatId"] != chat.as_str() {
                continue;
            }
            if let Some(ms) = payload["waiting"]["ms"].as_u64() {
                assert!(payload["waiting"]["reason"].is_string(), "{event}");
                break Some(ms);
            }
            if payload["done"] == true {
                break None;
            }
        };
        (chat, asking, wait)
    }

    /// What the person's log says of the last model request.
    pub fn logged(&self) -> String {
        self.owner.get("/v1/activity?kind=model").ok()["entries"][0].to_string()
    }

    /// Stops such a stream, as the button does.
    pub fn stop(&self, chat: &str) {
        let stopped = self.page.post("/v1/apps/lab/__abort", &json!({"chatId": chat})).ok();
        assert_eq!(stopped["active"], true, "{stopped}");
    }

    /// What the app's tool was called with since this was asked last.
    pub fn calls(&self) -> Vec<Value> {
        let calls = self.page.get("/v1/apps/lab/calls").ok();
        calls["calls"].as_array().expect("a list").clone()
    }
}

/// Open connections of this machine to a port of 127.0.0.1.
pub fn connections_to(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    // Where it leads to, and its state: 01 is "established".
    let to = format!("0100007F:{port:04X}");
    let open = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        fields.next() == Some(&to) && fields.next() == Some("01")
    };
    table.lines().filter(open).count()
}

fn request(model: &str, question: &str, more: Value) -> Value {
    let mut body = json!({"model": model, "messages": [{"role": "user", "content": question}]});
    merge(&mut body, more);
    body
}

fn asked(reply: Reply) -> Asked {
    let mut answer = reply.ok();
    Asked {
        parts: answer["parts"].as_array().expect("a list").clone(),
        result: answer["result"].take(),
    }
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}

impl Asked {
    /// The text as it streamed.
    pub fn streamed(&self) -> String {
        self.parts.iter().filter_map(|part| part["delta"].as_str()).collect()
    }

    /// The text as it is kept. Panics when that is not what streamed.
    #[track_caller]
    pub fn text(&self) -> &str {
        let text = self.result["text"].as_str().expect("a text");
        assert_eq!(text, self.streamed(), "{self:?}");
        text
    }

    pub fn error(&self) -> &str {
        self.result["error"].as_str().unwrap_or_default()
    }

    /// The kind of the error; empty when there is none.
    pub fn kind(&self) -> &str {
        self.result["errorInfo"]["kind"].as_str().unwrap_or_default()
    }

    /// Panics unless the answer is whole.
    #[track_caller]
    pub fn whole(&self) -> &Self {
        let well = self.result["error"].is_null() && self.result["errorInfo"].is_null();
        assert!(
            well && self.result["truncated"].is_null() && self.result["stopped"].is_null(),
            "{self:?}"
        );
        self
    }

    /// Panics unless the answer says that it is not whole, why, and of which model of which provider.
    #[track_caller]
    pub fn failed(&self) -> &Self {
        assert!(!self.error().is_empty() && !self.kind().is_empty(), "{self:?}");
        let info = &self.result["errorInfo"];
        assert!(info["provider"].is_string() && info["model"].is_string(), "{self:?}");
        if !self.streamed().is_empty() {
            assert_eq!(self.result["truncated"], true, "{self:?}");
        }
        self
    }
}

/// A provider's format as `llmock` speaks it, and as it is connected here.
#[derive(Debug, Clone, Copy)]
pub struct Provider {
    pub name: &'static str,
    /// The preset that is for the real one, if there is one.
    pub preset: Option<&'static str>,
    /// The base address a person would type.
    pub base: &'static str,
    pub api: &'static str,
    /// A model that it lists.
    pub model: &'static str,
    /// The path its model requests arrive at.
    pub asked_at: &'static str,
    /// Events of a stream before the first one with text.
    pub before: usize,
    /// Events of a stream after the one that says why the answer ended.
    pub after: usize,
}

const fn chat(name: &'static str, base: &'static str, model: &'static str, asked_at: &'static str) -> Provider {
    Provider {
        name,
        preset: Some(name),
        base,
        api: "openai-completions",
        model,
        asked_at,
        before: 1,
        // The tokens used, and `[DONE]`.
        after: 2,
    }
}

/// Everything of llmock's that a format of ours is for. Its eleventh, Cohere's own, is not one: see
/// `a_format_that_is_not_spoken_is_said_so`.
pub const PROVIDERS: [Provider; 10] = [
    chat("openai", "/v1", "gpt-4o", "/v1/chat/completions"),
    Provider {
        name: "openai-responses",
        preset: Some("openai-responses"),
        base: "/v1",
        api: "openai-responses",
        model: "gpt-4o",
        asked_at: "/v1/responses",
        before: 4,
        after: 0,
    },
    Provider {
        name: "anthropic",
        preset: Some("anthropic"),
        base: "/anthropic",
        api: "anthropic-messages",
        model: "claude-sonnet-4-6",
        asked_at: "/anthropic/v1/messages",
        before: 3,
        // `message_stop`.
        after: 1,
    },
    Provider {
        name: "gemini",
        preset: Some("google"),
        base: "/gemini/v1beta",
        api: "google-generative-ai",
        model: "gemini-2.5-pro",
        asked_at: "/gemini/v1beta/models/gemini-2.5-pro:streamGenerateContent",
        before: 0,
        after: 0,
    },
    chat(
        "mistral",
        "/mistral/v1",
        "mistral-large-latest",
        "/mistral/v1/chat/completions",
    ),
    chat(
        "groq",
        "/groq/openai/v1",
        "openai/gpt-oss-120b",
        "/groq/openai/v1/chat/completions",
    ),
    chat(
        "together",
        "/together/v1",
        "meta-llama/Meta-Llama-3.1-8B-Instruct-Turbo",
        "/together/v1/chat/completions",
    ),
    chat(
        "perplexity",
        "/perplexity/v1",
        "sonar-pro",
        "/perplexity/v1/chat/completions",
    ),
    Provider {
        preset: None,
        ..chat("ai21", "/ai21/v1", "jamba-1.5-mini", "/ai21/v1/chat/completions")
    },
    chat("xai", "/xai/v1", "grok-3", "/xai/v1/chat/completions"),
];

/// One of each format.
pub fn formats() -> impl Iterator<Item = Provider> {
    PROVIDERS.into_iter().take(4)
}

/// A file of what a test found, kept with cargo's own output so that it can be quoted.
pub fn keep(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("foreign-models");
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path
}
