//! Other plugins' stores, the store's own limits, and answers that are not what they seem.

use serde_json::{Value, json};

use crate::attempt::{Attempt, Came, Want, attempt, try_all};
use crate::house::{House, came};

const KEPT: &str = r#"host.store.put("own", { a: 1 }); return [host.store.get("own"), host.store.keys("ow")]"#;

pub fn attempts() -> Vec<Attempt> {
    use Want::*;
    let kept = || json!([{"a": 1}, ["own"]]);
    let mut all = vec![
        attempt(
            "another app's key",
            r#"return host.store.get("hidden")"#,
            Gives(Value::Null),
            KEPT,
            kept(),
        ),
        attempt(
            "the key of another plugin of the same app",
            r#"return [host.store.get("twins"), host.store.keys("tw")]"#,
            Gives(json!([null, []])),
            KEPT,
            kept(),
        ),
        attempt(
            "keys that are paths to another plugin's",
            r#"return ["../twin/twins", "twin/twins", "evil/twin/twins", "evil__twin/twins", "/beta/p/hidden", "beta__p__hidden",
                 "%", "_", "*", "twins\0", "\0twins", "twins%00"].filter((key) => host.store.get(key) !== null)"#,
            Gives(json!([])),
            KEPT,
            kept(),
        ),
        attempt(
            "patterns in the place of a prefix",
            r#"return ["%", "_wins", "*", "?", "[a-z]", "tw%", ".", "' OR 1=1 --", "\u{10ffff}"].flatMap((prefix) => host.store.keys(prefix))"#,
            Gives(json!([])),
            KEPT,
            kept(),
        ),
        attempt(
            "SQL in keys",
            r#"for (const key of ["'; DROP TABLE store; --", "\"; DELETE FROM grants; --", "x') OR ('1'='1", "x\0'; --"]) {
                 try { host.store.put(key, 1); host.store.delete(key) } catch {} }
               return host.store.get("x' OR '1'='1")"#,
            Gives(Value::Null),
            KEPT,
            kept(),
        ),
        attempt(
            "SQL in a scan",
            r#"const found = await host.store.scan({ prefix: "%", after: "' OR 1=1 --", limit: 10 }); return found"#,
            Gives(json!([])),
            r#"host.store.put("scan/a", 1); return host.store.scan({ prefix: "scan/" })"#,
            json!([["scan/a", 1]]),
        ),
        attempt(
            "a value whose prototype is another",
            r#"host.store.put("odd", JSON.parse('{"__proto__": {"evil": 1}, "constructor": {"prototype": {"evil": 1}}}'));
               const odd = host.store.get("odd"); host.store.delete("odd"); return [odd.evil ?? null, {}.evil ?? null, Object.keys(odd)]"#,
            Gives(json!([null, null, ["__proto__", "constructor"]])),
            KEPT,
            kept(),
        ),
        attempt(
            "a value of more than the store holds",
            r#"return kit.thrown(async () => host.store.put("big", "x".repeat((1 << 20) + 1)))"#,
            Says(&["store", "1 MiB"]),
            r#"host.store.put("big", "x".repeat(1 << 19)); const n = host.store.get("big").length; host.store.delete("big"); return n"#,
            json!(1 << 19),
        ),
        attempt(
            "many values of more than the store holds",
            r#"let n = 0; try { for (; n < 3000; n++) host.store.put("many/" + n, "x".repeat(1000)) } catch {}
               for (const key of host.store.keys("many/")) host.store.delete(key); return n < 1100"#,
            Gives(json!(true)),
            KEPT,
            kept(),
        ),
        attempt(
            "keys of more than the store holds",
            r#"let n = 0; try { for (; n < 9000; n++) host.store.put("k".repeat(500) + n, 0) } catch {}
               for (const key of host.store.keys("kk")) host.store.delete(key); return n < 2200"#,
            Gives(json!(true)),
            KEPT,
            kept(),
        ),
        attempt(
            "a batch of more than the store holds",
            r#"const writes = []; for (let n = 0; n < 20; n++) writes.push({ put: "batch/" + n, value: "x".repeat(100000) });
               const said = await kit.thrown(() => host.store.batch(writes)); return host.store.keys("batch/").length ? "some were written" : said"#,
            Says(&["store", "1 MiB"]),
            r#"await host.store.batch([{ put: "b1", value: 1 }, { put: "b2", value: 2 }, { delete: "b1" }]); return host.store.keys("b")"#,
            json!(["b2"]),
        ),
        attempt(
            "swaps of more than the store holds, side by side",
            r#"const done = await Promise.allSettled(Array.from({ length: 60 }, (_, n) => host.store.cas("cas/" + n, null, "x".repeat(50000))));
               const n = done.filter((one) => one.value === true).length; for (const key of host.store.keys("cas/")) host.store.delete(key); return n <= 21"#,
            Gives(json!(true)),
            r#"const done = await host.store.cas("one", null, 1); host.store.delete("one"); return done"#,
            json!(true),
        ),
        attempt(
            "a transaction that is half done",
            r#"try { await host.store.transaction(async (t) => { t.put("half/a", 1); throw new Error("stop") }) } catch {} return host.store.keys("half/")"#,
            Gives(json!([])),
            r#"await host.store.transaction(async (t) => { t.put("whole", 1) }); const n = host.store.get("whole"); host.store.delete("whole"); return n"#,
            json!(1),
        ),
        attempt(
            "a key of 513 characters",
            r#"return kit.thrown(async () => host.store.put("k".repeat(513), 1))"#,
            Says(&["longer than 512"]),
            KEPT,
            kept(),
        ),
        attempt(
            "keys that are no text",
            r#"const said = []; for (const key of [null, undefined, {}, [], Symbol.iterator, () => 1, 10n, { toString: () => "own" }])
                 said.push(await kit.thrown(async () => host.store.put(key, 1)));
               return said.filter((text) => text.startsWith("no error")).length"#,
            Gives(json!(0)),
            KEPT,
            kept(),
        ),
        attempt(
            "values that are no JSON",
            r#"const ring = {}; ring.ring = ring; const said = [];
               for (const value of [ring, 10n, { toJSON() { throw new Error("no") } }]) said.push(await kit.thrown(async () => host.store.put("own", value)));
               return said.filter((text) => text.startsWith("no error")).length"#,
            Gives(json!(0)),
            KEPT,
            kept(),
        ),
        attempt(
            "a value a thousand lists deep",
            r#"let deep = []; for (let n = 0; n < 1000; n++) deep = [deep]; return kit.thrown(async () => host.store.put("deep", deep))"#,
            Says(&["recursion limit", "deep"]),
            KEPT,
            kept(),
        ),
        attempt(
            "a call of the host that does not exist",
            r#"return [typeof host.exec, typeof host.shell, typeof host.db, typeof host.secrets, typeof host.engine, typeof host.apps]"#,
            Gives(json!([
                "undefined",
                "undefined",
                "undefined",
                "undefined",
                "undefined",
                "undefined"
            ])),
            KEPT,
            kept(),
        ),
    ];
    all.extend(models());
    all
}

fn models() -> Vec<Attempt> {
    use Want::*;
    let said = r#"return (await host.llm.generate({ messages: [{ role: "user", content: "x" }] })).text"#;
    vec![
        attempt(
            "seventeen queued model requests",
            r#"for (let n = 0; n < 17; n++) host.llm.request("k" + n, { messages: [{ role: "user", content: "x" }] })"#,
            Fails(&["at most 16 requests per pass"]),
            said,
            json!("hello"),
        ),
        attempt(
            "a queue without end over passes",
            r#"host.llm.request("k", { messages: [{ role: "user", content: "x" }] }); return { __llmPending: true }"#,
            Gives(json!({"__llmPending": true})),
            said,
            json!("hello"),
        ),
        attempt(
            "a model request that names a server of its own",
            r#"const r = await host.llm.generate({ messages: [{ role: "user", content: "x" }], baseUrl: given.other, url: given.other,
                 connection: { baseUrl: given.other }, apiKey: "x", headers: { Host: "evil" } }); return r.text ?? r.error"#,
            Gives(json!("hello")),
            said,
            json!("hello"),
        ),
        attempt(
            "a model request that is no request",
            r#"const said = []; for (const request of [null, 5, "x", [], { messages: 5 }, { messages: [{ role: "root", content: {} }] }, { messages: [[]] }])
                 try { const r = await host.llm.generate(request); said.push(r?.error ?? "text " + r?.text) } catch (e) { said.push(e.message) }
               return said.filter((text) => text.startsWith("text ")).length"#,
            Gives(json!(0)),
            said,
            json!("hello"),
        ),
        attempt(
            "a model's answer with another number",
            r#"return kit.thrown(async () => { const s = host.llm.stream({ messages: [{ role: "user", content: "x" }] });
                 await s.result; await s.abort(); const t = await s.result; return t.text })"#,
            Says(&["host.llm: no such stream"]),
            said,
            json!("hello"),
        ),
    ]
}

#[test]
fn other_stores_stay_closed_and_this_one_bounded() {
    let house = House::open();
    try_all(&house, &attempts());
    // What the others keep is still theirs.
    for (app, plugin, key) in [("beta", "p", "hidden"), ("evil", "twin", "twins")] {
        let came = house.run_as(app, plugin, &format!("return host.store.get('{key}')"));
        assert_eq!(came, Came::Value(crate::house::OTHERS_TEXT.into()), "{app}/{plugin}");
    }
}

/// What a route's answer must not do to the page's side of the connection: an answer, and the error in it.
pub const ANSWERS: &[(&str, &str)] = &[
    ("a status beyond 599", "{ status: 999, json: 1 }"),
    ("an informational status", "{ status: 101, text: 'x' }"),
    ("a status that is none", "{ status: 'OK', json: 1 }"),
    ("a negative status", "{ status: -1, json: 1 }"),
    ("a half status", "{ status: 200.5, json: 1 }"),
];

#[test]
fn answers_cannot_break_out_of_their_response() {
    let house = House::open();
    for (name, answer) in ANSWERS {
        let came = house.run(&format!("return kit.raw({answer})"));
        assert!(
            matches!(&came, Came::Error(why) if why.contains("use a whole number from 200 to 599")),
            "{name}: {came:?}"
        );
    }
    let ask = |code: &str| {
        let body = json!({"code": code, "given": house.given()});
        house.owner.post("/v1/apps/evil/run", &body)
    };
    let split = ask(
        r#"return kit.raw({ text: "x", contentType: "text/plain\r\nSet-Cookie: chrysalis_session=evil\r\nX-Evil: 1" })"#,
    );
    assert_eq!(
        (split.header("set-cookie"), split.header("x-evil")),
        ("", ""),
        "{split:?}"
    );
    let headers =
        ask(r#"return kit.raw({ text: "x", headers: { "Set-Cookie": "a=b", "Access-Control-Allow-Origin": "*" } })"#);
    assert_eq!(headers.header("set-cookie"), "");
    assert_eq!(headers.header("access-control-allow-origin"), "");
    for kind in ["text/html", "image/svg+xml", "application/xhtml+xml", "text/javascript"] {
        let code = format!(r#"return kit.raw({{ text: "<script>alert(1)</script>", contentType: "{kind}" }})"#);
        let page = ask(&code);
        let policy = page.header("content-security-policy");
        assert!(
            policy.contains("sandbox") || policy.contains("default-src 'none'"),
            "{kind}: {page:?}"
        );
        assert_eq!(page.header("x-content-type-options"), "nosniff", "{kind}");
    }
    let good = ask(r#"return kit.raw({ status: 201, text: "made", contentType: "text/plain" })"#);
    assert_eq!((good.status, good.text().as_str()), (201, "made"));
    assert_eq!(
        came(&house.call("evil", "p", &json!({"code": "return 1"}))),
        Came::Value(json!(1))
    );
}
