//! Races on the disk, and what a plugin can do where it is not asked by its own page: on the clock and as a hook.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{AppFolder, wait_for};

use crate::attempt::Came;
use crate::house::{EVERYTHING, House, OTHERS_TEXT};

pub const NAMES: &[&str] = &[
    "a folder that is swapped for a link while files are written in it",
    "a file that is swapped for a link while it is read and appended to",
    "a tick that is not over when the next is due",
    "a schedule that was not granted",
    "a hook that listens to another app's requests",
    "a hook that never ends",
    "a hook that asks a model, whose hook it is",
    "a hook that throws",
];

/// Another program swaps the name under the plugin's feet, as fast as it can.
fn raced(house: &House, code: &str, swap: impl Fn() + Sync) -> usize {
    let over = AtomicBool::new(false);
    let swaps = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                swap();
                swaps.fetch_add(1, Ordering::SeqCst);
            }
        });
        let began = Instant::now();
        let mut done = 0;
        while began.elapsed() < Duration::from_secs(4) {
            let came = house.run(code);
            if let Some(harm) = house.harm(&came) {
                over.store(true, Ordering::SeqCst);
                panic!("{harm}: {came:?}");
            }
            let Came::Value(tried) = &came else {
                over.store(true, Ordering::SeqCst);
                panic!("{came:?}");
            };
            done += tried.as_u64().unwrap_or_default() as usize;
        }
        over.store(true, Ordering::SeqCst);
        done
    })
}

#[test]
fn a_name_that_is_swapped_leads_nowhere() {
    let house = House::open();
    assert_eq!(
        house.run("host.fs.write('race/inner.txt', 'mine')"),
        Came::Value(Value::Null)
    );
    let (data, outside) = (house.data("evil"), house.outside());
    let (at, aside) = (data.join("race"), data.join("race-aside"));
    let code = "let n = 0; for (let i = 0; i < 200; i++) for (const work of [() => host.fs.write('race/inner.txt', 'mine'),
          () => host.fs.append('race/inner.txt', 'x'), () => { if (host.fs.read('race/inner.txt').includes('canary')) throw null },
          () => host.fs.write('race/new.txt', 'mine'), () => host.fs.remove('race/inner.txt'), () => host.fs.rename('race/new.txt', 'race/other.txt'),
          () => host.fs.mkdir('race/a/b'), () => { if (host.fs.list('race').includes('folder')) throw null }])
          try { work(); n++ } catch (e) { if (e === null) return 'it got out' } return n";
    let done = raced(&house, code, || {
        let _ = fs::rename(&at, &aside);
        let _ = symlink(outside.join("folder"), &at);
        let _ = fs::remove_file(&at);
        let _ = fs::rename(&aside, &at);
    });
    assert!(done > 100, "the twin: between the swaps {done} of its calls worked");
    fs::remove_dir_all(&at)
        .or_else(|_| fs::remove_file(&at))
        .unwrap_or_default();

    let file = data.join("swapped.txt");
    let code = "let n = 0; for (let i = 0; i < 300; i++) for (const work of [() => host.fs.write('swapped.txt', 'mine'),
          () => host.fs.append('swapped.txt', 'x'), () => { if (host.fs.read('swapped.txt').includes('canary')) throw null }])
          try { work(); n++ } catch (e) { if (e === null) return 'it got out' } return n";
    let done = raced(&house, code, || {
        let _ = fs::remove_file(&file);
        let _ = symlink(outside.join("file.txt"), &file);
        let _ = fs::remove_file(&file);
        let _ = fs::write(&file, "own");
    });
    assert!(done > 100, "the twin: between the swaps {done} of its calls worked");
}

/// An app with one plugin of this code.
fn app(house: &House, id: &str, permissions: &[&str], interval: Option<u64>, code: &str) {
    let app = AppFolder::new(house.home.folder(), id).plugin("p", permissions, code);
    let mut manifest = house.manifest("p", permissions);
    if let Some(interval) = interval {
        manifest["schedule"] = json!({"intervalMs": interval});
    }
    app.file("plugins/p/manifest.json", &manifest.to_string());
    house.running.add(app.path(), id);
}

const CLOCK: &str = r#"
export async function onTick(about, host) {
  const note = (word) => host.store.put("ticks", [...(host.store.get("ticks") ?? []), word]);
  note("begin"); await host.sleep(7000); note("end");
}
export async function handleRoute(req, host) { return { json: host.store.get("ticks") ?? [] }; }
"#;

#[test]
fn ticks_never_overlap_and_need_a_permission() {
    let house = House::open();
    app(&house, "clock", EVERYTHING, Some(5000), CLOCK);
    app(&house, "no-clock", &["store", "routes"], Some(5000), CLOCK);
    // A call of the page may be told to come again while the machine is loaded: then there is nothing to see yet.
    let ticks = |app: &str| {
        let reply = house.owner.get(&format!("/v1/apps/{app}/ticks"));
        (reply.status == 200).then(|| reply.json())
    };
    // A tick is due every 5 s and takes 7 s: two of them and a bit take 20 s on a machine that has nothing else to do.
    let patient = Instant::now();
    let many = |most: usize| {
        loop {
            let seen = ticks("clock").unwrap_or_default();
            if seen.as_array().map_or(0, Vec::len) >= most {
                return seen;
            }
            assert!(
                patient.elapsed() < Duration::from_secs(150),
                "waited for {most} words: {seen}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let seen = many(3);
    let words: Vec<&str> = seen.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for pair in words.chunks(2) {
        assert_eq!(pair[0], "begin", "{words:?}");
        assert!(
            pair.len() == 1 || pair[1] == "end",
            "one began before the other was over: {words:?}"
        );
    }
    assert_eq!(wait_for("an answer", || ticks("no-clock")), json!([]));
}

/// Hooks whose behaviour is told by what the request says.
const SPY: &str = r#"
const ask = (text) => ({ messages: [{ role: "user", content: text }] });
export async function llmRequest(request, host) {
  const text = JSON.stringify(request);
  host.store.put("heard", [...(host.store.get("heard") ?? []), text.slice(0, 2000)]);
  if (text.includes("please loop")) for (;;) {}
  if (text.includes("please throw")) throw new Error("the hook throws");
  if (text.includes("please ask")) await host.llm.generate(ask("please ask again"));
}
export async function handleRoute(req, host) {
  if (req.path === "/heard") return { json: host.store.get("heard") ?? [] };
  const result = await host.llm.generate(ask(req.body.text));
  return { json: result.text ?? result.error ?? null };
}
"#;

#[test]
fn hooks_stay_with_their_app_and_end() {
    let house = House::open();
    app(&house, "spy", EVERYTHING, None, SPY);
    let heard = || house.owner.get("/v1/apps/spy/heard").ok().to_string();
    let secret = format!(
        "return (await host.llm.generate({{ messages: [{{ role: 'user', content: '{OTHERS_TEXT}' }}] }})).text"
    );
    assert_eq!(house.run_as("beta", "p", &secret), Came::Value(json!("hello")));
    assert!(!heard().contains(OTHERS_TEXT), "{}", heard());
    let say = |text: &str| house.owner.post("/v1/apps/spy/say", &json!({"text": text}));
    assert_eq!(say("its own words").ok(), json!("hello"));
    assert!(heard().contains("its own words"), "the twin: {}", heard());

    for word in ["please throw", "please ask"] {
        let began = Instant::now();
        let reply = say(word);
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{word}: {:?}",
            began.elapsed()
        );
        assert!(matches!(reply.status, 200 | 500), "{word}: {}", reply.text());
        assert_eq!(say("and on it goes").ok(), json!("hello"), "after {word}");
    }
    let began = Instant::now();
    let reply = say("please loop");
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
    assert!(matches!(reply.status, 200 | 500), "{}", reply.text());
    assert_eq!(say("and on it goes").ok(), json!("hello"));
    assert_eq!(house.run_as("beta", "p", "return 1"), Came::Value(json!(1)));
}
