//! Names whose addresses change, or are none that a guest may reach, with a resolver under the test's control: the built
//! program asks the system's.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use net::{Attempt, ConnectionLog, End, Fetch, Granted, HostPattern, Net, Reach, Resolver};
use policy::{CallContext, Caller};
use testkit::ModelServer;

type Answer = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, String>> + Send>>;

/// Each name's answers in turn; the last one stays. Beside them every name that was asked for.
#[derive(Default)]
struct Names(Mutex<HashMap<String, VecDeque<Vec<IpAddr>>>>, Arc<Mutex<Vec<String>>>);

impl Resolver for Names {
    fn resolve(&self, host: String) -> Answer {
        self.1.lock().unwrap().push(host.clone());
        let mut names = self.0.lock().unwrap();
        let answer = match names.get_mut(&host) {
            Some(answers) if answers.len() > 1 => Ok(answers.pop_front().unwrap()),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(format!("no such host: {host}")),
        };
        Box::pin(async move { answer })
    }
}

struct Silent;

impl ConnectionLog for Silent {
    fn connecting(&self, _: &Attempt) -> Result<i64, String> {
        Ok(1)
    }
    fn finished(&self, _: i64, _: &End) {}
    fn refused(&self, _: &Attempt, _: &str) {}
}

/// A name that was granted as one of the internet, and what it resolves to, one list after another.
pub const ATTEMPTS: &[(&str, &[&[&str]])] = &[
    ("a granted name that is loopback", &[&["127.0.0.1"]]),
    ("a granted name that is loopback in version 6", &[&["::1"]]),
    ("a granted name that is mapped loopback", &[&["::ffff:127.0.0.1"]]),
    ("a granted name that is a private address", &[&["10.0.0.1"]]),
    (
        "a granted name that is the metadata of a cloud",
        &[&["169.254.169.254"]],
    ),
    ("a granted name that is the address of all", &[&["0.0.0.0"]]),
    (
        "a granted name with one good and one bad address",
        &[&["93.184.215.14", "127.0.0.1"]],
    ),
    (
        "a granted name with one bad and one good address",
        &[&["127.0.0.1", "93.184.215.14"]],
    ),
    ("a granted name that is shared address space", &[&["100.64.0.1"]]),
    ("a granted name that translates to loopback", &[&["64:ff9b::7f00:1"]]),
    ("a granted name without an address", &[&[]]),
];

fn patterns(texts: &[&str]) -> Arc<[HostPattern]> {
    texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect()
}

fn reach(hosts: &[&str], local: &[&str]) -> Reach {
    Reach::Granted(Granted {
        hosts: patterns(hosts),
        local: patterns(local),
        also: vec![],
    })
}

fn net(names: &[(&str, &[&[&str]])]) -> Net {
    observed(names).0
}

/// With the list of names that were looked up.
fn observed(names: &[(&str, &[&[&str]])]) -> (Net, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::default();
    let list = names.iter().map(|(name, answers)| {
        let each = answers
            .iter()
            .map(|list| list.iter().map(|ip| ip.parse().unwrap()).collect());
        ((*name).to_owned(), each.collect())
    });
    let names = Names(Mutex::new(list.collect()), Arc::clone(&asked));
    (Net::with_resolver(Arc::new(Silent), Arc::new(names)), asked)
}

async fn fetch(net: &Net, url: &str, reach: &Reach) -> Result<String, String> {
    let fetch = Fetch::get(url, reach.clone(), "test", Arc::new(|_| Ok(())));
    let answer = net.fetch(&CallContext::root(&Caller::Nobody), fetch).await;
    answer
        .map(|answer| String::from_utf8_lossy(&answer.body).into_owned())
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_granted_name_is_not_every_address_it_may_have() {
    let server = ModelServer::everything(|_, out| out.answer(200, "text/plain", "inside"));
    let port = server.port;
    for (name, answers) in ATTEMPTS {
        let net = net(&[("good.example", *answers)]);
        let url = format!("http://good.example:{port}/");
        let said = fetch(&net, &url, &reach(&["good.example"], &[])).await;
        let why = said.expect_err(name);
        assert!(server.seen().is_empty(), "{name}: {why}");
        assert!(
            why.contains("refused by Chrysalis") || answers[0].is_empty(),
            "{name}: {why}"
        );
        // The same server, asked for by the very address that was granted.
        let url = format!("http://127.0.0.1:{port}/");
        let twin = fetch(&net, &url, &reach(&[], &[&format!("127.0.0.1:{port}")])).await;
        assert_eq!(twin.as_deref(), Ok("inside"), "{name}");
        server.forget();
    }
}

/// Each redirect is looked up and judged anew: a name that was fine a moment ago is not fine now.
#[tokio::test]
async fn a_name_whose_address_changes_between_two_redirects_is_refused() {
    for later in ["169.254.169.254", "0.0.0.0", "224.0.0.1", "fe80::1"] {
        let server = ModelServer::everything(|seen, out| match seen.target.as_str() {
            "/" => out.redirect("/again"),
            _ => out.answer(200, "text/plain", "inside"),
        });
        let url = format!("http://nas.lan:{}/", server.port);
        let local = reach(&[], &[&format!("nas.lan:{}", server.port)]);
        let changes = net(&[("nas.lan", &[&["127.0.0.1"], &[later]])]);
        let why = fetch(&changes, &url, &local).await.expect_err(later);
        assert!(why.contains("refused by Chrysalis"), "{later}: {why}");
        assert_eq!(server.seen().len(), 1, "{later}: only the first request arrived");
        let stays = net(&[("nas.lan", &[&["127.0.0.1"]])]);
        assert_eq!(fetch(&stays, &url, &local).await.as_deref(), Ok("inside"), "{later}");
    }
}

/// From a server that was granted to a granted name of the internet behind which there is one of this machine.
#[tokio::test]
async fn a_redirect_to_a_granted_name_with_a_bad_address_is_refused() {
    let inside = ModelServer::everything(|_, out| out.answer(200, "text/plain", "inside"));
    let port = inside.port;
    let onward = ModelServer::everything(move |_, out| out.redirect(&format!("http://good.example:{port}/")));
    let net = net(&[("good.example", &[&["127.0.0.1"]]), ("nas.lan", &[&["127.0.0.1"]])]);
    let local = format!("nas.lan:{}", onward.port);
    let why = fetch(&net, &format!("http://{local}/"), &reach(&["good.example"], &[&local])).await;
    assert!(
        why.as_ref().is_err_and(|why| why.contains("refused by Chrysalis")),
        "{why:?}"
    );
    assert!(inside.seen().is_empty());
    assert_eq!(
        onward.seen().len(),
        1,
        "the granted server of the local network is reached"
    );
}

/// Names near those that were granted: `good`, and `*.wild` with one label or more in front.
const NEAR: &[&str] = &[
    "evil.TOP",
    "good.TOP.evil.TOP",
    "evilgood.TOP",
    "sub.good.TOP",
    "wild.TOP",
    "evilwild.TOP",
    "a.wild.TOP.evil.TOP",
    "g\u{43e}\u{43e}d.TOP",
    "good-TOP",
    "TOP",
];

/// Names of the internet: what is not granted is not even looked up, and what is granted is, in every spelling of it.
#[tokio::test]
async fn a_name_that_was_not_granted_is_not_looked_up() {
    let (net, asked) = observed(&[]);
    let granted = reach(&["good.example", "*.wild.example"], &[]);
    for near in NEAR {
        let host = near.replace("TOP", "example");
        let why = fetch(&net, &format!("http://{host}/"), &granted)
            .await
            .expect_err(&host);
        assert!(why.contains("refused by Chrysalis"), "{host}: {why}");
    }
    assert_eq!(*asked.lock().unwrap(), Vec::<String>::new());
    for host in ["good.example", "GOOD.example", "a.wild.example", "b.a.wild.example"] {
        let why = fetch(&net, &format!("http://{host}/"), &granted).await.expect_err(host);
        assert!(!why.contains("refused by Chrysalis"), "{host} was granted: {why}");
        assert_eq!(*asked.lock().unwrap(), [host.to_lowercase()]);
        asked.lock().unwrap().clear();
    }
}

/// The same with names of a local network, behind all of which there is one server: only the granted ones reach it.
#[tokio::test]
async fn only_granted_names_reach_the_server_behind_all_names() {
    let server = ModelServer::everything(|_, out| out.answer(200, "text/plain", "inside"));
    let port = server.port;
    let near: Vec<String> = NEAR.iter().map(|name| name.replace("TOP", "lan")).collect();
    let good = ["good.lan", "a.wild.lan", "b.a.wild.lan"];
    let here: &[&[&str]] = &[&["127.0.0.1"]];
    let all: Vec<_> = near
        .iter()
        .map(String::as_str)
        .chain(good)
        .map(|name| (name, here))
        .collect();
    let net = net(&all);
    let granted = reach(&[], &[&format!("good.lan:{port}"), &format!("*.wild.lan:{port}")]);
    for host in &near {
        let why = fetch(&net, &format!("http://{host}:{port}/"), &granted)
            .await
            .expect_err(host);
        assert!(why.contains("refused by Chrysalis"), "{host}: {why}");
    }
    assert!(server.seen().is_empty());
    for host in good {
        let got = fetch(&net, &format!("http://{host}:{port}/"), &granted).await;
        assert_eq!(got.as_deref(), Ok("inside"), "{host}");
    }
    assert_eq!(server.seen().len(), good.len());
}
