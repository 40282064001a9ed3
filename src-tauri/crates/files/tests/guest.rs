//! What an app's data folder does for its plugins: each verb, what it refuses, and what it says then.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use files::{FileError, Folder, GuestFolder, Kind, MAX_DEPTH, Transaction, cost};
use tempfile::TempDir;

struct Place {
    base: TempDir,
    within: Folder,
    folder: GuestFolder,
}

impl Place {
    fn new() -> Self {
        let base = TempDir::new().unwrap();
        let within = Folder::open_ambient(base.path()).unwrap();
        let folder = GuestFolder::open(&within, "app/data").unwrap();
        Self { base, within, folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join("app/data").join(path)
    }

    fn tree(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        add(&self.at(""), "", &mut found);
        found
    }
}

/// Everything there is, our own temporary folder aside.
fn add(at: &Path, above: &str, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(at).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{above}{}", entry.file_name().to_str().unwrap());
        if name == ".writing-now" {
            assert_eq!(
                fs::read_dir(entry.path()).unwrap().count(),
                0,
                "something unfinished is left"
            );
        } else if entry.file_type().unwrap().is_dir() {
            add(&entry.path(), &format!("{name}/"), found);
            found.insert(name, "folder".into());
        } else {
            found.insert(name, format!("file {}", fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

fn words<T>(result: Result<T, FileError>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "ok".to_owned())
}

fn names(folder: &GuestFolder, path: &str) -> Vec<String> {
    folder.list(path).unwrap().into_iter().map(|entry| entry.name).collect()
}

#[test]
fn the_folder_is_made_when_something_is_written() {
    let place = Place::new();
    let folder = &place.folder;
    assert_eq!(folder.list(".").unwrap(), []);
    assert_eq!(folder.stat("").unwrap().kind, Kind::Folder);
    assert!(!folder.exists("a").unwrap());
    assert_eq!(words(folder.read("a", 9)), "\"[app-data]/a\" does not exist");
    assert_eq!(words(folder.list("a")), "\"[app-data]/a\" does not exist");
    assert_eq!(words(folder.stat("a")), "\"[app-data]/a\" does not exist");
    assert_eq!(words(folder.rename("a", "b")), "\"[app-data]/a\" does not exist");
    assert_eq!(words(folder.remove("a")), "ok");
    assert_eq!(folder.usage(u64::MAX).unwrap(), 0);
    assert!(!place.base.path().join("app").exists());
    folder.write("a", b"1").unwrap();
    assert_eq!(fs::read(place.at("a")).unwrap(), b"1");
    // It may go and come again under the same handle.
    fs::remove_dir_all(place.base.path().join("app")).unwrap();
    assert!(!folder.exists("a").unwrap());
    folder.write("b", b"2").unwrap();
    assert_eq!(names(folder, "."), ["b"]);
}

#[test]
fn each_verb_does_what_it_says() {
    let place = Place::new();
    let folder = &place.folder;
    folder.write("a/b/c.txt", "schöner Text".as_bytes()).unwrap();
    folder.write("./a/b/c.txt", b"0123456789").unwrap();
    assert_eq!(folder.read("a/b/c.txt", 10).unwrap(), b"0123456789");
    assert!(words(folder.read("a/b/c.txt", 9)).contains("\"[app-data]/a/b/c.txt\" is larger than the 9 bytes"));
    assert_eq!(folder.read_at("a/b/c.txt", 3, 4).unwrap(), b"3456");
    assert_eq!(folder.read_at("a/b/c.txt", 8, 400).unwrap(), b"89");
    assert_eq!(folder.read_at("a/b/c.txt", 800, usize::MAX / 2).unwrap(), b"");
    let mut text = String::new();
    folder
        .open_file("a/b/c.txt")
        .unwrap()
        .file
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "0123456789");

    folder.append("a/log", b"one\n").unwrap();
    folder.append("a/log", b"two\n").unwrap();
    assert_eq!(folder.read("a/log", 99).unwrap(), b"one\ntwo\n");

    folder.mkdir("x/y/z").unwrap();
    folder.mkdir("x/y/z/").unwrap();
    folder.mkdir(".").unwrap();
    assert!(words(folder.mkdir("a/log/x")).contains("\"[app-data]/a/log\" is a file"));
    assert_eq!(names(folder, "x/y/"), ["z"]);
    assert_eq!(words(folder.list("a/log")), "\"[app-data]/a/log\" is a file");

    let stat = folder.stat("a/b/c.txt").unwrap();
    assert_eq!((stat.kind, stat.size), (Kind::File, 10));
    let real = fs::metadata(place.at("a/b/c.txt")).unwrap().modified().unwrap();
    let real = real.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    assert_eq!(u128::from(stat.modified_ms), real);
    assert_eq!(
        (folder.stat("a").unwrap().kind, folder.stat("a").unwrap().size),
        (Kind::Folder, 0)
    );
    for (path, there) in [
        ("a", true),
        ("a/log", true),
        ("a/log/x", false),
        ("b", false),
        ("b/c", false),
        (".", true),
    ] {
        assert_eq!(folder.exists(path).unwrap(), there, "{path}");
    }

    folder.rename("a/log", "moved/here/log").unwrap();
    folder.write("other", b"old").unwrap();
    folder.rename("moved/here/log", "other").unwrap();
    assert_eq!(folder.read("other", 99).unwrap(), b"one\ntwo\n");
    assert!(words(folder.rename("other", "a")).contains("\"[app-data]/a\" is a folder"));
    assert!(words(folder.rename("a", "other")).contains("\"[app-data]/other\" is there already"));
    assert!(words(folder.rename("a", "x")).contains("\"[app-data]/x\" is a folder"));
    assert!(words(folder.rename("none", "x2")).contains("\"[app-data]/none\" does not exist"));
    assert!(words(folder.rename("a", "a/b/d")).contains("\"[app-data]/a/b/d\", which is inside it"));
    folder.rename("a", "a").unwrap();
    folder.rename("a", "x/a").unwrap();
    assert_eq!(folder.read("x/a/b/c.txt", 10).unwrap(), b"0123456789");

    assert!(words(folder.write("x", b"")).contains("\"[app-data]/x\" is a folder"));
    assert!(words(folder.append("x", b"")).contains("\"[app-data]/x\" is a folder"));
    assert!(words(folder.read("x", 9)).contains("\"[app-data]/x\" is a folder"));
    folder.remove("x").unwrap();
    folder.remove("x").unwrap();
    folder.remove("x/y").unwrap();
    folder.remove("other").unwrap();
    for root in ["", ".", "/", "./"] {
        let want = "\"[app-data]\" itself cannot be removed, replaced or renamed: name what is in it";
        assert_eq!(words(folder.remove(root)), want);
        assert_eq!(words(folder.rename(root, "r")), want);
        assert_eq!(words(folder.rename("moved", root)), want);
    }
    assert_eq!(names(folder, "."), ["moved"]);
}

#[test]
fn a_listing_is_in_the_order_of_javascript() {
    let place = Place::new();
    for name in ["b", "a", "B2", "Ä", "\u{ff5e}", "🦋", "__media/x", ".hidden", "9", "10"] {
        place.folder.write(name, b"").unwrap();
    }
    let want = [".hidden", "10", "9", "B2", "__media", "a", "b", "Ä", "🦋", "\u{ff5e}"];
    assert_eq!(names(&place.folder, "."), want);
}

#[test]
fn names_are_refused_that_mean_something_else_elsewhere() {
    let place = Place::new();
    let folder = &place.folder;
    folder.write("first", b"1").unwrap();
    let before = place.tree();
    let in_one = |verb: &dyn Fn(&mut Transaction) -> Result<(), FileError>| words(verb(&mut folder.begin().unwrap()));
    for (path, want) in [
        ("a//b", "empty"),
        ("../x", "not names"),
        ("a/../x", "not names"),
        ("/a", "absolute"),
        ("/app-data/a", "absolute"),
        ("a\\b", "backslash"),
        ("a\0b", "control"),
        ("a\nb", "control"),
        ("CON", "device"),
        ("a/nul.txt", "device"),
        ("com1.log/x", "device"),
        ("x.", "ends with a dot"),
        ("x /y", "ends with a dot or a space"),
        ("a:b", "colon"),
        ("file.txt::$DATA", "colon"),
        ("what?", "< > "),
        (".txn-1", "kept for unfinished"),
        (".TXN-1/journal", "kept for unfinished"),
        ("a/.writing-x", "kept for unfinished"),
        (".Writing-now/x", "kept for unfinished"),
        (".tx\u{200b}n-1", "kept for unfinished"),
        (&"n".repeat(256), "longer than 255"),
        (&"ä".repeat(128), "longer than 255"),
        (&vec!["n"; MAX_DEPTH + 1].join("/"), "folders deep"),
        (&vec!["n".repeat(200); 6].join("/"), "longer than 1024"),
    ] {
        for got in [
            words(folder.write(path, b"x")),
            words(folder.append(path, b"x")),
            words(folder.mkdir(path)),
            words(folder.rename("first", path)),
            words(folder.rename(path, "second")),
            words(folder.remove(path)),
            words(folder.read(path, 9)),
            words(folder.read_at(path, 0, 9)),
            words(folder.stat(path)),
            words(folder.exists(path)),
            words(folder.list(path)),
            words(folder.upload(path)),
            in_one(&|all| all.write(path, b"x")),
            in_one(&|all| all.append(path, b"x")),
            in_one(&|all| all.mkdir(path)),
            in_one(&|all| all.remove(path)),
            in_one(&|all| all.rename("first", path)),
        ] {
            assert!(
                got.contains("is not a usable path") && got.contains(want),
                "{path:?}: {got}"
            );
        }
    }
    assert_eq!(place.tree(), before);
    for path in [
        "日本🦋.png",
        "__lookup/a/b.json",
        "..a",
        "a b",
        "console",
        &"n".repeat(255),
        "ä/ö",
    ] {
        folder.write(path, b"x").unwrap();
        assert_eq!(folder.read(path, 9).unwrap(), b"x", "{path}");
    }
}

#[test]
fn a_name_that_differs_by_case_only_is_refused() {
    let place = Place::new();
    let folder = &place.folder;
    folder.write("dir/a.txt", b"1").unwrap();
    let want = "\"[app-data]/dir/A.txt\" differs from \"[app-data]/dir/a.txt\", which is there already";
    for got in [
        words(folder.write("dir/A.txt", b"2")),
        words(folder.append("dir/A.txt", b"2")),
        words(folder.mkdir("dir/A.txt")),
        words(folder.begin().unwrap().write("dir/A.txt", b"2")),
    ] {
        assert!(got.starts_with(want), "{got}");
    }
    assert!(words(folder.write("DIR/b", b"")).contains("\"[app-data]/DIR\" differs from \"[app-data]/dir\""));
    folder.write("b", b"").unwrap();
    assert!(words(folder.rename("b", "dir/a.TXT")).contains("differs from \"[app-data]/dir/a.txt\""));
    // The name itself, its change of case, and its reuse once it is free are fine.
    folder.write("dir/a.txt", b"2").unwrap();
    folder.rename("dir/a.txt", "dir/A.txt").unwrap();
    assert_eq!(names(folder, "dir"), ["A.txt"]);
    assert!(words(folder.write("dir/a.txt", b"")).contains("differs"));
    folder.remove("dir/A.txt").unwrap();
    folder.write("dir/a.txt", b"3").unwrap();
    folder.rename("dir", "Dir").unwrap();
    assert_eq!(names(folder, "."), ["Dir", "b"]);
    // What others put there in the meantime counts too.
    fs::write(place.at("Dir/Ünder.txt"), "").unwrap();
    assert!(words(folder.write("Dir/üNDER.txt", b"")).contains("Ünder.txt"));
}

#[test]
fn an_upload_is_there_whole_or_not_at_all() {
    let place = Place::new();
    let folder = &place.folder;
    folder.write("big.bin", b"old").unwrap();
    let mut upload = folder.upload("big.bin").unwrap();
    for _ in 0..100 {
        upload.write(&[7; 10_000]).unwrap();
    }
    assert_eq!(upload.len(), 1_000_000);
    assert_eq!(folder.read("big.bin", 99).unwrap(), b"old");
    assert_eq!(names(folder, "."), ["big.bin"]);
    let used = folder.usage(u64::MAX).unwrap();
    upload.commit().unwrap();
    assert_eq!(folder.read("big.bin", 1 << 20).unwrap(), vec![7; 1_000_000]);
    assert_eq!(folder.usage(u64::MAX).unwrap(), used - cost(3));

    let mut dropped = folder.upload("big.bin").unwrap();
    dropped.write(b"new").unwrap();
    let mut elsewhere = folder.upload("new/file").unwrap();
    elsewhere.write(b"new").unwrap();
    drop((dropped, elsewhere));
    let tree = place.tree();
    assert_eq!(tree.keys().collect::<Vec<_>>(), ["big.bin"]);
    assert_eq!(tree["big.bin"].len(), 5 + 1_000_000);
    let mut late = folder.upload("late").unwrap();
    late.write(b"x").unwrap();
    folder.mkdir("late").unwrap();
    assert!(words(late.commit()).contains("\"[app-data]/late\" is a folder"));
    place.tree();
}

#[test]
fn what_it_takes_up_is_counted_as_it_changes() {
    let place = Place::new();
    let folder = &place.folder;
    // Counted before the first change, so that all below is added up.
    folder.mkdir("d").unwrap();
    assert_eq!(folder.usage(u64::MAX).unwrap(), cost(0));
    let block = cost(1);
    assert_eq!((block, cost(0), cost(4096), cost(4097)), (4096, 4096, 4096, 8192));
    let mut want = 1;
    let mut check = |change: i64| {
        want += change;
        let used = folder.usage(u64::MAX).unwrap();
        assert_eq!(used, want as u64 * block);
        // Walked anew, as by a process that just came.
        let mut walked = 0;
        for (path, what) in place.tree() {
            let len = fs::metadata(place.at(&path)).unwrap().len();
            walked += if what == "folder" { block } else { cost(len) };
        }
        assert_eq!(used, walked);
    };
    folder.write("a/b/c", &[0; 5000]).unwrap();
    check(4);
    folder.write("a/b/c", &[0; 100]).unwrap();
    check(-1);
    folder.append("a/b/c", &[0; 4000]).unwrap();
    check(1);
    folder.append("log", b"").unwrap();
    check(1);
    folder.rename("a/b/c", "log").unwrap();
    check(-1);
    folder.rename("a", "x/a").unwrap();
    check(1);
    let mut all = folder.begin().unwrap();
    all.write("log", &[0; 9000]).unwrap();
    all.remove("x").unwrap();
    all.append("new", &[0; 5000]).unwrap();
    // What is kept for undoing takes room until the end.
    assert_eq!(folder.usage(u64::MAX).unwrap(), (6 + 3 + 2 + 1) * block);
    all.commit().unwrap();
    check(3 - 2 - 3 + 2);
    let mut all = folder.begin().unwrap();
    all.write("log", &[0; 90_000]).unwrap();
    all.remove("d").unwrap();
    all.rollback().unwrap();
    check(0);
    folder.remove("log").unwrap();
    check(-3);
    folder.write("t/u/v", b"").unwrap();
    folder.remove("t").unwrap();
    check(0);
    assert!(folder.usage(0).unwrap() > 0);

    // Links count nothing, and counting ends where it is enough.
    let other = Place::new();
    other.folder.write("a", &[0; 10_000]).unwrap();
    fs::hard_link(place.at("new"), place.base.path().join("outside")).unwrap();
    std::os::unix::fs::symlink(place.base.path().join("outside"), other.at("link")).unwrap();
    std::os::unix::fs::symlink("/usr", other.at("usr")).unwrap();
    assert_eq!(other.folder.usage(u64::MAX).unwrap(), cost(10_000));
    let many = Place::new();
    for n in 0..50 {
        fs::create_dir_all(many.at(&format!("{n}"))).unwrap();
    }
    let some = many.folder.usage(10 * block).unwrap();
    assert!(some > 10 * block && some < 20 * block, "{some}");
    assert_eq!(many.folder.usage(u64::MAX).unwrap(), 50 * block);
}

#[test]
fn a_transaction_stays_or_goes_as_a_whole() {
    let place = Place::new();
    let folder = &place.folder;
    folder.write("a", b"1").unwrap();
    folder.write("t/x", b"x").unwrap();
    let before = place.tree();
    let failed: Result<(), FileError> = folder.transaction(|all| {
        all.write("a", b"2")?;
        all.append("a", b"3")?;
        all.remove("t")?;
        all.write("t/x/y", b"another")?;
        assert_eq!(folder.read("a", 9)?, b"23", "reading sees it so far");
        assert_eq!(names(folder, "."), ["a", "t"]);
        // A verb that fails leaves nothing, and the others go on.
        assert!(words(all.write("made/for/CON", b"")).contains("not a usable"));
        assert!(words(all.rename("a", "made/for/it/../x")).contains("not a usable"));
        assert!(words(all.rename("t", "new/a")).contains("ok"));
        assert!(words(all.rename("new", "a")).contains("there already"));
        assert!(words(all.write("half/way/A", b"")).contains("ok"));
        assert!(words(all.write("half/way/a", b"")).contains("differs"));
        assert!(words(all.append("more/deep/x", b"")).contains("ok"));
        assert!(words(all.rename("a", "more/deep")).contains("is a folder"));
        Err(FileError::Missing {
            path: "what the plugin threw".into(),
        })
    });
    assert!(words(failed).contains("what the plugin threw"));
    assert_eq!(place.tree(), before);
    drop({
        let mut all = folder.begin().unwrap();
        all.remove("a").unwrap();
        all
    });
    assert_eq!(place.tree(), before);
    folder
        .transaction(|all| {
            all.remove("t")?;
            all.rename("a", "b")
        })
        .unwrap();
    assert_eq!(place.tree().keys().collect::<Vec<_>>(), ["b"]);
    // A verb refused half-way takes its folders along.
    let mut all = folder.begin().unwrap();
    fs::create_dir_all(place.at("q/F")).unwrap();
    assert!(words(all.write("q/G/f/h", b"")).contains("ok"));
    assert!(words(all.write("new/q/../x", b"")).contains("not a usable"));
    assert!(words(all.rename("b", "q/n1/n2/../F")).contains("not a usable"));
    assert!(words(all.write("q/f/n", b"")).contains("differs"));
    assert!(words(all.rename("q", "q2/q3")).contains("ok"));
    drop(all);
    assert_eq!(place.tree().keys().collect::<Vec<_>>(), ["b", "q", "q/F"]);
}

#[test]
fn others_wait_for_a_transaction_and_not_for_ever() {
    let place = Place::new();
    // Another handle of the same folder, as another call has.
    let other = GuestFolder::open(&place.within, "app/data").unwrap();
    place.folder.write("a", b"1").unwrap();
    let all = place.folder.begin().unwrap();
    let started = Instant::now();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let got = words(other.write("a", b"2"));
            done.store(true, Ordering::SeqCst);
            got
        });
        // Reading does not wait.
        while started.elapsed() < Duration::from_millis(200) {
            assert_eq!(other.read("a", 9).unwrap(), b"1");
        }
        assert!(!done.load(Ordering::SeqCst), "it was written into a transaction");
        all.rollback().unwrap();
        assert_eq!(waiting.join().unwrap(), "ok");
    });
    assert_eq!(other.read("a", 9).unwrap(), b"2");

    let all = place.folder.begin().unwrap();
    std::thread::scope(|scope| {
        let tries = [
            scope.spawn(|| words(other.write("a", b"3"))),
            scope.spawn(|| words(other.append("a", b"3"))),
            scope.spawn(|| words(other.mkdir("b"))),
            scope.spawn(|| words(other.remove("a"))),
            scope.spawn(|| words(other.rename("a", "b"))),
            scope.spawn(|| words(other.begin())),
        ];
        for one in tries {
            assert!(
                one.join()
                    .unwrap()
                    .starts_with("a transaction on these files is under way")
            );
        }
    });
    drop(all);
    assert_eq!(
        place.tree().into_iter().collect::<Vec<_>>(),
        [("a".into(), "file 2".into())]
    );
}

/// Small numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

/// The same random changes made one by one, in a transaction, and in one that is dropped: the first two agree in every
/// answer and every file, and the last leaves all as it was.
#[test]
fn random_changes_do_the_same_in_a_transaction() {
    const PATHS: [&str; 12] = [
        "a", "b", "A", "d", "d/a", "d/e", "d/e/f", "g/h", "g", "d/e/F", "x/y/z", "d/e/f/g",
    ];
    let mut refused = 0;
    for seed in 0..12 {
        let (single, kept, dropped) = (Place::new(), Place::new(), Place::new());
        let mut dice = Dice(seed);
        for n in 0..12 {
            let (path, text) = (PATHS[dice.roll(12)], format!("before {n}"));
            for place in [&single, &kept, &dropped] {
                let _ = place.folder.write(path, text.as_bytes());
            }
        }
        let before = dropped.tree();
        let (mut keep, mut lose) = (kept.folder.begin().unwrap(), dropped.folder.begin().unwrap());
        for n in 0..30 {
            let (verb, path, other) = (dice.roll(6), PATHS[dice.roll(12)], PATHS[dice.roll(12)]);
            let text = format!("after {n}").into_bytes();
            let did = words(match verb {
                0 | 1 => single.folder.write(path, &text),
                2 => single.folder.append(path, &text),
                3 => single.folder.remove(path),
                4 => single.folder.rename(path, other),
                _ => single.folder.mkdir(path),
            });
            for all in [&mut keep, &mut lose] {
                let same = words(match verb {
                    0 | 1 => all.write(path, &text),
                    2 => all.append(path, &text),
                    3 => all.remove(path),
                    4 => all.rename(path, other),
                    _ => all.mkdir(path),
                });
                assert_eq!(same, did, "seed {seed} step {n}: {verb} {path} {other}");
            }
            refused += usize::from(did != "ok");
        }
        keep.commit().unwrap();
        drop(lose);
        assert_eq!(kept.tree(), single.tree(), "seed {seed}");
        assert_eq!(dropped.tree(), before, "seed {seed}");
        let used = [&single, &kept].map(|place| place.folder.usage(u64::MAX).unwrap());
        assert_eq!(used[0], used[1], "seed {seed}");
    }
    assert!(refused > 50, "{refused}");
}
