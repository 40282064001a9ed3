//! Pictures, speech and embeddings through HTTP on the built program: what arrives is kept for who asked, what is not a
//! picture or a sound is an error in plain words, and no key goes where it does not belong.

use std::process::Command;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Out, Running, Seen, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");
const KEY: &str = "sk-canary-of-the-media-tests";
/// One pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const SOUND: &str = "OggS and so on";

type Part = Arc<dyn Fn(&Seen, &mut Out) + Send + Sync>;

struct House {
    owner: Client,
    alpha: Client,
    beta: Client,
    server: ModelServer,
    connection: String,
    answer: Arc<Mutex<Part>>,
    running: Running,
    home: Home,
}

/// What a server does that has everything.
fn usual(seen: &Seen, out: &mut Out) {
    if seen.target.ends_with("/images/generations") {
        // The type that is claimed counts for nothing.
        return out.answer(200, "text/plain", &json!({"data": [{"b64_json": PNG}]}).to_string());
    }
    if seen.target.ends_with("/audio/speech") {
        return out.answer(200, "application/json", SOUND);
    }
    if seen.target.ends_with("/embeddings") {
        let body: Value = serde_json::from_str(&seen.body).unwrap();
        let count = body["input"].as_array().unwrap().len();
        let data: Vec<_> = (0..count)
            .map(|n| json!({"index": n, "embedding": [1, 2, 3]}))
            .collect();
        return out.json(200, &json!({"data": data}));
    }
    out.json(404, &json!({"detail": "Not Found"}));
}

impl House {
    fn open() -> Self {
        let answer: Arc<Mutex<Part>> = Arc::new(Mutex::new(Arc::new(usual)));
        let now = answer.clone();
        let server = ModelServer::everything(move |seen, out| {
            if seen.method == "GET" && seen.target.ends_with("/models") {
                let ids = ["m", "gpt-image-1", "tts-1"].map(|id| json!({"id": id}));
                return out.json(200, &json!({"data": ids}));
            }
            if seen.target.ends_with("/audio/voices") {
                return out.json(200, &json!({"voices": ["af_bella", "af_sky"]}));
            }
            let part = now.lock().unwrap().clone();
            part(seen, out);
        });
        let home = Home::new(PROGRAM);
        let running = home.serve();
        let owner = running.set_up();
        let phrase = json!({"store": "encrypted", "passphrase": "a long passphrase"});
        owner.send("PUT", "/v1/settings/keys", &phrase).ok();
        for id in ["alpha", "beta"] {
            let app = AppFolder::new(home.folder(), id).plugin("p", &["llm", "routes"], EMBED);
            running.add(app.path(), id);
        }
        let connection = running.connect(&owner, &server.url(), Some(KEY));
        Self {
            alpha: running.page(&owner, "alpha"),
            beta: running.page(&owner, "beta"),
            owner,
            server,
            connection,
            answer,
            running,
            home,
        }
    }

    fn answers(&self, part: impl Fn(&Seen, &mut Out) + Send + Sync + 'static) {
        *self.answer.lock().unwrap() = Arc::new(part);
    }

    fn asked(&self, page: &str) -> Vec<Seen> {
        let all = self.server.seen();
        all.into_iter().filter(|seen| seen.target.ends_with(page)).collect()
    }

    fn speech_server(&self, base: &str) -> String {
        let body = json!({"name": "Loud", "baseUrl": base, "voice": "af_sky", "model": "kokoro", "key": KEY});
        let added = self.owner.post(ENDPOINTS, &body).ok();
        assert_eq!(added["endpoint"]["hasKey"], true, "{added}");
        added["endpoint"]["id"].as_str().unwrap().to_owned()
    }
}

const EMBED: &str = r#"
export async function handleRoute(req, host) {
  return { json: await host.llm.embed({ texts: ["one", "two"] }).catch((e) => ({ error: e.message })) };
}
"#;
const ENDPOINTS: &str = "/v1/audio/speech/endpoints";

fn paint() -> Value {
    json!({"prompt": "a chrysalis"})
}

fn say() -> Value {
    json!({"text": "Good morning."})
}

#[test]
fn a_picture_is_kept_for_the_app_that_asked_and_for_no_other() {
    let house = House::open();
    let reference = format!("{}/gpt-image-1", house.connection);
    let listed = house.alpha.get("/v1/images/models").ok();
    assert_eq!(listed["models"][0]["ref"], json!(reference));
    assert_eq!(
        (listed["models"].as_array().unwrap().len(), &listed["default"]),
        (1, &json!(reference))
    );
    let unknown = house.alpha.post("/v1/images", &paint()).ok();
    assert_eq!(unknown["cost"], Value::Null, "unknown is not free: {unknown}");
    assert_eq!(
        (&unknown["mimeType"], &unknown["model"]),
        (&json!("image/png"), &json!(reference))
    );
    let url = unknown["url"].as_str().unwrap();
    assert!(url.starts_with("/v1/assets/"), "{url}");
    let png = base64::engine::general_purpose::STANDARD.decode(PNG).unwrap();
    for who in [&house.alpha, &house.owner] {
        let got = who.get(url);
        assert_eq!(
            (got.status, got.header("content-type"), got.body.as_slice()),
            (200, "image/png", &png[..])
        );
    }
    house.beta.get(url).error(404);
    let asked = &house.asked("/images/generations")[0];
    assert_eq!(asked.header("authorization"), format!("Bearer {KEY}"));
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(body, json!({"model": "gpt-image-1", "prompt": "a chrysalis", "n": 1}));

    let price = json!({"ref": reference, "pricing": {"image": 0.04}});
    house.owner.send("PUT", "/v1/models/pricing", &price).ok();
    let wanted = json!({"prompt": "x", "model": reference, "size": "512x512", "quality": "low"});
    let priced = house.beta.post("/v1/images", &wanted).ok();
    assert_eq!(priced["cost"], 0.04, "{priced}");
    house.beta.get(url).ok();
    let today = house.owner.get("/v1/spend").ok()["today"].clone();
    assert_eq!(
        (&today["images"], &today["unpricedCalls"]),
        (&json!(2), &json!(1)),
        "{today}"
    );
    let lines = house.owner.get("/v1/activity?kind=model&app=beta").ok();
    let line = &lines["entries"][0];
    assert_eq!(
        (&line["outcome"], &line["cost"]),
        (&json!("done"), &json!(0.04)),
        "{line}"
    );
}

#[test]
fn what_is_no_picture_is_an_error_and_costs_nothing() {
    let house = House::open();
    let text = base64::engine::general_purpose::STANDARD.encode("<svg onload=alert(1)>");
    for (status, kind, body, want) in [
        (200, "text/html", "<html><h1>Welcome".to_owned(), "web page"),
        (200, "image/png", "<html><h1>Welcome".into(), "web page"),
        (200, "application/json", String::new(), "nothing"),
        (200, "application/json", "{\"data\": []}".into(), "without a picture"),
        (
            200,
            "application/json",
            json!({"error": {"message": "out of paint"}}).to_string(),
            "out of paint",
        ),
        (
            200,
            "application/json",
            json!({"data": [{"b64_json": text}]}).to_string(),
            "no PNG",
        ),
        (
            200,
            "application/json",
            json!({"data": [{"b64_json": "*"}]}).to_string(),
            "base64",
        ),
        (
            200,
            "application/json",
            json!({"data": [{"url": "data:image/png;base64,PGh0bWw+"}]}).to_string(),
            "no PNG",
        ),
        (200, "application/json", "{\"data\": [{".into(), "format"),
        (
            400,
            "application/json",
            json!({"error": {"message": "such a prompt!"}}).to_string(),
            "such a prompt!",
        ),
        (500, "text/plain", "the brush broke".into(), "the brush broke"),
    ] {
        house.answers(move |_, out| out.answer(status, kind, &body));
        let error = house.alpha.post("/v1/images", &paint()).error(502);
        assert!(error.contains(want), "{want}: {error}");
        assert!(
            !error.contains("127.0.0.1") && !error.contains(KEY),
            "pages learn no address: {error}"
        );
    }
    for wrong in [
        json!({"prompt": ""}),
        json!({"prompt": "x".repeat(4001)}),
        json!({"prompt": "x", "size": "big"}),
        json!({"prompt": "x", "quality": "a b"}),
        json!({"prompt": "x", "model": "no/such"}),
    ] {
        house.alpha.post("/v1/images", &wrong).error(400);
    }
    let today = house.owner.get("/v1/spend").ok()["today"].clone();
    assert_eq!(today["images"], 0, "{today}");
    let listed = house.owner.get("/v1/assets").ok();
    assert_eq!(listed["assets"], json!([]));
}

#[test]
fn a_picture_at_an_address_is_fetched_without_the_key_and_from_nowhere_in_the_house() {
    let house = House::open();
    let other = ModelServer::everything(|_, out| out.answer(200, "image/png", "GIF89a and so on"));
    let own = house.server.url().replace("/v1", "/made/1.png");
    let at = own.clone();
    house.answers(move |seen, out| match seen.target.as_str() {
        "/made/1.png" => out.answer(200, "text/html", "GIF89a and so on"),
        _ => out.json(200, &json!({"data": [{"url": at}]})),
    });
    let made = house.alpha.post("/v1/images", &paint()).ok();
    assert_eq!(made["mimeType"], "image/gif");
    let fetched = &house.asked("/made/1.png")[0];
    assert!(!fetched.whole().contains(KEY), "{fetched:?}");

    let at = other.url().replace("/v1", "/made/1.png");
    house.answers(move |_, out| out.json(200, &json!({"data": [{"url": at}]})));
    house.alpha.post("/v1/images", &paint()).error(502);
    assert!(other.seen().is_empty(), "another server in the house was asked");
    // Nor by way of a redirect.
    let at = other.url();
    house.answers(move |seen, out| match seen.method.as_str() {
        "GET" => out.redirect(&at),
        _ => out.json(200, &json!({"data": [{"url": own}]})),
    });
    let error = house.alpha.post("/v1/images", &paint()).error(502);
    assert!(error.contains("redirect"), "{error}");
    assert!(other.seen().is_empty());
}

#[test]
fn no_redirect_is_followed_with_a_key() {
    let house = House::open();
    let other = ModelServer::everything(usual);
    let id = house.speech_server(&house.server.url());
    for status in [301, 302, 307, 308] {
        let to = other.url();
        house.answers(move |seen, out| {
            let to = format!("{to}{}", seen.target.trim_start_matches("/v1"));
            out.raw(&format!(
                "HTTP/1.1 {status} Elsewhere\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            ));
        });
        let spoken = json!({"text": "x", "endpointId": id});
        let through = json!({"text": "x", "connection": house.connection});
        for (route, body) in [
            ("/v1/images", paint()),
            ("/v1/audio/speech", spoken),
            ("/v1/audio/speech", through),
        ] {
            let error = house.owner.post(route, &body).error(502);
            assert!(error.contains("redirect"), "{error}");
        }
        let probed = house.owner.post("/v1/embeddings/probe", &json!({})).ok();
        assert_eq!(probed["ok"], false, "{probed}");
    }
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

#[test]
fn a_text_is_read_by_a_speech_server_whose_key_stays_with_its_address() {
    let house = House::open();
    let other = ModelServer::everything(usual);
    let id = house.speech_server(&house.server.url());
    let shown = house.alpha.get(ENDPOINTS).ok();
    let want = json!({"endpoints": [{"id": id, "name": "Loud", "model": "kokoro", "voice": "af_sky"}]});
    assert_eq!(shown, want, "pages do not learn where it is");
    let voices = house.alpha.get("/v1/audio/voices").ok();
    assert!(
        voices["voices"][0]["id"] == "af_bella" && voices["voices"][0]["endpoint"] == id,
        "{voices}"
    );
    assert!(!voices.to_string().contains("127.0.0.1"));

    let wanted = json!({"text": "Good morning.", "speed": 1.5, "format": "webm", "provider": "endpoint"});
    let spoken = house.alpha.post("/v1/audio/speech", &wanted).ok();
    assert_eq!(
        (&spoken["provider"], &spoken["endpoint"]),
        (&json!("endpoint"), &json!(id)),
        "{spoken}"
    );
    assert_eq!(
        (&spoken["voice"], &spoken["mimeType"]),
        (&json!("af_sky"), &json!("audio/ogg"))
    );
    let encoded = base64::engine::general_purpose::STANDARD.encode(SOUND);
    assert_eq!(spoken["dataUrl"], format!("data:audio/ogg;base64,{encoded}"));
    let url = spoken["url"].as_str().unwrap();
    assert_eq!(house.alpha.get(url).text(), SOUND);
    house.beta.get(url).error(404);
    let asked = house.asked("/audio/speech").remove(0);
    assert_eq!(asked.header("authorization"), format!("Bearer {KEY}"));
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    let want = json!({"model": "kokoro", "input": "Good morning.", "voice": "af_sky", "response_format": "opus", "speed": 1.5});
    assert_eq!(body, want);

    // What the person set is taken where a request does not say.
    house
        .owner
        .send(
            "PUT",
            "/v1/settings",
            &json!({"speechVoice": "af_bella", "speechSpeed": 2}),
        )
        .ok();
    assert_eq!(house.alpha.post("/v1/audio/speech", &say()).ok()["voice"], "af_bella");
    house
        .owner
        .send("PUT", "/v1/settings", &json!({"speechSpeed": 5}))
        .error(400);

    for wrong in [
        json!({"text": " "}),
        json!({"text": "x".repeat(4001)}),
        json!({"text": "x", "speed": 0.2}),
        json!({"text": "x", "format": "exe"}),
        json!({"text": "x", "voice": "v".repeat(61)}),
        json!({"text": "x", "provider": "else"}),
    ] {
        house.alpha.post("/v1/audio/speech", &wrong).error(400);
    }
    house
        .alpha
        .post("/v1/audio/speech", &json!({"text": "x", "endpointId": "s_no"}))
        .error(404);
    let edge = json!({"text": "x", "provider": "edge"});
    let error = house.alpha.post("/v1/audio/speech", &edge).error(503);
    assert!(error.contains("endpointId"), "{error}");

    // A changed address deletes the key, and it is not back when the address is.
    let one = format!("{ENDPOINTS}/{id}");
    let changed = house.owner.send("PATCH", &one, &json!({"baseUrl": other.url()})).ok();
    assert_eq!(changed["endpoint"]["hasKey"], false, "{changed}");
    assert!(changed["notice"].as_str().unwrap().contains("key was forgotten"));
    house
        .owner
        .post("/v1/audio/speech", &json!({"text": "x", "endpointId": id}))
        .ok();
    assert!(!other.seen().is_empty() && other.seen().iter().all(|seen| !seen.whole().contains(KEY)));
    let back = house
        .owner
        .send("PATCH", &one, &json!({"baseUrl": house.server.url()}))
        .ok();
    assert_eq!(back["endpoint"]["hasKey"], false);

    for page in [&house.alpha, &house.beta] {
        page.post(ENDPOINTS, &json!({"name": "x", "baseUrl": other.url()}))
            .error(403);
        page.send("PATCH", &one, &json!({"baseUrl": other.url()})).error(403);
        page.send("DELETE", &one, &json!({})).error(403);
    }
    for wrong in [
        json!({"name": "n".repeat(61), "baseUrl": other.url()}),
        json!({"name": "n", "baseUrl": other.url(), "model": "m".repeat(121)}),
        json!({"name": "n", "baseUrl": other.url(), "voice": "v".repeat(61)}),
        json!({"name": "n", "baseUrl": "file:///etc/passwd"}),
        json!({"name": "n"}),
    ] {
        house.owner.post(ENDPOINTS, &wrong).error(400);
    }
    assert_eq!(house.owner.send("DELETE", &one, &json!({})).status, 204);
    assert_eq!(house.owner.get(ENDPOINTS).ok(), json!({"endpoints": []}));
}

#[test]
fn what_is_no_sound_is_an_error() {
    let house = House::open();
    let id = house.speech_server(&house.server.url());
    let big = format!("ID3{}", "x".repeat(20 << 20));
    for (status, kind, body, want) in [
        (200, "audio/mpeg", "<!doctype html>".to_owned(), "web page"),
        (200, "audio/mpeg", String::new(), "nothing"),
        (
            200,
            "audio/mpeg",
            json!({"error": {"message": "hoarse today"}}).to_string(),
            "hoarse today",
        ),
        (200, "audio/mpeg", "MZ and so on".into(), "no MP3"),
        (200, "audio/mpeg", big, "larger than"),
        (
            401,
            "application/json",
            json!({"error": {"message": "who are you"}}).to_string(),
            "who are you",
        ),
    ] {
        house.answers(move |_, out| out.answer(status, kind, &body));
        let error = house
            .alpha
            .post("/v1/audio/speech", &json!({"text": "x", "endpointId": id}))
            .error(502);
        assert!(error.contains(want), "{want}: {error}");
        assert!(!error.contains("127.0.0.1") && !error.contains(KEY), "{error}");
    }
    let listed = house.owner.get("/v1/assets").ok();
    assert_eq!(listed["assets"], json!([]));
}

#[test]
fn without_anyone_to_ask_it_says_what_is_missing() {
    let house = House::open();
    house.owner.send(
        "DELETE",
        &format!("/v1/settings/connections/{}", house.connection),
        &json!({}),
    );
    assert_eq!(
        house.alpha.get("/v1/images/models").ok(),
        json!({"models": [], "default": null})
    );
    assert_eq!(
        house.alpha.get("/v1/audio/voices").ok(),
        json!({"voices": [], "default": null})
    );
    let none = json!({"model": null, "connection": null, "available": false});
    assert_eq!(house.alpha.get("/v1/embeddings/config").ok(), none);
    for (route, body) in [("/v1/images", paint()), ("/v1/audio/speech", say())] {
        let error = house.alpha.post(route, &body).error(503);
        assert!(error.contains("Speech and images"), "{error}");
    }
    assert_eq!(house.owner.post("/v1/embeddings/probe", &json!({})).ok()["ok"], false);
    assert_eq!(house.alpha.post("/v1/apps/alpha/embed", &json!({})).ok(), Value::Null);
}

/// Points everything in the database `argv[1]` to the address `argv[2]`.
const POINT: &str = "\
import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
for table in ('connections', 'speech_endpoints'):
    assert d.execute('UPDATE ' + table + ' SET base_url = ?', (sys.argv[2],)).rowcount == 1
d.commit()
";

#[test]
fn a_key_for_another_address_is_refused_and_not_sent() {
    let mut house = House::open();
    let other = ModelServer::everything(usual);
    let id = house.speech_server(&house.server.url());
    house.running.stop();
    let changed = Command::new("python3")
        .args(["-c", POINT])
        .arg(house.home.database())
        .arg(other.url())
        .status();
    assert!(changed.unwrap().success());
    house.running = house.home.serve();
    house.owner = house.running.login();
    let unlock = json!({"passphrase": "a long passphrase"});
    house.owner.post("/v1/settings/keys/unlock", &unlock).ok();
    let alpha = house.running.page(&house.owner, "alpha");
    let model = format!("{}/gpt-image-1", house.connection);
    for (route, body) in [
        ("/v1/images", json!({"prompt": "x", "model": model})),
        ("/v1/audio/speech", json!({"text": "x", "endpointId": id})),
        ("/v1/audio/speech", json!({"text": "x", "connection": house.connection})),
    ] {
        let error = house.owner.post(route, &body).error(400);
        assert!(error.contains("saved key is for"), "{error}");
        let error = alpha.post(route, &body).error(400);
        assert!(!error.contains("127.0.0.1"), "{error}");
    }
    house.owner.get("/v1/audio/voices").ok();
    house.owner.get("/v1/images/models").ok();
    house
        .owner
        .post("/v1/embeddings/probe", &json!({"connection": house.connection}))
        .ok();
    assert!(
        other.seen().iter().all(|seen| !seen.whole().contains(KEY)),
        "{:?}",
        other.seen()
    );
}

#[test]
fn only_the_person_and_apps_from_the_box_choose_what_makes_embeddings() {
    let house = House::open();
    house.running.add_from_box(&house.owner, "chat");
    let chat = house.running.page(&house.owner, "chat");
    let config = "/v1/embeddings/config";
    let want = json!({"model": null, "connection": null, "available": true});
    assert_eq!(house.alpha.get(config).ok(), want);
    let got = house.alpha.post("/v1/apps/alpha/embed", &json!({})).ok();
    assert_eq!(got, json!([[1, 2, 3], [1, 2, 3]]));
    let bodies = house.asked("/embeddings");
    assert!(bodies[0].body.contains("text-embedding-3-small"), "{bodies:?}");

    let choice = json!({"model": "bge-m3", "connection": house.connection});
    for route in [("PUT", config), ("POST", "/v1/embeddings/probe")] {
        let refused = house.alpha.send(route.0, route.1, &choice);
        assert_eq!((refused.status, refused.code().as_str()), (403, "refused"));
    }
    assert_eq!(house.alpha.get(config).ok(), want, "nothing was changed");
    // What an app says of itself does not make it one from the box.
    let chosen = chat.send("PUT", config, &choice).ok();
    assert_eq!(
        (&chosen["model"], &chosen["connection"]),
        (&json!("bge-m3"), &json!(house.connection))
    );
    house.alpha.post("/v1/apps/alpha/embed", &json!({})).ok();
    assert!(house.asked("/embeddings")[1].body.contains("bge-m3"));
    let probed = house.owner.post("/v1/embeddings/probe", &json!({})).ok();
    assert_eq!(
        (&probed["ok"], &probed["dimensions"]),
        (&json!(true), &json!(3)),
        "{probed}"
    );
    let wrong = json!({"model": "m".repeat(201)});
    house.owner.send("PUT", config, &wrong).error(400);
    house
        .owner
        .send("PUT", config, &json!({"connection": "c_no"}))
        .error(400);
}

#[test]
fn limits_and_the_choice_of_models_hold_for_pictures_and_speech() {
    let house = House::open();
    let id = house.speech_server(&house.server.url());
    let limits = json!({"apps": {"alpha": {"day": {"images": 1, "speechSeconds": 1}}}});
    house.owner.send("PUT", "/v1/spend/limits", &limits).ok();
    house.alpha.post("/v1/images", &paint()).ok();
    let refused = house.alpha.post("/v1/images", &paint());
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "limit"),
        "{}",
        refused.text()
    );
    let long = json!({"text": "word ".repeat(100), "endpointId": id});
    assert_eq!(house.alpha.post("/v1/audio/speech", &long).status, 429);
    assert_eq!(house.asked("/images/generations").len(), 1, "it was sent");
    assert!(house.asked("/audio/speech").is_empty(), "it was sent");
    house.beta.post("/v1/images", &paint()).ok();

    let none = json!({"models": [format!("{}/m", house.connection)]});
    house.owner.send("PUT", "/v1/settings/app-models/beta", &none).ok();
    assert_eq!(house.beta.get("/v1/images/models").ok()["models"], json!([]));
    house.beta.post("/v1/images", &paint()).error(503);
    let named = json!({"prompt": "x", "model": format!("{}/gpt-image-1", house.connection)});
    let error = house.beta.post("/v1/images", &named).error(403);
    assert!(error.contains("may not use the model"), "{error}");
    let through = json!({"text": "x", "connection": house.connection});
    house.beta.post("/v1/audio/speech", &through).error(403);
}

#[test]
fn an_app_has_four_under_way_at_most() {
    let house = House::open();
    house.answers(|seen, out| {
        if out.gate() {
            usual(seen, out);
        }
    });
    std::thread::scope(|scope| {
        let under_way: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| house.alpha.post("/v1/images", &paint()).status))
            .collect();
        wait_for("four pictures under way", || {
            (house.asked("/images/generations").len() == 4).then_some(())
        });
        let refused = house.alpha.post("/v1/images", &paint());
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (429, "busy"),
            "{}",
            refused.text()
        );
        (0..4).for_each(|_| house.server.release());
        for one in under_way {
            assert_eq!(one.join().unwrap(), 200);
        }
    });
    house.server.release();
    house.alpha.post("/v1/images", &paint()).ok();
}
