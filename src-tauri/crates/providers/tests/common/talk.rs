//! Whole conversations in a wire format, and foreign input for its reader.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use parking_lot::Mutex;
use proptest::prelude::*;
use providers::{
    Answer, Api, Endpoint, Event, GenerateRequest, GenerateResult, NoTools, Tool, ToolAnswer, ToolBox, converse, replay,
};
use secrets::{Keychain, Secret, Vault};
use serde_json::{Map, Value, json};
use testkit::llmock::Llmock;
use url::Url;

use crate::common::{PATIENCE, Server, context, events, net};

pub const KEY: &str = "sk-canary-key";

/// One tool, `look`, which says `seen <what>`, and remembers what it was called with.
#[derive(Default)]
pub struct Look(pub Mutex<Vec<Value>>);

#[async_trait]
impl ToolBox for Look {
    fn tools(&self) -> Vec<Tool> {
        let schema = json!({"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]});
        vec![Tool::new("look", "looks", schema).unwrap()]
    }

    async fn run(&self, _: &str, args: Value) -> ToolAnswer {
        self.0.lock().push(args.clone());
        match args["what"].as_str() {
            Some(what) => ToolAnswer {
                text: format!("seen {what}"),
                is_error: false,
            },
            None => ToolAnswer::error("look at what?"),
        }
    }
}

pub fn asked(model: &str, more: Value) -> GenerateRequest {
    let mut request = json!({"model": format!("c_test/{model}"), "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    serde_json::from_value(request).unwrap()
}

pub async fn talk(
    endpoint: &Endpoint,
    request: GenerateRequest,
    toolbox: Arc<dyn ToolBox>,
) -> (Vec<Event>, GenerateResult) {
    let all = converse(&context(), &net(), endpoint, request, toolbox).collect::<Vec<Event>>();
    let all = tokio::time::timeout(PATIENCE, all)
        .await
        .expect("the answer never ended");
    assert_ends_once(&all);
    let mut answer = Answer::new("c_test/m", None);
    all.iter().for_each(|event| answer.push(event));
    (all, answer.finish())
}

pub fn assert_ends_once(all: &[Event]) {
    let last = |event: &Event| matches!(event, Event::Done { .. } | Event::Failed(_));
    assert_eq!(all.iter().filter(|event| last(event)).count(), 1, "{all:?}");
    assert!(all.last().is_some_and(last), "{all:?}");
}

/// The code of the error that an answer ended with.
pub fn failed(all: &[Event]) -> Option<&'static str> {
    match all.last() {
        Some(Event::Failed(error)) => Some(error.kind.code()),
        _ => None,
    }
}

/// A server that gives these answers one after another, and the last one from then on.
pub async fn serving(answers: Vec<String>) -> Server {
    let next = AtomicUsize::new(0);
    Server::answering(move |_| {
        let at = next.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        events(&answers[at])
    })
    .await
}

/// The server's address in this format, with a key. Keep the vault: the key is in it.
pub fn keyed(server: &Server, api: Api, path: &str) -> (Endpoint, Vault) {
    let mut endpoint = server.endpoint_at(path);
    endpoint.api = api;
    let (vault, origin) = (Vault::open(Keychain::None, "test"), endpoint.origin().unwrap());
    vault.put("c_test", origin.clone(), Secret::new(KEY.into())).unwrap();
    endpoint.key = vault.handle("c_test", &origin);
    (endpoint, vault)
}

/// The lines of a request before its body, in lower case.
pub fn head(request: &str) -> Vec<String> {
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    head.lines().map(str::to_ascii_lowercase).collect()
}

/// All recordings of a format.
pub fn recordings(api: Api) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/streams")
        .join(api.name());
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let recorded = paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "txt"));
    recorded.map(|path| std::fs::read(path).unwrap()).collect()
}

/// JSON made of a format's own words in places where they do not belong.
pub fn json_of(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let word = move || prop::sample::select(words);
    let leaf = prop_oneof![
        4 => word().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => (0u64..4).prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => prop::collection::vec((word(), inner), 0..6).prop_map(|fields| {
                Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

/// Any events, and any one answer in one piece, come to exactly one end; the text given out is what the result has.
pub fn check_foreign(api: Api, values: &[Value]) {
    let stream: String = values.iter().map(|value| format!("data: {value}\n\n")).collect();
    assert_ends_once(&replay(api, &[stream.as_bytes()]));
    for value in values {
        assert_ends_once(&replay(api, &[value.to_string().as_bytes()]));
    }
    let list = Value::from(values.to_vec()).to_string();
    assert_ends_once(&replay(api, &[list.as_bytes()]));
}

/// A recording with bytes changed, left out and said twice, cut at one place.
pub fn check_damaged(api: Api, recording: &[u8], damage: &[(usize, u8, usize)], cut: usize) {
    let mut bytes = recording.to_vec();
    for (at, byte, length) in damage {
        let at = at % bytes.len();
        let end = (at + length).min(bytes.len());
        match byte % 3 {
            0 => bytes[at] = *byte,
            1 if end - at < bytes.len() => {
                bytes.drain(at..end);
            }
            _ => {
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
    let whole = replay(api, &[&bytes]);
    assert_ends_once(&whole);
    let (before, after) = bytes.split_at(cut % bytes.len());
    assert_eq!(replay(api, &[before, after]), whole);
}

/// The same against `llmock`, a server that nobody here wrote, where it is installed.
pub async fn check_llmock(api: Api, base: &str, model: &str) {
    let Some(server) = Llmock::start(&[]) else { return };
    let mut endpoint = Endpoint::new("c_test", "llmock", Url::parse(&server.at(base)).unwrap());
    endpoint.api = api;
    let look = Arc::new(Look::default());
    let (_, result) = talk(&endpoint, asked(model, json!({"reasoning": "low"})), look.clone()).await;
    assert_eq!(result.error, None);
    assert!(!result.text.is_empty() && result.usage.output > 0, "{result:?}");
    assert_eq!(look.0.lock().len(), 1);

    let calls = json!([{"name": "look", "arguments": {"what": "a"}}, {"name": "look", "arguments": {"what": "é"}}]);
    server.script(json!([{"type": "reply", "tool_calls": calls}]));
    let look = Arc::new(Look::default());
    let (_, result) = talk(&endpoint, asked(model, json!({})), look.clone()).await;
    assert_eq!(result.error, None);
    assert_eq!(*look.0.lock(), [json!({"what": "a"}), json!({"what": "é"})]);

    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let (_, result) = talk(&endpoint, asked(model, json!({"schema": schema})), Arc::new(NoTools)).await;
    assert!(result.json.is_some_and(|json| json["n"].is_i64()));

    for kind in ["disconnect", "truncate"] {
        server.script(json!([{"type": "stream_fault", "kind": kind}]));
        // Without tools: a call is one event in some formats, and nothing is missing after it.
        let (all, result) = talk(&endpoint, asked(model, json!({})), Arc::new(NoTools)).await;
        assert!(failed(&all).is_some() && result.error.is_some(), "{kind}: {all:?}");
    }
    // Nothing that was sent was refused, and nothing sent twice.
    let asked = server.asked();
    assert_eq!(asked.len(), 7);
    for request in asked {
        assert_eq!(request["status"], 200, "{request}");
    }
}
