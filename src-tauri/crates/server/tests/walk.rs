//! The access walk: each caller × route × spelling, over real HTTP, against expectations written by hand from the
//! contract (sections 5.3 and 6), not from the engine's table. The two must name the same routes.

mod common;

use std::collections::BTreeSet;

use common::{House, PASSWORD, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Who knocks, in the order of the columns below.
const CALLERS: [&str; 4] = ["nobody", "owner", "alpha's page", "beta's page"];

const Y: bool = true;
const N: bool = false;

/// Method, pattern, an address of it, and whether nobody, the owner, alpha's own page and beta's page may.
type Line = (&'static str, &'static str, &'static str, [bool; 4]);

const WANT: &[Line] = &[
    ("GET", "/v1/health", "/v1/health", [Y, Y, Y, Y]),
    ("GET", "/v1/auth/users", "/v1/auth/users", [Y, Y, N, N]),
    ("POST", "/v1/auth/setup", "/v1/auth/setup", [Y, Y, N, N]),
    ("POST", "/v1/auth/login", "/v1/auth/login", [Y, Y, N, N]),
    ("POST", "/v1/auth/logout", "/v1/auth/logout", [N, Y, N, N]),
    ("POST", "/v1/auth/rename", "/v1/auth/rename", [N, Y, N, N]),
    ("PUT", "/v1/auth/password", "/v1/auth/password", [N, Y, N, N]),
    (
        "POST",
        "/v1/auth/reset-password",
        "/v1/auth/reset-password",
        [N, N, N, N],
    ),
    ("GET", "/v1/me", "/v1/me", [N, Y, N, N]),
    ("GET", "/v1/settings", "/v1/settings", [N, Y, N, N]),
    ("PUT", "/v1/settings", "/v1/settings", [N, Y, N, N]),
    (
        "GET",
        "/v1/settings/connections",
        "/v1/settings/connections",
        [N, Y, Y, Y],
    ),
    (
        "POST",
        "/v1/settings/connections",
        "/v1/settings/connections",
        [N, Y, N, N],
    ),
    (
        "PATCH",
        "/v1/settings/connections/{id}",
        "/v1/settings/connections/c_x",
        [N, Y, N, N],
    ),
    (
        "DELETE",
        "/v1/settings/connections/{id}",
        "/v1/settings/connections/c_x",
        [N, Y, N, N],
    ),
    (
        "PUT",
        "/v1/settings/connections/{id}/key",
        "/v1/settings/connections/c_x/key",
        [N, Y, N, N],
    ),
    (
        "DELETE",
        "/v1/settings/connections/{id}/key",
        "/v1/settings/connections/c_x/key",
        [N, Y, N, N],
    ),
    ("GET", "/v1/settings/providers", "/v1/settings/providers", [N, Y, Y, Y]),
    (
        "GET",
        "/v1/settings/local-servers",
        "/v1/settings/local-servers",
        [N, Y, N, N],
    ),
    ("GET", "/v1/launch", "/v1/launch", [N, Y, N, N]),
    ("GET", "/v1/models", "/v1/models", [N, Y, Y, Y]),
    ("GET", "/v1/activity", "/v1/activity", [N, Y, N, N]),
    ("GET", "/v1/events", "/v1/events", [N, Y, Y, Y]),
    ("GET", "/v1/ws", "/v1/ws", [N, Y, Y, Y]),
    ("GET", "/v1/assets", "/v1/assets", [N, Y, Y, Y]),
    ("PUT", "/v1/assets", "/v1/assets?name=x", [N, Y, Y, Y]),
    ("GET", "/v1/assets/{id}", "/v1/assets/none", [N, Y, Y, Y]),
    ("GET", "/v1/apps", "/v1/apps", [N, Y, N, N]),
    ("POST", "/v1/apps/import", "/v1/apps/import", [N, Y, N, N]),
    ("DELETE", "/v1/apps/{app}", "/v1/apps/alpha", [N, Y, N, N]),
    ("GET", "/v1/apps/{app}/plugins", "/v1/apps/alpha/plugins", [N, Y, N, N]),
    (
        "POST",
        "/v1/plugins/{plugin}/approve",
        "/v1/plugins/alpha__x/approve",
        [N, Y, N, N],
    ),
    // What plugins may do, hold and spend is decided by the person. No page takes part in it, the plugin's own app's neither.
    (
        "DELETE",
        "/v1/apps/{app}/plugins/{plugin}",
        "/v1/apps/alpha/plugins/x",
        [N, Y, N, N],
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/enable",
        "/v1/apps/alpha/plugins/x/enable",
        [N, Y, N, N],
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/disable",
        "/v1/apps/alpha/plugins/x/disable",
        [N, Y, N, N],
    ),
    (
        "GET",
        "/v1/apps/{app}/plugins/{plugin}/difference",
        "/v1/apps/alpha/plugins/x/difference",
        [N, Y, N, N],
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/call",
        "/v1/apps/alpha/plugins/x/call",
        [N, Y, N, N],
    ),
    (
        "GET",
        "/v1/apps/{app}/plugins/{plugin}/tools",
        "/v1/apps/alpha/plugins/x/tools",
        [N, Y, N, N],
    ),
    (
        "POST",
        "/v1/apps/{app}/plugins/{plugin}/tools/{name}",
        "/v1/apps/alpha/plugins/x/tools/y",
        [N, Y, N, N],
    ),
    ("POST", "/v1/data-updates/{app}", "/v1/data-updates/alpha", [N, Y, N, N]),
    (
        "POST",
        "/v1/plugins/{plugin}/revoke",
        "/v1/plugins/alpha__x/revoke",
        [N, Y, N, N],
    ),
    (
        "PUT",
        "/v1/plugins/{plugin}/secrets/{name}",
        "/v1/plugins/alpha__x/secrets/token",
        [N, Y, N, N],
    ),
    (
        "DELETE",
        "/v1/plugins/{plugin}/secrets/{name}",
        "/v1/plugins/alpha__x/secrets/token",
        [N, Y, N, N],
    ),
    ("PUT", "/v1/budgets/{app}", "/v1/budgets/alpha", [N, Y, N, N]),
    (
        "POST",
        "/v1/activity/{app}/stop",
        "/v1/activity/alpha/stop",
        [N, Y, N, N],
    ),
    // What an app's own plugins show: panels, pictures that they kept, pictures from hosts that they may reach.
    (
        "GET",
        "/v1/apps/{app}/__panels",
        "/v1/apps/alpha/__panels",
        [N, Y, Y, N],
    ),
    (
        "GET",
        "/v1/apps/{app}/__media/{name}",
        "/v1/apps/alpha/__media/none",
        [N, Y, Y, N],
    ),
    ("GET", "/v1/apps/{app}/img", "/v1/apps/alpha/img", [N, Y, Y, N]),
    ("POST", "/v1/apps/{app}/frame", "/v1/apps/alpha/frame", [N, Y, N, N]),
    (
        "DELETE",
        "/v1/apps/{app}/frame/{token}",
        "/v1/apps/alpha/frame/x",
        [N, Y, N, N],
    ),
    (
        "GET",
        "/v1/apps/{app}/__storage",
        "/v1/apps/alpha/__storage",
        [N, Y, Y, N],
    ),
    (
        "POST",
        "/v1/apps/{app}/__storage",
        "/v1/apps/alpha/__storage",
        [N, Y, Y, N],
    ),
    (
        "GET",
        "/v1/apps/{app}/__streams/{chat}",
        "/v1/apps/alpha/__streams/x",
        [N, Y, Y, N],
    ),
    (
        "POST",
        "/v1/apps/{app}/__refused",
        "/v1/apps/alpha/__refused",
        [N, Y, Y, N],
    ),
    ("POST", "/v1/apps/{app}/__abort", "/v1/apps/alpha/__abort", [N, Y, Y, N]),
    (
        "*",
        "/v1/apps/{app}/{*rest}",
        "/v1/apps/alpha/a/plugin/route",
        [N, Y, Y, N],
    ),
];

/// Addresses under an app that stay the engine's own, whatever the method: no page reaches them, its own app's neither
/// (contract section 5.3).
const KEPT: &[&str] = &[
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

/// Other ways to write an address. Nobody is to be served by one, the owner no more than a page.
fn structural(path: &str) -> Vec<String> {
    let rest = path.strip_prefix("/v1/").unwrap();
    let (head, last) = path.rsplit_once('/').unwrap();
    vec![
        format!("/V1/{rest}"),
        path.to_uppercase(),
        format!("/%761/{rest}"),
        format!("/%76%31/{rest}"),
        format!("/v1%2f{rest}"),
        format!("/v1%2F{rest}"),
        format!("/{path}"),
        format!("/v1//{rest}"),
        format!("{head}//{last}"),
        format!("{head}/./{last}"),
        format!("{head}/x/../{last}"),
        format!("{head}/%2e/{last}"),
        format!("{head}/x/%2e%2E/{last}"),
        format!("{head}/x/.%2e/{last}"),
        format!("/frame/../{}", &path[1..]),
        format!("/frame/x/..{path}"),
        format!("/x/..{path}"),
        format!("{head}%2f{last}"),
        format!("{head}%5c{last}"),
        format!("{path}%00"),
        format!("{path}%0a"),
        format!("{path}/.."),
        format!("{path}//"),
        format!("/v1\\{rest}"),
        format!("{path}%"),
        format!("{path}%ff"),
        format!("{path}%c0%af"),
    ]
}

/// Ways to write an address that may lead to the same place, or to another one: none may lead further than the plain
/// way does.
fn lenient(path: &str) -> Vec<String> {
    let (head, last) = path.rsplit_once('/').unwrap();
    let encoded: String = last.bytes().map(|b| format!("%{b:02x}")).collect();
    let mut all = vec![
        format!("{head}/{encoded}"),
        format!("{path}/"),
        format!("{path};x"),
        format!("{path}%20"),
        format!("{path}."),
        format!("{head}/{}", last.to_uppercase()),
    ];
    if path.contains("/alpha") {
        all.push(path.replace("/alpha", "/%61lpha"));
        all.push(path.replace("/alpha", "/ALPHA"));
        all.push(path.replace("/alpha", "/alpha%20"));
    }
    all
}

struct Walk {
    house: House,
    cookie: String,
    alpha: String,
    beta: String,
}

impl Walk {
    async fn start() -> Walk {
        let house = House::open().await;
        let cookie = house.sign_in().await;
        house.add_app("alpha").await;
        house.add_app("beta").await;
        let (alpha, beta) = (house.frame(&cookie, "alpha").await, house.frame(&cookie, "beta").await);
        Walk {
            house,
            cookie,
            alpha,
            beta,
        }
    }

    /// Puts back what an owner's own call ended: the session, the app, the frames.
    async fn mend(&mut self) {
        let cookie = [("Cookie", self.cookie.as_str())];
        if self.house.ask("GET", "/v1/me", &cookie, "").await.status != 200 {
            let body = serde_json::json!({"username": "zoe", "password": PASSWORD}).to_string();
            let reply = self
                .house
                .ask("POST", "/v1/auth/login", &[("X-Chrysalis-Request", "1")], &body)
                .await;
            assert_eq!(reply.status, 200, "{reply:?}");
            self.cookie = reply.header("set-cookie").split(';').next().unwrap().to_owned();
        }
        if self
            .house
            .ask("GET", "/v1/apps/alpha/plugins", &[("Cookie", &self.cookie)], "")
            .await
            .status
            != 200
        {
            self.house.add_app("alpha").await;
        }
        let alive = async |token: &str| {
            self.house
                .ask("GET", "/v1/models", &[("X-Chrysalis-Frame", token)], "")
                .await
                .status
                == 200
        };
        if !alive(&self.alpha).await {
            self.alpha = self.house.frame(&self.cookie, "alpha").await;
        }
        if !alive(&self.beta).await {
            self.beta = self.house.frame(&self.cookie, "beta").await;
        }
    }

    /// What was refused was refused to callers that had every right to ask.
    async fn all_are_still_known(&self) {
        for (caller, name) in CALLERS.iter().enumerate().skip(1) {
            let reply = self.ask(caller, "GET", "/v1/models").await;
            assert_eq!(reply.status, 200, "{name}: {reply:?}");
        }
    }

    /// One request as one of [`CALLERS`]. Of an answer that streams for ever only the head is read.
    async fn ask(&self, caller: usize, method: &str, target: &str) -> Reply {
        let mut headers = vec![("X-Chrysalis-Request", "1")];
        match caller {
            0 => {}
            1 => headers.push(("Cookie", &self.cookie)),
            2 => headers.push(("X-Chrysalis-Frame", &self.alpha)),
            _ => headers.push(("X-Chrysalis-Frame", &self.beta)),
        }
        let body = if method == "GET" { "" } else { "{}" };
        let request = self.house.request(method, target, &headers, body);
        let mut stream = self.house.connect("127.0.0.1").await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        loop {
            let mut part = [0; 4096];
            let n = stream.read(&mut part).await.unwrap_or(0);
            answer.extend_from_slice(&part[..n]);
            let head_is_here = answer.windows(4).any(|w| w == b"\r\n\r\n");
            let reply = Reply::read(&answer);
            if n == 0 || (head_is_here && (200..300).contains(&reply.status)) {
                return reply;
            }
        }
    }
}

/// Whether the door or the table turned it away, before any handler.
fn refused(reply: &Reply) -> bool {
    match reply.status {
        401 => true,
        403 => reply.body.contains("\"code\":\"refused\""),
        _ => false,
    }
}

/// Whether no handler of `/v1` saw it: refused, not an address at all, or not HTTP.
fn unheard(reply: &Reply) -> bool {
    match reply.status {
        401 | 403 | 404 | 405 => true,
        400 => reply.body.is_empty() || reply.body.contains("This address is not accepted"),
        _ => false,
    }
}

fn methods(method: &'static str) -> Vec<&'static str> {
    match method {
        "*" => vec!["GET", "POST", "PUT", "PATCH", "DELETE"],
        one => vec![one],
    }
}

#[tokio::test]
async fn the_expectations_name_every_route() {
    let house = House::open().await;
    let known: BTreeSet<_> = engine::access_table().iter().map(|a| (a.method, a.pattern)).collect();
    let wanted: BTreeSet<_> = WANT.iter().map(|(method, pattern, ..)| (*method, *pattern)).collect();
    assert_eq!(known, wanted);
    house.close().await;
}

#[tokio::test]
async fn every_route_as_every_caller() {
    let mut walk = Walk::start().await;
    for (method, _, address, may) in WANT {
        for method in methods(method) {
            for (caller, may) in may.iter().enumerate() {
                let reply = walk.ask(caller, method, address).await;
                let name = CALLERS[caller];
                let right = if *may {
                    !matches!(reply.status, 401 | 403)
                } else {
                    refused(&reply)
                };
                assert!(right, "{name}: {method} {address} {reply:?}");
                walk.mend().await;
            }
        }
    }
    for kept in KEPT {
        for method in methods("*") {
            for caller in [0, 2, 3] {
                let address = format!("/v1/apps/alpha/{kept}");
                let reply = walk.ask(caller, method, &address).await;
                assert!(refused(&reply), "{}: {method} {address} {reply:?}", CALLERS[caller]);
            }
        }
    }
    walk.house.close().await;
}

#[tokio::test]
async fn other_spellings_lead_nowhere() {
    let walk = Walk::start().await;
    for (method, _, address, _) in WANT {
        let (path, query) = address
            .split_once('?')
            .map_or((*address, ""), |(path, _)| (path, "?name=x"));
        for spelling in structural(path) {
            for (caller, name) in CALLERS.iter().enumerate() {
                for method in methods(method) {
                    let reply = walk.ask(caller, method, &format!("{spelling}{query}")).await;
                    assert!(unheard(&reply), "{name}: {method} {spelling} {reply:?}");
                }
            }
        }
    }
    walk.all_are_still_known().await;
    walk.house.close().await;
}

#[tokio::test]
async fn other_spellings_lead_no_further() {
    let walk = Walk::start().await;
    for (method, pattern, address, may) in WANT {
        // What is kept by the engine is turned away before anything under it is looked at, so an app's own route of
        // the same shape is the only thing a suffix can reach.
        let path = address.split('?').next().unwrap();
        for spelling in lenient(path) {
            for (caller, may) in may.iter().enumerate().filter(|(_, may)| !**may) {
                // The owner has one line with a no, for the command line alone.
                for method in methods(method) {
                    let reply = walk.ask(caller, method, &spelling).await;
                    let own_route = caller == 2 && pattern.starts_with("/v1/apps/{app}/");
                    let harmless = unheard(&reply) || (own_route && reply.status == 404);
                    assert!(harmless && !may, "{}: {method} {spelling} {reply:?}", CALLERS[caller]);
                }
            }
        }
    }
    for kept in KEPT {
        for spelling in lenient(&format!("/v1/apps/alpha/{kept}")) {
            for caller in [0, 3] {
                let reply = walk.ask(caller, "POST", &spelling).await;
                assert!(unheard(&reply), "{}: {spelling} {reply:?}", CALLERS[caller]);
            }
        }
        // Decoded it is the same word, so its own page is turned away as well.
        let encoded: String = kept.bytes().map(|b| format!("%{b:02x}")).collect();
        for spelling in [encoded.replace("%2f", "/"), format!("{kept}/")] {
            let reply = walk.ask(2, "POST", &format!("/v1/apps/alpha/{spelling}")).await;
            assert!(refused(&reply), "{spelling} {reply:?}");
        }
    }
    walk.all_are_still_known().await;
    walk.house.close().await;
}
