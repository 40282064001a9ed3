//! OpenAI's Responses over a real connection, and what may come over it.

mod common;
#[path = "common/talk.rs"]
mod talk;

use std::sync::Arc;

use proptest::prelude::*;
use providers::{Api, NoTools};
use serde_json::{Value, json};
use talk::*;

const API: Api = Api::OpenaiResponses;
const MODEL: &str = "gpt-5";

fn event(kind: &str, more: Value) -> String {
    let mut value = more;
    value["type"] = kind.into();
    format!("event: {kind}\ndata: {value}\n\n")
}

fn response(status: &str, output: Value) -> Value {
    json!({"response": {
        "id": "resp_1", "object": "response", "model": "gpt-5-real", "status": status, "error": null, "output": output,
        "usage": {"input_tokens": 110, "input_tokens_details": {"cached_tokens": 100}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 115},
    }})
}

/// Items, each streamed in the pieces that its kind comes in.
fn stream(items: &[Value]) -> String {
    let mut all = event("response.created", response("in_progress", json!([])));
    for (at, item) in items.iter().enumerate() {
        let id = item["id"].clone();
        let mut begun = item.clone();
        for name in ["arguments", "summary", "content"] {
            if begun.get(name).is_some() {
                begun[name] = if name == "arguments" { json!("") } else { json!([]) };
            }
        }
        all += &event("response.output_item.added", json!({"output_index": at, "item": begun}));
        let pieces = |kind: &str, text: &str, part: Value| {
            let half = (0..=text.len() / 2)
                .rev()
                .find(|at| text.is_char_boundary(*at))
                .unwrap_or(0);
            let (first, second) = text.split_at(half);
            let one = |delta: &str| {
                let mut value = json!({"output_index": at, "item_id": id, "delta": delta});
                for (name, number) in part.as_object().unwrap() {
                    value[name] = number.clone();
                }
                event(kind, value)
            };
            one(first) + &one(second)
        };
        match item["type"].as_str().unwrap() {
            "message" => {
                let text = item["content"][0]["text"].as_str().unwrap();
                all += &pieces("response.output_text.delta", text, json!({"content_index": 0}));
            }
            "reasoning" => {
                for (n, part) in item["summary"].as_array().unwrap().iter().enumerate() {
                    let text = part["text"].as_str().unwrap();
                    all += &pieces(
                        "response.reasoning_summary_text.delta",
                        text,
                        json!({"summary_index": n}),
                    );
                }
            }
            _ => {
                let text = item["arguments"].as_str().unwrap();
                all += &pieces("response.function_call_arguments.delta", text, json!({}));
                all += &event(
                    "response.function_call_arguments.done",
                    json!({"output_index": at, "item_id": id, "arguments": text}),
                );
            }
        }
        all += &event("response.output_item.done", json!({"output_index": at, "item": item}));
    }
    all + &event("response.completed", response("completed", json!(items)))
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
}

fn call(number: u32, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"), "name": name,
        "arguments": arguments})
}

fn say(text: &str) -> String {
    stream(&[message(text)])
}

#[tokio::test]
async fn a_plain_answer() {
    let server = serving(vec![say("Hello.")]).await;
    let (endpoint, _vault) = keyed(&server, API, "/v1/responses");
    let request = asked(
        MODEL,
        json!({"systemPrompt": "Be kind.", "sessionId": "s1", "reasoning": "low", "presetParams": {"max_tokens": 100}}),
    );
    let (_, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((result.text.as_str(), result.error), ("Hello.", None));
    assert_eq!(result.finish_reason.as_deref(), Some("completed"));
    let usage = &result.usage;
    assert_eq!(
        (usage.input, usage.cache_read, usage.output, usage.reasoning),
        (10, 100, 5, Some(2))
    );
    let heard = server.heard.lock()[0].clone();
    let head = head(&heard);
    assert_eq!(head[0], "post /v1/responses http/1.1");
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head:?}");
    assert_eq!(
        server.bodies()[0],
        json!({
            "model": MODEL, "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
            "instructions": "Be kind.", "prompt_cache_key": "s1", "max_output_tokens": 100,
            "reasoning": {"effort": "low", "summary": "auto"},
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        })
    );
    let params = result.request_params.unwrap();
    assert!(
        !params.contains_key("input") && !params.contains_key("instructions"),
        "{params:?}"
    );
}

#[tokio::test]
async fn a_tool_round_gives_back_what_the_model_thought() {
    let thought = |text: &[&str], sealed: &str| {
        let summary: Vec<Value> = text
            .iter()
            .map(|text| json!({"type": "summary_text", "text": text}))
            .collect();
        json!({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed})
    };
    let first = stream(&[
        thought(&["Hm.", "A look."], "SEALED1"),
        message("Let me see."),
        thought(&[], "SEALED2"),
        call(1, "look", "{\"what\": \"a🦋\"}"),
        call(2, "look", "{}"),
    ]);
    let server = serving(vec![first, say(" A butterfly."), say("Yes.")]).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let look = Arc::new(Look::default());
    let (_, result) = talk(&endpoint, asked(MODEL, json!({"reasoning": "low"})), look.clone()).await;
    assert_eq!(
        (result.text.as_str(), result.error.as_deref()),
        ("Let me see. A butterfly.", None)
    );
    assert_eq!(result.reasoning.as_deref(), Some("Hm.\n\nA look."));
    assert_eq!(*look.0.lock(), [json!({"what": "a🦋"}), json!({})]);

    let said = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    let user =
        |text: &str| json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]});
    let round = [
        user("hi"),
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm.\n\nA look."}], "encrypted_content": "SEALED1"}),
        json!({"type": "reasoning", "summary": [], "encrypted_content": "SEALED2"}),
        said("Let me see."),
        json!({"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"what\":\"a🦋\"}"}),
        json!({"type": "function_call", "call_id": "call_2", "name": "look", "arguments": "{}"}),
        json!({"type": "function_call_output", "call_id": "call_1", "output": "seen a🦋"}),
        json!({"type": "function_call_output", "call_id": "call_2", "output": "look at what?"}),
    ];
    assert_eq!(*server.bodies()[1]["input"].as_array().unwrap(), round);

    let replayed = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": result.text, "replay": result.replay.unwrap()},
        {"role": "user", "content": "sure?"},
    ]});
    talk(&endpoint, asked(MODEL, replayed), Arc::new(NoTools)).await;
    let body = server.bodies().pop().unwrap();
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[..8], round);
    assert_eq!(input[8..], [said(" A butterfly."), user("sure?")]);
}

#[tokio::test]
async fn structured_output_by_a_forced_tool() {
    let server = serving(vec![stream(&[call(1, "__structured_output", "{\"a\": [1, 2]}")])]).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let request = asked(
        MODEL,
        json!({"schema": {"type": "object", "properties": {"a": {"type": "array"}}}}),
    );
    let (_, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((result.json, result.text.as_str()), (Some(json!({"a": [1, 2]})), ""));
    let body = &server.bodies()[0];
    assert_eq!(
        body["tool_choice"],
        json!({"type": "function", "name": "__structured_output"})
    );
    assert_eq!(
        (&body["tools"][0]["type"], &body["tools"][0]["strict"]),
        (&json!("function"), &json!(false))
    );
}

#[tokio::test]
async fn a_call_cut_short_is_not_run() {
    let whole = stream(&[message("Let me see."), call(1, "look", "{\"what\": \"a\"}")]);
    let cut = whole.find("response.function_call_arguments.done").unwrap();
    let incomplete =
        json!({"response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}});
    let limited = whole[..cut].rsplit_once("event: ").unwrap().0.to_owned() + &event("response.incomplete", incomplete);
    for body in [whole[..cut].to_owned(), limited] {
        let server = serving(vec![body]).await;
        let (endpoint, _vault) = keyed(&server, API, "");
        let look = Arc::new(Look::default());
        let (all, result) = talk(&endpoint, asked(MODEL, json!({})), look.clone()).await;
        assert_eq!((failed(&all), result.text.as_str()), (Some("truncated"), "Let me see."));
        assert!(look.0.lock().is_empty());
    }
}

const WORDS: &[&str] = &[
    "type",
    "response.output_text.delta",
    "response.output_item.added",
    "response.output_item.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.reasoning_summary_text.delta",
    "response",
    "item",
    "id",
    "item_id",
    "output_index",
    "summary_index",
    "delta",
    "arguments",
    "call_id",
    "name",
    "function_call",
    "reasoning",
    "message",
    "output",
    "content",
    "summary",
    "text",
    "encrypted_content",
    "status",
    "completed",
    "error",
    "usage",
];

proptest! {
    #[test]
    fn foreign_events_come_to_one_end(values in prop::collection::vec(json_of(WORDS), 1..6)) {
        check_foreign(API, &values);
    }

    #[test]
    fn damaged_recordings_come_to_one_end_wherever_they_are_cut(
        which in any::<usize>(), damage in prop::collection::vec((any::<usize>(), any::<u8>(), 1usize..40), 1..4), cut in any::<usize>()
    ) {
        let all = recordings(API);
        check_damaged(API, &all[which % all.len()], &damage, cut);
    }
}
