//! Anthropic's Messages over a real connection, and what may come over it.

mod common;
#[path = "common/talk.rs"]
mod talk;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use providers::{Api, Event, NoTools};
use serde_json::{Value, json};
use talk::*;

const API: Api = Api::AnthropicMessages;
const MODEL: &str = "claude-sonnet-4-5";

fn event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap())
}

/// A stream of these blocks, each with what its deltas add.
fn stream(blocks: &[(Value, &[Value])], reason: &str, output: u64) -> String {
    let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 1});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-real", "content": [], "usage": usage});
    let mut all = event(&json!({"type": "message_start", "message": message}));
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        all += &event(&json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in *deltas {
            all += &event(&json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        all += &event(&json!({"type": "content_block_stop", "index": index}));
    }
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    all += &event(&json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}));
    all + &event(&json!({"type": "message_stop"}))
}

fn say(text: &str) -> String {
    stream(
        &[(
            json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": text})],
        )],
        "end_turn",
        5,
    )
}

fn call(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
}

fn arguments(part: &str) -> Value {
    json!({"type": "input_json_delta", "partial_json": part})
}

#[tokio::test]
async fn what_is_sent_and_what_comes_of_it() {
    let server = Server::with(events(&say("Hello."))).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let request = asked(
        MODEL,
        json!({
            "systemPrompt": "Be kind.", "assistantPrefill": "He ", "cache": {"depth": 0},
            "presetParams": {"temperature": 0.5, "max_tokens": 100},
        }),
    );
    let (_, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((result.text.as_str(), result.error), ("Hello.", None));
    let usage = json!({"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 7, "costTotal": 0.0, "priced": false});
    assert_eq!(json!(result.usage), usage);
    assert_eq!(result.finish_reason.as_deref(), Some("end_turn"));

    let heard = server.heard.lock()[0].clone();
    let head = head(&heard);
    assert_eq!(head[0], "post /v1/messages http/1.1");
    for line in [format!("x-api-key: {KEY}"), "anthropic-version: 2023-06-01".into()] {
        assert!(head.contains(&line), "{head:?}");
    }
    assert!(!head.iter().any(|line| line.starts_with("authorization")), "{head:?}");
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        server.bodies()[0],
        json!({
            "model": MODEL, "max_tokens": 100, "temperature": 0.5, "stream": true,
            "system": [{"type": "text", "text": "Be kind.", "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": mark}]},
                {"role": "assistant", "content": [{"type": "text", "text": "He"}]},
            ],
        })
    );
    let params = result.request_params.unwrap();
    assert_eq!(
        Value::Object(params),
        json!({"model": MODEL, "max_tokens": 100, "temperature": 0.5, "stream": true})
    );
}

/// The first answer of a conversation: it thinks, says a word, thinks again and calls two tools.
fn first_round() -> String {
    let thinking = json!({"type": "thinking", "thinking": "", "signature": ""});
    stream(
        &[
            (
                thinking.clone(),
                &[
                    json!({"type": "thinking_delta", "thinking": "Hm"}),
                    json!({"type": "thinking_delta", "thinking": "."}),
                    json!({"type": "signature_delta", "signature": "SIG"}),
                    json!({"type": "signature_delta", "signature": "1"}),
                ],
            ),
            (
                json!({"type": "text", "text": ""}),
                &[json!({"type": "text_delta", "text": "Let me see."})],
            ),
            (json!({"type": "redacted_thinking", "data": "HIDDEN"}), &[]),
            (
                call("toolu_1", "look"),
                &[arguments(""), arguments("{\"wh"), arguments("at\": \"a🦋\"}")],
            ),
            (call("toolu_2", "look"), &[]),
        ],
        "tool_use",
        20,
    )
}

#[tokio::test]
async fn a_tool_round_gives_back_what_the_model_thought() {
    let server = serving(vec![first_round(), say(" A butterfly."), say("Yes.")]).await;
    let (endpoint, _vault) = keyed(&server, API, "/v1");
    let look = Arc::new(Look::default());
    let (_, result) = talk(&endpoint, asked(MODEL, json!({"reasoning": "low"})), look.clone()).await;
    assert_eq!(
        (result.text.as_str(), result.error.as_deref()),
        ("Let me see. A butterfly.", None)
    );
    assert_eq!(result.reasoning.as_deref(), Some("Hm."));
    assert_eq!(*look.0.lock(), [json!({"what": "a🦋"}), json!({})]);
    assert_eq!(
        (result.usage.input, result.usage.output, result.usage.cache_read),
        (20, 25, 200)
    );

    let bodies = server.bodies();
    assert_eq!(bodies[0]["thinking"], json!({"type": "enabled", "budget_tokens": 2048}));
    assert_eq!(bodies[0]["max_tokens"], 10240);
    assert_eq!(
        bodies[0]["tools"],
        json!([{"name": "look", "description": "looks", "input_schema": {
            "type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"],
        }}])
    );
    let round = json!([
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "SIG1"},
            {"type": "text", "text": "Let me see."},
            {"type": "redacted_thinking", "data": "HIDDEN"},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"what": "a🦋"}},
            {"type": "tool_use", "id": "toolu_2", "name": "look", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen a🦋"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "look at what?", "is_error": true},
        ]},
    ]);
    assert_eq!(bodies[1]["messages"], round);

    // And once more when the answer is sent along as a part of the conversation.
    let replayed = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": result.text, "replay": result.replay.unwrap()},
        {"role": "user", "content": "sure?"},
    ]});
    talk(&endpoint, asked(MODEL, replayed), Arc::new(NoTools)).await;
    let body = server.bodies().pop().unwrap();
    let messages = body["messages"].as_array().unwrap();
    assert_eq!(messages[..3], round.as_array().unwrap()[..]);
    assert_eq!(
        messages[3..],
        [
            json!({"role": "assistant", "content": [{"type": "text", "text": " A butterfly."}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "sure?"}]}),
        ]
    );
    // Its calls need tools, though none is offered.
    assert_eq!(body["tools"][0]["name"], "look");
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
}

#[tokio::test]
async fn structured_output_by_a_forced_tool() {
    let handed = (
        call("toolu_s", "__structured_output"),
        &[arguments("{\"a\":"), arguments(" [1, 2]}")][..],
    );
    let server = Server::with(events(&stream(&[handed], "tool_use", 9))).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let schema = json!({"type": "object", "properties": {"a": {"type": "array"}}});
    let (_, result) = talk(&endpoint, asked(MODEL, json!({"schema": schema})), Arc::new(NoTools)).await;
    assert_eq!((result.json, result.error), (Some(json!({"a": [1, 2]})), None));
    let body = &server.bodies()[0];
    assert_eq!(
        body["tool_choice"],
        json!({"type": "tool", "name": "__structured_output"})
    );
    assert_eq!(body["tools"][0]["input_schema"], schema);

    // A model that thinks cannot be made to call it, and may write the JSON instead.
    let server = Server::with(events(&say("{\"a\": []}"))).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let (_, result) = talk(
        &endpoint,
        asked(MODEL, json!({"schema": schema, "reasoning": "low"})),
        Arc::new(NoTools),
    )
    .await;
    assert_eq!(result.json, Some(json!({"a": []})));
    let body = &server.bodies()[0];
    assert_eq!(
        (body.get("tool_choice"), &body["tools"][0]["name"]),
        (None, &json!("__structured_output"))
    );
}

#[tokio::test]
async fn what_a_model_refuses_is_left_out_from_then_on() {
    let server = Server::answering(|request| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let last = body["messages"].as_array().unwrap().last().unwrap();
        let refusal = |message: &str| {
            let error = json!({"type": "invalid_request_error", "message": message});
            json_reply("400 Bad Request", json!({"type": "error", "error": error}))
        };
        if last["role"] == "assistant" {
            refusal(
                "This model does not support assistant message prefill. The conversation must end with a user message.",
            )
        } else if body.get("temperature").is_some() {
            refusal("`temperature` is deprecated for this model.")
        } else {
            events(&say("Fine."))
        }
    })
    .await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let request = json!({"assistantPrefill": "So", "presetParams": {"temperature": 0.5}});
    for requests in [3, 4] {
        let (_, result) = talk(&endpoint, asked("some-alias", request.clone()), Arc::new(NoTools)).await;
        assert_eq!((result.text.as_str(), result.error), ("Fine.", None));
        assert_eq!(server.bodies().len(), requests);
    }
}

/// Words that the model never said are not put into its mouth when its turn is sent back.
#[tokio::test]
async fn a_prefill_that_was_not_sent_is_not_sent_back() {
    for refuses in [true, false] {
        let server = Server::answering(move |request| {
            let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
            let messages = body["messages"].as_array().unwrap();
            if refuses && messages.last().unwrap()["role"] == "assistant" {
                let error = json!({"type": "invalid_request_error", "message": "This model does not support assistant message prefill."});
                return json_reply("400 Bad Request", json!({"type": "error", "error": error}));
            }
            events(&match request.contains("tool_result") {
                true => say("Fine."),
                false => first_round(),
            })
        })
        .await;
        let (endpoint, _vault) = keyed(&server, API, "");
        let request = json!({"assistantPrefill": "So: "});
        let (_, result) = talk(&endpoint, asked("some-alias", request), Arc::new(Look::default())).await;
        assert_eq!((result.text.as_str(), result.error), ("Let me see.Fine.", None));
        let bodies = server.bodies();
        let last = bodies.last().unwrap()["messages"].to_string();
        assert!(last.contains("Let me ") && last.contains("see."), "{last}");
        assert_eq!(
            last.contains("So:"),
            !refuses,
            "refuses: {refuses}, {} asked: {last}",
            bodies.len()
        );
    }
}

/// A prefill that begins a thought makes one of the answer only where it was sent.
#[tokio::test]
async fn tags_in_a_prefill_that_was_refused_mean_nothing() {
    for refuses in [true, false] {
        let server = Server::answering(move |request| {
            let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
            if refuses && body["messages"].as_array().unwrap().last().unwrap()["role"] == "assistant" {
                let error = json!({"type": "invalid_request_error", "message": "This model does not support assistant message prefill."});
                return json_reply("400 Bad Request", json!({"type": "error", "error": error}));
            }
            events(&say("Plain."))
        })
        .await;
        let (endpoint, _vault) = keyed(&server, API, "");
        let request = json!({"assistantPrefill": "<t>", "reasoningTags": {"open": "<t>", "close": "</t>"}});
        let (_, result) = talk(&endpoint, asked("some-alias", request), Arc::new(NoTools)).await;
        let (text, thought) = if refuses {
            ("Plain.", None)
        } else {
            ("", Some("Plain."))
        };
        assert_eq!(
            (result.text.as_str(), result.reasoning.as_deref()),
            (text, thought),
            "refuses: {refuses}"
        );
    }
}

#[tokio::test]
async fn broken_answers_are_kept_and_reported_and_their_calls_not_run() {
    let whole = first_round();
    let in_a_call = whole.find("at\\\": \\\"a").unwrap();
    let overloaded = event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let limit = whole.replace("\"stop_reason\":\"tool_use\"", "\"stop_reason\":\"max_tokens\"");
    assert!(limit.contains("max_tokens"));
    for (body, code) in [
        (whole[..in_a_call].to_owned(), "truncated"),
        (
            whole[..whole.find("event: message_delta").unwrap()].to_owned(),
            "truncated",
        ),
        (
            whole[..whole.find("event: message_delta").unwrap()].to_owned() + &overloaded,
            "server",
        ),
        (limit, "truncated"),
    ] {
        let server = Server::with(events(&body)).await;
        let (endpoint, _vault) = keyed(&server, API, "");
        let look = Arc::new(Look::default());
        let (all, result) = talk(&endpoint, asked(MODEL, json!({})), look.clone()).await;
        assert_eq!(failed(&all), Some(code), "{all:?}");
        assert_eq!((result.text.as_str(), result.truncated), ("Let me see.", true));
        assert_eq!(result.reasoning.as_deref(), Some("Hm."));
        assert!(look.0.lock().is_empty());
        assert_eq!(server.bodies().len(), 1);
        assert!(!format!("{all:?}{result:?}").contains("canary"));
    }
}

#[tokio::test]
async fn a_refusal_says_why() {
    let body = stream(&[], "refusal", 1).replace(
        "\"stop_sequence\":null",
        "\"stop_sequence\":null,\"stop_details\":{\"type\":\"refusal\",\"explanation\":\"Not this.\"}",
    );
    assert!(body.contains("Not this."));
    let server = Server::with(events(&body)).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let (all, _) = talk(&endpoint, asked(MODEL, json!({})), Arc::new(NoTools)).await;
    assert_eq!(failed(&all), Some("refused"));
    assert!(matches!(all.last(), Some(Event::Failed(error)) if error.to_string().contains("Not this.")));
}

#[tokio::test]
async fn a_server_that_nobody_here_wrote() {
    check_llmock(API, "/anthropic", "claude-sonnet-4-6").await;
}

const WORDS: &[&str] = &[
    "type",
    "index",
    "message",
    "message_start",
    "content_block",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "ping",
    "error",
    "delta",
    "usage",
    "content",
    "text",
    "text_delta",
    "thinking",
    "thinking_delta",
    "signature",
    "signature_delta",
    "redacted_thinking",
    "data",
    "tool_use",
    "id",
    "name",
    "input",
    "input_json_delta",
    "partial_json",
    "stop_reason",
    "stop_details",
    "explanation",
    "refusal",
    "end_turn",
    "max_tokens",
    "input_tokens",
    "output_tokens",
    "cache_creation",
    "{\"a\":",
    "1}",
    "",
];

/// An event whose outer shape is right, so that what is within is looked at.
fn framed() -> impl Strategy<Value = Value> {
    let kinds = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message",
    ];
    let blocks = [
        "text",
        "thinking",
        "tool_use",
        "redacted_thinking",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
    ];
    (
        prop::sample::select(kinds.to_vec()),
        prop::sample::select(blocks.to_vec()),
        0u64..3,
        json_of(WORDS),
    )
        .prop_map(|(kind, block, index, rest)| {
            let mut inner = if rest.is_object() {
                rest.clone()
            } else {
                json!({"text": rest, "partial_json": rest})
            };
            inner["type"] = block.into();
            let content = json!([inner]);
            json!({
                "type": kind, "index": index, "content_block": inner, "delta": inner, "message": rest, "usage": rest,
                "content": content,
            })
        })
}

proptest! {
    #[test]
    fn foreign_events_end_once(values in prop::collection::vec(prop_oneof![json_of(WORDS), framed()], 0..8)) {
        check_foreign(API, &values);
    }

    #[test]
    fn damaged_recordings_end_once(
        which in any::<prop::sample::Index>(),
        damage in prop::collection::vec((any::<usize>(), any::<u8>(), 1usize..40), 1..4),
        cut in any::<usize>(),
    ) {
        let all = recordings(API);
        check_damaged(API, &all[which.index(all.len())], &damage, cut);
    }
}
