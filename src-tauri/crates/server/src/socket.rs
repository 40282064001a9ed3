//! `/v1/ws`: the frames of `GET /v1/events` as WebSocket messages, from the server to the client only.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use engine::{Engine, Peer, Session};
use futures::StreamExt;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use policy::Caller;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::answer;
use crate::proof::Proof;
use crate::sse::Events;

/// Contract section 7.
const PING: Duration = Duration::from_secs(30);
/// A client that let two pings and a bit pass in silence is gone.
const SILENCE: Duration = Duration::from_secs(75);
/// A client that takes nothing for so long is gone as well.
const STUCK: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_secs(1);
/// Nothing is expected from clients; control frames are at most 125 bytes.
const INCOMING_MAX: usize = 4096;

/// Going away.
const SHUTDOWN: (u16, &str) = (1001, "shutting down");
/// Policy violation: what the reference engine sends after a sign-out (contract section 7).
const SIGNED_OUT: (u16, &str) = (1008, "signed out");
const BROKEN: (u16, &str) = (1011, "the event stream broke");

/// Answers the upgrade. `alive` is held until the socket is closed.
pub async fn open(
    engine: Engine,
    (caller, session, proof): (Caller, Session, Proof),
    peer: IpAddr,
    mut parts: Parts,
    closing: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
) -> Response<Body> {
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(error) => return answer::error(StatusCode::BAD_REQUEST, &error.body_text()),
    };
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = http::Uri::from_static("/v1/events");
    request.extensions_mut().insert(Peer(peer));
    request.extensions_mut().insert(session);
    let events = engine.call(caller, request).await;
    if !events.status().is_success() {
        return events;
    }
    upgrade
        .max_message_size(INCOMING_MAX)
        .max_frame_size(INCOMING_MAX)
        .on_upgrade(move |mut socket| async move {
            if let Some((code, reason)) = pump(&mut socket, events.into_body(), &engine, &proof, closing).await {
                let reason = reason.into();
                let _ = send(&mut socket, Message::Close(Some(CloseFrame { code, reason }))).await;
            }
            drop(alive);
        })
}

/// Until one side ends; gives what to say goodbye with, when there is somebody to say it to.
async fn pump(
    socket: &mut WebSocket,
    events: Body,
    engine: &Engine,
    proof: &Proof,
    mut closing: watch::Receiver<bool>,
) -> Option<(u16, &'static str)> {
    let mut events = events.into_data_stream();
    let mut parser = Events::default();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ping = tokio::time::interval_at(Instant::now() + PING, PING);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            chunk = events.next() => {
                let chunk = match chunk {
                    None => return Some(SHUTDOWN),
                    Some(Err(_)) => return Some(BROKEN),
                    Some(Ok(chunk)) => chunk,
                };
                let Ok(messages) = parser.push(&chunk) else { return Some(BROKEN) };
                for text in messages {
                    send(socket, Message::Text(text.into())).await?;
                }
            }
            said = socket.recv() => match said {
                None | Some(Err(_)) | Some(Ok(Message::Close(_))) => return None,
                // Pings are answered by the library; whatever else a client says is not listened to.
                Some(Ok(_)) => heard = Instant::now(),
            },
            _ = look.tick() => if !proof.holds(engine) { return Some(SIGNED_OUT) },
            _ = ping.tick() => {
                if heard.elapsed() > SILENCE {
                    return None;
                }
                send(socket, Message::Ping(bytes::Bytes::new())).await?;
            }
            () = crate::closed(&mut closing) => return Some(SHUTDOWN),
        }
    }
}

/// `None` when the client is gone.
async fn send(socket: &mut WebSocket, message: Message) -> Option<()> {
    tokio::time::timeout(STUCK, socket.send(message)).await.ok()?.ok()
}
