use proptest::prelude::*;
use serde_json::json;
use url::Url;

use super::*;

fn at(url: &str, preset: Option<&str>) -> Endpoint {
    let mut endpoint = Endpoint::new("c_x-000000", "X", Url::parse(url).unwrap());
    endpoint.preset = preset.map(str::to_owned);
    endpoint
}

fn input(url: &str, preset: Option<&str>, model: &str) -> Option<f64> {
    price_of(&at(url, preset), model).map(|price| price.input)
}

#[test]
fn the_table_that_ships_is_whole() {
    let table = TABLE.as_ref().expect("readable");
    assert_eq!(table.stated.len(), 7);
    let mut models = 0;
    for provider in &table.providers {
        assert!(!provider.hosts.is_empty(), "{}", provider.id);
        let mut names = std::collections::HashSet::new();
        for (name, value) in &provider.models {
            let entry = Entry::deserialize(value).unwrap_or_else(|why| panic!("{name}: {why}"));
            let media = entry.images.len() + usize::from(entry.per_minute.is_some());
            let media = media + usize::from(entry.per_million_characters.is_some());
            assert!(entry.price().is_some() || media > 0, "{name} has no price");
            for name in entry.also.iter().chain([name]) {
                assert!(names.insert(name.to_lowercase()), "{name} stands twice");
            }
            models += 1;
        }
    }
    assert!(models >= 120, "{models}");
}

#[test]
fn the_table_knows_providers_by_their_presets() {
    let table = TABLE.as_ref().unwrap();
    for id in table.providers.iter().flat_map(|p| p.also.iter().chain([&p.id])) {
        let preset = crate::presets().iter().find(|preset| preset.id == id);
        let preset = preset.unwrap_or_else(|| panic!("{id} is no preset"));
        let by_host = provider(&at(preset.base_url, None)).map(|p| &p.id);
        assert_eq!(
            by_host,
            provider(&at("https://gateway.example", Some(id))).map(|p| &p.id)
        );
        assert!(by_host.is_some(), "{id}");
    }
    assert_eq!(
        input("https://gateway.example", Some("openai-responses"), "gpt-4o"),
        Some(2.5)
    );
}

#[test]
fn names_are_matched_whole() {
    let url = "https://api.openai.com/v1";
    for (model, want) in [
        ("gpt-4o", Some(2.5)),
        ("c_x-000000/gpt-4o", Some(2.5)),
        ("gpt-4o-2024-08-06", Some(2.5)),
        ("gpt-4o-2024-05-13", Some(5.0)),
        ("gpt-4o-mini", Some(0.15)),
        ("gpt-4o-mini-2024-07-18", Some(0.15)),
        ("gpt-4-0613", Some(30.0)),
        ("GPT-4o", Some(2.5)),
        ("gpt-4o-audio-preview", None),
        ("gpt-4o-", None),
        ("gpt-4", Some(30.0)),
        ("gpt-4-32k", None),
        ("gpt-4o-2024-13-06", None),
        ("gpt-4o-1234", None),
        ("gpt-4o-20240806-x", None),
        ("ft:gpt-4o:acme", None),
        ("models/gpt-4o", None),
        ("", None),
        ("-2024-08-06", None),
        ("gpt-4o-é024-08-06", None),
    ] {
        assert_eq!(input(url, None, model), want, "{model}");
    }
    let claude = |model| input("https://api.anthropic.com", None, model);
    assert_eq!(claude("claude-sonnet-4-20250514"), Some(3.0));
    assert_eq!(claude("claude-opus-4-1-20250805"), Some(15.0));
    assert_eq!(claude("claude-opus-4-5-20251101"), Some(5.0));
    assert_eq!(claude("claude-opus-4-9"), None);
    let gemini = |model| input("https://generativelanguage.googleapis.com/v1beta", None, model);
    assert_eq!(gemini("models/gemini-2.5-pro"), Some(1.25));
    assert_eq!(gemini("gemini-2.5-pro"), Some(1.25));
    let fireworks = |model| input("https://api.fireworks.ai/inference/v1", None, model);
    assert_eq!(fireworks("accounts/fireworks/models/deepseek-v3"), Some(0.9));
    assert_eq!(fireworks("accounts/me/models/deepseek-v3"), None);
}

#[test]
fn a_price_counts_for_its_provider_alone() {
    for (url, preset, known) in [
        ("https://api.openai.com/v1", None, true),
        ("https://api.openai.com./v1", None, true),
        ("https://gateway.example/openai/v1", Some("openai"), true),
        ("https://gateway.example/openai/v1", None, false),
        ("http://localhost:1234/v1", None, false),
        ("http://localhost:1234/v1", Some("openai"), false),
        ("http://192.168.1.5/v1", Some("openai"), false),
        ("https://api.openai.com.evil.example/v1", None, false),
        ("https://api.mistral.ai/v1", Some("openai"), false),
        ("https://api.mistral.ai/v1", None, false),
    ] {
        assert_eq!(input(url, preset, "gpt-4o").is_some(), known, "{url} {preset:?}");
    }
}

#[test]
fn costs_follow_every_kind_of_token() {
    let sonnet = price_of(&at("https://api.anthropic.com", None), "claude-sonnet-4-5").unwrap();
    let usage = |input, output, cache_read, cache_write| Usage {
        input,
        output,
        cache_read,
        cache_write,
        ..Usage::default()
    };
    let close = |usage: Usage, want: f64| {
        let cost = sonnet.cost(&usage).unwrap();
        assert!((cost - want).abs() < 1e-9, "{usage:?}: {cost} is not {want}");
    };
    close(usage(1_000, 100, 0, 0), 0.003 + 0.0015);
    close(usage(0, 0, 100_000, 10_000), 0.03 + 0.0375);
    close(usage(1_000, 1_000, 199_000, 0), 0.003 + 0.015 + 0.0597);
    // Beyond the tier everything is dearer, as the provider has it.
    close(usage(1_001, 1_000, 199_000, 0), 0.006_006 + 0.0225 + 0.1194);
    assert_eq!(sonnet.cost(&Usage::default()), None, "nobody counted");
    let most = sonnet.cost(&usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX)).unwrap();
    assert!(most.is_finite() && most < 1e5, "{most}");
    let sonar = price_of(&at("https://api.perplexity.ai", None), "sonar").unwrap();
    assert!((sonar.cost(&usage(1_000, 0, 0, 0)).unwrap() - 0.006).abs() < 1e-9);
}

#[test]
fn prices_in_the_lists_of_servers() {
    let listed = |pricing: Value| Price::listed(&json!({"id": "m", "pricing": pricing})).map(|p| (p.input, p.output));
    let near = |found: Option<(f64, f64)>, want: (f64, f64)| {
        let (input, output) = found.unwrap();
        assert!(
            (input - want.0).abs() < 1e-9 && (output - want.1).abs() < 1e-9,
            "{found:?}"
        );
    };
    near(
        listed(json!({"prompt": "0.0000025", "completion": "0.00001", "image": "0"})),
        (2.5, 10.0),
    );
    near(
        listed(json!({"prompt": 2.5, "completion": 10, "unit": "per_million_tokens"})),
        (2.5, 10.0),
    );
    near(
        listed(json!({"hourly": 0, "input": 0.88, "output": 0.88, "base": 0})),
        (0.88, 0.88),
    );
    for nothing in [
        json!({"prompt": "0", "completion": "0"}),
        json!({"prompt": "-1", "completion": "-1"}),
        json!({"prompt": "0.02", "completion": "0.00001"}),
        json!({"prompt": "NaN", "completion": "inf"}),
        json!({"prompt": "x", "completion": "0.1"}),
        json!({"prompt": "0.0001"}),
        json!({}),
        json!(null),
        json!([1, 2]),
    ] {
        assert_eq!(listed(nothing.clone()), None, "{nothing}");
    }
    let entry = json!({"id": "m", "metadata": {"pricing": {"input_tokens": 0.2, "output_tokens": 0.6}}});
    assert_eq!(Price::listed(&entry).unwrap().output, 0.6);
    let entry = json!({"pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"}});
    let price = Price::listed(&entry).unwrap();
    assert!((price.cache_read - 0.3).abs() < 1e-9 && (price.cache_write - 3.0).abs() < 1e-9);
}

#[test]
fn what_a_person_sets_is_checked() {
    let given = |value: Value| Price::given(&value);
    assert_eq!(given(json!({"input": 0, "output": 0})).unwrap().unwrap().input, 0.0);
    assert_eq!(
        given(json!({"input": 2, "output": 3, "cacheRead": 1}))
            .unwrap()
            .unwrap()
            .cache_write,
        2.0
    );
    assert_eq!(given(json!({"image": 0.04})), Ok(None));
    for (value, word) in [
        (json!({"input": -0.01, "output": 1}), "below zero"),
        (json!({"input": 1, "output": 1e7}), "more than"),
        (json!({"input": "1", "output": 1}), "must be a number"),
        (json!({"input": 1}), "both"),
        (json!({"cacheRead": 1}), "both"),
    ] {
        let why = given(value.clone()).unwrap_err();
        assert!(why.contains(word), "{value}: {why}");
    }
    assert!(
        MediaPrice::given(&json!({"image": -1}))
            .unwrap_err()
            .contains("below zero")
    );
    assert_eq!(
        MediaPrice::given(&json!({"speech": 15})).unwrap().characters,
        Some(15.0)
    );
}

#[test]
fn pictures_and_speech() {
    let openai = at("https://api.openai.com/v1", None);
    let image = |model, size, quality| media_price_of(&openai, model, size, quality).image;
    assert_eq!(image("dall-e-3", Some("1024x1024"), Some("standard")), Some(0.04));
    assert_eq!(
        image("dall-e-3", Some("1024x1792"), None),
        Some(0.12),
        "the highest that fits"
    );
    assert_eq!(image("gpt-image-1", Some("1024x1024"), Some("auto")), Some(0.167));
    assert_eq!(image("gpt-image-1", Some("auto"), Some("low")), Some(0.016));
    assert_eq!(image("gpt-image-7", None, None), None);
    assert_eq!(media_price_of(&openai, "tts-1-hd", None, None).characters, Some(30.0));
    assert_eq!(
        media_price_of(&openai, "gpt-4o-mini-tts", None, None).minute,
        Some(0.015)
    );
    assert!(media_price_of(&at("http://localhost:8880", None), "tts-1", None, None).is_unknown());
    assert_eq!(price_of(&openai, "tts-1"), None);
}

proptest! {
    #[test]
    fn no_name_and_no_list_entry_breaks_it(model in ".{0,40}", text in ".{0,12}", number in any::<f64>()) {
        let _ = price_of(&at("https://api.openai.com", None), &model);
        let dated = format!("gpt-4o{model}-2024-08-06");
        let _ = price_of(&at("https://api.openai.com", None), &dated);
        for value in [json!(text), json!(number)] {
            let entry = json!({"pricing": {"prompt": value, "completion": value, "request": value}});
            if let Some(price) = Price::listed(&entry) {
                prop_assert!((0.0..=MOST_BELIEVED).contains(&price.input));
            }
        }
    }
}
