//! Host patterns: what is one, what it matches however it is spelled, and the same decided by a slower, simpler rule.

use net::HostPattern;
use url::Url;

fn pattern(text: &str) -> HostPattern {
    HostPattern::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn matches(text: &str, url: &str) -> bool {
    // An address that is none is matched by nothing.
    Url::parse(url).is_ok_and(|url| pattern(text).matches(&url))
}

#[test]
fn one_spelling_is_kept() {
    for (text, want) in [
        ("example.com", "example.com"),
        ("EXAMPLE.com", "example.com"),
        ("example.com.", "example.com"),
        ("exa%6dple.com", "example.com"),
        ("ｅｘａｍｐｌｅ。com", "example.com"),
        ("exam\u{ad}ple.com", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("example.com:443", "example.com:443"),
        ("example.com:0443", "example.com:443"),
        ("*.EXAMPLE.com", "*.example.com"),
        ("*.example.com.:8080", "*.example.com:8080"),
        ("*.localhost", "*.localhost"),
        ("localhost:3000", "localhost:3000"),
        ("nas", "nas"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("①27.0.0.1", "127.0.0.1"),
        ("10.0.0.7:11434", "10.0.0.7:11434"),
        ("::1", "[::1]"),
        ("[::1]", "[::1]"),
        ("[0:0:0::1]:8080", "[::1]:8080"),
        ("::ffff:127.0.0.1", "[::ffff:7f00:1]"),
        ("[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
        ("2001:DB8::A", "[2001:db8::a]"),
    ] {
        assert_eq!(pattern(text).to_string(), want, "{text}");
        assert_eq!(pattern(want), pattern(text), "{text}");
    }
}

#[test]
fn what_is_no_pattern() {
    for bad in [
        "",
        " ",
        "*",
        "*.",
        "*.*",
        "**.example.com",
        "*.*.example.com",
        "*example.com",
        "a.*.com",
        "example.*",
        "*:80",
        "*.com",
        "*.local",
        "*.com.",
        "%2a.example.com",
        "*。example.com",
        "*.%2a.example.com",
        "*.1.1.1.1",
        "*.127.1",
        "*.[::1]",
        "*.::1",
        "https://example.com",
        "//example.com",
        "example.com/",
        "example.com/path",
        "example.com?x",
        "example.com#x",
        "example.com\\x",
        "user@example.com",
        "user:pw@example.com",
        "a b.com",
        "example.com ",
        "\texample.com",
        "example\0.com",
        "example.com\r\nx",
        "a..com",
        ".example.com",
        "example.com..",
        "*..example.com",
        ".",
        "..",
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "example.com:+80",
        "example.com:-1",
        "example.com:8o",
        "example.com:80:90",
        "example.com:000080",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]:",
        "[::1]:x",
        "[]",
        "[::1%25eth0]",
        "[127.0.0.1]",
        "1.2.3.4.5",
        "256.1.1.1",
        "1.2.3.08",
        "a<b.com",
        "exa%mple.com",
        "exa%00mple.com",
        &"a".repeat(64),
        &format!("{}.com", "a.".repeat(125)),
        &"a".repeat(10_000),
    ] {
        match HostPattern::parse(bad) {
            Ok(pattern) => panic!("{bad:?} was read as {pattern}"),
            Err(error) => assert!(error.to_string().len() < 300, "{error}"),
        }
    }
}

#[test]
fn spellings_and_neighbours() {
    let same = [
        ("example.com", "http://example.com/"),
        ("example.com", "https://EXAMPLE.COM/x?y#z"),
        ("example.com", "https://example.com./"),
        ("example.com", "https://exa%6dple.com:8443/"),
        ("example.com", "https://ｅｘａｍｐｌｅ．ｃｏｍ/"),
        ("example.com", "https:\\\\example.com\\"),
        ("example.com", "https:example.com"),
        ("example.com", "https://user@example.com/"),
        ("example.com:443", "https://example.com/"),
        ("example.com:80", "http://example.com/"),
        ("example.com:8080", "http://example.com:8080/"),
        ("*.example.com", "https://a.example.com/"),
        ("*.example.com", "https://a.b.example.com./"),
        ("*.bücher.example", "https://a.xn--bcher-kva.example/"),
        ("127.0.0.1", "http://0x7f.1/"),
        ("127.0.0.1", "http://2130706433/"),
        ("127.0.0.1", "http://①27.0.0.1/"),
        ("0x7f.1", "http://127.0.0.1/"),
        ("[::ffff:127.0.0.1]", "http://[::ffff:7f00:1]/"),
        ("::1", "http://[0::1]:1/"),
    ];
    for (text, url) in same {
        assert!(matches(text, url), "{text} {url}");
    }
    let other = [
        ("example.com", "https://evil-example.com/"),
        ("example.com", "https://xexample.com/"),
        ("example.com", "https://example.com.evil.com/"),
        ("example.com", "https://www.example.com/"),
        ("example.com", "https://example.co/"),
        ("example.com", "https://example.com@evil.com/"),
        ("example.com", "https://evil.com/example.com"),
        ("example.com", "https://evil.com?example.com"),
        ("example.com", "https://evil.com#@example.com"),
        ("example.com", "https://evil.com\\@example.com"),
        ("example.com", "https://example.com%2eevil.com/"),
        ("example.com", "file:///example.com"),
        ("example.com", "data:,example.com"),
        ("example.com:443", "http://example.com/"),
        ("example.com:443", "https://example.com:444/"),
        ("example.com:80", "https://example.com/"),
        ("*.example.com", "https://example.com/"),
        ("*.example.com", "https://xexample.com/"),
        ("*.example.com", "https://.example.com/"),
        ("*.example.com", "https://a..example.com/"),
        ("*.example.com", "https://a.example.com.evil.com/"),
        ("*.example.com:443", "https://a.example.com:8443/"),
        ("*.localhost", "http://localhost/"),
        ("*.localhost", "http://evil-localhost/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
        ("127.0.0.1", "http://127.0.0.2/"),
        ("127.0.0.1", "http://localhost/"),
        ("127.0.0.1", "http://127.0.0.1.evil.com/"),
        ("localhost", "http://127.0.0.1/"),
        ("1.1.1.1", "http://1.1.1.1.example.com/"),
        ("::1", "http://127.0.0.1/"),
    ];
    for (text, url) in other {
        assert!(!matches(text, url), "{text} {url}");
    }
}

#[test]
fn what_asks_for_the_local_network() {
    for local in [
        "localhost",
        "LOCALHOST.:3000",
        "*.localhost",
        "a.localhost",
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "①27.0.0.1",
        "10.0.0.1:8080",
        "192.168.1.1",
        "169.254.169.254",
        "0.0.0.0",
        "::1",
        "[::ffff:127.0.0.1]",
        "[::ffff:8.8.8.8]",
        "fd00::1",
        "fe80::1",
        "64:ff9b::7f00:1",
    ] {
        assert!(pattern(local).is_local(), "{local}");
    }
    for public in [
        "example.com",
        "*.example.com",
        "localhost.example.com",
        "notlocalhost",
        "1.1.1.1",
        "[2606:4700::1111]:443",
    ] {
        assert!(!pattern(public).is_local(), "{public}");
    }
}

/// SplitMix64: the same cases in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }

    /// The same text for whoever reads it by the standard: other case, full width, percent signs.
    fn spelled(&mut self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            match (self.roll(8), c) {
                (0, c) => out.extend(c.to_uppercase()),
                (1, 'a'..='z' | '0'..='9' | '-') => out.extend(char::from_u32(c as u32 + 0xfee0)),
                (2, c) => out += &format!("%{:02x}", c as u32),
                (3, '.') => out += "。",
                (_, c) => out.push(c),
            }
        }
        out
    }
}

/// Few labels, so that names are often alike in part; `com` twice, so that names often end alike.
const LABELS: [&str; 8] = ["a", "b", "aa", "a-b", "xn--bcher-kva", "com", "com", "example"];

fn name(dice: &mut Dice, least: usize) -> Vec<&'static str> {
    (0..least + dice.roll(3)).map(|_| dice.one(&LABELS)).collect()
}

/// The rule in its plainest form, over the labels that the texts were made of.
fn oracle(below: bool, labels: &[&str], port: Option<u16>, host: &[&str], at: u16) -> bool {
    let same_port = port.is_none_or(|port| port == at);
    let same_host = match below {
        true => host.len() > labels.len() && host[host.len() - labels.len()..] == *labels,
        false => host == labels,
    };
    same_port && same_host
}

#[test]
fn agrees_with_a_plain_rule_however_both_are_spelled() {
    let mut dice = Dice(3);
    let (mut yes, mut no) = (0, 0);
    for _ in 0..20_000 {
        let below = dice.roll(2) == 0;
        let labels = name(&mut dice, 1 + usize::from(below));
        let port = [None, None, Some(443), Some(8080)][dice.roll(4)];
        // Half of the hosts are made from the pattern's own, or nothing would ever match.
        let host: Vec<&str> = match dice.roll(2) {
            0 => name(&mut dice, 1),
            _ => (0..dice.roll(3))
                .map(|_| LABELS[0])
                .chain(labels.iter().copied())
                .collect(),
        };
        let at = [443, 443, 8080, 8443][dice.roll(4)];

        let star = if below { "*." } else { "" };
        let colon = port.map_or(String::new(), |port| format!(":{port}"));
        let dot = dice.one(&["", "", "."]);
        let text = format!("{star}{}{dot}{colon}", dice.spelled(&labels.join(".")));
        let colon = if at == 443 && dice.roll(2) == 0 {
            String::new()
        } else {
            format!(":{at}")
        };
        let dot = dice.one(&["", "", "."]);
        let address = format!("https://{}{dot}{colon}/", dice.spelled(&host.join(".")));
        let url = Url::parse(&address).unwrap();

        let want = oracle(below, &labels, port, &host, at);
        assert_eq!(pattern(&text).matches(&url), want, "{text} {address}");
        assert_eq!(pattern(&pattern(&text).to_string()), pattern(&text), "{text}");
        if want { yes += 1 } else { no += 1 }
    }
    assert!(yes > 2000 && no > 2000, "{yes} {no}");
}

#[test]
fn no_text_is_too_odd_to_be_answered() {
    let parts = [
        "*", ".", ":", "[", "]", "::", "a", "127", "0x", "1", "%", "%2e", "@", "/", "ß", "\u{202e}", "é", "。", "-",
        "xn--", "80", " ",
    ];
    let mut dice = Dice(7);
    let mut read = 0;
    for _ in 0..50_000 {
        let text: String = (0..dice.roll(9)).map(|_| dice.one(&parts)).collect();
        if let Ok(pattern) = HostPattern::parse(&text) {
            read += 1;
            let shown = pattern.to_string();
            assert_eq!(HostPattern::parse(&shown).as_ref(), Ok(&pattern), "{text:?} {shown:?}");
            assert!(!shown.trim_start_matches("*.").contains('*'), "{text:?} {shown:?}");
            // Whatever it names, its own host is matched and one that only ends like it is not.
            let host = shown.replacen("*.", "w.", 1);
            let url = Url::parse(&format!("http://{host}/")).unwrap();
            assert!(pattern.matches(&url), "{text:?} {url}");
            if let Ok(near) = Url::parse(&format!("http://evil-{}/", shown.trim_start_matches("*."))) {
                assert!(!pattern.matches(&near), "{text:?} {near}");
            }
        }
    }
    assert!(read > 1000, "{read}");
}
