use std::collections::{BTreeMap, BTreeSet};

use crate::{AppId, Capability, PluginId};

/// What may be granted at all on this machine: the administrator's `config.toml`, which stands above every grant. A
/// plugin's own entry and the general part both count, so the entry can only narrow what the general part leaves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostPolicy {
    /// Capabilities that no plugin may have.
    pub deny: BTreeSet<Capability>,
    /// Host patterns of which one must match whatever a plugin contacts. `None`: no bound; an empty list: no host at all.
    pub hosts: Option<Vec<String>>,
    /// By `app/plugin`, with [`AppId::shelf`] as the app of plugins that belong to none.
    pub plugins: BTreeMap<String, PluginPolicy>,
}

/// One plugin's entry in [`HostPolicy`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginPolicy {
    /// The only capabilities it may have. `None`: all that is not denied.
    pub allow: Option<BTreeSet<Capability>>,
    /// Capabilities it may not have, also when `allow` names them.
    pub deny: BTreeSet<Capability>,
    /// As [`HostPolicy::hosts`], for this plugin.
    pub hosts: Option<Vec<String>>,
}

impl HostPolicy {
    fn entry(&self, app: &AppId, plugin: &PluginId) -> Option<&PluginPolicy> {
        self.plugins.get(&format!("{app}/{plugin}"))
    }

    /// Why the plugin may not have `capability` whatever anyone grants, as a sentence for the person; `None` when it may.
    pub fn forbids(&self, app: &AppId, plugin: &PluginId, capability: Capability) -> Option<String> {
        let word = capability.as_str();
        if self.deny.contains(&capability) {
            return Some(format!(
                "config.toml forbids the permission \"{word}\" to every plugin. Only the administrator of this machine can \
                 change that."
            ));
        }
        let entry = self.entry(app, plugin)?;
        let left_out = entry.allow.as_ref().is_some_and(|allow| !allow.contains(&capability));
        (left_out || entry.deny.contains(&capability)).then(|| {
            format!(
                "config.toml forbids the permission \"{word}\" to the plugin {app}/{plugin}. Only the administrator of this \
                 machine can change that."
            )
        })
    }

    /// Lists of host patterns; in each of them one pattern must match a host for the plugin to contact it. None: the
    /// policy bounds no hosts. Comparing a host with a pattern is the network's business.
    pub fn hosts(&self, app: &AppId, plugin: &PluginId) -> Vec<&[String]> {
        let own = self.entry(app, plugin).and_then(|entry| entry.hosts.as_deref());
        self.hosts.as_deref().into_iter().chain(own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(app: &str, plugin: &str) -> (AppId, PluginId) {
        (AppId::parse(app).unwrap(), PluginId::parse(plugin).unwrap())
    }

    #[test]
    fn an_entry_narrows_and_never_widens() {
        let narrow = PluginPolicy {
            allow: Some([Capability::Llm, Capability::Fs, Capability::Network].into()),
            deny: [Capability::Network].into(),
            hosts: Some(vec!["b.example".into()]),
        };
        let policy = HostPolicy {
            deny: [Capability::Fs].into(),
            hosts: Some(vec!["*.example".into()]),
            plugins: [("a/p".to_owned(), narrow)].into(),
        };
        let may = |app: &str, plugin: &str| -> Vec<Capability> {
            let (app, plugin) = ids(app, plugin);
            let left = |one: &Capability| policy.forbids(&app, &plugin, *one).is_none();
            Capability::ALL.into_iter().filter(left).collect()
        };
        assert_eq!(may("a", "p"), [Capability::Llm]);
        let all_but_fs: Vec<_> = Capability::ALL.into_iter().filter(|c| *c != Capability::Fs).collect();
        for (app, plugin) in [("a", "q"), ("b", "p"), ("p", "a")] {
            assert_eq!(may(app, plugin), all_but_fs, "{app}/{plugin}");
        }
        let (app, plugin) = ids("a", "p");
        assert_eq!(policy.hosts(&app, &plugin), [&["*.example"][..], &["b.example"]]);
        let (app, plugin) = ids("a", "q");
        assert_eq!(policy.hosts(&app, &plugin), [["*.example"]]);
    }

    #[test]
    fn the_sentence_names_file_capability_and_plugin() {
        let own = PluginPolicy {
            deny: [Capability::LocalNetwork].into(),
            ..Default::default()
        };
        let policy = HostPolicy {
            deny: [Capability::Zip].into(),
            plugins: [("_/p".to_owned(), own)].into(),
            ..Default::default()
        };
        let plugin = PluginId::parse("p").unwrap();
        let why = policy
            .forbids(&AppId::shelf(), &plugin, Capability::LocalNetwork)
            .unwrap();
        for part in ["config.toml", "local-network", "_/p"] {
            assert!(why.contains(part), "{why}");
        }
        let why = policy.forbids(&AppId::shelf(), &plugin, Capability::Zip).unwrap();
        assert!(why.contains("config.toml") && why.contains("\"zip\""), "{why}");
        assert_eq!(policy.forbids(&AppId::shelf(), &plugin, Capability::Llm), None);
    }

    #[test]
    fn without_a_policy_nothing_is_forbidden() {
        let (app, plugin) = ids("a", "p");
        let policy = HostPolicy::default();
        assert!(
            Capability::ALL
                .into_iter()
                .all(|c| policy.forbids(&app, &plugin, c).is_none())
        );
        assert!(policy.hosts(&app, &plugin).is_empty());
    }
}
