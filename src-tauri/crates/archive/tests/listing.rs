//! The listing of the contract: text, base64, and sizes alone.

mod common;

use archive::{Archive, ArchiveError, Limits, Listing};
use common::{Item, deflated, stored, zip};
use serde_json::{Value, json};

fn list(items: &[Item], limits: Limits, listing: Listing) -> Result<Value, ArchiveError> {
    let mut out = Vec::new();
    Archive::open(zip(items), limits)?.entries_json(listing, &mut out)?;
    Ok(serde_json::from_slice(&out).unwrap())
}

#[test]
fn text_base64_and_sizes() {
    let limits = Limits {
        text: 20,
        binary: 30,
        ..Limits::contract()
    };
    let utf16: Vec<u8> = "\u{feff}[\"🦋\"]".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let items = [
        stored("folder/", ""),
        deflated("folder/a.json", "{\"quote\":\"\\\"\"}"),
        stored("mark.json", "\u{feff}{}"),
        stored("wide.JSON", utf16),
        stored("rubbish.txt", [0xff, 0xfe, 0x00]),
        stored("long.md", "x".repeat(20)),
        stored("longer.md", "x".repeat(31)),
        stored("a.bin", [1, 2, 3, 4]),
        deflated("big.bin", [0; 31]),
        stored("__proto__", [9]),
        stored("empty.txt", ""),
        Item {
            crc: 7,
            ..stored("bad.txt", "bad")
        },
        Item {
            flags: 1,
            ..stored("locked.txt", "x")
        },
    ];
    let listing = list(&items, limits, Listing::Plain).unwrap();
    let b64 = |size: usize, base64: &str| json!({"__b64__": true, "size": size, "base64": base64});
    let members = listing.as_object().unwrap();
    assert_eq!(members.len(), 12);
    assert_eq!(listing["folder/a.json"], json!("{\"quote\":\"\\\"\"}"));
    assert_eq!(listing["mark.json"], json!("{}"));
    assert_eq!(listing["wide.JSON"], json!("[\"🦋\"]"));
    assert_eq!(listing["rubbish.txt"], b64(3, "//4A"));
    assert_eq!(listing["long.md"], b64(20, "eHh4eHh4eHh4eHh4eHh4eHh4eHg="));
    assert_eq!(listing["longer.md"], json!({"__binary__": true, "size": 31}));
    assert_eq!(listing["a.bin"], b64(4, "AQIDBA=="));
    assert_eq!(listing["big.bin"], json!({"__binary__": true, "size": 31}));
    assert_eq!(members["__proto__"], b64(1, "CQ=="));
    assert_eq!(listing["empty.txt"], json!(""));
    for (name, why) in [("bad.txt", "checksum"), ("locked.txt", "encrypted")] {
        assert_eq!(listing[name]["__binary__"], json!(true));
        let error = listing[name]["error"].as_str().unwrap();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn import_batches_leave_pictures_out() {
    let png = [archive::png::SIGNATURE.as_slice(), &[0; 20]].concat();
    let items = [stored("a.png", &png), stored("b.png", "no picture")];
    let apart = list(&items, Limits::contract(), Listing::ImagesApart).unwrap();
    assert_eq!(apart["a.png"], json!({"__image__": true, "size": 28}));
    assert_eq!(apart["b.png"]["__b64__"], json!(true));
    let plain = list(&items, Limits::contract(), Listing::Plain).unwrap();
    assert_eq!(plain["a.png"]["__b64__"], json!(true));
}

#[test]
fn a_listing_that_grows_too_long_is_refused() {
    // Control characters take six bytes each in JSON.
    let items = [stored("a.txt", vec![1; 1000])];
    let limits = |listing| Limits {
        listing,
        ..Limits::contract()
    };
    let whole = "{\"a.txt\":\"\"}".len() as u64 + 6000;
    list(&items, limits(whole), Listing::Plain).unwrap();
    assert!(matches!(
        list(&items, limits(whole - 1), Listing::Plain),
        Err(ArchiveError::TooLarge { .. })
    ));
}
