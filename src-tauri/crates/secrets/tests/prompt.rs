//! A locked keyring and its password dialog: GNOME Keyring on a bus of its own, with the dialog's real program on a
//! screen of its own. The test stands between the bus and that program, counts how often it is asked for, and closes it.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use secrets::{Keychain, Origin, Places, Secret, Standing, Store, Vault, VaultError};
use url::Url;

const PART: &str = "CHRYSALIS_PROMPT_TEST_PART";
const HOME: &str = "CHRYSALIS_PROMPT_TEST_HOME";
const SERVICE: &str = "chrysalis-test-prompt";
const NAME: &str = "a_locked_keyring_asks_once_and_a_closed_dialog_is_remembered";
const PROMPTER: &str = "/usr/libexec/gcr-prompter";

const UNLOCKED: &str = "printf pw | gnome-keyring-daemon --unlock --components=secrets";
const LOCKED: &str = "gnome-keyring-daemon --start --components=secrets";

fn home() -> PathBuf {
    std::env::var_os(HOME).expect("a home").into()
}

fn vault() -> Vault {
    let folder = home().join("secrets");
    std::fs::create_dir_all(&folder).unwrap();
    let places = Places {
        folder: Some(folder),
        file: None,
    };
    Vault::open_in(Keychain::System, SERVICE, places, Vec::new)
}

fn here() -> Origin {
    Origin::parse("https://models.example").unwrap()
}

fn readable(vault: &Vault, id: &str) -> bool {
    let at = Url::parse("https://models.example/v1").unwrap();
    vault
        .handle(id, &here())
        .is_some_and(|key| key.reveal_to_net(&at).is_some())
}

/// The processes of the dialog so far, one per time it was asked for.
fn dialogs(home: &Path) -> Vec<i32> {
    let log = std::fs::read_to_string(home.join("asked")).unwrap_or_default();
    log.lines().map(|line| line.parse().unwrap()).collect()
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !there() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// As a person does who closes the window: the program that shows it ends without an answer.
fn dismiss(pid: i32) {
    // SAFETY: a plain system call on a process that this test's session started.
    unsafe { libc::kill(pid, libc::SIGTERM) };
}

/// Types into the dialog, which has the keyboard to itself.
fn type_in(text: &str) {
    for words in [&["type", "--clearmodifiers", text][..], &["key", "Return"]] {
        let typed = Command::new("xdotool").args(words).status();
        assert!(typed.expect("this test needs the Debian package xdotool").success());
    }
    std::thread::sleep(Duration::from_millis(300));
}

fn in_session(keyring: &str, part: &str, home: &Path) {
    let script = format!("{keyring} >/dev/null && exec \"$0\" \"$@\"");
    let run = home.join("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut command = Command::new("xvfb-run");
    command
        .args(["-a", "dbus-run-session", "--", "bash", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home)
        .env("XDG_DATA_HOME", home.join("data"))
        .env("XDG_RUNTIME_DIR", &run)
        .env(HOME, home)
        .env(PART, part);
    let output = command.output().unwrap_or_else(|error| {
        panic!("{error}: this test needs the Debian packages xvfb, dbus-daemon, gnome-keyring, gcr and xdotool")
    });
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "part {part}: {}\n{out}\n{err}", output.status);
    assert!(out.contains("1 passed"), "part {part} did not run:\n{out}\n{err}");
}

/// The dialog's program, with a note of each start.
fn stand_between(home: &Path) {
    assert!(Path::new(PROMPTER).exists(), "this test needs the Debian package gcr");
    let services = home.join("data/dbus-1/services");
    std::fs::create_dir_all(&services).unwrap();
    let script = home.join("prompter");
    let text = format!(
        "#!/bin/sh\necho $$ >> '{}'\nexec {PROMPTER}\n",
        home.join("asked").display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    for name in ["SystemPrompter", "PrivatePrompter"] {
        let name = format!("org.gnome.keyring.{name}");
        let text = format!("[D-BUS Service]\nName={name}\nExec={}\n", script.display());
        std::fs::write(services.join(format!("{name}.service")), text).unwrap();
    }
}

/// failures.md row 45 (goose#12173): a locked keyring asks once, not per key and not in a loop; nothing hangs on it; a
/// closed dialog is remembered until the person asks again; and what is deleted meanwhile stays deleted.
#[test]
fn a_locked_keyring_asks_once_and_a_closed_dialog_is_remembered() {
    match std::env::var(PART).as_deref() {
        Err(_) => {
            let home = tempfile::tempdir().unwrap();
            stand_between(home.path());
            in_session(UNLOCKED, "save", home.path());
            assert!(dialogs(home.path()).is_empty());
            in_session(LOCKED, "locked", home.path());
            in_session(UNLOCKED, "after", home.path());
        }
        Ok("save") => {
            let vault = vault();
            for id in ["c_one", "c_two", "c_three"] {
                let saved = vault.put(id, here(), Secret::new(format!("key-of-{id}")));
                assert_eq!(saved, Ok(Store::Keychain));
            }
        }
        Ok("locked") => locked(),
        Ok("after") => {
            let vault = vault();
            assert_eq!(vault.keys().store, Some(Store::Run));
            assert_eq!(vault.choose(Store::Keychain, None, false), Ok(None));
            assert!(readable(&vault, "c_one") && readable(&vault, "c_three"));
            assert_eq!(vault.has("c_two"), None, "a deleted key came back");
            // Removed in the meantime, now that it can be.
            let ledger = home().join("secrets/ledger.json");
            wait_for("the deleted key to be removed", || {
                !std::fs::read_to_string(&ledger).unwrap().contains("c_two")
            });
            assert!(keyring::v1::Entry::new(SERVICE, "c_two").unwrap().get_secret().is_err());
        }
        Ok(other) => panic!("no part {other}"),
    }
}

fn locked() {
    let asked = || dialogs(&home());
    let began = Instant::now();
    let vault = vault();
    wait_for("the dialog", || asked().len() == 1);
    // While it is open, nothing waits longer than it may, and nothing asks a second time.
    let state = vault.keys();
    assert!(
        state.keychain.locked && !state.keychain.usable && state.store.is_none(),
        "{state:?}"
    );
    for id in ["c_one", "c_two", "c_three"] {
        assert!(!readable(&vault, id));
        assert_eq!(
            vault.standing(id, &here().into()),
            Standing::Locked(Store::Keychain),
            "it is known that there is one"
        );
    }
    let again = vault.unlock(None).unwrap_err();
    assert!(matches!(again, VaultError::Locked(_)), "{again}");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_eq!(asked().len(), 1, "asked again while the dialog was open");

    dismiss(asked()[0]);
    wait_for("the closed dialog to be noticed", || {
        vault.status().reason.is_some_and(|why| why.contains("is locked"))
    });
    let quick = Instant::now();
    for _ in 0..5 {
        for id in ["c_one", "c_two", "c_three"] {
            assert!(!readable(&vault, id));
        }
        let refused = vault.put("c_new", here(), Secret::new("new-key".into()));
        assert_eq!(refused, Err(VaultError::ChooseStore));
    }
    assert!(quick.elapsed() < Duration::from_secs(1), "{:?}", quick.elapsed());
    assert_eq!(asked().len(), 1, "asked again though the dialog had been closed");

    // Deleted while it cannot be removed: said, and not used when the keyring opens.
    let said = vault.forget("c_two").unwrap().expect("words for the person");
    assert!(
        said.contains("not used any more") && said.contains("still in the keychain"),
        "{said}"
    );

    // The person asks again: one dialog more.
    let _ = vault.unlock(None);
    wait_for("the second dialog", || asked().len() == 2);
    dismiss(asked()[1]);
    wait_for("the second closed dialog to be noticed", || {
        vault.status().reason.is_some_and(|why| why.contains("is locked"))
    });
    assert_eq!(asked().len(), 2);

    // Moving away from it loses nothing, and says what stays.
    let notice = vault
        .choose(Store::Run, None, false)
        .unwrap()
        .expect("words for the person");
    assert!(notice.starts_with("2 saved keys could not be read"), "{notice}");
    assert_eq!(
        vault.put("c_new", here(), Secret::new("new-key".into())),
        Ok(Store::Run)
    );
    assert_eq!(asked().len(), 2);

    // Asked for once more, and this time the password is typed. It takes longer than anything waits for.
    let refused = vault.choose(Store::Keychain, None, false).unwrap_err();
    assert!(matches!(refused, VaultError::Locked(_)), "{refused}");
    wait_for("the third dialog", || asked().len() == 3);
    wait_for("the typed password to count", || {
        type_in("pw");
        vault.status().usable
    });
    assert_eq!(
        vault.keys().store,
        Some(Store::Run),
        "a move that failed has moved nothing"
    );
    assert_eq!(vault.choose(Store::Keychain, None, false), Ok(None));
    assert!(readable(&vault, "c_one") && readable(&vault, "c_new"));
    assert_eq!(vault.has("c_two"), None, "a deleted key came back");
    assert_eq!(asked().len(), 3);
    // For the next session: as if it had been chosen with the keychain out of reach, and a deletion still to be done.
    keyring::v1::Entry::new(SERVICE, "c_two")
        .unwrap()
        .set_secret(b"left behind")
        .unwrap();
    let ledger = home().join("secrets/ledger.json");
    let text = std::fs::read_to_string(&ledger).unwrap();
    let mut lines: serde_json::Value = serde_json::from_str(&text).unwrap();
    lines["chosen"] = "run".into();
    lines["doomed"] = serde_json::json!(["c_two"]);
    drop(vault);
    std::fs::write(&ledger, lines.to_string()).unwrap();
}
