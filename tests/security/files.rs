//! Ways out of an app's data folder.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::attempt::{Attempt, Want, attempt, try_all};
use crate::house::House;

const PATH: Want = Want::Says(&["is not a usable path"]);

/// Names that are no names, or are others somewhere else.
const NAMES: &[(&str, &str)] = &[
    ("the folder above", r#"".." "#),
    ("a file of the folder above", r#""../x""#),
    ("down and up again", r#""a/../../x""#),
    ("down and up within", r#""a/../x""#),
    ("an absolute path", r#"given.outside + "/file.txt""#),
    ("an absolute path of the system", r#""/etc/passwd""#),
    ("two slashes in front", r#""//etc/passwd""#),
    ("backslashes", r#""..\\x""#),
    ("a share", r#""\\\\server\\share\\x""#),
    ("a drive", r#""C:x""#),
    ("a stream of a file", r#""own.txt:hidden""#),
    ("a device", r#""CON""#),
    ("a device with an ending", r#""nul.tar.gz""#),
    ("a device with a superscript digit", r#""COM\u00b9""#),
    ("a dot at the end", r#""x.""#),
    ("a blank at the end", r#""x ""#),
    ("a NUL", r#""own.txt\0.png""#),
    ("a line break", r#""a\nb""#),
    ("an empty name", r#""""#),
    ("an empty name within", r#""a//b""#),
    ("a dot within", r#""a/./b""#),
    ("256 bytes", r#""x".repeat(256)"#),
    ("2000 bytes in many folders", r#""abcdefghi/".repeat(200) + "x""#),
    ("a hundred folders", r#""a/".repeat(100) + "x""#),
    ("an unfinished file of the engine's", r#"".writing-now""#),
    ("a transaction's folder", r#"".txn-1/undo""#),
    ("a transaction's folder in other letters", r#"".TXN-1""#),
    (
        "a transaction's folder with a letter that cannot be seen",
        r#"".t\u200bxn-1""#,
    ),
    ("wild cards", r#""*""#),
    ("a pipe of the shell", r#""|id""#),
];

/// What the test plants in the data folder, and ways to go through it. `$` stands for the planted name.
const THROUGH: &[(&str, &str, &str)] = &[
    ("file", "reads", r#"host.fs.read("$")"#),
    ("file", "reads bytes of", r#"host.fs.readBase64("$")"#),
    (
        "file",
        "reads a chunk of",
        r#"[...host.fs.readChunk("$", 0, 100)].join()"#,
    ),
    ("file", "appends to", r#"host.fs.append("$", "x")"#),
    (
        "file",
        "streams",
        r#"(async () => { for await (const piece of host.fs.stream("$")) return [...piece].join() })()"#,
    ),
    ("absolute", "reads", r#"host.fs.read("$")"#),
    ("absolute", "appends to", r#"host.fs.append("$", "x")"#),
    ("folder", "reads in", r#"host.fs.read("$/inner.txt")"#),
    ("folder", "writes in", r#"host.fs.write("$/new.txt", "x")"#),
    ("folder", "appends in", r#"host.fs.append("$/inner.txt", "x")"#),
    ("folder", "lists", r#"host.fs.list("$")"#),
    ("folder", "makes a folder in", r#"host.fs.mkdir("$/new/er")"#),
    ("folder", "removes in", r#"host.fs.remove("$/inner.txt")"#),
    ("folder", "moves out of", r#"host.fs.rename("$/inner.txt", "mine.txt")"#),
    (
        "folder",
        "moves into",
        r#"(host.fs.write("mine.txt", "x"), host.fs.rename("mine.txt", "$/mine.txt"))"#,
    ),
    ("folder", "asks the size in", r#"host.fs.stat("$/inner.txt")"#),
    (
        "folder",
        "uploads into",
        r#"(async () => { const w = host.fs.writer("$/new.txt"); await w.write("x"); await w.close() })()"#,
    ),
    (
        "folder",
        "writes in a transaction in",
        r#"host.fs.transaction(async (fs) => fs.write("$/new.txt", "x"))"#,
    ),
    ("above", "lists", r#"host.fs.list("$")"#),
    ("above", "reads in", r#"host.fs.read("$/manifest.json")"#),
    ("dangling", "appends to", r#"host.fs.append("$", "x")"#),
    ("dangling", "makes a folder in", r#"host.fs.mkdir("$/x")"#),
    ("hard", "reads", r#"host.fs.read("$")"#),
    ("hard", "appends to", r#"host.fs.append("$", "x")"#),
    ("pipe", "reads", r#"host.fs.read("$")"#),
    ("pipe", "appends to", r#"host.fs.append("$", "x")"#),
    (
        "pipe",
        "reads a chunk of",
        r#"[...host.fs.readChunk("$", 0, 1)].join()"#,
    ),
    ("database", "reads", r#"host.fs.readBase64("$")"#),
    ("socket", "appends to", r#"host.fs.append("$", "x")"#),
];

pub fn attempts() -> Vec<Attempt> {
    let twin = |n: usize| format!(r#"host.fs.write("fine/{n}.txt", "fine"); return host.fs.read("fine/{n}.txt")"#);
    let names = NAMES.iter().enumerate().map(|(n, (name, path))| {
        let attack = format!(
            r#"const path = {path}, said = [];
               for (const work of [() => host.fs.write(path, "x"), () => host.fs.append(path, "x"), () => host.fs.read(path),
                 () => host.fs.remove(path), () => host.fs.rename("own.txt", path), () => host.fs.writer(path).close()]) {{
                 const text = await kit.thrown(work);
                 if (!/is not a usable path|itself cannot|\[app-data\]" itself/.test(text)) said.push(text);
               }}
               return said.length ? said.join() : "is not a usable path""#
        );
        attempt(&format!("a file by {name}"), &attack, PATH, &twin(n), json!("fine"))
    });
    let through = THROUGH.iter().enumerate().map(|(n, (kind, verb, code))| {
        let attack = format!(
            "return kit.thrown(async () => {})",
            code.replace('$', &format!("planted-{kind}"))
        );
        let refused = Want::Says(&["is a symbolic link", "a hard link", "is a pipe, socket or device"]);
        let name = format!("{verb} what another program planted: {kind}");
        attempt(&name, &attack, refused, &twin(1000 + n), json!("fine"))
    });
    names.chain(through).chain(others()).collect()
}

fn others() -> Vec<Attempt> {
    use Want::*;
    vec![
        attempt(
            "writes over a link to a file outside",
            r#"return kit.thrown(async () => host.fs.write("planted-over", "x"))"#,
            Says(&["is a symbolic link"]),
            r#"host.fs.write("over", "x"); host.fs.write("over", "y"); return host.fs.read("over")"#,
            json!("y"),
        ),
        attempt(
            "removes a link, not what it leads to",
            r#"host.fs.remove("planted-removed"); return host.fs.exists("planted-removed")"#,
            Gives(json!(false)),
            r#"host.fs.write("removed/x", "x"); host.fs.remove("removed"); return host.fs.exists("removed/x")"#,
            json!(false),
        ),
        attempt(
            "moves a link about and goes through it then",
            r#"try { host.fs.rename("planted-moved", "moved") } catch {}
               return kit.thrown(async () => host.fs.read("moved/inner.txt"))"#,
            Says(&["[app-data]"]),
            r#"host.fs.write("from.txt", "x"); host.fs.rename("from.txt", "to.txt"); return host.fs.read("to.txt")"#,
            json!("x"),
        ),
        attempt(
            "removes the data folder itself",
            r#"const said = []; for (const path of ["", ".", "/", "./"]) said.push(await kit.thrown(async () => host.fs.remove(path)));
               return said.filter((text) => text.startsWith("no error")).length"#,
            Gives(json!(0)),
            r#"host.fs.mkdir("gone"); host.fs.remove("gone"); return host.fs.exists("gone")"#,
            json!(false),
        ),
        attempt(
            "a name that differs only by case",
            r#"host.fs.write("Case.txt", "x"); return kit.thrown(async () => host.fs.write("case.TXT", "y"))"#,
            Says(&["case", "Case.txt"]),
            r#"host.fs.write("Case.txt", "z"); return host.fs.read("Case.txt")"#,
            json!("z"),
        ),
        attempt(
            "a collection that is a path",
            r#"return kit.thrown(async () => host.fs.lookup("../../beta/data", "x", { a: 1 }))"#,
            Says(&["host.fs.lookup"]),
            r#"host.fs.lookup("people", "Ann", { a: 1 }); return host.fs.lookup("people", "ANN")"#,
            json!({"a": 1}),
        ),
        attempt(
            "a record's key that is a path",
            r#"host.fs.lookup("people", "../../../../../outside/file.txt", { a: 1 }); return host.fs.list("__lookup/people").every((n) => /^[0-9a-f]{64}\.json$/.test(n))"#,
            Gives(json!(true)),
            r#"host.fs.lookup("people", "Bob", { b: 1 }); return host.fs.lookup("people", "bob")"#,
            json!({"b": 1}),
        ),
        attempt(
            "a picture that is none",
            r#"return kit.thrown(async () => host.fs.media("data:image/png;base64," + btoa("<script>alert(1)</script>")))"#,
            Says(&["host.fs.media"]),
            r#"const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
               return host.fs.media("data:image/png;base64," + pixel).startsWith("/v1/apps/evil/__media/")"#,
            json!(true),
        ),
        attempt(
            "a picture that is a page by its declared type",
            r#"return kit.thrown(async () => host.fs.media("data:text/html;base64," + btoa("<script>alert(1)</script>")))"#,
            Says(&["host.fs.media"]),
            r#"const pixel = "R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==";
               return host.fs.media("data:image/gif;base64," + pixel).endsWith(".gif")"#,
            json!(true),
        ),
        attempt(
            "a file of 65 MiB at once",
            r#"const said = await kit.thrown(async () => host.fs.write("big.txt", new Uint8Array((64 << 20) + 1)));
               return host.fs.exists("big.txt") ? "it is there" : said"#,
            // Its memory ends before the engine's limit with 64 MiB; with more it is the limit's turn.
            Says(&["at once are more than 64 MiB", "out of memory"]),
            r#"host.fs.write("small.txt", "x".repeat(1 << 20)); return [host.fs.stat("small.txt").size, host.fs.exists("big.txt")]"#,
            json!([1 << 20, false]),
        ),
        attempt(
            "seventeen writers at once",
            r#"const all = []; for (let n = 0; n < 17; n++) all.push(await kit.thrown(() => host.fs.writer("w" + n).write("x")));
               return all[16]"#,
            Says(&["16 files are being written already"]),
            r#"const w = host.fs.writer("w"); await w.write("ab"); await w.close(); return host.fs.read("w")"#,
            json!("ab"),
        ),
        attempt(
            "another call's writer or transaction by its number",
            r#"return kit.thrown(async () => { const w = host.fs.writer("w9"); await w.write("x"); await w.close(); await w.write("y") })"#,
            Says(&["no such writer"]),
            r#"const w = host.fs.writer("w8"); await w.write("x"); await w.abort(); return host.fs.exists("w8")"#,
            json!(false),
        ),
    ]
}

pub fn pipe(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

/// Another program, or an archive that somebody unpacked there, left this in the data folder.
fn plant(house: &House) {
    let (data, outside) = (house.data("evil"), house.outside());
    fs::create_dir_all(&data).unwrap();
    let link = |name: &str, to: &Path| symlink(to, data.join(format!("planted-{name}"))).unwrap();
    for name in ["file", "over"] {
        link(name, Path::new("../../../../../../../outside/file.txt"));
    }
    assert_eq!(
        fs::read_to_string(data.join("planted-file")).unwrap(),
        crate::house::OUTSIDE_TEXT,
        "the link leads where it should"
    );
    link("absolute", Path::new("/etc/passwd"));
    for name in ["folder", "removed", "moved"] {
        link(name, &outside.join("folder"));
    }
    link("above", Path::new(".."));
    link("dangling", &outside.join("new.txt"));
    link("database", &house.home.database());
    link("socket", &house.home.path().join("engine.sock"));
    fs::hard_link(outside.join("file.txt"), data.join("planted-hard")).unwrap();
    pipe(&data.join("planted-pipe"));
}

#[test]
fn nothing_leads_out_of_the_data_folder() {
    let house = House::open();
    assert_eq!(
        house.run(r#"host.fs.write("own.txt", "mine")"#),
        crate::attempt::Came::Value(json!(null))
    );
    plant(&house);
    try_all(&house, &attempts());
}
