//! Where things are: the repository, cargo's target folder, the folder for tools that the checks install.

use std::env;
use std::path::{Path, PathBuf};

pub struct Place {
    pub root: PathBuf,
    pub target: PathBuf,
    /// Outside the target folder, so that `cargo clean` does not cost a rebuild of cargo-deny.
    pub tools: PathBuf,
}

impl Place {
    /// The repository is found at run time, not from `env!`: with a shared target folder the same binary may serve
    /// several clones.
    pub fn find() -> Result<Place, String> {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let cwd = env::current_dir().map_err(|e| format!("cannot tell the current folder: {e}"))?;
        let root = match manifest.as_deref().and_then(Path::parent) {
            Some(root) => root.to_path_buf(),
            None => cwd.clone(),
        };
        if !root.join("tauri.conf.json").is_file() {
            return Err(format!(
                "{} is not the Chrysalis repository: start this as `cargo xtask` inside it",
                root.display()
            ));
        }
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| cwd.join(dir));
        let cache = env::var_os("XDG_CACHE_HOME")
            .filter(|dir| !dir.is_empty())
            .map(PathBuf::from)
            .or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        let tools = cache.map_or_else(|| target.join("tools"), |dir| dir.join("chrysalis-tools"));
        Ok(Place { root, target, tools })
    }

    /// A program of ours, as cargo leaves it. `profile` is `debug` or `release`.
    pub fn program(&self, profile: &str, name: &str) -> PathBuf {
        self.target
            .join(profile)
            .join(format!("{name}{}", env::consts::EXE_SUFFIX))
    }

    /// The Python environment with the tests' model server.
    pub fn venv(&self) -> PathBuf {
        self.tools.join("venv")
    }
}

/// True where a window can be shown.
pub fn has_display() -> bool {
    let set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(not(target_os = "linux")) || set("DISPLAY") || set("WAYLAND_DISPLAY")
}
