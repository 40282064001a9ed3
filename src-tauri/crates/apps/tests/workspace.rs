//! Adding, listing and removing apps, with real folders, links and pipes.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use apps::stage::Staged;
use apps::workspace::Workspace;
use policy::{AppId, Capability, PluginId};
use tempfile::TempDir;

const MANIFEST: &str = r#"{"name":"Chat","version":"1.0.0","kind":"web"}"#;
const PLUGIN: &str = r#"{"name":"Chat","permissions":["routes","llm"]}"#;

fn write(base: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = base.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn chat(base: &Path) {
    write(
        base,
        &[
            ("manifest.json", MANIFEST),
            ("index.html", "<!doctype html><p>hi"),
            ("plugins/chat/manifest.json", PLUGIN),
            ("plugins/chat/plugin.js", "export function handleRoute() {}"),
            (".git/config", "[core]"),
            ("node_modules/x/index.js", "x"),
        ],
    );
}

fn id(text: &str) -> AppId {
    AppId::parse(text).unwrap()
}

struct Place {
    base: TempDir,
    workspace: Workspace,
}

impl Place {
    fn new() -> Self {
        let base = TempDir::new().unwrap();
        chat(&base.path().join("Chat"));
        let workspace = Workspace::open(&base.path().join("home/workspace")).unwrap();
        Self { base, workspace }
    }
    fn app(&self) -> std::path::PathBuf {
        self.base.path().join("Chat")
    }
    fn on_disk(&self) -> std::path::PathBuf {
        self.base.path().join("home/workspace/apps")
    }
    fn add(&self) -> Staged {
        let staged = Staged::from_folder(&self.app(), None).unwrap();
        self.workspace.commit(&staged, &staged.id).unwrap();
        staged
    }
}

#[test]
fn an_app_is_added_listed_and_removed() {
    let place = Place::new();
    let staged = place.add();
    assert_eq!(staged.id, id("chat"));
    assert_eq!(
        staged.plugins[0].manifest.permissions,
        [Capability::Routes, Capability::Llm]
    );
    let paths: Vec<_> = staged.files().map(|(path, _)| path).collect();
    let want = [
        "index.html",
        "manifest.json",
        "plugins/chat/manifest.json",
        "plugins/chat/plugin.js",
    ];
    assert_eq!(paths, want, "history and packages are left out");

    let (apps, broken) = place.workspace.list().unwrap();
    assert_eq!(broken, []);
    assert_eq!(apps.len(), 1);
    assert_eq!(apps[0].manifest.name, "Chat");
    assert_eq!(apps[0].plugin_ids, [PluginId::parse("chat").unwrap()]);
    assert!(!apps[0].has_data);
    let plugin = place.workspace.plugin(&id("chat"), &apps[0].plugin_ids[0]).unwrap();
    assert_eq!(
        plugin.code, staged.plugins[0].code,
        "the hash that was shown is the hash that will run"
    );
    assert_eq!(&*plugin.source, "export function handleRoute() {}");

    place.workspace.remove(&id("chat")).unwrap();
    assert!(place.workspace.list().unwrap().0.is_empty());
    assert_eq!(
        fs::read_dir(place.on_disk().join(".staging")).unwrap().count(),
        0,
        "the files are gone"
    );
    let gone = place.workspace.remove(&id("chat")).unwrap_err().to_string();
    assert_eq!(gone, "there is no app \"chat\" here");
}

#[test]
fn an_app_that_is_there_is_never_overwritten() {
    let place = Place::new();
    let staged = place.add();
    fs::create_dir(place.on_disk().join("chat/data")).unwrap();
    fs::write(place.on_disk().join("chat/data/precious"), "x").unwrap();
    let error = place.workspace.commit(&staged, &id("chat")).unwrap_err().to_string();
    assert!(
        error.contains("here already") && error.contains("app remove chat") && error.contains("--id"),
        "{error}"
    );
    assert!(place.on_disk().join("chat/data/precious").exists());
    assert!(place.workspace.app(&id("chat")).unwrap().has_data);
    place.workspace.commit(&staged, &id("chat-2")).unwrap();
    assert_eq!(fs::read_dir(place.on_disk().join(".staging")).unwrap().count(), 0);
}

#[test]
fn what_was_shown_is_what_is_written() {
    let place = Place::new();
    let staged = Staged::from_folder(&place.app(), None).unwrap();
    fs::write(place.app().join("plugins/chat/plugin.js"), "evil()").unwrap();
    place.workspace.commit(&staged, &id("chat")).unwrap();
    let plugin = place
        .workspace
        .plugin(&id("chat"), &PluginId::parse("chat").unwrap())
        .unwrap();
    assert_eq!(plugin.code, staged.plugins[0].code);
    assert_ne!(Staged::from_folder(&place.app(), None).unwrap().head, staged.head);
}

#[test]
fn changed_code_or_permissions_are_other_code() {
    let place = Place::new();
    place.add();
    let plugin = PluginId::parse("chat").unwrap();
    let code = || place.workspace.plugin(&id("chat"), &plugin).unwrap().code;
    let folder = place.on_disk().join("chat/plugins/chat");
    let first = code();
    assert_eq!(code(), first);
    // Same length, and the old time put back: only the bytes tell.
    let file = folder.join("plugin.js");
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    fs::write(&file, "export function handleRoute() {;").unwrap();
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_modified(before)
        .unwrap();
    let second = code();
    assert_ne!(second, first);
    fs::write(folder.join("manifest.json"), PLUGIN.replace("llm", "network")).unwrap();
    assert_ne!(code(), second);
}

#[test]
fn broken_folders_are_named_and_the_rest_works() {
    let place = Place::new();
    place.add();
    let apps = place.on_disk();
    write(
        &apps,
        &[
            ("bad-json/manifest.json", "{\n\"name\": }"),
            ("no-manifest/index.html", ""),
            ("Upper/manifest.json", MANIFEST),
            ("stray-file", ""),
            (".hidden/manifest.json", MANIFEST),
        ],
    );
    symlink(place.app(), apps.join("linked")).unwrap();
    fs::create_dir(apps.join("linked-manifest")).unwrap();
    symlink(
        place.app().join("manifest.json"),
        apps.join("linked-manifest/manifest.json"),
    )
    .unwrap();
    let (good, broken) = place.workspace.list().unwrap();
    assert_eq!(good.len(), 1);
    let of = |id: &str| {
        let found = broken.iter().find(|b| b.id == id);
        found.map(|b| b.error.clone()).unwrap_or_default()
    };
    for (id, want) in [
        ("bad-json", "line 2, column 9"),
        ("no-manifest", "no manifest.json"),
        ("Upper", "lower-case"),
        ("linked", "symbolic link"),
        ("linked-manifest", "symbolic link"),
    ] {
        assert!(of(id).contains(want), "{id}: {:?}, want {want}", of(id));
    }
    assert_eq!(broken.len(), 5, "{broken:?}");
}

#[test]
fn broken_plugins_are_named_and_the_rest_works() {
    let place = Place::new();
    place.add();
    let plugins = place.on_disk().join("chat/plugins");
    write(
        &plugins,
        &[
            ("no-code/manifest.json", PLUGIN),
            ("no-manifest/plugin.js", ""),
            ("unknown/manifest.json", r#"{"name":"x","permissions":["root"]}"#),
            ("unknown/plugin.js", ""),
            ("Upper/plugin.js", ""),
            ("notes/README.md", "not a plugin"),
            ("linked/manifest.json", PLUGIN),
            ("large/manifest.json", PLUGIN),
            ("large/plugin.js", &"x".repeat(2 * 1024 * 1024 + 1)),
        ],
    );
    symlink(plugins.join("chat/plugin.js"), plugins.join("linked/plugin.js")).unwrap();
    fs::create_dir(plugins.join("bytes")).unwrap();
    fs::write(plugins.join("bytes/manifest.json"), PLUGIN).unwrap();
    fs::write(plugins.join("bytes/plugin.js"), b"\xff").unwrap();
    let found = place.workspace.plugins(&id("chat")).unwrap();
    let good: Vec<_> = found.iter().flatten().map(|p| p.id.as_str()).collect();
    assert_eq!(good, ["chat"]);
    let broken: Vec<_> = found.iter().filter_map(|p| p.as_ref().err()).collect();
    for (id, want) in [
        ("no-code", "no plugin.js"),
        ("no-manifest", "no manifest.json"),
        ("unknown", "unknown permission \"root\""),
        ("Upper", "lower-case"),
        ("linked", "symbolic link"),
        ("large", "larger than the 2097152 bytes"),
        ("bytes", "not UTF-8"),
    ] {
        let error = broken
            .iter()
            .find(|b| b.id == id)
            .map(|b| b.error.as_str())
            .unwrap_or_default();
        assert!(error.contains(want), "{id}: {error:?}, want {want}");
    }
    assert_eq!(broken.len(), 7, "{broken:?}");
    let missing = place
        .workspace
        .plugin(&id("chat"), &PluginId::parse("notes").unwrap())
        .unwrap_err();
    assert_eq!(missing.to_string(), "app \"chat\" has no plugin \"notes\"");
}

#[test]
fn what_cannot_be_added_says_why() {
    let check = |change: &dyn Fn(&Path), want: &str| {
        let place = Place::new();
        change(&place.app());
        let got = Staged::from_folder(&place.app(), None).map_or_else(|e| e.to_string(), |_| "ok".into());
        assert!(got.contains(want), "{got}, want {want}");
        assert!(place.workspace.list().unwrap().0.is_empty());
    };
    let put = |path: &'static str, text: &'static str| move |app: &Path| write(app, &[(path, text)]);
    let drop = |path: &'static str| move |app: &Path| fs::remove_file(app.join(path)).unwrap();
    check(&|_| (), "ok");
    check(&drop("manifest.json"), "no manifest.json in this folder");
    check(&put("manifest.json", "{"), "not valid JSON at line 1");
    check(&drop("index.html"), "index.html is not there");
    check(&put("dist/app.js", ""), "dist/index.html is not there, although");
    check(&put("dist/index.html", ""), "ok");
    check(
        &put("package.json", r#"{"scripts":{"build":"vite build"}}"#),
        "must be built first",
    );
    check(&put("package.json", r#"{"name":"x"}"#), "ok");
    check(
        &|app| {
            drop("index.html")(app);
            put("manifest.json", r#"{"name":"x","version":"1","kind":"app"}"#)(app);
        },
        "ok",
    );
    check(
        &put("plugins/chat/manifest.json", r#"{"name":"x"}"#),
        "plugin \"chat\": manifest.json: \"permissions\"",
    );
    check(
        &drop("plugins/chat/plugin.js"),
        "plugin \"chat\": there is no plugin.js",
    );
    check(
        &|app| symlink("/etc/passwd", app.join("data.txt")).unwrap(),
        "\"data.txt\" is a symbolic link",
    );
    check(
        &|app| symlink("index.html", app.join("again.html")).unwrap(),
        "\"again.html\" is a symbolic link",
    );
    check(
        &|app| fs::hard_link(app.join("index.html"), app.join("b.html")).unwrap(),
        "more than one name",
    );
    check(
        &|app| {
            let made = Command::new("mkfifo").arg(app.join("pipe")).status().unwrap();
            assert!(made.success());
        },
        "\"pipe\" is a pipe",
    );
    check(&put("aux.js", ""), "\"aux.js\" is not a usable path");
    check(&put("a:b", ""), "colon");
    check(
        &|app| {
            put("Readme.md", "")(app);
            put("README.md", "")(app);
        },
        "differ only by case",
    );
    check(
        &|app| {
            put("Assets/a.js", "")(app);
            put("assets/b.js", "")(app);
        },
        "differ only by case",
    );
    check(
        &|app| {
            let large = fs::File::create(app.join("large")).unwrap();
            large.set_len(64 * 1024 * 1024).unwrap();
        },
        "larger than the 67108864 bytes",
    );
    check(
        &|app| {
            for i in 0..5000 {
                fs::write(app.join(format!("plugins/chat/{i}")), "").unwrap();
            }
        },
        "more than 5000 files",
    );
}

#[test]
fn the_id_comes_from_the_folder_or_the_person() {
    let base = TempDir::new().unwrap();
    let check = |name: &str, asked: Option<&str>, want: &str| {
        let folder = base.path().join(name);
        chat(&folder);
        let asked = asked.map(id);
        let got = Staged::from_folder(&folder, asked.as_ref()).map_or_else(|e| e.to_string(), |s| s.id.to_string());
        assert!(got.starts_with(want), "{name}: {got}");
    };
    check("My App", None, "my-app");
    check("ünicode", None, "the name \"ünicode\" cannot be the app's id");
    check("ünicode", Some("plain"), "plain");
    check("con", None, "the name \"con\" cannot be");
    let none = Staged::from_folder(&base.path().join("none"), None)
        .unwrap_err()
        .to_string();
    assert!(none.contains("could not be read") && none.contains("none"), "{none}");
}

#[test]
fn files_from_memory_pass_the_same_checks() {
    let stage = |extra: &[(&str, &str)]| {
        let all = [("manifest.json", MANIFEST), ("index.html", "")].iter().chain(extra);
        let files = all.map(|(path, text)| (path.to_string(), text.as_bytes().to_vec()));
        Staged::from_files(id("x"), files).map_or_else(|e| e.to_string(), |_| "ok".into())
    };
    for (path, want) in [
        ("a.js", "ok"),
        ("..foo.txt", "ok"),
        ("../up.js", "not a usable path"),
        ("/abs.js", "not a usable path"),
        ("a\\b.js", "not a usable path"),
        ("C:x", "not a usable path"),
        ("a/COM¹", "not a usable path"),
        ("index.html", "there already"),
        ("INDEX.html", "differ only by case"),
        ("index.html/a", "cannot both be there"),
    ] {
        let got = stage(&[(path, "")]);
        assert!(got.contains(want), "{path}: {got}");
    }
}

#[test]
fn old_leftovers_in_staging_are_swept_and_young_ones_kept() {
    let place = Place::new();
    let staging = place.on_disk().join(".staging");
    let age = |name: &str, days: u64| {
        write(&staging, &[(&format!("{name}/file"), "x")]);
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(days * 24 * 3600);
        fs::File::open(staging.join(name)).unwrap().set_modified(then).unwrap();
    };
    age("old", 8);
    age("young", 6);
    Workspace::open(&place.base.path().join("home/workspace")).unwrap();
    assert!(!staging.join("old").exists());
    assert!(staging.join("young").exists());
}
