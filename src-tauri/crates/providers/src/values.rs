//! JSON values one after another, as JSON lines have them: with any white space or none between them, over several lines
//! each, or as the elements of one list. Works on bytes, so that a character split between two chunks stays whole.

/// Largest value accepted, in bytes: an answer in one piece may carry an image.
pub(crate) const MAX_VALUE: usize = 8 << 20;

/// A value grew over [`MAX_VALUE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

#[derive(Debug, Default)]
pub(crate) struct ValuesParser {
    value: Vec<u8>,
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// What is gathered is no object: it ends with its line.
    plain: bool,
}

impl ValuesParser {
    /// Takes the next bytes and appends the values they complete to `out`, as text that was not checked.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<String>) -> Result<(), TooLong> {
        for byte in bytes {
            if self.value.is_empty() {
                // Between values: white space, the commas and brackets of a list, and a byte order mark.
                match byte {
                    b' ' | b'\t' | b'\r' | b'\n' | b',' | b'[' | b']' | 0xef | 0xbb | 0xbf => continue,
                    b'{' => self.depth = 1,
                    _ => self.plain = true,
                }
                self.value.push(*byte);
                continue;
            }
            if self.plain && matches!(byte, b'\n' | b'\r') {
                out.push(self.take());
                continue;
            }
            self.value.push(*byte);
            match byte {
                _ if self.plain => {}
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        out.push(self.take());
                    }
                }
                _ => {}
            }
            if self.value.len() > MAX_VALUE {
                return Err(TooLong);
            }
        }
        Ok(())
    }

    /// The stream has ended: what is left of a value that was not finished.
    pub(crate) fn finish(&mut self) -> Option<String> {
        (!self.value.is_empty()).then(|| self.take())
    }

    fn take(&mut self) -> String {
        let bytes = std::mem::take(&mut self.value);
        *self = Self::default();
        String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> (Vec<String>, Option<String>) {
        let mut parser = ValuesParser::default();
        let mut out = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, &mut out).unwrap();
        }
        let rest = parser.finish();
        (out, rest)
    }

    #[test]
    fn every_split_gives_the_same_values() {
        let a = "{\"x\":\"日本🦋 } \\\" {\"}";
        let b = "{\"y\":[{\"z\":1}, 2]}";
        for body in [
            format!("{a}\n{b}\n"),
            format!("{a}\r\n{b}\r\n"),
            format!("{a}\r{b}"),
            format!("{a}{b}"),
            format!("[{a},\n{b}]"),
            format!("\u{feff}{a}\n\n\n{b}"),
        ] {
            let bytes = body.as_bytes();
            for at in 0..=bytes.len() {
                let got = parse(&[&bytes[..at], &bytes[at..]]);
                assert_eq!(got, (vec![a.to_owned(), b.to_owned()], None), "{body:?} at {at}");
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_no_object_is_handed_out_for_the_caller_to_judge() {
        assert_eq!(
            parse(&[b"{\"a\":1}\n{\"b\":"]),
            (vec!["{\"a\":1}".into()], Some("{\"b\":".into()))
        );
        assert_eq!(
            parse(&[b"null\n5\nnot json"]),
            (vec!["null".into(), "5".into()], Some("not json".into()))
        );
        assert_eq!(parse(&[b"", b"\n"]), (vec![], None));
    }

    #[test]
    fn an_endless_value_is_refused() {
        let mut parser = ValuesParser::default();
        let mut out = Vec::new();
        parser.feed(b"{\"a\":\"", &mut out).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        assert_eq!((0..9).try_for_each(|_| parser.feed(&chunk, &mut out)), Err(TooLong));
    }
}
