use std::fmt;

use serde::{Deserialize, Serialize};

/// A name was refused. The text says which rule it broke and is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// App and plugin ids: `[a-z0-9][a-z0-9_-]{0,63}`.
    #[error(
        "{what} id \"{given}\" is not valid: use 1 to 64 lower-case letters, digits, '-' or '_', starting with a letter or digit"
    )]
    Form { what: &'static str, given: String },
    /// Plugin ids have no `__`: it stands between the ids of an app and its plugin in `<app>__<plugin>`, and what stands
    /// behind the last one must be the plugin's for that to name only one.
    #[error("the {what} id \"{given}\" is a word of Chrysalis' own addresses: choose another")]
    Taken { what: &'static str, given: String },
    #[error(
        "{what} id \"{given}\" contains \"__\", which stands between the ids of an app and its plugin: use one '_'"
    )]
    Joint { what: &'static str, given: String },
    /// Account ids: 32 lower-case hex digits.
    #[error("account id is not valid: expected 32 hexadecimal digits")]
    Account,
    /// Names that Windows keeps for devices; workspaces travel, so they are refused everywhere.
    #[error("{what} id \"{given}\" is a reserved device name on Windows: choose another")]
    Device { what: &'static str, given: String },
}

/// `bytes` random bytes from the operating system, as lower-case hex.
///
/// # Panics
/// When the operating system has no randomness to give, since nothing here is safe without it.
pub fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0u8; bytes];
    getrandom::fill(&mut buffer).expect("the operating system gives random bytes");
    hex::encode(buffer)
}

/// A person's account: 128 random bits as hex, never reused, so nothing of a deleted account is ever inherited.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountId(String);

impl AccountId {
    /// A new random id.
    pub fn random() -> Self {
        Self(random_hex(16))
    }
    /// Reads an id back; anything but 32 lower-case hex digits is refused.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let ok = text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if ok {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::Account)
        }
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const APP: &str = "app";
const PLUGIN: &str = "plugin";
/// Words that stand in an app's place in addresses of the engine itself (`/v1/apps/import`, contract section 6).
const TAKEN: [&str; 3] = ["import", "updates", "active"];
/// What stands between the ids of an app and its plugin where both are named at once.
pub const JOINT: &str = "__";

fn check(what: &'static str, text: &str) -> Result<(), IdError> {
    let mut bytes = text.bytes();
    let first = bytes
        .next()
        .is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let rest = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if !first || !rest || text.len() > 64 {
        let given = text.chars().take(80).collect();
        return Err(IdError::Form { what, given });
    }
    let device = matches!(text, "con" | "prn" | "aux" | "nul")
        || (text.len() == 4
            && (text.starts_with("com") || text.starts_with("lpt"))
            && text.as_bytes()[3].is_ascii_digit());
    if device {
        return Err(IdError::Device {
            what,
            given: text.to_owned(),
        });
    }
    if what == APP && TAKEN.contains(&text) {
        return Err(IdError::Taken {
            what,
            given: text.to_owned(),
        });
    }
    if what == PLUGIN && text.contains(JOINT) {
        return Err(IdError::Joint {
            what,
            given: text.to_owned(),
        });
    }
    Ok(())
}

macro_rules! name_id {
    ($(#[$doc:meta])* $name:ident, $what:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);
        impl $name {
            /// Accepts `[a-z0-9][a-z0-9_-]{0,63}` other than a Windows device name; of plugins, without `__`.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                check($what, text).map(|()| Self(text.to_owned()))
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}
name_id!(
    /// An app's folder name in the workspace.
    AppId, APP
);
name_id!(
    /// A plugin's folder name inside its app.
    PluginId, PLUGIN
);

/// What [`AppId::shelf`] is called. Begins with `_`, so that no folder of an app can have the name.
const SHELF: &str = "_";

impl AppId {
    /// Stands for the app of plugins that belong to none: those in a workspace's own `plugins/` folder. [`AppId::parse`]
    /// refuses it, so neither a request nor an app's manifest can name it.
    pub fn shelf() -> Self {
        Self(SHELF.to_owned())
    }

    pub fn is_shelf(&self) -> bool {
        self.0 == SHELF
    }
}

macro_rules! text_impls {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String { id.0 }
        }
        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> { Self::parse(&text) }
        }
    )*};
}
text_impls!(AccountId, AppId, PluginId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_our_addresses_are_no_apps() {
        for word in ["import", "updates", "active"] {
            assert!(matches!(AppId::parse(word), Err(IdError::Taken { .. })), "{word}");
            assert!(PluginId::parse(word).is_ok(), "{word}: plugins stand elsewhere");
        }
        assert!(AppId::parse("imports").is_ok());
    }

    #[test]
    fn app_ids() {
        for good in ["a", "chat", "0x", "a_b-c", &"a".repeat(64), "com10", "console"] {
            assert!(AppId::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "A",
            "-a",
            "_a",
            "a/b",
            "a.b",
            "..",
            "a\0",
            "ä",
            &"a".repeat(65),
            "nul",
            "com1",
            "lpt9",
            "con",
        ] {
            assert!(AppId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_app_and_its_plugin_are_told_apart_in_one_name() {
        for good in ["a_b", "a_", "x-_-y"] {
            assert!(PluginId::parse(good).is_ok(), "{good}");
        }
        for bad in ["a__b", "a__", "a___b"] {
            let error = PluginId::parse(bad).unwrap_err().to_string();
            assert!(error.contains("use one '_'"), "{bad}: {error}");
            assert!(AppId::parse(bad).is_ok(), "{bad}");
        }
    }

    #[test]
    fn nothing_from_outside_names_the_shelf() {
        assert!(AppId::shelf().is_shelf());
        assert!(AppId::parse(AppId::shelf().as_str()).is_err());
        assert!(AppId::try_from(String::from(AppId::shelf())).is_err());
        assert!(!AppId::parse("a").unwrap().is_shelf());
    }

    #[test]
    fn account_ids_are_random_and_checked() {
        let a = AccountId::random();
        assert_ne!(a, AccountId::random());
        assert_eq!(AccountId::parse(a.as_str()), Ok(a.clone()));
        for bad in [
            "",
            "../../../../../../../../etc/passwd",
            &a.as_str()[1..],
            &a.as_str().to_uppercase().replace(|c: char| c.is_ascii_digit(), "A"),
        ] {
            assert!(AccountId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
