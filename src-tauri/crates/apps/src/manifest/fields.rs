//! Reads a manifest field by field, so that each error can name its own.

use std::collections::BTreeMap;

use net::HostPattern;
use policy::Capability;
use serde_json::{Map, Value};

use super::{
    MAX_SECRETS, MAX_STORE, MAX_TEXT, MIN_INTERVAL, ManifestError, Origin, Source, WantedSecret, is_secret_name,
    problem_at, short,
};

/// Strips the byte order marks that Windows editors write, and reads the UTF-16 some of them save.
fn decode(bytes: &[u8]) -> Result<String, ManifestError> {
    let wide = |from: fn([u8; 2]) -> u16| {
        let (pairs, odd) = bytes[2..].as_chunks::<2>();
        if !odd.is_empty() {
            return Err(ManifestError::Encoding);
        }
        let units: Vec<u16> = pairs.iter().map(|pair| from(*pair)).collect();
        String::from_utf16(&units).map_err(|_| ManifestError::Encoding)
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).map_err(|_| ManifestError::Encoding),
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8(bytes.to_vec()).map_err(|_| ManifestError::Encoding),
    }
}

/// The top object of a manifest, read field by field so that each error can name its own.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let text = decode(bytes)?;
        let value: Value = serde_json::from_str(&text).map_err(|e| {
            let what = e.to_string();
            // serde_json ends its text with the position, which is told already.
            let what = what.split(" at line ").next().unwrap_or(&what).to_owned();
            ManifestError::Json {
                line: e.line(),
                column: e.column(),
                what,
            }
        })?;
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(ManifestError::Shape),
        }
    }

    /// A field that is there; `null` counts as absent.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.0.get(field).filter(|v| !v.is_null())
    }

    pub(super) fn optional(&self, field: &str, limit: usize) -> Result<Option<String>, ManifestError> {
        self.get(field).map(|value| text(value, field, limit)).transpose()
    }

    pub(super) fn required(&self, field: &str, limit: usize) -> Result<String, ManifestError> {
        match self.optional(field, limit)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(problem_at(field, "is empty: write something")),
            None => Err(problem_at(field, "is missing: it must be a text")),
        }
    }

    pub(super) fn list(&self, field: &str, limit: usize) -> Result<Option<Vec<String>>, ManifestError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let Value::Array(items) = value else {
            return Err(problem_at(field, "must be a list of texts, [\"…\"]"));
        };
        if items.len() > limit {
            return Err(problem_at(field, format!("has more than {limit} entries")));
        }
        let texts = items.iter().enumerate();
        texts
            .map(|(i, item)| text(item, &format!("{field}[{i}]"), 300))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    pub(super) fn flag(&self, field: &str) -> Result<bool, ManifestError> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(problem_at(field, "must be true or false")),
        }
    }

    pub(super) fn number(&self, field: &str) -> Result<f64, ManifestError> {
        match self.get(field) {
            None => Ok(0.0),
            Some(value) => value.as_f64().ok_or_else(|| problem_at(field, "must be a number")),
        }
    }

    pub(super) fn origin(&self) -> Result<Origin, ManifestError> {
        // Anything but `imported` means local (contract section 2), so no value of it is an error.
        let imported = self.get("origin").and_then(Value::as_str) == Some("imported");
        Ok(if imported { Origin::Imported } else { Origin::Local })
    }

    pub(super) fn source(&self) -> Result<Option<Source>, ManifestError> {
        let Some(value) = self.get("source") else {
            return Ok(None);
        };
        let Value::Object(inner) = value else {
            return Err(problem_at("source", "must be an object, {…}"));
        };
        let part = |name: &str| {
            let value = inner.get(name).filter(|v| !v.is_null());
            value.map(|v| text(v, &format!("source.{name}"), 2048)).transpose()
        };
        Ok(Some(Source {
            git: part("git")?,
            reference: part("ref")?,
            head: part("head")?,
            content_hash: part("contentHash")?,
            file: part("file")?,
        }))
    }

    pub(super) fn interval(&self) -> Result<Option<u64>, ManifestError> {
        let Some(schedule) = self.get("schedule") else {
            return Ok(None);
        };
        let field = "schedule.intervalMs";
        let interval = schedule.get("intervalMs").and_then(Value::as_f64);
        let interval = interval.ok_or_else(|| problem_at(field, "must be a number of milliseconds"))?;
        // A float beyond the range of u64 saturates, which is as good as never.
        Ok(Some((interval as u64).max(MIN_INTERVAL)))
    }

    pub(super) fn reasons(&self) -> Result<BTreeMap<Capability, String>, ManifestError> {
        let Some(value) = self.get("reasons") else {
            return Ok(BTreeMap::new());
        };
        let Value::Object(inner) = value else {
            return Err(problem_at("reasons", "must be an object from permission to text"));
        };
        let each = inner.iter().map(|(word, reason)| {
            let capability = Capability::parse(word).map_err(|e| problem_at("reasons", e))?;
            Ok((capability, text(reason, &format!("reasons.{word}"), MAX_TEXT)?))
        });
        each.collect()
    }

    pub(super) fn hosts(&self, field: &str) -> Result<Vec<HostPattern>, ManifestError> {
        let hosts = self.list(field, 64)?.unwrap_or_default();
        let each = hosts.iter().enumerate().map(|(i, host)| {
            HostPattern::parse(host.trim()).map_err(|e| {
                let problem = format!("must name hosts, \"api.example.com\" or \"*.example.com\": {e}");
                problem_at(&format!("{field}[{i}]"), problem)
            })
        });
        each.collect()
    }

    /// `["llmRequest"]`, `{"llmRequest": true}`, or one flag for both.
    pub(super) fn hooks(&self) -> Result<Option<Vec<String>>, ManifestError> {
        match self.get("hooks") {
            None | Some(Value::Bool(true)) => Ok(None),
            Some(Value::Bool(false)) => Ok(Some(Vec::new())),
            Some(Value::Array(_)) => self.list("hooks", 16),
            Some(Value::Object(flags)) => {
                let on = flags
                    .iter()
                    .filter(|(_, on)| !matches!(on, Value::Bool(false) | Value::Null));
                Ok(Some(on.map(|(name, _)| short(name)).collect()))
            }
            Some(_) => Err(problem_at("hooks", "must be a list of names, [\"llmRequest\"]")),
        }
    }

    pub(super) fn store_quota(&self) -> Result<Option<u64>, ManifestError> {
        let Some(value) = self.get("storeQuota") else {
            return Ok(None);
        };
        let bytes = value.as_u64().filter(|bytes| (1..=MAX_STORE).contains(bytes));
        let problem = || {
            problem_at(
                "storeQuota",
                format!("must be a whole number of bytes up to {MAX_STORE}"),
            )
        };
        bytes.map(Some).ok_or_else(problem)
    }

    pub(super) fn secrets(&self) -> Result<Vec<WantedSecret>, ManifestError> {
        let Some(value) = self.get("secrets") else {
            return Ok(Vec::new());
        };
        let shape = "must be a list of at most 16 objects {\"name\", \"origin\", \"reason\"?}";
        let items = value.as_array().filter(|items| items.len() <= MAX_SECRETS);
        let items = items.ok_or_else(|| problem_at("secrets", shape))?;
        let mut wanted: Vec<WantedSecret> = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let at = |part: &str| format!("secrets[{i}].{part}");
            let part = |name: &str, limit| {
                let value = item.get(name).filter(|v| !v.is_null());
                value.map(|v| text(v, &at(name), limit)).transpose()
            };
            let name = part("name", 64)?.unwrap_or_default();
            if !is_secret_name(&name) {
                return Err(problem_at(&at("name"), "must be 1 to 64 of a-z, 0-9, _ and -"));
            }
            if wanted.iter().any(|secret| secret.name == name) {
                return Err(problem_at(&at("name"), "is there twice"));
            }
            let origin = part("origin", 2048)?.unwrap_or_default();
            let origin = secrets::Origin::parse(&origin)
                .map_err(|e| problem_at(&at("origin"), format!("must look like https://api.example.com: {e}")))?;
            wanted.push(WantedSecret {
                name,
                origin: origin.to_string(),
                reason: part("reason", MAX_TEXT)?,
            });
        }
        Ok(wanted)
    }

    pub(super) fn routes(&self) -> Result<Vec<String>, ManifestError> {
        let routes = self.list("routes", 256)?.unwrap_or_default();
        Ok(routes
            .into_iter()
            .map(|route| route.trim_start_matches('/').to_owned())
            .collect())
    }
}

/// A text of at most `limit` characters. Control characters other than line breaks and tabs are refused: manifests are
/// also printed in terminals, which obey them.
fn text(value: &Value, field: &str, limit: usize) -> Result<String, ManifestError> {
    let Value::String(text) = value else {
        return Err(problem_at(field, "must be a text in quotation marks"));
    };
    if text.chars().count() > limit {
        return Err(problem_at(field, format!("is longer than {limit} characters")));
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
        return Err(problem_at(field, "contains a control character"));
    }
    Ok(text.clone())
}

/// `http(s)://host/path` or `git@host:path` (contract section 2). Both parts non-empty, no white space.
pub(super) fn is_git_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let parts = match rest {
        Some(rest) => rest.split_once('/'),
        None => text.strip_prefix("git@").and_then(|rest| rest.split_once(':')),
    };
    let whole = |part: &str| !part.is_empty() && !part.starts_with('-');
    parts.is_some_and(|(host, path)| whole(host) && whole(path)) && !text.contains(char::is_whitespace)
}
