//! Ten thousand calls of twenty plugins on the built program, once as they should be and once with one in a hundred that
//! means harm: no answer is wrong, no change is lost, nothing is left behind, and the others hardly notice.
//!
//! What a worker that was taken over can do is in `tests/security`: here all of them are the program's own.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Out, Reply, Running, Seen, process, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// Calls of one run. The hostile ones come on top of the honest ones, so that both runs do the same honest work.
const HONEST: usize = 9_900;
const HOSTILE: usize = 100;
/// People who call at the same time.
const CLIENTS: usize = 4;
/// How often each of them calls, at most: together 160 times a second.
const EVERY: Duration = Duration::from_millis(25);
/// Parts in which the two kinds of run take turns.
const PARTS: usize = 10;
/// Apps of three plugins each, and one of two that mean harm.
const APPS: [&str; 6] = ["alder", "birch", "cedar", "dogwood", "elm", "fir"];
const PLUGINS: [&str; 3] = ["one", "two", "three"];
/// How much later the slowest hundredth of the honest calls may be for the hostile ones.
const LATER: Duration = Duration::from_millis(20);
/// What a run may leave in the engine's memory: caches and free pages of the allocator, which another run does not add to.
const LEFT: u64 = 32 << 20;

const CODE: &str = r#"
const tool = { name: "seven", description: "d", parameters: { type: "object", properties: { n: { type: "number" } } } };
const ask = (text, more) => ({ messages: [{ role: "user", content: text }], ...more });
export async function handleRoute(req, host) {
  const what = req.path.split("/")[2], given = req.body;
  switch (what) {
    case "trivial": return { json: { ok: true } };
    case "echo": return { json: given };
    case "keep": {
      const before = host.store.get(given.key);
      host.store.put(given.key, given.value);
      return { json: { before, after: host.store.get(given.key) } };
    }
    case "count": return { json: { n: await host.store.update("count", (n) => (n ?? 0) + 1) } };
    case "counted": return { json: { n: host.store.get("count") ?? 0 } };
    case "file": {
      const before = host.fs.exists(given.path) ? host.fs.read(given.path) : null;
      host.fs.write(given.path, given.text);
      return { json: { before, after: host.fs.read(given.path) } };
    }
    case "passes": {
      const said = host.llm.results.a;
      if (!said) { host.llm.request("a", ask(`say ${given.n}`)); return { __llmPending: true, stash: { n: given.n } }; }
      return { json: { text: said.text, stash: req.stash } };
    }
    case "tools": return { json: await host.llm.generate(ask(`use ${given.n}`, { tools: [tool] })) };
  }
}
export function handleTool(name, args, host) {
  return { text: `${name} times ${args.n} is ${7 * args.n}` };
}
"#;

const HARM: &str = r#"
export async function handleRoute(req, host) {
  switch (req.path.split("/")[2]) {
    case "loop": for (;;) {}
    case "regex": return { json: /^(a+)+$/.test("a".repeat(40) + "!") };
    case "fill": { const all = []; for (;;) all.push("x".repeat(1000) + all.length); }
    case "stack": { const f = (n) => 1 + f([n]); return { json: f(0) }; }
    case "swell": {
      const all = [];
      while (all.length < 40) all.push(new Uint8Array(1 << 20).fill(all.length));
      await host.sleep(20000);
      return { json: all.length };
    }
    case "calls": for (let n = 0; ; n++) { console.warn("flood", n); host.store.get("x"); }
    case "many": { for (let n = 0; n < 17; n++) host.llm.request("k" + n, { messages: [] }); return { json: 1 }; }
    case "deep": { let at = []; for (let n = 0; n < 200000; n++) at = [at]; return { json: at }; }
    case "large": return { text: "x".repeat(65 << 20) };
    case "answer": return { status: 99999, json: { toJSON() { throw new Error("no"); } } };
    case "outside": return { json: host.fs.read("../../../../chrysalis.db") };
    case "full": return { json: host.store.put("big", "x".repeat(2 << 20)) };
  }
}
"#;

/// What harm is tried, how often in a run, and how each must end: one of these is in the error.
const HARMS: [(&str, usize, &[&str]); 12] = [
    ("loop", 3, &["ran longer"]),
    ("regex", 1, &["ran longer"]),
    ("fill", 12, &["ran out of memory", "ended unexpectedly"]),
    ("stack", 12, &["stack", "recursion"]),
    ("swell", 12, &["ended unexpectedly"]),
    ("calls", 4, &["100000", "ran longer"]),
    ("many", 10, &["at most 16 requests"]),
    ("deep", 10, &["plugin"]),
    ("large", 6, &["plugin"]),
    ("answer", 10, &["plugin"]),
    ("outside", 10, &["plugin"]),
    ("full", 10, &["plugin"]),
];

/// Numbers that are the same in every run (splitmix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn text(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'a' + self.below(26) as u8)).collect()
    }
}

struct House {
    running: Running,
    pages: BTreeMap<&'static str, Client>,
    model: ModelServer,
    /// Counting calls that were answered, of all runs, by app and plugin.
    counted: Mutex<BTreeMap<(&'static str, &'static str), usize>>,
    _home: Home,
}

/// All calls of one kind of run, which is done in parts.
struct Run {
    people: Vec<Person>,
    /// The time in which honest calls were made.
    took: Duration,
}

/// Someone who calls, and what the answers must say from what went before.
struct Person {
    run: usize,
    client: usize,
    next: usize,
    dice: Dice,
    kept: BTreeMap<(&'static str, &'static str, String), Value>,
    files: BTreeMap<(&'static str, String), String>,
    times: Vec<Duration>,
}

impl Run {
    fn new(run: usize) -> Self {
        let person = |client| Person {
            run,
            client,
            next: client,
            dice: Dice((client as u64 + 1) << 32),
            kept: BTreeMap::new(),
            files: BTreeMap::new(),
            times: Vec::new(),
        };
        Run {
            people: (0..CLIENTS).map(person).collect(),
            took: Duration::ZERO,
        }
    }

    /// The slowest hundredth begins here.
    fn p99(&self, name: &str) -> Duration {
        let mut times: Vec<Duration> = self.people.iter().flat_map(|person| person.times.clone()).collect();
        times.sort();
        assert_eq!(times.len(), HONEST);
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        eprintln!(
            "{name} hostile calls: {} calls in {:?}; median {:?}, p90 {:?}, p99 {:?}, longest {:?}",
            times.len(),
            self.took,
            at(0.5),
            at(0.9),
            at(0.99),
            at(1.0)
        );
        at(0.99)
    }
}

/// The engine as it is when nothing runs.
#[derive(Debug, Clone, Copy)]
struct Rest {
    descriptors: usize,
    threads: usize,
    memory: u64,
}

impl House {
    fn open() -> Self {
        let model = ModelServer::start(answer);
        let home = Home::new(PROGRAM);
        home.configure("worker_idle_seconds = 2\n[budgets]\nmodel_calls = 1000000\n");
        let running = home.serve();
        let owner = running.set_up();
        running.connect(&owner, &model.url(), None);
        let may = ["routes", "llm", "store", "fs", "tools"];
        let mut pages = BTreeMap::new();
        let apps = APPS.map(|app| (app, &PLUGINS[..], CODE));
        for (id, plugins, code) in apps.into_iter().chain([("thorn", &PLUGINS[..2], HARM)]) {
            let app = AppFolder::new(home.folder(), id);
            for plugin in plugins {
                let manifest = json!({"name": plugin, "permissions": may, "routes": [plugin]});
                app.file(&format!("plugins/{plugin}/manifest.json"), &manifest.to_string());
                app.file(&format!("plugins/{plugin}/plugin.js"), code);
            }
            running.add(app.path(), id);
            pages.insert(id, running.page(&owner, id));
        }
        House {
            running,
            pages,
            model,
            counted: Mutex::default(),
            _home: home,
        }
    }

    fn call(&self, app: &str, plugin: &str, what: &str, body: &Value) -> Reply {
        self.pages[app].post(&format!("/v1/apps/{app}/{plugin}/{what}"), body)
    }

    /// The next calls of one person, up to the one of this number.
    fn honest(&self, of: &mut Person, until: usize, done: &AtomicUsize) {
        let began = Instant::now();
        for turn in 0.. {
            let n = of.next;
            if n >= until {
                return;
            }
            of.next += CLIENTS;
            // Not as fast as can be: then what is measured would be how much of the machine is left.
            std::thread::sleep((EVERY * turn).saturating_sub(began.elapsed()));
            self.one(of, n);
            done.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn one(&self, of: &mut Person, n: usize) {
        let Person {
            run,
            client,
            dice,
            kept,
            files,
            times,
            ..
        } = of;
        let (app, plugin) = (APPS[dice.below(APPS.len())], PLUGINS[dice.below(PLUGINS.len())]);
        let mut timed = |what: &str, body: Value| -> Value {
            let began = Instant::now();
            let reply = self.call(app, plugin, what, &body);
            times.push(began.elapsed());
            assert_eq!(reply.status, 200, "{app}/{plugin} {what}: {}", reply.text());
            reply.json()
        };
        match dice.below(100) {
            0..35 => assert_eq!(timed("trivial", Value::Null), json!({"ok": true})),
            35..60 => {
                let body = json!({"text": dice.text(1000), "n": n});
                assert_eq!(timed("echo", body.clone()), body);
            }
            60..72 => {
                let key = format!("{run}-{client}-{}", dice.below(3));
                let value = json!([n, dice.text(40)]);
                let before = kept.insert((app, plugin, key.clone()), value.clone());
                let want = json!({"before": before, "after": value});
                assert_eq!(timed("keep", json!({"key": key, "value": value})), want);
            }
            72..84 => {
                // That none was lost is seen at the end.
                assert!(timed("count", Value::Null)["n"].as_u64() > Some(0));
                *self.counted.lock().unwrap().entry((app, plugin)).or_default() += 1;
            }
            84..92 => {
                let path = format!("{run}/{client}/{}.txt", dice.below(5));
                let text = dice.text(200);
                let before = files.insert((app, path.clone()), text.clone());
                let want = json!({"before": before, "after": text});
                assert_eq!(timed("file", json!({"path": path, "text": text})), want);
            }
            92..97 => {
                let want = json!({"text": format!("said {n}"), "stash": {"n": n}});
                assert_eq!(timed("passes", json!({"n": n})), want);
            }
            _ => {
                let want = format!("so seven times {n} is {}", 7 * n);
                assert_eq!(timed("tools", json!({"n": n}))["text"], want);
            }
        }
    }

    /// The next part of a run: honest calls up to the one of this number, and beside them, spread over them, these hostile
    /// ones.
    fn part(&self, run: &mut Run, until: usize, harms: &[usize]) {
        let (done, over, killed) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
        let began = Instant::now();
        std::thread::scope(|scope| {
            let (done, over, killed) = (&done, &over, &killed);
            let honest: Vec<_> = run
                .people
                .iter_mut()
                .map(|person| scope.spawn(move || self.honest(person, until, done)))
                .collect();
            scope.spawn(move || self.kill_the_swollen(over, killed));
            let harm = scope.spawn(move || {
                let mut calls = Vec::new();
                for (n, at) in harms.iter().enumerate() {
                    let mine = n * (HONEST / HOSTILE);
                    wait_long(|| done.load(Ordering::SeqCst) >= mine || over.load(Ordering::SeqCst));
                    calls.push(scope.spawn(move || self.harm(HARMS[*at], PLUGINS[n % 2])));
                }
                calls.into_iter().map(|call| call.join().is_ok()).collect::<Vec<_>>()
            });
            let answered: Vec<bool> = honest.into_iter().map(|person| person.join().is_ok()).collect();
            run.took += began.elapsed();
            if answered.contains(&false) {
                over.store(true, Ordering::SeqCst);
            }
            let ended = harm.join();
            over.store(true, Ordering::SeqCst);
            assert!(!answered.contains(&false), "every honest call was answered rightly");
            assert!(
                !ended.expect("the harm").contains(&false),
                "every harm ended as it must"
            );
        });
        let swelled = harms.iter().filter(|at| HARMS[**at].0 == "swell").count();
        assert!(
            killed.load(Ordering::SeqCst) >= swelled,
            "those that swell were killed from outside"
        );
        self.model.forget();
    }

    fn harm(&self, (what, _, ends): (&str, usize, &[&str]), plugin: &str) {
        let reply = self.call("thorn", plugin, what, &Value::Null);
        let text = reply.text();
        assert_eq!(
            reply.status,
            500,
            "{what}: {}",
            text.chars().take(500).collect::<String>()
        );
        assert!(ends.iter().any(|end| text.contains(end)), "{what}: {text}");
    }

    /// Kills workers that are larger than any honest one gets, with `kill -9`.
    fn kill_the_swollen(&self, over: &AtomicBool, killed: &AtomicUsize) {
        let engine = self.running.pid();
        while !over.load(Ordering::SeqCst) {
            for pid in process::workers(engine) {
                if resident(pid) > 36 << 20 {
                    process::signal(pid, libc::SIGKILL);
                    killed.fetch_add(1, Ordering::SeqCst);
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// No count was lost, and none came twice.
    fn all_counted(&self) {
        for ((app, plugin), count) in self.counted.lock().unwrap().iter() {
            let kept = self.call(app, plugin, "counted", &Value::Null).ok();
            assert_eq!(kept["n"], *count, "{app}/{plugin}");
        }
    }

    /// Waits until nothing runs, and looks.
    fn rest(&self) -> Rest {
        let engine = self.running.pid();
        wait_for("all workers to be gone", || {
            (process::tree(engine) == [engine]).then_some(())
        });
        let look = || Rest {
            descriptors: process::descriptors(engine),
            threads: std::fs::read_dir(format!("/proc/{engine}/task")).map_or(0, Iterator::count),
            memory: process::anonymous_memory(engine),
        };
        // Connections and threads that were busy a moment ago are put away a little later: when it stands still, it rests.
        let mut before = look();
        wait_for("the engine to come to rest", || {
            std::thread::sleep(Duration::from_millis(1500));
            let now = look();
            let still = now.descriptors == before.descriptors && now.threads == before.threads;
            before = now;
            still.then_some(now)
        })
    }
}

/// Waits as long as it takes: what it waits for has deadlines of its own.
fn wait_long(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes of a process that are in memory.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

/// The model: says what it is told, or uses the tool once and says what came of it.
fn answer(seen: &Seen, out: &mut Out) {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let content = |message: Option<&Value>| {
        message
            .and_then(|m| m["content"].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let (first, last) = (content(messages.first()), content(messages.last()));
    let (what, n) = first.split_once(' ').unwrap_or_default();
    out.begin();
    match (what, messages.len()) {
        ("say", 1) => drop(out.delta(&format!("said {n}"))),
        ("use", 1) => {
            let arguments = format!("{{\"n\":{n}}}");
            let function = json!({"name": "seven", "arguments": arguments});
            let call = json!({"index": 0, "id": "c", "type": "function", "function": function});
            let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
            let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
            return out.raw(&format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n"));
        }
        _ => drop(out.delta(&format!("so {last}"))),
    }
    out.done();
}

/// Which harm is tried when, the same in each run.
fn harms() -> Vec<usize> {
    let mut harms: Vec<usize> = (0..HARMS.len()).flat_map(|at| vec![at; HARMS[at].1]).collect();
    assert_eq!(harms.len(), HOSTILE);
    let mut dice = Dice(7);
    for at in (1..harms.len()).rev() {
        harms.swap(at, dice.below(at + 1));
    }
    harms
}

#[test]
fn ten_thousand_calls_with_one_in_a_hundred_hostile() {
    let house = House::open();
    let harms = harms();
    // What is loaded and opened once stays.
    house.part(&mut Run::new(0), 400, &[2, 3]);
    let mut best = Duration::MAX;
    // Others may use this machine at the same time; what is held against the rule is the best of three pairs.
    for pair in 0..3 {
        let before = house.rest();
        let (mut quiet, mut harmed) = (Run::new(2 * pair + 1), Run::new(2 * pair + 2));
        // In turns, so that what else goes on meets both alike.
        for part in 1..=PARTS {
            let until = HONEST / PARTS * part;
            house.part(&mut quiet, until, &[]);
            house.part(
                &mut harmed,
                until,
                &harms[HOSTILE / PARTS * (part - 1)..HOSTILE / PARTS * part],
            );
        }
        house.all_counted();
        let after = house.rest();
        let later = harmed.p99("with").saturating_sub(quiet.p99("without"));
        eprintln!("p99 is {later:?} later; the engine at rest: {before:?} before, {after:?} after");
        assert!(after.descriptors <= before.descriptors, "{before:?} {after:?}");
        assert!(after.threads <= before.threads + 4, "{before:?} {after:?}");
        assert!(after.memory < before.memory + LEFT, "{before:?} {after:?}");
        best = best.min(later);
        if best <= LATER {
            return;
        }
    }
    panic!("the slowest hundredth of the honest calls is {best:?} later for the hostile ones");
}
