//! Reading aloud.

use std::time::Duration;

use http::Method;
use net::Net;
use policy::CallContext;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::{Blame, error_in};
use crate::media::{Bounds, ask, json as read_json, openai_side, sound_kind};
use crate::{Endpoint, ProviderError, ProviderErrorKind};

/// How long reading may take, and the largest sound accepted in bytes (contract section 4.4).
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_SOUND: usize = 20 << 20;
/// Longest text, in characters (contract section 4.4).
pub const MAX_SPEECH: usize = 4000;
/// How long a list of voices may take, its bytes, and how many are kept.
const VOICES_PATIENCE: Duration = Duration::from_secs(10);
const MAX_VOICES_ANSWER: usize = 1 << 20;
const MAX_VOICES: usize = 1000;
/// Longest name of a voice, in characters (contract section 6).
pub const MAX_VOICE: usize = 60;
/// The voices of OpenAI's own speech models, for servers that have no list: most take these names.
const KNOWN: [&str; 11] = [
    "alloy", "ash", "ballad", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer", "verse",
];

/// How a sound is to be packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SoundFormat {
    #[default]
    Mp3,
    /// Opus, in whatever the server puts it: mostly Ogg.
    Webm,
    Wav,
}

impl SoundFormat {
    /// Reads `mp3`, `webm` or `wav`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "mp3" => Some(Self::Mp3),
            "webm" => Some(Self::Webm),
            "wav" => Some(Self::Wav),
            _ => None,
        }
    }

    fn asked(self) -> &'static str {
        match self {
            Self::Mp3 => "mp3",
            Self::Webm => "opus",
            Self::Wav => "wav",
        }
    }
}

/// A text to be read.
#[derive(Debug, Clone, Copy)]
pub struct SpeechRequest<'a> {
    /// At most 4000 characters.
    pub text: &'a str,
    /// A bare id, or with the connection in front.
    pub model: &'a str,
    pub voice: &'a str,
    /// From 0.25 to 4; 1 is left out.
    pub speed: Option<f64>,
    pub format: SoundFormat,
}

/// A text that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sound {
    pub bytes: Vec<u8>,
    /// What the bytes are: MP3, Ogg, WebM, WAV or FLAC.
    pub mime: &'static str,
    /// How long it is in milliseconds, where that can be told without decoding it.
    pub ms: Option<u64>,
}

/// Has a text read, within 60 seconds and 20 MiB.
pub async fn speech(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    request: &SpeechRequest<'_>,
) -> Result<Sound, ProviderError> {
    let model = endpoint.bare(request.model);
    let blame = Blame {
        name: endpoint.name.clone(),
        model: Some(model.to_owned()),
        key: endpoint.key.clone(),
    };
    let unusable = |what: String| Err(blame.error(ProviderErrorKind::Unusable, what));
    if request.text.chars().count() > MAX_SPEECH {
        return unusable(format!("reads at most {MAX_SPEECH} characters at once"));
    }
    if request.speed.is_some_and(|speed| !(0.25..=4.0).contains(&speed)) {
        return unusable("reads at a speed from 0.25 to 4".into());
    }
    let mut question = json!({
        "model": model, "input": request.text, "voice": request.voice, "response_format": request.format.asked(),
    });
    if let Some(speed) = request.speed.filter(|speed| *speed != 1.0) {
        question["speed"] = speed.into();
    }
    let bounds = Bounds {
        patience: PATIENCE,
        most: MAX_SOUND,
    };
    let what = (Method::POST, "audio/speech", "speech");
    let whole = ask(ctx, net, &openai_side(endpoint), &blame, what, Some(&question), bounds).await?;
    let Some(mime) = sound_kind(&whole.body) else {
        if let Ok(value) = serde_json::from_slice::<Value>(&whole.body) {
            return Err(match error_in(&value) {
                Some(_) => blame.in_answer(&value, &whole.url),
                None => blame.unreadable(&value.to_string(), &whole.url),
            });
        }
        let what = "sent something that is no MP3, Ogg, WebM, WAV or FLAC sound";
        return Err(blame.unexpected(what, &whole.url));
    };
    let ms = wav_length(&whole.body);
    Ok(Sound {
        bytes: whole.body,
        mime,
        ms,
    })
}

/// The length of a WAV sound by its own word for how many bytes a second has.
fn wav_length(bytes: &[u8]) -> Option<u64> {
    if sound_kind(bytes) != Some("audio/wav") || bytes.get(12..16)? != b"fmt " {
        return None;
    }
    let rate = u32::from_le_bytes(bytes.get(28..32)?.try_into().ok()?);
    let sound = bytes.len().saturating_sub(44) as u64;
    (rate >= 1000).then(|| sound * 1000 / u64::from(rate))
}

/// Whether a model reads aloud, by its id: lists rarely say.
pub fn speaks(id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    let mut words = id.split(|c: char| !c.is_ascii_alphanumeric());
    ["kokoro", "text-to-speech", "orpheus", "piper"]
        .iter()
        .any(|name| id.contains(name))
        || words.any(|word| word == "tts")
}

/// A voice to read with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Voice {
    /// As the server wants it back.
    pub id: String,
    pub name: String,
}

/// The voices that a server lists at `audio/voices`, within ten seconds; where it has no such page, the names of OpenAI's.
pub async fn voices(ctx: &CallContext, net: &Net, endpoint: &Endpoint) -> Result<Vec<Voice>, ProviderError> {
    let blame = Blame {
        name: endpoint.name.clone(),
        model: None,
        key: endpoint.key.clone(),
    };
    let bounds = Bounds {
        patience: VOICES_PATIENCE,
        most: MAX_VOICES_ANSWER,
    };
    let what = (Method::GET, "audio/voices", "voices");
    let whole = match ask(ctx, net, &openai_side(endpoint), &blame, what, None, bounds).await {
        Ok(whole) => whole,
        // There is no such page, or what is there is for people.
        Err(error)
            if error
                .status
                .is_some_and(|status| matches!(status, 400..=499) && status != 401) =>
        {
            return Ok(known());
        }
        Err(error) if error.kind == ProviderErrorKind::NotTheApi => return Ok(known()),
        Err(error) => return Err(error),
    };
    let Ok(value) = read_json(&blame, &whole) else {
        return Ok(known());
    };
    let found = read_voices(&value);
    Ok(if found.is_empty() { known() } else { found })
}

fn known() -> Vec<Voice> {
    let voice = |id: &str| Voice {
        id: id.to_owned(),
        name: id.to_owned(),
    };
    KNOWN.into_iter().map(voice).collect()
}

fn read_voices(value: &Value) -> Vec<Voice> {
    let lists = [value.get("voices"), value.get("data"), Some(value)];
    let Some(list) = lists.into_iter().flatten().find_map(Value::as_array) else {
        return Vec::new();
    };
    let mut found: Vec<Voice> = Vec::new();
    for entry in list {
        let text = |names: &[&str]| names.iter().find_map(|name| entry.get(*name)?.as_str());
        let id = entry.as_str().or_else(|| text(&["id", "voice_id", "voice", "name"]));
        let fits = |id: &&str| !id.is_empty() && id.chars().count() <= MAX_VOICE && !id.chars().any(char::is_control);
        let Some(id) = id.filter(fits) else { continue };
        if found.iter().any(|voice| voice.id == id) {
            continue;
        }
        let name = text(&["name"]).filter(fits).unwrap_or(id);
        found.push(Voice {
            id: id.to_owned(),
            name: name.to_owned(),
        });
        if found.len() == MAX_VOICES {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voices_as_servers_list_them() {
        let ids = |value: Value| {
            read_voices(&value)
                .into_iter()
                .map(|voice| voice.id)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            ids(json!({"voices": ["af_bella", "af_sky", "af_bella"]})),
            ["af_bella", "af_sky"]
        );
        assert_eq!(
            ids(json!({"voices": [{"id": "a", "name": "Anna"}, {"voice_id": "b"}, {"name": "c"}, {}, 5, "", "x\ny"]})),
            ["a", "b", "c"]
        );
        assert_eq!(ids(json!([{"voice": "v"}])), ["v"]);
        assert_eq!(
            read_voices(&json!({"voices": [{"id": "a", "name": "Anna"}]}))[0].name,
            "Anna"
        );
        assert!(ids(json!({"detail": "no"})).is_empty() && ids(json!(["v".repeat(61)])).is_empty());
    }

    #[test]
    fn how_long_a_wave_is() {
        let mut wave = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        wave.extend_from_slice(&8000u32.to_le_bytes());
        wave.extend_from_slice(&16_000u32.to_le_bytes());
        wave.extend_from_slice(b"\x02\0\x10\0data\0\0\0\0");
        wave.extend_from_slice(&[0; 24_000]);
        assert_eq!(wav_length(&wave), Some(1500));
        assert_eq!(wav_length(&wave[..20]), None);
        assert_eq!(wav_length(b"ID3"), None);
    }

    #[test]
    fn which_models_speak() {
        for id in [
            "tts-1",
            "gpt-4o-mini-tts",
            "kokoro",
            "hexgrad/Kokoro-82M",
            "canopylabs/orpheus-3b",
        ] {
            assert!(speaks(id), "{id}");
        }
        for id in ["whisper-1", "gpt-4o", "potts", ""] {
            assert!(!speaks(id), "{id}");
        }
    }
}
