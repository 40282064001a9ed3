//! What a plugin could make the engine fetch or serve for its page, and what it could keep from one call to the next.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{AppFolder, process};

use crate::attempt::{Came, Want};
use crate::house::{EVERYTHING, House, OUTSIDE_TEXT};

pub const NAMES: &[&str] = &[
    "a picture from a server in the machine, through the picture proxy",
    "a kept picture that is a link to a file outside",
    "a kept picture by a path",
    "a page in the place of a kept picture",
    "a kept picture of another app",
    "a host that was kept from before a permission was taken back",
    "arguments of 30 MB without end, by four plugins at once",
    "bodies of 20 MB that wait for a server, by twelve calls at once",
];

/// Addresses for the picture proxy; `$` is the port of a server that nobody named.
const PICTURES: &[&str] = &[
    "http://127.0.0.1:$/x.png",
    "http://127.1:$/x.png",
    "http://2130706433:$/x.png",
    "http://[::1]:$/x.png",
    "http://[::ffff:127.0.0.1]:$/x.png",
    "http://localhost:$/x.png",
    "http://0.0.0.0:$/x.png",
    "https://127.0.0.1:$/x.png",
    "http://user@127.0.0.1:$/x.png",
    "http://169.254.169.254/x.png",
    "http://192.168.0.1/x.png",
    "file:///etc/passwd",
    "data:image/png;base64,AAAA",
    "//127.0.0.1:$/x.png",
];

const PIXEL: &str = "R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==";

#[test]
fn only_pictures_are_served_and_only_the_apps_own() {
    let house = House::open();
    let page = house.running.page(&house.owner, "evil");
    for port in [house.other.port, house.granted.port] {
        house.granted.forget();
        for address in PICTURES {
            let address = address.replace('$', &port.to_string());
            let encoded: String = address.bytes().map(|byte| format!("%{byte:02x}")).collect();
            let reply = page.get(&format!("/v1/apps/evil/img?url={encoded}"));
            assert!(reply.status >= 400, "{address}: {} {}", reply.status, reply.text());
            assert!(
                !reply.text().contains(OUTSIDE_TEXT) && !reply.text().contains("root:x"),
                "{address}"
            );
        }
        assert!(house.other.seen().is_empty() && house.granted.seen().is_empty());
    }

    let keep = |app: &str| match house.run_as(
        app,
        "p",
        &format!("return host.fs.media('data:image/gif;base64,{PIXEL}')"),
    ) {
        Came::Value(Value::String(address)) => address,
        other => panic!("{other:?}"),
    };
    let (own, theirs) = (keep("evil"), keep("beta"));
    let picture = page.get(&own);
    assert_eq!(
        (picture.status, picture.header("content-type")),
        (200, "image/gif"),
        "the twin"
    );
    assert_eq!(picture.header("x-content-type-options"), "nosniff");
    assert_eq!(page.get(&theirs).status, 403, "another app's");

    let kept = house.data("evil").join("__media");
    symlink(
        house.outside().join("file.txt"),
        kept.join(format!("{}.png", "a".repeat(64))),
    )
    .unwrap();
    fs::hard_link(
        house.outside().join("file.txt"),
        kept.join(format!("{}.png", "b".repeat(64))),
    )
    .unwrap();
    crate::files::pipe(&kept.join(format!("{}.png", "c".repeat(64))));
    assert_eq!(house.run("host.fs.write('own.txt', 'mine')"), Came::Value(Value::Null));
    let html = "<script>alert(1)</script>";
    for name in [
        "d".repeat(64) + ".png",
        "d".repeat(64) + ".html",
        "d".repeat(64) + ".svg",
        "page.html".into(),
    ] {
        let code = format!("host.fs.write('__media/{name}', '{html}')");
        assert_eq!(house.run(&code), Came::Value(Value::Null));
    }
    for name in [
        "a".repeat(64) + ".png",
        "b".repeat(64) + ".png",
        "c".repeat(64) + ".png",
        "d".repeat(64) + ".html",
        "d".repeat(64) + ".svg",
        "page.html".into(),
        "../own.txt".into(),
        "..%2fown.txt".into(),
        "%2e%2e/own.txt".into(),
        "..%5cown.txt".into(),
        ".".into(),
        "..".into(),
        "%00".into(),
        own.rsplit('/').next().unwrap().to_uppercase(),
    ] {
        let reply = page.get(&format!("/v1/apps/evil/__media/{name}"));
        assert!(reply.status >= 400, "{name}: {} {}", reply.status, reply.text());
        assert!(!reply.text().contains(OUTSIDE_TEXT), "{name}");
    }
    let reply = page.get(&format!("/v1/apps/evil/__media/{}.png", "d".repeat(64)));
    let harmless = reply.header("content-type") == "image/png" && reply.header("x-content-type-options") == "nosniff";
    assert!(reply.status >= 400 || harmless, "{} {}", reply.status, reply.text());
}

const KEEPING: &str = r#"
let kept;
export async function handleRoute(req, host) {
  kept ??= host;
  const state = req.path === "/again" ? kept : host;
  state.store.put("k", req.path);
  return { json: state.store.get("k") };
}
"#;

#[test]
fn what_was_kept_from_before_is_worth_nothing() {
    let house = House::open();
    let app = AppFolder::new(house.home.folder(), "keeping").plugin("p", EVERYTHING, KEEPING);
    let mut manifest = house.manifest("p", EVERYTHING);
    manifest["persistent"] = true.into();
    app.file("plugins/p/manifest.json", &manifest.to_string());
    house.running.add(app.path(), "keeping");
    let ask = |path: &str| house.owner.post(&format!("/v1/apps/keeping{path}"), &json!({}));
    assert_eq!(ask("/first").ok(), "/first");
    assert_eq!(
        ask("/again").ok(),
        "/again",
        "the twin: what was kept works while the permission stands"
    );
    let body = json!({"capability": "store"});
    house.owner.post("/v1/plugins/keeping__p/revoke", &body).ok();
    for path in ["/again", "/first"] {
        let said = ask(path).error(500);
        assert!(said.contains("needs the permission \"store\""), "{path}: {said}");
    }
}

/// Asks beta's plugin until the others are done; the longest it took.
fn neighbour(house: &House, over: &std::sync::atomic::AtomicBool) -> (usize, Duration) {
    let (mut calls, mut longest) = (0, Duration::ZERO);
    while !over.load(std::sync::atomic::Ordering::SeqCst) {
        let began = Instant::now();
        assert_eq!(house.run_as("beta", "p", "return 1"), Came::Value(json!(1)));
        longest = longest.max(began.elapsed());
        calls += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    (calls, longest)
}

/// Runs `work` for each number at once and gives what each came to, the engine's largest memory meanwhile, and how
/// another app's plugin was.
fn under_pressure(
    house: &House,
    count: usize,
    work: impl Fn(usize) -> Came + Sync,
) -> (Vec<Came>, u64, usize, Duration) {
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| neighbour(house, &over));
        let memory = scope.spawn(|| {
            let mut most = 0;
            while !over.load(std::sync::atomic::Ordering::SeqCst) {
                most = most.max(process::private_memory(house.running.pid()));
                std::thread::sleep(Duration::from_millis(50));
            }
            most
        });
        let work = &work;
        let all: Vec<_> = (0..count).map(|n| scope.spawn(move || work(n))).collect();
        let came = all.into_iter().map(|one| one.join().unwrap()).collect();
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        let (calls, longest) = beside.join().unwrap();
        (came, memory.join().unwrap(), calls, longest)
    })
}

#[test]
fn large_arguments_hold_up_nobody_else() {
    let house = House::alone();
    for n in 0..4 {
        house.add(&format!("large{n}"), &["p"], EVERYTHING);
    }
    let code = "const s = 'x'.repeat(15e6); let n = 0; const end = Date.now() + 8000;
                while (Date.now() < end) try { host.store.put('k', s) } catch { n++ } return n > 0";
    let (came, memory, calls, longest) = under_pressure(&house, 4, |n| house.run_as(&format!("large{n}"), "p", code));
    eprintln!(
        "large arguments: {calls} calls beside them, the longest {longest:?}; the engine had {} MiB",
        memory >> 20
    );
    for came in came {
        assert!(
            came == Came::Value(json!(true)) || Want::Fails(&["longer", "ran out"]).fits(&came),
            "{came:?}"
        );
    }
    assert!(
        calls > 10 && longest < Duration::from_secs(5),
        "{calls} calls, the longest {longest:?}"
    );
    assert!(memory < 768 << 20, "{memory}");
}

#[test]
fn waiting_bodies_do_not_fill_the_engines_memory() {
    let house = House::alone();
    house.add("bodies", &["p"], EVERYTHING);
    let code = "const body = 'x'.repeat(20e6); const a = await host.net.fetch({ url: given.granted + '/silent', method: 'POST', body, timeoutMs: 4000 }); return String(a.error)";
    let (came, memory, calls, longest) = under_pressure(&house, 12, |_| house.run_as("bodies", "p", code));
    eprintln!(
        "waiting bodies: {calls} calls beside them, the longest {longest:?}; the engine had {} MiB",
        memory >> 20
    );
    eprintln!("{:?}", came.first());
    assert!(
        calls > 10 && longest < Duration::from_secs(5),
        "{calls} calls, the longest {longest:?}"
    );
    assert!(memory < 1 << 30, "{memory}");
}
