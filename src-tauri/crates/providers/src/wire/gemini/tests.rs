use serde_json::{Value, json};

use super::*;
use crate::picture::Picture;
use crate::wire::given::{Given, user};
use crate::wire::{Item, ModelTurn, SentCall, Thought, ToolReply};

fn ask(model: &'static str, request: Value) -> Given {
    Given::new(&Gemini, model, request)
}

fn contents(given: &Given, items: &[Item<'_>]) -> Value {
    given.body_of(items, None)["contents"].clone()
}

#[test]
fn pages_for_ids_in_every_spelling() {
    for (id, want) in [
        ("gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("/models/gemini-2.5-flash", "models/gemini-2.5-flash"),
        ("tunedModels/mine-1", "tunedModels/mine-1"),
        ("google/gemini", "models/google%2Fgemini"),
        ("a b?c#d%20é", "models/a%20b%3Fc%23d%2520%C3%A9"),
        ("..", "models/.."),
    ] {
        assert_eq!(Gemini.page(id), format!("{want}:streamGenerateContent?alt=sse"), "{id}");
    }
}

#[test]
fn a_plain_request_is_this() {
    let given = ask(
        "gemini-2.5-flash",
        json!({"presetParams": {"temperature": 0.5, "max_tokens": 9, "params": {
            "top_p": 0.9, "stop": "x", "safetySettings": [{"category": "c"}], "contents": [], "tools": [{}],
            "tool_config": {}, "system_instruction": {}, "model": "other", "stream": false,
            "generationConfig": {"seed": 1, "temperature": 0.6},
        }}}),
    );
    assert_eq!(
        Value::Object(given.body_of(&[user("hi")], Some("be kind"))),
        json!({
            "systemInstruction": {"parts": [{"text": "be kind"}]},
            "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
            "generationConfig": {"temperature": 0.6, "maxOutputTokens": 9, "topP": 0.9, "stopSequences": ["x"], "seed": 1},
            "safetySettings": [{"category": "c"}],
        })
    );
    assert_eq!(
        Value::Object(ask("gemma-3-27b-it", json!({})).body_of(&[user("hi")], Some("be kind"))),
        json!({"contents": [{"role": "user", "parts": [{"text": "be kind"}, {"text": "hi"}]}]})
    );
}

#[test]
fn thinking_as_each_model_takes_it() {
    let budget = |tokens: u64| json!({"thinkingBudget": tokens, "includeThoughts": tokens != 0 && tokens != 128});
    let level = |word: &str, shown: bool| json!({"thinkingLevel": word, "includeThoughts": shown});
    let none = Value::Null;
    for (model, asked, want) in [
        ("gemini-2.5-flash", json!({"reasoning": "low"}), budget(2048)),
        ("gemini-2.5-flash", json!({"reasoning": "max"}), budget(24576)),
        ("gemini-2.5-flash", json!({"reasoning": "off"}), budget(0)),
        ("gemini-2.5-flash", json!({"thinkingBudget": 0}), budget(0)),
        (
            "gemini-2.5-flash",
            json!({"reasoning": "off", "thinkingBudget": 700}),
            budget(0),
        ),
        ("gemini-2.5-pro", json!({"reasoning": "off"}), budget(128)),
        (
            "gemini-2.5-pro",
            json!({"reasoning": "low", "thinkingBudget": 700}),
            budget(700),
        ),
        ("gemini-2.5-pro", json!({}), none.clone()),
        ("gemini-2.0-flash", json!({"reasoning": "high"}), none.clone()),
        ("gemma-3-27b-it", json!({"reasoning": "high"}), none.clone()),
        (
            "models/gemini-3-flash-preview",
            json!({"reasoning": "off"}),
            level("minimal", false),
        ),
        (
            "gemini-3-flash-preview",
            json!({"reasoning": "medium"}),
            level("medium", true),
        ),
        (
            "gemini-3-pro-preview",
            json!({"reasoning": "minimal"}),
            level("low", true),
        ),
        (
            "gemini-3-pro-preview",
            json!({"reasoning": "medium"}),
            level("high", true),
        ),
        (
            "gemini-3.1-pro-preview",
            json!({"reasoning": "medium"}),
            level("medium", true),
        ),
        ("gemini-3-pro-preview", json!({"thinkingBudget": 700}), budget(700)),
        (
            "gemini-flash-latest",
            json!({"reasoning": "xhigh"}),
            level("high", true),
        ),
        ("someone-elses", json!({"reasoning": "low"}), budget(2048)),
    ] {
        let body = ask(model, asked.clone()).body();
        let sent = body
            .get("generationConfig")
            .map(|settings| settings["thinkingConfig"].clone());
        assert_eq!(sent.unwrap_or_default(), want, "{model} {asked}");
    }
    // The format's own words count.
    let params = json!({"generationConfig": {"thinkingConfig": {"includeThoughts": false}}});
    let given = ask(
        "gemini-2.5-flash",
        json!({"reasoning": "low", "presetParams": {"params": params}}),
    );
    assert_eq!(
        given.body()["generationConfig"]["thinkingConfig"],
        json!({"thinkingBudget": 2048, "includeThoughts": false})
    );
}

#[test]
fn turns_are_joined_and_images_inline() {
    let images = [
        Picture::parse("data:image/png;base64,iVBORw0KGgo=").unwrap(),
        Picture::Asset("not-put-in".into()),
    ];
    let picture = Item::User {
        text: "what is it?",
        images: &images,
        system: false,
    };
    let note = Item::User {
        text: "be brief",
        images: &[],
        system: true,
    };
    let given = ask("gemini-2.5-flash", json!({}));
    let items = [
        Item::Assistant { text: "Hello." },
        user("a"),
        Item::Assistant { text: "" },
        note,
        picture,
        Item::Prefill("It is"),
    ];
    assert_eq!(
        contents(&given, &items),
        json!([
            {"role": "model", "parts": [{"text": "Hello."}]},
            {"role": "user", "parts": [
                {"text": "a"}, {"text": "be brief"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}, {"text": "what is it?"},
            ]},
            {"role": "model", "parts": [{"text": "It is"}]},
        ])
    );
    assert_eq!(
        contents(&given, &[]),
        json!([{"role": "user", "parts": [{"text": "(The conversation begins.)"}]}])
    );
}

fn tool_round() -> (ModelTurn, Vec<ToolReply>) {
    let call = |id: &str, extra: Value| SentCall {
        id: id.into(),
        name: "look".into(),
        args: json!({"at": id}).as_object().unwrap().clone(),
        extra: Some(extra).filter(Value::is_object),
    };
    let thought = |text: &str, mark: Value| Thought {
        text: text.into(),
        mark,
    };
    let turn = ModelTurn {
        text: "Looking.".into(),
        thinking: vec![
            thought("a summary", Value::Null),
            thought("signed", json!({"signature": "S0"})),
            thought("", json!({"textSignature": "S1"})),
        ],
        calls: vec![
            call("ours-1", json!({"thoughtSignature": "S2"})),
            call("theirs", json!({"id": "theirs"})),
        ],
    };
    let reply = |id: &str, text: &str, is_error| ToolReply {
        id: id.into(),
        name: "look".into(),
        text: text.into(),
        is_error,
    };
    (
        turn,
        vec![reply("ours-1", "seen", false), reply("theirs", "gone", true)],
    )
}

#[test]
fn tool_rounds_go_back_signed_and_with_the_servers_own_ids() {
    let (turn, replies) = tool_round();
    let items = [user("a"), Item::Model(&turn), Item::Tools(&replies)];
    let answers = json!({"role": "user", "parts": [
        {"functionResponse": {"name": "look", "response": {"output": "seen"}}},
        {"functionResponse": {"name": "look", "response": {"error": "gone"}, "id": "theirs"}},
    ]});
    let asked = json!({"role": "user", "parts": [{"text": "a"}]});
    let given = ask("gemini-3-pro-preview", json!({}));
    assert_eq!(
        contents(&given, &items),
        json!([
            asked,
            {"role": "model", "parts": [
                {"text": "signed", "thought": true, "thoughtSignature": "S0"},
                {"text": "Looking.", "thoughtSignature": "S1"},
                {"functionCall": {"name": "look", "args": {"at": "ours-1"}}, "thoughtSignature": "S2"},
                {"functionCall": {"name": "look", "args": {"at": "theirs"}, "id": "theirs"}},
            ]},
            answers,
        ])
    );
    let quirk = Quirk {
        no_thinking_back: true,
        ..Quirk::default()
    };
    assert_eq!(
        contents(&given.quirk(quirk), &items)[1],
        json!({"role": "model", "parts": [
            {"text": "Looking."},
            {"functionCall": {"name": "look", "args": {"at": "ours-1"}}, "thoughtSignature": "skip_thought_signature_validator"},
            {"functionCall": {"name": "look", "args": {"at": "theirs"}, "id": "theirs"}},
        ]})
    );
    let older = ask("gemini-2.5-flash", json!({})).quirk(quirk);
    assert!(!contents(&older, &items).to_string().contains("thoughtSignature"));
}

#[test]
fn tools_and_which_one_is_to_be_called() {
    let config = |choice, quirk| {
        let body = ask("gemini-2.5-flash", json!({})).choosing(choice).quirk(quirk).body();
        body.get("toolConfig")
            .map(|config| config["functionCallingConfig"].clone())
    };
    let plain = Quirk::default();
    let structured = Some(Choice::Structured);
    let named = json!({"mode": "ANY", "allowedFunctionNames": [STRUCTURED]});
    assert_eq!(config(structured, plain), Some(named));
    assert_eq!(config(Some(Choice::Required), plain), Some(json!({"mode": "ANY"})));
    assert_eq!(config(None, plain), None);
    let mut given = ask("gemini-2.5-flash", json!({}));
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}}, "additionalProperties": false, "$defs": {"b": {"type": "string"}}});
    given.tools = vec![
        Tool::new("none", "takes nothing", Value::Null).unwrap(),
        Tool::new("some", "", schema).unwrap(),
    ];
    assert_eq!(
        given.body()["tools"],
        json!([{"functionDeclarations": [
            {"name": "none", "description": "takes nothing"},
            {"name": "some", "description": "", "parametersJsonSchema": {
                "type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "additionalProperties": false,
                "$defs": {"b": {"type": "string"}},
            }},
        ]}])
    );
}

#[test]
fn what_is_refused_is_left_out_the_next_time() {
    let plain = [user("a")];
    let thinking = |given: &Given| given.body()["generationConfig"]["thinkingConfig"].clone();
    let mut flash = ask("gemini-3-flash", json!({"reasoning": "low"}));
    flash.quirk = flash
        .refused(&plain, "Thinking level is not supported for this model.")
        .unwrap();
    assert_eq!(
        thinking(&flash),
        json!({"thinkingBudget": 2048, "includeThoughts": true})
    );
    flash.quirk = flash
        .refused(&plain, "Thinking budget is not supported either")
        .unwrap();
    assert_eq!(flash.body().get("generationConfig"), None);

    let mut newer = ask("alias", json!({"thinkingBudget": 9000}));
    newer.quirk = newer
        .refused(&plain, "thinking_budget is not supported; use thinking_level")
        .unwrap();
    assert_eq!(
        thinking(&newer),
        json!({"thinkingLevel": "high", "includeThoughts": true})
    );

    let mut pro = ask("alias", json!({"reasoning": "off"}));
    pro.quirk = pro
        .refused(&plain, "Budget 0 is invalid. This model only works in thinking mode.")
        .unwrap();
    assert_eq!(thinking(&pro), json!({"thinkingBudget": 512, "includeThoughts": true}));

    let mut forced = ask("x", json!({})).choosing(Some(Choice::Structured));
    let words = "Function calling config is set without function_declarations.";
    forced.quirk = forced.refused(&plain, words).unwrap();
    assert_eq!(
        forced.body()["toolConfig"],
        json!({"functionCallingConfig": {"mode": "ANY"}})
    );
    forced.quirk = forced.refused(&plain, words).unwrap();
    assert_eq!(forced.body().get("toolConfig"), None);
    assert_eq!(forced.refused(&plain, words), None);

    let filled = [user("a"), Item::Prefill("b")];
    let given = ask("x", json!({}));
    let words = "Please ensure that multiturn requests end with a user role or a function response.";
    assert!(given.refused(&filled, words).unwrap().no_prefill);
    assert_eq!(given.refused(&plain, words), None);

    let (turn, replies) = tool_round();
    let round = [user("a"), Item::Model(&turn), Item::Tools(&replies)];
    let words = "Corrupted thought signature.";
    assert!(given.refused(&round, words).unwrap().no_thinking_back);
    assert_eq!(given.refused(&plain, words), None);
}
