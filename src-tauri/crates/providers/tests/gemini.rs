//! Google's Gemini over a real connection, and what may come over it.

mod common;
#[path = "common/talk.rs"]
mod talk;

use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use providers::{Api, Event, NoTools};
use serde_json::{Value, json};
use talk::*;

const API: Api = Api::GoogleGenerativeAi;
const MODEL: &str = "gemini-3-flash-preview";

fn chunk(parts: Value, reason: Option<&str>) -> String {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(reason) = reason {
        candidate["finishReason"] = reason.into();
    }
    let usage = json!({
        "promptTokenCount": 110, "cachedContentTokenCount": 100, "candidatesTokenCount": 5, "thoughtsTokenCount": 3,
    });
    let value = json!({
        "candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-real", "responseId": "r1",
    });
    format!("data: {value}\r\n\r\n")
}

fn say(text: &str) -> String {
    chunk(json!([{"text": text}]), Some("STOP"))
}

#[tokio::test]
async fn what_is_sent_and_what_comes_of_it() {
    let server = Server::with(events(&say("Hello."))).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let request = asked(
        MODEL,
        json!({
            "systemPrompt": "Be kind.", "assistantPrefill": "He", "reasoning": "low",
            "presetParams": {"temperature": 0.5, "max_tokens": 100, "params": {"top_k": 3}},
        }),
    );
    let (all, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((result.text.as_str(), result.error), ("Hello.", None));
    let usage = json!({
        "input": 10, "output": 8, "reasoning": 3, "cacheRead": 100, "cacheWrite": 0, "costTotal": 0.0, "priced": false,
    });
    assert_eq!(json!(result.usage), usage);
    assert!(matches!(all.last(), Some(Event::Done { model: Some(model), .. }) if model == "gemini-real"));

    let heard = server.heard.lock()[0].clone();
    let head = head(&heard);
    assert_eq!(
        head[0],
        "post /v1beta/models/gemini-3-flash-preview:streamgeneratecontent?alt=sse http/1.1"
    );
    assert!(head.contains(&format!("x-goog-api-key: {KEY}")), "{head:?}");
    assert!(!head.iter().any(|line| line.starts_with("authorization")), "{head:?}");
    let config = json!({
        "temperature": 0.5, "maxOutputTokens": 100, "topK": 3,
        "thinkingConfig": {"thinkingLevel": "low", "includeThoughts": true},
    });
    assert_eq!(
        server.bodies()[0],
        json!({
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"text": "He"}]},
            ],
            "generationConfig": config,
        })
    );
    assert_eq!(
        Value::Object(result.request_params.unwrap()),
        json!({"generationConfig": config})
    );
}

/// The first answer of a conversation: it thinks, says a word, and calls a tool twice.
fn first_round() -> String {
    let calls = json!([
        {"functionCall": {"name": "look", "args": {"what": "a🦋"}}, "thoughtSignature": "SIG"},
        {"functionCall": {"name": "look", "id": "fc_2"}},
    ]);
    chunk(json!([{"text": "Hm.", "thought": true}, {"text": "Let me see."}]), None) + &chunk(calls, Some("STOP"))
}

#[tokio::test]
async fn a_tool_round_gives_back_the_signatures() {
    let signed = chunk(json!([{"text": " A butterfly."}]), None)
        + &chunk(json!([{"text": "", "thoughtSignature": "SIG2"}]), Some("STOP"));
    let server = serving(vec![first_round(), signed, say("Yes.")]).await;
    let (endpoint, _vault) = keyed(&server, API, "/v1beta/");
    let look = Arc::new(Look::default());
    let (_, result) = talk(&endpoint, asked(MODEL, json!({})), look.clone()).await;
    assert_eq!(
        (result.text.as_str(), result.error.as_deref()),
        ("Let me see. A butterfly.", None)
    );
    assert_eq!(result.reasoning.as_deref(), Some("Hm."));
    assert_eq!(*look.0.lock(), [json!({"what": "a🦋"}), json!({})]);

    let bodies = server.bodies();
    assert_eq!(
        bodies[0]["tools"],
        json!([{"functionDeclarations": [{"name": "look", "description": "looks", "parametersJsonSchema": {
            "type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"],
        }}]}])
    );
    let round = json!([
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [
            {"text": "Let me see."},
            {"functionCall": {"name": "look", "args": {"what": "a🦋"}}, "thoughtSignature": "SIG"},
            {"functionCall": {"name": "look", "args": {}, "id": "fc_2"}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "look", "response": {"output": "seen a🦋"}}},
            {"functionResponse": {"name": "look", "response": {"error": "look at what?"}, "id": "fc_2"}},
        ]},
    ]);
    assert_eq!(bodies[1]["contents"], round);

    // And once more when the answer is sent along as a part of the conversation.
    let replayed = json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": result.text, "replay": result.replay.unwrap()},
        {"role": "user", "content": "sure?"},
    ]});
    talk(&endpoint, asked(MODEL, replayed), Arc::new(NoTools)).await;
    let body = server.bodies().pop().unwrap();
    let contents = body["contents"].as_array().unwrap();
    assert_eq!(contents[..3], round.as_array().unwrap()[..]);
    assert_eq!(
        contents[3..],
        [
            json!({"role": "model", "parts": [{"text": " A butterfly.", "thoughtSignature": "SIG2"}]}),
            json!({"role": "user", "parts": [{"text": "sure?"}]}),
        ]
    );
}

#[tokio::test]
async fn structured_output_by_a_forced_function() {
    let call = json!([{"functionCall": {"name": "__structured_output", "args": {"value": [1, 2]}}}]);
    let server = Server::with(events(&chunk(call, Some("STOP")))).await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let request = asked(MODEL, json!({"schema": {"type": "array"}}));
    let (_, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
    assert_eq!((result.json, result.error), (Some(json!([1, 2])), None));
    assert_eq!(
        server.bodies()[0]["toolConfig"],
        json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["__structured_output"]}})
    );
}

#[tokio::test]
async fn a_list_of_answers_from_a_server_that_knows_no_events() {
    let values: Vec<Value> = first_round()
        .split("data: ")
        .filter_map(|value| serde_json::from_str(value.trim()).ok())
        .collect();
    assert_eq!(values.len(), 2);
    let second = json!([{"candidates": [{"content": {"parts": [{"text": " Done."}]}, "finishReason": "STOP"}]}]);
    let first = Value::from(values);
    let server = Server::answering(move |request| {
        json_reply(
            "200 OK",
            if request.contains("functionResponse") {
                second.clone()
            } else {
                first.clone()
            },
        )
    })
    .await;
    let (endpoint, _vault) = keyed(&server, API, "");
    let look = Arc::new(Look::default());
    let (_, result) = talk(&endpoint, asked(MODEL, json!({})), look.clone()).await;
    assert_eq!((result.text.as_str(), result.error), ("Let me see. Done.", None));
    assert_eq!(look.0.lock().len(), 2);
}

#[tokio::test]
async fn what_a_model_refuses_is_left_out_from_then_on() {
    let server = Server::answering(|request| {
        let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
        let refusal = |message: &str| {
            let error = json!({"code": 400, "message": message, "status": "INVALID_ARGUMENT"});
            json_reply("400 Bad Request", json!({"error": error}))
        };
        match &body["generationConfig"]["thinkingConfig"] {
            Value::Null => events(&say("Fine.")),
            config if config.get("thinkingLevel").is_some() => {
                refusal("Thinking level is not supported for this model.")
            }
            _ => refusal("Thinking is not enabled for this model"),
        }
    })
    .await;
    let (endpoint, _vault) = keyed(&server, API, "");
    for requests in [3, 4] {
        let request = asked(MODEL, json!({"reasoning": "low"}));
        let (_, result) = talk(&endpoint, request, Arc::new(NoTools)).await;
        assert_eq!((result.text.as_str(), result.error), ("Fine.", None));
        assert_eq!(server.bodies().len(), requests);
    }
}

#[tokio::test]
async fn broken_answers_are_kept_and_reported_and_their_calls_not_run() {
    let whole = first_round();
    let before_end = whole.replace("\"STOP\"", "\"\"");
    assert_ne!(before_end, whole);
    let error = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let limit = whole.replace("\"STOP\"", "\"MAX_TOKENS\"");
    for (body, code) in [
        (whole[..whole.find("SIG").unwrap()].to_owned(), "truncated"),
        (before_end.clone(), "truncated"),
        (format!("{before_end}data: {error}\n\n"), "server"),
        (limit, "truncated"),
    ] {
        let server = Server::with(events(&body)).await;
        let (endpoint, _vault) = keyed(&server, API, "");
        let look = Arc::new(Look::default());
        let (all, result) = talk(&endpoint, asked(MODEL, json!({})), look.clone()).await;
        assert_eq!(failed(&all), Some(code), "{all:?}");
        assert_eq!((result.text.as_str(), result.truncated), ("Let me see.", true));
        assert!(look.0.lock().is_empty());
        assert_eq!(server.bodies().len(), 1);
        assert!(!format!("{all:?}{result:?}").contains("canary"));
    }
}

#[tokio::test]
async fn a_blocked_question_says_why() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}});
    for body in [
        events(&format!("data: {blocked}\n\n")),
        json_reply("200 OK", json!([blocked])),
    ] {
        let server = Server::with(body).await;
        let (endpoint, _vault) = keyed(&server, API, "");
        let (all, result) = talk(&endpoint, asked(MODEL, json!({})), Arc::new(NoTools)).await;
        assert_eq!(failed(&all), Some("refused"));
        assert!(matches!(all.last(), Some(Event::Failed(error)) if error.to_string().contains("SAFETY")));
        assert_eq!(result.usage.input, 4);
    }
}

#[tokio::test]
async fn a_server_that_nobody_here_wrote() {
    check_llmock(API, "/gemini/v1beta", "gemini-2.5-pro").await;
}

const WORDS: &[&str] = &[
    "candidates",
    "content",
    "parts",
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "name",
    "args",
    "id",
    "index",
    "finishReason",
    "finishMessage",
    "STOP",
    "SAFETY",
    "MAX_TOKENS",
    "MALFORMED_FUNCTION_CALL",
    "promptFeedback",
    "blockReason",
    "usageMetadata",
    "promptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "modelVersion",
    "responseId",
    "error",
    "role",
    "model",
    "inlineData",
    "",
];

/// An answer whose outer shape is right, so that what is within is looked at.
fn framed() -> impl Strategy<Value = Value> {
    let part = (json_of(WORDS), json_of(WORDS)).prop_map(|(text, call)| {
        let mut part = if text.is_object() { text } else { json!({"text": text}) };
        part["functionCall"] = call;
        part
    });
    let parts = prop::collection::vec(prop_oneof![json_of(WORDS), part], 0..4);
    (parts, json_of(WORDS), json_of(WORDS), json_of(WORDS)).prop_map(|(parts, reason, usage, index)| {
        let candidate = json!({"content": {"parts": parts}, "finishReason": reason, "index": index});
        json!({"candidates": [candidate, reason], "usageMetadata": usage})
    })
}

proptest! {
    #[test]
    fn foreign_answers_end_once(values in prop::collection::vec(prop_oneof![json_of(WORDS), framed()], 0..6)) {
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
