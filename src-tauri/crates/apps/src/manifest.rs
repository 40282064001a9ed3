mod fields;

use std::collections::{BTreeMap, BTreeSet};

use net::HostPattern;
use policy::{AppId, Capability, PluginId};
use serde::Serialize;

use self::fields::{Fields, is_git_address};

/// Longest manifest, in bytes. Manifests of real apps stay under a few kilobytes.
pub const MAX_MANIFEST: u64 = 256 * 1024;
/// Longest name, version or author, in characters.
const MAX_WORD: usize = 200;
/// Longest description or reason, in characters.
const MAX_TEXT: usize = 4000;
/// Largest store a plugin may ask for, in bytes.
pub const MAX_STORE: u64 = 64 << 20;
/// Most secrets a plugin may ask for.
const MAX_SECRETS: usize = 16;
/// Shortest time between two ticks of a plugin, in milliseconds (contract section 3.1).
const MIN_INTERVAL: u64 = 5000;

/// Why a manifest was refused. The text names the field, or the line and column, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("manifest.json is not text: save it as UTF-8")]
    Encoding,
    #[error("manifest.json is not valid JSON at line {line}, column {column}: {what}")]
    Json { line: usize, column: usize, what: String },
    #[error("manifest.json must be one JSON object, {{…}}")]
    Shape,
    #[error("manifest.json: \"{field}\" {problem}")]
    Field { field: String, problem: String },
}

/// What an app is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AppKind {
    /// Has a page of its own. The older word `vite` reads as this.
    Web,
    /// Plugins without a page.
    App,
    /// A look for another app.
    Skin,
}

/// Where the files say they came from. A claim of the workspace: nothing is allowed because of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Local,
    Imported,
}

/// Where an app or plugin was taken from, for updates. Each text as written, lengths checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<String>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// `apps/<id>/manifest.json` (contract section 2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppManifest {
    pub name: String,
    pub version: String,
    pub kind: AppKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    pub origin: Origin,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Version range, not yet read as one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
}

/// A secret that a plugin would like to have, to send it in a header to one origin. It gets a handle, never the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WantedSecret {
    /// `[a-z0-9_-]{1,64}`.
    pub name: String,
    /// Scheme, host and port in the spelling that origins are compared in.
    pub origin: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `plugins/<id>/manifest.json` (contract section 3.1), with `persistent`, `routes`, `reasons`, `localHosts`, `storeQuota`
/// and `secrets` beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginManifest {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub origin: Origin,
    /// Each once, in the order written.
    pub permissions: Vec<Capability>,
    /// Why each is needed, in the author's words: shown to the person as a quotation.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<Capability, String>,
    /// Which hooks run; `None`: those that the code exports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Vec<String>>,
    /// Milliseconds between ticks, at least 5000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    pub priority: f64,
    /// Hosts on the internet, in the spelling that patterns are compared in. None listed: no network, whatever the
    /// permissions say.
    pub network_hosts: Vec<String>,
    /// Hosts on this machine or in the local network: what `networkHosts` lists of them, and all of `localHosts`.
    pub local_hosts: Vec<String>,
    /// Bytes of store asked for, at most [`MAX_STORE`]; `None`: the usual size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_quota: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<WantedSecret>,
    /// Beginnings of the route paths this plugin answers, without a leading slash; empty: it is asked for all.
    pub routes: Vec<String>,
    /// Keeps its context between calls.
    pub persistent: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
}

/// An app as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppInfo {
    pub id: AppId,
    pub manifest: AppManifest,
    /// Every folder in `plugins/` that holds a plugin, sorted, also those that cannot be loaded.
    pub plugin_ids: Vec<PluginId>,
    /// Whether a `data/` folder is there.
    pub has_data: bool,
}

impl AppManifest {
    /// Reads the bytes of an app's manifest. Unknown fields are left alone; a known one of a wrong form is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let fields = Fields::parse(bytes)?;
        let kind = match fields.required("kind", MAX_WORD)?.as_str() {
            "web" | "vite" => AppKind::Web,
            "app" => AppKind::App,
            "skin" => AppKind::Skin,
            other => {
                let problem = format!("is \"{}\": use \"web\", \"app\" or \"skin\"", short(other));
                return Err(problem_at("kind", problem));
            }
        };
        let source = fields.source()?;
        if let Some(git) = source.as_ref().and_then(|s| s.git.as_deref())
            && !is_git_address(git)
        {
            let problem = "must look like https://host/path or git@host:path";
            return Err(problem_at("source.git", problem));
        }
        let repository = fields.optional("repository", 2048)?;
        if repository.as_deref().is_some_and(|r| !r.starts_with("https://")) {
            return Err(problem_at("repository", "must start with https://"));
        }
        Ok(Self {
            name: fields.required("name", MAX_WORD)?,
            version: fields.required("version", MAX_WORD)?,
            kind,
            description: fields.optional("description", MAX_TEXT)?,
            author: fields.optional("author", MAX_WORD)?.map(|a| a.trim().to_owned()),
            origin: fields.origin()?,
            source,
            repository,
            engine: fields.optional("engine", 64)?,
        })
    }
}

impl PluginManifest {
    /// Reads the bytes of a plugin's manifest. Unknown fields are left alone; a known one of a wrong form, and a
    /// permission that does not exist, is an error.
    ///
    /// A host in `networkHosts` that is this machine or a private address *is* the request for the local network, and
    /// stands in [`PluginManifest::local_hosts`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        let fields = Fields::parse(bytes)?;
        let (listed_local, network_hosts) = fields
            .hosts("networkHosts")?
            .into_iter()
            .partition(HostPattern::is_local);
        let mut local: Vec<HostPattern> = listed_local;
        local.extend(fields.hosts("localHosts")?);
        let mut permissions = Vec::new();
        let Some(listed) = fields.list("permissions", 64)? else {
            let problem = "is missing: list what the plugin needs, or [] for nothing";
            return Err(problem_at("permissions", problem));
        };
        for word in listed {
            let capability = Capability::parse(&word).map_err(|e| problem_at("permissions", e))?;
            if !permissions.contains(&capability) {
                permissions.push(capability);
            }
        }
        Ok(Self {
            name: fields.required("name", MAX_WORD)?,
            version: fields.optional("version", MAX_WORD)?,
            description: fields.optional("description", MAX_TEXT)?,
            origin: fields.origin()?,
            permissions,
            reasons: fields.reasons()?,
            hooks: fields.hooks()?,
            interval_ms: fields.interval()?,
            priority: fields.number("priority")?,
            network_hosts: texts(network_hosts),
            local_hosts: texts(local),
            store_quota: fields.store_quota()?,
            secrets: fields.secrets()?,
            routes: fields.routes()?,
            persistent: fields.flag("persistent")?,
            source: fields.source()?,
        })
    }
}

impl PluginManifest {
    /// What the plugin asks for, each with its scope: the hosts of `network` and of `local-network`, and for a `store` of
    /// another size than usual `quota:<bytes>`. A grant counts for exactly this.
    pub fn asks(&self) -> Vec<(Capability, Vec<String>)> {
        let mut asks = Vec::new();
        let online = |c: &Capability| matches!(c, Capability::Network | Capability::LocalNetwork);
        for capability in &self.permissions {
            match capability {
                Capability::Network => asks.push((Capability::Network, self.network_hosts.clone())),
                Capability::LocalNetwork => {}
                Capability::Store => {
                    let quota = self.store_quota.map(|bytes| format!("quota:{bytes}"));
                    asks.push((Capability::Store, quota.into_iter().collect()));
                }
                other => asks.push((*other, Vec::new())),
            }
        }
        let named = self.permissions.contains(&Capability::LocalNetwork);
        if named || (self.permissions.iter().any(online) && !self.local_hosts.is_empty()) {
            asks.push((Capability::LocalNetwork, self.local_hosts.clone()));
        }
        asks
    }

    /// Whether the manifest lets this hook run, by the name of its export.
    pub fn hook(&self, name: &str) -> bool {
        self.hooks
            .as_ref()
            .is_none_or(|listed| listed.iter().any(|hook| hook == name))
    }
}

/// Why two plugins of one app cannot stand side by side: a beginning of a route path that both claim, or that lies within
/// one of the other's. Beginnings are compared by whole path segments.
pub fn clash(a: &PluginManifest, b: &PluginManifest) -> Option<String> {
    let parts =
        |route: &str| -> Vec<String> { route.split('/').filter(|p| !p.is_empty()).map(str::to_owned).collect() };
    for one in &a.routes {
        for other in &b.routes {
            let (mine, theirs) = (parts(one), parts(other));
            let shared = mine.len().min(theirs.len());
            if mine[..shared] == theirs[..shared] {
                let (one, other) = (short(one), short(other));
                return Some(format!(
                    "\"{}\" answers the routes \"{one}\", \"{}\" answers \"{other}\": change \"routes\" in one of their \
                     manifests",
                    short(&a.name),
                    short(&b.name)
                ));
            }
        }
    }
    None
}

/// Canonical texts, each once, sorted, so that the order in a manifest does not count.
fn texts(patterns: Vec<HostPattern>) -> Vec<String> {
    let each: BTreeSet<String> = patterns.iter().map(ToString::to_string).collect();
    each.into_iter().collect()
}

fn problem_at(field: &str, problem: impl ToString) -> ManifestError {
    ManifestError::Field {
        field: field.to_owned(),
        problem: problem.to_string(),
    }
}

fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

/// Whether a plugin may call a secret so.
pub fn is_secret_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = r#"{"name":"Chat","version":"1.0.0","kind":"web"}"#;

    fn check_app(json: &str, want: &str) {
        let got = AppManifest::parse(json.as_bytes()).map_or_else(|e| e.to_string(), |_| "ok".into());
        assert!(got.contains(want), "{json}\n  gave: {got}\n  want: {want}");
    }

    fn check_plugin(json: &str, want: &str) {
        let got = PluginManifest::parse(json.as_bytes()).map_or_else(|e| e.to_string(), |_| "ok".into());
        assert!(got.contains(want), "{json}\n  gave: {got}\n  want: {want}");
    }

    #[test]
    fn app_manifests() {
        for (json, want) in [
            (APP, "ok"),
            (r#"{"name":"x","version":"1","kind":"vite","extra":{"a":[1]}}"#, "ok"),
            (r#"{"name":"x","version":"1","kind":"skin","description":null}"#, "ok"),
            (
                r#"{"name":"x","version":"1","kind":"app","source":{"git":"git@host:me/x.git"}}"#,
                "ok",
            ),
            ("", "line 1, column 0"),
            ("{\n  \"name\": \"x\",\n  oops\n}", "line 3, column 3"),
            ("[1]", "one JSON object"),
            ("\"text\"", "one JSON object"),
            (r#"{"version":"1","kind":"web"}"#, "\"name\" is missing"),
            (r#"{"name":"  ","version":"1","kind":"web"}"#, "\"name\" is empty"),
            (r#"{"name":7,"version":"1","kind":"web"}"#, "\"name\" must be a text"),
            (r#"{"name":"x","version":1,"kind":"web"}"#, "\"version\" must be a text"),
            (r#"{"name":"x","version":"1"}"#, "\"kind\" is missing"),
            (r#"{"name":"x","version":"1","kind":"Web"}"#, "\"kind\" is \"Web\": use"),
            (
                r#"{"name":"a\u001b[2Jb","version":"1","kind":"web"}"#,
                "\"name\" contains a control character",
            ),
            (
                r#"{"name":"x","version":"1","kind":"web","repository":"http://x"}"#,
                "\"repository\" must start with",
            ),
            (
                r#"{"name":"x","version":"1","kind":"web","source":{"git":"file:///etc"}}"#,
                "\"source.git\" must look",
            ),
            (
                r#"{"name":"x","version":"1","kind":"web","source":{"git":"https://-x/y"}}"#,
                "\"source.git\" must look",
            ),
            (
                r#"{"name":"x","version":"1","kind":"web","source":[]}"#,
                "\"source\" must be an object",
            ),
        ] {
            check_app(json, want);
        }
        let long = "x".repeat(65);
        check_app(
            &format!(r#"{{"name":"x","version":"1","kind":"web","engine":"{long}"}}"#),
            "\"engine\" is longer",
        );
        let deep = "[".repeat(100_000);
        check_app(&format!(r#"{{"name":{deep}"#), "not valid JSON");
    }

    // get-convex/convex-backend#138, elyukai/optolith-client#370, BaseIntelligence/bounty-challenge#46780.
    #[test]
    fn regress_26_byte_order_marks() {
        let wide = |bom: [u8; 2], to: fn(u16) -> [u8; 2]| {
            let mut bytes = bom.to_vec();
            bytes.extend(APP.encode_utf16().flat_map(to));
            bytes
        };
        let marked = [b"\xef\xbb\xbf".as_slice(), APP.as_bytes()].concat();
        for bytes in [
            marked,
            wide([0xff, 0xfe], u16::to_le_bytes),
            wide([0xfe, 0xff], u16::to_be_bytes),
        ] {
            assert_eq!(AppManifest::parse(&bytes).unwrap().name, "Chat");
        }
        for bad in [
            b"\xff\xfea".as_slice(),
            b"\xff\xfe\x00\xd8",
            b"\xef\xbb\xbf\xff",
            b"{\"name\":\"\xff\"}",
        ] {
            assert_eq!(AppManifest::parse(bad), Err(ManifestError::Encoding), "{bad:?}");
        }
    }

    #[test]
    fn plugin_manifests() {
        for (json, want) in [
            (r#"{"name":"p","permissions":[]}"#, "ok"),
            (r#"{"name":"p"}"#, "\"permissions\" is missing"),
            (r#"{"name":"p","permissions":"llm"}"#, "\"permissions\" must be a list"),
            (r#"{"name":"p","permissions":[1]}"#, "\"permissions[0]\" must be a text"),
            (
                r#"{"name":"p","permissions":["shell"]}"#,
                "unknown permission \"shell\"",
            ),
            (
                r#"{"name":"p","permissions":["llm"],"reasons":{"llm":"to answer"}}"#,
                "ok",
            ),
            (
                r#"{"name":"p","permissions":[],"reasons":{"root":"x"}}"#,
                "unknown permission \"root\"",
            ),
            (
                r#"{"name":"p","permissions":[],"persistent":1}"#,
                "\"persistent\" must be true or false",
            ),
            (
                r#"{"name":"p","permissions":[],"priority":"high"}"#,
                "\"priority\" must be a number",
            ),
            (
                r#"{"name":"p","permissions":[],"schedule":{}}"#,
                "\"schedule.intervalMs\" must be",
            ),
            (
                r#"{"name":"p","permissions":[],"networkHosts":["*"]}"#,
                "\"networkHosts[0]\" must name hosts",
            ),
            (r#"{"permissions":[]}"#, "\"name\" is missing"),
        ] {
            check_plugin(json, want);
        }
    }

    #[test]
    fn plugin_fields_are_kept() {
        let json = r#"{"name":"p","permissions":["register:routes","llm","routes"],"schedule":{"intervalMs":1},
            "priority":-2,"networkHosts":["*.example.com"],"routes":["/chat/","x"],"persistent":true,
            "reasons":{"llm":"to answer you"}}"#;
        let manifest = PluginManifest::parse(json.as_bytes()).unwrap();
        assert_eq!(manifest.permissions, [Capability::Routes, Capability::Llm]);
        assert_eq!(manifest.interval_ms, Some(5000));
        assert_eq!(manifest.priority, -2.0);
        assert_eq!(manifest.network_hosts, ["*.example.com"]);
        assert_eq!(manifest.routes, ["chat/", "x"]);
        assert!(manifest.persistent);
        assert_eq!(manifest.reasons[&Capability::Llm], "to answer you");
    }
}
