//! A hostile app page in an app window: every attempt of tests/hostile, and those that only a desktop window could
//! have, stays silent. The same page in a WebKitGTK window without walls is heard, so that silence proves something.

mod desktop;
#[path = "hostile/listeners.rs"]
mod listeners;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use desktop::driver::Driver;
use desktop::{Desktop, free_port, home, pictures, screen};
use listeners::Listeners;
use serde_json::{Value, json};
use testkit::{Home, wait_for};

/// As many attempts at least must be heard in the twin, or the test proves little.
const ENOUGH: usize = 60;
/// Attempts that WebKitGTK does not have even without walls, so that their silence proves nothing here; the browsers'
/// test hears them. This build has no WebRTC and no WebTransport; two are matters of time, one of a media decoder.
const NOT_IN_WEBKIT: &[&str] = &[
    "webtransport-child",
    "media-source",
    "link-prefetch",
    "link-dns-prefetch",
    "css-filter",
    "own-child-stun",
    "own-child-turn",
    "rtc-stun",
    "rtc-stun-child",
    "rtc-stun-srcdoc",
    "rtc-turn-udp",
    "rtc-turn-tcp",
    "rtc-name",
    "rtc-candidate",
    "navigation-api",
    "origin-file-system",
    "owner-by-form",
    "prompt",
];
/// How long silence is listened to after the last attempt.
const SILENCE: Duration = Duration::from_secs(5);
/// How long an attempt with a load of its own has.
const EACH: Duration = Duration::from_millis(900);
/// How long one has in the twin, where it is to be heard.
const EACH_HEARD: Duration = Duration::from_secs(4);

/// WebKit's own small browser, which comes with the library, wherever the distribution puts that.
fn mini_browser() -> PathBuf {
    let folders = ["/usr/lib", "/usr/libexec"].into_iter().flat_map(|folder| {
        let inside = fs::read_dir(folder).into_iter().flatten().flatten();
        inside.map(|entry| entry.path()).chain([folder.into()])
    });
    let mut places = folders.map(|folder| folder.join("webkit2gtk-4.1/MiniBrowser"));
    places
        .find(|path| path.is_file())
        .expect("WebKitGTK's MiniBrowser is installed")
}

/// A session bus in the test's own network: the one outside may listen where this network does not reach.
struct Bus(Child);

impl Bus {
    fn start(folder: &Path) -> Bus {
        let address = format!("unix:path={}", folder.join("bus").display());
        let daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", &format!("--address={address}")])
            .stdin(Stdio::null())
            .spawn()
            .expect("dbus-daemon starts");
        wait_for("the session bus", || folder.join("bus").exists().then_some(()));
        // SAFETY: no other thread of this test reads the environment meanwhile.
        unsafe { std::env::set_var("DBUS_SESSION_BUS_ADDRESS", address) };
        Bus(daemon)
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A page of attempts, as it says itself: their names, with whether each needs a load of its own.
fn attempts(list: &Value) -> Vec<(String, bool)> {
    let all = list.as_array().unwrap_or_else(|| panic!("no attempts: {list}"));
    let usable = all.iter().filter(|one| one["only"].is_null());
    usable
        .map(|one| {
            (
                one["name"].as_str().unwrap_or_default().to_owned(),
                one["alone"] == true,
            )
        })
        .collect()
}

const LIST: &str = "ATTEMPTS.map(({ name, alone, only }) => ({ name, alone: !!alone, only: only ?? null }))";

/// Names and how of what a page says it won.
fn won(found: &mut BTreeMap<String, String>, lines: &Value) {
    for line in lines.as_array().into_iter().flatten().filter_map(Value::as_str) {
        let (name, how) = line.split_once(": ").unwrap_or((line, ""));
        found.entry(name.to_owned()).or_insert_with(|| format!("won {how}"));
    }
}

/// Every attempt in WebKit's own browser, without walls. Gives all names that this WebKit might have, and what was heard.
fn unprotected(home: &Home, listeners: &Listeners) -> (Vec<String>, BTreeMap<String, String>) {
    let port = free_port();
    let mut webdriver = Command::new("WebKitWebDriver")
        .arg(format!("--port={port}"))
        .env("HOME", home.folder())
        .env("XDG_DATA_HOME", home.folder().join("twin"))
        .env("XDG_CACHE_HOME", home.folder().join("twin"))
        .stdin(Stdio::null())
        .spawn()
        .expect("WebKitWebDriver starts");
    wait_for("WebKitWebDriver to listen", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let mut page = Driver::at(port);
    let settings = [
        "--automation",
        "--javascript-can-open-windows-automatically=true",
        "--enable-webrtc=true",
    ];
    page.begin(&mini_browser(), &settings.map(str::to_owned));
    let twin = format!("http://127.0.0.1:{}", listeners.http);
    let mut found = BTreeMap::new();
    page.go(&twin).expect("the twin opens");
    page.until("the twin's attempts", |page| {
        page.run(
            "return frames[0]?.document.getElementById('state')?.textContent.startsWith('tried')",
            &[],
        ) == true
    });
    let list = attempts(&page.run(&format!("return frames[0].{LIST}"), &[]));
    let look = |found: &mut BTreeMap<String, String>| {
        if let Ok(lines) = page.try_run("return frames[0]?.__won ?? []", &[]) {
            won(found, &lines);
        }
        found.extend(listeners.heard());
    };
    let together: Vec<&String> = list.iter().filter(|(_, alone)| !alone).map(|(name, _)| name).collect();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(15) && together.iter().any(|name| !found.contains_key(*name)) {
        sleep(Duration::from_millis(200));
        look(&mut found);
    }
    for (name, _) in list.iter().filter(|(_, alone)| *alone) {
        let _ = page.go(&format!("{twin}/?only={name}"));
        let began = Instant::now();
        while began.elapsed() < EACH_HEARD && !found.contains_key(name) {
            sleep(Duration::from_millis(50));
            look(&mut found);
        }
    }
    desktops_own(&page, &twin, listeners);
    page.end();
    let _ = webdriver.kill();
    let _ = webdriver.wait();
    let names: Vec<String> = list.into_iter().map(|(name, _)| name).collect();
    found.retain(|name, _| names.contains(name));
    (names, found)
}

/// Of the desktop's own attempts, those that any browser without walls lets succeed.
const HEARD_OF_OWN: &[&str] = &[
    "own-local-storage",
    "own-session-storage",
    "own-indexeddb",
    "own-cache",
    "own-cookie",
    "own-locks",
    "blank-open",
    "about-go",
    "blob-go",
    "app-scheme-lookalike-host",
    "app-scheme-lookalike-prefix",
];

/// The desktop's own attempts in the twin: nearly all are for what only this program has, but these are heard.
fn desktops_own(page: &Driver, twin: &str, listeners: &Listeners) {
    let code = json!(include_str!("desktop/attempts.js"));
    let mut found = BTreeMap::new();
    for name in HEARD_OF_OWN {
        let _ = page.go(&format!("{twin}/app/index.html?only=none"));
        page.until("the page", |page| page.run("return typeof attempt", &[]) == "function");
        let script = "const script = document.createElement('script'); \
                      script.textContent = `{${arguments[0]}}`; document.head.append(script); \
                      setTimeout(() => attempt(ATTEMPTS.find((one) => one.name === arguments[1])), 0)";
        page.run(script, &[code.clone(), json!(name)]);
        let began = Instant::now();
        while began.elapsed() < EACH_HEARD && !found.contains_key(*name) {
            sleep(Duration::from_millis(50));
            found.extend(listeners.heard());
            match page.try_run("return [location.href, globalThis.__won ?? []]", &[]) {
                Ok(state) if state[0].as_str().is_some_and(|at| at.starts_with(twin)) => won(&mut found, &state[1]),
                gone => {
                    found.insert((*name).to_owned(), format!("{gone:?}"));
                }
            }
        }
    }
    let unheard: Vec<_> = HEARD_OF_OWN.iter().filter(|name| !found.contains_key(**name)).collect();
    assert!(
        unheard.is_empty(),
        "not heard even without walls: {unheard:?}; {found:?}"
    );
}

/// What goes wrong in a window.
#[derive(Default)]
struct Breach {
    found: BTreeMap<String, String>,
    tried: BTreeSet<String>,
}

impl Breach {
    fn note(&mut self, name: &str, how: String) {
        self.found.entry(name.to_owned()).or_insert(how);
    }

    /// Runs all attempts of a page of `app` in its window.
    fn run(&mut self, desktop: &Desktop, listeners: &Listeners, app: &str, page: &str) {
        let own = format!("chrysalis-app://{app}/");
        listeners.forget();
        let go = |query: &str| {
            let _ = desktop.try_eval(app, &format!("location.replace('{own}{page}?{query}'); 1"));
            desktop.until(app, query, "document.readyState + location.search", |state| {
                *state == format!("complete?{query}")
            })
        };
        go("together");
        let tried = desktop.until(
            app,
            "the attempts",
            "document.getElementById('state').textContent",
            |text| text.as_str().is_some_and(|text| text.starts_with("tried")),
        );
        println!("{app}/{page}: {tried} at once");
        let list = attempts(&desktop.eval(app, LIST));
        sleep(SILENCE);
        won(&mut self.found, &desktop.eval(app, "__won"));
        let windows = screen::visible();
        for (name, alone) in &list {
            self.tried.insert(name.clone());
            if !alone {
                continue;
            }
            go(&format!("only={name}"));
            let began = Instant::now();
            while began.elapsed() < EACH {
                sleep(Duration::from_millis(100));
                match desktop.try_eval(app, "[location.href, document.title, __won]") {
                    Ok(state) if state[0].as_str().is_some_and(|at| at.starts_with(&own)) => {
                        won(&mut self.found, &state[2]);
                    }
                    Ok(Value::Null) => {}
                    other => self.note(name, format!("the page is at {other:?}")),
                }
            }
            let now = screen::visible();
            if now != windows {
                self.note(name, format!("windows {now:?} instead of {windows:?}"));
            }
        }
        go("quiet");
        sleep(SILENCE);
        for (name, how) in listeners.heard() {
            self.note(&name, how);
        }
    }
}

fn victim(folder: &Path) -> PathBuf {
    let victim = folder.join("victim");
    fs::create_dir_all(&victim).unwrap();
    for (name, content) in [
        (
            "manifest.json",
            &br#"{"name": "Victim", "version": "1.0.0", "kind": "web"}"#[..],
        ),
        (
            "index.html",
            b"<!doctype html><title>Victim</title><img id=i src=secret.png>mine",
        ),
        ("secret.txt", b"secret"),
        ("secret.js", b"globalThis.secret = true;"),
        ("secret.css", b"b { color: red }"),
        ("secret.png", listeners::PIXEL),
    ] {
        fs::write(victim.join(name), content).unwrap();
    }
    victim
}

/// The hostile app with the desktop's own attempts on a second page. `launcher` is what it takes for the launcher's
/// origin.
fn hostile(folder: &Path, listeners: &Listeners, launcher: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let app = listeners.app(folder, launcher, "victim");
    fs::write(app.join("desktop.js"), include_str!("desktop/attempts.js")).unwrap();
    let page = fs::read_to_string(app.join("index.html"))
        .unwrap()
        .replace("attempts.js", "desktop.js");
    fs::write(app.join("desktop.html"), page).unwrap();
    fs::write(app.join(".hidden.txt"), "secret").unwrap();
    app
}

#[test]
fn a_hostile_page_is_heard_without_walls_and_silent_in_an_app_window() {
    if !listeners::alone("a_hostile_page_is_heard_without_walls_and_silent_in_an_app_window") {
        return;
    }
    let folder = pictures("desktop-hostile");
    let home = home();
    let _bus = Bus::start(home.folder());
    let listeners = Listeners::start();

    let (names, heard) = unprotected(&home, &listeners);
    let unheard: Vec<&String> = names.iter().filter(|name| !heard.contains_key(*name)).collect();
    println!(
        "the twin: {} attempts, {} heard; not by this WebKit: {unheard:?}",
        names.len(),
        heard.len()
    );
    let silent: Vec<_> = unheard
        .iter()
        .filter(|name| !NOT_IN_WEBKIT.contains(&name.as_str()))
        .collect();
    assert!(
        silent.is_empty(),
        "not heard even without walls, so they prove nothing: {silent:?}"
    );
    assert!(
        heard.len() >= ENOUGH,
        "only {} attempts were heard without walls",
        heard.len()
    );

    let desktop = Desktop::start(&home);
    desktop.add(&victim(home.folder()), "victim");
    let apps = [
        ("hostile", "tauri://localhost"),
        ("hostile-too", "chrysalis-app://victim"),
    ];
    for (id, launcher) in apps {
        desktop.add(&hostile(&home.folder().join(id), &listeners, launcher), id);
        // Behind the back of the program, which refuses such a folder.
        let link = home.path().join("accounts");
        let apps = testkit::folders::files(&link);
        let manifest = apps.iter().find(|path| path.ends_with(format!("{id}/manifest.json")));
        let own = manifest
            .and_then(|path| path.parent())
            .expect("the app's folder in the workspace");
        std::os::unix::fs::symlink("/etc/hostname", own.join("link.txt")).unwrap();
        fs::write(own.join(".hidden.txt"), "secret").unwrap();
    }
    desktop.no_first_start();

    // The controls: what is tried is there to be had by those who may.
    desktop.open("victim");
    desktop.until(
        "victim",
        "its own picture",
        "document.getElementById('i').naturalWidth",
        |width| *width == 1,
    );
    assert_eq!(
        desktop.run_in("victim", "return (await fetch('secret.txt')).text()"),
        Ok(json!("secret"))
    );
    assert_eq!(desktop.launcher.run("return typeof __TAURI_INTERNALS__", &[]), "object");
    desktop.window("Victim").close();

    let mut breach = Breach::default();
    for (id, _) in apps {
        desktop.open(id);
        screen::picture(&folder.join(format!("{id}.png")));
        breach.run(&desktop, &listeners, id, "index.html");
        if id == "hostile" {
            breach.run(&desktop, &listeners, id, "desktop.html");
        }
        screen::picture(&folder.join(format!("{id}-after.png")));
        desktop.window("Hostile").close();
    }
    println!(
        "tried in app windows: {} attempts: {:?}",
        breach.tried.len(),
        breach.tried
    );
    let missing: Vec<_> = names.iter().filter(|name| !breach.tried.contains(*name)).collect();
    assert!(missing.is_empty(), "heard in the twin but not tried: {missing:?}");
    assert!(breach.found.is_empty(), "let through: {:#?}", breach.found);

    // No message that the page may not send was taken, the one that it may was.
    desktop.open("hostile");
    let stored = desktop
        .run_in("hostile", "return (await fetch('/v1/apps/hostile/__storage')).json()")
        .unwrap();
    let keys: Vec<_> = stored["local"].as_object().expect("stored values").keys().collect();
    // A message is its own app's, whatever it says: the next lines look into the other's.
    assert_eq!(keys, ["control", "for-another-app"], "{stored}");
    desktop.open("victim");
    let stored = desktop
        .run_in("victim", "return (await fetch('/v1/apps/victim/__storage')).json()")
        .unwrap();
    assert_eq!(stored, json!({"local": {}, "session": {}}));
    // Nothing was saved without the person's click.
    let saved = fs::read_dir(home.folder().join("Downloads")).map_or(0, Iterator::count);
    assert_eq!(saved, 0, "files were saved that nobody agreed to");
    // And it is all in the activity log, where the person can see it.
    let (_, log) = desktop.call("GET", "/v1/activity?kind=refusal&limit=200", &Value::Null);
    let entries = log["entries"].as_array().into_iter().flatten();
    let target = "GET /v1/apps/victim/__storage";
    let seen = entries.filter(|entry| entry["target"] == target && entry["caller"] == "app:hostile");
    assert!(seen.count() > 0, "{log}");
}
