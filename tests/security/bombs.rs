//! Archives and pictures that lie, as an app's page may send them to its plugin.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use crate::attempt::{Came, Want};
use crate::house::House;

/// One entry of an archive: what lies in the file, and what the directory says of it.
#[derive(Clone)]
struct Entry {
    name: Vec<u8>,
    data: Vec<u8>,
    method: u16,
    flags: u16,
    size: u32,
    mode: u32,
    offset: Option<u32>,
}

fn stored(name: &str, data: &[u8]) -> Entry {
    Entry {
        name: name.as_bytes().to_vec(),
        data: data.to_vec(),
        method: 0,
        flags: 0,
        size: data.len() as u32,
        mode: 0,
        offset: None,
    }
}

/// `size` zeros, deflated.
fn zeros(name: &str, size: u32) -> Entry {
    Entry {
        method: 8,
        size,
        data: deflated_zeros(size as usize),
        ..stored(name, b"")
    }
}

/// At least `size` zeros as one deflate stream: a literal, then copies of 258 bytes from one byte back (13 bits each).
fn deflated_zeros(size: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.low_first(1, 1);
    bits.low_first(1, 2);
    bits.high_first(0b0011_0000, 8);
    for _ in 0..(size - 1) / 258 {
        bits.high_first(0b1100_0101, 8);
        bits.high_first(0, 5);
    }
    for _ in 0..(size - 1) % 258 {
        bits.high_first(0b0011_0000, 8);
    }
    bits.high_first(0, 7);
    bits.done
}

#[derive(Default)]
struct Bits {
    done: Vec<u8>,
    used: u32,
}

impl Bits {
    fn bit(&mut self, on: bool) {
        if self.used.is_multiple_of(8) {
            self.done.push(0);
        }
        if let Some(last) = self.done.last_mut() {
            *last |= u8::from(on) << (self.used % 8);
        }
        self.used += 1;
    }
    fn low_first(&mut self, value: u32, count: u32) {
        (0..count).for_each(|n| self.bit(value >> n & 1 == 1));
    }
    fn high_first(&mut self, value: u32, count: u32) {
        (0..count).rev().for_each(|n| self.bit(value >> n & 1 == 1));
    }
}

fn crc(bytes: impl IntoIterator<Item = u8>) -> u32 {
    !bytes.into_iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |c, _| {
            if c & 1 == 1 { c >> 1 ^ 0xedb8_8320 } else { c >> 1 }
        })
    })
}

fn archive(entries: &[Entry]) -> Vec<u8> {
    archive_of(entries, entries.len() as u16)
}

fn archive_of(entries: &[Entry], says: u16) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let sum = match entry.method {
            8 if entry.size < 1 << 20 => crc(std::iter::repeat_n(0, entry.size as usize)),
            8 => 0,
            _ => crc(entry.data.iter().copied()),
        };
        let mut common = Vec::new();
        common.extend([20, 0]);
        common.extend(entry.flags.to_le_bytes());
        common.extend(entry.method.to_le_bytes());
        common.extend([0, 0, 0x21, 0]);
        common.extend(sum.to_le_bytes());
        common.extend((entry.data.len() as u32).to_le_bytes());
        common.extend(entry.size.to_le_bytes());
        common.extend((entry.name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        let at = entry.offset.unwrap_or(out.len() as u32);
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(&entry.name);
        out.extend(&entry.data);
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((entry.mode << 16).to_le_bytes());
        directory.extend(at.to_le_bytes());
        directory.extend(&entry.name);
    }
    let start = out.len() as u32;
    let length = directory.len() as u32;
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(says.to_le_bytes());
    out.extend(says.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn png(chunks: &[(&[u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut add = |kind: &[u8; 4], data: &[u8]| {
        out.extend((data.len() as u32).to_be_bytes());
        out.extend(kind);
        out.extend(data);
        out.extend(crc(kind.iter().chain(data).copied()).to_be_bytes());
    };
    add(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 6, 0, 0, 0]);
    for (kind, data) in chunks {
        add(kind, data);
    }
    add(b"IDAT", &[0x78, 0x9c, 0x63, 0, 1, 0, 0, 5, 0, 1]);
    add(b"IEND", &[]);
    out
}

/// An archive (none: this text in its place), what is done with it, and what must come of it.
struct Bomb(&'static str, Result<Vec<u8>, &'static str>, &'static str, Want);

const REFUSED: Want = Want::Fails(&["422 "]);
const NAMES: &str = "return host.zip.names()";

fn bombs() -> Vec<Bomb> {
    use Want::*;
    let good = || stored("good.txt", b"good");
    let with = |entry: Entry| Ok(archive(&[good(), entry]));
    let hidden = || Gives(json!(["good.txt"]));
    let many: Vec<Entry> = (0..60_001).map(|n| stored(&n.to_string(), b"")).collect();
    let kernel = zeros("kernel", 1 << 20);
    let sharing: Vec<Entry> = (0..50)
        .map(|n| Entry {
            name: format!("{n:06}").into_bytes(),
            offset: Some(0),
            ..kernel.clone()
        })
        .collect();
    let dense: Vec<Entry> = (0..9).map(|n| zeros(&format!("{n}.bin"), 30 << 20)).collect();
    let text: Vec<(&[u8; 4], Vec<u8>)> = (0..100_000)
        .map(|n| (b"tEXt", format!("k{n}\0v").into_bytes()))
        .collect();
    let inflated = [b"chara\0\0\x78\x01".to_vec(), deflated_zeros(40 << 20), vec![0; 4]].concat();
    let page = "<html><script>alert(1)</script></html>".as_bytes();
    vec![
        Bomb("rubbish", Ok(b"PK this is no archive".to_vec()), NAMES, REFUSED),
        Bomb("nothing", Ok(Vec::new()), NAMES, REFUSED),
        Bomb("no base64", Err("%%%"), NAMES, REFUSED),
        Bomb("60,001 entries", Ok(archive_of(&many, 60_001)), NAMES, REFUSED),
        Bomb(
            "fewer entries than it says",
            Ok(archive_of(&[good()], 9)),
            NAMES,
            REFUSED,
        ),
        Bomb(
            "more entries than it says",
            Ok(archive_of(&[good(), stored("b", b"")], 1)),
            NAMES,
            REFUSED,
        ),
        Bomb(
            "fifty entries that share a mebibyte",
            Ok(archive(&sharing)),
            NAMES,
            REFUSED,
        ),
        Bomb("270 MiB of zeros", Ok(archive(&dense)), NAMES, REFUSED),
        Bomb(
            "an entry whose size cannot be",
            with(Entry {
                size: 200 << 20,
                ..zeros("a", 10)
            }),
            NAMES,
            REFUSED,
        ),
        Bomb(
            "an entry in the middle of another",
            with(Entry {
                offset: Some(60),
                ..stored("a", &[b'x'; 40])
            }),
            "return kit.thrown(async () => host.zip.read('a'))",
            Says(&["host.zip.read"]),
        ),
        Bomb(
            "a file of 30 MiB at once",
            with(zeros("a.bin", 30 << 20)),
            "return kit.thrown(async () => host.zip.readBytes('a.bin').length)",
            Says(&["host.zip.readBase64"]),
        ),
        Bomb(
            "a text of 30 MiB among all entries",
            with(zeros("a.txt", 30 << 20)),
            "return Object.values(host.zip.entries()).map((e) => e.__binary__ ?? typeof e)",
            Gives(json!(["string", true])),
        ),
        Bomb(
            "an entry that is longer than its size",
            with(Entry {
                size: 100,
                ..zeros("a.bin", 5000)
            }),
            "return kit.thrown(async () => host.zip.readBytes('a.bin').length)",
            Says(&["goes on after the size"]),
        ),
        Bomb(
            "an entry above the archive",
            with(stored("../../evil.txt", b"x")),
            NAMES,
            hidden(),
        ),
        Bomb(
            "an entry at an absolute path",
            with(stored("/etc/evil", b"x")),
            NAMES,
            hidden(),
        ),
        Bomb("an entry on a drive", with(stored("C:/evil", b"x")), NAMES, hidden()),
        Bomb(
            "an entry behind backslashes",
            with(stored("..\\..\\evil", b"x")),
            NAMES,
            hidden(),
        ),
        Bomb(
            "an entry with a NUL in its name",
            with(stored("evil\0.txt", b"x")),
            NAMES,
            hidden(),
        ),
        Bomb(
            "an entry that is a link",
            with(Entry {
                mode: 0o120_777,
                ..stored("link", b"/etc/passwd")
            }),
            NAMES,
            hidden(),
        ),
        Bomb(
            "an encrypted entry",
            with(Entry {
                flags: 1,
                ..stored("a.txt", b"x")
            }),
            "return kit.thrown(async () => host.zip.read('a.txt'))",
            Says(&["host.zip.read"]),
        ),
        Bomb(
            "an unknown method",
            with(Entry {
                method: 99,
                ..stored("a.txt", b"x")
            }),
            "return kit.thrown(async () => host.zip.read('a.txt'))",
            Says(&["host.zip.read"]),
        ),
        Bomb(
            "one name twice",
            with(stored("good.txt", b"evil")),
            "return [host.zip.names(), host.zip.read('good.txt')]",
            Gives(json!([["good.txt"], "good"])),
        ),
        Bomb(
            "a name that is an object's own",
            with(stored("__proto__", b"{}")),
            "const all = host.zip.entries(); return [Object.getPrototypeOf(all) === Object.prototype, {}.good ?? null]",
            Gives(json!([true, null])),
        ),
        Bomb(
            "a name that is not in it",
            Ok(archive(&[good()])),
            "return kit.thrown(async () => host.zip.read('../../good.txt'))",
            Says(&["host.zip.read"]),
        ),
        Bomb(
            "a picture whose text is 40 MiB",
            with(stored("a.png", &png(&[(b"zTXt", inflated)]))),
            "return kit.thrown(async () => host.zip.image('a.png'))",
            Says(&["is larger than 33554432 bytes"]),
        ),
        Bomb(
            "a picture of a hundred thousand texts",
            with(stored("a.png", &png(&text))),
            "return kit.thrown(async () => Object.keys(host.zip.image('a.png').metadata).length < 10000)",
            Says(&["no error but true", "host.zip.image"]),
        ),
        Bomb(
            "a page that is called a picture",
            with(stored("a.png", page)),
            "return kit.thrown(async () => host.zip.image('a.png'))",
            Says(&["no PNG"]),
        ),
    ]
}

pub fn names() -> Vec<String> {
    bombs()
        .into_iter()
        .map(|bomb| format!("an archive: {}", bomb.0))
        .collect()
}

fn send(house: &House, zip: &str, code: &str) -> Came {
    let body = json!({"code": code, "given": house.given(), "zipBase64": zip});
    let reply = house.owner.post("/v1/apps/evil/run", &body);
    match reply.status {
        200 => Came::Value(reply.json()),
        status => Came::Error(format!("{status} {}", reply.text())),
    }
}

#[test]
fn archives_that_lie_harm_nobody() {
    let house = House::open();
    let fine = BASE64_STANDARD.encode(archive(&[
        stored("a.txt", b"text"),
        zeros("z.bin", 100_000),
        stored("p.png", &png(&[(b"tEXt", b"k\0v".to_vec())])),
    ]));
    let twin = "return [host.zip.names(), host.zip.read('a.txt'), host.zip.readBytes('z.bin').length, host.zip.image('p.png').metadata]";
    let good = json!([["a.txt", "z.bin", "p.png"], "text", 100_000, {"k": "v"}]);
    let mut wrong = Vec::new();
    for Bomb(name, bytes, code, want) in bombs() {
        let zip = bytes.map_or_else(str::to_owned, |bytes| BASE64_STANDARD.encode(bytes));
        let came = send(&house, &zip, code);
        if !want.fits(&came) {
            let came: String = format!("{came:?}").chars().take(300).collect();
            wrong.push(format!("{name}: wanted {want:?}, got {came}"));
        }
        wrong.extend(house.harm(&came).map(|harm| format!("{name}: {harm}")));
        let came = send(&house, &fine, twin);
        if came != Came::Value(good.clone()) {
            wrong.push(format!("{name}: the twin gave {came:?}"));
        }
    }
    let none = house.run("return kit.thrown(async () => host.zip.names())");
    assert!(Want::Says(&["there is no archive"]).fits(&none), "{none:?}");
    assert!(wrong.is_empty(), "{} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}
