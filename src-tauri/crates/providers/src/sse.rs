//! Server-sent events, as the HTML standard cuts them: lines end with LF, CRLF or CR, wherever a chunk of bytes is
//! split; an empty line ends an event. Works on bytes, so that a character split between two chunks stays whole.

/// Largest event accepted, in bytes. A chat delta is a few hundred; an embedded image may be some hundred thousand.
pub(crate) const MAX_EVENT: usize = 1 << 20;

/// One event. Events without data are never produced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// The `event:` field, empty when there is none.
    pub(crate) name: String,
    pub(crate) data: String,
}

/// An event grew over [`MAX_EVENT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    name: String,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR: a following LF belongs to it.
    after_cr: bool,
    started: bool,
}

impl SseParser {
    /// Takes the next bytes and appends the events they complete to `out`.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<SseEvent>) -> Result<(), TooLong> {
        let mut rest = bytes;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &rest[..end.unwrap_or(rest.len())];
            if self.line.len() + self.data.len() + part.len() > MAX_EVENT {
                return Err(TooLong);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_line(out);
        }
        Ok(())
    }

    /// The stream has ended: an unfinished line counts as a line, and an event without its empty line is handed out
    /// for the caller to judge (servers do forget it; a cut-off event is not complete JSON).
    pub(crate) fn finish(&mut self) -> Option<SseEvent> {
        let mut out = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut out);
        }
        self.end_event(&mut out);
        out.pop()
    }

    fn end_line(&mut self, out: &mut Vec<SseEvent>) {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.started, true) && line.starts_with(b"\xef\xbb\xbf") {
            line.drain(..3);
        }
        if line.is_empty() {
            return self.end_event(out);
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            // A comment, such as `: ping`.
            Some(0) => return,
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (&line[..], &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = String::from_utf8_lossy(value).into_owned(),
            _ => {}
        }
    }

    fn end_event(&mut self, out: &mut Vec<SseEvent>) {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        if std::mem::take(&mut self.has_data) && !data.is_empty() {
            out.push(SseEvent {
                name,
                data: String::from_utf8(data)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(chunks: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut out = Vec::new();
        for chunk in chunks {
            parser.feed(chunk, &mut out).unwrap();
        }
        out.extend(parser.finish());
        out
    }

    fn data(chunks: &[&[u8]]) -> Vec<String> {
        parse(chunks).into_iter().map(|event| event.data).collect()
    }

    #[test]
    fn every_split_of_every_line_ending_gives_the_same_text() {
        for body in [
            "data:{\"x\":\"日本🦋\"}\r\n\r\n",
            "data: {\"x\":\"日本🦋\"}\r\n\r\n",
            "data:{\"x\":\"日本🦋\"}\n\n",
            "data:{\"x\":\"日本🦋\"}\r\r",
            "data: {\"x\":\"日本🦋\"}\r\n",
            "data: {\"x\":\"日本🦋\"}",
            "\u{feff}data: {\"x\":\"日本🦋\"}\n\n",
            ": ping\r\n\r\ndata: {\"x\":\"日本🦋\"}\n\r\n",
        ] {
            let bytes = body.as_bytes();
            for a in 0..=bytes.len() {
                for b in a..=bytes.len() {
                    let got = data(&[&bytes[..a], &bytes[a..b], &bytes[b..]]);
                    assert_eq!(got, ["{\"x\":\"日本🦋\"}"], "{body:?} at {a}, {b}");
                }
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(data(&single), ["{\"x\":\"日本🦋\"}"], "{body:?} byte by byte");
        }
    }

    #[test]
    fn comments_empty_data_and_unknown_fields_are_no_events() {
        let body = b": OPENROUTER PROCESSING\n\n: ping\n\nid: 1\nretry: 5\nfoo\n\ndata:\n\ndata\n\ndata: a\n\n";
        assert_eq!(data(&[body]), ["a"]);
    }

    #[test]
    fn lines_of_one_event_are_joined_and_names_do_not_leak() {
        let events = parse(&[b"event: error\ndata: a\ndata: b\n\ndata: c\n\n"]);
        assert_eq!(events[0].name, "error");
        assert_eq!(events[0].data, "a\nb");
        assert_eq!(events[1].name, "");
        assert_eq!(events[1].data, "c");
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = SseParser::default();
        let mut out = Vec::new();
        let chunk = vec![b'x'; 64 << 10];
        let result = (0..17).try_for_each(|_| parser.feed(&chunk, &mut out));
        assert_eq!(result, Err(TooLong));
        let mut parser = SseParser::default();
        let line = [b"data:", &chunk[..], b"\n"].concat();
        let result = (0..17).try_for_each(|_| parser.feed(&line, &mut out));
        assert_eq!(result, Err(TooLong));
        assert!(out.is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_do_not_panic() {
        assert_eq!(data(&[b"data: \xff\xfe\n\n"]), ["\u{fffd}\u{fffd}"]);
    }
}
