//! Reading one entry.

use std::io::{self, Read};

use bytes::{Buf, Bytes, buf::Reader};
use flate2::bufread::DeflateDecoder;

use crate::ArchiveError;
use crate::directory::{Method, Place};

enum Source {
    Stored(Reader<Bytes>),
    Deflated(Box<DeflateDecoder<Reader<Bytes>>>),
}

/// Inflates one entry as it is read: see [`Archive::reader`](crate::Archive::reader).
pub struct EntryReader {
    source: Source,
    name: String,
    size: u64,
    left: u64,
    expected: u32,
    sum: crc32fast::Hasher,
    ended: bool,
}

impl EntryReader {
    pub(crate) fn new(name: &str, place: &Place, bytes: &Bytes) -> Self {
        let data = bytes.slice(place.data.clone()).reader();
        Self {
            source: match place.method {
                Method::Stored => Source::Stored(data),
                Method::Deflated => Source::Deflated(Box::new(DeflateDecoder::new(data))),
            },
            name: name.to_owned(),
            size: place.entry.size,
            left: place.entry.size,
            expected: place.crc,
            sum: crc32fast::Hasher::new(),
            ended: false,
        }
    }

    /// Bytes of the whole entry.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// All that is left to read.
    pub(crate) fn all(mut self) -> Result<Vec<u8>, ArchiveError> {
        // The size is only a claim until it has been inflated: reserve a little and grow with what arrives.
        let mut out = Vec::with_capacity(usize::try_from(self.left.min(1 << 20)).unwrap_or(0));
        match self.read_to_end(&mut out) {
            Ok(_) => Ok(out),
            Err(error) => Err(ArchiveError::EntryDamaged {
                name: self.name,
                why: error.to_string(),
            }),
        }
    }

    fn more(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.source {
            Source::Stored(reader) => reader.read(buf),
            Source::Deflated(reader) => reader.read(buf),
        }
    }
}

fn damaged(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl EntryReader {
    /// After the last byte: nothing may follow it, and the checksum must be the directory's.
    fn finish(&mut self) -> io::Result<()> {
        if self.more(&mut [0])? != 0 {
            return Err(damaged("its data goes on after the size that the directory gives"));
        }
        if self.sum.clone().finalize() != self.expected {
            return Err(damaged("its checksum is not the one in the directory"));
        }
        self.ended = true;
        Ok(())
    }
}

impl Read for EntryReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() || self.ended {
            return Ok(0);
        }
        let mut got = 0;
        if self.left > 0 {
            let most = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
            got = self.more(&mut buf[..most])?;
            if got == 0 {
                return Err(damaged("its data ends before the size that the directory gives"));
            }
            self.left -= got as u64;
            self.sum.update(&buf[..got]);
        }
        // With the last byte and not after it: who reads by the size never asks for more.
        if self.left == 0 {
            self.finish()?;
        }
        Ok(got)
    }
}
