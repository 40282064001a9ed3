//! A small HTTP/1.1 client that sends targets and headers exactly as it is told, over TCP or a Unix socket: clients that
//! tidy an address up before sending it cannot test how odd addresses are treated.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::Value;

use crate::PATIENCE;

/// Where requests go.
#[derive(Debug, Clone)]
pub enum Door {
    /// A port of 127.0.0.1.
    Port(u16),
    /// A Unix socket.
    Socket(PathBuf),
}

/// Someone who asks: a door, and the headers that every request of theirs carries.
#[derive(Debug, Clone)]
pub struct Client {
    pub door: Door,
    pub headers: Vec<(String, String)>,
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An answer whose head is here; its body is read as it comes.
pub struct Incoming {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    body: Body,
}

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

struct Body {
    reader: BufReader<Box<dyn Duplex>>,
    rest: Rest,
}

enum Rest {
    Length(u64),
    /// Bytes left of the chunk being read; `None` before the first.
    Chunk(Option<u64>),
    ToTheEnd,
    Over,
}

impl Client {
    /// A caller with nothing but the header that every write needs.
    pub fn nobody(port: u16) -> Self {
        Self {
            door: Door::Port(port),
            headers: vec![("X-Chrysalis-Request".into(), "1".into())],
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends a request and reads the whole answer.
    pub fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Reply> {
        let mut incoming = self.open(method, target, headers, body)?;
        let mut body = Vec::new();
        incoming.body.read_to_end(&mut body)?;
        Ok(Reply {
            status: incoming.status,
            headers: incoming.headers,
            body,
        })
    }

    /// Sends a request and reads the head of the answer.
    pub fn open(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Incoming> {
        let (mut stream, host): (Box<dyn Duplex>, String) = match &self.door {
            Door::Port(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_read_timeout(Some(PATIENCE * 2))?;
                (Box::new(stream), format!("127.0.0.1:{port}"))
            }
            Door::Socket(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE * 2))?;
                (Box::new(stream), "localhost".into())
            }
        };
        let mut head = format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n");
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all: Vec<_> = own.chain(headers.iter().copied()).collect();
        if !all.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head += &format!("Host: {host}\r\n");
        }
        for (name, value) in all {
            head += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        head += "\r\n";
        stream.write_all(head.as_bytes())?;
        // A server that refuses by the head alone may close before it has read the body.
        let _ = stream.write_all(body);
        let mut reader = BufReader::new(stream);
        let line = line(&mut reader)?;
        let status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status line: {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self::line(&mut reader)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let rest = if method == "HEAD" || status == 204 || status == 304 {
            Rest::Over
        } else if header("transfer-encoding").is_some() {
            Rest::Chunk(None)
        } else if let Some(length) = header("content-length").and_then(|v| v.parse().ok()) {
            Rest::Length(length)
        } else {
            Rest::ToTheEnd
        };
        Ok(Incoming {
            status,
            headers,
            body: Body { reader, rest },
        })
    }

    pub fn get(&self, target: &str) -> Reply {
        self.ask("GET", target, &[], b"")
            .unwrap_or_else(|e| panic!("GET {target}: {e}"))
    }

    pub fn send(&self, method: &str, target: &str, body: &Value) -> Reply {
        self.ask(method, target, &[], body.to_string().as_bytes())
            .unwrap_or_else(|e| panic!("{method} {target}: {e}"))
    }

    pub fn post(&self, target: &str, body: &Value) -> Reply {
        self.send("POST", target, body)
    }

    /// An answer that is read while it comes.
    pub fn listen(&self, target: &str) -> Incoming {
        self.open("GET", target, &[], b"")
            .unwrap_or_else(|e| panic!("GET {target}: {e}"))
    }
}

fn line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the connection ended in the head of an answer",
        ));
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// The JSON of a success; panics with the whole answer otherwise.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        self.json()
    }

    /// The error of an answer with this status; panics otherwise.
    #[track_caller]
    pub fn error(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()["error"].as_str().unwrap_or_default().to_owned()
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Incoming {
    /// The next server-sent event's data as JSON, or `None` at the end. Panics when nothing comes for a minute.
    pub fn event(&mut self) -> Option<Value> {
        let mut data = String::new();
        loop {
            let line = self.line()?;
            if let Some(text) = line.strip_prefix("data:") {
                data += text;
            } else if line.is_empty() && !data.is_empty() {
                return Some(serde_json::from_str(&data).unwrap_or_else(|e| panic!("{data}: {e}")));
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            match self.body.read(&mut byte) {
                Ok(0) => return None,
                Ok(_) if byte[0] == b'\n' => break,
                Ok(_) => line.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("no event came: {error}"),
                Err(_) => return None,
            }
        }
        Some(String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned())
    }
}

impl Read for Incoming {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer)
    }
}

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Rest::Chunk(left @ (None | Some(0))) = self.rest {
            if left.is_some() {
                line(&mut self.reader)?;
            }
            let size = line(&mut self.reader)?;
            let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            self.rest = if size == 0 { Rest::Over } else { Rest::Chunk(Some(size)) };
        }
        let most = match &self.rest {
            Rest::Over | Rest::Length(0) => return Ok(0),
            Rest::Length(left) | Rest::Chunk(Some(left)) => {
                buffer.len().min(usize::try_from(*left).unwrap_or(usize::MAX))
            }
            _ => buffer.len(),
        };
        let n = self.reader.read(&mut buffer[..most])?;
        match &mut self.rest {
            Rest::Length(left) | Rest::Chunk(Some(left)) => {
                if n == 0 && most > 0 {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut off"));
                }
                *left -= n as u64;
            }
            _ => {}
        }
        Ok(n)
    }
}
