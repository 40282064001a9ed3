//! Pages that do their worst to everyone else: floods of every kind, an endless loop, a web process that dies. The
//! launcher goes on answering, the main process stays small, other windows notice nothing, and the page that did it can
//! be loaded again by a click above it.

mod desktop;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use desktop::{Desktop, driver, home, median, pictures, screen};
use serde_json::{Value, json};
use testkit::{AppFolder, Home, process, wait_for};

/// How long the launcher may take to answer while a page does its worst, by the median.
const ANSWER: Duration = Duration::from_millis(100);
/// How much the main process may grow meanwhile.
const GROWTH: i64 = 30 << 20;
/// How long a page does its worst, unless it is stopped before.
const FLOOD_MS: u64 = 10_000;

/// The attacks, by name. Each is started once and goes on by itself; `often` yields between bursts, so that the page's
/// event loop lives.
const ATTACKS: &str = r#"
const out = (text) => { try { window.ipc.postMessage(text); } catch {} };
const often = (work, ms = 0) => { const go = () => { work(); setTimeout(go, ms); }; setTimeout(go, 0); };
const burst = (n, work) => () => { for (let i = 0; i < n; i++) work(i); };
const text = (length) => "x".repeat(length);
globalThis.attacks = {
  "small garbage": () => often(burst(5000, () => out("{"))),
  "forged requests": () => often(burst(2000, (i) => out(JSON.stringify({ t: "fetch", s: text(32), id: i, method: "GET", url: "/v1/me", headers: [] })))),
  "large messages": () => often(burst(20, () => out(text(250_000)))),
  "enormous messages": () => often(burst(2, () => out(text(40_000_000)))),
  "real requests": () => often(burst(500, () => fetch("/v1/apps/worst/__storage").catch(() => {}))),
  "stored values": () => often(burst(500, (i) => { try { localStorage.setItem("k" + (i % 7), text(1000) + i); } catch {} })),
  "files": () => often(burst(500, (i) => { new Image().src = "/none-" + i + ".png?" + Math.random(); })),
  "unread answers": () => burst(64, () => fetch("big.bin").catch(() => {}))(),
  "navigations": () => often(burst(50, (i) => { location.href = "http://127.0.0.1:9/" + i; })),
  "titles and dialogs": () => often(burst(200, (i) => { document.title = text(5000) + i; try { alert(1); print(); } catch {} })),
  "just below the limit": () => often(burst(8, () => out("{\"t\":\"seen\",\"s\":\"" + text(32) + "\",\"n\":1}")), 10),
};
"#;

const CALM: &str = r#"
globalThis.measure = async (ms) => {
  const times = [], end = performance.now() + ms;
  while (performance.now() < end) {
    const began = performance.now();
    const answer = await fetch("/v1/apps/calm/__storage");
    await answer.json();
    if (!answer.ok) throw new Error("status " + answer.status);
    times.push(performance.now() - began);
    await new Promise((done) => setTimeout(done, 20));
  }
  return times;
};
"#;

fn apps(home: &Home, desktop: &Desktop) {
    for (id, code) in [("worst", ATTACKS), ("calm", CALM)] {
        let folder = AppFolder::new(home.folder(), id);
        folder.file("app.js", code);
        folder.file("big.bin", &"0123456789abcdef".repeat(1 << 20));
        desktop.add(folder.path(), id);
    }
    desktop.no_first_start();
}

/// The value that 95 of 100 do not exceed; of sorted ones.
fn most_of(sorted: &[Duration]) -> Duration {
    sorted[sorted.len() * 95 / 100]
}

fn times(value: &Value) -> Vec<Duration> {
    let all = value.as_array().unwrap_or_else(|| panic!("no times: {value}"));
    let ms = all.iter().filter_map(Value::as_f64);
    ms.map(|ms| Duration::from_secs_f64(ms / 1e3)).collect()
}

struct Measured {
    launcher: Vec<Duration>,
    calm: Vec<Duration>,
    grown: i64,
    threads: usize,
    stopped_after: Option<Duration>,
}

/// What the launcher, another app's page and the main process are like for a while.
fn measure(desktop: &Desktop, worst: u32, ms: u64) -> Measured {
    let script = format!(
        "{} const [ms, done] = arguments; const times = [], end = performance.now() + ms; \
         (async () => {{ while (performance.now() < end) {{ \
           const began = performance.now(); \
           const answer = await call('GET', '/v1/me', null); \
           if (answer.status !== 200) return done(answer); \
           times.push(performance.now() - began); \
           await new Promise((done) => setTimeout(done, 20)); \
         }} done(times); }})()",
        driver::CALL
    );
    let before = process::private_memory(desktop.pid) as i64;
    let over = AtomicBool::new(false);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let (mut most, mut threads, mut stopped) = (before, 0, None);
            while !over.load(Ordering::SeqCst) {
                most = most.max(process::private_memory(desktop.pid) as i64);
                let tasks = std::fs::read_dir(format!("/proc/{}/task", desktop.pid));
                threads = threads.max(tasks.map_or(0, Iterator::count));
                if stopped.is_none() && !process::runs(worst) {
                    stopped = Some(began.elapsed());
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            (most - before, threads, stopped)
        });
        let calm = scope.spawn(|| desktop.run_in("calm", &format!("return measure({ms})")));
        let launcher = times(&desktop.launcher.run_async(&script, &[json!(ms)]));
        let calm = times(&calm.join().expect("no panic").expect("the calm page is answered"));
        over.store(true, Ordering::SeqCst);
        let (grown, threads, stopped_after) = watching.join().expect("no panic");
        Measured {
            launcher,
            calm,
            grown,
            threads,
            stopped_after,
        }
    })
}

#[test]
fn whatever_a_page_floods_the_launcher_answers_and_memory_stays_flat() {
    let folder = pictures("desktop-flood");
    let home = home();
    let desktop = Desktop::start(&home);
    apps(&home, &desktop);
    desktop.open("calm");
    let mut worst = desktop.open_process("worst");
    let mut window = desktop.window("worst");
    let names = desktop.eval("worst", "Object.keys(attacks)");
    let names: Vec<String> = serde_json::from_value(names).expect("names");
    // Everything that is made once is made now.
    measure(&desktop, worst, 2_000);
    let mut failures = Vec::new();
    for name in &names {
        desktop.mark_stale("worst");
        desktop.eval("worst", &format!("attacks[{}](); 1", json!(name)));
        let Measured {
            mut launcher,
            mut calm,
            grown,
            threads,
            stopped_after,
        } = measure(&desktop, worst, FLOOD_MS);
        // Answers come one after the other, with 20 ms between them.
        let mut passed = Duration::ZERO;
        let lasted = launcher.iter().take_while(|time| {
            let still = stopped_after.is_none_or(|stopped| passed < stopped);
            passed += **time + Duration::from_millis(20);
            still
        });
        let during = median(&mut lasted.copied().collect::<Vec<_>>());
        let (middle, most) = (
            median(&mut launcher),
            launcher.iter().max().copied().unwrap_or_default(),
        );
        let (calm_middle, calm_most) = (median(&mut calm), calm.iter().max().copied().unwrap_or_default());
        println!(
            "{name}: launcher median {middle:.1?}, while it lasted {during:.1?}, 95% {:.1?}, max {most:.1?} of {}; other page median {calm_middle:.1?} max \
             {calm_most:.1?} of {}; main process {:+.1} MB, {threads} threads; stopped after {stopped_after:.1?}",
            most_of(&launcher),
            launcher.len(),
            calm.len(),
            grown as f64 / 1e6
        );
        if middle >= ANSWER || during >= ANSWER {
            failures.push(format!(
                "{name}: the launcher took {middle:?}, {during:?} while it lasted"
            ));
        }
        if calm_middle >= ANSWER {
            failures.push(format!("{name}: another app's page took {calm_middle:?}"));
        }
        if grown >= GROWTH {
            failures.push(format!("{name}: the main process grew by {grown} bytes"));
        }
        // Those that break the rules of the bridge are stopped; the others are merely held back.
        let breaks = ["garbage", "forged", "messages", "real requests", "files"];
        if breaks.iter().any(|word| name.contains(word)) && stopped_after.is_none() {
            failures.push(format!("{name}: the page was not stopped"));
        }
        if name == "just below the limit" && stopped_after.is_some() {
            failures.push(format!("{name}: the page was stopped"));
        }
        if stopped_after.is_some() {
            screen::picture(&folder.join(format!("{}.png", name.replace(' ', "-"))));
            let before = desktop.web_processes();
            desktop.click_reload("worst", window);
            worst = wait_for("the new web process", || {
                desktop.web_processes().into_iter().find(|pid| !before.contains(pid))
            });
        } else {
            window.close();
            worst = desktop.open_process("worst");
            window = desktop.window("worst");
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn a_page_in_an_endless_loop_can_be_loaded_again() {
    let folder = pictures("desktop-loop");
    let home = home();
    let desktop = Desktop::start(&home);
    apps(&home, &desktop);
    desktop.open("calm");
    let worst = desktop.open_process("worst");
    let window = desktop.window("worst");
    desktop.mark_stale("worst");
    desktop.eval("worst", "setTimeout(() => { for (;;) {} }, 0); 1");
    // Someone tries to use the page.
    window.click(300, 300);
    let Measured {
        mut launcher, mut calm, ..
    } = measure(&desktop, worst, 9_000);
    let (middle, calm_middle) = (median(&mut launcher), median(&mut calm));
    println!("during the loop: launcher median {middle:.1?}, other page median {calm_middle:.1?}");
    assert!(middle < ANSWER && calm_middle < ANSWER, "{middle:?} {calm_middle:?}");
    window.focus();
    screen::picture(&folder.join("hung.png"));
    desktop.click_reload("worst", window);
    wait_for("the looping process to end", || (!process::runs(worst)).then_some(()));
    assert!(desktop.runs());
}

#[test]
fn a_web_process_that_dies_takes_nothing_with_it() {
    let folder = pictures("desktop-crash");
    let home = home();
    let desktop = Desktop::start(&home);
    apps(&home, &desktop);
    let launchers = desktop.web_processes();
    assert_eq!(launchers.len(), 1);
    desktop.open("calm");
    let worst = desktop.open_process("worst");
    let window = desktop.window("worst");
    desktop.eval("worst", "localStorage.setItem('kept', 'yes'); globalThis.stale = true");
    wait_for("the stored value", || {
        let stored = desktop.run_in("worst", "return (await fetch('/v1/apps/worst/__storage')).json()");
        stored
            .is_ok_and(|stored| stored["local"]["kept"] == "yes")
            .then_some(())
    });
    process::signal(worst, libc::SIGKILL);
    wait_for("the web process to end", || (!process::runs(worst)).then_some(()));
    measure(&desktop, worst, 500);
    window.focus();
    screen::picture(&folder.join("crashed.png"));
    desktop.click_reload("worst", window);
    assert_eq!(desktop.eval("worst", "localStorage.getItem('kept')"), "yes");

    assert!(desktop.runs());

    // A page that closes itself takes its window along, and nothing else.
    desktop.eval("calm", "setTimeout(() => window.close(), 0); 1");
    wait_for("the window to close", || screen::find("calm").is_none().then_some(()));
    assert!(screen::find("worst").is_some() && screen::find("Chrysalis").is_some());
    desktop.open("calm");
    assert_eq!(
        desktop.run_in("calm", "return (await measure(200)).length > 0"),
        Ok(json!(true))
    );

    // The launcher's own web process: it is loaded again by itself, and the app windows stay.
    desktop.eval("calm", "globalThis.still = 'here'");
    let before = desktop.web_processes();
    process::signal(launchers[0], libc::SIGKILL);
    wait_for("the launcher's new web process", || {
        let now = desktop.web_processes();
        (now.len() == before.len() && !now.contains(&launchers[0])).then_some(())
    });
    assert!(desktop.runs() && screen::find("Chrysalis").is_some());
    assert_eq!(desktop.eval("calm", "globalThis.still"), "here");
    screen::find("Chrysalis").expect("the launcher").focus();
    screen::picture(&folder.join("launcher-again.png"));
}
