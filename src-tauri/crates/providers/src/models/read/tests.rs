use proptest::prelude::*;
use serde_json::json;

use super::*;

fn ids(value: Value) -> (Vec<String>, usize) {
    let list = read_list(Api::OpenaiCompletions, &value).unwrap();
    (list.models.into_iter().map(|model| model.id).collect(), list.skipped)
}

#[test]
fn the_shapes_servers_send() {
    let want = (vec!["a".to_owned(), "b".to_owned()], 0);
    for value in [
        json!({"object": "list", "data": [{"id": "a", "object": "model"}, {"id": "b", "created": null}]}),
        json!([{"id": "a"}, {"id": "b"}]),
        json!(["a", "b"]),
        json!({"models": [{"name": "a"}, {"model": "b"}]}),
        json!({"data": {"data": [{"id": "a"}, {"id": "b"}]}}),
        json!({"data": [{"id": "a"}, {"id": "b"}, {"id": "a"}], "object": null}),
    ] {
        assert_eq!(ids(value.clone()), want, "{value}");
    }
    assert_eq!(ids(json!({"object": "list", "data": null})), (vec![], 0));
}

#[test]
fn bad_entries_are_skipped_and_counted() {
    let value = json!({"data": [
        {"id": ""}, {"id": null}, {}, null, 5, [], {"id": {"x": 1}}, {"id": "a\u{1}"}, {"id": "x".repeat(201)}, {"id": 7}, {"id": "", "name": "good"},
    ]});
    assert_eq!(ids(value), (vec!["7".to_owned(), "good".to_owned()], 9));
}

#[test]
fn a_list_without_end_is_cut() {
    let names: Vec<String> = (0..MAX_MODELS + 7).map(|n| format!("m{n}")).collect();
    let (ids, skipped) = ids(json!({ "data": names }));
    assert_eq!((ids.len(), skipped), (MAX_MODELS, 7));
}

#[test]
fn no_list_is_no_empty_list() {
    for value in [
        json!({}),
        json!("x"),
        json!(5),
        json!(null),
        json!({"data": "x"}),
        json!({"data": {}}),
        json!({"status": "ok"}),
    ] {
        assert_eq!(read_list(Api::OpenaiCompletions, &value), None, "{value}");
    }
}

#[test]
fn context_windows_where_they_are_given() {
    let value = json!([
        {"id": "a", "context_length": 8192}, {"id": "b", "max_model_len": 4096.0}, {"id": "c", "context_length": -1}, {"id": "d", "context_length": "x"},
    ]);
    let windows: Vec<_> = read_list(Api::OpenaiCompletions, &value)
        .unwrap()
        .models
        .iter()
        .map(|model| model.context_window)
        .collect();
    assert_eq!(windows, [Some(8192), Some(4096), None, None]);
}

fn models(api: Api, value: Value) -> Vec<ModelInfo> {
    read_list(api, &value).unwrap().models
}

#[test]
fn what_each_service_says_of_its_models() {
    let model = |id: &str| ModelInfo {
        id: id.to_owned(),
        ..ModelInfo::default()
    };
    let levels = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    // OpenRouter.
    let list = read_list(
        Api::OpenaiCompletions,
        &json!({"data": [
            {"id": "a/b", "name": "A: B", "context_length": 200_000, "pricing": {"prompt": "0.000003", "completion": "0.000015"},
             "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
             "supported_parameters": ["tools", "reasoning"], "reasoning": {"supported_efforts": ["high", "none", "odd", "low"]}},
            {"id": "draw", "architecture": {"input_modalities": ["text"], "output_modalities": ["image"]}},
            {"id": "plain", "supported_parameters": ["tools"]},
        ]}),
    )
    .unwrap();
    assert_eq!(
        list.models,
        [
            ModelInfo {
                context_window: Some(200_000),
                label: Some("A: B".into()),
                reasoning: Some(true),
                reasoning_levels: levels(&["off", "low", "high"]),
                images: Some(true),
                chat: Some(true),
                ..model("a/b")
            },
            ModelInfo {
                reasoning: Some(false),
                ..model("plain")
            },
            ModelInfo {
                images: Some(false),
                chat: Some(false),
                ..model("draw")
            },
        ]
    );
    assert_eq!((list.prices.len(), list.prices[0].1.input), (1, 3.0));
    // Anthropic.
    let found = models(
        Api::AnthropicMessages,
        json!({"data": [{"type": "model", "id": "claude-x", "display_name": "Claude X", "max_input_tokens": 1_000_000, "capabilities": {
            "image_input": {"supported": true}, "thinking": {"supported": true, "types": {}},
            "effort": {"supported": true, "low": {"supported": true}, "max": {"supported": true}, "xhigh": {"supported": false}},
        }}], "has_more": false}),
    );
    assert_eq!(
        found,
        [ModelInfo {
            context_window: Some(1_000_000),
            label: Some("Claude X".into()),
            reasoning: Some(true),
            reasoning_levels: levels(&["low", "max"]),
            images: Some(true),
            ..model("claude-x")
        }]
    );
    // Google: what only embeds is last.
    let found = models(
        Api::GoogleGenerativeAi,
        json!({"models": [
            {"name": "models/embedding-1", "displayName": "Embedding", "supportedGenerationMethods": ["embedContent"]},
            {"name": "models/gemini-x", "displayName": "Gemini X", "inputTokenLimit": 1_048_576, "thinking": true,
             "supportedGenerationMethods": ["generateContent", "countTokens"]},
            {"name": "models/"},
        ]}),
    );
    assert_eq!(
        found[0],
        ModelInfo {
            context_window: Some(1_048_576),
            label: Some("Gemini X".into()),
            reasoning: Some(true),
            chat: Some(true),
            ..model("gemini-x")
        }
    );
    assert_eq!(
        (found[1].id.as_str(), found[1].chat, found.len()),
        ("embedding-1", Some(false), 2)
    );
    assert_eq!(models(Api::GoogleGenerativeAi, json!({})), []);
    // Others, by the one thing that is theirs.
    for (entry, want) in [
        (
            json!({"id": "m", "max_context_length": 32_768, "capabilities": {"completion_chat": true, "vision": false}}),
            ModelInfo {
                context_window: Some(32_768),
                images: Some(false),
                chat: Some(true),
                ..model("m")
            },
        ),
        (
            json!({"id": "m", "type": "embedding", "display_name": "M\u{7}"}),
            ModelInfo {
                label: Some("M".into()),
                chat: Some(false),
                ..model("m")
            },
        ),
        (
            json!({"id": "m", "supports_chat": true, "supports_image_input": true, "context_length": 4096}),
            ModelInfo {
                context_window: Some(4096),
                images: Some(true),
                chat: Some(true),
                ..model("m")
            },
        ),
        (
            json!({"id": "m", "model_spec": {"name": "Em", "availableContextTokens": 65_536, "capabilities": {
                "supportsVision": false, "supportsReasoning": true}}}),
            ModelInfo {
                context_window: Some(65_536),
                label: Some("Em".into()),
                reasoning: Some(true),
                images: Some(false),
                ..model("m")
            },
        ),
        (
            json!({"id": "m", "metadata": {"context_length": 4096, "tags": ["reasoning", "vlm"]}}),
            ModelInfo {
                context_window: Some(4096),
                reasoning: Some(true),
                images: Some(true),
                ..model("m")
            },
        ),
        (
            json!({"id": "m", "object": "model", "owned_by": "vllm", "max_model_len": "8192"}),
            ModelInfo {
                context_window: Some(8192),
                ..model("m")
            },
        ),
    ] {
        assert_eq!(
            models(Api::OpenaiCompletions, json!({"data": [entry.clone()]})),
            [want],
            "{entry}"
        );
    }
}

proptest! {
    #[test]
    fn foreign_lists_do_not_panic(value in crate::wire::given::json_of(&[
        "data", "models", "id", "name", "context_length", "pricing", "prompt", "completion", "architecture",
        "input_modalities", "capabilities", "effort", "reasoning", "supported_efforts", "type", "display_name", "low",
    ])) {
        for api in Api::ALL {
            if let Some(list) = read_list(api, &value) {
                // Escaped as in the list's own text.
                let text = value.to_string();
                let there = |id: &str| text.contains(json!(id).to_string().trim_matches('"'));
                prop_assert!(list.models.iter().all(|model| !model.id.is_empty() && there(&model.id)));
            }
        }
    }
}
