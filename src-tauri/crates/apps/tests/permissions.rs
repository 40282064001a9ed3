//! How a manifest's wishes and a person's answers come together.

mod host_kit;

use apps::host::Entry;
use apps::manifest::{PluginManifest, clash};
use apps::permission::Permissions;
use host_kit::{House, code};
use net::HostPattern;
use policy::{Capability, GrantState, HostPolicy, PluginPolicy};

fn manifest(rest: &str) -> PluginManifest {
    PluginManifest::parse(format!("{{\"name\":\"p\",{rest}}}").as_bytes()).unwrap()
}

fn parse_error(rest: &str) -> String {
    PluginManifest::parse(format!("{{\"name\":\"p\",{rest}}}").as_bytes())
        .unwrap_err()
        .to_string()
}

fn asks(rest: &str) -> Vec<(Capability, Vec<String>)> {
    manifest(rest).asks()
}

fn of(capability: Capability, scope: &[&str]) -> (Capability, Vec<String>) {
    (capability, scope.iter().map(ToString::to_string).collect())
}

#[test]
fn what_a_manifest_asks_for() {
    use Capability::{Llm, LocalNetwork, Network, Store};
    assert_eq!(asks(r#""permissions":["llm","store"]"#), [of(Llm, &[]), of(Store, &[])]);
    assert_eq!(
        asks(r#""permissions":["store"],"storeQuota":2000000"#),
        [of(Store, &["quota:2000000"])]
    );
    // A local host in the list is the request for the local network.
    assert_eq!(
        asks(
            r#""permissions":["network"],"networkHosts":["B.example.com","localhost:8188","*.a.example","192.168.0.7","b.example.com"]"#
        ),
        [
            of(Network, &["*.a.example", "b.example.com"]),
            of(LocalNetwork, &["192.168.0.7", "localhost:8188"])
        ]
    );
    assert_eq!(
        asks(r#""permissions":["local-network"],"localHosts":["nas.lan:8080"],"networkHosts":["example.com"]"#),
        [of(LocalNetwork, &["nas.lan:8080"])]
    );
    assert_eq!(
        asks(r#""permissions":["network"]"#),
        [of(Network, &[])],
        "nothing reachable, but shown"
    );
    assert_eq!(
        asks(r#""permissions":["llm"],"networkHosts":["example.com","localhost"]"#),
        [of(Llm, &[])]
    );
    for (rest, want) in [
        (
            r#""permissions":[],"networkHosts":["ok.example","*"]"#,
            "\"networkHosts[1]\"",
        ),
        (
            r#""permissions":[],"networkHosts":["https://x.example/"]"#,
            "\"networkHosts[0]\"",
        ),
        (r#""permissions":[],"localHosts":["*.com"]"#, "\"localHosts[0]\""),
        (r#""permissions":[],"storeQuota":67108865"#, "\"storeQuota\""),
        (r#""permissions":[],"storeQuota":-1"#, "\"storeQuota\""),
        (r#""permissions":[],"secrets":{}"#, "\"secrets\""),
        (
            r#""permissions":[],"secrets":[{"name":"A","origin":"https://x.example"}]"#,
            "\"secrets[0].name\"",
        ),
        (
            r#""permissions":[],"secrets":[{"name":"a","origin":"x"}]"#,
            "\"secrets[0].origin\"",
        ),
        (
            r#""permissions":[],"secrets":[{"name":"a","origin":"https://x.example"},{"name":"a","origin":"https://y.example"}]"#,
            "\"secrets[1].name\"",
        ),
        (r#""permissions":[],"hooks":"llmRequest""#, "\"hooks\""),
    ] {
        let got = parse_error(rest);
        assert!(got.contains(want), "{rest}: {got}");
    }
    let secret = &manifest(
        r#""permissions":[],"secrets":[{"name":"key_1","origin":"https://API.example.com/","reason":"to ask"}]"#,
    )
    .secrets[0];
    assert_eq!(
        (secret.name.as_str(), secret.reason.as_deref()),
        ("key_1", Some("to ask"))
    );
    assert_eq!(
        secret.origin,
        secrets::Origin::parse("https://api.example.com").unwrap().to_string()
    );
}

#[test]
fn hooks_are_flags_or_a_list() {
    for (hooks, request, response) in [
        (r#""permissions":[]"#, true, true),
        (r#""permissions":[],"hooks":["llmRequest"]"#, true, false),
        (
            r#""permissions":[],"hooks":{"llmRequest":false,"llmResponse":true}"#,
            false,
            true,
        ),
        (r#""permissions":[],"hooks":false"#, false, false),
        (r#""permissions":[],"hooks":true"#, true, true),
    ] {
        let manifest = manifest(hooks);
        assert_eq!(
            (manifest.hook("llmRequest"), manifest.hook("llmResponse")),
            (request, response),
            "{hooks}"
        );
    }
}

#[test]
fn claimed_routes_clash() {
    let with = |routes: &str| manifest(&format!(r#""permissions":[],"routes":{routes}"#));
    for (a, b, clashes) in [
        (r#"["notes"]"#, r#"["notes/"]"#, true),
        (r#"["x","a/b"]"#, r#"["a"]"#, true),
        (r#"["note"]"#, r#"["notes"]"#, false),
        (r#"["a/b"]"#, r#"["a/c"]"#, false),
        (r#"[]"#, r#"["a"]"#, false),
        (r#"["/"]"#, r#"["a"]"#, true),
    ] {
        let (a, b) = (with(a), with(b));
        assert_eq!(clash(&a, &b).is_some(), clashes, "{:?} {:?}", a.routes, b.routes);
        assert_eq!(clash(&b, &a).is_some(), clashes, "{:?} {:?}", b.routes, a.routes);
    }
}

fn says(answer: Result<apps::permission::Granted, String>, parts: &[&str]) {
    let why = answer.expect_err("it should be refused");
    for part in parts {
        assert!(why.contains(part), "{why} should say: {part}");
    }
}

#[test]
fn granted_asked_denied_stale_and_off() {
    let house = House::new();
    let manifest = manifest(r#""permissions":["llm","network","store"],"networkHosts":["api.example.com"]"#);
    let permissions = house.permissions();
    let (account, app, plugin) = (&house.account, &house.app, &house.plugin);
    let check = |code, capability| permissions.check(account, app, plugin, code, capability);
    let states = |code, manifest: &PluginManifest| -> Vec<(Capability, GrantState)> {
        let states = permissions.states(account, app, plugin, code, manifest).unwrap();
        states
            .into_iter()
            .map(|asked| (asked.capability, asked.state))
            .collect()
    };
    let (now, later) = (code("now"), code("later"));

    says(
        check(now, Capability::Llm),
        &["\"llm\"", "alpha/p", "manifest.json", "launcher"],
    );
    assert!(
        states(now, &manifest)
            .iter()
            .all(|(_, state)| *state == GrantState::Asked)
    );

    let granted = [
        (Capability::Llm, vec![]),
        (Capability::Network, vec!["api.example.com".to_owned()]),
    ];
    house
        .db
        .decide(account, app, plugin, now, &granted, &[Capability::Store], "owner")
        .unwrap();
    assert!(check(now, Capability::Llm).is_ok());
    let scope = check(now, Capability::Network).unwrap().scope;
    assert_eq!(scope, [HostPattern::parse("api.example.com").unwrap()]);
    says(check(now, Capability::Store), &["\"store\"", "refused"]);
    says(check(later, Capability::Llm), &["\"llm\"", "changed", "again"]);
    assert_eq!(
        states(now, &manifest),
        [
            (Capability::Llm, GrantState::Granted),
            (Capability::Network, GrantState::Granted),
            (Capability::Store, GrantState::Denied)
        ]
    );
    assert_eq!(
        permissions.all(account, app, plugin, now).unwrap(),
        [Capability::Llm, Capability::Network]
    );
    assert_eq!(permissions.all(account, app, plugin, later).unwrap(), []);

    // Another scope is another question, whatever the code.
    let wider =
        self::manifest(r#""permissions":["llm","network"],"networkHosts":["api.example.com","*.evil.example"]"#);
    assert_eq!(
        states(now, &wider),
        [
            (Capability::Llm, GrantState::Granted),
            (Capability::Network, GrantState::Stale)
        ]
    );
    assert_eq!(
        states(later, &manifest),
        [
            (Capability::Llm, GrantState::Stale),
            (Capability::Network, GrantState::Stale),
            (Capability::Store, GrantState::Denied)
        ]
    );

    house.db.set_plugin_enabled(account, app, plugin, false).unwrap();
    says(check(now, Capability::Llm), &["turned off"]);
    assert_eq!(permissions.all(account, app, plugin, now).unwrap(), []);
    house.db.set_plugin_enabled(account, app, plugin, true).unwrap();
    house
        .db
        .revoke(account, app, plugin, Some(Capability::Llm), "owner")
        .unwrap();
    says(check(now, Capability::Llm), &["refused"]);
    assert!(check(now, Capability::Network).is_ok(), "the other one stays");
}

#[test]
fn the_administrators_policy_is_above_every_grant() {
    let mut house = House::new();
    house.grant(
        "code",
        &[
            (Capability::Llm, &[]),
            (Capability::Store, &[]),
            (Capability::Network, &["a.example.com"]),
        ],
    );
    let own = PluginPolicy {
        deny: [Capability::Store].into(),
        hosts: Some(vec!["*.example.com".into(), "exact.example:8443".into()]),
        ..PluginPolicy::default()
    };
    house.policy = HostPolicy {
        deny: [Capability::Llm].into(),
        plugins: [("alpha/p".to_owned(), own)].into(),
        ..HostPolicy::default()
    };
    let permissions = house.permissions();
    let check = |capability| permissions.check(&house.account, &house.app, &house.plugin, code("code"), capability);
    for capability in [Capability::Llm, Capability::Store] {
        says(check(capability), &["config.toml", capability.as_str()]);
    }
    assert!(
        check(Capability::Network).is_ok(),
        "hosts are bounded where they are asked"
    );
    assert_eq!(permissions.bounds(&house.app, &house.plugin).len(), 1);
    assert_eq!(
        permissions
            .all(&house.account, &house.app, &house.plugin, code("code"))
            .unwrap(),
        [Capability::Network]
    );

    let forbidden = |hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        permissions.forbidden(&house.app, &house.plugin, Capability::Network, &hosts)
    };
    for fine in [
        &["a.example.com"][..],
        &["*.b.example.com", "x.y.example.com:99"],
        &["exact.example:8443"],
        &["*.example.com"],
        &[],
    ] {
        assert_eq!(forbidden(fine), None, "{fine:?}");
    }
    for outside in [
        "example.com",
        "evilexample.com",
        "*.example",
        "exact.example",
        "exact.example:1",
        "a.example.com.evil.test",
    ] {
        let why = forbidden(&["a.example.com", outside]).unwrap_or_else(|| panic!("{outside} should be outside"));
        assert!(why.contains(outside) && why.contains("config.toml"), "{why}");
    }
    assert!(
        permissions
            .forbidden(&house.app, &house.plugin, Capability::Llm, &[])
            .is_some()
    );
    let free = Permissions::new(house.db.clone(), HostPolicy::default());
    assert_eq!(free.forbidden(&house.app, &house.plugin, Capability::Llm, &[]), None);
}

/// A call's data says which permissions count, in words only: nothing is decided by it.
#[test]
fn call_data_tells_what_is_granted() {
    let mut house = House::new();
    house.entry = Entry::Tool;
    house.grant(
        "code",
        &[(Capability::Fs, &[]), (Capability::LocalNetwork, &["localhost"])],
    );
    let data = house.host("code").call_data(&apps::host::Results::default());
    assert_eq!(
        data["permissions"],
        serde_json::json!({"fs": true, "local-network": true})
    );
    assert_eq!(
        (&data["entry"], &data["app"], &data["plugin"]),
        (&"tool".into(), &"alpha".into(), &"p".into())
    );
}
