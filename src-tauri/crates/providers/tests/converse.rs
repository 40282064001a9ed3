//! Conversations with tools and structured output, against servers that send exactly what they are told to.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use common::*;
use futures::StreamExt;
use parking_lot::Mutex;
use providers::{
    Answer, Endpoint, Event, GenerateRequest, GenerateResult, MAX_ROUNDS, NoTools, ProviderErrorKind, Tool, ToolAnswer,
    ToolBox, converse,
};
use serde_json::{Value, json};

/// Tools that remember what they were called with.
#[derive(Default)]
struct Bench {
    calls: Mutex<Vec<(String, Value)>>,
    /// How many calls to the model are allowed, if that is limited.
    budget: Option<u32>,
    /// `hang` was dropped while it ran.
    dropped: Arc<AtomicUsize>,
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl ToolBox for Bench {
    fn tools(&self) -> Vec<Tool> {
        ["add", "fail", "hang", "long", "huge"]
            .map(|name| Tool::new(name, "d", json!({"type": "object", "properties": {}})).unwrap())
            .into()
    }

    async fn run(&self, name: &str, args: Value) -> ToolAnswer {
        self.calls.lock().push((name.to_owned(), args.clone()));
        match name {
            "add" => ToolAnswer {
                text: (args["a"].as_i64().unwrap_or(0) + args["b"].as_i64().unwrap_or(0)).to_string(),
                is_error: false,
            },
            "long" => ToolAnswer {
                text: "é".repeat(5000),
                is_error: false,
            },
            "huge" => ToolAnswer {
                text: "x".repeat(300 << 10),
                is_error: false,
            },
            "hang" => {
                let _dropped = Dropped(self.dropped.clone());
                std::future::pending().await
            }
            _ => ToolAnswer::error("it failed"),
        }
    }

    fn before_round(&self, round: u32) -> Result<(), String> {
        match self.budget {
            Some(budget) if round >= budget => Err(format!("the budget of {budget} calls is used up")),
            _ => Ok(()),
        }
    }
}

fn asked(more: Value) -> GenerateRequest {
    let mut request = json!({"model": "c_test/m", "messages": [{"role": "user", "content": "hi"}]});
    request
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(request).unwrap()
}

async fn talk(
    endpoint: &Endpoint,
    request: GenerateRequest,
    toolbox: Arc<dyn ToolBox>,
) -> (Vec<Event>, GenerateResult) {
    let all = converse(&context(), &net(), endpoint, request, toolbox).collect::<Vec<Event>>();
    let events = tokio::time::timeout(PATIENCE, all)
        .await
        .expect("the answer never ended");
    let mut answer = Answer::new("c_test/m", None);
    events.iter().for_each(|event| answer.push(event));
    let last = |event: &Event| matches!(event, Event::Done { .. } | Event::Failed(_));
    assert_eq!(events.iter().filter(|event| last(event)).count(), 1, "{events:?}");
    assert!(events.last().is_some_and(last), "{events:?}");
    let whole = answer.whole_error().map(str::to_owned);
    let mut result = answer.finish();
    result.error = whole;
    (events, result)
}

fn kind(events: &[Event]) -> Option<ProviderErrorKind> {
    match events.last() {
        Some(Event::Failed(error)) => Some(error.kind),
        _ => None,
    }
}

fn chunk(delta: Value) -> String {
    format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}))
}

fn calls(list: Value) -> String {
    chunk(json!({ "tool_calls": list }))
}

fn end(reason: &str, input: u64, output: u64) -> String {
    let last = json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output}});
    format!("data: {last}\n\ndata: {usage}\n\ndata: [DONE]\n\n")
}

fn call(index: u64, id: &str, name: &str, args: &Value) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": args.to_string()}})
}

/// A server that gives these answers one after another, and the last one from then on.
async fn serving(answers: Vec<String>) -> Server {
    let next = AtomicUsize::new(0);
    Server::answering(move |_| {
        let at = next.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
        events(&answers[at])
    })
    .await
}

#[tokio::test]
async fn tools_are_run_in_order_and_their_answers_sent_back() {
    let first = [
        chunk(json!({"reasoning_content": "hm"})),
        delta("Let me see. "),
        calls(json!([
            call(0, "x1", "add", &json!({"a": 1, "b": 2})),
            call(1, "x2", "fail", &json!({}))
        ])),
        end("tool_calls", 10, 3),
    ]
    .concat();
    let server = serving(vec![first, delta("It is 3.") + &end("stop", 20, 5)]).await;
    let bench = Arc::new(Bench::default());
    let request = asked(json!({"assistantPrefill": "So: ", "presetParams": {"temperature": 0.5}}));
    let (all, result) = talk(&server.endpoint(), request, bench.clone()).await;
    assert_eq!(result.text, "Let me see. It is 3.");
    assert_eq!((result.usage.input, result.usage.output), (30, 8));
    assert_eq!(
        *bench.calls.lock(),
        [
            ("add".to_owned(), json!({"a": 1, "b": 2})),
            ("fail".to_owned(), json!({}))
        ]
    );
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(
        json["toolTrace"],
        json!([
            {"name": "add", "args": {"a": 1, "b": 2}, "resultText": "3", "isError": false},
            {"name": "fail", "args": {}, "resultText": "it failed", "isError": true},
        ])
    );
    let kinds: Vec<&str> = json["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["thinking", "text", "tool", "tool", "text"]);
    assert!(json["parts"][0]["ms"].is_u64());
    let params = &json["requestParams"];
    assert_eq!((&params["temperature"], &params["model"]), (&json!(0.5), &json!("m")));
    assert_eq!(params["tools"], json!(["add", "fail", "hang", "long", "huge"]));
    assert_eq!(params.get("messages"), None);
    let bodies = server.bodies();
    assert_eq!(
        bodies[0]["messages"].as_array().unwrap().last().unwrap()["content"],
        "So: "
    );
    assert_eq!(bodies[0]["tools"][0]["function"]["name"], "add");
    assert_eq!(bodies[0].get("tool_choice"), None);
    assert_eq!(
        bodies[1]["messages"],
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "So: Let me see. ", "reasoning_content": "hm", "tool_calls": [
                {"id": "x1", "type": "function", "function": {"name": "add", "arguments": "{\"a\":1,\"b\":2}"}},
                {"id": "x2", "type": "function", "function": {"name": "fail", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "x1", "content": "3"},
            {"role": "tool", "tool_call_id": "x2", "content": "it failed"},
        ])
    );
    let ran: Vec<String> = all
        .iter()
        .filter_map(|event| match event {
            Event::ToolStart { id, .. } => Some(format!("start {id}")),
            Event::ToolEnd { id, is_error, .. } => Some(format!("end {id} {is_error}")),
            _ => None,
        })
        .collect();
    assert_eq!(ran, ["start x1", "end x1 false", "start x2", "end x2 true"]);
}

/// https://github.com/agno-agi/agno/issues/8879
#[tokio::test]
async fn regress_33_two_calls_whose_indexes_collide() {
    let part = |index: u64, text: &str| json!([{"index": index, "function": {"arguments": text}}]);
    let head = |id: &str, text: &str| json!([{"index": 0, "id": id, "function": {"name": "add", "arguments": text}}]);
    let first = [
        calls(head("A", "{\"a\": ")),
        calls(part(0, "1}")),
        calls(head("B", "{\"a\"")),
        calls(part(1, ": 5}")),
        end("tool_calls", 1, 1),
    ]
    .concat();
    let server = serving(vec![first, delta("ok") + &stop()]).await;
    let bench = Arc::new(Bench::default());
    talk(&server.endpoint(), asked(json!({})), bench.clone()).await;
    assert_eq!(
        *bench.calls.lock(),
        [("add".to_owned(), json!({"a": 1})), ("add".to_owned(), json!({"a": 5}))]
    );
    // What could belong to either is given to neither.
    let first = [
        calls(head("A", "{\"a\": ")),
        calls(head("B", "{\"a\": ")),
        calls(part(0, "1}")),
        end("tool_calls", 1, 1),
    ]
    .concat();
    let server = serving(vec![first]).await;
    let bench = Arc::new(Bench::default());
    let (all, result) = talk(&server.endpoint(), asked(json!({})), bench.clone()).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::NotTheApi));
    assert!(result.error.unwrap().contains("cannot be told apart"));
    assert!(bench.calls.lock().is_empty() && result.usage.output == 1);
}

#[tokio::test]
async fn calls_without_ids_or_with_bad_arguments_are_still_answered() {
    let gemini = json!([{"function": {"name": "add", "arguments": "{\"a\":1}"}, "extra_content": {"google": {"thought_signature": "s"}}}]);
    let server = serving(vec![
        calls(gemini) + &calls(json!([{"function": {"name": "add", "arguments": {"a": 2}}}])) + &end("stop", 1, 1),
        calls(
            json!([{"index": 0, "id": "n", "function": {"name": "add", "arguments": "{\"a\": oops"}},
            {"index": 1, "id": "u", "function": {"name": "rm -rf", "arguments": "{}"}}]),
        ) + &end("tool_calls", 1, 1),
        delta("ok") + &stop(),
    ])
    .await;
    let bench = Arc::new(Bench::default());
    let (_, result) = talk(&server.endpoint(), asked(json!({})), bench.clone()).await;
    assert_eq!((result.text.as_str(), &result.error), ("ok", &None));
    assert_eq!(bench.calls.lock().len(), 2);
    let second = &server.bodies()[1]["messages"];
    assert_eq!(
        second[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"],
        "s"
    );
    assert_eq!(second[1]["tool_calls"][0]["id"], second[2]["tool_call_id"]);
    assert_ne!(second[2]["tool_call_id"], second[3]["tool_call_id"]);
    let third = &server.bodies()[2]["messages"];
    assert_eq!(third[4]["tool_calls"][0]["function"]["arguments"], "{}");
    assert_eq!(third[4]["tool_calls"][1]["function"]["name"], "rm_-rf");
    assert!(third[5]["content"].as_str().unwrap().contains("not valid JSON"));
    assert!(third[6]["content"].as_str().unwrap().contains("no tool \"rm -rf\""));
    assert!(result.tool_trace[2].is_error && result.tool_trace[3].is_error);
    assert_eq!(result.tool_trace[2].args, "{\"a\": oops");
}

#[tokio::test]
async fn a_call_that_was_cut_short_is_never_run() {
    let whole = calls(json!([call(0, "x", "add", &json!({"a": 1}))]));
    let part = calls(json!([{"index": 0, "id": "x", "function": {"name": "add", "arguments": "{\"a\": 1"}}]));
    for body in [
        // No end at all.
        whole.clone(),
        part.clone(),
        // A proper end, but not all of the arguments.
        part.clone() + "data: [DONE]\n\n",
        whole.clone() + &end("length", 1, 1),
        part + &end("max_tokens", 1, 1),
        whole + &end("content_filter", 1, 1),
    ] {
        let server = serving(vec![body.clone()]).await;
        let bench = Arc::new(Bench::default());
        let (all, result) = talk(&server.endpoint(), asked(json!({})), bench.clone()).await;
        assert_eq!(kind(&all), Some(ProviderErrorKind::Truncated), "{body}");
        assert!(result.truncated && result.tool_trace.is_empty() && bench.calls.lock().is_empty());
        assert_eq!(server.bodies().len(), 1);
    }
    // Complete, and ended in good order, though without a reason.
    let whole = calls(json!([call(0, "x", "add", &json!({"a": 1}))])) + "data: [DONE]\n\n";
    let server = serving(vec![whole, delta("ok") + &stop()]).await;
    let (_, result) = talk(&server.endpoint(), asked(json!({})), Arc::new(Bench::default())).await;
    assert_eq!((result.text.as_str(), result.tool_trace.len()), ("ok", 1));
}

#[tokio::test]
async fn after_eight_rounds_the_model_has_to_answer() {
    let server = Server::answering(|request| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        events(&match body.get("tools") {
            Some(_) => delta(".") + &calls(json!([call(0, "x", "add", &json!({}))])) + &end("tool_calls", 1, 1),
            None => delta("done") + &end("stop", 1, 1),
        })
    })
    .await;
    let bench = Arc::new(Bench::default());
    let (_, result) = talk(&server.endpoint(), asked(json!({})), bench.clone()).await;
    assert_eq!(result.text, "........done");
    assert_eq!(bench.calls.lock().len(), MAX_ROUNDS as usize);
    assert_eq!((server.bodies().len(), result.usage.output), (9, 9));
    // A server that calls even then is not obeyed.
    let server = serving(vec![
        calls(json!([call(0, "x", "add", &json!({}))])) + &end("tool_calls", 1, 1),
    ])
    .await;
    let (all, result) = talk(&server.endpoint(), asked(json!({})), Arc::new(Bench::default())).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::Truncated));
    assert!(result.truncated);
    assert_eq!((server.bodies().len(), result.tool_trace.len()), (9, 8));
    assert_eq!(result.usage.output, 9);
    let error = result.error.unwrap();
    assert!(
        error.contains("gave no answer") && error.contains("8 rounds"),
        "{error}"
    );
}

#[tokio::test]
async fn answers_of_tools_are_bounded_together() {
    let many: Vec<Value> = (0..32)
        .map(|at| call(at, &format!("x{at}"), "huge", &json!({})))
        .collect();
    let server = serving(vec![
        delta("Let me see.") + &calls(many.into()) + &end("tool_calls", 1, 1),
    ])
    .await;
    let bench = Arc::new(Bench::default());
    let (all, result) = talk(&server.endpoint(), asked(json!({})), bench.clone()).await;
    assert_eq!(kind(&all), Some(ProviderErrorKind::Truncated));
    assert!(result.truncated);
    assert_eq!((result.text.as_str(), result.usage.output), ("Let me see.", 1));
    // 32 answers of 256 KiB and the words that they were cut are just above 8 MiB; 31 are below.
    assert_eq!((bench.calls.lock().len(), result.tool_trace.len()), (32, 32));
    let error = result.error.unwrap();
    assert!(
        error.contains("more than 8 MiB") && error.contains("what had arrived is kept"),
        "{error}"
    );
    assert_eq!(server.bodies().len(), 1);
}

#[tokio::test]
async fn calls_beyond_32_at_once_are_answered_and_not_run() {
    let many: Vec<Value> = (0..40)
        .map(|at| call(at, &format!("x{at}"), "add", &json!({})))
        .collect();
    let server = serving(vec![
        calls(many.into()) + &end("tool_calls", 1, 1),
        delta("ok") + &stop(),
    ])
    .await;
    let bench = Arc::new(Bench::default());
    let (_, result) = talk(&server.endpoint(), asked(json!({})), bench.clone()).await;
    assert_eq!((result.text.as_str(), &result.error), ("ok", &None));
    assert_eq!((bench.calls.lock().len(), result.tool_trace.len()), (32, 40));
    let sent = &server.bodies()[1]["messages"];
    // The question, the model's turn, and an answer to each call.
    assert_eq!(
        (sent.as_array().unwrap().len(), &sent[33]["content"]),
        (42, &json!("0"))
    );
    for at in 34..42 {
        assert_eq!(sent[at]["tool_call_id"], format!("x{}", at - 2));
        let said = sent[at]["content"].as_str().unwrap();
        assert!(said.contains("at most 32"), "{said}");
    }
}

#[tokio::test]
async fn a_budget_is_asked_before_each_round() {
    let server = serving(vec![
        calls(json!([call(0, "x", "add", &json!({}))])) + &end("tool_calls", 4, 2),
    ])
    .await;
    let bench = Arc::new(Bench {
        budget: Some(2),
        ..Bench::default()
    });
    let (_, result) = talk(&server.endpoint(), asked(json!({})), bench).await;
    assert!(result.error.unwrap().contains("the budget of 2 calls is used up"));
    assert_eq!((server.bodies().len(), result.usage.input), (2, 8));
}

/// What a round cost that failed is counted with what the rounds before it cost.
#[tokio::test]
async fn usage_of_a_failed_round_is_counted() {
    let asks = calls(json!([call(0, "x", "add", &json!({"a": 1, "b": 2}))])) + &end("tool_calls", 10, 3);
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 4}});
    let refusal = json!({"error": {"message": "the GPU fell over"}});
    for (last, text) in [
        (delta("So") + &format!("data: {usage}\n\ndata: {refusal}\n\n"), "So"),
        (delta("So") + &format!("data: {usage}\n\n"), "So"),
    ] {
        let server = serving(vec![asks.clone(), last]).await;
        let (all, result) = talk(&server.endpoint(), asked(json!({})), Arc::new(Bench::default())).await;
        assert!(matches!(all.last(), Some(Event::Failed(_))), "{all:?}");
        assert_eq!((result.usage.input, result.usage.output), (30, 7), "{all:?}");
        assert_eq!(result.text, text);
    }
}

#[tokio::test]
async fn stopping_drops_the_tool_that_runs() {
    let server = serving(vec![
        calls(json!([call(0, "x", "hang", &json!({}))])) + &end("tool_calls", 1, 1),
    ])
    .await;
    let bench = Arc::new(Bench::default());
    let mut stream = converse(&context(), &net(), &server.endpoint(), asked(json!({})), bench.clone());
    let mut answer = Answer::new("c_test/m", None);
    loop {
        let event = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap();
        answer.push(&event);
        if matches!(event, Event::ToolStart { .. }) {
            break;
        }
    }
    assert!(bench.calls.lock().is_empty());
    assert!(futures::poll!(stream.next()).is_pending());
    assert_eq!((bench.calls.lock().len(), bench.dropped.load(Ordering::SeqCst)), (1, 0));
    drop(stream);
    assert_eq!(bench.dropped.load(Ordering::SeqCst), 1);
    let result = answer.finish();
    assert!(result.truncated && result.tool_trace[0].is_error);
}

#[tokio::test]
async fn long_results_are_cut_in_the_trace_and_not_for_the_model() {
    let server = serving(vec![
        calls(json!([call(0, "x", "long", &json!({}))])) + &end("tool_calls", 1, 1),
        delta("ok") + &stop(),
    ])
    .await;
    let (_, result) = talk(&server.endpoint(), asked(json!({})), Arc::new(Bench::default())).await;
    assert_eq!(result.tool_trace[0].result_text.chars().count(), 2000);
    let parts = serde_json::to_value(&result.parts).unwrap();
    assert_eq!(parts[0]["resultText"].as_str().unwrap().chars().count(), 4000);
    assert_eq!(
        server.bodies()[1]["messages"][2]["content"]
            .as_str()
            .unwrap()
            .chars()
            .count(),
        5000
    );
}

#[tokio::test]
async fn structured_output_comes_from_a_hidden_tool() {
    let server = serving(vec![
        calls(json!([{"index": 0, "id": "x", "function": {"name": "__structured_output", "arguments": "{\"value\": [1,"}}]))
            + &calls(json!([{"index": 0, "function": {"arguments": " 2]}"}}]))
            + &end("stop", 1, 1),
    ])
    .await;
    let request = asked(json!({"schema": {"type": "array", "items": {"type": "number"}}}));
    let (all, result) = talk(&server.endpoint(), request, Arc::new(NoTools)).await;
    assert_eq!(
        (result.json, result.text.as_str(), result.error),
        (Some(json!([1, 2])), "", None)
    );
    assert_eq!(result.model, "c_test/m");
    let shown: String = all
        .iter()
        .filter_map(|event| match event {
            Event::JsonDelta(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, "{\"value\": [1, 2]}");
    let body = &server.bodies()[0];
    assert_eq!(
        body["tool_choice"],
        json!({"type": "function", "function": {"name": "__structured_output"}})
    );
    assert_eq!(body["tools"][0]["function"]["parameters"]["required"], json!(["value"]));
    assert!(result.tool_trace.is_empty());
    // A server that calls nothing but writes JSON.
    let server = serving(vec![delta("{\"a\":") + &delta(" 1}") + &stop()]).await;
    let (_, result) = talk(
        &server.endpoint(),
        asked(json!({"schema": {"type": "object"}})),
        Arc::new(NoTools),
    )
    .await;
    assert_eq!(
        (result.json, result.text.as_str()),
        (Some(json!({"a": 1})), "{\"a\": 1}")
    );
    // And one that does neither.
    let server = serving(vec![delta("No.") + &stop()]).await;
    let (_, result) = talk(
        &server.endpoint(),
        asked(json!({"schema": {"type": "object"}})),
        Arc::new(NoTools),
    )
    .await;
    assert_eq!((result.json, result.error), (None, None));
}

#[tokio::test]
async fn structured_output_after_tools() {
    let server = serving(vec![
        calls(json!([call(0, "x", "add", &json!({"a": 2, "b": 2}))])) + &end("tool_calls", 1, 1),
        calls(json!([call(0, "y", "__structured_output", &json!({"sum": 4}))])) + &end("tool_calls", 1, 1),
    ])
    .await;
    let request = asked(json!({"schema": {"type": "object", "properties": {"sum": {"type": "number"}}}}));
    let (_, result) = talk(&server.endpoint(), request, Arc::new(Bench::default())).await;
    assert_eq!((result.json, result.tool_trace.len()), (Some(json!({"sum": 4})), 1));
    assert_eq!(server.bodies()[0]["tool_choice"], "required");
}

#[tokio::test]
async fn a_refused_tool_choice_is_left_out_and_that_is_remembered() {
    // As DeepSeek and Qwen answer while they think.
    let thinks = "The tool_choice parameter does not support being set to required or object in thinking mode";
    // As LM Studio answers.
    let names = "Invalid tool_choice type: 'object'. Supported string values: none, auto, required";
    for (words, takes_required, choices) in [
        (
            thinks,
            false,
            vec![json!("object"), json!("required"), json!(null), json!(null)],
        ),
        (names, true, vec![json!("object"), json!("required"), json!("required")]),
    ] {
        let server = Server::answering(move |request| {
            let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
            match body.get("tool_choice") {
                Some(Value::String(_)) if takes_required => {}
                Some(_) => return json_reply("400 Bad Request", json!({"error": {"message": words}})),
                None => {}
            }
            events(&(calls(json!([call(0, "x", "__structured_output", &json!({"a": 1}))])) + &end("stop", 1, 1)))
        })
        .await;
        let endpoint = server.endpoint();
        for _ in 0..2 {
            let request = asked(json!({"schema": {"type": "object"}}));
            let (_, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
            assert_eq!(result.json, Some(json!({"a": 1})));
        }
        let sent: Vec<Value> = server
            .bodies()
            .iter()
            .map(|body| match &body["tool_choice"] {
                Value::Object(_) => json!("object"),
                other => other.clone(),
            })
            .collect();
        assert_eq!(sent, choices);
    }
}

#[tokio::test]
async fn a_model_that_must_reason_is_asked_again_at_the_lowest_level() {
    let server = Server::answering(|request| match request.contains("\"reasoning_effort\":\"minimal\"") {
        true => events(&(delta("x") + &stop())),
        false => json_reply(
            "400 Bad Request",
            json!({"error": {"message": "Reasoning is mandatory for this endpoint and cannot be disabled.", "code": 400}}),
        ),
    })
    .await;
    let endpoint = server.endpoint();
    for _ in 0..2 {
        let (_, result) = talk(&endpoint, asked(json!({"reasoning": "off"})), Arc::new(NoTools)).await;
        assert_eq!((result.text.as_str(), result.error), ("x", None));
    }
    assert_eq!(server.bodies().len(), 3);
    // Once: a server that is never content is not asked forever.
    let server = Server::with(json_reply(
        "400 Bad Request",
        json!({"error": "Reasoning is mandatory"}),
    ))
    .await;
    let (all, _) = talk(&server.endpoint(), asked(json!({})), Arc::new(NoTools)).await;
    assert_eq!(
        (kind(&all), server.bodies().len()),
        (Some(ProviderErrorKind::Request), 2)
    );
}

#[tokio::test]
async fn thinking_that_a_server_does_not_take_back_is_left_out() {
    let server = Server::answering(|request| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        match body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .find(|message| message["role"] == "assistant")
        {
            None => events(
                &(chunk(json!({"reasoning_content": "hm"}))
                    + &calls(json!([call(0, "x", "add", &json!({}))]))
                    + &end("tool_calls", 1, 1)),
            ),
            Some(turn) if turn.get("reasoning_content").is_some() => json_reply(
                "400 Bad Request",
                json!({"message": "property 'messages.1.assistant.reasoning_content' is unsupported"}),
            ),
            Some(_) => events(&(delta("ok") + &stop())),
        }
    })
    .await;
    let (_, result) = talk(&server.endpoint(), asked(json!({})), Arc::new(Bench::default())).await;
    assert_eq!(
        (result.text.as_str(), result.error, server.bodies().len()),
        ("ok", None, 3)
    );
}

#[tokio::test]
async fn inline_thinking_is_split_off_only_when_asked() {
    let body: String = ["<th", "ink>hm", "</thi", "nk>\n\n", "Yes."].map(delta).concat() + &stop();
    let server = serving(vec![body]).await;
    let tagged = asked(json!({"reasoningTags": {"open": "<r>", "close": "</r>"}}));
    let (_, result) = talk(&server.endpoint(), tagged, Arc::new(NoTools)).await;
    assert_eq!(
        (result.text.as_str(), result.reasoning.as_deref()),
        ("Yes.", Some("hm"))
    );
    let (_, result) = talk(&server.endpoint(), asked(json!({})), Arc::new(NoTools)).await;
    assert_eq!(result.text, "<think>hm</think>\n\nYes.");
}
