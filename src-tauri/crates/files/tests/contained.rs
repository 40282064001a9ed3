//! What a folder lets out and what it does not, with real links, pipes and races.
#![cfg(unix)]

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use files::{FileError, Folder, Kind, WalkLimits};
use tempfile::TempDir;

/// A folder `inside` beside a secret that must never be read through it.
fn place() -> (TempDir, Folder) {
    let base = TempDir::new().unwrap();
    fs::write(base.path().join("secret"), "SECRET").unwrap();
    fs::create_dir_all(base.path().join("outside/deep")).unwrap();
    fs::write(base.path().join("outside/deep/secret"), "SECRET").unwrap();
    fs::create_dir_all(base.path().join("inside/sub")).unwrap();
    fs::write(base.path().join("inside/a.txt"), "hello").unwrap();
    fs::write(base.path().join("inside/sub/b.txt"), "there").unwrap();
    let folder = Folder::open_ambient(&base.path().join("inside")).unwrap();
    (base, folder)
}

fn pipe(path: &Path) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the string ends with NUL and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

fn words<T>(result: Result<T, FileError>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "ok".to_owned())
}

#[test]
fn only_plain_files_inside_are_read() {
    let (base, folder) = place();
    let inside = base.path().join("inside");
    symlink("a.txt", inside.join("to-a")).unwrap();
    symlink("sub", inside.join("to-sub")).unwrap();
    symlink("../secret", inside.join("to-secret")).unwrap();
    symlink("../outside", inside.join("to-outside")).unwrap();
    symlink("/etc", inside.join("to-etc")).unwrap();
    symlink("nowhere", inside.join("to-nowhere")).unwrap();
    fs::hard_link(base.path().join("secret"), inside.join("hard")).unwrap();
    pipe(&inside.join("pipe"));
    let _socket = UnixListener::bind(inside.join("socket")).unwrap();

    let started = Instant::now();
    for (path, want) in [
        ("a.txt", "ok"),
        ("sub/b.txt", "ok"),
        ("none.txt", "\"none.txt\" does not exist"),
        ("none/a.txt", "\"none\" does not exist"),
        ("sub", "is a folder"),
        ("a.txt/b", "\"a.txt\" is a file"),
        ("to-a", "\"to-a\" is a symbolic link"),
        ("to-sub/b.txt", "\"to-sub\" is a symbolic link"),
        ("to-secret", "is a symbolic link"),
        ("to-outside/deep/secret", "\"to-outside\" is a symbolic link"),
        ("to-etc/passwd", "\"to-etc\" is a symbolic link"),
        ("to-nowhere", "is a symbolic link"),
        ("hard", "more than one name"),
        ("pipe", "is a pipe"),
        ("socket", "is a pipe, socket"),
        ("../secret", "not a usable path"),
        ("sub/../../secret", "not a usable path"),
        ("/etc/passwd", "not a usable path"),
        ("", "not a usable path"),
        (".", "not a usable path"),
        ("a.txt\0", "not a usable path"),
    ] {
        let got = words(folder.read(path, 1000));
        assert!(got.contains(want), "{path:?}: {got}, want {want}");
        let shown = base.path().to_str().unwrap();
        assert!(!got.contains(shown), "an error gives an absolute path away: {got}");
    }
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "something waited, the pipe perhaps"
    );
    assert_eq!(folder.read("sub/b.txt", 1000).unwrap(), b"there");
    assert!(!format!("{folder:?}").contains(base.path().to_str().unwrap()));
    assert!(words(folder.sub("to-sub")).contains("symbolic link"));
    assert_eq!(folder.sub("sub").unwrap().read("b.txt", 5).unwrap(), b"there");
}

#[test]
fn limits_hold_for_what_is_read() {
    let (base, folder) = place();
    assert_eq!(folder.read("a.txt", 5).unwrap(), b"hello");
    assert!(words(folder.read("a.txt", 4)).contains("larger than the 4 bytes"));
    let many = base.path().join("inside/many");
    fs::create_dir(&many).unwrap();
    for i in 0..50 {
        fs::write(many.join(format!("{i}")), "12345").unwrap();
    }
    let walk = |files, bytes| {
        words(folder.walk(WalkLimits {
            files,
            bytes,
            skip: &[],
        }))
    };
    assert_eq!(walk(52, 260), "ok");
    assert!(walk(51, 260).contains("more than 51"));
    assert!(walk(52, 259).contains("larger than the 259"));
}

#[test]
fn a_walk_names_what_it_refuses() {
    let check = |make: &dyn Fn(&Path), want: &str| {
        let (base, folder) = place();
        make(&base.path().join("inside/sub"));
        let got = words(folder.walk(WalkLimits {
            files: 100,
            bytes: 10_000,
            skip: &[".git"],
        }));
        assert!(got.contains(want), "{got}, want {want}");
    };
    check(&|_| (), "ok");
    check(
        &|at| symlink("b.txt", at.join("l")).unwrap(),
        "\"sub/l\" is a symbolic link",
    );
    check(
        &|at| symlink("/", at.join("root")).unwrap(),
        "\"sub/root\" is a symbolic link",
    );
    check(&|at| pipe(&at.join("p")), "\"sub/p\" is a pipe");
    check(
        &|at| fs::write(at.join("nul.txt"), "").unwrap(),
        "\"sub/nul.txt\" is not a usable path",
    );
    check(&|at| fs::write(at.join("a\\b"), "").unwrap(), "backslash");
    check(
        &|at| {
            fs::create_dir(at.join(".git")).unwrap();
            symlink("/", at.join(".git/l")).unwrap();
        },
        "ok",
    );
    check(
        &|at| fs::create_dir_all(at.join(vec!["d"; files::MAX_DEPTH].join("/"))).unwrap(),
        "folders deep",
    );
}

#[test]
fn a_walk_is_sorted_and_complete() {
    let (_base, folder) = place();
    let found = folder.walk(WalkLimits {
        files: 10,
        bytes: 100,
        skip: &[],
    });
    let paths: Vec<String> = found
        .unwrap()
        .into_iter()
        .map(|f| format!("{} {}", f.path, f.len))
        .collect();
    assert_eq!(paths, ["a.txt 5", "sub/b.txt 5"]);
}

#[test]
fn writing_replaces_names_and_never_follows_them() {
    let (base, folder) = place();
    let inside = base.path().join("inside");
    assert!(words(folder.write_new("a.txt", b"x")).contains("there already"));
    assert_eq!(fs::read(inside.join("a.txt")).unwrap(), b"hello");
    folder.write_new("sub/c.txt", b"new").unwrap();
    assert_eq!(fs::read(inside.join("sub/c.txt")).unwrap(), b"new");

    symlink("../secret", inside.join("link")).unwrap();
    symlink("../outside", inside.join("way")).unwrap();
    assert!(words(folder.write_new("link", b"x")).contains("there already"));
    folder.replace("link", b"mine").unwrap();
    assert_eq!(fs::read(inside.join("link")).unwrap(), b"mine");
    assert!(words(folder.replace("way/deep/secret", b"x")).contains("symbolic link"));
    assert!(words(folder.create_folder("way/new")).contains("symbolic link"));
    assert!(words(folder.replace("sub", b"x")).contains("is a folder"));
    fs::hard_link(base.path().join("secret"), inside.join("hard")).unwrap();
    folder.replace("hard", b"mine").unwrap();
    for secret in ["secret", "outside/deep/secret"] {
        assert_eq!(fs::read(base.path().join(secret)).unwrap(), b"SECRET");
    }
    assert!(!base.path().join("outside/new").exists());
    let left: Vec<_> = folder
        .list()
        .unwrap()
        .into_iter()
        .filter(|e| e.name.starts_with(".writing"))
        .collect();
    assert_eq!(left, [], "temporary files are left behind");
}

#[test]
fn renaming_takes_nobodys_place() {
    let (base, folder) = place();
    let inside = base.path().join("inside");
    fs::create_dir(inside.join("empty")).unwrap();
    assert!(words(folder.rename("sub", "empty")).contains("\"empty\" is there already"));
    assert!(words(folder.rename("sub", "a.txt")).contains("there already"));
    assert!(words(folder.rename("none", "x")).contains("\"none\" does not exist"));
    folder.rename("sub", "empty/moved").unwrap();
    assert_eq!(fs::read(inside.join("empty/moved/b.txt")).unwrap(), b"there");
}

#[test]
fn removing_stays_inside_and_reaches_every_depth() {
    let (base, folder) = place();
    let inside = base.path().join("inside");
    symlink("../outside", inside.join("sub/way")).unwrap();
    symlink("../outside", inside.join("way")).unwrap();
    folder.remove("way").unwrap();
    // Deeper than descriptors, the stack or the longest path would allow, as a guest can make it.
    let mut at = cap_std::fs::Dir::open_ambient_dir(inside.join("sub"), cap_std::ambient_authority()).unwrap();
    for _ in 0..3000 {
        at.create_dir("down").unwrap();
        at = at.open_dir("down").unwrap();
    }
    at.write("file", "x").unwrap();
    drop(at);
    folder.remove("sub").unwrap();
    assert_eq!(fs::read(base.path().join("outside/deep/secret")).unwrap(), b"SECRET");
    assert_eq!(folder.list().unwrap().len(), 1);
    assert!(folder.remove("sub").unwrap_err().is_missing());
    assert!(words(folder.remove("../secret")).contains("not a usable path"));
}

#[test]
fn a_listing_tells_links_apart() {
    let (base, folder) = place();
    symlink("/etc", base.path().join("inside/etc")).unwrap();
    let kinds: Vec<_> = folder.list().unwrap().into_iter().map(|e| (e.name, e.kind)).collect();
    let want = [("a.txt", Kind::File), ("etc", Kind::Link), ("sub", Kind::Folder)];
    assert_eq!(kinds, want.map(|(name, kind)| (name.to_owned(), kind)));
    assert_eq!(folder.kind("etc").unwrap(), Some(Kind::Link));
    assert_eq!(folder.kind("none").unwrap(), None);
    assert_eq!(folder.kind("none/x").unwrap(), None);
}

#[test]
fn the_stamp_changes_with_the_file() {
    let (_base, folder) = place();
    let before = folder.open_file("a.txt").unwrap().stamp;
    assert_eq!(folder.open_file("a.txt").unwrap().stamp, before);
    folder.replace("a.txt", b"HELLO").unwrap();
    assert_ne!(folder.open_file("a.txt").unwrap().stamp, before);
}

// denoland/deno#33894, #2318, #12152: a rule checked before links are resolved. Here both the last name and a folder on
// the way are swapped, as fast as the disk goes, between what is allowed and a link to the secret.
#[test]
fn regress_20_a_race_reads_nothing_outside() {
    let (base, folder) = place();
    let inside = base.path().join("inside");
    fs::create_dir(inside.join("real")).unwrap();
    fs::write(inside.join("real/secret"), "PUBLIC").unwrap();
    fs::write(inside.join("real-file"), "PUBLIC").unwrap();
    symlink("../outside/deep", inside.join("evil")).unwrap();
    symlink("../secret", inside.join("evil-file")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |from: &str, to: &str| {
                let _ = fs::rename(inside.join(from), inside.join(to));
            };
            while !stop.load(Ordering::Relaxed) {
                for (good, bad, at) in [("real", "evil", "now"), ("real-file", "evil-file", "now-file")] {
                    swap(good, at);
                    swap(at, good);
                    swap(bad, at);
                    swap(at, bad);
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end && (read < 2000 || refused < 2000) {
            for path in ["now/secret", "now-file"] {
                match folder.read(path, 100) {
                    Ok(bytes) => {
                        assert_eq!(bytes, b"PUBLIC", "{path} led outside");
                        read += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(
        read > 0 && refused > 0,
        "the race never happened: {read} read, {refused} refused"
    );
}
