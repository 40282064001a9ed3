//! What the desktop tests share: the program on a virtual screen, its launcher by WebDriver, its app windows by real
//! keys and clicks, and the test-only hook that reads app pages.

#![allow(dead_code)] // each test uses a part of it

pub mod driver;
pub mod screen;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Client, Home, process, wait_for};

use driver::Driver;
use screen::Window;

/// What the program needs of the session that the tests run in.
const SESSION: [&str; 4] = ["DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"];

/// An empty folder for pictures of one test, under cargo's own folder for tests.
pub fn pictures(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for pictures");
    folder
}

/// A home of the test's own, for the program as cargo names it at run time or else named it at build time.
pub fn home() -> Home {
    let program = std::env::var("CARGO_BIN_EXE_chrysalis");
    Home::new(program.as_deref().unwrap_or(env!("CARGO_BIN_EXE_chrysalis")))
}

/// The program with the screen and the session bus of the test, which [`Home::command`] leaves out.
pub fn command(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    for name in SESSION {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    assert!(
        std::env::var_os("DISPLAY").is_some(),
        "there is no screen: run the tests with `cargo xtask test`"
    );
    command.env("LANG", "C.UTF-8");
    command
}

/// The running program. Killed with all that it started when dropped.
pub struct Desktop {
    /// The launcher.
    pub launcher: Driver,
    /// The main process.
    pub pid: u32,
    webdriver: Child,
    hook: PathBuf,
    home: PathBuf,
}

impl Desktop {
    pub fn start(home: &Home) -> Desktop {
        Self::start_with(home, &[])
    }

    /// Starts the program with these variables set, and waits until the launcher can be used.
    pub fn start_with(home: &Home, variables: &[(&str, &str)]) -> Desktop {
        let port = free_port();
        let hook = home.folder().join("hook.sock");
        let _ = std::fs::remove_file(&hook);
        // The driver starts the program with the environment that it was started with itself.
        let mut driver = Command::new("WebKitWebDriver");
        let program = command(home, &[]);
        driver.env_clear();
        for (name, value) in program.get_envs() {
            if let Some(value) = value {
                driver.env(name, value);
            }
        }
        driver
            .arg(format!("--port={port}"))
            .env("TAURI_WEBVIEW_AUTOMATION", "true")
            .env("CHRYSALIS_TEST_HOOK", &hook)
            .envs(variables.iter().copied())
            .current_dir(home.folder())
            .stdin(Stdio::null());
        let webdriver = driver.spawn().expect("WebKitWebDriver starts");
        let mut desktop = Desktop {
            launcher: Driver::at(port),
            pid: 0,
            webdriver,
            hook,
            home: home.path(),
        };
        wait_for("WebKitWebDriver to listen", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).ok()
        });
        let path = home.path().to_string_lossy().into_owned();
        desktop.launcher.begin(home.program(), &["--home".into(), path]);
        let driver = desktop.webdriver.id();
        desktop.pid = wait_for("the main process", || {
            let mut tree = process::tree(driver).into_iter();
            tree.find(|pid| process::name(*pid) == "chrysalis")
        });
        desktop.launcher.until("the launcher to be ready", |page| {
            page.run("return document.documentElement.dataset.ready === ''", &[]) == true
        });
        desktop
    }

    /// Evaluates an expression in an app's page. `Err` when there is no such window or the page does not answer.
    pub fn try_eval(&self, app: &str, script: &str) -> Result<Value, String> {
        let mut stream = UnixStream::connect(&self.hook).map_err(|error| error.to_string())?;
        let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
        writeln!(stream, "{}", json!({"app": app, "eval": script})).map_err(|error| error.to_string())?;
        let mut line = String::new();
        BufReader::new(stream)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_str(&line).map_err(|error| format!("{line:?}: {error}"))?;
        match answer.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(answer["value"].clone()),
        }
    }

    #[track_caller]
    pub fn eval(&self, app: &str, script: &str) -> Value {
        self.try_eval(app, script)
            .unwrap_or_else(|error| panic!("{app}: {script}: {error}"))
    }

    /// Waits until an expression in an app's page gives what `fits`, and returns it.
    #[track_caller]
    pub fn until(&self, app: &str, what: &str, script: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        let mut last = Ok(Value::Null);
        loop {
            if let Ok(value) = &last
                && fits(value)
            {
                return value.clone();
            }
            assert!(
                began.elapsed() < testkit::PATIENCE,
                "waited in vain for {what}; the last answer of {app}: {last:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
            last = self.try_eval(app, script);
        }
    }

    /// Runs the body of an async function in an app's page and waits for what it returns. `Err` with what it threw.
    pub fn run_in(&self, app: &str, body: &str) -> Result<Value, String> {
        let name = format!("__test{}", unique());
        self.try_eval(
            app,
            &format!(
                "globalThis.{name} = {{}}; (async () => {{ {body} }})().then(\
                 (v) => {{ globalThis.{name} = {{ done: 1, value: v === undefined ? null : v }} }},\
                 (e) => {{ globalThis.{name} = {{ done: 1, error: String(e) }} }}); 1"
            ),
        )?;
        let got = self.until(app, "a script's end", &format!("globalThis.{name}"), |value| {
            value["done"] == 1
        });
        match got.get("error") {
            Some(error) => Err(error.as_str().unwrap_or_default().to_owned()),
            None => Ok(got["value"].clone()),
        }
    }

    /// A `/v1` call as the launcher makes it: status and JSON.
    pub fn call(&self, method: &str, path: &str, body: &Value) -> (u64, Value) {
        let script = format!(
            "{} call(arguments[0], arguments[1], arguments[2]).then(arguments[3])",
            driver::CALL
        );
        let answer = self
            .launcher
            .run_async(&script, &[json!(method), json!(path), body.clone()]);
        (answer["status"].as_u64().unwrap_or(0), answer["body"].clone())
    }

    /// A command of the program's own, invoked from the launcher's page.
    pub fn invoke(&self, name: &str, arguments: Value) -> Value {
        self.launcher.run_async(
            "const [name, args, done] = arguments; \
             __TAURI_INTERNALS__.invoke(name, args).then((v) => done({ ok: v ?? null }), (e) => done({ error: String(e) }))",
            &[json!(name), arguments],
        )
    }

    /// Opens an app's window without a click, and waits for its page.
    pub fn open(&self, app: &str) {
        let answer = self.invoke("open_app", json!({"id": app}));
        assert!(answer.get("error").is_none(), "{app}: {answer}");
        self.until(app, "the page", "document.readyState", |state| *state == "complete");
    }

    /// As [`Desktop::open`]; gives the web process that came with the window.
    pub fn open_process(&self, app: &str) -> u32 {
        let before = self.web_processes();
        self.open(app);
        let new: Vec<u32> = self
            .web_processes()
            .into_iter()
            .filter(|pid| !before.contains(pid))
            .collect();
        assert_eq!(new.len(), 1, "one window, one process: {before:?} and then {new:?}");
        new[0]
    }

    /// Clicks where the first button of a bar above the page is, until the page loads anew. Without a bar nothing that
    /// loads a page is there.
    pub fn click_reload(&self, app: &str, window: Window) {
        let began = Instant::now();
        loop {
            let width = window.place().expect("the window's place").width;
            window.click(width - 45, 24);
            // Between two pages there is an empty one.
            let script = format!(
                "document.readyState === 'complete' && globalThis.stale !== true && \
                 location.href.startsWith('chrysalis-app://{app}/')"
            );
            let loaded = self.try_eval(app, &script);
            if loaded == Ok(Value::Bool(true)) {
                return;
            }
            assert!(
                began.elapsed() < testkit::PATIENCE,
                "no click loads {app} again: {loaded:?}"
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Marks an app's page, so that a page loaded anew can be told from it.
    pub fn mark_stale(&self, app: &str) {
        self.eval(app, "globalThis.stale = true");
    }

    /// The command line: the local socket in the home.
    pub fn command_line(&self) -> Client {
        Client {
            door: testkit::http::Door::Socket(self.home.join("engine.sock")),
            headers: Vec::new(),
        }
    }

    /// Adds an app from a folder, with all that its plugins ask for.
    pub fn add(&self, folder: &Path, id: &str) {
        let mut import = json!({"folder": folder, "id": id});
        let preview = self.command_line().post("/v1/apps/import", &import).ok();
        import["confirm"] = true.into();
        import["head"] = preview["head"].clone();
        self.command_line().post("/v1/apps/import", &import).ok();
    }

    /// Ends the first start, so that the launcher shows its apps.
    pub fn no_first_start(&self) {
        self.command_line()
            .send("PUT", "/v1/settings", &json!({"onboarded": true}))
            .ok();
    }

    /// A visible window of the program by its title.
    pub fn window(&self, title: &str) -> Window {
        wait_for(&format!("the window {title:?}"), || screen::find(title))
    }

    pub fn runs(&self) -> bool {
        process::runs(self.pid)
    }

    /// The web processes of the launcher and of every app window.
    pub fn web_processes(&self) -> Vec<u32> {
        let all = process::tree(self.pid).into_iter();
        all.filter(|pid| process::name(*pid).starts_with("WebKitWebProces"))
            .collect()
    }

    /// Asks the program to end and waits for that.
    pub fn stop(&mut self) {
        process::signal(self.pid, libc::SIGTERM);
        wait_for("the program to end", || (!self.runs()).then_some(()));
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("desktop-failed.png");
            screen::picture(&path);
            eprintln!("the screen at the failure: {}", path.display());
        }
        // Children first gathered, then ended: once the parent is gone they cannot be told from anyone else's.
        let tree = process::tree(self.webdriver.id());
        if self.runs() {
            process::signal(self.pid, libc::SIGTERM);
            let began = Instant::now();
            while self.runs() && began.elapsed() < Duration::from_secs(8) {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        let _ = self.webdriver.kill();
        let _ = self.webdriver.wait();
        for pid in tree.into_iter().skip(1) {
            if process::runs(pid) {
                process::signal(pid, libc::SIGKILL);
            }
        }
    }
}

pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port()
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The middle value.
pub fn median(values: &mut [Duration]) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}
