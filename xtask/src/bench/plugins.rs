//! Plugins against other ways of running JavaScript in a sandbox. Ours and the peers run in turns, so that what else the
//! machine does meets both, and each run has its own quotients.

use std::path::PathBuf;
use std::process::Command;

use super::{RUNS, Values, example, goals, read};
use crate::place::Place;
use crate::provision;
use crate::step::{self, command};

/// Where the peers are: npm packages, the scripts that drive them, and the programs that both sides run.
const FOLDER: &str = "xtask/bench";

/// The two files of which a plugin's context is made, in this order.
const PRELUDE: [&str; 2] = ["globals.js", "prelude.js"];

struct Peers {
    folder: PathBuf,
    /// Name in the numbers, and the program that runs the scripts.
    runtimes: Vec<(&'static str, PathBuf)>,
    sqlite: bool,
}

impl Peers {
    /// Installs what the lock file names. What cannot be had is left out and said.
    fn install(place: &Place, problems: &mut Vec<String>) -> Self {
        let folder = place.root.join(FOLDER);
        let mut peers = Self {
            runtimes: Vec::new(),
            sqlite: false,
            folder,
        };
        if let Err(problem) = provision::npm_ci(place, FOLDER) {
            problems.push(format!(
                "the peers from npm are missing, so there is nothing to compare with: {problem}"
            ));
            return peers;
        }
        peers.runtimes.push(("node", "node".into()));
        let bun = peers.folder.join("node_modules/.bin/bun");
        match step::output(command(&peers.folder, &bun, &["--version"])) {
            Ok(_) => peers.runtimes.push(("bun", bun)),
            Err(problem) => problems.push(format!("Bun is missing: {problem}")),
        }
        let works = || {
            let load = "new (require('better-sqlite3'))(':memory:')";
            step::output(command(&peers.folder, "node", &["-e", load])).is_ok()
        };
        // Packages are installed without their scripts; this one needs its own, which may compile it.
        peers.sqlite = works() || {
            println!("==> plugins: building better-sqlite3");
            let built = step::output(command(&peers.folder, "npm", &["rebuild", "better-sqlite3"]));
            built
                .inspect_err(|problem| problems.push(format!("better-sqlite3 is missing: {problem}")))
                .is_ok()
                && works()
        };
        peers
    }

    fn script(&self, runtime: &PathBuf, args: &[&str]) -> Command {
        command(&self.folder, runtime, args)
    }
}

/// Takes one program's lines into the run's numbers.
fn take(run: &mut Values, problems: &mut Vec<String>, who: &str, measured: Command) {
    match step::output(measured) {
        Ok(text) => read(&text, run),
        Err(problem) => problems.push(format!("{who}: {problem}")),
    }
}

/// Runs all of `round` several times and keeps each run's numbers with their quotients.
fn rounds(name: &str, values: &mut Values, mut round: impl FnMut(&mut Values)) {
    for turn in 1..=RUNS {
        println!("==> {name}: run {turn} of {RUNS}");
        let mut run = Values::new();
        round(&mut run);
        goals::relate(&mut run);
        for (name, numbers) in run {
            values.entry(name).or_default().extend(numbers);
        }
    }
}

/// Routes of plugins against sandboxes that are made for each call, and the store.
pub fn routes(place: &Place, values: &mut Values) -> Vec<String> {
    let mut problems = Vec::new();
    let peers = Peers::install(place, &mut problems);
    let large = place.target.join("xtask-bench-large.js");
    let made = step::output(command(&peers.folder, "node", &["large.mjs"]))
        .and_then(|text| std::fs::write(&large, text).map_err(|e| format!("{}: {e}", large.display())));
    if let Err(problem) = made {
        problems.push(problem);
        return problems;
    }
    let (large, programs) = (large.to_string_lossy(), peers.folder.join("programs"));
    rounds("plugins", values, |run| {
        let ours = example(place, "bench-plugins", &[&programs.to_string_lossy(), &large]);
        take(run, &mut problems, "ours", ours);
        for (name, runtime) in &peers.runtimes {
            take(
                run,
                &mut problems,
                name,
                peers.script(runtime, &["peer.mjs", name, &large]),
            );
        }
        if peers.sqlite {
            take(
                run,
                &mut problems,
                "better-sqlite3",
                peers.script(&"node".into(), &["store.mjs"]),
            );
        }
    });
    problems
}

/// CPU work against quickjs-emscripten and against the same engine without a worker; idle workers' memory.
pub fn cpu(place: &Place, values: &mut Values) -> Vec<String> {
    let mut problems = Vec::new();
    let peers = Peers::install(place, &mut problems);
    let worker = place.program("release", "chrysalis-worker");
    let prelude = PRELUDE.map(|file| place.root.join("src-tauri/crates/apps/src").join(file));
    let paths: Vec<_> = [worker, peers.folder.join("programs")]
        .into_iter()
        .chain(prelude)
        .collect();
    let args: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
    let args: Vec<&str> = args.iter().map(|arg| &**arg).collect();
    rounds("cpu", values, |run| {
        take(run, &mut problems, "ours", example(place, "measure", &args));
        for (name, runtime) in &peers.runtimes {
            take(run, &mut problems, name, peers.script(runtime, &["cpu.mjs", name]));
        }
    });
    problems
}
