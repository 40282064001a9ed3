//! Packs what the program carries inside: the page bridge, and the apps in the box (their manifests, built pages and
//! plugins, without sources or node_modules).

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../..");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));

    let bridge = root.join("ui/dist-bridge/bridge.js");
    println!("cargo:rerun-if-changed={}", bridge.display());
    let script = fs::read(&bridge).unwrap_or_else(|e| {
        panic!("ui/dist-bridge/bridge.js is missing ({e}): build the interface first, `cargo xtask build`")
    });
    fs::write(out.join("bridge.js"), script).expect("OUT_DIR can be written");

    let target = out.join("box");
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(&target).expect("OUT_DIR can be written");
    println!("cargo:rerun-if-changed={}", root.join("apps").display());
    for app in fs::read_dir(root.join("apps")).into_iter().flatten().flatten() {
        let app = app.path();
        let built = !app.join("package.json").exists() || app.join("dist/index.html").exists();
        if !app.join("manifest.json").exists() {
            continue;
        }
        if !built {
            println!(
                "cargo:warning={} is not built and is left out of the box: `cargo xtask build`",
                app.display()
            );
            println!("cargo:rerun-if-changed={}", app.join("dist").display());
            continue;
        }
        let name = app.file_name().expect("listed");
        for part in ["manifest.json", "dist", "plugins", "README.md"] {
            println!("cargo:rerun-if-changed={}", app.join(part).display());
            copy(&app.join(part), &target.join(name).join(part));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    if from.is_dir() {
        for entry in fs::read_dir(from).expect("readable").flatten() {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    } else if from.is_file() {
        fs::create_dir_all(to.parent().expect("inside OUT_DIR")).expect("OUT_DIR can be written");
        fs::copy(from, to).expect("copies");
    }
}
