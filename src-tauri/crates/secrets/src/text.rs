//! What people paste where a key belongs.

use crate::{Secret, VaultError};

/// Longest key accepted, in bytes (contract section 8).
pub const MAX_KEY_BYTES: usize = 4096;

/// The key without white space around it. Anything else that is not the key itself is refused, with the reason: a key that
/// was changed silently fails later, somewhere else.
pub(crate) fn tidy(given: &Secret) -> Result<Secret, VaultError> {
    let text = given.text().ok_or(VaultError::Characters)?;
    let text = text.trim_matches(|c: char| c.is_whitespace() || matches!(c, '\u{feff}' | '\u{200b}'));
    if text.is_empty() {
        return Err(VaultError::Empty);
    }
    if text.len() > MAX_KEY_BYTES {
        return Err(VaultError::TooLong);
    }
    if text.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
        return Err(VaultError::LineBreak);
    }
    let lower = text.get(..7).unwrap_or_default().to_ascii_lowercase();
    if lower == "bearer " || text.contains(": ") {
        return Err(VaultError::Header);
    }
    let quoted = |quote: char| text.len() > 1 && text.starts_with(quote) && text.ends_with(quote);
    if ['"', '\'', '`', '“', '”', '„', '«', '‘']
        .into_iter()
        .any(|quote| text.starts_with(quote))
        || quoted('’')
    {
        return Err(VaultError::Quoted);
    }
    // `OPENAI_API_KEY=…`, as it stands in a .env file.
    if let Some((name, _)) = text.split_once('=')
        && name.contains('_')
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || matches!(b, b'_' | b' '))
    {
        return Err(VaultError::Assignment);
    }
    // A key travels in a header: visible ASCII only.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(VaultError::Characters);
    }
    Ok(Secret::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_paste() {
        for (given, want) in [
            ("sk-1", Ok("sk-1")),
            ("  sk-1\r\n", Ok("sk-1")),
            ("\u{feff}sk-1\u{a0}\u{200b}", Ok("sk-1")),
            ("a=b==", Ok("a=b==")),
            ("AKIA_1", Ok("AKIA_1")),
            ("", Err(VaultError::Empty)),
            (" \n ", Err(VaultError::Empty)),
            ("sk-1\nsk-2", Err(VaultError::LineBreak)),
            ("sk-1\r\nX-Evil: 1", Err(VaultError::LineBreak)),
            ("Bearer sk-1", Err(VaultError::Header)),
            ("bearer sk-1", Err(VaultError::Header)),
            ("x-api-key: sk-1", Err(VaultError::Header)),
            ("\"sk-1\"", Err(VaultError::Quoted)),
            ("'sk-1'", Err(VaultError::Quoted)),
            ("“sk-1”", Err(VaultError::Quoted)),
            ("OPENAI_API_KEY=sk-1", Err(VaultError::Assignment)),
            ("sk 1", Err(VaultError::Characters)),
            ("schlüssel", Err(VaultError::Characters)),
            ("sk-1\0", Err(VaultError::Characters)),
            ("ключ", Err(VaultError::Characters)),
        ] {
            let tidied = tidy(&Secret::new(given.into())).map(|key| key.text().unwrap().to_owned());
            assert_eq!(tidied, want.map(str::to_owned), "{given:?}");
        }
        assert_eq!(
            tidy(&Secret::new("x".repeat(MAX_KEY_BYTES + 1))).err(),
            Some(VaultError::TooLong)
        );
        assert!(tidy(&Secret::new("x".repeat(MAX_KEY_BYTES))).is_ok());
        assert_eq!(
            tidy(&Secret::from_bytes(vec![0xff, 0xfe])).err(),
            Some(VaultError::Characters)
        );
    }
}
