use std::fmt;

use zeroize::Zeroizing;

/// Bytes nobody may see. Wiped when dropped; cannot be serialized, printed or compared. Its length is not shown either.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the text over; the `String`'s own memory is the memory that is wiped later.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text.into_bytes()))
    }

    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes, for crate `net` to put into a header and for this crate to store. A `tidy` test sees to it that no
    /// other crate says this name.
    pub fn expose_to_net(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("sk-canary".into())), "Secret(…)");
        assert_eq!(format!("{:?}", Some(Secret::new(String::new()))), "Some(Secret(…))");
    }
}
