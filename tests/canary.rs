//! A canary key: saved, used, quoted back in errors, and looked for wherever it must not be. Once for every place that keys
//! are kept in: a real keychain (GNOME Keyring on a bus of its own), memory, a file under a passphrase, and a server's file.

#[path = "keys/walk.rs"]
mod walk;

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;
use testkit::Home;
use testkit::folders::files;
use walk::*;

/// Cores as large as they may get, so that it is the program that prevents them.
const CORES: &str = "ulimit -c unlimited 2>/dev/null; exec \"$0\" \"$@\"";
const SERVE: &[&str] = &["serve", "--port", "0", "--no-open"];

#[test]
fn without_a_keychain_a_key_is_nowhere_but_in_the_engine() {
    let home = Home::new(PROGRAM);
    let command = home.command_under(&["bash", "-c", CORES], SERVE);
    let mut walk = Walk::start(home, command, "run");
    let listed = walk.owner.get("/v1/settings/connections").ok();
    assert_eq!(listed["keychain"]["usable"], false, "{listed}");
    walk.walk();
    walk.regress_15_a_changed_address_forgets_it("run");
    walk.owner
        .send(
            "PUT",
            &format!("/v1/settings/connections/{}/key", walk.connection),
            &json!({"key": walk.key}),
        )
        .ok();
    // The next run does not have it.
    walk.running.stop();
    walk.no_file_holds_it();
    walk.running = walk.home.start(walk.home.command_under(&["bash", "-c", CORES], SERVE));
    walk.owner = walk.running.login();
    let listed = walk.owner.get("/v1/settings/connections").ok();
    assert_eq!(listed["connections"][0]["hasKey"], false, "{listed}");
    walk.owner
        .send(
            "PUT",
            &format!("/v1/settings/connections/{}/key", walk.connection),
            &json!({"key": walk.key}),
        )
        .ok();
    walk.list();
    walk.no_core();
}

/// The shell line that starts an unlocked keyring before the program.
const KEYRING: &str = "printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null && ulimit -c unlimited \
                       2>/dev/null; exec \"$0\" \"$@\"";

fn with_keyring(home: &Home) -> Command {
    let mut command = home.command_under(&["dbus-run-session", "--", "bash", "-c", KEYRING], SERVE);
    let run = home.folder().join("run");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
    command
        .env_remove("CHRYSALIS_KEYCHAIN")
        .env("XDG_DATA_HOME", home.folder().join("data"))
        .env("XDG_RUNTIME_DIR", &run);
    command
}

/// The two files: the key is there in the next run, at its own address only, and gone once it is deleted.
fn in_a_file(kept: &str) {
    let home = Home::new(PROGRAM);
    let command = home.command_under(&["bash", "-c", CORES], SERVE);
    let mut walk = Walk::start(home, command, kept);
    walk.walk();
    walk.restart();
    let target = format!("/v1/settings/connections/{}", walk.connection);
    if kept == "encrypted" {
        let listed = walk.owner.get("/v1/settings/connections").ok();
        let connection = &listed["connections"][0];
        assert_eq!(
            (
                &connection["hasKey"],
                &connection["keyKept"],
                &listed["keys"]["encrypted"]
            ),
            (&json!(true), &json!(kept), &json!({"exists": true, "unlocked": false})),
            "{listed}"
        );
        assert!(
            connection["keyTrouble"].as_str().unwrap().contains("locked"),
            "{listed}"
        );
        // Locked, nothing goes out with it and nothing can be saved.
        walk.list();
        assert!(walk.model.seen().iter().all(|one| !one.whole().contains(&walk.secret)));
        let refused = walk
            .owner
            .send("PUT", &format!("{target}/key"), &json!({"key": "sk-x"}));
        assert_eq!((refused.status, refused.code().as_str()), (409, "key_store_locked"));
        let wrong = walk
            .owner
            .post("/v1/settings/keys/unlock", &json!({"passphrase": "not this one"}));
        assert_eq!((wrong.status, wrong.code().as_str()), (403, "passphrase"));
        let right = json!({"passphrase": walk.passphrase});
        let reply = walk.owner.post("/v1/settings/keys/unlock", &right);
        assert_eq!(walk.note("unlocking", reply).ok()["encrypted"]["unlocked"], true);
        walk.model.forget();
    }
    assert_eq!(walk.list()["errors"], json!([]));
    walk.arrived_where_it_should();
    walk.every_answer();
    walk.every_file();
    // Deleted everywhere: not there in the run after this one.
    walk.clear = None;
    walk.regress_15_a_changed_address_forgets_it(kept);
    walk.no_file_holds_it();
    walk.restart();
    let listed = walk.owner.get("/v1/settings/connections").ok();
    assert_eq!(listed["connections"][0]["hasKey"], false, "{listed}");
    walk.no_core();
}

impl Walk {
    fn restart(&mut self) {
        self.running.stop();
        self.no_file_holds_it();
        self.running = self.home.start(self.home.command_under(&["bash", "-c", CORES], SERVE));
        self.owner = self.running.login();
        self.page = self.running.page(&self.owner, "chat");
        self.model.forget();
    }
}

#[test]
fn under_a_passphrase_a_key_is_never_in_clear() {
    in_a_file("encrypted");
}

#[test]
fn in_a_servers_file_a_key_is_there_and_nowhere_else() {
    in_a_file("file");
}

#[test]
fn with_a_keychain_a_key_is_there_and_in_the_engine() {
    let home = Home::new(PROGRAM);
    let command = with_keyring(&home);
    let mut walk = Walk::start(home, command, "keychain");
    let listed = walk.owner.get("/v1/settings/connections").ok();
    assert_eq!(listed["keychain"]["usable"], true, "{listed}");
    walk.walk();
    let keyrings = walk.home.folder().join("data/keyrings");
    assert!(
        !files(&keyrings).is_empty(),
        "the keyring keeps nothing under {}",
        keyrings.display()
    );
    // The next run has it, and uses it at its own address only.
    walk.running.stop();
    walk.no_file_holds_it();
    walk.running = walk.home.start(with_keyring(&walk.home));
    walk.owner = walk.running.login();
    walk.page = walk.running.page(&walk.owner, "chat");
    walk.model.forget();
    assert_eq!(walk.list()["errors"], json!([]));
    walk.arrived_where_it_should();
    walk.regress_15_a_changed_address_forgets_it("keychain");
    // Deleted everywhere: not there in the run after this one.
    walk.running.stop();
    walk.running = walk.home.start(with_keyring(&walk.home));
    walk.owner = walk.running.login();
    let listed = walk.owner.get("/v1/settings/connections").ok();
    assert_eq!(listed["connections"][0]["hasKey"], false, "{listed}");
    let saved = json!({"key": walk.key});
    let target = format!("/v1/settings/connections/{}", walk.connection);
    assert_eq!(
        walk.owner.send("PUT", &format!("{target}/key"), &saved).ok()["connection"]["keyKept"],
        "keychain"
    );
    assert_eq!(walk.owner.send("DELETE", &target, &json!({})).status, 204);
    walk.no_core();
}
