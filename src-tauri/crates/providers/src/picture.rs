//! Images in messages: small pictures in the request itself. A web address is never handed on, for the provider would
//! fetch it: whoever may ask a model could then reach any server without a permission for it.

use std::borrow::Cow;

use base64::Engine as _;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Largest image, in bytes of base64; the strictest provider takes 5 MiB of image. Most images of one message.
const MAX_BASE64: usize = 14 << 20;
pub(crate) const MAX_PICTURES: usize = 20;

/// An image of a message, or the address of an asset that has to be put in its place first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Picture {
    /// The bytes in base64, and the type that they show.
    Inline { mime: &'static str, base64: String },
    /// `/v1/assets/<id>`.
    Asset(String),
}

/// The kinds that providers take, by their first bytes.
pub(crate) fn kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

impl Picture {
    /// An image's bytes. The type is decided by them.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        let mime = kind(bytes).ok_or("an image of a message must be a PNG, JPEG, GIF or WebP picture")?;
        Self::sized(mime, base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    fn sized(mime: &'static str, base64: String) -> Result<Self, String> {
        match base64.len() > MAX_BASE64 {
            true => Err(format!(
                "an image of a message has at most {} MiB as base64",
                MAX_BASE64 >> 20
            )),
            false => Ok(Self::Inline { mime, base64 }),
        }
    }

    /// Reads `data:image/…;base64,…` or `/v1/assets/<id>`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(id) = text.strip_prefix("/v1/assets/") {
            let fits =
                (1..=200).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
            return match fits {
                true => Ok(Self::Asset(id.to_owned())),
                false => Err("an image's asset is /v1/assets/<id>".into()),
            };
        }
        let Some((_, base64)) = text
            .strip_prefix("data:")
            .and_then(|rest| rest.split_once(','))
            .filter(|(head, _)| head.ends_with(";base64"))
        else {
            return Err(
                "an image of a message is a data: address with base64, or /v1/assets/<id>; addresses elsewhere are not \
                 handed on to providers"
                    .into(),
            );
        };
        let base64: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let bad = |_| "an image's base64 cannot be read".to_owned();
        let engine = base64::engine::general_purpose::STANDARD;
        let bytes = engine.decode(base64.as_bytes()).map_err(bad)?;
        let mime = kind(&bytes).ok_or("an image of a message must be a PNG, JPEG, GIF or WebP picture")?;
        Self::sized(mime, base64)
    }

    /// Bytes of its base64; 0 for an asset that was not put in.
    pub fn size(&self) -> usize {
        self.inline().map_or(0, |(_, base64)| base64.len())
    }

    /// `data:image/png;base64,…`; `None` for an asset that was not put in.
    pub(crate) fn data_url(&self) -> Option<String> {
        match self {
            Self::Inline { mime, base64 } => Some(format!("data:{mime};base64,{base64}")),
            Self::Asset(_) => None,
        }
    }

    /// Type and base64; `None` for an asset that was not put in.
    pub(crate) fn inline(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Inline { mime, base64 } => Some((mime, base64)),
            Self::Asset(_) => None,
        }
    }

    /// The images among a message's parts, in the ways apps write them.
    pub(crate) fn of_part(part: &Value) -> Option<Result<Self, String>> {
        let kind = part.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("image_url" | "image" | "input_image")) {
            return None;
        }
        let places = ["/image_url/url", "/image_url", "/url", "/dataUrl", "/source/url"];
        if let Some(text) = places.iter().find_map(|at| part.pointer(at)?.as_str()) {
            return Some(Self::parse(text));
        }
        // Anthropic's own form, and that of the Model Context Protocol.
        let data = ["/source/data", "/data"]
            .iter()
            .find_map(|at| part.pointer(at)?.as_str());
        Some(match data {
            Some(data) => Self::parse(&format!("data:;base64,{data}")),
            None => Err("an image among a message's parts has no url".into()),
        })
    }
}

impl JsonSchema for Picture {
    fn schema_name() -> Cow<'static, str> {
        "Image".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A PNG, JPEG, GIF or WebP picture: a data: address with base64, or /v1/assets/<id>.",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
            ],
        })
    }
}

impl Serialize for Picture {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Inline { mime, base64 } => serializer.serialize_str(&format!("data:{mime};base64,{base64}")),
            Self::Asset(id) => serializer.serialize_str(&format!("/v1/assets/{id}")),
        }
    }
}

impl<'de> Deserialize<'de> for Picture {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let text = value
            .as_str()
            .or_else(|| ["url", "dataUrl"].iter().find_map(|name| value.get(*name)?.as_str()));
        let text = text.ok_or_else(|| serde::de::Error::custom("an image is an address, or {url}"))?;
        Self::parse(text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

    #[test]
    fn only_pictures_that_are_here() {
        assert!(matches!(
            Picture::parse(PNG),
            Ok(Picture::Inline { mime: "image/png", .. })
        ));
        // What it says it is does not count.
        assert_eq!(
            Picture::parse("data:text/html;base64,R0lGODlh")
                .unwrap()
                .data_url()
                .as_deref(),
            Some("data:image/gif;base64,R0lGODlh")
        );
        assert_eq!(Picture::parse("/v1/assets/a-1"), Ok(Picture::Asset("a-1".into())));
        for bad in [
            "https://example.com/a.png",
            "http://127.0.0.1/a.png",
            "file:///etc/passwd",
            "//example.com/a",
            "/v1/assets/../settings",
            "/v1/assets/",
            "data:image/png,abc",
            "data:image/png;base64,*",
            "data:image/svg+xml;base64,PHN2Zz4=",
            "",
        ] {
            assert!(Picture::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_as_apps_write_them() {
        for part in [
            json!({"type": "image_url", "image_url": {"url": PNG}}),
            json!({"type": "image_url", "image_url": PNG}),
            json!({"type": "input_image", "image_url": PNG}),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}),
            json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}),
        ] {
            assert!(
                matches!(Picture::of_part(&part), Some(Ok(Picture::Inline { .. }))),
                "{part}"
            );
        }
        assert!(Picture::of_part(&json!({"type": "text", "text": "x"})).is_none());
        assert!(matches!(Picture::of_part(&json!({"type": "image"})), Some(Err(_))));
    }
}
