use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use policy::CallContext;

use crate::NetError;

/// One outgoing connection as the activity log shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Who asked for it: the innermost caller, as [`policy::Caller::label`] names it.
    pub caller: String,
    /// Everyone it came through, outermost first: `owner > app:chat > plugin:chat/chat`.
    pub chain: String,
    pub account: Option<String>,
    /// The app it was made for, if any.
    pub app: Option<String>,
    /// 32 lower-case hex digits.
    pub trace: String,
    pub method: String,
    /// Without user name, password, query and fragment.
    pub url: String,
    /// What for, in a word or two: `chat`, `models`, `probe`.
    pub purpose: &'static str,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub outcome: Outcome,
    /// HTTP status, if an answer began.
    pub status: Option<u16>,
    /// Bytes of the answer's body that arrived.
    pub bytes: u64,
    pub took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The whole answer arrived, or all of it that whoever asked needed ([`crate::Body::enough`]).
    Done,
    /// The network or the server failed.
    Failed(String),
    /// The rules stopped it after its line was written: a name with a forbidden address behind it, a redirect.
    Refused(String),
    /// Whoever asked stopped reading; the connection was closed.
    Cancelled,
}

/// Where connections are written down. `connecting` runs where blocking is allowed and is waited for; the other two
/// run on whatever thread the connection ended, also while a runtime shuts down, and should be brief.
pub trait ConnectionLog: Send + Sync + 'static {
    /// Called before the name is looked up and the connection made. Returns the line's id for [`Self::finished`]. An
    /// error stops the connection.
    fn connecting(&self, attempt: &Attempt) -> Result<i64, String>;
    /// Called exactly once for each line that `connecting` wrote.
    fn finished(&self, id: i64, end: &End);
    /// Called when a connection is refused before `connecting`; there is no line yet and nothing is sent.
    fn refused(&self, attempt: &Attempt, why: &str);
}

impl Attempt {
    pub(crate) fn new(ctx: &CallContext, method: &str, url: String, purpose: &'static str) -> Self {
        Self {
            caller: ctx.chain.last().map_or_else(|| "nobody".into(), policy::Caller::label),
            chain: ctx.chain_label(),
            account: ctx.account.as_ref().map(|account| account.as_str().to_owned()),
            app: ctx
                .chain
                .iter()
                .rev()
                .find_map(|caller| caller.app())
                .map(|app| app.as_str().to_owned()),
            trace: ctx.trace.as_str().to_owned(),
            method: method.to_owned(),
            url,
            purpose,
        }
    }
}

/// An open line of the log. Dropped without an outcome, the connection was given up by whoever asked for it.
pub(crate) struct Line {
    log: Arc<dyn ConnectionLog>,
    id: i64,
    began: Instant,
    ended: bool,
    /// Whoever asked has all that it needs: see [`crate::Body::enough`].
    pub(crate) enough: Arc<AtomicBool>,
    pub(crate) status: Option<u16>,
    pub(crate) bytes: u64,
}

impl Line {
    pub(crate) fn new(log: Arc<dyn ConnectionLog>, id: i64) -> Self {
        Self {
            log,
            id,
            began: Instant::now(),
            ended: false,
            enough: Arc::default(),
            status: None,
            bytes: 0,
        }
    }

    pub(crate) fn done(&mut self) {
        self.end(Outcome::Done);
    }

    pub(crate) fn failed(&mut self, error: &NetError) {
        let text = error.to_string();
        self.end(match error.is_refusal() {
            true => Outcome::Refused(text),
            false => Outcome::Failed(text),
        });
    }

    fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let end = End {
            outcome,
            status: self.status,
            bytes: self.bytes,
            took: self.began.elapsed(),
        };
        self.log.finished(self.id, &end);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end(match self.enough.load(Ordering::Relaxed) {
            true => Outcome::Done,
            false => Outcome::Cancelled,
        });
    }
}
