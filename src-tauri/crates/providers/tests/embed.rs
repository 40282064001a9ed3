//! Embeddings.

mod common;

use std::time::{Duration, Instant};

use common::*;
use providers::{MAX_TEXTS, ProviderErrorKind, embed};
use serde_json::json;

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("text {n}")).collect()
}

#[tokio::test]
async fn texts_are_cut_and_lists_put_in_order() {
    let body = json!({"data": [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]});
    let server = Server::with(json_reply("200 OK", body)).await;
    let long = vec!["日".repeat(9000), "b".into()];
    let got = embed(&context(), &net(), &server.endpoint(), None, &long)
        .await
        .unwrap();
    assert_eq!(got, [[1.0, 2.0], [3.0, 4.0]]);
    let sent = &server.bodies()[0];
    assert_eq!(sent["model"], "text-embedding-3-small");
    assert_eq!(sent["input"][0].as_str().unwrap().chars().count(), 8000);
    assert_eq!(server.paths(), ["/v1/embeddings"]);
    embed(&context(), &net(), &server.endpoint(), Some("c_test/bge"), &long)
        .await
        .unwrap();
    assert_eq!(server.bodies()[1]["model"], "bge");
    let none = embed(&context(), &net(), &server.endpoint(), None, &[]).await.unwrap();
    assert!(none.is_empty() && server.paths().len() == 2);
}

#[tokio::test]
async fn what_is_no_answer() {
    for (reply, want, said) in [
        (
            json_reply("200 OK", json!({"data": []})),
            ProviderErrorKind::NotTheApi,
            "0 embeddings for 1",
        ),
        (
            json_reply("200 OK", json!({"error": {"message": "no"}})),
            ProviderErrorKind::InAnswer,
            "no",
        ),
        (
            json_reply("400 Bad Request", json!({"error": "not an embedding model"})),
            ProviderErrorKind::Request,
            "not an",
        ),
        (
            reply("200 OK", "text/html", "<html>"),
            ProviderErrorKind::NotTheApi,
            "web page",
        ),
        (
            reply("200 OK", "application/json", "{\"data\": [{\"embedding\": [NaN]}]}"),
            ProviderErrorKind::NotTheApi,
            "format",
        ),
    ] {
        let server = Server::with(reply).await;
        let error = embed(&context(), &net(), &server.endpoint(), None, &texts(1))
            .await
            .unwrap_err();
        assert_eq!(error.kind, want, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    let server = Server::with(json_reply("200 OK", json!({"data": []}))).await;
    let error = embed(&context(), &net(), &server.endpoint(), None, &texts(MAX_TEXTS + 1))
        .await
        .unwrap_err();
    assert_eq!((error.kind, server.paths().len()), (ProviderErrorKind::Unusable, 0));
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
    let error = embed(&context, &net(), &server.endpoint(), None, &texts(1))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Stalled);
    assert!(began.elapsed() < PATIENCE);
}
