//! Plugins bring their data along when their app was updated (contract section 9.4: `onAppUpdate`).

use policy::{AccountId, AppId, CallContext, Caller};

use super::Owned;
use crate::error::{Answer, ApiError};
use crate::{Engine, blocking};

/// How a plugin's part in an update went.
pub(crate) struct Updated {
    pub plugin: String,
    pub error: Option<String>,
}

impl Engine {
    /// Calls `onAppUpdate` of every plugin of the app. Each is noted first and struck off when it succeeded, so that what a
    /// crash or an error left undone is tried once more at the next start.
    pub(crate) async fn app_updated(
        &self,
        account: &AccountId,
        app: &AppId,
        from: &str,
        to: &str,
    ) -> Answer<Vec<Updated>> {
        let room = self.room(account)?;
        let plugins = self.usable(&room, app);
        let (db, of, names) = (self.db().clone(), (account.clone(), app.clone()), ids(&plugins));
        let (from_text, to_text) = (from.to_owned(), to.to_owned());
        blocking(move || {
            names
                .iter()
                .try_for_each(|id| db.note_update(&of.0, &of.1, id, &from_text, &to_text))
        })
        .await?;
        let mut done = Vec::new();
        for of in &plugins {
            done.push(self.update_one(account, of, from, to).await?);
        }
        Ok(done)
    }

    async fn update_one(&self, account: &AccountId, of: &Owned, from: &str, to: &str) -> Answer<Updated> {
        let room = self.room(account)?;
        let context = CallContext::root(&Caller::Engine {
            account: account.clone(),
        });
        let outcome = self.plugins().app_update(&room.target(&context, of), from, to).await;
        let error = outcome.err().map(|error| {
            self.note_failure(&context, of, "onAppUpdate", &error);
            error.to_string()
        });
        let (db, key, text) = (
            self.db().clone(),
            (account.clone(), of.app.clone(), of.plugin.id.clone()),
            error.clone(),
        );
        blocking(move || match text {
            Some(text) => db.update_failed(&key.0, &key.1, &key.2, &text),
            None => db.update_done(&key.0, &key.1, &key.2),
        })
        .await?;
        Ok(Updated {
            plugin: of.plugin.id.to_string(),
            error,
        })
    }

    /// Updates that were begun and not finished before this start, each tried once.
    pub(crate) async fn finish_updates(&self) {
        for account in self.db().account_ids().unwrap_or_default() {
            let Ok(room) = self.room(&account) else { continue };
            for update in self.db().pending_updates(&account).unwrap_or_default() {
                let Ok(app) = crate::routes::app_or_shelf(&update.app) else {
                    continue;
                };
                let of = self
                    .usable(&room, &app)
                    .into_iter()
                    .find(|of| of.plugin.id.as_str() == update.plugin);
                if let Some(of) = of
                    && let Err(error) = self.update_one(&account, &of, &update.from, &update.to).await
                {
                    tracing::warn!(error = %error.message, "an app's data could not be brought up to date");
                }
            }
        }
    }

    /// Refuses versions that are none, before a plugin sees them.
    pub(crate) fn check_version(text: &str) -> Answer<()> {
        if text.is_empty() || text.len() > 64 || text.chars().any(char::is_control) {
            return Err(ApiError::bad("A version has 1 to 64 characters."));
        }
        Ok(())
    }
}

fn ids(plugins: &[Owned]) -> Vec<policy::PluginId> {
    plugins.iter().map(|of| of.plugin.id.clone()).collect()
}
