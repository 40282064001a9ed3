//! Measures workers, and prints `bench NAME NUMBER` lines for `cargo xtask bench`: what a trivial call costs with a
//! prelude of one line and with that of `PRELUDE` files, what 100 idle workers take up, and CPU work against the same
//! engine without a worker.
//!
//! `measure WORKER PROGRAMS [PRELUDE…]`: the worker program, the folder of CPU programs, and the files that make up a
//! prelude, in order.

use std::{path::PathBuf, sync::Arc, time::Duration, time::Instant};

use rquickjs::{Context, Function, Module, Persistent, Runtime};
use sandbox::{Call, Host, Limits, Pool, PoolOptions, Program};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const ONE_LINE: &str = "globalThis.__makeHost = () => ({});";

/// Five kinds of work in the folder of programs, each a module with an export `main`; each takes some 100 ms.
const WORK: [&str; 5] = ["richards", "nbody", "strings", "text", "objects"];

struct Nobody;

#[async_trait::async_trait]
impl Host for Nobody {
    async fn call(&self, _: &str, _: Value) -> Result<Value, String> {
        Err("no".into())
    }
    fn call_now(&self, _: &str, _: Value) -> Result<Value, String> {
        Err("no".into())
    }
    fn log(&self, _: &str, _: &str) {}
}

fn main_call() -> Call {
    Call {
        export: "main".into(),
        args: json!([]),
        data: Value::Null,
        limits: Limits::ordinary(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Median of `calls` calls in microseconds, one after the other.
async fn calls(pool: &Pool, source: &str, prelude: &str, calls: usize) -> Fallible<f64> {
    let program = Arc::new(Program::new(
        format!("measure/{}", prelude.len()),
        "plugin.js",
        source,
        prelude,
        false,
    ));
    let mut times = Vec::new();
    for n in 0..calls + 20 {
        let begin = Instant::now();
        pool.call(&program, main_call(), Arc::new(Nobody)).await?;
        if n >= 20 {
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(median(times))
}

/// The same work in a worker and in this process: milliseconds of each, medians of five turns.
async fn work(pool: &Pool, name: &str, source: &str, prelude: &str) -> Fallible<(f64, f64)> {
    let program = Arc::new(Program::new(name, "plugin.js", source, prelude, false));
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(64 << 20);
    let context = Context::full(&runtime)?;
    let main: Persistent<Function> = context.with(|ctx| -> Fallible<_> {
        let (module, done) = Module::declare(ctx.clone(), "plugin.js", source)?.eval()?;
        done.finish::<()>()?;
        Ok(Persistent::save(&ctx, module.get::<_, Function>("main")?))
    })?;
    let (mut theirs, mut bare) = (Vec::new(), Vec::new());
    // In turns, so that what else the machine does meets both.
    for _ in 0..5 {
        let outcome = pool.call(&program, main_call(), Arc::new(Nobody)).await?;
        theirs.push(outcome.running.as_secs_f64() * 1e3);
        let begin = Instant::now();
        context.with(|ctx| main.clone().restore(&ctx)?.call::<_, rquickjs::Value>(()).map(drop))?;
        bare.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    Ok((median(theirs), median(bare)))
}

/// How many children this process has, and their proportional memory together in MB.
fn proportional() -> Fallible<(usize, f64)> {
    let me = std::process::id().to_string();
    let (mut count, mut kib) = (0, 0.0);
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let path = entry.path();
        let Ok(stat) = std::fs::read_to_string(path.join("stat")) else {
            continue;
        };
        if stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)) != Some(&me) {
            continue;
        }
        let rollup = std::fs::read_to_string(path.join("smaps_rollup"))?;
        let line = rollup
            .lines()
            .find_map(|line| line.strip_prefix("Pss:"))
            .unwrap_or_default();
        kib += line.trim().trim_end_matches(" kB").parse::<f64>()?;
        count += 1;
    }
    Ok((count, kib * 1024.0 / 1e6))
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let mut args = std::env::args_os().skip(1);
    let worker: PathBuf = args.next().ok_or("say which program the worker is")?.into();
    let programs: PathBuf = args.next().ok_or("say where the CPU programs are")?.into();
    let mut prelude = String::new();
    for file in args {
        prelude += &std::fs::read_to_string(file)?;
    }
    if prelude.is_empty() {
        prelude = ONE_LINE.into();
    }
    let pool = Pool::new(PoolOptions {
        worker,
        max_alive: 128,
        idle: Duration::from_secs(600),
    });
    let trivial = "export const main = () => 1";
    println!("bench call_bare_us {:.1}", calls(&pool, trivial, ONE_LINE, 3000).await?);
    println!("bench call_us {:.1}", calls(&pool, trivial, &prelude, 3000).await?);
    let uses = "export const main = () => new URL('https://a.example/?q=1').searchParams.get('q')";
    if prelude != ONE_LINE {
        println!(
            "bench call_with_url_us {:.1}",
            calls(&pool, uses, &prelude, 1000).await?
        );
    }

    for n in 0..100 {
        let program = Arc::new(Program::new(
            format!("idle/{n}"),
            "plugin.js",
            trivial,
            prelude.clone(),
            false,
        ));
        pool.call(&program, main_call(), Arc::new(Nobody)).await?;
    }
    let (count, mb) = proportional()?;
    println!("bench idle_100_mb {:.1}", mb / count as f64 * 100.0);

    for name in WORK {
        let source = std::fs::read_to_string(programs.join(format!("{name}.js")))?;
        let (worker, bare) = work(&pool, name, &source, &prelude).await?;
        println!("bench cpu_{name}_ms {worker:.2}");
        println!("bench bare_cpu_{name}_ms {bare:.2}");
    }
    pool.shutdown().await;
    Ok(())
}
