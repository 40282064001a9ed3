//! Ollama's own format over a real connection, and what may come over it.

mod common;
#[path = "common/talk.rs"]
mod talk;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use providers::{Api, Event, NoTools};
use serde_json::{Value, json};
use talk::*;

const API: Api = Api::Ollama;
const MODEL: &str = "qwen3:8b";

fn line(message: Value) -> String {
    let mut message = message;
    message["role"] = "assistant".into();
    format!(
        "{}\n",
        json!({"model": "qwen3:8b-real", "message": message, "done": false})
    )
}

fn end(reason: &str) -> String {
    let end = json!({
        "model": "qwen3:8b-real", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
        "prompt_eval_count": 10, "eval_count": 5,
    });
    format!("{end}\n")
}

fn say(text: &str) -> String {
    line(json!({"content": text})) + &end("stop")
}

#[tokio::test]
async fn a_plain_answer() {
    let server = serving(vec![say("Hello.")]).await;
    // The address as people paste it from other programs.
    let (endpoint, _vault) = keyed(&server, API, "/v1");
    let request = asked(
        MODEL,
        json!({"systemPrompt": "Be kind.", "reasoning": "off", "presetParams": {"temperature": 0.5, "max_tokens": 100}}),
    );
    let (_, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((result.text.as_str(), result.error), ("Hello.", None));
    assert_eq!(result.finish_reason.as_deref(), Some("stop"));
    assert_eq!((result.usage.input, result.usage.output), (10, 5));
    let heard = server.heard.lock()[0].clone();
    let head = head(&heard);
    assert_eq!(head[0], "post /api/chat http/1.1");
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head:?}");
    assert_eq!(
        server.bodies()[0],
        json!({
            "model": MODEL, "stream": true, "think": false, "options": {"temperature": 0.5, "num_predict": 100},
            "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
        })
    );
    let params = result.request_params.unwrap();
    assert!(!params.contains_key("messages") && params["options"]["num_predict"] == 100);
}

#[tokio::test]
async fn a_tool_round_gives_back_what_the_model_thought() {
    let first = line(json!({"content": "", "thinking": "Hm"}))
        + &line(json!({"content": "", "thinking": "."}))
        + &line(json!({"content": "Let me see."}))
        + &line(json!({"content": "", "tool_calls": [
            {"function": {"name": "look", "arguments": {"what": "a🦋"}}},
            {"function": {"name": "look", "arguments": {}}},
        ]}))
        + &end("stop");
    let server = serving(vec![first, say(" A butterfly."), say("Yes.")]).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let look = Arc::new(Look::default());
    let (_, result) = talk(&endpoint, asked(MODEL, json!({"reasoning": "low"})), look.clone()).await;
    assert_eq!(
        (result.text.as_str(), result.error.as_deref()),
        ("Let me see. A butterfly.", None)
    );
    assert_eq!(result.reasoning.as_deref(), Some("Hm."));
    assert_eq!(*look.0.lock(), [json!({"what": "a🦋"}), json!({})]);
    assert_eq!((result.usage.input, result.usage.output), (20, 10));

    let bodies = server.bodies();
    assert_eq!(bodies[0]["think"], true);
    assert_eq!(bodies[0]["tools"][0]["function"]["name"], "look");
    let round = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Let me see.", "thinking": "Hm.", "tool_calls": [
            {"id": "call_0_0", "function": {"name": "look", "arguments": {"what": "a🦋"}}},
            {"id": "call_0_1", "function": {"name": "look", "arguments": {}}},
        ]},
        {"role": "tool", "content": "seen a🦋", "tool_name": "look", "tool_call_id": "call_0_0"},
        {"role": "tool", "content": "look at what?", "tool_name": "look", "tool_call_id": "call_0_1"},
    ]);
    assert_eq!(bodies[1]["messages"], round);

    let replayed = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": result.text, "replay": result.replay.unwrap()},
        {"role": "user", "content": "sure?"},
    ]});
    talk(&endpoint, asked(MODEL, replayed), Arc::new(NoTools)).await;
    let body = server.bodies().pop().unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[..4], round.as_array().unwrap()[..]);
    assert_eq!(
        messages[4..],
        [
            json!({"role": "assistant", "content": " A butterfly."}),
            json!({"role": "user", "content": "sure?"})
        ]
    );
}

#[tokio::test]
async fn a_json_answer_is_kept_to_its_schema_and_is_no_text() {
    let parts = line(json!({"content": "{\"value\": "})) + &line(json!({"content": "[1, 2]}"})) + &end("stop");
    let server = serving(vec![parts]).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let request = asked(MODEL, json!({"schema": {"type": "array", "items": {"type": "number"}}}));
    let (all, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((result.json, result.text.as_str()), (Some(json!([1, 2])), ""));
    let body = &server.bodies()[0];
    assert_eq!(body["format"]["properties"]["value"]["type"], "array");
    assert!(body.get("tools").is_none());
    let shown: String = all
        .iter()
        .filter_map(|event| match event {
            Event::JsonDelta(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(shown, "{\"value\": [1, 2]}");

    // Cut short, it is no answer.
    let server = serving(vec![line(json!({"content": "{\"value\": [1"})) + &end("length")]).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let request = asked(MODEL, json!({"schema": {"type": "array"}}));
    let (all, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((failed(&all), result.json), (Some("truncated"), None));
}

#[tokio::test]
async fn a_model_that_does_not_think_is_asked_again_without() {
    let server = Server::answering(|request| match request.contains("\"think\"") {
        true => json_reply(
            "400 Bad Request",
            json!({"error": "\"qwen\" does not support thinking"}),
        ),
        false => reply("200 OK", "application/x-ndjson", say("Hello.")),
    })
    .await;
    let (endpoint, _vault) = keyed(&server, API, "");
    for _ in 0..2 {
        let (_, result) = talk(
            &endpoint,
            asked("qwen", json!({"reasoning": "high"})),
            Arc::new(NoTools),
        )
        .await;
        assert_eq!(result.text, "Hello.");
    }
    // Remembered.
    assert_eq!(server.bodies().len(), 3);
}

#[tokio::test]
async fn tools_for_a_model_that_has_none_are_an_error_in_its_words() {
    let error = json!({"error": "registry.ollama.ai/library/gemma:2b does not support tools"});
    let server = Server::with(json_reply("400 Bad Request", error)).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let (all, result) = talk(&endpoint, asked("gemma:2b", json!({})), Arc::new(Look::default())).await;
    assert_eq!(failed(&all), Some("server"));
    assert!(result.error.unwrap().contains("does not support tools"));
    assert_eq!(server.bodies().len(), 1);
}

const WORDS: &[&str] = &[
    "model",
    "message",
    "role",
    "content",
    "thinking",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "done",
    "done_reason",
    "stop",
    "length",
    "error",
    "eval_count",
    "prompt_eval_count",
    "id",
];

proptest! {
    #[test]
    fn foreign_lines_come_to_one_end(values in prop::collection::vec(json_of(WORDS), 1..6)) {
        check_foreign(API, &values);
        let lines: String = values.iter().map(|value| format!("{value}\n")).collect();
        assert_ends_once(&providers::replay(API, &[lines.as_bytes()]));
    }

    #[test]
    fn damaged_recordings_come_to_one_end_wherever_they_are_cut(
        which in any::<usize>(), damage in prop::collection::vec((any::<usize>(), any::<u8>(), 1usize..40), 1..4), cut in any::<usize>()
    ) {
        let all = recordings(API);
        check_damaged(API, &all[which % all.len()], &damage, cut);
    }
}
