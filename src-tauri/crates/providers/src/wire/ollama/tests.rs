use proptest::prelude::*;

use super::super::given::{Given, user};
use super::*;
use crate::picture::Picture;
use crate::wire::{ModelTurn, SentCall, Thought, ToolReply};

const PIXEL: &str = "iVBORw0KGgo=";

#[test]
fn a_conversation_with_everything() {
    let turn = ModelTurn {
        text: "I look.".into(),
        thinking: vec![Thought {
            text: "hm".into(),
            mark: Value::Null,
        }],
        calls: vec![SentCall {
            id: "call_0_0".into(),
            name: "look".into(),
            args: json!({"at": 1}).as_object().unwrap().clone(),
            extra: None,
        }],
    };
    let replies = [ToolReply {
        id: "call_0_0".into(),
        name: "look".into(),
        text: "seen".into(),
        is_error: false,
    }];
    let images = [Picture::parse(&format!("data:image/png;base64,{PIXEL}")).unwrap()];
    let items = [
        Item::User {
            text: "see",
            images: &images,
            system: false,
        },
        Item::Model(&turn),
        Item::Tools(&replies),
    ];
    let given = Given::new(&Ollama, "m", json!({})).choosing(Some(Choice::Required));
    let body = given.body_of(&items, Some("be kind"));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": "see", "images": [PIXEL]},
            {"role": "assistant", "content": "I look.", "thinking": "hm",
             "tool_calls": [{"id": "call_0_0", "function": {"name": "look", "arguments": {"at": 1}}}]},
            {"role": "tool", "content": "seen", "tool_name": "look", "tool_call_id": "call_0_0"},
        ])
    );
    assert_eq!(body["tools"][0]["function"]["name"], "look");
    assert!(!body.contains_key("tool_choice") && !body.contains_key("options") && !body.contains_key("think"));
    let none = given.quirk(Quirk {
        no_thinking_back: true,
        ..Quirk::default()
    });
    assert!(none.body_of(&items, None)["messages"][1].get("thinking").is_none());
}

#[test]
fn settings_are_options_unless_they_stand_beside() {
    let given = Given::new(
        &Ollama,
        "m",
        json!({"presetParams": {"temperature": 0.5, "max_tokens": 7, "params": {
            "top_p": 0.9, "repetition_penalty": 1.1, "keep_alive": "5m", "options": {"num_ctx": 8192}, "messages": [],
            "reasoning_effort": "high", "stream": false, "model": "other",
        }}}),
    );
    assert_eq!(
        Value::Object(given.body()),
        json!({
            "model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": true, "keep_alive": "5m",
            "options": {"temperature": 0.5, "num_predict": 7, "top_p": 0.9, "repeat_penalty": 1.1, "num_ctx": 8192},
        })
    );
}

#[test]
fn a_json_answer_is_asked_for_with_its_schema() {
    let mut given = Given::new(&Ollama, "m", json!({})).choosing(Some(Choice::Structured));
    given.tools = vec![crate::Tool::structured(
        &json!({"type": "object", "properties": {"a": {}}}),
    )];
    let body = given.body();
    assert_eq!(body["format"], json!({"type": "object", "properties": {"a": {}}}));
    assert!(!body.contains_key("tools"));
}

#[test]
fn thinking_in_the_words_a_model_knows() {
    let sent = |model, level: &str, quirk| {
        let given = Given::new(&Ollama, model, json!({"reasoning": level})).quirk(quirk);
        given.body().get("think").cloned()
    };
    let usual = Quirk::default();
    assert_eq!(sent("qwen3", "off", usual), Some(json!(false)));
    assert_eq!(sent("qwen3", "high", usual), Some(json!(true)));
    assert_eq!(sent("gpt-oss:20b", "minimal", usual), Some(json!("low")));
    assert_eq!(sent("gpt-oss:20b", "max", usual), Some(json!("high")));
    assert_eq!(sent("qwen3", "", usual), None);

    let given = |model, quirk| Given::new(&Ollama, model, json!({"reasoning": "low"})).quirk(quirk);
    let items = [user("hi")];
    let none = given("qwen", usual)
        .refused(&items, "\"qwen\" does not support thinking")
        .unwrap();
    assert!(none.no_reasoning);
    assert_eq!(sent("qwen", "low", none), None);
    let levels = given("new", usual).refused(&items, "think value true is not supported for this model");
    assert_eq!(sent("new", "low", levels.unwrap()), Some(json!("low")));
    let last = given("new", levels.unwrap()).refused(&items, "think value \"low\" is not supported for this model");
    assert!(last.unwrap().no_reasoning);
    assert_eq!(
        given("new", last.unwrap()).refused(&items, "does not support thinking"),
        None
    );
}

#[test]
fn text_that_is_the_structured_output() {
    let (mut reader, mut progress, mut out) = (Lines::default(), Progress::default(), Vec::new());
    reader.text_is_structured();
    for part in ["", "{\"a\"", ":1}"] {
        let line = json!({"message": {"role": "assistant", "content": part, "thinking": "t"}, "done": false});
        assert_eq!(reader.read("", &line, &mut progress, &mut out).unwrap(), Next::More);
    }
    let line = json!({"message": {"content": ""}, "done": true, "done_reason": "stop"});
    assert_eq!(reader.read("", &line, &mut progress, &mut out).unwrap(), Next::Last);
    assert_eq!(progress.calls.arguments_of(STRUCTURED), Some("{\"a\":1}"));
    assert!(!out.iter().any(|event| matches!(event, Event::Delta(_))));
}

proptest! {
    #[test]
    fn foreign_lines_do_not_panic(lines in proptest::collection::vec(super::super::given::json_of(&[
        "message", "content", "thinking", "tool_calls", "function", "name", "arguments", "done", "done_reason", "eval_count",
    ]), 0..6)) {
        let (mut reader, mut progress, mut out) = (Lines::default(), Progress::default(), Vec::new());
        for line in &lines {
            let _ = reader.read("", line, &mut progress, &mut out);
        }
        progress.done();
    }
}
