//! `kill -9`, fifty times, while an answer streams and while plugins and pages write to their stores: the database opens,
//! nothing that was confirmed is missing, and of the answer at most its last half second is.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Running, process, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
const TIMES: usize = 50;
/// What may be missing of an answer.
const LOST: Duration = Duration::from_millis(500);

const LEDGER: &str = r#"
export function handleRoute(req, host) {
  if (req.method === "POST") { host.store.put(req.body.key, req.body.value); return { json: { ok: true } }; }
  const all = {};
  for (const key of host.store.keys()) all[key] = host.store.get(key);
  return { json: all };
}
"#;

/// What was confirmed by an answer with 2xx, and so must be there for ever.
#[derive(Default)]
struct Confirmed {
    plugin: BTreeMap<String, Value>,
    page: BTreeMap<String, Value>,
    writes: usize,
}

#[test]
fn regress_46_fifty_kills_lose_nothing_confirmed() {
    let model = ModelServer::start(|_, out| {
        out.begin();
        for n in 0.. {
            if !out.delta(&format!("{n} ")) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    let home = Home::new(PROGRAM);
    let mut running = home.serve();
    let owner = running.set_up();
    running.connect(&owner, &model.url(), None);
    running.add_from_box(&owner, "chat");
    let ledger = AppFolder::new(home.folder(), "ledger").plugin("p", &["routes", "store"], LEDGER);
    running.add(ledger.path(), "ledger");
    let cookie = owner.headers.last().unwrap().1.clone();
    let confirmed = Mutex::new(Confirmed::default());
    let (mut writes, mut longest) = (0, Duration::ZERO);

    for round in 0..TIMES {
        let owner = running.nobody().with("Cookie", &cookie);
        let page = running.page(&owner, "chat");
        let begun = page.post("/v1/apps/chat/conversations", &json!({})).ok();
        let id = begun["conversation"]["id"].as_str().unwrap().to_owned();
        let chat = format!("{id}:1:r{round}");
        model.forget();
        let stop = AtomicBool::new(false);
        let killed_at = std::thread::scope(|scope| {
            let (sender, target) = (page.clone(), format!("/v1/apps/chat/conversations/{id}/send"));
            let question = json!({"text": format!("question {round}"), "chatId": chat});
            scope.spawn(move || sender.ask("POST", &target, &[], question.to_string().as_bytes()));
            let ledger = running.page(&owner, "ledger");
            for writer in 0..2 {
                let (ledger, stop, confirmed) = (ledger.clone(), &stop, &confirmed);
                scope.spawn(move || write(&ledger, writer, round, stop, confirmed));
            }
            wait_for("the answer to begin", || (!model.sent().is_empty()).then_some(()));
            // From the first words to well into the second round of saving, a little later each time.
            std::thread::sleep(Duration::from_millis(20 + (round as u64 * 37) % 900));
            let workers = process::workers(running.pid());
            let now = Instant::now();
            running.kill();
            stop.store(true, Ordering::SeqCst);
            wait_for("the killed engine's workers to end", || {
                workers.iter().all(|pid| !process::runs(*pid)).then_some(())
            });
            now
        });

        running = home.serve();
        assert_no_damage(&home, &running);
        let owner = running.nobody().with("Cookie", &cookie);
        writes = check(&running, &owner, &confirmed);
        // What was under way is not shown as if it still were.
        let activity = owner.get("/v1/activity?kind=model&limit=1").ok();
        assert_eq!(
            activity["entries"][0]["outcome"], "interrupted",
            "round {round}: {activity}"
        );
        let all = owner.get("/v1/activity?limit=1000").ok().to_string();
        assert!(
            !all.contains("\"running\"") && !all.contains("\"connecting\""),
            "round {round}: {all}"
        );

        // What the person sees: as the page does when it finds that nobody writes this answer any more.
        let page = running.page(&owner, "chat");
        assert_eq!(page.get(&format!("/v1/apps/chat/__streams/{chat}")).status, 404);
        let opened = page.get(&format!("/v1/apps/chat/conversations/{id}?lost={chat}")).ok();
        let messages = opened["messages"].as_array().unwrap();
        assert_eq!(messages[0]["text"], format!("question {round}"), "{opened}");
        let answer = &messages[1];
        assert_eq!(answer["state"], "interrupted", "round {round}: {answer}");
        let kept = answer["text"].as_str().unwrap();
        let sent = model.sent();
        let whole: String = sent.iter().map(|(_, text)| text.as_str()).collect();
        assert!(whole.starts_with(kept), "round {round}: kept {kept:?} of {whole:?}");
        let due: String = sent
            .iter()
            .take_while(|(at, _)| *at + LOST <= killed_at)
            .map(|(_, text)| text.as_str())
            .collect();
        assert!(
            kept.len() >= due.len(),
            "round {round}: {} bytes are kept, {} were sent more than {LOST:?} before the kill",
            kept.len(),
            due.len()
        );
        let missing = sent.iter().scan(0, |end, (at, text)| {
            *end += text.len();
            Some((*at, *end))
        });
        let first = missing
            .filter(|(at, end)| *end > kept.len() && *at < killed_at)
            .map(|(at, _)| killed_at - at)
            .next();
        longest = longest.max(first.unwrap_or_default());
    }
    eprintln!(
        "{TIMES} kills; {writes} confirmed writes are there; the oldest text that was lost had been sent {longest:?} before"
    );
    assert!(writes > TIMES * 4, "the writers hardly wrote: {writes}");
    running.stop();
}

/// Writes until the engine is gone, noting what was confirmed.
fn write(page: &Client, writer: usize, round: usize, stop: &AtomicBool, confirmed: &Mutex<Confirmed>) {
    for n in 0.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        // A few keys again and again, so that writes replace each other too.
        let (key, value) = (format!("w{writer}k{}", n % 5), format!("round {round} write {n}"));
        let (target, body) = if writer == 0 {
            ("/v1/apps/ledger/put", json!({"key": key, "value": value}))
        } else {
            (
                "/v1/apps/ledger/__storage",
                json!({"which": "local", "op": "set", "key": key, "value": value}),
            )
        };
        let note = |change: &dyn Fn(&Value) -> Value| {
            let mut all = confirmed.lock().unwrap();
            let map = if writer == 0 { &mut all.plugin } else { &mut all.page };
            let value = change(map.get(&key).unwrap_or(&Value::Null));
            map.insert(key.clone(), value);
        };
        // Not confirmed yet, but it may be done: until the answer is here, either value is right.
        note(&|before| json!([before, value]));
        match page.ask("POST", target, &[], body.to_string().as_bytes()) {
            Ok(reply) if (200..300).contains(&reply.status) => {
                note(&|_| value.clone().into());
                confirmed.lock().unwrap().writes += 1;
            }
            Ok(reply) => panic!("{} {}", reply.status, reply.text()),
            Err(_) => return,
        }
    }
}

/// Everything confirmed is there; gives how many writes that were.
fn check(running: &Running, owner: &Client, confirmed: &Mutex<Confirmed>) -> usize {
    let page = running.page(owner, "ledger");
    let plugin = page.get("/v1/apps/ledger/all").ok();
    let local = page.get("/v1/apps/ledger/__storage").ok()["local"].clone();
    let mut all = confirmed.lock().unwrap();
    let Confirmed {
        plugin: wanted,
        page: wanted_local,
        writes,
    } = &mut *all;
    for (found, wanted) in [(plugin, wanted), (local, wanted_local)] {
        for (key, want) in wanted {
            let there = &found[key];
            match want.as_array() {
                // Under way when it was killed: the old value or the new one, and from now on what it is.
                Some(pair) => assert!(pair.contains(there), "{key}: {there} is neither of {pair:?}"),
                None => assert_eq!(there, want, "{key}"),
            }
            *want = there.clone();
        }
    }
    *writes
}

fn assert_no_damage(home: &Home, running: &Running) {
    let names: Vec<String> = std::fs::read_dir(home.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let aside: Vec<_> = names
        .iter()
        .filter(|name| name.contains("damaged") || name.contains("broken"))
        .collect();
    assert!(aside.is_empty(), "set aside: {names:?}");
    assert!(!running.said().contains("damaged"), "{}", running.said());
    assert!(running.setup.is_none(), "the owner is gone");
}
