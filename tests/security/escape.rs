//! Ways out of the JavaScript engine.

use serde_json::json;

use crate::attempt::{Attempt, Want, attempt, try_all};
use crate::house::House;

pub fn attempts() -> Vec<Attempt> {
    use Want::*;
    vec![
        attempt(
            "globals of browsers and of Node",
            r#"return ["fetch", "WebSocket", "XMLHttpRequest", "importScripts", "require", "module", "std", "os", "print",
               "scriptArgs", "Worker", "SharedWorker", "Deno", "Bun", "WebAssembly", "navigator", "location", "indexedDB",
               "localStorage", "document", "window", "postMessage", "queueMicrotask", "performance", "gc", "__loadScript"]
               .filter((name) => name in globalThis)"#,
            Gives(json!([])),
            r#"return ["console", "URL", "TextEncoder", "setTimeout"].filter((name) => name in globalThis).length"#,
            json!(4),
        ),
        attempt(
            "the way to the host by its name",
            r#"return [typeof __sandbox, (0, eval)("typeof __sandbox"), new Function("return typeof this.__sandbox")(),
               typeof globalThis.__makeHost, Reflect.ownKeys(globalThis).filter((k) => /sandbox|makeHost/i.test(String(k)))]"#,
            Gives(json!(["undefined", "undefined", "undefined", "undefined", []])),
            r#"return [(0, eval)("typeof console"), new Function("return typeof this.console")()]"#,
            json!(["object", "object"]),
        ),
        attempt(
            "another global behind a function constructor",
            r#"const strange = [];
               const answer = await host.llm.generate({ messages: [{ role: "user", content: "x" }] });
               const error = await host.fs.stat ? (() => { try { host.fs.read("none") } catch (e) { return e } })() : 0;
               for (const start of [host, answer, error, req, given, console.log, host.sleep, host.store.get, host.net.fetch,
                 (async () => {})(), (function* () {})(), (async function* () {})(), /x/, new Error(), URL, setTimeout]) {
                 for (const Made of [start.constructor?.constructor, start.constructor, Object.getPrototypeOf(start)?.constructor]) {
                   if (typeof Made !== "function" || Made.prototype === undefined) continue;
                   let found; try { found = Made("return globalThis"); found = typeof found === "function" ? found() : globalThis } catch { continue }
                   if (found !== globalThis && typeof found?.next !== "function" && typeof found?.then !== "function") strange.push(String(Made));
                 }
               }
               return strange"#,
            Gives(json!([])),
            r#"return new Function("return globalThis")() === globalThis && host.constructor.constructor("return 2")()"#,
            json!(2),
        ),
        attempt(
            "functions that are reachable from the host object and are none of ours",
            r#"return kit.reach(host).concat(kit.reach(globalThis)).filter((at) => typeof at === "function"
                 && /readFile|openSync|execFile|loadScript|evalScript|popen|setenv|getenviron/.test(at.name)).map((at) => at.name)"#,
            Gives(json!([])),
            r#"return kit.reach(host).filter((at) => typeof at === "function").length > 20"#,
            json!(true),
        ),
        attempt(
            "import of a file",
            r#"return kit.thrown(() => import("/etc/passwd"))"#,
            Says(&["a plugin is one file", "Error resolving"]),
            r#"return typeof (await import("node:fs")).readFileSync"#,
            json!("function"),
        ),
        attempt(
            "import of what engines have built in",
            r#"const got = [];
               for (const name of ["std", "qjs:std", "qjs:os", "bjson", "node:vm", "node:worker_threads", "node:module",
                 "node:process", "data:text/javascript,export default 1", "http://127.0.0.1/x.js", "file:///etc/passwd", "host",
                 "web", "plugin.js", "evil/p/plugin.js", "../p/plugin.js", "node:../../etc/passwd", "node:fs/../../x", ""])
                 try { const m = await import(name); got.push([name, Object.keys(m)]) } catch {}
               return got"#,
            Gives(json!([])),
            r#"return Object.keys((await import("os")).default).includes("homedir") && typeof (await import("node:net")).connect"#,
            json!("function"),
        ),
        attempt(
            "node:fs reads a file",
            r#"return (await import("node:fs")).readFileSync("/etc/passwd", "utf8")"#,
            Fails(&["does nothing in a plugin"]),
            r#"host.fs.write("own.txt", "mine"); return host.fs.read("own.txt")"#,
            json!("mine"),
        ),
        attempt(
            "node:child_process runs a program",
            r#"return (await import("node:child_process")).execSync("id").toString()"#,
            Fails(&["does nothing in a plugin"]),
            r#"return typeof (await import("node:child_process")).execSync"#,
            json!("function"),
        ),
        attempt(
            "node:http connects",
            r#"return (await import("node:http")).get(given.other)"#,
            Fails(&["does nothing in a plugin"]),
            r#"return (await host.net.fetch({ url: given.granted + "/hello" })).text"#,
            json!("hello"),
        ),
        attempt(
            "the process object",
            r#"return [Object.keys(process.env), typeof process.binding, typeof process.dlopen, typeof process.mainModule,
                 typeof process.getBuiltinModule, typeof process.kill, typeof process.stdout]"#,
            Gives(json!([
                [],
                "undefined",
                "undefined",
                "undefined",
                "undefined",
                "undefined",
                "undefined"
            ])),
            "return typeof process.env",
            json!("object"),
        ),
        attempt(
            "process.exit ends the worker",
            "return process.exit(0)",
            Fails(&["exit"]),
            "return typeof process.exit",
            json!("function"),
        ),
        attempt(
            "memory that was not cleared, by Buffer",
            r#"return [typeof Buffer.allocUnsafe, typeof Buffer.allocUnsafeSlow, typeof Buffer.poolSize]"#,
            Gives(json!(["undefined", "undefined", "undefined"])),
            r#"return Buffer.from("abc").toString()"#,
            json!("abc"),
        ),
        attempt(
            "memory that was not cleared, by typed arrays",
            r#"let sum = 0; for (let n = 1; n < 200; n++) for (const byte of new Uint8Array(n * 97)) sum += byte; return sum"#,
            Gives(json!(0)),
            r#"return new Uint8Array([1, 2]).reduce((a, b) => a + b)"#,
            json!(3),
        ),
        attempt(
            "functions of the prelude, taken from stack frames",
            r#"const taken = new Set();
               Error.prepareStackTrace = (error, frames) => {
                 for (const frame of frames) try { taken.add(frame.getFunction?.()); taken.add(frame.getThis?.()) } catch {}
                 return "";
               };
               try { host.store.put({ toString() { throw new Error("x") } }) } catch (e) { void e.stack }
               try { host.store.put("k", { toJSON() { void new Error("x").stack; throw new Error("y") } }) } catch (e) { void e.stack }
               try { host.fs.write("../x", { toJSON() { void new Error("x").stack } }) } catch (e) { void e.stack }
               Error.prepareStackTrace = undefined;
               const got = [];
               for (const raw of [...taken]) if (typeof raw === "function" && /^function \w*\(\) \{\s+\[native code\]/.test(raw))
                 for (const args of [["fs.read", ["../../../beta/data/hidden.txt"]], ["store.get", ["hidden"]], ["engine.db", []],
                   ["secrets.get", ["token"]], ["llm.request", "beta"]])
                   try { const value = await raw(...args); if (typeof value === "string") got.push(value) } catch {}
               return got"#,
            Gives(json!([])),
            r#"host.store.put("k", "own"); return host.store.get("k")"#,
            json!("own"),
        ),
        attempt(
            "functions of the prelude, caught by changed built-ins",
            r#"const caught = [], kept = { map: Array.prototype.map, then: Promise.prototype.then, set: Map.prototype.set };
               Array.prototype.map = function (...a) { caught.push(this, ...a); return kept.map.apply(this, a) };
               Promise.prototype.then = function (...a) { caught.push(...a); return kept.then.apply(this, a) };
               Map.prototype.set = function (...a) { caught.push(...a); return kept.set.apply(this, a) };
               Object.defineProperty(Object.prototype, "opened", { set(v) { caught.push(v) }, configurable: true });
               console.log("x", {}); await host.llm.generate({ messages: [{ role: "user", content: "x" }] });
               await host.store.transaction((t) => t.put("k", 1));
               Object.assign(Array.prototype, { map: kept.map }); Promise.prototype.then = kept.then; Map.prototype.set = kept.set;
               return kit.reach(caught).filter((at) => typeof at === "string" && /canary/.test(at)).length"#,
            Gives(json!(0)),
            r#"await host.store.transaction((t) => t.put("k", 2)); return host.store.get("k")"#,
            json!(2),
        ),
        attempt(
            "what is inherited is no part of the answer",
            r#"Object.prototype.status = 500; Object.prototype.__llmPending = true; Object.prototype.contentType = "text/html";
               Object.prototype.stash = { a: 1 }; return kit.raw({ json: [req.stash?.a ?? null] })"#,
            Gives(json!([1])),
            r#"return kit.raw({ json: [req.stash?.a ?? null] })"#,
            json!([null]),
        ),
        attempt(
            "a toJSON that all objects inherit forges what is sent",
            r#"Object.prototype.toJSON = function () { return this === given ? 1 : { url: given.other } };
               const answer = await host.net.fetch({ url: given.granted + "/hello" });
               delete Object.prototype.toJSON; return answer.text ?? answer.error"#,
            Says(&["a request is an object"]),
            r#"return (await host.net.fetch({ toJSON: () => ({ url: given.granted + "/hello" }) })).text"#,
            json!("hello"),
        ),
        attempt(
            "an address that is another one when it is read again",
            r#"let n = 0; const spec = new Proxy({}, { ownKeys: () => ["url"], getOwnPropertyDescriptor: () => ({ enumerable: true,
                 configurable: true }), get: (t, key) => key === "url" ? (n++ ? given.other : given.granted) + "/hello" : undefined });
               const answer = await host.net.fetch(spec); return answer.text ?? answer.error"#,
            // It is read once, and goes where that reading said.
            Gives(json!("hello")),
            r#"const spec = new Proxy({ url: given.granted + "/hello" }, {}); return (await host.net.fetch(spec)).text"#,
            json!("hello"),
        ),
        attempt(
            "a path that is another one when it is read again",
            r#"let n = 0; const path = { toJSON: () => n++ ? "../../beta/data/hidden.txt" : "own.txt" };
               const got = []; for (let i = 0; i < 4; i++) try { got.push(host.fs.read(path)) } catch (e) { got.push("refused") }
               return got.includes("refused")"#,
            Gives(json!(true)),
            r#"host.fs.write("own.txt", "mine"); return host.fs.read({ toJSON: () => "own.txt" })"#,
            json!("mine"),
        ),
        attempt(
            "a promise that is kept twice",
            "return { then(done) { done(1); done(2); Promise.resolve().then(() => done(3)) } }",
            Gives(json!(1)),
            "return Promise.resolve(1)",
            json!(1),
        ),
        attempt(
            "an answer whose fields throw",
            r#"return kit.raw({ get status() { throw new Error("gotcha") }, json: 1 })"#,
            Fails(&["gotcha"]),
            r#"return kit.raw({ get status() { return 200 }, json: 1 })"#,
            json!(1),
        ),
        attempt(
            "species and iterators of its own in what the prelude reads",
            r#"class Odd extends Array { static get [Symbol.species]() { return class { constructor() { this.caught = arguments } } } }
               Array.prototype[Symbol.iterator] = function* () { yield "../../../etc/passwd" };
               let said; try { said = host.fs.read(Odd.from({ length: 1 })) } catch (e) { said = e.message } return said"#,
            Says(&[
                "must be a string",
                "not a usable path",
                "is not iterable",
                "not iterable",
            ]),
            r#"class Odd extends Array {} ; return Odd.from([1, 2]).map((n) => n).length"#,
            json!(2),
        ),
        attempt(
            "proxies in the place of functions and arguments",
            r#"const odd = new Proxy(function () {}, { get: () => odd, apply: () => odd, ownKeys: () => [], has: () => true });
               const said = [];
               for (const work of [() => host.store.put(odd, odd), () => host.fs.read(odd), () => host.fs.write(odd, odd),
                 () => host.zip.read(odd), () => host.net.fetch(odd), () => host.llm.generate(odd)])
                 said.push(await kit.thrown(work));
               return (said.filter((text) => /^no error(?! but \{"ok":false)/.test(text)).join() || "all refused") + JSON.stringify(await host.store.scan(odd))"#,
            Says(&["all refused"]),
            r#"host.store.put("k", new Proxy({ a: 1 }, {})); return host.store.get("k")"#,
            json!({"a": 1}),
        ),
        attempt(
            "permissions that it writes for itself",
            r#"host.permissions.shell = true; host.permissions = { everything: true }; Object.setPrototypeOf(host, { exec() {} });
               return kit.thrown(() => host.shell.exec("id"))"#,
            Says(&["of undefined"]),
            r#"return host.permissions.fs"#,
            json!(true),
        ),
        attempt(
            "what it calls itself in the call's data",
            r#"host.app = "beta"; host.plugin = "p"; return [host.store.get("hidden"), await kit.thrown(() => host.fs.read("hidden.txt"))]"#,
            Gives(json!([null, "host.fs.read: \"[app-data]/hidden.txt\" does not exist"])),
            r#"return [host.app, host.plugin]"#,
            json!(["evil", "p"]),
        ),
        attempt(
            "the source text of the prelude or its data in closures",
            r#"return kit.reach(host).filter((at) => typeof at === "function").map((f) => Function.prototype.toString.call(f))
                 .filter((text) => /canary|accounts\/|engine\.sock/.test(text)).length"#,
            Gives(json!(0)),
            r#"return Function.prototype.toString.call(() => 1)"#,
            json!("() => 1"),
        ),
        attempt(
            "the machine's names in an error's stack",
            r#"let text = ""; try { host.fs.read("none") } catch (e) { text += e.stack + e.fileName } try { null.x } catch (e) { text += e.stack }
               return /\/(root|home|tmp|usr|work|var|Users)\//.test(text)"#,
            Gives(json!(false)),
            r#"try { null.x } catch (e) { return e.stack.includes("evil/p/plugin.js") || e.stack.length > 0 }"#,
            json!(true),
        ),
    ]
}

#[test]
fn nothing_leads_out_of_the_engine() {
    let house = House::open();
    try_all(&house, &attempts());
}

/// What a call changes in its globals and in what all objects inherit is gone before the next.
#[test]
fn one_call_leaves_nothing_for_the_next() {
    let house = House::open();
    let pollute = r#"const before = [{}.left ?? null, globalThis.left ?? null, typeof JSON.parse, Symbol.for("left").left ?? null];
        Object.prototype.left = 1; globalThis.left = 2; JSON.parse = 3; Array.prototype.left = 4;
        globalThis.__makeHost = () => ({ left: 5 });
        return before"#;
    for _ in 0..5 {
        let came = house.run(pollute);
        assert_eq!(came, crate::attempt::Came::Value(json!([null, null, "function", null])));
    }
}
