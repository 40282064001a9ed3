use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// How long a session lasts from sign-in (contract section 7): 30 days.
pub const SESSION_LIFETIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// 256 random bits that prove something to whoever sees them: a session or an API token. Shown or sent once, as 43
/// characters of base64url; only its [`TokenDigest`] is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// A new one.
    ///
    /// # Panics
    /// When the operating system has no randomness to give, since nothing here is safe without it.
    pub fn random() -> Self {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        Self(bytes)
    }

    /// Reads what someone presented. Exactly the text [`Token::text`] gives; anything else, such as padding or a
    /// second spelling of the last character, is no token.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 43 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// What to hand to its owner. Never log it.
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// What to keep.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(self.0).into())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// SHA-256 of a [`Token`]. Equality takes the same time wherever the two differ. Looking one up in an index by value is
/// fine as well: whoever can choose the digest's bytes would have to invert SHA-256 first.
#[derive(Clone, Copy)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    /// 64 lower-case hex digits, the form to store.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }

    /// Reads [`TokenDigest::to_hex`] back.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0u8; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}
impl Eq for TokenDigest {}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest(…)")
    }
}

/// The `Set-Cookie` value that signs a browser in for [`SESSION_LIFETIME`]. `name` is the engine's `SESSION_COOKIE`.
///
/// `SameSite=Strict` and `HttpOnly` always; `secure` adds `Secure`, for a door that speaks TLS (on plain loopback some
/// browsers would drop the cookie). Browsers share cookies between the ports of one host name, so this alone never
/// proves that a request came from our own page: the door's `Origin` and header checks do.
pub fn session_cookie(name: &str, token: &Token, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    let age = SESSION_LIFETIME.as_secs();
    format!(
        "{name}={}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}",
        token.text()
    )
}

/// The `Set-Cookie` value that removes the cookie again.
pub fn session_cookie_ended(name: &str, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{name}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let token = Token::random();
        let again = Token::parse(&token.text()).unwrap();
        assert_eq!(again.digest(), token.digest());
        assert_eq!(TokenDigest::parse(&token.digest().to_hex()), Some(token.digest()));
        assert_ne!(Token::random().digest(), token.digest());
        assert_ne!(
            token.digest().to_hex(),
            hex::encode(token.0),
            "the token itself is never what is kept"
        );
    }

    #[test]
    fn one_spelling_only() {
        let text = Token::random().text();
        assert!(
            text.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        );
        let mut bad = vec![
            String::new(),
            text[1..].to_owned(),
            format!("{text}="),
            format!(" {text}"),
            format!("{}🦋", &text[..39]),
            "A".repeat(42) + "!",
        ];
        // 43 characters carry 258 bits: the last two must be zero, or several texts would be one token.
        bad.push("A".repeat(42) + "B");
        for bad in bad {
            assert!(Token::parse(&bad).is_none(), "{bad:?}");
        }
        assert!(Token::parse(&"A".repeat(43)).is_some());
    }

    #[test]
    fn secrets_do_not_show() {
        let token = Token::random();
        let shown = format!("{token:?} {:?}", token.digest());
        assert!(
            !shown.contains(&token.text()) && !shown.contains(&token.digest().to_hex()),
            "{shown}"
        );
    }

    #[test]
    fn cookies() {
        let token = Token::random();
        let cookie = session_cookie("chrysalis_session", &token, false);
        assert_eq!(
            cookie,
            format!(
                "chrysalis_session={}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict",
                token.text()
            )
        );
        assert!(session_cookie("s", &token, true).ends_with("; SameSite=Strict; Secure"));
        assert!(session_cookie_ended("s", false).starts_with("s=; Path=/; Max-Age=0;"));
    }
}
