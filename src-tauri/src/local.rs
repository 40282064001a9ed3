//! The local socket: how the command line reaches an engine that is running. It stands in the home, only this user may
//! open it, and the other side's user id is checked again by the kernel's word.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use axum::body::Body;
use engine::Engine;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use policy::Caller;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};

const NAME: &str = "engine.sock";

/// The socket's path through a descriptor of its folder: addresses of sockets have at most 107 bytes, homes have more.
fn address(home: &Path) -> std::io::Result<(File, PathBuf)> {
    let folder = File::open(home)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd()));
    Ok((folder, path))
}

/// Listens until the returned guard is dropped. Call with the home's lock held (an engine open).
pub fn listen(engine: Engine) -> std::io::Result<Listening> {
    let home = engine.home().to_owned();
    let (folder, path) = address(&home)?;
    // The lock is ours, so whatever socket stands there is a dead one's.
    let _ = std::fs::remove_file(home.join(NAME));
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(home.join(NAME), std::fs::Permissions::from_mode(0o600))?;
    drop(folder);
    let task = tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let engine = engine.clone();
                    tokio::spawn(serve(engine, stream));
                }
                // Out of descriptors, say; worth waiting for.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(200)).await,
            }
        }
    });
    Ok(Listening { task, home })
}

pub struct Listening {
    task: tokio::task::JoinHandle<()>,
    home: PathBuf,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(self.home.join(NAME));
    }
}

async fn serve(engine: Engine, stream: UnixStream) {
    // SAFETY: always succeeds.
    let own = unsafe { libc::geteuid() };
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own => {}
        other => {
            let who = other.map_or_else(|e| e.to_string(), |peer| format!("user {}", peer.uid()));
            engine.refused(&Caller::Nobody, "local socket", &format!("another user: {who}"));
            return;
        }
    }
    let caller = Caller::CommandLine {
        account: engine.owner(),
    };
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (engine, caller) = (engine.clone(), caller.clone());
        async move { Ok::<_, std::convert::Infallible>(engine.call(caller, request.map(Body::new)).await) }
    });
    let _ = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

/// Where commands go.
pub enum Door {
    Running(PathBuf),
    Here(Engine),
}

impl Door {
    /// The running engine of `home`, if there is one.
    pub async fn running(home: &Path) -> Option<Self> {
        connect(home).await.ok().map(|_| Self::Running(home.to_owned()))
    }

    /// Asks and reads the whole answer: status and JSON (`null` when there is none).
    pub async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> Result<(u16, Value), String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, "localhost")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.map_or_else(Body::empty, |b| Body::from(b.to_string())))
            .map_err(|e| e.to_string())?;
        let response: Response<Body> = match self {
            Self::Here(engine) => {
                let caller = Caller::CommandLine {
                    account: engine.owner(),
                };
                engine.call(caller, request).await
            }
            Self::Running(home) => {
                let gone = |e: &dyn std::fmt::Display| format!("the running Chrysalis did not answer: {e}");
                let stream = connect(home).await.map_err(|e| gone(&e))?;
                let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                    .await
                    .map_err(|e| gone(&e))?;
                tokio::spawn(connection);
                sender.send_request(request).await.map_err(|e| gone(&e))?.map(Body::new)
            }
        };
        let status = response.status().as_u16();
        let bytes = response
            .into_body()
            .collect()
            .await
            .map_err(|e| e.to_string())?
            .to_bytes();
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }

    /// As [`Door::ask`], with every failure as its sentence.
    pub async fn get(&self, method: &str, path: &str, body: Option<Value>) -> Result<Value, String> {
        let (status, answer) = self.ask(method, path, body).await?;
        if status < 400 {
            return Ok(answer);
        }
        Err(answer["error"]
            .as_str()
            .map_or_else(|| format!("{method} {path} answered {status}"), str::to_owned))
    }
}

async fn connect(home: &Path) -> std::io::Result<UnixStream> {
    let (_folder, path) = address(home)?;
    let stream = UnixStream::connect(path).await?;
    // Where others can write to the home, what listens there may be theirs: it must not be told a password.
    // SAFETY: always succeeds.
    if stream.peer_cred()?.uid() != unsafe { libc::geteuid() } {
        return Err(std::io::ErrorKind::PermissionDenied.into());
    }
    Ok(stream)
}
