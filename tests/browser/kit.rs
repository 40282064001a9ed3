//! What the browser tests share: the program itself, the model server that nobody here wrote, and node with a script.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a program may take to say that it is there. A debug build on a busy machine needs a few seconds.
const START: Duration = Duration::from_secs(60);
/// How long a script with its browser may take in all.
const SCRIPT: Duration = Duration::from_secs(600);

/// An empty folder of this test alone, under cargo's own folder for tests. What is left there can be looked at.
pub fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A file or folder of this repository's `tests`.
pub fn tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// A program that ends with the test, asked first and then told.
pub struct Running(Child);

impl Running {
    #[allow(dead_code)]
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: a plain signal to a child of ours that has not been waited for, so its number is still its own.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGTERM) };
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `chrysalis serve` on a home of its own.
pub struct Served {
    #[allow(dead_code)]
    pub program: Running,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// The line that was printed for the first visit: `http://127.0.0.1:PORT/#setup=TOKEN`.
    pub setup: String,
}

/// The program as cargo built it for this test, on a home of the test's and without the keychain of whoever runs it.
pub fn chrysalis(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chrysalis"));
    command.env("CHRYSALIS_KEYCHAIN", "none").env("CHRYSALIS_HOME", home);
    command
}

pub fn serve(home: &Path) -> Served {
    let mut command = chrysalis(home);
    command.args(["serve", "--port", "0", "--no-open", "--home"]).arg(home);
    let (program, lines) = start(command);
    let deadline = Instant::now() + START;
    let mut setup = String::new();
    loop {
        let line = lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .expect("`chrysalis serve` ended, or said nothing, before it listened");
        if let Some(address) = line.strip_prefix("setup: ") {
            setup = address.to_owned();
        }
        if let Some(url) = line.strip_prefix("listening: ") {
            let url = url.to_owned();
            return Served { program, url, setup };
        }
    }
}

/// The command line once, which must succeed. Returns what it printed.
#[allow(dead_code)]
pub fn run(home: &Path, args: &[&str]) -> String {
    let output = chrysalis(home).args(args).arg("--home").arg(home).output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "chrysalis {args:?}: {out}{err}");
    out.into_owned()
}

/// llmock, a model server that nobody here wrote, repeating what it was asked with a pause between words. Returns its
/// address, as a person would type it.
#[allow(dead_code)]
pub fn llmock(pause_ms: u32) -> (Running, String) {
    let venv = std::env::var_os("CHRYSALIS_TEST_VENV")
        .expect("CHRYSALIS_TEST_VENV is not set: run the tests with `cargo xtask test`");
    let port = free_port();
    let mut command = Command::new(PathBuf::from(venv).join("bin/llmock"));
    command
        .args(["serve", "--host", "127.0.0.1", "--log-level", "warning"])
        .args(["--response-style", "echo", "--port", &port.to_string()])
        .args(["--stream-chunk-delay-ms", &pause_ms.to_string()]);
    let (program, _lines) = start(command);
    let deadline = Instant::now() + START;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "llmock does not listen");
        thread::sleep(Duration::from_millis(50));
    }
    (program, format!("http://127.0.0.1:{port}"))
}

/// A port that was free a moment ago.
#[allow(dead_code)]
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Starts a program and reads its lines, for as long as it runs.
fn start(mut command: Command) -> (Running, mpsc::Receiver<String>) {
    let name = format!("{:?}", command.get_program());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{name} cannot be started: {e}"));
    let out = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = mpsc::channel();
    thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(send.send(line))));
    (Running(child), lines)
}

/// Runs `tests/browser/<script>` with `config` on its standard input. What it prints goes on to the test's output; its
/// last line, `result: JSON`, comes back. A script that fails, or takes too long, fails the test.
pub fn node(script: &str, config: &Value) -> Value {
    let path = tests("browser").join(script);
    let mut child = Command::new("node")
        .arg(&path)
        .current_dir(tests("browser"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("node cannot be started");
    child
        .stdin
        .take()
        .unwrap()
        .write_all(config.to_string().as_bytes())
        .unwrap();
    let errors = child.stderr.take().unwrap();
    let name = script.to_owned();
    let errors = thread::spawn(move || {
        BufReader::new(errors)
            .lines()
            .map_while(Result::ok)
            .for_each(|line| println!("{name}: {line}"));
    });
    let out = BufReader::new(child.stdout.take().unwrap());
    let (send, lines) = mpsc::channel();
    thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(send.send(line))));
    let script_running = Running(child);
    let deadline = Instant::now() + SCRIPT;
    let mut result = None;
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => match line.strip_prefix("result: ") {
                Some(json) => result = Some(serde_json::from_str(json).expect("the script's result is not JSON")),
                None => println!("{script}: {line}"),
            },
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                drop(script_running);
                panic!("{script} did not end within {} s", SCRIPT.as_secs());
            }
        }
    }
    drop(script_running);
    let _ = errors.join();
    result.unwrap_or_else(|| panic!("{script} failed, see above"))
}
