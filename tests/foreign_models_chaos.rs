//! The built program against `llmock`'s faults: streams that break at every place, calls of tools that are cut short,
//! servers that are slow or out of order. What arrived is kept and said to be a part; no such call runs; nothing that may
//! have cost money is sent again by itself. `llmock` has the last word: its verdict is asserted, and kept in a file.

#[allow(dead_code)]
#[path = "foreign/kit.rs"]
mod kit;

use std::collections::BTreeMap;

use kit::{Asked, Lab, PROVIDERS, Provider, formats, keep};
use serde_json::{Value, json};
use testkit::llmock::Llmock;

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// Six words, which llmock streams one by one.
const WORDS: [&str; 6] = ["alpha ", "beta ", "gamma ", "delta ", "epsilon ", "zeta"];

/// The faults that end a stream before its end.
const CUTS: [&str; 3] = ["disconnect", "truncate", "malformed"];

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

    /// The `connection/model` to ask for. The model list has been fetched, so that all further requests are asked for.
    fn model(&self, provider: Provider) -> String {
        self.llmock.reset();
        let id = self
            .lab
            .connect(provider.name, provider.api, &self.llmock.at(provider.base), json!({}));
        self.lab.models(&id);
        self.llmock.reset();
        format!("{id}/{}", provider.model)
    }

    /// The position of the event with which an answer of this shape ends: learned by letting it end.
    fn end(&self, provider: Provider, model: &str, reply: &Value, more: &Value) -> u64 {
        self.llmock.reset();
        self.llmock.script(json!([reply]));
        self.lab.ask(model, "How long is it?", more.clone()).whole();
        let first = &self.llmock.asked()[0];
        self.lab.calls();
        self.llmock.reset();
        assert_eq!(first["completed"], true, "{first}");
        first["chunks_sent"].as_u64().unwrap() - 1 - provider.after as u64
    }

    /// Asks while the stream breaks at this place. Panics when more than one request is sent for it.
    fn broken(&self, model: &str, fault: &str, at: u64, reply: &Value, more: &Value) -> Asked {
        self.llmock.reset();
        let fault = json!({"type": "stream_fault", "kind": fault, "after_chunks": at});
        self.llmock.script(json!([reply, fault]));
        let answer = self.lab.ask(model, &format!("Break {fault}."), more.clone());
        let asked = self.llmock.asked();
        assert_eq!(asked.len(), 1, "{model}, {fault}: {asked:?}\n{answer:?}");
        assert!(asked[0]["fault"].is_string(), "{model}, {fault}: {asked:?}");
        answer
    }
}

/// Every format, at every place of the stream: exactly what arrived is kept, marked as a part.
#[test]
fn a_stream_that_breaks_keeps_what_arrived_and_says_so() {
    let Some(bench) = Bench::open(&[]) else { return };
    let reply = json!({"type": "reply", "text": WORDS.concat()});
    for provider in PROVIDERS {
        let model = bench.model(provider);
        let end = bench.end(provider, &model, &reply, &json!({}));
        assert!(end >= WORDS.len() as u64 - 1, "{}: ends at {end}", provider.name);
        // The other six speak OpenAI's too: one place in the middle each.
        let whole = formats().any(|format| format.name == provider.name);
        let places = if whole { 0..=end } else { 3..=3 };
        for fault in CUTS {
            for at in places.clone() {
                let answer = bench.broken(&model, fault, at, &reply, &json!({}));
                let arrived = (at as usize).saturating_sub(provider.before).min(WORDS.len());
                let case = format!("{}: {fault} at {at} of {end}", provider.name);
                assert_eq!(answer.text(), WORDS[..arrived].concat(), "{case}: {answer:?}");
                answer.failed();
            }
            let answer = bench.broken(&model, fault, 3, &reply, &json!({}));
            eprintln!("{}: {fault}: [{}] {}", provider.name, answer.kind(), answer.error());
        }
    }
}

/// Words, then two calls: wherever the stream breaks, none of the two runs, even when its arguments are whole.
#[test]
fn a_call_that_is_cut_short_never_runs() {
    let Some(bench) = Bench::open(&[]) else { return };
    let reply = json!({"type": "reply", "text": "Let me see. ", "tool_calls": [
        {"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_weather", "arguments": {"city": "Lima"}},
    ]});
    let tools = json!({"wantsTools": true});
    for provider in PROVIDERS {
        let model = bench.model(provider);
        let end = bench.end(provider, &model, &reply, &tools);
        let whole = formats().any(|format| format.name == provider.name);
        for fault in CUTS {
            for at in if whole { 0..=end } else { end..=end } {
                let answer = bench.broken(&model, fault, at, &reply, &tools);
                let case = format!("{}: {fault} at {at} of {end}", provider.name);
                let calls = bench.lab.calls();
                assert!(calls.is_empty(), "{case}: {calls:?}");
                answer.failed();
                assert!("Let me see. ".starts_with(answer.text()), "{case}: {answer:?}");
            }
        }
    }
}

/// A server that takes its time is waited for, at every stage.
#[test]
fn a_slow_server_is_waited_for() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in formats() {
        let model = bench.model(provider);
        for slow in [
            json!({"type": "delay", "seconds": 1.5}),
            json!({"type": "slow_first_token", "seconds": 1.5}),
            json!({"type": "stream_fault", "kind": "stall", "after_chunks": 3, "stall_seconds": 1.5}),
        ] {
            bench.llmock.reset();
            bench
                .llmock
                .script(json!([{"type": "reply", "text": WORDS.concat()}, slow]));
            let answer = bench.lab.ask(&model, "Take your time.", json!({}));
            assert_eq!(answer.whole().text(), WORDS.concat(), "{}: {slow}", provider.name);
            assert_eq!(bench.llmock.asked().len(), 1, "{}: {slow}", provider.name);
            assert!(
                answer.result["genTimeMs"].as_u64().unwrap() >= 1400,
                "{}: {answer:?}",
                provider.name
            );
        }
    }
}

/// A stall can be ended by the person at once: llmock sees that nobody waits any more.
#[test]
fn a_stalled_stream_can_be_stopped() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in formats() {
        let model = bench.model(provider);
        let at = provider.before + 2;
        bench.llmock.script(json!([
            {"type": "reply", "text": WORDS.concat()},
            {"type": "stream_fault", "kind": "stall", "after_chunks": at, "stall_seconds": 20},
        ]));
        let (chat, asking) = bench.lab.begin(&model, "Stall.", json!({}));
        let mut heard = String::new();
        bench.lab.wait_in(&chat, |event| {
            heard += event["delta"].as_str().unwrap_or_default();
            heard.contains("beta")
        });
        let began = std::time::Instant::now();
        bench.lab.stop(&chat);
        let answer = asking.join().unwrap();
        assert!(
            began.elapsed().as_secs() < 10,
            "{}: {:?}",
            provider.name,
            began.elapsed()
        );
        assert_eq!(
            (answer.text(), &answer.result["stopped"]),
            ("alpha beta ", &json!(true)),
            "{}",
            provider.name
        );
    }
}

/// What each provider is asked, in turn, with the fault that it meets; streams break behind the second word.
fn faults(provider: Provider) -> Vec<(String, Value)> {
    let at = provider.before + 2;
    let mut all = Vec::new();
    for status in [429, 503] {
        let fault = json!({"type": "fail", "status": status, "retry_after": 1, "times": 2});
        all.push((format!("a {status} twice, with Retry-After"), fault));
    }
    for status in [400, 401, 403, 404, 422, 500, 502, 504, 529] {
        all.push((format!("a {status}"), json!({"type": "fail", "status": status})));
    }
    for kind in CUTS {
        let fault = json!({"type": "stream_fault", "kind": kind, "after_chunks": at});
        all.push((format!("a stream: {kind}"), fault));
    }
    let stall = json!({"type": "stream_fault", "kind": "stall", "after_chunks": at, "stall_seconds": 1.2});
    all.push(("a stream: stall".into(), stall));
    all.push(("a delay".into(), json!({"type": "delay", "seconds": 0.5})));
    all.push((
        "a slow first token".into(),
        json!({"type": "slow_first_token", "seconds": 0.5}),
    ));
    all
}

/// The findings of a verdict, as `severity code` with how often.
fn findings(verdict: &Value) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for finding in verdict["findings"].as_array().expect("a list") {
        let name = format!(
            "{} {}",
            finding["severity"].as_str().unwrap(),
            finding["code"].as_str().unwrap()
        );
        *all.entry(name).or_default() += 1;
    }
    all
}

/// What came of a provider's faults.
struct Told {
    lines: Vec<String>,
    /// The questions that it may help to ask again.
    may_help: Vec<String>,
}

fn meet(bench: &Bench, provider: Provider, model: &str) -> Told {
    let (mut lines, mut may_help) = (Vec::new(), Vec::new());
    for (name, mut fault) in faults(provider) {
        let only = json!({"path": provider.asked_at});
        fault["match"] = only.clone();
        bench
            .llmock
            .script(json!([{"type": "reply", "text": WORDS.concat(), "match": only}, fault]));
        let question = format!("Here comes {name}.");
        let answer = bench.lab.ask(model, &question, json!({}));
        let outcome = match answer.error() {
            "" => "whole".to_owned(),
            _ => format!("{}; kept: {:?}", answer.kind(), answer.text()),
        };
        lines.push(format!("{:17} {name:31} {outcome}", provider.name));
        let cut = CUTS.contains(&fault["kind"].as_str().unwrap_or_default());
        let refused = fault["type"] == "fail" && fault["retry_after"].is_null();
        if cut || refused {
            answer.failed();
        } else {
            assert_eq!(answer.whole().text(), WORDS.concat(), "{}: {name}", provider.name);
        }
        if cut || refused && fault["status"].as_u64().unwrap() >= 500 {
            may_help.push(question);
        }
    }
    Told { lines, may_help }
}

/// Every fault for every provider, with nobody there who does anything; then the person tries again where the program
/// said that this may help. llmock judges by requests alone: it takes a broken stream as dealt with only when the same is
/// asked once more. Chrysalis never does that by itself, since a broken answer may have been paid for. So the first
/// verdict has exactly the findings that follow from that choice and none else, and the second one passes.
#[test]
fn the_verdict_of_llmock() {
    // With a pause between events, so that llmock can tell who stopped reading at a broken one.
    let Some(bench) = Bench::open(&["--stream-chunk-delay-ms", "20"]) else {
        return;
    };
    let connected: Vec<_> = PROVIDERS
        .into_iter()
        .map(|provider| (provider, bench.model(provider)))
        .collect();
    // All providers at once: what llmock is told is for one path each.
    let told: Vec<Told> = std::thread::scope(|scope| {
        let all = connected.iter().map(|(provider, model)| {
            let bench = &bench;
            scope.spawn(move || meet(bench, *provider, model))
        });
        let all: Vec<_> = all.collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let lines: Vec<&str> = told.iter().flat_map(|told| &told.lines).map(String::as_str).collect();
    let (many, each) = (PROVIDERS.len(), faults(PROVIDERS[0]).len());
    let alone = bench.llmock.verdict();
    let report = bench.llmock.report(&[]);
    eprintln!("{}\n\n{}", lines.join("\n"), report.out);
    keep("llmock-outcomes.txt", &lines.join("\n"));
    keep("llmock-verdict-alone.txt", &report.out);
    let wanted = BTreeMap::from([
        // The cut streams: marked as parts, not sent again.
        ("error truncated_stream_accepted".to_owned(), many),
        ("warning malformed_chunk_ignored".to_owned(), many),
        // 500, 502, 504, 529 and the dropped connection: reported, not sent again.
        ("warning gave_up".to_owned(), 5 * many),
        // The stall is shorter than the silence that is called one.
        ("warning no_read_timeout".to_owned(), many),
    ]);
    assert_eq!(findings(&alone), wanted, "{}", report.out);
    assert_eq!(alone["calls"], each * many, "{}", report.out);
    // The two with Retry-After took three attempts each.
    assert_eq!(alone["attempts"], (each + 4) * many, "{}", report.out);
    assert!(!report.ok, "{}", report.out);

    bench.llmock.clear_script();
    for ((_, model), told) in connected.iter().zip(&told) {
        for question in &told.may_help {
            bench.lab.ask(model, question, json!({})).whole();
        }
    }
    let tried = bench.llmock.verdict();
    let report = bench.llmock.report(&[]);
    eprintln!("{}", report.out);
    keep("llmock-verdict.txt", &report.out);
    assert!(report.ok && tried["passed"] == true, "{}", report.out);
    assert_eq!(
        findings(&tried),
        BTreeMap::from([("warning no_read_timeout".to_owned(), many)]),
        "{}",
        report.out
    );
    assert_eq!(tried["calls"], each * many, "{}", report.out);
}

/// A provider that is down for good is asked a few times, as it said, and then the person is told.
#[test]
fn an_outage_is_no_storm_of_requests() {
    let Some(bench) = Bench::open(&[]) else { return };
    for provider in formats() {
        let model = bench.model(provider);
        for status in [429, 503] {
            bench.llmock.reset();
            let fault = json!([{"type": "fail", "status": status, "retry_after": 0.2, "times": null}]);
            bench.llmock.script(fault);
            let answer = bench.lab.ask(&model, "Are you there?", json!({}));
            answer.failed();
            let attempts = bench.llmock.asked().len();
            eprintln!(
                "{} {status}: {attempts} attempts, then [{}] {}",
                provider.name,
                answer.kind(),
                answer.error()
            );
            assert!((2..=10).contains(&attempts), "{}: {attempts} attempts", provider.name);
            let report = bench.llmock.report(&[]);
            assert!(
                report.ok
                    && findings(&bench.llmock.verdict())
                        .keys()
                        .all(|name| !name.contains("error"))
            );
        }
    }
}

/// Quotas that refill, as providers have them: who asks too often hears when the next question may come, and it comes.
#[test]
fn a_quota_says_when() {
    let Some(bench) = Bench::open(&["--rpm", "30"]) else {
        return;
    };
    for provider in formats() {
        let name = provider.name;
        let model = bench.model(provider);
        for n in 0.. {
            assert!(n < 40, "{name}: the quota of 30 was never reached");
            let (_, asking, wait) = bench.lab.begin_and_wait(&model, &format!("Question {n}."));
            asking.join().unwrap().whole();
            if let Some(ms) = wait {
                assert!(ms <= 60_000, "{name}: {ms}");
                break;
            }
        }
    }
}

/// Chaos as `llmock serve` makes it for a whole session, at random: every answer is word for word what a calm server gives,
/// or it says that it is not, and what it has is the beginning of that.
#[test]
fn a_session_of_chaos() {
    let chaos = [
        "--error-rate",
        "429=0.1",
        "--error-rate",
        "500=0.1",
        "--stream-fault",
        "truncate=0.15",
    ];
    let more = ["--stream-fault", "disconnect=0.15", "--stream-fault", "malformed=0.15"];
    let last = ["--stream-fault", "stall=0.05", "--stream-stall-seconds", "0.5"];
    let Some(calm) = Llmock::start(&[]) else { return };
    let Some(bench) = Bench::open(&[&chaos[..], &more, &last].concat()) else {
        return;
    };
    let connected: Vec<_> = formats()
        .map(|provider| {
            let connect = |llmock: &Llmock, name: &str| {
                let typed = json!({"models": [provider.model]});
                let id = bench.lab.connect(name, provider.api, &llmock.at(provider.base), typed);
                format!("{id}/{}", provider.model)
            };
            (provider, connect(&calm, "calm"), connect(&bench.llmock, provider.name))
        })
        .collect();
    let counts: Vec<_> = std::thread::scope(|scope| {
        let all = connected.iter().map(|(provider, calm, model)| {
            let bench = &bench;
            scope.spawn(move || {
                let mut whole = 0;
                for n in 0..25 {
                    let question = format!("Tell me about number {n}.");
                    let wanted = bench.lab.ask(calm, &question, json!({}));
                    let answer = bench.lab.ask(model, &question, json!({}));
                    let case = format!("{}, {n}", provider.name);
                    if answer.error().is_empty() {
                        assert_eq!(answer.whole().text(), wanted.whole().text(), "{case}");
                        whole += 1;
                    } else {
                        answer.failed();
                        assert!(wanted.text().starts_with(answer.text()), "{case}: {answer:?}");
                    }
                }
                whole
            })
        });
        let all: Vec<_> = all.collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let verdict = bench.llmock.verdict();
    let report = bench.llmock.report(&[]);
    let faults = verdict["faults_injected"].as_u64().unwrap();
    eprintln!("whole answers of 25 each: {counts:?}\n{}", report.out);
    keep("llmock-session.txt", &report.out);
    assert!(faults > 20 && counts.iter().sum::<i32>() > 20, "{counts:?} {faults}");
    let found = findings(&verdict);
    let sins: Vec<_> = found
        .keys()
        .filter(|name| name.starts_with("error") && !name.ends_with("truncated_stream_accepted"))
        .collect();
    assert!(sins.is_empty(), "{sins:?}\n{}", report.out);
}
