//! PNG pictures and what is written in them: limits hold, and what is stripped is gone.

use archive::{image, png};

/// Small, so that the fuzzer meets it.
const LIMIT: u64 = 4096;

pub fn run(bytes: &[u8]) {
    let found = png::text(bytes, LIMIT);
    if let Ok(found) = &found {
        let letters = |text: &String| text.chars().count() as u64;
        // A letter is at least a byte of the file: Latin-1 has one each, UTF-8 one or more.
        let total: u64 = found
            .entries
            .iter()
            .map(|(key, text)| letters(key) + letters(text))
            .sum();
        assert!(total <= LIMIT, "{total}");
        assert!(found.entries.len() <= png::MAX_TEXTS && found.repairs.len() <= 33);
        assert!(found.entries.iter().all(|(key, _)| !key.is_empty()));
    }
    let stripped = png::strip_text(bytes);
    assert!(stripped.len() <= bytes.len());
    assert_eq!(png::strip_text(&stripped), stripped, "stripped twice");
    match png::text(&stripped, LIMIT) {
        Ok(left) => assert!(left.entries.is_empty(), "{left:?}"),
        Err(error) => assert_eq!(error, png::PngError::NotPng),
    }
    if found == Err(png::PngError::NotPng) {
        assert_eq!(stripped, bytes);
    }
    if let Some(picture) = image::sniff(bytes) {
        assert!(picture.width > 0 && picture.height > 0);
        assert_eq!(picture.kind == image::Kind::Png, bytes.starts_with(&png::SIGNATURE));
    }
}
