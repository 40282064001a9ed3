//! The vault without any keychain: what it accepts, binds, replaces and hides.

use std::collections::HashSet;

use policy::{AccountId, AppId, PluginId};
use secrets::{Bound, KeyHandle, Keychain, MAX_KEY_BYTES, Origin, Secret, Store, Vault, VaultError, plugin_secret_id};
use url::Url;

fn origin(text: &str) -> Origin {
    Origin::parse(text).unwrap()
}

fn reveal(handle: &KeyHandle, at: &Origin) -> Option<Secret> {
    handle.reveal_to_net(&Url::parse(&at.to_string()).unwrap())
}

fn vault() -> Vault {
    Vault::open(Keychain::None, "chrysalis-test")
}

#[test]
fn switched_off_is_said() {
    let vault = vault();
    assert!(!vault.status().usable);
    assert!(vault.status().reason.unwrap().contains("switched off"));
    assert_eq!(
        vault.put("c", origin("http://h"), Secret::new("k".into())),
        Ok(Store::Run)
    );
}

#[test]
fn what_is_no_key_is_refused_and_the_old_one_stays() {
    let vault = vault();
    let here = origin("http://h");
    vault.put("c", here.clone(), Secret::new("good".into())).unwrap();
    for (bad, want) in [
        (String::new(), VaultError::Empty),
        (" \n\t".into(), VaultError::Empty),
        ("x".repeat(MAX_KEY_BYTES + 1), VaultError::TooLong),
        ("a\r\nX-Evil: b".into(), VaultError::LineBreak),
        ("a b".into(), VaultError::Characters),
        ("schlüssel".into(), VaultError::Characters),
        ("a\0b".into(), VaultError::Characters),
    ] {
        assert_eq!(vault.put("c", here.clone(), Secret::new(bad)), Err(want));
    }
    let bytes = Secret::from_bytes(vec![0xff, 0xfe]);
    assert_eq!(vault.put("c", here.clone(), bytes), Err(VaultError::Characters));
    let key = reveal(&vault.handle("c", &here).unwrap(), &here).unwrap();
    assert_eq!(key.expose_to_net(), b"good");
    assert!(vault.put("c", here, Secret::new("x".repeat(MAX_KEY_BYTES))).is_ok());
}

#[test]
fn a_key_follows_its_origin_and_nothing_else() {
    let vault = vault();
    let (old, new) = (origin("https://old.example"), origin("https://new.example"));
    vault.put("c", old.clone(), Secret::new("old-key".into())).unwrap();
    let handle = vault.handle("c", &old).unwrap();
    assert!(vault.handle("c", &new).is_none());
    vault.put("c", new.clone(), Secret::new("new-key".into())).unwrap();
    assert!(vault.handle("c", &old).is_none());
    assert!(reveal(&handle, &old).is_none(), "a replaced key is still given out");
    assert!(reveal(&handle, &new).is_none());
    let key = reveal(&vault.handle("c", &new).unwrap(), &new).unwrap();
    assert_eq!(key.expose_to_net(), b"new-key");
}

#[test]
fn nothing_prints_a_key() {
    let vault = vault();
    let here = origin("https://h");
    vault.put("c", here.clone(), Secret::new("sk-canary".into())).unwrap();
    let handle = vault.handle("c", &here).unwrap();
    for text in [
        format!("{vault:?}"),
        format!("{handle:?}"),
        format!("{:?}", reveal(&handle, &here)),
        handle.redact("wrong key sk-canary, sk-canary!"),
    ] {
        assert!(!text.contains("canary"), "{text}");
    }
    assert_eq!(handle.redact("other words"), "other words");
}

#[test]
fn each_plugin_has_secrets_of_its_own() {
    let accounts = [AccountId::random(), AccountId::random()];
    let apps = [AppId::parse("a").unwrap(), AppId::parse("a_b").unwrap(), AppId::shelf()];
    let plugins = ["b", "b_c", "a"].map(|id| PluginId::parse(id).unwrap());
    let mut ids = HashSet::new();
    for account in &accounts {
        for app in &apps {
            for plugin in &plugins {
                for name in ["c", "b_c", "token"] {
                    assert!(ids.insert(plugin_secret_id(account, app, plugin, name).unwrap()));
                }
            }
        }
    }
    let id = |name: &str| plugin_secret_id(&accounts[0], &apps[0], &plugins[0], name);
    assert!(id(&"x".repeat(64)).is_some());
    for bad in ["", "A", "a/b", "a b", "../a", "a\0", "ä", &"x".repeat(65)] {
        assert_eq!(id(bad), None, "{bad:?}");
    }

    let vault = vault();
    let (here, there) = (origin("https://api.example"), origin("https://api.example:8443"));
    let (mine, theirs) = (
        id("token").unwrap(),
        plugin_secret_id(&accounts[0], &apps[0], &plugins[1], "token").unwrap(),
    );
    vault.put(&mine, here.clone(), Secret::new("sk-canary".into())).unwrap();
    assert!(vault.handle(&mine, &there).is_none());
    assert!(vault.handle(&theirs, &here).is_none());
    let handle = vault.handle(&mine, &here).unwrap();
    vault.forget(&mine).unwrap();
    assert!(reveal(&handle, &here).is_none(), "a handle outlived its secret");
    assert!(vault.handle(&mine, &here).is_none());
    assert_eq!(vault.has(&mine), None);
}

#[test]
fn a_gateways_key_stays_below_its_path() {
    let vault = vault();
    let url = |text: &str| Url::parse(text).unwrap();
    let bound = |text: &str| Bound::of(&url(text)).unwrap();
    let mine = bound("https://gw.example/acct/one/v1");
    vault.put("c", &mine, Secret::new("sk-canary".into())).unwrap();
    for other in [
        "https://gw.example/acct/two",
        "https://gw.example/acct",
        "https://gw.example",
    ] {
        assert!(vault.handle("c", &bound(other)).is_none(), "{other}");
    }
    let key = vault.handle("c", &mine).unwrap();
    assert!(
        key.reveal_to_net(&url("https://gw.example/acct/one/v1/models"))
            .is_some()
    );
    for other in [
        "https://gw.example/acct/two/v1/models",
        "https://gw.example/acct/one/../two",
    ] {
        assert!(key.reveal_to_net(&url(other)).is_none(), "{other}");
    }
    assert_eq!(format!("{key:?}"), "KeyHandle(https://gw.example/acct/one)");
}
