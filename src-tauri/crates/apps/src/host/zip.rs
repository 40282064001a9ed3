//! `host.zip`: the archive that a request brought along. Everything here takes time on its thread.

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

/// The archive of one call.
pub struct Zip {
    archive: Arc<Archive>,
    /// The entry being read chunk by chunk, and how far: reading on from there inflates nothing twice.
    reading: Mutex<Option<(String, u64, EntryReader)>>,
}

impl Zip {
    pub fn new(archive: Arc<Archive>) -> Self {
        Self {
            archive,
            reading: Mutex::default(),
        }
    }

    fn chunk(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>, String> {
        let said = |error: ArchiveError| error.to_string();
        let mut kept = self.reading.lock();
        let (at, mut reader) = match kept.take() {
            Some((known, at, reader)) if known == name && at <= offset => (at, reader),
            _ => (0, self.archive.reader(name, u64::MAX).map_err(said)?),
        };
        let skipped = std::io::copy(&mut (&mut reader).take(offset - at), &mut std::io::sink());
        let skipped = skipped.map_err(|error| error.to_string())?;
        let mut bytes = Vec::new();
        if at + skipped == offset {
            (&mut reader)
                .take(length)
                .read_to_end(&mut bytes)
                .map_err(|error| error.to_string())?;
        }
        *kept = Some((name.to_owned(), at + skipped + bytes.len() as u64, reader));
        Ok(bytes)
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
            let bytes = archive.read(name()?, whole).map_err(said)?;
            let text = as_text(bytes);
            text.map(Value::from)
                .ok_or_else(|| format!("host.{method}: \"{}\" is not text: use host.zip.readBytes", short(args)))
        }
        "zip.readBase64" => Ok(BASE64_STANDARD
            .encode(archive.read(name()?, whole).map_err(said)?)
            .into()),
        "zip.readChunk" => {
            let (offset, length) = (number(1, "offset", 1 << 53)?, number(2, "length", CHUNK_LIMIT)?);
            let bytes = zip.chunk(name()?, offset, length);
            Ok(BASE64_STANDARD
                .encode(bytes.map_err(|why| format!("host.{method}: {why}"))?)
                .into())
        }
        "zip.image" => {
            let files = files.ok_or_else(|| {
                format!("host.{method}: pictures are kept in an app's data folder, and this plugin belongs to no app")
            })?;
            let bytes = archive.read(name()?, MEDIA_LIMIT).map_err(said)?;
            let (metadata, repairs) = metadata(&bytes).map_err(|why| format!("host.{method}: {why}"))?;
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

/// The text inside a PNG, the first of each keyword, and what was wrong with the file. Other pictures have none.
fn metadata(bytes: &[u8]) -> Result<(Map<String, Value>, Vec<String>), String> {
    match png::text(bytes, png::TEXT_LIMIT) {
        Ok(text) => {
            let mut found = Map::new();
            for (key, value) in text.entries {
                found.entry(key).or_insert(value.into());
            }
            Ok((found, text.repairs))
        }
        Err(png::PngError::NotPng) => Ok((Map::new(), Vec::new())),
        Err(error) => Err(error.to_string()),
    }
}
