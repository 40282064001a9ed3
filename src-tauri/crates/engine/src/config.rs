//! `config.toml`: written on first start with a comment per setting, read at every start.

use std::path::Path;

use toml_edit::{DocumentMut, Item};

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
";

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("config.toml cannot be read: {0}")]
    Read(std::io::Error),
    #[error("config.toml is not valid TOML: {0}. Correct it, or delete the file to get the defaults back")]
    Syntax(toml_edit::TomlError),
    #[error("config.toml: {name} must be {expected}, not {given}")]
    Value {
        name: &'static str,
        expected: &'static str,
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
            .map_err(ConfigError::Syntax)?;
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
                other => tracing::warn!("config.toml: there is no setting \"{other}\"; it is ignored"),
            }
        }
        Ok(config)
    }
}

fn wrong(name: &'static str, expected: &'static str, item: &Item) -> ConfigError {
    ConfigError::Value {
        name,
        expected,
        given: item.to_string().trim().chars().take(60).collect(),
    }
}

fn whole(item: &Item, name: &'static str, expected: &'static str, low: i64, high: i64) -> Result<i64, ConfigError> {
    item.as_integer()
        .filter(|n| (low..=high).contains(n))
        .ok_or_else(|| wrong(name, expected, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_states_the_defaults() {
        assert_eq!(Config::parse(TEMPLATE).unwrap(), Config::default());
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
        assert_eq!(Config::parse("\u{feff}port = 9000\nnew_thing = 1").unwrap().port, 9000);
    }
}
