//! Permissions that belong to other code, were taken back, or were never given; and names that could be two things.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{AppFolder, wait_for};

use crate::attempt::{Came, Want};
use crate::house::{EVERYTHING, HOSTILE, House};

/// A name and what is tried under it, in an app of this id which was granted everything. Each shows its twin itself.
type Coded = (&'static str, fn(&House, &str));

pub const CODED: &[Coded] = &[
    ("code that was changed on disk", changed_code),
    ("hosts that were added to the manifest on disk", widened_manifest),
    ("a manifest without its origin", no_origin),
    ("a plugin that was turned off", turned_off),
    ("a permission that was taken back", taken_back),
    (
        "a permission that is taken back in the middle of a call",
        taken_back_meanwhile,
    ),
    (
        "a plugin that is turned off in the middle of a call",
        turned_off_meanwhile,
    ),
    ("an app's folder that was copied", copied_app),
    ("an app's folder that was renamed", renamed_app),
    ("an app's folder that is a link to another", linked_app),
    ("a plugin's folder that was copied within its app", copied_plugin),
    ("code that is a link to code that was granted", linked_code),
    ("code that is a pipe", piped_code),
    ("permissions that were never asked for", never_asked),
    ("a permission for code that is not there any more", old_hash),
    ("a permission that the plugin does not ask for", unasked),
    ("permissions by the app's own page", own_page),
    ("an app whose name looks like another app's plugin", two_names),
    (
        "a plugin whose name looks like another app's plugin",
        plugin_of_two_names,
    ),
    ("the shelf of plugins that belong to no app", shelf),
    ("an app's own folders and files over its data folder", app_files),
];

const FINE: &str = "host.store.put('own', 1); return host.store.get('own')";

fn works(house: &House, app: &str) {
    assert_eq!(house.run_as(app, "p", FINE), Came::Value(json!(1)), "{app}");
}

#[track_caller]
fn fails(house: &House, app: &str, plugin: &str, parts: &'static [&'static str]) {
    let came = house.run_as(app, plugin, FINE);
    assert!(
        Want::Fails(parts).fits(&came),
        "{app}/{plugin}: wanted {parts:?}, got {came:?}"
    );
}

fn folder(house: &House, app: &str) -> PathBuf {
    house.workspace().join(app)
}

fn plugin(house: &House, app: &str) -> Value {
    let listed = house.owner.get(&format!("/v1/apps/{app}/plugins")).ok();
    listed["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["id"] == "p")
        .unwrap()
        .clone()
}

const NOBODY_ALLOWED: &[&str] = &["needs the permission", "nobody has allowed it"];

fn changed_code(house: &House, app: &str) {
    let file = folder(house, app).join("plugins/p/plugin.js");
    fs::write(&file, format!("{HOSTILE}\n")).unwrap();
    fails(house, app, "p", NOBODY_ALLOWED);
    fs::write(&file, HOSTILE).unwrap();
    works(house, app);
}

fn widened_manifest(house: &House, app: &str) {
    let file = folder(house, app).join("plugins/p/manifest.json");
    let before = fs::read_to_string(&file).unwrap();
    let mut manifest: Value = serde_json::from_str(&before).unwrap();
    manifest["networkHosts"] = json!([format!("127.0.0.1:{}", house.other.port)]);
    fs::write(&file, manifest.to_string()).unwrap();
    fails(house, app, "p", NOBODY_ALLOWED);
    fs::write(&file, before).unwrap();
    works(house, app);
}

fn no_origin(house: &House, app: &str) {
    let file = folder(house, app).join("plugins/p/manifest.json");
    let before = fs::read_to_string(&file).unwrap();
    let mut manifest: Value = serde_json::from_str(&before).unwrap();
    manifest.as_object_mut().unwrap().remove("origin");
    fs::write(&file, manifest.to_string()).unwrap();
    fails(house, app, "p", NOBODY_ALLOWED);
    fs::write(&file, before).unwrap();
    works(house, app);
}

fn turned_off(house: &House, app: &str) {
    house
        .owner
        .post(&format!("/v1/apps/{app}/plugins/p/disable"), &json!({}))
        .ok();
    fails(house, app, "p", &["turned off"]);
    house
        .owner
        .post(&format!("/v1/apps/{app}/plugins/p/enable"), &json!({}))
        .ok();
    works(house, app);
}

fn revoke(house: &House, app: &str, capability: &str) {
    let body = json!({"capability": capability});
    house.owner.post(&format!("/v1/plugins/{app}__p/revoke"), &body).ok();
}

fn approve(house: &House, app: &str) {
    let head = plugin(house, app)["hash"].clone();
    house
        .owner
        .post(&format!("/v1/plugins/{app}__p/approve"), &json!({"head": head}))
        .ok();
}

fn taken_back(house: &House, app: &str) {
    revoke(house, app, "store");
    fails(house, app, "p", &["host.store.put needs the permission \"store\""]);
    approve(house, app);
    works(house, app);
}

/// Runs code that writes the file `began` and then sleeps and goes on, and does `meanwhile` once the file is there.
fn during(house: &House, app: &str, meanwhile: impl FnOnce()) -> Came {
    let began = house.data(app).join("began");
    let _ = fs::remove_file(&began);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| {
            let code = "host.fs.write('began', 'x'); for (let n = 0; n < 40 && !host.fs.exists('go'); n++) await host.sleep(100);
                        host.fs.exists('go') && host.fs.remove('go'); host.store.put('late', 1); return host.store.get('late')";
            house.run_as(app, "p", code)
        });
        wait_for("the call to begin", || began.exists().then_some(()));
        meanwhile();
        let _ = fs::write(house.data(app).join("go"), "x");
        call.join().unwrap()
    })
}

fn taken_back_meanwhile(house: &House, app: &str) {
    let came = during(house, app, || revoke(house, app, "store"));
    assert!(
        Want::Fails(&["host.store.put needs the permission \"store\""]).fits(&came),
        "{came:?}"
    );
    approve(house, app);
    assert_eq!(during(house, app, || ()), Came::Value(json!(1)));
}

fn turned_off_meanwhile(house: &House, app: &str) {
    let off = || {
        house
            .owner
            .post(&format!("/v1/apps/{app}/plugins/p/disable"), &json!({}))
            .ok();
    };
    let came = during(house, app, off);
    assert!(Want::Fails(&["stopped by the person"]).fits(&came), "{came:?}");
    house
        .owner
        .post(&format!("/v1/apps/{app}/plugins/p/enable"), &json!({}))
        .ok();
    assert_eq!(
        house.run_as(app, "p", "return host.store.get('late')"),
        Came::Value(Value::Null)
    );
    assert_eq!(during(house, app, || ()), Came::Value(json!(1)));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn copied_app(house: &House, app: &str) {
    let other = format!("{app}-copy");
    copy(&folder(house, app), &folder(house, &other));
    fails(house, &other, "p", NOBODY_ALLOWED);
    works(house, app);
    // Once a person allows it, it is an app like any other, with a store of its own.
    approve(house, &other);
    assert_eq!(
        house.run_as(&other, "p", "return host.store.get('own')"),
        Came::Value(Value::Null)
    );
    works(house, &other);
}

fn renamed_app(house: &House, app: &str) {
    let other = format!("{app}-renamed");
    fs::rename(folder(house, app), folder(house, &other)).unwrap();
    fails(house, &other, "p", NOBODY_ALLOWED);
    fs::rename(folder(house, &other), folder(house, app)).unwrap();
    works(house, app);
}

fn linked_app(house: &House, app: &str) {
    let other = format!("{app}-link");
    symlink(folder(house, app), folder(house, &other)).unwrap();
    let came = house.run_as(&other, "p", FINE);
    assert!(matches!(&came, Came::Error(why) if why.starts_with("40")), "{came:?}");
    works(house, app);
}

fn copied_plugin(house: &House, app: &str) {
    works(house, app);
    let plugins = folder(house, app).join("plugins");
    copy(&plugins.join("p"), &plugins.join("q"));
    fails(house, app, "q", NOBODY_ALLOWED);
    let head = plugin(house, app)["hash"].clone();
    house
        .owner
        .post(&format!("/v1/plugins/{app}__q/approve"), &json!({"head": head}))
        .ok();
    assert_eq!(
        house.run_as(app, "q", "return host.store.get('own')"),
        Came::Value(Value::Null)
    );
    works(house, app);
}

fn linked_code(house: &House, app: &str) {
    let file = folder(house, app).join("plugins/p/plugin.js");
    fs::remove_file(&file).unwrap();
    symlink(folder(house, "evil").join("plugins/p/plugin.js"), &file).unwrap();
    let came = house.run_as(app, "p", FINE);
    assert!(matches!(&came, Came::Error(why) if why.contains("link")), "{came:?}");
    fs::remove_file(&file).unwrap();
    fs::write(&file, HOSTILE).unwrap();
    works(house, app);
}

fn piped_code(house: &House, app: &str) {
    let file = folder(house, app).join("plugins/p/plugin.js");
    fs::remove_file(&file).unwrap();
    crate::files::pipe(&file);
    let came = house.run_as(app, "p", FINE);
    assert!(matches!(&came, Came::Error(why) if why.contains("pipe")), "{came:?}");
    fs::remove_file(&file).unwrap();
    fs::write(&file, HOSTILE).unwrap();
    works(house, app);
}

fn never_asked(house: &House, app: &str) {
    house.add(&format!("{app}-poor"), &["p"], &["routes"]);
    for code in [
        "host.store.put('k', 1)",
        "return host.store.get('k')",
        "await host.store.scan()",
        "await host.store.batch([])",
        "await host.store.cas('k', null, 1)",
        "host.fs.write('x', 'x')",
        "return host.fs.list()",
        "await host.fs.transaction(async (fs) => fs.write('x', 'x'))",
        "await host.fs.writer('x').write('x')",
        "return host.fs.lookup('a', 'b')",
        "host.zip.list()",
        "await host.llm.generate({ messages: [{ role: 'user', content: 'x' }] })",
        "await host.llm.stream({ messages: [{ role: 'user', content: 'x' }] }).result",
        "return await host.llm.embed({ texts: ['x'] })",
        "return await host.net.fetch({ url: given.granted })",
    ] {
        let came = house.run_as(&format!("{app}-poor"), "p", code);
        let refused = Want::Fails(&["needs the permission", "of undefined"]);
        assert!(refused.fits(&came), "{code}: {came:?}");
    }
    let queued = "host.llm.request('a', { messages: [{ role: 'user', content: 'x' }] }); return host.llm.results";
    assert_eq!(
        house.run_as(&format!("{app}-poor"), "p", queued),
        Came::Value(json!({}))
    );
    let came = house.run_as(&format!("{app}-poor"), "p", "return host.permissions");
    assert_eq!(came, Came::Value(json!({"routes": true})));
    works(house, app);
}

fn old_hash(house: &House, app: &str) {
    let head = plugin(house, app)["hash"].clone();
    let file = folder(house, app).join("plugins/p/plugin.js");
    fs::write(&file, format!("{HOSTILE}// more")).unwrap();
    let address = format!("/v1/plugins/{app}__p/approve");
    let reply = house.owner.post(&address, &json!({"head": head}));
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (409, "changed"),
        "{}",
        reply.text()
    );
    fails(house, app, "p", NOBODY_ALLOWED);
    approve(house, app);
    works(house, app);
}

fn unasked(house: &House, app: &str) {
    let poor = format!("{app}-poor");
    house.add(&poor, &["p"], &["routes"]);
    let head = plugin(house, &poor)["hash"].clone();
    let address = format!("/v1/plugins/{poor}__p/approve");
    for name in ["fs", "llm", "network", "everything", "ROUTES", ""] {
        let reply = house
            .owner
            .post(&address, &json!({"head": head, "capabilities": ["routes", name]}));
        assert_eq!(reply.status, 400, "{name}: {}", reply.text());
    }
    house
        .owner
        .post(&address, &json!({"head": head, "capabilities": ["routes"]}))
        .ok();
    works(house, app);
}

fn own_page(house: &House, app: &str) {
    let page = house.running.page(&house.owner, app);
    let head = plugin(house, app)["hash"].clone();
    for (method, address) in [
        ("POST", format!("/v1/plugins/{app}__p/approve")),
        ("PUT", format!("/v1/plugins/{app}__p/secrets/token")),
        ("POST", format!("/v1/apps/{app}/plugins/p/enable")),
        ("POST", format!("/v1/apps/{app}/plugins/p/call")),
        ("PUT", format!("/v1/budgets/{app}")),
    ] {
        let body = json!({"head": head, "value": "x", "origin": "http://127.0.0.1", "method": "GET", "path": "/"});
        assert_eq!(page.send(method, &address, &body).status, 403, "{method} {address}");
    }
    let own = page.post(&format!("/v1/apps/{app}/run"), &json!({"code": FINE, "given": {}}));
    assert_eq!(own.ok(), json!(1));
}

/// `<app>__<plugin>` of one must never be that of another.
fn two_names(house: &House, app: &str) {
    let odd = format!("{app}__x");
    house.add(&odd, &["p"], EVERYTHING);
    works(house, &odd);
    house
        .owner
        .post(&format!("/v1/plugins/{odd}__p/revoke"), &json!({}))
        .ok();
    fails(house, &odd, "p", NOBODY_ALLOWED);
    works(house, app);
}

fn plugin_of_two_names(house: &House, app: &str) {
    let command_line = house.running.command_line();
    for (id, plugin, good) in [("two", "x__p", false), ("three", "x_p", true)] {
        let app = format!("{app}-{id}");
        let folder = AppFolder::new(house.home.folder(), &app).plugin(plugin, EVERYTHING, HOSTILE);
        let mut import = json!({"folder": folder.path(), "id": app});
        let preview = command_line.post("/v1/apps/import", &import);
        import["confirm"] = true.into();
        import["head"] = preview.json()["head"].clone();
        let added = command_line.post("/v1/apps/import", &import);
        let came = house.run_as(&app, plugin, FINE);
        if good {
            assert_eq!((added.status / 100, &came), (2, &Came::Value(json!(1))), "{plugin}");
        } else {
            assert!(Want::Fails(&["use one '_'"]).fits(&came), "{plugin}: {came:?}");
        }
    }
    works(house, app);
}

fn shelf(house: &House, app: &str) {
    // Nobody adds an app that is the shelf, and what lies on it by hand is allowed nothing.
    let folder = AppFolder::new(house.home.folder(), "shelf-app").plugin("p", EVERYTHING, HOSTILE);
    let import = json!({"folder": folder.path(), "id": "_"});
    let refused = house.running.command_line().post("/v1/apps/import", &import);
    assert!(refused.error(400).contains("id"), "{}", refused.text());
    let plugins = house.workspace().parent().unwrap().join("plugins");
    copy(&self::folder(house, app).join("plugins/p"), &plugins.join("top"));
    let came = house.run_as("_", "top", FINE);
    assert!(Want::Fails(NOBODY_ALLOWED).fits(&came), "{came:?}");
    let head = plugin(house, app)["hash"].clone();
    house.owner.post("/v1/plugins/top/approve", &json!({"head": head})).ok();
    assert_eq!(house.run_as("_", "top", FINE), Came::Value(json!(1)));
    let came = house.run_as("_", "top", "return host.fs.read('began')");
    assert!(Want::Fails(&["belongs to no app"]).fits(&came), "{came:?}");
    works(house, app);
}

fn app_files(house: &House, app: &str) {
    let before = fs::read(folder(house, app).join("plugins/p/plugin.js")).unwrap();
    for path in [
        "../plugins/p/plugin.js",
        "../index.html",
        "../manifest.json",
        "..",
        "../data/../index.html",
    ] {
        let code = format!("return kit.thrown(async () => host.fs.write({path:?}, 'x'))");
        let came = house.run_as(app, "p", &code);
        assert!(Want::Says(&["is not a usable path"]).fits(&came), "{came:?}");
    }
    // A folder of the same name within the data folder is only that.
    let code = "host.fs.write('plugins/p/plugin.js', 'x'); return host.fs.read('plugins/p/plugin.js')";
    assert_eq!(house.run_as(app, "p", code), Came::Value(json!("x")));
    assert_eq!(
        fs::read(folder(house, app).join("plugins/p/plugin.js")).unwrap(),
        before
    );
    works(house, app);
}

#[test]
fn permissions_belong_to_one_code_in_one_place() {
    let house = House::open();
    let mut wrong = Vec::new();
    for (n, (name, work)) in CODED.iter().enumerate() {
        let app = format!("perm{n}");
        house.add(&app, &["p"], EVERYTHING);
        works(&house, &app);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&house, &app)));
        if let Err(why) = tried {
            let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
            wrong.push(format!("{name}: {why}"));
        }
        wrong.extend(
            house
                .harm(&Came::Value(Value::Null))
                .map(|harm| format!("{name}: {harm}")),
        );
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        CODED.len(),
        wrong.join("\n")
    );
}
