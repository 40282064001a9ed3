//! Against a model server that nobody here wrote.

mod common;

use std::sync::Arc;

use async_trait::async_trait;
use common::*;
use futures::StreamExt;
use parking_lot::Mutex;
use providers::{Answer, Endpoint, Event, GenerateResult, NoTools, Tool, ToolAnswer, ToolBox, converse, embed};
use serde_json::{Value, json};
use testkit::llmock::Llmock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

/// Tells llmock what to do next.
async fn script(server: &Llmock, behaviors: Value) {
    let body = json!({ "behaviors": behaviors }).to_string();
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", server.port))
        .await
        .unwrap();
    let request = format!(
        "POST /_llmock/scenario HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
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
    script(&server, two).await;
    let weather = Arc::new(Weather::default());
    let (_, result) = talk(&server, json!({}), weather.clone()).await;
    assert_eq!(result.error, None);
    assert_eq!(*weather.0.lock(), [json!({"city": "Paris"}), json!({"city": "Lima"})]);
}

#[tokio::test]
async fn calls_that_go_wrong() {
    let Some(server) = Llmock::start(&[]) else { return };
    for kind in ["malformed_arguments", "unknown_tool"] {
        script(&server, json!([{"type": "tool_fault", "kind": kind}])).await;
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
        script(&server, json!([{"type": "stream_fault", "kind": kind}])).await;
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
