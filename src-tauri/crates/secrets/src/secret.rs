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

    /// Does not compile where the type has the trait: the call could then mean two things.
    macro_rules! never {
        ($type:ty: $($bound:path),*) => { $(const _: fn() = || {
            trait Either<Which> {
                fn one() {}
            }
            struct Has;
            impl<T: ?Sized> Either<()> for T {}
            impl<T: ?Sized + $bound> Either<Has> for T {}
            let _ = <$type as Either<_>>::one;
        };)* };
    }

    // Not shown, not written out, not compared in time that tells something, not handed out by a conversion.
    never!(Secret: fmt::Display, serde::Serialize, PartialEq, std::hash::Hash, AsRef<[u8]>, AsRef<str>);
    never!(Secret: std::ops::Deref, Into<Vec<u8>>, Into<String>, std::borrow::Borrow<[u8]>, std::io::Read, Copy);
    never!(crate::KeyHandle: fmt::Display, serde::Serialize, PartialEq, std::ops::Deref, AsRef<Secret>, Into<Secret>);
    never!(crate::Vault: fmt::Display, serde::Serialize);

    /// What holds the bytes wipes them when it is dropped.
    const _: fn(Secret) = |secret| {
        fn wiped<T: zeroize::ZeroizeOnDrop>(_: T) {}
        wiped(secret.0);
    };

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("sk-canary".into())), "Secret(…)");
        assert_eq!(format!("{:?}", Some(Secret::new(String::new()))), "Some(Secret(…))");
    }
}
