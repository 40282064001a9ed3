//! Plugins through HTTP on the built program: what one does wrong costs that one call, and what was not allowed stays so.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Reply, Running, process, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// One plugin with a route for everything these tests do.
const CODE: &str = r#"
const ask = (text, model) => ({ messages: [{ role: "user", content: text }], model });
export async function handleRoute(req, host) {
  switch (req.path) {
    case "/quick": return { json: { ok: true } };
    case "/loop": for (;;) {}
    case "/regex": return { json: /^(a+)+$/.test("a".repeat(40) + "!") };
    case "/fill": { const all = []; for (;;) all.push("x".repeat(1000) + all.length); }
    case "/throw": throw new Error("on purpose");
    case "/ask": return { json: await host.llm.generate(ask(req.body?.text ?? "hi")) };
    case "/stream": {
      const run = host.llm.stream(ask("hi"));
      let text = "";
      for await (const part of run) text += part.delta ?? "";
      return { json: { text, result: await run.result } };
    }
    case "/put": host.store.put("k", req.body); return { json: host.store.get("k") };
    case "/get": return { json: { k: host.store.get("k"), keys: host.store.keys() } };
    case "/delete": return { json: host.store.delete("k") };
    case "/queued": {
      if (host.llm.results.a === undefined) { host.llm.request("a", ask("queued")); return { __llmPending: true, stash: { kept: 7 } }; }
      return { json: { text: host.llm.results.a.text, stash: req.stash } };
    }
    case "/queued-only": host.llm.request("a", ask("queued")); return { json: { seen: host.llm.results.a ?? null } };
    case "/passes": {
      const n = (req.stash?.n ?? 0) + 1;
      return { __llmPending: true, stash: { n }, json: { passes: n } };
    }
    case "/many": {
      for (let n = 0; n < 17; n++) host.llm.request("k" + n, ask("queued"));
      return { json: 1 };
    }
    case "/everything": {
      const seen = {};
      for (const name of ["fetch", "WebSocket", "XMLHttpRequest", "importScripts", "require", "__sandbox", "__makeHost", "std", "os"])
        seen[name] = typeof globalThis[name];
      return { json: seen };
    }
  }
}
"#;

struct House {
    running: Running,
    owner: Client,
    model: ModelServer,
    home: Home,
}

impl House {
    /// Apps alpha and beta, each with the plugin `p` that was allowed everything, and a model server that says "hello"
    /// once it is let.
    fn open(withheld: bool) -> Self {
        let model = ModelServer::start(move |_, out| {
            out.begin();
            if !withheld || out.gate() {
                out.delta("hel");
                out.delta("lo");
                out.done();
            }
        });
        let home = Home::new(PROGRAM);
        home.configure("worker_idle_seconds = 1\n");
        let running = home.serve();
        let owner = running.set_up();
        running.connect(&owner, &model.url(), None);
        for id in ["alpha", "beta"] {
            let app = AppFolder::new(home.folder(), id).plugin("p", &["routes", "llm", "store"], CODE);
            running.add(app.path(), id);
        }
        House {
            running,
            owner,
            model,
            home,
        }
    }

    fn page(&self, app: &str) -> Client {
        self.running.page(&self.owner, app)
    }

    fn post(&self, path: &str) -> Reply {
        self.owner.post(&format!("/v1/apps/alpha{path}"), &json!({}))
    }

    fn workspace(&self) -> PathBuf {
        let accounts = std::fs::read_dir(self.home.path().join("accounts")).unwrap();
        accounts.flatten().next().unwrap().path().join("workspace/apps")
    }

    fn plugin(&self, app: &str) -> Value {
        let listed = self.owner.get(&format!("/v1/apps/{app}/plugins")).ok();
        listed["plugins"][0].clone()
    }

    fn state(&self, app: &str, capability: &str) -> String {
        let plugin = self.plugin(app);
        let permissions = plugin["permissions"].as_array().unwrap();
        let found = permissions.iter().find(|p| p["capability"] == capability);
        found.map_or("none", |p| p["state"].as_str().unwrap()).to_owned()
    }

    fn approve(&self, app: &str, body: &Value) -> Reply {
        self.owner.post(&format!("/v1/plugins/{app}__p/approve"), body)
    }

    fn workers(&self) -> Vec<u32> {
        process::workers(self.running.pid())
    }

    /// Calls beta's plugin over and over until told to stop; gives how often and the longest time.
    fn neighbour(&self) -> Neighbour {
        let page = self.page("beta");
        page.get("/v1/apps/beta/quick").ok();
        let stop = Arc::new(AtomicBool::new(false));
        let (told, (tell, times)) = (stop.clone(), mpsc::channel());
        std::thread::spawn(move || {
            while !told.load(Ordering::SeqCst) {
                let began = Instant::now();
                let reply = page.get("/v1/apps/beta/quick");
                if tell.send((began.elapsed(), reply.status)).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Neighbour { stop, times }
    }
}

struct Neighbour {
    stop: Arc<AtomicBool>,
    times: mpsc::Receiver<(Duration, u16)>,
}

impl Neighbour {
    fn must_have_been_well(self, during: &str) {
        self.stop.store(true, Ordering::SeqCst);
        let mut times = Vec::new();
        for (took, status) in self.times {
            assert_eq!(status, 200, "beta's plugin, {during}");
            times.push(took);
        }
        times.sort();
        assert!(times.len() > 3, "{} calls {during}", times.len());
        let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
        eprintln!(
            "beta's plugin {during}: {} calls, median {median:?}, longest {longest:?}",
            times.len()
        );
        // The looping one takes a whole core, and others build on this machine at the same time.
        assert!(longest < Duration::from_secs(2), "{during}: {longest:?}");
        assert!(median < Duration::from_millis(250), "{during}: {median:?}");
    }
}

/// What a plugin call that failed says, to whom it may concern.
fn failed(reply: &Reply) -> String {
    let text = reply.error(500);
    assert_eq!(reply.code(), "plugin", "{text}");
    assert!(text.contains("plugin p"), "it names the plugin: {text}");
    text
}

/// Contract section 12, guest; the failures list's row 2.
#[test]
fn what_a_plugin_does_wrong_costs_its_own_call() {
    let house = House::open(true);
    let engine = house.running.pid();
    // Once for the threads and buffers that stay for good; what is measured is what further failures leave.
    let neighbour = house.neighbour();
    failed(&house.post("/fill"));
    neighbour.must_have_been_well("while alpha's first filled its memory");
    wait_for("the idle workers to be ended", || {
        house.workers().is_empty().then_some(())
    });
    let (descriptors, memory) = (process::descriptors(engine), process::anonymous_memory(engine));

    for (path, want) in [
        ("/loop", "ran longer"),
        ("/regex", "ran longer"),
        ("/fill", "ran out of memory"),
    ] {
        let neighbour = house.neighbour();
        let began = Instant::now();
        let text = failed(&house.post(path));
        let took = began.elapsed();
        assert!(text.contains(want), "{path}: {text}");
        eprintln!("{path}: {took:?}: {text}");
        assert!(took < Duration::from_secs(11), "{path} took {took:?}");
        neighbour.must_have_been_well(&format!("while alpha's was in {path}"));
        house.post("/quick").ok();
    }
    let text = failed(&house.post("/throw"));
    assert!(text.contains("on purpose"), "{text}");

    // Killed from outside while it waits for the model. A write is not asked twice.
    wait_for("the idle workers to be ended", || {
        house.workers().is_empty().then_some(())
    });
    let neighbour = house.neighbour();
    let neighbours = house.workers();
    let (caller, waiting) = (house.owner.clone(), mpsc::channel());
    let tell = waiting.0;
    std::thread::spawn(move || tell.send(caller.post("/v1/apps/alpha/ask", &json!({}))));
    wait_for("the model to be asked", || {
        let asked = house.model.seen().iter().filter(|s| s.method == "POST").count();
        (asked == 1).then_some(())
    });
    // alpha's worker is the one that was not there before; beta's goes on.
    let mut ours = house.workers();
    ours.retain(|pid| !neighbours.contains(pid));
    assert_eq!(ours.len(), 1, "{neighbours:?}");
    let began = Instant::now();
    process::signal(ours[0], libc::SIGKILL);
    let reply = waiting.1.recv_timeout(testkit::PATIENCE).unwrap();
    let text = failed(&reply);
    assert!(text.contains("ended unexpectedly"), "{text}");
    eprintln!("kill -9: {:?}: {text}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    wait_for("the model request of the dead plugin to be cancelled", || {
        (house.model.closed() == 1).then_some(())
    });
    neighbour.must_have_been_well("while alpha's was killed");
    house.post("/quick").ok();

    let activity = house.owner.get("/v1/activity?kind=error&app=alpha").ok();
    let lines = activity["entries"].as_array().unwrap();
    assert_eq!(lines.len(), 6, "{activity}");
    assert!(
        lines.iter().all(|l| l["detail"].as_str().unwrap().contains("plugin p")),
        "{activity}"
    );

    wait_for("every worker to be gone", || house.workers().is_empty().then_some(()));
    wait_for("every descriptor to be closed", || {
        (process::descriptors(engine) <= descriptors).then_some(())
    });
    let after = process::anonymous_memory(engine);
    eprintln!(
        "private memory of the engine: {} KiB before, {} KiB after",
        memory >> 10,
        after >> 10
    );
    assert!(after < memory + (32 << 20), "{memory} before, {after} after");
    let left: Vec<u32> = process::tree(engine).into_iter().filter(|pid| *pid != engine).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// A read whose worker was killed under it is asked once more, and the caller sees nothing of it.
#[test]
fn a_read_is_asked_again_when_its_worker_died() {
    let house = House::open(true);
    let (caller, (tell, waiting)) = (house.owner.clone(), mpsc::channel());
    std::thread::spawn(move || tell.send(caller.get("/v1/apps/alpha/ask")));
    let asked = |n: usize| {
        let posts = house.model.seen().iter().filter(|s| s.method == "POST").count();
        (posts == n).then_some(())
    };
    wait_for("the model to be asked", || asked(1));
    for pid in house.workers() {
        process::signal(pid, libc::SIGKILL);
    }
    wait_for("the model to be asked again", || asked(2));
    house.model.release();
    let reply = waiting.recv_timeout(testkit::PATIENCE).unwrap();
    assert_eq!(reply.ok()["text"], "hello");
}

/// Contract section 3.3.
#[test]
fn the_two_phase_protocol() {
    let house = House::open(false);
    let queued = house.post("/queued").ok();
    assert_eq!(queued, json!({"text": "hello", "stash": {"kept": 7}}));
    let once = house.post("/queued-only").ok();
    assert_eq!(
        once["seen"]["text"], "hello",
        "a queued request makes a pass pending by itself"
    );
    assert_eq!(house.post("/passes").ok(), json!({"passes": 3}));
    let asked = |house: &House| house.model.seen().iter().filter(|s| s.method == "POST").count();
    // One request for /queued; /queued-only queues in each pass, and what the last one queues is not run.
    assert_eq!(asked(&house), 3);
    let text = failed(&house.post("/many"));
    assert!(text.contains("at most 16 requests per pass"), "{text}");
    assert_eq!(asked(&house), 3, "nothing of it was sent");
    assert_eq!(house.post("/ask").ok()["text"], "hello");
    let streamed = house.post("/stream").ok();
    assert_eq!(
        (&streamed["text"], &streamed["result"]["text"]),
        (&json!("hello"), &json!("hello"))
    );
    assert_eq!(
        house.post("/unknown").error(404),
        "No plugin of this app answers POST /unknown."
    );
}

/// Failures list, rows 6 and 49: each capability × each way to ask for it.
#[test]
fn regress_49_what_was_not_granted_is_refused_in_every_form() {
    let house = House::open(false);
    let hash = house.plugin("alpha")["hash"].clone();
    let granted = |capabilities: &[&str]| {
        house
            .approve("alpha", &json!({"head": hash, "capabilities": capabilities}))
            .ok();
    };
    let calls: &[(&str, &str, &str)] = &[
        // One message for `generate` and `stream`, so one name.
        ("llm", "/ask", "llm"),
        ("llm", "/stream", "llm"),
        ("store", "/put", "store.put"),
        ("store", "/get", "store.get"),
        ("store", "/delete", "store.delete"),
    ];
    let refusals = || -> Vec<Value> {
        let activity = house.owner.get("/v1/activity?kind=refusal&limit=1000").ok();
        activity["entries"].as_array().unwrap().clone()
    };
    for capabilities in [&["routes"][..], &["routes", "llm"], &["routes", "store"]] {
        granted(capabilities);
        house.model.forget();
        for (capability, path, method) in calls {
            let reply = house.post(path);
            if capabilities.contains(capability) {
                reply.ok();
                continue;
            }
            let text = failed(&reply);
            let want = format!("host.{method} needs the permission \"{capability}\"");
            assert!(text.contains(&want), "{capabilities:?} {path}: {text}");
            let line = refusals()
                .into_iter()
                .find(|line| line["target"] == format!("host.{method}").as_str());
            let line = line.unwrap_or_else(|| panic!("{method} is not in the activity log"));
            assert_eq!(
                (&line["app"], &line["outcome"]),
                (&json!("alpha"), &json!("refused")),
                "{line}"
            );
        }
        // The queued form: dropped, never executed, and no result that could be taken for one.
        if !capabilities.contains(&"llm") {
            assert_eq!(house.post("/queued-only").ok()["seen"], Value::Null);
            let posts = house.model.seen().iter().filter(|s| s.method == "POST").count();
            assert_eq!(posts, 0, "{capabilities:?}");
        }
    }
    // Without `routes` none of its code runs, whatever else it may.
    granted(&["llm", "store"]);
    let reply = house.post("/quick");
    assert!(reply.error(403).contains("nobody has allowed it"), "{}", reply.text());
    assert_eq!(reply.code(), "permission");
    assert!(
        house
            .approve("alpha", &json!({"head": hash, "capabilities": ["network"]}))
            .error(400)
            .contains("does not ask")
    );
    granted(&["routes"]);
    let seen = house.post("/everything").ok();
    assert!(
        seen.as_object().unwrap().values().all(|kind| kind == "undefined"),
        "{seen}"
    );
}

/// A grant is for the very bytes it was given for; nothing in the workspace makes it more.
#[test]
fn changed_code_runs_with_nothing() {
    let house = House::open(false);
    let file = house.workspace().join("alpha/plugins/p/plugin.js");
    let manifest = house.workspace().join("alpha/plugins/p/manifest.json");
    house.post("/ask").ok();
    let seen = house.plugin("alpha")["hash"].as_str().unwrap().to_owned();
    let (code, claims) = (
        std::fs::read_to_string(&file).unwrap(),
        std::fs::read_to_string(&manifest).unwrap(),
    );

    let nothing = |why: &str| {
        for path in ["/quick", "/ask", "/get"] {
            let reply = house.post(path);
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (403, "permission"),
                "{why}: {path} {}",
                reply.text()
            );
        }
        let page = house.page("alpha").post("/v1/apps/alpha/quick", &json!({}));
        assert_eq!(
            (page.status, page.code().as_str()),
            (403, "permission"),
            "{why}, for its page"
        );
    };

    std::fs::write(&file, code.replace("ok: true", "ok: 1")).unwrap();
    nothing("the code was changed");
    assert_eq!(house.state("alpha", "llm"), "stale");
    // What was looked at is not what would be allowed.
    let reply = house.approve("alpha", &json!({"head": seen}));
    assert!(
        reply.error(409).contains("changed since it was shown"),
        "{}",
        reply.text()
    );
    assert_eq!(house.approve("alpha", &json!({"head": "0".repeat(64)})).status, 409);
    assert_eq!(house.approve("alpha", &json!({"head": "short"})).status, 400);
    assert!(house.approve("alpha", &json!({})).status >= 400);
    nothing("wrong hashes were approved");
    let now = house.plugin("alpha")["hash"].clone();
    house.approve("alpha", &json!({"head": now})).ok();
    assert_eq!(house.post("/quick").ok(), json!({"ok": 1}));
    assert_eq!(house.state("alpha", "llm"), "granted");

    // Back to what was once allowed: that was replaced, so it is not allowed any more.
    std::fs::write(&file, &code).unwrap();
    nothing("an earlier version came back");
    house.approve("alpha", &json!({"head": seen})).ok();
    house.post("/ask").ok();

    let mut without_origin: Value = serde_json::from_str(&claims).unwrap();
    assert!(without_origin.as_object_mut().unwrap().remove("origin").is_some());
    for (why, text) in [
        (
            "a permission was added",
            claims.replace("\"llm\"", "\"llm\",\"network\""),
        ),
        ("origin was taken out", without_origin.to_string()),
        ("origin says local", claims.replace("imported", "local")),
        ("a field was added", claims.replacen('{', "{\"priority\": 3,", 1)),
    ] {
        assert_ne!(text, claims, "{why}");
        std::fs::write(&manifest, text).unwrap();
        nothing(why);
        assert_eq!(house.state("alpha", "llm"), "stale", "{why}");
        let launch = house.owner.get("/v1/launch").ok();
        let alpha = launch["apps"]
            .as_array()
            .unwrap()
            .iter()
            .find(|a| a["id"] == "alpha")
            .unwrap();
        assert!(
            alpha["waiting"].as_u64().unwrap() >= 3,
            "{why}: the launcher says that it waits: {alpha}"
        );
    }
    assert_eq!(
        house.state("alpha", "network"),
        "none",
        "it is not asked for in the last of them"
    );
    std::fs::write(&manifest, &claims).unwrap();
    house.post("/ask").ok();

    // A copy of an allowed app is another app, a renamed plugin another plugin.
    copy(&house.workspace().join("alpha"), &house.workspace().join("gamma"));
    let reply = house.owner.post("/v1/apps/gamma/quick", &json!({}));
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (403, "permission"),
        "a copy: {}",
        reply.text()
    );
    assert_eq!(house.state("gamma", "llm"), "asked");
    let plugins = house.workspace().join("alpha/plugins");
    std::fs::rename(plugins.join("p"), plugins.join("q")).unwrap();
    nothing("the plugin's folder was renamed");
    std::fs::rename(plugins.join("q"), plugins.join("p")).unwrap();
    std::fs::rename(house.workspace().join("alpha"), house.workspace().join("delta")).unwrap();
    let reply = house.owner.post("/v1/apps/delta/quick", &json!({}));
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (403, "permission"),
        "a renamed app: {}",
        reply.text()
    );
    std::fs::rename(house.workspace().join("delta"), house.workspace().join("alpha")).unwrap();
    house.post("/quick").ok();

    // Removed and added again without saying yes, under the same name and with the same bytes.
    let folder = house.home.folder().join("alpha");
    assert_eq!(house.owner.send("DELETE", "/v1/apps/alpha", &json!({})).status, 204);
    let mut import = json!({"folder": folder, "id": "alpha"});
    let preview = house.running.command_line().post("/v1/apps/import", &import).ok();
    import["confirm"] = true.into();
    import["head"] = preview["head"].clone();
    import["grant"] = false.into();
    house.running.command_line().post("/v1/apps/import", &import).ok();
    nothing("it was added again without permission");
    assert_eq!(house.state("alpha", "llm"), "asked");
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    for path in testkit::folders::files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(path, target).unwrap();
    }
}

/// Twenty calls that wait for a slow model hold up nothing else of the same plugin.
#[test]
fn waiting_calls_block_no_other() {
    let house = House::open(true);
    let (tell, answers) = mpsc::channel();
    for n in 0..20 {
        let (page, tell) = (house.page("alpha"), tell.clone());
        std::thread::spawn(move || tell.send(page.post("/v1/apps/alpha/ask", &json!({"text": format!("call {n}")}))));
    }
    wait_for("all twenty to wait for the model", || {
        let asked = house.model.seen().iter().filter(|s| s.method == "POST").count();
        (asked == 20).then_some(())
    });
    let page = house.page("alpha");
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let began = Instant::now();
            page.get("/v1/apps/alpha/quick").ok();
            began.elapsed()
        })
        .collect();
    times.sort();
    eprintln!(
        "a quick route while twenty wait: median {:?}, longest {:?}, {} workers",
        times[10],
        times[19],
        house.workers().len()
    );
    assert!(times[19] < Duration::from_secs(2), "{times:?}");
    house.model.release();
    for _ in 0..20 {
        let reply = answers.recv_timeout(testkit::PATIENCE).unwrap();
        assert_eq!(reply.ok()["text"], "hello");
    }
}

/// Who caused a model request can be followed from the page to the connection.
#[test]
fn the_chain_of_a_request_is_written_down() {
    let house = House::open(false);
    house.page("alpha").post("/v1/apps/alpha/ask", &json!({})).ok();
    let entries = |kind: &str| {
        let activity = house.owner.get(&format!("/v1/activity?kind={kind}")).ok();
        activity["entries"].as_array().unwrap().clone()
    };
    let model = entries("model").remove(0);
    let chain = model["chain"].as_str().unwrap();
    assert!(
        chain.contains("app:alpha") && chain.contains("plugin:alpha/p"),
        "{model}"
    );
    assert!(chain.find("app:alpha") < chain.find("plugin:alpha/p"), "{model}");
    assert_eq!((&model["app"], &model["outcome"]), (&json!("alpha"), &json!("done")));
    let posts = entries("connection")
        .into_iter()
        .filter(|c| c["target"].as_str().unwrap().starts_with("POST"));
    let connection = posts.collect::<Vec<_>>().remove(0);
    assert_eq!(
        (&connection["trace"], &connection["chain"]),
        (&model["trace"], &model["chain"]),
        "{connection}"
    );
    assert_eq!(connection["trace"].as_str().unwrap().len(), 32, "{connection}");
    // The guest cannot say who it is.
    house
        .owner
        .post(
            "/v1/apps/alpha/ask",
            &json!({"trace": "0".repeat(32), "chain": "owner"}),
        )
        .ok();
    let second = entries("model").remove(0);
    assert_ne!(second["trace"], model["trace"]);
    assert!(second["chain"].as_str().unwrap().contains("plugin:alpha/p"), "{second}");
}

/// Code that is swapped back and forth between looking, allowing and running: what runs is what was looked at, or nothing.
#[test]
fn swapped_code_never_runs() {
    let house = House::open(false);
    let folder = house.workspace().join("alpha/plugins/p");
    let good = house.plugin("alpha")["hash"].clone();
    let code = std::fs::read_to_string(folder.join("plugin.js")).unwrap();
    // As long as the other, so that no length gives it away.
    let evil = code.replace("ok: true", "ok: 6666");
    assert_eq!(evil.len(), code.len());
    let stop = AtomicBool::new(false);
    let (mut ran, mut refused, mut allowed) = (0, 0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let text = if n % 2 == 0 { &evil } else { &code };
                if n % 4 < 2 {
                    // As an editor does, and as one that wants to be seen half written.
                    std::fs::write(folder.join("new"), text).unwrap();
                    std::fs::rename(folder.join("new"), folder.join("plugin.js")).unwrap();
                } else {
                    std::fs::write(folder.join("plugin.js"), text).unwrap();
                }
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let page = house.page("alpha");
            for n in 0..600 {
                if n % 10 == 0 {
                    match house.approve("alpha", &json!({"head": good})).status {
                        200 => allowed += 1,
                        status => assert!(matches!(status, 404 | 409), "{status}"),
                    }
                }
                let reply = page.post("/v1/apps/alpha/quick", &json!({}));
                match reply.status {
                    200 => {
                        assert_eq!(reply.json(), json!({"ok": true}), "code that nobody allowed ran");
                        ran += 1;
                    }
                    403 | 500 => refused += 1,
                    status => panic!("{status} {}", reply.text()),
                }
            }
        }));
        stop.store(true, Ordering::SeqCst);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
    eprintln!("{ran} calls ran the allowed code, {refused} nothing; {allowed} of 60 approvals met it");
    assert!(
        ran > 10 && refused > 10,
        "the swapping was not seen: {ran} ran, {refused} were refused"
    );
}
