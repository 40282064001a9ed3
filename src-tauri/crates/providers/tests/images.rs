//! Pictures: what is asked, and where answers have them.

mod common;

use common::*;
use providers::{ImageRequest, ProviderErrorKind, image};
use serde_json::json;

/// The first bytes of a PNG, in base64.
const PNG: &str = "iVBORw0KGgo=";

fn wanted(model: &str) -> ImageRequest<'_> {
    ImageRequest {
        prompt: "a moth",
        model,
        size: Some("512x512"),
        quality: None,
    }
}

#[tokio::test]
async fn wherever_an_answer_has_its_picture() {
    let data = format!("data:image/jpeg;base64,{PNG}");
    for (body, cost) in [
        (json!({"data": [{"b64_json": PNG}]}), None),
        (json!({"data": [{"b64_json": data}]}), None),
        (json!({"data": [{"url": data}]}), None),
        (json!({"images": [{"url": data}]}), None),
        (json!({"images": [PNG]}), None),
        (
            json!({"data": [{"b64_json": PNG}], "usage": {"cost": 0.25}}),
            Some(0.25),
        ),
        (json!({"data": [{"b64_json": PNG}], "usage": {"cost": -1}}), None),
    ] {
        let server = Server::with(reply("200 OK", "text/html", body.to_string())).await;
        let made = image(&context(), &net(), &server.endpoint(), &wanted("c_test/flux"))
            .await
            .unwrap();
        assert_eq!(
            (made.mime, made.bytes.len(), made.cost),
            ("image/png", 8, cost),
            "{body}"
        );
        let want = json!({"model": "flux", "prompt": "a moth", "n": 1, "size": "512x512"});
        assert_eq!(
            (server.paths(), server.bodies()),
            (vec!["/v1/images/generations".to_owned()], vec![want])
        );
    }
    let server = Server::with(json_reply("200 OK", json!({"data": [{"b64_json": PNG}]}))).await;
    image(&context(), &net(), &server.endpoint(), &wanted("dall-e-3"))
        .await
        .unwrap();
    assert_eq!(server.bodies()[0]["response_format"], "b64_json");
}

#[tokio::test]
async fn openrouter_makes_them_in_an_answer() {
    let data = format!("data:image/png;base64,{PNG}");
    let message = json!({"content": "Here.", "images": [{"image_url": {"url": data}}]});
    let body = json!({"choices": [{"message": message}], "usage": {"cost": 0.03}});
    let server = Server::with(json_reply("200 OK", body)).await;
    let mut endpoint = server.endpoint();
    endpoint.preset = Some("openrouter".into());
    let made = image(&context(), &net(), &endpoint, &wanted("g/x-image"))
        .await
        .unwrap();
    assert_eq!((made.mime, made.cost), ("image/png", Some(0.03)));
    assert_eq!(server.paths(), ["/v1/chat/completions"]);
    assert_eq!(server.bodies()[0]["modalities"], json!(["image", "text"]));

    let body = json!({"choices": [{"message": {"content": "I would rather not."}}]});
    let server = Server::with(json_reply("200 OK", body)).await;
    endpoint.base_url = server.endpoint().base_url;
    let error = image(&context(), &net(), &endpoint, &wanted("g/x-image"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Refused);
    assert!(error.to_string().contains("rather not"), "{error}");
}

#[tokio::test]
async fn one_that_is_too_large_or_cut_off() {
    let server = Server::with(json_reply(
        "200 OK",
        json!({"data": [{"b64_json": "A".repeat(48 << 20)}]}),
    ))
    .await;
    let error = image(&context(), &net(), &server.endpoint(), &wanted("flux"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("larger than") && !error.unpaid, "{error}");

    let head = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\nConnection: close\r\n\r\n{\"data\": [";
    let cut = Reply {
        pieces: vec![head.into()],
        hold: false,
    };
    let server = Server::with(cut).await;
    let error = image(&context(), &net(), &server.endpoint(), &wanted("flux"))
        .await
        .unwrap_err();
    assert!(error.kind == ProviderErrorKind::Network && !error.unpaid, "{error:?}");
}

#[tokio::test]
async fn what_was_never_asked_is_not_paid() {
    let server = Server::with(reply("302 Found\r\nLocation: http://127.0.0.1:9/", "text/plain", "")).await;
    let error = image(&context(), &net(), &server.endpoint(), &wanted("flux"))
        .await
        .unwrap_err();
    assert!(error.unpaid && error.to_string().contains("redirect"), "{error:?}");
    // On this machine, and not the server itself.
    let body = json!({"data": [{"url": "http://127.0.0.1:9/x.png"}]});
    let server = Server::with(json_reply("200 OK", body)).await;
    let error = image(&context(), &net(), &server.endpoint(), &wanted("flux"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("refused by Chrysalis"), "{error}");
}
