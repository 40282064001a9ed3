//! Zip files made by hand, so that every field can lie.

#![allow(dead_code, reason = "each test file uses its part")]

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One entry: what lies in the file, and what the directory says of it.
#[derive(Clone)]
pub struct Item {
    pub name: Vec<u8>,
    pub data: Vec<u8>,
    pub method: u16,
    pub flags: u16,
    pub crc: u32,
    pub size: u64,
    pub compressed: u64,
    pub mode: u32,
    pub extra: Vec<u8>,
    /// Where the directory says that the local header is, instead of where it is.
    pub offset: Option<u64>,
    /// Write sizes and offset as ZIP64.
    pub wide: bool,
}

pub fn stored(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    let content = content.as_ref();
    Item {
        name: name.as_ref().to_vec(),
        data: content.to_vec(),
        method: 0,
        flags: 0,
        crc: crc32fast::hash(content),
        size: content.len() as u64,
        compressed: content.len() as u64,
        mode: 0,
        extra: Vec::new(),
        offset: None,
        wide: false,
    }
}

pub fn deflated(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Item {
    let data = deflate(content.as_ref());
    Item {
        method: 8,
        compressed: data.len() as u64,
        data,
        ..stored(name, content)
    }
}

pub fn link(name: &str, target: &str) -> Item {
    Item {
        mode: 0o120_777,
        ..stored(name, target)
    }
}

/// What the end records say, where it is not the truth.
#[derive(Clone, Default)]
pub struct End {
    pub entries: Option<u64>,
    pub len: Option<u64>,
    pub offset: Option<u64>,
    pub disk: u16,
    pub comment: Vec<u8>,
    pub wide: bool,
}

pub fn zip(items: &[Item]) -> Vec<u8> {
    zip_with(items, &End::default())
}

pub fn zip_with(items: &[Item], end: &End) -> Vec<u8> {
    let mut out = Vec::new();
    let mut directory = Vec::new();
    for item in items {
        let header = item.offset.unwrap_or(out.len() as u64);
        local(&mut out, item);
        row(&mut directory, item, header);
    }
    let offset = end.offset.unwrap_or(out.len() as u64);
    let len = end.len.unwrap_or(directory.len() as u64);
    let entries = end.entries.unwrap_or(items.len() as u64);
    out.extend(directory);
    if end.wide {
        let record = out.len() as u64;
        out.extend(0x0606_4b50u32.to_le_bytes());
        out.extend(44u64.to_le_bytes());
        out.extend([45, 0, 45, 0]);
        out.extend([0; 8]);
        out.extend(entries.to_le_bytes());
        out.extend(entries.to_le_bytes());
        out.extend(len.to_le_bytes());
        out.extend(offset.to_le_bytes());
        out.extend(0x0706_4b50u32.to_le_bytes());
        out.extend(0u32.to_le_bytes());
        out.extend(record.to_le_bytes());
        out.extend(1u32.to_le_bytes());
    }
    let short = |value: u64| if end.wide { u16::MAX } else { value as u16 };
    let long = |value: u64| if end.wide { u32::MAX } else { value as u32 };
    out.extend(0x0605_4b50u32.to_le_bytes());
    out.extend(end.disk.to_le_bytes());
    out.extend(end.disk.to_le_bytes());
    out.extend(short(entries).to_le_bytes());
    out.extend(short(entries).to_le_bytes());
    out.extend(long(len).to_le_bytes());
    out.extend(long(offset).to_le_bytes());
    out.extend((end.comment.len() as u16).to_le_bytes());
    out.extend(&end.comment);
    out
}

fn local(out: &mut Vec<u8>, item: &Item) {
    out.extend(0x0403_4b50u32.to_le_bytes());
    out.extend(20u16.to_le_bytes());
    out.extend(item.flags.to_le_bytes());
    out.extend(item.method.to_le_bytes());
    out.extend([0; 4]);
    out.extend(item.crc.to_le_bytes());
    out.extend((item.compressed as u32).to_le_bytes());
    out.extend((item.size as u32).to_le_bytes());
    out.extend((item.name.len() as u16).to_le_bytes());
    out.extend(0u16.to_le_bytes());
    out.extend(&item.name);
    out.extend(&item.data);
}

fn row(out: &mut Vec<u8>, item: &Item, header: u64) {
    let mut extra = item.extra.clone();
    if item.wide {
        extra.extend([1, 0, 24, 0]);
        extra.extend(item.size.to_le_bytes());
        extra.extend(item.compressed.to_le_bytes());
        extra.extend(header.to_le_bytes());
    }
    let long = |value: u64| if item.wide { u32::MAX } else { value as u32 };
    out.extend(0x0201_4b50u32.to_le_bytes());
    out.extend([20, 3, 20, 0]);
    out.extend(item.flags.to_le_bytes());
    out.extend(item.method.to_le_bytes());
    out.extend([0; 4]);
    out.extend(item.crc.to_le_bytes());
    out.extend(long(item.compressed).to_le_bytes());
    out.extend(long(item.size).to_le_bytes());
    out.extend((item.name.len() as u16).to_le_bytes());
    out.extend((extra.len() as u16).to_le_bytes());
    out.extend([0; 6]);
    out.extend((item.mode << 16).to_le_bytes());
    out.extend(long(header).to_le_bytes());
    out.extend(&item.name);
    out.extend(&extra);
}
