use proptest::prelude::*;

use super::super::given::{Given, json_of, user};
use super::*;
use crate::Event;
use crate::picture::Picture;
use crate::progress::Progress;
use crate::wire::{Item, ModelTurn, SentCall, Thought, ToolReply};

#[test]
fn a_conversation_with_everything() {
    let turn = ModelTurn {
        text: "I look.".into(),
        thinking: vec![
            Thought {
                text: "sum".into(),
                mark: json!({"encrypted": "e1"}),
            },
            Thought {
                text: "only a summary".into(),
                mark: json!({"item": 3}),
            },
            Thought {
                text: "open".into(),
                mark: json!("plain"),
            },
            Thought {
                text: String::new(),
                mark: json!({"encrypted": "e2"}),
            },
        ],
        calls: vec![SentCall {
            id: "call_1".into(),
            name: "look".into(),
            args: json!({"at": 1}).as_object().unwrap().clone(),
            extra: None,
        }],
    };
    let replies = [ToolReply {
        id: "call_1".into(),
        name: "look".into(),
        text: "seen".into(),
        is_error: false,
    }];
    let images = [Picture::parse("data:image/png;base64,iVBORw0KGgo=").unwrap()];
    let items = [
        Item::User {
            text: "see",
            images: &images,
            system: false,
        },
        Item::Assistant { text: "" },
        Item::Assistant { text: "yes" },
        Item::Model(&turn),
        Item::Tools(&replies),
        Item::Prefill("Well"),
    ];
    let given = Given::new(&Responses, "gpt-5", json!({"sessionId": "s".repeat(70)})).choosing(None);
    let body = given.body_of(&items, Some("be kind"));
    let said = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    assert_eq!(
        Value::Object(body),
        json!({
            "model": "gpt-5", "stream": true, "store": false, "include": ["reasoning.encrypted_content"],
            "instructions": "be kind", "prompt_cache_key": "s".repeat(64),
            "tools": [{"type": "function", "name": "look", "description": "looks", "strict": false,
                "parameters": {"type": "object", "properties": {}}}],
            "input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"},
                ]},
                said("yes"),
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "sum"}], "encrypted_content": "e1"},
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "open"}]},
                {"type": "reasoning", "summary": [], "encrypted_content": "e2"},
                said("I look."),
                {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{\"at\":1}"},
                {"type": "function_call_output", "call_id": "call_1", "output": "seen"},
                said("Well"),
            ],
        })
    );
    let refused = given
        .refused(&items, "The encrypted content e1 could not be verified.")
        .unwrap();
    let body = given.quirk(refused).body_of(&items, None);
    assert!(!body.contains_key("include") && !talk::has_thinking(&body));
}

#[test]
fn settings_in_the_formats_own_words() {
    let given = Given::new(
        &Responses,
        "gpt-4.1",
        json!({"presetParams": {"temperature": 0.5, "max_tokens": 7, "params": {
            "max_tokens": 9, "top_p": 0.9, "stop": ["x"], "frequency_penalty": 1, "reasoning_effort": "low", "store": true,
            "previous_response_id": "resp_1", "input": "other", "model": "other", "text": {"verbosity": "low"},
        }}, "sessionId": "1", "cache": {"retention": "none"}}),
    );
    assert_eq!(
        Value::Object(given.body()),
        json!({
            "model": "gpt-4.1", "stream": true, "store": false, "temperature": 0.5, "max_output_tokens": 9, "top_p": 0.9,
            "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"},
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
        })
    );
}

#[test]
fn what_a_server_does_not_take_is_left_out_once() {
    let items = [user("hi")];
    let given = |choice, quirk| {
        let request = json!({"reasoning": "high", "presetParams": {"temperature": 1}});
        Given::new(&Responses, "gpt-5", request).choosing(choice).quirk(quirk)
    };
    let mut quirk = Quirk::default();
    for words in [
        "Your organization must be verified to generate reasoning summaries.",
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "Encrypted content is not supported with this model.",
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "tool_choice by name is unknown",
        "tool_choice is unknown",
    ] {
        let less = given(Some(Choice::Structured), quirk).refused(&items, words);
        assert_ne!(less, None, "{words}");
        quirk = less.unwrap();
        let body = given(Some(Choice::Structured), quirk).body();
        assert_eq!(
            given(Some(Choice::Structured), quirk).refused(&items, "input is wrong"),
            None
        );
        match words {
            words if words.contains("summaries") => assert_eq!(body["reasoning"], json!({"effort": "high"})),
            words if words.contains("effort") => assert!(!body.contains_key("reasoning")),
            words if words.contains("Encrypted") => assert!(!body.contains_key("include")),
            words if words.contains("temperature") => assert!(!body.contains_key("temperature")),
            words if words.contains("by name") => assert_eq!(body["tool_choice"], "required"),
            _ => assert!(!body.contains_key("tool_choice")),
        }
    }
    let named = given(Some(Choice::Structured), Quirk::default()).body();
    assert_eq!(named["tool_choice"], json!({"type": "function", "name": STRUCTURED}));
}

fn read(events: &[Value]) -> (Vec<Event>, Progress) {
    let (mut reader, mut progress, mut out) = (Events::default(), Progress::default(), Vec::new());
    for event in events {
        reader.read("", event, &mut progress, &mut out).unwrap();
    }
    (out, progress)
}

#[test]
fn encrypted_thinking_is_kept_with_its_summary() {
    let (out, progress) = read(&[
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "id": "rs_1"}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "a"}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1, "delta": "b"}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": {
            "type": "reasoning", "id": "rs_other", "encrypted_content": "e", "summary": [{"text": "a"}, {"text": "b"}]}}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": {
            "type": "reasoning", "encrypted_content": "f", "summary": []}}),
    ]);
    let thought: String = out
        .iter()
        .map(|event| match event {
            Event::Thinking(text) => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(thought, "a\n\nb");
    let kept: Vec<(&str, &Value)> = progress.thinking.iter().map(|t| (t.text.as_str(), &t.mark)).collect();
    assert_eq!(
        kept,
        [("a\n\nb", &json!({"encrypted": "e"})), ("", &json!({"encrypted": "f"}))]
    );
}

#[test]
fn calls_whose_items_are_not_numbered() {
    let added = |id: &str, name: &str| {
        json!({"type": "response.output_item.added",
            "item": {"type": "function_call", "id": id, "call_id": format!("call_{id}"), "name": name, "arguments": ""}})
    };
    let (_, progress) = read(&[
        added("a", "f"),
        json!({"type": "response.function_call_arguments.delta", "item_id": "a", "delta": "{\"x\":"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "a", "delta": "1}"}),
        json!({"type": "response.function_call_arguments.done", "item_id": "a", "arguments": "{\"x\":1}"}),
        added("b", "g"),
        json!({"type": "response.function_call_arguments.done", "item_id": "b", "arguments": "{\"y\":2}"}),
        json!({"type": "response.output_item.done", "item": {"type": "function_call", "id": "b", "call_id": "call_b",
            "name": "g", "arguments": "{\"y\":2}"}}),
        json!({"type": "response.completed", "response": {"status": "completed", "output": [
            {"type": "function_call", "id": "a", "call_id": "call_a", "name": "f", "arguments": "{\"x\":1}"}]}}),
    ]);
    let calls: Vec<(Option<String>, String, String)> = progress
        .calls
        .finish()
        .unwrap()
        .into_iter()
        .map(|call| (call.id, call.name, call.arguments))
        .collect();
    let call = |id: &str, name: &str, arguments: &str| (Some(id.to_owned()), name.to_owned(), arguments.to_owned());
    assert_eq!(
        calls,
        [call("call_a", "f", "{\"x\":1}"), call("call_b", "g", "{\"y\":2}")]
    );
}

proptest! {
    #[test]
    fn foreign_events_do_not_panic(
        events in proptest::collection::vec((proptest::sample::select(vec![
            "response.output_text.delta", "response.reasoning_summary_text.delta", "response.output_item.added",
            "response.output_item.done", "response.function_call_arguments.delta", "response.function_call_arguments.done",
            "response.completed", "response.incomplete", "response.failed", "error", "",
        ]), json_of(&[
            "type", "item", "id", "item_id", "output_index", "delta", "arguments", "summary", "content", "text", "response",
            "output", "status", "usage", "encrypted_content", "call_id", "name", "function_call", "reasoning", "message",
        ])), 0..8)
    ) {
        let (mut reader, mut progress, mut out) = (Events::default(), Progress::default(), Vec::new());
        for (name, event) in &events {
            let _ = reader.read(name, event, &mut progress, &mut out);
        }
        progress.done();
    }
}
