use crate::{Caller, CallerKind};

/// A set of caller kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callers(u8);

impl Callers {
    pub const NONE: Callers = Callers(0);
    pub const NOBODY: Callers = Callers(1);
    pub const OWNER: Callers = Callers(2);
    pub const COMMAND_LINE: Callers = Callers(4);
    pub const APP: Callers = Callers(8);
    pub const PLUGIN: Callers = Callers(16);
    /// The person, by window, session or command line.
    pub const PERSON: Callers = Callers(2 | 4);
    /// The person and any app's page.
    pub const PERSON_OR_APP: Callers = Callers(2 | 4 | 8);
    /// Everyone but a plugin; plugins reach the engine through `host`, never through routes.
    pub const ANYONE: Callers = Callers(1 | 2 | 4 | 8);

    pub const fn and(self, other: Callers) -> Callers {
        Callers(self.0 | other.0)
    }

    pub fn contains(self, kind: CallerKind) -> bool {
        let bit = match kind {
            CallerKind::Nobody => Self::NOBODY,
            CallerKind::Owner => Self::OWNER,
            CallerKind::CommandLine => Self::COMMAND_LINE,
            CallerKind::App => Self::APP,
            CallerKind::Plugin => Self::PLUGIN,
            // What Chrysalis does by itself, it does without asking at the door.
            CallerKind::Engine => Self::NONE,
        };
        self.0 & bit.0 != 0
    }

    /// The kinds in this set, as words for the printed table.
    pub fn names(self) -> Vec<&'static str> {
        [
            (CallerKind::Nobody, "nobody"),
            (CallerKind::Owner, "owner"),
            (CallerKind::CommandLine, "command line"),
            (CallerKind::App, "app"),
            (CallerKind::Plugin, "plugin"),
        ]
        .into_iter()
        .filter_map(|(kind, name)| self.contains(kind).then_some(name))
        .collect()
    }
}

/// What must hold besides the caller's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing more.
    Always,
    /// An app asks for its own id only (`{app}` in the pattern).
    OwnApp,
    /// As [`Condition::OwnApp`], and the first part of `{*rest}` is not a management head.
    OwnAppRoutes,
    /// The handler narrows the answer to what the caller stored itself.
    OwnRecords,
    /// Of the apps, only those that came in the box, by the engine's own records of where an app is from.
    OfficialApp,
}

/// One line of the access table: a route and who may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// `GET`, `POST`, … or `*` for any method.
    pub method: &'static str,
    /// Path pattern, `{name}` for one segment and `{*rest}` for the remainder.
    pub pattern: &'static str,
    pub callers: Callers,
    pub condition: Condition,
}

/// Heads of an app's path that the engine keeps for itself; an app's page reaches none of them, whatever the method
/// (contract section 5.3).
pub const MANAGEMENT_HEADS: &[&str] = &[
    "tree", "plugins", "rev", "updates", "update", "install", "dev", "build", "activate", "rename", "export",
    "exports", "frame", "mcp",
];

/// Heads below which everything is management.
pub const MANAGEMENT_TREES: &[&str] = &["plugins", "build", "frame", "mcp"];

/// Whether the decoded remainder of an app path is a management route: a reserved head alone, or anything under
/// `plugins/`, `build/`, `frame/` or `mcp/`. Sub-paths such as `export/backup` stay the app's own.
pub fn is_management_head(rest: &str) -> bool {
    let rest = rest.trim_matches('/');
    let (head, more) = rest.split_once('/').map_or((rest, false), |(head, _)| (head, true));
    MANAGEMENT_HEADS.contains(&head) && (!more || MANAGEMENT_TREES.contains(&head))
}

impl Access {
    /// Whether `caller` may use this route, given the decoded `app` and `rest` the pattern captured.
    pub fn allows(&self, caller: &Caller, app: Option<&str>, rest: Option<&str>) -> bool {
        if !self.callers.contains(caller.kind()) {
            return false;
        }
        let Some(own) = caller.app() else { return true };
        match self.condition {
            // The engine sees to the records: here nobody knows where an app is from.
            Condition::Always | Condition::OwnRecords | Condition::OfficialApp => true,
            Condition::OwnApp => app == Some(own.as_str()),
            Condition::OwnAppRoutes => app == Some(own.as_str()) && !rest.is_some_and(is_management_head),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccountId, AppId};

    #[test]
    fn an_app_reaches_its_own_routes_only() {
        let caller = Caller::App {
            account: AccountId::random(),
            app: AppId::parse("a").unwrap(),
        };
        let route = Access {
            method: "*",
            pattern: "",
            callers: Callers::PERSON_OR_APP,
            condition: Condition::OwnAppRoutes,
        };
        for (app, rest, want) in [
            ("a", "x", true),
            ("b", "x", false),
            ("a", "plugins", false),
            ("a", "plugins/p/enable", false),
            ("a", "build/lease", false),
            ("a", "export", false),
            ("a", "export/backup", true),
            ("a", "/tree/", false),
            ("a", "treehouse", true),
        ] {
            assert_eq!(route.allows(&caller, Some(app), Some(rest)), want, "{app} {rest}");
        }
        assert!(!route.allows(&caller, None, None));
        assert!(!route.allows(&Caller::Nobody, Some("a"), Some("x")));
    }
}
