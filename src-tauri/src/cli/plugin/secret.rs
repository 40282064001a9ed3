//! `chrysalis plugin secret`: the value comes from the terminal without echo, or from standard input, and never from an
//! argument, which other programs and the shell's history would see.

use std::io::{IsTerminal, Read};

use serde_json::{Value, json};

use super::{Wrong, find, global};
use crate::cli::out::say;
use crate::cli::told::{items, text};
use crate::local::Door;

/// Bytes read from standard input at most; the engine takes fewer and says so.
const MOST: u64 = 64 * 1024;

/// Names are checked here, so that nothing else gets into an address.
pub fn name(text: &str) -> Result<String, Wrong> {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
    if text.is_empty() || text.len() > 64 || !text.bytes().all(fine) {
        return Err(Wrong::Usage(format!(
            "\"{text}\" is no name of a secret: it has 1 to 64 letters a-z, digits, - and _"
        )));
    }
    Ok(text.to_owned())
}

pub async fn save(door: &Door, app: &str, plugin: &str, name: &str, origin: Option<String>) -> Result<bool, Wrong> {
    let found = find(door, app, plugin).await?;
    let wanted = items(&found, "secrets").find(|one| one["name"] == name);
    let Some(origin) = origin.or_else(|| wanted.map(|one| text(&one["origin"]))) else {
        let known: Vec<String> = items(&found, "secrets").map(|one| text(&one["name"])).collect();
        let known = match known.as_slice() {
            [] => "it asks for none".to_owned(),
            some => format!("it asks for {}", some.join(", ")),
        };
        return Err(Wrong::Usage(format!(
            "{app}/{plugin} does not ask for a secret \"{name}\" ({known}): say --origin https://host to save it anyway"
        )));
    };
    let value = read(name, app, plugin, &origin)?;
    let path = format!("/v1/plugins/{}/secrets/{name}", global(app, plugin));
    let answer = door
        .get("PUT", &path, Some(json!({"value": value, "origin": origin})))
        .await?;
    say!("saved {name} of {app}/{plugin} for {}", text(&answer["origin"]));
    if answer["forThisRunOnly"] == Value::Bool(true) {
        match door {
            Door::Running(_) => say!("no keychain can be used: it is forgotten when Chrysalis ends"),
            Door::Here(_) => {
                return Err(Wrong::Failed(
                    "no keychain can be used, and Chrysalis is not running: the secret is forgotten now. Start Chrysalis \
                     and save it again"
                        .into(),
                ));
            }
        }
    }
    Ok(true)
}

pub async fn forget(door: &Door, app: &str, plugin: &str, name: &str) -> Result<bool, Wrong> {
    let path = format!("/v1/plugins/{}/secrets/{name}", global(app, plugin));
    door.get("DELETE", &path, None).await?;
    say!("{app}/{plugin} has no secret {name} now");
    Ok(true)
}

fn read(name: &str, app: &str, plugin: &str, origin: &str) -> Result<String, Wrong> {
    let failed = |e: std::io::Error| Wrong::Failed(format!("the secret could not be read: {e}"));
    let value = if std::io::stdin().is_terminal() {
        let question = format!("Secret {name} of {app}/{plugin} for {origin} (not shown): ");
        rpassword::prompt_password(question).map_err(failed)?
    } else {
        let mut value = String::new();
        std::io::stdin()
            .lock()
            .take(MOST)
            .read_to_string(&mut value)
            .map_err(failed)?;
        value
    };
    let value = value.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(Wrong::Usage("the secret is empty; nothing was saved".into()));
    }
    Ok(value.to_owned())
}
