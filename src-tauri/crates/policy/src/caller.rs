use crate::{AccountId, AppId, PluginId};

/// Who is asking. Each door establishes this from something the asker cannot forge (a window handle, a session cookie,
/// a frame token, a socket) and never from what the request says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Caller {
    /// Someone at the HTTP door who has not signed in.
    Nobody,
    /// The person: the launcher's own window, or a session over HTTP.
    Owner { account: AccountId },
    /// The command line of the same operating-system user, over the local socket or in the same process.
    CommandLine { account: AccountId },
    /// An app's page: the native handle of its webview, or a frame token over HTTP.
    App { account: AccountId, app: AppId },
    /// A plugin, speaking on its own worker's socket.
    Plugin {
        account: AccountId,
        app: AppId,
        plugin: PluginId,
    },
    /// Chrysalis itself: its clock, or an update. Begins chains of calls and asks no route for anything.
    Engine { account: AccountId },
}

/// [`Caller`] without its names: what the access table speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerKind {
    Nobody,
    Owner,
    CommandLine,
    App,
    Plugin,
    Engine,
}

impl Caller {
    pub fn kind(&self) -> CallerKind {
        match self {
            Caller::Nobody => CallerKind::Nobody,
            Caller::Owner { .. } => CallerKind::Owner,
            Caller::CommandLine { .. } => CallerKind::CommandLine,
            Caller::App { .. } => CallerKind::App,
            Caller::Plugin { .. } => CallerKind::Plugin,
            Caller::Engine { .. } => CallerKind::Engine,
        }
    }

    /// The account this caller acts for; `None` only for [`Caller::Nobody`].
    pub fn account(&self) -> Option<&AccountId> {
        match self {
            Caller::Nobody => None,
            Caller::Owner { account }
            | Caller::CommandLine { account }
            | Caller::Engine { account }
            | Caller::App { account, .. }
            | Caller::Plugin { account, .. } => Some(account),
        }
    }

    /// The app this caller belongs to, if it is one's page or plugin.
    pub fn app(&self) -> Option<&AppId> {
        match self {
            Caller::App { app, .. } | Caller::Plugin { app, .. } => Some(app),
            _ => None,
        }
    }

    /// How the activity log names this caller: `nobody`, `owner`, `command-line`, `app:<app>`, `plugin:<app>/<plugin>`,
    /// `chrysalis`.
    pub fn label(&self) -> String {
        match self {
            Caller::Nobody => "nobody".into(),
            Caller::Owner { .. } => "owner".into(),
            Caller::CommandLine { .. } => "command-line".into(),
            Caller::App { app, .. } => format!("app:{app}"),
            Caller::Plugin { app, plugin, .. } => format!("plugin:{app}/{plugin}"),
            Caller::Engine { .. } => "chrysalis".into(),
        }
    }
}
