//! Pictures that plugins keep in their app's data folder: by their content, without the text that PNG files carry along.

use archive::{image, png};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use files::GuestFolder;
use policy::AppId;
use sha2::{Digest, Sha256};

/// Largest picture, in bytes (contract section 3.4).
pub const MEDIA_LIMIT: u64 = 64 << 20;
/// Where they are in the data folder.
pub const FOLDER: &str = "__media";

/// A picture ready to be kept.
#[derive(Debug)]
pub struct Picture {
    /// `<sha256>.<png|jpg|webp|gif>`: the same picture has the same name.
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Picture {
    /// Takes a PNG, JPEG, WebP or GIF for what its bytes are, whatever anyone calls it.
    pub fn of(bytes: Vec<u8>) -> Result<Self, String> {
        if bytes.len() as u64 > MEDIA_LIMIT {
            return Err(format!("the picture is larger than {} MiB", MEDIA_LIMIT >> 20));
        }
        let kind = image::sniff(&bytes)
            .ok_or("this is no PNG, JPEG, WebP or GIF picture")?
            .kind;
        let bytes = if kind == image::Kind::Png {
            png::strip_text(&bytes)
        } else {
            bytes
        };
        let name = format!("{}.{}", hex::encode(Sha256::digest(&bytes)), kind.ending());
        Ok(Self { name, bytes })
    }

    /// Reads `data:image/…;base64,…`.
    pub fn of_data_uri(text: &str) -> Result<Self, String> {
        let shape = "give a picture as data:image/png;base64,…";
        let (head, data) = text
            .strip_prefix("data:")
            .and_then(|rest| rest.split_once(','))
            .ok_or(shape)?;
        let mut words = head.split(';').map(str::trim);
        let picture = words
            .next()
            .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("image/"));
        if !picture || !words.any(|word| word.eq_ignore_ascii_case("base64")) {
            return Err(shape.into());
        }
        // Base64 is 4/3 of what it stands for.
        if data.len() as u64 > MEDIA_LIMIT / 3 * 4 + 1024 {
            return Err(format!("the picture is larger than {} MiB", MEDIA_LIMIT >> 20));
        }
        let plain: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let bytes = BASE64_STANDARD
            .decode(plain)
            .map_err(|e| format!("its base64 is damaged: {e}"))?;
        Self::of(bytes)
    }

    /// Its path in the data folder.
    pub fn path(&self) -> String {
        format!("{FOLDER}/{}", self.name)
    }

    /// Its address for the app's pages.
    pub fn url(&self, app: &AppId) -> String {
        format!("/v1/apps/{app}/{FOLDER}/{}", self.name)
    }

    /// Whether it is kept already.
    pub fn is_in(&self, folder: &GuestFolder) -> bool {
        folder
            .stat(&self.path())
            .is_ok_and(|stat| stat.size == self.bytes.len() as u64)
    }
}
