//! After a key was forgotten, moved or locked away, no copy of it is left in this process. A program of its own: nothing
//! else here may hold the key.
#![cfg(target_os = "linux")]

use std::io::{Read, Seek, SeekFrom};

use secrets::{Bound, Keychain, Places, Secret, Store, Vault};
use url::Url;

/// What is looked for is kept inverted, so that the search does not find itself.
struct Needle(Vec<u8>);

impl Needle {
    fn random() -> Self {
        let text = policy::random_hex(24);
        let inverted = text.bytes().map(|byte| !byte).collect();
        // Wiped like any key.
        drop(Secret::new(text));
        Self(inverted)
    }

    fn key(&self) -> Secret {
        let mut bytes = Vec::with_capacity(self.0.len());
        bytes.extend(self.0.iter().map(|byte| !byte));
        Secret::from_bytes(bytes)
    }

    fn places(&self) -> usize {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut memory = std::fs::File::open("/proc/self/mem").unwrap();
        let mut found = 0;
        let mut bytes = Vec::new();
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [from, to] = [from, to].map(|text| u64::from_str_radix(text, 16).unwrap());
            // Inverted at once, in place: a buffer of what was read would be found by the next search.
            bytes.clear();
            bytes.resize((to - from) as usize, 0);
            if memory.seek(SeekFrom::Start(from)).is_err() || memory.read_exact(&mut bytes).is_err() {
                continue;
            }
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            found += bytes.windows(self.0.len()).filter(|window| *window == self.0).count();
            bytes.fill(0);
        }
        found
    }
}

#[test]
fn nothing_of_a_key_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let places = Places {
        folder: Some(folder.path().to_owned()),
        file: None,
    };
    let needle = Needle::random();
    let bound = Bound::of(&Url::parse("https://models.example/v1").unwrap()).unwrap();
    let vault = Vault::open_in(Keychain::None, "chrysalis-test", places, Vec::new);
    assert_eq!(needle.places(), 0);
    vault.put("a/c", bound.clone(), needle.key()).unwrap();
    assert!(needle.places() > 0, "a search that finds nothing would prove nothing");
    vault.forget("a/c").unwrap();
    assert_eq!(needle.places(), 0, "after it was forgotten");

    let phrase = Secret::new("a long passphrase".into());
    vault.put("a/c", bound.clone(), needle.key()).unwrap();
    vault.choose(Store::Encrypted, Some(&phrase), false).unwrap();
    assert!(needle.places() > 0);
    vault.lock();
    assert_eq!(needle.places(), 0, "after it was locked away");
    vault.unlock(Some(&phrase)).unwrap();
    assert!(vault.handle("a/c", &bound).is_some());
    assert!(needle.places() > 0);
    vault.put("a/c", bound, Secret::new("another-key".into())).unwrap();
    assert_eq!(needle.places(), 0, "after it was replaced");
}
