//! The HTTP door: one listener on loopback in front of `engine.call`. It decides who is asking and refuses what did not
//! come from our own pages or a program that knows what it is doing; what a caller may do is decided in the engine.

mod answer;
mod door;
mod launcher;
mod proof;
mod route;
mod socket;
mod sse;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::door::Door;
use crate::route::Routes;

/// Most connections at once, streams and sockets included. A browser opens six and a few event streams.
pub const CONNECTIONS_MAX: usize = 512;
/// How long a client may take to send a request's head, and how long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request head in bytes; one more is answered 431.
const HEAD_MAX: usize = 32 * 1024;
/// How long running answers may take to end after the shutdown was asked for.
const GRACE: Duration = Duration::from_secs(5);

/// The door could not be opened. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("port {port} on this machine is in use by another program: stop that one, or choose another with --port")]
    InUse { port: u16 },
    #[error(
        "this system does not let Chrysalis listen on port {port}: choose one from 1024 up with --port, or 0 for any that is free"
    )]
    Denied { port: u16 },
    #[error("cannot listen on port {port} of this machine: {source}")]
    Other { port: u16, source: io::Error },
}

/// A listener that is open but does not answer yet: call [`Server::run`].
pub struct Server {
    engine: Engine,
    port: u16,
    listeners: Vec<TcpListener>,
}

impl Server {
    /// Opens `port` on 127.0.0.1 and, where the system has IPv6, on ::1; never on another address. Port 0 takes any
    /// that is free on both.
    ///
    /// Both, because browsers take `localhost` for either: a port that another program holds on ::1 counts as in use,
    /// or that program would be sent our people's cookies.
    pub async fn bind(engine: Engine, port: u16) -> Result<Server, BindError> {
        // A free port of one address may be taken on the other; a few tries find one that is free on both.
        let mut tries = if port == 0 { 16 } else { 1 };
        loop {
            tries -= 1;
            match Self::listen(port).await {
                Ok((port, listeners)) => {
                    return Ok(Server {
                        engine,
                        port,
                        listeners,
                    });
                }
                Err(BindError::InUse { .. }) if tries > 0 => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn listen(port: u16) -> Result<(u16, Vec<TcpListener>), BindError> {
        let error = |port: u16, source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse { port },
            io::ErrorKind::PermissionDenied => BindError::Denied { port },
            _ => BindError::Other { port, source },
        };
        let four = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .await
            .map_err(|e| error(port, e))?;
        let port = four.local_addr().map_err(|e| error(port, e))?.port();
        let mut listeners = vec![four];
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
            Ok(six) => listeners.push(six),
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => return Err(error(port, e)),
            Err(e) => tracing::debug!(error = %e, "no IPv6 loopback here: listening on 127.0.0.1 alone"),
        }
        Ok((port, listeners))
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where to point a browser: `http://127.0.0.1:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Answers until `shutdown` is done, then takes no more connections, ends event streams and sockets, and gives
    /// other answers 5 s to finish. The engine stays open: closing it is the caller's.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (close, closing) = watch::channel(false);
        // Every task that outlives its connection (a socket) holds a sender; the receiver ends when the last is gone.
        let (alive, mut gone) = mpsc::channel::<()>(1);
        let routes = Arc::new(Routes::new(self.engine, Door::new(self.port), closing.clone(), alive));
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            let (stream, peer) = tokio::select! {
                () = &mut shutdown => break,
                accepted = accept(&self.listeners) => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let Ok(permit) = room.clone().try_acquire_owned() else {
                let _ = stream.try_write(answer::FULL.as_bytes());
                tracing::warn!("more than {CONNECTIONS_MAX} connections at once: refused one");
                continue;
            };
            let (routes, closing) = (routes.clone(), closing.clone());
            connections.spawn(async move {
                serve(stream, peer.ip(), routes, closing).await;
                drop(permit);
            });
        }
        let _ = close.send(true);
        drop((self.listeners, routes));
        let rest = async {
            while connections.join_next().await.is_some() {}
            gone.recv().await;
        };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            tracing::debug!("some answers were still running at the end of the shutdown");
            connections.shutdown().await;
        }
    }
}

/// The next connection from any listener. Errors of one connection, or of a moment without descriptors, are waited out.
async fn accept(listeners: &[TcpListener]) -> (TcpStream, SocketAddr) {
    loop {
        let each = listeners.iter().map(|listener| Box::pin(listener.accept()));
        match futures::future::select_all(each).await.0 {
            Ok(accepted) => return accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Done when the shutdown begins.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn serve(stream: TcpStream, peer: IpAddr, routes: Arc<Routes>, mut closing: watch::Receiver<bool>) {
    // Answers stream token by token: nothing is to wait for more to send.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let routes = routes.clone();
        async move { Ok::<_, std::convert::Infallible>(routes.answer(peer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closed(&mut closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
