use std::io;

use bytes::Bytes;
use files::Contained;
use futures::stream::{self, Stream, StreamExt};

/// Bytes per piece of a streamed file.
const PIECE: u64 = 64 * 1024;

/// The body of an answer: in memory, or part of a file that is read as it is sent.
#[derive(Debug)]
pub enum PageBody {
    Bytes(Bytes),
    File {
        file: Contained,
        /// First byte.
        start: u64,
        /// How many bytes.
        len: u64,
    },
}

impl PageBody {
    pub fn empty() -> Self {
        Self::Bytes(Bytes::new())
    }

    /// Bytes that will be sent.
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { len, .. } => *len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part from `from` on, `count` bytes long; both must lie inside.
    pub(super) fn part(self, from: u64, count: u64) -> Self {
        match self {
            // Fits: the body is in memory, and the range was checked against its length.
            Self::Bytes(bytes) => Self::Bytes(bytes.slice(from as usize..(from + count) as usize)),
            Self::File { file, start, .. } => Self::File {
                file,
                start: start + from,
                len: count,
            },
        }
    }

    /// The bytes as they are read. A file that has become shorter ends in an error, never in silence. Needs a tokio
    /// runtime.
    pub fn into_stream(self) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
        let (file, start, len) = match self {
            Self::Bytes(bytes) if bytes.is_empty() => return stream::empty().boxed(),
            Self::Bytes(bytes) => return stream::iter([Ok(bytes)]).boxed(),
            Self::File { file, start, len } => (file, start, len),
        };
        stream::try_unfold((file, start, len), |(file, at, left)| async move {
            if left == 0 {
                return Ok(None);
            }
            let count = left.min(PIECE);
            let read = tokio::task::spawn_blocking(move || file.read_at(at, count as usize).map(|piece| (file, piece)));
            let (file, piece) = read.await.map_err(io::Error::other)??;
            if piece.len() as u64 != count {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter"));
            }
            Ok(Some((Bytes::from(piece), (file, at + count, left - count))))
        })
        .boxed()
    }
}

impl From<Vec<u8>> for PageBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<Contained> for PageBody {
    fn from(contained: Contained) -> Self {
        let len = contained.len;
        Self::File {
            file: contained,
            start: 0,
            len,
        }
    }
}
