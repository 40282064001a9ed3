//! Tokens that let a frame in a browser load one app's files and act as that app: 128 random bits each, bound to the
//! session, account and app, and gone with any of them.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;
use policy::{AccountId, AppId, random_hex};

use crate::{Frame, Session};

/// Tokens one session may hold; opening one more closes its oldest.
const PER_SESSION: usize = 64;

struct Open {
    session: String,
    frame: Frame,
    at: Instant,
}

#[derive(Default)]
pub struct Frames(Mutex<HashMap<String, Open>>);

impl Frames {
    pub fn open(&self, session: &Session, account: &AccountId, app: &AppId) -> String {
        let mut all = self.0.lock();
        let own = all.iter().filter(|(_, open)| open.session == session.id);
        if own.clone().count() >= PER_SESSION
            && let Some(oldest) = own.min_by_key(|(_, open)| open.at).map(|(token, _)| token.clone())
        {
            all.remove(&oldest);
        }
        let token = random_hex(16);
        let frame = Frame {
            account: account.clone(),
            app: app.clone(),
        };
        all.insert(
            token.clone(),
            Open {
                session: session.id.clone(),
                frame,
                at: Instant::now(),
            },
        );
        token
    }

    /// The frame of a token, with the session it hangs on.
    pub fn find(&self, token: &str) -> Option<(Frame, String)> {
        self.0
            .lock()
            .get(token)
            .map(|open| (open.frame.clone(), open.session.clone()))
    }

    pub fn close(&self, token: &str, account: &AccountId, app: &AppId) {
        let mut all = self.0.lock();
        if all
            .get(token)
            .is_some_and(|open| open.frame.account == *account && open.frame.app == *app)
        {
            all.remove(token);
        }
    }

    pub fn end_session(&self, session: &str) {
        self.0.lock().retain(|_, open| open.session != session);
    }

    pub fn end_account(&self, account: &AccountId, keep: Option<&str>) {
        self.0
            .lock()
            .retain(|_, open| open.frame.account != *account || Some(open.session.as_str()) == keep);
    }

    pub fn end_app(&self, account: &AccountId, app: &AppId) {
        self.0
            .lock()
            .retain(|_, open| open.frame.account != *account || open.frame.app != *app);
    }
}
