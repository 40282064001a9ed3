//! What the code of a plugin may do at this moment.

use std::sync::Arc;

use db::{Db, DbError};
use net::HostPattern;
use policy::{AccountId, AppId, Capability, CodeHash, Grant, GrantState, HostPolicy, PluginId};

use crate::manifest::PluginManifest;

/// In a scope, the store's size: `quota:<bytes>`.
const QUOTA: &str = "quota:";

/// A permission that counts, and how far it reaches.
#[derive(Debug, Clone, Default)]
pub struct Granted {
    /// `network` and `local-network`: the hosts. What a grant says and this program cannot read names no host.
    pub scope: Vec<HostPattern>,
    /// `store`: bytes, where more than the usual was granted.
    pub quota: Option<u64>,
}

impl Granted {
    fn of(grant: &Grant) -> Self {
        let mut granted = Self::default();
        for entry in &grant.scope {
            match entry.strip_prefix(QUOTA) {
                Some(bytes) => granted.quota = bytes.parse().ok(),
                None => granted.scope.extend(HostPattern::parse(entry)),
            }
        }
        granted
    }

    pub fn hosts(self) -> Vec<HostPattern> {
        self.scope
    }
}

/// How something that a manifest asks for stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub capability: Capability,
    /// As [`PluginManifest::asks`] gives it.
    pub scope: Vec<String>,
    pub state: GrantState,
    /// Why it cannot be granted at all, or not in full: a sentence for the person.
    pub policy: Option<String>,
}

/// Answers from the database at every question, so that what a person takes back is gone at once.
pub struct Permissions {
    db: Arc<Db>,
    policy: HostPolicy,
}

impl Permissions {
    /// `policy` is the administrator's word over every grant.
    pub fn new(db: Arc<Db>, policy: HostPolicy) -> Self {
        Self { db, policy }
    }

    /// Whether exactly this code may use `capability`, and how far. The error completes "host.x …" to a sentence for the
    /// plugin's author.
    pub fn check(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        code: CodeHash,
        capability: Capability,
    ) -> Result<Granted, String> {
        let word = capability.as_str();
        if let Some(why) = self.policy.forbids(app, plugin, capability) {
            return Err(format!("needs the permission \"{word}\": {why}"));
        }
        let grants = self.db.grants(account, app, plugin).map_err(|e| e.to_string())?;
        let of_it = grants.iter().find(|grant| grant.capability == capability);
        let why = match of_it {
            Some(grant) if grant.allows(capability, code) => {
                if !self
                    .db
                    .plugin_enabled(account, app, plugin)
                    .map_err(|e| e.to_string())?
                {
                    return Err(format!(
                        "needs the permission \"{word}\", and the plugin {app}/{plugin} is turned off. Turn it on in the \
                         launcher under Plugins, or with `chrysalis plugin enable {app} {plugin}`"
                    ));
                }
                return Ok(Granted::of(grant));
            }
            Some(grant) if grant.denied => format!(", which the person refused to {app}/{plugin}. They can allow it"),
            Some(_) => format!(
                ": it was allowed to {app}/{plugin}, whose code or manifest changed since. Look at the change and allow it \
                 again"
            ),
            None => format!(
                ", which nobody has allowed to {app}/{plugin}. List it in the plugin's manifest.json and allow it"
            ),
        };
        Err(format!(
            "needs the permission \"{word}\"{why} in the launcher under Plugins, or with `chrysalis plugin grant {app} \
             {plugin}`"
        ))
    }

    /// Everything that exactly this code may use.
    pub fn all(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        code: CodeHash,
    ) -> Result<Vec<Capability>, DbError> {
        if !self.db.plugin_enabled(account, app, plugin)? {
            return Ok(Vec::new());
        }
        let grants = self.db.grants(account, app, plugin)?;
        let counts = |c: &Capability| {
            grants.iter().any(|grant| grant.allows(*c, code)) && self.policy.forbids(app, plugin, *c).is_none()
        };
        Ok(Capability::ALL.into_iter().filter(counts).collect())
    }

    /// How everything that `manifest` asks for stands.
    pub fn states(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginId,
        code: CodeHash,
        manifest: &PluginManifest,
    ) -> Result<Vec<Asked>, DbError> {
        let grants = self.db.grants(account, app, plugin)?;
        let asked = manifest.asks().into_iter().map(|(capability, scope)| Asked {
            state: Grant::state(&grants, capability, &scope, code),
            policy: self.forbidden(app, plugin, capability, &scope),
            capability,
            scope,
        });
        Ok(asked.collect())
    }

    /// Why the administrator's policy does not let `capability` be granted within `scope`: the whole of it, or the hosts
    /// that it leaves out.
    pub fn forbidden(
        &self,
        app: &AppId,
        plugin: &PluginId,
        capability: Capability,
        scope: &[String],
    ) -> Option<String> {
        if let Some(why) = self.policy.forbids(app, plugin, capability) {
            return Some(why);
        }
        if !matches!(capability, Capability::Network | Capability::LocalNetwork) {
            return None;
        }
        let bounds = self.policy.hosts(app, plugin);
        let outside = |host: &&String| !bounds.iter().all(|bound| covers(bound, host));
        let out: Vec<&str> = scope.iter().filter(outside).map(String::as_str).collect();
        (!out.is_empty()).then(|| {
            format!(
                "config.toml does not let {app}/{plugin} contact {}. Only the administrator of this machine can change that.",
                out.join(", ")
            )
        })
    }

    /// The administrator's lists of hosts; a host must be in each of them.
    pub fn bounds(&self, app: &AppId, plugin: &PluginId) -> Vec<Arc<[HostPattern]>> {
        let lists = self.policy.hosts(app, plugin).into_iter();
        lists
            .map(|list| list.iter().filter_map(|host| HostPattern::parse(host).ok()).collect())
            .collect()
    }
}

/// Whether everything that `wanted` names is named by one pattern of `bound`. Of two texts: the wanted one without its
/// star must stand under the bound one, and a bound port must be the wanted one.
fn covers(bound: &[String], wanted: &str) -> bool {
    let Ok(wanted) = HostPattern::parse(wanted) else {
        return false;
    };
    let (wanted_host, wanted_port) = parts(&wanted.to_string());
    bound
        .iter()
        .filter_map(|pattern| HostPattern::parse(pattern).ok())
        .any(|pattern| {
            let (host, port) = parts(&pattern.to_string());
            let same_port = port.is_none() || port == wanted_port;
            let within = match (host.strip_prefix("*."), wanted_host.strip_prefix("*.")) {
                (None, _) => host == wanted_host,
                (Some(suffix), None) => below(&wanted_host, suffix),
                (Some(suffix), Some(wanted)) => wanted == suffix || below(wanted, suffix),
            };
            same_port && within
        })
}

fn below(host: &str, suffix: &str) -> bool {
    host.strip_suffix(suffix)
        .is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
}

/// Host and port of a pattern in its canonical form.
fn parts(pattern: &str) -> (String, Option<String>) {
    let after_address = pattern.rfind(']').map_or(0, |at| at + 1);
    match pattern[after_address..].rfind(':') {
        Some(colon) => {
            let colon = after_address + colon;
            (pattern[..colon].to_owned(), Some(pattern[colon + 1..].to_owned()))
        }
        None => (pattern.to_owned(), None),
    }
}
