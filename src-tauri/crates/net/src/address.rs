//! Which addresses may be connected to. Both lists name what is allowed or what the registries reserve (IANA special
//! purpose registries for IPv4 and IPv6, as of 2025) and refuse the rest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use secrets::Origin;
use url::{Host, Url};

use crate::HostPattern;

/// How far a request may go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reach {
    /// Public addresses only.
    Public,
    /// The owner typed this very address: it may also be on this machine or in a private network, for this scheme, host
    /// and port alone. Link-local, metadata, multicast and unspecified addresses stay refused, and so does a public
    /// *name* with a private address behind it: that is what a rebinding attack looks like.
    Named(Origin),
    /// What a plugin was granted, host by host. Nothing else.
    Granted(Granted),
}

/// The hosts that were granted. The default is none at all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Granted {
    /// Hosts on the internet: they match by name, and must then have public addresses only.
    pub hosts: Arc<[HostPattern]>,
    /// Hosts in the local network or on this machine: where one of these names the host (and the port, if it says
    /// one), its addresses may be private or loopback too. `localhost` and names below it may lead to loopback alone.
    /// A wildcard vouches for private addresses only below `localhost`, `local`, `lan`, `internal` and `home.arpa`.
    /// Link-local, metadata, multicast and unspecified addresses stay refused whatever is listed.
    pub local: Arc<[HostPattern]>,
    /// Restrictions from above: each of these lists must match as well. An empty list matches nothing.
    pub also: Vec<Arc<[HostPattern]>>,
}

/// Which addresses may stand behind one particular host: what a [`Reach`] comes down to once the URL is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    /// Public ones.
    Public,
    /// The owner typed the host: public ones, and others as far as the host looks local.
    Typed,
    /// The host was granted as a local one: public, private and loopback.
    Local,
}

/// Cloud metadata services that sit outside the link-local range: Alibaba, Oracle, Azure.
const METADATA_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(168, 63, 129, 16),
];
/// The same for IPv6: Amazon, Google.
const METADATA_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254),
    Ipv6Addr::new(0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254),
];

fn v4_in(address: Ipv4Addr, net: [u8; 4], bits: u32) -> bool {
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    u32::from(address) & mask == u32::from(Ipv4Addr::from(net)) & mask
}

fn v6_in(address: Ipv6Addr, net: Ipv6Addr, bits: u32) -> bool {
    let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
    u128::from(address) & mask == u128::from(net) & mask
}

fn public_v4(address: Ipv4Addr) -> bool {
    const RESERVED: [([u8; 4], u32); 14] = [
        ([0, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        ([100, 64, 0, 0], 10),
        ([127, 0, 0, 0], 8),
        ([169, 254, 0, 0], 16),
        ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([192, 168, 0, 0], 16),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        ([224, 0, 0, 0], 3),
    ];
    !METADATA_V4.contains(&address) && !RESERVED.iter().any(|(net, bits)| v4_in(address, *net, *bits))
}

fn public_v6(address: Ipv6Addr) -> bool {
    let net = |a, b| Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0);
    v6_in(address, net(0x2000, 0), 3)
        && !v6_in(address, net(0x2001, 0), 23)
        && !v6_in(address, net(0x2001, 0x0db8), 32)
        && !v6_in(address, net(0x2002, 0), 16)
        && !v6_in(address, net(0x3fff, 0), 20)
}

/// Whether an address may be reached by anyone who may use the internet.
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => public_v4(v4),
        // An IPv4-mapped address is outside 2000::/3 and therefore refused, whatever it maps to.
        IpAddr::V6(v6) => public_v6(v6),
    }
}

/// Loopback, including its IPv4-mapped spelling.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether an address may be reached because the owner named it: public ones, loopback, the private ranges (RFC 1918,
/// RFC 4193) and 100.64/10, where overlay networks such as Tailscale live.
pub(crate) fn is_nameable(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            !METADATA_V4.contains(&v4)
                && (public_v4(v4) || v4.is_loopback() || v4.is_private() || v4_in(v4, [100, 64, 0, 0], 10))
        }
        IpAddr::V6(v6) => {
            !METADATA_V6.contains(&v6)
                && (public_v6(v6) || v6.is_loopback() || v6_in(v6, Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7))
        }
    }
}

/// A name that can only mean something near by: `localhost`, `*.localhost`, `*.local`, or a single label.
pub(crate) fn is_local_name(host: &str) -> bool {
    is_localhost(host) || host.ends_with(".local") || !host.contains('.')
}

/// Names that mean this machine (RFC 6761).
pub(crate) fn is_localhost(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

impl Reach {
    /// What may stand behind this URL's host, or why the URL is out of reach altogether.
    pub(crate) fn span(&self, url: &Url, origin: &Origin) -> Result<Span, String> {
        match self {
            Reach::Public => Ok(Span::Public),
            Reach::Named(named) if named == origin => Ok(Span::Typed),
            Reach::Named(named) => Err(format!("only {named} was allowed for this request")),
            Reach::Granted(granted) => granted.span(url),
        }
    }
}

impl Granted {
    fn span(&self, url: &Url) -> Result<Span, String> {
        let host = url.host().as_ref().map_or_else(String::new, Host::to_string);
        let among = |list: &[HostPattern]| list.iter().any(|pattern| pattern.matches(url));
        let local = self
            .local
            .iter()
            .any(|pattern| pattern.matches(url) && pattern.vouches());
        if !local && !among(&self.hosts) && !among(&self.local) {
            let all: Vec<String> = self
                .hosts
                .iter()
                .chain(self.local.iter())
                .map(ToString::to_string)
                .collect();
            let field = field_for(url);
            return Err(match all.as_slice() {
                [] => format!("no host is allowed here; list {host} in the plugin's manifest ({field})"),
                all => format!(
                    "{host} is not among what is allowed ({}); list it in the plugin's manifest ({field}) and allow the \
                     plugin again",
                    listed(all)
                ),
            });
        }
        if !self.also.iter().all(|list| among(list)) {
            return Err(format!("{host} is not among the hosts that config.toml allows"));
        }
        Ok(if local { Span::Local } else { Span::Public })
    }
}

/// Whether a URL's host is near by as it is written: an address that is not public, or a name that only means something
/// in one's own network.
pub(crate) fn looks_local(url: &Url) -> bool {
    const LOCAL: [&str; 3] = [".lan", ".internal", ".home.arpa"];
    match url.host() {
        Some(Host::Ipv4(v4)) => !is_public(v4.into()),
        Some(Host::Ipv6(v6)) => !is_public(v6.into()),
        Some(Host::Domain(name)) => is_local_name(name) || LOCAL.iter().any(|end| name.ends_with(end)),
        None => false,
    }
}

/// Where a plugin's manifest would list this URL's host.
fn field_for(url: &Url) -> &'static str {
    if looks_local(url) { "localHosts" } else { "networkHosts" }
}

/// The first few of a list, for a message.
fn listed(all: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = all[..all.len().min(SHOWN)].join(", ");
    if all.len() > SHOWN {
        text += ", …";
    }
    text
}

impl Span {
    /// Whether a connection to `host` may go to `address`, one of the answers for it (or the address it spells out).
    pub(crate) fn allows(self, host: &str, literal: bool, address: IpAddr) -> bool {
        match self {
            Span::Public => is_public(address),
            Span::Typed | Span::Local if literal => is_nameable(address),
            Span::Typed | Span::Local if is_localhost(host) => is_loopback(address),
            Span::Local => is_nameable(address),
            Span::Typed if is_local_name(host) => is_nameable(address),
            Span::Typed => is_public(address),
        }
    }

    /// Why an address outside the span is refused.
    pub(crate) fn out_of_reach(self) -> &'static str {
        match self {
            Span::Public => "it is not a public internet address",
            Span::Typed | Span::Local => "link-local, metadata, multicast and reserved addresses are never contacted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn public_and_reserved() {
        for good in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "100.63.255.255",
            "100.128.0.0",
            "172.32.0.1",
            "223.255.255.254",
            "2606:4700::1111",
            "2001:200::1",
            "2a00::1",
        ] {
            assert!(is_public(ip(good)), "{good}");
            assert!(is_nameable(ip(good)), "{good}");
        }
        for bad in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "168.63.129.16",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:808:808::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
            "5f00::1",
        ] {
            assert!(!is_public(ip(bad)), "{bad}");
        }
    }

    #[test]
    fn what_the_owner_may_name() {
        for good in [
            "127.0.0.1",
            "127.8.8.8",
            "10.10.0.88",
            "172.16.0.1",
            "192.168.1.2",
            "100.101.102.103",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:192.168.0.1",
            "fd12::1",
        ] {
            assert!(is_nameable(ip(good)), "{good}");
        }
        for bad in [
            "0.0.0.0",
            "0.0.0.1",
            "169.254.169.254",
            "169.254.0.1",
            "168.63.129.16",
            "100.100.100.200",
            "192.0.0.192",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::ffff:169.254.169.254",
            "::ffff:0.0.0.0",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "::169.254.169.254",
        ] {
            assert!(!is_nameable(ip(bad)), "{bad}");
        }
    }

    #[test]
    fn a_name_reaches_what_it_looks_like() {
        for (host, literal, address, want) in [
            ("localhost", false, "127.0.0.1", true),
            ("localhost", false, "192.168.0.1", false),
            ("models.localhost", false, "::1", true),
            ("box", false, "192.168.0.1", true),
            ("box.local", false, "10.0.0.1", true),
            ("box.local", false, "169.254.1.1", false),
            ("example.com", false, "127.0.0.1", false),
            ("example.com", false, "192.168.0.1", false),
            ("example.com", false, "93.184.216.34", true),
            ("notlocalhost.com", false, "127.0.0.1", false),
            ("10.0.0.1", true, "10.0.0.1", true),
            ("169.254.169.254", true, "169.254.169.254", false),
        ] {
            assert_eq!(Span::Typed.allows(host, literal, ip(address)), want, "{host} {address}");
        }
        for (host, literal, address, want) in [
            ("localhost", false, "127.0.0.1", true),
            ("localhost", false, "10.0.0.1", false),
            ("nas.example.com", false, "10.0.0.1", true),
            ("nas.example.com", false, "127.0.0.1", true),
            ("nas.example.com", false, "93.184.216.34", true),
            ("nas.example.com", false, "169.254.169.254", false),
            ("nas.example.com", false, "0.0.0.0", false),
            ("10.0.0.1", true, "10.0.0.1", true),
            ("169.254.169.254", true, "169.254.169.254", false),
        ] {
            assert_eq!(Span::Local.allows(host, literal, ip(address)), want, "{host} {address}");
        }
        assert!(!Span::Public.allows("localhost", false, ip("127.0.0.1")));
    }
}
