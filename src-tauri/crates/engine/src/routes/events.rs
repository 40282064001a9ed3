//! Events as one streamed answer. `/v1/ws` is an adapter over this one, in the doors.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use policy::{Caller, Callers, Condition};
use serde_json::json;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

use crate::Engine;
use crate::door::{Asker, Table};
use crate::error::{Answer, ApiError};

pub fn routes(table: Table) -> Table {
    table
        .route(
            "GET",
            "/v1/events",
            Callers::PERSON_OR_APP,
            Condition::OwnRecords,
            events,
        )
        .route(
            "GET",
            "/v1/ws",
            Callers::PERSON_OR_APP,
            Condition::OwnRecords,
            websocket,
        )
}

/// A comment this often keeps the stream alive and finds out when its reader is gone.
const PING: Duration = Duration::from_secs(30);

async fn events(State(engine): State<Engine>, asker: Asker) -> Answer {
    let username = engine
        .db()
        .account(&asker.account)?
        .map(|a| a.username)
        .unwrap_or_default();
    let hello = json!({"type": "hello", "payload": {"username": username, "build": crate::VERSION}}).to_string();
    let state = (engine.bus().subscribe(), asker.caller, Some(hello));
    let frames = stream::unfold(state, |(mut events, caller, hello)| async move {
        if let Some(hello) = hello {
            return Some((data(&hello), (events, caller, None)));
        }
        let frame = loop {
            match tokio::time::timeout(PING, events.recv()).await {
                Err(_) => break ": ping\n\n".to_owned().into(),
                Ok(Ok(event)) if event.visible_to(&caller) => break data(&event.frame()),
                Ok(Ok(_)) => {}
                // People are told that they missed some, so that the launcher can load afresh.
                Ok(Err(RecvError::Lagged(missed))) if !matches!(caller, Caller::App { .. }) => {
                    break data(&json!({"type": "missed", "payload": {"events": missed}}).to_string());
                }
                Ok(Err(RecvError::Lagged(_))) => {}
                Ok(Err(RecvError::Closed)) => return None,
            }
        };
        Some((frame, (events, caller, None)))
    });
    Ok(event_stream(Body::from_stream(futures::StreamExt::map(
        frames,
        Ok::<_, Infallible>,
    ))))
}

/// One server-sent event.
pub fn data(text: &str) -> Bytes {
    format!("data: {text}\n\n").into()
}

/// An answer that is a stream of server-sent events.
pub fn event_stream(body: Body) -> Response {
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}

async fn websocket(_asker: Asker) -> ApiError {
    ApiError::new(
        StatusCode::UPGRADE_REQUIRED,
        "This address is a WebSocket; without one, read GET /v1/events.",
    )
}
