//! Time and memory: code that never ends, floods, bombs and crashes. Each in an app of its own, all at once, while another
//! app's plugin must be well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{process, wait_for};

use crate::attempt::{Attempt, Came, Want, attempt};
use crate::house::{EVERYTHING, House};

const LATE: Want = Want::Fails(&["ran longer"]);
const FULL: Want = Want::Fails(&["ran out of memory"]);
/// Time or memory, whichever ends first on this machine.
const EITHER: Want = Want::Fails(&[
    "ran longer",
    "ran out of memory",
    "ended unexpectedly",
    "out of memory",
    "invalid string length",
    "invalid array",
    "too large",
    "larger than",
    "stack",
    "overflow",
    "its result is",
    "too many captures",
]);

/// Code that does not end by itself, most of it inside functions that the engine has built in.
const HANGS: &[(&str, &str, Want)] = &[
    ("a loop", "for (;;) {}", LATE),
    ("a loop that catches", "for (;;) try { for (;;) {} } catch {}", LATE),
    ("jobs without end", "for (;;) await null", LATE),
    (
        "a regular expression that tracks back",
        r#"return /^(a+)+$/.test("a".repeat(60) + "!")"#,
        LATE,
    ),
    (
        "a regular expression of many stars",
        r#"return /(.*)*(.*)*(.*)*x/.test("y".repeat(5000))"#,
        LATE,
    ),
    (
        "a comparison that never ends",
        "return new Array(500).fill(1).sort(() => { for (;;) {} })",
        LATE,
    ),
    (
        "a sort of millions",
        "const all = new Float64Array(5e6).map(Math.random); for (;;) all.sort((a, b) => b - a).reverse()",
        EITHER,
    ),
    (
        "a number of millions of digits",
        "let n = 3n; for (;;) n = n * n % (1n << 400000n)",
        LATE,
    ),
    (
        "digits of a large number",
        "return (7n ** 3000000n).toString().length",
        EITHER,
    ),
    (
        "a search in a list without end",
        "return Array.prototype.includes.call({ length: Number.MAX_SAFE_INTEGER }, 1)",
        LATE,
    ),
    (
        "a replacement that never ends",
        r#"return "a".repeat(1e6).replaceAll("a", () => { for (;;) {} })"#,
        LATE,
    ),
    (
        "a result that takes for ever to read",
        "return { get x() { for (;;) {} } }",
        LATE,
    ),
    (
        "a result that takes for ever to write",
        "return { toJSON() { for (;;) {} } }",
        LATE,
    ),
    (
        "a promise that takes for ever",
        "return { get then() { for (;;) {} } }",
        LATE,
    ),
    (
        "an argument that takes for ever",
        "host.store.put('k', { toJSON() { for (;;) {} } })",
        LATE,
    ),
    ("a loop after a wait", "await host.sleep(10); for (;;) {}", LATE),
    (
        "a loop in a timer",
        "setTimeout(() => { for (;;) {} }, 1); await host.sleep(5000); return 1",
        LATE,
    ),
    (
        "an iterator without end",
        "return [...(function* () { for (;;) yield 0 })()].length",
        EITHER,
    ),
    (
        "a spread without end",
        "return Math.max(...{ length: 2 ** 31, [Symbol.iterator]: function* () { for (;;) yield 1 } })",
        EITHER,
    ),
    (
        "a wait for shared memory",
        "return Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0)",
        Want::Fails(&["ran longer", "not", "cannot"]),
    ),
    (
        "a Proxy chain",
        "let p = {}; for (let n = 0; n < 1e5; n++) p = new Proxy(p, {}); return p.x ?? 'end'",
        EITHER,
    ),
];

/// Code that takes memory.
const BOMBS: &[(&str, &str, Want)] = &[
    (
        "lists of lists",
        "const all = []; for (let i = 0; ; i++) all.push(new Array(1000).fill(i))",
        FULL,
    ),
    (
        "a text that doubles",
        r#"let s = "x"; const all = []; for (;;) { s += s; all.push(s.split("")) }"#,
        EITHER,
    ),
    ("a text of 512 MiB", r#"return "x".repeat(1 << 29).length"#, EITHER),
    (
        "a padded text",
        r#"return "".padStart(2 ** 30 - 2, "abc").length"#,
        EITHER,
    ),
    (
        "a buffer of 8 GiB",
        "return new ArrayBuffer(8 * 2 ** 30).byteLength",
        EITHER,
    ),
    (
        "many buffers",
        "const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))",
        FULL,
    ),
    (
        "a list of four billion",
        "return new Array(2 ** 32 - 1).fill(0).length",
        EITHER,
    ),
    (
        "a map without end",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, [i])",
        FULL,
    ),
    (
        "promises without end",
        "const all = []; for (;;) all.push(Promise.resolve(all).then(() => 1))",
        FULL,
    ),
    (
        "names without end",
        "const o = {}; for (let i = 0; ; i++) o['k' + i] = i",
        FULL,
    ),
    (
        "symbols without end",
        "const all = []; for (let i = 0; ; i++) all.push(Symbol.for('k' + i))",
        FULL,
    ),
    (
        "JSON of nested lists",
        r#"return JSON.parse("[".repeat(5e6) + "]".repeat(5e6)).length"#,
        EITHER,
    ),
    (
        "JSON that grows",
        "let o = [1]; for (;;) o = [JSON.stringify(o), o]",
        EITHER,
    ),
    (
        "a result of 65 MB",
        r#"return "x".repeat(33e6) + "y".repeat(1)"#,
        EITHER,
    ),
    (
        "a result ten thousand lists deep",
        "let o = []; for (let i = 0; i < 10000; i++) o = [o]; return o",
        EITHER,
    ),
    ("recursion", "const deep = () => deep() + 1; return deep()", EITHER),
    (
        "recursion through getters",
        "const o = { get x() { return this.x } }; return o.x",
        EITHER,
    ),
    (
        "recursion through toString",
        "const o = { toString() { return `${this}` } }; return `${o}`",
        EITHER,
    ),
    (
        "a regular expression of a million brackets",
        r#"return new RegExp("(".repeat(1e6) + ")".repeat(1e6)).test("")"#,
        EITHER,
    ),
    (
        "a regular expression whose code doubles",
        "let p = 'a'; for (let i = 0; i < 50; i++) p = `(?:${p}|)+`; return new RegExp(p).test('aaa')",
        EITHER,
    ),
    (
        "code compiled with a full heap",
        r#"const all = []; try { for (;;) all.push(new Array(100).fill("x")) } catch {} while (all.length % 50) all.pop();
           for (let i = 0; ; i++) { try { all.push((0, eval)(`(function f${i}(a) { return { a, c: [${i}] } })`)) } catch {} }"#,
        EITHER,
    ),
    (
        "code of ten million functions",
        r#"return new Function("x=>".repeat(1e7) + "1")()"#,
        EITHER,
    ),
    (
        "structures that hold themselves, copied",
        "let o = {}; for (let i = 0; i < 60; i++) o = [o, o, structuredClone(o)]; return 1",
        EITHER,
    ),
    (
        "bytes in text and back",
        r#"let s = "x".repeat(1e6); for (;;) s = btoa(s)"#,
        EITHER,
    ),
];

/// Floods of what the host gives.
fn floods() -> Vec<Attempt> {
    use Want::*;
    let fine = "return (await Promise.all([host.sleep(1), host.sleep(1)])).length";
    let one = |name: &str, attack: &str, want: Want| attempt(&format!("a flood: {name}"), attack, want, fine, json!(2));
    vec![
        one(
            "100,001 calls",
            "for (let i = 0; i < 100001; i++) host.store.get('k'); return 1",
            Fails(&["more than 100000 calls", "ran longer"]),
        ),
        one(
            "lines in the log",
            "for (let i = 0; i < 1e5; i++) console.warn('x'.repeat(3000)); return 1",
            Gives(json!(1)),
        ),
        one(
            "sixty-five calls at a time",
            "const all = await Promise.allSettled(Array.from({ length: 65 }, () => host.sleep(300))); return all[64].reason.message",
            Says(&["only 64 calls"]),
        ),
        one("timers", "for (;;) setTimeout(() => {}, 1e9)", EITHER),
        one(
            "timers that make timers",
            "const again = () => { setTimeout(again, 0); setTimeout(again, 0) }; again(); await new Promise(() => {})",
            Fails(&["can never settle", "ran longer", "out of memory"]),
        ),
        one(
            "an interval that outlives the call",
            "setInterval(() => host.store.put('late', Date.now()), 1); return 1",
            Gives(json!(1)),
        ),
        one(
            "sleeps beyond a minute",
            "return kit.thrown(() => host.sleep(60001))",
            Says(&["at most 60 s"]),
        ),
        one(
            "sleeps of more than two minutes in all",
            "host.sleep(60000); host.sleep(60000); await host.store.scan({}); return kit.thrown(() => host.sleep(10))",
            Says(&["has slept 120 s already"]),
        ),
        one(
            "rejected promises",
            "for (let i = 0; i < 20000; i++) Promise.reject(new Error('x' + i)); return 1",
            Gives(json!(1)),
        ),
        one(
            "writes to the store",
            "for (let i = 0; i < 500; i++) host.store.put('k', i); return host.store.get('k')",
            Gives(json!(499)),
        ),
        one(
            "files",
            "let n = 0; try { for (; n < 3000; n++) host.fs.write('f/' + n, 'x') } catch (e) { return e.message } return [n, host.fs.list('f').length]",
            Gives(json!([3000, 3000])),
        ),
    ]
}

pub fn attempts() -> Vec<Attempt> {
    let twin = "return [1, 2].map((n) => n * 2)";
    let each = |kind: &'static str, list: &'static [(&str, &str, Want)]| {
        list.iter()
            .map(move |(name, code, want)| attempt(&format!("{kind}: {name}"), code, want.clone(), twin, json!([2, 4])))
    };
    each("time", HANGS)
        .chain(each("memory", BOMBS))
        .chain(floods())
        .collect()
}

/// Runs each in an app of its own, so many at once; beta's plugin is asked all the while.
fn side_by_side(house: &House, all: &[Attempt], at_once: usize) {
    for n in 0..at_once {
        house.add(&format!("load{n}"), &["p"], EVERYTHING);
    }
    let over = AtomicBool::new(false);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            let mut calls = 0;
            while !over.load(Ordering::SeqCst) {
                let began = Instant::now();
                assert_eq!(house.run_as("beta", "p", "return 1"), Came::Value(json!(1)));
                longest = longest.max(began.elapsed());
                calls += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
            (calls, longest)
        });
        let lanes: Vec<_> = (0..at_once)
            .map(|lane| {
                scope.spawn(move || {
                    let mut wrong = Vec::new();
                    for one in all.iter().skip(lane).step_by(at_once) {
                        let app = format!("load{lane}");
                        let began = Instant::now();
                        let came = house.run_as(&app, "p", &one.attack);
                        let took = began.elapsed();
                        if !one.want.fits(&came) {
                            let came: String = format!("{came:?}").chars().take(300).collect();
                            wrong.push(format!("{}: wanted {:?}, got {came}", one.name, one.want));
                        }
                        if took > Duration::from_secs(40) {
                            wrong.push(format!("{} took {took:?}", one.name));
                        }
                        let twin = house.run_as(&app, "p", &one.twin);
                        if twin != Came::Value(one.good.clone()) {
                            wrong.push(format!("{}: its twin gave {twin:?}", one.name));
                        }
                    }
                    wrong
                })
            })
            .collect();
        let mut wrong: Vec<String> = lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect();
        over.store(true, Ordering::SeqCst);
        match neighbour.join() {
            Ok((calls, longest)) => {
                eprintln!("{calls} calls of another app's plugin beside it, the longest {longest:?}");
                // Everything here takes a whole core or more, and others build on the same machine.
                if calls < 10 || longest > Duration::from_secs(8) {
                    wrong.push(format!("another app's plugin: {calls} calls, the longest {longest:?}"));
                }
            }
            Err(_) => wrong.push("another app's plugin failed".into()),
        }
        wrong
    });
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
    wait_for("the workers to be gone", || house.workers().is_empty().then_some(()));
}

#[test]
fn time_and_memory_end_at_their_limits() {
    let house = House::alone();
    let engine = house.running.pid();
    let all = attempts();
    // Once, for what stays for good.
    house.run("return 'x'.repeat(1e6)");
    let (memory, descriptors) = (process::anonymous_memory(engine), process::descriptors(engine));
    side_by_side(&house, &all, 8);
    wait_for("every descriptor to be closed", || {
        (process::descriptors(engine) <= descriptors + 8).then_some(())
    });
    let after = process::anonymous_memory(engine);
    eprintln!(
        "the engine's own memory: {} KiB before, {} KiB after",
        memory >> 10,
        after >> 10
    );
    assert!(after < memory + (128 << 20), "{memory} before, {after} after");
    let left: Vec<u32> = process::tree(engine).into_iter().filter(|pid| *pid != engine).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// What a call began and did not end goes with it.
#[test]
fn nothing_of_a_call_outlives_it() {
    let house = House::open();
    let late = "setInterval(() => host.store.put('late', 1), 1); host.sleep(200).then(() => host.store.put('late', 2)); \
                (async () => { await host.sleep(100); host.store.put('late', 3) })(); return 1";
    assert_eq!(house.run(late), Came::Value(json!(1)));
    let on_time = "await host.sleep(50); host.store.put('on-time', 1); return 1";
    assert_eq!(house.run(on_time), Came::Value(json!(1)));
    // Longer than any of them would have taken.
    assert_eq!(
        house.run("await host.sleep(600); return host.store.get('late')"),
        Came::Value(json!(null))
    );
    assert_eq!(house.run("return host.store.get('on-time')"), Came::Value(json!(1)));
}
