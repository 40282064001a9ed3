//! Plugins that are reached from their own model calls, and many calls that wait for a slow model, on the built program:
//! nothing waits for itself, nobody waits for anybody else, and what ends one call ends no other.
//!
//! How deep a chain can get at all is in `src-tauri/crates/apps/tests/reentry.rs`.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Out, Reply, Running, Seen, process, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// Its route asks a model; before the model hears of it, its hook asks a model; the model uses its tool, which asks a
/// model; and while the model thinks, its route is called.
const CODE: &str = r#"
const tool = { name: "knot", description: "d", parameters: { type: "object", properties: { n: { type: "number" } } } };
const ask = (text, more) => ({ messages: [{ role: "user", content: text }], ...more });
export async function handleRoute(req, host) {
  switch (req.path) {
    case "/quick": return { json: { ok: true } };
    case "/reached": return { json: { times: await host.store.update("times", (n) => (n ?? 0) + 1) } };
    case "/knot": return { json: await host.llm.generate(ask(`route ${req.body.n}`, { tools: [tool] })) };
    case "/passes": {
      const done = host.llm.results.a;
      if (!done) { host.llm.request("a", ask(`route ${req.body.n}`, { tools: [tool] })); return { __llmPending: true }; }
      return { json: done };
    }
    case "/wait": return { json: await host.llm.generate(ask(`wait ${req.body.n}`)) };
  }
}
export async function llmRequest(ctx, host) {
  const [who, n] = ctx.request.messages[0].content.split(" ");
  if (who === "wait") return;
  const answer = await host.llm.generate(ask(`hook ${n}`));
  return { systemPrompt: answer.text };
}
export async function llmResponse(ctx, host) {
  return { text: `${ctx.result.text}!` };
}
export async function handleTool(name, args, host) {
  const answer = await host.llm.generate(ask(`tool ${args.n}`, { tools: [tool], wantsTools: true }));
  return { text: `${name} ${args.n}: ${answer.text}` };
}
"#;

struct House {
    running: Running,
    owner: Client,
    model: ModelServer,
    _home: Home,
}

impl House {
    /// Apps alpha, beta and gamma, each with the plugin above. The model calls alpha's route if it is to.
    fn open(config: &str, reaches: bool) -> Self {
        let route: Arc<OnceLock<Client>> = Arc::default();
        let reached = route.clone();
        let model = ModelServer::start(move |seen, out| answer(seen, out, &reached));
        let home = Home::new(PROGRAM);
        home.configure(config);
        let running = home.serve();
        let owner = running.set_up();
        running.connect(&owner, &model.url(), None);
        for id in ["alpha", "beta", "gamma"] {
            let may = ["routes", "llm", "store", "tools", "hooks"];
            let app = AppFolder::new(home.folder(), id).plugin("p", &may, CODE);
            running.add(app.path(), id);
        }
        if reaches {
            route.set(running.page(&owner, "alpha")).expect("set once");
        }
        House {
            running,
            owner,
            model,
            _home: home,
        }
    }

    fn post(&self, app: &str, path: &str, n: usize) -> Reply {
        self.owner.post(&format!("/v1/apps/{app}{path}"), &json!({"n": n}))
    }

    /// Calls in the background; who listens gets the number and the answer.
    fn begin(&self, app: &str, path: &str, n: usize, tell: &mpsc::Sender<(usize, Reply)>) {
        let (owner, tell) = (self.owner.clone(), tell.clone());
        let target = format!("/v1/apps/{app}{path}");
        std::thread::spawn(move || {
            if let Ok(reply) = owner.ask("POST", &target, &[], json!({"n": n}).to_string().as_bytes()) {
                let _ = tell.send((n, reply));
            }
        });
    }

    /// Model requests that say this, so far.
    fn asked(&self, what: &str) -> usize {
        self.model.seen().iter().filter(|seen| word(seen).0 == what).count()
    }

    /// Workers that were alive at once at most, from now on.
    fn watch(&self) -> Watch {
        let (stop, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, count, engine) = (stop.clone(), most.clone(), self.running.pid());
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::SeqCst) {
                count.fetch_max(process::workers(engine).len(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Watch { stop, most, thread }
    }
}

struct Watch {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: std::thread::JoinHandle<()>,
}

impl Watch {
    fn most(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        self.most.load(Ordering::SeqCst)
    }
}

/// What a model request is about: the first words of the person in it.
fn word(seen: &Seen) -> (String, usize) {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let user = messages.iter().find(|message| message["role"] == "user");
    let text = user
        .and_then(|message| message["content"].as_str())
        .unwrap_or_default()
        .to_owned();
    let (what, n) = text.split_once(' ').unwrap_or((&text, "0"));
    (what.to_owned(), n.parse().unwrap_or_default())
}

/// The model. What is not as it must be, it says.
fn answer(seen: &Seen, out: &mut Out, route: &OnceLock<Client>) {
    let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let (what, n) = word(seen);
    let tools = body["tools"].as_array().map_or(0, Vec::len);
    out.begin();
    match what.as_str() {
        "route" if tools != 1 || messages[0] != json!({"role": "system", "content": format!("said hook {n}")}) => {
            out.delta(&format!("wrong: {body}"));
        }
        "route" if messages.last().is_some_and(|last| last["role"] == "tool") => {
            let said = messages.last().and_then(|last| last["content"].as_str()).unwrap_or("?");
            out.delta(&format!("then {said}"));
        }
        "route" => {
            // The model's call of the plugin's route.
            let reached = route.get().map(|page| page.post("/v1/apps/alpha/reached", &json!({})));
            if let Some(refused) = reached.filter(|reply| reply.status != 200) {
                out.delta(&format!("wrong: {}", refused.text()));
            } else {
                let function = json!({"name": "knot", "arguments": json!({"n": n}).to_string()});
                let call = json!({"index": 0, "id": format!("c{n}"), "type": "function", "function": function});
                let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
                let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
                return out.raw(&format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n"));
            }
        }
        "wait" if !out.gate() => return,
        _ if tools > 0 => {
            out.delta(&format!("wrong, tools: {body}"));
        }
        _ => {
            out.delta(&format!("said {what} {n}"));
        }
    }
    out.done();
}

/// What the plugin's answer says when all went its way.
fn knotted(n: usize) -> Value {
    format!("then knot {n}: said tool {n}!").into()
}

/// One of a kind, with the lines it leaves.
#[test]
fn a_plugin_is_reached_from_its_own_model_call_in_every_way() {
    let house = House::open("", true);
    for (n, path) in [(1, "/knot"), (2, "/passes")] {
        assert_eq!(house.post("alpha", path, n).ok()["text"], knotted(n), "{path}");
        let times = house.post("alpha", "/reached", 0).ok();
        // Once by the model, and once just now, each time.
        assert_eq!(times["times"], 2 * n, "{path}");
    }
    let lines = house.owner.get("/v1/activity?app=alpha&limit=1000").ok();
    let lines = lines["entries"].as_array().unwrap().clone();
    let of = |kind: &str| -> Vec<&Value> { lines.iter().filter(|line| line["kind"] == kind).collect() };
    let tools = of("tool");
    assert_eq!(tools.len(), 2, "{tools:?}");
    for tool in tools {
        let chain = "plugin:alpha/p > plugin:alpha/p";
        assert!(tool["chain"].as_str().unwrap().ends_with(chain), "{tool}");
        assert_eq!((&tool["target"], &tool["outcome"]), (&json!("knot"), &json!("done")));
        // All that came of one call has its trace: the requests of the route, of its hook and of its tool, and the
        // connections for them, two of which were for the route.
        let same = |kind: &str| -> Vec<&Value> {
            let found = of(kind).into_iter().filter(|line| line["trace"] == tool["trace"]);
            found
                .filter(|line| line["outcome"] == "done" || kind != "connection")
                .collect()
        };
        let mut models: Vec<&str> = same("model")
            .iter()
            .map(|line| line["chain"].as_str().unwrap())
            .collect();
        models.sort();
        assert_eq!(models.len(), 3, "{models:?}");
        assert!(!models[0].ends_with(chain), "the route's: {models:?}");
        assert!(models[1].ends_with(chain) && models[2].ends_with(chain), "{models:?}");
        let posts = same("connection")
            .iter()
            .filter(|line| line["target"].as_str().unwrap().starts_with("POST"))
            .count();
        assert_eq!(posts, 4, "{:?}", same("connection"));
    }
    assert_eq!(of("model").len(), 6, "no line without one of the two traces");
    assert!(of("error").is_empty() && of("refusal").is_empty(), "{lines:?}");
}

/// Each of the twenty has up to three calls of one plugin inside one another, with few and with many processes for them.
/// That the model also calls the plugin's route, from outside, takes a process beside those of the calls that wait for it:
/// with few, a plugin has none to spare.
#[test]
fn twenty_at_once_that_each_wait_for_themselves_do_not_deadlock() {
    for workers in [4, 8, 32] {
        let house = House::open(&format!("max_workers = {workers}\n"), workers == 32);
        let watch = house.watch();
        let (tell, answers) = mpsc::channel();
        let began = Instant::now();
        for n in 0..20 {
            house.begin("alpha", if n % 2 == 0 { "/knot" } else { "/passes" }, n, &tell);
        }
        let mut came = HashSet::new();
        for _ in 0..20 {
            let (n, reply) = answers.recv_timeout(testkit::PATIENCE * 2).expect("an answer");
            assert_eq!(reply.ok()["text"], knotted(n), "{workers} workers");
            came.insert(n);
        }
        assert_eq!(came.len(), 20);
        let reached = if workers == 32 { 21 } else { 1 };
        assert_eq!(house.post("alpha", "/reached", 0).ok()["times"], reached);
        let most = watch.most();
        eprintln!("{workers} workers: {:?}, {most} alive at most", began.elapsed());
        assert!(most <= workers, "{most} of {workers}");
    }
}

/// Ten calls of a quick route, one after another.
fn quick(house: &House, app: &str, during: &str) {
    let times: Vec<Duration> = (0..10)
        .map(|_| {
            let began = Instant::now();
            house.owner.get(&format!("/v1/apps/{app}/quick")).ok();
            began.elapsed()
        })
        .collect();
    let longest = times.iter().max().unwrap();
    eprintln!("{app}'s quick route {during}: {longest:?} at most");
    // Far from the thirty seconds after which a call gives up, and far from nothing: others build on this machine.
    assert!(*longest < Duration::from_secs(3), "{app}, {during}: {times:?}");
}

/// `at_once`: how many of the twenty can be under way with so many workers.
fn slow_model(workers: usize, at_once: usize) {
    let during = format!("while {at_once} calls wait, {workers} workers");
    let house = House::open(&format!("max_workers = {workers}\nworker_idle_seconds = 1\n"), false);
    let watch = house.watch();
    let (tell, answers) = mpsc::channel();
    for n in 0..20 {
        house.begin("alpha", "/wait", n, &tell);
    }
    wait_for("the model to be asked", || {
        (house.asked("wait") >= at_once).then_some(())
    });
    let waiting = wait_for(
        "each waiting call to have a process of its own, and no other to be left",
        || Some(process::workers(house.running.pid())).filter(|workers| workers.len() == at_once),
    );
    quick(&house, "beta", &during);
    if at_once == 20 {
        quick(&house, "alpha", &during);
    }

    // Another app's call waits too, and is stopped: that one and no other.
    let (tell_other, other) = mpsc::channel();
    house.begin("gamma", "/wait", 100, &tell_other);
    wait_for("gamma's to wait", || (house.asked("wait") > at_once).then_some(()));
    let stopped = house.owner.post("/v1/activity/gamma/stop", &json!({})).ok();
    assert_eq!(stopped["calls"], 1, "{stopped}");
    let (_, reply) = other.recv_timeout(testkit::PATIENCE).expect("gamma's answer");
    let text = reply.error(500);
    assert!(text.contains("stopped"), "{text}");
    wait_for("its request to be ended", || (house.model.closed() == 1).then_some(()));

    // One process is killed: one call fails, and with few workers the next one of those that wait gets its turn.
    process::signal(waiting[0], libc::SIGKILL);
    let (killed, reply) = answers
        .recv_timeout(testkit::PATIENCE)
        .expect("the killed one's answer");
    let text = reply.error(500);
    assert!(text.contains("ended unexpectedly"), "{text}");
    wait_for("its request to be ended", || (house.model.closed() == 2).then_some(()));
    if at_once < 20 {
        let next = at_once + 2;
        wait_for("the next one", || (house.asked("wait") == next).then_some(()));
    }
    quick(&house, "beta", &during);
    assert!(answers.try_recv().is_err(), "nobody else was answered");
    assert_eq!(house.model.closed(), 2, "nobody else's request was ended");

    house.model.release();
    let mut came = HashSet::from([killed]);
    for _ in 0..19 {
        let (n, reply) = answers.recv_timeout(testkit::PATIENCE).expect("an answer");
        assert_eq!(reply.ok()["text"], format!("said wait {n}!"), "{workers} workers");
        came.insert(n);
    }
    assert_eq!(came.len(), 20);
    let most = watch.most();
    assert!(most <= workers, "{most} of {workers}");
    let engine = house.running.pid();
    wait_for("every worker to be gone", || {
        process::workers(engine).is_empty().then_some(())
    });
}

#[test]
fn twenty_calls_wait_for_a_slow_model() {
    slow_model(32, 20);
}

#[test]
fn twenty_calls_wait_for_a_slow_model_with_eight_workers() {
    slow_model(8, 2);
}

#[test]
fn twenty_calls_wait_for_a_slow_model_with_four_workers() {
    slow_model(4, 1);
}

/// Whoever calls as often as they can gets most of the places and never all.
#[test]
fn sixty_calls_that_wait_leave_other_apps_their_places() {
    let house = House::open("", false);
    let (tell, answers) = mpsc::channel();
    for n in 0..60 {
        house.begin("alpha", "/wait", n, &tell);
    }
    wait_for("as many as may be to wait", || {
        (house.asked("wait") >= 21).then_some(())
    });
    for _ in 0..3 {
        quick(&house, "beta", "while 60 calls wait");
        quick(&house, "gamma", "while 60 calls wait");
    }
    assert_eq!(house.asked("wait"), 21, "the others of the sixty wait their turn");
    house.model.release();
    for _ in 0..60 {
        let (n, reply) = answers.recv_timeout(testkit::PATIENCE).expect("an answer");
        assert_eq!(reply.ok()["text"], format!("said wait {n}!"));
    }
}
