//! The goals, and the table that holds what was measured against them.

use super::Values;

pub struct Goal {
    /// The step that measures it.
    pub step: &'static str,
    pub name: &'static str,
    what: &'static str,
    unit: &'static str,
    wanted: Wanted,
}

enum Wanted {
    AtMost(f64),
    AtLeast(f64),
    /// Shown for its own sake.
    Nothing,
}

use Wanted::{AtLeast, AtMost, Nothing};

const fn goal(step: &'static str, name: &'static str, what: &'static str, unit: &'static str, wanted: Wanted) -> Goal {
    Goal {
        step,
        name,
        what,
        unit,
        wanted,
    }
}

#[rustfmt::skip] // a table
pub const GOALS: &[Goal] = &[
    goal("desktop", "start_s", "release start to painted launcher", "s", AtMost(1.0)),
    goal("desktop", "main_mb", "private memory of the main process", "MB", AtMost(60.0)),
    goal("desktop", "app_window_mb", "private memory of one app window", "MB", AtMost(60.0)),
    goal("desktop", "tokens_per_s", "tokens per second arriving in the page (WebKit)", "/s", AtLeast(10_000.0)),
    goal("desktop", "token_latency_p99_ms", "added latency per token, p99", "ms", AtMost(5.0)),
    goal("engine", "worker_start_ms", "worker start", "ms", AtMost(5.0)),
    goal("engine", "plugin_route_us", "trivial plugin route through engine.call, fresh context", "µs", AtMost(250.0)),
    goal("plugins", "route_us", "trivial route, from the plugin's files to the answer", "µs", Nothing),
    goal("plugins", "route_vs_node", "  times faster than fresh sandboxes on Node", "x", AtLeast(20.0)),
    goal("plugins", "route_vs_bun", "  times faster than fresh sandboxes on Bun", "x", AtLeast(20.0)),
    goal("plugins", "route_200k_us", "route of a plugin of 200 KB", "µs", Nothing),
    goal("plugins", "route_200k_vs_node", "  times faster than fresh sandboxes on Node", "x", AtLeast(15.0)),
    goal("plugins", "route_200k_vs_bun", "  times faster than fresh sandboxes on Bun", "x", AtLeast(15.0)),
    goal("plugins", "json_1k_us", "1 KB of JSON there and back", "µs", Nothing),
    goal("plugins", "json_1k_vs_node", "  times faster than fresh sandboxes on Node", "x", Nothing),
    goal("plugins", "json_1m_us", "1 MB of JSON there and back", "µs", Nothing),
    goal("plugins", "json_1m_vs_node", "  times faster than fresh sandboxes on Node", "x", Nothing),
    goal("plugins", "store_put_us", "host.store.put", "µs", Nothing),
    goal("plugins", "sqlite_put_us", "  better-sqlite3 on Node without a sandbox", "µs", Nothing),
    goal("plugins", "store_get_us", "host.store.get", "µs", Nothing),
    goal("plugins", "sqlite_get_us", "  better-sqlite3 on Node without a sandbox", "µs", Nothing),
    goal("cpu", "call_us", "trivial call of a worker, without files and database", "µs", Nothing),
    goal("cpu", "idle_100_mb", "proportional memory of 100 idle plugins", "MB", AtMost(150.0)),
    goal("cpu", "cpu_vs_node", "CPU programs: times faster than quickjs-emscripten, Node", "x", AtLeast(1.8)),
    goal("cpu", "cpu_vs_bun", "CPU programs: times faster than quickjs-emscripten, Bun", "x", Nothing),
    goal("cpu", "cpu_vs_bare", "CPU programs: time against QuickJS without a worker", "x", AtMost(1.05)),
    goal("streams", "bare_token_ns", "a token of a stream, read by a bare reqwest loop", "ns", Nothing),
    goal("streams", "plugin_token_ns", "a token of a stream, from the socket to a plugin", "ns", Nothing),
    goal("streams", "plugin_token_vs_bare", "  times the bare loop", "x", AtMost(1.3)),
    goal("streams", "page_token_ns", "a token of a stream, from the socket to an app's page", "ns", Nothing),
    goal("streams", "page_token_vs_bare", "  times the bare loop", "x", AtMost(1.3)),
    goal("streams", "streams_200_cores", "200 streams of 50 tokens a second, to plugins", "cores", AtMost(0.5)),
    goal("streams", "stop_ms", "from a stop to the closed socket", "ms", AtMost(100.0)),
];

/// CPU programs, in `xtask/bench/programs`.
const CPU: [&str; 5] = ["richards", "nbody", "strings", "text", "objects"];

/// Adds to one run's numbers how they relate: a name, and the geometric mean of the quotients of these pairs. A pair that
/// is not whole (a peer that is missing) gives nothing.
pub fn relate(run: &mut Values) {
    let mut relate = |name: String, pairs: Vec<(String, String)>| {
        let one = |name: &String| run.get(name)?.last().copied();
        let quotient = |(over, under): &(String, String)| Some((one(over)? / one(under)?).ln());
        let logarithms: Option<Vec<f64>> = pairs.iter().map(quotient).collect();
        if let Some(logarithms) = logarithms {
            let mean = logarithms.iter().sum::<f64>() / logarithms.len() as f64;
            run.insert(name, vec![mean.exp()]);
        }
    };
    for peer in ["node", "bun"] {
        for name in ["route", "route_200k", "json_1k", "json_1m"] {
            relate(
                format!("{name}_vs_{peer}"),
                vec![(format!("{peer}_{name}_us"), format!("{name}_us"))],
            );
        }
        let cpu = |name: &&str| (format!("{peer}_cpu_{name}_ms"), format!("cpu_{name}_ms"));
        relate(format!("cpu_vs_{peer}"), CPU.iter().map(cpu).collect());
    }
    for side in ["plugin", "page"] {
        let pair = (format!("{side}_token_ns"), "bare_token_ns".to_owned());
        relate(format!("{side}_token_vs_bare"), vec![pair]);
    }
    let bare = |name: &&str| (format!("cpu_{name}_ms"), format!("bare_cpu_{name}_ms"));
    relate("cpu_vs_bare".into(), CPU.iter().map(bare).collect());
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

/// What the steps that were wanted measured, each line a median.
pub fn table(values: &Values, wanted: impl Fn(&str) -> bool) -> String {
    let mut lines = vec![format!("{:<58} {:>12} {:>5}  {:>14}", "", "median", "runs", "goal")];
    for goal in GOALS.iter().filter(|goal| wanted(goal.step)) {
        let aim = match goal.wanted {
            AtMost(most) => format!("≤ {most} {}", goal.unit),
            AtLeast(least) => format!("≥ {least} {}", goal.unit),
            Nothing => String::new(),
        };
        let Some(found) = values.get(goal.name) else {
            lines.push(format!("{:<58} {:>12} {:>5}  {aim:>14}", goal.what, "not measured", 0));
            continue;
        };
        let middle = median(found);
        let verdict = match goal.wanted {
            AtMost(most) if middle <= most => "met",
            AtLeast(least) if middle >= least => "met",
            Nothing => "",
            _ => "MISSED",
        };
        let line = format!(
            "{:<58} {middle:>9.2} {:<2} {:>5}  {aim:>14}  {verdict}",
            goal.what,
            goal.unit,
            found.len()
        );
        lines.push(line.trim_end().into());
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    #[test]
    fn medians_and_verdicts_come_from_the_printed_lines() {
        let mut values = Values::new();
        for number in [3.0, 9.0, 4.0, 5.0, 100.0] {
            read(
                &format!("noise\nbench worker_start_ms {number}\nbench worker_start_ms NaN\nbench x\n"),
                &mut values,
            );
        }
        assert_eq!(values["worker_start_ms"].len(), 5);
        assert!((median(&values["worker_start_ms"]) - 5.0).abs() < f64::EPSILON);
        assert!((median(&[1.0, 2.0]) - 1.5).abs() < f64::EPSILON);
        let table = table(&values, |step| step == "engine");
        assert!(
            table
                .lines()
                .any(|line| line.starts_with("worker start ") && line.ends_with("met")),
            "{table}"
        );
        assert!(table.contains("not measured"));
        assert!(!table.contains("painted"), "another step's: {table}");
    }

    #[test]
    fn quotients_are_of_one_run_and_need_both_sides() {
        let mut run = Values::new();
        read("bench route_us 200\nbench node_route_us 5000\n", &mut run);
        for (name, ours, bare) in [
            ("richards", 2, 1),
            ("nbody", 1, 2),
            ("strings", 8, 1),
            ("text", 1, 8),
            ("objects", 32, 1),
        ] {
            read(
                &format!("bench cpu_{name}_ms {ours}\nbench bare_cpu_{name}_ms {bare}\n"),
                &mut run,
            );
        }
        relate(&mut run);
        assert!((run["route_vs_node"][0] - 25.0).abs() < 1e-9);
        assert!((run["cpu_vs_bare"][0] - 2.0).abs() < 1e-9);
        assert!(!run.contains_key("route_vs_bun") && !run.contains_key("cpu_vs_node"));
    }
}
