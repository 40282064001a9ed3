//! Archives and pictures, made byte by byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| {
            if c & 1 == 1 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 }
        })
    };
    !bytes.iter().fold(!0, step)
}

/// A zip archive of these entries, stored as they are.
pub fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut files, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in entries {
        let at = files.len() as u32;
        let size = (bytes.len() as u32).to_le_bytes();
        // From the version that is needed to the length of the extra field; both headers have it.
        let mut common = vec![20, 0, 0, 8, 0, 0, 0, 0, 0x21, 0];
        common.extend_from_slice(&crc(bytes).to_le_bytes());
        common.extend_from_slice(&size);
        common.extend_from_slice(&size);
        common.extend_from_slice(&(name.len() as u16).to_le_bytes());
        common.extend_from_slice(&[0, 0]);
        files.extend_from_slice(b"PK\x03\x04");
        files.extend_from_slice(&common);
        files.extend_from_slice(name.as_bytes());
        files.extend_from_slice(bytes);
        directory.extend_from_slice(b"PK\x01\x02\x14\0");
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let (at, length, count) = (files.len() as u32, directory.len() as u32, entries.len() as u16);
    files.extend_from_slice(&directory);
    files.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    files.extend_from_slice(&count.to_le_bytes());
    files.extend_from_slice(&count.to_le_bytes());
    files.extend_from_slice(&length.to_le_bytes());
    files.extend_from_slice(&at.to_le_bytes());
    files.extend_from_slice(&[0, 0]);
    files
}

/// A PNG of one pixel with these text chunks in it.
pub fn png(texts: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], body: &[u8]| {
        let whole = [kind.as_slice(), body].concat();
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&whole);
        bytes.extend_from_slice(&crc(&whole).to_be_bytes());
    };
    chunk(b"IHDR", &[0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0]);
    for (key, value) in texts {
        chunk(b"tEXt", &[key.as_bytes(), b"\0", value.as_bytes()].concat());
    }
    // One row of one grey byte, in a stored block of a zlib stream.
    chunk(b"IDAT", &[0x78, 0x01, 1, 2, 0, 0xfd, 0xff, 0, 0, 0, 2, 0, 1]);
    chunk(b"IEND", &[]);
    bytes
}

pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub fn data_uri(kind: &str, bytes: &[u8]) -> String {
    format!("data:image/{kind};base64,{}", base64(bytes))
}

/// The smallest GIF.
pub const GIF: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\x01D\0;";
