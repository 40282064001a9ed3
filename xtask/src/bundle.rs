//! `cargo xtask bundle`: the .deb and .rpm packages, made by the Tauri CLI.

use crate::place::Place;
use crate::provision;
use crate::step::{self, cargo, command};

pub fn bundle(place: &Place) -> Result<(), String> {
    if step::output(command(&place.root, "cargo-tauri", &["--version"])).is_err() {
        return Err(
            "the Tauri CLI is not installed; `cargo install --locked tauri-cli --version '^2'` installs it".into(),
        );
    }
    provision::for_run(place)?;
    provision::interfaces(place)?;
    step::must(
        "bundle",
        cargo(
            &place.root,
            &["tauri", "build", "--bundles", "deb,rpm", "--", "--locked"],
        ),
        "read the error above",
    )
}
