//! Against a model server that nobody here wrote.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use common::*;
use futures::StreamExt;
use parking_lot::Mutex;
use providers::{
    Answer, Api, Endpoint, Event, GenerateResult, NoTools, ProviderErrorKind, Tool, ToolAnswer, ToolBox, converse,
    embed,
};
use serde_json::{Value, json};
use testkit::llmock::Llmock;
use url::Url;

#[derive(Default)]
struct Weather(Mutex<Vec<Value>>);

#[async_trait]
impl ToolBox for Weather {
    fn tools(&self) -> Vec<Tool> {
        let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        vec![Tool::new("get_weather", "Weather in a city", parameters).unwrap()]
    }

    async fn run(&self, _: &str, args: Value) -> ToolAnswer {
        self.0.lock().push(args);
        ToolAnswer {
            text: "sunny".into(),
            is_error: false,
        }
    }
}

fn endpoint(server: &Llmock) -> Endpoint {
    Endpoint::new("c_mock", "llmock", Url::parse(&server.url()).unwrap())
}

async fn talk(server: &Llmock, more: Value, toolbox: Arc<dyn ToolBox>) -> (Vec<Event>, GenerateResult) {
    let mut request = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "What is the weather?"}]});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let request = serde_json::from_value(request).unwrap();
    let all = converse(&context(), &net(), &endpoint(server), request, toolbox).collect::<Vec<Event>>();
    let events = tokio::time::timeout(PATIENCE, all).await.expect("the answer ends");
    let mut answer = Answer::new("c_mock/gpt-4o", None);
    events.iter().for_each(|event| answer.push(event));
    (events, answer.finish())
}

#[tokio::test]
async fn a_whole_conversation_with_a_tool() {
    let Some(server) = Llmock::start(&[]) else { return };
    let weather = Arc::new(Weather::default());
    let (_, result) = talk(&server, json!({}), weather.clone()).await;
    assert_eq!(result.error, None);
    assert!(!result.text.is_empty() && result.usage.output > 0);
    assert_eq!(result.tool_trace.len(), 1);
    assert_eq!(
        (
            result.tool_trace[0].name.as_str(),
            result.tool_trace[0].result_text.as_str()
        ),
        ("get_weather", "sunny")
    );
    assert!(weather.0.lock()[0]["city"].is_string());
    // Two calls at once.
    let two = json!([{"type": "reply", "tool_calls": [
        {"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_weather", "arguments": {"city": "Lima"}},
    ]}]);
    server.script(two);
    let weather = Arc::new(Weather::default());
    let (_, result) = talk(&server, json!({}), weather.clone()).await;
    assert_eq!(result.error, None);
    assert_eq!(*weather.0.lock(), [json!({"city": "Paris"}), json!({"city": "Lima"})]);
}

#[tokio::test]
async fn calls_that_go_wrong() {
    let Some(server) = Llmock::start(&[]) else { return };
    for kind in ["malformed_arguments", "unknown_tool"] {
        server.script(json!([{"type": "tool_fault", "kind": kind}]));
        let weather = Arc::new(Weather::default());
        let (_, result) = talk(&server, json!({}), weather.clone()).await;
        assert_eq!(result.error, None, "{kind}");
        assert!(
            result.tool_trace[0].is_error && !result.text.is_empty(),
            "{kind}: {result:?}"
        );
        assert!(weather.0.lock().is_empty(), "{kind}");
    }
    for kind in ["disconnect", "truncate"] {
        server.script(json!([{"type": "stream_fault", "kind": kind}]));
        let weather = Arc::new(Weather::default());
        let (events, result) = talk(&server, json!({}), weather.clone()).await;
        assert!(matches!(events.last(), Some(Event::Failed(_))), "{kind}: {events:?}");
        assert!(result.error.is_some() && weather.0.lock().is_empty(), "{kind}");
    }
}

#[tokio::test]
async fn structured_output() {
    let Some(server) = Llmock::start(&[]) else { return };
    for (schema, fits) in [
        (
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
            "/n",
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}, "minItems": 1}),
            "/0",
        ),
    ] {
        let (_, result) = talk(&server, json!({ "schema": schema }), Arc::new(NoTools)).await;
        let json = result.json.unwrap_or_else(|| panic!("{:?}", result.error));
        assert!(json.pointer(fits).is_some_and(Value::is_i64), "{json}");
    }
}

#[tokio::test]
async fn embeddings() {
    let Some(server) = Llmock::start(&[]) else { return };
    let texts = ["a".to_owned(), "b".to_owned()];
    let got = embed(&context(), &net(), &endpoint(&server), None, &texts)
        .await
        .unwrap();
    assert_eq!(got.iter().map(Vec::len).collect::<Vec<_>>(), [1536, 1536]);
    assert_ne!(got[0], got[1]);
}

#[tokio::test]
async fn a_request_that_is_too_long_says_the_window() {
    let Some(server) = Llmock::start(&["--context-window", "100"]) else {
        return;
    };
    let long = json!({"systemPrompt": "word ".repeat(1000)});
    let (events, _) = talk(&server, long, Arc::new(NoTools)).await;
    let Some(Event::Failed(error)) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(error.window, Some(100), "{error}");
}

/// A server that falls silent in the midst of its answer: said to have stalled, with what had arrived, in every format.
#[tokio::test]
async fn a_stall_is_said_to_be_one() {
    let Some(server) = Llmock::start(&[]) else { return };
    for (api, base, model, before) in [
        (Api::OpenaiCompletions, "/v1", "gpt-4o", 1),
        (Api::OpenaiResponses, "/v1", "gpt-4o", 4),
        (Api::AnthropicMessages, "/anthropic", "claude-sonnet-4-6", 3),
        (Api::GoogleGenerativeAi, "/gemini/v1beta", "gemini-2.5-pro", 0),
    ] {
        server.reset();
        server.script(json!([
            {"type": "reply", "text": "alpha beta gamma delta"},
            {"type": "stream_fault", "kind": "stall", "after_chunks": before + 2, "stall_seconds": 20},
        ]));
        let mut endpoint = Endpoint::new("c_mock", "llmock", Url::parse(&server.at(base)).unwrap());
        endpoint.api = api;
        endpoint.limits.idle = Duration::from_millis(400);
        let request = json!({"model": model, "messages": [{"role": "user", "content": "Stall."}]});
        let request = serde_json::from_value(request).unwrap();
        let began = Instant::now();
        let all = converse(&context(), &net(), &endpoint, request, Arc::new(NoTools)).collect::<Vec<Event>>();
        let events = tokio::time::timeout(PATIENCE, all).await.expect("the answer ends");
        let Some(Event::Failed(error)) = events.last() else {
            panic!("{api:?}: {events:?}")
        };
        assert_eq!(error.kind, ProviderErrorKind::Stalled, "{api:?}: {error}");
        let text: String = events
            .iter()
            .filter_map(|event| match event {
                Event::Delta(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, "alpha beta ", "{api:?}");
        assert!(
            began.elapsed() >= Duration::from_millis(400),
            "{api:?}: {:?}",
            began.elapsed()
        );
    }
}
