//! Zip archives and pictures that someone else made: bytes in, values out.
//!
//! Nothing here opens a file or a connection, and nothing here is trusted: an [`Archive`] is judged from its directory
//! before one byte is inflated, and what the directory said is enforced again while inflating. The same holds for the
//! text inside PNG files ([`png`]); [`image`] says what kind of picture some bytes are.
//!
//! The directory is read by this crate and not by a general zip library, for three reasons: the number of entries and
//! the sum of their sizes must be judged before anything is kept of them (a 200 MiB file has room for four million
//! entries); names that occur twice must be seen before a map has swallowed one; and there must be one reading of a
//! file, not a check by one parser and a use by another. The tests compare it with the `zip` crate.

mod directory;
pub mod image;
mod listing;
mod name;
pub mod png;
mod read;
mod text;

use std::collections::HashMap;

use bytes::Bytes;

pub use listing::Listing;
pub use read::EntryReader;
pub use text::{as_text, is_text_name};

/// What an archive may cost. All sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The zip file itself.
    pub input: u64,
    /// Entries in the directory, dropped ones included.
    pub entries: u64,
    /// All entries together, inflated.
    pub expanded: u64,
    /// In a listing: an entry of a text type below this many bytes is given as text.
    pub text: u64,
    /// In a listing: any other entry up to this many bytes is given as base64.
    pub binary: u64,
    /// Longest listing, as JSON. Base64 needs 4/3 of `expanded`; text made of control characters would need six times
    /// its size, and is refused instead.
    pub listing: u64,
}

impl Limits {
    /// The limits of `host.zip` in the reference engine's contract, section 3.4: 200 MiB, 60,000 entries, 256 MiB
    /// expanded, text under 2 MiB, binary up to 16 MiB. The 384 MiB for a listing are ours.
    pub const fn contract() -> Self {
        Self {
            input: 200 << 20,
            entries: 60_000,
            expanded: 256 << 20,
            text: 2 << 20,
            binary: 16 << 20,
            listing: 384 << 20,
        }
    }
}

/// Why an archive was refused, or an entry of it. The texts can be shown to people; names in them are escaped.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("this is not a zip archive: it has no end record; if it was downloaded, it may be cut off")]
    NotZip,
    #[error("this zip archive is damaged: {0}")]
    Damaged(&'static str),
    #[error("this zip archive is refused: {0}")]
    Hostile(&'static str),
    #[error("this zip archive is split over several files; make one file of it first")]
    Split,
    #[error("this zip archive is too large: {what} is {is}, and at most {most} is allowed")]
    TooLarge { what: &'static str, is: u64, most: u64 },
    #[error("the archive has no entry {0:?}")]
    NoEntry(String),
    #[error("the entry {0:?} is a folder")]
    IsFolder(String),
    #[error("the entry {name:?} cannot be read: {why}")]
    Unreadable { name: String, why: &'static str },
    #[error("the entry {name:?} has {is} bytes, and at most {most} are allowed")]
    EntryTooLarge { name: String, is: u64, most: u64 },
    #[error("the entry {name:?} is damaged: {why}")]
    EntryDamaged { name: String, why: String },
    #[error("the listing could not be written: {0}")]
    Write(#[from] std::io::Error),
}

/// Entries that an archive has in its directory and that [`Archive`] does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The name leads out of the archive's root, or could on some system: see [`Archive::open`].
    pub escaping: u64,
    /// Symbolic links, devices, pipes and sockets, and everything whose name leads through one of them.
    pub links: u64,
    /// The name had occurred before; the first entry of a name is the one that counts.
    pub duplicates: u64,
}

impl Dropped {
    /// How many in all. An importer that should refuse a suspicious archive whole refuses when this is not 0.
    pub fn total(&self) -> u64 {
        self.escaping + self.links + self.duplicates
    }
}

/// What the directory says of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Bytes when inflated. Reading gives exactly this many or fails.
    pub size: u64,
    /// Bytes in the archive.
    pub compressed: u64,
    pub is_dir: bool,
    /// Why reading it fails in any case: encrypted, an unknown compression method, no data where it should be.
    pub unreadable: Option<&'static str>,
}

/// An opened archive: the file's bytes and its judged directory. Nothing is inflated until it is asked for.
#[derive(Debug)]
pub struct Archive {
    bytes: Bytes,
    limits: Limits,
    /// In the order of the directory.
    names: Vec<String>,
    places: Vec<directory::Place>,
    index: HashMap<String, usize>,
    dropped: Dropped,
}

impl Archive {
    /// Reads and judges the directory.
    ///
    /// The zip may have something else before it (a picture, a program); it ends with the file. ZIP64 is read.
    ///
    /// Refused as a whole: more than the limits allow; an entry count that is not the number of entries; entries that
    /// share bytes, with each other or with the directory (the bombs made by quoting do that); a size that the
    /// compression method cannot reach; a second end record that would also fit (two programs would see two archives);
    /// parts of a split archive.
    ///
    /// Dropped and counted: names with a `..` or `.` or an empty part, or a part of only dots and spaces (which Windows
    /// shortens); absolute names; drive letters; backslashes; NUL; links, devices, pipes, and names that lead through
    /// one; later entries of the same name. One `./` at the beginning is taken off. `..foo.txt` is a fine name.
    ///
    /// An archive inside of this one is bytes like any other entry: nothing here opens it.
    ///
    /// Names are UTF-8 where the entry says so or it is valid UTF-8 (many programs forget to say so), else CP437.
    /// Folders have a slash at the end.
    ///
    /// # Errors
    /// [`ArchiveError::NotZip`], [`Damaged`](ArchiveError::Damaged), [`Hostile`](ArchiveError::Hostile),
    /// [`Split`](ArchiveError::Split), [`TooLarge`](ArchiveError::TooLarge).
    pub fn open(bytes: impl Into<Bytes>, limits: Limits) -> Result<Self, ArchiveError> {
        let bytes = bytes.into();
        let judged = directory::read(&bytes, &limits)?;
        let index = judged
            .names
            .iter()
            .enumerate()
            .map(|(at, name)| (name.clone(), at))
            .collect();
        Ok(Self {
            bytes,
            limits,
            names: judged.names,
            places: judged.places,
            index,
            dropped: judged.dropped,
        })
    }

    /// Entries that are kept, folders included.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Kept entries that are not folders.
    pub fn files(&self) -> usize {
        self.places.iter().filter(|place| !place.entry.is_dir).count()
    }

    /// Names of the kept entries in the order of the directory; each once.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// What the directory says of `name`, spelled as in [`names`](Self::names).
    pub fn entry(&self, name: &str) -> Option<Entry> {
        self.index.get(name).map(|at| self.places[*at].entry)
    }

    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The whole entry, at most `limit` bytes, with its checksum compared.
    ///
    /// # Errors
    /// [`NoEntry`](ArchiveError::NoEntry), [`IsFolder`](ArchiveError::IsFolder),
    /// [`EntryTooLarge`](ArchiveError::EntryTooLarge) before anything is inflated,
    /// [`Unreadable`](ArchiveError::Unreadable), [`EntryDamaged`](ArchiveError::EntryDamaged).
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, ArchiveError> {
        self.reader(name, limit)?.all()
    }

    /// A reader over the entry that inflates as it is read, for entries up to `limit` bytes. It shares the archive's
    /// bytes and does not borrow the archive.
    ///
    /// Reading fails when the data is damaged or ends before the size in the directory; and instead of giving the last
    /// bytes when data follows them or the checksum is another. What came before an error may be wrong too.
    ///
    /// # Errors
    /// As [`read`](Self::read), but for damage.
    pub fn reader(&self, name: &str, limit: u64) -> Result<EntryReader, ArchiveError> {
        let at = self
            .index
            .get(name)
            .ok_or_else(|| ArchiveError::NoEntry(name.to_owned()))?;
        self.reader_at(*at, limit)
    }

    fn reader_at(&self, at: usize, limit: u64) -> Result<EntryReader, ArchiveError> {
        let (name, place) = (&self.names[at], &self.places[at]);
        if place.entry.is_dir {
            return Err(ArchiveError::IsFolder(name.clone()));
        }
        if let Some(why) = place.entry.unreadable {
            return Err(ArchiveError::Unreadable {
                name: name.clone(),
                why,
            });
        }
        if place.entry.size > limit {
            return Err(ArchiveError::EntryTooLarge {
                name: name.clone(),
                is: place.entry.size,
                most: limit,
            });
        }
        Ok(EntryReader::new(name, place, &self.bytes))
    }
}
