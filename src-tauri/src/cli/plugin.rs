//! `chrysalis plugin`: for authors (check, call, errors) and for who decides (list, grant, revoke, enable, disable, secret).

mod check;
mod code;
mod errors;
mod secret;
mod spots;

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use policy::{AppId, Capability, JOINT, PluginId};
use serde_json::{Map, Value, json};

use super::out::{note, say};
use super::plain;
use super::told::{self, items, sentence, text};
use crate::local::Door;

#[derive(Subcommand)]
pub enum PluginCommand {
    /// Call one plugin's handleRoute and print what it answers
    ///
    /// The answer's body goes to standard output, its status to standard error. Ends with 0 when the status is below 400.
    Call {
        #[command(flatten)]
        of: Named,
        /// GET, POST, …
        method: String,
        /// The path as the plugin sees it, with a query if wanted: /notes?tag=x
        path: String,
        /// The request's body as JSON; "-" reads it from standard input
        #[arg(long, value_name = "JSON")]
        body: Option<String>,
    },
    /// List plugins with what each may do
    List {
        /// Only this app's; _ for plugins that belong to no app
        app: Option<String>,
        /// Only this one
        plugin: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Allow a plugin what it asks for, for exactly the code that is there now
    Grant {
        #[command(flatten)]
        of: Named,
        /// Only these permissions, beside those it has; what else it asks for is refused [default: all that it asks for and
        /// config.toml does not forbid]
        capabilities: Vec<String>,
    },
    /// Take permissions back
    Revoke {
        #[command(flatten)]
        of: Named,
        /// Only these permissions [default: all]
        capabilities: Vec<String>,
    },
    /// Let a plugin run again
    Enable {
        #[command(flatten)]
        of: Named,
    },
    /// Turn a plugin off, and stop what it has running
    Disable {
        #[command(flatten)]
        of: Named,
    },
    /// Print the last errors of a plugin, or of all plugins of an app
    Errors {
        /// The app's id; _ for plugins that belong to no app
        app: String,
        /// Only this one's
        plugin: Option<String>,
    },
    /// Save a secret for a plugin, or forget it
    ///
    /// The value is read from the terminal, where it is not shown, or from standard input. It is kept in the keychain; the
    /// plugin never sees it, and it is sent to its origin only.
    Secret {
        #[command(flatten)]
        of: Named,
        /// The name by which the plugin's code refers to it
        name: String,
        /// Where it may be sent, https://host [default: what the plugin's manifest says]
        #[arg(long, value_name = "URL", conflicts_with = "forget")]
        origin: Option<String>,
        /// Forget it instead
        #[arg(long)]
        forget: bool,
    },
    /// Look for mistakes in the folder of a plugin or of an app; nothing of it is run
    Check { folder: PathBuf },
}

/// Which plugin.
#[derive(clap::Args)]
pub struct Named {
    /// The app's id; _ for plugins that belong to no app
    app: String,
    /// The plugin's id, the name of its folder
    plugin: String,
}

impl Named {
    /// The ids, checked, so that nothing else gets into an address.
    fn read(&self) -> Result<(String, String), Wrong> {
        let app = app_id(&self.app)?;
        Ok((app, plugin_id(&self.plugin)?))
    }
}

fn plugin_id(text: &str) -> Result<String, Wrong> {
    let id = PluginId::parse(text).map_err(|e| Wrong::Usage(e.to_string()))?;
    Ok(id.to_string())
}

/// A plugin's name in addresses that are not below its app's.
fn global(app: &str, plugin: &str) -> String {
    if app == AppId::shelf().as_str() {
        return plugin.to_owned();
    }
    format!("{app}{JOINT}{plugin}")
}

fn app_id(text: &str) -> Result<String, Wrong> {
    if text == AppId::shelf().as_str() {
        return Ok(text.to_owned());
    }
    let id = AppId::parse(text).map_err(|e| Wrong::Usage(e.to_string()))?;
    Ok(id.to_string())
}

/// What a command ends with when it did not do its work.
enum Wrong {
    /// What was typed cannot be meant.
    Usage(String),
    Failed(String),
}

impl From<String> for Wrong {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

pub async fn run(home: &Path, command: PluginCommand) -> ExitCode {
    let done = match command {
        PluginCommand::Check { folder } => check::run(&folder).await.map_err(Wrong::Failed),
        command => with_engine(home, command).await,
    };
    match done {
        Ok(true) if super::out::broken() => ExitCode::FAILURE,
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Wrong::Failed(error)) => super::failed(&error),
        Err(Wrong::Usage(error)) => {
            super::failed(&error);
            ExitCode::from(2)
        }
    }
}

/// Runs one command; gives whether it went well where it already said why not.
async fn with_engine(home: &Path, command: PluginCommand) -> Result<bool, Wrong> {
    // What can be seen to be wrong is said before the engine is opened.
    let work = Work::of(command)?;
    let door = super::door(home).await?;
    let done = work.run(&door).await;
    super::close(door).await;
    done
}

/// A command whose words have been read.
enum Work {
    Call {
        app: String,
        plugin: String,
        request: Value,
    },
    List {
        app: Option<String>,
        plugin: Option<String>,
        json: bool,
    },
    Grant {
        app: String,
        plugin: String,
        capabilities: Vec<Capability>,
    },
    Revoke {
        app: String,
        plugin: String,
        capabilities: Vec<Capability>,
    },
    Switch {
        app: String,
        plugin: String,
        on: bool,
    },
    Errors {
        app: String,
        plugin: Option<String>,
    },
    Secret {
        app: String,
        plugin: String,
        name: String,
        origin: Option<String>,
        forget: bool,
    },
}

impl Work {
    fn of(command: PluginCommand) -> Result<Self, Wrong> {
        Ok(match command {
            PluginCommand::Call { of, method, path, body } => {
                let (app, plugin) = of.read()?;
                let request = request(&method, &path, body)?;
                Self::Call { app, plugin, request }
            }
            PluginCommand::List { app, plugin, json } => Self::List {
                app: app.as_deref().map(app_id).transpose()?,
                plugin: plugin.as_deref().map(plugin_id).transpose()?,
                json,
            },
            PluginCommand::Grant { of, capabilities } => {
                let ((app, plugin), capabilities) = (of.read()?, read_capabilities(&capabilities)?);
                Self::Grant {
                    app,
                    plugin,
                    capabilities,
                }
            }
            PluginCommand::Revoke { of, capabilities } => {
                let ((app, plugin), capabilities) = (of.read()?, read_capabilities(&capabilities)?);
                Self::Revoke {
                    app,
                    plugin,
                    capabilities,
                }
            }
            PluginCommand::Enable { of } => {
                let (app, plugin) = of.read()?;
                Self::Switch { app, plugin, on: true }
            }
            PluginCommand::Disable { of } => {
                let (app, plugin) = of.read()?;
                Self::Switch { app, plugin, on: false }
            }
            PluginCommand::Errors { app, plugin } => Self::Errors {
                app: app_id(&app)?,
                plugin: plugin.as_deref().map(plugin_id).transpose()?,
            },
            PluginCommand::Secret {
                of,
                name,
                origin,
                forget,
            } => {
                let ((app, plugin), name) = (of.read()?, secret::name(&name)?);
                Self::Secret {
                    app,
                    plugin,
                    name,
                    origin,
                    forget,
                }
            }
            PluginCommand::Check { .. } => return Err(Wrong::Usage("check needs no engine".into())),
        })
    }

    async fn run(self, door: &Door) -> Result<bool, Wrong> {
        match self {
            Self::Call { app, plugin, request } => call(door, &app, &plugin, request).await,
            Self::List { app, plugin, json } => list(door, app.as_deref(), plugin.as_deref(), json).await,
            Self::Grant {
                app,
                plugin,
                capabilities,
            } => grant(door, &app, &plugin, &capabilities).await,
            Self::Revoke {
                app,
                plugin,
                capabilities,
            } => revoke(door, &app, &plugin, &capabilities).await,
            Self::Switch { app, plugin, on } => {
                let word = if on { "enable" } else { "disable" };
                door.get("POST", &format!("/v1/apps/{app}/plugins/{plugin}/{word}"), None)
                    .await?;
                say!("{app}/{plugin} is {}", if on { "on" } else { "off" });
                Ok(true)
            }
            Self::Errors { app, plugin } => errors::show(door, &app, plugin.as_deref()).await,
            Self::Secret {
                app,
                plugin,
                name,
                forget: true,
                ..
            } => secret::forget(door, &app, &plugin, &name).await,
            Self::Secret {
                app,
                plugin,
                name,
                origin,
                ..
            } => secret::save(door, &app, &plugin, &name, origin).await,
        }
    }
}

fn read_capabilities(words: &[String]) -> Result<Vec<Capability>, Wrong> {
    let read = |word: &String| {
        Capability::parse(word).map_err(|error| {
            let meant = code::meant(word, Capability::ALL.iter().map(|c| c.as_str()));
            let hint = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
            Wrong::Usage(format!("{error}{hint}"))
        })
    };
    words.iter().map(read).collect()
}

/// `{method, path, query, body}` as the plugin will see it.
fn request(method: &str, path: &str, body: Option<String>) -> Result<Value, Wrong> {
    let method = method.to_uppercase();
    if method.is_empty() || !method.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(Wrong::Usage(format!("\"{method}\" is no method: say GET, POST, …")));
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err(Wrong::Usage(format!(
            "the path must begin with a slash, as the plugin sees it: /{path}"
        )));
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let query: Map<String, Value> = url::form_urlencoded::parse(query.as_bytes())
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect();
    let text = match body.as_deref() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|e| Wrong::Failed(format!("the body could not be read: {e}")))?;
            Some(text)
        }
        other => other.map(str::to_owned),
    };
    let body = text.map(|text| {
        serde_json::from_str::<Value>(&text).map_err(|e| Wrong::Usage(format!("--body is not valid JSON: {e}")))
    });
    Ok(json!({
        "method": method, "path": format!("/{rest}"), "query": query, "body": body.transpose()?.unwrap_or(Value::Null),
    }))
}

async fn call(door: &Door, app: &str, plugin: &str, request: Value) -> Result<bool, Wrong> {
    let path = format!("/v1/apps/{app}/plugins/{plugin}/call");
    let answer = door.get("POST", &path, Some(request)).await?;
    told::show_refusals(door, &answer["trace"]).await;
    let Some(status) = answer["status"].as_u64() else {
        return Err(Wrong::Failed(format!(
            "{app}/{plugin} did not answer: its handleRoute gave neither status nor json nor text, or there is none"
        )));
    };
    let kind = answer["contentType"].as_str().unwrap_or_default();
    let body = answer["text"].as_str().unwrap_or_default();
    note!("{status} {}", plain(kind));
    print_body(kind, body);
    Ok(status < 400)
}

/// JSON is laid out for reading. A terminal gets text only: what a plugin answers could rewrite the screen.
fn print_body(kind: &str, body: &str) {
    let json = kind
        .contains("json")
        .then(|| serde_json::from_str::<Value>(body).ok())
        .flatten();
    let text = json.map_or_else(|| body.to_owned(), |json| format!("{json:#}"));
    if !std::io::stdout().is_terminal() {
        say!("{text}");
        return;
    }
    for line in text.split('\n') {
        say!("{}", plain(&line.replace('\t', "    ")));
    }
}

async fn list(door: &Door, app: Option<&str>, only: Option<&str>, as_json: bool) -> Result<bool, Wrong> {
    let apps = match app {
        Some(app) => vec![app.to_owned()],
        None => {
            let all = door.get("GET", "/v1/apps", None).await?;
            let ids = items(&all, "apps").filter_map(|app| app["id"].as_str().map(str::to_owned));
            ids.chain([AppId::shelf().to_string()]).collect()
        }
    };
    let mut found = Map::new();
    for app in apps {
        let of_app = door.get("GET", &format!("/v1/apps/{app}/plugins"), None).await?;
        let plugins = items(&of_app, "plugins").filter(|one| only.is_none_or(|only| one["id"] == only));
        let plugins: Vec<Value> = plugins.cloned().collect();
        if let (Some(only), []) = (only, plugins.as_slice()) {
            return Err(no_plugin(&app, only));
        }
        found.insert(app, plugins.into());
    }
    if as_json {
        say!("{:#}", Value::Object(found));
        return Ok(true);
    }
    let mut none = true;
    for (app, plugins) in &found {
        for plugin in plugins.as_array().into_iter().flatten() {
            none = false;
            show(app, plugin);
        }
    }
    if none {
        note!("no plugins here");
    }
    Ok(true)
}

fn show(app: &str, plugin: &Value) {
    let title = format!("{}/{}", plain(app), text(&plugin["id"]));
    if let Some(error) = plugin["error"].as_str() {
        say!("{title}  cannot be loaded: {}", plain(error));
        return;
    }
    let off = if plugin["enabled"] == false { "  (off)" } else { "" };
    let name = format!("{} {}", text(&plugin["name"]), text(&plugin["version"]));
    say!("{title}  {}{off}", name.trim());
    for permission in items(plugin, "permissions") {
        say!("  {:<9} {}", told::state(permission), sentence(plugin, permission));
        if let Some(why) = permission["policy"].as_str() {
            say!("            {}", plain(why));
        }
    }
    for secret in items(plugin, "secrets") {
        let state = if secret["saved"] == true {
            "saved"
        } else if secret["lost"] == true {
            "lost"
        } else {
            "missing"
        };
        say!(
            "  {state:<9} secret {} for {}",
            text(&secret["name"]),
            text(&secret["origin"])
        );
    }
}

fn no_plugin(app: &str, plugin: &str) -> Wrong {
    Wrong::Failed(format!("app \"{app}\" has no plugin \"{plugin}\""))
}

async fn find(door: &Door, app: &str, plugin: &str) -> Result<Value, Wrong> {
    let all = door.get("GET", &format!("/v1/apps/{app}/plugins"), None).await?;
    let found = items(&all, "plugins").find(|one| one["id"] == plugin);
    let Some(found) = found else {
        return Err(no_plugin(app, plugin));
    };
    if let Some(error) = found["error"].as_str() {
        return Err(Wrong::Failed(format!("{app}/{plugin} cannot be loaded: {error}")));
    }
    Ok(found.clone())
}

async fn grant(door: &Door, app: &str, plugin: &str, wanted: &[Capability]) -> Result<bool, Wrong> {
    let found = find(door, app, plugin).await?;
    let asked: Vec<&Value> = items(&found, "permissions").collect();
    let named = |one: &Value, capability: &Capability| one["capability"] == capability.as_str();
    for capability in wanted {
        if !asked.iter().any(|one| named(one, capability)) {
            return Err(Wrong::Usage(format!(
                "{app}/{plugin} does not ask for \"{}\", so it cannot be allowed: its manifest.json would have to list it",
                capability.as_str()
            )));
        }
    }
    let chosen = |one: &Value| wanted.is_empty() || wanted.iter().any(|capability| named(one, capability));
    // What was allowed before stays so: this command adds. What config.toml forbids since does not stop what was named.
    let kept = |one: &Value| !chosen(one) && one["state"] == "granted" && one["policy"].is_null();
    let mut body = json!({"head": found["hash"]});
    if !wanted.is_empty() {
        let names = asked.iter().filter(|one| chosen(one) || kept(one));
        body["capabilities"] = names.map(|one| one["capability"].clone()).collect();
    }
    let path = format!("/v1/plugins/{}/approve", text(&found["globalId"]));
    let code = text(&found["hash"]).chars().take(12).collect::<String>();
    say!("{app}/{plugin}, code {code}:");
    for one in asked.iter().filter(|one| chosen(one)) {
        told::show_wanted("  ", &found, one);
    }
    let answer = door.get("POST", &path, Some(body)).await?;
    let forbidden = |one: &Value| items(&answer, "forbidden").any(|name| *name == one["capability"]);
    let allowed = asked.iter().any(|one| chosen(one) && !forbidden(one));
    say!(
        "{}",
        if allowed || asked.is_empty() {
            "allowed"
        } else {
            "nothing could be allowed"
        }
    );
    for one in asked.iter().filter(|one| forbidden(one)) {
        say!("not allowed, because config.toml forbids it: {}", sentence(&found, one));
    }
    for one in asked.iter().filter(|one| !chosen(one) && !kept(one)) {
        say!("not allowed: {}", sentence(&found, one));
    }
    for one in items(&found, "secrets").filter(|one| one["saved"] != true) {
        say!(
            "to save its secret: chrysalis plugin secret {app} {plugin} {}",
            text(&one["name"])
        );
    }
    Ok(allowed || asked.is_empty())
}

async fn revoke(door: &Door, app: &str, plugin: &str, wanted: &[Capability]) -> Result<bool, Wrong> {
    // Also of a plugin that is gone or broken, so it is not looked for first.
    let path = format!("/v1/plugins/{}/revoke", global(app, plugin));
    if wanted.is_empty() {
        door.get("POST", &path, Some(json!({}))).await?;
        say!("{app}/{plugin} may do nothing now");
        return Ok(true);
    }
    for capability in wanted {
        door.get("POST", &path, Some(json!({"capability": capability.as_str()})))
            .await?;
        say!(
            "{app}/{plugin} no longer {} ({})",
            capability.sentence(),
            capability.as_str()
        );
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_the_plugin_sees() {
        let Ok(read) = request("post", "/a b/c?x=1&y=%20z", Some("{\"n\": 1}".into())) else {
            panic!("it can be read")
        };
        let want = json!({"method": "POST", "path": "/a b/c", "query": {"x": "1", "y": " z"}, "body": {"n": 1}});
        assert_eq!(read, want);
        for (method, path, body) in [
            ("", "/", None),
            ("GE T", "/", None),
            ("GET", "notes", None),
            ("GET", "/", Some("{")),
        ] {
            let refused = request(method, path, body.map(str::to_owned));
            assert!(matches!(refused, Err(Wrong::Usage(_))), "{method} {path}");
        }
    }
}
