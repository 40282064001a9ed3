//! People at the HTTP door: names, passwords, tokens and how often one may guess. Pure rules: nothing here reads a
//! clock, a file or a database. Time is passed in, and what must be kept is handed to the caller as text.

mod password;
mod setup;
mod throttle;
mod token;
mod username;

pub use password::{
    BCRYPT_COST, DUMMY_HASH, PASSWORD_MAX, PASSWORD_MIN, PasswordError, check_password, hash_password, verify,
    verify_or_dummy,
};
pub use setup::{SETUP_TOKEN_MIN, SetupClaim, SetupRefused, SetupToken, WeakSetupToken};
pub use throttle::{LOCK, Locked, PER_ADDRESS, PER_NAME, Throttle};
pub use token::{SESSION_LIFETIME, Token, TokenDigest, session_cookie, session_cookie_ended};
pub use username::{Username, UsernameError};
