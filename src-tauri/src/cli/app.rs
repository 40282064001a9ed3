//! `chrysalis app`: add, list, remove.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::out::{note, say};
use super::plain;
use super::told::{self, items};
use crate::local::Door;

#[derive(Subcommand)]
pub enum AppCommand {
    /// Copy an app's folder into the workspace, after showing what its plugins ask for
    Add {
        /// The app's folder: manifest.json, a page, and plugins if it has any
        folder: PathBuf,
        /// Name to add it under [default: the folder's name]
        #[arg(long)]
        id: Option<String>,
        /// Allow what its plugins ask for without asking
        #[arg(long)]
        yes: bool,
    },
    /// List the apps
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an app with its data and permissions
    Remove { id: String },
}

pub async fn run(home: &Path, command: AppCommand) -> Result<(), String> {
    let door = super::door(home).await?;
    let done = match command {
        AppCommand::Add { folder, id, yes } => add(&door, &folder, id, yes).await,
        AppCommand::List { json } => list(&door, json).await,
        AppCommand::Remove { id } => remove(&door, &id).await,
    };
    super::close(door).await;
    done
}

async fn add(door: &Door, folder: &Path, id: Option<String>, yes: bool) -> Result<(), String> {
    let folder = std::path::absolute(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut wanted = json!({"folder": folder, "id": id});
    let preview = door.get("POST", "/v1/apps/import", Some(wanted.clone())).await?;
    let text = |value: &Value| plain(value.as_str().unwrap_or_default());
    let name = text(&preview["id"]);
    say!("{} {} ({name})", text(&preview["name"]), text(&preview["version"]));
    let (mut asked, mut forbidden, mut secrets) = (0, Vec::new(), Vec::new());
    for plugin in preview["plugins"].as_array().into_iter().flatten() {
        say!(
            "  plugin {}, code {}",
            text(&plugin["id"]),
            &text(&plugin["hash"])[..12]
        );
        for permission in items(plugin, "permissions") {
            told::show_wanted("    ", plugin, permission);
            if permission["policy"].is_null() {
                asked += 1;
            } else {
                forbidden.push(format!(
                    "{}: {}",
                    text(&plugin["id"]),
                    told::sentence(plugin, permission)
                ));
            }
        }
        for secret in items(plugin, "secrets") {
            told::show_secret("    ", secret);
            secrets.push((text(&plugin["id"]), text(&secret["name"])));
        }
    }
    let grant = asked == 0 || yes || confirm("Add it and allow this, for exactly these files? [y/N] ")?;
    if !grant {
        return Err(if std::io::stdin().is_terminal() {
            "nothing was added".into()
        } else {
            "nothing was added: say --yes to allow what its plugins ask for".into()
        });
    }
    wanted["confirm"] = true.into();
    wanted["head"] = preview["head"].clone();
    let added = door.get("POST", "/v1/apps/import", Some(wanted)).await?;
    let id = text(&added["id"]);
    say!("added {id}");
    for one in forbidden {
        say!("not allowed, because config.toml forbids it: {one}");
    }
    for (plugin, name) in secrets {
        say!("to save its secret: chrysalis plugin secret {id} {plugin} {name}");
    }
    Ok(())
}

fn confirm(question: &str) -> Result<bool, String> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut out = std::io::stdout().lock();
    write!(out, "{question}")
        .and_then(|()| out.flush())
        .map_err(|e| e.to_string())?;
    drop(out);
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| e.to_string())?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

async fn list(door: &Door, as_json: bool) -> Result<(), String> {
    let all = door.get("GET", "/v1/apps", None).await?;
    if as_json {
        say!("{all:#}");
        return Ok(());
    }
    let none = |what: &str| all[what].as_array().is_none_or(Vec::is_empty);
    if none("apps") && none("broken") {
        note!("no apps yet: add one with `chrysalis app add FOLDER`");
    }
    for app in all["apps"].as_array().into_iter().flatten() {
        let text = |value: &Value| plain(value.as_str().unwrap_or_default());
        say!(
            "{:<20} {:<10} {}",
            text(&app["id"]),
            text(&app["manifest"]["version"]),
            text(&app["manifest"]["name"])
        );
    }
    for broken in all["broken"].as_array().into_iter().flatten() {
        let text = |value: &Value| plain(value.as_str().unwrap_or_default());
        note!("{}: {}", text(&broken["id"]), text(&broken["error"]));
    }
    Ok(())
}

async fn remove(door: &Door, id: &str) -> Result<(), String> {
    policy::AppId::parse(id).map_err(|e| e.to_string())?;
    door.get("DELETE", &format!("/v1/apps/{id}"), None).await?;
    say!("removed {id}");
    Ok(())
}
