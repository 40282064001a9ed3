//! Text inside PNG pictures, and kinds of pictures.

use std::io::Write;

use archive::image::{Kind, sniff};
use archive::png::{MAX_TEXTS, PngError, SIGNATURE, TEXT_LIMIT, strip_text, text};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use proptest::prelude::*;

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut out = (data.len() as u32).to_be_bytes().to_vec();
    out.extend(kind);
    out.extend(data);
    out.extend(crc32fast::hash(&out[4..]).to_be_bytes());
    out
}

fn head() -> Vec<u8> {
    [
        SIGNATURE.to_vec(),
        chunk(b"IHDR", &[0, 0, 0, 3, 0, 0, 0, 2, 8, 0, 0, 0, 0]),
    ]
    .concat()
}

/// A picture with `before` in front of its data and `after` behind it.
fn picture(before: &[Vec<u8>], after: &[Vec<u8>]) -> Vec<u8> {
    let pixels = chunk(b"IDAT", &zlib(&[0; 8]));
    [head(), before.concat(), pixels, after.concat(), chunk(b"IEND", b"")].concat()
}

fn plain(key: &str, text: &[u8]) -> Vec<u8> {
    chunk(b"tEXt", &[key.as_bytes(), b"\0", text].concat())
}

fn packed(key: &str, text: &[u8]) -> Vec<u8> {
    chunk(b"zTXt", &[key.as_bytes(), b"\0\0", &zlib(text)].concat())
}

fn international(key: &str, text: &[u8], compressed: bool) -> Vec<u8> {
    let body = if compressed { zlib(text) } else { text.to_vec() };
    let head = [
        key.as_bytes(),
        b"\0",
        &[u8::from(compressed), 0],
        b"de\0",
        "Schlüssel\0".as_bytes(),
    ]
    .concat();
    chunk(b"iTXt", &[head, body].concat())
}

fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    text(bytes, TEXT_LIMIT).unwrap().entries
}

fn pair(key: &str, text: &str) -> (String, String) {
    (key.to_owned(), text.to_owned())
}

#[test]
fn regress_22_every_kind_of_text_chunk() {
    let bytes = picture(&[packed("chara", b"eyJ9")], &[]);
    assert_eq!(pairs(&bytes), [pair("chara", "eyJ9")]);
    let bytes = picture(
        &[
            plain("chara", b"v2"),
            international("ccv3", "v3 日本".as_bytes(), false),
            international("note", "gepackt ü".as_bytes(), true),
        ],
        &[],
    );
    let found = text(&bytes, TEXT_LIMIT).unwrap();
    assert_eq!(
        found.entries,
        [pair("chara", "v2"), pair("ccv3", "v3 日本"), pair("note", "gepackt ü")]
    );
    assert!(found.repairs.is_empty());
}

#[test]
fn regress_24_text_behind_the_picture_and_both_character_sets() {
    let bytes = picture(
        &[],
        &[
            plain("late", b"x"),
            plain("latin", b"caf\xe9"),
            plain("utf", "café".as_bytes()),
        ],
    );
    assert_eq!(
        pairs(&bytes),
        [pair("late", "x"), pair("latin", "café"), pair("utf", "café")]
    );
    let behind = [bytes.clone(), plain("behind", b"y")].concat();
    let found = text(&behind, TEXT_LIMIT).unwrap();
    assert_eq!(found.entries[3], pair("behind", "y"));
    assert!(found.repairs[0].contains("after the end"), "{:?}", found.repairs);
    // Something else behind the end, such as an archive, is not looked into.
    let appended = [bytes, b"PK\x03\x04PK\x05\x06 and so on, at some length".to_vec()].concat();
    assert!(text(&appended, TEXT_LIMIT).unwrap().repairs.is_empty());
}

#[test]
fn damage_is_named_and_the_rest_read() {
    let mut wrong = plain("key", b"value");
    *wrong.last_mut().unwrap() ^= 1;
    let found = text(&picture(&[wrong], &[]), TEXT_LIMIT).unwrap();
    assert_eq!(found.entries, [pair("key", "value")]);
    assert!(found.repairs[0].contains("checksum"));

    let whole = picture(&[plain("a", b"1"), plain("b", b"0123456789")], &[]);
    let cut = whole.windows(4).position(|four| four == b"4567").unwrap();
    let found = text(&whole[..cut], TEXT_LIMIT).unwrap();
    assert_eq!(found.entries, [pair("a", "1"), pair("b", "0123")]);
    assert!(found.repairs[0].contains("inside its tEXt"), "{:?}", found.repairs);

    let mut broken = zlib(&b"0123456789".repeat(50));
    broken.truncate(broken.len() - 6);
    let chunk_of = |method: u8, body: &[u8]| chunk(b"zTXt", &[b"z\0".as_slice(), &[method], body].concat());
    let found = text(
        &picture(
            &[
                chunk_of(0, &broken),
                chunk_of(9, b"x"),
                chunk(b"tEXt", b"no zero byte"),
                chunk(b"tEXt", b"\0no key"),
                chunk(b"iTXt", b"short\0"),
                chunk(b"iTXt", b"short\0\0\0de"),
                chunk(b"iTXt", b"odd\0\x01\x07\0\0x"),
            ],
            &[],
        ),
        TEXT_LIMIT,
    )
    .unwrap();
    assert!(
        found.entries.len() == 1 && found.entries[0].1.starts_with("0123456789"),
        "{found:?}"
    );
    assert_eq!(found.repairs.len(), 7, "{:?}", found.repairs);

    assert_eq!(text(b"\xff\xd8\xff", TEXT_LIMIT), Err(PngError::NotPng));
    assert!(text(&SIGNATURE, TEXT_LIMIT).unwrap().repairs[0].contains("no end"));
}

#[test]
fn bombs_of_text_are_refused() {
    let bomb = picture(&[packed("a", &vec![0; 600_000]), packed("b", &vec![0; 600_000])], &[]);
    assert!(bomb.len() < 4000);
    assert_eq!(text(&bomb, 1_000_000), Err(PngError::TooMuchText { limit: 1_000_000 }));
    assert_eq!(text(&bomb, 1_200_002).unwrap().entries.len(), 2);
    assert_eq!(text(&bomb, 1_200_001), Err(PngError::TooMuchText { limit: 1_200_001 }));
    let long = picture(&[plain("a", &[b'x'; 100])], &[]);
    assert_eq!(text(&long, 100), Err(PngError::TooMuchText { limit: 100 }));
    let many: Vec<Vec<u8>> = (0..=MAX_TEXTS).map(|_| plain("k", b"")).collect();
    assert_eq!(text(&picture(&many, &[]), TEXT_LIMIT), Err(PngError::TooManyTexts));
    assert_eq!(pairs(&picture(&many[1..], &[])).len(), MAX_TEXTS);
    // However much is wrong, the list of repairs stays short.
    let odd: Vec<Vec<u8>> = (0..900).map(|_| chunk(b"tEXt", b"")).collect();
    let found = text(&picture(&odd, &[]), TEXT_LIMIT).unwrap();
    assert_eq!((found.repairs.len(), found.repairs[32].as_str()), (33, "and 868 more"));
}

#[test]
fn stripping_takes_the_text_and_nothing_else() {
    let keep = [chunk(b"gAMA", &[0, 0, 177, 143]), chunk(b"prVt", b"private")];
    let clean = picture(&keep, &[]);
    let texts = [
        plain("chara", b"x"),
        packed("z", b"y"),
        international("i", b"z", true),
        chunk(b"eXIf", b"MM\0*"),
    ];
    let dirty = picture(&[keep.as_slice(), &texts].concat(), &texts);
    assert_ne!(dirty, clean);
    assert_eq!(strip_text(&dirty), clean);
    assert_eq!(strip_text(&clean), clean);
    // Behind the end nothing stays, whatever it is; and the end itself holds nothing.
    let behind = [clean.clone(), plain("late", b"x"), b"\0\0a note".to_vec()].concat();
    assert_eq!(strip_text(&behind), clean);
    let zip = [clean.clone(), b"PK\x03\x04 secret".to_vec()].concat();
    assert_eq!(strip_text(&zip), clean);
    let second = [clean.as_slice(), &clean].concat();
    assert_eq!(strip_text(&second), clean);
    let full = [&clean[..clean.len() - 12], &chunk(b"IEND", b"secret")].concat();
    assert_eq!(strip_text(&full), clean);
    let endless = [&clean[..clean.len() - 12], b"\0\0\0\0 a secret"].concat();
    assert_eq!(strip_text(&endless), clean[..clean.len() - 12]);
    let cut = [clean.clone(), plain("late", b"secret")[..14].to_vec()].concat();
    assert_eq!(strip_text(&cut), clean);
    assert_eq!(strip_text(b"GIF89a tEXt"), b"GIF89a tEXt");
}

#[test]
fn kinds_of_pictures_by_content() {
    let is = |bytes: &[u8]| sniff(bytes).map(|picture| (picture.kind, picture.width, picture.height));
    assert_eq!(is(&picture(&[], &[])), Some((Kind::Png, 3, 2)));
    assert_eq!(is(b"GIF89a\x05\x01\x04\x00\x80\x00\x00"), Some((Kind::Gif, 261, 4)));
    let jpeg = [
        b"\xff\xd8\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0".as_slice(),
        b"\xff\xdb\x00\x04\0\0\xff\xff\xc2\x00\x0b\x08\x00\x10\x01\x20\x01\x01\x11\x00",
    ]
    .concat();
    assert_eq!(is(&jpeg), Some((Kind::Jpeg, 288, 16)));
    let riff = |chunk: &[u8]| [b"RIFF\x20\0\0\0WEBP".as_slice(), chunk].concat();
    let lossy = riff(b"VP8 \x10\0\0\0\x30\x01\0\x9d\x01\x2a\x40\x01\xf0\x00");
    assert_eq!(is(&lossy), Some((Kind::Webp, 320, 240)));
    let lossless = riff(b"VP8L\x10\0\0\0\x2f\x3f\xc1\x3b\x00\x00");
    assert_eq!(is(&lossless), Some((Kind::Webp, 320, 240)));
    let extended = riff(b"VP8X\x0a\0\0\0\x10\0\0\0\x3f\x01\0\xef\0\0");
    assert_eq!(is(&extended), Some((Kind::Webp, 320, 240)));

    for bytes in [
        b"<svg xmlns='http://www.w3.org/2000/svg'/>".as_slice(),
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xd9",
        b"\xff\xd8<script>",
        b"GIF89a\0\0\x04\0",
        b"RIFF\x20\0\0\0WAVEfmt ",
        b"",
    ] {
        assert_eq!(is(bytes), None, "{bytes:?}");
    }
    for whole in [picture(&[], &[])[..24].to_vec(), jpeg, lossy, lossless, extended] {
        for end in 0..whole.len() {
            let _ = sniff(&whole[..end]);
        }
    }
    assert_eq!(
        (Kind::Jpeg.name(), Kind::Jpeg.ending(), Kind::Webp.media_type()),
        ("jpeg", "jpg", "image/webp")
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_is_written_is_read(entries in prop::collection::vec(("[A-Za-z ]{1,79}", ".{0,60}", 0..4u8), 0..6)) {
        let chunks: Vec<Vec<u8>> = entries.iter().map(|(key, text, how)| match how {
            0 => plain(key, text.as_bytes()),
            1 => packed(key, text.as_bytes()),
            2 => international(key, text.as_bytes(), false),
            _ => international(key, text.as_bytes(), true),
        }).collect();
        let found = text(&picture(&chunks, &[]), TEXT_LIMIT).unwrap();
        let expected: Vec<(String, String)> = entries.into_iter().map(|(key, text, _)| (key, text)).collect();
        prop_assert_eq!(found.entries, expected);
        prop_assert!(found.repairs.is_empty());
        prop_assert_eq!(strip_text(&picture(&chunks, &[])), picture(&[], &[]));
    }

    #[test]
    fn changed_pictures_bring_nothing_down(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..10), cut in any::<prop::sample::Index>()) {
        let mut bytes = picture(&[packed("z", &[b'x'; 500]), plain("a", b"b")], &[international("i", b"text", true)]);
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        if let Ok(found) = text(&bytes, 2000) {
            let total: usize = found.entries.iter().map(|(key, text)| key.chars().count() + text.chars().count()).sum();
            prop_assert!(total <= 2000);
        }
        let stripped = strip_text(&bytes);
        prop_assert_eq!(strip_text(&stripped), stripped.clone());
        if let Ok(found) = text(&stripped, 2000) {
            prop_assert!(found.entries.is_empty(), "{:?}", found);
        }
        let _ = sniff(&bytes);
    }
}
