//! A walk with a canary key: where it must arrive, and everywhere it must not be.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use engine::{Engine, Keychain, Options};
use serde_json::{Value, json};
use testkit::folders::{files, holds};
use testkit::{Client, Home, ModelServer, Out, Reply, Running, Seen, process, wait_for};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// A key no one else has. Looked for is what follows `sk-`, so that a key that was cut short is found too.
pub fn canary() -> (String, String) {
    let secret = policy::random_hex(20);
    (format!("sk-{secret}"), secret)
}

/// What the model server does next.
#[derive(Clone, Copy)]
pub enum Mode {
    Answer,
    Withhold,
    /// 401 whose message quotes the key.
    Refuse,
    /// An error object that quotes it in a 200.
    ErrorInside,
    /// A web page with it.
    Html,
    /// A stream that breaks off with it in an error event.
    BreakOff,
    /// To another server, with the key in the address.
    Redirect,
}
pub const MODES: [Mode; 7] = [
    Mode::Answer,
    Mode::Withhold,
    Mode::Refuse,
    Mode::ErrorInside,
    Mode::Html,
    Mode::BreakOff,
    Mode::Redirect,
];

pub fn answer(mode: Mode, elsewhere: &str, seen: &Seen, out: &mut Out) {
    let key = seen.header("authorization").trim_start_matches("Bearer ").to_owned();
    match mode {
        Mode::Answer | Mode::Withhold if seen.method == "GET" => out.json(200, &json!({"data": [{"id": "m"}]})),
        Mode::Answer | Mode::Withhold => {
            out.begin();
            out.delta("fine");
            if matches!(mode, Mode::Answer) || out.gate() {
                out.done();
            }
        }
        Mode::Refuse => out.json(
            401,
            &json!({"error": {"message": format!("Incorrect API key provided: {key}."), "code": key, "type": key}}),
        ),
        Mode::ErrorInside => out.json(
            200,
            &json!({"error": {"message": format!("the key {key} is over its limit")}}),
        ),
        Mode::Html => out.answer(
            200,
            "text/html",
            &format!("<html><title>{key}</title>Bearer {key}</html>"),
        ),
        Mode::BreakOff => {
            out.begin();
            out.delta("so far");
            out.raw(&format!(
                "data: {}\n\n",
                json!({"error": {"message": format!("revoked: {key}")}})
            ));
            out.raw(&format!("data: {key} and rubbish"));
        }
        Mode::Redirect if seen.method == "GET" => out.redirect(&format!("{elsewhere}/{key}")),
        Mode::Redirect => out.redirect(&format!("{elsewhere}?key={key}#{key}")),
    }
}

/// Where an answer came from, and its bytes.
pub type Answers = Vec<(String, Vec<u8>)>;

pub struct Walk {
    pub home: Home,
    pub running: Running,
    pub owner: Client,
    pub page: Client,
    pub model: ModelServer,
    pub elsewhere: ModelServer,
    pub mode: Arc<AtomicU8>,
    pub connection: String,
    pub key: String,
    pub secret: String,
    /// Of the file of keys, where there is one. To be found nowhere at all.
    pub passphrase: String,
    /// The one file that may hold the key in clear: a server's, which says so.
    pub clear: Option<PathBuf>,
    /// Every answer to anyone, whole.
    pub answers: Arc<Mutex<Answers>>,
}

impl Walk {
    pub fn start(home: Home, command: Command, kept: &str) -> Self {
        let elsewhere = ModelServer::saying(&["stolen"]);
        let (mode, to) = (Arc::new(AtomicU8::new(0)), format!("{}/models", elsewhere.url()));
        let now = mode.clone();
        let model = ModelServer::everything(move |seen, out| {
            answer(MODES[usize::from(now.load(Ordering::SeqCst))], &to, seen, out);
        });
        // The most talkative log there is.
        let clear = (kept == "file").then(|| home.folder().join("keys.txt"));
        let file = clear
            .as_ref()
            .map(|path| format!("[keys]\nfile = \"{}\"\n", path.display()));
        home.configure(&format!("log_level = \"trace\"\n{}", file.unwrap_or_default()));
        let running = home.start(command);
        let owner = running.set_up();
        running.add_from_box(&owner, "chat");
        let page = running.page(&owner, "chat");
        let (key, secret) = canary();
        let mut walk = Walk {
            home,
            running,
            owner,
            page,
            model,
            elsewhere,
            mode,
            connection: String::new(),
            key,
            secret,
            passphrase: format!("passphrase-{}", policy::random_hex(20)),
            clear,
            answers: Arc::default(),
        };
        walk.listen_to_events();
        if kept == "encrypted" {
            let choice = json!({"store": "encrypted", "passphrase": walk.passphrase});
            let reply = walk.owner.send("PUT", "/v1/settings/keys", &choice);
            let state = walk.note("choosing", reply).ok();
            assert_eq!(
                (&state["store"], &state["encrypted"]["unlocked"]),
                (&json!("encrypted"), &json!(true))
            );
        }
        walk.save(kept);
        walk
    }

    pub fn note(&self, what: &str, reply: Reply) -> Reply {
        let mut bytes = reply.body.clone();
        for (name, value) in &reply.headers {
            bytes.extend_from_slice(format!("{name}: {value}\n").as_bytes());
        }
        self.answers.lock().unwrap().push((what.to_owned(), bytes));
        reply
    }

    pub fn listen_to_events(&self) {
        for client in [&self.owner, &self.page] {
            let (mut events, answers) = (client.listen("/v1/events"), self.answers.clone());
            assert_eq!(events.event().unwrap()["type"], "hello");
            std::thread::spawn(move || {
                while let Some(event) = events.event() {
                    answers
                        .lock()
                        .unwrap()
                        .push(("an event".into(), event.to_string().into_bytes()));
                }
            });
        }
    }

    pub fn save(&mut self, kept: &str) {
        let body = json!({"name": "canary", "baseUrl": self.model.url(), "key": self.key});
        let reply = self.note("saving", self.owner.post("/v1/settings/connections", &body));
        let added = reply.ok();
        let connection = &added["connection"];
        assert_eq!(
            (&connection["hasKey"], &connection["keyKept"]),
            (&json!(true), &json!(kept)),
            "{added}"
        );
        let notice = added["notice"].as_str().unwrap_or_default();
        assert_eq!(notice.contains("kept until Chrysalis ends"), kept == "run", "{added}");
        self.connection = connection["id"].as_str().unwrap().to_owned();
    }

    pub fn set(&self, mode: usize) {
        self.mode.store(u8::try_from(mode).unwrap(), Ordering::SeqCst);
    }

    /// Asks for the models anew.
    pub fn list(&self) -> Value {
        let reply = self.owner.get("/v1/models?fresh=1");
        self.note("models", reply).ok()
    }

    /// A question in a new conversation, with all that the page hears of it.
    pub fn chat(&self) -> Value {
        let begun = self.page.post("/v1/apps/chat/conversations", &json!({})).ok();
        let id = begun["conversation"]["id"].as_str().unwrap();
        let chat = format!("{id}:1:x");
        let body = json!({"text": "hi", "chatId": chat, "model": format!("{}/m", self.connection)});
        let sent = self.page.post(&format!("/v1/apps/chat/conversations/{id}/send"), &body);
        let answer = self.note("the answer", sent).ok()["message"].clone();
        self.note("the stream", self.page.get(&format!("/v1/apps/chat/__streams/{chat}")));
        self.note(
            "the conversation",
            self.page.get(&format!("/v1/apps/chat/conversations/{id}")),
        );
        answer
    }

    /// The key went to the model server's Authorization header, and to no other place of any request.
    pub fn arrived_where_it_should(&self) {
        let seen = self.model.seen();
        assert!(!seen.is_empty());
        for request in &seen {
            assert_eq!(
                request.header("authorization"),
                format!("Bearer {}", self.key),
                "{request:?}"
            );
            let times = request.whole().matches(&self.secret).count();
            assert_eq!(times, 1, "once, in that header: {request:?}");
        }
        assert!(self.elsewhere.seen().is_empty(), "{:?}", self.elsewhere.seen());
    }

    /// No route, page or file of the launcher gives it away.
    pub fn every_answer(&self) {
        let conversations = self.page.get("/v1/apps/chat/conversations").ok();
        let conversation = conversations["conversations"][0]["id"].as_str().unwrap().to_owned();
        let routes = get_routes();
        assert!(routes.len() > 15, "{routes:?}");
        for pattern in routes {
            let target = pattern
                .replace("{app}", "chat")
                .replace("{chat}", &format!("{conversation}:1:x"))
                .replace("{*rest}", &format!("conversations/{conversation}"))
                .replace("{id}", &self.connection);
            if target == "/v1/events" {
                continue; // Listened to from the beginning.
            }
            for client in [
                &self.owner,
                &self.page,
                &self.running.command_line(),
                &self.running.nobody(),
            ] {
                self.note(&target, client.get(&target));
            }
        }
        let token = self.page.headers.last().unwrap().1.clone();
        for target in [
            "/".to_owned(),
            "/index.html".to_owned(),
            format!("/frame/{token}/"),
            format!("/frame/{token}/__chrysalis/bridge.js"),
            format!("/frame/{token}/v1/settings/connections"),
            format!("/frame/{token}/v1/models"),
        ] {
            let reply = self.note(&target, self.running.nobody().get(&target));
            let page = reply.text();
            for at in page.match_indices("src=\"").map(|(at, found)| at + found.len()) {
                let file = page[at..].split('"').next().unwrap();
                let file = if file.starts_with('/') {
                    file.to_owned()
                } else {
                    format!("{target}{file}")
                };
                self.note(&file, self.running.nobody().get(&file));
            }
        }
        let answers = self.answers.lock().unwrap();
        for (what, bytes) in answers.iter() {
            for hidden in [&self.secret, &self.passphrase] {
                assert!(
                    !holds(bytes, hidden.as_bytes()),
                    "{what}: {}",
                    String::from_utf8_lossy(bytes)
                );
            }
        }
        eprintln!("{} answers and events looked through", answers.len());
    }

    pub fn every_file(&self) {
        let found = files(self.home.folder());
        let names: BTreeSet<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        for must in ["chrysalis.db", "chrysalis.db-wal", "config.toml"] {
            assert!(names.contains(must), "{must} was not looked into: {names:?}");
        }
        let log = found.iter().filter(|path| path.extension().is_some_and(|e| e == "log"));
        let log: u64 = log.map(|path| path.metadata().unwrap().len()).sum();
        assert!(log > 500, "the log has {log} bytes");
        self.no_file_holds_it();
        let said = self.running.said();
        assert!(
            !said.contains(&self.secret) && !said.contains(&self.passphrase),
            "it was printed"
        );
        eprintln!("{} files looked through, {log} bytes of log", found.len());
    }

    pub fn no_file_holds_it(&self) {
        for path in files(self.home.folder()) {
            let bytes = std::fs::read(&path).unwrap();
            assert!(
                !holds(&bytes, self.passphrase.as_bytes()),
                "{}: the passphrase",
                path.display()
            );
            let found = holds(&bytes, self.secret.as_bytes());
            if Some(&path) == self.clear.as_ref() {
                assert!(found, "a server's file does not have the key");
                let mode = path.metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o7777, 0o600, "{}", path.display());
                continue;
            }
            assert!(!found, "{} holds the key", path.display());
        }
    }

    /// While a plugin waits for the model with this very key.
    pub fn every_process(&self) {
        let engine = self.running.pid();
        let workers = process::workers(engine);
        assert!(!workers.is_empty());
        for pid in &workers {
            // What must be there shows that what must not be there would have been found.
            let (code, bytes) = match process::memory_holds(*pid, b"no-conversation") {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    eprintln!("skipped: only root may read the memory of a worker ({error})");
                    break;
                }
                read => read.expect("a worker's memory"),
            };
            assert!(code > 0, "its plugin's own code was not found in {bytes} bytes");
            let (found, bytes) = process::memory_holds(*pid, self.secret.as_bytes()).unwrap();
            assert_eq!(found, 0, "in the memory of a worker");
            eprintln!("{} KiB of a worker's memory looked through", bytes >> 10);
        }
        let (found, _) = process::memory_holds(engine, self.secret.as_bytes()).unwrap();
        assert!(
            found > 0,
            "the engine itself must have it, or this search finds nothing"
        );
        for pid in process::tree(engine) {
            for part in ["environ", "cmdline", "comm"] {
                let bytes = std::fs::read(format!("/proc/{pid}/{part}")).unwrap_or_default();
                for hidden in [&self.secret, &self.passphrase] {
                    assert!(
                        !holds(&bytes, hidden.as_bytes()),
                        "{part} of {}",
                        process::command_line(pid)
                    );
                }
            }
            let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
            let core = limits
                .lines()
                .find(|line| line.starts_with("Max core file size"))
                .unwrap();
            let core: Vec<_> = core.split_whitespace().skip(4).take(2).collect();
            assert_eq!(core, ["0", "0"], "{}", process::command_line(pid));
            let filter = std::fs::read_to_string(format!("/proc/{pid}/coredump_filter")).unwrap();
            assert_eq!(filter.trim(), "00000000", "{}", process::command_line(pid));
        }
    }

    /// The main walk: used, quoted back, redirected, and looked for everywhere.
    pub fn walk(&self) {
        let models = self.list();
        assert_eq!(models["errors"], json!([]), "{models}");
        assert_eq!(self.chat()["state"], "done");
        for (at, mode) in MODES.iter().enumerate() {
            if matches!(mode, Mode::Answer | Mode::Withhold) {
                continue;
            }
            self.set(at);
            let errors = self.list()["errors"].to_string();
            let answer = self.chat();
            if !matches!(mode, Mode::BreakOff) {
                assert!(errors.contains("error"), "{errors}");
            }
            let error = answer["error"].as_str().unwrap_or_default();
            assert!(!error.is_empty() && answer["state"] == "error", "{answer}");
            eprintln!("{error}");
        }
        self.set(1);
        std::thread::scope(|scope| {
            let chat = scope.spawn(|| self.chat());
            wait_for("the model to be asked", || {
                (!self.model.sent().is_empty() && !process::workers(self.running.pid()).is_empty()).then_some(())
            });
            self.every_process();
            self.model.release();
            assert_eq!(chat.join().unwrap()["state"], "done");
        });
        self.set(0);
        self.arrived_where_it_should();
        self.every_answer();
        self.every_file();
    }

    /// Failures list, row 15: another address is another key, and the old one is forgotten for good.
    pub fn regress_15_a_changed_address_forgets_it(&self, kept: &str) {
        let target = format!("/v1/settings/connections/{}", self.connection);
        let own = self.model.url();
        let other = self.elsewhere.url();
        for address in [
            other.clone(),
            own.replace("127.0.0.1", "localhost"),
            own.replace("http:", "https:"),
        ] {
            let saved = self
                .owner
                .send("PUT", &format!("{target}/key"), &json!({"key": self.key}))
                .ok();
            assert_eq!(saved["connection"]["keyKept"], kept, "{saved}");
            self.model.forget();
            let changed = self
                .note("patch", self.owner.send("PATCH", &target, &json!({"baseUrl": address})))
                .ok();
            assert_eq!(changed["connection"]["hasKey"], false, "{address}: {changed}");
            assert!(
                changed["notice"].as_str().unwrap().contains("key was forgotten"),
                "{changed}"
            );
            self.list();
            self.chat();
            for back in [&own, &own.replace("/v1", "/v2")] {
                let changed = self.owner.send("PATCH", &target, &json!({"baseUrl": back})).ok();
                assert_eq!(
                    changed["connection"]["hasKey"], false,
                    "it came back with {back}: {changed}"
                );
                self.list();
            }
            self.owner.send("PATCH", &target, &json!({"baseUrl": own})).ok();
            let seen = [self.model.seen(), self.elsewhere.seen()].concat();
            assert!(!seen.is_empty());
            for request in seen {
                assert!(!request.whole().contains(&self.secret), "{address}: {request:?}");
            }
        }
        // A new path at the same origin keeps what is bound to scheme, host and port, or forgets it: never sends it on.
        self.owner
            .send("PUT", &format!("{target}/key"), &json!({"key": self.key}))
            .ok();
        assert_eq!(
            self.owner.send("DELETE", &format!("{target}/key"), &json!({})).ok()["connection"]["hasKey"],
            false
        );
        self.model.forget();
        self.list();
        assert!(
            self.model
                .seen()
                .iter()
                .all(|request| request.header("authorization").is_empty())
        );
    }

    /// It dies with all its memory, and leaves no dump of it.
    pub fn no_core(mut self) {
        process::signal(self.running.pid(), libc::SIGABRT);
        let engine = self.running.pid();
        wait_for("the engine to die", || (!process::runs(engine)).then_some(()));
        self.running.kill();
        for path in files(self.home.folder()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(!name.starts_with("core"), "{} was dumped", path.display());
        }
        self.no_file_holds_it();
    }
}

/// The patterns of every `GET` route, from the program's own table.
pub fn get_routes() -> Vec<&'static str> {
    if engine::access_table().is_empty() {
        let home = Home::new(PROGRAM);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let options = Options {
                home: home.path(),
                worker: env!("CARGO_BIN_EXE_chrysalis-worker").into(),
                keychain: Keychain::None,
            };
            Engine::open(options).await.unwrap().shutdown().await;
        });
    }
    let table = engine::access_table().iter();
    table
        .filter(|line| matches!(line.method, "GET" | "*"))
        .map(|line| line.pattern)
        .collect()
}
