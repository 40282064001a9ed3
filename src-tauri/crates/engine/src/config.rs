//! `config.toml`: written on first start with a comment per setting, read at every start.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use db::UsageLimits;
use net::Proxy;
use policy::{Capability, HostPolicy, PluginPolicy};
use toml_edit::{DocumentMut, Item, TableLike};

/// Settings of the program, not of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Port of `chrysalis serve` when none is given.
    pub port: u16,
    /// Whether `serve` opens a browser.
    pub open_browser: bool,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub log_level: String,
    /// Most plugin workers alive at once.
    pub max_workers: usize,
    /// Seconds after which an idle worker is ended.
    pub worker_idle_seconds: u64,
    /// What plugins may be granted at all.
    pub plugins: HostPolicy,
    /// The file that keys are kept in, for servers; relative to the home. Without one they are kept where the person chose.
    pub keys_file: Option<PathBuf>,
    /// What secure connections to model servers on the internet go through.
    pub proxy: Option<Proxy>,
    /// What each app may use a day where the person set nothing else; the disk limit is no daily one.
    pub budgets: UsageLimits,
}

impl Default for Config {
    fn default() -> Self {
        // Port: contract section 11. Workers: 0.8 MB each (design/sandbox.md).
        Self {
            port: 8788,
            open_browser: true,
            log_level: "info".into(),
            max_workers: 32,
            worker_idle_seconds: 60,
            plugins: HostPolicy::default(),
            keys_file: None,
            proxy: None,
            budgets: UsageLimits {
                model_calls: Some(5_000),
                tokens: None,
                network_bytes: Some(1 << 30),
                disk_bytes: Some(2 << 30),
            },
        }
    }
}

const TEMPLATE: &str = "\
# Settings of this Chrysalis. Changes count from the next start.

# Port of `chrysalis serve` when --port is not given.
port = 8788

# Open a browser when `chrysalis serve` starts (--no-open overrides).
open_browser = true

# How much goes to logs/: error, warn, info, debug or trace. Prompts and keys are never logged.
log_level = \"info\"

# Most plugin workers alive at the same time (about 1 MB each); further calls wait their turn.
max_workers = 32

# Seconds after which a plugin worker with nothing to do is ended.
worker_idle_seconds = 60

# What each app may use per day, where nothing else was set for it in the launcher. 0 means no limit.
# disk_bytes is what an app's data folder may hold in all.
[budgets]
model_calls = 5000
tokens = 0
network_bytes = 1073741824
disk_bytes = 2147483648

# For servers without a keychain: a file that keys of model servers are kept in, in clear. It must belong to the user that
# Chrysalis runs as and have mode 0600. Without it, keys are kept in the keychain or where the launcher is told to.
[keys]
# file = \"keys.txt\"

# A proxy for model servers on the internet: http://host:port or https://host:port (not SOCKS), with user:password@ before
# the host if it wants that. A proxy set in the environment is ignored. Only https is sent through it, so that it sees the
# server's name but no key and no word; model servers on this machine or in your own network are reached without it.
# What plugins and pictures fetch from the internet never goes through it: which addresses they may reach is checked when
# connecting, and behind a proxy that would be the proxy's address.
[network]
# proxy = \"http://proxy.example.com:3128\"

# What plugins may be granted at all, whatever a person allows in the launcher. Permissions: llm, store, schedule,
# network, local-network, tools, routes, fs, zip, hooks. Host patterns: api.example.com, *.example.com (its subdomains,
# not the name itself), each with :port if only that one is meant.
[plugins]
# deny = [\"local-network\"]
# hosts = [\"*.example.com\"]

# The same for one plugin, named app/plugin. It can only narrow what stands above.
# [plugins.\"chat/chat\"]
# allow = [\"routes\", \"store\", \"llm\"]
# deny = []
# hosts = []
";

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("config.toml cannot be read: {0}")]
    Read(std::io::Error),
    #[error("config.toml is not valid TOML: {0}. Correct it, or delete the file to get the defaults back")]
    Syntax(String),
    #[error("config.toml: {name} must be {expected}, not {given}")]
    Value {
        name: String,
        expected: String,
        given: String,
    },
}

impl Config {
    /// Reads `config.toml` in `home`, writing it first when it is missing. Unknown names are warned of and kept.
    pub fn load(home: &Path) -> Result<Self, ConfigError> {
        let path = home.join("config.toml");
        if !path.exists() {
            std::fs::write(&path, TEMPLATE).map_err(ConfigError::Read)?;
        }
        Self::parse(&std::fs::read_to_string(&path).map_err(ConfigError::Read)?)
    }

    fn parse(text: &str) -> Result<Self, ConfigError> {
        let document: DocumentMut = text
            .trim_start_matches('\u{feff}')
            .parse()
            .map_err(|error: toml_edit::TomlError| ConfigError::Syntax(syntax(text, &error)))?;
        let mut config = Self::default();
        for (name, item) in document.iter() {
            match name {
                "port" => config.port = whole(item, "port", "a port from 1 to 65535", 1, 65_535)? as u16,
                "open_browser" => {
                    config.open_browser = item
                        .as_bool()
                        .ok_or_else(|| wrong("open_browser", "true or false", item))?
                }
                "log_level" => {
                    let levels = ["error", "warn", "info", "debug", "trace"];
                    let level = item.as_str().filter(|l| levels.contains(l));
                    config.log_level = level
                        .ok_or_else(|| wrong("log_level", "error, warn, info, debug or trace", item))?
                        .to_owned();
                }
                "max_workers" => {
                    config.max_workers = whole(item, "max_workers", "a number from 2 to 1024", 2, 1024)? as usize
                }
                "worker_idle_seconds" => {
                    config.worker_idle_seconds = whole(
                        item,
                        "worker_idle_seconds",
                        "a number of seconds from 1 to 86400",
                        1,
                        86_400,
                    )? as u64;
                }
                "budgets" => budgets(&mut config.budgets, table(item, "budgets")?)?,
                "keys" => config.keys_file = keys(table(item, "keys")?)?,
                "network" => config.proxy = network(item)?,
                "plugins" => config.plugins = plugins(table(item, "plugins")?)?,
                other => tracing::warn!("config.toml: there is no setting \"{other}\"; it is ignored"),
            }
        }
        Ok(config)
    }
}

/// What is wrong with the file, with the line it is in, unless a proxy's password may stand there.
fn syntax(text: &str, error: &toml_edit::TomlError) -> String {
    let shown = error.to_string();
    if !shown.contains('@') && !shown.contains("proxy") {
        return shown;
    }
    let at = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    format!("line {line}: {}", error.message().trim())
}

fn wrong(name: &str, expected: &str, item: &Item) -> ConfigError {
    ConfigError::Value {
        name: name.into(),
        expected: expected.into(),
        given: item.to_string().trim().chars().take(60).collect(),
    }
}

fn whole(item: &Item, name: &str, expected: &str, low: i64, high: i64) -> Result<i64, ConfigError> {
    item.as_integer()
        .filter(|n| (low..=high).contains(n))
        .ok_or_else(|| wrong(name, expected, item))
}

fn table<'a>(item: &'a Item, name: &str) -> Result<&'a dyn TableLike, ConfigError> {
    item.as_table_like()
        .ok_or_else(|| wrong(name, &format!("a section, [{name}]"), item))
}

fn budgets(limits: &mut UsageLimits, section: &dyn TableLike) -> Result<(), ConfigError> {
    for (name, item) in section.iter() {
        let place = match name {
            "model_calls" => &mut limits.model_calls,
            "tokens" => &mut limits.tokens,
            "network_bytes" => &mut limits.network_bytes,
            "disk_bytes" => &mut limits.disk_bytes,
            other => {
                tracing::warn!("config.toml: there is no setting \"budgets.{other}\"; it is ignored");
                continue;
            }
        };
        let full = format!("budgets.{name}");
        let limit = whole(item, &full, "a whole number, 0 for no limit", 0, i64::MAX)?;
        *place = (limit > 0).then_some(limit as u64);
    }
    Ok(())
}

fn keys(section: &dyn TableLike) -> Result<Option<PathBuf>, ConfigError> {
    let mut file = None;
    for (name, item) in section.iter() {
        // A slip here would put keys elsewhere than they were meant to be: nothing unknown is passed over.
        let path = item.as_str().filter(|path| name == "file" && !path.trim().is_empty());
        let path =
            path.ok_or_else(|| wrong(&format!("keys.{name}"), "keys.file, the path of a file in quotes", item))?;
        file = Some(PathBuf::from(path));
    }
    Ok(file)
}

fn network(item: &Item) -> Result<Option<Proxy>, ConfigError> {
    let mut proxy = None;
    let section = item.as_table_like().ok_or_else(|| ConfigError::Value {
        name: "network".into(),
        expected: "a section, [network]".into(),
        given: "what stands there".into(),
    })?;
    for (name, item) in section.iter() {
        // A slip here would send words past the proxy they were meant for, and what stands here may hold a password:
        // nothing unknown is passed over, and nothing is repeated.
        let wrong = |expected: String| ConfigError::Value {
            name: format!("network.{name}"),
            expected,
            given: "what stands there".into(),
        };
        let text = item.as_str().filter(|_| name == "proxy");
        let text = text.ok_or_else(|| wrong("network.proxy, \"http://host:port\" in quotes".into()))?;
        let read = Proxy::parse(text).map_err(|why| wrong(format!("http://host:port or https://host:port ({why})")))?;
        proxy = Some(read);
    }
    Ok(proxy)
}

fn plugins(section: &dyn TableLike) -> Result<HostPolicy, ConfigError> {
    let mut policy = HostPolicy::default();
    for (name, item) in section.iter() {
        let full = format!("plugins.{name}");
        match (name, item.as_table_like()) {
            ("deny", _) => policy.deny = capabilities(item, &full)?,
            ("hosts", _) => policy.hosts = Some(hosts(item, &full)?),
            (plugin, Some(inner)) => {
                // A slip here would leave a plugin freer than it was meant to be: nothing unknown is passed over.
                let parts = plugin.split_once('/').unwrap_or_default();
                let fits = |part: &str| part == "_" || policy::AppId::parse(part).is_ok();
                if !fits(parts.0) || policy::PluginId::parse(parts.1).is_err() {
                    return Err(wrong(&full, "named app/plugin, like [plugins.\"chat/chat\"]", item));
                }
                policy.plugins.insert(plugin.to_owned(), one_plugin(inner, &full)?);
            }
            _ => return Err(wrong(&full, "deny, hosts, or a section for one plugin", item)),
        }
    }
    Ok(policy)
}

fn one_plugin(section: &dyn TableLike, full: &str) -> Result<PluginPolicy, ConfigError> {
    let mut policy = PluginPolicy::default();
    for (name, item) in section.iter() {
        let full = format!("{full}.{name}");
        match name {
            "allow" => policy.allow = Some(capabilities(item, &full)?),
            "deny" => policy.deny = capabilities(item, &full)?,
            "hosts" => policy.hosts = Some(hosts(item, &full)?),
            _ => return Err(wrong(&full, "allow, deny or hosts", item)),
        }
    }
    Ok(policy)
}

fn texts(item: &Item, name: &str) -> Result<Vec<String>, ConfigError> {
    let list = item
        .as_array()
        .ok_or_else(|| wrong(name, "a list of texts, [\"…\"]", item))?;
    let read = |value: &toml_edit::Value| value.as_str().map(str::to_owned);
    list.iter()
        .map(|value| read(value).ok_or_else(|| wrong(name, "a list of texts, [\"…\"]", item)))
        .collect()
}

fn capabilities(item: &Item, name: &str) -> Result<BTreeSet<Capability>, ConfigError> {
    let words = texts(item, name)?;
    let read = |word: &String| Capability::parse(word).map_err(|e| wrong(name, &format!("permissions ({e})"), item));
    words.iter().map(read).collect()
}

fn hosts(item: &Item, name: &str) -> Result<Vec<String>, ConfigError> {
    let patterns = texts(item, name)?;
    for pattern in &patterns {
        net::HostPattern::parse(pattern).map_err(|e| wrong(name, &format!("host patterns ({e})"), item))?;
    }
    Ok(patterns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_states_the_defaults() {
        assert_eq!(Config::parse(TEMPLATE).unwrap(), Config::default());
    }

    #[test]
    fn policy_and_budgets_are_read() {
        let text = "[budgets]\nmodel_calls = 7\ndisk_bytes = 0\n[plugins]\ndeny = [\"fs\"]\nhosts = [\"*.example.com\"]\n\
                    [plugins.\"chat/chat\"]\nallow = [\"llm\"]\nhosts = []\n[plugins.\"_/top\"]\ndeny = [\"llm\"]";
        let config = Config::parse(text).unwrap();
        assert_eq!((config.budgets.model_calls, config.budgets.disk_bytes), (Some(7), None));
        assert_eq!(config.plugins.deny, BTreeSet::from([Capability::Fs]));
        assert_eq!(config.plugins.hosts.as_deref(), Some(&["*.example.com".to_owned()][..]));
        let one = &config.plugins.plugins["chat/chat"];
        assert_eq!(
            (one.allow.clone(), one.hosts.clone()),
            (Some(BTreeSet::from([Capability::Llm])), Some(vec![]))
        );
        let keys = Config::parse("[keys]\nfile = \"/etc/chrysalis/keys\"").unwrap();
        assert_eq!(keys.keys_file, Some("/etc/chrysalis/keys".into()));
        assert!(config.plugins.plugins["_/top"].deny.contains(&Capability::Llm));
    }

    #[test]
    fn a_proxy_is_read_and_its_password_never_shown() {
        let config = Config::parse("[network]\nproxy = \"http://ann:canary@proxy.corp:3128\"").unwrap();
        assert_eq!(config.proxy.as_ref().unwrap().to_string(), "http://proxy.corp:3128");
        assert!(!format!("{config:?}").contains("canary"));
        assert_eq!(Config::parse("[network]").unwrap().proxy, None);
        for (text, want) in [
            ("network = \"http://canary@h\"", "network must be a section"),
            ("[network]\nproxy = 5", "network.proxy must be network.proxy"),
            (
                "[network]\nproxi = \"http://a:canary@h:1\"",
                "network.proxi must be network.proxy",
            ),
            (
                "[network]\nproxy = \"socks5://a:canary@h:1\"",
                "SOCKS proxies are not supported",
            ),
            ("[network]\nproxy = \"a:canary@h:1\"", "must begin with http"),
            ("[network]\nproxy = \"http://a:canary@h:1/x\"", "behind the port"),
            ("[network]\nproxy = \"http://a:canary@h:1", "not valid TOML: line 2"),
            ("[network]\nproxy = canary", "not valid TOML: line 2"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
            assert!(
                !error.contains("canary") || text.starts_with("network ="),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn wrong_values_are_named() {
        for (text, want) in [
            ("port = 0", "port must be a port from 1 to 65535, not 0"),
            ("port = \"x\"", "port must be"),
            ("open_browser = 1", "open_browser must be true or false"),
            ("log_level = \"loud\"", "log_level must be"),
            ("port = ", "not valid TOML"),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
        for (text, want) in [
            ("[budgets]\ntokens = -1", "budgets.tokens must be a whole number"),
            ("budgets = 5", "budgets must be a section"),
            ("keys = \"x\"", "keys must be a section"),
            ("[keys]\nfile = 5", "keys.file must be keys.file, the path"),
            ("[keys]\nfile = \" \"", "keys.file must be"),
            ("[keys]\nfiles = \"x\"", "keys.files must be keys.file"),
            (
                "[plugins]\ndeny = [\"shell\"]",
                "plugins.deny must be permissions (unknown permission",
            ),
            ("[plugins]\nhosts = [\"*\"]", "plugins.hosts must be host patterns"),
            ("[plugins]\nhost = [\"x.com\"]", "plugins.host must be deny, hosts"),
            ("[plugins.chat]\nallow = []", "plugins.chat must be named app/plugin"),
            (
                "[plugins.\"chat/chat\"]\nallows = []",
                "plugins.chat/chat.allows must be allow, deny or hosts",
            ),
        ] {
            let error = Config::parse(text).unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
        assert_eq!(Config::parse("\u{feff}port = 9000\nnew_thing = 1").unwrap().port, 9000);
    }
}
