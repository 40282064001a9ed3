//! What kind of picture some bytes are, by content alone.

/// The kinds of pictures that apps may keep and show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Png,
    Jpeg,
    Webp,
    Gif,
}

impl Kind {
    /// `"png"`, `"jpeg"`, `"webp"` or `"gif"`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Webp => "webp",
            Self::Gif => "gif",
        }
    }

    /// The ending of a file of this kind, `"jpg"` for JPEG.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Jpeg => "jpg",
            other => other.name(),
        }
    }

    /// The media type, `"image/png"` and so on.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Webp => "image/webp",
            Self::Gif => "image/gif",
        }
    }
}

/// A picture's kind and size in pixels, both at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Picture {
    pub kind: Kind,
    pub width: u32,
    pub height: u32,
}

/// What kind of picture the bytes are and how large it is, from its first structures: signature and header of PNG and
/// GIF, the segments of a JPEG up to its frame, the first chunk of a WebP. Nothing is decoded: the rest of the file may
/// be damaged. Nothing for anything else, and for pictures of no width or height.
pub fn sniff(bytes: &[u8]) -> Option<Picture> {
    let (kind, width, height) = match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', rest @ ..] => png(rest).map(|(w, h)| (Kind::Png, w, h)),
        [0xff, 0xd8, rest @ ..] => jpeg(rest).map(|(w, h)| (Kind::Jpeg, w, h)),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', rest @ ..] => gif(rest).map(|(w, h)| (Kind::Gif, w, h)),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', rest @ ..] => {
            webp(rest).map(|(w, h)| (Kind::Webp, w, h))
        }
        _ => None,
    }?;
    (width > 0 && height > 0).then_some(Picture { kind, width, height })
}

fn be16(bytes: &[u8], at: usize) -> Option<u32> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(u32::from(two[0]) << 8 | u32::from(two[1]))
}

fn le16(bytes: &[u8], at: usize) -> Option<u32> {
    be16(bytes, at).map(|value| (value >> 8) | (value & 0xff) << 8)
}

fn png(rest: &[u8]) -> Option<(u32, u32)> {
    let (start, header) = rest.split_first_chunk::<8>()?;
    if start != b"\0\0\0\x0dIHDR" || header.len() < 13 {
        return None;
    }
    let be32 = |at| Some(be16(header, at)? << 16 | be16(header, at + 2)?);
    let (width, height) = (be32(0)?, be32(4)?);
    // Above this the specification has no pictures.
    (width < 1 << 31 && height < 1 << 31).then_some((width, height))
}

fn gif(rest: &[u8]) -> Option<(u32, u32)> {
    Some((le16(rest, 0)?, le16(rest, 2)?))
}

/// Segments are `FF`, marker, length with itself; the frame header has precision, height, width.
fn jpeg(rest: &[u8]) -> Option<(u32, u32)> {
    let mut at = 0;
    loop {
        if *rest.get(at)? != 0xff {
            return None;
        }
        let marker = *rest.get(at + 1)?;
        match marker {
            // Filling before a marker.
            0xff => at += 1,
            // A frame, of any of the codings; C4, C8 and CC are tables and reserved.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((be16(rest, at + 7)?, be16(rest, at + 5)?));
            }
            // The scan or the end before any frame, and markers that stand alone.
            0x00 | 0x01 | 0xd0..=0xda => return None,
            _ => {
                let len = usize::try_from(be16(rest, at + 2)?).ok()?;
                if len < 2 {
                    return None;
                }
                at = at.checked_add(2 + len)?;
            }
        }
    }
}

/// The container's first chunk: lossy, lossless, or extended with the canvas in 24 bits less one.
fn webp(rest: &[u8]) -> Option<(u32, u32)> {
    let (kind, rest) = rest.split_first_chunk::<4>()?;
    let data = rest.get(4..)?;
    match kind {
        b"VP8 " => {
            let start = data.get(3..6)?;
            (start == [0x9d, 0x01, 0x2a]).then_some(())?;
            Some((le16(data, 6)? & 0x3fff, le16(data, 8)? & 0x3fff))
        }
        b"VP8L" => {
            (*data.first()? == 0x2f).then_some(())?;
            let bits = le16(data, 1)? | le16(data, 3)? << 16;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => {
            let wide = |at| Some((le16(data, at)? | u32::from(*data.get(at + 2)?) << 16) + 1);
            Some((wide(4)?, wide(7)?))
        }
        _ => None,
    }
}
