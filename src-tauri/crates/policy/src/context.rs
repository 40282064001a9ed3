use std::time::{Duration, Instant};

use crate::{AccountId, Caller, random_hex};

/// How many calls may stand inside one another; one more is refused (design: plugin → model → tool → plugin chains).
pub const MAX_DEPTH: u8 = 5;

/// 128 random bits in W3C trace-context form (32 lower-case hex digits), made by the engine and never taken from outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceId(String);

impl TraceId {
    pub fn random() -> Self {
        Self(random_hex(16))
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    #[error(
        "this call is {MAX_DEPTH} calls deep already: a plugin, a model and a tool are calling one another in circles"
    )]
    TooDeep,
    #[error("the time for this call is used up")]
    Expired,
}

/// Travels beside every call: who started it, through whom it came, how deep it is, and when it must be done. It is
/// handed on explicitly and is never read from anything a guest sent.
#[derive(Debug, Clone)]
pub struct CallContext {
    pub trace: TraceId,
    pub account: Option<AccountId>,
    /// Everyone this call came through, outermost first.
    pub chain: Vec<Caller>,
    pub depth: u8,
    pub deadline: Option<Instant>,
}

impl CallContext {
    /// A call that starts here, on behalf of `caller`.
    pub fn root(caller: &Caller) -> Self {
        Self {
            trace: TraceId::random(),
            account: caller.account().cloned(),
            chain: vec![caller.clone()],
            depth: 1,
            deadline: None,
        }
    }

    /// The context of a call that `caller` makes while serving this one. Keeps the account, trace and deadline.
    pub fn enter(&self, caller: &Caller) -> Result<Self, ContextError> {
        if self.depth >= MAX_DEPTH {
            return Err(ContextError::TooDeep);
        }
        if self.deadline.is_some_and(|at| at <= Instant::now()) {
            return Err(ContextError::Expired);
        }
        let mut next = self.clone();
        next.chain.push(caller.clone());
        next.depth += 1;
        Ok(next)
    }

    /// The same context, ending at most `limit` from now; an earlier deadline stays.
    pub fn within(mut self, limit: Duration) -> Self {
        let at = Instant::now() + limit;
        self.deadline = Some(self.deadline.map_or(at, |old| old.min(at)));
        self
    }

    /// The chain as the activity log shows it: `owner > app:chat > plugin:chat/chat`.
    pub fn chain_label(&self) -> String {
        self.chain.iter().map(Caller::label).collect::<Vec<_>>().join(" > ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_five_is_the_last_one() {
        let mut context = CallContext::root(&Caller::Nobody);
        for _ in 1..MAX_DEPTH {
            context = context.enter(&Caller::Nobody).unwrap();
        }
        assert_eq!(context.depth, MAX_DEPTH);
        assert_eq!(context.enter(&Caller::Nobody).unwrap_err(), ContextError::TooDeep);
    }

    #[test]
    fn a_deadline_only_moves_closer() {
        let near = CallContext::root(&Caller::Nobody).within(Duration::from_secs(1));
        let far = near.clone().within(Duration::from_secs(60));
        assert_eq!(near.deadline, far.deadline);
        let past = CallContext::root(&Caller::Nobody).within(Duration::ZERO);
        assert_eq!(past.enter(&Caller::Nobody).unwrap_err(), ContextError::Expired);
    }
}
