use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AccountId, AppId, PluginId};

/// Something a plugin may be allowed to do (contract section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    Llm,
    Store,
    Schedule,
    Network,
    /// Programs and devices in the person's own network, this machine among them; see [`Grant::scope`].
    LocalNetwork,
    Tools,
    Routes,
    Fs,
    Zip,
    Hooks,
}

/// A manifest asked for a permission that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown permission \"{0}\": known are llm, store, schedule, network, local-network, tools, routes, fs, zip, hooks"
)]
pub struct UnknownCapability(pub String);

impl Capability {
    pub const ALL: [Capability; 10] = [
        Self::Llm,
        Self::Store,
        Self::Schedule,
        Self::Network,
        Self::LocalNetwork,
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
            Self::LocalNetwork => "local-network",
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
            .ok_or_else(|| UnknownCapability(text.chars().filter(|c| !c.is_control()).take(60).collect()))
    }

    /// What a person reads before allowing it.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Llm => "may use your models",
            Self::Store => "may keep its own data",
            Self::Schedule => "may run on a timer",
            Self::Network => "may contact servers on the internet",
            Self::LocalNetwork => "may contact programs and devices in your own network",
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

/// A person's decision about one capability of one plugin's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub account: AccountId,
    pub app: AppId,
    pub plugin: PluginId,
    pub capability: Capability,
    pub code: CodeHash,
    /// How far it goes, in the manifest's words: the host patterns of `network` and `local-network`, and nothing for a
    /// capability that has no bounds of its own. Nothing for `network` reaches no host.
    pub scope: Vec<String>,
    /// The person said no. Nothing is allowed then, and the code is only what they looked at when they said so.
    pub denied: bool,
    /// Milliseconds since the Unix epoch.
    pub granted_at: i64,
    /// [`crate::Caller::label`] of who decided.
    pub granted_by: String,
}

impl Grant {
    /// Whether this is a grant of `capability` to exactly `code`; other code has to be looked at again. How far it goes is
    /// [`Grant::scope`], which the caller applies.
    pub fn allows(&self, capability: Capability, code: CodeHash) -> bool {
        !self.denied && self.capability == capability && self.code == code
    }

    /// How the wish for `capability` within `scope` stands for the plugin that `grants` are of and whose code is `code`
    /// now. Scopes are compared as sets.
    pub fn state(grants: &[Grant], capability: Capability, scope: &[String], code: CodeHash) -> GrantState {
        let of_it = || grants.iter().filter(|grant| grant.capability == capability);
        let wanted: BTreeSet<&String> = scope.iter().collect();
        if of_it().any(|grant| grant.denied) {
            GrantState::Denied
        } else if of_it().any(|grant| grant.code == code && grant.scope.iter().collect::<BTreeSet<_>>() == wanted) {
            GrantState::Granted
        } else if of_it().next().is_some() {
            GrantState::Stale
        } else {
            GrantState::Asked
        }
    }
}

/// How a requested capability stands for the code that is on disk now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantState {
    /// Allowed, for exactly this code and as far as it asks.
    Granted,
    /// Asked for in the manifest, and nobody decided.
    Asked,
    /// Allowed once, for other code or within another scope: has to be looked at again.
    Stale,
    /// A person said no. It stays so whatever the code becomes, so that changing the code is no way to ask again.
    Denied,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(capability: Capability, code: CodeHash, scope: &[&str], denied: bool) -> Grant {
        Grant {
            account: AccountId::random(),
            app: AppId::parse("a").unwrap(),
            plugin: PluginId::parse("p").unwrap(),
            capability,
            code,
            scope: scope.iter().map(ToString::to_string).collect(),
            denied,
            granted_at: 0,
            granted_by: "owner".into(),
        }
    }

    const SEEN: CodeHash = CodeHash([1; 32]);
    const CHANGED: CodeHash = CodeHash([2; 32]);

    #[test]
    fn a_grant_is_for_one_capability_and_one_code() {
        let given = grant(Capability::Store, SEEN, &[], false);
        assert!(given.allows(Capability::Store, SEEN));
        assert!(!given.allows(Capability::Store, CHANGED));
        assert!(!given.allows(Capability::Llm, SEEN));
        let refused = grant(Capability::Store, SEEN, &[], true);
        assert!(!refused.allows(Capability::Store, SEEN));
    }

    #[test]
    fn the_state_follows_code_and_scope_and_a_no_stays() {
        use GrantState::*;
        let grants = [
            grant(Capability::Network, SEEN, &["a.example", "*.b.example"], false),
            grant(Capability::Store, SEEN, &[], false),
            grant(Capability::Fs, SEEN, &[], true),
        ];
        let hosts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        for (capability, scope, code, want) in [
            (Capability::Network, &["a.example", "*.b.example"][..], SEEN, Granted),
            (Capability::Network, &["*.b.example", "a.example"], SEEN, Granted),
            (Capability::Network, &["a.example", "*.b.example"], CHANGED, Stale),
            (Capability::Network, &["a.example"], SEEN, Stale),
            (
                Capability::Network,
                &["a.example", "*.b.example", "c.example"],
                SEEN,
                Stale,
            ),
            (Capability::Network, &[], SEEN, Stale),
            (Capability::LocalNetwork, &["a.example"], SEEN, Asked),
            (Capability::Store, &[], SEEN, Granted),
            (Capability::Store, &[], CHANGED, Stale),
            (Capability::Fs, &[], SEEN, Denied),
            (Capability::Fs, &[], CHANGED, Denied),
            (Capability::Fs, &["more"], CHANGED, Denied),
            (Capability::Zip, &[], SEEN, Asked),
        ] {
            assert_eq!(
                Grant::state(&grants, capability, &hosts(scope), code),
                want,
                "{capability:?} {scope:?} {code:?}"
            );
        }
    }

    #[test]
    fn capability_words_round_trip() {
        for capability in Capability::ALL {
            assert_eq!(Capability::parse(capability.as_str()), Ok(capability));
            let unknown = UnknownCapability(String::new()).to_string();
            let known = unknown.rsplit_once("known are ").unwrap().1;
            assert!(known.split(", ").any(|word| word == capability.as_str()), "{unknown}");
        }
        assert_eq!(Capability::parse("register:tools"), Ok(Capability::Tools));
        assert_eq!(Capability::parse("register:routes"), Ok(Capability::Routes));
        for bad in ["", "LLM", "register:llm", "net", "routes ", "*"] {
            assert!(Capability::parse(bad).is_err(), "{bad:?}");
        }
    }
}
