//! Names the launcher's commands, so that Tauri refuses every other one and refuses these to every other window.

fn main() {
    tauri_build::try_build(
        tauri_build::Attributes::new()
            .app_manifest(tauri_build::AppManifest::new().commands(&["call", "cancel", "open_app", "quit"])),
    )
    .expect("tauri.conf.json and the icons must be readable");
}
