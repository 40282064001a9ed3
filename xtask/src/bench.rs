//! `cargo xtask bench`: release builds, measured at least five times, medians against the goals.
//!
//! What is measured inside one process is printed by an example program of the crate it belongs to, one value per
//! line as `bench NAME NUMBER`; what needs windows is printed by the desktop driver in the same form.

use std::collections::BTreeMap;
use std::path::Path;

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
        what: "release start to interactive launcher",
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

/// Example programs that measure, by package. One that a package does not have is named in the result.
const PROGRAMS: &[(&str, &str, bool)] = &[("engine", "bench", false), ("chrysalis", "bench-desktop", true)];

pub fn bench(place: &Place, args: &[String]) -> Result<(), String> {
    if !args.is_empty() {
        return Err("`cargo xtask bench` takes no arguments".into());
    }
    provision::for_test(place)?;
    provision::interfaces(place)?;
    step::must(
        "release build",
        cargo(&place.root, &["build", "--release", "--locked"]),
        "read the compiler's error above",
    )?;
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut problems = Vec::new();
    for (package, example, windows) in PROGRAMS {
        let name = format!("{package} {example}");
        let file = if *package == "chrysalis" {
            format!("examples/{example}.rs")
        } else {
            format!("src-tauri/crates/{package}/examples/{example}.rs")
        };
        if !place.root.join(&file).is_file() {
            problems.push(format!("{name}: there is no {file}, so its numbers are missing"));
            continue;
        }
        // The desktop's window is read through the test-only hook, so its driver gets a build of its own.
        let mut build = vec![
            "build",
            "--release",
            "--locked",
            "--package",
            package,
            "--example",
            example,
        ];
        if *windows {
            build.extend(["--bins", "--features", "test-hook"]);
        }
        if let Err(e) = step::must(&name, cargo(&place.root, &build), "read the compiler's error above") {
            problems.push(e);
            continue;
        }
        let program = place.target.join("release/examples").join(example);
        for run in 1..=RUNS {
            println!("==> {name}: run {run} of {RUNS}");
            match step::output(measured(place, &program, *windows)) {
                Ok(text) => read(&text, &mut values),
                Err(e) => problems.push(format!("{name}, run {run}: {e}")),
            }
        }
    }
    println!("\n{}", table(&values));
    problems.iter().for_each(|problem| println!("note: {problem}"));
    if GOALS.iter().any(|goal| !values.contains_key(goal.name)) {
        return Err("not every number could be measured, see the notes above".into());
    }
    Ok(())
}

fn measured(place: &Place, program: &Path, windows: bool) -> std::process::Command {
    let path = program.to_string_lossy().into_owned();
    let mut run = if windows {
        command(
            &place.root,
            "xvfb-run",
            &["-a", "-s", "-screen 0 1280x900x24", "dbus-run-session", "--", &path],
        )
    } else {
        command(&place.root, program, &[])
    };
    run.env("CHRYSALIS_BIN", place.program("release", "chrysalis"));
    run.env("CHRYSALIS_WORKER", place.program("release", "chrysalis-worker"));
    run.env("CHRYSALIS_TEST_VENV", place.venv());
    run
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
