//! Running one program as a named step: printed first, watched by a clock, its output passed through and counted.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A step that has not ended by then is hanging: CI allows 90 minutes for all of them together.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Tests that a step's output reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Takes in one line of output: libtest's `test result: ok. 3 passed; 0 failed; 1 ignored; …` or vitest's
    /// `Tests  1 failed | 12 passed (13)`. Other lines change nothing.
    pub fn read(&mut self, line: &str) {
        let line = line.trim();
        let libtest = line.starts_with("test result:");
        let vitest = line.starts_with("Tests ") && line.ends_with(')');
        if !libtest && !vitest {
            return;
        }
        let words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || c == ';' || c == '|')
            .filter(|w| !w.is_empty())
            .collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" | "skipped" | "todo" => self.skipped += count,
                _ => {}
            }
        }
    }
}

pub struct Outcome {
    pub ok: bool,
    pub counts: Counts,
    /// The last lines of both streams, for callers that must tell one failure from another.
    pub tail: String,
    pub cause: String,
}

pub fn command(dir: &Path, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).args(args).stdin(Stdio::null());
    // `cargo run` sets these for xtask itself; handed on, they would look like the settings of what we start.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "CARGO_CRATE_NAME" {
            command.env_remove(&name);
        }
    }
    command
}

pub fn cargo(dir: &Path, args: &[&str]) -> Command {
    command(dir, std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

/// The command as a person would type it.
pub fn line_of(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| {
        let arg = arg.to_string_lossy();
        if arg.contains(' ') {
            format!("'{arg}'")
        } else {
            arg.into_owned()
        }
    }));
    if let Some(name) = Path::new(&words[0]).file_stem() {
        words[0] = name.to_string_lossy().into_owned();
    }
    words.join(" ")
}

/// Runs a command that must succeed; its failure ends xtask with `advice`.
pub fn must(name: &str, command: Command, advice: &str) -> Result<(), String> {
    let outcome = watched(name, command);
    if outcome.ok {
        Ok(())
    } else {
        Err(format!("{name} failed: {}\n  {advice}", outcome.cause))
    }
}

/// Runs a command, passing its output through while counting the tests it reports.
pub fn watched(name: &str, command: Command) -> Outcome {
    watch(name, command, true)
}

fn watch(name: &str, mut command: Command, pass: bool) -> Outcome {
    println!("\n==> {name}: {}", line_of(&command));
    let _ = std::io::stdout().flush();
    let failed = |cause: String| Outcome {
        ok: false,
        counts: Counts::default(),
        tail: String::new(),
        cause,
    };
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // Its own process group, so that the clock can end all of it. Not at a terminal: there Ctrl-C must reach it.
    #[cfg(unix)]
    if !std::io::stdin().is_terminal() {
        use std::os::unix::process::CommandExt;
        command.process_group(0);
    }
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return failed(format!("`{}` cannot be started: {e}", line_of(&command))),
    };
    let seen = Arc::new(Mutex::new((Counts::default(), Vec::<String>::new())));
    let out = child
        .stdout
        .take()
        .map(|pipe| reader(pipe, Arc::clone(&seen), pass.then_some(Stream::Out)));
    let err = child
        .stderr
        .take()
        .map(|pipe| reader(pipe, Arc::clone(&seen), pass.then_some(Stream::Err)));
    let status = wait(&mut child, LIMIT);
    // A grandchild that kept the pipe open must not hold us up for good: the readers are joined only after a clean end.
    if status.is_ok() {
        for thread in [out, err].into_iter().flatten() {
            join_within(thread, Duration::from_secs(10));
        }
    }
    let (counts, tail) = match seen.lock() {
        Ok(seen) => (seen.0, seen.1.join("\n")),
        Err(_) => (Counts::default(), String::new()),
    };
    match status {
        Ok(status) if status.success() => Outcome {
            ok: true,
            counts,
            tail,
            cause: String::new(),
        },
        Ok(status) => Outcome {
            ok: false,
            counts,
            tail,
            cause: status.to_string(),
        },
        Err(cause) => Outcome {
            ok: false,
            counts,
            tail,
            cause,
        },
    }
}

/// Where a line goes on to.
enum Stream {
    Out,
    Err,
}

fn reader(
    pipe: impl std::io::Read + Send + 'static,
    seen: Arc<Mutex<(Counts, Vec<String>)>>,
    pass: Option<Stream>,
) -> std::thread::JoinHandle<()> {
    const TAIL: usize = 40;
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while pipe.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            let line = String::from_utf8_lossy(&bytes).into_owned();
            // A closed terminal is no reason to stop the tests.
            let _ = match pass {
                Some(Stream::Out) => std::io::stdout().write_all(line.as_bytes()),
                Some(Stream::Err) => std::io::stderr().write_all(line.as_bytes()),
                None => Ok(()),
            };
            if let Ok(mut seen) = seen.lock() {
                seen.0.read(&line);
                if seen.1.len() == TAIL {
                    seen.1.remove(0);
                }
                seen.1.push(line.trim_end().to_string());
            }
            bytes.clear();
        }
    })
}

fn join_within(thread: std::thread::JoinHandle<()>, limit: Duration) {
    let end = Instant::now() + limit;
    while !thread.is_finished() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait(child: &mut Child, limit: Duration) -> Result<std::process::ExitStatus, String> {
    let end = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
            Ok(None) => {
                // The group if it leads one; its own pid is all that is ever signalled.
                #[cfg(unix)]
                let _ = Command::new("kill")
                    .args(["-KILL", "--", &format!("-{}", child.id())])
                    .stderr(Stdio::null())
                    .status();
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!(
                    "it was still running after {} minutes and was ended",
                    limit.as_secs() / 60
                ));
            }
            Err(e) => return Err(format!("it cannot be waited for: {e}")),
        }
    }
}

/// Runs a command quietly and gives what it wrote to standard output, or why it could not.
pub fn output(mut command: Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|e| format!("`{}` cannot be started: {e}", line_of(&command)))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "`{}`: {}\n{}",
            line_of(&command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, passed: u64, failed: u64, skipped: u64) {
        let mut counts = Counts::default();
        counts.read(line);
        assert_eq!(
            counts,
            Counts {
                passed,
                failed,
                skipped
            },
            "{line}"
        );
    }

    #[test]
    fn reads_the_runners_closing_lines() {
        check(
            "test result: ok. 31 passed; 0 failed; 2 ignored; 0 measured; 4 filtered out; finished in 0.12s\n",
            31,
            0,
            2,
        );
        check(
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            3,
            1,
            0,
        );
        check("      Tests  12 passed (12)", 12, 0, 0);
        check("      Tests  1 failed | 4 passed | 2 skipped (7)", 4, 1, 2);
        check(" Test Files  3 passed (3)", 0, 0, 0);
        check("we passed 5 passed tests", 0, 0, 0);
    }

    #[cfg(unix)]
    #[test]
    fn a_failing_command_is_a_failure_with_its_cause_and_tail() {
        let dir = std::env::temp_dir();
        let outcome = watch(
            "self-test",
            command(
                &dir,
                "sh",
                &[
                    "-c",
                    "echo 'test result: FAILED. 2 passed; 1 failed'; echo why >&2; exit 3",
                ],
            ),
            false,
        );
        assert!(!outcome.ok);
        assert_eq!(
            outcome.counts,
            Counts {
                passed: 2,
                failed: 1,
                skipped: 0
            }
        );
        assert!(outcome.tail.contains("why"), "{}", outcome.tail);
        assert!(outcome.cause.contains('3'), "{}", outcome.cause);
        let missing = watch("self-test", command(&dir, "no-such-program-anywhere", &[]), false);
        assert!(
            !missing.ok && missing.cause.contains("cannot be started"),
            "{}",
            missing.cause
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_hanging_command_is_ended_by_the_clock() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep starts");
        let started = Instant::now();
        let ended = wait(&mut child, Duration::from_millis(100));
        assert!(ended.is_err_and(|cause| cause.contains("was ended")));
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}
