//! The globals of plugins: exactly these, and each behaves as in a browser.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandbox::{Call, Failure, Host, Limits, Pool, PoolOptions, Program};
use serde_json::{Value, json};

const GLOBALS: &str = include_str!("../src/globals.js");
const PRELUDE: &str = include_str!("../src/prelude.js");

/// Sleeps as long as it is asked to, and keeps the log.
#[derive(Default)]
struct Quiet {
    lines: Mutex<Vec<String>>,
    slept: Mutex<Vec<u64>>,
}

#[async_trait::async_trait]
impl Host for Quiet {
    async fn call(&self, method: &str, args: Value) -> Result<Value, String> {
        let time = args[0].as_u64().filter(|_| method == "sleep");
        let time = time.ok_or(format!("there is no {method}"))?;
        self.slept.lock().unwrap().push(time);
        if time > 10_000 {
            return Err("too long a sleep".into());
        }
        tokio::time::sleep(Duration::from_millis(time)).await;
        Ok(Value::Null)
    }
    fn call_now(&self, method: &str, _: Value) -> Result<Value, String> {
        Err(format!("there is no {method}"))
    }
    fn log(&self, level: &str, line: &str) {
        self.lines.lock().unwrap().push(format!("{level}: {line}"));
    }
}

fn pool() -> Pool {
    Pool::new(PoolOptions {
        worker: PathBuf::from(env!("CARGO_BIN_EXE_apps-test-worker")),
        max_alive: 8,
        idle: Duration::from_secs(60),
    })
}

async fn run_on(pool: &Pool, source: &str, persistent: bool, host: &Arc<Quiet>) -> Result<Value, Failure> {
    let prelude = format!("{GLOBALS}\n{PRELUDE}");
    let program = Arc::new(Program::new("a/b/c", "plugin.js", source, prelude, persistent));
    let call = Call {
        export: "main".into(),
        args: json!([]),
        data: json!({}),
        limits: Limits::ordinary(),
    };
    Ok(pool.call(&program, call, host.clone()).await?.value)
}

async fn run(source: &str) -> Value {
    run_on(&pool(), source, false, &Arc::default())
        .await
        .unwrap_or_else(|failure| panic!("{failure} in {source}"))
}

/// Each line of `checks` is a JavaScript expression and what it should be, separated by ` == `, both evaluated in the
/// plugin. What throws is its error's name. Compared as JSON.
async fn expressions(checks: &str) {
    let lines: Vec<&str> = checks.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert!(lines.iter().all(|line| line.contains(" == ")), "each line compares");
    let source = format!(
        r#"const lines = {};
        const value = (code) => {{ try {{ return (0, eval)(`(${{code}})`) }} catch (error) {{ return error.name }} }};
        const json = (value) => JSON.stringify(value) ?? String(value);
        export const main = () => lines.map((line) => {{
            const at = line.lastIndexOf(" == ");
            const [is, should] = [json(value(line.slice(0, at))), json(value(line.slice(at + 4)))];
            return is === should ? null : `${{line}}\n  is ${{is}}`;
        }}).filter((wrong) => wrong !== null).join("\n");"#,
        serde_json::to_string(&lines).unwrap()
    );
    let wrong = run(&source).await;
    assert_eq!(wrong, json!(""), "\n{}", wrong.as_str().unwrap_or_default());
}

/// What the language itself brings, in the engine's version of it.
const LANGUAGE: &[&str] = &[
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "AsyncDisposableStack",
    "Atomics",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "DataView",
    "Date",
    "DisposableStack",
    "Error",
    "EvalError",
    "FinalizationRegistry",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Function",
    "Infinity",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "InternalError",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "SharedArrayBuffer",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "TypeError",
    "URIError",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "eval",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "undefined",
    "unescape",
];

/// What there is on top of it.
const OURS: &[&str] = &[
    "Buffer",
    "TextDecoder",
    "TextEncoder",
    "URL",
    "URLSearchParams",
    "atob",
    "btoa",
    "clearInterval",
    "clearTimeout",
    "console",
    "crypto",
    "process",
    "setInterval",
    "setTimeout",
    "structuredClone",
];

#[tokio::test]
async fn the_globals_are_exactly_these() {
    let mut expected: Vec<&str> = [LANGUAGE, OURS].concat();
    expected.sort_unstable();
    for when in [
        "const names = Object.getOwnPropertyNames(globalThis); export const main = () => names.sort()",
        "export const main = () => Object.getOwnPropertyNames(globalThis).sort()",
    ] {
        assert_eq!(run(when).await, json!(expected));
    }
    let listed =
        "export const main = () => { const all = []; for (const name in globalThis) all.push(name); return all }";
    assert_eq!(run(listed).await, json!([]), "none can be listed, as in a browser");
    // Reading one changes nothing but that, and each can be replaced or taken away by the plugin.
    let source = r#"export const main = () => {
        const names = Object.getOwnPropertyNames(globalThis);
        const kinds = Object.fromEntries(names.map((name) => [name, typeof globalThis[name]]));
        const after = Object.getOwnPropertyNames(globalThis);
        globalThis.URL = 1;
        URLSearchParams = 2;
        const gone = delete globalThis.Buffer && !("Buffer" in globalThis);
        return [names.sort().join() === after.sort().join(), kinds, URL, URLSearchParams, gone,
            Object.keys(Object.getOwnPropertyDescriptor(globalThis, "crypto")).sort()];
    }"#;
    let value = run(source).await;
    assert_eq!(
        (&value[0], &value[2], &value[3], &value[4]),
        (&json!(true), &json!(1), &json!(2), &json!(true))
    );
    assert_eq!(value[5], json!(["configurable", "enumerable", "value", "writable"]));
    for (name, kind) in [
        ("console", "object"),
        ("crypto", "object"),
        ("process", "object"),
        ("Buffer", "function"),
    ] {
        assert_eq!(value[1][name], json!(kind), "{name}");
    }
    for name in OURS
        .iter()
        .filter(|name| !["console", "crypto", "process"].contains(name))
    {
        assert_eq!(value[1][*name], json!("function"), "{name}");
    }
}

#[tokio::test]
async fn process_and_buffer_are_inert() {
    expressions(
        r#"
        Object.getOwnPropertyNames(process) == ["env", "cwd"]
        [process.env, process.cwd()] == [{}, "/"]
        (() => { try { process.exit(0); return "ended" } catch (error) { return error.message.includes("does nothing") } })() == true
        typeof process.binding == "undefined"
        Buffer("aé").toString("hex") == "61c3a9"
        Buffer.from("aGk=", "base64").toString() == "hi"
        Buffer.from("aGk", "base64url").toString() == "hi"
        Buffer.from("aG k\n=!", "base64").toString() == "hi"
        Buffer.from([104, 105]).toString("base64") == "aGk="
        Buffer.from(new Uint8Array([251, 255])).toString("base64url") == "-_8"
        Buffer.from("6869zz", "hex").toString("latin1") == "hi"
        Buffer.from("é", "latin1").length == 1
        [Buffer.isBuffer(Buffer.from("")), Buffer.isBuffer(new Uint8Array(1)), Buffer.from("x") instanceof Uint8Array] == [true, false, true]
        Buffer.from(JSON.parse(JSON.stringify(Buffer.from("hi")))).toString() == "hi"
        Buffer(3).length == 3
        typeof Buffer.allocUnsafe == "undefined"
        "#,
    )
    .await;
}

#[tokio::test]
async fn texts_become_bytes_and_back() {
    expressions(
        r#"
        [...new TextEncoder().encode("aé€🦋")] == [97, 195, 169, 226, 130, 172, 240, 159, 166, 139]
        [...new TextEncoder().encode("\ud800x\udc00")] == [239, 191, 189, 120, 239, 191, 189]
        [...new TextEncoder().encode()] == []
        new TextEncoder().encode("x") instanceof Uint8Array == true
        (() => { const b = new Uint8Array(5); return [new TextEncoder().encodeInto("a🦋é", b), [...b]] })() == [{read: 3, written: 5}, [97, 240, 159, 166, 139]]
        (() => { const b = new Uint8Array(4); return [new TextEncoder().encodeInto("a🦋é", b), [...b]] })() == [{read: 1, written: 1}, [97, 0, 0, 0]]
        new TextEncoder().encodeInto("x", [0]) == "TypeError"
        new TextDecoder().decode(new Uint8Array([240, 159, 166, 139])) == "🦋"
        new TextDecoder().decode(new Uint8Array([1, 97, 98]).subarray(1)) == "ab"
        new TextDecoder().decode(new DataView(new Uint8Array([97, 98, 99]).buffer, 1, 1)) == "b"
        new TextDecoder().decode(new Uint8Array([97]).buffer) == "a"
        new TextDecoder().decode() == ""
        new TextDecoder().decode("text") == "TypeError"
        new TextDecoder().decode(new Uint8Array([255, 97, 240, 159])) == "\ufffda\ufffd"
        new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([255])) == "TypeError"
        new TextDecoder().decode(new Uint8Array([239, 187, 191, 97])) == "a"
        new TextDecoder("utf8", { ignoreBOM: true }).decode(new Uint8Array([239, 187, 191, 97])) == "\ufeffa"
        new TextDecoder("UTF-16").decode(new Uint8Array([255, 254, 97, 0])) == "a"
        new TextDecoder("utf-16be").decode(new Uint8Array([0, 97, 216, 60])) == "a\ufffd"
        new TextDecoder("latin1").decode(new Uint8Array([233, 128])) == "é€"
        new TextDecoder(" ASCII ").encoding == "windows-1252"
        new TextDecoder("shift_jis").decode(new Uint8Array([147, 250, 150, 123])) == "日本"
        new TextDecoder("nonsense") == "RangeError"
        new TextDecoder("replacement") == "RangeError"
        [new TextDecoder().encoding, new TextDecoder().fatal, new TextDecoder("utf-16le", {fatal: 1}).fatal] == ["utf-8", false, true]
        TextDecoder() == "TypeError"
        TextDecoder.prototype.decode.call({}, new Uint8Array(1)) == "TypeError"
        String(new TextDecoder()) == "[object TextDecoder]"
        (() => { const b = new Uint8Array([97]); b.buffer.transfer(); return new TextDecoder().decode(b) })() == ""
        "#,
    )
    .await;
}

#[tokio::test]
async fn a_stream_of_bytes_decodes_the_same_wherever_it_is_cut() {
    let source = r#"
    const bytes = (text, pad) => {
        if (pad === "utf-8") return new TextEncoder().encode(text);
        const all = [];
        for (let i = 0; i < text.length; i++) { const u = text.charCodeAt(i); all.push(...(pad === "utf-16le" ? [u & 255, u >> 8] : [u >> 8, u & 255])) }
        return new Uint8Array(all);
    };
    export function main() {
        const wrong = [];
        const cases = [["utf-8", "\ufeffaé€🦋\ufeffz"], ["utf-16le", "\ufeffaé🦋z"], ["utf-16be", "a🦋\ud83dz"]].map(([label, text]) => [label, bytes(text, label)]);
        cases.push(["utf-8", new Uint8Array([97, 240, 159, 98, 226, 130, 255, 237, 160, 128, 240, 159, 166])]);
        cases.push(["gb18030", new Uint8Array([0x81, 0x30, 0x81, 0x30, 97, 0xb0, 0xa1])], ["iso-2022-jp", new Uint8Array([0x1b, 0x24, 0x42, 0x46, 0x7c, 0x1b, 0x28, 0x42, 97])]);
        for (const [label, all] of cases) for (const ignoreBOM of [false, true]) {
            const whole = new TextDecoder(label, { ignoreBOM }).decode(all);
            for (let i = 0; i <= all.length; i++) for (let j = i; j <= all.length; j++) {
                const decoder = new TextDecoder(label, { ignoreBOM });
                for (let round = 0; round < 2; round++) {
                    const got = [[0, i], [i, j], [j, all.length]].map(([a, b]) => decoder.decode(all.subarray(a, b), { stream: true })).join("") + decoder.decode();
                    if (got !== whole) wrong.push([label, ignoreBOM, i, j, round, got, whole]);
                }
            }
        }
        const fatal = new TextDecoder("utf-8", { fatal: true });
        const held = fatal.decode(new Uint8Array([240, 159]), { stream: true });
        let named = ""; try { fatal.decode() } catch (error) { named = error.name }
        return { wrong, held, named, again: fatal.decode(new Uint8Array([97])) };
    }"#;
    assert_eq!(
        run(source).await,
        json!({"wrong": [], "held": "", "named": "TypeError", "again": "a"})
    );
}

#[tokio::test]
async fn base64_is_forgiving_where_browsers_are() {
    expressions(
        r#"
        btoa("") == ""
        btoa("hé") == "aOk="
        btoa("\u0100") == "InvalidCharacterError"
        btoa(null) == "bnVsbA=="
        atob("aOk=") == "hé"
        atob(" aG\tk\n=\f\r") == "hi"
        atob("aGk") == "hi"
        atob("") == ""
        atob("/+8A") == "\xff\xef\x00"
        atob("ab") == "i"
        atob("abc") == "i·"
        atob("a") == "InvalidCharacterError"
        atob("ab=") == "InvalidCharacterError"
        atob("ab===") == "InvalidCharacterError"
        atob("=") == "InvalidCharacterError"
        atob("a=b") == "InvalidCharacterError"
        atob("-_") == "InvalidCharacterError"
        atob("é") == "InvalidCharacterError"
        atob("ab\u00a0") == "InvalidCharacterError"
        (() => { let all = ""; for (let i = 0; i < 256; i++) all += String.fromCharCode(i); return atob(btoa(all)) === all })() == true
        "#,
    )
    .await;
}

#[tokio::test]
async fn addresses_are_taken_apart_as_in_browsers() {
    expressions(
        r##"
        new URL("HTTPS://Ann:s%20@EXAMPLE.com:443/a/../b c?q=ü#f").href == "https://Ann:s%20@example.com/b%20c?q=%C3%BC#f"
        (u => [u.origin, u.protocol, u.username, u.password, u.host, u.hostname, u.port, u.pathname, u.search, u.hash])(new URL("http://a:b@x.example:8080/p?q#h")) == ["http://x.example:8080", "http:", "a", "b", "x.example:8080", "x.example", "8080", "/p", "?q", "#h"]
        new URL("../x?y", "http://a.example/b/c/d").href == "http://a.example/b/x?y"
        new URL("//b.example/", "https://a.example").href == "https://b.example/"
        new URL("http://0x7f.1/").hostname == "127.0.0.1"
        new URL("http://[::1]:80/").host == "[::1]"
        new URL("http://日本.example/").hostname == "xn--wgv71a.example"
        new URL("data:text/plain,hi").origin == "null"
        new URL("mailto:a@example.com").pathname == "a@example.com"
        new URL("nonsense") == "TypeError"
        new URL() == "TypeError"
        new URL("/x", "nonsense") == "TypeError"
        URL("http://a.example") == "TypeError"
        [URL.canParse("http://a.example"), URL.canParse("x"), URL.canParse("x", "http://a.example")] == [true, false, true]
        [URL.parse("x"), URL.parse("x", "http://a.example").href] == [null, "http://a.example/x"]
        JSON.stringify({ u: new URL("http://a.example") }) == '{"u":"http://a.example/"}'
        `${new URL("http://a.example")}` == "http://a.example/"
        (u => { u.port = "81"; u.pathname = "a b"; u.hash = "x"; u.search = "?k=v"; u.protocol = "https"; return u.href })(new URL("http://a.example")) == "https://a.example:81/a%20b?k=v#x"
        (u => { u.host = "b.example:9"; u.username = "me"; u.password = "pw"; return u.href })(new URL("http://a.example")) == "http://me:pw@b.example:9/"
        (u => { u.hostname = "c.example"; u.port = "nonsense"; u.protocol = "mailto"; u.host = ""; return u.href })(new URL("http://a.example:7")) == "http://c.example:7/"
        (u => { u.href = "nonsense" })(new URL("http://a.example")) == "TypeError"
        (u => { u.href = "http://b.example/?z=1"; return u.searchParams.get("z") })(new URL("http://a.example")) == "1"
        (u => { const p = u.searchParams; u.search = "?n=2"; return [p === u.searchParams, p.get("n")] })(new URL("http://a.example/?n=1")) == [true, "2"]
        (u => { u.searchParams.append("a b", "ü&"); return u.href })(new URL("http://a.example/?x=1#h")) == "http://a.example/?x=1&a+b=%C3%BC%26#h"
        (u => { u.searchParams.delete("x"); return u.href })(new URL("http://a.example/?x=1")) == "http://a.example/"
        Object.prototype.toString.call(new URL("http://a.example")) == "[object URL]"
        new URL("http://a.example/\ud800").href == "http://a.example/%EF%BF%BD"
        (() => { try { new URL("nonsense") } catch (error) { return [error.code, error.message] } })() == ["ERR_INVALID_URL", "Invalid URL: nonsense"]
        "##,
    )
    .await;
}

#[tokio::test]
async fn queries_are_lists_with_names() {
    expressions(
        r#"
        [...new URLSearchParams("?a=1&b=2&a=3")] == [["a", "1"], ["b", "2"], ["a", "3"]]
        [...new URLSearchParams("a&=b&&c=d=e&%zz=+%2B")] == [["a", ""], ["", "b"], ["c", "d=e"], ["%zz", " +"]]
        new URLSearchParams("??a=1").toString() == "%3Fa=1"
        new URLSearchParams({ a: 1, b: "x y" }).toString() == "a=1&b=x+y"
        new URLSearchParams([["a", 1], ["a", 2]]).getAll("a") == ["1", "2"]
        new URLSearchParams(new Map([["k", "v"]])).get("k") == "v"
        new URLSearchParams(new URLSearchParams("q=1")).toString() == "q=1"
        new URLSearchParams([["a"]]) == "TypeError"
        new URLSearchParams([1]) == "TypeError"
        new URLSearchParams(undefined).size == 0
        new URLSearchParams(null).toString() == "null="
        new URLSearchParams("a=~!*()'-._ ü\u{1F98B}").toString() == "a=%7E%21*%28%29%27-._+%C3%BC%F0%9F%A6%8B"
        (p => { p.set("a", "9"); return `${p}` })(new URLSearchParams("a=1&b=2&a=3")) == "a=9&b=2"
        (p => { p.set("new", ""); return `${p}` })(new URLSearchParams("a=1")) == "a=1&new="
        (p => { p.delete("a", "1"); return `${p}` })(new URLSearchParams("a=1&a=2")) == "a=2"
        (p => { p.sort(); return `${p}` })(new URLSearchParams("z=1&a=2&z=0&é=3&a=1")) == "a=2&a=1&z=1&z=0&%C3%A9=3"
        (p => [p.has("a"), p.has("b"), p.has("a", "2"), p.has("a", "1"), p.has("a", undefined)])(new URLSearchParams("a=1")) == [true, false, false, true, true]
        (p => [p.get("none"), p.getAll("none"), p.size])(new URLSearchParams("a=1")) == [null, [], 1]
        [...new URLSearchParams("a=1&b=2").keys()] == ["a", "b"]
        [...new URLSearchParams("a=1&b=2").values()] == ["1", "2"]
        URLSearchParams.prototype[Symbol.iterator] === URLSearchParams.prototype.entries == true
        (() => { const seen = []; new URLSearchParams("a=1&b=2").forEach(function (value, name, all) { seen.push(name + value + all.size + this.x) }, { x: "!" }); return seen })() == ["a12!", "b22!"]
        (p => { const seen = []; for (const [name] of p) { seen.push(name); if (p.size < 4) p.append("x", "") } return seen })(new URLSearchParams("a&b")) == ["a", "b", "x", "x"]
        new URLSearchParams().append("a") == "TypeError"
        new URLSearchParams("a=\ud800").toString() == "a=%EF%BF%BD"
        Object.fromEntries(new URLSearchParams("a=1&b=2")) == {a: "1", b: "2"}
        Object.prototype.toString.call(new URLSearchParams()) == "[object URLSearchParams]"
        "#,
    )
    .await;
}

#[tokio::test]
async fn randomness_is_the_systems() {
    let source = r#"export function main() {
        const ids = new Set();
        for (let i = 0; i < 200; i++) ids.add(crypto.randomUUID());
        const shape = [...ids].every((id) => /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id));
        const large = crypto.getRandomValues(new Uint8Array(65536));
        const counts = new Array(256).fill(0);
        for (const byte of large) counts[byte]++;
        const part = new Uint32Array(8);
        const same = crypto.getRandomValues(part.subarray(2, 4));
        const errors = [() => crypto.getRandomValues(new Uint8Array(65537)), () => crypto.getRandomValues(new Float64Array(1)),
            () => crypto.getRandomValues([1]), () => crypto.getRandomValues(new DataView(new ArrayBuffer(1)))]
            .map((run) => { try { run(); return "" } catch (error) { return error.name } });
        return { ids: ids.size, shape, even: Math.min(...counts) > 150 && Math.max(...counts) < 370, errors,
            untouched: part[0] === 0 && part[4] === 0, filled: same.some((n) => n !== 0), big: crypto.getRandomValues(new BigInt64Array(1)).length };
    }"#;
    assert_eq!(
        run(source).await,
        json!({"ids": 200, "shape": true, "even": true, "untouched": true, "filled": true, "big": 1,
            "errors": ["QuotaExceededError", "TypeMismatchError", "TypeMismatchError", "TypeMismatchError"]})
    );
}

#[tokio::test]
async fn clones_are_deep_and_refuse_what_has_no_copy() {
    expressions(
        r#"
        structuredClone({ a: [1, , { b: null }], u: undefined }) == { a: [1, null, { b: null }] }
        (() => { const a = [1, , 3]; const b = structuredClone(a); return [b.length, 1 in b] })() == [3, false]
        (() => { const o = { x: {} }; o.self = o; o.again = o.x; const c = structuredClone(o); return [c !== o, c.self === c, c.again === c.x, c.x !== o.x] })() == [true, true, true, true]
        (d => [d instanceof Date, d.getTime()])(structuredClone(new Date(5))) == [true, 5]
        (r => [r instanceof RegExp, String(r)])(structuredClone(/a+/giu)) == [true, "/a+/giu"]
        (m => [m instanceof Map, [...m]])(structuredClone(new Map([["k", { v: 1 }]]))) == [true, [["k", { v: 1 }]]]
        (s => [s instanceof Set, [...s]])(structuredClone(new Set([1, "a"]))) == [true, [1, "a"]]
        (b => [b.constructor.name, [...b], b.buffer.byteLength])(structuredClone(new Uint16Array(new ArrayBuffer(8), 2, 2).fill(7))) == ["Uint16Array", [7, 7], 8]
        (() => { const b = new ArrayBuffer(4); const c = structuredClone([new Uint8Array(b), new DataView(b, 1)]); return [c[0].buffer === c[1].buffer, c[0].buffer !== b, c[1].byteOffset] })() == [true, true, 1]
        (e => [e instanceof RangeError, e.name, e.message, e.cause, typeof e.stack, Object.keys(e)])(structuredClone(Object.assign(new RangeError("m", { cause: { c: 1 } }), { extra: 1 }))) == [true, "RangeError", "m", { c: 1 }, "string", []]
        (e => [e instanceof Error, e.name])(structuredClone(Object.assign(new Error("m"), { name: "Custom" }))) == [true, "Error"]
        structuredClone(class A {}) == "DataCloneError"
        (a => [a.constructor === Object, a.x, a.y])(structuredClone(new (class A { x = 1; get y() { return 2 } })())) == [true, 1, undefined]
        structuredClone(() => 1) == "DataCloneError"
        structuredClone({ f() {} }) == "DataCloneError"
        structuredClone(Symbol("s")) == "DataCloneError"
        structuredClone(new WeakMap()) == "DataCloneError"
        structuredClone(Promise.resolve()) == "DataCloneError"
        structuredClone((function* () {})()) == "DataCloneError"
        structuredClone({ [Symbol("s")]: 1 }) == {}
        [structuredClone(1n) === 1n, structuredClone(undefined) === undefined, structuredClone("s")] == [true, true, "s"]
        (n => [typeof n, n.valueOf()])(structuredClone(Object(5))) == ["object", 5]
        (() => { const b = new ArrayBuffer(3); const c = structuredClone({ b }, { transfer: [b] }); return [b.detached, c.b.byteLength] })() == [true, 3]
        structuredClone(1, { transfer: [{}] }) == "DataCloneError"
        structuredClone({ get x() { throw new TypeError("mine") } }) == "TypeError"
        (o => [Object.hasOwn(o, "__proto__"), Object.getPrototypeOf(o) === Object.prototype])(structuredClone(JSON.parse('{"__proto__": {"x": 1}}'))) == [true, true]
        structuredClone() == "TypeError"
        "#,
    )
    .await;
    let deep = "export const main = () => { let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; try { structuredClone(o) } catch (error) { return error.name } }";
    assert_eq!(run(deep).await, json!("RangeError"));
}

#[tokio::test]
async fn timers_run_in_their_order_and_end_with_the_call() {
    let source = r#"export async function main() {
        const seen = [], begin = Date.now();
        const note = (name) => seen.push(name);
        setTimeout(note, 60, "late");
        setTimeout(note, 5, "early");
        setTimeout(() => { note("zero"); Promise.resolve().then(() => note("between")) });
        setTimeout(note, 0, "zero too");
        const cleared = setTimeout(note, 10, "never");
        clearTimeout(cleared);
        clearTimeout(undefined);
        clearTimeout(12345);
        let count = 0;
        await new Promise((done) => { const every = setInterval(() => { if (++count === 3) { clearInterval(every); done() } }, 1) });
        await new Promise((done) => setTimeout(done, 80));
        const took = Date.now() - begin;
        setTimeout(note, 0, "after the end");
        return { seen, count, long: took >= 80, number: typeof cleared, errors: [null, "code", {}].map((f) => { try { setTimeout(f, 1) } catch (error) { return error.name } }) };
    }"#;
    let value = run(source).await;
    assert_eq!(
        value,
        json!({"seen": ["zero", "between", "zero too", "early", "late"], "count": 3, "long": true, "number": "number",
            "errors": ["TypeError", "TypeError", "TypeError"]})
    );
}

#[tokio::test]
async fn an_error_in_a_timer_is_logged_with_its_place() {
    let (pool, host) = (pool(), Arc::new(Quiet::default()));
    let source = "export async function main() {\n  setTimeout(() => { null.x }, 1);\n  await new Promise((done) => setTimeout(done, 5));\n  return 'fine';\n}";
    assert_eq!(run_on(&pool, source, false, &host).await.unwrap(), json!("fine"));
    let lines = host.lines.lock().unwrap().clone();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("error: ") && lines[0].contains("(plugin.js:2:22)"),
        "{lines:?}"
    );

    // A host that sleeps no longer ends the timers, and says so.
    let host = Arc::new(Quiet::default());
    let source = "export async function main() { await new Promise((done) => setTimeout(done, 20000)) }";
    assert!(matches!(
        run_on(&pool, source, false, &host).await,
        Err(Failure::Script(_))
    ));
    let lines = host.lines.lock().unwrap().clone();
    assert_eq!(lines, ["error: timers have ended: too long a sleep"]);
}

#[tokio::test]
async fn one_sleep_at_a_time_unless_an_earlier_one_is_needed() {
    let (pool, host) = (pool(), Arc::new(Quiet::default()));
    let source = "export async function main() { for (let i = 0; i < 50; i++) setTimeout(() => {}, 30 + i * 1000); setTimeout(() => {}, 20); await new Promise((done) => setTimeout(done, 40)); return 1 }";
    assert_eq!(run_on(&pool, source, false, &host).await.unwrap(), json!(1));
    let slept = host.slept.lock().unwrap().clone();
    assert!(slept.len() <= 6 && slept.iter().all(|&time| time <= 1030), "{slept:?}");
}

#[tokio::test]
async fn timers_of_a_lasting_context_do_not_reach_into_the_next_call() {
    let (pool, host) = (pool(), Arc::new(Quiet::default()));
    let source = r#"let fired = 0, calls = 0; export async function main() {
        setInterval(() => fired++, 1);
        setTimeout(() => fired++, 5000);
        if (++calls === 1) return "first";
        const before = fired;
        await new Promise((done) => setTimeout(done, 30));
        return { before, now: fired > 3 };
    }"#;
    assert_eq!(run_on(&pool, source, true, &host).await.unwrap(), json!("first"));
    for _ in 0..2 {
        let value = run_on(&pool, source, true, &host).await.unwrap();
        assert_eq!(value["now"], json!(true));
    }
    let source = r#"let fired = 0; export async function main() {
        const before = fired;
        setInterval(() => fired++, 1);
        await new Promise((done) => setTimeout(done, 5));
        return fired - before > 0 && before;
    }"#;
    let first = run_on(&pool, source, true, &host).await.unwrap();
    assert_eq!(first, json!(0));
}

#[tokio::test]
async fn code_can_be_made_at_run_time_and_nothing_leads_out() {
    expressions(
        r#"
        new Function("a", "b", "return a * b")(6, 7) == 42
        eval("1 + 1") == 2
        (async () => {}).constructor("return 1") instanceof Function == true
        URL.constructor("return globalThis")() === globalThis == true
        setTimeout.constructor.constructor("return globalThis")() === globalThis == true
        crypto.getRandomValues.constructor("return typeof __sandbox")() == "undefined"
        Object.getOwnPropertyNames(globalThis).filter((name) => /sandbox|makeHost|native/i.test(name)) == []
        "#,
    )
    .await;
}
