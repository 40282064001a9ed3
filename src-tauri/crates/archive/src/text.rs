//! Which entries are text, and how bytes become it.

/// Types that a listing gives as text: the contract's list, section 3.4.
const TEXT: [&str; 10] = ["json", "jsonl", "txt", "md", "js", "css", "html", "yml", "yaml", "csv"];

/// Whether the name ends in one of the text types, in any case of letters.
pub fn is_text_name(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.')
        .is_some_and(|(_, end)| TEXT.iter().any(|text| text.eq_ignore_ascii_case(end)))
}

/// Bytes as text: UTF-8, or UTF-16 of either byte order with a byte order mark; the mark is taken off. Nothing when the
/// bytes are not valid text of that kind.
pub fn as_text(bytes: Vec<u8>) -> Option<String> {
    let wide = |of: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes[2..].as_chunks::<2>();
        if !rest.is_empty() {
            return None;
        }
        char::decode_utf16(pairs.iter().map(|pair| of(*pair)))
            .collect::<Result<String, _>>()
            .ok()
    };
    match bytes.as_slice() {
        [0xef, 0xbb, 0xbf, rest @ ..] => std::str::from_utf8(rest).ok().map(str::to_owned),
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        _ => String::from_utf8(bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regress_26_byte_order_marks() {
        assert_eq!(as_text(b"\xef\xbb\xbf{\"a\":1}".to_vec()).unwrap(), "{\"a\":1}");
        let le: Vec<u8> = "\u{feff}{🦋}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(as_text(le.clone()).unwrap(), "{🦋}");
        let be: Vec<u8> = "\u{feff}{🦋}".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(as_text(be).unwrap(), "{🦋}");
        assert_eq!(as_text(b"plain".to_vec()).unwrap(), "plain");
        assert_eq!(as_text(le[..le.len() - 1].to_vec()), None, "half a unit");
        assert_eq!(as_text(vec![0xff, 0xfe, 0x00, 0xd8]), None, "half a pair");
        assert_eq!(as_text(vec![b'a', 0x82]), None, "not UTF-8");
    }

    #[test]
    fn names_of_text() {
        for name in ["a.json", "x/b.MD", "c.d.csv", ".txt"] {
            assert!(is_text_name(name), "{name}");
        }
        for name in ["json", "a.json/b", "a.png", "a.json.gz", "a."] {
            assert!(!is_text_name(name), "{name}");
        }
    }
}
