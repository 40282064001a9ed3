//! The canary key over every wire format: sent in the header of that format and nowhere else, quoted back by the server in
//! every way it can, and looked for in answers, files, the log and the program's own words.

mod keys;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use keys::*;
use serde_json::{Value, json};
use testkit::folders::{files, holds};
use testkit::{ModelServer, Out, Seen};

/// Every header, and the key that is in one of them, said back in as many ways as there are errors.
fn quote(way: usize, seen: &Seen, out: &mut Out) {
    let found = ["authorization", "x-api-key", "x-goog-api-key"].map(|name| seen.header(name));
    let key = found.iter().find(|value| !value.is_empty()).unwrap_or(&"none");
    let key = key.trim_start_matches("Bearer ");
    let error = json!({"type": "error", "error": {
        "message": format!("Incorrect API key provided: {key}"), "type": key, "code": key, "status": key,
        "details": [{"reason": key, "metadata": {"consumer": key}}],
    }});
    match way {
        0 => out.json(401, &error),
        1 => out.json(403, &json!([error])),
        2 => out.json(400, &json!({"detail": [{"msg": key, "loc": [key]}], "error": key})),
        3 => out.json(429, &error),
        4 => out.json(500, &json!(format!("failed with {key}"))),
        5 => out.json(200, &error),
        6 => out.answer(200, "text/html", &format!("<title>{key}</title>")),
        7 => out.json(404, &error),
        8 => {
            out.begin();
            out.raw(&format!("event: error\ndata: {error}\n\n"));
        }
        9 => {
            out.begin();
            out.raw(&format!("{error}\n{key} and rubbish\n\ndata: {key}\n\n"));
        }
        10 => out.raw(&format!(
            "HTTP/1.1 200 {key}\r\n{key}: {key}\r\nContent-Length: 1\r\n\r\n"
        )),
        _ => out.redirect(&format!("http://127.0.0.1:9/{key}?key={key}")),
    }
}

const WAYS: usize = 12;
const APIS: &[&str] = &[
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "ollama",
    "openai-text",
];

#[test]
fn no_wire_format_gives_a_key_away() {
    let way = Arc::new(AtomicUsize::new(0));
    let now = way.clone();
    let house = House::with(ModelServer::everything(move |seen, out| {
        quote(now.load(Ordering::SeqCst), seen, out);
    }));
    let answers: Arc<Mutex<Vec<String>>> = Arc::default();
    for client in [&house.owner, &house.page] {
        let (mut events, answers) = (client.listen("/v1/events"), answers.clone());
        std::thread::spawn(move || {
            while let Some(event) = events.event() {
                answers.lock().unwrap().push(event.to_string());
            }
        });
    }
    let base = house.a.url().trim_end_matches("/v1").to_owned();
    for api in APIS {
        let body = json!({"name": api, "api": api, "baseUrl": base, "key": house.key});
        let added = house.owner.post(CONNECTIONS, &body).ok();
        let id = added["connection"]["id"].as_str().unwrap().to_owned();
        assert_eq!(
            (&added["connection"]["api"], &added["connection"]["hasKey"]),
            (&json!(api), &json!(true))
        );
        for at in 0..WAYS {
            way.store(at, Ordering::SeqCst);
            // Fails when an answer has the key in it.
            answers.lock().unwrap().push(house.use_it(&id));
        }
        assert!(house.arrived() >= WAYS, "{api}: {:?}", house.a.seen().len());
        for one in house.a.seen() {
            let header = match *api {
                "anthropic-messages" => "x-api-key",
                "google-generative-ai" => "x-goog-api-key",
                _ => "authorization",
            };
            assert!(one.header(header).ends_with(&house.key), "{api}: {one:?}");
            assert!(
                !one.target.contains(&house.key),
                "{api}: a key in an address ends up in logs: {one:?}"
            );
        }
        for target in [
            CONNECTIONS,
            "/v1/activity",
            "/v1/settings",
            "/v1/settings/keys",
            "/v1/models",
            "/v1/apps/chat/conversations",
        ] {
            for client in [&house.owner, &house.page] {
                answers.lock().unwrap().push(client.get(target).text());
            }
        }
        assert_eq!(
            house
                .owner
                .send("DELETE", &format!("{CONNECTIONS}/{id}"), &Value::Null)
                .status,
            204
        );
        house.forget();
    }
    let answers = answers.lock().unwrap();
    assert!(answers.len() > APIS.len() * WAYS);
    let secret = house.key.trim_start_matches("sk-");
    for answer in answers.iter() {
        assert!(!answer.contains(secret), "{answer}");
    }
    let found = files(house.home.folder());
    assert!(found.len() > 5, "{found:?}");
    for path in found {
        let bytes = std::fs::read(&path).unwrap();
        assert!(!holds(&bytes, secret.as_bytes()), "{}", path.display());
    }
    assert!(!house.running.said().contains(secret));
}
