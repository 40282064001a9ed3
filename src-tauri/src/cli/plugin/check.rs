//! `chrysalis plugin check`: what can be said about a plugin's or an app's folder without an engine. Its code is parsed
//! in a worker and not run.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use apps::manifest::{AppManifest, MAX_MANIFEST, ManifestError, PluginManifest, clash};
use apps::stage::Staged;
use apps::workspace::{MAX_SOURCE, WorkspaceError};
use files::{FileError, Folder, Kind};
use policy::{AppId, Capability, PluginId};
use serde_json::{Value, json};

use super::code;
use super::spots::{Spot, Spots};
use crate::cli::out::say;
use crate::cli::plain;
use crate::paths;

/// Fields of a plugin's manifest.
const FIELDS: &[&str] = &[
    "name",
    "version",
    "description",
    "author",
    "origin",
    "permissions",
    "reasons",
    "hooks",
    "schedule",
    "priority",
    "networkHosts",
    "localHosts",
    "storeQuota",
    "secrets",
    "routes",
    "persistent",
    "source",
];
/// Errors of one manifest that are looked for at most.
const MOST: usize = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
    Hint,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        })
    }
}

/// What was found in one file.
struct Finding {
    level: Level,
    file: PathBuf,
    spot: Option<Spot>,
    text: String,
}

/// Everything that was found.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
    /// What was looked at, a line for each.
    looked: Vec<String>,
}

/// One file that findings are about.
struct At<'a> {
    report: &'a mut Report,
    file: PathBuf,
}

impl At<'_> {
    fn say(&mut self, level: Level, spot: Option<Spot>, text: impl Into<String>) {
        self.report.findings.push(Finding {
            level,
            file: self.file.clone(),
            spot,
            text: text.into(),
        });
    }
}

impl Report {
    fn at(&mut self, file: PathBuf) -> At<'_> {
        At { report: self, file }
    }

    fn print(&self) -> bool {
        for finding in &self.findings {
            let file = plain(&finding.file.display().to_string());
            let place = finding
                .spot
                .map_or_else(String::new, |s| format!(":{}:{}", s.line, s.column));
            let lines: Vec<String> = finding.text.lines().map(plain).collect();
            say!("{file}{place}: {}: {}", finding.level, lines.join("\n  "));
        }
        for line in &self.looked {
            say!("{}", plain(line));
        }
        let count = |level| self.findings.iter().filter(|finding| finding.level == level).count();
        let (errors, warnings) = (count(Level::Error), count(Level::Warning));
        say!("{}, {}", number(errors, "error"), number(warnings, "warning"));
        errors == 0
    }
}

/// Enough of a word to know it by.
fn short(word: &str) -> String {
    word.chars().take(60).collect()
}

fn number(n: usize, what: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {what}{s}")
}

/// Looks at the folder of a plugin or of an app and prints what it finds. Gives whether there are no errors.
pub async fn run(folder: &Path) -> Result<bool, String> {
    let said = |error: FileError| format!("the folder {} could not be read: {error}", folder.display());
    let open = Folder::open_ambient(folder).map_err(said)?;
    let there = |name: &str| matches!(open.kind(name), Ok(Some(_)) | Err(_));
    let mut report = Report::default();
    let manifest: Option<Value> = open
        .read("manifest.json", MAX_MANIFEST)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let has = |field: &str| manifest.as_ref().is_some_and(|m| m.get(field).is_some());
    let is_app = !there("plugin.js") && (there("plugins") || (has("kind") && !has("permissions")));
    if is_app {
        check_app(&mut report, folder, &open).await;
    } else if there("manifest.json") || there("plugin.js") {
        let inside = app_around(folder);
        let plugin = check_plugin(&mut report, folder, &open, inside.is_some()).await;
        if let (Some(plugin), Some(app)) = (plugin, inside) {
            check_siblings(&mut report, folder, &plugin, &app);
        }
    } else {
        return Err(format!(
            "{} holds neither a plugin (manifest.json and plugin.js) nor an app (manifest.json and plugins/)",
            folder.display()
        ));
    }
    Ok(report.print())
}

/// The app that a plugin's folder stands in: `<app>/plugins/<id>`.
fn app_around(folder: &Path) -> Option<PathBuf> {
    let full = folder.canonicalize().ok()?;
    let plugins = full.parent()?;
    let app = plugins.parent()?;
    let named = plugins.file_name().is_some_and(|name| name == "plugins");
    (named && app.join("manifest.json").is_file()).then(|| app.to_owned())
}

fn folder_name(folder: &Path) -> String {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    full.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The folders in `plugins/` that hold a plugin, working or not.
fn plugin_names(app: &Folder) -> Vec<String> {
    let Ok(plugins) = app.sub("plugins") else {
        return Vec::new();
    };
    let holds = |name: &str| {
        ["manifest.json", "plugin.js"]
            .iter()
            .any(|file| !matches!(plugins.kind(&format!("{name}/{file}")), Ok(None)))
    };
    let entries = plugins.list().unwrap_or_default();
    let folders = entries.into_iter().filter(|entry| entry.kind == Kind::Folder);
    folders
        .map(|entry| entry.name)
        .filter(|name| !name.starts_with('.') && holds(name))
        .collect()
}

async fn check_app(report: &mut Report, folder: &Path, open: &Folder) {
    let mut at = report.at(folder.join("manifest.json"));
    match open.read("manifest.json", MAX_MANIFEST) {
        Err(error) => at.say(Level::Error, None, missing(&error, "manifest.json")),
        Ok(bytes) => {
            let spots = Spots::of(&String::from_utf8_lossy(&bytes));
            match AppManifest::parse(&bytes) {
                Err(error) => {
                    let (spot, text) = of_manifest(&error, &spots);
                    at.say(Level::Error, spot, text);
                }
                Ok(manifest) => {
                    let line = format!("app {} {}", manifest.name, manifest.version);
                    at.report.looked.push(line);
                }
            }
        }
    }
    let mut plugins: Vec<(String, PluginManifest)> = Vec::new();
    for name in plugin_names(open) {
        let place = folder.join("plugins").join(&name);
        let Ok(sub) = open.sub(&format!("plugins/{name}")) else {
            continue;
        };
        if let Some(plugin) = check_plugin(report, &place, &sub, true).await {
            for (other, earlier) in &plugins {
                if let Some(clash) = clash(earlier, &plugin) {
                    let spot = spot_of(&sub, "routes");
                    let text = format!("clashes with the plugin {other}: {clash}");
                    report.at(place.join("manifest.json")).say(Level::Error, spot, text);
                }
            }
            plugins.push((name, plugin));
        }
    }
    // What else would stop `chrysalis app add`. Manifests and plugins were looked at more closely above.
    let id = AppId::parse("checked").ok();
    match Staged::from_folder(folder, id.as_ref()) {
        Ok(_) | Err(WorkspaceError::Manifest(_) | WorkspaceError::Plugin { .. } | WorkspaceError::NotAnApp) => {}
        Err(error) => report.at(folder.to_owned()).say(Level::Error, None, error.to_string()),
    }
    if let Err(error) = AppId::parse(&folder_name(folder).trim().to_lowercase().replace(' ', "-")) {
        let text = format!("the folder's name cannot be the app's id ({error}): it will need --id when it is added");
        report.at(folder.to_owned()).say(Level::Warning, None, text);
    }
}

fn spot_of(folder: &Folder, field: &str) -> Option<Spot> {
    let bytes = folder.read("manifest.json", MAX_MANIFEST).ok()?;
    Spots::of(&String::from_utf8_lossy(&bytes)).find(field)
}

fn check_siblings(report: &mut Report, folder: &Path, plugin: &PluginManifest, app: &Path) {
    let Ok(open) = Folder::open_ambient(app) else { return };
    let own = folder_name(folder);
    for name in plugin_names(&open).into_iter().filter(|name| *name != own) {
        let manifest = open
            .read(&format!("plugins/{name}/manifest.json"), MAX_MANIFEST)
            .ok()
            .and_then(|bytes| PluginManifest::parse(&bytes).ok());
        if let Some(clash) = manifest.and_then(|other| clash(plugin, &other)) {
            let spot = open
                .sub(&format!("plugins/{own}"))
                .ok()
                .and_then(|own| spot_of(&own, "routes"));
            let text = format!("clashes with the plugin {name}: {clash}");
            report.at(folder.join("manifest.json")).say(Level::Error, spot, text);
        }
    }
}

fn missing(error: &FileError, file: &str) -> String {
    if error.is_missing() {
        return format!("there is no {file} in this folder");
    }
    error.to_string()
}

/// Where a manifest is wrong, and how. The place is not repeated in the text.
fn of_manifest(error: &ManifestError, spots: &Spots) -> (Option<Spot>, String) {
    match error {
        ManifestError::Json { line, column, what } => {
            let spot = Spot {
                line: *line,
                column: *column,
            };
            (Some(spot), format!("not valid JSON: {what}"))
        }
        ManifestError::Field { field, problem } => (spots.find(field), format!("\"{field}\" {problem}")),
        other => (None, other.to_string()),
    }
}

/// Looks at one plugin; gives its manifest, as far as it could be read.
async fn check_plugin(report: &mut Report, place: &Path, open: &Folder, inside: bool) -> Option<PluginManifest> {
    let name = folder_name(place);
    if let Err(error) = PluginId::parse(&name) {
        let level = if inside { Level::Error } else { Level::Warning };
        let text = format!("the folder's name is the plugin's id: {error}");
        report.at(place.to_owned()).say(level, None, text);
    }
    let mut at = report.at(place.join("manifest.json"));
    let manifest = match open.read("manifest.json", MAX_MANIFEST) {
        Err(error) => {
            at.say(Level::Error, None, missing(&error, "manifest.json"));
            None
        }
        Ok(bytes) => check_manifest(&mut at, &bytes),
    };
    let mut at = report.at(place.join("plugin.js"));
    let source = match open.read("plugin.js", MAX_SOURCE).map(String::from_utf8) {
        Ok(Ok(source)) => source,
        Ok(Err(_)) => {
            at.say(Level::Error, None, "is not UTF-8 text: save it as UTF-8");
            return manifest.map(|(manifest, _)| manifest);
        }
        Err(error) => {
            let other = ["plugin.ts", "plugin.mjs", "index.js", "index.ts"]
                .into_iter()
                .find(|other| matches!(open.kind(other), Ok(Some(Kind::File))));
            let hint = other.map_or_else(String::new, |other| {
                format!(": there is {other}, but only plugin.js is loaded. Compile or bundle it into plugin.js")
            });
            at.say(Level::Error, None, missing(&error, "plugin.js") + &hint);
            return manifest.map(|(manifest, _)| manifest);
        }
    };
    let exports = check_source(&mut at, &source).await;
    let (manifest, spots) = manifest?;
    if let Some(exports) = &exports {
        compare(report, place, &manifest, &spots, &source, exports);
        let known: Vec<&str> = code::EXPORTS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| exports.iter().any(|export| export == name))
            .collect();
        let known = if known.is_empty() {
            "nothing that the engine calls".into()
        } else {
            known.join(", ")
        };
        report.looked.push(format!("plugin {name}: exports {known}"));
    }
    Some(manifest)
}

/// Every error of a manifest, not only the first: what is wrong is taken out, and the rest is read again.
fn check_manifest(at: &mut At<'_>, bytes: &[u8]) -> Option<(PluginManifest, Spots)> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let spots = Spots::of(&text);
    let Ok(mut value) = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) else {
        return match PluginManifest::parse(bytes) {
            Err(error) => {
                let (spot, text) = of_manifest(&error, &spots);
                at.say(Level::Error, spot, text);
                None
            }
            // Of an encoding that only the loader reads.
            Ok(manifest) => Some((manifest, spots)),
        };
    };
    let Some(fields) = value.as_object_mut() else {
        at.say(Level::Error, None, ManifestError::Shape.to_string());
        return None;
    };
    for name in fields.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        let meant = code::meant(name, FIELDS.iter().copied());
        let meant = meant.map_or_else(String::new, |meant| format!(": did you mean \"{meant}\"?"));
        at.say(
            Level::Warning,
            spots.find(name),
            format!("unknown field \"{}\", which is ignored{meant}", short(name)),
        );
    }
    let unknown = |word: &str| {
        let meant = code::meant_permission(word);
        let known = || {
            let all: Vec<&str> = Capability::ALL.iter().map(|c| c.as_str()).collect();
            format!(": known are {}", all.join(", "))
        };
        let meant = meant.map_or_else(known, |meant| format!(": did you mean \"{meant}\"?"));
        format!("unknown permission \"{}\"{meant}", short(word))
    };
    if let Some(Value::Array(listed)) = fields.get_mut("permissions") {
        for (i, entry) in listed.iter_mut().enumerate() {
            let Some(word) = entry.as_str() else { continue };
            if Capability::parse(word).is_err() {
                at.say(Level::Error, spots.find(&format!("permissions[{i}]")), unknown(word));
                *entry = "routes".into();
            }
        }
    }
    if let Some(Value::Object(reasons)) = fields.get_mut("reasons") {
        let bad: Vec<String> = reasons
            .keys()
            .filter(|word| Capability::parse(word).is_err())
            .cloned()
            .collect();
        for word in bad {
            at.say(Level::Error, spots.find(&format!("reasons.{word}")), unknown(&word));
            reasons.remove(&word);
        }
    }
    for _ in 0..MOST {
        let error = match PluginManifest::parse(value.to_string().as_bytes()) {
            Ok(manifest) => return Some((manifest, spots)),
            Err(error) => error,
        };
        let (spot, text) = of_manifest(&error, &spots);
        at.say(Level::Error, spot, text);
        let ManifestError::Field { field, .. } = error else {
            return None;
        };
        take_out(&mut value, &field);
    }
    None
}

/// Makes `field` of a manifest one that can be read.
fn take_out(value: &mut Value, field: &str) {
    let top = field.split(['.', '[']).next().unwrap_or_default().to_owned();
    let entry = field.strip_prefix(&top).and_then(|rest| rest.strip_prefix('['));
    let entry = entry.and_then(|rest| rest.split(']').next()?.parse::<usize>().ok());
    let Some(fields) = value.as_object_mut() else { return };
    match (top.as_str(), entry) {
        ("name", _) => fields.insert(top, "unnamed".into()),
        ("permissions", None) => fields.insert(top, json!([])),
        ("secrets", Some(i)) => {
            let mut secrets = fields.remove(&top).unwrap_or_default();
            if let Some(list) = secrets.as_array_mut()
                && i < list.len()
            {
                list[i] = json!({"name": format!("x{i}-unreadable"), "origin": "https://unreadable.example"});
            }
            fields.insert(top, secrets)
        }
        (_, Some(i)) => {
            let stand_in = match top.as_str() {
                "permissions" => json!("routes"),
                "networkHosts" | "localHosts" => json!("unreadable.example"),
                _ => json!("unreadable"),
            };
            if let Some(slot) = fields.get_mut(&top).and_then(|list| list.get_mut(i)) {
                *slot = stand_in;
            }
            None
        }
        _ => fields.remove(&top),
    };
}

/// The exports of a plugin's file, `None` when it cannot be parsed.
async fn check_source(at: &mut At<'_>, source: &str) -> Option<Vec<String>> {
    let error = match sandbox::check_syntax(&paths::worker(), "plugin.js", source).await {
        Ok(exports) => return Some(exports),
        Err(error) => error,
    };
    let sandbox::Failure::Script(error) = error else {
        at.say(Level::Error, None, error.to_string());
        return None;
    };
    let spot = (error.line > 0).then_some(Spot {
        line: error.line as usize,
        column: error.column.max(1) as usize,
    });
    // Parsers notice a type somewhat behind it, so the line before counts too.
    let lines = source.lines().skip((error.line as usize).saturating_sub(2)).take(2);
    let typed = lines.filter_map(code::typescript).last();
    let hint = typed.map_or_else(String::new, |what| {
        format!(". This looks like {what}: plugin.js must be plain JavaScript, so compile it first")
    });
    at.say(Level::Error, spot, format!("{}{hint}", error.message));
    None
}

/// What the manifest says and what the code seems to do.
fn compare(
    report: &mut Report,
    place: &Path,
    manifest: &PluginManifest,
    spots: &Spots,
    source: &str,
    exports: &[String],
) {
    let listed: BTreeSet<Capability> = manifest.asks().into_iter().map(|(capability, _)| capability).collect();
    let mut at = report.at(place.join("plugin.js"));
    for found in code::uses(source) {
        if !found.needs.iter().any(|need| listed.contains(need)) {
            let text = format!(
                "uses {}, and \"{}\" is not in permissions",
                found.what,
                found.needs[0].as_str()
            );
            at.say(Level::Warning, Some(found.spot), text);
        }
    }
    for found in code::unknown(source) {
        let meant = found
            .meant
            .map_or_else(String::new, |meant| format!(": did you mean {}.{meant}?", found.part));
        // A variable `host` may be something else; one with a part of ours is hardly.
        let level = if found.part == "host" {
            Level::Hint
        } else {
            Level::Warning
        };
        let text = format!("{} has no \"{}\"{meant}", found.part, short(&found.member));
        at.say(level, Some(found.spot), text);
    }
    for (name, needs) in code::EXPORTS {
        let exported = exports.iter().any(|export| export == name);
        if let (true, Some(needs)) = (exported, needs)
            && !listed.contains(needs)
        {
            let text = format!("{name} is never called: \"{}\" is not in permissions", needs.as_str());
            at.say(Level::Warning, code::first(source, name), text);
        }
    }
    let has = |name: &str| exports.iter().any(|export| export == name);
    if has("TOOLS") != has("handleTool") && !(has("handleTool") && has("appTools")) {
        let text = "tools need both: TOOLS (or appTools) to offer them, and handleTool to answer";
        at.say(Level::Warning, None, text);
    }
    let mut at = report.at(place.join("manifest.json"));
    for (i, capability) in manifest.permissions.iter().enumerate() {
        // Hooks need "llm" beside their own permission.
        let for_hooks = *capability == Capability::Llm && code::may_use(source, exports, Capability::Hooks);
        if !for_hooks && !code::may_use(source, exports, *capability) {
            let text = format!(
                "\"{}\" is listed, and nothing in plugin.js seems to use it",
                capability.as_str()
            );
            at.say(Level::Hint, spots.find(&format!("permissions[{i}]")), text);
        }
    }
    let mut warn = |wrong: bool, field: &str, text: &str| {
        if wrong {
            at.say(Level::Warning, spots.find(field), text);
        }
    };
    let asks = |capability: Capability| listed.contains(&capability);
    let online = manifest
        .permissions
        .iter()
        .any(|c| matches!(c, Capability::Network | Capability::LocalNetwork));
    let (hosts, local) = (&manifest.network_hosts, &manifest.local_hosts);
    let nowhere = hosts.is_empty() && local.is_empty();
    warn(
        online && nowhere,
        "permissions",
        "no host is listed, so nothing can be contacted: list hosts in \"networkHosts\"",
    );
    warn(
        !online && !nowhere,
        "networkHosts",
        "hosts are listed, and \"network\" is not in permissions",
    );
    let hooks = asks(Capability::Hooks);
    warn(
        hooks && !asks(Capability::Llm),
        "permissions",
        "\"hooks\" also needs \"llm\": without it no hook runs",
    );
    let (schedule, every) = (asks(Capability::Schedule), manifest.interval_ms);
    warn(
        schedule && every.is_none(),
        "permissions",
        "\"schedule\" is listed without {\"schedule\": {\"intervalMs\": …}}: onTick never runs",
    );
    warn(
        !schedule && every.is_some(),
        "schedule",
        "\"schedule\" is not in permissions: onTick never runs",
    );
    let quota = manifest.store_quota.is_some();
    warn(
        quota && !asks(Capability::Store),
        "storeQuota",
        "\"store\" is not in permissions",
    );
    let routes = !manifest.routes.is_empty();
    warn(
        routes && !asks(Capability::Routes),
        "routes",
        "\"routes\" is not in permissions",
    );
    for capability in manifest.reasons.keys().filter(|one| !listed.contains(one)) {
        let field = format!("reasons.{}", capability.as_str());
        warn(true, &field, "a reason for a permission that is not listed");
    }
    let named = manifest.permissions.contains(&Capability::LocalNetwork);
    if online && !named && !local.is_empty() {
        let text = format!(
            "{} is in the local network: the person is asked for \"local-network\" too",
            local.join(", ")
        );
        let field = if spots.find("localHosts").is_some() {
            "localHosts"
        } else {
            "networkHosts"
        };
        at.say(Level::Hint, spots.find(field), text);
    }
}
