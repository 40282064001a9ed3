//! Who is asking, and whether that still holds later on.

use axum::body::Body;
use engine::{Engine, Frame, SESSION_COOKIE, Session};
use futures::StreamExt;
use http::StatusCode;
use http::header::{self, HeaderMap};
use policy::Caller;
use std::time::Duration;
use tokio::sync::watch;

use crate::door::{FRAME_HEADER, Refusal, only};

/// How often a running stream looks whether its session or frame is still alive.
const LOOK: Duration = Duration::from_secs(1);
/// Pages of other ports of this host name can set cookies for it too, and theirs may stand first: look at this many.
const COOKIES_MAX: usize = 8;

const UNKNOWN_FRAME: Refusal = Refusal {
    status: StatusCode::FORBIDDEN,
    why: "this page's access has ended: reload it",
};

/// What a request showed.
#[derive(Clone)]
pub enum Proof {
    Nothing,
    /// The cookie's value, and whose it is.
    Session(String, Session),
    /// The token.
    Frame(String),
}

/// The one place where a caller is established. A request that carries a frame token is that app's, cookie or not, and
/// a wrong token is refused instead of falling back to the cookie: a mistake in the page host never acts as the owner.
pub fn establish(engine: &Engine, headers: &HeaderMap) -> Result<(Caller, Proof), Refusal> {
    match only(headers, &FRAME_HEADER) {
        Err(()) => Err(UNKNOWN_FRAME),
        Ok(Some(token)) => {
            let token = token.to_str().map_err(|_| UNKNOWN_FRAME)?;
            let Frame { account, app, .. } = engine.frame(token).ok_or(UNKNOWN_FRAME)?;
            Ok((Caller::App { account, app }, Proof::Frame(token.to_owned())))
        }
        Ok(None) => {
            let session = cookies(headers).find_map(|cookie| Some((cookie, engine.session(cookie)?)));
            Ok(match session {
                None => (Caller::Nobody, Proof::Nothing),
                Some((cookie, session)) => {
                    let account = session.account.clone();
                    (Caller::Owner { account }, Proof::Session(cookie.to_owned(), session))
                }
            })
        }
    }
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, _)| *name == SESSION_COOKIE)
        .map(|(_, value)| value)
        .take(COOKIES_MAX)
}

impl Proof {
    /// Whether the session or frame is still alive.
    pub fn holds(&self, engine: &Engine) -> bool {
        match self {
            Proof::Nothing => true,
            Proof::Session(cookie, _) => engine.session(cookie).is_some(),
            Proof::Frame(token) => engine.frame(token).is_some(),
        }
    }

    /// Done once it is not, or when the door closes.
    async fn over(self, engine: Engine, mut closing: watch::Receiver<bool>) {
        let ended = async {
            let mut look = tokio::time::interval(LOOK);
            loop {
                look.tick().await;
                if !self.holds(&engine) {
                    return;
                }
            }
        };
        tokio::select! {
            () = ended => {}
            () = crate::closed(&mut closing) => {}
        }
    }

    /// An event stream that ends with the proof: signing out ends what the session was listening to.
    pub fn bounds(self, engine: Engine, closing: watch::Receiver<bool>, body: Body) -> Body {
        let over = Box::pin(self.over(engine, closing));
        Body::from_stream(body.into_data_stream().take_until(over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn finds_the_session_among_cookies() {
        let check = |lines: &[&str], want: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, HeaderValue::from_str(line).unwrap());
            }
            assert_eq!(cookies(&headers).collect::<Vec<_>>(), want, "{lines:?}");
        };
        check(&[], &[]);
        check(&["chrysalis_session=a"], &["a"]);
        check(&["x=1; chrysalis_session=a; y"], &["a"]);
        check(
            &["chrysalis_session=a;chrysalis_session=b", "chrysalis_session=c"],
            &["a", "b", "c"],
        );
        check(&["Chrysalis_Session=a; xchrysalis_session=b; chrysalis_session"], &[]);
        check(&[&"chrysalis_session=z;".repeat(20)], &["z"; 8]);
    }
}
