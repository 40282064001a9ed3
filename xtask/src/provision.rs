//! What has to be on the machine before anything builds: Debian packages, Node, npm packages, cargo-deny, a Python
//! environment with model servers for the tests.

use std::env;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use crate::place::Place;
use crate::step::{self, cargo, command};

/// To build and run the desktop program on Debian 12.
const RUN_PACKAGES: &[&str] = &[
    "build-essential",
    "pkg-config",
    "libwebkit2gtk-4.1-dev",
    "libayatana-appindicator3-dev",
    "librsvg2-dev",
    "libxdo-dev",
    // WebKit's own sandbox for its web processes.
    "bubblewrap",
    "xdg-dbus-proxy",
];

/// To run every test without a screen.
const TEST_PACKAGES: &[&str] = &[
    "iproute2",
    "xvfb",
    "xauth",
    "xdotool",
    "openssl",
    "imagemagick",
    "webkit2gtk-driver",
    "dbus-x11",
    "dbus-daemon",
    "gnome-keyring",
    "fonts-dejavu-core",
    "chromium",
    "chromium-driver",
    "firefox-esr",
    "python3",
    "python3-venv",
    "python3-pip",
];

/// Vite 8 and vitest 4 need it.
const NODE: (u32, u32) = (20, 19);

/// The version that deny.toml was written for.
const CARGO_DENY: &str = "0.20.2";

/// Folders with a package.json whose packages a build needs, and the npm scripts that build them, in order.
const INTERFACES: &[(&str, &[&str])] = &[("ui", &["build", "build:bridge"]), ("apps/chat", &["build"])];

/// Everything `cargo xtask run` needs on the machine.
pub fn for_run(place: &Place) -> Result<(), String> {
    debian(place, &[RUN_PACKAGES])?;
    node(place)
}

/// Everything `cargo xtask test` needs on the machine.
pub fn for_test(place: &Place) -> Result<(), String> {
    debian(place, &[RUN_PACKAGES, TEST_PACKAGES])?;
    node(place)?;
    npm_ci(place, "tests/browser")?;
    npm_ci(place, "tests/foreign")?;
    venv(place)
}

fn is_root(place: &Place) -> bool {
    step::output(command(&place.root, "id", &["-u"])).is_ok_and(|id| id.trim() == "0")
}

fn debian(place: &Place, lists: &[&[&str]]) -> Result<(), String> {
    if cfg!(not(target_os = "linux")) {
        return Ok(());
    }
    if step::output(command(&place.root, "dpkg-query", &["--version"])).is_err() {
        println!("==> packages: no dpkg here; see README.md for the libraries your system must have");
        return Ok(());
    }
    let wanted: Vec<&str> = lists.concat();
    // dpkg-query exits non-zero when it does not know one of the names, and still prints the others.
    let mut query = command(
        &place.root,
        "dpkg-query",
        &["-W", "-f", "${Package} ${db:Status-Status}\n"],
    );
    query.args(&wanted);
    let known = query
        .output()
        .map_err(|e| format!("dpkg-query cannot be started: {e}"))?;
    let missing = missing(&wanted, &String::from_utf8_lossy(&known.stdout));
    if missing.is_empty() {
        println!("==> packages: all {} Debian packages are there", wanted.len());
        return Ok(());
    }
    let line = format!("apt-get install --yes --no-install-recommends {}", missing.join(" "));
    if !is_root(place) {
        return Err(format!(
            "these Debian packages are missing; install them with this line, then start again:\n\n  sudo {line}\n"
        ));
    }
    let apt = |args: &[&str]| {
        let mut apt = command(&place.root, "apt-get", args);
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    let advice = "check the machine's network and its Debian sources, then start again";
    step::must("packages", apt(&["update", "--quiet"]), advice)?;
    let mut args = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    args.extend(&missing);
    step::must("packages", apt(&args), advice)
}

/// The names of `wanted` that `dpkg-query`'s `name status` lines do not show as installed.
fn missing<'a>(wanted: &[&'a str], lines: &str) -> Vec<&'a str> {
    let installed: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.strip_suffix(" installed"))
        .collect();
    wanted
        .iter()
        .copied()
        .filter(|name| !installed.contains(name))
        .collect()
}

fn node(place: &Place) -> Result<(), String> {
    let need = format!(
        "Node.js {}.{} or newer with npm is needed to build the interface; install it from nodejs.org or your system's packages",
        NODE.0, NODE.1
    );
    let version = step::output(command(&place.root, "node", &["--version"])).map_err(|e| format!("{need}\n  {e}"))?;
    let mut parts = version
        .trim()
        .trim_start_matches('v')
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found < NODE {
        return Err(format!("{need}\n  found {}", version.trim()));
    }
    step::output(command(&place.root, "npm", &["--version"]))
        .map(drop)
        .map_err(|e| format!("{need}\n  {e}"))
}

/// Installs exactly what the lock file names, where that has changed since the last time.
pub fn npm_ci(place: &Place, folder: &str) -> Result<(), String> {
    let dir = place.root.join(folder);
    if !dir.join("package.json").is_file() || !stale(&dir) {
        return Ok(());
    }
    // No package we use needs its install scripts, so none of them runs.
    let npm = command(&dir, "npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    step::must(
        &format!("npm packages of {folder}"),
        npm,
        "check the network; if package.json was changed, run `npm install` there and commit its lock file",
    )
}

/// True when node_modules is missing or older than the lock file (npm writes its own copy of the lock when done).
fn stale(dir: &Path) -> bool {
    let time =
        |path: &str| -> Option<SystemTime> { fs::metadata(dir.join(path)).and_then(|meta| meta.modified()).ok() };
    match (time("node_modules/.package-lock.json"), time("package-lock.json")) {
        (Some(installed), Some(lock)) => installed < lock,
        _ => true,
    }
}

/// Builds the interface, the page bridge and the first-party apps. The Rust build embeds what comes out.
pub fn interfaces(place: &Place) -> Result<(), String> {
    for (folder, scripts) in INTERFACES {
        let dir = place.root.join(folder);
        if !dir.join("package.json").is_file() {
            continue;
        }
        npm_ci(place, folder)?;
        for script in *scripts {
            step::must(
                &format!("{folder} {script}"),
                command(&dir, "npm", &["run", "--silent", script]),
                "read the error above; the build is Vite's",
            )?;
        }
    }
    Ok(())
}

/// The folders that [`interfaces`] builds and that exist.
pub fn interface_folders(place: &Place) -> Vec<&'static str> {
    INTERFACES
        .iter()
        .map(|(folder, _)| *folder)
        .filter(|folder| place.root.join(folder).join("package.json").is_file())
        .collect()
}

/// The model servers of the tests, in a Python environment of their own.
fn venv(place: &Place) -> Result<(), String> {
    let wanted = fs::read_to_string(place.root.join("tests/requirements.txt"))
        .map_err(|e| format!("tests/requirements.txt cannot be read: {e}"))?;
    let venv = place.venv();
    let stamp = venv.join("requirements.txt");
    let python = venv.join("bin/python3");
    let works = || step::output(command(&place.root, &python, &["-c", "import llmock, fakellm"])).is_ok();
    if fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) && works() {
        return Ok(());
    }
    let path = venv.to_string_lossy().into_owned();
    let advice = "install python3-venv and check the network";
    step::must(
        "test environment",
        command(&place.root, "python3", &["-m", "venv", "--clear", &path]),
        advice,
    )?;
    let mut pip = command(
        &place.root,
        &python,
        &[
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "-r",
            "tests/requirements.txt",
        ],
    );
    pip.env_remove("PYTHONPATH");
    step::must("test environment", pip, advice)?;
    fs::write(&stamp, wanted).map_err(|e| format!("{} cannot be written: {e}", stamp.display()))
}

/// The path of a cargo-deny of the pinned version, built from crates.io when there is none.
pub fn cargo_deny(place: &Place) -> Result<std::path::PathBuf, String> {
    let program = place
        .tools
        .join("bin")
        .join(format!("cargo-deny{}", env::consts::EXE_SUFFIX));
    let wanted = format!("cargo-deny {CARGO_DENY}");
    if step::output(command(&place.root, &program, &["--version"])).is_ok_and(|have| have.trim() == wanted) {
        return Ok(program);
    }
    let root = place.tools.to_string_lossy().into_owned();
    // Outside the workspace, whose .cargo/config.toml and target folder are not meant for it.
    fs::create_dir_all(&place.tools).map_err(|e| format!("{root} cannot be made: {e}"))?;
    let mut install = cargo(
        &place.tools,
        &[
            "install",
            "--quiet",
            "--locked",
            "--force",
            "cargo-deny",
            "--version",
            CARGO_DENY,
            "--root",
            &root,
        ],
    );
    install.env_remove("CARGO_TARGET_DIR");
    step::must("cargo-deny", install, "check the network")?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fully_installed_packages_count() {
        let lines = "xvfb installed\nxdotool config-files\nchromium not-installed\nchromium-driver installed\n";
        assert_eq!(
            missing(&["xvfb", "xdotool", "chromium", "chromium-driver", "xauth"], lines),
            ["xdotool", "chromium", "xauth"]
        );
    }
}
