//! What a plugin sees: exports, host calls, errors, contexts.

mod common;

use std::{sync::Arc, time::Duration};

use common::*;
use sandbox::{Failure, Limits, Program};
use serde_json::{Value, json};

#[tokio::test]
async fn an_export_gets_its_arguments_and_the_host() {
    let pool = pool();
    let source = r#"export function handleRoute(request, host) {
        request.seen = true;
        return { request, data: host.data, same: host.same() === host.data, count: arguments.length };
    }"#;
    let outcome = pool
        .call(
            &program("a/b/c", source),
            call("handleRoute", json!([{"path": "/x", "text": "日本🦋\u{0}"}])),
            host(),
        )
        .await
        .unwrap();
    assert!(outcome.exported);
    assert!(outcome.heap > 0);
    assert_eq!(
        outcome.value,
        json!({"request": {"path": "/x", "text": "日本🦋\u{0}", "seen": true}, "data": {"user": "ann"}, "same": true, "count": 2})
    );
}

#[tokio::test]
async fn a_missing_export_and_data_are_told_apart() {
    let pool = pool();
    let source = "export const TOOLS = [{ name: 'roll' }]; export const nothing = undefined;";
    let get = async |export| {
        pool.call(&program("a/b/c", source), call(export, json!([])), host())
            .await
            .unwrap()
    };
    let tools = get("TOOLS").await;
    assert!(tools.exported);
    assert_eq!(tools.value, json!([{"name": "roll"}]));
    let nothing = get("nothing").await;
    assert!(nothing.exported && nothing.value.is_null());
    let missing = get("handleTool").await;
    assert!(!missing.exported && missing.value.is_null());
    assert!(!get("toString").await.exported, "inherited names are no exports");
}

#[tokio::test]
async fn results_that_json_cannot_say_are_errors_or_null() {
    let pool = pool();
    assert_eq!(value(&pool, "export const main = () => undefined").await, Value::Null);
    assert_eq!(value(&pool, "export const main = () => () => 1").await, Value::Null);
    assert_eq!(
        value(&pool, "export const main = () => '\\ud800'").await,
        json!("\u{fffd}")
    );
    let error = script_error(&pool, "export const main = () => 10n").await;
    assert!(error.message.contains("result cannot be turned into JSON"), "{error}");
    let error = script_error(&pool, "export const main = () => { const a = {}; a.a = a; return a }").await;
    assert!(error.message.contains("circular"), "{error}");
}

#[tokio::test]
async fn host_calls_are_awaited_and_run_side_by_side() {
    let pool = pool();
    let source = r#"export async function main(host) {
        const all = await Promise.all([1, 2, 3].map((n) => host.call("echo", n)));
        let failed = "";
        try { await host.call("fail"); } catch (error) { failed = `${error instanceof Error} ${error.message}`; }
        let unknown = "";
        try { host.now("nothing"); } catch (error) { unknown = error.message; }
        return { all, failed, now: host.now("echo", { a: 1 }), unknown };
    }"#;
    assert_eq!(
        value(&pool, source).await,
        json!({"all": [[1], [2], [3]], "failed": "true the engine says no", "now": [{"a": 1}], "unknown": "there is no nothing"})
    );
}

#[tokio::test]
async fn thenables_and_top_level_await_work() {
    let pool = pool();
    let source = "const x = await Promise.resolve(4); export const main = () => ({ then(done) { done(x + 1) } })";
    assert_eq!(value(&pool, source).await, json!(5));
}

#[tokio::test]
async fn a_promise_nobody_can_settle_is_an_error() {
    let error = script_error(&pool(), "export const main = () => new Promise(() => {})").await;
    assert!(error.message.contains("can never settle"), "{error}");
}

#[tokio::test]
async fn errors_name_their_place() {
    let pool = pool();
    let error = script_error(&pool, "\nexport function main() {\n  null.x;\n}").await;
    assert_eq!((error.file.as_str(), error.line), ("plugin.js", 3), "{error:?}");
    assert!(error.message.starts_with("TypeError: "), "{error}");
    let error = script_error(&pool, "let a = 1;\nlet b = ;\n").await;
    assert_eq!((error.file.as_str(), error.line), ("plugin.js", 2), "{error:?}");
    assert!(error.message.starts_with("SyntaxError: "), "{error}");
    let error = script_error(&pool, "const x: number = 1; export const main = () => x").await;
    assert!(
        error.message.starts_with("SyntaxError: "),
        "TypeScript is not JavaScript: {error}"
    );
    let error = script_error(&pool, "export const main = () => { throw { code: 7 } }").await;
    assert!(error.message.contains(r#"{"code":7}"#), "{error}");
    let error = script_error(&pool, "export const main = () => { throw null }").await;
    assert!(error.message.contains("null"), "{error}");
    let error = script_error(&pool, "throw new Error('at the top')").await;
    assert!(error.message.contains("at the top"), "{error}");
    let error = script_error(&pool, "export const main = () => 1 \u{0}").await;
    assert!(error.message.contains("NUL"), "{error}");
}

#[tokio::test]
async fn node_modules_are_inert_and_others_refused() {
    let pool = pool();
    let source = r#"import fs, { readFileSync } from "node:fs"; import { exec } from "child_process";
        export async function main() {
            const tries = [() => readFileSync("/etc/passwd"), () => fs.existsSync("/"), () => exec("id")];
            const dynamic = await import("node:fs/promises");
            tries.push(() => dynamic.readFile("/etc/passwd"));
            return tries.map((run) => { try { run(); return "ran" } catch (error) { return error.message } });
        }"#;
    for round in ["compiled", "from bytecode"] {
        let Value::Array(answers) = value(&pool, source).await else {
            panic!("{round}: no array")
        };
        assert_eq!(answers.len(), 4);
        for answer in answers {
            assert!(
                answer.as_str().unwrap().contains("does nothing in a plugin"),
                "{round}: {answer}"
            );
        }
    }
    for name in [
        "./other.js",
        "lodash",
        "https://example.com/x.js",
        "plugin.js",
        "/etc/passwd",
    ] {
        let error = script_error(&pool, &format!("import x from '{name}'; export const main = () => 1")).await;
        assert!(error.message.contains("a plugin is one file"), "{name}: {error}");
    }
}

#[tokio::test]
async fn every_call_starts_anew() {
    let pool = pool();
    let source = r#"let calls = 0; export function main() {
        const before = [calls, globalThis.left, Object.prototype.left, Symbol.for("x").left];
        calls++; globalThis.left = 1; Object.prototype.left = 2; JSON.stringify = () => "broken"; Promise.prototype.then = null;
        return before;
    }"#;
    for _ in 0..20 {
        assert_eq!(value(&pool, source).await, json!([0, null, null, null]));
    }
    assert_eq!(pool.alive(), 1, "all in one process");
}

#[tokio::test]
async fn jobs_of_one_call_never_run_in_the_next() {
    let pool = pool();
    let source = r#"export function main(host) {
        (async () => { for (;;) { await null; host.log("still here") } })();
        return 1;
    }"#;
    let second = host();
    assert_eq!(value(&pool, source).await, json!(1));
    let quiet = program("a/b/c", source);
    let outcome = pool
        .call(&quiet, call("nothing", json!([])), second.clone())
        .await
        .unwrap();
    assert!(!outcome.exported);
    assert_eq!(*second.lines.lock().unwrap(), Vec::<String>::new());
    // The same by way of a finalizer, which the engine runs as a job long after the call.
    let source = r#"export function main(host) {
        globalThis.registry = new FinalizationRegistry(() => host.log("collected"));
        (() => registry.register({ big: new Array(100) }, 1))();
        return 2;
    }"#;
    for _ in 0..10 {
        let host = host();
        let outcome = pool
            .call(&program("a/b/d", source), call("main", json!([])), host.clone())
            .await
            .unwrap();
        assert_eq!(outcome.value, json!(2));
    }
}

#[tokio::test]
async fn a_persistent_plugin_keeps_its_state() {
    let pool = pool();
    let source = "let calls = 0; export const main = (host) => [++calls, host.data]";
    let program = Arc::new(Program::new("a/b/c", "plugin.js", source, PRELUDE, true));
    for n in 1..5 {
        let mut call = call("main", json!([]));
        call.data = json!(n);
        assert_eq!(pool.call(&program, call, host()).await.unwrap().value, json!([n, n]));
    }
    assert_eq!(pool.alive(), 1);
}

#[tokio::test]
async fn nothing_leads_out_of_the_guest() {
    let source = r#"export async function main(host) {
        const found = [], answer = await host.call("echo", { a: [1] }), error = await host.call("fail").catch((e) => e);
        const starts = [host, host.call, host.now, host.log, host.data, console.log, host.call("echo"), main, [], {},
            new Error(), answer, answer[0], answer[0].a, error, host.now("echo", {}), arguments];
        for (const start of starts) {
            const made = start.constructor.constructor("return globalThis")();
            if (made !== globalThis) found.push("another global");
        }
        for (const name of Object.getOwnPropertyNames(globalThis)) {
            if (/sandbox|makeHost/i.test(name)) found.push(name);
        }
        for (const name of ["fetch", "WebSocket", "XMLHttpRequest", "importScripts", "require", "process", "navigator",
            "std", "os", "scriptArgs", "print", "Worker", "Deno", "Bun", "gc"]) {
            if (name in globalThis) found.push(name);
        }
        return found;
    }"#;
    assert_eq!(value(&pool(), source).await, json!([]));
}

#[tokio::test]
async fn a_modern_language_is_there() {
    let source = r#"export async function main() {
        const checks = { regexp: /(?<y>\d{4})/u.exec("in 2026").groups.y, proxy: new Proxy({}, { get: () => 3 }).x,
            map: new Map([[1, 2]]).get(1), typed: new Uint8Array([1, 300])[1], eval: (0, eval)("1+1"),
            made: new Function("a", "return a*2")(4), big: String(2n ** 70n), date: new Date(0).toISOString(),
            weak: new WeakRef({}) instanceof WeakRef, at: [1, 2].at(-1), group: Object.groupBy([1, 2], (n) => n % 2)[0] };
        class A { #x = 5; static { A.y = new A().#x } } checks.klass = A.y;
        async function* numbers() { yield 1; yield 2 } let sum = 0; for await (const n of numbers()) sum += n;
        return { ...checks, sum };
    }"#;
    let expected = json!({"regexp": "2026", "proxy": 3, "map": 2, "typed": 44, "eval": 2, "made": 8,
        "big": "1180591620717411303424", "date": "1970-01-01T00:00:00.000Z", "weak": true, "at": 2, "group": [2],
        "klass": 5, "sum": 3});
    assert_eq!(value(&pool(), source).await, expected);
}

#[tokio::test]
async fn log_lines_are_cut_and_counted() {
    let host = host();
    let source =
        "export function main(host) { for (let i = 0; i < 900; i++) host.log('ü'.repeat(3000)); console.log(1, 'a') }";
    pool()
        .call(&program("a/b/c", source), call("main", json!([])), host.clone())
        .await
        .unwrap();
    let lines = host.lines.lock().unwrap();
    assert_eq!(lines.len(), 200);
    assert!(lines.iter().all(|line| *line == format!("info: {}", "ü".repeat(500))));
}

#[tokio::test]
async fn open_calls_are_limited_one_by_one() {
    let source = r#"export async function main(host) {
        const all = await Promise.allSettled(Array.from({ length: 70 }, (_, n) => host.call("echo", n)));
        return [all.filter((one) => one.status === "fulfilled").length, all[69].reason.message];
    }"#;
    assert_eq!(
        value(&pool(), source).await,
        json!([64, "echo: only 64 calls to the engine may be open at once"])
    );
}

#[tokio::test]
async fn calls_without_end_end() {
    let pool = pool();
    let mut call = call("main", json!([]));
    call.limits = Limits {
        calls: 50,
        now: Duration::from_millis(100),
        ..Limits::ordinary()
    };
    let asking = program(
        "a/b/c",
        "export async function main(h) { for (;;) await h.call('echo') }",
    );
    let result = pool.call(&asking, call.clone(), host()).await;
    assert!(matches!(result, Err(Failure::Limit(why)) if why.contains("more than 50 calls")));
    let standing = program("a/b/d", "export function main(h) { for (;;) h.now('slow') }");
    let result = pool.call(&standing, call, host()).await;
    assert!(matches!(result, Err(Failure::Limit(why)) if why.contains("synchronous calls")));
}

#[tokio::test]
async fn a_broken_prelude_is_named() {
    let pool = pool();
    for (prelude, words) in [
        ("", "__makeHost"),
        ("let x = ;", "SyntaxError"),
        ("throw new Error('prelude')", "prelude"),
    ] {
        let program = Arc::new(Program::new(
            "a/b/c",
            "plugin.js",
            "export const main = 1",
            prelude,
            false,
        ));
        match pool.call(&program, call("main", json!([])), host()).await {
            Err(Failure::Script(error)) => assert!(error.message.contains(words), "{error}"),
            other => panic!("{prelude}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_file_is_checked_without_running_it() {
    let check = async |source: &str| sandbox::check_syntax(&worker(), "plugin.js", source).await;
    let source = "#!/usr/bin/env node\nimport { readFileSync } from 'node:fs';\nthrow new Error('ran'); for (;;) {}\n\
        export const TOOLS = []; export async function handleTool() {}\nexport default class {}\nexport { readFileSync as read };";
    assert_eq!(check(source).await.unwrap(), ["TOOLS", "default", "handleTool", "read"]);
    assert_eq!(check("").await.unwrap(), Vec::<String>::new());
    assert_eq!(check("#!only").await.unwrap(), Vec::<String>::new());
    for (source, line, column, words) in [
        ("let a = 1;\nlet  b = ;", 2, 10, "SyntaxError"),
        ("let  b = ;", 1, 10, "SyntaxError"),
        ("export const x = 1;\nexport const x = 2;\n", 2, 16, "SyntaxError"),
        ("const x: number = 1;", 1, 8, "SyntaxError"),
        ("import x from './other.js'", 0, 0, "a plugin is one file"),
        ("import { nothing } from 'node:fs'", 0, 0, "nothing"),
    ] {
        match check(source).await {
            Err(Failure::Script(error)) => {
                assert!(error.to_string().contains(words), "{source}: {error}");
                assert_eq!((error.line, error.column), (line, column), "{source}: {error:?}");
            }
            other => panic!("{source}: {other:?}"),
        }
    }
    let result = sandbox::check_syntax("/nonexistent/worker".as_ref(), "plugin.js", "").await;
    assert!(matches!(result, Err(Failure::Start(_))), "{result:?}");
}

#[tokio::test]
async fn errors_after_an_await_and_in_made_functions_name_their_place() {
    let pool = pool();
    for (source, line, column, words) in [
        (
            "export async function main(h) {\n  await h.call('echo');\n  null.x;\n}",
            3,
            3,
            "TypeError",
        ),
        (
            "export async function main(h) {\n  await 1;\n  await h.call('fail');\n}",
            3,
            11,
            "the engine says no",
        ),
        (
            "export async function main(h) {\n  globalThis.Error = function () { throw 1 };\n  await h.call('fail');\n}",
            3,
            11,
            "the engine says no",
        ),
        (
            "export async function main(h) {\n  await 1;\n  await (async () => {\n    throw new RangeError('deep') })();\n}",
            4,
            15,
            "deep",
        ),
        (
            "export const main = () => {\n  return new Function('a', 'null.x')(1);\n}",
            2,
            28,
            "TypeError",
        ),
        (
            "export const main = () => {\n  return new Function('let = ;');\n}",
            2,
            14,
            "SyntaxError",
        ),
        (
            "export const main = () => {\n  return (0, eval)('null.x');\n}",
            2,
            14,
            "TypeError",
        ),
        (
            "export const main = () => {\n  throw 'text';\n}",
            0,
            0,
            "thrown: text (plugin.js)",
        ),
        (
            "export async function main() { await 1; throw { code: 7 } }",
            0,
            0,
            "thrown: {\"code\":7} (plugin.js)",
        ),
    ] {
        let error = script_error(&pool, source).await;
        assert_eq!(error.file, "plugin.js", "{source}");
        assert!(error.to_string().contains(words), "{source}: {error}");
        assert_eq!((error.line, error.column), (line, column), "{source}: {error:?}");
    }
}

#[tokio::test]
async fn errors_nobody_caught_are_logged_with_their_place() {
    let pool = pool();
    let lines = async |source: &str| {
        let host = host();
        let program = program("a/b/c", source);
        let result = pool.call(&program, call("main", json!([])), host.clone()).await;
        let lines = host.lines.lock().unwrap().clone();
        (result.is_ok(), lines)
    };
    let source = "export function main() {\n  (async () => { await null; null.x })();\n  return 1;\n}";
    let (fine, logged) = lines(source).await;
    assert!(fine);
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0].starts_with("error: error nobody caught: TypeError: "),
        "{logged:?}"
    );
    assert!(logged[0].ends_with("(plugin.js:2:30)"), "{logged:?}");

    let source = "export async function main(h) { Promise.reject('a'); await h.call('echo'); Promise.reject({ b: 1 }); h.call('fail') ; await h.call('echo') }";
    let (fine, logged) = lines(source).await;
    assert!(fine);
    assert_eq!(
        logged,
        [
            "error: error nobody caught: thrown: a (plugin.js)",
            "error: error nobody caught: thrown: {\"b\":1} (plugin.js)",
            "error: error nobody caught: Error: the engine says no (plugin.js:1:103)"
        ]
    );

    // Those that somebody caught, late or by the call itself, are nobody's business.
    for (source, ends_well) in [
        (
            "export async function main(h) { const p = Promise.reject(1); await null; await p.catch(() => {}) }",
            true,
        ),
        (
            "export async function main(h) { try { await h.call('fail') } catch {} }",
            true,
        ),
        ("export async function main(h) { await h.call('fail') }", false),
        ("export async function main() { throw new Error('no') }", false),
        ("export const main = () => Promise.reject(new Error('no'))", false),
        ("throw new Error('at the top')", false),
        ("await Promise.reject(1)", false),
    ] {
        let (fine, logged) = lines(source).await;
        assert_eq!((fine, logged), (ends_well, Vec::new()), "{source}");
    }
    // A flood of them stays a few lines, and leaves nothing behind.
    for _ in 0..3 {
        let (fine, logged) =
            lines("export function main() { for (let i = 0; i < 1e4; i++) Promise.reject(new Error(i)) }").await;
        assert!(fine);
        assert_eq!(logged.len(), 32);
    }
}
