//! Whatever stands in an address, in what was pasted as a key, or in a file on the disk: no panic, and no key where it does
//! not belong.

use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use secrets::{Bound, Keychain, Origin, Places, Secret, Store, Vault, VaultError};
use url::Url;

fn segments() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,3}",
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just("%2e%2E".to_owned()),
        1 => Just("..%2f".to_owned()),
        1 => Just("%5c..".to_owned()),
        1 => Just("v1".to_owned()),
        1 => Just(String::new()),
        1 => "\\PC{0,4}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.iter().map(|piece| format!("/{piece}")).collect())
}

/// The path as a careless server reads it: escapes first, dots after.
fn read_carelessly(path: &str) -> Vec<String> {
    let mut text = path.to_owned();
    for _ in 0..3 {
        for (escape, plain) in [
            ("%2e", "."),
            ("%2E", "."),
            ("%2f", "/"),
            ("%2F", "/"),
            ("%5c", "/"),
            ("%5C", "/"),
            ("\\", "/"),
            ("%25", "%"),
        ] {
            text = text.replace(escape, plain);
        }
    }
    let mut kept: Vec<String> = Vec::new();
    for segment in text.split('/').filter(|segment| !segment.is_empty() && *segment != ".") {
        match segment {
            ".." => _ = kept.pop(),
            segment => kept.push(segment.to_owned()),
        }
    }
    kept
}

proptest! {
    #[test]
    fn a_gateways_key_is_not_led_out_of_its_path(path in segments()) {
        let bound = Bound::of(&Url::parse("https://gw.example/acct/one/v1").unwrap()).unwrap();
        for text in [format!("https://gw.example{path}"), format!("https://gw.example/acct/one{path}")] {
            let Ok(url) = Url::parse(&text) else { continue };
            if bound.covers(&url) {
                let read = read_carelessly(url.path());
                prop_assert!(read.len() >= 2 && read[0] == "acct" && read[1] == "one", "{text} is read as {read:?}");
            }
        }
    }

    #[test]
    fn what_is_bound_covers_its_own_address_and_is_read_back(path in "(/[a-zA-Z0-9._~-]{1,8}){0,5}", port in 1u16..) {
        let url = Url::parse(&format!("http://gw.example:{port}{path}")).unwrap();
        let bound = Bound::of(&url).unwrap();
        prop_assert!(bound.covers(&url), "{url} is not covered by {bound}");
        prop_assert_eq!(Bound::parse(&bound.to_string()).unwrap(), bound.clone());
        prop_assert_eq!(bound.origin(), &Origin::of(&url).unwrap());
        let other = Url::parse(&format!("http://gw.example:{}{path}", port ^ 1)).unwrap();
        prop_assert!(!bound.covers(&other));
    }

    #[test]
    fn any_text_is_a_key_or_none(text in "\\PC{0,40}|[ -~]{0,60}|(?s).{0,20}") {
        let vault = Vault::open(Keychain::None, "chrysalis-test");
        let origin = Origin::parse("https://models.example").unwrap();
        let put = vault.put("c", origin.clone(), Secret::new(text.clone()));
        let at = Url::parse("https://models.example/v1").unwrap();
        let kept = vault.handle("c", &origin).and_then(|key| key.reveal_to_net(&at));
        prop_assert_eq!(put.is_ok(), kept.is_some());
        if let Some(key) = kept {
            let key = key.expose_to_net();
            prop_assert!(key.iter().all(u8::is_ascii_graphic) && !key.is_empty());
            prop_assert!(text.contains(std::str::from_utf8(key).unwrap()), "it was changed");
        }
    }
}

proptest! {
    // Each case flushes some files to the disk.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_bytes_in_the_files_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "(a/c|#| |\t|https://h|\\PC|\n){0,30}") {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.keys");
        for bytes in [bytes, text.into_bytes()] {
            for name in ["keys.enc", "ledger.json", "server.keys"] {
                let path = folder.path().join(name);
                std::fs::write(&path, &bytes).unwrap();
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            }
            for file in [None, Some(file.clone())] {
                let is_file = file.is_some();
                let places = Places { folder: Some(folder.path().to_owned()), file };
                let vault = Vault::open_in(Keychain::None, "chrysalis-test", places, Vec::new);
                let origin = Origin::parse("https://h").unwrap();
                let _ = vault.handle("a/c", &origin);
                let _ = vault.unlock(Some(&Secret::new("passphrase".into())));
                let _ = vault.keys();
                if is_file {
                    // A key that is saved there is read from there, and what else stands in it stays. Where there is
                    // something and no line of it is one of keys, nothing is written.
                    let put = vault.put("a/c", origin.clone(), Secret::new("sk-1".into()));
                    if let Err(VaultError::NotSaved(why)) = &put {
                        prop_assert!(why.contains("somebody else's"), "{}", why);
                        prop_assert_eq!(std::fs::read(folder.path().join("server.keys")).unwrap(), bytes.clone());
                        continue;
                    }
                    prop_assert_eq!(put, Ok(Store::File));
                    let again = Vault::open_in(
                        Keychain::None,
                        "chrysalis-test",
                        Places { folder: None, file: Some(folder.path().join("server.keys")) },
                        Vec::new,
                    );
                    prop_assert!(again.handle("a/c", &origin).is_some());
                    prop_assert_eq!(again.forget("a/c"), Ok(None));
                    let left = std::fs::read(folder.path().join("server.keys")).unwrap();
                    prop_assert!(!left.windows(4).any(|part| part == b"sk-1"));
                }
            }
        }
    }
}
