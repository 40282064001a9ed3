//! What models cost, and limits for it that hold before anything is sent. Through HTTP on the built program.

use serde_json::{Value, json};
use testkit::{AppFolder, Client, Home, ModelServer, Running, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chrysalis");

const CODE: &str = r#"
const ask = (model) => ({ model, messages: [{ role: "user", content: "hi" }], presetParams: { max_tokens: 100 } });
export async function handleRoute(req, host) {
  if (req.path === "/ask") return { json: await host.llm.generate(ask(req.body.model)).catch((e) => ({ error: e.message })) };
  if (req.path === "/embed") return { json: await host.llm.embed(req.body).catch((e) => ({ error: e.message })) };
  if (req.path === "/tools") {
    const tools = [{ name: "look", description: "Looks.", parameters: { type: "object", properties: {} } }];
    return { json: await host.llm.generate({ ...ask(), tools }).catch((e) => ({ error: e.message })) };
  }
}
export function handleTool(name, args) { return { text: "seen" }; }
"#;

struct House {
    owner: Client,
    model: ModelServer,
    connection: String,
    running: Running,
    home: Home,
}

impl House {
    /// Each answer took ten tokens sent and twenty of text, as its server says. A question with `withheld` waits for the
    /// test, one with tools is answered by a call of a tool first.
    fn open() -> Self {
        Self::with(false)
    }

    fn with(withheld: bool) -> Self {
        let model = ModelServer::start(move |seen, out| {
            if seen.target.ends_with("/embeddings") {
                return out.json(200, &json!({"data": [{"index": 0, "embedding": [0.5, 0.25]}]}));
            }
            out.begin();
            let asked: Value = serde_json::from_str(&seen.body).unwrap_or_default();
            let answered = asked["messages"]
                .as_array()
                .is_some_and(|all| all.iter().any(|m| m["role"] == "tool"));
            if asked["tools"].is_array() && !answered {
                let call = json!({"index": 0, "id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
                out.raw(&event(
                    &json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}),
                ));
                out.raw(&event(
                    &json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
                ));
            } else if !withheld || out.gate() {
                out.delta("some words");
            } else {
                return;
            }
            out.raw(&event(
                &json!({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 20}}),
            ));
            out.done();
        });
        let home = Home::new(PROGRAM);
        let running = home.serve();
        let owner = running.set_up();
        let connection = running.connect(&owner, &model.url(), None);
        for id in ["alpha", "beta"] {
            let app = AppFolder::new(home.folder(), id).plugin("p", &["routes", "llm", "tools"], CODE);
            running.add(app.path(), id);
        }
        Self {
            owner,
            model,
            connection,
            running,
            home,
        }
    }

    /// A dollar per million tokens sent, ten per million of the answer.
    fn price(&self) {
        let price = json!({"ref": format!("{}/m", self.connection), "pricing": {"input": 1, "output": 10}});
        self.owner.send("PUT", "/v1/models/pricing", &price).ok();
    }

    fn ask(&self, app: &str) -> Value {
        self.owner.post(&format!("/v1/apps/{app}/ask"), &json!({})).ok()
    }

    fn limit(&self, limits: &Value) -> Value {
        self.owner.send("PUT", "/v1/spend/limits", limits).ok()
    }

    fn today(&self) -> Value {
        self.owner.get("/v1/spend").ok()["today"].clone()
    }
}

fn event(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn error(value: &Value) -> &str {
    value["error"].as_str().unwrap_or_default()
}

#[test]
fn what_a_model_costs_stands_with_the_answer_in_activity_and_in_the_sums() {
    let house = House::open();
    let unknown = house.ask("alpha");
    assert_eq!(unknown["text"], "some words", "{unknown}");
    assert_eq!(unknown["usage"]["priced"], false, "unknown is not free");
    house.price();
    let answer = house.ask("alpha");
    assert_eq!(answer["usage"]["priced"], true, "{answer}");
    let cost = answer["usage"]["costTotal"].as_f64().unwrap();
    assert!((cost - 0.00021).abs() < 1e-9, "{cost}");
    house.ask("beta");

    let spend = house.owner.get("/v1/spend?days=3").ok();
    let want = json!({
        "cost": 0.00042, "pricedCalls": 2, "unpricedCalls": 1, "calls": 3, "tokensIn": 30, "tokensOut": 60, "images": 0,
        "speechSeconds": 0.0,
    });
    assert_eq!(spend["today"], want);
    assert_eq!(spend["month"], want);
    assert_eq!(spend["currency"], "USD");
    let days = spend["days"].as_array().unwrap();
    assert_eq!(
        (days.len(), &days[2]["calls"], &days[0]["calls"]),
        (3, &json!(3), &json!(0))
    );
    let apps: Vec<_> = spend["apps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["app"], &one["cost"]))
        .collect();
    assert_eq!(
        apps,
        [(&json!("alpha"), &json!(0.00021)), (&json!("beta"), &json!(0.00021))]
    );
    let alone = house.owner.get("/v1/spend?app=beta").ok();
    assert_eq!(
        (&alone["today"]["calls"], alone["days"].as_array().unwrap().len()),
        (&json!(1), 30)
    );

    let lines = house.owner.get("/v1/activity?kind=model&app=alpha").ok();
    let costs: Vec<_> = lines["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| &line["cost"])
        .collect();
    assert!((costs[0].as_f64().unwrap() - 0.00021).abs() < 1e-9, "{costs:?}");
    assert_eq!(costs[1], &Value::Null);

    // The built-in model costs nothing, and is in no sum.
    house
        .owner
        .post("/v1/apps/alpha/ask", &json!({"model": "demo/canned"}))
        .ok();
    assert_eq!(house.today()["calls"], 3);
    // What a removed app spent stays.
    house.owner.send("DELETE", "/v1/apps/beta", &json!({})).ok();
    let spend = house.owner.get("/v1/spend").ok();
    assert_eq!(spend["today"]["calls"], 3);
    let removed = spend["apps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["removed"] == true);
    assert_eq!(
        removed.map(|one| (&one["app"], &one["calls"])),
        Some((&Value::Null, &json!(1)))
    );
}

#[test]
fn questions_side_by_side_do_not_pass_a_limit_in_money() {
    let house = House::with(true);
    house.price();
    // Each may cost 1,001 millionths: there is room for three at once.
    house.limit(&json!({"all": {"day": {"usd": 0.0035}}}));
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8)
            .map(|n| {
                let house = &house;
                scope.spawn(move || house.ask(["alpha", "beta"][n % 2]))
            })
            .collect();
        // Five come back refused while the three wait for their answers.
        wait_for("the refusals", || {
            (asked.iter().filter(|one| one.is_finished()).count() == 5).then_some(())
        });
        let sent = house.model.seen().iter().filter(|seen| seen.method == "POST").count();
        assert_eq!(sent, 3, "nothing was sent that the limit has no room for");
        house.model.release();
        asked.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let refused: Vec<&Value> = answers.iter().filter(|answer| !error(answer).is_empty()).collect();
    assert_eq!(refused.len(), 5);
    for answer in refused {
        assert_eq!(answer["errorInfo"]["kind"], "limit", "{answer}");
        for part in [
            "everything together",
            "for a day",
            "$0.003500",
            "may take $0.001001",
            "begins anew on",
            "raise",
        ] {
            assert!(error(answer).contains(part), "{part}: {answer}");
        }
    }
    let today = house.today();
    assert_eq!((&today["calls"], &today["cost"]), (&json!(3), &json!(0.00063)));
    // They took less than was set aside for them, so there is room again, to the end and not beyond.
    let mut more = 0;
    while error(&house.ask("alpha")).is_empty() {
        more += 1;
    }
    assert_eq!(more, 9, "while 1,001 fit beside what is used");
    let cost = house.today()["cost"].as_f64().unwrap();
    assert!(cost <= 0.0035, "{cost}");
}

#[test]
fn a_limit_is_for_one_app_or_over_all_and_off_unless_set() {
    let house = House::open();
    let off = json!({"usd": null, "tokens": null, "images": null, "speechSeconds": null});
    let none = json!({"all": {"day": off, "month": off}, "apps": {}});
    assert_eq!(house.owner.get("/v1/spend/limits").ok(), none);
    let set = house.limit(&json!({"apps": {"alpha": {"month": {"tokens": 110}}}}));
    assert_eq!(set["apps"]["alpha"]["month"]["tokens"], 110);
    assert_eq!(set["apps"]["alpha"]["day"], off);
    assert_eq!(error(&house.ask("alpha")), "");
    let why = house.ask("alpha");
    for part in ["the app \"alpha\"", "for a month", "110 tokens", "30 tokens are used"] {
        assert!(error(&why).contains(part), "{why}");
    }
    assert_eq!(error(&house.ask("beta")), "", "another app's limit");
    // What is not named stays; what is null goes.
    let set = house.limit(&json!({"all": {"day": {"tokens": 150, "images": 0}}}));
    assert_eq!(
        (&set["apps"]["alpha"]["month"]["tokens"], &set["all"]["day"]["images"]),
        (&json!(110), &json!(0))
    );
    assert!(error(&house.ask("beta")).contains("everything together"));
    let set = house.limit(&json!({"all": {"day": {"tokens": null}}, "apps": {"alpha": null}}));
    assert_eq!((&set["all"]["day"]["images"], &set["apps"]), (&json!(0), &json!({})));
    assert_eq!((error(&house.ask("alpha")), error(&house.ask("beta"))), ("", ""));
    // A limit in money asks for a price, but not of a server in the house.
    house.limit(&json!({"all": {"day": {"usd": 0.0001}}}));
    assert_eq!(error(&house.ask("alpha")), "");
    assert!(house.today()["unpricedCalls"].as_u64().unwrap() > 0);
    house.price();
    assert_eq!(house.ask("alpha")["errorInfo"]["kind"], "limit");
}

#[test]
fn a_limit_holds_between_the_rounds_of_one_question() {
    let house = House::open();
    let asked = |house: &House| house.owner.post("/v1/apps/alpha/tools", &json!({})).ok();
    let whole = asked(&house);
    assert_eq!((error(&whole), &whole["text"]), ("", &json!("some words")), "{whole}");
    assert_eq!(whole["usage"]["output"], 40);
    // Room for the first round of another question, not for its second.
    let used = 60;
    house.limit(&json!({"apps": {"alpha": {"day": {"tokens": used + 150}}}}));
    house.model.forget();
    let cut = asked(&house);
    assert_eq!(cut["errorInfo"]["kind"], "limit", "{cut}");
    assert_eq!(house.model.seen().len(), 1, "the second round was not sent");
    assert_eq!(house.today()["tokensOut"], 60, "the first one was paid");
}

#[test]
fn vectors_of_texts_cost_too() {
    let house = House::open();
    let reference = format!("{}/vectors", house.connection);
    let price = json!({"ref": reference, "pricing": {"input": 2, "output": 0}});
    house.owner.send("PUT", "/v1/models/pricing", &price).ok();
    let embed = |text: &str| {
        let body = json!({"texts": [text], "model": reference});
        house.owner.post("/v1/apps/alpha/embed", &body).ok()
    };
    assert_eq!(embed(&"four".repeat(100)), json!([[0.5, 0.25]]));
    let today = house.today();
    assert_eq!(
        (&today["cost"], &today["tokensIn"], &today["pricedCalls"]),
        (&json!(0.0002), &json!(100), &json!(1))
    );
    house.limit(&json!({"apps": {"alpha": {"day": {"usd": 0.0003}}}}));
    let why = embed(&"four".repeat(100));
    assert!(error(&why).contains("the app \"alpha\""), "{why}");
    assert_eq!(
        house
            .model
            .seen()
            .iter()
            .filter(|seen| seen.target.ends_with("/embeddings"))
            .count(),
        1
    );
    assert_eq!(embed(&"four".repeat(50)), json!([[0.5, 0.25]]), "what fits is asked");
    let other = house.running.connect(&house.owner, &house.model.url(), None);
    house
        .owner
        .send("PUT", "/v1/settings/app-models/alpha", &json!({"models": [other]}))
        .ok();
    assert!(error(&embed("x")).contains("may not use the model"));
}

#[test]
fn what_was_set_aside_when_the_program_was_killed_is_free_again() {
    let mut house = House::with(true);
    house.limit(&json!({"all": {"day": {"tokens": 150}}}));
    let cookie = house.owner.headers.last().unwrap().1.clone();
    let owner = house.owner.clone();
    let waiting = std::thread::spawn(move || owner.ask("POST", "/v1/apps/alpha/ask", &[], b"{}"));
    wait_for("the question to arrive", || {
        (!house.model.seen().is_empty()).then_some(())
    });
    wait_for("what it may take to stand in the way", || {
        house.ask("beta")["errorInfo"]["kind"].as_str().map(drop)
    });
    house.running.kill();
    let _ = waiting.join();
    house.model.release();
    house.running = house.home.serve();
    house.owner = house.running.nobody().with("Cookie", &cookie);
    assert_eq!(error(&house.ask("beta")), "");
    assert_eq!(house.today()["calls"], 1);
}

#[test]
fn bad_prices_limits_and_windows_are_refused_with_the_reason() {
    let house = House::open();
    let reference = format!("{}/m", house.connection);
    let price = |pricing: Value| {
        house.owner.send(
            "PUT",
            "/v1/models/pricing",
            &json!({"ref": reference, "pricing": pricing}),
        )
    };
    let below = price(json!({"input": -0.5, "output": 1})).error(400);
    assert!(below.contains("below zero"), "{below}");
    for wrong in [
        json!({"input": 1e7, "output": 1}),
        json!({"input": "1", "output": 1}),
        json!({"input": 1}),
        json!({}),
        json!([1]),
        json!(5),
    ] {
        price(wrong).error(400);
    }
    assert_eq!(house.ask("alpha")["usage"]["priced"], false, "nothing of it was kept");
    for (limits, word) in [
        (json!({"all": {"day": {"usd": -1}}}), "usd"),
        (json!({"all": {"day": {"tokens": 1.5}}}), "tokens"),
        (json!({"all": {"day": {"euro": 1}}}), "euro"),
        (json!({"all": {"week": {"usd": 1}}}), "week"),
        (json!({"all": 5}), "all"),
        (json!({"everything": {}}), "everything"),
        (json!({"apps": {"../x": {"day": {"usd": 1}}}}), ""),
    ] {
        let refused = house.owner.send("PUT", "/v1/spend/limits", &limits);
        assert!(matches!(refused.status, 400 | 422), "{limits}: {}", refused.text());
        assert!(refused.text().contains(word), "{limits}: {}", refused.text());
    }
    let nowhere = json!({"apps": {"nowhere": {"day": {"usd": 1}}}});
    house.owner.send("PUT", "/v1/spend/limits", &nowhere).error(404);
    // One wrong part, and nothing is set.
    let half = json!({"all": {"day": {"usd": 1}}, "apps": {"alpha": {"day": {"usd": "x"}}}});
    house.owner.send("PUT", "/v1/spend/limits", &half).error(400);
    assert_eq!(
        house.owner.get("/v1/spend/limits").ok()["all"]["day"]["usd"],
        Value::Null
    );

    let window = |tokens: Value| json!({"ref": reference, "contextWindow": tokens});
    for wrong in [json!(0), json!(-5), json!(1.5), json!(1e12), json!("x")] {
        let refused = house.owner.send("PUT", "/v1/models/context", &window(wrong.clone()));
        assert!(matches!(refused.status, 400 | 422), "{wrong}: {}", refused.text());
    }
    let set = house.owner.send("PUT", "/v1/models/context", &window(json!(8192))).ok();
    assert_eq!(set, json!({"ref": reference, "contextWindow": 8192}));
    for (unknown, status) in [
        ("c_no-000000/m".to_owned(), 404),
        ("m".to_owned(), 400),
        (format!("{reference}{}", "x".repeat(400)), 400),
    ] {
        let body = json!({"ref": unknown, "contextWindow": 1});
        house.owner.send("PUT", "/v1/models/context", &body).error(status);
    }
}

#[test]
fn only_the_person_and_apps_from_the_box_set_prices_and_no_app_sees_the_spending() {
    let house = House::open();
    house.running.add_from_box(&house.owner, "chat");
    let (stranger, chat) = (
        house.running.page(&house.owner, "alpha"),
        house.running.page(&house.owner, "chat"),
    );
    let reference = format!("{}/m", house.connection);
    let price = json!({"ref": reference, "pricing": {"input": 1, "output": 1}});
    let window = json!({"ref": reference, "contextWindow": 4096});
    for (route, body) in [("/v1/models/pricing", &price), ("/v1/models/context", &window)] {
        stranger.send("PUT", route, body).error(403);
        chat.send("PUT", route, body).ok();
    }
    for page in [&stranger, &chat] {
        for route in ["/v1/spend", "/v1/spend/limits", "/v1/settings/app-models/alpha"] {
            page.get(route).error(403);
        }
        page.send("PUT", "/v1/spend/limits", &json!({"all": null})).error(403);
        page.send("PUT", "/v1/settings/app-models/alpha", &json!({"models": "all"}))
            .error(403);
    }
}

#[test]
fn an_app_uses_the_models_the_person_chose_for_it() {
    let house = House::open();
    let other = house.running.connect(&house.owner, &house.model.url(), None);
    let route = "/v1/settings/app-models/alpha";
    let choose = |models: Value| house.owner.send("PUT", route, &json!({"models": models}));
    let ask = |model: Option<String>| house.owner.post("/v1/apps/alpha/ask", &json!({"model": model})).ok();
    assert_eq!(house.owner.get(route).ok(), json!({"models": "all"}));
    let (first, second) = (format!("{}/m", house.connection), format!("{other}/m"));
    for model in [&first, &second] {
        assert_eq!(error(&ask(Some(model.clone()))), "");
    }
    assert_eq!(choose(json!([other])).ok(), json!({"models": [other]}));
    let why = ask(Some(first.clone()));
    assert!(error(&why).contains("may not use the model"), "{why}");
    assert_eq!(ask(Some(second.clone()))["model"], json!(second));
    assert_eq!(ask(None)["model"], json!(second), "the first it may use");
    assert_eq!(ask(Some("m".into()))["model"], json!(second));
    assert_eq!(house.ask("beta")["model"], json!(first), "another app's choice");
    // Also where the person's own choice for all is one it may not use.
    house.owner.send("PUT", "/v1/settings", &json!({"model": first})).ok();
    assert_eq!(ask(None)["model"], json!(second));
    choose(json!([])).ok();
    let why = ask(None);
    assert!(error(&why).contains("may use none of the models"), "{why}");
    assert_eq!(
        error(&ask(Some("demo/canned".into()))),
        "",
        "the built-in model asks nobody"
    );
    choose(json!([format!("{}/else", house.connection)])).ok();
    assert!(error(&ask(Some(first.clone()))).contains("may not use"));
    for wrong in [
        json!("some"),
        json!([5]),
        json!([""]),
        json!(["c_no-000000"]),
        json!(null),
    ] {
        choose(wrong).error(400);
    }
    choose(json!("all")).ok();
    assert_eq!(ask(Some(first.clone()))["model"], json!(first));
    house.owner.get("/v1/settings/app-models/nowhere").error(404);
}
