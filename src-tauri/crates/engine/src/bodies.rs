//! Room for the bodies of requests to plugins: how much of them is held at a time, by one app and by all.
//!
//! A body is held some four times over on its way to a plugin (bytes, parsed, printed, in the worker's socket), and for as
//! long as the plugin takes. Without this, a page that sends many at once fills the machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use policy::{AccountId, AppId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Answer, ApiError};

/// Bytes of bodies that all apps may have under way: the largest import and two large requests beside it.
const ALL: usize = 288 << 20;
/// Bytes of bodies that one app may have under way, imports apart: those are counted among all alone.
const ONE: usize = 64 << 20;
/// Bytes taken at a time. What is smaller altogether is not counted.
const STEP: usize = 1 << 20;
/// How long to wait for room.
const PATIENCE: Duration = Duration::from_secs(10);

/// The room that is left.
pub struct Bodies {
    all: Arc<Semaphore>,
    apps: Mutex<HashMap<(AccountId, AppId), Arc<Semaphore>>>,
}

/// Room that one body has taken; given back when dropped.
#[derive(Default)]
pub struct Held(Vec<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)>);

impl Default for Bodies {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL / STEP)),
            apps: Mutex::default(),
        }
    }
}

impl Bodies {
    fn of(&self, account: &AccountId, app: &AppId) -> Arc<Semaphore> {
        let mut apps = self.apps.lock();
        // What nobody holds on to is whole again, and can be made anew.
        apps.retain(|_, room| Arc::strong_count(room) > 1);
        let room = apps.entry((account.clone(), app.clone()));
        room.or_insert_with(|| Arc::new(Semaphore::new(ONE / STEP))).clone()
    }

    /// Reads a body of at most `limit` bytes, taking room as it arrives.
    pub async fn read(
        &self,
        account: &AccountId,
        app: &AppId,
        mut body: Body,
        limit: usize,
        import: bool,
    ) -> Answer<(Bytes, Held)> {
        let too_large = || {
            ApiError::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("The request is over {} MiB, or broke off.", limit >> 20),
            )
        };
        let own = (!import).then(|| self.of(account, app));
        let (mut read, mut held) = (BytesMut::new(), Held::default());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| too_large())?.into_data() else {
                continue;
            };
            if read.len() + data.len() > limit {
                return Err(too_large());
            }
            while (held.0.len() + 1) * STEP < read.len() + data.len() {
                let taking = async {
                    let everyones = self.all.clone().acquire_owned().await.ok()?;
                    let mine = match &own {
                        Some(room) => Some(room.clone().acquire_owned().await.ok()?),
                        None => None,
                    };
                    Some((everyones, mine))
                };
                match tokio::time::timeout(PATIENCE, taking).await {
                    Ok(Some(step)) => held.0.push(step),
                    _ => {
                        let busy = "Too many large requests are under way. Send this one again when they have ended.";
                        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, busy).code("busy"));
                    }
                }
            }
            read.extend_from_slice(&data);
        }
        Ok((read.freeze(), held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_app_holds_no_more_than_its_share() {
        let (bodies, account) = (Bodies::default(), AccountId::random());
        let (a, b) = (AppId::parse("a").unwrap(), AppId::parse("b").unwrap());
        let large = || Body::from(vec![b'x'; 30 << 20]);
        let read = async |app: &AppId| {
            bodies
                .read(&account, app, large(), 32 << 20, false)
                .await
                .map_err(|e| e.status)
        };
        let first = read(&a).await.unwrap();
        let second = read(&a).await.unwrap();
        assert_eq!(read(&a).await.err(), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert!(read(&b).await.is_ok(), "another app has room of its own");
        let small = bodies.read(&account, &a, Body::from("small"), 32 << 20, false).await;
        assert_eq!(
            small.ok().map(|(bytes, _)| bytes),
            Some(Bytes::from("small")),
            "small ones are not counted"
        );
        drop(first);
        assert!(read(&a).await.is_ok(), "room comes back");
        drop(second);
        assert_eq!(bodies.all.available_permits(), ALL / STEP);
        let over = bodies.read(&account, &a, large(), 29 << 20, false).await;
        assert_eq!(over.err().map(|e| e.status), Some(StatusCode::PAYLOAD_TOO_LARGE));
    }
}
