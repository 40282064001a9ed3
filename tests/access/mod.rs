//! What the access walk expects, written by hand from the contract (sections 5.3 and 6), and the spellings it tries.

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Nobody,
    Owner,
    CommandLine,
    /// alpha's page; the addresses below are alpha's.
    OwnPage,
    /// beta's page.
    OtherPage,
}
pub use Who::*;

pub const EVERYONE: &[Who] = &[Nobody, Owner, CommandLine, OwnPage, OtherPage];
pub const BEFORE_SIGN_IN: &[Who] = &[Nobody, Owner];
pub const PERSON: &[Who] = &[Owner, CommandLine];
pub const PERSON_AND_PAGES: &[Who] = &[Owner, CommandLine, OwnPage, OtherPage];
pub const PERSON_AND_OWN_PAGE: &[Who] = &[Owner, CommandLine, OwnPage];

/// Method, pattern, an address of it, who may.
pub const WANT: &[(&str, &str, &str, &[Who])] = &[
    ("GET", "/v1/health", "/v1/health", EVERYONE),
    ("GET", "/v1/auth/users", "/v1/auth/users", BEFORE_SIGN_IN),
    ("POST", "/v1/auth/setup", "/v1/auth/setup", BEFORE_SIGN_IN),
    ("POST", "/v1/auth/login", "/v1/auth/login", BEFORE_SIGN_IN),
    ("POST", "/v1/auth/logout", "/v1/auth/logout", &[Owner]),
    ("POST", "/v1/auth/rename", "/v1/auth/rename", PERSON),
    ("PUT", "/v1/auth/password", "/v1/auth/password", &[Owner]),
    (
        "POST",
        "/v1/auth/reset-password",
        "/v1/auth/reset-password",
        &[CommandLine],
    ),
    ("GET", "/v1/me", "/v1/me", PERSON),
    ("GET", "/v1/settings", "/v1/settings", PERSON),
    ("PUT", "/v1/settings", "/v1/settings", PERSON),
    (
        "GET",
        "/v1/settings/connections",
        "/v1/settings/connections",
        PERSON_AND_PAGES,
    ),
    ("POST", "/v1/settings/connections", "/v1/settings/connections", PERSON),
    (
        "PATCH",
        "/v1/settings/connections/{id}",
        "/v1/settings/connections/c_x",
        PERSON,
    ),
    (
        "DELETE",
        "/v1/settings/connections/{id}",
        "/v1/settings/connections/c_x",
        PERSON,
    ),
    (
        "PUT",
        "/v1/settings/connections/{id}/key",
        "/v1/settings/connections/c_x/key",
        PERSON,
    ),
    (
        "DELETE",
        "/v1/settings/connections/{id}/key",
        "/v1/settings/connections/c_x/key",
        PERSON,
    ),
    (
        "GET",
        "/v1/settings/providers",
        "/v1/settings/providers",
        PERSON_AND_PAGES,
    ),
    (
        "GET",
        "/v1/settings/local-servers",
        "/v1/settings/local-servers",
        PERSON,
    ),
    ("GET", "/v1/launch", "/v1/launch", PERSON),
    ("GET", "/v1/models", "/v1/models", PERSON_AND_PAGES),
    // What came in the box may set prices, windows and the model for embeddings; alpha and beta did not.
    ("GET", "/v1/settings/keys", "/v1/settings/keys", PERSON),
    ("PUT", "/v1/settings/keys", "/v1/settings/keys", PERSON),
    ("POST", "/v1/settings/keys/unlock", "/v1/settings/keys/unlock", PERSON),
    ("POST", "/v1/settings/keys/lock", "/v1/settings/keys/lock", PERSON),
    (
        "POST",
        "/v1/settings/connections/{id}/test",
        "/v1/settings/connections/c_x/test",
        PERSON,
    ),
    (
        "GET",
        "/v1/models/prompt-formats",
        "/v1/models/prompt-formats",
        PERSON_AND_PAGES,
    ),
    (
        "GET",
        "/v1/models/prompt-format",
        "/v1/models/prompt-format",
        PERSON_AND_PAGES,
    ),
    ("PUT", "/v1/models/context", "/v1/models/context", PERSON),
    ("PUT", "/v1/models/pricing", "/v1/models/pricing", PERSON),
    (
        "GET",
        "/v1/settings/app-models/{app}",
        "/v1/settings/app-models/alpha",
        PERSON,
    ),
    (
        "PUT",
        "/v1/settings/app-models/{app}",
        "/v1/settings/app-models/alpha",
        PERSON,
    ),
    ("GET", "/v1/images/models", "/v1/images/models", PERSON_AND_PAGES),
    ("POST", "/v1/images", "/v1/images", PERSON_AND_PAGES),
    ("GET", "/v1/audio/voices", "/v1/audio/voices", PERSON_AND_PAGES),
    ("POST", "/v1/audio/speech", "/v1/audio/speech", PERSON_AND_PAGES),
    (
        "GET",
        "/v1/audio/speech/endpoints",
        "/v1/audio/speech/endpoints",
        PERSON_AND_PAGES,
    ),
    (
        "POST",
        "/v1/audio/speech/endpoints",
        "/v1/audio/speech/endpoints",
        PERSON,
    ),
    (
        "PATCH",
        "/v1/audio/speech/endpoints/{id}",
        "/v1/audio/speech/endpoints/s_x",
        PERSON,
    ),
    (
        "DELETE",
        "/v1/audio/speech/endpoints/{id}",
        "/v1/audio/speech/endpoints/s_x",
        PERSON,
    ),
    (
        "GET",
        "/v1/embeddings/config",
        "/v1/embeddings/config",
        PERSON_AND_PAGES,
    ),
    ("PUT", "/v1/embeddings/config", "/v1/embeddings/config", PERSON),
    ("POST", "/v1/embeddings/probe", "/v1/embeddings/probe", PERSON),
    ("GET", "/v1/spend", "/v1/spend", PERSON),
    ("GET", "/v1/spend/limits", "/v1/spend/limits", PERSON),
    ("PUT", "/v1/spend/limits", "/v1/spend/limits", PERSON),
    ("GET", "/v1/activity", "/v1/activity", PERSON),
    ("GET", "/v1/events", "/v1/events", PERSON_AND_PAGES),
    ("GET", "/v1/ws", "/v1/ws", PERSON_AND_PAGES),
    ("GET", "/v1/assets", "/v1/assets", PERSON_AND_PAGES),
    ("PUT", "/v1/assets", "/v1/assets?name=x", PERSON_AND_PAGES),
    ("GET", "/v1/assets/{id}", "/v1/assets/none", PERSON_AND_PAGES),
    ("GET", "/v1/apps", "/v1/apps", PERSON),
    ("POST", "/v1/apps/import", "/v1/apps/import", PERSON),
    ("DELETE", "/v1/apps/{app}", "/v1/apps/alpha", PERSON),
    ("GET", "/v1/apps/{app}/plugins", "/v1/apps/alpha/plugins", PERSON),
    (
        "POST",
        "/v1/plugins/{plugin}/approve",
        "/v1/plugins/alpha__x/approve",
        PERSON,
    ),
    // What plugins may do, hold and spend is decided by the person. No page takes part in it, the plugin's own app's neither.
    (
        "DELETE",
        "/v1/apps/{app}/plugins/{plugin}",
        "/v1/apps/alpha/plugins/x",
        PERSON,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/enable",
        "/v1/apps/alpha/plugins/x/enable",
        PERSON,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/disable",
        "/v1/apps/alpha/plugins/x/disable",
        PERSON,
    ),
    (
        "GET",
        "/v1/apps/{app}/plugins/{plugin}/difference",
        "/v1/apps/alpha/plugins/x/difference",
        PERSON,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/call",
        "/v1/apps/alpha/plugins/x/call",
        PERSON,
    ),
    (
        "GET",
        "/v1/apps/{app}/plugins/{plugin}/tools",
        "/v1/apps/alpha/plugins/x/tools",
        PERSON,
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/tools/{name}",
        "/v1/apps/alpha/plugins/x/tools/y",
        PERSON,
    ),
    ("POST", "/v1/data-updates/{app}", "/v1/data-updates/alpha", PERSON),
    (
        "POST",
        "/v1/plugins/{plugin}/revoke",
        "/v1/plugins/alpha__x/revoke",
        PERSON,
    ),
    (
        "PUT",
        "/v1/plugins/{plugin}/secrets/{name}",
        "/v1/plugins/alpha__x/secrets/token",
        PERSON,
    ),
    (
        "DELETE",
        "/v1/plugins/{plugin}/secrets/{name}",
        "/v1/plugins/alpha__x/secrets/token",
        PERSON,
    ),
    ("PUT", "/v1/budgets/{app}", "/v1/budgets/alpha", PERSON),
    ("POST", "/v1/activity/{app}/stop", "/v1/activity/alpha/stop", PERSON),
    // What an app's own plugins show: panels, pictures that they kept, pictures from hosts that they may reach.
    (
        "GET",
        "/v1/apps/{app}/__panels",
        "/v1/apps/alpha/__panels",
        PERSON_AND_OWN_PAGE,
    ),
    (
        "GET",
        "/v1/apps/{app}/__media/{name}",
        "/v1/apps/alpha/__media/none",
        PERSON_AND_OWN_PAGE,
    ),
    ("GET", "/v1/apps/{app}/img", "/v1/apps/alpha/img", PERSON_AND_OWN_PAGE),
    ("POST", "/v1/apps/{app}/frame", "/v1/apps/alpha/frame", &[Owner]),
    (
        "DELETE",
        "/v1/apps/{app}/frame/{token}",
        "/v1/apps/alpha/frame/x",
        &[Owner],
    ),
    (
        "GET",
        "/v1/apps/{app}/__storage",
        "/v1/apps/alpha/__storage",
        PERSON_AND_OWN_PAGE,
    ),
    (
        "POST",
        "/v1/apps/{app}/__storage",
        "/v1/apps/alpha/__storage",
        PERSON_AND_OWN_PAGE,
    ),
    (
        "GET",
        "/v1/apps/{app}/__streams/{chat}",
        "/v1/apps/alpha/__streams/x",
        PERSON_AND_OWN_PAGE,
    ),
    (
        "POST",
        "/v1/apps/{app}/__abort",
        "/v1/apps/alpha/__abort",
        PERSON_AND_OWN_PAGE,
    ),
    (
        "POST",
        "/v1/apps/{app}/__refused",
        "/v1/apps/alpha/__refused",
        PERSON_AND_OWN_PAGE,
    ),
    (
        "*",
        "/v1/apps/{app}/{*rest}",
        "/v1/apps/alpha/notes/7",
        PERSON_AND_OWN_PAGE,
    ),
];

/// Under an app, but the engine's own whatever the method: no page reaches them, its own app's neither (section 5.3).
pub const KEPT: &[&str] = &[
    "tree",
    "plugins",
    "plugins/x/enable",
    "plugins/import",
    "rev",
    "updates",
    "update",
    "install",
    "dev",
    "build",
    "build/lease",
    "build/output",
    "activate",
    "rename",
    "export",
    "exports",
];

/// What exists in the reference engine but not here yet: refused to pages all the same (section 5.3).
pub const NOT_HERE: &[&str] = &[
    "/v1/llm",
    "/v1/agent",
    "/v1/agent/state",
    "/v1/shell",
    "/v1/mcp",
    "/v1/mcp/tools",
    "/v1/admin/users",
    "/v1/admin/server",
    "/v1/git/log",
    "/v1/sandbox",
    "/v1/store",
    "/v1/settings/persona",
    "/v1/apps/alpha",
    "/v1/no-such-thing",
];

/// Other ways to write an address. None of them is served, to anyone.
pub fn spellings(path: &str) -> Vec<(&'static str, String)> {
    let rest = path.strip_prefix("/v1/").unwrap();
    let (head, last) = path.rsplit_once('/').unwrap();
    vec![
        ("encoded slash", format!("/v1%2f{rest}")),
        ("encoded slash, upper case", format!("/v1%2F{rest}")),
        ("encoded slash before the last part", format!("{head}%2f{last}")),
        ("encoded backslash", format!("{head}%5c{last}")),
        ("double encoded slash", format!("/v1%252f{rest}")),
        ("double encoded dots", format!("{head}/x/%252e%252e/{last}")),
        ("doubled slash in front", format!("/{path}")),
        ("doubled slash", format!("/v1//{rest}")),
        ("doubled slash before the last part", format!("{head}//{last}")),
        ("dot", format!("{head}/./{last}")),
        ("dot dot", format!("{head}/x/../{last}")),
        ("encoded dot", format!("{head}/%2e/{last}")),
        ("encoded dot dot", format!("{head}/x/%2e%2E/{last}")),
        ("half encoded dot dot", format!("{head}/x/.%2e/{last}")),
        ("through a frame's path", format!("/frame/x/..{path}")),
        ("upper case V1", format!("/V1/{rest}")),
        ("upper case", path.to_uppercase()),
        ("backslash", format!("/v1\\{rest}")),
        ("two slashes at the end", format!("{path}//")),
        ("dot dot at the end", format!("{path}/..")),
        ("NUL", format!("{path}%00")),
        ("line feed", format!("{path}%0a")),
        ("broken escape", format!("{path}%")),
        ("not UTF-8", format!("{path}%ff")),
        ("overlong", format!("{path}%c0%af")),
    ]
}

/// Ways to write an address that may lead to the same place or to nothing, but no further than the plain way does.
pub fn near_spellings(path: &str) -> Vec<(&'static str, String)> {
    let (head, last) = path.rsplit_once('/').unwrap();
    let first = last.as_bytes()[0];
    let mut all = vec![
        ("encoded letter", format!("{head}/%{first:02x}{}", &last[1..])),
        ("encoded letter of v1", path.replacen("/v1", "/%76%31", 1)),
        ("double encoded letter", format!("{head}/%25{first:02x}{}", &last[1..])),
        ("trailing slash", format!("{path}/")),
        ("trailing space", format!("{path}%20")),
        ("trailing dot", format!("{path}.")),
        ("parameter", format!("{path};x")),
        ("last part in upper case", format!("{head}/{}", last.to_uppercase())),
    ];
    if path.contains("/alpha") {
        all.push(("encoded letter of the app", path.replace("/alpha", "/%61lpha")));
        all.push(("upper case app", path.replace("/alpha", "/ALPHA")));
        all.push(("app with a space", path.replace("/alpha", "/alpha%20")));
    }
    all
}
