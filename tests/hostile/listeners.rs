//! What hears a hostile page: HTTP on two ports, one TCP and UDP port for each attempt that sends no name, DNS on
//! port 53, and the unprotected twin of the program. Used by the tests of every kind of window through `#[path]`.
//!
//! An attempt is known by `hear-NAME` in a request line, a `Host`, the server name of a TLS greeting or a DNS question,
//! or by the port it calls. [`alone`] gives the test a network of its own, where the DNS port is free, nothing else is
//! in the way, and nothing could really leave.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The address of the test's own network card: WebRTC does not use loopback.
const CARD: &str = "10.99.0.1";
/// Attempts that send no name and get a port each.
const OWN: &[&str] = &[
    "link-preconnect",
    "srcdoc-preconnect",
    "webtransport-child",
    "own-child-preconnect",
    "own-child-stun",
    "own-child-turn",
    "rtc-stun",
    "rtc-stun-child",
    "rtc-stun-srcdoc",
    "rtc-turn-udp",
    "rtc-turn-tcp",
    "rtc-candidate",
];

/// Runs the calling test again in a network namespace of its own, with this module as its DNS server, and returns false
/// when that is done; true inside. Fails the test where namespaces cannot be made, rather than skip it.
pub fn alone(test: &str) -> bool {
    const INSIDE: &str = "CHRYSALIS_TEST_ALONE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let setup = format!(
        "set -e; ip link set lo up; ip link add hear0 type veth peer name hear1; ip addr add {CARD}/24 dev hear0; \
         ip link set hear0 up; ip link set hear1 up; ip route add default dev hear0; \
         printf 'nameserver 127.0.0.1\\n' > \"$1\"; mount --bind \"$1\" /etc/resolv.conf; shift; exec \"$@\""
    );
    let resolver = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("resolv-{test}.conf"));
    let status = Command::new("unshare")
        .args(["--map-root-user", "--net", "--mount", "--", "sh", "-c", &setup, "sh"])
        .arg(resolver)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare (util-linux) cannot be started");
    assert!(status.success(), "failed in its own network, see above");
    false
}

type Heard = Arc<Mutex<BTreeMap<String, String>>>;

pub struct Listeners {
    /// Port of the twin and of listeners on its origin.
    pub http: u16,
    /// Another origin.
    pub cross: u16,
    own: BTreeMap<&'static str, u16>,
    heard: Heard,
}

impl Listeners {
    /// Everything listens when this returns. Only inside [`alone`].
    pub fn start() -> Listeners {
        let heard = Heard::default();
        let mut own = BTreeMap::new();
        for name in OWN {
            own.insert(*name, own_port(name, &heard));
        }
        let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (http, cross) = (bind(), bind());
        let ports = (http.local_addr().unwrap().port(), cross.local_addr().unwrap().port());
        let twin = Arc::new(Twin {
            config: config(ports, &own, &format!("http://127.0.0.1:{}", ports.0), "other"),
        });
        for listener in [http, cross] {
            let (heard, twin) = (heard.clone(), twin.clone());
            thread::spawn(move || {
                for stream in listener.incoming().map_while(Result::ok) {
                    let (heard, twin) = (heard.clone(), twin.clone());
                    thread::spawn(move || drop(serve(stream, &heard, &twin)));
                }
            });
        }
        dns(heard.clone());
        Listeners {
            http: ports.0,
            cross: ports.1,
            own,
            heard,
        }
    }

    /// The hostile app as a folder that can be added, knowing these listeners and the launcher's origin.
    pub fn app(&self, folder: &Path, launcher: &str, other_app: &str) -> PathBuf {
        let app = folder.join("hostile");
        fs::create_dir_all(&app).unwrap();
        for entry in fs::read_dir(source("app")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), app.join(entry.file_name())).unwrap();
        }
        let config = config((self.http, self.cross), &self.own, launcher, other_app);
        fs::write(app.join("config.js"), config).unwrap();
        app
    }

    /// What was heard since [`Self::forget`], by attempt, and how. `GET /heard` on the HTTP port says the same.
    pub fn heard(&self) -> BTreeMap<String, String> {
        self.heard.lock().unwrap().clone()
    }

    /// `POST /forget` on the HTTP port does the same.
    pub fn forget(&self) {
        self.heard.lock().unwrap().clear();
    }
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile").join(path)
}

fn config((http, cross): (u16, u16), own: &BTreeMap<&str, u16>, launcher: &str, other_app: &str) -> String {
    let own: Vec<String> = own.iter().map(|(name, port)| format!("\"{name}\": {port}")).collect();
    format!(
        "globalThis.HOSTILE = {{ http: \"http://127.0.0.1:{http}\", cross: \"http://127.0.0.1:{cross}\", \
         port: {cross}, host: \"{CARD}\", own: {{ {} }}, launcher: \"{launcher}\", otherApp: \"{other_app}\" }};\n",
        own.join(", ")
    )
}

fn note(heard: &Heard, name: &str, how: &str) {
    heard
        .lock()
        .unwrap()
        .entry(name.to_owned())
        .or_insert_with(|| how.to_owned());
}

/// The first `hear-NAME` in what was sent.
fn named(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let rest = &text[text.find("hear-")? + 5..];
    let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    Some(rest[..end.unwrap_or(rest.len())].to_owned())
}

/// A TCP and a UDP socket on one port of the card and of loopback; whatever comes there is this attempt.
fn own_port(name: &'static str, heard: &Heard) -> u16 {
    for _ in 0..100 {
        let tcp = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let Ok(udp) = UdpSocket::bind(("0.0.0.0", port)) else {
            continue;
        };
        let (by_tcp, by_udp) = (heard.clone(), heard.clone());
        thread::spawn(move || {
            // Kept open, so that the browser does not come again.
            let mut open = Vec::new();
            for stream in tcp.incoming().map_while(Result::ok) {
                note(&by_tcp, name, "a TCP connection");
                open.push(stream);
            }
        });
        thread::spawn(move || {
            let mut packet = [0; 2048];
            while udp.recv_from(&mut packet).is_ok() {
                note(&by_udp, name, "a UDP packet");
            }
        });
        return port;
    }
    panic!("no port is free for both TCP and UDP");
}

/// Answers every question for an address with 127.0.0.1, and with nothing for other types.
fn dns(heard: Heard) {
    let socket = UdpSocket::bind("127.0.0.1:53").expect("port 53 is taken: is this the test's own network?");
    thread::spawn(move || {
        let mut packet = [0; 1500];
        while let Ok((length, from)) = socket.recv_from(&mut packet) {
            let Some(answer) = dns_answer(&packet[..length], &heard) else {
                continue;
            };
            let _ = socket.send_to(&answer, from);
        }
    });
}

fn dns_answer(question: &[u8], heard: &Heard) -> Option<Vec<u8>> {
    let mut name = String::new();
    let mut at = 12;
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        name.push_str(&String::from_utf8_lossy(question.get(at..at + length)?).to_ascii_lowercase());
        name.push('.');
        at += length;
    }
    let kind = u16::from_be_bytes([*question.get(at)?, *question.get(at + 1)?]);
    if let Some(attempt) = named(name.as_bytes()) {
        note(heard, &attempt, &format!("a DNS question for {name}"));
    }
    let address = kind == 1;
    let mut answer = question[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(address), 0, 0, 0, 0]);
    answer.extend(question.get(12..at + 4)?);
    if address {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    Some(answer)
}

struct Twin {
    config: String,
}

fn serve(mut stream: TcpStream, heard: &Heard, twin: &Twin) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut head = Vec::new();
    let mut part = [0; 4096];
    // A TLS greeting has no blank line: it begins with 0x16, and its first part holds the server's name.
    while !head.windows(4).any(|w| w == b"\r\n\r\n") && head.len() < 64 * 1024 {
        let n = stream.read(&mut part)?;
        head.extend(&part[..n]);
        if n == 0 || head.first() == Some(&0x16) {
            break;
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let line = text.lines().next().unwrap_or_default().to_owned();
    if let Some(name) = named(&head) {
        note(heard, &name, if head[0] == 0x16 { "a TLS greeting" } else { &line });
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let owner = text
        .to_ascii_lowercase()
        .lines()
        .any(|l| l.starts_with("cookie:") && l.contains("owner=1"));
    let (status, body) = answer(method, path, owner, heard, twin);
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: {}\r\ncontent-length: {}\r\naccess-control-allow-origin: *\r\n\
         access-control-allow-headers: *\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        kind(path),
        body.len()
    )?;
    stream.write_all(&body)
}

/// The twin, the control addresses and something fitting for every attempt.
fn answer(method: &str, path: &str, owner: bool, heard: &Heard, twin: &Twin) -> (&'static str, Vec<u8>) {
    let ok = |body: Vec<u8>| ("200 OK", body);
    match path {
        "/heard" => {
            let names: Vec<String> = heard
                .lock()
                .unwrap()
                .iter()
                .map(|(k, v)| format!("{k:?}: {v:?}"))
                .collect();
            return ok(format!("{{{}}}", names.join(", ")).into_bytes());
        }
        "/forget" => {
            heard.lock().unwrap().clear();
            return ok(Vec::new());
        }
        "/app/config.js" => return ok(twin.config.clone().into_bytes()),
        "/" | "/index.html" => return ok(fs::read(source("twin/index.html")).unwrap_or_default()),
        "/twin/shell.js" => return ok(fs::read(source("twin/shell.js")).unwrap_or_default()),
        _ => {}
    }
    // As sloppy as a launcher could be about spellings.
    let plain = path.to_ascii_lowercase().replace("%6d", "m").replace("//", "/");
    if plain.starts_with("/v1/") {
        return if owner {
            ok(b"{\"ok\":true}".to_vec())
        } else {
            ("401 Unauthorized", Vec::new())
        };
    }
    if let Some(name) = path
        .strip_prefix("/app/")
        .filter(|name| !name.contains('/') && method == "GET")
    {
        return match fs::read(source("app").join(name)) {
            Ok(bytes) => ok(bytes),
            Err(_) => ("404 Not Found", Vec::new()),
        };
    }
    let body: &[u8] = match kind(path) {
        "image/png" => PIXEL,
        "image/svg+xml" => b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><filter id='f'/></svg>",
        "text/css" => b"b { color: red }",
        "application/json" => b"{}",
        "text/html" => b"<!doctype html><title>out</title>out",
        "text/vtt" => b"WEBVTT\n",
        "text/plain" => b"secret",
        "text/javascript" => b"globalThis.__ran = true;",
        _ => b"",
    };
    ok(body.to_vec())
}

fn kind(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "css" => "text/css",
        "js" => "text/javascript",
        "json" => "application/json",
        "vtt" => "text/vtt",
        "mp4" => "video/mp4",
        "mp3" => "audio/mpeg",
        "woff2" => "font/woff2",
        "txt" => "text/plain",
        "bin" => "application/octet-stream",
        _ if path.starts_with("/v1/") || path == "/heard" => "application/json",
        _ => "text/html",
    }
}

/// One transparent pixel.
pub const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8,
    6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0, 1, 0, 0, 5, 0, 1,
    0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];
