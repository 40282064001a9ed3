//! `host.store` through a real worker.

mod host_kit;

use host_kit::{House, THROWN};
use policy::Capability;
use serde_json::{Value, json};

const STORE: &[(Capability, &[&str])] = &[(Capability::Store, &[])];

#[tokio::test]
async fn values_stay_and_deletes_survive() {
    let house = House::new();
    let wrote = house
        .does(
            STORE,
            r#"
            host.store.put("a", { n: 1, list: [1, "zwei", null] });
            host.store.put("b", undefined);
            host.store.put("note:1", "x");
            host.store.put("note:2", "y");
            const copy = host.store.get("a");
            copy.n = 99;
            return [host.store.get("a"), host.store.get("b"), host.store.get("none"), host.store.keys("note:"),
                host.store.keys(), host.store.delete("note:1"), host.store.delete("note:1")];
            "#,
            json!(null),
        )
        .await
        .unwrap();
    let first = json!({"n": 1, "list": [1, "zwei", null]});
    let all = json!(["a", "b", "note:1", "note:2"]);
    assert_eq!(
        wrote,
        json!([first, null, null, ["note:1", "note:2"], all, true, false])
    );
    let later = house
        .does(STORE, "return [host.store.get('a'), host.store.keys()]", json!(null))
        .await
        .unwrap();
    assert_eq!(later, json!([first, ["a", "b", "note:2"]]));
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let house = House::new();
    let body = format!(
        "{THROWN}return [
            await thrown(() => host.store.get({{}})),
            await thrown(() => host.store.put('k'.repeat(513), 1)),
            await thrown(() => host.store.scan({{ limit: 0 }})),
            await thrown(() => host.store.batch([{{ put: 'a', value: 1, delete: 'b' }}])),
            await thrown(() => host.store.batch(Array(1001).fill({{ delete: 'a' }}))),
            await thrown(() => host.store.update('a', () => undefined)),
            await thrown(() => host.store.cas(null, 1, 2)),
        ]"
    );
    let errors = house.does(STORE, &body, json!(null)).await.unwrap();
    let wants = [
        "host.store.get: the key must be a string",
        "host.store.put: the key is longer than 512",
        "host.store.scan: limit must be",
        "host.store.batch: give a list",
        "host.store.batch: give a list of at most 1000",
        "must return the new value",
        "host.store.cas: the key must be a string",
    ];
    for (i, want) in wants.iter().enumerate() {
        assert!(
            errors[i].as_str().is_some_and(|e| e.contains(want)),
            "{}: {want}",
            errors[i]
        );
    }
}

#[tokio::test]
async fn comparing_and_setting_is_one_step() {
    let house = House::new();
    let cas = house
        .does(
            STORE,
            r#"
            const s = host.store;
            return [
                await s.cas("a", null, { x: 1 }), await s.cas("a", null, 2), await s.cas("a", { x: 2 }, 3),
                await s.cas("a", { x: 1 }, 4), s.get("a"), await s.cas("a", 4, undefined), s.keys(),
                await s.cas("a", null, null), await s.cas("a", null, 5), s.get("a"),
            ];
            "#,
            json!(null),
        )
        .await
        .unwrap();
    assert_eq!(cas, json!([true, false, false, true, 4, true, [], true, true, 5]));

    // Many calls that each await inside their change: none of them is lost.
    let source = "export async function run(given, host) {
        await host.store.update('n', async (n) => { await host.sleep(1); return (n ?? 0) + 1; });
        return null;
    }";
    house.grant(source, STORE);
    house
        .db
        .store_delete(&house.account, &house.app, &house.plugin, "n")
        .unwrap();
    let calls = (0..20).map(|_| house.run(source, json!(null)));
    for done in futures::future::join_all(calls).await {
        done.unwrap();
    }
    let n = house
        .db
        .store_get(&house.account, &house.app, &house.plugin, "n")
        .unwrap();
    assert_eq!(n.as_deref(), Some("20"));
}

#[tokio::test]
async fn scans_go_on_where_they_ended() {
    let house = House::new();
    let got = house
        .does(
            STORE,
            r#"
            await host.store.batch(Array.from({ length: 25 }, (_, i) => ({ put: `k${String(i).padStart(2, "0")}`, value: i })));
            host.store.put("other", 1);
            let after, seen = [], rounds = 0;
            for (;;) {
                const some = await host.store.scan({ prefix: "k", after, limit: 10 });
                if (!some.length) break;
                rounds++;
                for (const [key, value] of some) seen.push(value);
                after = some.at(-1)[0];
            }
            return { seen, rounds };
            "#,
            json!(null),
        )
        .await
        .unwrap();
    assert_eq!(got, json!({"seen": (0..25).collect::<Vec<_>>(), "rounds": 3}));
}

#[tokio::test]
async fn transactions_are_all_or_nothing() {
    let house = House::new();
    let body = format!(
        "{THROWN}
        const s = host.store;
        s.put('a', 1); s.put('gone', 1);
        const value = await s.transaction(async (tx) => {{
            tx.put('a', tx.get('a') + 1); tx.put('b', {{ deep: [1] }}); tx.delete('gone');
            return [tx.get('a'), tx.get('b'), tx.get('gone'), s.get('a')];
        }});
        const error = await thrown(() => s.transaction((tx) => {{ tx.put('a', 99); throw new Error('no') }}));
        const full = await thrown(() => s.transaction((tx) => {{ tx.put('a', 98); tx.put('big', 'x'.repeat(2 << 20)) }}));
        return {{ value, error, full, a: s.get('a'), keys: s.keys() }};"
    );
    let got = house.does(STORE, &body, json!(null)).await.unwrap();
    assert_eq!(got["value"], json!([2, {"deep": [1]}, null, 1]));
    assert_eq!(
        (&got["error"], &got["a"], &got["keys"]),
        (&json!("no"), &json!(2), &json!(["a", "b"]))
    );
    assert!(
        got["full"].as_str().is_some_and(|e| e.contains("host.store.batch")),
        "{got}"
    );
}

#[tokio::test]
async fn the_quota_is_what_was_granted() {
    let house = House::new();
    let body =
        format!("{THROWN}return [await thrown(() => host.store.put('a', 'é'.repeat(given))), host.store.keys()]");
    let half = (1 << 19) + 10;
    let usual = house.does(STORE, &body, json!(half)).await.unwrap();
    assert!(
        usual[0].as_str().is_some_and(|e| e.contains("host.store.put")),
        "counted in bytes: {usual}"
    );
    assert_eq!(usual[1], json!([]));
    let wide: &[(Capability, &[&str])] = &[(Capability::Store, &["quota:2097152"])];
    assert_eq!(
        house.does(wide, &body, json!(half)).await.unwrap(),
        json!([Value::Null, ["a"]])
    );
    assert!(house.does(wide, &body, json!(1 << 20)).await.unwrap()[0].is_string());
}
