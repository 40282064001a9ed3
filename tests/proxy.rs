//! A proxy that config.toml names, and servers whose certificates do not fit, on the built program: a proxy written here,
//! and `openssl s_server` behind it under a name that only the proxy knows.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use testkit::{Client, Home, ModelServer, Running, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
const KEY: &str = "sk-canary-of-the-proxy-test";

/// An empty folder that goes away with the test.
fn folder() -> Home {
    let folder = Home::new(PROGRAM);
    std::fs::create_dir_all(folder.path()).unwrap();
    folder
}

fn openssl(folder: &Path, args: &str) {
    let ran = Command::new("openssl")
        .args(args.split(' '))
        .current_dir(folder)
        .output();
    let ran = ran.expect("openssl is installed");
    assert!(ran.status.success(), "{args}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// A certificate for `name`, from an authority of its own, in `ca.pem`.
fn certificate(folder: &Path, name: &str, days: u32) {
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(
        folder,
        &format!("req -x509 {new} -keyout ca.key -out ca.pem -subj /CN=authority -days 30"),
    );
    openssl(
        folder,
        &format!("req {new} -keyout own.key -out own.csr -subj /CN=server"),
    );
    let more = format!("subjectAltName=DNS:{name}\nbasicConstraints=critical,CA:FALSE\n");
    std::fs::write(folder.join("more"), more).unwrap();
    let sign = "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile more";
    openssl(folder, &format!("{sign} -days {days} -out own.pem"));
}

/// A model server behind TLS that answers every request with a word.
struct Secure {
    child: Child,
    port: u16,
    heard: Arc<Mutex<String>>,
}

impl Secure {
    fn start(folder: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut child = Command::new("openssl")
            .args(["s_server", "-quiet", "-cert", "own.pem", "-key", "own.key", "-accept"])
            .arg(format!("127.0.0.1:{port}"))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let heard: Arc<Mutex<String>> = Arc::default();
        let all = heard.clone();
        std::thread::spawn(move || {
            let (mut buffer, mut request) = ([0; 8192], String::new());
            while let Ok(n @ 1..) = from.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..n]).into_owned();
                all.lock().unwrap().push_str(&text);
                request += &text;
                let Some((head, body)) = request.split_once("\r\n\r\n") else {
                    continue;
                };
                let length = head.to_lowercase();
                let length = length
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.lines().next());
                if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
                    continue;
                }
                let answer = match head.starts_with("GET") {
                    true => json!({"object": "list", "data": [{"id": "m", "object": "model"}]}),
                    false => json!({"choices": [{"message": {"role": "assistant", "content": "through the tunnel"},
                                                 "finish_reason": "stop"}]}),
                }
                .to_string();
                request.clear();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}",
                    answer.len()
                );
                let _ = write!(to, "{head}\r\n\r\n{answer}");
                let _ = to.flush();
            }
        });
        wait_for("openssl listens", || TcpStream::connect(("127.0.0.1", port)).ok());
        Self { child, port, heard }
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a proxy does once it has read the head of a request.
#[derive(Clone)]
enum Does {
    /// Connects to this port, whatever the name.
    Connects(u16),
    Answers(&'static str),
    Hangs,
}

/// A proxy, and every byte it was sent.
struct Between {
    port: u16,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Between {
    fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
        let all = seen.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (all, does) = (all.clone(), does.clone());
                std::thread::spawn(move || pass(stream, &all, &does));
            }
        });
        Self { port, seen }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }
}

fn pass(mut stream: TcpStream, seen: &Mutex<Vec<u8>>, does: &Does) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    seen.lock().unwrap().extend_from_slice(&head);
    let mut buffer = [0; 8192];
    let port = match does {
        Does::Connects(port) => *port,
        Does::Answers(text) => return drop(stream.write_all(text.as_bytes())),
        Does::Hangs => {
            while matches!(stream.read(&mut buffer), Ok(1..)) {}
            return;
        }
    };
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        .unwrap();
    let (mut back, mut out) = (server.try_clone().unwrap(), stream.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut back, &mut out);
        let _ = out.shutdown(Shutdown::Both);
    });
    while let Ok(n @ 1..) = stream.read(&mut buffer) {
        seen.lock().unwrap().extend_from_slice(&buffer[..n]);
        if server.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

struct House {
    owner: Client,
    running: Running,
    home: Home,
}

impl House {
    /// With a proxy in config.toml, trusting the authority in `folder` alone.
    fn open(proxy: Option<&str>, folder: &Path) -> Self {
        let home = Home::new(PROGRAM);
        if let Some(proxy) = proxy {
            home.configure(&format!("[network]\nproxy = \"{proxy}\"\n"));
        }
        let mut command = home.command(&["serve", "--port", "0", "--no-open"]);
        command.env("SSL_CERT_FILE", folder.join("ca.pem"));
        let running = home.start(command);
        let owner = running.set_up();
        Self { owner, running, home }
    }

    /// What the test of a connection to `url` says.
    fn hello(&self, url: &str) -> Value {
        let id = self.running.connect(&self.owner, url, Some(KEY));
        let path = format!("/v1/settings/connections/{id}/test");
        self.owner.post(&path, &json!({"model": format!("{id}/m")})).ok()
    }

    #[track_caller]
    fn fails(&self, url: &str, parts: &[&str]) {
        let said = self.hello(url);
        assert_eq!(said["ok"], false, "{said}");
        for part in parts {
            assert!(
                said["error"].as_str().unwrap().contains(part),
                "\"{part}\" is not in {said}"
            );
        }
        assert!(!said.to_string().contains("hunter"), "{said}");
    }
}

#[test]
fn a_proxy_sees_the_name_and_nothing_else() {
    let folder = folder();
    certificate(&folder.path(), "model.example", 30);
    let server = Secure::start(&folder.path());
    let proxy = Between::start(Does::Connects(server.port));
    let house = House::open(
        Some(&format!("http://ann:hunter%40two@127.0.0.1:{}", proxy.port)),
        &folder.path(),
    );
    let said = house.hello("https://model.example/v1");
    assert_eq!(
        (&said["ok"], &said["text"]),
        (&json!(true), &json!("through the tunnel")),
        "{said}"
    );
    assert!(
        server.heard.lock().unwrap().contains(KEY),
        "the server was not given the key"
    );
    let seen = proxy.text();
    assert!(seen.starts_with("CONNECT model.example:443 HTTP/1.1\r\n"), "{seen}");
    // ann:hunter@two
    assert!(seen.to_lowercase().contains("proxy-authorization: basic "), "{seen}");
    assert!(seen.contains("YW5uOmh1bnRlckB0d28="), "{seen}");
    for word in [KEY, "Bearer", "chat/completions", "through the tunnel"] {
        assert!(!seen.contains(word), "the proxy saw {word}");
    }
    // Plain http would show it all, and is not sent; what is near by needs no proxy.
    let so_far = proxy.text().len();
    house.fails(
        "http://model.example/v1",
        &["proxy http://127.0.0.1:", "plain http", "https://"],
    );
    let near = ModelServer::saying(&["near by"]);
    assert_eq!(house.hello(&near.url())["text"], "near by");
    let local = near.url().replace("127.0.0.1", "localhost");
    assert_eq!(house.hello(&local)["text"], "near by");
    house.fails("https://box.lan/v1", &["could not be looked up"]);
    assert_eq!(proxy.text().len(), so_far, "{}", proxy.text());
    for entry in std::fs::read_dir(house.home.path().join("logs")).unwrap().flatten() {
        let log = std::fs::read_to_string(entry.path()).unwrap();
        assert!(!log.contains("hunter"), "the proxy's password is in the log");
    }
}

#[test]
fn a_proxy_that_fails_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = folder();
    certificate(&folder.path(), "model.example", 30);
    let answers = |text| Between::start(Does::Answers(text)).port;
    for (port, part) in [
        (nobody, "nothing is listening there"),
        (
            answers("HTTP/1.1 407 Auth\r\nContent-Length: 0\r\n\r\n"),
            "user name and a password",
        ),
        (
            answers("HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n"),
            "did not make the connection",
        ),
        (
            answers("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n"),
            "did not make the connection",
        ),
        (answers("SSH-2.0-x\r\n"), "did not make the connection"),
        (answers(""), "closed the connection"),
        (Between::start(Does::Hangs).port, "no secure connection"),
    ] {
        let house = House::open(Some(&format!("http://ann:hunter2@127.0.0.1:{port}")), &folder.path());
        let proxy = format!("the proxy http://127.0.0.1:{port}:");
        house.fails(
            "https://model.example/v1",
            &[part, &proxy, "[network] proxy in config.toml"],
        );
    }
    let house = House::open(Some("http://proxy.invalid:3128"), &folder.path());
    house.fails(
        "https://model.example/v1",
        &["proxy http://proxy.invalid:3128", "could not be looked up"],
    );
}

#[test]
fn a_certificate_that_does_not_fit_is_told() {
    let (folder, other) = (folder(), folder());
    certificate(&other.path(), "localhost", 30);
    certificate(&folder.path(), "model.example", 30);
    let server = Secure::start(&folder.path());
    let url = format!("https://localhost:{}/v1", server.port);
    let check = "check the address (http or https?) and the server's certificate";
    let house = House::open(None, &folder.path());
    house.fails(
        &url,
        &["no secure connection to https://localhost:", "for another name", check],
    );
    let plain = ModelServer::saying(&["x"]);
    house.fails(
        &plain.url().replace("http:", "https:"),
        &["hung up when it was asked for TLS", check],
    );
    house.fails(
        "https://nowhere.invalid/v1",
        &["could not be looked up", "check the spelling"],
    );
    house.fails(
        "http://nowhere.invalid/v1",
        &["could not be looked up", "check the spelling"],
    );
    let stranger = House::open(None, &other.path());
    stranger.fails(&url, &["no secure connection", "nobody this computer trusts", check]);
    assert!(!server.heard.lock().unwrap().contains(KEY));

    // Good for the second it was made in.
    certificate(&folder.path(), "localhost", 0);
    let old = Secure::start(&folder.path());
    let house = House::open(None, &folder.path());
    let url = format!("https://localhost:{}/v1", old.port);
    let began = std::time::Instant::now();
    wait_for("the certificate to be old", || {
        (began.elapsed().as_secs() >= 2).then_some(())
    });
    house.fails(&url, &["no secure connection", "has expired", check]);
    assert!(!old.heard.lock().unwrap().contains(KEY));
}
