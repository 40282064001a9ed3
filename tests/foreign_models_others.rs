//! The built program against two more model servers that nobody here wrote: `fakellm`, which answers by rules and knows
//! conversations, and `mock-llm`, which can be told any answer. What `llmock` is for is in `foreign_models.rs`.

#[allow(dead_code)]
#[path = "foreign/kit.rs"]
mod kit;

use kit::{Lab, connections_to};
use serde_json::{Value, json};
use testkit::fakellm::Fakellm;
use testkit::mock_llm::MockLlm;
use testkit::wait_for;

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

const RULES: &str = r#"
version: 1
rules:
  - name: weather_calls
    when: { turn: 1, tools_include: get_weather, messages_contain: two cities }
    respond:
      tool_calls:
        - { name: get_weather, arguments: { city: Paris } }
        - { name: get_weather, arguments: { city: "Lima 🦋" } }
  - name: weather_told
    when: { turn: 2, tool_result_contains: sunny in lima }
    respond: { content: "Sunny in both." }
  - name: long
    when: { messages_contain: tell me everything }
    respond: { content: "LONG" }
  - name: repeats
    when: { messages_contain: you repeat }
    respond: { content: "Über alles: “日本語” 🦋" }
"#;

/// Both of its formats: a conversation, a stream in pieces, a tool in two turns, a stop that reaches it.
#[test]
fn fakellm_in_both_of_its_formats() {
    let words: String = (0..2000).map(|n| format!("word{n} ")).collect();
    let Some(fakellm) = Fakellm::start(&RULES.replace("LONG", words.trim_end())) else {
        return;
    };
    let lab = Lab::open(PROGRAM);
    for (api, base, model) in [
        ("openai-completions", "/v1", "gpt-4o"),
        ("anthropic-messages", "", "claude-sonnet-4-5"),
    ] {
        fakellm.reset();
        // It lists no models, so they are typed.
        let typed = json!({"models": [model], "key": "sk-test-of-a-test-0123456789"});
        let id = lab.connect(api, api, &fakellm.at(base), typed);
        assert_eq!(lab.models(&id), [model], "{api}");
        let name = format!("{id}/{model}");
        // No rule: an answer made of the request.
        let answer = lab.ask(&name, "Hello?", json!({}));
        assert!(
            answer.whole().text().starts_with("[mock response for"),
            "{api}: {answer:?}"
        );
        assert!(answer.parts.len() > 3, "{api}: {answer:?}");
        // It counts tokens in one of its formats only. Not counted is not free.
        let usage = &answer.result["usage"];
        assert_eq!(
            usage["output"].as_u64().unwrap() > 0,
            api == "anthropic-messages",
            "{api}: {usage}"
        );
        assert_eq!(usage["priced"], false, "{api}: {usage}");
        // The system prompt arrives where it looks for it.
        let answer = lab.ask(&name, "Say it.", json!({"systemPrompt": "You repeat."}));
        assert_eq!(answer.whole().text(), "Über alles: “日本語” 🦋", "{api}");
        // Two calls in pieces; their results are recognised in the next turn.
        let answer = lab.ask(&name, "How is it in two cities?", json!({"wantsTools": true}));
        assert_eq!(answer.whole().text(), "Sunny in both.", "{api}: {answer:?}");
        assert_eq!(
            lab.calls(),
            [json!({"city": "Paris"}), json!({"city": "Lima 🦋"})],
            "{api}"
        );
        let conversations = fakellm.stats()["conversations"].to_string();
        assert!(
            conversations.contains("\"tool_results_seen\":2"),
            "{api}: {conversations}"
        );
        // Stopped in the middle of 20 seconds of talk.
        let (chat, asking) = lab.begin(&name, "Tell me everything.", json!({}));
        lab.wait_in(&chat, |event| event["delta"].is_string());
        assert!(connections_to(fakellm.port()) > 0, "{api}");
        lab.stop(&chat);
        let answer = asking.join().unwrap();
        assert_eq!(answer.result["stopped"], true, "{api}: {answer:?}");
        assert!(
            words.starts_with(answer.text()) && answer.text().len() < words.len() / 2,
            "{api}"
        );
        wait_for("the connection to fakellm to be closed", || {
            (connections_to(fakellm.port()) == 0).then_some(())
        });
    }
    let asked = fakellm.stats();
    eprintln!(
        "fakellm: {} requests, by rule {}",
        asked["total_requests"], asked["by_rule"]
    );
    // Two formats, and each of their five questions once; the one with a tool in two turns.
    assert_eq!(asked["total_requests"], 10, "{asked}");
    assert_eq!(asked["by_rule"]["weather_calls"], 2, "{asked}");
    assert_eq!(asked["by_rule"]["weather_told"], 2, "{asked}");
}

/// A server without a model list is one whose models must be typed, and the list's error says where it looked.
#[test]
fn fakellm_has_no_list_of_models() {
    let Some(fakellm) = Fakellm::start("version: 1\nrules: []\n") else {
        return;
    };
    let lab = Lab::open(PROGRAM);
    let id = lab.connect("fakellm", "openai-completions", &fakellm.at("/v1"), json!({}));
    let all = lab.owner.get("/v1/models?fresh=1").ok();
    let errors = all["errors"].as_array().unwrap().iter();
    let error = errors
        .map(Value::to_string)
        .find(|error| error.contains(&id))
        .unwrap_or_default();
    assert!(error.contains("404") && error.contains("/v1/models"), "{all}");
}

/// What mock-llm is to answer, from the last rule that fits.
fn rule(matches: &str, status: u16, content: Value) -> Value {
    let response = json!({"status": status, "content": content.to_string()});
    json!({"path": "/v1/chat/completions", "match": matches, "response": response})
}

fn says(text: &str) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-5.2", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})
}

/// It cuts texts between any two UTF-16 units, so that a butterfly arrives as two halves that are no letters by
/// themselves.
#[test]
fn mock_llm_lists_chats_streams_and_is_stopped() {
    let Some(mock) = MockLlm::start() else { return };
    let lab = Lab::open(PROGRAM);
    let key = "sk-test-of-a-test-0123456789";
    let id = lab.connect("mock-llm", "openai-completions", &mock.at("/v1"), json!({"key": key}));
    assert_eq!(lab.models(&id), ["gpt-5.2"]);
    let name = format!("{id}/gpt-5.2");
    // As it comes: the last message back.
    let answer = lab.ask(
        &name,
        "An echo of these words, in pieces of fifty characters each.",
        json!({}),
    );
    assert_eq!(
        answer.whole().text(),
        "An echo of these words, in pieces of fifty characters each."
    );
    assert_eq!(answer.result["usage"]["priced"], false);
    // The key arrives as it should, and so do the settings.
    let wanted = format!("headers.authorization == 'Bearer {key}' && body.temperature == `0.5` && body.stream");
    mock.configure(&json!({"streaming": {"chunkSize": 3, "chunkIntervalMs": 1}, "rules": [
        rule("@", 200, says("not as it should be")), rule(&wanted, 200, says("as it should be"))]}));
    let answer = lab.ask(&name, "Hello?", json!({"presetParams": {"temperature": 0.5}}));
    assert_eq!(answer.whole().text(), "as it should be");
    assert!(answer.parts.len() > 2, "{answer:?}");
    // A stop.
    let words: String = (0..2000).map(|n| format!("word{n} ")).collect();
    mock.configure(
        &json!({"streaming": {"chunkSize": 6, "chunkIntervalMs": 10}, "rules": [rule("@", 200, says(&words))]}),
    );
    let (chat, asking) = lab.begin(&name, "Tell me everything.", json!({}));
    lab.wait_in(&chat, |event| event["delta"].is_string());
    assert!(connections_to(mock.port()) > 0);
    lab.stop(&chat);
    let answer = asking.join().unwrap();
    assert_eq!(answer.result["stopped"], true, "{answer:?}");
    assert!(words.starts_with(answer.text()) && answer.text().len() < words.len() / 2);
    wait_for("the connection to mock-llm to be closed", || {
        (connections_to(mock.port()) == 0).then_some(())
    });
    // Halves of letters.
    let butterflies = "a🦋bc🦋d";
    mock.configure(&json!({"streaming": {"chunkSize": 2, "chunkIntervalMs": 1}, "rules": [
        rule("@", 200, says(butterflies))]}));
    let answer = lab.ask(&name, "Fly.", json!({}));
    assert_eq!(answer.whole().text(), butterflies);
}

/// It streams errors with status 200, and answers whole where no stream is possible.
#[test]
fn mock_llm_reports_errors_within_a_stream() {
    let Some(mock) = MockLlm::start() else { return };
    let lab = Lab::open(PROGRAM);
    let id = lab.connect(
        "mock-llm",
        "openai-completions",
        &mock.at("/v1"),
        json!({"models": ["gpt-5.2"]}),
    );
    let name = format!("{id}/gpt-5.2");
    for (status, message, code, kind) in [
        (401, "Incorrect API key provided.", "invalid_api_key", "key"),
        (
            429,
            "Rate limit reached for gpt-5.2.",
            "rate_limit_exceeded",
            "rate_limit",
        ),
        (
            500,
            "The server had an error while processing your request.",
            "server_error",
            "server",
        ),
    ] {
        let error = json!({"error": {"message": message, "type": "an_error", "param": null, "code": code}});
        mock.configure(&json!({"streaming": {"chunkSize": 50, "chunkIntervalMs": 1}, "rules": [
            rule("@", status, error)]}));
        let answer = lab.ask(&name, "Hello?", json!({}));
        answer.failed();
        eprintln!("{status}: [{}] {}", answer.kind(), answer.error());
        assert!(
            answer.error().contains(message) && answer.text().is_empty(),
            "{answer:?}"
        );
        assert_eq!(
            (answer.kind(), &answer.result["errorInfo"]["code"]),
            (kind, &json!(code)),
            "{answer:?}"
        );
    }
    // It knows no such path.
    let id = lab.connect(
        "elsewhere",
        "openai-completions",
        &mock.at("/v7"),
        json!({"models": ["m"]}),
    );
    let answer = lab.ask(&format!("{id}/m"), "Hello?", json!({}));
    answer.failed();
    assert!(
        answer.error().contains("404") && answer.kind() == "not_the_api",
        "{answer:?}"
    );
    let logged = lab.logged();
    assert!(logged.contains("/v7/chat/completions"), "{logged}");
}

/// Gemini's requests do not say "stream" in their body, so mock-llm answers them in one piece of JSON. Tools work all the
/// same; its rules see that the call's answer went back as it should.
#[test]
fn mock_llm_answers_whole_where_a_stream_was_asked_for() {
    let Some(mock) = MockLlm::start() else { return };
    let lab = Lab::open(PROGRAM);
    let says = |parts: Value| {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12}})
    };
    let rule = |matches: &str, content: Value| {
        let response = json!({"status": 200, "content": content.to_string()});
        json!({"path": "/v1beta/models/gemini-x:streamGenerateContent", "match": matches, "response": response})
    };
    let call = json!([{"functionCall": {"name": "get_weather", "args": {"city": "Lima"}}}]);
    let told = "body.contents[-1].parts[0].functionResponse.name == 'get_weather' && query.alt == 'sse' \
        && headers.\"x-goog-api-key\" == 'sk-test-of-a-test-0123456789' && query.key == `null`";
    let models = json!({"models": [{"name": "models/gemini-x", "supportedGenerationMethods": ["generateContent"]}]});
    mock.configure(&json!({"streaming": {"chunkSize": 50, "chunkIntervalMs": 1}, "rules": [
        {"path": "/v1beta/models$", "method": "GET", "response": {"status": 200, "content": models.to_string()}},
        rule("@", says(call)),
        rule(told, says(json!([{"text": "Sunny, "}, {"text": "as always."}]))),
    ]}));
    let key = json!({"key": "sk-test-of-a-test-0123456789"});
    let id = lab.connect("mock-llm", "google-generative-ai", &mock.at(""), key);
    assert_eq!(lab.models(&id), ["gemini-x"]);
    let answer = lab.ask(
        &format!("{id}/gemini-x"),
        "How is it in Lima?",
        json!({"wantsTools": true}),
    );
    assert_eq!(answer.whole().text(), "Sunny, as always.");
    assert_eq!(lab.calls(), [json!({"city": "Lima"})]);
    assert_eq!(answer.result["usage"]["output"], 14, "{answer:?}");
}
