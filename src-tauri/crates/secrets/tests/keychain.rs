//! A real Secret Service (GNOME Keyring on a bus of its own), no bus, and a bus that never answers. Each test starts
//! this program again in the session it wants; the environment variable says which part the child is to play.
#![cfg(target_os = "linux")]

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use secrets::{Bound, KeyHandle, Keychain, Origin, Places, Secret, Standing, Store, Vault, VaultError};
use url::Url;

const PART: &str = "CHRYSALIS_KEYCHAIN_TEST_PART";
const CANARY: &str = "sk-canary-4b1d";
const SERVICE: &str = "chrysalis-test-home";

fn origin(text: &str) -> Origin {
    Origin::parse(text).unwrap()
}

fn reveal(key: &KeyHandle, at: &Origin) -> Option<Secret> {
    key.reveal_to_net(&Url::parse(&at.to_string()).unwrap())
}

fn here() -> Origin {
    origin("https://models.example:8443")
}

/// The same program, running only the test `name` as `part`, with nothing of the real session but the path.
fn this_program(command: &mut Command, name: &str, part: &str, home: &Path) {
    let run = home.join("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .env("XDG_DATA_HOME", home.join("data"))
        .env("XDG_RUNTIME_DIR", &run)
        .env(PART, part)
        .args(["--exact", name, "--nocapture"]);
}

fn must_succeed(command: &mut Command, part: &str) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{error}: this test needs the Debian packages dbus-daemon (dbus-run-session) and gnome-keyring")
    });
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "part {part}: {}\n{out}\n{err}", output.status);
    assert!(out.contains("1 passed"), "part {part} did not run:\n{out}\n{err}");
}

/// `keyring` is the shell line that starts the keyring in the new session.
fn in_session(keyring: &str, name: &str, part: &str, home: &Path) {
    let mut command = Command::new("dbus-run-session");
    let script = format!("{keyring} >/dev/null && exec \"$0\" \"$@\"");
    command
        .args(["--", "bash", "-c", &script])
        .arg(std::env::current_exe().unwrap());
    this_program(&mut command, name, part, home);
    must_succeed(&mut command, part);
}

fn without_session(bus: &str, name: &str, part: &str, home: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    this_program(&mut command, name, part, home);
    command.env("DBUS_SESSION_BUS_ADDRESS", bus);
    must_succeed(&mut command, part);
}

fn assert_nowhere(home: &Path, needle: &str) {
    let mut folders = vec![home.to_owned()];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                files += 1;
                let bytes = std::fs::read(&path).unwrap();
                let found = bytes.windows(needle.len()).any(|window| window == needle.as_bytes());
                assert!(!found, "{} contains the key", path.display());
            }
        }
    }
    assert!(files > 0, "the keyring wrote no file to look into");
}

const UNLOCKED: &str = "printf pw | gnome-keyring-daemon --unlock --components=secrets";
const LOCKED: &str = "gnome-keyring-daemon --start --components=secrets";

#[test]
fn a_real_keychain_keeps_locks_and_forgets() {
    let name = "a_real_keychain_keeps_locks_and_forgets";
    match std::env::var(PART).as_deref() {
        Err(_) => {
            let home = tempfile::tempdir().unwrap();
            for (keyring, part) in [
                (UNLOCKED, "save"),
                (UNLOCKED, "still there, then locked out"),
                (LOCKED, "locked"),
                (UNLOCKED, "forget"),
                (UNLOCKED, "gone"),
            ] {
                in_session(keyring, name, part, home.path());
                assert_nowhere(home.path(), CANARY);
            }
        }
        Ok("save") => {
            let vault = Vault::open(Keychain::System, SERVICE);
            assert!(vault.status().usable, "{:?}", vault.status());
            assert_eq!(vault.has("c_one"), None);
            assert_eq!(
                vault.put("c_one", here(), Secret::new(format!(" {CANARY}\n"))),
                Ok(Store::Keychain)
            );
            assert_eq!(
                vault.put("c_two", here(), Secret::new("other".into())),
                Ok(Store::Keychain)
            );
            assert_eq!(
                vault.put("c_two", here(), Secret::new("newer".into())),
                Ok(Store::Keychain)
            );
            let again = Vault::open(Keychain::System, SERVICE);
            assert_eq!(again.has("c_one"), Some(Store::Keychain));
            let elsewhere = Vault::open(Keychain::System, "chrysalis-another-home");
            assert_eq!(elsewhere.has("c_one"), None);
        }
        Ok("still there, then locked out") => {
            let vault = Vault::open(Keychain::System, SERVICE);
            let key = vault.handle("c_one", &here()).expect("the key of the last session");
            assert_eq!(reveal(&key, &here()).unwrap().expose_to_net(), CANARY.as_bytes());
            let newer = vault.handle("c_two", &here()).unwrap();
            assert_eq!(reveal(&newer, &here()).unwrap().expose_to_net(), b"newer");
            // The binding is in the keychain beside the key, so nothing outside it can point the key elsewhere.
            for other in [
                "http://models.example:8443",
                "https://models.example",
                "https://evil.example:8443",
            ] {
                assert!(vault.handle("c_one", &origin(other)).is_none(), "{other}");
                assert!(reveal(&key, &origin(other)).is_none(), "{other}");
            }
        }
        Ok("locked") => {
            let began = Instant::now();
            let vault = Vault::open(Keychain::System, SERVICE);
            let status = vault.status();
            assert!(!status.usable);
            assert!(status.reason.is_some());
            assert!(vault.handle("c_one", &here()).is_none());
            assert!(status.locked && vault.keys().store.is_none(), "{:?}", vault.keys());
            // Nothing is kept anywhere that nobody chose.
            assert_eq!(
                vault.put("c_new", here(), Secret::new("x".into())),
                Err(VaultError::ChooseStore)
            );
            assert_eq!(vault.has("c_new"), None);
            // What cannot be removed is said, not passed over.
            let said = vault.forget("c_one").unwrap().expect("words for the person");
            assert!(said.contains("still in the keychain"), "{said}");
            assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        }
        Ok("forget") => {
            let vault = Vault::open(Keychain::System, SERVICE);
            assert_eq!(vault.has("c_new"), None, "a key kept for one run came back");
            let key = vault.handle("c_one", &here()).unwrap();
            assert_eq!(vault.forget("c_one"), Ok(None));
            assert_eq!(vault.forget("c_never"), Ok(None));
            assert!(vault.handle("c_one", &here()).is_none());
            assert!(reveal(&key, &here()).is_none(), "a handle outlived its key");
        }
        Ok("gone") => {
            let vault = Vault::open(Keychain::System, SERVICE);
            assert!(vault.status().usable);
            assert_eq!(vault.has("c_one"), None);
            assert_eq!(vault.has("c_two"), Some(Store::Keychain));
        }
        Ok(other) => panic!("no part {other}"),
    }
}

#[test]
fn without_a_bus_a_key_lives_for_this_run() {
    let name = "without_a_bus_a_key_lives_for_this_run";
    if std::env::var(PART).is_err() {
        let home = tempfile::tempdir().unwrap();
        let bus = format!("unix:path={}/no-such-socket", home.path().display());
        return without_session(&bus, name, "no bus", home.path());
    }
    let began = Instant::now();
    let vault = Vault::open(Keychain::System, SERVICE);
    let status = vault.status();
    assert!(!status.usable);
    assert!(status.reason.unwrap().contains("no keychain"));
    let save = || vault.put("c_one", here(), Secret::new(CANARY.into()));
    assert_eq!(save(), Err(VaultError::ChooseStore));
    assert_eq!(vault.choose(Store::Run, None, false), Ok(None));
    assert_eq!(save(), Ok(Store::Run));
    let key = vault.handle("c_one", &here()).unwrap();
    assert_eq!(reveal(&key, &here()).unwrap().expose_to_net(), CANARY.as_bytes());
    assert_eq!(vault.forget("c_one"), Ok(None));
    assert_eq!(vault.has("c_one"), None);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let next_run = Vault::open(Keychain::System, SERVICE);
    assert_eq!(next_run.has("c_one"), None);
}

#[test]
fn a_bus_that_never_answers_does_not_hold_anything_up() {
    let name = "a_bus_that_never_answers_does_not_hold_anything_up";
    if std::env::var(PART).is_err() {
        let home = tempfile::tempdir().unwrap();
        let socket = home.path().join("bus");
        let _silent = UnixListener::bind(&socket).unwrap();
        return without_session(
            &format!("unix:path={}", socket.display()),
            name,
            "silent bus",
            home.path(),
        );
    }
    let began = Instant::now();
    let vault = Vault::open(Keychain::System, SERVICE);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "opening waited for the keychain"
    );
    let status = vault.status();
    assert!(!status.usable);
    assert!(status.reason.unwrap().contains("did not answer"));
    let save = || vault.put("c_one", here(), Secret::new(CANARY.into()));
    assert_eq!(save(), Err(VaultError::ChooseStore));
    assert_eq!(vault.choose(Store::Run, None, false), Ok(None));
    assert_eq!(save(), Ok(Store::Run));
    assert!(vault.handle("c_one", &here()).is_some());
    assert!(
        vault.forget("c_one").unwrap().is_some(),
        "an entry of an earlier run may be there"
    );
    assert_eq!(vault.has("c_one"), None);
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// Version 0.1 bound a key to an origin and kept no list: its keys are found, work where the address has no path of a
/// gateway, and are said to be for another address where it has one.
#[test]
fn keys_of_version_0_1_are_found_and_all_move() {
    let name = "keys_of_version_0_1_are_found_and_all_move";
    if std::env::var(PART).is_err() {
        let home = tempfile::tempdir().unwrap();
        in_session(UNLOCKED, name, "all of it", home.path());
        return assert_nowhere(home.path(), CANARY);
    }
    let entry = |id: &str| keyring::v1::Entry::new(SERVICE, id).unwrap();
    let old = format!("chrysalis-key-1\nhttps://models.example:8443\n{CANARY}");
    entry("a/c_old").set_secret(old.as_bytes()).unwrap();
    let folder = std::path::PathBuf::from(std::env::var_os("HOME").unwrap()).join("secrets");
    std::fs::create_dir(&folder).unwrap();
    let open = || {
        let places = Places {
            folder: Some(folder.clone()),
            file: None,
        };
        Vault::open_in(Keychain::System, SERVICE, places, || {
            vec!["a/c_old".into(), "a/c_none".into()]
        })
    };
    let bound = |text: &str| Bound::of(&Url::parse(text).unwrap()).unwrap();
    let (plain, gateway) = (
        bound("https://models.example:8443/v1"),
        bound("https://models.example:8443/acct/one/v1"),
    );
    let vault = open();
    assert_eq!(
        (vault.keys().store, vault.keys().chosen),
        (Some(Store::Keychain), false)
    );
    assert_eq!(vault.standing("a/c_old", &plain), Standing::Ready(Store::Keychain));
    assert_eq!(
        vault.standing("a/c_old", &gateway),
        Standing::Elsewhere(Store::Keychain, here().into())
    );
    assert!(vault.handle("a/c_old", &gateway).is_none());
    let key = Secret::new("gateway-key".into());
    assert_eq!(vault.put("a/c_new", gateway.clone(), key), Ok(Store::Keychain));

    // In a vault that has read none of them yet, all move; none stays.
    let vault = open();
    let phrase = Secret::new("a long passphrase".into());
    assert_eq!(vault.choose(Store::Encrypted, Some(&phrase), false), Ok(None));
    for id in ["a/c_old", "a/c_new"] {
        assert!(entry(id).get_secret().is_err(), "{id} was left in the keychain");
        assert_eq!(vault.has(id), Some(Store::Encrypted));
    }
    let key = vault.handle("a/c_old", &plain).unwrap();
    assert_eq!(reveal(&key, &here()).unwrap().expose_to_net(), CANARY.as_bytes());

    // A start later the keychain is only looked for; and back again.
    let vault = open();
    assert!(vault.status().usable);
    assert_eq!(vault.keys().store, Some(Store::Encrypted));
    vault.unlock(Some(&phrase)).unwrap();
    assert_eq!(vault.choose(Store::Keychain, None, false), Ok(None));
    assert!(!folder.join("keys.enc").exists());
    let vault = open();
    assert_eq!((vault.keys().store, vault.keys().chosen), (Some(Store::Keychain), true));
    assert_eq!(vault.standing("a/c_new", &gateway), Standing::Ready(Store::Keychain));
    assert_eq!(vault.standing("a/c_old", &plain), Standing::Ready(Store::Keychain));
    assert_eq!(vault.forget("a/c_old"), Ok(None));
    assert!(entry("a/c_old").get_secret().is_err());
    assert_eq!(open().has("a/c_old"), None);
}
