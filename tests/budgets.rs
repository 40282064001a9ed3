//! What an app may use: budgets by the day, the administrator's policy above every permission, and "stop this app".
//! Through HTTP on the built program.

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Running, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

const CODE: &str = r#"
const ask = { messages: [{ role: "user", content: "hi" }] };
export async function handleRoute(req, host) {
  switch (req.path) {
    case "/ask": return { json: await host.llm.generate(ask).catch((e) => ({ error: e.message })) };
    case "/queued": {
      if (!host.llm.results.a) { host.llm.request("a", ask); return { __llmPending: true }; }
      return { json: host.llm.results.a };
    }
    case "/fetch": return { json: await host.net.fetch({ url: req.body.url }) };
    case "/write": {
      try { host.fs.write("f" + req.body.n, "x".repeat(req.body.size)); return { json: { ok: true } }; }
      catch (e) { return { json: { error: e.message } }; }
    }
    case "/sleep": await new Promise((done) => setTimeout(done, 50000)); return { json: 1 };
    case "/quick": return { json: 1 };
    case "/stop": case "/budget": case "/tools": return { json: req.method + req.path };
  }
}
"#;

struct House {
    running: Running,
    owner: Client,
    model: ModelServer,
    home: Home,
}

impl House {
    fn open(config: &str, withheld: bool) -> Self {
        let model = ModelServer::start(move |_, out| {
            out.begin();
            out.delta("some words ");
            if !withheld || out.gate() {
                out.delta("and an end");
                out.done();
            }
        });
        let home = Home::new(PROGRAM);
        home.configure(config);
        let running = home.serve();
        let owner = running.set_up();
        running.connect(&owner, &model.url(), None);
        let all = ["routes", "llm", "fs", "network", "local-network"];
        for id in ["alpha", "beta"] {
            let app = AppFolder::new(home.folder(), id).plugin("p", &all, CODE);
            let manifest = app.path().join("plugins/p/manifest.json");
            let mut fields: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
            fields["networkHosts"] = json!(["127.0.0.1", "api.example.com"]);
            std::fs::write(&manifest, fields.to_string()).unwrap();
            running.add(app.path(), id);
        }
        Self {
            running,
            owner,
            model,
            home,
        }
    }

    fn ask(&self, app: &str, path: &str, body: &Value) -> Value {
        self.owner.post(&format!("/v1/apps/{app}{path}"), body).ok()
    }

    fn usage(&self, app: &str) -> Value {
        self.owner.get(&format!("/v1/apps/{app}/plugins")).ok()["usage"].clone()
    }
}

fn error(value: &Value) -> &str {
    value["error"].as_str().unwrap_or_default()
}

#[test]
fn model_calls_are_counted_before_they_are_made_and_per_app() {
    let house = House::open("[budgets]\nmodel_calls = 2\n", false);
    assert_eq!(house.ask("alpha", "/ask", &json!({}))["text"], "some words and an end");
    assert_eq!(
        house.ask("alpha", "/queued", &json!({}))["text"],
        "some words and an end"
    );
    let asked = house.model.seen().len();
    for path in ["/ask", "/queued"] {
        let refused = house.ask("alpha", path, &json!({}));
        assert!(error(&refused).contains("2 of its 2 model"), "{path}: {refused}");
        assert!(error(&refused).contains("midnight UTC"), "{path}: {refused}");
    }
    assert_eq!(
        house.model.seen().len(),
        asked,
        "nothing was sent once the budget was used up"
    );
    assert_eq!(house.usage("alpha")["modelCalls"], json!({"used": 2, "limit": 2}));
    assert_eq!(
        house.ask("beta", "/ask", &json!({}))["text"],
        "some words and an end",
        "another app's budget"
    );

    // The person raises it, for this app alone, and it counts at once.
    let raised = house
        .owner
        .send("PUT", "/v1/budgets/alpha", &json!({"modelCalls": 3}))
        .ok();
    assert_eq!(raised["usage"]["modelCalls"], json!({"used": 2, "limit": 3}));
    assert_eq!(house.ask("alpha", "/ask", &json!({}))["text"], "some words and an end");
    assert!(error(&house.ask("alpha", "/ask", &json!({}))).contains("3 of its 3"));
    for wrong in [
        json!({"modelCalls": -1}),
        json!({"modelCalls": "x"}),
        json!({"calls": 1}),
    ] {
        assert_eq!(
            house.owner.send("PUT", "/v1/budgets/alpha", &wrong).status,
            400,
            "{wrong}"
        );
    }
}

#[test]
fn tokens_network_and_disk_have_ends() {
    let house = House::open(
        "[budgets]\ntokens = 5\nnetwork_bytes = 6000\ndisk_bytes = 20000\n",
        false,
    );
    // The first answer has more than five tokens; the next request is not made.
    assert_eq!(house.ask("alpha", "/ask", &json!({}))["text"], "some words and an end");
    let refused = house.ask("alpha", "/ask", &json!({}));
    assert!(error(&refused).contains("tokens"), "{refused}");

    let url = format!("{}/models", house.model.url());
    let first = house.ask("beta", "/fetch", &json!({"url": url}));
    assert_eq!(first["status"], 200, "{first}");
    let refused = wait_for("the end of the budget", || {
        let answer = house.ask("beta", "/fetch", &json!({"url": url}));
        (answer["ok"] == false).then_some(answer)
    });
    assert!(error(&refused).contains("6000"), "{refused}");

    assert_eq!(house.ask("beta", "/write", &json!({"n": 1, "size": 9000}))["ok"], true);
    let refused = house.ask("beta", "/write", &json!({"n": 2, "size": 9000}));
    assert!(
        error(&refused).contains("20000") || error(&refused).contains("disk"),
        "{refused}"
    );
    assert_eq!(house.ask("alpha", "/write", &json!({"n": 1, "size": 9000}))["ok"], true);
}

#[test]
fn the_administrators_policy_stands_above_grants() {
    let config =
        "[plugins]\ndeny = [\"fs\"]\nhosts = [\"api.example.com\"]\n\n[plugins.\"beta/p\"]\nallow = [\"routes\"]\n";
    let house = House::open(config, false);
    let write = house.ask("alpha", "/write", &json!({"n": 1, "size": 1}));
    assert!(error(&write).contains("config.toml"), "{write}");
    let url = format!("{}/models", house.model.url());
    let fetch = house.owner.post("/v1/apps/alpha/fetch", &json!({"url": url}));
    assert!(fetch.status == 500 || fetch.json()["ok"] == false, "{}", fetch.text());
    assert!(house.model.seen().is_empty());
    assert_eq!(
        house.ask("alpha", "/ask", &json!({}))["text"],
        "some words and an end",
        "the twin"
    );

    // One plugin narrowed to its routes: its model request is refused though it was allowed in the launcher.
    let refused = house.ask("beta", "/ask", &json!({}));
    assert!(error(&refused).contains("beta/p"), "{refused}");
    assert_eq!(house.ask("beta", "/quick", &json!({})), json!(1));
    let listed = house.owner.get("/v1/apps/beta/plugins").ok();
    let plugin = &listed["plugins"][0];
    let head = plugin["hash"].clone();
    let llm = plugin["permissions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| p["capability"] == "llm")
        .unwrap();
    assert!(llm["policy"].as_str().unwrap().contains("config.toml"), "{llm}");
    let tried = house.owner.post(
        "/v1/plugins/beta__p/approve",
        &json!({"head": head, "capabilities": ["routes", "llm"]}),
    );
    assert_eq!((tried.status, tried.json()["code"].clone()), (403, json!("policy")));
}

#[test]
fn stopping_an_app_ends_its_answers_and_calls_and_nobody_elses() {
    let house = House::open("", true);
    std::thread::scope(|scope| {
        let clients: Vec<_> = [("alpha", "/ask"), ("alpha", "/sleep"), ("beta", "/ask")]
            .into_iter()
            .map(|(app, path)| {
                let page = house.running.page(&house.owner, app);
                scope.spawn(move || page.post(&format!("/v1/apps/{app}{path}"), &json!({})))
            })
            .collect();
        // The list of models may be asked for once or twice beside them.
        let asked = || house.model.seen().iter().filter(|seen| seen.method == "POST").count();
        wait_for("both model requests", || (asked() == 2).then_some(()));
        let stopped = house.owner.post("/v1/activity/alpha/stop", &json!({})).ok();
        assert!(stopped["stopped"].as_u64().unwrap() >= 2, "{stopped}");
        let mut clients = clients.into_iter();
        let answer = clients.next().unwrap().join().unwrap();
        assert!(
            answer.status == 500 || answer.json()["stopped"] == true,
            "{}",
            answer.text()
        );
        let slept = clients.next().unwrap().join().unwrap();
        assert_eq!(slept.status, 500, "{}", slept.text());
        assert!(slept.text().contains("stopped by the person"), "{}", slept.text());
        // The other app's answer goes on to its end.
        house.model.release();
        let other = clients.next().unwrap().join().unwrap();
        assert_eq!(other.json()["text"], "some words and an end", "{}", other.text());
    });
    assert_eq!(
        house.ask("alpha", "/quick", &json!({})),
        json!(1),
        "it can be used again"
    );
    let lines = house.owner.get("/v1/activity?kind=stop&app=alpha").ok();
    assert_eq!(lines["entries"].as_array().unwrap().len(), 1, "{lines}");
}

/// Contract section 12: the image proxy needs a real network grant. What comes back from a public host cannot be shown on
/// loopback; the walk that fetches it is tested in `net`.
#[test]
fn pictures_come_from_granted_hosts_alone() {
    let house = House::open("", false);
    let page = house.running.page(&house.owner, "alpha");
    let picture = |url: &str| page.get(&format!("/v1/apps/alpha/img?url={}", url.replace(':', "%3A")));
    for (url, status, words) in [
        ("https://api.example.net/a.png", 403, "may contact api.example.net"),
        ("https://api.example.com.evil.net/a.png", 403, "may contact"),
        ("https://127.0.0.1/a.png", 403, "may contact 127.0.0.1"),
        ("http://api.example.com/a.png", 400, "https://"),
        ("https://api.example.com:8443/a.png", 400, "usual port"),
        ("nonsense", 400, "cannot be read"),
    ] {
        let answer = picture(url);
        assert_eq!(answer.status, status, "{url}: {}", answer.text());
        assert!(answer.text().contains(words), "{url}: {}", answer.text());
    }
    // The granted host gets as far as the network, which is not there.
    let tried = picture("https://api.example.com/a.png");
    assert_eq!(tried.status, 502, "{}", tried.text());
    let lines = house.owner.get("/v1/activity?kind=connection&app=alpha").ok();
    let made = lines["entries"].as_array().unwrap();
    assert!(
        made.iter()
            .all(|line| line["target"] == "GET https://api.example.com/a.png"),
        "{lines}"
    );
    assert_eq!(made.len(), 1, "{lines}");
    // And is taken back at once.
    house
        .owner
        .post("/v1/plugins/alpha__p/revoke", &json!({"capability": "network"}))
        .ok();
    assert_eq!(picture("https://api.example.com/a.png").status, 403);
}

#[test]
fn a_page_that_is_refused_is_in_the_activity_log() {
    let house = House::open("", false);
    let page = house.running.page(&house.owner, "alpha");
    assert_eq!(page.get("/v1/apps/alpha/quick").ok(), json!(1));
    let refusals = || {
        house.owner.get("/v1/activity?kind=refusal&app=alpha").ok()["entries"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(refusals(), 0);
    house.owner.post("/v1/apps/alpha/plugins/p/disable", &json!({})).ok();
    assert_eq!((page.get("/v1/apps/alpha/quick").status, refusals()), (403, 1));
    house.owner.post("/v1/apps/alpha/plugins/p/enable", &json!({})).ok();
    house
        .owner
        .post("/v1/plugins/alpha__p/revoke", &json!({"capability": "routes"}))
        .ok();
    assert_eq!((page.get("/v1/apps/alpha/quick").status, refusals()), (403, 2));
}

/// Without a keychain what was given is gone with the run, and is not said to be there.
#[test]
fn a_secret_that_is_gone_is_not_called_saved() {
    let mut house = House::open("", false);
    let listed = |owner: &Client| {
        let plugin = owner.get("/v1/apps/alpha/plugins").ok()["plugins"][0].clone();
        plugin["secrets"][0].clone()
    };
    let given = json!({"value": "s3cret-value", "origin": "https://api.example.com"});
    let saved = house
        .owner
        .send("PUT", "/v1/plugins/alpha__p/secrets/token", &given)
        .ok();
    assert_eq!(
        (saved["ok"].clone(), saved.to_string().contains("s3cret")),
        (json!(true), false)
    );
    assert_eq!(
        (
            listed(&house.owner)["saved"].clone(),
            listed(&house.owner)["lost"].clone()
        ),
        (json!(true), json!(false))
    );
    house.running.stop();
    house.running = house.home.serve();
    let owner = house.running.login();
    assert_eq!(
        (listed(&owner)["saved"].clone(), listed(&owner)["lost"].clone()),
        (json!(false), json!(true))
    );
}

/// What the engine manages stands beside the apps' own addresses, not among them.
#[test]
fn an_apps_own_routes_are_its_own() {
    let house = House::open("", false);
    let page = house.running.page(&house.owner, "alpha");
    for path in ["/stop", "/budget", "/tools"] {
        for method in ["GET", "POST", "PUT"] {
            let answer = page.send(method, &format!("/v1/apps/alpha{path}"), &json!({}));
            assert_eq!(answer.json(), json!(format!("{method}{path}")), "{}", answer.text());
        }
    }
    assert_eq!(
        house
            .owner
            .send("PUT", "/v1/budgets/none", &json!({"tokens": 1}))
            .status,
        404
    );
}
