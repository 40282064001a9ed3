//! Folders of apps, written for one test.

use std::path::{Path, PathBuf};

use serde_json::json;

/// A page that does nothing.
pub const QUIET_PAGE: &str = "<!doctype html><title>page</title><script src=\"app.js\"></script>";

/// The folder of an app, not yet added to a home.
pub struct AppFolder(PathBuf);

impl AppFolder {
    /// An app of one page, at `place/name`.
    pub fn new(place: &Path, name: &str) -> Self {
        let folder = place.join(name);
        std::fs::create_dir_all(&folder).expect("an app's folder");
        let app = Self(folder);
        app.file(
            "manifest.json",
            &json!({"name": name, "version": "1.0.0", "kind": "web"}).to_string(),
        );
        app.file("index.html", QUIET_PAGE);
        app.file("app.js", "// nothing");
        app
    }

    /// Adds a plugin.
    pub fn plugin(self, id: &str, permissions: &[&str], code: &str) -> Self {
        let manifest = json!({"name": id, "version": "1.0.0", "permissions": permissions, "origin": "imported"});
        self.file(&format!("plugins/{id}/manifest.json"), &manifest.to_string());
        self.file(&format!("plugins/{id}/plugin.js"), code);
        self
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Every plain file under `folder`.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

/// Whether `needle` is anywhere in `bytes`.
pub fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}
