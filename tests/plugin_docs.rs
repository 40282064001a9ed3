//! The documents for plugin authors: every worked example is added as an app to the built program and called as it says,
//! and the declarations fit the examples and the real host object.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use testkit::{AppFolder, Home, ModelServer, Out, Running, Seen};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A worked example of docs/plugins.md or docs/models.md.
struct Example {
    app: String,
    /// Paths in the app with their text.
    files: Vec<(String, String)>,
    /// Commands with what they print.
    calls: Vec<(String, String)>,
}

/// Everything between `<!-- example: app -->` and `<!-- end of example -->`: a code block is the file named in the last
/// line above it, a command (`sh`), or what the command above it prints.
fn examples() -> Vec<Example> {
    let documents = ["plugins.md", "models.md"].map(|name| fs::read_to_string(root().join("docs").join(name)).unwrap());
    let text = documents.concat();
    let mut found = Vec::new();
    for part in text.split("<!-- example: ").skip(1) {
        let (app, rest) = part.split_once(" -->").unwrap();
        let (body, _) = rest.split_once("<!-- end of example -->").expect("an example ends");
        let mut example = Example {
            app: app.to_owned(),
            files: Vec::new(),
            calls: Vec::new(),
        };
        let (mut above, mut command) = (String::new(), None::<String>);
        let mut lines = body.lines();
        while let Some(line) = lines.next() {
            let Some(language) = line.strip_prefix("```") else {
                if !line.trim().is_empty() {
                    above = line.trim().to_owned();
                }
                continue;
            };
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let block = block.join("\n");
            let file = above.strip_prefix('`').and_then(|rest| rest.strip_suffix("`:"));
            match (file, command.take()) {
                _ if language == "sh" => command = Some(block),
                (_, Some(command)) => example.calls.push((command, block)),
                (Some(file), None) => example.files.push((file.to_owned(), block + "\n")),
                (None, None) => panic!("{app}: what is this block? {block}"),
            }
            above.clear();
        }
        assert!(!example.files.is_empty() && !example.calls.is_empty(), "{app}");
        found.push(example);
    }
    found
}

/// One file, deflated by nobody: `name` with `text` in it.
fn zip(name: &str, text: &str) -> Vec<u8> {
    let mut crc = !0u32;
    for byte in text.bytes() {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    let size = (text.len() as u32).to_le_bytes();
    // From the version needed to the length of the extra field, which both headers have.
    let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
    common.extend_from_slice(&(!crc).to_le_bytes());
    common.extend_from_slice(&size);
    common.extend_from_slice(&size);
    common.extend_from_slice(&(name.len() as u16).to_le_bytes());
    common.extend_from_slice(&[0, 0]);
    let mut file = b"PK\x03\x04".to_vec();
    file.extend_from_slice(&common);
    file.extend_from_slice(name.as_bytes());
    file.extend_from_slice(text.as_bytes());
    let directory = file.len() as u32;
    file.extend_from_slice(b"PK\x01\x02\x14\0");
    file.extend_from_slice(&common);
    file.extend_from_slice(&[0; 14]);
    file.extend_from_slice(name.as_bytes());
    let length = file.len() as u32 - directory;
    file.extend_from_slice(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&directory.to_le_bytes());
    file.extend_from_slice(&[0, 0]);
    file
}

/// The words of a command as a shell reads them: blanks, single quotes, double quotes with backslashes.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = command.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\n' => words.extend(word.take()),
            '\'' => word
                .get_or_insert_default()
                .extend(rest.by_ref().take_while(|c| *c != '\'')),
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(c) = rest.next().filter(|c| *c != '"') {
                    word.push(if c == '\\' { rest.next().unwrap() } else { c });
                }
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The servers that the examples speak of: two on the internet, one in the house, and a model.
fn server() -> ModelServer {
    ModelServer::everything(|seen, out| {
        let path = seen.target.split('?').next().unwrap();
        match (seen.method.as_str(), path) {
            ("GET", "/v1/models") => out.json(
                200,
                &json!({"object": "list", "data": [{"id": "m", "object": "model"}]}),
            ),
            ("GET", "/weather") if seen.target.ends_with("?city=Turin") => out.json(200, &json!({"degrees": 21})),
            ("PUT", "/lamp") => out.json(200, &serde_json::from_str(&seen.body).unwrap()),
            ("GET", "/unread") if seen.header("authorization") == "Bearer k-93bd2c0a71" => {
                out.json(200, &json!({"unread": 2}));
            }
            ("POST", "/v1/chat/completions") => model(seen, out),
            ("POST", "/v1/embeddings") => {
                out.json(200, &json!({"data": [{"index": 0, "embedding": [0.5, 0.25]}]}));
            }
            ("GET", "/lines") => out.answer(200, "text/plain", "one\ntwo\n"),
            _ => out.json(404, &json!({"error": {"message": "there is nothing here"}})),
        }
    })
}

fn model(seen: &Seen, out: &mut Out) {
    let request: Value = serde_json::from_str(&seen.body).unwrap();
    let messages = request["messages"].as_array().unwrap();
    let said = |role: &str| {
        let found = messages.iter().rev().find(|message| message["role"] == role);
        found.map(|message| message["content"].to_string()).unwrap_or_default()
    };
    out.begin();
    if request["tools"].is_array() && said("tool").is_empty() {
        let tool = &request["tools"][0]["function"]["name"];
        let arguments = match said("user").contains("data:image/gif;base64,R0lGOD") {
            true => r#"{"shop":"Corner Shop","total":4.2}"#,
            false => r#"{"item":"milk"}"#,
        };
        let call =
            json!({"index": 0, "id": "c1", "type": "function", "function": {"name": tool, "arguments": arguments}});
        let chunk = json!({"id": "r1", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
        let last = json!({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
        out.raw(&format!("data: {chunk}\n\ndata: {last}\n\ndata: [DONE]\n\n"));
        return;
    }
    let text = if said("tool").contains("1.2") {
        "Milk costs 1.2 euros."
    } else if said("system").contains("one sentence") && said("user").contains("no milk") {
        "Milk is missing."
    } else if said("system").contains("in one line") {
        "\n  Air scatters blue light.\n"
    } else {
        "The model was asked for nothing\nthat the examples ask."
    };
    out.delta(text);
    out.done();
}

/// A home with every example in it. Hosts of the examples are this test's server, and a minute is five seconds.
fn house(server: &ModelServer) -> (Home, Running) {
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let owner = running.set_up();
    running.connect(&owner, &server.url(), None);
    let here = format!("localhost:{}", server.port);
    for example in examples() {
        let app = AppFolder::new(home.folder(), &example.app);
        for (path, text) in &example.files {
            let text = text
                .replace("https://api.example.com", &format!("http://{here}"))
                .replace("api.example.com", &here)
                .replace("localhost:8123", &here)
                .replace("\"intervalMs\": 60000", "\"intervalMs\": 5000");
            app.file(path, &text);
        }
        running.add(app.path(), &example.app);
    }
    let secret = json!({"value": "k-93bd2c0a71", "origin": format!("http://{here}")});
    owner
        .send("PUT", "/v1/plugins/mail__main/secrets/mail-key", &secret)
        .ok();
    (home, running)
}

#[test]
fn worked_examples_do_what_they_say() {
    let server = server();
    let (home, _running) = house(&server);
    let archive = base64::engine::general_purpose::STANDARD.encode(zip("notes.txt", "Buy milk."));
    let mut covered = BTreeSet::new();
    for example in examples() {
        for (_, text) in example.files.iter().filter(|(path, _)| path.ends_with("manifest.json")) {
            let manifest: Value = serde_json::from_str(text).unwrap();
            let listed = manifest["permissions"].as_array().unwrap().iter();
            covered.extend(listed.map(|one| one.as_str().unwrap().to_owned()));
        }
        for (command, printed) in &example.calls {
            let command = command.replace("$(base64 -w0 notes.zip)", &archive);
            let words = words(&command);
            let args: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            assert_eq!(words[0], "chrysalis");
            let want: Value = serde_json::from_str(printed).unwrap();
            let began = Instant::now();
            loop {
                let ran = home.run(&args);
                let got = serde_json::from_str::<Value>(&ran.out).unwrap_or_default();
                if ran.ok && got == want {
                    break;
                }
                // The clock's own example has to wait for its first tick.
                let waits = example.app == "clock" && began.elapsed() < Duration::from_secs(60);
                assert!(waits, "{command}\n{ran:?}\nwanted {want}");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }
    let all: BTreeSet<String> = policy::Capability::ALL.iter().map(|c| c.as_str().to_owned()).collect();
    assert_eq!(covered, all, "every permission has its worked example");
}

#[test]
fn check_finds_nothing_in_the_examples() {
    let home = Home::new(PROGRAM);
    for example in examples() {
        let app = AppFolder::new(home.folder(), &example.app);
        for (path, text) in &example.files {
            app.file(path, text);
        }
        let ran = home.run(&["plugin", "check", app.path().to_str().unwrap()]);
        let out = ran.must_succeed();
        assert!(out.ends_with("0 errors, 0 warnings\n"), "{}: {out}", example.app);
        assert!(!out.contains(" hint: "), "{}: {out}", example.app);
    }
}

#[test]
fn check_finds_nothing_in_the_app_in_the_box() {
    let home = Home::new(PROGRAM);
    let ran = home.run(&["plugin", "check", root().join("apps/chat").to_str().unwrap()]);
    let out = ran.must_succeed();
    assert!(
        out.ends_with("0 errors, 0 warnings\n") && !out.contains(" hint: "),
        "{out}"
    );
}

/// The TypeScript compiler of the launcher. `None`, after saying so, where the launcher's packages are not installed.
fn tsc() -> Option<PathBuf> {
    let tsc = root().join("ui/node_modules/.bin/tsc");
    if !tsc.is_file() {
        eprintln!("skipped: no ui/node_modules (`cargo xtask test` installs them)");
        return None;
    }
    Some(tsc)
}

/// Type-checks `files`, with the declarations beside them; gives what the compiler says.
fn typed(tsc: &Path, folder: &Path, files: &[(String, String)]) -> String {
    fs::create_dir_all(folder).unwrap();
    fs::copy(root().join("docs/host.d.ts"), folder.join("host.d.ts")).unwrap();
    let mut names = vec!["host.d.ts".to_owned()];
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
        names.push(name.clone());
    }
    let options = json!({
        "noEmit": true, "allowJs": true, "checkJs": true, "strict": true, "noImplicitAny": false, "lib": ["ES2023"],
        "types": [], "target": "ES2022", "module": "ESNext", "moduleResolution": "bundler",
    });
    let config = json!({"compilerOptions": options, "files": names});
    fs::write(folder.join("tsconfig.json"), config.to_string()).unwrap();
    let ran = Command::new(tsc).arg("-p").arg(folder).output().expect("tsc starts");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.success(), said.trim().is_empty(), "{said}");
    said
}

/// Exports with the names of their types in host.d.ts.
const TYPES: &[(&str, &str)] = &[
    ("handleRoute", "HandleRoute"),
    ("handleTool", "HandleTool"),
    ("appTools", "AppTools"),
    ("uiPanel", "UiPanel"),
    ("llmRequest", "LlmRequestHook"),
    ("llmResponse", "LlmResponseHook"),
    ("onTick", "OnTick"),
    ("onAppUpdate", "OnAppUpdate"),
];

fn annotated(code: &str) -> String {
    let mut out = String::new();
    for line in code.lines() {
        let named = TYPES
            .iter()
            .find(|(name, _)| line.contains(&format!("function {name}(")));
        if let (true, Some((_, kind))) = (line.starts_with("export "), named) {
            out += &format!("/** @type {{chrysalis.{kind}}} */\n");
        }
        out += line;
        out.push('\n');
    }
    out
}

#[test]
fn declarations_fit_the_examples() {
    let Some(tsc) = tsc() else { return };
    let home = Home::new(PROGRAM);
    let mut files = Vec::new();
    for example in examples() {
        for (path, code) in example.files.iter().filter(|(path, _)| path.ends_with(".js")) {
            let name = format!("{}-{}", example.app, path.split('/').nth(1).unwrap());
            files.push((format!("{name}.js"), annotated(code)));
            let check =
                format!("import * as plugin from \"./{name}.js\";\nexport const fits: chrysalis.Plugin = plugin;\n");
            files.push((format!("{name}.check.ts"), check));
        }
    }
    let said = typed(&tsc, &home.folder().join("types"), &files);
    assert_eq!(said, "");
    // And they refuse what does not exist, so that this test can fail.
    for wrong in [
        "export async function handleRoute(req, host) { await fetch(\"/\"); return { json: 1 }; }",
        "export function handleRoute(req, host) { return { json: host.store.fetch(\"x\") }; }",
        "export function handleRoute(req, host) { return { status: \"200\" }; }",
        "export function handleRoute(req, host) { host.net.fetch({ url: \"x\" }); }",
        "export async function handleRoute(req, host) { host.llm.generate({ prompt: \"x\" }); }",
        "export function llmRequest(ctx) { return { tools: [] }; }",
        "export function handleRoute(req, host) { document.title = \"x\"; }",
    ] {
        let said = typed(
            &tsc,
            &home.folder().join("wrong"),
            &[("plugin.js".into(), annotated(wrong))],
        );
        assert!(said.contains("plugin.js("), "{wrong}\n{said}");
    }
}

/// The members of an interface of host.d.ts, and of its namespace.
fn declared(text: &str, interface: &str) -> BTreeSet<String> {
    let (_, rest) = text
        .split_once(&format!("  interface {interface} "))
        .expect("an interface");
    let body = rest.split("\n  }").next().unwrap();
    let members = body.lines().filter_map(|line| {
        let line = line.strip_prefix("    ")?;
        let line = line.strip_prefix("readonly ").unwrap_or(line);
        let name: String = line.chars().take_while(|c| c.is_alphanumeric()).collect();
        let after = line[name.len()..].chars().next()?;
        (!name.is_empty() && matches!(after, '?' | ':' | '(' | '<')).then_some(name)
    });
    members.collect()
}

#[test]
fn declarations_are_the_real_host() {
    const CODE: &str = r#"
export function handleRoute(req, host) {
  if (req.path === "/globals") return { json: req.body.filter((name) => typeof globalThis[name] === "undefined") };
  const names = (value) => Object.keys(value).sort();
  const { store, llm, net, fs, zip } = host;
  return { json: { Host: names(host), Store: names(store), Llm: names(llm), Net: names(net), Fs: names(fs), Zip: names(zip) } };
}
"#;
    let text = fs::read_to_string(root().join("docs/host.d.ts")).unwrap();
    let home = Home::new(PROGRAM);
    let app = AppFolder::new(home.folder(), "look").plugin("main", &["routes"], CODE);
    let manifest = json!({"name": "Look", "permissions": ["routes", "local-network"], "localHosts": ["localhost"]});
    app.file("plugins/main/manifest.json", &manifest.to_string());
    home.run(&["app", "add", app.path().to_str().unwrap(), "--yes"])
        .must_succeed();
    let ran = home.run(&["plugin", "call", "look", "main", "GET", "/"]);
    let real: Value = serde_json::from_str(ran.must_succeed()).unwrap();
    for interface in ["Host", "Store", "Llm", "Net", "Fs", "Zip"] {
        let there = real[interface].as_array().unwrap().iter();
        let there: BTreeSet<String> = there.map(|name| name.as_str().unwrap().to_owned()).collect();
        assert_eq!(declared(&text, interface), there, "{interface}");
    }
    let globals: Vec<&str> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("declare var ")
                .or_else(|| line.strip_prefix("declare function "))
        })
        .filter_map(|rest| rest.split([':', '(', '<']).next())
        .collect();
    assert!(globals.len() > 12 && globals.contains(&"setTimeout"), "{globals:?}");
    let ran = home.run(&[
        "plugin",
        "call",
        "look",
        "main",
        "POST",
        "/globals",
        "--body",
        &json!(globals).to_string(),
    ]);
    assert_eq!(ran.must_succeed().trim(), "[]", "declared, and not there");
    let absent = json!([
        "fetch",
        "WebSocket",
        "XMLHttpRequest",
        "require",
        "navigator",
        "performance",
        "queueMicrotask",
        "document",
        "window"
    ]);
    let ran = home.run(&[
        "plugin",
        "call",
        "look",
        "main",
        "POST",
        "/globals",
        "--body",
        &absent.to_string(),
    ]);
    let missing: Value = serde_json::from_str(ran.must_succeed()).unwrap();
    assert_eq!(missing, absent, "absent, and there");
}

/// Uses everything that host.d.ts declares, with types and for real.
const EVERYTHING: &str = r#"export async function handleRoute(req, host) {
  const { store, fs, zip, llm, net } = host;
  /** @type {Record<string, any>} */
  const out = {};
  store.put("a", { n: 1 });
  out.cas = [await store.cas("a", { n: 1 }, { n: 2 }), await store.cas("a", { n: 1 }, { n: 3 })];
  await store.batch([{ put: "b", value: 1 }, { delete: "a" }]);
  out.scan = await store.scan({ prefix: "b", limit: 5 });
  out.moved = await store.transaction((inside) => {
    inside.put("c", inside.get("b"));
    inside.delete("b");
    return 5;
  });
  out.keys = store.keys();
  out.updated = await store.update("c", (n) => n + 1);
  out.deleted = [store.delete("c"), store.delete("c"), store.get("c")];

  fs.writeBytes("d/a.bin", new Uint8Array([1, 2, 3]));
  fs.append("d/a.bin", "x");
  out.bytes = [[...fs.readBytes("d/a.bin")], [...fs.readChunk("d/a.bin", 1, 2)], fs.readBase64("d/a.bin")];
  fs.rename("d/a.bin", "d/b.bin");
  const { kind, size, modified } = fs.stat("d/b.bin");
  out.stat = [kind, size, typeof modified, fs.stat("d").kind];
  const writer = fs.writer("d/c.txt");
  await writer.write("one,");
  await writer.write(new TextEncoder().encode("tw\u00f6"));
  out.before = fs.exists("d/c.txt");
  await writer.close();
  const decoder = new TextDecoder();
  out.streamed = "";
  for await (const chunk of fs.stream("d/c.txt", { chunkBytes: 7 })) out.streamed += decoder.decode(chunk, { stream: true });
  const undone = fs.transaction((inside) => {
    inside.remove("d");
    throw new Error("on purpose");
  });
  await undone.catch((error) => (out.undone = [error.message, fs.list("d")]));
  fs.lookup("people", "Ada", { born: 1815 });
  out.lookup = [fs.lookup("people", "ADA"), fs.lookup("people", "Bob")];
  out.media = fs.media("data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=").replace(/[0-9a-f]{64}/, "hash");
  fs.mkdir("e/f");
  fs.remove("e");
  fs.remove("e");
  fs.write("g.txt", "text");
  out.files = [fs.exists("e"), fs.read("g.txt")];
  try {
    fs.read("missing");
  } catch (error) {
    out.missing = String(error).includes("[app-data]");
  }

  out.zip = [zip.list(), zip.names(), zip.entries(), zip.stat("notes.txt")?.size ?? 0, zip.stat("none"), zip.read("notes.txt")];
  out.zipped = [zip.readBytes("notes.txt").length, zip.readChunk("notes.txt", 4, 4).length];
  for await (const chunk of zip.stream("notes.txt")) out.zipped.push(chunk.length);

  const run = llm.stream({ messages: [{ role: "user", content: "hello" }] }, { timeoutMs: 30000 });
  let text = "";
  for await (const part of run) text += (part.delta ?? "") + (part.thinking ?? "");
  const result = await run.result;
  out.llm = [text === result.text && text !== "", typeof result.usage.output, result.error ?? null, result.stopped ?? false];
  out.vectors = await llm.embed({ texts: ["a"] });

  if (!net) return;
  const answer = await net.fetch({ url: `${req.query.server}/lines`, stream: true });
  let lines = "";
  for await (const piece of answer.body ?? []) lines += piece;
  const missing = await net.fetch(`${req.query.server}/none`);
  const refused = await net.fetch({ url: "https://elsewhere.example/", method: "POST", form: { a: 1 } });
  out.net = [answer.status, lines, missing.status, missing.ok, typeof refused.error];

  await new Promise((done) => setTimeout(done, 1));
  await host.sleep(1);
  const url = new URL("/b?c=d", "https://x.example");
  out.globals = [url.searchParams.get("c"), atob(btoa("x")), structuredClone({ a: [1] }), crypto.randomUUID().length];
  out.host = [host.app, host.plugin, host.permissions.fs, host.siblingTools.length, llm.results.none ?? null];
  return { json: out };
}
"#;

#[test]
fn declared_results_are_the_real_ones() {
    let server = server();
    let home = Home::new(PROGRAM);
    if let Some(tsc) = tsc() {
        let files = [("plugin.js".to_owned(), annotated(EVERYTHING))];
        assert_eq!(typed(&tsc, &home.folder().join("types"), &files), "");
    }
    let running = home.serve();
    let owner = running.set_up();
    // Embeddings come from a connection with a key.
    running.connect(&owner, &server.url(), Some("sk-93bd2c0a71"));
    let app = AppFolder::new(home.folder(), "all").plugin("main", &[], EVERYTHING);
    let here = format!("localhost:{}", server.port);
    let manifest = json!({
        "name": "All", "permissions": ["routes", "store", "llm", "fs", "zip", "local-network"], "localHosts": [here],
    });
    app.file("plugins/main/manifest.json", &manifest.to_string());
    running.add(app.path(), "all");
    let archive = base64::engine::general_purpose::STANDARD.encode(zip("notes.txt", "Buy milk."));
    let body = json!({"zipBase64": archive}).to_string();
    let path = format!("/import/all?server=http://{here}");
    let ran = home.run(&["plugin", "call", "all", "main", "POST", &path, "--body", &body]);
    let got: Value = serde_json::from_str(ran.must_succeed()).unwrap();
    let want = json!({
        "cas": [true, false], "scan": [["b", 1]], "moved": 5, "keys": ["c"], "updated": 2, "deleted": [true, false, null],
        "bytes": [[1, 2, 3, 120], [2, 3], "AQIDeA=="], "stat": ["file", 4, "number", "folder"], "before": false,
        "streamed": "one,tw\u{f6}", "undone": ["on purpose", ["b.bin", "c.txt"]], "lookup": [{"born": 1815}, null],
        "media": "/v1/apps/all/__media/hash.gif", "files": [false, "text"], "missing": true,
        "zip": [1, ["notes.txt"], {"notes.txt": "Buy milk."}, 9, null, "Buy milk."], "zipped": [9, 4, 9],
        "llm": [true, "number", null, false], "vectors": [[0.5, 0.25]], "net": [200, "one\ntwo\n", 404, false, "string"],
        "globals": ["d", "x", {"a": [1]}, 36], "host": ["all", "main", true, 0, null],
    });
    for (name, value) in want.as_object().unwrap() {
        assert_eq!(&got[name], value, "{name}");
    }
    assert_eq!(got.as_object().unwrap().len(), want.as_object().unwrap().len());
}
