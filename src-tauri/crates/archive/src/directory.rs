//! The central directory: found, judged, and turned into places.
//!
//! Field positions are those of PKWARE's APPNOTE.TXT 6.3.10, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.14
//! to 4.3.16 (end records), 4.5.3 (ZIP64) and 4.4 (meanings).

use std::collections::HashSet;
use std::ops::Range;

use crate::{ArchiveError, Dropped, Entry, Limits, name};

const LOCAL: u32 = 0x0403_4b50;
const ENTRY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END64: u32 = 0x0606_4b50;
const LOCATOR64: u32 = 0x0706_4b50;

const LOCAL_LEN: u64 = 30;
const ENTRY_LEN: u64 = 46;
const END_LEN: u64 = 22;
const END64_LEN: u64 = 56;
const LOCATOR64_LEN: u64 = 20;

/// No deflate stream gives more than 1032 bytes for one: a copy of 258 bytes takes at least two bits. The slack is for
/// the block's own header.
const DEFLATE_RATIO: u64 = 1032;
const DEFLATE_SLACK: u64 = 1032;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Stored,
    Deflated,
}

/// Where an entry's data is and what is said of it.
#[derive(Debug, Clone)]
pub struct Place {
    pub entry: Entry,
    pub method: Method,
    pub crc: u32,
    /// Inside the file; empty when the entry is unreadable.
    pub data: Range<usize>,
}

#[derive(Debug)]
pub struct Judged {
    pub names: Vec<String>,
    pub places: Vec<Place>,
    pub dropped: Dropped,
}

/// Little-endian fields of a slice, by position; nothing outside of it.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn slice(self, at: u64, len: u64) -> Option<&'a [u8]> {
        let at = usize::try_from(at).ok()?;
        let len = usize::try_from(len).ok()?;
        self.0.get(at..at.checked_add(len)?)
    }

    fn u16(self, at: u64) -> Option<u16> {
        Some(u16::from_le_bytes(self.slice(at, 2)?.try_into().ok()?))
    }

    fn u32(self, at: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.slice(at, 4)?.try_into().ok()?))
    }

    fn u64(self, at: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.slice(at, 8)?.try_into().ok()?))
    }
}

/// What an end record says, with positions made absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    entries: u64,
    /// Where the directory is in the file.
    start: u64,
    len: u64,
    /// Bytes before the zip, to be added to every offset in it.
    prefix: u64,
}

pub fn read(bytes: &[u8], limits: &Limits) -> Result<Judged, ArchiveError> {
    at_most("its file", bytes.len() as u64, limits.input)?;
    let file = Fields(bytes);
    let end = find_end(file)?;
    at_most("the number of its entries", end.entries, limits.entries)?;
    let rows = rows(file, &end, limits)?;
    apart(&rows, &end)?;
    keep(rows)
}

fn at_most(what: &'static str, is: u64, most: u64) -> Result<(), ArchiveError> {
    if is > most {
        return Err(ArchiveError::TooLarge { what, is, most });
    }
    Ok(())
}

/// The end record: 22 bytes and a comment that ends with the file. Its comment may contain what looks like another one;
/// when both fit, which archive this is depends on who looks, and it is refused.
fn find_end(file: Fields) -> Result<End, ArchiveError> {
    let len = file.0.len() as u64;
    let lowest = len.saturating_sub(END_LEN + u64::from(u16::MAX));
    let mut found: Option<End> = None;
    let mut problem = None;
    let mut at = len.saturating_sub(END_LEN);
    while len >= END_LEN && at >= lowest {
        let candidate = file.u32(at) == Some(END) && file.u16(at + 20).map(u64::from) == Some(len - at - END_LEN);
        if candidate {
            match (end_at(file, at), found) {
                (Ok(end), None) => found = Some(end),
                (Ok(_), Some(_)) => return Err(ArchiveError::Hostile("it has two end records that both fit")),
                (Err(error), _) => problem = problem.or(Some(error)),
            }
        }
        match at.checked_sub(1) {
            Some(next) => at = next,
            None => break,
        }
    }
    found.ok_or_else(|| problem.unwrap_or(ArchiveError::NotZip))
}

/// Reads the end record at `at`, and the ZIP64 one when it points to it.
fn end_at(file: Fields, at: u64) -> Result<End, ArchiveError> {
    let short = ArchiveError::NotZip;
    let half = |offset| file.u16(at + offset);
    let word = |offset| file.u32(at + offset);
    let (Some(disk), Some(first_disk), Some(here), Some(entries), Some(len), Some(offset)) =
        (half(4), half(6), half(8), half(10), word(12), word(16))
    else {
        return Err(short);
    };
    let wide = [disk, first_disk, here, entries].contains(&u16::MAX) || [len, offset].contains(&u32::MAX);
    if wide && let Some(end) = end64_before(file, at)? {
        return Ok(end);
    }
    if disk != 0 || first_disk != 0 || here != entries {
        return Err(ArchiveError::Split);
    }
    placed(file, at, u64::from(entries), u64::from(len), u64::from(offset))
}

/// The ZIP64 end record that the locator before `at` points to; nothing without a locator: then the values that look
/// like a pointer to it are plain ones.
fn end64_before(file: Fields, at: u64) -> Result<Option<End>, ArchiveError> {
    let Some(locator) = at.checked_sub(LOCATOR64_LEN) else {
        return Ok(None);
    };
    if file.u32(locator) != Some(LOCATOR64) {
        return Ok(None);
    }
    // Its offset does not count what is before the zip, so a record without extensible data is looked for right before
    // the locator first.
    let near = locator.checked_sub(END64_LEN);
    let far = file.u64(locator + 8);
    let record = [near, far]
        .into_iter()
        .flatten()
        .find(|at| {
            let end = file
                .u64(at.saturating_add(4))
                .and_then(|len| at.checked_add(12)?.checked_add(len));
            file.u32(*at) == Some(END64) && end == Some(locator)
        })
        .ok_or(ArchiveError::Damaged(
            "its ZIP64 end record is not where its locator says",
        ))?;
    let word = |offset| file.u32(record + offset);
    let long = |offset| file.u64(record + offset);
    let (Some(disk), Some(first_disk), Some(here), Some(entries), Some(len), Some(offset)) =
        (word(16), word(20), long(24), long(32), long(40), long(48))
    else {
        return Err(ArchiveError::Damaged("its ZIP64 end record is cut off"));
    };
    if disk != 0 || first_disk != 0 || here != entries {
        return Err(ArchiveError::Split);
    }
    placed(file, record, entries, len, offset).map(Some)
}

/// The directory lies right before its end record; what its offset says less than that is what was put before the zip.
fn placed(file: Fields, end: u64, entries: u64, len: u64, offset: u64) -> Result<End, ArchiveError> {
    let start = end
        .checked_sub(len)
        .ok_or(ArchiveError::Damaged("its directory is longer than the file"))?;
    let prefix = start
        .checked_sub(offset)
        .ok_or(ArchiveError::Damaged("its directory is not where its end record says"))?;
    let begins = if entries == 0 {
        len == 0
    } else {
        file.u32(start) == Some(ENTRY)
    };
    if !begins {
        return Err(ArchiveError::Damaged("its directory is not where its end record says"));
    }
    Ok(End {
        entries,
        start,
        len,
        prefix,
    })
}

/// A row of the directory with its claims looked at, its name not yet.
struct Row<'a> {
    raw_name: &'a [u8],
    /// An Info-ZIP Unicode name, when it belongs to this raw name.
    unicode: Option<&'a str>,
    /// The upper half of the external attributes: a Unix mode, or 0.
    mode: u32,
    place: Place,
    /// What the entry takes of the file, from its local header to the end of its data; absent when there is no local
    /// header where the row says.
    takes: Option<Range<u64>>,
}

fn rows<'a>(file: Fields<'a>, end: &End, limits: &Limits) -> Result<Vec<Row<'a>>, ArchiveError> {
    let directory = Fields(file.slice(end.start, end.len).unwrap_or_default());
    // Every row takes 46 bytes of the directory, so the count cannot reserve more than the file has.
    let room = end.entries.min(end.len / ENTRY_LEN);
    let mut rows = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
    let (mut at, mut expanded) = (0u64, 0u64);
    while at < end.len {
        if rows.len() as u64 == end.entries {
            return Err(ArchiveError::Hostile(
                "its directory has more entries than its end record says",
            ));
        }
        let (row, len) = row(file, directory, at, end)?;
        expanded = expanded.saturating_add(row.place.entry.size);
        at_most("what it expands to", expanded, limits.expanded)?;
        rows.push(row);
        at += len;
    }
    if rows.len() as u64 != end.entries {
        return Err(ArchiveError::Hostile(
            "its directory has fewer entries than its end record says",
        ));
    }
    Ok(rows)
}

/// The row at `at` of the directory, and how many bytes it takes there.
fn row<'a>(file: Fields<'a>, directory: Fields<'a>, at: u64, end: &End) -> Result<(Row<'a>, u64), ArchiveError> {
    const CUT: ArchiveError = ArchiveError::Damaged("its directory is cut off");
    let half = |offset| directory.u16(at + offset).ok_or(CUT);
    let word = |offset| directory.u32(at + offset).ok_or(CUT);
    if word(0)? != ENTRY {
        return Err(ArchiveError::Damaged(
            "its directory has something else between entries",
        ));
    }
    let (flags, method, crc) = (half(8)?, half(10)?, word(16)?);
    let (compressed, size) = (word(20)?, word(24)?);
    let (name_len, extra_len, comment_len) = (u64::from(half(28)?), u64::from(half(30)?), u64::from(half(32)?));
    let (disk, attributes, offset) = (half(34)?, word(38)?, word(42)?);
    let raw_name = directory.slice(at + ENTRY_LEN, name_len).ok_or(CUT)?;
    let extra = directory.slice(at + ENTRY_LEN + name_len, extra_len).ok_or(CUT)?;
    let len = ENTRY_LEN + name_len + extra_len + comment_len;
    directory.slice(at, len).ok_or(CUT)?;

    let extras = extras(extra, raw_name);
    let wide = Wide::read(extras.zip64, size, compressed, offset, disk)?;
    if wide.disk != 0 {
        return Err(ArchiveError::Split);
    }

    let (data, takes) = data(file, &wide, end)?;
    let mut place = Place {
        entry: Entry {
            size: wide.size,
            compressed: wide.compressed,
            is_dir: false,
            unreadable: None,
        },
        method: Method::Stored,
        crc,
        data: data.clone().unwrap_or_default(),
    };
    let why = match method {
        // Bit 0 is encryption, 6 strong encryption, 13 an encrypted directory, 5 a patch of another file.
        _ if flags & (1 | 1 << 6 | 1 << 13) != 0 => Some("it is encrypted"),
        _ if flags & (1 << 5) != 0 => Some("it is a patch and not a file"),
        _ if data.is_none() => Some("its data is not where the directory says"),
        0 if wide.size != wide.compressed => Some("it is stored, and the directory gives it two sizes"),
        0 => None,
        8 => {
            if wide.size.saturating_sub(DEFLATE_SLACK) > wide.compressed.saturating_mul(DEFLATE_RATIO) {
                return Err(ArchiveError::Hostile(
                    "an entry claims a size that its compression cannot reach",
                ));
            }
            place.method = Method::Deflated;
            None
        }
        _ => Some("its compression method is not known here; only stored and deflated entries are"),
    };
    place.entry.unreadable = why;
    let row = Row {
        raw_name,
        unicode: extras.unicode,
        mode: attributes >> 16,
        place,
        takes,
    };
    Ok((row, len))
}

/// The values of a row that ZIP64 moves to the extra field when they do not fit.
struct Wide {
    size: u64,
    compressed: u64,
    offset: u64,
    disk: u32,
}

impl Wide {
    /// Each value that is all ones is replaced by the next one of the extra field, in this order.
    fn read(zip64: Option<&[u8]>, size: u32, compressed: u32, offset: u32, disk: u16) -> Result<Self, ArchiveError> {
        let mut at = 0;
        let mut next = |value: u32| match (value, zip64) {
            (u32::MAX, Some(extra)) => {
                let long = Fields(extra).u64(at);
                at += 8;
                long.ok_or(ArchiveError::Damaged("a ZIP64 field is too short"))
            }
            _ => Ok(u64::from(value)),
        };
        let (size, compressed, offset) = (next(size)?, next(compressed)?, next(offset)?);
        let disk = match (disk, zip64) {
            (u16::MAX, Some(extra)) => Fields(extra)
                .u32(at)
                .ok_or(ArchiveError::Damaged("a ZIP64 field is too short"))?,
            _ => u32::from(disk),
        };
        Ok(Self {
            size,
            compressed,
            offset,
            disk,
        })
    }
}

struct Extras<'a> {
    zip64: Option<&'a [u8]>,
    unicode: Option<&'a str>,
}

/// The two extra fields that matter here; the first of each kind counts. Rubbish at the end is common and ignored.
fn extras<'a>(extra: &'a [u8], raw_name: &[u8]) -> Extras<'a> {
    let fields = Fields(extra);
    let mut out = Extras {
        zip64: None,
        unicode: None,
    };
    let mut at = 0;
    while let (Some(id), Some(len)) = (fields.u16(at), fields.u16(at + 2)) {
        let Some(content) = fields.slice(at + 4, u64::from(len)) else {
            break;
        };
        match (id, content) {
            (0x0001, _) => out.zip64 = out.zip64.or(Some(content)),
            // Version 1, the checksum of the name that it replaces, the name.
            (0x7075, [1, a, b, c, d, name @ ..])
                if u32::from_le_bytes([*a, *b, *c, *d]) == crc32fast::hash(raw_name) =>
            {
                out.unicode = out.unicode.or(std::str::from_utf8(name).ok());
            }
            _ => {}
        }
        at += 4 + u64::from(len);
    }
    out
}

/// Where the data of an entry is, and what the entry takes of the file with its local header.
#[expect(clippy::type_complexity, reason = "two ranges that are there or not together")]
fn data(file: Fields, wide: &Wide, end: &End) -> Result<(Option<Range<usize>>, Option<Range<u64>>), ArchiveError> {
    let header = end.prefix.checked_add(wide.offset);
    let Some(header) = header.filter(|at| file.u32(*at) == Some(LOCAL)) else {
        return Ok((None, None));
    };
    let (Some(name), Some(extra)) = (file.u16(header + 26), file.u16(header + 28)) else {
        return Ok((None, None));
    };
    let start = header + LOCAL_LEN + u64::from(name) + u64::from(extra);
    let stop = start
        .checked_add(wide.compressed)
        .filter(|stop| *stop <= end.start)
        .ok_or(ArchiveError::Hostile("an entry reaches into the directory"))?;
    let (Ok(from), Ok(to)) = (usize::try_from(start), usize::try_from(stop)) else {
        return Ok((None, None));
    };
    Ok((Some(from..to), Some(header..stop)))
}

/// No byte belongs to two entries. A bomb that quotes the same data many times is refused here, before inflating.
fn apart(rows: &[Row], end: &End) -> Result<(), ArchiveError> {
    let mut taken: Vec<Range<u64>> = rows.iter().filter_map(|row| row.takes.clone()).collect();
    taken.sort_by_key(|range| range.start);
    let mut from = end.prefix;
    for range in taken {
        if range.start < from {
            return Err(ArchiveError::Hostile("two entries share the same bytes"));
        }
        from = range.end;
    }
    Ok(())
}

/// Mode bits of what is neither a plain file nor a folder.
fn special(mode: u32) -> bool {
    !matches!(mode & 0o170_000, 0 | 0o100_000 | 0o040_000)
}

/// Names the rows, and drops those that must not be seen.
fn keep(rows: Vec<Row>) -> Result<Judged, ArchiveError> {
    let mut dropped = Dropped::default();
    let mut links: HashSet<String> = HashSet::new();
    let mut named = Vec::with_capacity(rows.len());
    for row in rows {
        let decoded = row.unicode.map_or_else(|| name::decode(row.raw_name), Into::into);
        if decoded == "./" {
            continue; // The root itself: some programs write it, and it is no entry.
        }
        let Some(name) = name::inside(&decoded) else {
            dropped.escaping += 1;
            continue;
        };
        if special(row.mode) {
            dropped.links += 1;
            links.insert(name.trim_end_matches('/').to_owned());
            continue;
        }
        let mut place = row.place;
        place.entry.is_dir = name.ends_with('/') || (row.mode & 0o170_000 == 0o040_000 && place.entry.size == 0);
        let mut name = name.to_owned();
        if place.entry.is_dir && !name.ends_with('/') {
            name.push('/');
        }
        named.push((name, place));
    }
    let mut judged = Judged {
        names: Vec::with_capacity(named.len()),
        places: Vec::with_capacity(named.len()),
        dropped,
    };
    let mut seen: HashSet<String> = HashSet::with_capacity(named.len());
    for (name, place) in named {
        let through_link = name.match_indices('/').any(|(at, _)| links.contains(&name[..at]));
        if through_link {
            judged.dropped.links += 1;
        } else if !seen.insert(name.trim_end_matches('/').to_owned()) {
            judged.dropped.duplicates += 1;
        } else {
            judged.names.push(name);
            judged.places.push(place);
        }
    }
    Ok(judged)
}
