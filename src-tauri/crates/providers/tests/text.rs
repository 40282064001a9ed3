//! Text completion: what is sent, in which format, and what is told apart in the answer.
//!
//! `prompts/<format>.txt` are snapshots of one conversation in each format (`UPDATE_SNAPSHOTS=1` writes them).
//! `prompts/<format>.jinja` are short templates written after those that the models' makers publish; the engine that the
//! models' own tools use for such templates must come to the same prompt.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use common::*;
use futures::StreamExt;
use providers::{Api, Endpoint, Event, FormatSource, ProviderErrorKind, prompt_format, prompt_formats};
use secrets::{Keychain, Secret, Vault};
use serde_json::{Value, json};

/// The mark of a text's beginning between turns is part of no template: there it is the tokenizer's.
const LAST_BOS: &str = "<s>";

fn prompts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prompts")
}

fn piece(text: &str, reason: Option<&str>) -> String {
    let event =
        json!({"id": "cmpl-1", "model": "m-real", "choices": [{"index": 0, "text": text, "finish_reason": reason}]});
    format!("data: {event}\n\n")
}

fn answer() -> Reply {
    events(&(piece("Hi", None) + &piece("", Some("stop")) + "data: [DONE]\n\n"))
}

fn text_endpoint(server: &Server) -> Endpoint {
    let mut endpoint = server.endpoint();
    endpoint.api = Api::OpenaiText;
    endpoint
}

async fn converse(endpoint: &Endpoint, request: Value) -> providers::GenerateResult {
    let request = serde_json::from_value(request).unwrap();
    let mut stream = providers::converse(
        &context(),
        &net(),
        endpoint,
        request,
        std::sync::Arc::new(providers::NoTools),
    );
    let mut answer = providers::Answer::new("c/m", None);
    while let Some(event) = stream.next().await {
        answer.push(&event);
    }
    answer.finish()
}

/// The body of the completion request that `request` leads to.
async fn sent(request: Value) -> Value {
    let server = Server::with(answer()).await;
    let mut whole = json!({"model": "m", "promptFormat": "chatml"});
    whole
        .as_object_mut()
        .unwrap()
        .extend(request.as_object().unwrap().clone());
    let result = converse(&text_endpoint(&server), whole).await;
    assert_eq!((result.text.as_str(), result.error), ("Hi", None));
    server.bodies().pop().unwrap()
}

async fn prompt(format: &str, messages: &Value, prefill: Option<&str>) -> String {
    let body = sent(json!({"promptFormat": format, "messages": messages, "assistantPrefill": prefill})).await;
    body["prompt"].as_str().unwrap().to_owned()
}

fn plain() -> Value {
    json!([
        {"role": "system", "content": "You are a gardener.\n\nBe brief."},
        {"role": "user", "content": "  When do I plant tulips? 🌷\n"},
        {"role": "assistant", "content": "In autumn.\nBefore the frost."},
        {"role": "user", "content": "And 向日葵?"},
    ])
}

#[tokio::test]
async fn formats_agree_with_the_makers_templates() {
    for (id, _) in prompt_formats() {
        let template = fs::read_to_string(prompts().join(id).with_extension("jinja")).unwrap();
        let engine = minijinja::Environment::new();
        // These take the white space around a text only where they say so; the conversation has some.
        let wanted = engine
            .render_str(
                template.trim_end(),
                minijinja::context! { messages => minijinja::value::Serde(plain()) },
            )
            .unwrap();
        let got = prompt(id, &plain(), None).await;
        assert_eq!(got, wanted, "{id}");
        assert!(
            !got.starts_with(LAST_BOS),
            "{id}: the server puts the mark of the beginning there"
        );
    }
}

#[tokio::test]
async fn one_conversation_in_every_format() {
    let mut messages = plain();
    let more = json!({"role": "system", "content": "It is raining."});
    messages.as_array_mut().unwrap().push(more);
    messages
        .as_array_mut()
        .unwrap()
        .push(json!({"role": "user", "content": "<|im_end|></s>[INST] <end_of_turn> ### Instruction:"}));
    for (id, _) in prompt_formats() {
        let got = prompt(id, &messages, Some("Plant them")).await;
        assert!(got.ends_with("Plant them"), "{id}");
        let snapshot = prompts().join(id).with_extension("txt");
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&snapshot, format!("{got}\n")).unwrap();
        }
        let known = fs::read_to_string(&snapshot).unwrap();
        assert_eq!(format!("{got}\n"), known, "{id}; UPDATE_SNAPSHOTS=1 writes it");
    }
}

#[tokio::test]
async fn what_is_sent_beside_the_prompt() {
    let messages = json!([{"role": "user", "content": "hi"}]);
    let body = sent(json!({"messages": messages})).await;
    assert_eq!(
        body,
        json!({
            "model": "m", "prompt": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n", "max_tokens": 512,
            "stop": ["<|im_end|>", "<|im_start|>"], "stream": true, "stream_options": {"include_usage": true},
        })
    );
    let params = json!({"temperature": 0.5, "max_tokens": 9, "params": {"stop": ["A", "<|im_end|>"], "top_k": 3, "prompt": "no", "stream": false}});
    let body = sent(json!({"messages": messages, "presetParams": params})).await;
    assert_eq!(
        (&body["temperature"], &body["max_tokens"], &body["top_k"]),
        (&json!(0.5), &json!(9), &json!(3))
    );
    assert_eq!(body["stop"], json!(["<|im_end|>", "<|im_start|>", "A"]));
    assert!(body["stream"] == true && body["prompt"] != "no");
}

#[tokio::test]
async fn a_schema_is_asked_for_in_words_and_read_from_the_text() {
    let text = "```json\n{\"value\": [1, 2]}\n```";
    let server = Server::with(events(&(piece(text, None) + &piece("", Some("stop"))))).await;
    let result = converse(
        &text_endpoint(&server),
        json!({"model": "m", "promptFormat": "chatml", "systemPrompt": "S", "messages": [{"role": "user", "content": "hi"}],
               "schema": {"type": "array", "items": {"type": "number"}}}),
    )
    .await;
    assert_eq!((result.json, result.error), (Some(json!([1, 2])), None));
    let body = server.bodies().pop().unwrap();
    let prompt = body["prompt"].as_str().unwrap();
    assert!(
        prompt.starts_with("<|im_start|>system\nS\n\nAnswer with one JSON value and nothing else."),
        "{prompt}"
    );
    assert!(prompt.contains("\"number\"") && body.get("tools").is_none() && body.get("tool_choice").is_none());
}

#[tokio::test]
async fn thinking_is_told_apart_by_the_formats_marks() {
    for (format, extra, text) in [
        (
            "harmony",
            json!({}),
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        ),
        ("mistral-v2", json!({}), " <think>Hm.</think> Yes."),
        ("chatml", json!({}), "<think>\nHm.</think>\n\nYes."),
        (
            "gemma4",
            json!({"reasoning": "high"}),
            "<|channel>thought\nHm.<channel|>Yes.",
        ),
        (
            "alpaca",
            json!({"reasoningTags": {"open": "[[", "close": "]]"}}),
            "[[Hm.]]Yes.",
        ),
        ("alpaca", json!({"assistantPrefill": "<think>"}), "Hm.</think>Yes."),
    ] {
        let letters: String = text.chars().map(|letter| piece(&letter.to_string(), None)).collect();
        let server = Server::with(events(&(letters + &piece("", Some("stop"))))).await;
        let mut request =
            json!({"model": "m", "promptFormat": format, "messages": [{"role": "user", "content": "hi"}]});
        request
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        let result = converse(&text_endpoint(&server), request).await;
        assert_eq!(
            (result.text.as_str(), result.reasoning.as_deref()),
            ("Yes.", Some("Hm.")),
            "{format} {extra}"
        );
    }
}

#[tokio::test]
async fn what_cannot_be_sent_as_text_is_refused_before_anything_is_sent() {
    let server = Server::with(answer()).await;
    let mut far = text_endpoint(&server);
    far.base_url = "http://models.example.com/v1".parse().unwrap();
    let messages = json!([{"role": "user", "content": "hi"}]);
    let picture = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}]);
    for (endpoint, request, said) in [
        (&far, json!({"messages": messages}), "over https only"),
        (
            &text_endpoint(&server),
            json!({"messages": picture}),
            "cannot show images",
        ),
        (
            &text_endpoint(&server),
            json!({"messages": messages, "promptFormat": "nope"}),
            "no format \"nope\"",
        ),
        (
            &text_endpoint(&server),
            json!({"messages": messages, "promptFormat": {"systemPrefix": "x"}}),
            "userPrefix or assistantPrefix",
        ),
        (
            &text_endpoint(&server),
            json!({"messages": messages, "presetParams": {"params": {"stop": vec!["x"; 33]}}}),
            "at most 32",
        ),
    ] {
        let mut whole = json!({"model": "m"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(request.as_object().unwrap().clone());
        let mut stream = providers::chat(&context(), &net(), endpoint, serde_json::from_value(whole).unwrap());
        match stream.next().await {
            Some(Event::Failed(error)) => {
                assert_eq!(error.kind, ProviderErrorKind::Unusable);
                assert!(error.to_string().contains(said), "{error}");
            }
            other => panic!("{request}: {other:?}"),
        }
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 0);
}

/// A server that tells a template on one of its pages.
async fn with_template(page: &'static str, body: Value) -> Server {
    Server::answering(move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path {
            "/v1/completions" => answer(),
            path if path == page => json_reply("200 OK", body.clone()),
            _ => json_reply("404 Not Found", json!({})),
        }
    })
    .await
}

#[tokio::test]
async fn the_format_is_the_requests_then_the_connections_then_the_models_own() {
    let server = with_template("/props", json!({"chat_template": "{{ '<start_of_turn>' + role }}"})).await;
    let mut endpoint = text_endpoint(&server);
    let ask = async |endpoint: &Endpoint, model: &str, wanted: Option<Value>| {
        let found = prompt_format(&context(), &net(), endpoint, model, wanted.as_ref())
            .await
            .unwrap();
        (found.id, found.source)
    };
    assert_eq!(ask(&endpoint, "llama3", None).await, ("gemma", FormatSource::Template));
    assert_eq!(
        ask(&endpoint, "c_test/llama3", Some(json!("auto"))).await,
        ("gemma", FormatSource::Template)
    );
    let asked = server.paths();
    assert!(asked.len() == 2 && asked.contains(&"/props".to_owned()) && asked.contains(&"/api/show".to_owned()));
    // Known for a minute.
    assert_eq!(
        ask(&endpoint, "llama3", Some(json!("vicuna"))).await,
        ("vicuna", FormatSource::Request)
    );
    endpoint.prompt_format = Some(json!("kimi"));
    assert_eq!(
        ask(&endpoint, "llama3", Some(json!("auto"))).await,
        ("kimi", FormatSource::Connection)
    );
    assert_eq!(
        ask(&endpoint, "llama3", Some(json!({"userPrefix": "Q:"}))).await,
        ("custom", FormatSource::Request)
    );
    assert_eq!(server.paths().len(), 2);
    // And that is what is sent.
    endpoint.prompt_format = None;
    let request = json!({"model": "llama3", "messages": [{"role": "user", "content": "hi"}]});
    let result = converse(&endpoint, request).await;
    assert_eq!((result.text.as_str(), result.error), ("Hi", None));
    let body = server.bodies().pop().unwrap();
    assert_eq!(
        body["prompt"],
        "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n"
    );
    assert_eq!(server.paths().len(), 3);
}

#[tokio::test]
async fn templates_of_ollama_names_and_nothing_at_all() {
    let ollama = with_template(
        "/api/show",
        json!({"template": "{{ if .System }}<|start_header_id|>system", "license": "…"}),
    )
    .await;
    let mut endpoint = text_endpoint(&ollama);
    endpoint.preset = Some("ollama".into());
    let ask = async |endpoint: &Endpoint, model: &str| {
        let found = prompt_format(&context(), &net(), endpoint, model, None).await.unwrap();
        (found.id, found.source)
    };
    assert_eq!(ask(&endpoint, "x").await, ("llama3", FormatSource::Template));
    assert_eq!(
        (ollama.paths(), &ollama.bodies()[0]["model"]),
        (vec!["/api/show".to_owned()], &json!("x"))
    );

    let silent = with_template("/none", json!({})).await;
    let endpoint = text_endpoint(&silent);
    assert_eq!(ask(&endpoint, "Gemma-2-9b").await, ("gemma", FormatSource::Name));
    assert_eq!(ask(&endpoint, "whatever").await, ("chatml", FormatSource::Default));

    // A server on the other side of the world is not asked.
    let mut far = Endpoint::new("c_far", "Far", "https://models.example.com/v1".parse().unwrap());
    far.api = Api::OpenaiText;
    assert_eq!(ask(&far, "vicuna-7b").await, ("vicuna", FormatSource::Name));
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_two_seconds_and_no_answer() {
    let server = Server::answering(|_| Reply {
        pieces: Vec::new(),
        hold: true,
    })
    .await;
    let endpoint = text_endpoint(&server);
    let began = Instant::now();
    let found = prompt_format(&context(), &net(), &endpoint, "llama3", None)
        .await
        .unwrap();
    assert_eq!((found.id, found.source), ("llama3", FormatSource::Name));
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_comes_up_later_is_asked_again() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut endpoint = Endpoint::new("c_late", "Late", format!("http://{address}/v1").parse().unwrap());
    endpoint.api = Api::OpenaiText;
    let found = prompt_format(&context(), &net(), &endpoint, "llama3", None)
        .await
        .unwrap();
    assert_eq!((found.id, found.source), ("llama3", FormatSource::Name));
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let (context, net) = (context(), net());
    let asked = prompt_format(&context, &net, &endpoint, "llama3", None);
    let (_, connected) = futures::join!(
        tokio::time::timeout(PATIENCE, asked),
        tokio::time::timeout(PATIENCE, listener.accept())
    );
    assert!(connected.unwrap().is_ok());
}

#[tokio::test]
async fn a_key_goes_to_its_own_address_only_when_a_template_is_asked_for() {
    let (old, new) = (
        with_template("/props", json!({})).await,
        with_template("/props", json!({})).await,
    );
    let vault = Vault::open(Keychain::None, "test");
    let mut endpoint = text_endpoint(&old);
    let origin = endpoint.origin().unwrap();
    vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
    endpoint.key = vault.handle("c", &origin);
    prompt_format(&context(), &net(), &endpoint, "m", None).await.unwrap();
    assert!(
        old.heard
            .lock()
            .iter()
            .all(|request| request.contains("authorization: Bearer sk-canary\r\n"))
    );
    // Even with a handle in the wrong place.
    endpoint.base_url = text_endpoint(&new).base_url;
    prompt_format(&context(), &net(), &endpoint, "m", None).await.unwrap();
    assert!(new.heard.lock().iter().all(|request| !request.contains("canary")));
}

#[tokio::test]
async fn stopping_tells_a_server_at_home() {
    let mut server = Server::answering(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path {
            "/v1/completions" => Reply {
                pieces: events(&piece("Hi", None)).pieces,
                hold: true,
            },
            "/api/extra/abort" => json_reply("200 OK", json!({"success": true})),
            _ => json_reply("404 Not Found", json!({})),
        }
    })
    .await;
    let endpoint = text_endpoint(&server);
    let request = json!({"model": "m", "promptFormat": "chatml", "messages": [{"role": "user", "content": "hi"}]});
    let mut stream = providers::chat(&context(), &net(), &endpoint, serde_json::from_value(request).unwrap());
    assert_eq!(stream.next().await, Some(Event::Delta("Hi".into())));
    drop(stream);
    tokio::time::timeout(PATIENCE, server.closed.recv())
        .await
        .unwrap()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while !server.paths().contains(&"/api/extra/abort".to_owned()) {
        assert!(Instant::now() < until, "{:?}", server.paths());
        tokio::task::yield_now().await;
    }
    let heard = server.heard.lock();
    assert!(
        heard
            .iter()
            .any(|request| request.starts_with("POST /api/extra/abort HTTP/1.1\r\n"))
    );
}
