//! The built program against `llmock`, in the formats of ten providers: listing, chat, streaming, tools, structured
//! output, stopping and errors. What it does when streams break is in `foreign_models_chaos.rs`.

#[allow(dead_code)]
#[path = "foreign/kit.rs"]
mod kit;

use kit::{Asked, Lab, PROVIDERS, Provider};
use serde_json::{Value, json};
use testkit::llmock::Llmock;
use testkit::wait_for;

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

struct Bench {
    lab: Lab,
    llmock: Llmock,
}

impl Bench {
    fn open(arguments: &[&str]) -> Option<Self> {
        let llmock = Llmock::start(arguments)?;
        let lab = Lab::open(PROGRAM);
        Some(Self { lab, llmock })
    }

    /// The `connection/model` to ask for.
    fn model(&self, provider: Provider) -> String {
        let base = self.llmock.at(provider.base);
        let key = json!({"key": "sk-test-of-a-test-0123456789"});
        let id = self.lab.connect(provider.name, provider.api, &base, key);
        format!("{id}/{}", provider.model)
    }

    /// The model requests since this was asked last, which must be of this provider.
    #[track_caller]
    fn asked(&self, provider: Provider) -> Vec<Value> {
        let asked = self.llmock.asked();
        for request in &asked {
            assert_eq!(request["path"], provider.asked_at, "{}", provider.name);
        }
        self.llmock.reset();
        asked
    }
}

/// The same question has the same answer at llmock, streamed or not, so the pieces can be compared with the whole.
#[test]
fn every_provider_is_listed_asked_and_streamed() {
    let Some(bench) = Bench::open(&["--response-style", "varied"]) else {
        return;
    };
    for provider in PROVIDERS {
        let name = provider.name;
        let model = bench.model(provider);
        let (connection, _) = model.split_once('/').unwrap();
        let models = bench.lab.models(connection);
        assert!(models.iter().any(|m| m == provider.model), "{name}: {models:?}");
        bench.llmock.reset();
        let first = bench.lab.ask(&model, "Tell me something about the sea.", json!({}));
        first.whole();
        let pieces = first.parts.iter().filter(|part| part["delta"].is_string()).count();
        eprintln!("{name}: {pieces} pieces, usage {}", first.result["usage"]);
        assert!(!first.text().is_empty(), "{name}");
        assert_eq!(first.result["model"], model.as_str(), "{name}");
        for tokens in ["input", "output"] {
            assert!(
                first.result["usage"][tokens].as_u64().is_some_and(|n| n > 0),
                "{name}: {first:?}"
            );
        }
        let asked = bench.asked(provider);
        assert_eq!(asked.len(), 1, "{name}: {asked:?}");
        assert_eq!(
            (&asked[0]["stream"], &asked[0]["completed"]),
            (&json!(true), &json!(true)),
            "{name}"
        );
        // Word for word what it was told to say, whatever the letters.
        let words = "  Über alles: “日本語” 🦋 — \"quoted\"\\back\n\n\tand a new line ";
        bench.llmock.script(json!([{"type": "reply", "text": words}]));
        let said = bench.lab.ask(&model, "Say it.", json!({"systemPrompt": "You repeat."}));
        assert_eq!(said.whole().text(), words, "{name}");
        let sent = bench.asked(provider)[0]["body"].to_string();
        assert!(
            sent.contains("You repeat.") && sent.contains("Say it."),
            "{name}: {sent}"
        );
    }
}

/// As in the settings: a preset, here with the address of a stand-in, a key, and "say hello".
#[test]
fn presets_are_tested_by_a_hello() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in PROVIDERS {
        let (name, Some(preset)) = (provider.name, provider.preset) else {
            continue;
        };
        let base = bench.llmock.at(provider.base);
        let body = json!({"preset": preset, "baseUrl": base, "key": "sk-test-of-a-test-0123456789"});
        let added = bench.lab.owner.post("/v1/settings/connections", &body).ok();
        let connection = &added["connection"];
        assert_eq!(
            (&connection["api"], &connection["preset"]),
            (&json!(provider.api), &json!(preset)),
            "{name}"
        );
        let target = format!("/v1/settings/connections/{}/test", connection["id"].as_str().unwrap());
        let hello = || bench.lab.owner.post(&target, &json!({"model": provider.model})).ok();
        let said = hello();
        eprintln!("{name}: {said}");
        assert!(
            said["ok"] == true && !said["text"].as_str().unwrap().is_empty(),
            "{name}: {said}"
        );
        let asked_at = bench.llmock.at(provider.asked_at);
        // Where the model is a part of the address, a placeholder may stand for it.
        let url = said["url"].as_str().unwrap().replace("MODEL", provider.model);
        assert!(url.starts_with(&asked_at), "{name}: {said}");
        let (first, total) = (said["firstMs"].as_u64().unwrap(), said["totalMs"].as_u64().unwrap());
        assert!(first <= total, "{name}: {said}");
        bench
            .llmock
            .script(json!([{"type": "fail", "status": 401, "message": "Not with this key."}]));
        let said = hello();
        let why = said["error"].as_str().unwrap_or_default();
        assert!(
            said["ok"] == false && why.contains("Not with this key."),
            "{name}: {said}"
        );
        assert_eq!(said["errorInfo"]["kind"], "key", "{name}: {said}");
        bench
            .llmock
            .script(json!([{"type": "stream_fault", "kind": "disconnect", "after_chunks": 0}]));
        let said = hello();
        assert!(
            said["ok"] == false && said["errorInfo"]["kind"] == "network",
            "{name}: {said}"
        );
    }
}

/// Cut off by the limit of tokens is not the same as ended.
#[test]
fn an_answer_cut_by_the_limit_of_tokens_says_so() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in PROVIDERS {
        let name = provider.name;
        let model = bench.model(provider);
        let reply = json!([{"type": "reply", "text": "As far as it", "finish_reason": "length"}]);
        bench.llmock.script(reply);
        let answer = bench.lab.ask(&model, "Tell me a long story.", json!({}));
        assert_eq!(answer.text(), "As far as it", "{name}");
        eprintln!("{name}: {}", answer.result["finishReason"]);
        let told = answer.result["finishReason"] != "stop" && !answer.result["finishReason"].is_null();
        assert!(told, "{name}: {answer:?}");
    }
}

#[test]
fn tools_run_and_what_they_say_goes_back() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in PROVIDERS {
        let name = provider.name;
        let model = bench.model(provider);
        let ask = |question: &str| bench.lab.ask(&model, question, json!({"wantsTools": true}));
        bench.llmock.reset();
        // As llmock likes it: one call, with arguments made from the schema; then an answer.
        let answer = ask("What is the weather?");
        assert!(!answer.whole().text().is_empty(), "{name}");
        let calls = bench.lab.calls();
        assert!(calls.len() == 1 && calls[0]["city"].is_string(), "{name}: {calls:?}");
        let trace = &answer.result["toolTrace"];
        let said = format!("sunny in {}", calls[0]["city"].as_str().unwrap());
        assert_eq!(
            (&trace[0]["name"], &trace[0]["resultText"]),
            (&json!("get_weather"), &json!(said)),
            "{name}"
        );
        let asked = bench.asked(provider);
        assert_eq!(asked.len(), 2, "{name}: {asked:?}");
        assert!(asked[0]["body"].to_string().contains("get_weather"), "{name}");
        assert!(
            asked[1]["body"].to_string().contains(&said),
            "{name}: {}",
            asked[1]["body"]
        );
        // Words and two calls at once.
        bench
            .llmock
            .script(json!([{"type": "reply", "text": "Let me see. ", "tool_calls": [
                {"name": "get_weather", "arguments": {"city": "Paris"}},
                {"name": "get_weather", "arguments": {"city": "Lima \"the grey\" \\ 🦋"}},
            ]}]));
        let answer = ask("And in two cities?");
        assert!(
            answer.whole().streamed().starts_with("Let me see."),
            "{name}: {answer:?}"
        );
        let wanted = [json!({"city": "Paris"}), json!({"city": "Lima \"the grey\" \\ 🦋"})];
        assert_eq!(bench.lab.calls(), wanted, "{name}");
        let asked = bench.asked(provider);
        let back = asked[1]["body"].to_string();
        assert!(
            back.contains("sunny in Paris") && back.contains("sunny in Lima"),
            "{name}: {back}"
        );
        // A tool that was never offered.
        bench
            .llmock
            .script(json!([{"type": "tool_fault", "kind": "unknown_tool"}]));
        let answer = ask("Use what you do not have.");
        assert_eq!(
            answer.whole().result["toolTrace"][0]["isError"],
            true,
            "{name}: {answer:?}"
        );
        assert!(bench.lab.calls().is_empty(), "{name}");
        bench.llmock.reset();
        // Arguments that are not JSON. Gemini's are no text, so that llmock cannot break them there.
        if provider.api != "google-generative-ai" {
            bench
                .llmock
                .script(json!([{"type": "tool_fault", "kind": "malformed_arguments"}]));
            let answer = ask("Use it wrongly.");
            assert_eq!(
                answer.whole().result["toolTrace"][0]["isError"],
                true,
                "{name}: {answer:?}"
            );
            assert!(bench.lab.calls().is_empty(), "{name}");
            bench.llmock.reset();
        }
    }
}

#[test]
fn structured_output_fits_its_schema() {
    let Some(bench) = Bench::open(&[]) else { return };
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}, "tags": {"type": "array",
        "items": {"type": "string"}, "minItems": 1}}, "required": ["n", "tags"]});
    for provider in PROVIDERS {
        let name = provider.name;
        let model = bench.model(provider);
        let answer = bench.lab.ask(&model, "Fill it in.", json!({"schema": schema}));
        let json = &answer.result["json"];
        assert!(
            answer.error().is_empty() && json["n"].is_i64() && json["tags"][0].is_string(),
            "{name}: {answer:?}"
        );
    }
}

/// llmock sees that nobody listens any more, long before it had said everything.
#[test]
fn a_stop_reaches_every_provider() {
    let Some(bench) = Bench::open(&["--stream-chunk-delay-ms", "40"]) else {
        return;
    };
    let words: String = (0..400).map(|n| format!("word{n} ")).collect();
    for provider in PROVIDERS {
        let name = provider.name;
        let model = bench.model(provider);
        bench.lab.models(model.split_once('/').unwrap().0);
        bench.llmock.reset();
        bench.llmock.script(json!([{"type": "reply", "text": words}]));
        let (chat, asking) = bench.lab.begin(&model, "Tell me everything.", json!({}));
        bench.lab.wait_in(&chat, |event| {
            event["delta"].as_str().is_some_and(|text| text.contains("word"))
        });
        let at = now();
        bench.lab.stop(&chat);
        let answer = asking.join().unwrap();
        assert_eq!(answer.result["stopped"], true, "{name}: {answer:?}");
        assert!(
            answer.error().is_empty() && words.starts_with(answer.text()) && !answer.text().is_empty(),
            "{name}"
        );
        let record = wait_for("llmock to note the request", || bench.llmock.asked().pop());
        let sent = record["chunks_sent"].as_u64().unwrap();
        assert!(record["completed"] == false && sent < 200, "{name}: {record}");
        let took = record["ended_at"].as_f64().unwrap() - at;
        eprintln!(
            "{name}: stopped after {sent} pieces; llmock had noticed {:.0} ms after the stop",
            took * 1000.0
        );
        // It notices at its next piece. The exact time to the closed socket is measured by `cargo xtask bench`.
        assert!(took < 2.0, "{name}: it was told after {took} s");
    }
}

/// The clock that llmock's journal has: Python's `time.monotonic`, in seconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a plain system call with a pointer to a value of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Status, kind, and how many requests may have been sent.
const ERRORS: &[(u16, &str)] = &[
    (400, ""),
    (401, "key"),
    (402, "credit"),
    (403, ""),
    (404, "model_gone"),
    (422, ""),
    (500, "server"),
    (502, "server"),
    (504, "server"),
    (529, "server"),
];

/// Each is reported once, in the provider's own words, and never tried again by itself.
#[test]
fn errors_are_explained_and_not_tried_again() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in PROVIDERS {
        let name = provider.name;
        let model = bench.model(provider);
        bench.lab.models(model.split_once('/').unwrap().0);
        bench.llmock.reset();
        for (status, kind) in ERRORS {
            let words = match status {
                404 => format!("The model {} does not exist.", provider.model),
                _ => format!("Words of the server about {status}."),
            };
            bench
                .llmock
                .script(json!([{"type": "fail", "status": status, "message": words}]));
            let answer = bench.lab.ask(&model, &format!("Fail with {status}."), json!({}));
            answer.failed();
            eprintln!("{name} {status}: [{}] {}", answer.kind(), answer.error());
            assert!(answer.text().is_empty(), "{name}: {answer:?}");
            assert!(answer.error().contains(&words), "{name}: {}", answer.error());
            assert!(answer.error().contains(provider.model), "{name}: {}", answer.error());
            let info = &answer.result["errorInfo"];
            assert_eq!(info["status"], *status, "{name}: {info}");
            if !kind.is_empty() {
                assert_eq!(answer.kind(), *kind, "{name} {status}: {}", answer.error());
            }
            let asked = bench.asked(provider);
            assert_eq!(asked.len(), 1, "{name} {status}: {asked:?}");
        }
    }
}

/// 429 and 503 say when to come back: that is waited for, visibly, and then the same request is sent once more.
#[test]
fn a_limit_with_a_time_is_waited_for() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in kit::formats() {
        let name = provider.name;
        let model = bench.model(provider);
        bench.lab.models(model.split_once('/').unwrap().0);
        for status in [429, 503] {
            bench.llmock.reset();
            bench.llmock.script(json!([
                {"type": "fail", "status": status, "retry_after": 2},
                {"type": "reply", "text": "After the wait."},
            ]));
            let (_, asking, wait) = bench.lab.begin_and_wait(&model, &format!("Come back after {status}."));
            assert!(wait.is_some_and(|ms| ms <= 2000), "{name}: {wait:?}");
            let answer = asking.join().unwrap();
            assert_eq!(answer.whole().text(), "After the wait.", "{name}");
            let asked = bench.llmock.asked();
            let time = |at: usize, what: &str| asked[at][what].as_f64().unwrap();
            assert_eq!(asked.len(), 2, "{name}: {asked:?}");
            assert_eq!(asked[0]["body"], asked[1]["body"], "{name}");
            let waited = time(1, "started_at") - time(0, "ended_at");
            assert!((1.95..6.0).contains(&waited), "{name} {status}: waited {waited} s");
        }
        // The wait can be ended: then nothing more is sent.
        bench.llmock.reset();
        bench
            .llmock
            .script(json!([{"type": "fail", "status": 429, "retry_after": 30}]));
        let (chat, asking, wait) = bench.lab.begin_and_wait(&model, "Come back later.");
        assert!(wait.is_some_and(|ms| ms > 20_000), "{name}: {wait:?}");
        bench.lab.stop(&chat);
        let answer = asking.join().unwrap();
        assert_eq!(answer.result["stopped"], true, "{name}: {answer:?}");
        assert_eq!(bench.llmock.asked().len(), 1, "{name}");
    }
}

#[test]
fn a_request_that_is_too_long_says_the_true_window() {
    let Some(bench) = Bench::open(&["--context-window", "100"]) else {
        return;
    };
    for provider in PROVIDERS {
        let name = provider.name;
        let model = bench.model(provider);
        let answer = bench.lab.ask(&model, &"word ".repeat(1000), json!({}));
        answer.failed();
        eprintln!("{name}: [{}] {}", answer.kind(), answer.error());
        assert_eq!(
            (answer.kind(), &answer.result["errorInfo"]["window"]),
            ("context", &json!(100)),
            "{name}"
        );
    }
}

/// Cohere's own format is none of ours. Its address as that of an OpenAI-compatible server leads to an error that names
/// what was tried.
#[test]
fn a_format_that_is_not_spoken_is_said_so() {
    let Some(bench) = Bench::open(&[]) else { return };
    let base = bench.llmock.at("/cohere/v2");
    let id = bench.lab.connect("cohere", "openai-completions", &base, json!({}));
    let answer: Asked = bench.lab.ask(&format!("{id}/command-r"), "Hello?", json!({}));
    answer.failed();
    assert!(
        answer.error().contains("404") && answer.kind() == "not_the_api",
        "{answer:?}"
    );
    // Addresses are for the person, not for apps.
    let logged = bench.lab.logged();
    assert!(logged.contains("/cohere/v2/chat/completions"), "{logged}");
    assert!(!answer.result.to_string().contains("127.0.0.1"), "{answer:?}");
}
