//! A worker that was taken over, in the place of the real one: what it says on its socket is believed in nothing. What it
//! may do at the level of system calls is in the sandbox crate, `tests/walls.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;

use sandbox::frame::FromWorker;
use serde_json::{Value, json};

use crate::attempt::{Attempt, Came, Want};
use crate::house::House;

/// Built with the workspace; see the sandbox crate, `src/bin/lying-worker.rs`.
pub fn lying_worker() -> PathBuf {
    let path = Path::new(crate::house::PROGRAM).with_file_name("lying-worker");
    if !path.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--workspace", "--locked", "--bin", "lying-worker"]);
        assert!(build.status().unwrap().success(), "lying-worker cannot be built");
    }
    path
}

const BROKEN: Want = Want::Fails(&["broke the protocol"]);
const ENDED: Want = Want::Fails(&["ended unexpectedly"]);
const RESULT: Want = Want::Fails(&["its result is"]);
const LATE: Want = Want::Fails(&["ran longer"]);

struct Lie(&'static str, Value, Want);

/// Something asked and answered as it should be.
fn honest() -> (Value, Value) {
    let steps = json!([
        ["now", "store.put", ["own", 1]],
        ["read"],
        ["now", "store.get", ["own"]],
        ["read"],
        ["done", {"json": "fine"}],
    ]);
    (steps, json!("fine"))
}

fn result(text: &str) -> FromWorker {
    FromWorker::Done {
        exported: true,
        value: json!({"json": text}).to_string(),
        heap: 1,
        clean: true,
    }
}

fn question() -> FromWorker {
    FromWorker::CallNow {
        method: "store.get".into(),
        args: "[\"own\"]".into(),
    }
}

/// In one piece. What a taken-over worker says later may reach the next call that it is given, which is one of the same
/// plugin: there it may say what it likes anyway.
fn at_once(frames: &[FromWorker]) -> Vec<u8> {
    frames.iter().flat_map(|frame| frame.encode().unwrap()).collect()
}

fn ask(method: &str, args: Value) -> Value {
    json!([["now", method, args], ["read"], ["report"]])
}

fn wait(method: &str, args: Value) -> Value {
    json!([["call", 1, method, args], ["waiting"], ["read"], ["report"]])
}

fn lies() -> Vec<Lie> {
    let sleep = json!(["call", 1, "sleep", [60000]]);
    let text = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes(), bytes].concat();
    let frame = |body: &[u8]| {
        let bytes = text(body);
        json!([["raw", bytes], ["rest"]])
    };
    vec![
        Lie("says hello again", json!([["hello", 2], ["rest"]]), BROKEN),
        Lie(
            "says hello again, of another version",
            json!([["hello", 999], ["rest"]]),
            BROKEN,
        ),
        Lie(
            "says afterwards that it could not be locked down",
            json!([["refused", "oh"], ["rest"]]),
            BROKEN,
        ),
        Lie("waits for nothing", json!([["waiting"], ["rest"]]), BROKEN),
        Lie(
            "waits twice",
            json!([sleep, ["waiting"], ["waiting"], ["rest"]]),
            BROKEN,
        ),
        Lie(
            "logs while it waits",
            json!([sleep, ["waiting"], ["log", "info", "psst"], ["rest"]]),
            BROKEN,
        ),
        Lie(
            "asks while it waits",
            json!([sleep, ["waiting"], ["now", "store.get", ["own"]], ["rest"]]),
            BROKEN,
        ),
        Lie(
            "ends while it waits",
            json!([sleep, ["waiting"], ["done", {"json": 1}], ["rest"]]),
            BROKEN,
        ),
        Lie("a kind of frame that does not exist", frame(&[200]), BROKEN),
        Lie("a frame of the other direction", frame(&[1, 0, 0, 0, 0]), BROKEN),
        Lie("the host's own answer", frame(&[4, 1, 1, 0, 0, 0, b'1']), BROKEN),
        Lie("an empty frame", json!([["raw", [0, 0, 0, 0]], ["rest"]]), BROKEN),
        Lie(
            "a frame of 4 GiB",
            json!([["raw", [255, 255, 255, 255, 67]], ["rest"]]),
            BROKEN,
        ),
        Lie(
            "a frame of 65 MiB",
            json!([["raw", (65u32 << 20).to_le_bytes()], ["rest"]]),
            BROKEN,
        ),
        Lie("a frame that ends too early", frame(&[67, 1, 0, 0, 0]), BROKEN),
        Lie("a frame with something left over", frame(&[70, 0]), BROKEN),
        Lie(
            "a text longer than its frame",
            frame(&[69, 255, 255, 255, 255, b'x']),
            BROKEN,
        ),
        Lie(
            "a flag that is neither",
            frame(&[&[71, 2][..], &text(b"1"), &[0; 9]].concat()),
            BROKEN,
        ),
        Lie(
            "a text that is not UTF-8",
            frame(&[&[69][..], &text(b"info"), &text(&[255, 0])].concat()),
            BROKEN,
        ),
        Lie(
            "half a character",
            frame(&[&[69][..], &text(b"info"), &text("é".as_bytes().split_at(1).0)].concat()),
            BROKEN,
        ),
        Lie(
            "another language",
            json!([["raw", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()], ["rest"]]),
            BROKEN,
        ),
        Lie("goes away at once", json!([["exit", 0]]), ENDED),
        Lie("goes away with a number", json!([["exit", 77]]), ENDED),
        Lie(
            "goes away after it asked",
            json!([["now", "store.get", ["own"]], ["exit", 0]]),
            ENDED,
        ),
        Lie(
            "goes away while it waits",
            json!([["call", 1, "sleep", [200]], ["waiting"], ["exit", 0]]),
            ENDED,
        ),
        Lie(
            "goes away in the middle of a frame",
            json!([["raw", [100, 0, 0, 0, 71]], ["exit", 0]]),
            ENDED,
        ),
        Lie("kills itself", json!([["abort"]]), ENDED),
        Lie("a result that is no JSON", json!([["done", "{"], ["rest"]]), RESULT),
        Lie("an empty result", json!([["done", ""], ["rest"]]), RESULT),
        Lie("a result behind a result", json!([["done", "1 2"], ["rest"]]), RESULT),
        Lie(
            "a result a million lists deep",
            json!([["large-done", 1_000_000, "["], ["rest"]]),
            RESULT,
        ),
        Lie(
            "a result of millions of numbers",
            json!([["large-done", 20_000_000, "0,", "[", "0]"], ["rest"]]),
            RESULT,
        ),
        Lie(
            "a result with a number beyond all",
            json!([["done", "{\"json\": 1e999}"], ["rest"]]),
            RESULT,
        ),
        Lie(
            "two results",
            json!([["raw", at_once(&[result("first"), result("second")])], ["rest"]]),
            Want::Gives(json!("first")),
        ),
        Lie(
            "a result and a question behind it",
            json!([["raw", at_once(&[result("first"), question()])], ["rest"]]),
            Want::Gives(json!("first")),
        ),
        Lie(
            "a result with each field twice",
            json!([["done", "{\"status\": 500, \"json\": 1, \"status\": 200, \"json\": 2}"],]),
            Want::Gives(json!(2)),
        ),
        Lie(
            "an error in a file of the system",
            json!([["failed", "<script>alert(1)</script>", "/etc/shadow"]]),
            Want::Fails(&["<script>"]),
        ),
        Lie(
            "more calls than it may make",
            json!([["repeat", 100_001, [["call", 7, "none", []]]]]),
            Want::Fails(&["more than 100000 calls"]),
        ),
        Lie(
            "a flood of log lines",
            json!([["repeat", 20_000, [["log", "warn", "flood"]]], ["done", {"json": 1}]]),
            Want::Gives(json!(1)),
        ),
        Lie(
            "a log line of 20 MB",
            json!([["large-log", 20_000_000, "l"], ["done", {"json": 1}]]),
            Want::Gives(json!(1)),
        ),
    ]
}

/// Questions that nobody asks who keeps to the prelude. Each must be answered with an error that contains one of these.
fn questions() -> Vec<(&'static str, Value, &'static [&'static str])> {
    const NONE: &[&str] = &["does not exist"];
    const WRONG: &[&str] = &["must be", "give a", "no such", "not a usable path", "is not"];
    const ARGS: &[&str] = &["its arguments are"];
    const ONE: &str = "x";
    let large = |n: u64, text: &str, front: &str, behind: &str, method: &str| {
        json!([["large", method, n, text, front, behind], ["read"], ["report"]])
    };
    vec![
        ("a room that does not exist", ask("engine.shutdown", json!([])), NONE),
        ("the database", ask("db.query", json!(["SELECT * FROM accounts"])), NONE),
        ("the keychain", ask("secrets.get", json!(["token"])), NONE),
        ("a process", ask("sandbox.exec", json!(["id"])), NONE),
        ("no room at all", ask("", json!([])), NONE),
        ("a room without a method", ask("fs.", json!(["own.txt"])), NONE),
        ("a room in capital letters", ask("FS.read", json!(["own.txt"])), NONE),
        ("a method with a NUL", ask("fs.read\0", json!(["own.txt"])), NONE),
        ("a method in a method", ask("fs.fs.read", json!(["own.txt"])), NONE),
        ("a method of another room", ask("store.read", json!(["own.txt"])), NONE),
        ("a method with a path", ask("../fs.read", json!(["own.txt"])), NONE),
        (
            "a method of a megabyte",
            json!([["now", ONE.repeat(1 << 20), []], ["read"], ["report"]]),
            NONE,
        ),
        ("a method that waits, standing", ask("llm.open", json!([{}])), NONE),
        (
            "a request to the network, standing",
            ask("net.fetch", json!([{"url": "http://127.0.0.1/"}])),
            NONE,
        ),
        ("a queue, waiting", wait("net.request", json!(["k", {}])), NONE),
        ("a log by a call", wait("log", json!(["x"])), NONE),
        ("a sleep behind a dot", wait("sleep.x", json!([1])), NONE),
        (
            "a path that climbs, past the prelude",
            ask("fs.read", json!(["../../beta/data/hidden.txt"])),
            WRONG,
        ),
        ("a path that is a number", ask("fs.read", json!([5])), WRONG),
        ("a path that is a list", ask("fs.read", json!([["own.txt"]])), WRONG),
        (
            "arguments that are an object",
            ask("fs.read", json!({"0": "own.txt"})),
            WRONG,
        ),
        ("arguments that are a text", ask("fs.read", json!("\"own.txt\"")), WRONG),
        ("no arguments", ask("fs.write", json!([])), WRONG),
        (
            "bytes that are no base64",
            ask("fs.writeBase64", json!(["own.txt", "%%%"])),
            &["base64 is damaged"],
        ),
        (
            "an offset below zero",
            ask("fs.readChunk", json!(["own.txt", -1, 1])),
            WRONG,
        ),
        (
            "an offset beyond all",
            ask("fs.readChunk", json!(["own.txt", 1e300, 1])),
            WRONG,
        ),
        ("half an offset", ask("fs.readChunk", json!(["own.txt", 0.5, 1])), WRONG),
        (
            "a chunk of a gigabyte",
            ask("fs.readChunk", json!(["own.txt", 0, 1 << 30])),
            WRONG,
        ),
        (
            "a writer that was never opened",
            wait("fs.uploadWrite", json!([1, {"text": "x"}])),
            WRONG,
        ),
        (
            "the writer with the largest number",
            wait("fs.uploadClose", json!([u64::MAX])),
            WRONG,
        ),
        (
            "a transaction that was never begun",
            wait("fs.commit", json!([])),
            &["host.fs.commit"],
        ),
        (
            "an archive where there is none",
            ask("zip.entries", json!([])),
            &["host.zip.entries"],
        ),
        (
            "a model's answer that was never begun",
            wait("llm.next", json!([1])),
            &["host.llm"],
        ),
        (
            "a model's answer with the largest number",
            wait("llm.rest", json!([u64::MAX])),
            &["host.llm"],
        ),
        (
            "a server's answer that was never begun",
            wait("net.next", json!([1])),
            WRONG,
        ),
        ("a sleep below zero", wait("sleep", json!([-1])), WRONG),
        (
            "a sleep of a year",
            wait("sleep", json!([31_536_000_000u64])),
            &["at most 60 s"],
        ),
        ("a sleep of nothing", wait("sleep", json!([null])), WRONG),
        ("a key that is an object", ask("store.put", json!([{"a": 1}, 1])), WRONG),
        ("a batch that is a text", ask("store.batch", json!(["x"])), WRONG),
        ("a limit beyond all", ask("store.scan", json!([{"limit": 1e18}])), WRONG),
        ("arguments that are no JSON", ask("store.put", json!("[")), ARGS),
        ("no text in the place of arguments", ask("store.put", json!("")), ARGS),
        (
            "arguments a million lists deep",
            large(1_000_000, "[", "", "", "store.put"),
            ARGS,
        ),
        (
            "arguments of millions of numbers",
            large(20_000_000, "0,", "[", "0]", "store.put"),
            ARGS,
        ),
        (
            "arguments of 60 MB",
            large(60_000_000, "x", "[\"big\", \"", "\"]", "store.put"),
            &["its arguments are", "1 MiB", "store"],
        ),
        (
            "a file of 60 MB in base64",
            large(15_000_000, "AAA%", "[\"big.bin\", \"", "\"]", "fs.writeBase64"),
            &["base64 is damaged", "its arguments are"],
        ),
    ]
}

/// Those that only time ends: each in an app of its own, all at once.
fn patience() -> Vec<Lie> {
    vec![
        Lie("says nothing any more", json!([["rest"]]), LATE),
        Lie("loops", json!([["spin"]]), LATE),
        Lie(
            "half a frame and silence",
            json!([["raw", [100, 0, 0, 0, 71]], ["rest"]]),
            LATE,
        ),
        Lie(
            "60 MiB announced and silence",
            json!([["raw", (60u32 << 20).to_le_bytes()], ["rest"]]),
            LATE,
        ),
        Lie(
            "asks and never reads",
            json!([["repeat", 99_999, [["now", "store.keys", []]]], ["spin"]]),
            Want::Fails(&["ran longer", "more than 100000 calls"]),
        ),
        Lie(
            "a log without end",
            json!([["repeat", 4_000_000_000u64, [["log", "info", "again and again"]]]]),
            LATE,
        ),
    ]
}

fn attempts_of(lies: Vec<Lie>) -> impl Iterator<Item = Attempt> {
    lies.into_iter().map(|Lie(name, steps, want)| {
        let (honest, good) = honest();
        Attempt {
            name: format!("a worker: {name}"),
            attack: steps.to_string(),
            want,
            twin: honest.to_string(),
            good,
        }
    })
}

pub fn attempts() -> Vec<Attempt> {
    let asked = questions().into_iter().map(|(name, steps, parts)| {
        let (honest, good) = honest();
        Attempt {
            name: format!("a worker asks: {name}"),
            attack: steps.to_string(),
            want: Want::Says(parts),
            twin: honest.to_string(),
            good,
        }
    });
    asked
        .chain(attempts_of(lies()))
        .chain(attempts_of(patience()))
        .collect()
}

/// What a call came to whose worker does these steps.
fn lie(house: &House, app: &str, steps: &str) -> Came {
    let steps: Value = serde_json::from_str(steps).unwrap();
    crate::house::came(&house.call(app, "p", &json!({"code": steps})))
}

#[test]
fn nothing_that_a_worker_says_is_believed() {
    let house = House::open().taken_over();
    let mut wrong = Vec::new();
    let quick = attempts_of(lies()).chain(
        attempts()
            .into_iter()
            .filter(|one| one.name.starts_with("a worker asks")),
    );
    for one in quick {
        let came = lie(&house, "evil", &one.attack);
        if !one.want.fits(&came) {
            wrong.push(format!("{}: wanted {:?}, got {}", one.name, one.want, cut(&came)));
        }
        if let Some(harm) = house.harm(&came) {
            wrong.push(format!("{}: {harm}", one.name));
        }
        let twin = lie(&house, "evil", &one.twin);
        if twin != Came::Value(one.good.clone()) {
            wrong.push(format!("{}: its twin gave {}", one.name, cut(&twin)));
        }
    }
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_only_time_ends_is_ended() {
    let house = House::alone().taken_over();
    let patience: Vec<Attempt> = attempts_of(patience()).collect();
    for n in 0..patience.len() {
        house.add(&format!("slow{n}"), &["p"], crate::house::EVERYTHING);
    }
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let each = patience.iter().enumerate().map(|(n, one)| {
            let house = &house;
            scope.spawn(move || {
                let app = format!("slow{n}");
                let came = lie(house, &app, &one.attack);
                let twin = lie(house, &app, &one.twin);
                let good = one.want.fits(&came) && twin == Came::Value(one.good.clone());
                (!good).then(|| format!("{}: {} and {}", one.name, cut(&came), cut(&twin)))
            })
        });
        let all: Vec<_> = each.collect();
        all.into_iter().filter_map(|one| one.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    testkit::wait_for("the workers to be gone", || house.workers().is_empty().then_some(()));
}

fn cut(came: &Came) -> String {
    format!("{came:?}").chars().take(300).collect()
}
