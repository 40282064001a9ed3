//! A pattern on the first line, an address on the second. The answer is compared with that of a slow reading of the
//! rules: labels from the right, one by one.

use std::net::IpAddr;

use net::HostPattern;
use url::{Host, Url};

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (first, second) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(pattern) = HostPattern::parse(first) else { return };

    let shown = pattern.to_string();
    let again = HostPattern::parse(&shown).expect("the one spelling is a pattern");
    assert_eq!(again, pattern, "{shown:?} from {first:?}");
    assert_eq!(again.to_string(), shown);
    assert_eq!(again.is_local(), pattern.is_local());
    assert!(!shown.contains(['/', '@', '\\', ' ', '?', '#']), "{shown:?}");

    // As it came, and as the host of an address, so that the two lines meet more often.
    for address in [
        second.to_owned(),
        format!("https://{second}/path"),
        format!("http://{second}"),
    ] {
        let Ok(url) = Url::parse(&address) else { continue };
        let expected = allowed(&shown, &url);
        assert_eq!(pattern.matches(&url), expected, "{shown:?} and {url}");
    }
}

/// Whether the canonical text of a pattern names the host of an address.
fn allowed(shown: &str, url: &Url) -> bool {
    let (named, port) = match shown.rsplit_once(':') {
        Some((named, port)) if !port.ends_with(']') => (named, Some(port.parse::<u16>().expect("a port"))),
        _ => (shown, None),
    };
    if port.is_some() && port != url.port_or_known_default() {
        return false;
    }
    let name = match url.host() {
        None => return false,
        // Under a scheme that the URL standard does not know, digits are a name, and no address.
        Some(Host::Domain(_)) if named.parse::<IpAddr>().is_ok() => return false,
        Some(Host::Domain(name)) => name,
        Some(address) => return address.to_string() == named,
    };
    let of = |name: &str| -> Vec<String> {
        let mut labels: Vec<String> = name.split('.').map(str::to_owned).collect();
        labels.reverse();
        labels
    };
    // The dot of the root at the end of a name means the same name.
    let labels = of(name.trim_end_matches('.'));
    match named.strip_prefix("*.") {
        None => of(named) == labels,
        Some(suffix) => {
            let suffix = of(suffix);
            labels.len() > suffix.len()
                && labels.starts_with(&suffix)
                && labels[suffix.len()..].iter().all(|label| !label.is_empty())
        }
    }
}
