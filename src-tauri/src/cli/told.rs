//! Permissions, secrets and refusals in words, for who sits at a terminal.

use policy::Capability;
use serde_json::Value;

use super::out::{note, say};
use super::plain;
use crate::local::Door;

pub fn text(value: &Value) -> String {
    plain(value.as_str().unwrap_or_default())
}

pub fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

/// What a permission of `plugin` allows, with how far it reaches.
pub fn sentence(plugin: &Value, permission: &Value) -> String {
    let mut sentence = text(&permission["sentence"]);
    let capability = text(&permission["capability"]);
    let is = |capability: Capability| permission["capability"] == capability.as_str();
    let mut reach: Vec<String> = items(permission, "hosts").map(text).collect();
    if is(Capability::Store) {
        let quota = reach.iter().find_map(|one| one.strip_prefix("quota:")?.parse().ok());
        if let Some(quota) = quota {
            sentence = format!("may keep up to {} of its own data", size(quota));
        }
        reach.clear();
    }
    if is(Capability::Schedule)
        && let Some(ms) = plugin["intervalMs"].as_u64()
    {
        sentence.push_str(&format!(", every {}", span(ms)));
    }
    let mut words = format!("{sentence} ({capability})");
    if !reach.is_empty() {
        words.push_str(&format!(": {}", reach.join(", ")));
    }
    words
}

/// Bytes as people say them: `9 MB`, `4.2 MB`. As in the launcher, a kB has 1000 bytes.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1000 => return format!("{bytes} bytes"),
        1000..1_000_000 => (1000, "kB"),
        1_000_000..1_000_000_000 => (1_000_000, "MB"),
        _ => (1_000_000_000, "GB"),
    };
    // Rounded up: what is promised is never less than what is kept.
    let tenths = u128::from(bytes).saturating_mul(10).div_ceil(unit);
    match tenths % 10 {
        0 => format!("{} {name}", tenths / 10),
        tenth => format!("{}.{tenth} {name}", tenths / 10),
    }
}

/// `60 s`, `2.5 s`, `5 min`, `1 h`.
fn span(ms: u64) -> String {
    for (unit, name) in [(3_600_000, "h"), (60_000, "min"), (1000, "s")] {
        // A minute or two are said in seconds, an hour or two in minutes, as manifests are mostly written.
        if ms.is_multiple_of(unit) && (ms / unit > 1 || unit == 1000) {
            return format!("{} {name}", ms / unit);
        }
    }
    format!("{} s", ms as f64 / 1000.0)
}

/// One permission with all that a person should know before they say yes.
pub fn show_wanted(indent: &str, plugin: &Value, permission: &Value) {
    say!("{indent}{}", sentence(plugin, permission));
    if permission["capability"] == Capability::LocalNetwork.as_str() {
        say!(
            "{indent}  ! this reaches programs on this machine or devices in your network, which trust their neighbours"
        );
    }
    if let Some(reason) = permission["reason"].as_str() {
        say!("{indent}  it says: \"{}\"", plain(reason));
    }
    if let Some(why) = permission["policy"].as_str() {
        say!("{indent}  not possible here: {}", plain(why));
    }
}

/// A secret that a plugin would like to have; it is saved on its own.
pub fn show_secret(indent: &str, secret: &Value) {
    say!(
        "{indent}would use a secret {} for {}",
        text(&secret["name"]),
        text(&secret["origin"])
    );
    if let Some(reason) = secret["reason"].as_str() {
        say!("{indent}  it says: \"{}\"", plain(reason));
    }
}

/// How a permission stands, in one word. What `config.toml` forbids does not count, whatever was granted before.
pub fn state(permission: &Value) -> String {
    let Some(why) = permission["policy"].as_str() else {
        return text(&permission["state"]);
    };
    // Where it leaves some of the hosts, those that were granted still count.
    let mut hosts = items(permission, "hosts").filter_map(Value::as_str);
    let names = |host: &str| why.split([' ', ',']).any(|word| word.trim_end_matches('.') == host);
    let (all, some) = {
        let named: Vec<bool> = hosts.by_ref().map(names).collect();
        (named.iter().all(|named| *named), named.contains(&true))
    };
    let granted = permission["state"] == "granted";
    if granted && some && !all {
        "partly".into()
    } else {
        "forbidden".into()
    }
}

/// Prints what was refused in the course of one call, which a plugin in passes cannot say itself.
pub async fn show_refusals(door: &Door, trace: &Value) {
    let Some(trace) = trace
        .as_str()
        .filter(|trace| trace.bytes().all(|b| b.is_ascii_hexdigit()))
    else {
        return;
    };
    let path = format!("/v1/activity?kind=refusal&trace={trace}");
    let Ok(found) = door.get("GET", &path, None).await else {
        return;
    };
    let mut lines: Vec<&Value> = items(&found, "entries").collect();
    lines.sort_by_key(|line| line["id"].as_i64());
    for line in lines {
        let detail = line["detail"].as_str().unwrap_or_default();
        note!("refused: {}", plain(detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reach_is_said_in_words() {
        let none = json!({});
        let store = |quota: &str| json!({"sentence": "may keep its own data", "capability": "store", "hosts": [quota]});
        for (quota, want) in [
            ("quota:9000000", "may keep up to 9 MB of its own data (store)"),
            ("quota:4194304", "may keep up to 4.2 MB of its own data (store)"),
            ("quota:1", "may keep up to 1 bytes of its own data (store)"),
            ("quota:999999", "may keep up to 1000 kB of its own data (store)"),
            ("quota:x", "may keep its own data (store)"),
        ] {
            assert_eq!(sentence(&none, &store(quota)), want);
        }
        let timer = json!({"sentence": "may run on a timer", "capability": "schedule"});
        for (ms, want) in [
            (5000, "5 s"),
            (5500, "5.5 s"),
            (60_000, "60 s"),
            (300_000, "5 min"),
            (3_600_000, "60 min"),
            (86_400_000, "24 h"),
        ] {
            let said = sentence(&json!({"intervalMs": ms}), &timer);
            assert_eq!(said, format!("may run on a timer, every {want} (schedule)"));
        }
    }

    #[test]
    fn what_config_toml_forbids_is_not_called_granted() {
        let one = |policy: Value, hosts: &[&str]| state(&json!({"state": "granted", "policy": policy, "hosts": hosts}));
        let why = "config.toml does not let a/b contact x.example, y.example. Only the administrator can change that.";
        assert_eq!(one(Value::Null, &["x.example"]), "granted");
        assert_eq!(one(why.into(), &["x.example", "y.example"]), "forbidden");
        assert_eq!(one(why.into(), &["x.example", "z.example"]), "partly");
        assert_eq!(
            one("config.toml forbids the permission \"fs\".".into(), &[]),
            "forbidden"
        );
    }
}
