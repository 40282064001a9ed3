//! `host.zip`: the archive that a request brought along. Everything here takes time on its thread.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::Arc;

use archive::{Archive, ArchiveError, EntryReader, Listing, as_text, png};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use policy::Capability;
use serde_json::{Map, Value, json};

use super::Who;
use super::fs::Files;
use crate::media::{MEDIA_LIMIT, Picture};

/// Largest chunk of an entry, in bytes.
const CHUNK_LIMIT: u64 = 8 << 20;

/// Longest listing of all entries, as JSON: it and what a guest makes of it have to fit into the 512 MiB of a call with an
/// archive.
const LISTING_LIMIT: u64 = 240 << 20;
static LISTING: Mutex<()> = Mutex::new(());

/// Most bytes that one plugin call may have inflated in all: four times the largest archive. Without it, jumping about in
/// one large entry would inflate its beginning again and again.
const INFLATE_LIMIT: u64 = 1 << 30;

/// Most entries that are open at once, to be read on where their last chunk ended. Each holds some 50 KiB.
const OPEN_LIMIT: usize = 8;

/// Bytes up to [`LISTING_LIMIT`].
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if (self.0.len() + bytes.len()) as u64 > LISTING_LIMIT {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An entry being read chunk by chunk, and how far: reading on from there inflates nothing twice.
struct Open {
    name: String,
    at: u64,
    reader: EntryReader,
}

/// The archive of one call.
pub struct Zip {
    archive: Arc<Archive>,
    /// The latest last; at most [`OPEN_LIMIT`].
    open: Mutex<VecDeque<Open>>,
    /// Bytes that may still be inflated.
    left: Mutex<u64>,
}

impl Zip {
    pub fn new(archive: Arc<Archive>) -> Self {
        Self {
            archive,
            open: Mutex::default(),
            left: Mutex::new(INFLATE_LIMIT),
        }
    }

    /// Takes `bytes` from what may still be inflated; once it does not suffice, nothing more is inflated in this call.
    fn spend(&self, bytes: u64) -> Result<(), String> {
        let mut left = self.left.lock();
        match left.checked_sub(bytes) {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => {
                *left = 0;
                Err(format!(
                    "one call may have {} MiB of the archive inflated, and this would be more: read each entry once, \
                     and its chunks from the beginning to the end",
                    INFLATE_LIMIT >> 20
                ))
            }
        }
    }

    /// The whole entry, at most `limit` bytes.
    fn whole(&self, name: &str, limit: u64) -> Result<Vec<u8>, String> {
        let size = self.archive.entry(name).map_or(0, |entry| entry.size);
        if size <= limit {
            self.spend(size)?;
        }
        self.archive.read(name, limit).map_err(|error| error.to_string())
    }

    /// What a listing of all entries inflates.
    fn spend_on_all(&self) -> Result<(), String> {
        let entries = self.archive.names().filter_map(|name| self.archive.entry(name));
        let most = self.archive.limits().binary;
        self.spend(entries.map(|entry| entry.size).filter(|size| *size <= most).sum())
    }

    fn chunk(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>, String> {
        let mut all = self.open.lock();
        let known = all.iter().position(|open| open.name == name && open.at <= offset);
        let Open { name, at, mut reader } = match known.and_then(|known| all.remove(known)) {
            Some(open) => open,
            None => Open {
                name: name.to_owned(),
                at: 0,
                reader: self.archive.reader(name, u64::MAX).map_err(|error| error.to_string())?,
            },
        };
        // Reading ends with the entry.
        self.spend(offset.saturating_add(length).min(reader.size()).saturating_sub(at))?;
        let skipped = std::io::copy(&mut (&mut reader).take(offset - at), &mut std::io::sink());
        let skipped = skipped.map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        if at + skipped == offset {
            (&mut reader)
                .take(length)
                .read_to_end(&mut bytes)
                .map_err(|error| error.to_string())?;
        }
        if all.len() == OPEN_LIMIT {
            all.pop_front();
        }
        all.push_back(Open {
            name,
            at: at + skipped + bytes.len() as u64,
            reader,
        });
        Ok(bytes)
    }

    /// The text inside a PNG, the first of each keyword, and what was wrong with the file. Other pictures have none.
    fn metadata(&self, bytes: &[u8]) -> Result<(Map<String, Value>, Vec<String>), String> {
        match png::text(bytes, png::TEXT_LIMIT) {
            Ok(text) => {
                let mut found = Map::new();
                // Text is inflated too. How much there is shows only afterwards, but it is at most its own limit.
                self.spend(text.entries.iter().map(|(_, value)| value.len() as u64).sum())?;
                for (key, value) in text.entries {
                    found.entry(key).or_insert(value.into());
                }
                Ok((found, text.repairs))
            }
            Err(png::PngError::NotPng) => Ok((Map::new(), Vec::new())),
            Err(error) => {
                self.spend(png::TEXT_LIMIT)?;
                Err(error.to_string())
            }
        }
    }
}

/// Every method of `host.zip`. `files` keeps the pictures.
pub fn call(
    who: &Arc<Who>,
    zip: Option<&Zip>,
    files: Option<&Files>,
    method: &str,
    args: &[Value],
) -> Result<Value, String> {
    who.need(Capability::Zip, method)?;
    let zip = zip.ok_or_else(|| {
        format!("host.{method}: there is no archive: send one to the route as zipBase64 in the request's body")
    })?;
    let archive = &zip.archive;
    let said = |error: ArchiveError| format!("host.{method}: {error}");
    let here = |why: String| format!("host.{method}: {why}");
    let name = || {
        let name = args.first().and_then(Value::as_str);
        name.ok_or_else(|| format!("host.{method}: the entry's name must be a string"))
    };
    let number = |at: usize, what: &str, most: u64| {
        let found = args.get(at).and_then(Value::as_f64);
        let found = found.filter(|n| *n >= 0.0 && n.fract() == 0.0 && *n <= most as f64);
        found
            .map(|n| n as u64)
            .ok_or_else(|| format!("host.{method}: the {what} must be a whole number from 0 to {most}"))
    };
    let whole = archive.limits().binary;
    match method {
        "zip.list" => Ok(archive.files().into()),
        "zip.names" => Ok(archive.names().collect()),
        "zip.entries" => {
            // One listing is made at a time: each may take some hundred MiB here.
            let _turn = LISTING.lock();
            zip.spend_on_all().map_err(here)?;
            let mut json = Bounded(Vec::new());
            archive.entries_json(Listing::Plain, &mut json).map_err(|error| {
                if json.0.len() as u64 + (1 << 20) < LISTING_LIMIT {
                    return said(error);
                }
                format!(
                    "host.{method}: all entries together are more than {} MiB as JSON: read them one by one \
                     (host.zip.names, read, readBytes, stream)",
                    LISTING_LIMIT >> 20
                )
            })?;
            serde_json::from_slice(&json.0).map_err(|e| format!("host.{method}: {e}"))
        }
        "zip.stat" => {
            let entry = archive.entry(name()?);
            Ok(entry.map_or(Value::Null, |entry| {
                json!({
                    "kind": if entry.is_dir { "folder" } else { "file" },
                    "size": entry.size, "compressed": entry.compressed, "unreadable": entry.unreadable,
                })
            }))
        }
        "zip.read" => {
            let bytes = zip.whole(name()?, whole).map_err(here)?;
            let text = as_text(bytes);
            text.map(Value::from)
                .ok_or_else(|| format!("host.{method}: \"{}\" is not text: use host.zip.readBytes", short(args)))
        }
        "zip.readBase64" => Ok(BASE64_STANDARD.encode(zip.whole(name()?, whole).map_err(here)?).into()),
        "zip.readChunk" => {
            let (offset, length) = (number(1, "offset", 1 << 53)?, number(2, "length", CHUNK_LIMIT)?);
            let bytes = zip.chunk(name()?, offset, length);
            Ok(BASE64_STANDARD.encode(bytes.map_err(here)?).into())
        }
        "zip.image" => {
            let files = files.ok_or_else(|| {
                format!("host.{method}: pictures are kept in an app's data folder, and this plugin belongs to no app")
            })?;
            let bytes = zip.whole(name()?, MEDIA_LIMIT).map_err(here)?;
            let (metadata, repairs) = zip.metadata(&bytes).map_err(here)?;
            let picture = Picture::of(bytes).map_err(|why| format!("host.{method}: \"{}\": {why}", short(args)))?;
            let mut found = json!({"url": files.keep(who, method, &picture)?, "metadata": metadata});
            if !repairs.is_empty() {
                found["repairs"] = repairs.into();
            }
            Ok(found)
        }
        other => Err(format!("host.{other} does not exist")),
    }
}

fn short(args: &[Value]) -> String {
    let name = args.first().and_then(Value::as_str).unwrap_or_default();
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with entries `a`, `b` and so on of these bytes; `left` may be inflated of it.
    fn zip(entries: &[&[u8]], left: u64) -> Zip {
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (bytes, name) in entries.iter().zip("abcdefghij".chars()) {
            let options = zip::write::SimpleFileOptions::default();
            writer.start_file(name.to_string(), options).unwrap();
            writer.write_all(bytes).unwrap();
        }
        let bytes = writer.finish().unwrap().into_inner();
        let mut zip = Zip::new(Arc::new(Archive::open(bytes, archive::Limits::contract()).unwrap()));
        zip.left = Mutex::new(left);
        zip
    }

    fn refused<T: std::fmt::Debug>(result: Result<T, String>) {
        let error = result.unwrap_err();
        assert!(error.contains("1024 MiB of the archive inflated"), "{error}");
    }

    #[test]
    fn reading_on_inflates_once_and_jumping_back_is_bounded() {
        let long: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        let forward = zip(&[&long, &long], 20_000);
        for at in (0..10_000).step_by(1000) {
            // Two at a time, each from where it was.
            for name in ["a", "b"] {
                assert_eq!(
                    forward.chunk(name, at, 1000).unwrap(),
                    long[at as usize..at as usize + 1000]
                );
            }
        }
        assert_eq!(forward.chunk("a", 10_000, 5).unwrap(), b"");
        refused(forward.chunk("a", 0, 1));

        let back = zip(&[&long], 35_000);
        for _ in 0..3 {
            assert_eq!(back.chunk("a", 9_998, 2).unwrap(), long[9_998..]);
        }
        refused(back.chunk("a", 9_998, 2));
        // Once it is used up it stays so.
        refused(back.chunk("a", 0, 1));
        // An offset far behind the end costs the entry and nothing more.
        assert_eq!(zip(&[&long], 10_000).chunk("a", 1 << 53, 8).unwrap(), b"");
    }

    #[test]
    fn few_entries_are_open_at_once() {
        let zip = zip(&[b"xy".as_slice(); 10], 1000);
        for name in "abcdefghij".chars() {
            assert_eq!(zip.chunk(&name.to_string(), 0, 1).unwrap(), b"x");
        }
        assert_eq!(zip.open.lock().len(), OPEN_LIMIT);
        assert_eq!(zip.chunk("a", 1, 1).unwrap(), b"y");
        assert_eq!(zip.chunk("j", 1, 1).unwrap(), b"y");
    }

    #[test]
    fn whole_entries_listings_and_the_text_of_pictures_count_too() {
        let spent = zip(&[b"12345", b"12345"], 16);
        assert_eq!(spent.whole("a", 5).unwrap(), b"12345");
        // Too large and not there: nothing is inflated.
        assert!(spent.whole("a", 4).unwrap_err().contains("at most 4"));
        assert!(spent.whole("none", 4).unwrap_err().contains("no entry"));
        spent.spend_on_all().unwrap();
        refused(spent.whole("a", 5));
        refused(spent.spend_on_all());

        let card = [png::SIGNATURE.as_slice(), b"\0\0\0\x07tEXtab\0wxyz\0\0\0\0"].concat();
        let pictures = zip(&[&card], 7);
        assert_eq!(pictures.metadata(&card).unwrap().0["ab"], "wxyz");
        refused(pictures.metadata(&card));
    }
}
