//! Asking the keychain without waiting for it for long, without asking in vain, and without two password dialogs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::Keychain;
use crate::keychain::{self, PATIENCE, Trouble};
use crate::vault::Inner;

/// What is known of the keychain.
pub(crate) enum State {
    Checking {
        since: Instant,
    },
    /// It is there; whether it is locked was not asked, because keys are kept elsewhere.
    Present,
    Usable,
    Unusable(Trouble),
}

/// Counts as long as a thread waits for the keychain.
struct Waiting(Arc<Inner>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Inner {
    fn settle(&self, state: State) {
        *self.state.lock() = state;
        self.checked.notify_all();
    }

    /// What an answer of the keychain says about the keychain.
    fn note<T>(&self, result: &Result<T, Trouble>) {
        match result {
            Ok(_) => self.settle(State::Usable),
            Err(Trouble::ThisKey(_)) => {}
            Err(trouble) => self.settle(State::Unusable(trouble.clone())),
        }
    }

    pub(crate) fn ready(&self) -> Result<(), Trouble> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Usable | State::Present => return Ok(()),
                State::Unusable(trouble) => return Err(trouble.clone()),
                State::Checking { since } => {
                    let until = *since + PATIENCE;
                    if self.checked.wait_until(&mut state, until).timed_out()
                        && let State::Checking { .. } = &*state
                    {
                        return Err(Trouble::Silent);
                    }
                }
            }
        }
    }

    /// Tries the keychain out on a thread of its own, which also removes what is left to be removed.
    pub(crate) fn try_out(self: &Arc<Self>, work: impl FnOnce(&str) -> Result<State, Trouble> + Send + 'static) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let (of, waiting) = (self.clone(), Waiting(self.clone()));
        let started = std::thread::Builder::new()
            .name("keychain-probe".into())
            .spawn(move || {
                let result = work(&of.service);
                drop(waiting);
                let usable = matches!(result, Ok(State::Usable));
                of.settle(result.unwrap_or_else(State::Unusable));
                if usable {
                    of.bury();
                }
            });
        if started.is_err() {
            let why = "no thread could be started to ask the keychain";
            self.settle(State::Unusable(Trouble::Refused(why.into())));
        }
    }

    /// Asks the keychain again, once: that may show its password dialog. Not while an earlier one may still be open.
    pub(crate) fn ask_again(self: &Arc<Self>) -> Result<(), Trouble> {
        if self.keychain == Keychain::None {
            return self.ready();
        }
        if self.waiting.load(Ordering::SeqCst) == 0 {
            self.settle(State::Checking { since: Instant::now() });
            self.try_out(|service| keychain::probe(service).map(|()| State::Usable));
        }
        self.ready()
    }

    /// Removes from the keychain what was deleted while it was out of reach. It is unlocked, so nobody is asked; it may
    /// stop answering in the midst all the same, and whoever wants a key waits for the ledger meanwhile.
    pub(crate) fn bury(&self) {
        let mut ledger = self.ledger.lock();
        for id in ledger.doomed() {
            let (service, name) = (self.service.clone(), id.clone());
            let erased = keychain::on_a_thread(move || keychain::erase(&service, &name), |_| {});
            self.note(&erased);
            if erased.is_err() || ledger.erased(&id).is_err() {
                tracing::warn!(id, "a deleted key could not be removed from the keychain yet");
            }
            if !matches!(erased, Ok(()) | Err(Trouble::ThisKey(_))) {
                break;
            }
        }
    }

    /// Asks the keychain something, unless it is known not to answer. A locked one asks for its password here; once that
    /// was not given, it is not asked again.
    pub(crate) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&str) -> Result<T, Trouble> + Send + 'static,
        late: impl FnOnce(&Arc<Self>, Result<T, Trouble>) + Send + 'static,
    ) -> Result<T, Trouble> {
        self.ready()?;
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let waiting = Waiting(self.clone());
        let (of, of_late) = (self.clone(), self.clone());
        let result = keychain::on_a_thread(
            move || {
                let result = work(&of.service);
                drop(waiting);
                result
            },
            // It was only slow, for instance until its password was typed.
            move |result| {
                of_late.note(&result);
                late(&of_late, result);
            },
        );
        self.note(&result);
        result
    }
}
