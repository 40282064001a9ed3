//! Drives the release desktop program from outside, inside Xvfb: when its launcher is painted, what it weighs, and what
//! a page of the bench's own app measures. Nothing in the program helps: no hook, no flag.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::http;
use super::model::Model;
use crate::place::Place;
use crate::step::{self, command};

/// Longest wait for anything to appear.
const PATIENCE: Duration = Duration::from_secs(60);
/// Colours on the screen from which on something was drawn: a blank window on an empty screen has two or three.
const PAINTED: usize = 16;

const APP: &[(&str, &str)] = &[
    ("manifest.json", include_str!("../../bench-app/manifest.json")),
    ("index.html", include_str!("../../bench-app/index.html")),
    ("page.js", include_str!("../../bench-app/page.js")),
    (
        "plugins/bench/manifest.json",
        include_str!("../../bench-app/plugins/bench/manifest.json"),
    ),
    (
        "plugins/bench/plugin.js",
        include_str!("../../bench-app/plugins/bench/plugin.js"),
    ),
];

/// A child that is ended with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        #[cfg(unix)]
        let _ = Command::new("kill")
            .args(["-TERM", &self.0.id().to_string()])
            .stderr(Stdio::null())
            .status();
        let end = Instant::now() + Duration::from_secs(5);
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prints `bench NAME NUMBER` lines for `runs` rounds.
pub fn drive(place: &Place, runs: usize) -> Result<(), String> {
    let folder = place.target.join("xtask-bench");
    let _ = fs::remove_dir_all(&folder);
    let home = folder.join("home");
    let model = Model::start()?;
    prepare(place, &folder, &home, model.at)?;
    for run in 1..=runs {
        eprintln!("==> desktop: run {run} of {runs}");
        weigh(place, &home)?;
        measure(place, &home, &model)?;
    }
    Ok(())
}

/// A home with an owner who has finished the first steps, a model and the bench's app, made through the public doors.
fn prepare(place: &Place, folder: &Path, home: &Path, model: SocketAddr) -> Result<(), String> {
    let app = folder.join("bench");
    for (name, text) in APP {
        let path = app.join(name);
        let parent = path.parent().unwrap_or(&app);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let chrysalis = place.program("release", "chrysalis");
    let home_text = home.to_string_lossy().into_owned();
    let app_text = app.to_string_lossy().into_owned();
    step::output(command(
        &place.root,
        &chrysalis,
        &["app", "add", &app_text, "--id", "bench", "--yes", "--home", &home_text],
    ))?;
    let at = free_address()?;
    let token = "bench-setup-token-0123456789abcdef";
    let mut serve = command(
        &place.root,
        &chrysalis,
        &[
            "serve",
            "--home",
            &home_text,
            "--port",
            &at.port().to_string(),
            "--no-open",
        ],
    );
    serve.env("CHRYSALIS_SETUP_TOKEN", token).stdout(Stdio::null());
    let _serving = Running(
        serve
            .spawn()
            .map_err(|e| format!("chrysalis serve cannot be started: {e}"))?,
    );
    until("chrysalis serve", || {
        http::request(at, "GET", "/v1/health", "", "")
            .ok()
            .filter(|answer| answer.status == 200)
    })?;
    let mut headers = "X-Chrysalis-Request: 1\r\n".to_string();
    let setup =
        format!("{{\"token\":\"{token}\",\"username\":\"bench\",\"password\":\"correct horse battery staple\"}}");
    let answer = ask(at, "POST", "/v1/auth/setup", &headers, &setup)?;
    let cookie = answer.head.lines().find_map(|line| {
        line.split_once(':')
            .filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"))
    });
    let cookie = cookie
        .and_then(|(_, value)| value.split(';').next())
        .ok_or("the setup gave no cookie")?;
    headers.push_str(&format!("Cookie: {}\r\n", cookie.trim()));
    let connection = format!("{{\"name\":\"Bench\",\"baseUrl\":\"http://{model}/v1\"}}");
    let answer = ask(at, "POST", "/v1/settings/connections", &headers, &connection)?;
    let id = http::field(&answer.body, "id").ok_or("the new connection has no id")?;
    let settings = format!("{{\"model\":\"{id}/bench\",\"onboarded\":true}}");
    ask(at, "PUT", "/v1/settings", &headers, &settings).map(drop)
}

fn ask(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Result<http::Answer, String> {
    let answer = http::request(at, method, path, headers, body)?;
    if (200..300).contains(&answer.status) {
        Ok(answer)
    } else {
        Err(format!("{method} {path}: {} {}", answer.status, answer.body))
    }
}

/// Start to painted launcher, and the main process's private memory two seconds later.
fn weigh(place: &Place, home: &Path) -> Result<(), String> {
    let home = home.to_string_lossy().into_owned();
    let started = Instant::now();
    let mut desktop = command(&place.root, place.program("release", "chrysalis"), &["--home", &home]);
    let running = Running(
        desktop
            .stdout(Stdio::null())
            .spawn()
            .map_err(|e| format!("chrysalis cannot be started: {e}"))?,
    );
    let painted = until("a painted launcher", || {
        (colours(place) >= PAINTED).then(|| started.elapsed())
    })?;
    println!("bench start_s {}", painted.as_secs_f64());
    std::thread::sleep(Duration::from_secs(2));
    println!(
        "bench main_mb {}",
        private_mb(running.0.id()).ok_or("the program ended")?
    );
    Ok(())
}

/// Opens the bench's app through the launcher, weighs its processes, and waits for what its page measured.
fn measure(place: &Place, home: &Path, model: &Model) -> Result<(), String> {
    let driver_at = free_address()?;
    let mut driver = command(
        &place.root,
        "WebKitWebDriver",
        &[&format!("--port={}", driver_at.port())],
    );
    driver
        .env("TAURI_WEBVIEW_AUTOMATION", "true")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _driver = Running(
        driver
            .spawn()
            .map_err(|e| format!("WebKitWebDriver cannot be started: {e}"))?,
    );
    until("WebKitWebDriver", || {
        http::request(driver_at, "GET", "/status", "", "").ok()
    })?;
    let program = place.program("release", "chrysalis");
    let capabilities = format!(
        "{{\"capabilities\":{{\"alwaysMatch\":{{\"webkitgtk:browserOptions\":{{\"binary\":{},\"args\":[\"--home\",{}]}}}}}}}}",
        json(&program),
        json(home)
    );
    let session = ask(driver_at, "POST", "/session", "", &capabilities)?;
    let session = http::field(&session.body, "sessionId")
        .ok_or("WebKitWebDriver gave no session")?
        .to_string();
    let path = format!("/session/{session}");
    let outcome = opened(driver_at, &path, &program, model);
    // Ends the program that the driver started.
    let _ = http::request(driver_at, "DELETE", &path, "", "");
    outcome
}

fn opened(driver: SocketAddr, session: &str, program: &Path, model: &Model) -> Result<(), String> {
    let main = until("the program's process", || process_of(program))?;
    let tile =
        "{\"using\":\"xpath\",\"value\":\"//button[contains(@class,'card-open') and contains(@aria-label,'Bench')]\"}";
    let tile = until("the app in the launcher", || {
        ask(driver, "POST", &format!("{session}/element"), "", tile).ok()
    })?;
    let id = http::field(&tile.body, "element-6066-11e4-a52e-4f735466cecf").ok_or("the driver named no element")?;
    let before = descendants(main);
    ask(driver, "POST", &format!("{session}/element/{id}/click"), "", "{}")?;
    let report = model
        .reports
        .recv_timeout(PATIENCE)
        .map_err(|_| "the app's page reported nothing within a minute")?;
    let words: Vec<&str> = report.split_whitespace().collect();
    match words[..] {
        [speed_name, speed, latency_name, latency] => {
            println!("bench {speed_name} {speed}\nbench {latency_name} {latency}")
        }
        _ => return Err(format!("the app's page: {report}")),
    }
    let new: Vec<u32> = descendants(main).difference(&before).copied().collect();
    let weight: f64 = new
        .iter()
        .filter(|pid| !is_worker(**pid))
        .filter_map(|pid| private_mb(*pid))
        .sum();
    println!("bench app_window_mb {weight}");
    Ok(())
}

/// An address on which nobody listened a moment ago.
fn free_address() -> Result<SocketAddr, String> {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map_err(|e| format!("no free port: {e}"))
}

fn until<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> Result<T, String> {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ready() {
            return Ok(found);
        }
        if Instant::now() > end {
            return Err(format!("{what} did not appear within {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn json(path: &Path) -> String {
    format!(
        "\"{}\"",
        path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"")
    )
}

/// Distinct colours on the screen, counted up to [`PAINTED`].
fn colours(place: &Place) -> usize {
    let mut picture = command(
        &place.root,
        "import",
        &["-silent", "-window", "root", "-depth", "8", "rgb:-"],
    );
    let Ok(picture) = picture.output() else { return 0 };
    let mut seen = BTreeSet::new();
    for pixel in picture.stdout.chunks_exact(3) {
        seen.insert(pixel);
        if seen.len() >= PAINTED {
            break;
        }
    }
    seen.len()
}

/// Memory that only this process has, in MB of a million bytes.
fn private_mb(pid: u32) -> Option<f64> {
    private_of(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn private_of(rollup: &str) -> Option<f64> {
    let kib: Vec<f64> = rollup
        .lines()
        .filter(|line| line.starts_with("Private_"))
        .filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok())
        .collect();
    (!kib.is_empty()).then(|| kib.iter().sum::<f64>() * 1024.0 / 1e6)
}

/// Parent of every process.
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok())
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name in the second field may hold anything, a closing bracket included.
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect()
}

fn descendants(of: u32) -> BTreeSet<u32> {
    let parents = parents();
    let mut found = BTreeSet::from([of]);
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(pid, parent)| found.contains(parent) && !found.contains(pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            found.remove(&of);
            return found;
        }
        found.extend(more);
    }
}

/// The process that runs this very program below us, whoever started it.
fn process_of(program: &Path) -> Option<u32> {
    let program: PathBuf = program.canonicalize().ok()?;
    let candidates = descendants(std::process::id());
    candidates
        .into_iter()
        .find(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program))
}

fn is_worker(pid: u32) -> bool {
    fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|exe| exe.file_name().is_some_and(|name| name == "chrysalis-worker"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_the_sum_of_its_kinds() {
        let rollup = "Rss: 900 kB\nPrivate_Clean:      500 kB\nPrivate_Dirty:     500 kB\nPrivate_Hugetlb:  0 kB\n";
        assert!((private_of(rollup).expect("it has figures") - 1.024).abs() < 1e-9);
        assert!(private_of("").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn children_are_found_by_their_parents() {
        let child = Running(Command::new("sleep").arg("60").spawn().expect("sleep starts"));
        assert!(descendants(std::process::id()).contains(&child.0.id()));
        assert!(private_mb(std::process::id()).is_some_and(|mb| mb > 0.1));
    }
}
