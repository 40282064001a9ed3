//! The built program, started on a home of the test's own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::http::{Client, Door};
use crate::{PATIENCE, process};

/// The owner's password in these tests.
pub const PASSWORD: &str = "correct horse battery";
/// The setup token of these tests; long enough to be accepted.
pub const SETUP: &str = "setup-token-of-a-test-0123456789";

/// A temporary folder with a home in it, and the program to start there.
pub struct Home {
    folder: tempfile::TempDir,
    program: PathBuf,
    _programs: tempfile::TempDir,
}

impl Home {
    /// `program` is `env!("CARGO_BIN_EXE_chrysalis")` of the test.
    pub fn new(program: &str) -> Self {
        let folder = |prefix: &str| {
            tempfile::Builder::new()
                .prefix(prefix)
                .tempdir()
                .expect("a temporary folder")
        };
        let programs = folder("chrysalis-programs-");
        Self {
            program: held(Path::new(program), programs.path()),
            folder: folder("chrysalis-test-"),
            _programs: programs,
        }
    }

    /// The temporary folder itself; the home is in it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The home's database file.
    pub fn database(&self) -> PathBuf {
        self.path().join("chrysalis.db")
    }

    /// Writes the home's `config.toml` before its first start.
    pub fn configure(&self, text: &str) {
        std::fs::create_dir_all(self.path()).expect("the home");
        std::fs::write(self.path().join("config.toml"), text).expect("config.toml");
    }

    /// The program with `args`, without a display, a session bus, a keychain, or anything of who runs the test.
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_under(&[], args)
    }

    /// As [`Home::command`], started by another program: `wrapper` with the program and `args` behind it.
    pub fn command_under(&self, wrapper: &[&str], args: &[&str]) -> Command {
        let mut command = match wrapper.split_first() {
            None => Command::new(&self.program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&self.program);
                command
            }
        };
        command
            .args(args)
            .arg("--home")
            .arg(self.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("CHRYSALIS_KEYCHAIN", "none")
            .env("CHRYSALIS_SETUP_TOKEN", SETUP)
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output())
    }

    /// Runs the program to its end with `input` on its standard input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut to = child.stdin.take().expect("a pipe");
        to.write_all(input.as_bytes()).expect("the program reads");
        drop(to);
        Ran::of(child.wait_with_output())
    }

    /// Starts `chrysalis serve` on a free port.
    pub fn serve(&self) -> Running {
        self.start(self.command(&["serve", "--port", "0", "--no-open"]))
    }

    /// Starts a command that ends in `chrysalis serve` on this home.
    pub fn start(&self, command: Command) -> Running {
        Running::start(command, &self.path())
    }
}

/// The program and its worker under second names of their own, so that a build that goes on meanwhile does not take them
/// away or change them in the middle of a test. Where a second name cannot be had, the program itself.
fn held(program: &Path, place: &Path) -> PathBuf {
    for name in ["chrysalis", "chrysalis-worker"] {
        if std::fs::hard_link(program.with_file_name(name), place.join(name)).is_err() {
            return program.to_owned();
        }
    }
    place.join("chrysalis")
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    pub ok: bool,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub(crate) fn of(output: std::io::Result<Output>) -> Self {
        let output = output.expect("the program starts");
        Self {
            ok: output.status.success(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn must_succeed(&self) -> &str {
        assert!(self.ok, "{self:?}");
        &self.out
    }

    #[track_caller]
    pub fn must_fail(&self) -> &str {
        assert!(!self.ok, "{self:?}");
        &self.err
    }
}

/// A running `chrysalis serve`. Killed when dropped.
pub struct Running {
    child: Child,
    home: PathBuf,
    /// The port it listens on.
    pub port: u16,
    /// Its `setup:` line, when it printed one.
    pub setup: Option<String>,
    said: Arc<Mutex<String>>,
}

impl Running {
    fn start(mut command: Command, home: &Path) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let said = Arc::new(Mutex::new(String::new()));
        let (tell, lines) = mpsc::channel();
        let out: Box<dyn Read + Send> = Box::new(child.stdout.take().expect("a pipe"));
        let err: Box<dyn Read + Send> = Box::new(child.stderr.take().expect("a pipe"));
        for pipe in [out, err] {
            let (said, tell) = (said.clone(), tell.clone());
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let mut all = said.lock().expect("no test panicked in here");
                    *all += &line;
                    all.push('\n');
                    let _ = tell.send(line);
                }
            });
        }
        drop(tell);
        let mut running = Self {
            child,
            home: home.to_owned(),
            port: 0,
            setup: None,
            said,
        };
        loop {
            let line = lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("it did not come up; it said: {}", running.said()));
            if let Some(address) = line.strip_prefix("setup: ") {
                running.setup = Some(address.to_owned());
            }
            if let Some(address) = line.strip_prefix("listening: http://127.0.0.1:") {
                running.port = address.trim_end_matches('/').parse().expect("a port");
                return running;
            }
        }
    }

    /// Everything it printed so far.
    pub fn said(&self) -> String {
        self.said.lock().expect("no test panicked in here").clone()
    }

    /// The process of the engine itself: the one started, or the one its wrapper started.
    pub fn pid(&self) -> u32 {
        let own = self.child.id();
        let all = process::tree(own);
        let engine = all.into_iter().find(|pid| process::name(*pid) == "chrysalis");
        engine.unwrap_or(own)
    }

    /// Someone who has not signed in.
    pub fn nobody(&self) -> Client {
        Client::nobody(self.port)
    }

    /// The command line: the local socket in the home.
    pub fn command_line(&self) -> Client {
        Client {
            door: Door::Socket(self.home.join("engine.sock")),
            headers: Vec::new(),
        }
    }

    /// Names the owner by the setup token and signs in.
    pub fn set_up(&self) -> Client {
        let body = json!({"token": SETUP, "username": "zoe", "password": PASSWORD});
        self.signed_in("/v1/auth/setup", &body)
    }

    /// Signs the owner in.
    pub fn login(&self) -> Client {
        let body = json!({"username": "zoe", "password": PASSWORD});
        self.signed_in("/v1/auth/login", &body)
    }

    fn signed_in(&self, target: &str, body: &serde_json::Value) -> Client {
        let reply = self.nobody().post(target, body);
        reply.ok();
        let cookie = reply.header("set-cookie").split(';').next().unwrap_or_default();
        assert!(cookie.starts_with("chrysalis_session="), "{cookie}");
        self.nobody().with("Cookie", cookie)
    }

    /// A page of `app`, by a frame token that the signed-in `owner` asks for.
    pub fn page(&self, owner: &Client, app: &str) -> Client {
        self.nobody().with("X-Chrysalis-Frame", &self.frame(owner, app))
    }

    /// A frame token of `app`.
    pub fn frame(&self, owner: &Client, app: &str) -> String {
        let frame = owner.post(&format!("/v1/apps/{app}/frame"), &json!({})).ok();
        frame["token"].as_str().expect("a frame token").to_owned()
    }

    /// Adds an app from a folder, with all that its plugins ask for.
    pub fn add(&self, folder: &Path, id: &str) {
        let mut import = json!({"folder": folder, "id": id});
        let preview = self.command_line().post("/v1/apps/import", &import).ok();
        import["confirm"] = true.into();
        import["head"] = preview["head"].clone();
        self.command_line().post("/v1/apps/import", &import).ok();
    }

    /// Adds an app that comes in the program.
    pub fn add_from_box(&self, owner: &Client, name: &str) {
        let preview = owner.post("/v1/apps/import", &json!({"box": name})).ok();
        let confirm = json!({"box": name, "confirm": true, "head": preview["head"]});
        owner.post("/v1/apps/import", &confirm).ok();
    }

    /// A connection to a model server at `base_url`; gives its id.
    pub fn connect(&self, owner: &Client, base_url: &str, key: Option<&str>) -> String {
        let mut body = json!({"name": "test server", "baseUrl": base_url});
        if let Some(key) = key {
            body["key"] = key.into();
        }
        let added = owner.post("/v1/settings/connections", &body).ok();
        added["connection"]["id"].as_str().expect("an id").to_owned()
    }

    /// `kill -9`, at once and without a word.
    pub fn kill(&mut self) {
        process::signal(self.pid(), libc::SIGKILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits for that.
    pub fn stop(&mut self) {
        process::signal(self.pid(), libc::SIGTERM);
        crate::wait_for("the program to end", || self.child.try_wait().ok().flatten());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
        if std::thread::panicking() {
            eprintln!("the program said:\n{}", self.said());
        }
    }
}
