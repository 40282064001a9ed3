//! The access walk on the built program: each caller × route × spelling, over real HTTP and the real local socket, against
//! expectations written by hand from the contract (sections 5.3 and 6). Windows are walked by the desktop tests.

mod access;

use std::collections::{BTreeMap, BTreeSet};

use access::*;
use axum::body::Body;
use engine::{Engine, Keychain, Options};
use http::Request;
use policy::{AppId, Caller, CallerKind, Condition, PluginId};
use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, Reply, Running};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

struct House {
    running: Running,
    callers: BTreeMap<Who, Client>,
    _home: Home,
}

impl House {
    fn open() -> Self {
        let home = Home::new(PROGRAM);
        let running = home.serve();
        let owner = running.set_up();
        for id in ["alpha", "beta"] {
            running.add(AppFolder::new(home.folder(), id).path(), id);
        }
        let (own, other) = (running.page(&owner, "alpha"), running.page(&owner, "beta"));
        // The command line has no header of its own: nothing but its user id and the socket.
        let callers = [
            (Nobody, running.nobody()),
            (Owner, owner),
            (CommandLine, running.command_line()),
            (OwnPage, own),
            (OtherPage, other),
        ];
        House {
            callers: callers.into(),
            running,
            _home: home,
        }
    }

    /// The status and, of answers that end, the text.
    fn ask(&self, who: Who, method: &str, target: &str) -> Reply {
        let mut client = self.callers[&who].clone();
        if (who, method, target) == (Owner, "POST", "/v1/auth/logout") {
            client = self.running.login();
        }
        let body: &[u8] = if method == "GET" { b"" } else { b"{}" };
        let stream = target == "/v1/events" || target == "/v1/events/";
        if stream && who != Nobody {
            let head = client.open(method, target, &[], body).unwrap();
            return Reply {
                status: head.status,
                headers: head.headers,
                body: Vec::new(),
            };
        }
        let reply = client.ask(method, target, &[], body);
        reply.unwrap_or_else(|e| panic!("{who:?} {method} {target}: {e}"))
    }

    /// Whoever was refused had a right to ask for something.
    fn all_are_still_known(&self) {
        for (who, client) in &self.callers {
            let want = if *who == Nobody { 401 } else { 200 };
            assert_eq!(client.get("/v1/models").status, want, "{who:?}");
        }
    }
}

/// Whether it was turned away before any handler of the route saw it.
fn refused(reply: &Reply) -> bool {
    reply.status == 401 || (reply.status == 403 && reply.code() == "refused")
}

/// Whether no handler saw it: refused, no address at all, or no HTTP.
fn unheard(reply: &Reply) -> bool {
    match reply.status {
        401 | 403 | 404 | 405 => true,
        400 => reply.body.is_empty() || reply.text().contains("This address is not accepted"),
        _ => false,
    }
}

fn methods(method: &'static str) -> Vec<&'static str> {
    match method {
        "*" => vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"],
        one => vec![one],
    }
}

async fn open_engine(folder: &std::path::Path) -> Engine {
    Engine::open(Options {
        home: folder.to_owned(),
        worker: env!("CARGO_BIN_EXE_chrysalis-worker").into(),
        keychain: Keychain::None,
    })
    .await
    .unwrap()
}

/// The program's own table and the one above name the same routes and give each to the same kinds of callers; and a
/// plugin, which reaches the engine through `host` alone, gets none of them.
#[tokio::test]
async fn the_expectations_name_every_route() {
    let home = Home::new(PROGRAM);
    let engine = open_engine(&home.path()).await;
    let kinds = [
        (CallerKind::Nobody, Nobody),
        (CallerKind::Owner, Owner),
        (CallerKind::CommandLine, CommandLine),
        (CallerKind::App, OwnPage),
    ];
    let known: BTreeSet<_> = engine::access_table()
        .iter()
        .map(|line| {
            // alpha did not come in the box.
            let official = line.condition == Condition::OfficialApp;
            let who = kinds
                .iter()
                .filter(|(kind, _)| line.callers.contains(*kind) && !(official && *kind == CallerKind::App));
            (line.method, line.pattern, who.map(|(_, who)| *who).collect::<Vec<_>>())
        })
        .collect();
    let wanted: BTreeSet<_> = WANT
        .iter()
        .map(|(method, pattern, _, who)| {
            let who = who.iter().filter(|who| **who != OtherPage);
            (*method, *pattern, who.copied().collect::<Vec<_>>())
        })
        .collect();
    let (missing, extra) = (wanted.difference(&known), known.difference(&wanted));
    let (missing, extra): (Vec<_>, Vec<_>) = (missing.collect(), extra.collect());
    assert!(
        missing.is_empty() && extra.is_empty(),
        "only here: {missing:#?}\nonly in the program: {extra:#?}"
    );
    let plugin = Caller::Plugin {
        account: engine.owner(),
        app: AppId::parse("alpha").unwrap(),
        plugin: PluginId::parse("p").unwrap(),
    };
    for (method, _, address, _) in WANT {
        for method in methods(method) {
            let request = Request::builder().method(method).uri(*address);
            let request = request
                .header("content-type", "application/json")
                .body(Body::from("{}"));
            let status = engine.call(plugin.clone(), request.unwrap()).await.status();
            assert_eq!(status, 403, "a plugin: {method} {address}");
        }
    }
    engine.shutdown().await;
}

#[test]
fn every_route_as_every_caller() {
    let house = House::open();
    for (method, _, address, may) in WANT {
        for method in methods(method) {
            for who in EVERYONE {
                if (method, *address) == ("DELETE", "/v1/apps/alpha") && may.contains(who) {
                    // Allowed, and there would be no alpha for the rest of the walk.
                    let reply = house.ask(*who, method, "/v1/apps/zeta");
                    assert_eq!(reply.status, 404, "{who:?}: {}", reply.text());
                    continue;
                }
                let reply = house.ask(*who, method, address);
                let right = if may.contains(who) {
                    !matches!(reply.status, 401 | 403)
                } else if method == "HEAD" {
                    matches!(reply.status, 401 | 403)
                } else {
                    refused(&reply)
                };
                assert!(right, "{who:?}: {method} {address} {} {}", reply.status, reply.text());
                if reply.status >= 400 && method != "HEAD" {
                    let said = reply.json()["error"].as_str().is_some_and(|error| error.len() > 5);
                    assert!(
                        said,
                        "an error has one form: {who:?}: {method} {address} {}",
                        reply.text()
                    );
                }
            }
        }
    }
    for address in KEPT.iter().map(|kept| format!("/v1/apps/alpha/{kept}")) {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            for who in [Nobody, OwnPage, OtherPage] {
                let reply = house.ask(who, method, &address);
                assert!(refused(&reply), "{who:?}: {method} {address} {}", reply.text());
            }
        }
    }
    for address in NOT_HERE {
        for method in ["GET", "POST", "PUT", "PATCH"] {
            for who in EVERYONE {
                let reply = house.ask(*who, method, address);
                let right = match who {
                    Owner | CommandLine => matches!(reply.status, 404 | 405),
                    _ => refused(&reply),
                };
                assert!(right, "{who:?}: {method} {address} {} {}", reply.status, reply.text());
            }
        }
    }
    house.all_are_still_known();
}

#[test]
fn other_spellings_are_served_to_nobody() {
    let house = House::open();
    for (method, _, address, _) in WANT {
        let path = address.split('?').next().unwrap();
        for (kind, spelling) in spellings(path) {
            for who in EVERYONE {
                for method in methods(method) {
                    let reply = house.ask(*who, method, &spelling);
                    let text = reply.text();
                    // Twice encoded, a name under an app is just an odd name: for those who may ask that app's plugins.
                    let odd_name = kind.starts_with("double encoded")
                        && reply.status == 404
                        && path.starts_with("/v1/apps/alpha/");
                    assert!(
                        unheard(&reply) || odd_name,
                        "{who:?}: {method} {spelling} ({kind}) {} {text}",
                        reply.status
                    );
                }
            }
        }
    }
    house.all_are_still_known();
}

#[test]
fn other_spellings_lead_no_further() {
    let house = House::open();
    for (method, pattern, address, may) in WANT {
        let path = address.split('?').next().unwrap();
        for (kind, spelling) in near_spellings(path) {
            for who in EVERYONE.iter().filter(|who| !may.contains(who)) {
                for method in methods(method) {
                    let reply = house.ask(*who, method, &spelling);
                    // A suffix on an app's path can only be a name for its own plugins, and none answers it.
                    let own = *who == OwnPage || *who == CommandLine || *who == Owner;
                    let own_name = own && pattern.starts_with("/v1/apps/{app}") && reply.status == 404;
                    assert!(
                        unheard(&reply) || own_name,
                        "{who:?}: {method} {spelling} ({kind}) {} {}",
                        reply.status,
                        reply.text()
                    );
                }
            }
        }
    }
    for kept in KEPT {
        let path = format!("/v1/apps/alpha/{kept}");
        // Decoded it is the same word.
        let encoded: String = kept.bytes().map(|b| format!("%{b:02x}")).collect();
        let decoded_alike = [
            format!("{path}/"),
            format!("/v1/apps/alpha/{}", encoded.replace("%2f", "/")),
            format!("/v1/apps/%61lpha/{kept}"),
        ];
        for address in decoded_alike {
            for method in ["GET", "POST", "DELETE"] {
                for who in [Nobody, OwnPage, OtherPage] {
                    let reply = house.ask(who, method, &address);
                    assert!(refused(&reply), "{who:?}: {method} {address} {}", reply.text());
                }
            }
        }
        for (kind, spelling) in spellings(&path) {
            for who in [Nobody, OwnPage, OtherPage] {
                let reply = house.ask(who, "POST", &spelling);
                let odd_name = kind.starts_with("double encoded") && reply.status == 404 && who == OwnPage;
                assert!(
                    unheard(&reply) || odd_name,
                    "{who:?}: {spelling} ({kind}) {}",
                    reply.text()
                );
            }
        }
    }
    house.all_are_still_known();
}

/// A page's token beside the owner's cookie is the page's; a wrong token beside it is nobody's.
#[test]
fn a_frame_token_with_a_cookie_is_never_the_owner() {
    let house = House::open();
    let cookie = house.callers[&Owner].headers.last().unwrap().1.clone();
    let token = house.callers[&OwnPage].headers.last().unwrap().1.clone();
    for (token, app) in [
        (token.as_str(), true),
        ("0123456789abcdef0123456789abcdef", false),
        ("", false),
    ] {
        for order in [[true, false], [false, true]] {
            let mut both = house.running.nobody();
            for cookie_now in order {
                both = if cookie_now {
                    both.with("Cookie", &cookie)
                } else {
                    both.with("X-Chrysalis-Frame", token)
                };
            }
            for (method, target) in [
                ("GET", "/v1/me"),
                ("GET", "/v1/activity"),
                ("GET", "/v1/apps"),
                ("PUT", "/v1/settings"),
                ("POST", "/v1/settings/connections"),
                ("DELETE", "/v1/apps/alpha"),
                ("POST", "/v1/apps/beta/frame"),
                ("GET", "/v1/apps/beta/__storage"),
            ] {
                let reply = both.ask(method, target, &[], b"{}").unwrap();
                assert!(matches!(reply.status, 401 | 403), "{method} {target} {}", reply.text());
            }
            let own = both.get("/v1/apps/alpha/__storage").status;
            assert_eq!(own, if app { 200 } else { 403 }, "{token}");
        }
    }
    let twice = house.callers[&OwnPage].clone().with("X-Chrysalis-Frame", &token);
    assert_eq!(twice.get("/v1/apps/alpha/__storage").status, 403, "the token twice");
    assert_eq!(house.callers[&Owner].get("/v1/me").status, 200);
}

/// What a page of another site, or another program's page, could make a browser send.
#[test]
fn requests_of_other_sites_are_refused() {
    let house = House::open();
    let port = house.running.port;
    let cookie = house.callers[&Owner].headers.last().unwrap().1.clone();
    let own_host = format!("127.0.0.1:{port}");
    let (own, localhost) = (format!("http://{own_host}"), format!("http://localhost:{port}"));
    let long = format!("{own}.evil.example");
    let rebound = format!("evil.example:{port}");
    let any = format!("0.0.0.0:{port}");
    let send = |method: &str, headers: &[(&str, &str)]| {
        let bare = Client {
            door: house.running.nobody().door,
            headers: vec![("Cookie".into(), cookie.clone())],
        };
        let body: &[u8] = if method == "GET" { b"" } else { br#"{"theme":"dark"}"# };
        bare.ask(method, "/v1/settings", headers, body).unwrap()
    };
    let header = ("X-Chrysalis-Request", "1");
    assert_eq!(send("PUT", &[header]).status, 200);
    assert_eq!(send("PUT", &[header, ("Origin", &own)]).status, 200);
    assert_eq!(send("GET", &[("Origin", &own)]).status, 200);
    let refused: &[(&str, &[(&str, &str)])] = &[
        ("PUT", &[]),
        ("PUT", &[("Origin", &own)]),
        ("PUT", &[("X-Chrysalis-Request", "0")]),
        ("PUT", &[("X-Chrysalis-Request", "")]),
        ("PUT", &[header, header]),
        ("PUT", &[header, ("Origin", "null")]),
        ("PUT", &[header, ("Origin", "https://evil.example")]),
        ("PUT", &[header, ("Origin", &localhost)]),
        ("PUT", &[header, ("Origin", &long)]),
        ("PUT", &[header, ("Origin", "http://127.0.0.1")]),
        ("PUT", &[header, ("Origin", &own), ("Origin", "null")]),
        ("PUT", &[header, ("Sec-Fetch-Site", "cross-site")]),
        ("PUT", &[header, ("Sec-Fetch-Site", "same-site")]),
        ("PUT", &[header, ("Host", "evil.example")]),
        ("PUT", &[header, ("Host", &rebound)]),
        ("PUT", &[header, ("Host", &any)]),
        ("PUT", &[header, ("Host", "127.0.0.1")]),
        ("GET", &[("Host", &rebound)]),
        ("GET", &[("Host", "127.0.0.1.nip.io")]),
        ("GET", &[("Host", "")]),
        ("GET", &[("Origin", "null")]),
        ("GET", &[("Origin", "https://evil.example")]),
        ("GET", &[("Sec-Fetch-Site", "cross-site")]),
    ];
    for (method, headers) in refused {
        let reply = send(method, headers);
        assert_eq!(reply.status, 403, "{method} {headers:?} {}", reply.text());
        assert_eq!(reply.header("access-control-allow-origin"), "", "{headers:?}");
    }
    // A preflight is never told yes.
    let ask = [
        ("Origin", "https://evil.example"),
        ("Access-Control-Request-Method", "PUT"),
    ];
    let reply = send("OPTIONS", &ask);
    assert!(matches!(reply.status, 403 | 405), "{}", reply.status);
    assert_eq!(reply.header("access-control-allow-origin"), "");
}

#[test]
fn refusals_are_written_down() {
    let house = House::open();
    let owner = &house.callers[&Owner];
    let lines = || -> Vec<Value> {
        let activity = owner.get("/v1/activity?kind=refusal&limit=1000").ok();
        activity["entries"].as_array().unwrap().clone()
    };
    let cookie = owner.headers.last().unwrap().1.clone();
    assert_eq!(house.ask(OwnPage, "GET", "/v1/me").status, 403);
    assert_eq!(house.ask(OtherPage, "GET", "/v1/apps/alpha/__storage").status, 403);
    assert_eq!(house.ask(OwnPage, "POST", "/v1/apps/alpha/build/lease").status, 403);
    let evil = [("Cookie", cookie.as_str()), ("Origin", "https://evil.example")];
    let reply = house.running.nobody().ask("PUT", "/v1/settings", &evil, b"{}").unwrap();
    assert_eq!(reply.status, 403);
    let wrong = json!({"username": "zoe", "password": "not it"});
    assert_eq!(house.running.nobody().post("/v1/auth/login", &wrong).status, 401);
    let found = lines();
    let find = |caller: &str, target: &str| {
        let line = found.iter().find(|line| {
            line["caller"].as_str().is_some_and(|c| c.contains(caller))
                && line["target"].as_str().is_some_and(|t| t.contains(target))
        });
        line.unwrap_or_else(|| panic!("{caller} {target} is not in {found:#?}"))
            .clone()
    };
    let line = find("alpha", "GET /v1/me");
    assert_eq!(
        (&line["app"], &line["outcome"]),
        (&json!("alpha"), &json!("refused")),
        "{line}"
    );
    assert!(line["trace"].as_str().unwrap().len() >= 32, "{line}");
    assert_eq!(find("beta", "/v1/apps/alpha/__storage")["app"], "beta");
    find("alpha", "/v1/apps/alpha/build/lease");
    find("", "/v1/settings");
    find("", "/v1/auth/login");
    let all = json!(found).to_string();
    let token = house.callers[&OwnPage].headers.last().unwrap().1.as_str();
    for secret in [token, cookie.split_once('=').unwrap().1, "not it"] {
        assert!(!all.contains(secret), "{secret} is in {all}");
    }
}

/// The log is bounded. A page that is refused without end does not push out what it, or anyone, did before.
#[test]
fn a_flood_of_refusals_does_not_empty_the_log() {
    let house = House::open();
    let owner = &house.callers[&Owner];
    assert_eq!(house.ask(OwnPage, "GET", "/v1/launch").status, 403);
    for _ in 0..600 {
        assert_eq!(house.ask(OwnPage, "GET", "/v1/me").status, 403);
    }
    assert_eq!(house.ask(OtherPage, "GET", "/v1/me").status, 403);
    let of = |app: &str| {
        let activity = owner
            .get(&format!("/v1/activity?kind=refusal&limit=1000&app={app}"))
            .ok();
        activity["entries"].as_array().unwrap().clone()
    };
    let alphas = of("alpha");
    assert!(alphas.len() < 100, "{} lines", alphas.len());
    assert_eq!(alphas.last().unwrap()["target"], "GET /v1/launch");
    assert_eq!(of("beta").len(), 1, "others are written as ever");
    testkit::wait_for("a line that says how many were left out", || {
        house.ask(OwnPage, "GET", "/v1/me");
        let told = of("alpha")[0]["detail"].as_str().unwrap().to_owned();
        told.contains("more refusals of this caller").then_some(())
    });
}
