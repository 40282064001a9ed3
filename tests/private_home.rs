//! What other accounts of the machine, and whoever named a file, get out of the program.

use std::os::unix::fs::PermissionsExt;

use testkit::{AppFolder, Home};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

/// A home may be a folder that others can look into: then what is in it is still for its owner alone.
#[test]
fn nothing_in_an_open_home_can_be_read_by_others() {
    let home = Home::new(PROGRAM);
    home.configure("");
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let _running = home.serve();
    let mut seen = 0;
    for entry in std::fs::read_dir(home.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        // Neither says anything: an empty file, and settings without a secret.
        if name == "engine.lock" || name == "config.toml" {
            continue;
        }
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{name} {mode:o}");
        seen += 1;
    }
    assert!(seen >= 4, "the database, the accounts, the logs and the socket");
}

/// An error quotes the file it is about, and its name was somebody else's choice.
#[test]
fn errors_do_nothing_to_the_terminal() {
    let home = Home::new(PROGRAM);
    let app = AppFolder::new(home.folder(), "odd");
    app.file("\u{1b}[2J\u{1b}]0;gone\u{7}\nadded chat", "x");
    let ran = home.run(&["app", "add", app.path().to_str().unwrap(), "--yes", "--id", "odd"]);
    let missing = home.run(&["app", "add", "/no\u{1b}[2J\u{202e}", "--yes", "--id", "odd"]);
    for ran in [ran, missing] {
        assert!(ran.err.starts_with("chrysalis: "), "{:?}", ran.err);
        assert!(ran.err.lines().skip(1).all(|l| l.starts_with("  ")), "{:?}", ran.err);
        for bad in ["\u{1b}", "\u{7}", "\u{202e}"] {
            assert!(!ran.err.contains(bad), "{bad:?} in {:?}", ran.err);
        }
    }
}
