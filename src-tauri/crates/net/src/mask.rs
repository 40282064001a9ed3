use bytes::Bytes;
use secrets::Secret;

/// What stands where a secret was.
const MASK: &[u8] = b"[secret]";

/// Shorter secrets are not looked for: hiding every "a" of an answer would tell more than it hides.
const SHORTEST: usize = 8;

/// A model server's key may be a word that a local server is satisfied with, such as `lm-studio`, and the names of models
/// may have that in them. One that opens anything is longer.
const SHORTEST_KEY: usize = 16;

/// Takes secrets out of what a server sends back, so that whoever may use one without seeing it does not read it in an
/// echo. Finds a secret that arrives in two pieces. It does not find one that the server has encoded.
#[derive(Default)]
pub(crate) struct Mask {
    /// Longest first, so that one that begins with another is found whole.
    secrets: Vec<Secret>,
    /// The end of what has arrived, as far as a secret may begin there.
    held: Vec<u8>,
    /// What stands where a secret was, if not [`MASK`].
    word: Option<&'static [u8]>,
}

impl Mask {
    /// For the answers of a model server that was sent `key`.
    pub(crate) fn of_key(key: Option<Secret>) -> Self {
        let mut mask = Self {
            word: Some(b"[key]"),
            ..Self::default()
        };
        if let Some(key) = key.filter(|key| key.expose_to_net().len() >= SHORTEST_KEY) {
            mask.add(key);
        }
        mask
    }

    pub(crate) fn add(&mut self, secret: Secret) {
        if secret.expose_to_net().len() >= SHORTEST {
            self.secrets.push(secret);
            self.secrets
                .sort_by_key(|secret| std::cmp::Reverse(secret.expose_to_net().len()));
        }
    }

    /// The next piece without secrets; its end may be kept back until the next one.
    pub(crate) fn pass(&mut self, piece: Bytes) -> Bytes {
        if self.secrets.is_empty() {
            return piece;
        }
        self.held.extend_from_slice(&piece);
        self.sift(false)
    }

    /// What was kept back, once nothing more comes.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.sift(true)
    }

    /// A whole text without secrets.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut whole = Self {
            secrets: self.secrets.clone(),
            held: text.as_bytes().to_vec(),
            word: self.word,
        };
        // Secrets are ASCII, and so is the mask: what is left is still UTF-8.
        String::from_utf8_lossy(&whole.sift(true)).into_owned()
    }

    /// Whether a secret is in a text whose letters may have been made small or large on the way: names of headers and
    /// hosts are the same either way.
    pub(crate) fn is_in_name(&self, name: &str) -> bool {
        self.secrets.iter().any(|secret| {
            let secret = secret.expose_to_net();
            let mut places = name.as_bytes().windows(secret.len());
            places.any(|place| place.eq_ignore_ascii_case(secret))
        })
    }

    fn sift(&mut self, last: bool) -> Bytes {
        let held = std::mem::take(&mut self.held);
        let mut clean = Vec::with_capacity(held.len());
        let mut rest = held.as_slice();
        'bytes: while let Some(first) = rest.first() {
            for secret in &self.secrets {
                let secret = secret.expose_to_net();
                if secret.first() != Some(first) {
                    continue;
                }
                if let Some(behind) = rest.strip_prefix(secret) {
                    clean.extend_from_slice(self.word.unwrap_or(MASK));
                    rest = behind;
                    continue 'bytes;
                }
                if !last && secret.starts_with(rest) {
                    self.held = rest.to_vec();
                    return clean.into();
                }
            }
            clean.push(*first);
            rest = &rest[1..];
        }
        clean.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(secrets: &[&str]) -> Mask {
        let mut mask = Mask::default();
        for secret in secrets {
            mask.add(Secret::new((*secret).into()));
        }
        mask
    }

    #[test]
    fn however_it_is_cut_the_secret_is_gone() {
        let text = b"ssk-canarysk-canary-longer and sk-canar\xff sk-canary";
        let clean = b"s[secret][secret] and sk-canar\xff [secret]";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let mut mask = mask(&["sk-canary", "sk-canary-longer"]);
                let mut got = Vec::new();
                for piece in [&text[..first], &text[first..second], &text[second..]] {
                    got.extend_from_slice(&mask.pass(Bytes::copy_from_slice(piece)));
                }
                got.extend_from_slice(&mask.rest());
                assert_eq!(got, clean, "{first} {second}");
            }
        }
        assert_eq!(mask(&["sk-canary"]).text("日 sk-canary 本"), "日 [secret] 本");
    }

    #[test]
    fn names_are_compared_without_case() {
        let mask = mask(&["Sk-Canary"]);
        assert!(mask.is_in_name("x-sk-canary-1") && mask.is_in_name("SK-CANARY"));
        assert!(!mask.is_in_name("sk-canar") && !mask.is_in_name(""));
    }

    #[test]
    fn without_secrets_nothing_is_touched() {
        let mut none = mask(&["short"]);
        assert_eq!(none.pass(Bytes::from_static(b"a short text")), "a short text");
        assert_eq!(none.rest(), "");
    }
}
