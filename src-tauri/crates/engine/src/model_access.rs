//! Which models an app may use.

use db::DbError;
use policy::{AccountId, AppId};

use crate::Engine;
use crate::models::DEMO;

/// The models an app may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed(Option<Vec<String>>);

impl Allowed {
    /// Whether `connection/model` is among them. The built-in model always is: it costs nothing and asks nobody.
    pub(crate) fn includes(&self, reference: &str) -> bool {
        let Some(list) = &self.0 else { return true };
        let connection = reference
            .split_once('/')
            .map_or(reference, |(connection, _)| connection);
        reference == DEMO || list.iter().any(|one| one == reference || one == connection)
    }

    /// Whether any model of a connection may be among them.
    pub(crate) fn includes_some_of(&self, connection: &str) -> bool {
        let Some(list) = &self.0 else { return true };
        let of = |one: &String| one.split_once('/').map_or(one.as_str(), |(connection, _)| connection) == connection;
        list.iter().any(of)
    }
}

impl Engine {
    /// What an app, its page or its plugins, may use of the models; without an app all.
    pub(crate) fn allowed_models(&self, account: &AccountId, app: Option<&AppId>) -> Result<Allowed, DbError> {
        let list = app.map(|app| self.db().model_access(account, app)).transpose()?;
        Ok(Allowed(list.flatten()))
    }

    /// Refuses `connection/model` for an app the person did not allow it for.
    pub(crate) fn may_use(&self, account: &AccountId, app: Option<&AppId>, reference: &str) -> Result<(), String> {
        let allowed = self.allowed_models(account, app).map_err(|error| error.to_string())?;
        if allowed.includes(reference) {
            return Ok(());
        }
        let app = app.map(AppId::to_string).unwrap_or_default();
        Err(format!(
            "The app \"{app}\" may not use the model \"{reference}\": the person chose which models it may use, in the \
             launcher under Settings → Models"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::Allowed;

    #[test]
    fn a_connection_stands_for_its_models_and_nothing_for_its_beginning() {
        let allowed = Allowed(Some(vec!["c_a-1".into(), "c_b-2/gpt-4o".into(), "c_c-3/x/y".into()]));
        for (reference, want) in [
            ("c_a-1/anything", true),
            ("c_a-1/x/y", true),
            ("c_b-2/gpt-4o", true),
            ("c_b-2/gpt-4o-mini", false),
            ("c_b-2", false),
            ("c_a-11/anything", false),
            ("c_a/anything", false),
            ("c_c-3/x/y", true),
            ("c_c-3/x", false),
            ("", false),
            ("demo/canned", true),
            ("demo/other", false),
        ] {
            assert_eq!(allowed.includes(reference), want, "{reference}");
        }
        for (connection, want) in [
            ("c_a-1", true),
            ("c_b-2", true),
            ("c_c-3", true),
            ("c_c-33", false),
            ("c_d-4", false),
        ] {
            assert_eq!(allowed.includes_some_of(connection), want, "{connection}");
        }
        assert!(Allowed(None).includes("c_d-4/x") && !Allowed(Some(Vec::new())).includes("c_d-4/x"));
    }
}
