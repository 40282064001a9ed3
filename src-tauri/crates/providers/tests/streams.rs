//! Recordings of answers in the shapes that providers document, normal and broken (`streams/<wire format>/<case>.txt`: the
//! raw bytes of a body), each read whole, byte by byte and cut in two at every place, with one result. `<case>.json`
//! beside it says which. `UPDATE_SNAPSHOTS=1` writes those anew; then look at what changed.

use std::fs;
use std::path::{Path, PathBuf};

use providers::{Answer, Api, Event, replay};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/streams")
}

/// What an answer comes to, however it was cut: events that follow each other are put together.
fn outcome(events: Vec<Event>) -> Value {
    let mut answer = Answer::new("recording/model", None);
    let mut calls: Vec<Value> = Vec::new();
    let mut end = json!(null);
    for event in &events {
        answer.push(event);
        match event {
            Event::ToolCallDelta {
                index,
                id,
                name,
                arguments,
            } => calls.push(json!([index, id, name, arguments])),
            Event::Done {
                finish_reason,
                model,
                response_id,
                ..
            } => end = json!({"finish": finish_reason, "model": model, "id": response_id}),
            Event::Failed(error) => end = json!({"failed": error.kind.code(), "text": error.to_string()}),
            _ => {}
        }
    }
    let result = answer.finish();
    let parts: Vec<Value> = result.parts.iter().map(|part| without_times(json!(part))).collect();
    json!({
        "text": result.text, "reasoning": result.reasoning, "parts": parts, "calls": calls, "end": end,
        "usage": result.usage, "truncated": result.truncated,
    })
}

fn without_times(mut part: Value) -> Value {
    if let Some(fields) = part.as_object_mut() {
        fields.remove("ms");
    }
    part
}

fn cases(api: Api) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder().join(api.name())) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    found.sort();
    found
}

fn check(api: Api) {
    let cases = cases(api);
    assert!(cases.len() >= 8, "{}: only {} recordings", api.name(), cases.len());
    for path in cases {
        let bytes = fs::read(&path).unwrap();
        let whole = outcome(replay(api, &[&bytes]));
        for at in 0..=bytes.len() {
            let cut = outcome(replay(api, &[&bytes[..at], &bytes[at..]]));
            assert_eq!(cut, whole, "{} cut at byte {at}", path.display());
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(outcome(replay(api, &single)), whole, "{} byte by byte", path.display());
        let snapshot = path.with_extension("json");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&snapshot, format!("{whole:#}\n")).unwrap();
        }
        let known = fs::read_to_string(&snapshot).unwrap_or_else(|error| {
            panic!("{}: {error}; UPDATE_SNAPSHOTS=1 writes it", snapshot.display());
        });
        let known: Value = serde_json::from_str(&known).unwrap();
        assert_eq!(whole, known, "{}", path.display());
    }
}

#[test]
fn openai_completions() {
    check(Api::OpenaiCompletions);
}

#[test]
fn openai_responses() {
    check(Api::OpenaiResponses);
}

#[test]
fn anthropic_messages() {
    check(Api::AnthropicMessages);
}

#[test]
fn google_generative_ai() {
    check(Api::GoogleGenerativeAi);
}

#[test]
fn ollama() {
    check(Api::Ollama);
}

#[test]
fn openai_text() {
    check(Api::OpenaiText);
}
