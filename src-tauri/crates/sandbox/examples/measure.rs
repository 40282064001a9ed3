//! Measures workers, and prints `bench NAME NUMBER` lines: what a trivial call costs with a prelude of one line and with
//! that of `PRELUDE` files, what 100 idle workers take up, and CPU work against the same engine without a worker.
//!
//! `measure WORKER [PRELUDE…]`: the worker program and the files that make up a prelude, in order.

use std::{path::PathBuf, sync::Arc, time::Duration, time::Instant};

use rquickjs::{Context, Function, Module, Runtime};
use sandbox::{Call, Host, Limits, Pool, PoolOptions, Program};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

const ONE_LINE: &str = "globalThis.__makeHost = () => ({});";

/// Five kinds of work; each takes some 100 ms.
const WORK: &[(&str, &str)] = &[
    (
        "fib",
        "export function main() { const f = (n) => n < 2 ? n : f(n - 1) + f(n - 2); return f(27) }",
    ),
    (
        "sieve",
        "export function main() { const s = new Uint8Array(1e6); let c = 0; for (let i = 2; i < 1e6; i++) { if (s[i]) continue; c++; for (let j = i * 2; j < 1e6; j += i) s[j] = 1 } return c }",
    ),
    (
        "objects",
        "export function main() { const m = new Map(); for (let i = 0; i < 2e5; i++) m.set('k' + i % 5000, { i, s: 'v' + i }); let t = 0; for (const v of m.values()) t += v.i; return t }",
    ),
    (
        "strings",
        "export function main() { let s = ''; for (let i = 0; i < 1e5; i++) s += i; return s.split('9').map((x) => x.length).reduce((a, b) => a + b) + JSON.stringify(JSON.parse('[' + '{\"a\":[1,2,3]},'.repeat(5e4) + '0]')).length }",
    ),
    (
        "regexp",
        "export function main() { let n = 0; const r = /(\\w+)@(\\w+)\\.com/g, t = 'ann@example.com, bob@test.org; '.repeat(2e4); while (r.exec(t)) n++; return n }",
    ),
];

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

/// The same work in this process, in milliseconds.
fn bare(source: &str) -> Fallible<f64> {
    let runtime = Runtime::new()?;
    runtime.set_memory_limit(64 << 20);
    let context = Context::full(&runtime)?;
    context.with(|ctx| {
        let (module, done) = Module::declare(ctx.clone(), "plugin.js", source)?.eval()?;
        done.finish::<()>()?;
        let main: Function = module.get("main")?;
        let mut times = Vec::new();
        for _ in 0..5 {
            let begin = Instant::now();
            main.call::<_, rquickjs::Value>(())?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(times))
    })
}

/// Proportional memory of this process's children, in MiB.
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
    Ok((count, kib / 1024.0))
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let mut args = std::env::args_os().skip(1);
    let worker: PathBuf = args.next().ok_or("say which program the worker is")?.into();
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
    let (count, mib) = proportional()?;
    println!("bench idle_pss_mib_of_100 {:.1}", mib / count as f64 * 100.0);

    let mut product = 1.0;
    for (name, source) in WORK {
        let program = Arc::new(Program::new(*name, "plugin.js", *source, prelude.clone(), false));
        let mut times = Vec::new();
        for _ in 0..5 {
            let outcome = pool.call(&program, main_call(), Arc::new(Nobody)).await?;
            times.push(outcome.running.as_secs_f64() * 1e3);
        }
        let (here, there) = (bare(source)?, median(times));
        println!("bench cpu_{name}_ms {there:.2}");
        println!("bench cpu_{name}_bare_ms {here:.2}");
        product *= there / here;
    }
    println!("bench cpu_against_bare {:.3}", product.powf(1.0 / WORK.len() as f64));
    pool.shutdown().await;
    Ok(())
}
