//! `host.llm` through a real worker.

mod host_kit;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use apps::host::Entry;
use host_kit::{House, THROWN};
use policy::Capability;
use serde_json::json;

const LLM: &[(Capability, &[&str])] = &[(Capability::Llm, &[])];

#[tokio::test]
async fn awaited_streamed_and_in_parallel() {
    let mut house = House::new();
    house.entry = Entry::Tick;
    let body = format!(
        "{THROWN}
        const whole = await host.llm.generate({{ messages: [] }});
        const run = host.llm.stream({{ messages: [] }});
        const parts = [];
        for await (const part of run) parts.push(part.delta);
        const rest = await host.llm.stream({{ messages: [] }}).result;
        const many = await Promise.all(Array.from({{ length: 20 }}, () => host.llm.generate({{ messages: [] }})));
        return {{
            whole: whole.text, parts, ended: (await run.result).text, rest: rest.text, many: many.map((m) => m.text),
            missing: await thrown(() => host.llm.generate({{ model: 'missing' }})),
            missingStream: await thrown(() => host.llm.stream({{ model: 'missing' }}).result),
            option: await thrown(() => host.llm.generate({{}}, {{ timeoutMs: 'soon' }})),
        }};"
    );
    let got = house.does(LLM, &body, json!(null)).await.unwrap();
    assert_eq!(got["whole"], "one two");
    assert_eq!(got["parts"], json!(["one ", "two"]));
    assert_eq!((&got["ended"], &got["rest"]), (&json!("one two"), &json!("one two")));
    assert_eq!(got["many"].as_array().map(Vec::len), Some(20));
    assert!(
        got["missing"].as_str().is_some_and(|e| e.contains("is not there")),
        "{got}"
    );
    assert_eq!(got["missing"], got["missingStream"]);
    assert!(got["option"].as_str().is_some_and(|e| e.contains("timeoutMs")), "{got}");
    let asked = house.world.asked.lock();
    assert!(
        asked
            .iter()
            .all(|(from, key, _)| *from == Entry::Tick && key.is_empty()),
        "{asked:?}"
    );
}

#[tokio::test]
async fn a_request_that_is_waited_for_can_be_aborted() {
    let house = House::new();
    house.world.hangs.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let got = house
        .does(
            LLM,
            r#"
            const whole = host.llm.generate({ messages: [] });
            const run = host.llm.stream({ messages: [] });
            const reading = (async () => { const seen = []; for await (const part of run) seen.push(part.delta); return seen })();
            await host.sleep(20);
            await whole.abort();
            await run.abort();
            const late = await host.llm.generate({ messages: [] }, { timeoutMs: 30 });
            return { whole: await whole, seen: await reading, result: await run.result, late };
            "#,
            json!(null),
        )
        .await
        .unwrap();
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(
        (&got["whole"]["text"], &got["whole"]["stopped"]),
        (&json!("one"), &json!(true))
    );
    assert_eq!(
        (&got["seen"], &got["result"]["stopped"]),
        (&json!(["one"]), &json!(true))
    );
    assert_eq!(got["late"]["text"], "one", "what had arrived is there");
    assert!(
        got["late"]["error"].as_str().is_some_and(|e| e.contains("30 ms")),
        "{got}"
    );
    assert_eq!(house.world.aborted.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_request_that_nobody_waits_for_any_more_is_let_go() {
    let house = House::new();
    house.world.hangs.store(true, Ordering::SeqCst);
    let body = "host.llm.generate({ messages: [] }); host.llm.stream({ messages: [] }); await host.sleep(20); return 1";
    assert_eq!(house.does(LLM, body, json!(null)).await, Ok(json!(1)));
    let until = Instant::now() + Duration::from_secs(20);
    while house.world.dropped.load(Ordering::SeqCst) < house.world.asked.lock().len() {
        assert!(Instant::now() < until, "requests are still held");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(house.world.asked.lock().len(), 2);
}

#[tokio::test]
async fn embeddings_in_both_forms() {
    let house = House::new();
    let body = format!(
        "{THROWN}
        if (!host.llm.embedResults.e) {{
            host.llm.embed('e', {{ texts: ['ab', 'c'] }});
            host.llm.embed('none', {{ texts: ['ab'], model: 'none' }});
            return 'first pass';
        }}
        return {{
            queued: host.llm.embedResults, awaited: await host.llm.embed({{ texts: ['abc'] }}),
            wrong: await thrown(() => host.llm.embed({{ texts: [1] }})),
            many: await thrown(() => host.llm.embed({{ texts: Array(2049).fill('x') }})),
        }};"
    );
    let got = house.does(LLM, &body, json!(null)).await.unwrap();
    assert_eq!(got["queued"], json!({"e": [[2, 1], [1, 1]], "none": null}));
    assert_eq!(got["awaited"], json!([[3, 1]]));
    for field in ["wrong", "many"] {
        assert!(
            got[field].as_str().is_some_and(|e| e.contains("at most 2048 strings")),
            "{got}"
        );
    }
}

#[tokio::test]
async fn queued_requests_have_their_keys_order_and_limits() {
    let mut house = House::new();
    house.entry = Entry::Hook;
    let body = format!(
        "{THROWN}
        if (!host.llm.results.a) {{
            const errors = [];
            for (let i = 0; i < 17; i++) errors.push(await thrown(() => host.llm.request(i ? `k${{i}}` : 'a', {{ n: i }})));
            for (let i = 0; i < 9; i++) errors.push(await thrown(() => host.llm.embed(`e${{i}}`, {{ texts: [] }})));
            errors.push(await thrown(() => host.llm.request(5, {{}})));
            host.store.put('errors', errors);
            return 1;
        }}
        host.llm.results.a.extra = {{ mine: true }};
        Object.assign(host.llm.results.k1, {{ text: 'changed' }});
        return {{ a: host.llm.results.a, k1: host.llm.results.k1.text, keys: Object.keys(host.llm.results).length,
            embeds: Object.keys(host.llm.embedResults).length, errors: host.store.get('errors') }};"
    );
    let both: &[(Capability, &[&str])] = &[(Capability::Llm, &[]), (Capability::Store, &[])];
    let got = house.does(both, &body, json!(null)).await.unwrap();
    assert_eq!(
        (&got["a"]["text"], &got["a"]["extra"]["mine"]),
        (&json!("one two"), &json!(true))
    );
    assert_eq!(
        (&got["k1"], &got["keys"], &got["embeds"]),
        (&json!("changed"), &json!(16), &json!(8))
    );
    let errors = got["errors"].as_array().unwrap();
    let failed: Vec<usize> = (0..errors.len()).filter(|i| errors[*i].is_string()).collect();
    assert_eq!(failed, [16, 25, 26], "{errors:?}");
    assert!(
        errors[16].as_str().is_some_and(|e| e.contains("at most 16 requests")),
        "{errors:?}"
    );
    assert!(
        errors[25].as_str().is_some_and(|e| e.contains("at most 8 requests")),
        "{errors:?}"
    );
    let asked = house.world.asked.lock();
    let keys: Vec<&str> = asked.iter().map(|(_, key, _)| key.as_str()).collect();
    assert_eq!(keys[..3], ["a", "k1", "k2"]);
    assert!(asked.iter().all(|(from, ..)| *from == Entry::Hook));
}

#[tokio::test]
async fn without_the_permission_nothing_is_asked() {
    let house = House::new();
    let body = format!(
        "{THROWN}
        host.llm.request('a', {{ messages: [] }});
        host.llm.embed('e', {{ texts: ['x'] }});
        return [await thrown(() => host.llm.generate({{}})), await thrown(() => host.llm.stream({{}}).result),
            await thrown(() => host.llm.embed({{ texts: ['x'] }})), Object.keys(host.llm.results)];"
    );
    let got = house
        .does(&[(Capability::Store, &[])], &body, json!(null))
        .await
        .unwrap();
    for error in got.as_array().unwrap().iter().take(3) {
        assert!(
            error
                .as_str()
                .is_some_and(|e| e.contains("needs the permission \"llm\"")),
            "{got}"
        );
    }
    assert_eq!(got[3], json!([]));
    assert!(house.world.asked.lock().is_empty());
    assert_eq!(house.world.embedded.load(Ordering::SeqCst), 0);
    assert!(
        house.world.refused.lock().len() >= 5,
        "{:?}",
        house.world.refused.lock()
    );
}

#[tokio::test]
async fn sleeping_has_an_end() {
    let house = House::new();
    let body = format!(
        "{THROWN}
        await host.sleep(5);
        return [await thrown(() => host.sleep(60_001)), await thrown(() => host.sleep('x')), await thrown(() => host.sleep(-1))];"
    );
    let got = house.does(&[], &body, json!(null)).await.unwrap();
    assert!(got[0].as_str().is_some_and(|e| e.contains("at most 60 s")), "{got}");
    assert!(got[1].is_string() && got[2].is_string(), "{got}");
}
