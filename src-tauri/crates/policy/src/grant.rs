use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AccountId, AppId, PluginId};

/// Something a plugin may be allowed to do (contract section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    Llm,
    Store,
    Schedule,
    Network,
    Tools,
    Routes,
    Fs,
    Zip,
    Hooks,
}

/// A manifest asked for a permission that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown permission \"{0}\": known are llm, store, schedule, network, tools, routes, fs, zip, hooks")]
pub struct UnknownCapability(pub String);

impl Capability {
    pub const ALL: [Capability; 9] = [
        Self::Llm,
        Self::Store,
        Self::Schedule,
        Self::Network,
        Self::Tools,
        Self::Routes,
        Self::Fs,
        Self::Zip,
        Self::Hooks,
    ];

    /// The word a manifest uses. `register:tools` and `register:routes` are accepted as aliases when parsing.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Store => "store",
            Self::Schedule => "schedule",
            Self::Network => "network",
            Self::Tools => "tools",
            Self::Routes => "routes",
            Self::Fs => "fs",
            Self::Zip => "zip",
            Self::Hooks => "hooks",
        }
    }

    pub fn parse(text: &str) -> Result<Self, UnknownCapability> {
        let word = text
            .strip_prefix("register:")
            .filter(|w| matches!(*w, "tools" | "routes"))
            .unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|c| c.as_str() == word)
            .ok_or_else(|| UnknownCapability(text.chars().take(60).collect()))
    }

    /// What a person reads before allowing it.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Llm => "may use your models",
            Self::Store => "may keep its own data",
            Self::Schedule => "may run on a timer",
            Self::Network => "may contact servers on the internet",
            Self::Tools => "may offer tools to models",
            Self::Routes => "may answer its app's page",
            Self::Fs => "may read and write its app's data folder",
            Self::Zip => "may read archives you give it",
            Self::Hooks => "may read and change requests to models and their answers",
        }
    }
}

/// SHA-256 over every file a plugin loads. A grant names one, and counts for that code alone.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CodeHash(pub [u8; 32]);

impl CodeHash {
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = hex::decode(text).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Debug for CodeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodeHash({})", &self.to_hex()[..12])
    }
}

/// A decision that `capability` is allowed to one plugin's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub account: AccountId,
    pub app: AppId,
    pub plugin: PluginId,
    pub capability: Capability,
    pub code: CodeHash,
    /// Milliseconds since the Unix epoch.
    pub granted_at: i64,
    /// [`crate::Caller::label`] of who decided.
    pub granted_by: String,
}

impl Grant {
    /// Whether this is a grant of `capability` to exactly `code`; other code has to be looked at again.
    pub fn allows(&self, capability: Capability, code: CodeHash) -> bool {
        self.capability == capability && self.code == code
    }
}

/// How a requested capability stands for the code that is on disk now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantState {
    /// Allowed, for exactly this code.
    Granted,
    /// Asked for in the manifest, and nobody decided.
    Asked,
    /// Allowed once, for other code: counts for nothing until a person looks again.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_for_one_capability_and_one_code() {
        let (seen, changed) = (CodeHash([1; 32]), CodeHash([2; 32]));
        let grant = Grant {
            account: AccountId::random(),
            app: AppId::parse("a").unwrap(),
            plugin: PluginId::parse("p").unwrap(),
            capability: Capability::Store,
            code: seen,
            granted_at: 0,
            granted_by: "owner".into(),
        };
        assert!(grant.allows(Capability::Store, seen));
        assert!(!grant.allows(Capability::Store, changed));
        assert!(!grant.allows(Capability::Llm, seen));
    }

    #[test]
    fn capability_words_round_trip() {
        for capability in Capability::ALL {
            assert_eq!(Capability::parse(capability.as_str()), Ok(capability));
        }
        assert_eq!(Capability::parse("register:tools"), Ok(Capability::Tools));
        assert_eq!(Capability::parse("register:routes"), Ok(Capability::Routes));
        for bad in ["", "LLM", "register:llm", "net", "routes ", "*"] {
            assert!(Capability::parse(bad).is_err(), "{bad:?}");
        }
    }
}
