//! Text inside PNG files: read tolerantly, or taken out.
//!
//! Chunks are those of the PNG specification, third edition: section 5.3 (layout), 11.3.3 (`tEXt`, `zTXt`, `iTXt`).

use std::io::Read;

use flate2::bufread::ZlibDecoder;

/// The eight bytes a PNG file begins with.
pub const SIGNATURE: [u8; 8] = *b"\x89PNG\r\n\x1a\n";

/// The contract's limit for all text of one picture, inflated: 32 MiB.
pub const TEXT_LIMIT: u64 = 32 << 20;

/// Most text chunks read of one picture. Character cards have a handful.
pub const MAX_TEXTS: usize = 1024;

/// Most repairs named; later ones are counted in the last line.
const MAX_REPAIRS: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PngError {
    #[error("this is not a PNG picture")]
    NotPng,
    #[error("the text inside this PNG picture is larger than {limit} bytes")]
    TooMuchText { limit: u64 },
    #[error("this PNG picture has more than {MAX_TEXTS} pieces of text")]
    TooManyTexts,
}

/// The text of a picture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PngText {
    /// Keyword and text, in the order of the file; a keyword may occur more than once.
    pub entries: Vec<(String, String)>,
    /// What was wrong with the file and read all the same, in words for people.
    pub repairs: Vec<String>,
}

/// A chunk as it lies in the file.
struct Chunk<'a> {
    kind: [u8; 4],
    data: &'a [u8],
    /// The chunk whole: length, kind, data, checksum.
    whole: &'a [u8],
    sound: bool,
    /// The file ends inside of it; `data` is what there is.
    cut: bool,
}

/// Walks the chunks; ends where nothing that looks like a chunk follows.
struct Chunks<'a>(&'a [u8]);

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        let (len, rest) = self.0.split_first_chunk::<4>()?;
        let (kind, body) = rest.split_first_chunk::<4>()?;
        if !kind.iter().all(u8::is_ascii_alphabetic) {
            return None;
        }
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let tail = body.get(len..).and_then(|tail| tail.split_first_chunk::<4>());
        let Some((sum, after)) = tail else {
            let whole = std::mem::take(&mut self.0);
            return Some(Chunk {
                kind: *kind,
                data: &body[..len.min(body.len())],
                whole,
                sound: false,
                cut: true,
            });
        };
        let whole = &self.0[..self.0.len() - after.len()];
        self.0 = after;
        let data = &body[..len];
        // The checksum covers the kind and the data, which lie side by side.
        let sound = crc32fast::hash(&whole[4..8 + len]) == u32::from_be_bytes(*sum);
        Some(Chunk {
            kind: *kind,
            data,
            whole,
            sound,
            cut: false,
        })
    }
}

/// All text of a picture from `tEXt`, `zTXt` and `iTXt` chunks, wherever in the file they are.
///
/// Read all the same, and named in `repairs`: wrong checksums, a file that ends too early, text after the end chunk,
/// chunks without a keyword, compressed data that breaks off (what came before is given). `tEXt` and `zTXt` are Latin-1
/// by the specification and UTF-8 in most character cards: valid UTF-8 counts as that.
///
/// `limit` is for all keywords and texts of the picture together, in bytes as they come out of the file (Latin-1 grows to
/// at most twice that as UTF-8); [`TEXT_LIMIT`] is the contract's.
///
/// # Errors
/// Not a PNG file, more text than `limit`, or more than [`MAX_TEXTS`] chunks of it.
pub fn text(bytes: &[u8], limit: u64) -> Result<PngText, PngError> {
    let rest = bytes.strip_prefix(&SIGNATURE).ok_or(PngError::NotPng)?;
    let mut reading = Reading {
        limit,
        left: limit,
        out: PngText::default(),
        more_repairs: 0,
    };
    let mut ended = false;
    let mut texts = 0;
    for chunk in Chunks(rest) {
        if chunk.cut {
            reading.repair(format!("the file ends inside its {} chunk", kind_name(chunk.kind)));
        } else if !chunk.sound {
            reading.repair(format!("a {} chunk has a wrong checksum", kind_name(chunk.kind)));
        }
        if is_text(chunk.kind) {
            texts += 1;
            if texts > MAX_TEXTS {
                return Err(PngError::TooManyTexts);
            }
            if ended {
                reading.repair(format!(
                    "a {} chunk comes after the end of the picture",
                    kind_name(chunk.kind)
                ));
            }
            reading.chunk(&chunk)?;
        }
        ended |= &chunk.kind == b"IEND";
    }
    if !ended {
        reading.repair("the picture has no end; the file may be cut off".to_owned());
    }
    Ok(reading.done())
}

fn is_text(kind: [u8; 4]) -> bool {
    matches!(&kind, b"tEXt" | b"zTXt" | b"iTXt")
}

fn kind_name(kind: [u8; 4]) -> String {
    kind.iter().map(|byte| char::from(*byte)).collect()
}

struct Reading {
    limit: u64,
    left: u64,
    out: PngText,
    more_repairs: usize,
}

impl Reading {
    fn repair(&mut self, what: String) {
        if self.out.repairs.len() < MAX_REPAIRS {
            self.out.repairs.push(what);
        } else {
            self.more_repairs += 1;
        }
    }

    fn done(mut self) -> PngText {
        if self.more_repairs > 0 {
            self.out.repairs.push(format!("and {} more", self.more_repairs));
        }
        self.out
    }

    fn spend(&mut self, bytes: usize) -> Result<(), PngError> {
        self.left = self
            .left
            .checked_sub(bytes as u64)
            .ok_or(PngError::TooMuchText { limit: self.limit })?;
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk) -> Result<(), PngError> {
        let kind = kind_name(chunk.kind);
        let Some((key, body)) = cut(chunk.data).filter(|(key, _)| !key.is_empty()) else {
            self.repair(format!("a {kind} chunk has no keyword"));
            return Ok(());
        };
        self.spend(key.len())?;
        let text = match (&chunk.kind, body) {
            (b"tEXt", body) => {
                self.spend(body.len())?;
                lenient(body)
            }
            (b"zTXt", [0, packed @ ..]) => lenient(&self.inflate(packed, &kind)?),
            // Flag, method, language, translated keyword, text.
            (b"iTXt", [flag, method, rest @ ..]) => match cut(rest).and_then(|(_, rest)| cut(rest)) {
                None => {
                    self.repair(format!("an {kind} chunk is too short"));
                    return Ok(());
                }
                Some((_, body)) if *flag == 0 => {
                    self.spend(body.len())?;
                    lenient(body)
                }
                Some((_, body)) if *method == 0 => lenient(&self.inflate(body, &kind)?),
                Some(_) => {
                    self.repair(format!("an {kind} chunk is compressed in an unknown way"));
                    return Ok(());
                }
            },
            _ => {
                self.repair(format!("a {kind} chunk is compressed in an unknown way"));
                return Ok(());
            }
        };
        self.out.entries.push((lenient(key), text));
        Ok(())
    }

    /// Inflates no more than what is left of the limit, and a byte to see that it was too much.
    fn inflate(&mut self, packed: &[u8], kind: &str) -> Result<Vec<u8>, PngError> {
        let mut out = Vec::new();
        let read = ZlibDecoder::new(packed)
            .take(self.left.saturating_add(1))
            .read_to_end(&mut out);
        self.spend(out.len())?;
        if read.is_err() {
            self.repair(format!("the compressed text of a {kind} chunk is damaged or cut off"));
        }
        Ok(out)
    }
}

/// What is before the first zero byte, and what is after it.
fn cut(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// UTF-8 where it is valid, else Latin-1.
fn lenient(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// The end chunk as the specification has it: without data.
const END: [u8; 12] = *b"\0\0\0\0IEND\xaeB`\x82";

/// The picture without what says more than the picture shows: `tEXt`, `zTXt`, `iTXt` and `eXIf` chunks are taken out,
/// wherever they are and however damaged, the file ends with its end chunk (which holds nothing), and what is not a chunk
/// is left out too, for no program draws it; all else stays byte for byte. What is not a PNG file comes back as it is.
pub fn strip_text(bytes: &[u8]) -> Vec<u8> {
    let Some(rest) = bytes.strip_prefix(&SIGNATURE) else {
        return bytes.to_vec();
    };
    let mut out = Vec::with_capacity(bytes.len());
    out.extend_from_slice(&SIGNATURE);
    for chunk in Chunks(rest) {
        if &chunk.kind == b"IEND" {
            out.extend_from_slice(&END);
            break;
        }
        if !is_text(chunk.kind) && &chunk.kind != b"eXIf" {
            out.extend_from_slice(chunk.whole);
        }
    }
    out
}
