//! A real engine on a home of its own behind a real listener, and a client that sends exactly the bytes it is told.
#![allow(dead_code)] // Each test program uses its own part of this.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use axum::body::Body;
use engine::{Engine, Keychain, Options};
use http::Request;
use policy::Caller;
use serde_json::Value;
use server::Server;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const PASSWORD: &str = "correct horse";
const LONG: Duration = Duration::from_secs(20);

pub struct House {
    pub engine: Engine,
    pub port: u16,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
    dir: TempDir,
}

/// What came back, read to the end of the connection.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn read(bytes: &[u8]) -> Reply {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Reply {
            status: status.unwrap_or(0),
            headers,
            body: body.to_owned(),
        }
    }

    /// All values of a header, joined.
    pub fn header(&self, name: &str) -> String {
        let values: Vec<&str> = self
            .headers
            .iter()
            .filter(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
            .collect();
        values.join(", ")
    }

    pub fn json(&self) -> Value {
        // A streamed answer comes in chunks: the JSON is what stands between the first brace and the last.
        let (start, end) = (
            self.body.find('{').unwrap_or(0),
            self.body.rfind('}').map_or(0, |at| at + 1),
        );
        serde_json::from_str(&self.body[start..end.max(start)]).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl House {
    pub async fn open() -> House {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            home: dir.path().join("home"),
            // The engine wants a program that exists; no test here has a plugin, so it is never started.
            worker: std::env::current_exe().unwrap(),
            keychain: Keychain::None,
        };
        let engine = Engine::open(options).await.unwrap();
        let server = Server::bind(engine.clone(), 0).await.unwrap();
        let port = server.port();
        assert_eq!(server.url(), format!("http://127.0.0.1:{port}"));
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        House {
            engine,
            port,
            stop: Some(stop),
            running,
            dir,
        }
    }

    /// Asks the door to close and waits until it has.
    pub async fn close(mut self) {
        drop(self.stop.take());
        tokio::time::timeout(LONG, &mut self.running).await.unwrap().unwrap();
    }

    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub async fn connect(&self, address: &str) -> std::io::Result<TcpStream> {
        let address: IpAddr = address.parse().unwrap();
        TcpStream::connect(SocketAddr::new(address, self.port)).await
    }

    /// Sends these bytes to 127.0.0.1 and reads until the other side closes.
    pub async fn raw(&self, bytes: &str) -> Reply {
        let mut stream = self.connect("127.0.0.1").await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // The other side may close while something of ours is still unread: what it said before counts.
        let read = tokio::time::timeout(LONG, stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "no end after {LONG:?}: {:?}", Reply::read(&answer));
        Reply::read(&answer)
    }

    /// One request with the right `Host`, these headers and this body.
    pub async fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.raw(&self.request(method, target, headers, body)).await
    }

    pub fn request(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut text = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.host()
        );
        for (name, value) in headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        text + "\r\n" + body
    }

    /// Sets the owner up over the door; gives the `Cookie` header's value.
    pub async fn sign_in(&self) -> String {
        let token = self.engine.setup_token().expect("a new home");
        let body = serde_json::json!({"token": token, "username": "Zoe", "password": PASSWORD}).to_string();
        let reply = self
            .ask("POST", "/v1/auth/setup", &[("X-Chrysalis-Request", "1")], &body)
            .await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.header("set-cookie");
        assert!(
            cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
            "{cookie}"
        );
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Puts an app with a page and no plugins into the workspace, as the command line does.
    pub async fn add_app(&self, id: &str) {
        let folder = self.dir.path().join("sources").join(id);
        std::fs::create_dir_all(&folder).unwrap();
        let manifest = serde_json::json!({"name": id, "version": "1.0.0", "kind": "web"}).to_string();
        std::fs::write(folder.join("manifest.json"), manifest).unwrap();
        std::fs::write(
            folder.join("index.html"),
            "<!doctype html><title>page</title><script src=app.js></script>",
        )
        .unwrap();
        std::fs::write(folder.join("app.js"), format!("/* code of {id} */")).unwrap();
        std::fs::write(folder.join(".secret"), "hidden").unwrap();
        let mut import = serde_json::json!({"folder": folder, "id": id});
        let preview = self.command("POST", "/v1/apps/import", &import).await;
        import["confirm"] = true.into();
        import["head"] = preview["head"].clone();
        self.command("POST", "/v1/apps/import", &import).await;
    }

    /// A call of the command line, straight into the engine.
    pub async fn command(&self, method: &str, target: &str, body: &Value) -> Value {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .unwrap();
        let account = self.engine.owner();
        let response = self.engine.call(Caller::CommandLine { account }, request).await;
        let (status, body) = (response.status(), response.into_body());
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        assert!(
            status.is_success(),
            "{method} {target}: {status} {}",
            String::from_utf8_lossy(&bytes)
        );
        serde_json::from_slice(&bytes).unwrap_or(Value::Null)
    }

    /// A frame token for `app`, asked for by the signed-in shell.
    pub async fn frame(&self, cookie: &str, app: &str) -> String {
        let headers = [("Cookie", cookie), ("X-Chrysalis-Request", "1")];
        let reply = self.ask("POST", &format!("/v1/apps/{app}/frame"), &headers, "{}").await;
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        let token = reply.json()["token"].as_str().unwrap().to_owned();
        assert_eq!(reply.json()["url"], format!("/frame/{token}/"));
        token
    }
}
