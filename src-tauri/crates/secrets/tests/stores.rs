//! The places beside the keychain: a file under a passphrase, a file that `config.toml` names, and memory; moving between
//! them, deleting from all of them, and files that were prepared by someone else.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Instant;

use secrets::{Bound, Keychain, Places, Secret, Standing, Store, Vault, VaultError};
use serde_json::{Value, json};
use url::Url;

const CANARY: &str = "sk-canary-77aa01";
const PASSPHRASE: &str = "a long passphrase";

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// As after a start of the program, without a keychain.
    fn open(&self) -> Vault {
        self.open_with(None)
    }

    fn open_with(&self, file: Option<PathBuf>) -> Vault {
        let folder = Some(self.0.path().to_owned());
        Vault::open_in(Keychain::None, "chrysalis-test", Places { folder, file }, Vec::new)
    }

    fn sealed(&self) -> PathBuf {
        self.0.path().join("keys.enc")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.sealed()).unwrap()
    }
}

fn url() -> Url {
    Url::parse("https://models.example/acct/one/v1").unwrap()
}

fn here() -> Bound {
    Bound::of(&url()).unwrap()
}

fn phrase(text: &str) -> Secret {
    Secret::new(text.into())
}

fn put(vault: &Vault, id: &str, key: &str) -> Result<Store, VaultError> {
    vault.put(id, here(), Secret::new(key.into()))
}

fn read(vault: &Vault, id: &str) -> Option<String> {
    let key = vault.handle(id, &here())?.reveal_to_net(&url())?;
    Some(String::from_utf8(key.expose_to_net().to_vec()).unwrap())
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn nowhere(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "{}", path.display());
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

fn encrypted(home: &Home) -> Vault {
    let vault = home.open();
    assert_eq!(
        vault.choose(Store::Encrypted, Some(&phrase(PASSPHRASE)), false),
        Ok(None)
    );
    vault
}

#[test]
fn a_passphrase_keeps_keys_over_a_restart() {
    let home = Home::new();
    let vault = home.open();
    for (given, want) in [
        (None, VaultError::ShortPassphrase),
        (Some("seven77"), VaultError::ShortPassphrase),
    ] {
        let given = given.map(phrase);
        assert_eq!(vault.choose(Store::Encrypted, given.as_ref(), false), Err(want));
        assert!(!home.sealed().exists());
    }
    let vault = encrypted(&home);
    assert_eq!(put(&vault, "a/c_one", CANARY), Ok(Store::Encrypted));
    assert_eq!(put(&vault, "a/c_two", "other-key"), Ok(Store::Encrypted));
    assert_eq!(read(&vault, "a/c_one").as_deref(), Some(CANARY));
    nowhere(home.0.path());

    let vault = home.open();
    let state = vault.keys();
    assert_eq!((state.store, state.chosen), (Some(Store::Encrypted), true));
    assert!(state.encrypted.exists && !state.encrypted.unlocked);
    assert_eq!(read(&vault, "a/c_one"), None);
    assert_eq!(vault.standing("a/c_one", &here()), Standing::Locked(Store::Encrypted));
    assert_eq!(vault.standing("a/c_none", &here()), Standing::None);
    assert!(matches!(put(&vault, "a/c_new", "x"), Err(VaultError::Locked(_))));
    assert_eq!(
        vault.unlock(Some(&phrase("another phrase"))),
        Err(VaultError::WrongPassphrase)
    );
    assert_eq!(vault.unlock(None), Err(VaultError::ShortPassphrase));
    assert_eq!(vault.unlock(Some(&phrase(PASSPHRASE))), Ok(()));
    assert_eq!(read(&vault, "a/c_one").as_deref(), Some(CANARY));
    assert_eq!(vault.standing("a/c_one", &here()), Standing::Ready(Store::Encrypted));
    let other = Bound::of(&Url::parse("https://models.example/acct/two").unwrap()).unwrap();
    assert_eq!(
        vault.standing("a/c_one", &other),
        Standing::Elsewhere(Store::Encrypted, here())
    );

    // Locking takes it out of the hands of those who have it.
    let handle = vault.handle("a/c_one", &here()).unwrap();
    vault.lock();
    assert!(handle.reveal_to_net(&url()).is_none());
    assert_eq!(read(&vault, "a/c_one"), None);
    // What is deleted while it is locked is gone.
    assert_eq!(vault.forget("a/c_one"), Ok(None));
    assert!(!home.text().contains("a/c_one"));
    vault.unlock(Some(&phrase(PASSPHRASE))).unwrap();
    assert_eq!(read(&vault, "a/c_one"), None);
    assert_eq!(read(&vault, "a/c_two").as_deref(), Some("other-key"));
}

#[test]
fn every_write_has_nonces_and_a_salt_of_its_own() {
    let home = Home::new();
    let vault = encrypted(&home);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4 {
        put(&vault, "a/c", CANARY).unwrap();
        let whole: Value = serde_json::from_str(&home.text()).unwrap();
        let entry = &whole["keys"]["a/c"];
        assert!(
            seen.insert(entry["nonce"].as_str().unwrap().to_owned()),
            "a nonce was used twice"
        );
        assert!(seen.insert(entry["sealed"].as_str().unwrap().to_owned()));
    }
    let salt = |home: &Home| serde_json::from_str::<Value>(&home.text()).unwrap()["kdf"]["salt"].clone();
    let second = Home::new();
    encrypted(&second);
    assert_ne!(salt(&home), salt(&second));
}

/// Who can write to the file can damage it, but neither read it, nor point a key elsewhere, nor weaken it, nor make the
/// program take all memory.
#[test]
fn a_tampered_file_is_refused() {
    let home = Home::new();
    let vault = encrypted(&home);
    put(&vault, "a/c_one", CANARY).unwrap();
    put(&vault, "a/c_two", "other-key").unwrap();
    let good: Value = serde_json::from_str(&home.text()).unwrap();
    let after = |change: &dyn Fn(&mut Value)| {
        let mut changed = good.clone();
        change(&mut changed);
        std::fs::write(home.sealed(), changed.to_string()).unwrap();
        let vault = home.open();
        let began = Instant::now();
        let opened = vault.unlock(Some(&phrase(PASSPHRASE)));
        (opened, read(&vault, "a/c_one"), began.elapsed())
    };
    assert_eq!(after(&|_| ()).1.as_deref(), Some(CANARY));
    // The parameters are sealed in.
    let (opened, key, _) = after(&|file| file["kdf"]["passes"] = json!(4));
    assert_eq!((opened, key), (Err(VaultError::WrongPassphrase), None));
    let (opened, key, _) = after(&|file| file["kdf"]["salt"] = json!("00".repeat(16)));
    assert_eq!((opened, key), (Err(VaultError::WrongPassphrase), None));
    for (name, value) in [
        ("memoryKib", json!(100 << 20)),
        ("memoryKib", json!(u32::MAX)),
        ("memoryKib", json!(8)),
        ("memoryKib", json!(-1)),
        ("passes", json!(1_000_000)),
        ("passes", json!(0)),
        ("lanes", json!(0)),
        ("lanes", json!(100_000)),
        ("salt", json!("")),
        ("salt", json!("zz".repeat(16))),
        ("salt", json!("00".repeat(1 << 20))),
        ("name", json!("md5")),
    ] {
        let (opened, key, took) = after(&|file| file["kdf"][name] = value.clone());
        assert!(matches!(opened, Err(VaultError::Locked(_))), "{name} {opened:?}");
        assert_eq!(key, None);
        assert!(took.as_secs() < 5, "{name}: {took:?}");
    }
    // No entry takes the place of another, and no byte of one is changed.
    let (opened, key, _) = after(&|file| file["keys"]["a/c_one"] = file["keys"]["a/c_two"].clone());
    assert_eq!((opened, key), (Ok(()), None));
    for at in [0, 30, 60] {
        let (_, key, _) = after(&|file| {
            let text = file["keys"]["a/c_one"]["sealed"].as_str().unwrap().to_owned();
            let digit = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
            file["keys"]["a/c_one"]["sealed"] = json!(format!("{}{digit}{}", &text[..at], &text[at + 1..]));
        });
        assert_eq!(key, None, "{at}");
    }
    for bad in ["", "{", "[]", "\u{0}\u{0}", "{\"form\":\"chrysalis-keys-9\"}"] {
        std::fs::write(home.sealed(), bad).unwrap();
        let vault = home.open();
        assert!(
            matches!(vault.unlock(Some(&phrase(PASSPHRASE))), Err(VaultError::Locked(_))),
            "{bad:?}"
        );
        assert!(
            vault.forget("a/c_one").is_err(),
            "{bad:?}: it cannot be known that the key is gone"
        );
    }
}

#[test]
fn keys_move_with_the_choice_and_leave_nothing_behind() {
    let home = Home::new();
    let vault = home.open();
    assert_eq!(vault.keys().store, Some(Store::Run));
    assert_eq!(put(&vault, "a/c", CANARY), Ok(Store::Run));
    let handle = vault.handle("a/c", &here()).unwrap();
    vault
        .choose(Store::Encrypted, Some(&phrase(PASSPHRASE)), false)
        .unwrap();
    assert_eq!(vault.has("a/c"), Some(Store::Encrypted));
    assert!(
        handle.reveal_to_net(&url()).is_some(),
        "a request under way keeps its key"
    );
    assert!(home.text().contains("a/c"));

    // Locked away, it cannot be moved; nothing is lost by trying.
    let vault = home.open();
    let refused = vault.choose(Store::Run, None, false).unwrap_err();
    assert!(refused.to_string().contains("unlock"), "{refused}");
    assert_eq!(vault.keys().store, Some(Store::Encrypted));
    vault.unlock(Some(&phrase(PASSPHRASE))).unwrap();
    assert_eq!(vault.choose(Store::Run, None, false), Ok(None));
    assert_eq!(
        (vault.has("a/c"), read(&vault, "a/c").as_deref()),
        (Some(Store::Run), Some(CANARY))
    );
    assert!(!home.sealed().exists(), "the file was left behind");
    assert_eq!(home.open().has("a/c"), None, "kept for this run only");

    // Forgotten passphrases: only by saying so.
    let vault = encrypted(&home);
    put(&vault, "a/c", CANARY).unwrap();
    let vault = home.open();
    let new = phrase("another phrase");
    assert_eq!(
        vault.choose(Store::Encrypted, Some(&new), false),
        Err(VaultError::WrongPassphrase)
    );
    assert_eq!(
        vault.choose(Store::Encrypted, Some(&phrase("short")), true),
        Err(VaultError::ShortPassphrase)
    );
    assert!(home.text().contains("a/c"));
    assert_eq!(vault.choose(Store::Encrypted, Some(&new), true), Ok(None));
    assert_eq!((vault.has("a/c"), home.text().contains("a/c")), (None, false));
    let refused = vault.choose(Store::Keychain, None, false).unwrap_err();
    assert!(refused.to_string().contains("switched off"), "{refused}");
    assert_eq!(vault.choose(Store::File, None, false), Err(VaultError::NotConfigured));
}

/// The file cannot be written: the keys stay where they were, and are not half there.
#[test]
fn a_failed_move_loses_nothing() {
    let home = Home::new();
    let vault = home.open();
    put(&vault, "a/c", CANARY).unwrap();
    // A folder in the way of the temporary file: also root cannot write over that.
    let beside = home.0.path().join("keys.enc.chrysalis-new");
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("x"), "").unwrap();
    let error = vault
        .choose(Store::Encrypted, Some(&phrase(PASSPHRASE)), false)
        .unwrap_err();
    assert!(error.to_string().contains("keys.enc cannot be written"), "{error}");
    assert_eq!(
        (vault.keys().store, read(&vault, "a/c").as_deref()),
        (Some(Store::Run), Some(CANARY))
    );
    assert!(!home.sealed().exists());
    std::fs::remove_dir_all(&beside).unwrap();
    vault
        .choose(Store::Encrypted, Some(&phrase(PASSPHRASE)), false)
        .unwrap();
    // Nor does a failed save replace what was there.
    std::fs::create_dir(&beside).unwrap();
    std::fs::write(beside.join("x"), "").unwrap();
    assert!(matches!(put(&vault, "a/c", "newer-key"), Err(VaultError::NotSaved(_))));
    assert_eq!(read(&vault, "a/c").as_deref(), Some(CANARY));
    assert!(matches!(vault.forget("a/c"), Err(VaultError::StillKept(_))));
    assert_eq!(
        read(&vault, "a/c"),
        None,
        "what could not be removed is not used either"
    );
}

#[test]
fn a_servers_file_keeps_keys() {
    let home = Home::new();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("chrysalis.keys");
    let vault = home.open_with(Some(path.clone()));
    let state = vault.keys();
    assert_eq!((state.store, state.chosen), (Some(Store::File), true));
    assert_eq!((state.file.path, state.file.reason), (Some(path.clone()), None));
    assert_eq!(put(&vault, "a/c_one", CANARY), Ok(Store::File));
    assert_eq!(put(&vault, "a/c_two", "other-key"), Ok(Store::File));
    assert_eq!(put(&vault, "a/c_two", "newer-key"), Ok(Store::File));
    assert_eq!(mode(&path), 0o600);
    assert_eq!(vault.choose(Store::Run, None, false), Err(VaultError::Configured));

    let vault = home.open_with(Some(path.clone()));
    assert_eq!(read(&vault, "a/c_one").as_deref(), Some(CANARY));
    assert_eq!(read(&vault, "a/c_two").as_deref(), Some("newer-key"));
    assert_eq!(vault.forget("a/c_one"), Ok(None));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        !text.contains(CANARY) && !text.contains("other-key") && text.contains("a/c_two"),
        "{text}"
    );
    assert!(text.starts_with('#'), "its comment stays: {text}");

    // As a person may write it.
    std::fs::write(
        &path,
        format!("# mine\r\n\n  a/c_one   https://models.example/acct/one  {CANARY}\r\na/bad x"),
    )
    .unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    let vault = home.open_with(Some(path.clone()));
    assert_eq!(read(&vault, "a/c_one").as_deref(), Some(CANARY));
    assert_eq!(read(&vault, "a/bad"), None);
    put(&vault, "a/bad", "k").unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("# mine"));
    assert_eq!(read(&home.open_with(Some(path)), "a/bad").as_deref(), Some("k"));
}

#[test]
fn a_servers_file_that_others_could_read_or_made_is_refused() {
    let home = Home::new();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("keys");
    let refused = |want: &str| {
        let vault = home.open_with(Some(path.clone()));
        let reason = vault.keys().file.reason.unwrap_or_default();
        assert!(reason.contains(want), "{want}: {reason:?}");
        assert_eq!(read(&vault, "a/c"), None, "{want}");
        let error = put(&vault, "a/c", "new-key").unwrap_err();
        assert!(
            matches!(error, VaultError::Locked(_)) && error.to_string().contains(want),
            "{error}"
        );
    };
    let line = format!("a/c {} {CANARY}\n", here());
    std::fs::write(&path, &line).unwrap();
    for bad in [0o644, 0o640, 0o604, 0o660, 0o700, 0o400, 0o4600] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(bad)).unwrap();
        refused("must have 0600");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line, "it was changed");
    }
    std::fs::rename(&path, place.path().join("real")).unwrap();
    std::fs::set_permissions(place.path().join("real"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink(place.path().join("real"), &path).unwrap();
    refused("symbolic link");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused("not a plain file");
    std::fs::remove_dir(&path).unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a plain system call with a string that lives throughout.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let began = Instant::now();
    refused("not a plain file");
    assert!(began.elapsed().as_secs() < 5, "it waited for the other end of a FIFO");
    std::fs::remove_file(&path).unwrap();
    // SAFETY: as above.
    if unsafe { libc::geteuid() } == 0 {
        std::fs::write(&path, &line).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
        refused("belongs to user 65534");
    } else {
        eprintln!("skipped: only root can give a file to someone else");
    }
}

/// failures.md row 45, goose#9279: a key that was deleted does not come back from an older place, whichever is in use.
#[test]
fn regress_45_a_deleted_key_is_deleted_everywhere() {
    let home = Home::new();
    let vault = encrypted(&home);
    put(&vault, "a/c", CANARY).unwrap();
    let stale = home.text();
    vault.choose(Store::Run, None, false).unwrap();
    // An older copy of the file turns up again, for instance from a backup.
    std::fs::write(home.sealed(), &stale).unwrap();
    assert_eq!(vault.forget("a/c"), Ok(None));
    assert!(!home.text().contains("a/c"), "the older copy still has it");
    let vault = home.open();
    vault
        .choose(Store::Encrypted, Some(&phrase(PASSPHRASE)), false)
        .unwrap();
    assert_eq!(vault.has("a/c"), None);
    // A new key replaces the older one everywhere.
    vault.choose(Store::Run, None, false).unwrap();
    std::fs::write(home.sealed(), &stale).unwrap();
    put(&vault, "a/c", "newer-key").unwrap();
    assert!(!home.text().contains("a/c"));
}

#[test]
fn a_lost_or_damaged_ledger_is_asked_anew() {
    let home = Home::new();
    let ledger = home.0.path().join("ledger.json");
    let mut asked = 0;
    let mut open = || {
        let folder = Some(home.0.path().to_owned());
        let vault = Vault::open_in(Keychain::None, "chrysalis-test", Places { folder, file: None }, || {
            asked += 1;
            vec!["a/c_old".into()]
        });
        (vault, asked)
    };
    assert_eq!(open().1, 1);
    assert_eq!(open().1, 1, "the ledger was not kept");
    for bad in ["", "nonsense", "{\"chosen\": 7}", "{\"chosen\": \"elsewhere\"}"] {
        std::fs::write(&ledger, bad).unwrap();
        let (vault, _) = open();
        assert_eq!(vault.keys().store, Some(Store::Run), "{bad:?}");
        assert!(std::fs::read_to_string(&ledger).unwrap().contains("a/c_old"), "{bad:?}");
    }
    assert_eq!(open().1, 5);
}

#[test]
fn without_a_ledger_the_file_under_a_passphrase_still_counts() {
    for damage in [None, Some(""), Some("{\"chosen\":"), Some("[]")] {
        let home = Home::new();
        put(&encrypted(&home), "a/c", CANARY).unwrap();
        let ledger = home.0.path().join("ledger.json");
        match damage {
            Some(text) => std::fs::write(&ledger, text).unwrap(),
            None => std::fs::remove_file(&ledger).unwrap(),
        }
        let vault = home.open();
        assert_eq!(vault.keys().store, Some(Store::Encrypted), "{damage:?}");
        // What is new is not kept elsewhere, unasked, and what was there is not lost.
        assert!(
            matches!(put(&vault, "a/d", "other"), Err(VaultError::Locked(_))),
            "{damage:?}"
        );
        vault.unlock(Some(&phrase(PASSPHRASE))).unwrap();
        assert_eq!(read(&vault, "a/c").as_deref(), Some(CANARY), "{damage:?}");
    }
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let home = Home::new();
    let file = home.0.path().join("keys");
    let vault = home.open_with(Some(file.clone()));
    put(&vault, "a/c", CANARY).unwrap();
    let mut text = std::fs::read(&file).unwrap();
    text.resize(16 << 20, b'#');
    std::fs::write(&file, &text).unwrap();
    let error = put(&vault, "a/d", "other").unwrap_err();
    assert!(error.to_string().contains("full"), "{error}");
    assert_eq!(read(&home.open_with(Some(file)), "a/c").as_deref(), Some(CANARY));
}

#[test]
fn a_strangers_file_is_not_written_to_and_its_neighbours_stay() {
    let home = Home::new();
    let file = home.0.path().join("keys");
    let neighbour = home.0.path().join("keys.new");
    std::fs::write(&neighbour, "precious").unwrap();
    let ours = format!("# by hand\n\n a/b  https://models.example/acct/one  {CANARY}\n");
    for strange in [
        "-----BEGIN KEY-----\nAAAA\n",
        "# root\n\na b c\n",
        "a/b https://h.example\n",
    ] {
        std::fs::write(&file, strange).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let vault = home.open_with(Some(file.clone()));
        let error = put(&vault, "a/c", "other").unwrap_err().to_string();
        assert!(error.contains("somebody else's"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), strange);
    }
    std::fs::write(&file, &ours).unwrap();
    let vault = home.open_with(Some(file));
    put(&vault, "a/c", "other").unwrap();
    assert_eq!(
        (read(&vault, "a/b").as_deref(), read(&vault, "a/c").as_deref()),
        (Some(CANARY), Some("other"))
    );
    assert_eq!(std::fs::read_to_string(neighbour).unwrap(), "precious");
}
