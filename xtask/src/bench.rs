//! `cargo xtask bench`: release builds, measured at least five times, medians against the goals.
//!
//! Each step prints what it measures as `bench NAME NUMBER` lines: the engine's and the plugins' from example programs of
//! ours, the peers' from the scripts in `xtask/bench`, and what needs windows from [`desktop`], outside the program.

mod desktop;
mod goals;
mod http;
mod model;
mod plugins;
mod streams;

use std::collections::BTreeMap;

use goals::GOALS;

use crate::place::Place;
use crate::provision;
use crate::step::{self, cargo, command};

/// Runs of each program. A median of fewer says little.
const RUNS: usize = 5;

/// What was measured, by name, one number per run.
pub type Values = BTreeMap<String, Vec<f64>>;

/// Measures, and gives what could not be measured and why.
type Step = fn(&Place, &mut Values) -> Vec<String>;

const STEPS: &[(&str, Step)] = &[
    ("engine", engine),
    ("plugins", plugins::routes),
    ("cpu", plugins::cpu),
    ("streams", streams::measure),
    ("desktop", on_a_screen),
];

/// The example programs that measure: package and name.
const EXAMPLES: &[(&str, &str)] = &[
    ("engine", "bench"),
    ("engine", "bench-streams"),
    ("net", "bare-stream"),
    ("apps", "bench-plugins"),
    ("sandbox", "measure"),
];

pub fn bench(place: &Place, args: &[String]) -> Result<(), String> {
    match args {
        // How this program starts itself on a virtual screen.
        [only] if only == "--inside-xvfb" => return desktop::drive(place, RUNS),
        [only] if only == "--list" => {
            STEPS.iter().for_each(|(name, _)| println!("{name}"));
            return Ok(());
        }
        _ => {}
    }
    if let Some(unknown) = args.iter().find(|arg| !STEPS.iter().any(|(name, _)| name == arg)) {
        return Err(format!(
            "there is no step `{unknown}`; `cargo xtask bench --list` names them"
        ));
    }
    let wanted = |step: &str| args.is_empty() || args.iter().any(|arg| arg == step);
    provision::for_test(place)?;
    build(place, wanted("desktop"))?;
    let mut values = Values::new();
    let mut problems = Vec::new();
    for (name, measure) in STEPS.iter().filter(|(name, _)| wanted(name)) {
        let found = measure(place, &mut values);
        problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
    }
    println!("\n{}", goals::table(&values, wanted));
    problems.iter().for_each(|problem| println!("note: {problem}"));
    let mut asked = GOALS.iter().filter(|goal| wanted(goal.step));
    if asked.any(|goal| !values.contains_key(goal.name)) {
        return Err("not every number could be measured, see the notes above".into());
    }
    Ok(())
}

/// Builds the program (or, where no window is needed, its worker) and the programs that measure.
fn build(place: &Place, whole: bool) -> Result<(), String> {
    provision::interfaces(place)?;
    let mut program = vec!["build", "--release", "--locked"];
    if !whole {
        program.extend(["--bin", "chrysalis-worker"]);
    }
    let advice = "read the compiler's error above";
    step::must("release build", cargo(&place.root, &program), advice)?;
    // One build for all: each set of packages has its own set of features, and is built for itself.
    let mut examples = vec!["build", "--release", "--locked"];
    for (package, name) in EXAMPLES {
        examples.extend(["--package", package, "--example", name]);
    }
    step::must("programs that measure", cargo(&place.root, &examples), advice)
}

fn example(place: &Place, name: &str, args: &[&str]) -> std::process::Command {
    let program = place.program("release/examples", name);
    let mut measured = command(&place.root, program, args);
    measured.env("CHRYSALIS_WORKER", place.program("release", "chrysalis-worker"));
    measured
}

fn engine(place: &Place, values: &mut Values) -> Vec<String> {
    for run in 1..=RUNS {
        println!("==> engine: run {run} of {RUNS}");
        match step::output(example(place, "bench", &[])) {
            Ok(text) => read(&text, values),
            Err(problem) => return vec![problem],
        }
    }
    Vec::new()
}

fn on_a_screen(place: &Place, values: &mut Values) -> Vec<String> {
    let own = match std::env::current_exe() {
        Ok(own) => own.to_string_lossy().into_owned(),
        Err(e) => return vec![format!("xtask does not know its own path: {e}")],
    };
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
    let output = match inside.output() {
        Ok(output) => output,
        Err(e) => return vec![format!("xvfb-run cannot be started: {e}")],
    };
    // What was measured before a failure counts all the same.
    read(&String::from_utf8_lossy(&output.stdout), values);
    if output.status.success() {
        Vec::new()
    } else {
        vec!["it ended early, see its own words above".into()]
    }
}

/// Takes in the `bench NAME NUMBER` lines of one run.
fn read(text: &str, values: &mut Values) {
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
