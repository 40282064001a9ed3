//! Manifests of apps and of plugins. Whatever the bytes are, there is a manifest or an error in words, and neither
//! carries a control character into a terminal.

use apps::manifest::{AppManifest, PluginManifest};

pub fn run(bytes: &[u8]) {
    match AppManifest::parse(bytes) {
        Ok(manifest) => {
            assert!(!manifest.name.trim().is_empty());
            shown(&serde_json::to_value(&manifest).expect("a manifest is JSON"));
            assert_eq!(
                AppManifest::parse(bytes).as_ref(),
                Ok(&manifest),
                "the same bytes again"
            );
        }
        Err(error) => printable(&error.to_string()),
    }
    match PluginManifest::parse(bytes) {
        Ok(manifest) => {
            assert!(!manifest.name.trim().is_empty());
            let mut unique = manifest.permissions.clone();
            unique.sort();
            unique.dedup();
            assert_eq!(unique.len(), manifest.permissions.len(), "each permission once");
            assert!(manifest.priority.is_finite());
            assert!(manifest.interval_ms.is_none_or(|interval| interval >= 5000));
            let mut value = serde_json::to_value(&manifest).expect("a manifest is JSON");
            // Passed on as written, to the code that runs hooks; nothing shows it.
            value.as_object_mut().expect("an object").remove("hooks");
            shown(&value);
            assert_eq!(
                PluginManifest::parse(bytes).as_ref(),
                Ok(&manifest),
                "the same bytes again"
            );
        }
        Err(error) => printable(&error.to_string()),
    }
}

/// Every text of a manifest that is shown somewhere.
fn shown(value: &serde_json::Value) {
    match value {
        serde_json::Value::String(text) => printable(text),
        serde_json::Value::Array(items) => items.iter().for_each(shown),
        serde_json::Value::Object(members) => members.iter().for_each(|(name, value)| {
            printable(name);
            shown(value);
        }),
        _ => {}
    }
}

fn printable(text: &str) {
    let bad = text
        .chars()
        .find(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
    assert_eq!(bad, None, "{text:?}");
}
