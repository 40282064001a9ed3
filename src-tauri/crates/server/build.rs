//! The launcher is compiled into this crate; its file names change with every build of it.

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let dist = std::path::Path::new(&root).join("../../../ui/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    if !dist.join("index.html").is_file() {
        println!(
            "cargo::error=the launcher is not built: run `npm ci` and `npm run build` in ui/, or `cargo xtask run`"
        );
    }
}
