//! Archives that lie, and their good twins.

mod common;

use std::io::Read;

use archive::{Archive, ArchiveError, Dropped, Limits};
use common::{End, Item, deflated, link, stored, zip, zip_with};

fn open(bytes: Vec<u8>) -> Result<Archive, ArchiveError> {
    Archive::open(bytes, Limits::contract())
}

fn refused(bytes: Vec<u8>, with: &str) {
    let error = open(bytes).expect_err("this must be refused").to_string();
    assert!(error.contains(with), "{error}");
}

fn names(archive: &Archive) -> Vec<&str> {
    archive.names().collect()
}

fn fails(archive: &Archive, name: &str, with: &str) {
    let error = archive
        .read(name, u64::MAX)
        .expect_err("reading this must fail")
        .to_string();
    assert!(error.contains(with), "{error}");
}

#[test]
fn regress_17_a_link_and_a_file_through_it() {
    let archive = open(zip(&[
        link("data", "/etc"),
        stored("data/passwd", "x"),
        stored("data/deep/er", "x"),
        stored("..././escape.txt", "x"),
        stored("database", "y"),
    ]))
    .unwrap();
    assert_eq!(names(&archive), ["database"]);
    let dropped = Dropped {
        escaping: 1,
        links: 3,
        duplicates: 0,
    };
    assert_eq!(archive.dropped(), dropped);
    assert_eq!(archive.dropped().total(), 4);
    assert!(matches!(archive.read("data/passwd", 9), Err(ArchiveError::NoEntry(_))));
    // The link may also come last, or be a folder or a device by its mode.
    let later = open(zip(&[stored("data/passwd", "x"), link("data/", "/etc")])).unwrap();
    assert!(later.is_empty());
    let device = Item {
        mode: 0o020_666,
        ..stored("null", "")
    };
    assert_eq!(open(zip(&[device])).unwrap().dropped().links, 1);
    let plain = Item {
        mode: 0o100_644,
        ..stored("plain", "z")
    };
    assert_eq!(open(zip(&[plain])).unwrap().read("plain", 1).unwrap(), b"z");
}

#[test]
fn regress_18_names_that_climb() {
    let bad = [
        "..\\..\\x",
        "scripts/..",
        "C:x",
        "\\\\srv\\s\\x",
        "/abs",
        "a/../../x",
        "nul\0.txt",
    ];
    let mut items: Vec<Item> = bad.iter().map(|name| stored(name, "x")).collect();
    items.push(stored("..foo.txt", "fine"));
    let archive = open(zip(&items)).unwrap();
    assert_eq!(names(&archive), ["..foo.txt"]);
    assert_eq!(archive.dropped().escaping, bad.len() as u64);
    assert_eq!(archive.read("..foo.txt", 4).unwrap(), b"fine");
    // A harmless raw name with a Unicode name that climbs is judged by the name that counts.
    let mut extra = vec![0x75, 0x70, 10, 0, 1];
    extra.extend(crc32fast::hash(b"fine.txt").to_le_bytes());
    extra.extend(b"../xx");
    let item = Item {
        extra,
        ..stored("fine.txt", "x")
    };
    assert_eq!(open(zip(&[item])).unwrap().dropped().escaping, 1);
}

#[test]
fn regress_25_signatures_inside_of_data() {
    let mut content = b"PK\x07\x08PK\x03\x04PK\x01\x02PK\x05\x06".to_vec();
    content.extend(zip(&[stored("card.json", "not this one")]));
    // As a streaming writer leaves it: sizes only in the directory, and bit 3.
    let asset = Item {
        flags: 1 << 3,
        ..stored("asset.bin", &content)
    };
    let bytes = zip(&[asset, deflated("card.json", "{\"this\":1}")]);
    let archive = open(bytes.clone()).unwrap();
    assert_eq!(archive.read("asset.bin", 1 << 20).unwrap(), content);
    assert_eq!(archive.read("card.json", 1 << 20).unwrap(), b"{\"this\":1}");

    // Behind a picture, with offsets that count from the zip and with offsets that count from the file.
    let mut picture = vec![0xff, 0xd8, 0xff, 0xe0, 0, 16];
    picture.extend(*b"JFIF\0PK\x03\x04PK\x05\x06");
    picture.extend([0; 300]);
    let appended = [picture.clone(), bytes.clone()].concat();
    let archive = open(appended).unwrap();
    assert_eq!(archive.read("card.json", 1 << 20).unwrap(), b"{\"this\":1}");
    let absolute = {
        let shift = picture.len() as u64;
        let item = Item {
            offset: Some(shift),
            ..stored("a.txt", "here")
        };
        let local = 30 + 5 + 4;
        let end = End {
            offset: Some(shift + local),
            ..End::default()
        };
        [picture, zip_with(&[item], &end)].concat()
    };
    assert_eq!(open(absolute).unwrap().read("a.txt", 9).unwrap(), b"here");

    // An archive without the file that is looked for says so.
    let error = open(zip(&[stored("other", "")])).unwrap().read("card.json", 9);
    assert!(error.unwrap_err().to_string().contains("no entry \"card.json\""));
}

#[test]
fn regress_25_limits_before_anything_is_inflated() {
    let limits = Limits {
        input: 4096,
        entries: 3,
        expanded: 1000,
        ..Limits::contract()
    };
    let too_large = |items: &[Item], what: &str| match Archive::open(zip(items), limits) {
        Err(ArchiveError::TooLarge { what: is, .. }) => assert!(is.contains(what), "{is}"),
        other => panic!("{what}: {other:?}"),
    };
    let many: Vec<Item> = (0..4).map(|n| stored(format!("{n}"), "")).collect();
    too_large(&many, "number of its entries");
    Archive::open(zip(&many[..3]), limits).unwrap();
    too_large(&[stored("a", vec![b'x'; 4096])], "file");
    // Dropped entries count too.
    too_large(
        &[stored("../a", vec![b'x'; 600]), stored("b", vec![b'x'; 401])],
        "expands",
    );
    Archive::open(
        zip(&[stored("a", vec![b'x'; 600]), stored("b", vec![b'x'; 400])]),
        limits,
    )
    .unwrap();
    // Sizes that only a sum without overflow notices.
    let huge = Item {
        size: u64::MAX - 10,
        wide: true,
        ..deflated("a", "x")
    };
    let refusal = Archive::open(zip(&[huge.clone(), huge]), limits);
    assert!(matches!(
        refusal,
        Err(ArchiveError::TooLarge { .. } | ArchiveError::Hostile(_))
    ));
}

#[test]
fn regress_25_sixty_thousand_entries_and_one_more() {
    let mut items: Vec<Item> = (0..60_000).map(|n| stored(format!("folder/{n}.txt"), "")).collect();
    let archive = open(zip(&items)).unwrap();
    assert_eq!(archive.len(), 60_000);
    assert_eq!(archive.read("folder/59999.txt", 0).unwrap(), b"");
    items.push(stored("one more", ""));
    refused(zip(&items), "the number of its entries is 60001, and at most 60000");
}

#[test]
fn bombs_that_share_data_are_refused() {
    // The same local header many times, as in 42.zip's successors.
    let kernel = deflated("0", vec![0; 1 << 20]);
    let quoting: Vec<Item> = (0..50)
        .map(|n| Item {
            name: format!("{n:02}").into_bytes(),
            offset: Some(0),
            ..kernel.clone()
        })
        .collect();
    refused(zip(&quoting), "share the same bytes");

    // Quoted headers: the data of one entry is the next entry, header and all.
    let inner = zip(&[stored("b", "payload")]);
    let local_b = &inner[..30 + 1 + 7];
    let a = stored("a", local_b);
    let b = Item {
        offset: Some(31),
        ..stored("b", "payload")
    };
    refused(zip(&[a.clone(), b]), "share the same bytes");
    open(zip(&[a, stored("b", "payload")])).unwrap();

    // An entry whose data is the directory.
    let directory = Item {
        compressed: 60,
        size: 60,
        ..stored("c", "x")
    };
    refused(zip(&[directory]), "reaches into the directory");
}

#[test]
fn a_size_that_deflate_cannot_reach_is_refused() {
    let item = Item {
        size: 200 << 20,
        ..deflated("a", "short")
    };
    refused(zip(&[item]), "cannot reach");
    // The densest honest one: a mebibyte of zeros.
    let zeros = vec![0; 1 << 20];
    let archive = open(zip(&[deflated("zeros", &zeros)])).unwrap();
    assert_eq!(archive.read("zeros", 1 << 20).unwrap(), zeros);
}

#[test]
fn a_directory_that_lies_is_caught_while_inflating() {
    let content = vec![b'x'; 5000];
    let short = Item {
        size: 100,
        ..deflated("short", &content)
    };
    let long = Item {
        size: 6000,
        ..deflated("long", &content)
    };
    let wrong = Item {
        crc: 1,
        ..deflated("wrong", &content)
    };
    let mut cut = deflated("cut", b"text that is not the same twice 0123456789");
    cut.compressed -= 4;
    cut.data.truncate(cut.compressed as usize);
    let rubbish = Item {
        data: vec![0xff; 20],
        compressed: 20,
        ..deflated("rubbish", "")
    };
    let good = deflated("good", &content);
    let archive = open(zip(&[short, long, wrong, cut, rubbish, good])).unwrap();
    fails(&archive, "short", "goes on after the size");
    fails(&archive, "long", "ends before the size");
    fails(&archive, "wrong", "checksum");
    fails(&archive, "cut", "damaged");
    fails(&archive, "rubbish", "damaged");
    assert_eq!(archive.read("good", 5000).unwrap(), content);
    // Who reads by the size, and never up to the end, hears of it too: with the last bytes.
    let mut exact = vec![0; 5000];
    let mut reader = archive.reader("wrong", 5000).unwrap();
    reader.read_exact(&mut exact[..4000]).unwrap();
    reader.read_exact(&mut exact[4000..]).unwrap_err();
    // The limit is looked at before inflating.
    assert!(matches!(
        archive.read("good", 4999),
        Err(ArchiveError::EntryTooLarge {
            is: 5000,
            most: 4999,
            ..
        })
    ));
}

#[test]
fn counts_and_places_that_lie_are_refused() {
    let items = [stored("a", "1"), stored("b", "2")];
    let with = |end: End| zip_with(&items, &end);
    let entries = |n| {
        with(End {
            entries: Some(n),
            ..End::default()
        })
    };
    refused(entries(1), "more entries than");
    refused(entries(3), "fewer entries than");
    refused(entries(50_000), "fewer entries than");
    refused(entries(0), "not where its end record says");
    let len = |n| {
        with(End {
            len: Some(n),
            ..End::default()
        })
    };
    refused(len(1 << 20), "longer than the file");
    refused(len(0), "not where its end record says");
    refused(len(46), "not where its end record says");
    refused(len(47), "fewer entries than");
    let offset = End {
        offset: Some(1 << 20),
        ..End::default()
    };
    refused(with(offset), "not where its end record says");
    let disk = End {
        disk: 1,
        ..End::default()
    };
    refused(with(disk), "split");
    refused(Vec::new(), "not a zip");
    refused(b"PK\x03\x04 and no end".to_vec(), "not a zip");
    let whole = with(End::default());
    refused(whole[..whole.len() - 1].to_vec(), "not a zip");
    let mut more = whole.clone();
    more.push(0);
    refused(more, "not a zip");
    assert_eq!(open(whole).unwrap().len(), 2);
    assert_eq!(open(zip(&[])).unwrap().len(), 0);
}

#[test]
fn two_readings_of_one_file_are_refused() {
    // The comment is an archive of its own: from the front this is one archive, from the back another.
    let inner = zip(&[stored("b", "two")]);
    let end = End {
        comment: inner,
        ..End::default()
    };
    refused(zip_with(&[stored("a", "one")], &end), "two end records");
    let end = End {
        comment: b"PK\x05\x06 is how an end begins".to_vec(),
        ..End::default()
    };
    let archive = open(zip_with(&[stored("a", "one")], &end)).unwrap();
    assert_eq!(archive.read("a", 9).unwrap(), b"one");
}

#[test]
fn zip64_is_read_and_its_lies_are_refused() {
    let wide = Item {
        wide: true,
        ..deflated("a", "wide")
    };
    let end = End {
        wide: true,
        ..End::default()
    };
    let archive = open(zip_with(std::slice::from_ref(&wide), &end)).unwrap();
    assert_eq!(archive.read("a", 9).unwrap(), b"wide");
    let prefixed = [
        b"something before".to_vec(),
        zip_with(std::slice::from_ref(&wide), &end),
    ]
    .concat();
    assert_eq!(open(prefixed).unwrap().read("a", 9).unwrap(), b"wide");

    for entries in [u64::MAX, 1 << 40] {
        let end = End {
            entries: Some(entries),
            wide: true,
            ..End::default()
        };
        refused(zip_with(std::slice::from_ref(&wide), &end), "number of its entries");
    }
    for lie in [u64::MAX, u64::MAX - 4, 1 << 63] {
        let end = End {
            len: Some(lie),
            wide: true,
            ..End::default()
        };
        refused(zip_with(std::slice::from_ref(&wide), &end), "longer than the file");
        let end = End {
            offset: Some(lie),
            wide: true,
            ..End::default()
        };
        refused(
            zip_with(std::slice::from_ref(&wide), &end),
            "not where its end record says",
        );
        let nowhere = Item {
            offset: Some(lie),
            ..wide.clone()
        };
        let archive = open(zip(&[nowhere])).unwrap();
        fails(&archive, "a", "not where the directory says");
        let reaching = Item {
            compressed: lie,
            ..wide.clone()
        };
        refused(zip(&[reaching]), "reaches into the directory");
    }
    // A row that promises a ZIP64 field and has a short one.
    let item = Item {
        size: u64::from(u32::MAX),
        extra: vec![1, 0, 4, 0, 9, 9, 9, 9],
        ..deflated("a", "x")
    };
    refused(zip(&[item]), "too short");
}

#[test]
fn what_cannot_be_read_is_listed_with_its_reason() {
    let items = [
        Item {
            flags: 1,
            ..stored("encrypted", "x")
        },
        Item {
            method: 9,
            ..stored("deflate64", "x")
        },
        Item {
            method: 14,
            ..stored("lzma", "x")
        },
        Item {
            size: 2,
            ..stored("two sizes", "x")
        },
        Item {
            offset: Some(9999),
            ..stored("elsewhere", "x")
        },
        stored("folder/", ""),
        stored("good", "x"),
    ];
    let archive = open(zip(&items)).unwrap();
    assert_eq!((archive.len(), archive.files()), (7, 6));
    assert!(archive.entry("encrypted").unwrap().unreadable.is_some());
    fails(&archive, "encrypted", "encrypted");
    fails(&archive, "deflate64", "compression method");
    fails(&archive, "lzma", "compression method");
    fails(&archive, "two sizes", "two sizes");
    fails(&archive, "elsewhere", "not where the directory says");
    fails(&archive, "folder/", "is a folder");
    assert_eq!(archive.entry("good").unwrap().unreadable, None);
    assert_eq!(archive.read("good", 1).unwrap(), b"x");
}

#[test]
fn of_one_name_the_first_entry_counts() {
    let archive = open(zip(&[
        stored("a", "first"),
        stored("./a", "second"),
        stored("a", "third"),
        stored("a/", ""),
        stored("A", "another"),
        stored("./", ""),
    ]))
    .unwrap();
    assert_eq!(names(&archive), ["a", "A"]);
    assert_eq!(archive.read("a", 9).unwrap(), b"first");
    assert_eq!(archive.dropped().duplicates, 3);
    assert_eq!(archive.dropped().total(), 3);
}
