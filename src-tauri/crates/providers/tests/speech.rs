//! Speech and voices.

mod common;

use std::time::{Duration, Instant};

use common::*;
use providers::{ProviderErrorKind, SoundFormat, SpeechRequest, speech, voices};
use serde_json::json;

fn wanted(text: &str) -> SpeechRequest<'_> {
    SpeechRequest {
        text,
        model: "c_test/tts-1",
        voice: "alloy",
        speed: Some(1.0),
        format: SoundFormat::Mp3,
    }
}

#[tokio::test]
async fn the_type_is_that_of_the_bytes() {
    for (bytes, want) in [
        (&b"ID3\x04 and so on"[..], "audio/mpeg"),
        (b"\xff\xfb\x90\x64 and so on", "audio/mpeg"),
        (b"OggS and so on", "audio/ogg"),
        (b"\x1a\x45\xdf\xa3 and so on", "audio/webm"),
        (b"fLaC and so on", "audio/flac"),
    ] {
        let server = Server::with(reply("200 OK", "text/html", bytes)).await;
        let sound = speech(&context(), &net(), &server.endpoint(), &wanted("hi"))
            .await
            .unwrap();
        assert_eq!((sound.mime, sound.bytes.as_slice()), (want, bytes));
        let body = json!({"model": "tts-1", "input": "hi", "voice": "alloy", "response_format": "mp3"});
        assert_eq!(
            (server.paths(), server.bodies()),
            (vec!["/v1/audio/speech".to_owned()], vec![body])
        );
    }
}

#[tokio::test]
async fn what_is_too_much_is_not_sent() {
    let server = Server::with(reply("200 OK", "audio/mpeg", "ID3")).await;
    let long = "x".repeat(4001);
    let fast = SpeechRequest {
        speed: Some(4.1),
        ..wanted("hi")
    };
    for bad in [wanted(&long), fast] {
        let error = speech(&context(), &net(), &server.endpoint(), &bad).await.unwrap_err();
        assert_eq!(error.kind, ProviderErrorKind::Unusable);
    }
    assert!(server.paths().is_empty());
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let silent = Reply {
        pieces: vec![],
        hold: true,
    };
    let server = Server::with(silent).await;
    let context = context().within(Duration::from_millis(200));
    let began = Instant::now();
    let error = speech(&context, &net(), &server.endpoint(), &wanted("hi"))
        .await
        .unwrap_err();
    assert!(error.kind == ProviderErrorKind::Stalled && !error.unpaid, "{error:?}");
    assert!(began.elapsed() < PATIENCE);
}

#[tokio::test]
async fn voices_that_are_listed_and_those_that_are_known() {
    let list = |reply| async {
        let server = Server::with(reply).await;
        voices(&context(), &net(), &server.endpoint()).await
    };
    let listed = list(json_reply("200 OK", json!({"voices": ["af_bella"]})))
        .await
        .unwrap();
    assert_eq!((listed.len(), listed[0].id.as_str()), (1, "af_bella"));
    for nothing in [
        json_reply("404 Not Found", json!({"detail": "Not Found"})),
        reply("200 OK", "text/html", "<html>"),
        reply("200 OK", "application/json", "[}"),
        json_reply("200 OK", json!({"voices": []})),
    ] {
        let known = list(nothing).await.unwrap();
        assert!(known.iter().any(|voice| voice.id == "alloy"), "{known:?}");
    }
    let wrong = list(json_reply("401 Unauthorized", json!({"error": "key"})))
        .await
        .unwrap_err();
    assert_eq!(wrong.kind, ProviderErrorKind::Key);
}
