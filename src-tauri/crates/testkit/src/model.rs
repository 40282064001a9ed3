//! A model server that does what a test says, byte by byte, and remembers what it was asked.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::PATIENCE;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// All of it as text, to look for what must not be there.
    pub fn whole(&self) -> String {
        format!("{self:?}")
    }
}

/// The answering side of one connection.
pub struct Out {
    stream: TcpStream,
    sent: Arc<Mutex<Vec<(Instant, String)>>>,
    gate: Arc<Gate>,
    /// The answer is whole; who closes the connection now cuts nothing off.
    whole: bool,
}

/// What withheld answers wait for.
#[derive(Default)]
struct Gate {
    open: Mutex<usize>,
    changed: Condvar,
}

/// A model server on a free port of 127.0.0.1, for as long as the program that made it runs.
pub struct ModelServer {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    sent: Arc<Mutex<Vec<(Instant, String)>>>,
    gate: Arc<Gate>,
    closed: Arc<AtomicUsize>,
}

impl ModelServer {
    /// `answer` is called for each request but those for the model list, in a thread of its own. The pages of particular
    /// programs, by which they are told apart, it does not have.
    pub fn start(answer: impl Fn(&Seen, &mut Out) + Send + Sync + 'static) -> Self {
        Self::everything(move |seen, out| {
            if seen.method == "GET" && seen.target.ends_with("/models") {
                out.json(
                    200,
                    &json!({"object": "list", "data": [{"id": "m", "object": "model"}]}),
                );
            } else if seen.method == "GET" {
                out.answer(404, "text/plain", "there is no such page");
            } else {
                answer(seen, out);
            }
        })
    }

    /// As [`ModelServer::start`], with requests for the model list too.
    pub fn everything(answer: impl Fn(&Seen, &mut Out) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let server = Self {
            port: listener.local_addr().expect("an address").port(),
            seen: Arc::default(),
            sent: Arc::default(),
            gate: Arc::default(),
            closed: Arc::default(),
        };
        let (seen, sent, gate, closed) = (
            server.seen.clone(),
            server.sent.clone(),
            server.gate.clone(),
            server.closed.clone(),
        );
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer, closed) = (seen.clone(), answer.clone(), closed.clone());
                let mut out = Out {
                    stream,
                    sent: sent.clone(),
                    gate: gate.clone(),
                    whole: false,
                };
                std::thread::spawn(move || {
                    let Some(request) = read(&out.stream) else { return };
                    seen.lock().expect("no panic in here").push(request.clone());
                    answer(&request, &mut out);
                    if !out.whole && out.gone() {
                        closed.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        server
    }

    /// One that streams these pieces and ends well.
    pub fn saying(pieces: &'static [&'static str]) -> Self {
        Self::start(move |_, out| {
            out.begin();
            for piece in pieces {
                out.delta(piece);
            }
            out.done();
        })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic in here").clone()
    }

    pub fn forget(&self) {
        self.seen.lock().expect("no panic in here").clear();
        self.sent.lock().expect("no panic in here").clear();
    }

    /// Every piece of text sent by [`Out::delta`], with the moment it was handed to the kernel.
    pub fn sent(&self) -> Vec<(Instant, String)> {
        self.sent.lock().expect("no panic in here").clone()
    }

    /// Connections that the client closed while they were being answered.
    pub fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    /// Lets everyone who waits at [`Out::gate`] go on, and all who come later.
    pub fn release(&self) {
        *self.gate.open.lock().expect("no panic in here") += 1;
        self.gate.changed.notify_all();
    }
}

impl Out {
    pub fn raw(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }

    /// A whole answer that is not a stream.
    pub fn answer(&mut self, status: u16, kind: &str, body: &str) {
        self.raw(&format!(
            "HTTP/1.1 {status} Scripted\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        ));
        self.whole = true;
    }

    pub fn json(&mut self, status: u16, body: &Value) {
        self.answer(status, "application/json", &body.to_string());
    }

    pub fn redirect(&mut self, to: &str) {
        self.raw(&format!(
            "HTTP/1.1 307 Scripted\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        ));
        self.whole = true;
    }

    /// The head of a stream, which lasts until the connection ends.
    pub fn begin(&mut self) {
        self.raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
    }

    /// A piece of the answer's text. `false` when nobody listens any more.
    pub fn delta(&mut self, text: &str) -> bool {
        let chunk = json!({"id": "r1", "model": "m", "choices": [{"index": 0, "delta": {"content": text}}]});
        let ok = self.stream.write_all(format!("data: {chunk}\n\n").as_bytes()).is_ok();
        if ok {
            let line = (Instant::now(), text.to_owned());
            self.sent.lock().expect("no panic in here").push(line);
        }
        ok
    }

    /// The proper end of a stream.
    pub fn done(&mut self) {
        let last = json!({"id": "r1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        self.raw(&format!("data: {last}\n\ndata: [DONE]\n\n"));
        self.whole = true;
    }

    /// Waits for [`ModelServer::release`], or until the client is gone; `false` then.
    pub fn gate(&mut self) -> bool {
        let began = Instant::now();
        let mut open = self.gate.open.lock().expect("no panic in here");
        while *open == 0 {
            let wait = self.gate.changed.wait_timeout(open, Duration::from_millis(20));
            open = wait.expect("no panic in here").0;
            if *open == 0 && (gone(&self.stream) || began.elapsed() > PATIENCE * 4) {
                return false;
            }
        }
        true
    }

    /// Whether the client closed the connection.
    pub fn gone(&self) -> bool {
        gone(&self.stream)
    }
}

fn gone(stream: &TcpStream) -> bool {
    let _ = stream.set_nonblocking(true);
    let gone = match stream.peek(&mut [0]) {
        Ok(n) => n == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    let _ = stream.set_nonblocking(false);
    gone
}

fn read(stream: &TcpStream) -> Option<Seen> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut reader = BufReader::new(stream);
    let mut line = || {
        let mut line = String::new();
        (reader.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.and_then(|(_, v)| v.parse().ok()).unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Seen {
        method,
        target,
        headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}
