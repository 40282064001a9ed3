//! Passwords. bcrypt reads at most 72 bytes and some implementations stop at a NUL, so it is never given the password
//! itself but a digest of fixed length, written in base64: every byte of the password counts (failures 40).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};

/// Fewest characters (Unicode scalar values) of a password. The reference engine takes 4; NIST SP 800-63B asks for 8.
pub const PASSWORD_MIN: usize = 8;
/// Most characters of a password, so that nobody makes the engine digest megabytes.
pub const PASSWORD_MAX: usize = 1024;
/// bcrypt's work factor (contract section 7): 2^10 rounds, some 50 ms on a desktop machine.
pub const BCRYPT_COST: u32 = 10;

/// A hash of 256 random bits that were thrown away, with the same parameters as a real one: what a login compares
/// against when there is no such person or the person has no password, so that both take as long (failures 41).
pub const DUMMY_HASH: &str = "$2b$10$rId6WK5fxqycIsLs6hCNIuWLsnS1zxmTkLw/eZ8EOyi4EPehymdHK";

/// Keeps a digest made here from meaning anything elsewhere. Changing it invalidates every stored password.
const DOMAIN: &[u8] = b"chrysalis password 1\0";

/// Why a password was refused; the text is for the person who chose it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    #[error("this password is too short: use at least {PASSWORD_MIN} characters")]
    TooShort,
    #[error("this password is too long: use at most {PASSWORD_MAX} characters")]
    TooLong,
    /// The operating system gave no random bytes for the salt.
    #[error("the password could not be kept: the operating system gave no random numbers")]
    NoRandomness,
}

/// Whether `password` may become one: [`PASSWORD_MIN`] to [`PASSWORD_MAX`] characters, any of Unicode, NUL included.
pub fn check_password(password: &str) -> Result<(), PasswordError> {
    // Counting stops at the limit: what follows does not matter.
    match password.chars().take(PASSWORD_MAX + 1).count() {
        n if n < PASSWORD_MIN => Err(PasswordError::TooShort),
        n if n > PASSWORD_MAX => Err(PasswordError::TooLong),
        _ => Ok(()),
    }
}

fn digest(password: &str) -> String {
    let sum = Sha256::new()
        .chain_update(DOMAIN)
        .chain_update(password.as_bytes())
        .finalize();
    // 43 bytes without a NUL: well inside bcrypt's 72.
    STANDARD_NO_PAD.encode(sum)
}

/// The text to keep for `password` (60 bytes, `$2b$10$…`, with a fresh salt), after [`check_password`].
///
/// Takes some 50 ms of one core: call it inside `tokio::task::spawn_blocking`.
pub fn hash_password(password: &str) -> Result<String, PasswordError> {
    check_password(password)?;
    bcrypt::hash(digest(password), BCRYPT_COST).map_err(|_| PasswordError::NoRandomness)
}

/// Whether `password` is the one `hash` was made from. A password that breaks the rules or a hash that cannot be read
/// is simply not it; a password over the limit is compared like any other, so that its length shows in nothing.
///
/// Takes as long as [`hash_password`]: call it inside `tokio::task::spawn_blocking`.
pub fn verify(password: &str, hash: &str) -> bool {
    bcrypt::verify(digest(password), hash).unwrap_or(false)
}

/// [`verify`], and the same work for nothing when there is no hash (no such person, or no password set): always
/// `false` then.
///
/// Call it inside `tokio::task::spawn_blocking`.
pub fn verify_or_dummy(password: &str, hash: Option<&str>) -> bool {
    let matches = verify(password, hash.unwrap_or(DUMMY_HASH));
    matches && hash.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn length_is_counted_in_characters() {
        for (password, want) in [
            (String::new(), Err(PasswordError::TooShort)),
            ("1234567".into(), Err(PasswordError::TooShort)),
            ("12345678".into(), Ok(())),
            ("🦋".repeat(7), Err(PasswordError::TooShort)),
            ("🦋".repeat(8), Ok(())),
            ("pass\0word".into(), Ok(())),
            ("日".repeat(1024), Ok(())),
            ("日".repeat(1025), Err(PasswordError::TooLong)),
        ] {
            assert_eq!(check_password(&password), want, "{} bytes", password.len());
            if let Err(error) = want {
                assert_eq!(hash_password(&password), Err(error));
            }
        }
    }

    /// Failures 40: pairs that plain bcrypt cannot tell apart.
    #[test]
    fn every_byte_counts() {
        let same = "x".repeat(72);
        for (a, b) in [
            (format!("{same}12345678"), format!("{same}87654321")),
            (same.clone(), format!("{same}y")),
            ("12345678a\0b".into(), "12345678a\0c".into()),
            ("12345678".into(), "12345678\0".into()),
            ("🦋".repeat(24), "🦋".repeat(23) + "🐛"),
            ("🦋".repeat(24), "🦋".repeat(25)),
            ("Correct horse".into(), "correct horse".into()),
        ] {
            let hash = hash_password(&a).unwrap();
            assert!(verify(&a, &hash), "{a:?}");
            assert!(!verify(&b, &hash), "{a:?} {b:?}");
        }
    }

    #[test]
    fn hashes_are_salted_and_carry_the_cost() {
        let one = hash_password("correct horse").unwrap();
        let two = hash_password("correct horse").unwrap();
        assert_ne!(one, two);
        assert!(one.starts_with("$2b$10$"), "{one}");
        assert_eq!(one.len(), DUMMY_HASH.len());
        assert_eq!(one[..7], DUMMY_HASH[..7], "same version and cost, so the same work");
    }

    #[test]
    fn unreadable_hashes_match_nothing() {
        for bad in ["", "x", "$2b$10$short", "$2b$99$", "plain text password", "$2b$10$🦋"] {
            assert!(!verify("plain text password", bad), "{bad}");
        }
    }

    /// Failures 41. The bound is loose (a busy machine), yet far from what an early answer would take.
    #[test]
    fn nobody_costs_as_much_as_somebody() {
        let hash = hash_password("correct horse").unwrap();
        let time = |hash: Option<&str>| {
            let best = (0..3).map(|_| {
                let start = Instant::now();
                assert!(!verify_or_dummy("wrong horse", hash));
                start.elapsed()
            });
            best.min().unwrap_or(Duration::ZERO)
        };
        let (real, dummy) = (time(Some(&hash)), time(None));
        assert!(dummy > real / 3 && real > dummy / 3, "{real:?} {dummy:?}");
        assert!(verify_or_dummy("correct horse", Some(&hash)));
    }
}
