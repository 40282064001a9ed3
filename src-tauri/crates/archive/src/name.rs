//! Names of entries: from bytes to text, and which of them stay inside the root.

use std::borrow::Cow;

/// The upper half of code page 437, the character set of zip names that do not say UTF-8.
const CP437: [char; 128] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å', 'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û',
    'ù', 'ÿ', 'Ö', 'Ü', '¢', '£', '¥', '₧', 'ƒ', 'á', 'í', 'ó', 'ú', 'ñ', 'Ñ', 'ª', 'º', '¿', '⌐', '¬', '½', '¼', '¡',
    '«', '»', '░', '▒', '▓', '│', '┤', '╡', '╢', '╖', '╕', '╣', '║', '╗', '╝', '╜', '╛', '┐', '└', '┴', '┬', '├', '─',
    '┼', '╞', '╟', '╚', '╔', '╩', '╦', '╠', '═', '╬', '╧', '╨', '╤', '╥', '╙', '╘', '╒', '╓', '╫', '╪', '┘', '┌', '█',
    '▄', '▌', '▐', '▀', 'α', 'ß', 'Γ', 'π', 'Σ', 'σ', 'µ', 'τ', 'Φ', 'Θ', 'Ω', 'δ', '∞', 'φ', 'ε', '∩', '≡', '±', '≥',
    '≤', '⌠', '⌡', '÷', '≈', '°', '∙', '·', '√', 'ⁿ', '²', '■', '\u{a0}',
];

/// The name as text. Whether an entry says that its name is UTF-8 does not matter: bytes that are valid UTF-8 beyond
/// ASCII are hardly ever meant as CP437, and bytes that are not cannot be UTF-8.
pub fn decode(raw: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(raw) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(
            raw.iter()
                .map(|byte| match byte {
                    0..128 => char::from(*byte),
                    _ => CP437[usize::from(byte - 128)],
                })
                .collect(),
        ),
    }
}

/// The name that the entry goes by, or nothing when it leads out of the root or could on some system.
pub fn inside(name: &str) -> Option<&str> {
    let name = name.strip_prefix("./").unwrap_or(name);
    let mut letters = name.chars();
    let drive = letters.next().is_some_and(|c| c.is_ascii_alphabetic()) && letters.next() == Some(':');
    if drive || name.contains(['\\', '\0']) {
        return None;
    }
    let path = name.strip_suffix('/').unwrap_or(name);
    // Windows takes dots and spaces off the end of a part, so `.. ` and `...` are no better than `..`.
    let climbs = path.split('/').any(|part| part.trim_end_matches(['.', ' ']).is_empty());
    (!climbs).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regress_18_names_that_climb_and_one_that_does_not() {
        let bad = [
            "../x",
            "a/../b",
            "scripts/..",
            "..",
            ".",
            "",
            "/",
            "/abs",
            "//srv/s/x",
            "a//b",
            "a/./b",
            "..././x",
            ".../x",
            ".. /x",
            ". ./../x",
            " /x",
            "..\\..\\x",
            "a\\b",
            "\\\\srv\\s\\x",
            "C:x",
            "c:/x",
            "C:\\x",
            "a\0b",
            "./../x",
            "././x",
            ".//x",
            "x/ ",
            "./",
            "./C:x",
        ];
        for name in bad {
            assert_eq!(inside(name), None, "{name:?}");
        }
        for name in [
            "..foo.txt",
            "foo..",
            ".hidden",
            "a/..b/c",
            "a b/c d.txt",
            "ab:c",
            "日本/x",
            "a/",
            ".well-known/x",
            "...x",
        ] {
            assert_eq!(inside(name), Some(name), "{name:?}");
        }
        assert_eq!(inside("./a/b"), Some("a/b"));
    }

    #[test]
    fn utf8_and_cp437() {
        assert_eq!(decode("日本.txt".as_bytes()), "日本.txt");
        assert_eq!(decode(b"caf\x82.txt"), "café.txt");
        assert_eq!(decode(b"\x80\xff"), "Ç\u{a0}");
        assert_eq!(decode(&[0xe1, b'.']), "ß.");
    }
}
