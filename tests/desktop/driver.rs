//! The launcher's page, through WebKit's own WebDriver. Only what the tests need of the protocol, over plain HTTP.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Client, PATIENCE};

/// `call(method, path, body)`: a `/v1` call through the launcher's own command, gathered into status and JSON.
pub const CALL: &str = r#"
    const call = (method, path, body) => new Promise((done) => {
        const { invoke, transformCallback } = __TAURI_INTERNALS__;
        let status = 0, text = "", next = 0;
        const held = new Map();
        const take = (piece) => {
            if (piece.t === "head") status = piece.status;
            else if (piece.t === "chunk") {
                text += new TextDecoder().decode(Uint8Array.from(atob(piece.b64), (c) => c.charCodeAt(0)));
            } else {
                let json = null;
                try { json = JSON.parse(text); } catch {}
                done({ status, body: json, error: piece.message ?? null });
            }
        };
        // Tauri numbers the messages of a channel, since large ones take another way than small ones.
        const onChunk = transformCallback((raw) => {
            if ("end" in raw) return;
            held.set(raw.index, raw.message);
            while (held.has(next)) { const piece = held.get(next); held.delete(next++); take(piece); }
        });
        invoke("call", {
            id: Math.floor(Math.random() * 2 ** 50), method, path,
            headers: body === null ? [] : [["content-type", "application/json"]],
            body: body === null ? null : JSON.stringify(body), onChunk: `__CHANNEL__:${onChunk}`,
        }).catch((error) => done({ status: 0, body: null, error: String(error) }));
    });
"#;

const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// One session.
pub struct Driver {
    client: Client,
    session: String,
}

/// An element of the page.
pub struct Element<'a> {
    driver: &'a Driver,
    id: String,
}

impl Driver {
    pub fn at(port: u16) -> Driver {
        let mut client = Client::nobody(port);
        client.headers.clear();
        Driver {
            client,
            session: String::new(),
        }
    }

    /// Starts a program whose webviews let themselves be driven. Questions of its pages are answered with yes.
    pub fn begin(&mut self, program: &Path, args: &[String]) {
        let options = json!({"binary": program, "args": args});
        let wanted = json!({"webkitgtk:browserOptions": options, "unhandledPromptBehavior": "accept"});
        let answer = self
            .client
            .post("/session", &json!({"capabilities": {"alwaysMatch": wanted}}));
        let session = answer.json()["value"]["sessionId"].as_str().map(str::to_owned);
        self.session = session.unwrap_or_else(|| panic!("no session: {} {}", answer.status, answer.text()));
        self.tell(
            "POST",
            "/timeouts",
            &json!({"script": 60_000, "pageLoad": 60_000, "implicit": 0}),
        );
    }

    /// Goes to an address.
    pub fn go(&self, url: &str) -> Result<Value, String> {
        self.ask("POST", "/url", &json!({"url": url}))
    }

    /// Ends the program.
    pub fn end(&self) {
        let _ = self.ask("DELETE", "", &Value::Null);
    }

    /// As [`Driver::run`]; `Err` when the page cannot be asked just now.
    pub fn try_run(&self, script: &str, arguments: &[Value]) -> Result<Value, String> {
        self.ask("POST", "/execute/sync", &json!({"script": script, "args": arguments}))
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let path = format!("/session/{}{path}", self.session);
        let reply = if body.is_null() {
            self.client.ask(method, &path, &[], b"")
        } else {
            self.client.ask(method, &path, &[], body.to_string().as_bytes())
        };
        let reply = reply.map_err(|error| format!("{path}: {error}"))?;
        let value = reply.json()["value"].clone();
        if reply.status == 200 {
            Ok(value)
        } else {
            Err(format!("{path}: {} {}", value["error"], value["message"]))
        }
    }

    #[track_caller]
    fn tell(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(method, path, body).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The body of a function with `arguments`.
    #[track_caller]
    pub fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.try_run(script, arguments)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`Driver::run`], for a function whose last argument is to be called with the result.
    #[track_caller]
    pub fn run_async(&self, script: &str, arguments: &[Value]) -> Value {
        self.tell("POST", "/execute/async", &json!({"script": script, "args": arguments}))
    }

    #[track_caller]
    pub fn until(&self, what: &str, done: impl Fn(&Driver) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(
                began.elapsed() < PATIENCE,
                "waited in vain for {what}; shown: {}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// All text of the page.
    pub fn text(&self) -> String {
        let text = self.run("return document.body.innerText", &[]);
        text.as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn until_shown(&self, text: &str) {
        self.until(&format!("the text {text:?}"), |page| page.text().contains(text));
    }

    /// The first visible element of an XPath, waited for.
    #[track_caller]
    pub fn find(&self, path: &str) -> Element<'_> {
        let began = Instant::now();
        loop {
            if let Some(found) = self.all(path).into_iter().find(Element::visible) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "there is no {path}; shown: {}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn all(&self, path: &str) -> Vec<Element<'_>> {
        let found = self.ask("POST", "/elements", &json!({"using": "xpath", "value": path}));
        let found = found.unwrap_or_default();
        let ids = found.as_array().into_iter().flatten();
        ids.filter_map(|id| {
            let id = id[ELEMENT].as_str()?.to_owned();
            Some(Element { driver: self, id })
        })
        .collect()
    }

    /// A button by its whole text, or the beginning of it.
    #[track_caller]
    pub fn button(&self, text: &str) -> Element<'_> {
        self.find(&format!("//button[starts-with(normalize-space(.), '{text}')]"))
    }

    /// An input by its label.
    #[track_caller]
    pub fn field(&self, label: &str) -> Element<'_> {
        self.find(&format!("//*[@id = //label[normalize-space(.) = '{label}']/@for]"))
    }

    /// Whether an XPath finds something visible now.
    pub fn shows(&self, path: &str) -> bool {
        self.all(path).iter().any(Element::visible)
    }
}

impl Element<'_> {
    fn path(&self, rest: &str) -> String {
        format!("/element/{}{rest}", self.id)
    }

    fn visible(&self) -> bool {
        let shown = self.driver.ask("GET", &self.path("/displayed"), &Value::Null);
        shown.is_ok_and(|shown| shown == true)
    }

    #[track_caller]
    pub fn click(&self) {
        self.driver.tell("POST", &self.path("/click"), &json!({}));
    }

    /// Real key events.
    #[track_caller]
    pub fn keys(&self, text: &str) {
        self.driver.tell("POST", &self.path("/value"), &json!({"text": text}));
    }

    #[track_caller]
    pub fn clear(&self) {
        self.driver.tell("POST", &self.path("/clear"), &json!({}));
    }
}
