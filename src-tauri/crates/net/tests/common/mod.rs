//! A log that remembers, servers that misbehave as told, and a resolver under test control.
#![allow(dead_code, reason = "each test program uses its own part of this")]

pub mod guest;

use std::collections::VecDeque;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use net::{Attempt, ConnectionLog, End, Net, Resolver};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    Connecting(Attempt),
    Finished(i64, End),
    Refused(Attempt, String),
}

#[derive(Default)]
pub struct Memory {
    pub rows: Mutex<Vec<Row>>,
    pub fail: Mutex<Option<String>>,
    /// Looked at when a line is opened: how many connections the server has seen by then.
    pub server: Mutex<Option<Arc<AtomicUsize>>>,
    pub seen_at_opening: Mutex<Vec<usize>>,
}

impl ConnectionLog for Memory {
    fn connecting(&self, attempt: &Attempt) -> Result<i64, String> {
        if let Some(why) = self.fail.lock().clone() {
            return Err(why);
        }
        if let Some(seen) = self.server.lock().as_ref() {
            self.seen_at_opening.lock().push(seen.load(Ordering::SeqCst));
        }
        let mut rows = self.rows.lock();
        rows.push(Row::Connecting(attempt.clone()));
        Ok(rows.len() as i64)
    }
    fn finished(&self, id: i64, end: &End) {
        self.rows.lock().push(Row::Finished(id, end.clone()));
    }
    fn refused(&self, attempt: &Attempt, why: &str) {
        self.rows.lock().push(Row::Refused(attempt.clone(), why.into()));
    }
}

impl Memory {
    pub fn ends(&self) -> Vec<End> {
        let rows = self.rows.lock();
        rows.iter()
            .filter_map(|row| {
                if let Row::Finished(_, end) = row {
                    Some(end.clone())
                } else {
                    None
                }
            })
            .collect()
    }
    pub fn opened(&self) -> Vec<Attempt> {
        let rows = self.rows.lock();
        rows.iter()
            .filter_map(|row| {
                if let Row::Connecting(a) = row {
                    Some(a.clone())
                } else {
                    None
                }
            })
            .collect()
    }
    pub fn refusals(&self) -> Vec<(Attempt, String)> {
        let rows = self.rows.lock();
        rows.iter()
            .filter_map(|row| {
                if let Row::Refused(a, w) = row {
                    Some((a.clone(), w.clone()))
                } else {
                    None
                }
            })
            .collect()
    }
}

pub fn net() -> (Net, Arc<Memory>) {
    let log = Arc::new(Memory::default());
    (Net::new(log.clone()), log)
}

/// Gives the answers in turn, the last one again and again, and counts how often it was asked.
pub struct Script {
    pub answers: Mutex<VecDeque<Vec<IpAddr>>>,
    pub asked: AtomicUsize,
}

impl Script {
    pub fn new(answers: &[&[&str]]) -> Arc<Self> {
        let answers = answers
            .iter()
            .map(|list| list.iter().map(|ip| ip.parse().unwrap()).collect())
            .collect();
        Arc::new(Self {
            answers: Mutex::new(answers),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Resolver for Script {
    fn resolve(&self, host: String) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock();
        let answer = match answers.len() {
            0 => Err(format!("no such host: {host}")),
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.pop_front().unwrap()),
        };
        Box::pin(async move { answer })
    }
}

/// Answers by name; a name with several answers gives them in turn and stays at the last.
#[derive(Default)]
pub struct Names(pub Mutex<std::collections::HashMap<String, VecDeque<Vec<IpAddr>>>>);

impl Names {
    pub fn new(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let names = names.iter().map(|(name, answers)| {
            let answers = answers
                .iter()
                .map(|list| list.iter().map(|ip| ip.parse().unwrap()).collect());
            ((*name).to_owned(), answers.collect())
        });
        Arc::new(Self(Mutex::new(names.collect())))
    }
}

impl Resolver for Names {
    fn resolve(&self, host: String) -> BoxFuture<'static, Result<Vec<IpAddr>, String>> {
        let mut names = self.0.lock();
        let answer = match names.get_mut(&host) {
            Some(answers) if answers.len() > 1 => Ok(answers.pop_front().unwrap()),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(format!("no such host: {host}")),
        };
        Box::pin(async move { answer })
    }
}

pub struct Server {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    /// What each connection sent before it was answered, headers and body.
    pub heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Reads one request from each connection and hands the connection to `answer`.
    pub async fn start<F>(answer: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::hearing(move |stream, _| answer(stream)).await
    }

    /// The same, with the request that was read.
    pub async fn hearing<F>(answer: impl Fn(TcpStream, String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            heard: Arc::default(),
        };
        let (connections, heard, answer) = (server.connections.clone(), server.heard.clone(), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (heard, answer) = (heard.clone(), answer.clone());
                tokio::spawn(async move {
                    let request = read_request(&mut stream).await;
                    heard.lock().push(request.clone());
                    answer(stream, request).await;
                });
            }
        });
        server
    }

    /// Sends what `answer` makes of the request's path (and query), and closes.
    pub async fn paths(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let answer = Arc::new(answer);
        Self::hearing(move |mut stream, request| {
            let answer = answer(request.split(' ').nth(1).unwrap_or_default());
            async move {
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// Sends these bytes and closes.
    pub async fn sending(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = Arc::new(bytes.into());
        Self::start(move |mut stream| {
            let bytes = bytes.clone();
            async move {
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn seen(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

pub async fn read_request(stream: &mut TcpStream) -> String {
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

/// Waits until the other side has closed the connection.
pub async fn closed(stream: &mut TcpStream) {
    let mut buffer = [0; 1024];
    while matches!(stream.read(&mut buffer).await, Ok(n) if n > 0) {}
}

pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until, "did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

/// A redirect with the connection closed behind it.
pub fn redirect(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
