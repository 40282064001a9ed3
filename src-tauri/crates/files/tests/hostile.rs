//! An app's data folder in which somebody planted links, pipes, forged journals and endless trees, and swaps folders for
//! links while it is written: nothing outside is read or changed, nothing waits, nothing overflows.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use files::{FileError, Folder, GuestFolder, Kind, MAX_GUEST_ENTRIES, Transaction};
use tempfile::TempDir;

/// `data` beside `outside`, which must stay as it is.
struct Place {
    base: TempDir,
    folder: GuestFolder,
}

impl Place {
    fn new() -> Self {
        let base = TempDir::new().unwrap();
        fs::create_dir_all(base.path().join("outside/deep/a")).unwrap();
        fs::write(base.path().join("outside/deep/file"), "SECRET").unwrap();
        fs::write(base.path().join("outside/deep/a/file"), "SECRET").unwrap();
        fs::write(base.path().join("secret"), "SECRET").unwrap();
        fs::create_dir_all(base.path().join("data")).unwrap();
        let within = Folder::open_ambient(base.path()).unwrap();
        let folder = GuestFolder::open(&within, "data").unwrap();
        Self { base, folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.base.path().join("data").join(path)
    }

    fn open_again(&self) -> Result<GuestFolder, FileError> {
        GuestFolder::open(&Folder::open_ambient(self.base.path()).unwrap(), "data")
    }

    /// Everything outside of the data folder, to be compared.
    fn outside(&self) -> BTreeMap<PathBuf, Option<String>> {
        let mut found = BTreeMap::new();
        let mut waiting = vec![self.base.path().to_owned()];
        while let Some(at) = waiting.pop() {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                if path == self.base.path().join("data") {
                    continue;
                }
                if path.is_dir() {
                    waiting.push(path.clone());
                    found.insert(path, None);
                } else {
                    let text = fs::read_to_string(&path).unwrap();
                    found.insert(path, Some(text));
                }
            }
        }
        found
    }
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
fn what_is_planted_is_refused_by_every_verb() {
    let place = Place::new();
    let folder = &place.folder;
    folder.write("good", b"good").unwrap();
    symlink("../secret", place.at("link")).unwrap();
    symlink("good", place.at("link-inside")).unwrap();
    symlink("nowhere", place.at("dangling")).unwrap();
    symlink("../outside/new", place.at("dangling-out")).unwrap();
    symlink("../outside/deep", place.at("way")).unwrap();
    symlink(place.base.path().join("outside"), place.at("absolute")).unwrap();
    symlink("/proc/self/cwd", place.at("magic")).unwrap();
    fs::hard_link(place.base.path().join("secret"), place.at("hard")).unwrap();
    pipe(&place.at("pipe"));
    pipe(&place.at("read-pipe"));
    // With a reader, opening it for writing would succeed.
    let mut reader = OpenOptions::new();
    let reader = reader
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(place.at("read-pipe"))
        .unwrap();
    let _socket = UnixListener::bind(place.at("socket")).unwrap();
    let outside = place.outside();

    let started = Instant::now();
    let refused = [
        ("link", "\"[app-data]/link\" is a symbolic link"),
        ("link-inside", "\"[app-data]/link-inside\" is a symbolic link"),
        ("dangling", "\"[app-data]/dangling\" is a symbolic link"),
        ("dangling-out", "\"[app-data]/dangling-out\" is a symbolic link"),
        ("way/file", "\"[app-data]/way\" is a symbolic link"),
        ("way/new/file", "\"[app-data]/way\" is a symbolic link"),
        ("absolute/deep/file", "\"[app-data]/absolute\" is a symbolic link"),
        ("magic/file", "\"[app-data]/magic\" is a symbolic link"),
        ("hard", "\"[app-data]/hard\" has more than one name"),
        ("pipe", "\"[app-data]/pipe\" is a pipe"),
        ("read-pipe", "\"[app-data]/read-pipe\" is a pipe"),
        ("socket", "\"[app-data]/socket\" is a pipe, socket"),
    ];
    for (path, want) in refused {
        let deep = path.contains('/');
        let in_one = |verb: &dyn Fn(&mut Transaction) -> Result<(), FileError>| {
            let mut all = folder.begin().unwrap();
            let got = words(verb(&mut all));
            all.commit().unwrap();
            got
        };
        let mut tried = vec![
            words(folder.read(path, 99)),
            words(folder.read_at(path, 0, 9)),
            words(folder.open_file(path)),
            words(folder.write(path, b"x")),
            words(folder.append(path, b"x")),
            words(folder.rename("good", path)),
            words(folder.rename(path, "taken")),
            words(folder.upload(path).and_then(|upload| upload.commit())),
            in_one(&|all| all.write(path, b"x")),
            in_one(&|all| all.append(path, b"x")),
            in_one(&|all| all.rename("good", path)),
            in_one(&|all| all.rename(path, "taken")),
            in_one(&|all| all.place(folder.upload(path)?)),
        ];
        if deep {
            tried.push(words(folder.remove(path)));
            tried.push(in_one(&|all| all.remove(path)));
            tried.push(words(folder.exists(path)));
        } else {
            assert!(folder.exists(path).unwrap());
        }
        if path != "hard" {
            tried.push(words(folder.stat(path)));
            tried.push(words(folder.mkdir(path)));
            tried.push(words(folder.list(path)));
        }
        for (n, got) in tried.iter().enumerate() {
            assert!(got.starts_with(want), "{path} {n}: {got}");
        }
    }
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "something waited, a pipe perhaps"
    );
    let mut reader = reader;
    assert_eq!(
        reader.read(&mut [0; 9]).unwrap_or(0),
        0,
        "something was written to the pipe"
    );
    assert_eq!(folder.read("good", 9).unwrap(), b"good");
    let kinds: Vec<_> = folder.list(".").unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Link).count(), 7);

    // Removing takes the name away and nothing else, also in a transaction and undone.
    for path in [
        "link",
        "dangling-out",
        "way",
        "absolute",
        "magic",
        "hard",
        "pipe",
        "socket",
    ] {
        folder.begin().unwrap().remove(path).unwrap();
        assert!(folder.exists(path).unwrap(), "{path} did not come back");
        folder.remove(path).unwrap();
        assert!(!folder.exists(path).unwrap());
    }
    assert_eq!(place.outside(), outside);
}

#[test]
fn the_data_folder_itself_may_be_a_link() {
    let base = TempDir::new().unwrap();
    fs::create_dir_all(base.path().join("app")).unwrap();
    fs::create_dir_all(base.path().join("elsewhere")).unwrap();
    let within = Folder::open_ambient(base.path()).unwrap();
    let folder = GuestFolder::open(&within, "app/data").unwrap();
    symlink("../elsewhere", base.path().join("app/data")).unwrap();
    let want = "\"[app-data]\" is a symbolic link";
    assert!(words(GuestFolder::open(&within, "app/data")).starts_with(want));
    for got in [
        words(folder.write("a", b"")),
        words(folder.append("a", b"")),
        words(folder.mkdir("a")),
        words(folder.read("a", 9)),
        words(folder.list(".")),
        words(folder.remove("a")),
        words(folder.begin()),
        words(folder.usage(9)),
    ] {
        assert!(got.starts_with(want), "{got}");
    }
    assert_eq!(fs::read_dir(base.path().join("elsewhere")).unwrap().count(), 0);
    fs::remove_file(base.path().join("app/data")).unwrap();
    symlink("../nowhere", base.path().join("app/data")).unwrap();
    assert!(words(folder.write("a", b"")).starts_with(want));
    assert!(!base.path().join("nowhere").exists());
    fs::remove_dir_all(base.path().join("app")).unwrap();
    symlink("elsewhere", base.path().join("app")).unwrap();
    assert!(words(folder.write("a", b"")).starts_with(want));
    assert_eq!(fs::read_dir(base.path().join("elsewhere")).unwrap().count(), 0);
}

/// What a package may bring along under our own names does nothing to what is outside, and does not stop the app.
#[test]
fn a_forged_journal_reaches_nothing() {
    let plant: &[fn(&Place)] = &[
        |place| symlink("../outside", place.at(".txn-1")).unwrap(),
        |place| symlink("../outside", place.at(".writing-now")).unwrap(),
        |place| fs::write(place.at(".writing-now"), "a file").unwrap(),
        |place| pipe(&place.at(".writing-now")),
        |place| pipe(&place.at(".txn-pipe")),
        |place| fs::write(place.at(".txn-file"), "a file").unwrap(),
        |place| {
            fs::create_dir(place.at(".txn-1")).unwrap();
            pipe(&place.at(".txn-1/journal"));
        },
        |place| {
            fs::create_dir(place.at(".txn-1")).unwrap();
            symlink("../../secret", place.at(".txn-1/journal")).unwrap();
        },
        |place| {
            fs::create_dir(place.at(".txn-1")).unwrap();
            fs::hard_link(place.base.path().join("secret"), place.at(".txn-1/journal")).unwrap();
        },
        |place| {
            fs::create_dir(place.at(".txn-1")).unwrap();
            fs::write(place.at(".txn-1/1"), "not this").unwrap();
            fs::write(place.at(".txn-1/2"), "the old one").unwrap();
            symlink("../../outside", place.at(".txn-1/3")).unwrap();
            symlink("../outside", place.at("way")).unwrap();
            fs::write(place.at("mine"), "mine").unwrap();
            let lines = "\u{0}\n\nnonsense\nnew\t../secret\nnew\t/etc/passwd\nmade\t../outside\nsaved\t1\t../secret\n\
                         saved\t../../secret\tx\nsaved\t1\tway/deep/file\nreplaced\t1\tway/deep/file\nnew\tway/deep/file\n\
                         moved\tx\tway/deep\nmoved\t../outside/deep\tx\nlength\t0\tway/deep/file\nlength\t0\t../secret\n\
                         length\t-1\tmine\nreplaced\t2\tmine\nreplaced\t99999999999999999999\tmine\nsaved\t3\ttaken/it\n\
                         new\ta\tb\tc\nsaved\t77\tmine\nnew\tmine";
            fs::write(place.at(".txn-1/journal"), lines).unwrap();
        },
    ];
    for (n, plant) in plant.iter().enumerate() {
        let place = Place::new();
        // A folder that this process has not looked through yet.
        fs::remove_dir(place.at("")).unwrap();
        fs::create_dir(place.at("")).unwrap();
        let outside = place.outside();
        plant(&place);
        let folder = place.open_again().unwrap_or_else(|error| panic!("{n}: {error}"));
        assert_eq!(place.outside(), outside, "{n}");
        folder
            .write("new/file", b"x")
            .unwrap_or_else(|error| panic!("{n}: {error}"));
        folder
            .transaction(|all| all.write("new/file", b"y"))
            .unwrap_or_else(|error: FileError| panic!("{n}: {error}"));
        let names = fs::read_dir(place.at(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names
            .filter(|name| name.to_str().unwrap().starts_with(".txn-"))
            .collect();
        assert!(left.is_empty(), "{n}: {left:?}");
        if place.at("mine").exists() {
            assert_eq!(fs::read_to_string(place.at("mine")).unwrap(), "the old one");
            assert!(place.at("taken/it").is_symlink());
            // What was saved for a place that cannot be reached goes where it is seen.
            let found = folder
                .list(".")
                .unwrap()
                .into_iter()
                .find(|entry| entry.name.starts_with("recovered-"));
            assert_eq!(folder.read(&found.unwrap().name, 99).unwrap(), b"not this");
        }
        assert_eq!(place.outside(), outside, "{n}");
    }
}

/// Stops the other thread also when this one panics.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Both the folder on the way and the file at the end are swapped for links to the outside, hard ones too, as fast as
/// the disk goes, under every verb. (This found appends to a file from outside: opened by its second name, which then
/// went, it had one name when it was looked at.)
#[cfg(target_os = "linux")]
#[test]
fn regress_20_a_race_changes_nothing_outside() {
    const TRIES: usize = 40_000;
    let place = Place::new();
    let outside = place.outside();
    fs::create_dir(place.at("now")).unwrap();
    symlink("../outside/deep", place.at("other")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut done, mut refused) = ([0usize; 12], [0usize; 12]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let [now, other] = ["now", "other"].map(|name| CString::new(place.at(name).to_str().unwrap()).unwrap());
            let (fresh, file) = (place.at("fresh"), place.at("now-file"));
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                // The folder and the link change places at once, so that one of them is always there.
                // SAFETY: both strings end with NUL and outlive the call.
                let swapped = unsafe {
                    let here = libc::AT_FDCWD;
                    libc::renameat2(here, now.as_ptr(), here, other.as_ptr(), libc::RENAME_EXCHANGE)
                };
                assert_eq!(swapped, 0);
                n += 1;
                match n % 3 {
                    0 => symlink("../secret", &fresh).unwrap(),
                    1 => fs::write(&fresh, "PUBLIC").unwrap(),
                    _ => fs::hard_link(place.base.path().join("secret"), &fresh).unwrap(),
                }
                let _ = fs::rename(&fresh, &file);
            }
        });
        let _stops = Stops(&stop);
        let end = Instant::now() + Duration::from_secs(60);
        let mut n = 0;
        while n < TRIES && Instant::now() < end {
            // Writing and transactions wait for the disk: less often.
            let verb = if n % 25 == 0 { 9 + n / 25 % 3 } else { n % 9 };
            let folder = &place.folder;
            let result = match verb {
                0 => folder.append("now/file", b"x"),
                1 => folder.append("now-file", b"x"),
                2 => folder.rename("now/file", "now/b"),
                3 => folder.remove("now/file"),
                4 => folder.mkdir("now/a/new"),
                5 => folder.remove("now/a"),
                6 => folder.rename("now/b", "now/file"),
                7 => folder
                    .read("now-file", 99)
                    .map(|text| assert!(!text.starts_with(b"SECRET"))),
                8 => folder
                    .read("now/file", 99)
                    .map(|text| assert!(!text.starts_with(b"SECRET"))),
                9 => folder.write("now/file", b"PUBLIC"),
                10 => folder.write("now-file", b"PUBLIC"),
                _ => folder.begin().and_then(|mut all| {
                    all.append("now/log", b"x")?;
                    all.write("now/file", b"x")?;
                    all.remove("now/a")?;
                    // Undone, in the middle of it all.
                    all.rollback()
                }),
            };
            let count = if result.is_ok() { &mut done } else { &mut refused };
            count[verb] += 1;
            n += 1;
        }
    });
    let tries: usize = done.iter().sum::<usize>() + refused.iter().sum::<usize>();
    eprintln!("{tries} tries; done {done:?}, refused {refused:?}");
    assert_eq!(place.outside(), outside);
    for verb in 0..done.len() {
        assert!(
            done[verb] > 0 && refused[verb] > 0,
            "the race never happened: {done:?} {refused:?}"
        );
    }
}

#[test]
fn deep_trees_are_removed_and_counted() {
    let place = Place::new();
    let grow = |name: &str| {
        let data = cap_std::fs::Dir::open_ambient_dir(place.at(""), cap_std::ambient_authority()).unwrap();
        data.create_dir(name).unwrap();
        let mut at = data.open_dir(name).unwrap();
        for _ in 0..2000 {
            at.create_dir("down").unwrap();
            at = at.open_dir("down").unwrap();
        }
        at.write("file", "x").unwrap();
    };
    let folder = &place.folder;
    grow("a");
    assert!(folder.usage(u64::MAX).unwrap() > 0);
    assert!(words(folder.rename("a", "b/c")).contains("folders deep"));
    folder.remove("a").unwrap();
    grow("b");
    folder.begin().unwrap().remove("b").unwrap();
    assert!(folder.exists("b/down/down").unwrap());
    folder
        .transaction(|all| all.remove("b"))
        .unwrap_or_else(|error: FileError| panic!("{error}"));
    grow(".txn-x");
    grow(".writing-x");
    // Found by a process that looks for the first time.
    let moved = place.base.path().join("moved");
    fs::rename(place.at(""), &moved).unwrap();
    fs::create_dir(place.at("")).unwrap();
    for name in [".txn-x", ".writing-x"] {
        fs::rename(moved.join(name), place.at(name)).unwrap();
    }
    let again = place.open_again().unwrap();
    assert_eq!(again.list(".").unwrap(), []);
    assert_eq!(fs::read_dir(place.at("")).unwrap().count(), 0);

    // Guests cannot make one either.
    let folder = again;
    let depth = vec!["d"; 30].join("/");
    folder.mkdir(&depth).unwrap();
    assert!(words(folder.rename("d", "x/y/z/w")).contains("folders deep"));
    folder.rename("d", "x/d").unwrap();
    folder.rename("x/d", "d").unwrap();
}

#[test]
fn a_crowded_folder_is_an_error_and_not_a_flood() {
    let place = Place::new();
    fs::create_dir(place.at("many")).unwrap();
    for n in 0..100_000 {
        let c = CString::new(place.at(&format!("many/{n}")).to_str().unwrap()).unwrap();
        // SAFETY: the string ends with NUL and outlives the call.
        assert_eq!(unsafe { libc::mknod(c.as_ptr(), libc::S_IFREG | 0o600, 0) }, 0);
    }
    let folder = &place.folder;
    let want = format!("\"[app-data]/many\" holds more than {MAX_GUEST_ENTRIES} files");
    assert!(words(folder.list("many")).starts_with(&want));
    assert_eq!(folder.list(".").unwrap().len(), 1);
    assert_eq!(folder.usage(u64::MAX).unwrap(), 100_001 * files::cost(0));
    folder.write("many/one-more", b"x").unwrap();
    assert_eq!(folder.read("many/one-more", 9).unwrap(), b"x");
    folder
        .transaction(|all| all.rename("many", "other"))
        .unwrap_or_else(|error: FileError| panic!("{error}"));
    folder.remove("other").unwrap();
    assert_eq!(folder.usage(u64::MAX).unwrap(), 0);
}

/// Files of the system that say they are empty and have no end.
#[cfg(target_os = "linux")]
#[test]
fn a_file_without_an_end_is_read_to_the_limit() {
    let proc = Folder::open_ambient(Path::new("/proc")).unwrap();
    let folder = GuestFolder::open(&proc, &std::process::id().to_string()).unwrap();
    assert_eq!(folder.stat("pagemap").unwrap().size, 0);
    let started = Instant::now();
    // The kernel gives this one out in eights, so what is asked for in the end, one more than the limit, is one.
    assert!(words(folder.read("pagemap", 79_999)).contains("larger than the 79999 bytes"));
    assert_eq!(folder.read_at("pagemap", 0, 80_000).unwrap().len(), 80_000);
    assert!(words(folder.read("cwd/Cargo.toml", 9)).contains("\"[app-data]/cwd\" is a symbolic link"));
    assert!(words(folder.list("root")).contains("\"[app-data]/root\" is a symbolic link"));
    assert!(started.elapsed() < Duration::from_secs(30));
}
