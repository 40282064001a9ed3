//! Zip archives: everything that can be asked of one, and each answer within what was promised.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Component, Path};

use archive::{Archive, ArchiveError, Limits, Listing};

/// Small, so that the fuzzer meets them.
const LIMITS: Limits = Limits {
    input: 64 << 10,
    entries: 64,
    expanded: 256 << 10,
    text: 1 << 10,
    binary: 4 << 10,
    listing: 64 << 10,
};

pub fn run(bytes: &[u8]) {
    let archive = match Archive::open(bytes.to_vec(), LIMITS) {
        Ok(archive) => archive,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(archive.len() as u64 + archive.dropped().total() <= LIMITS.entries);
    let mut total = 0;
    let mut seen = HashSet::new();
    for name in archive.names() {
        inside(name);
        assert!(seen.insert(name.trim_end_matches('/')), "{name:?} twice");
        let entry = archive.entry(name).expect("what is listed is there");
        assert_eq!(entry.is_dir, name.ends_with('/'));
        total += entry.size;
        entry_of(&archive, name, entry.size);
    }
    assert!(total <= LIMITS.expanded, "{total}");
    listing(&archive);
}

/// No part of the name leads anywhere but down, on this system or by Windows' rules.
fn inside(name: &str) {
    assert!(!name.is_empty() && !name.contains(['\\', '\0']), "{name:?}");
    for part in Path::new(name).components() {
        assert!(matches!(part, Component::Normal(_)), "{name:?}");
    }
    for part in name.trim_end_matches('/').split('/') {
        assert!(part.chars().any(|c| c != '.' && c != ' '), "{name:?}");
    }
    assert!(
        !(name.as_bytes()[0].is_ascii_alphabetic() && name.as_bytes().get(1) == Some(&b':')),
        "{name:?}"
    );
}

/// Read whole and read in pieces are the same thing; a limit is a limit.
fn entry_of(archive: &Archive, name: &str, size: u64) {
    if size > 0 {
        let refused = archive.read(name, size - 1);
        assert!(refused.is_err(), "{name:?} has {size} bytes");
    }
    let whole = archive.read(name, size);
    if let Ok(content) = &whole {
        assert_eq!(content.len() as u64, size);
        assert_eq!(archive.entry(name).and_then(|entry| entry.unreadable), None);
    }
    let Ok(mut reader) = archive.reader(name, size) else {
        assert!(whole.is_err());
        return;
    };
    let (mut content, mut piece) = (Vec::new(), [0; 61]);
    let end = loop {
        match reader.read(&mut piece) {
            Ok(0) => break Ok(()),
            Ok(n) => content.extend_from_slice(&piece[..n]),
            Err(error) => break Err(error),
        }
        assert!(content.len() as u64 <= size, "{name:?}");
    };
    match whole {
        Ok(whole) => assert!(end.is_ok() && whole == content, "{name:?}"),
        Err(error) => assert!(end.is_err(), "{error}"),
    }
}

fn listing(archive: &Archive) {
    for kind in [Listing::Plain, Listing::ImagesApart] {
        let mut json = Vec::new();
        match archive.entries_json(kind, &mut json) {
            Ok(()) => {
                let listing: serde_json::Value = serde_json::from_slice(&json).expect("a listing is JSON");
                assert_eq!(listing.as_object().map(|members| members.len()), Some(archive.files()));
            }
            Err(error) => assert!(matches!(error, ArchiveError::TooLarge { .. }), "{error}"),
        }
        assert!(json.len() as u64 <= LIMITS.listing);
    }
}
