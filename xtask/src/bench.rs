//! `cargo xtask bench`: release builds, measured at least five times, medians against the goals.
//!
//! What is measured inside the engine is printed by its example program `bench`, one value per line as
//! `bench NAME NUMBER`; what needs windows is printed in the same form by [`desktop`], from outside the program.

mod desktop;
mod http;
mod model;

use std::collections::BTreeMap;

use crate::place::Place;
use crate::provision;
use crate::step::{self, cargo, command};

/// Runs of each program. A median of fewer says little.
const RUNS: usize = 5;

struct Goal {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    goal: f64,
    /// True where more is better.
    at_least: bool,
}

const GOALS: &[Goal] = &[
    Goal {
        name: "start_s",
        what: "release start to painted launcher",
        unit: "s",
        goal: 1.0,
        at_least: false,
    },
    Goal {
        name: "main_mb",
        what: "private memory of the main process",
        unit: "MB",
        goal: 60.0,
        at_least: false,
    },
    Goal {
        name: "app_window_mb",
        what: "private memory of one app window",
        unit: "MB",
        goal: 60.0,
        at_least: false,
    },
    Goal {
        name: "tokens_per_s",
        what: "tokens per second arriving in the page (WebKit)",
        unit: "/s",
        goal: 10_000.0,
        at_least: true,
    },
    Goal {
        name: "token_latency_p99_ms",
        what: "added latency per token, p99",
        unit: "ms",
        goal: 5.0,
        at_least: false,
    },
    Goal {
        name: "worker_start_ms",
        what: "worker start",
        unit: "ms",
        goal: 5.0,
        at_least: false,
    },
    Goal {
        name: "plugin_route_us",
        what: "trivial plugin route through engine.call, fresh context",
        unit: "µs",
        goal: 250.0,
        at_least: false,
    },
];

pub fn bench(place: &Place, args: &[String]) -> Result<(), String> {
    match args {
        [] => {}
        // How this program starts itself on a virtual screen.
        [only] if only == "--inside-xvfb" => return desktop::drive(place, RUNS),
        _ => return Err("`cargo xtask bench` takes no arguments".into()),
    }
    provision::for_test(place)?;
    provision::interfaces(place)?;
    step::must(
        "release build",
        cargo(&place.root, &["build", "--release", "--locked"]),
        "read the compiler's error above",
    )?;
    let mut values = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, measured) in [
        ("engine", engine(place, &mut values)),
        ("desktop", on_a_screen(place, &mut values)),
    ] {
        if let Err(e) = measured {
            problems.push(format!("{name}: {e}"));
        }
    }
    println!("\n{}", table(&values));
    problems.iter().for_each(|problem| println!("note: {problem}"));
    if GOALS.iter().any(|goal| !values.contains_key(goal.name)) {
        return Err("not every number could be measured, see the notes above".into());
    }
    Ok(())
}

fn engine(place: &Place, values: &mut BTreeMap<String, Vec<f64>>) -> Result<(), String> {
    let args = [
        "build",
        "--release",
        "--locked",
        "--package",
        "engine",
        "--example",
        "bench",
    ];
    step::must(
        "engine's bench",
        cargo(&place.root, &args),
        "it is src-tauri/crates/engine/examples/bench.rs",
    )?;
    let program = place.target.join("release/examples/bench");
    for run in 1..=RUNS {
        println!("==> engine: run {run} of {RUNS}");
        let mut measured = command(&place.root, &program, &[]);
        measured.env("CHRYSALIS_WORKER", place.program("release", "chrysalis-worker"));
        read(&step::output(measured)?, values);
    }
    Ok(())
}

fn on_a_screen(place: &Place, values: &mut BTreeMap<String, Vec<f64>>) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|e| format!("xtask does not know its own path: {e}"))?;
    let own = own.to_string_lossy();
    println!("==> desktop: {RUNS} runs under Xvfb");
    let args = [
        "-a",
        "-s",
        "-screen 0 1280x900x24",
        "dbus-run-session",
        "--",
        &*own,
        "bench",
        "--inside-xvfb",
    ];
    let mut inside = command(&place.root, "xvfb-run", &args);
    inside
        .env("CARGO_TARGET_DIR", &place.target)
        .env_remove("WAYLAND_DISPLAY")
        .stderr(std::process::Stdio::inherit());
    // What was measured before a failure counts all the same.
    let output = inside
        .output()
        .map_err(|e| format!("xvfb-run cannot be started: {e}"))?;
    read(&String::from_utf8_lossy(&output.stdout), values);
    if output.status.success() {
        Ok(())
    } else {
        Err("it ended early, see its own words above".into())
    }
}

/// Takes in the `bench NAME NUMBER` lines of one run.
fn read(text: &str, values: &mut BTreeMap<String, Vec<f64>>) {
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["bench", name, number] = words[..]
            && let Ok(number) = number.parse::<f64>()
            && number.is_finite()
        {
            values.entry(name.to_string()).or_default().push(number);
        }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn table(values: &BTreeMap<String, Vec<f64>>) -> String {
    let mut lines = vec![format!("{:<58} {:>12} {:>5}  {:>14}", "", "median", "runs", "goal")];
    for goal in GOALS {
        let sign = if goal.at_least { "≥" } else { "≤" };
        let wanted = format!("{sign} {} {}", goal.goal, goal.unit);
        let line = match values.get(goal.name) {
            None => format!("{:<58} {:>12} {:>5}  {wanted:>14}", goal.what, "not measured", 0),
            Some(found) => {
                let middle = median(found);
                let met = if goal.at_least {
                    middle >= goal.goal
                } else {
                    middle <= goal.goal
                };
                let verdict = if met { "met" } else { "MISSED" };
                format!(
                    "{:<58} {:>9.2} {:<2} {:>5}  {wanted:>14}  {verdict}",
                    goal.what,
                    middle,
                    goal.unit,
                    found.len()
                )
            }
        };
        lines.push(line);
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_verdicts_come_from_the_printed_lines() {
        let mut values = BTreeMap::new();
        for number in [3.0, 9.0, 4.0, 5.0, 100.0] {
            read(
                &format!("noise\nbench worker_start_ms {number}\nbench worker_start_ms NaN\nbench x\n"),
                &mut values,
            );
        }
        assert_eq!(values["worker_start_ms"].len(), 5);
        assert!((median(&values["worker_start_ms"]) - 5.0).abs() < f64::EPSILON);
        assert!((median(&[1.0, 2.0]) - 1.5).abs() < f64::EPSILON);
        let table = table(&values);
        assert!(
            table
                .lines()
                .any(|line| line.starts_with("worker start ") && line.ends_with("met")),
            "{table}"
        );
        assert!(table.contains("not measured"));
    }
}
