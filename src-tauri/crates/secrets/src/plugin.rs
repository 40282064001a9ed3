use policy::{AccountId, AppId, PluginId};

/// Longest name of a plugin's secret.
const MAX_NAME: usize = 64;

/// The id under which [`crate::Vault`] keeps a secret that was given to one plugin by name. Four parts, none of which can
/// contain a slash, so that no two plugins share one. `None` when the name is none: `[a-z0-9_-]{1,64}`.
///
/// `put`, `handle`, `has` and `forget` work with it as with any id. The vault cannot list what a keychain holds: whoever
/// removes a plugin, app or account forgets each secret by the names in the database.
pub fn plugin_secret_id(account: &AccountId, app: &AppId, plugin: &PluginId, name: &str) -> Option<String> {
    let fits = !name.is_empty()
        && name.len() <= MAX_NAME
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'));
    fits.then(|| {
        format!(
            "plugin:{}/{}/{}/{name}",
            account.as_str(),
            app.as_str(),
            plugin.as_str()
        )
    })
}
