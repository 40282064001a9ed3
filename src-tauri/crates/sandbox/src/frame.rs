//! The language spoken on a worker's socket.
//!
//! A frame is a little-endian `u32` length followed by that many bytes: one tag byte, then the fields of that tag in
//! order. Integers are little-endian, texts and byte strings carry a `u32` length. JSON travels as text inside a field,
//! so that each side parses it once and only when it is wanted.
//!
//! Both directions are decoded with every length checked. The host reads frames of a process that it must assume to be
//! taken over; the worker reads frames of the host, which is trusted, with the same code.

/// Longest frame either side accepts for an ordinary call, in bytes without the length field: 64 MiB, the heap of an
/// ordinary plugin.
pub const MAX_FRAME: usize = 64 << 20;

/// Longest frame either side accepts when the plugin's heap may hold `memory` bytes: as much as the heap, between
/// [`MAX_FRAME`] and 1 GiB. A listing of a 256 MiB archive has to fit into one message.
pub fn most(memory: u64) -> usize {
    usize::try_from(memory).unwrap_or(usize::MAX).clamp(MAX_FRAME, 1 << 30)
}

/// Version of this protocol, sent in the worker's first frame. A worker of another build is refused.
pub const VERSION: u32 = 2;

/// What came instead of a frame that makes sense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// An answer to a host call: JSON text, or the message of the error to throw in the plugin.
pub type Answer = Result<String, String>;

/// Frames from the host to the worker.
#[derive(Debug, PartialEq)]
pub enum ToWorker {
    /// First frame after the worker's hello: what it will run for the rest of its life. `memory` in bytes.
    Load {
        file: String,
        source: String,
        prelude: String,
        memory: u64,
        persistent: bool,
    },
    /// Run one export. `args` is a JSON array, `data` any JSON.
    Run { export: String, args: String, data: String },
    /// Compile the plugin's module and run nothing of it: answered with `Done`, whose value is the JSON array of its
    /// exports' names, or with `Failed`.
    Check,
    /// Answers to calls the worker waits for.
    Answers(Vec<(u32, Answer)>),
    /// The answer to the `CallNow` the worker blocks on.
    AnswerNow(Answer),
}

/// Frames from the worker to the host.
#[derive(Debug, PartialEq)]
pub enum FromWorker {
    /// The walls are up. `note` names the layers for the log.
    Hello { version: u32, note: String },
    /// The walls could not be put up, and why. The worker ends after this.
    Refused(String),
    /// The plugin began a host call; it goes on running.
    Call { id: u32, method: String, args: String },
    /// The plugin stands still until this is answered.
    CallNow { method: String, args: String },
    /// A line of the plugin's log.
    Log { level: String, line: String },
    /// No JavaScript can run until one of the open calls is answered.
    Waiting,
    /// The run ended well. `clean` is false when the worker should not be used again.
    Done {
        exported: bool,
        value: String,
        heap: u64,
        clean: bool,
    },
    /// The run ended with an error.
    Failed(Failed),
}

/// How a run failed, as the worker reports it. `line` and `column` are 0 when unknown.
#[derive(Debug, Default, PartialEq)]
pub struct Failed {
    pub memory: bool,
    /// `null` was thrown. Plugins may do that, but so does the engine when there is no memory left for the error.
    pub null: bool,
    pub message: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub stack: String,
    pub clean: bool,
}

struct Out(Vec<u8>);

impl Out {
    fn new(tag: u8) -> Out {
        Out(vec![0, 0, 0, 0, tag])
    }
    fn u32(mut self, n: u32) -> Out {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    fn u64(mut self, n: u64) -> Out {
        self.0.extend_from_slice(&n.to_le_bytes());
        self
    }
    fn flag(mut self, on: bool) -> Out {
        self.0.push(on.into());
        self
    }
    fn text(mut self, text: &str) -> Out {
        // A text over 4 GiB cannot get here: `end` refuses anything over 1 GiB, and what both sides hold is far smaller.
        self.0.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.0.extend_from_slice(text.as_bytes());
        self
    }
    fn answer(self, answer: &Answer) -> Out {
        match answer {
            Ok(json) => self.flag(true).text(json),
            Err(message) => self.flag(false).text(message),
        }
    }
    fn end(mut self, most: usize) -> Result<Vec<u8>, Malformed> {
        let length = self.0.len() - 4;
        if length > most {
            return Err(Malformed(
                "larger than what fits into one message (64 MiB, for an ordinary call)",
            ));
        }
        self.0[..4].copy_from_slice(&(length as u32).to_le_bytes());
        Ok(self.0)
    }
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(Malformed("a frame ends too early"))?;
        self.0 = tail;
        Ok(head)
    }
    fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }
    fn u32(&mut self) -> Result<u32, Malformed> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }
    fn u64(&mut self) -> Result<u64, Malformed> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }
    fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag is neither 0 nor 1")),
        }
    }
    fn text(&mut self) -> Result<String, Malformed> {
        let length = self.u32()? as usize;
        let bytes = self.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Malformed("a text is not UTF-8")),
        }
    }
    fn answer(&mut self) -> Result<Answer, Malformed> {
        Ok(if self.flag()? {
            Ok(self.text()?)
        } else {
            Err(self.text()?)
        })
    }
    fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed("a frame has bytes left over"))
        }
    }
}

impl ToWorker {
    /// The frame with its length field. Fails when it would be longer than [`MAX_FRAME`].
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        self.encode_within(MAX_FRAME)
    }

    /// The frame with its length field. Fails when it would be longer than `most` bytes, see [`most`].
    pub fn encode_within(&self, most: usize) -> Result<Vec<u8>, Malformed> {
        match self {
            ToWorker::Load {
                file,
                source,
                prelude,
                memory,
                persistent,
            } => Out::new(1)
                .text(file)
                .text(source)
                .text(prelude)
                .u64(*memory)
                .flag(*persistent)
                .end(most),
            ToWorker::Run { export, args, data } => Out::new(2).text(export).text(args).text(data).end(most),
            ToWorker::Answers(answers) => {
                let start = Out::new(3).u32(answers.len() as u32);
                answers
                    .iter()
                    .fold(start, |out, (id, answer)| out.u32(*id).answer(answer))
                    .end(most)
            }
            ToWorker::AnswerNow(answer) => Out::new(4).answer(answer).end(most),
            ToWorker::Check => Out::new(5).end(most),
        }
    }

    /// Reads the body of a frame (without its length field).
    pub fn decode(body: &[u8]) -> Result<ToWorker, Malformed> {
        let mut at = In(body);
        let frame = match at.u8()? {
            1 => ToWorker::Load {
                file: at.text()?,
                source: at.text()?,
                prelude: at.text()?,
                memory: at.u64()?,
                persistent: at.flag()?,
            },
            2 => ToWorker::Run {
                export: at.text()?,
                args: at.text()?,
                data: at.text()?,
            },
            3 => {
                let count = at.u32()?;
                let mut answers = Vec::new();
                for _ in 0..count {
                    answers.push((at.u32()?, at.answer()?));
                }
                ToWorker::Answers(answers)
            }
            4 => ToWorker::AnswerNow(at.answer()?),
            5 => ToWorker::Check,
            _ => return Err(Malformed("a frame of an unknown kind")),
        };
        at.end()?;
        Ok(frame)
    }
}

impl FromWorker {
    /// The frame with its length field. Fails when it would be longer than [`MAX_FRAME`].
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        self.encode_within(MAX_FRAME)
    }

    /// The frame with its length field. Fails when it would be longer than `most` bytes, see [`most`].
    pub fn encode_within(&self, most: usize) -> Result<Vec<u8>, Malformed> {
        match self {
            FromWorker::Hello { version, note } => Out::new(65).u32(*version).text(note).end(most),
            FromWorker::Refused(cause) => Out::new(66).text(cause).end(most),
            FromWorker::Call { id, method, args } => Out::new(67).u32(*id).text(method).text(args).end(most),
            FromWorker::CallNow { method, args } => Out::new(68).text(method).text(args).end(most),
            FromWorker::Log { level, line } => Out::new(69).text(level).text(line).end(most),
            FromWorker::Waiting => Out::new(70).end(most),
            FromWorker::Done {
                exported,
                value,
                heap,
                clean,
            } => Out::new(71)
                .flag(*exported)
                .text(value)
                .u64(*heap)
                .flag(*clean)
                .end(most),
            FromWorker::Failed(failed) => Out::new(72)
                .flag(failed.memory)
                .flag(failed.null)
                .text(&failed.message)
                .text(&failed.file)
                .u32(failed.line)
                .u32(failed.column)
                .text(&failed.stack)
                .flag(failed.clean)
                .end(most),
        }
    }

    /// Reads the body of a frame (without its length field).
    pub fn decode(body: &[u8]) -> Result<FromWorker, Malformed> {
        let mut at = In(body);
        let frame = match at.u8()? {
            65 => FromWorker::Hello {
                version: at.u32()?,
                note: at.text()?,
            },
            66 => FromWorker::Refused(at.text()?),
            67 => FromWorker::Call {
                id: at.u32()?,
                method: at.text()?,
                args: at.text()?,
            },
            68 => FromWorker::CallNow {
                method: at.text()?,
                args: at.text()?,
            },
            69 => FromWorker::Log {
                level: at.text()?,
                line: at.text()?,
            },
            70 => FromWorker::Waiting,
            71 => FromWorker::Done {
                exported: at.flag()?,
                value: at.text()?,
                heap: at.u64()?,
                clean: at.flag()?,
            },
            72 => FromWorker::Failed(Failed {
                memory: at.flag()?,
                null: at.flag()?,
                message: at.text()?,
                file: at.text()?,
                line: at.u32()?,
                column: at.u32()?,
                stack: at.text()?,
                clean: at.flag()?,
            }),
            _ => return Err(Malformed("a frame of an unknown kind")),
        };
        at.end()?;
        Ok(frame)
    }
}

/// The body length announced by the four bytes in front of a frame; at most `most` bytes, see [`most`].
pub fn length(prefix: [u8; 4], most: usize) -> Result<usize, Malformed> {
    match u32::from_le_bytes(prefix) as usize {
        0 => Err(Malformed("an empty frame")),
        n if n > most => Err(Malformed("a frame longer than what fits into one message")),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(frame: &[u8]) -> &[u8] {
        let (prefix, body) = frame.split_first_chunk::<4>().unwrap();
        assert_eq!(length(*prefix, MAX_FRAME).unwrap(), body.len());
        body
    }

    #[test]
    fn frames_survive_the_trip() {
        let down = [
            ToWorker::Load {
                file: "plugin.js".into(),
                source: "日本🦋".into(),
                prelude: String::new(),
                memory: 1 << 40,
                persistent: true,
            },
            ToWorker::Run {
                export: "handleRoute".into(),
                args: "[1]".into(),
                data: "null".into(),
            },
            ToWorker::Answers(vec![(1, Ok("{}".into())), (u32::MAX, Err("no".into()))]),
            ToWorker::AnswerNow(Err(String::new())),
            ToWorker::Check,
        ];
        for frame in down {
            assert_eq!(ToWorker::decode(body(&frame.encode().unwrap())).unwrap(), frame);
        }
        let up = [
            FromWorker::Hello {
                version: 7,
                note: "x".into(),
            },
            FromWorker::Refused("why".into()),
            FromWorker::Call {
                id: 3,
                method: "llm".into(),
                args: "[]".into(),
            },
            FromWorker::CallNow {
                method: "store".into(),
                args: "[]".into(),
            },
            FromWorker::Log {
                level: "info".into(),
                line: "l".into(),
            },
            FromWorker::Waiting,
            FromWorker::Done {
                exported: true,
                value: "1".into(),
                heap: 9,
                clean: false,
            },
            FromWorker::Failed(Failed {
                message: "m".into(),
                line: 4,
                ..Failed::default()
            }),
        ];
        for frame in up {
            assert_eq!(FromWorker::decode(body(&frame.encode().unwrap())).unwrap(), frame);
        }
    }

    #[test]
    fn cut_or_padded_frames_are_refused() {
        let whole = FromWorker::Call {
            id: 3,
            method: "llm".into(),
            args: "[1,2]".into(),
        }
        .encode()
        .unwrap();
        let whole = body(&whole);
        for end in 0..whole.len() {
            assert!(FromWorker::decode(&whole[..end]).is_err(), "cut at {end}");
        }
        let mut longer = whole.to_vec();
        longer.push(0);
        assert_eq!(
            FromWorker::decode(&longer),
            Err(Malformed("a frame has bytes left over"))
        );
        assert!(FromWorker::decode(&[0]).is_err());
        assert!(
            FromWorker::decode(&[69, 255, 255, 255, 255, 1]).is_err(),
            "a length far beyond the frame"
        );
    }

    #[test]
    fn lengths_are_checked_before_anything_is_reserved() {
        assert!(length([0; 4], MAX_FRAME).is_err());
        assert!(length([255; 4], most(u64::MAX)).is_err());
        assert_eq!(length([1, 0, 0, 0], MAX_FRAME), Ok(1));
        let large = (100u32 << 20).to_le_bytes();
        assert!(length(large, most(64 << 20)).is_err());
        assert_eq!(length(large, most(512 << 20)), Ok(100 << 20));
    }
}
