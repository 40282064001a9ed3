//! Ways to servers that were not granted, and to what is sent only to those that were.

use serde_json::json;

use crate::attempt::{Attempt, Want, attempt, try_all};
use crate::house::House;

/// Addresses of what was not granted, as template literals.
const ADDRESSES: &[(&str, &str)] = &[
    ("another port", "http://127.0.0.1:${given.otherPort}/"),
    ("two numbers", "http://127.1:${given.otherPort}/"),
    ("one number", "http://2130706433:${given.otherPort}/"),
    ("one hexadecimal number", "http://0x7f000001:${given.otherPort}/"),
    ("octal numbers", "http://0177.0.0.1:${given.otherPort}/"),
    ("hexadecimal and short", "http://0x7f.1:${given.otherPort}/"),
    ("full-width digits", "http://１２７.０.０.１:${given.otherPort}/"),
    ("digits in circles", "http://①②⑦.⓪.⓪.①:${given.otherPort}/"),
    ("an ideographic full stop", "http://127。0。0。1:${given.otherPort}/"),
    ("a dot at the end", "http://127.0.0.1.:${given.otherPort}/"),
    ("percent signs", "http://%31%32%37.0.0.1:${given.otherPort}/"),
    ("the address of all", "http://0.0.0.0:${given.otherPort}/"),
    ("zero", "http://0:${given.otherPort}/"),
    ("another of the loopback net", "http://127.0.0.2:${given.otherPort}/"),
    ("version 6", "http://[::1]:${given.otherPort}/"),
    ("version 6 of all", "http://[::]:${given.otherPort}/"),
    ("mapped into version 6", "http://[::ffff:127.0.0.1]:${given.otherPort}/"),
    ("mapped and hexadecimal", "http://[::ffff:7f00:1]:${given.otherPort}/"),
    (
        "mapped, of the granted one",
        "http://[::ffff:127.0.0.1]:${given.grantedPort}/",
    ),
    (
        "translated to version 6",
        "http://[64:ff9b::7f00:1]:${given.otherPort}/",
    ),
    ("localhost", "http://localhost:${given.otherPort}/"),
    (
        "localhost, of the granted one",
        "http://localhost:${given.grantedPort}/",
    ),
    ("localhost and a dot", "http://localhost.:${given.otherPort}/"),
    ("a name below localhost", "http://a.localhost:${given.otherPort}/"),
    ("capital letters", "http://LOCALHOST:${given.otherPort}/"),
    (
        "the granted one before an @",
        "http://127.0.0.1:${given.grantedPort}@127.0.0.1:${given.otherPort}/",
    ),
    (
        "a granted name before an @",
        "http://good.example@127.0.0.1:${given.otherPort}/",
    ),
    (
        "a user at the granted one",
        "http://user:word@127.0.0.1:${given.grantedPort}/",
    ),
    ("the engine's own door", "http://127.0.0.1:${given.enginePort}/v1/me"),
    ("the metadata of a cloud", "http://169.254.169.254/latest/meta-data/"),
    (
        "the metadata of a cloud, one number",
        "http://2852039166/latest/meta-data/",
    ),
    ("the metadata of a cloud, version 6", "http://[fd00:ec2::254]/latest/"),
    ("a private net", "http://10.0.0.1/"),
    ("a router", "http://192.168.1.1/"),
    ("a link-local address", "http://[fe80::1]/"),
    ("a name that was not granted", "http://evil.example/"),
    ("a granted name with more behind", "http://good.example.evil.example/"),
    ("a granted name with more before", "http://evilgood.example/"),
    ("a name below a granted one", "http://sub.good.example/"),
    ("the bare name of a wild card", "http://wild.example/"),
    ("a name that ends like a wild card's", "http://evilwild.example/"),
    ("a granted name in other letters", "http://g\u{43e}\u{43e}d.example/"),
    ("a granted name on another scheme", "ftp://good.example/"),
    ("a file", "file:///etc/passwd"),
    ("a file on a host", "file://good.example/etc/passwd"),
    ("data", "data:text/plain,hello"),
    ("script", "javascript:1"),
    ("a socket of the system", "unix:/run/docker.sock"),
    ("gopher", "gopher://127.0.0.1:${given.otherPort}/_x"),
    ("a web socket", "ws://127.0.0.1:${given.otherPort}/"),
    ("no scheme", "//127.0.0.1:${given.otherPort}/"),
    ("no host", "http:///x"),
    ("a port that is none", "http://127.0.0.1:99999/"),
    ("a blank in the host", "http://127.0.0.1 .evil.example/"),
];

/// Where the granted server sends the request on to.
const REDIRECTS: &[(&str, &str)] = &[
    ("another port", "${given.other}/"),
    ("localhost", "http://localhost:${given.otherPort}/"),
    ("a short spelling", "http://127.1:${given.otherPort}/"),
    ("version 6", "http://[::ffff:127.0.0.1]:${given.otherPort}/"),
    ("the metadata of a cloud", "http://169.254.169.254/latest/"),
    ("a file", "file:///etc/passwd"),
    ("data", "data:text/plain,hello"),
    (
        "a user at the granted one",
        "http://u:p@127.0.0.1:${given.grantedPort}/",
    ),
    ("a name that was not granted", "http://evil.example/"),
    ("another through a second", "${given.second}/to?${given.other}/"),
    ("itself without end", "/to?/to"),
];

/// A name that was granted, so that a guard which refuses every name is not taken for a good one. What of names under
/// `.example` is looked up at all: see `rebinding.rs`.
const NAMED: &str = r#"const answer = await host.net.fetch({ url: `http://localhost:${given.secondPort}/hello` }); return answer.text ?? answer.error"#;
const FINE: &str =
    r#"const answer = await host.net.fetch({ url: given.granted + "/hello" }); return answer.text ?? answer.error"#;

fn is_name(address: &str) -> bool {
    let host = address.to_lowercase();
    host.contains("example") || host.contains("localhost")
}

pub fn attempts() -> Vec<Attempt> {
    let get = |address: &str| {
        format!(
            "const answer = await host.net.fetch({{ url: `{address}` }}); return answer.ok ? `got ${{answer.text}}` : answer.error"
        )
    };
    let refused = || Want::Says(&["was refused by Chrysalis", "cannot be used: it "]);
    let addresses = ADDRESSES.iter().map(|(name, address)| {
        attempt(
            &format!("an address by {name}"),
            &get(address),
            refused(),
            if is_name(address) { NAMED } else { FINE },
            json!("hello"),
        )
    });
    let redirects = REDIRECTS.iter().map(|(name, to)| {
        let (name, attack) = (format!("sent on to {name}"), get(&format!("${{given.granted}}/to?{to}")));
        let twin = if is_name(to) {
            r#"const answer = await host.net.fetch({ url: given.granted + `/to?http://localhost:${given.secondPort}/hello` }); return answer.text ?? answer.error"#
        } else {
            r#"const answer = await host.net.fetch({ url: given.granted + "/to?" + given.second + "/hello" }); return answer.text ?? answer.error"#
        };
        attempt(&name, &attack, refused(), twin, json!("hello"))
    });
    addresses.chain(redirects).collect()
}

#[test]
fn only_granted_servers_are_reached() {
    let house = House::open();
    try_all(&house, &attempts());
}
