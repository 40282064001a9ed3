/// Puts the bridge script before everything else that a page could run, and gives the page back.
///
/// It stands right after the doctype, or at the very start when there is none: the parser opens `<head>` for it by itself,
/// and the page's own `<html>` and `<head>` tags that follow are merged. So there is no page, however broken, in which it
/// lands in a comment or after another script. Before the doctype it would switch the page to quirks mode.
///
/// UTF-16 pages, told by their byte order mark, come out as UTF-8: the headers say UTF-8, but a mark would win over them.
pub(super) fn bridge(page: Vec<u8>, src: &str) -> Vec<u8> {
    let page = match page.as_slice() {
        [0xef, 0xbb, 0xbf, rest @ ..] => rest.to_vec(),
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ => page,
    };
    let at = after_doctype(&page).unwrap_or(0);
    let tag = format!("<script src=\"{}\"></script>", escape(src));
    let mut out = Vec::with_capacity(page.len() + tag.len());
    out.extend_from_slice(&page[..at]);
    out.extend_from_slice(tag.as_bytes());
    out.extend_from_slice(&page[at..]);
    out
}

fn utf16(bytes: &[u8], from: fn([u8; 2]) -> u16) -> Vec<u8> {
    let units: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|pair| from(*pair)).collect();
    String::from_utf16_lossy(&units).into_bytes()
}

/// Where the doctype ends. Only white space and comments may stand before one (HTML, "initial" insertion mode).
fn after_doctype(page: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &page[at..];
        at += match rest {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0c, ..] => 1,
            _ if rest.starts_with(b"<!--") => comment(rest)?,
            _ if rest
                .get(..9)
                .is_some_and(|word| word.eq_ignore_ascii_case(b"<!doctype")) =>
            {
                // A `>` ends a doctype even inside the quotation marks of its identifiers.
                return find(rest, b">").map(|end| at + end + 1);
            }
            // `<?xml …>`, `<!anything>` and `</ …>` are read as comments up to the first `>`.
            [b'<', b'?' | b'!', ..] => find(rest, b">")? + 1,
            [b'<', b'/', next, ..] if !next.is_ascii_alphabetic() => find(rest, b">")? + 1,
            _ => return None,
        };
    }
}

/// Length of the comment that `rest` starts with: up to `-->` or `--!>`, where `<!-->` and `<!--->` are whole comments.
fn comment(rest: &[u8]) -> Option<usize> {
    if rest.starts_with(b"<!-->") {
        return Some(5);
    }
    if rest.starts_with(b"<!--->") {
        return Some(6);
    }
    let inside = &rest[4..];
    let plain = find(inside, b"-->").map(|end| end + 3);
    let bang = find(inside, b"--!>").map(|end| end + 4);
    let end = match (plain, bang) {
        (Some(a), Some(b)) => a.min(b),
        (a, b) => a.or(b)?,
    };
    Some(4 + end)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Text for HTML, in an element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: &str = "<script src=\"/b.js\"></script>";

    /// `|` marks where the script has to stand.
    fn check(marked: &str) {
        let page = marked.replacen('|', "", 1);
        let want = marked.replacen('|', TAG, 1);
        let got = bridge(page.into_bytes(), "/b.js");
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }

    #[test]
    fn the_bridge_comes_first() {
        for page in [
            "<!doctype html>|<html><head><script>x</script>",
            "<!DOCTYPE html>|",
            " \n\t<!DocType HTML PUBLIC \"-//W3C//DTD\">|<p>",
            "<!-- <head> --><!doctype html>|<head>",
            "<!-- a --!><!doctype html>|",
            "<!--><!doctype html>|",
            "<!---><!doctype html>|",
            "<?xml version=\"1.0\"?><!doctype html>|<html>",
            "<!whatever><!doctype html>|",
            "</ x><!doctype html>|",
            "<!doctype html \"a>|<script>evil</script>\">",
            "|<html><head></head>",
            "|<script>first</script><!doctype html>",
            "|<p><!doctype html>",
            "|</p><!doctype html>",
            "|",
            "|<!doctype html",
            "|<!-- never closed <!doctype html>",
            "|text",
        ] {
            check(page);
        }
    }

    #[test]
    fn byte_order_marks() {
        let page = "<!doctype html><p>日本";
        let want = format!("<!doctype html>{TAG}<p>日本").into_bytes();
        let wide = |mark: [u8; 2], to: fn(u16) -> [u8; 2]| {
            let mut bytes = mark.to_vec();
            bytes.extend(page.encode_utf16().flat_map(to));
            bytes
        };
        assert_eq!(bridge([b"\xef\xbb\xbf", page.as_bytes()].concat(), "/b.js"), want);
        assert_eq!(bridge(wide([0xff, 0xfe], u16::to_le_bytes), "/b.js"), want);
        assert_eq!(bridge(wide([0xfe, 0xff], u16::to_be_bytes), "/b.js"), want);
    }

    #[test]
    fn the_address_cannot_leave_its_attribute() {
        let got = bridge(Vec::new(), "\"><script>x</script>");
        assert_eq!(
            String::from_utf8(got).unwrap(),
            "<script src=\"&quot;&gt;&lt;script&gt;x&lt;/script&gt;\"></script>"
        );
    }
}
