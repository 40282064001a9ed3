use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// Failures for one name before it waits (contract section 7).
pub const PER_NAME: u32 = 5;
/// Failures from one address before it waits, whatever the names (contract section 7).
pub const PER_ADDRESS: u32 = 20;
/// How long it waits then (contract section 7).
pub const LOCK: Duration = Duration::from_secs(30);

/// Failures older than this no longer count.
const FORGET: Duration = Duration::from_secs(15 * 60);
/// Most names and most addresses remembered; about 100 bytes each. With [`PER_ADDRESS`] per [`LOCK`], one address needs
/// an hour and a half to push a name out, which is longer than any lock.
const REMEMBERED: usize = 4096;

/// Too many failures: answer 429 with `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many attempts: wait {} seconds and try again", self.seconds())]
pub struct Locked {
    /// How long from now.
    pub wait: Duration,
}

impl Locked {
    /// [`Locked::wait`] in whole seconds, rounded up: the value of `Retry-After`.
    pub fn seconds(&self) -> u64 {
        self.wait.as_millis().div_ceil(1000) as u64
    }
}

#[derive(Clone, Copy)]
struct Count {
    failures: u32,
    last: Instant,
    until: Option<Instant>,
}

type Key = [u8; 16];

/// Slows down guessing of passwords, per name and per address. Memory is bounded; time is passed in.
///
/// An attempt counts as failed when it starts, and is taken back when it succeeds: a thousand guesses sent at once are
/// not all let through before the first of them has been counted.
#[derive(Default)]
pub struct Throttle {
    counts: Mutex<(HashMap<Key, Count>, HashMap<Key, Count>)>,
}

impl Throttle {
    pub fn new() -> Self {
        Self::default()
    }

    /// Before looking at a password that `address` presents for `name` (as typed; case makes no difference, nor does
    /// whether there is such a person). Refused while either is locked; a refused attempt does not count.
    pub fn begin(&self, name: &str, address: IpAddr, now: Instant) -> Result<(), Locked> {
        let (name, address) = (name_key(name), address_key(address));
        let mut counts = self.counts.lock();
        let (names, addresses) = &mut *counts;
        let waits = [waiting(names, &name, now), waiting(addresses, &address, now)];
        if let Some(wait) = waits.into_iter().flatten().max() {
            return Err(Locked { wait });
        }
        count(names, name, PER_NAME, now);
        count(addresses, address, PER_ADDRESS, now);
        Ok(())
    }

    /// The attempt was right: the name starts afresh, and this attempt no longer counts against the address. (The
    /// address's earlier failures stay, or signing in to one's own account would buy guesses at another's.)
    pub fn succeeded(&self, name: &str, address: IpAddr) {
        let mut counts = self.counts.lock();
        let (names, addresses) = &mut *counts;
        names.remove(&name_key(name));
        let address = address_key(address);
        if let Some(entry) = addresses.get_mut(&address) {
            entry.failures = entry.failures.saturating_sub(1);
            entry.until = None;
            if entry.failures == 0 {
                addresses.remove(&address);
            }
        }
    }
}

/// Fixed size, whatever the length of what was typed.
fn name_key(name: &str) -> Key {
    short(name.to_ascii_lowercase().as_bytes())
}

/// An IPv4 address however it is written; of IPv6 the network half, since one machine owns all of the other half.
fn address_key(address: IpAddr) -> Key {
    match address.to_canonical() {
        IpAddr::V4(v4) => short(&v4.octets()),
        IpAddr::V6(v6) => short(&v6.octets()[..8]),
    }
}

fn short(bytes: &[u8]) -> Key {
    let mut key = [0u8; 16];
    key.copy_from_slice(&Sha256::digest(bytes)[..16]);
    key
}

fn waiting(counts: &HashMap<Key, Count>, key: &Key, now: Instant) -> Option<Duration> {
    let wait = counts.get(key)?.until?.saturating_duration_since(now);
    (!wait.is_zero()).then_some(wait)
}

fn count(counts: &mut HashMap<Key, Count>, key: Key, limit: u32, now: Instant) {
    if !counts.contains_key(&key) && counts.len() >= REMEMBERED {
        make_room(counts, now);
    }
    let entry = counts.entry(key).or_insert(Count {
        failures: 0,
        last: now,
        until: None,
    });
    let stale = now.saturating_duration_since(entry.last) > FORGET;
    if entry.until.is_some() || stale {
        // A lock that is over (one that is not never gets here): count afresh.
        entry.failures = 0;
        entry.until = None;
    }
    entry.failures += 1;
    entry.last = now;
    if entry.failures >= limit {
        entry.until = Some(now + LOCK);
    }
}

/// Drops what no longer counts, else the entry that has been quiet longest, a locked one last of all.
fn make_room(counts: &mut HashMap<Key, Count>, now: Instant) {
    counts.retain(|_, entry| now.saturating_duration_since(entry.last) <= FORGET);
    if counts.len() >= REMEMBERED {
        let oldest = counts
            .iter()
            .min_by_key(|(_, e)| (e.until.is_some_and(|u| u > now), e.last));
        if let Some(key) = oldest.map(|(key, _)| *key) {
            counts.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn other(n: u32) -> IpAddr {
        IpAddr::V4(std::net::Ipv4Addr::from(0x0a00_0000 + n))
    }

    #[test]
    fn five_failures_lock_a_name_for_thirty_seconds() {
        let (throttle, start) = (Throttle::new(), Instant::now());
        for n in 0..PER_NAME {
            assert_eq!(throttle.begin("zoe", other(n), start), Ok(()));
        }
        let locked = throttle.begin("ZOE", other(9), start + Duration::from_millis(500));
        assert_eq!(
            locked.unwrap_err().seconds(),
            30,
            "case makes no difference, nor does the address"
        );
        assert_eq!(throttle.begin("max", other(9), start), Ok(()), "others go on");
        let nearly = start + LOCK - Duration::from_millis(1);
        assert_eq!(throttle.begin("zoe", HOME, nearly).unwrap_err().seconds(), 1);
        // Refused attempts did not lengthen it; afterwards five more.
        for n in 0..PER_NAME {
            assert_eq!(throttle.begin("zoe", other(n), start + LOCK), Ok(()), "{n}");
        }
        assert!(throttle.begin("zoe", HOME, start + LOCK).is_err());
    }

    #[test]
    fn twenty_failures_lock_an_address() {
        let (throttle, now) = (Throttle::new(), Instant::now());
        for n in 0..PER_ADDRESS {
            assert_eq!(throttle.begin(&format!("name{n}"), HOME, now), Ok(()));
        }
        let mapped: IpAddr = "::ffff:127.0.0.1".parse().unwrap();
        assert!(throttle.begin("new", HOME, now).is_err());
        assert!(throttle.begin("new", mapped, now).is_err());
        assert_eq!(throttle.begin("new", other(1), now), Ok(()));
        assert_eq!(throttle.begin("new", HOME, now + LOCK), Ok(()));
    }

    #[test]
    fn one_ipv6_network_is_one_address() {
        let (throttle, now) = (Throttle::new(), Instant::now());
        for n in 0..PER_ADDRESS {
            let address = format!("2001:db8::{n:x}").parse().unwrap();
            assert_eq!(throttle.begin(&format!("name{n}"), address, now), Ok(()));
        }
        assert!(throttle.begin("x", "2001:db8::ffff".parse().unwrap(), now).is_err());
        assert!(throttle.begin("x", "2001:db8:0:1::1".parse().unwrap(), now).is_ok());
    }

    #[test]
    fn success_frees_the_name_but_buys_the_address_nothing() {
        let (throttle, now) = (Throttle::new(), Instant::now());
        for _ in 0..PER_NAME {
            throttle.begin("zoe", HOME, now).unwrap();
        }
        // The fifth attempt was right: no lock.
        throttle.succeeded("Zoe", HOME);
        assert_eq!(throttle.begin("zoe", other(1), now), Ok(()));
        // Four failures so far from HOME. Own sign-ins between guesses do not reset them.
        for n in 0..PER_ADDRESS - 4 {
            throttle.begin("me", HOME, now).unwrap();
            throttle.succeeded("me", HOME);
            throttle.begin(&format!("guess{n}"), HOME, now).unwrap();
        }
        assert!(throttle.begin("me", HOME, now).is_err());
    }

    #[test]
    fn old_failures_are_forgotten() {
        let (throttle, now) = (Throttle::new(), Instant::now());
        for _ in 0..PER_NAME - 1 {
            throttle.begin("zoe", HOME, now).unwrap();
        }
        let later = now + FORGET + Duration::from_secs(1);
        for _ in 0..PER_NAME - 1 {
            throttle.begin("zoe", HOME, later).unwrap();
        }
        assert_eq!(throttle.begin("zoe", HOME, later), Ok(()));
    }

    #[test]
    fn memory_is_bounded_and_locks_outlast_a_flood_of_names() {
        let (throttle, now) = (Throttle::new(), Instant::now());
        for n in 0..PER_NAME {
            throttle.begin("zoe", other(n), now).unwrap();
        }
        let soon = now + Duration::from_secs(1);
        for n in 0..(REMEMBERED as u32 * 2) {
            let long = format!("{n}{}", "x".repeat(1000));
            throttle.begin(&long, other(100 + n), soon).unwrap();
        }
        let counts = throttle.counts.lock();
        assert_eq!((counts.0.len(), counts.1.len()), (REMEMBERED, REMEMBERED));
        drop(counts);
        assert!(throttle.begin("zoe", HOME, soon).is_err());
    }

    #[test]
    fn guesses_at_the_same_moment_are_counted_one_by_one() {
        let (throttle, now) = (Throttle::new(), Instant::now());
        let passed = std::thread::scope(|scope| {
            let tries: Vec<_> = (0..32u32)
                .map(|n| {
                    let throttle = &throttle;
                    scope.spawn(move || throttle.begin("zoe", other(n), now).is_ok())
                })
                .collect();
            tries.into_iter().filter_map(|t| t.join().ok()).filter(|ok| *ok).count()
        });
        assert_eq!(passed, PER_NAME as usize);
    }
}
