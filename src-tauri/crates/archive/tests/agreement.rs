//! Archives of the `zip` crate are read as it means them, and no input brings anything down.

mod common;

use std::io::{Cursor, Read, Write};

use archive::{Archive, ArchiveError, Limits, Listing};
use common::{End, Item, deflated, link, stored, zip, zip_with};
use proptest::prelude::*;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

fn by_the_zip_crate(files: &[(String, Vec<u8>)], options: SimpleFileOptions, comment: &str) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        writer.start_file(name.as_str(), options).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.set_comment(comment).unwrap();
    writer.finish().unwrap().into_inner()
}

#[test]
fn folders_links_and_streams_of_the_zip_crate() {
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let mut writer = ZipWriter::new_stream(Vec::new());
    writer.add_directory("d", options).unwrap();
    writer.start_file("d/日本.txt", options).unwrap();
    writer.write_all("streamed".repeat(100).as_bytes()).unwrap();
    writer.add_symlink("d/link", "/etc/passwd", options).unwrap();
    writer.start_file("big", options.large_file(true)).unwrap();
    writer.write_all(b"large").unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    let archive = Archive::open(bytes, Limits::contract()).unwrap();
    assert_eq!(archive.names().collect::<Vec<_>>(), ["d/", "d/日本.txt", "big"]);
    assert_eq!(archive.dropped().links, 1);
    assert_eq!(
        archive.read("d/日本.txt", 800).unwrap(),
        "streamed".repeat(100).as_bytes()
    );
    assert_eq!(archive.read("big", 5).unwrap(), b"large");
}

#[test]
fn a_reader_inflates_as_it_is_read() {
    let content: Vec<u8> = (0..200_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    let archive = Archive::open(zip(&[deflated("a", &content)]), Limits::contract()).unwrap();
    let mut reader = archive.reader("a", u64::MAX).unwrap();
    drop(archive);
    assert_eq!(reader.size(), content.len() as u64);
    let mut out = Vec::new();
    let mut piece = [0; 1009];
    loop {
        match reader.read(&mut piece).unwrap() {
            0 => break,
            n => out.extend_from_slice(&piece[..n]),
        }
    }
    assert!(out == content);
    assert_eq!(reader.read(&mut piece).unwrap(), 0, "the end stays the end");
}

fn names() -> impl Strategy<Value = String> {
    prop::collection::vec("[a-zA-Z0-9._ é日-]{1,8}", 1..4)
        .prop_map(|parts| parts.join("/"))
        .prop_filter("`./` at the beginning is taken off", |name| !name.starts_with("./"))
}

fn some_files() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..600),
        (any::<u8>(), 0..20_000usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    prop::collection::btree_map(names(), content, 0..8).prop_map(|map| map.into_iter().collect())
}

/// Everything that can be asked of an archive; each answer within what was promised.
fn ask_everything(bytes: &[u8], limits: Limits) {
    let Ok(archive) = Archive::open(bytes.to_vec(), limits) else {
        return;
    };
    let mut total = 0;
    for name in archive.names() {
        assert!(
            !name.contains("../") && !name.starts_with('/') && !name.contains('\\'),
            "{name:?}"
        );
        let entry = archive.entry(name).unwrap();
        total += entry.size;
        match archive.read(name, limits.expanded) {
            Ok(content) => assert_eq!(content.len() as u64, entry.size),
            Err(ArchiveError::NoEntry(_)) => panic!("{name:?} is listed and not there"),
            Err(_) => {}
        }
    }
    assert!(total <= limits.expanded);
    let mut json = Vec::new();
    match archive.entries_json(Listing::ImagesApart, &mut json) {
        Ok(()) => {
            let listing: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&json).unwrap();
            assert_eq!(listing.len(), archive.files());
        }
        Err(error) => assert!(matches!(error, ArchiveError::TooLarge { .. }), "{error}"),
    }
    assert!(json.len() as u64 <= limits.listing);
}

fn samples() -> Vec<Vec<u8>> {
    let end = End {
        wide: true,
        comment: b"a comment".to_vec(),
        ..End::default()
    };
    let wide = Item {
        wide: true,
        ..deflated("w.json", "{\"a\":[1,2,3]}")
    };
    let plain = zip(&[
        stored("a.txt", "text"),
        deflated("b/c.md", "x".repeat(300)),
        link("l", "a"),
    ]);
    vec![
        zip_with(&[wide, stored("\u{e9}.bin", [0; 40])], &end),
        [b"\xff\xd8\xff\xe0 picture".to_vec(), plain.clone()].concat(),
        plain,
    ]
}

#[test]
fn the_samples_are_sound() {
    for bytes in samples() {
        let archive = Archive::open(bytes, Limits::contract()).unwrap();
        assert_eq!(archive.len(), 2);
        for name in archive.names() {
            archive.read(name, 1 << 20).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_the_zip_crate_writes_is_read(files in some_files(), packed: bool, comment in "[ -~]{0,40}", prefix in prop::collection::vec(any::<u8>(), 0..50)) {
        let method = if packed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let options = SimpleFileOptions::default().compression_method(method);
        let bytes = [prefix, by_the_zip_crate(&files, options, &comment)].concat();
        let archive = Archive::open(bytes, Limits::contract()).unwrap();
        let climbs = |name: &str| name.split('/').any(|part| part.trim_end_matches(['.', ' ']).is_empty());
        let expected: Vec<&(String, Vec<u8>)> = files.iter().filter(|(name, _)| !climbs(name)).collect();
        prop_assert_eq!(archive.len(), expected.len());
        prop_assert_eq!(archive.dropped().escaping, (files.len() - expected.len()) as u64);
        for (name, content) in expected {
            prop_assert_eq!(&archive.read(name, 1 << 20).unwrap(), content);
        }
    }

    #[test]
    fn what_this_crate_reads_the_zip_crate_reads_alike(at in 0..3usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let mut bytes = samples().swap_remove(at);
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        let (Ok(ours), Ok(mut theirs)) =
            (Archive::open(bytes.clone(), Limits::contract()), ZipArchive::new(Cursor::new(bytes))) else {
            return Ok(());
        };
        for name in ours.names() {
            let (Ok(content), Ok(mut file)) = (ours.read(name, 1 << 20), theirs.by_name(name)) else {
                continue;
            };
            let mut other = Vec::new();
            if file.read_to_end(&mut other).is_ok() {
                prop_assert_eq!(content, other, "{}", name);
            }
        }
    }

    #[test]
    fn changed_archives_bring_nothing_down(at in 0..3usize, changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<prop::sample::Index>(), cuts: bool) {
        let mut bytes = samples().swap_remove(at);
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if cuts {
            bytes.drain(..cut.index(bytes.len()));
        }
        ask_everything(&bytes, Limits { expanded: 1 << 20, listing: 1 << 20, ..Limits::contract() });
    }

    #[test]
    fn any_bytes_bring_nothing_down(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        ask_everything(&bytes, Limits::contract());
        let _ = archive::png::text(&bytes, 1 << 20);
        let _ = archive::image::sniff(&bytes);
        prop_assert_eq!(archive::png::strip_text(&bytes), bytes);
    }
}
