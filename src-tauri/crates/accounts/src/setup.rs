use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Fewest bytes of a setup token that a person chose (`CHRYSALIS_SETUP_TOKEN`).
pub const SETUP_TOKEN_MIN: usize = 8;

/// The setup token that was given is too easy to guess.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the setup token is too short: give at least {SETUP_TOKEN_MIN} characters, or none to have one made")]
pub struct WeakSetupToken;

/// Why a setup was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetupRefused {
    /// 403.
    #[error("this setup link is not the right one: use the newest line that says \"setup:\" in the program's output")]
    Wrong,
    /// 409; also while another setup with the right token is under way.
    #[error("Chrysalis is set up already: sign in instead")]
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    Claimed,
    Spent,
}

/// Lets the first person at the HTTP door give the owner a name and a password: once.
pub struct SetupToken {
    text: String,
    state: Mutex<State>,
}

impl SetupToken {
    /// A random one, 18 bytes as 24 characters of base64url (contract section 7).
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn random() -> Self {
        let mut bytes = [0u8; 18];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self::with(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// One that the person who starts the server chose.
    pub fn given(text: &str) -> Result<Self, WeakSetupToken> {
        if text.len() < SETUP_TOKEN_MIN {
            return Err(WeakSetupToken);
        }
        Ok(Self::with(text.to_owned()))
    }

    fn with(text: String) -> Self {
        Self {
            text,
            state: Mutex::new(State::Open),
        }
    }

    /// The text for the setup link; `None` once it was used.
    pub fn reveal(&self) -> Option<&str> {
        (*self.state.lock() != State::Spent).then_some(self.text.as_str())
    }

    /// Compares in constant time and, when right, holds the token for this one setup: of two at once, the second gets
    /// [`SetupRefused::Done`]. The token is open again when the claim is dropped without [`SetupClaim::spend`], so that
    /// a weak password or a full disk does not lock the owner out.
    ///
    /// [`SetupRefused::Done`] is said to anyone after the setup, whatever they present.
    pub fn claim(&self, presented: &str) -> Result<SetupClaim<'_>, SetupRefused> {
        // Digests have the same length, so the comparison tells nothing about the length either.
        let right: bool = Sha256::digest(presented.as_bytes())
            .ct_eq(&Sha256::digest(self.text.as_bytes()))
            .into();
        let mut state = self.state.lock();
        match (*state, right) {
            (State::Spent, _) | (State::Claimed, true) => Err(SetupRefused::Done),
            (_, false) => Err(SetupRefused::Wrong),
            (State::Open, true) => {
                *state = State::Claimed;
                Ok(SetupClaim {
                    token: self,
                    spent: false,
                })
            }
        }
    }
}

impl fmt::Debug for SetupToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SetupToken(…)")
    }
}

/// The right token was presented and nobody else can use it meanwhile.
#[derive(Debug)]
pub struct SetupClaim<'a> {
    token: &'a SetupToken,
    spent: bool,
}

impl SetupClaim<'_> {
    /// The setup is in the database: the token is used up.
    pub fn spend(mut self) {
        self.spent = true;
    }
}

impl Drop for SetupClaim<'_> {
    fn drop(&mut self) {
        *self.token.state.lock() = if self.spent { State::Spent } else { State::Open };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_once() {
        let token = SetupToken::random();
        let text = token.reveal().unwrap().to_owned();
        assert_eq!(text.len(), 24);
        for wrong in ["", "x", &text[1..], &format!("{text} "), &text.to_uppercase(), "🦋"] {
            assert_eq!(token.claim(wrong).unwrap_err(), SetupRefused::Wrong, "{wrong:?}");
        }
        let claim = token.claim(&text).unwrap();
        assert_eq!(token.claim(&text).unwrap_err(), SetupRefused::Done, "two at once");
        assert_eq!(token.claim("wrong").unwrap_err(), SetupRefused::Wrong);
        drop(claim);
        token
            .claim(&text)
            .expect("open again after a setup that failed")
            .spend();
        assert_eq!(token.claim(&text).unwrap_err(), SetupRefused::Done);
        assert_eq!(token.claim("wrong").unwrap_err(), SetupRefused::Done);
        assert_eq!(token.reveal(), None);
    }

    #[test]
    fn given_tokens_have_a_least_length() {
        assert_eq!(SetupToken::given("short").unwrap_err(), WeakSetupToken);
        let token = SetupToken::given("chosen by me").unwrap();
        assert!(!format!("{token:?}").contains("chosen"));
        assert!(token.claim("chosen by me").is_ok());
    }

    #[test]
    fn one_of_many_at_once_wins() {
        let token = SetupToken::given("chosen by me").unwrap();
        let won = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| token.claim("chosen by me").map(SetupClaim::spend).is_ok()))
                .collect();
            tries
                .into_iter()
                .filter_map(|t| t.join().ok())
                .filter(|won| *won)
                .count()
        });
        assert_eq!(won, 1);
    }
}
