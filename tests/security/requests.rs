//! What a request to a granted server may carry and bring back, and what becomes of secrets.

use serde_json::json;

use crate::attempt::{Attempt, Want, attempt, try_all};
use crate::house::House;

const ECHO: &str = r#"const answer = await host.net.fetch({ url: given.granted + "/echo", method: "POST", headers: { "X-Mine": "1" }, body: "b" });
    return [answer.json.method, answer.json.body, answer.json.headers.some(([n, v]) => n === "x-mine" && v === "1")]"#;
const REFUSED: Want = Want::Says(&["refused: "]);

/// Headers that a request must not set, as JavaScript pairs.
const HEADERS: &[(&str, &str)] = &[
    ("a line break in a value", r#""X-A": "1\r\nX-Evil: 1""#),
    ("a bare line feed in a value", r#""X-A": "1\nX-Evil: 1""#),
    ("a NUL in a value", r#""X-A": "1\0""#),
    ("a line break in a name", r#""X-A: 1\r\nX-Evil": "1""#),
    ("a colon in a name", r#""X-A:": "1""#),
    ("a blank in a name", r#""X A": "1""#),
    ("an empty name", r#""": "1""#),
    ("another host", r#""Host": "good.example""#),
    ("another host in other letters", r#""hOsT": "good.example""#),
    ("a length", r#""Content-Length": "9999""#),
    ("a transfer coding", r#""Transfer-Encoding": "chunked""#),
    ("an upgrade", r#""Upgrade": "websocket""#),
    ("the connection", r#""Connection": "keep-alive, X-Evil""#),
    ("a proxy's password", r#""Proxy-Authorization": "Basic eDp4""#),
    ("an expectation", r#""Expect": "100-continue""#),
    ("a trailer", r#""Trailer": "X-Evil""#),
];

const METHODS: &[(&str, &str)] = &[
    ("CONNECT", r#""CONNECT""#),
    ("TRACE", r#""TRACE""#),
    ("a request line", r#""GET /evil HTTP/1.1\r\nX: ""#),
    ("a blank", r#""GE T""#),
    ("a very long word", r#""G".repeat(100)"#),
    ("an object", r#"{ toString: "GET" }"#),
];

pub fn attempts() -> Vec<Attempt> {
    let good = || json!(["POST", "b", true]);
    let send = |more: &str| {
        format!(
            r#"const answer = await host.net.fetch({{ url: given.granted + "/echo", {more} }});
               return answer.ok ? "sent " + JSON.stringify(answer.json) : "refused: " + answer.error"#
        )
    };
    let headers = HEADERS.iter().map(|(name, pair)| {
        let attack = send(&format!("headers: {{ {pair} }}"));
        attempt(&format!("a header with {name}"), &attack, REFUSED, ECHO, good())
    });
    let methods = METHODS.iter().map(|(name, method)| {
        let attack = send(&format!("method: {method}"));
        attempt(&format!("a method that is {name}"), &attack, REFUSED, ECHO, good())
    });
    headers.chain(methods).chain(secrets()).chain(answers()).collect()
}

/// Sends the secret as it is meant, and says whether it arrived: the server echoes it, and Chrysalis takes it out again.
const SENT: &str = r#"const answer = await host.net.fetch({ url: given.granted + "/echo", headers: { "X-Token": { secret: "token" } } });
    return answer.json.headers.find(([name]) => name === "x-token")"#;

fn secrets() -> Vec<Attempt> {
    use Want::*;
    let sent = || json!(["x-token", "[secret]"]);
    vec![
        attempt(
            "a secret to another granted server",
            r#"const answer = await host.net.fetch({ url: given.second + "/echo", headers: { "X-Token": { secret: "token" } } });
               return answer.ok ? "sent" : "refused: " + answer.error"#,
            REFUSED,
            SENT,
            sent(),
        ),
        attempt(
            "a secret over a redirect to another granted server",
            r#"const answer = await host.net.fetch({ url: given.granted + "/to?" + given.second + "/echo",
                 headers: { "X-Mine": { secret: "token" }, "X-Plain": "kept" } });
               return answer.json.headers.filter(([name]) => /^x-(mine|plain)$/.test(name))"#,
            Gives(json!([["x-plain", "kept"]])),
            SENT,
            sent(),
        ),
        attempt(
            "passwords over a redirect to another granted server",
            r#"const headers = { "Authorization": "a", "Cookie": "b", "X-Api-Key": "c", "X-Session": "d", "X-Auth-Token": "e", "X-Plain": "kept" };
               const answer = await host.net.fetch({ url: given.granted + "/to?" + given.second + "/echo", headers });
               return answer.json.headers.filter(([name]) => /^(authorization|cookie|x-)/.test(name))"#,
            Gives(json!([["x-plain", "kept"]])),
            r#"const answer = await host.net.fetch({ url: given.granted + "/to?" + given.granted + "/echo", headers: { "X-Api-Key": "c" } });
               return answer.json.headers.find(([name]) => name === "x-api-key")"#,
            json!(["x-api-key", "c"]),
        ),
        attempt(
            "a secret in the address",
            r#"const answer = await host.net.fetch({ url: { secret: "token" } }); return "refused: " + answer.error"#,
            REFUSED,
            SENT,
            sent(),
        ),
        attempt(
            "a secret in the body",
            r#"const answer = await host.net.fetch({ url: given.granted + "/echo", method: "POST", body: { a: { secret: "token" } } });
               return answer.json.body"#,
            Gives(json!(r#"{"a":{"secret":"token"}}"#)),
            SENT,
            sent(),
        ),
        attempt(
            "a secret in a form",
            r#"const answer = await host.net.fetch({ url: given.granted + "/echo", method: "POST", form: { a: { secret: "token" } } });
               return answer.json?.body ?? answer.error"#,
            Says(&["the form's field"]),
            SENT,
            sent(),
        ),
        attempt(
            "a secret sent back by the server, streamed in pieces",
            r#"const answer = await host.net.fetch({ url: given.granted + "/echo", stream: true, headers: { "X-Token": { secret: "token" } } });
               let text = ""; for await (const piece of answer.body) text += piece; return text.includes("[secret]")"#,
            Gives(json!(true)),
            r#"const answer = await host.net.fetch({ url: given.granted + "/hello", stream: true }); let text = "";
               for await (const piece of answer.body) text += piece; return text"#,
            json!("hello"),
        ),
        attempt(
            "a secret sent back by the server, as bytes",
            r#"const answer = await host.net.fetch({ url: given.granted + "/echo", binary: true, headers: { "X-Token": { secret: "token" } } });
               return atob(answer.base64)"#,
            Says(&["[secret]"]),
            r#"return atob((await host.net.fetch({ url: given.granted + "/hello", binary: true })).base64)"#,
            json!("hello"),
        ),
        attempt(
            "a secret of another plugin",
            r#"const answer = await host.net.fetch({ url: given.granted + "/echo", headers: { "X-Token": { secret: "theirs" } } });
               return answer.ok ? "sent" : "refused: " + answer.error"#,
            REFUSED,
            SENT,
            sent(),
        ),
        attempt(
            "a secret of another plugin by a path",
            r#"const said = [];
               for (const name of ["../../beta/p/theirs", "beta/p/theirs", "beta__p/theirs", "../p/theirs", "plugin:x/beta/p/theirs", "", "*"]) {
                 const answer = await host.net.fetch({ url: given.granted + "/echo", headers: { "X-Token": { secret: name } } });
                 if (answer.ok) said.push(name);
               }
               return said"#,
            Gives(json!([])),
            SENT,
            sent(),
        ),
        attempt(
            "the key of a model server",
            r#"const said = [];
               for (const name of ["c_test-server", "test server", "connection", "key"]) {
                 const answer = await host.net.fetch({ url: given.granted + "/echo", headers: { "X-Token": { secret: name } } });
                 if (answer.ok) said.push(name);
               }
               const result = await host.llm.generate({ messages: [{ role: "user", content: "x" }], headers: { "X-Echo": "1" }, baseUrl: given.granted });
               return [said, result.text ?? result.error]"#,
            Gives(json!([[], "hello"])),
            SENT,
            sent(),
        ),
        attempt(
            "the value of a secret anywhere in what the plugin is given",
            r#"return kit.reach(host).concat(kit.reach(req), kit.reach(globalThis)).length > 0
                 && JSON.stringify([host, req, Object.getOwnPropertyNames(globalThis)]).includes("canary-" + "secret")"#,
            Gives(json!(false)),
            SENT,
            sent(),
        ),
        attempt(
            "a prefix with a line break in front of a secret",
            r#"const answer = await host.net.fetch({ url: given.granted + "/echo", headers: { "X-Token": { secret: "token", prefix: "a\r\nX-Evil: " } } });
               return answer.ok ? "sent" : "refused: " + answer.error"#,
            REFUSED,
            SENT,
            sent(),
        ),
    ]
}

fn answers() -> Vec<Attempt> {
    use Want::*;
    let hello = r#"return (await host.net.fetch({ url: given.granted + "/hello" })).text"#;
    vec![
        attempt(
            "an answer that says it is very long",
            r#"const answer = await host.net.fetch({ url: given.granted + "/lies" }); return answer.ok ? "got it" : "refused: " + answer.error"#,
            REFUSED,
            hello,
            json!("hello"),
        ),
        attempt(
            "an answer that never ends",
            r#"const answer = await host.net.fetch({ url: given.granted + "/endless", maxBytes: 100000 }); return answer.ok ? "got it" : "refused: " + answer.error"#,
            REFUSED,
            hello,
            json!("hello"),
        ),
        attempt(
            "an answer that never ends, streamed",
            r#"const answer = await host.net.fetch({ url: given.granted + "/endless", stream: true, maxBytes: 2000000 }); let bytes = 0;
               try { for await (const piece of answer.body) bytes += piece.length } catch (e) { return bytes <= 2000000 ? "refused: " + e.message : "got " + bytes }
               return "got " + bytes"#,
            REFUSED,
            hello,
            json!("hello"),
        ),
        attempt(
            "an answer that says it is very long, with a limit beyond all",
            r#"const answer = await host.net.fetch({ url: given.granted + "/lies", maxBytes: 1e15, timeoutMs: 1e15 }); return answer.ok ? "got it" : "refused: " + answer.error"#,
            REFUSED,
            hello,
            json!("hello"),
        ),
        attempt(
            "an answer that stops in its middle",
            r#"const answer = await host.net.fetch({ url: given.granted + "/silent", timeoutMs: 600 }); return answer.ok ? "got it" : "refused: " + answer.error"#,
            REFUSED,
            hello,
            json!("hello"),
        ),
        attempt(
            "a timeout of an hour",
            r#"const began = Date.now(); const wait = host.net.fetch({ url: given.granted + "/silent", timeoutMs: 3600000 });
               await host.sleep(300); wait.abort(); return kit.thrown(() => wait)"#,
            Says(&["aborted"]),
            hello,
            json!("hello"),
        ),
        attempt(
            "an answer of twenty thousand headers",
            r#"const answer = await host.net.fetch({ url: given.granted + "/many-headers" }); return answer.ok ? "got it" : "refused: " + answer.error"#,
            REFUSED,
            hello,
            json!("hello"),
        ),
        attempt(
            "a split answer",
            r#"const answer = await host.net.fetch({ url: given.granted + "/split" }); return answer.ok ? JSON.stringify(answer.headers["x-b"] ?? "refused: ") : "refused: " + answer.error"#,
            REFUSED,
            hello,
            json!("hello"),
        ),
        attempt(
            "an answer is read that belongs to no request",
            r#"return kit.thrown(async () => { const a = await host.net.fetch({ url: given.granted + "/hello", stream: true });
                 const it = a.body[Symbol.asyncIterator](); while (!(await it.next()).done); return it.next() })"#,
            Says(&["no such answer", "no error but {\"done\":true}"]),
            hello,
            json!("hello"),
        ),
        attempt(
            "sixty-five answers at a time",
            r#"const all = []; for (let n = 0; n < 65; n++) { try { const a = await host.net.fetch({ url: given.granted + "/silent", stream: true }); all.push(a.ok) } catch (e) { all.push(e.message) } }
               return String(all[64])"#,
            Says(&["64 answers are being read already"]),
            hello,
            json!("hello"),
        ),
        attempt(
            "a body of 33 MiB",
            r#"const answer = await host.net.fetch({ url: given.granted + "/echo", method: "POST", body: "x".repeat(17 << 20) + "y".repeat(16 << 20) });
               return answer.ok ? "sent" : "refused: " + answer.error"#,
            Fails(&["ran out of memory"]),
            hello,
            json!("hello"),
        ),
    ]
}

#[test]
fn requests_carry_and_bring_what_they_may() {
    let house = House::open();
    try_all(&house, &attempts());
}
