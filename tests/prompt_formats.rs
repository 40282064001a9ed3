//! Text completion through the built program: which format a model gets, for the person and for apps, and what is sent.

use serde_json::{Value, json};
use testkit::{Client, Home, ModelServer};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

fn format_of(client: &Client, query: &str) -> (Value, Value) {
    let found = client.get(&format!("/v1/models/prompt-format?{query}")).ok();
    assert!(found["format"]["userPrefix"].is_string(), "{found}");
    (found["id"].clone(), found["source"].clone())
}

#[test]
fn the_person_and_apps_see_which_format_a_model_gets() {
    let server = ModelServer::everything(|seen, out| match seen.target.as_str() {
        "/v1/models" => out.json(200, &json!({"data": [{"id": "m"}]})),
        "/props" => out.json(200, &json!({"chat_template": "{{ '<start_of_turn>' + role }}"})),
        "/v1/completions" => out.json(200, &json!({"choices": [{"text": "Hello.", "finish_reason": "stop"}]})),
        _ => out.json(404, &json!({})),
    });
    let home = Home::new(PROGRAM);
    let running = home.serve();
    let owner = running.set_up();
    running.add_from_box(&owner, "chat");
    let page = running.page(&owner, "chat");
    let added = owner
        .post(
            "/v1/settings/connections",
            &json!({"name": "text", "api": "openai-text", "baseUrl": server.url()}),
        )
        .ok();
    let id = added["connection"]["id"].as_str().unwrap();

    for client in [&owner, &page] {
        let formats = client.get("/v1/models/prompt-formats").ok();
        let formats = formats["formats"].as_array().unwrap();
        assert_eq!(formats.len(), 20);
        assert_eq!(formats[0], json!({"id": "chatml", "name": "ChatML"}));
        let model = format!("model={id}/vicuna-7b");
        assert_eq!(format_of(client, &model), (json!("gemma"), json!("template")));
        assert_eq!(
            format_of(client, &format!("{model}&format=auto")),
            (json!("gemma"), json!("template"))
        );
        assert_eq!(
            format_of(client, &format!("{model}&format=llama3")),
            (json!("llama3"), json!("request"))
        );
        let custom = "format=%7B%22userPrefix%22%3A%22Q%3A%22%7D";
        assert_eq!(
            format_of(client, &format!("{model}&{custom}")),
            (json!("custom"), json!("request"))
        );
        assert_eq!(
            format_of(client, "model=nowhere-llama3"),
            (json!("llama3"), json!("name"))
        );
        assert_eq!(
            format_of(client, "model=demo/canned"),
            (json!("chatml"), json!("default"))
        );
        let wrong = client
            .get(&format!("/v1/models/prompt-format?{model}&format=nope"))
            .error(400);
        assert!(wrong.contains("no format \"nope\""), "{wrong}");
        let long = format!("/v1/models/prompt-format?model={}", "x".repeat(301));
        assert!(client.get(&long).error(400).contains("at most 300"));
    }
    running.nobody().get("/v1/models/prompt-formats").error(401);

    // The connection's own comes before what the server says, and is what is sent.
    let changed = json!({"promptFormat": "kimi"});
    owner
        .send("PATCH", &format!("/v1/settings/connections/{id}"), &changed)
        .ok();
    assert_eq!(
        format_of(&owner, &format!("model={id}/vicuna-7b")),
        (json!("kimi"), json!("connection"))
    );
    let test = format!("/v1/settings/connections/{id}/test");
    let said = owner.post(&test, &json!({"model": "m"})).ok();
    assert_eq!((&said["ok"], &said["text"]), (&json!(true), &json!("Hello.")), "{said}");
    let seen = server.seen();
    let asked = seen.iter().find(|seen| seen.target == "/v1/completions").unwrap();
    assert!(
        asked.whole().contains("<|im_user|>user<|im_middle|>"),
        "{}",
        asked.whole()
    );
}
