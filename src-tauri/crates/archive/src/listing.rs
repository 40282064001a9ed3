//! All entries at once, as the contract's `host.zip.entries()` gives them.

use std::io::{self, Read, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;

use crate::{Archive, ArchiveError, as_text, is_text_name, png};

/// How pictures appear in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listing {
    /// As any other binary entry.
    #[default]
    Plain,
    /// PNG pictures, told by their content, as `{"__image__":true,"size":n}` without their bytes: the contract's import
    /// batches.
    ImagesApart,
}

/// Counts what is written and stops at the limit.
struct Counted<W> {
    out: W,
    left: u64,
    full: bool,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.left.checked_sub(buf.len() as u64) {
            Some(left) => {
                self.out.write_all(buf)?;
                self.left = left;
                Ok(buf.len())
            }
            None => {
                self.full = true;
                Err(io::ErrorKind::FileTooLarge.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Archive {
    /// Writes a JSON object with a member for each kept entry that is not a folder, in the directory's order:
    ///
    /// - its text, when the name is one of the text types, it has under `limits.text` bytes and is valid text (UTF-8, or
    ///   UTF-16 with a byte order mark; marks are taken off);
    /// - else `{"__b64__":true,"base64":"…","size":n}` up to `limits.binary` bytes;
    /// - else `{"__binary__":true,"size":n}`, with an `"error"` when the entry cannot be read or is damaged: one bad
    ///   entry does not hide the others.
    ///
    /// One entry at a time is in memory, at most `limits.binary` bytes.
    ///
    /// # Errors
    /// [`TooLarge`](ArchiveError::TooLarge) when the JSON would be longer than `limits.listing`;
    /// [`Write`](ArchiveError::Write) when `out` fails. What was written until then is cut-off JSON.
    pub fn entries_json(&self, listing: Listing, out: impl Write) -> Result<(), ArchiveError> {
        let most = self.limits.listing;
        let mut out = Counted {
            out,
            left: most,
            full: false,
        };
        self.write_entries(listing, &mut out).map_err(|error| match error {
            ArchiveError::Write(_) if out.full => ArchiveError::TooLarge {
                what: "the listing of its entries",
                is: most.saturating_add(1),
                most,
            },
            other => other,
        })
    }

    fn write_entries(&self, listing: Listing, out: &mut impl Write) -> Result<(), ArchiveError> {
        out.write_all(b"{")?;
        let mut first = true;
        for at in 0..self.names.len() {
            if self.places[at].entry.is_dir {
                continue;
            }
            if !first {
                out.write_all(b",")?;
            }
            first = false;
            json_text(out, &self.names[at])?;
            out.write_all(b":")?;
            self.write_entry(at, listing, out)?;
        }
        out.write_all(b"}")?;
        Ok(())
    }

    fn write_entry(&self, at: usize, listing: Listing, out: &mut impl Write) -> Result<(), ArchiveError> {
        let size = self.places[at].entry.size;
        let content = match self.content(at, listing) {
            Ok(content) => content,
            Err(error) => {
                write!(out, "{{\"__binary__\":true,\"size\":{size},\"error\":")?;
                json_text(out, &error.to_string())?;
                out.write_all(b"}")?;
                return Ok(());
            }
        };
        match content {
            Content::Text(text) => json_text(out, &text)?,
            Content::Base64(bytes) => {
                write!(out, "{{\"__b64__\":true,\"size\":{size},\"base64\":\"")?;
                let mut encoder = EncoderWriter::new(&mut *out, &STANDARD);
                encoder.write_all(&bytes)?;
                encoder.finish()?;
                drop(encoder);
                out.write_all(b"\"}")?;
            }
            Content::Image => write!(out, "{{\"__image__\":true,\"size\":{size}}}")?,
            Content::Size => write!(out, "{{\"__binary__\":true,\"size\":{size}}}")?,
        }
        Ok(())
    }

    fn content(&self, at: usize, listing: Listing) -> Result<Content, ArchiveError> {
        let size = self.places[at].entry.size;
        let mut reader = self.reader_at(at, u64::MAX)?;
        if listing == Listing::ImagesApart && size >= png::SIGNATURE.len() as u64 {
            let mut start = [0; png::SIGNATURE.len()];
            let damage = |error: io::Error| ArchiveError::EntryDamaged {
                name: self.names[at].clone(),
                why: error.to_string(),
            };
            reader.read_exact(&mut start).map_err(damage)?;
            if start == png::SIGNATURE {
                return Ok(Content::Image);
            }
            reader = self.reader_at(at, u64::MAX)?;
        }
        let text = is_text_name(&self.names[at]) && size < self.limits.text;
        if !text && size > self.limits.binary {
            return Ok(Content::Size);
        }
        let bytes = reader.all()?;
        // Text that is not valid is kept aside only while it is tried: it has less than `limits.text` bytes.
        if text && let Some(text) = as_text(bytes.clone()) {
            return Ok(Content::Text(text));
        }
        if size > self.limits.binary {
            return Ok(Content::Size);
        }
        Ok(Content::Base64(bytes))
    }
}

enum Content {
    Text(String),
    Base64(Vec<u8>),
    Image,
    Size,
}

fn json_text(out: &mut impl Write, text: &str) -> Result<(), ArchiveError> {
    serde_json::to_writer(out, text).map_err(|error| ArchiveError::Write(error.into()))
}
