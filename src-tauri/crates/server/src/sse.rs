//! Reads the data out of a `text/event-stream`, as `GET /v1/events` writes it.

/// Most bytes of one event; the longest the engine sends are pieces of a model's answer.
const EVENT_MAX: usize = 8 * 1024 * 1024;

/// An event was longer than 8 MiB or not UTF-8: the stream is not what it should be.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

/// Puts events together again, wherever the chunks were cut.
#[derive(Default)]
pub struct Events {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last byte was CR: an LF right after it belongs to the same line end.
    after_cr: bool,
}

impl Events {
    /// Takes the next bytes, gives the data of every event they complete.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Vec<String>, Broken> {
        let mut events = Vec::new();
        for &byte in chunk {
            match byte {
                b'\n' if self.after_cr => self.after_cr = false,
                b'\n' | b'\r' => {
                    self.after_cr = byte == b'\r';
                    events.extend(self.end_line()?);
                }
                _ => {
                    self.after_cr = false;
                    self.line.push(byte);
                    if self.line.len() > EVENT_MAX {
                        return Err(Broken);
                    }
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<String>, Broken> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return match self.data.take() {
                None => Ok(None),
                Some(data) => String::from_utf8(data).map(Some).map_err(|_| Broken),
            };
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                None => self.data = Some(value.to_vec()),
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                    if data.len() > EVENT_MAX {
                        return Err(Broken);
                    }
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_events_wherever_it_is_cut() {
        let stream = ": hello\n\ndata: {\"a\":\"日🦋\"}\r\n\r\ndata:x\ndata: y\nid: 7\nevent: z\n\nretry: 1\n\ndata: \n\ndata: tail".as_bytes();
        let want = ["{\"a\":\"日🦋\"}", "x\ny", ""];
        for cut in 0..=stream.len() {
            let mut events = Events::default();
            let mut got = events.push(&stream[..cut]).unwrap();
            got.extend(events.push(&stream[cut..]).unwrap());
            assert_eq!(got, want, "cut at {cut}");
        }
    }

    #[test]
    fn endless_lines_and_bad_text_are_broken() {
        let mut events = Events::default();
        assert_eq!(events.push(b"data: \xff\n\n"), Err(Broken));
        let mut events = Events::default();
        let long = vec![b'x'; EVENT_MAX + 1];
        assert_eq!(events.push(&long), Err(Broken));
    }
}
