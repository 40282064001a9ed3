//! `chrysalis plugin errors`.

use super::{Wrong, find};
use crate::cli::out::say;
use crate::cli::plain;
use crate::cli::told::{items, text};
use crate::local::Door;

/// Prints the last errors of one plugin, or of every plugin of an app.
pub async fn show(door: &Door, app: &str, only: Option<&str>) -> Result<bool, Wrong> {
    let plugins = match only {
        Some(plugin) => vec![find(door, app, plugin).await?],
        None => {
            let all = door.get("GET", &format!("/v1/apps/{app}/plugins"), None).await?;
            items(&all, "plugins").cloned().collect()
        }
    };
    let mut none = true;
    for plugin in &plugins {
        let named = if only.is_some() {
            String::new()
        } else {
            format!("{}  ", text(&plugin["id"]))
        };
        if let Some(error) = plugin["error"].as_str() {
            none = false;
            say!("{named}cannot be loaded: {}", plain(error));
        }
        for error in items(plugin, "lastErrors") {
            none = false;
            let at = error["at"].as_i64().unwrap_or_default();
            say!("{named}{}  {}", time(at), text(&error["target"]));
            for line in error["detail"].as_str().unwrap_or_default().lines() {
                say!("    {}", plain(line));
            }
        }
    }
    if none {
        let whose = only.map_or_else(|| app.to_owned(), |plugin| format!("{app}/{plugin}"));
        say!("no errors of {whose} are known");
    }
    Ok(true)
}

/// Milliseconds since the Unix epoch as `2026-01-31 12:00:00 UTC`.
fn time(at: i64) -> String {
    let seconds = at.div_euclid(1000);
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{} {hour:02}:{minute:02}:{second:02} UTC", apps::budget::date(days))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        for (at, want) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_999, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_796_083_200_000, "2026-12-01 00:00:00 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(time(at), want);
        }
    }
}
