//! Model servers that say exactly the bytes they are told to, in exactly these pieces.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use net::{Attempt, ConnectionLog, End, Net};
use parking_lot::Mutex;
use policy::{CallContext, Caller};
use providers::{Endpoint, GenerateRequest};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use url::Url;

pub const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct Lines(pub Mutex<Vec<String>>);

impl ConnectionLog for Lines {
    fn connecting(&self, attempt: &Attempt) -> Result<i64, String> {
        self.0.lock().push(format!("{attempt:?}"));
        Ok(0)
    }
    fn finished(&self, _: i64, end: &End) {
        self.0.lock().push(format!("{end:?}"));
    }
    fn refused(&self, attempt: &Attempt, why: &str) {
        self.0.lock().push(format!("{attempt:?} {why}"));
    }
}

pub fn net() -> Net {
    Net::new(Arc::new(Lines::default()))
}

pub fn context() -> CallContext {
    CallContext::root(&Caller::Nobody)
}

pub fn request() -> GenerateRequest {
    serde_json::from_value(json!({"model": "c_test/m", "messages": [{"role": "user", "content": "hi"}]})).unwrap()
}

/// What a server does with a connection: what it sends, and whether it then holds the connection open.
#[derive(Clone)]
pub struct Reply {
    pub pieces: Vec<Vec<u8>>,
    pub hold: bool,
}

pub fn reply(status: &str, kind: &str, body: impl AsRef<[u8]>) -> Reply {
    let body = body.as_ref();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    Reply {
        pieces: vec![head.into_bytes(), body.to_vec()],
        hold: false,
    }
}

pub fn json_reply(status: &str, body: Value) -> Reply {
    reply(status, "application/json", body.to_string())
}

/// A stream that ends when the connection closes, which is a proper end in HTTP/1.
pub fn events(body: &str) -> Reply {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    Reply {
        pieces: vec![head.into(), body.into()],
        hold: false,
    }
}

pub fn delta(text: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"id": "r1", "model": "m-real", "choices": [{"delta": {"content": text}}]})
    )
}

pub fn stop() -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    )
}

pub struct Server {
    pub port: u16,
    pub connections: Arc<AtomicUsize>,
    pub heard: Arc<Mutex<Vec<String>>>,
    /// A message for each connection that the client closed while it was held open.
    pub closed: mpsc::UnboundedReceiver<()>,
    /// What is sent to every held connection after its own pieces.
    pub more: mpsc::UnboundedSender<Vec<u8>>,
}

impl Server {
    pub async fn with(reply: Reply) -> Self {
        Self::answering(move |_| reply.clone()).await
    }

    /// `answer` sees the whole request.
    pub async fn answering(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), answer)
    }

    pub fn on(listener: TcpListener, answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let (tell, closed) = mpsc::unbounded_channel();
        let (more, mut wanted) = mpsc::unbounded_channel::<Vec<u8>>();
        let (connections, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let server = Server {
            port: listener.local_addr().unwrap().port(),
            connections: connections.clone(),
            heard: heard.clone(),
            closed,
            more,
        };
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let request = read_request(&mut stream).await;
                let reply = answer(&request);
                heard.lock().push(request);
                for piece in &reply.pieces {
                    let _ = stream.write_all(piece).await;
                    let _ = stream.flush().await;
                    tokio::task::yield_now().await;
                }
                if reply.hold {
                    hold(&mut stream, &mut wanted).await;
                    let _ = tell.send(());
                }
                let _ = stream.shutdown().await;
            }
        });
        server
    }

    pub fn endpoint(&self) -> Endpoint {
        self.endpoint_at("/v1")
    }

    pub fn endpoint_at(&self, path: &str) -> Endpoint {
        let url = Url::parse(&format!("http://127.0.0.1:{}{path}", self.port)).unwrap();
        Endpoint::new("c_test", "Test server", url)
    }

    /// The path of each request, in order.
    pub fn paths(&self) -> Vec<String> {
        self.heard
            .lock()
            .iter()
            .map(|request| request.split(' ').nth(1).unwrap_or_default().to_owned())
            .collect()
    }

    pub fn bodies(&self) -> Vec<Value> {
        let heard = self.heard.lock();
        heard
            .iter()
            .filter_map(|request| serde_json::from_str(request.split_once("\r\n\r\n")?.1).ok())
            .collect()
    }
}

async fn hold(stream: &mut TcpStream, wanted: &mut mpsc::UnboundedReceiver<Vec<u8>>) {
    let mut buffer = [0; 1024];
    loop {
        tokio::select! {
            read = stream.read(&mut buffer) => if !matches!(read, Ok(n) if n > 0) { return },
            Some(piece) = wanted.recv() => { let _ = stream.write_all(&piece).await; }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                .map_or(0, |(_, value)| value.trim().parse().unwrap());
            if body.len() >= length {
                return text;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return text,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}
