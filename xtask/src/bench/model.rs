//! The bench's model server: an OpenAI chat-completions stream whose tokens come as fast as they are taken, or one every
//! few milliseconds with the time they were sent. What the page measured comes back as a prompt. The words of the prompt
//! that choose: `LATENCY`, `PACE` (50 tokens a second for 10 seconds), `HOLD` (one token, and then the connection stays
//! open until the client closes it), `WHEN` (when that was), `FAST n` (n tokens).

use std::fmt::Write as _;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::http;

/// Tokens of the speed run: two seconds at the goal of 10,000 per second.
const FAST: usize = 20_000;
/// Tokens of the latency run, so that the 99th percentile rests on three of them.
const SLOW: usize = 320;
const PAUSE: Duration = Duration::from_millis(10);
/// Tokens of a stream of usual speed, and the pause between two.
const PACED: u32 = 500;
const PACE: Duration = Duration::from_millis(20);
/// When the last held connection was closed, in microseconds since the Unix epoch.
static CLOSED: AtomicU64 = AtomicU64::new(0);

pub struct Model {
    pub at: SocketAddr,
    /// The `REPORT … END` prompts, without those two words.
    pub reports: Receiver<String>,
}

impl Model {
    pub fn start() -> Result<Model, String> {
        let fail = |e: std::io::Error| format!("the bench's model server cannot listen: {e}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(fail)?;
        let at = listener.local_addr().map_err(fail)?;
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let sender = sender.clone();
                // A client that goes away ends its own thread only.
                std::thread::spawn(move || serve(socket, &sender));
            }
        });
        Ok(Model { at, reports })
    }
}

fn serve(socket: TcpStream, reports: &Sender<String>) -> std::io::Result<()> {
    let mut out = socket.try_clone()?;
    out.set_nodelay(true)?;
    let mut socket = BufReader::new(socket);
    let (head, body) = http::read(&mut socket)?;
    if head.starts_with("GET") {
        let list = "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\"}]}";
        return write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{list}",
            list.len()
        );
    }
    out.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")?;
    if let Some(report) = body.split("REPORT ").nth(1).and_then(|rest| rest.split(" END").next()) {
        let _ = reports.send(report.to_string());
        out.write_all(token("ok").as_bytes())?;
    } else if body.contains("LATENCY") {
        for _ in 0..SLOW {
            std::thread::sleep(PAUSE);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            out.write_all(token(&format!("{:.3} ", now.as_secs_f64() * 1000.0)).as_bytes())?;
        }
    } else if body.contains("PACE") {
        let began = Instant::now();
        for number in 1..=PACED {
            out.write_all(token("tok ").as_bytes())?;
            std::thread::sleep((PACE * number).saturating_sub(began.elapsed()));
        }
    } else if body.contains("HOLD") {
        out.write_all(token("held").as_bytes())?;
        // Nothing more is sent, so this ends when the client closes.
        let _ = socket.read(&mut [0; 64]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        CLOSED.store(u64::try_from(now.as_micros()).unwrap_or(0), Ordering::SeqCst);
        return Ok(());
    } else if body.contains("WHEN") {
        out.write_all(token(&CLOSED.load(Ordering::SeqCst).to_string()).as_bytes())?;
    } else {
        // A hundred tokens to a write, each in its own event: the reader is to be measured, not this loop.
        let mut batch = String::new();
        let asked = body
            .split("FAST ")
            .nth(1)
            .map(|rest| rest.split('"').next().unwrap_or_default());
        let tokens = asked.and_then(|count| count.trim().parse().ok()).unwrap_or(FAST);
        for number in 0..tokens {
            let _ = write!(batch, "{}", token("tok "));
            if number % 100 == 99 {
                out.write_all(batch.as_bytes())?;
                batch.clear();
            }
        }
    }
    out.write_all(b"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

fn token(text: &str) -> String {
    format!(
        "data: {{\"object\":\"chat.completion.chunk\",\"model\":\"bench\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n"
    )
}
