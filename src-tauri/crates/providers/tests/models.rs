//! Model lists, and finding servers on this machine.

mod common;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::*;
use providers::{Api, Endpoint, Preset, ProviderErrorKind, list_models, probe};
use secrets::{Keychain, Secret, Vault};
use serde_json::{Value, json};

#[tokio::test]
async fn a_list_with_and_without_a_key() {
    let body = json!({"object": "list", "data": [{"id": "a", "context_length": 4096}, {"id": ""}]});
    let server = Server::with(json_reply("200 OK", body)).await;
    let mut endpoint = server.endpoint_at("");
    let list = list_models(&context(), &net(), &endpoint).await.unwrap();
    assert_eq!(
        (list.models[0].id.as_str(), list.models[0].context_window, list.skipped),
        ("a", Some(4096), 1)
    );
    let (vault, origin) = (Vault::open(Keychain::None, "test"), endpoint.origin().unwrap());
    vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
    endpoint.key = vault.handle("c", &origin);
    list_models(&context(), &net(), &endpoint).await.unwrap();
    let heard = server.heard.lock();
    assert!(heard[0].starts_with("GET /v1/models HTTP/1.1\r\n") && !heard[0].to_lowercase().contains("authorization"));
    assert!(heard[1].contains("authorization: Bearer sk-canary\r\n"));
}

#[tokio::test]
async fn a_key_of_the_old_address_is_not_sent_to_a_new_one() {
    let (old, new) = (
        Server::with(json_reply("200 OK", json!([]))).await,
        Server::with(json_reply("200 OK", json!([]))).await,
    );
    let vault = Vault::open(Keychain::None, "test");
    let origin = old.endpoint().origin().unwrap();
    vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
    let mut endpoint = new.endpoint();
    assert!(vault.handle("c", &endpoint.origin().unwrap()).is_none());
    // Even with a handle in the wrong place.
    endpoint.key = vault.handle("c", &origin);
    let error = list_models(&context(), &net(), &endpoint).await.unwrap_err();
    assert_eq!(error.kind, ProviderErrorKind::Network);
    assert!(error.to_string().contains("enter the key again"), "{error}");
    assert_eq!(new.connections.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_is_no_list() {
    let page = "<html><body>Sign in</body></html>";
    for (reply, want, said) in [
        (
            reply("200 OK", "text/html", page),
            ProviderErrorKind::NotTheApi,
            "web page",
        ),
        (
            reply("401 Unauthorized", "text/html", page),
            ProviderErrorKind::Key,
            "web page",
        ),
        (
            json_reply("200 OK", json!({"error": {"message": "no"}})),
            ProviderErrorKind::InAnswer,
            "no",
        ),
        (
            json_reply("200 OK", json!({"status": "ok"})),
            ProviderErrorKind::NotTheApi,
            "without a list",
        ),
        (
            reply("200 OK", "application/json", "{"),
            ProviderErrorKind::NotTheApi,
            "expected format",
        ),
        (
            reply("200 OK", "application/json", ""),
            ProviderErrorKind::NotTheApi,
            "answered with nothing",
        ),
        (
            reply("404 Not Found", "text/plain", "nope"),
            ProviderErrorKind::NotFound,
            "nope",
        ),
    ] {
        let server = Server::with(reply).await;
        let error = list_models(&context(), &net(), &server.endpoint()).await.unwrap_err();
        assert_eq!(error.kind, want, "{error}");
        let tried = format!("http://127.0.0.1:{}/v1/models", server.port);
        assert!(
            error.to_string().contains(said) && error.to_string().contains(&tried),
            "{error}"
        );
    }
}

/// A server with these pages, and no others.
async fn with_pages(pages: Value) -> Server {
    Server::answering(move |request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match pages.get(path) {
            Some(Value::Object(by_model)) if by_model.contains_key("by model") => {
                let body = request.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                let body: Value = serde_json::from_str(body).unwrap_or_default();
                match by_model.get(body["model"].as_str().unwrap_or_default()) {
                    Some(page) => json_reply("200 OK", page.clone()),
                    None => json_reply("404 Not Found", json!({"error": "model not found"})),
                }
            }
            Some(page) => json_reply("200 OK", page.clone()),
            None => reply("404 Not Found", "text/plain", "404 page not found"),
        }
    })
    .await
}

fn speaking(api: Api, server: &Server, path: &str) -> Endpoint {
    let mut endpoint = server.endpoint_at(path);
    endpoint.api = api;
    endpoint
}

#[tokio::test]
async fn every_format_has_its_own_page() {
    let server = with_pages(json!({
        "/v1/models?limit=1000": {"data": [{"type": "model", "id": "claude-x", "display_name": "Claude X"}], "has_more": false},
        "/v1beta/models?pageSize=1000": {"models": [{"name": "models/gemini-x", "inputTokenLimit": 4096}]},
        "/v1/models": {"object": "list", "data": [{"id": "gpt-x", "context_window": 1}]},
    }))
    .await;
    for (api, id) in [
        (Api::AnthropicMessages, "claude-x"),
        (Api::GoogleGenerativeAi, "gemini-x"),
        (Api::OpenaiResponses, "gpt-x"),
        (Api::OpenaiText, "gpt-x"),
    ] {
        let mut endpoint = speaking(api, &server, "");
        let (vault, origin) = (Vault::open(Keychain::None, "test"), endpoint.origin().unwrap());
        vault.put("c", origin.clone(), Secret::new("sk-canary".into())).unwrap();
        endpoint.key = vault.handle("c", &origin);
        let list = list_models(&context(), &net(), &endpoint).await.unwrap();
        assert_eq!(list.models[0].id, id);
    }
    let heard = server.heard.lock();
    let headers = |path: &str| {
        let asked = heard
            .iter()
            .find(|request| request.starts_with(&format!("GET {path} ")));
        asked.unwrap().to_lowercase()
    };
    let claude = headers("/v1/models?limit=1000");
    assert!(
        claude.contains("x-api-key: sk-canary") && claude.contains("anthropic-version:"),
        "{claude}"
    );
    let gemini = headers("/v1beta/models?pageSize=1000");
    assert!(
        gemini.contains("x-goog-api-key: sk-canary") && !gemini.contains("authorization"),
        "{gemini}"
    );
}

#[tokio::test]
async fn ollama_is_asked_about_each_model() {
    let tags: Vec<Value> = (0..40)
        .map(|n| json!({"name": format!("m{n}"), "model": format!("m{n}")}))
        .collect();
    let show = |window: u64, can: Value, parameters: &str| json!({"capabilities": can, "parameters": parameters, "model_info": {"x.context_length": window, "x.block_count": 1}});
    let server = with_pages(json!({
        "/api/tags": {"models": tags},
        "/api/ps": {"models": [{"model": "m2", "context_length": 4096}]},
        "/api/show": {"by model": true,
            "m0": show(8192, json!(["embedding"]), ""),
            "m1": show(131_072, json!(["completion", "tools", "vision", "thinking"]), "stop \"x\"\nnum_ctx    16384"),
            "m2": show(32_768, json!(["completion"]), ""),
        },
    }))
    .await;
    let list = list_models(&context(), &net(), &speaking(Api::Ollama, &server, ""))
        .await
        .unwrap();
    let first = &list.models[0];
    assert_eq!(
        (first.id.as_str(), first.context_window, first.images, first.reasoning),
        ("m1", Some(16_384), Some(true), Some(true))
    );
    let second = &list.models[1];
    assert_eq!((second.context_window, second.images), (Some(4096), Some(false)));
    assert_eq!(list.models[2].context_window, None);
    let last = list.models.last().unwrap();
    assert_eq!((last.id.as_str(), last.chat), ("m0", Some(false)));
    let shown = server.paths().iter().filter(|path| *path == "/api/show").count();
    assert_eq!(shown, 32);
}

#[tokio::test]
async fn a_single_local_model_takes_its_window_from_where_the_server_says_it() {
    let one = json!({"data": [{"id": "model.gguf"}]});
    for (pages, want) in [
        (
            json!({"/v1/models": one, "/props": {"default_generation_settings": {"n_ctx": 4096}, "modalities": {"vision": true}}}),
            (Some(4096), Some(true)),
        ),
        (
            json!({"/v1/models": one, "/api/extra/true_max_context_length": {"value": 8192}}),
            (Some(8192), None),
        ),
        (json!({"/v1/models": one, "/props": {"n_ctx": "many"}}), (None, None)),
        // With two models it is not known which one it would be.
        (
            json!({"/v1/models": {"data": [{"id": "a"}, {"id": "b"}]}, "/props": {"n_ctx": 4096}}),
            (None, None),
        ),
    ] {
        let server = with_pages(pages.clone()).await;
        let list = list_models(&context(), &net(), &server.endpoint()).await.unwrap();
        assert_eq!((list.models[0].context_window, list.models[0].images), want, "{pages}");
    }
    let server = with_pages(json!({
        "/v1/models": {"data": [{"id": "embed"}, {"id": "see"}]},
        "/api/v0/models": {"data": [{"id": "see", "type": "vlm", "state": "loaded", "max_context_length": 9, "loaded_context_length": 7},
            {"id": "embed", "type": "embeddings", "max_context_length": 5}]},
    }))
    .await;
    let mut endpoint = server.endpoint();
    endpoint.preset = Some("lm-studio".into());
    let models = list_models(&context(), &net(), &endpoint).await.unwrap().models;
    assert_eq!(
        (models[0].id.as_str(), models[0].context_window, models[0].images),
        ("see", Some(7), Some(true))
    );
    assert_eq!((models[1].context_window, models[1].chat), (Some(5), Some(false)));
}

fn preset_at(id: &'static str, api: Api, port: u16) -> Preset {
    let path = if api == Api::Ollama { "" } else { "/v1" };
    Preset {
        id,
        name: id,
        api,
        base_url: Box::leak(format!("http://127.0.0.1:{port}{path}").into_boxed_str()),
        local: true,
        key_page: None,
        port: Some(port),
    }
}

#[tokio::test]
async fn servers_on_this_machine_are_found_within_their_time() {
    let good = with_pages(json!({"/v1/models": {"data": [{"id": "a"}]}})).await;
    let shut = Server::with(json_reply("401 Unauthorized", json!({"error": "key"}))).await;
    let page = Server::with(reply("200 OK", "text/html", "<html>")).await;
    let silent = Server::with(Reply {
        pieces: vec![],
        hold: true,
    })
    .await;
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = free.local_addr().unwrap().port();
    drop(free);
    let preset = |id, port| preset_at(id, Api::OpenaiCompletions, port);
    let table = [
        preset("good", good.port),
        preset("twin", good.port),
        preset("shut", shut.port),
        preset("page", page.port),
        preset("silent", silent.port),
        preset("gone", gone),
    ];
    let began = Instant::now();
    let found = probe(&context(), &net(), &table).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(found.len(), 2, "{found:?}");
    let ids: Vec<_> = found[0].presets.iter().map(|preset| preset.id).collect();
    assert_eq!(
        (ids, found[0].list.models[0].id.as_str(), found[0].wants_key),
        (vec!["good", "twin"], "a", false)
    );
    assert_eq!(found[0].base_url, format!("http://127.0.0.1:{}/v1", good.port));
    assert_eq!((found[1].presets[0].id, found[1].wants_key), ("shut", true));
    for server in [&good, &shut] {
        let heard = server.heard.lock();
        assert!(
            !heard
                .iter()
                .any(|request| request.to_lowercase().contains("authorization")),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn programs_tell_which_one_they_are() {
    let list = json!({"data": [{"id": "a"}]});
    let tags = json!({"models": [{"name": "a"}]});
    let kobold = json!({"result": "KoboldCpp", "version": "1.90"});
    let version = json!({"version": "0.9.0"});
    for (mut pages, want, path) in [
        (json!({"/api/version": version, "/api/tags": tags}), "ollama", ""),
        // It has the pages of others, too.
        (
            json!({"/api/extra/version": kobold, "/api/version": version, "/api/tags": tags, "/props": {"default_generation_settings": {}}}),
            "koboldcpp",
            "/v1",
        ),
        (
            json!({"/props": {"default_generation_settings": {}}}),
            "llama-cpp",
            "/v1",
        ),
        (
            json!({"/v1/internal/model/info": {"model_name": "a"}}),
            "textgen",
            "/v1",
        ),
        (
            json!({"/health": {"status": "healthy", "issues": []}}),
            "tabbyapi",
            "/v1",
        ),
        (json!({"/version": version}), "vllm", "/v1"),
        (json!({"/health/readiness": {"litellm_version": "1"}}), "litellm", "/v1"),
        (
            json!({"/api/v0/models": {"data": [{"id": "a", "state": "loaded"}]}}),
            "lm-studio",
            "/v1",
        ),
    ] {
        pages["/v1/models"] = list.clone();
        let server = with_pages(pages).await;
        let here = [
            preset_at("textgen", Api::OpenaiCompletions, server.port),
            preset_at("tabbyapi", Api::OpenaiCompletions, server.port),
        ];
        let found = probe(&context(), &net(), &here).await;
        let ids: Vec<_> = found[0].presets.iter().map(|preset| preset.id).collect();
        assert_eq!(ids, [want]);
        assert_eq!(found[0].base_url, format!("http://127.0.0.1:{}{path}", server.port));
        assert_eq!(found[0].list.models[0].id, "a");
    }
    let server = with_pages(json!({"/v1/models": list, "/version": version})).await;
    let here = [preset_at("aphrodite", Api::OpenaiCompletions, server.port)];
    let found = probe(&context(), &net(), &here).await;
    assert_eq!(found[0].presets[0].id, "aphrodite");
}

#[tokio::test]
async fn a_server_that_listens_on_the_other_loopback_address_is_found() {
    let Ok(listener) = tokio::net::TcpListener::bind("[::1]:0").await else {
        panic!("this machine has no [::1]");
    };
    let port = listener.local_addr().unwrap().port();
    let server = Server::on(listener, |request| match request.starts_with("GET /api/tags ") {
        true => json_reply("200 OK", json!({"models": [{"name": "a"}]})),
        false => reply("404 Not Found", "text/plain", "no"),
    });
    let found = probe(&context(), &net(), &[preset_at("ollama", Api::Ollama, port)]).await;
    assert_eq!(found[0].base_url, format!("http://[::1]:{port}"));
    assert_eq!(found[0].list.models[0].id, "a");
    assert!(server.connections.load(Ordering::SeqCst) > 0);
}
