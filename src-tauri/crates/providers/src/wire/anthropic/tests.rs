use serde_json::{Value, json};

use super::*;
use crate::wire::given::{Given, user};
use crate::wire::{Item, ModelTurn, SentCall, Thought, ToolReply};

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

fn ask(model: &'static str, request: Value) -> Given {
    Given::new(&Anthropic, model, request)
}

/// What the body has beside the conversation.
fn rest(given: &Given) -> Value {
    let mut body = given.body();
    for own in ["model", "messages", "stream"] {
        assert!(body.remove(own).is_some());
    }
    Value::Object(body)
}

fn messages(given: &Given, items: &[Item<'_>]) -> Value {
    given.body_of(items, None)["messages"].clone()
}

#[test]
fn a_plain_request_is_this() {
    let given = ask(
        "claude-sonnet-4-5",
        json!({"presetParams": {"temperature": 0.5, "params": {
            "top_k": 3, "model": "other", "messages": [], "system": "x", "stream": false, "tools": [{}],
            "tool_choice": {}, "mcp_servers": [{}], "container": "x", "fallbacks": [{"model": "other"}],
        }}}),
    );
    let body = given.body_of(&[user("hi")], Some("be kind"));
    assert_eq!(
        Value::Object(body),
        json!({
            "model": "claude-sonnet-4-5", "max_tokens": 8192, "stream": true, "temperature": 0.5, "top_k": 3,
            "system": [{"type": "text", "text": "be kind"}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        })
    );
}

#[test]
fn thinking_as_each_model_takes_it() {
    let budget =
        |tokens: u64, max: u64| json!({"max_tokens": max, "thinking": {"type": "enabled", "budget_tokens": tokens}});
    let adaptive = |effort: &str, max: u64, shown: bool| {
        let thinking = match shown {
            true => json!({"type": "adaptive", "display": "summarized"}),
            false => json!({"type": "adaptive"}),
        };
        json!({"max_tokens": max, "thinking": thinking, "output_config": {"effort": effort}})
    };
    let none = |max: u64| json!({"max_tokens": max});
    for (model, asked, want) in [
        ("claude-sonnet-4-5", json!({"reasoning": "minimal"}), budget(1024, 9216)),
        ("claude-sonnet-4-5", json!({"reasoning": "max"}), budget(23552, 31744)),
        (
            "claude-sonnet-4-5",
            json!({"reasoning": "low", "thinkingBudget": 5000}),
            budget(5000, 13192),
        ),
        ("claude-sonnet-4-5", json!({"thinkingBudget": 1}), budget(1024, 9216)),
        ("claude-sonnet-4-5", json!({"thinkingBudget": 0}), none(8192)),
        ("claude-sonnet-4-5", json!({"reasoning": "off"}), none(8192)),
        ("claude-sonnet-4-5", json!({}), none(8192)),
        // The limit counts, and the budget stays below it.
        (
            "claude-sonnet-4-5",
            json!({"reasoning": "high", "presetParams": {"max_tokens": 6000}}),
            budget(4976, 6000),
        ),
        (
            "claude-sonnet-4-5",
            json!({"reasoning": "high", "presetParams": {"max_tokens": 1500}}),
            budget(1024, 1500),
        ),
        (
            "claude-sonnet-4-5",
            json!({"reasoning": "high", "presetParams": {"max_tokens": 1024}}),
            none(1024),
        ),
        (
            "claude-sonnet-4-5",
            json!({"reasoning": "low", "presetParams": {"params": {"max_tokens": 3000}}}),
            budget(1976, 3000),
        ),
        ("claude-3-5-haiku-latest", json!({"reasoning": "high"}), none(8192)),
        ("claude-3-haiku-20240307", json!({"reasoning": "high"}), none(4096)),
        ("deepseek-chat", json!({"reasoning": "low"}), budget(2048, 10240)),
        (
            "claude-opus-4-6",
            json!({"reasoning": "xhigh"}),
            adaptive("high", 40960, false),
        ),
        ("claude-opus-4-6", json!({"thinkingBudget": 3000}), budget(3000, 11192)),
        (
            "claude-opus-4-8",
            json!({"reasoning": "xhigh"}),
            adaptive("xhigh", 40960, true),
        ),
        (
            "claude-opus-4-8",
            json!({"thinkingBudget": 9000}),
            adaptive("high", 24576, true),
        ),
        ("claude-opus-4-8", json!({"reasoning": "off"}), none(8192)),
        (
            "claude-opus-4-8",
            json!({"reasoning": "low", "presetParams": {"max_tokens": 100}}),
            adaptive("low", 100, true),
        ),
        ("claude-opus-5", json!({}), none(24576)),
        (
            "claude-opus-5",
            json!({"reasoning": "off"}),
            json!({"max_tokens": 8192, "thinking": {"type": "disabled"}}),
        ),
        (
            "claude-sonnet-5-5",
            json!({"reasoning": "off"}),
            adaptive("low", 12288, true),
        ),
        (
            "claude-latest",
            json!({"reasoning": "max"}),
            adaptive("max", 57344, true),
        ),
    ] {
        assert_eq!(rest(&ask(model, asked.clone())), want, "{model} {asked}");
    }
}

#[test]
fn thinking_in_the_formats_own_words_counts() {
    let params = json!({"thinking": {"type": "enabled", "budget_tokens": 2000}, "temperature": 1});
    let given = ask(
        "claude-sonnet-4-5",
        json!({"reasoning": "max", "presetParams": {"params": params}}),
    );
    assert_eq!(
        rest(&given),
        json!({"max_tokens": 10192, "thinking": {"type": "enabled", "budget_tokens": 2000}})
    );
    let params = json!({"output_config": {"format": {"type": "json_schema"}}});
    let given = ask(
        "claude-opus-4-8",
        json!({"reasoning": "low", "presetParams": {"params": params}}),
    );
    assert_eq!(
        rest(&given)["output_config"],
        json!({"format": {"type": "json_schema"}, "effort": "low"})
    );
}

#[test]
fn sampling_is_left_out_where_it_is_refused() {
    let params = json!({"temperature": 0.7, "params": {"top_k": 5, "top_p": 0.9}});
    let sampling = |model, more: Value, quirk| {
        let mut asked = json!({"presetParams": params});
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut rest = rest(&ask(model, asked).quirk(quirk));
        for other in ["max_tokens", "thinking", "output_config"] {
            rest.as_object_mut().unwrap().remove(other);
        }
        rest
    };
    let plain = Quirk::default();
    let all = json!({"temperature": 0.7, "top_k": 5, "top_p": 0.9});
    assert_eq!(sampling("claude-sonnet-4-5", json!({}), plain), all);
    assert_eq!(
        sampling("claude-sonnet-4-5", json!({"reasoning": "low"}), plain),
        json!({})
    );
    assert_eq!(sampling("claude-opus-4-7", json!({}), plain), json!({}));
    let cold = Quirk {
        no_temperature: true,
        ..plain
    };
    assert_eq!(
        sampling("claude-sonnet-4-5", json!({}), cold),
        json!({"top_k": 5, "top_p": 0.9})
    );
}

#[test]
fn turns_alternate_and_nothing_is_empty() {
    let given = ask("claude-sonnet-4-5", json!({}));
    let image = crate::picture::Picture::parse(PNG).unwrap();
    let images = [image, crate::picture::Picture::Asset("not-put-in".into())];
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
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(
        messages(
            &given,
            &[
                user("a"),
                Item::Assistant { text: " \n" },
                user("b"),
                note,
                Item::Assistant { text: "c " },
                picture,
                user(""),
                Item::Prefill("It is \n"),
            ]
        ),
        json!([
            {"role": "user", "content": [text("a"), text("b"), text("be brief")]},
            {"role": "assistant", "content": [text("c ")]},
            {"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                text("what is it?"),
            ]},
            {"role": "assistant", "content": [text("It is")]},
        ])
    );
    let opening = json!({"role": "user", "content": [text("(The conversation begins.)")]});
    assert_eq!(
        messages(&given, &[Item::Assistant { text: "Hello." }, user("hi")]),
        json!([opening, {"role": "assistant", "content": [text("Hello.")]}, {"role": "user", "content": [text("hi")]}])
    );
    assert_eq!(messages(&given, &[]), json!([opening]));
    assert_eq!(messages(&given, &[user(" "), Item::Prefill(" ")]), json!([opening]));
}

#[test]
fn no_prefill_for_models_that_think_or_refuse_it() {
    let items = [user("a"), Item::Prefill("b")];
    let alone = json!([{"role": "user", "content": [{"type": "text", "text": "a"}]}]);
    let thinking = ask("claude-sonnet-4-5", json!({"reasoning": "low"}));
    assert_eq!(messages(&thinking, &items), alone);
    let quirk = Quirk {
        no_prefill: true,
        ..Quirk::default()
    };
    let refusing = ask("claude-sonnet-4-5", json!({})).quirk(quirk);
    assert_eq!(messages(&refusing, &items), alone);
}

fn tool_round() -> (ModelTurn, Vec<ToolReply>) {
    let thought = |text: &str, mark: Value| Thought {
        text: text.into(),
        mark,
    };
    let call = |id: &str, args: Value| SentCall {
        id: id.into(),
        name: "look".into(),
        args: args.as_object().unwrap().clone(),
        extra: None,
    };
    let turn = ModelTurn {
        text: "First é. Then.".into(),
        thinking: vec![
            thought("hm", json!({"signature": "s1"})),
            thought("", json!({"redacted": "r", "after": 9})),
            thought("of another format", json!("reasoning")),
            thought("", json!({"signature": "s2", "after": 1000})),
        ],
        calls: vec![call("toolu_1", json!({"a": 1})), call("call|2", json!({}))],
    };
    let reply = |id: &str, text: &str, is_error| ToolReply {
        id: id.into(),
        name: "look".into(),
        text: text.into(),
        is_error,
    };
    (turn, vec![reply("toolu_1", "seen", false), reply("call|2", "", true)])
}

#[test]
fn tool_rounds_go_back_as_they_were() {
    let (turn, replies) = tool_round();
    let items = [user("a"), Item::Model(&turn), Item::Tools(&replies), user("and?")];
    let results = json!([
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"},
        {"type": "tool_result", "tool_use_id": "call_2", "content": "The tool failed.", "is_error": true},
        {"type": "text", "text": "and?"},
    ]);
    let calls = [
        json!({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}}),
        json!({"type": "tool_use", "id": "call_2", "name": "look", "input": {}}),
    ];
    let given = ask("claude-sonnet-4-5", json!({"reasoning": "low"}));
    assert_eq!(
        messages(&given, &items),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s1"},
                {"type": "text", "text": "First é."},
                {"type": "redacted_thinking", "data": "r"},
                {"type": "thinking", "thinking": "", "signature": "s2"},
                {"type": "text", "text": " Then."},
                calls[0], calls[1],
            ]},
            {"role": "user", "content": results},
        ])
    );
    let quirk = Quirk {
        no_thinking_back: true,
        ..Quirk::default()
    };
    assert_eq!(
        messages(&given.quirk(quirk), &items)[1]["content"],
        json!([{"type": "text", "text": "First é. Then."}, calls[0], calls[1]])
    );
}

#[test]
fn calls_in_the_conversation_have_tools_also_when_none_may_be_called() {
    let (turn, replies) = tool_round();
    let items = [user("a"), Item::Model(&turn), Item::Tools(&replies)];
    let given = ask("claude-sonnet-4-5", json!({"cache": {"retention": "short"}}));
    let body = given.body_of(&items, None);
    assert_eq!(
        body["tools"],
        json!([{"name": "look", "input_schema": {"type": "object"}}])
    );
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    let body = given.choosing(None).body_of(&items, None);
    assert_eq!(body["tools"][0]["description"], "looks");
    assert_eq!(body.get("tool_choice"), None);
}

#[test]
fn cache_markers_stand_on_texts() {
    let (turn, replies) = tool_round();
    let images = [crate::picture::Picture::parse(PNG).unwrap()];
    let picture = Item::User {
        text: "this",
        images: &images,
        system: false,
    };
    let items = [
        user("a"),
        Item::Assistant { text: "b" },
        picture,
        Item::Model(&turn),
        Item::Tools(&replies),
    ];
    let mark = json!({"type": "ephemeral", "ttl": "1h"});
    let given = ask("claude-sonnet-4-5", json!({"cache": {"depth": 0, "retention": "long"}})).choosing(None);
    let body = given.body_of(&items, Some("s"));
    let body = Value::Object(body);
    let marked = [
        "/system/0",
        "/tools/0",
        "/messages/0/content/0",
        "/messages/2/content/1",
    ];
    for place in marked {
        assert_eq!(body.pointer(place).unwrap()["cache_control"], mark, "{place}");
    }
    assert_eq!(body.to_string().matches("cache_control").count(), marked.len());
    let none = ask("claude-sonnet-4-5", json!({"cache": {"depth": 0, "retention": "none"}})).choosing(None);
    assert!(!Value::Object(none.body()).to_string().contains("cache_control"));
}

#[test]
fn tools_and_which_one_is_to_be_called() {
    let chosen = |model, request: Value, choice, quirk| {
        let given = ask(model, request).choosing(choice).quirk(quirk);
        given.body().get("tool_choice").cloned().unwrap_or_default()
    };
    let plain = Quirk::default();
    let structured = Some(Choice::Structured);
    let named = json!({"type": "tool", "name": STRUCTURED});
    assert_eq!(chosen("claude-sonnet-4-5", json!({}), structured, plain), named);
    assert_eq!(
        chosen("claude-sonnet-4-5", json!({}), Some(Choice::Required), plain),
        json!({"type": "any"})
    );
    assert_eq!(
        chosen("claude-sonnet-4-5", json!({"reasoning": "low"}), structured, plain),
        Value::Null
    );
    assert_eq!(chosen("claude-sonnet-4-5", json!({}), None, plain), Value::Null);
    let body = ask("m", json!({})).choosing(None).body();
    assert_eq!(
        body["tools"],
        json!([{"name": "look", "description": "looks", "input_schema": {"type": "object", "properties": {}}}])
    );
    let bare = Tool::new("x", "", json!({"$ref": "#/$defs/a"})).unwrap();
    assert_eq!(
        tool(&bare),
        json!({"name": "x", "input_schema": {"$ref": "#/$defs/a", "type": "object"}})
    );
}

#[test]
fn what_is_refused_is_left_out_the_next_time() {
    // Each refusal changes the next body, and the same one twice ends the matter.
    let plain = [user("a")];
    let enabled = "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \
                   \"output_config.effort\" to control thinking behavior.";
    let mut alias = ask("my-opus", json!({"reasoning": "low"}));
    alias.quirk = alias.refused(&plain, enabled).unwrap();
    assert_eq!(
        alias.body()["thinking"],
        json!({"type": "adaptive", "display": "summarized"})
    );
    alias.quirk = alias
        .refused(&plain, "adaptive thinking is not supported on this model")
        .unwrap();
    assert_eq!(alias.body().get("thinking"), None);

    let mut old = ask("claude-latest", json!({"reasoning": "low"}));
    old.quirk = old
        .refused(&plain, "adaptive thinking is not supported on this model")
        .unwrap();
    assert_eq!(
        old.body()["thinking"],
        json!({"type": "enabled", "budget_tokens": 2048})
    );

    let mut fable = ask("claude-fable-5", json!({"reasoning": "off"}));
    let words = "\"thinking.type.disabled\" is not supported for this model. Thinking defaults to adaptive mode";
    fable.quirk = fable.refused(&plain, words).unwrap();
    assert_eq!(fable.body()["output_config"], json!({"effort": "low"}));

    let mut forced = ask("claude-opus-5", json!({})).choosing(Some(Choice::Structured));
    let words = "Thinking may not be enabled when tool_choice forces tool use.";
    forced.quirk = forced.refused(&plain, words).unwrap();
    assert_eq!(forced.body().get("tool_choice"), None);
    assert_eq!(forced.refused(&plain, words), None);

    let mut named = ask("x", json!({})).choosing(Some(Choice::Structured));
    named.quirk = named.refused(&plain, "tool_choice of type tool is unknown").unwrap();
    assert_eq!(named.body()["tool_choice"], json!({"type": "any"}));

    let filled = [user("a"), Item::Prefill("b")];
    let words = "This model does not support assistant message prefill. The conversation must end with a user message.";
    let mut prefilled = ask("claude-opus-4-6", json!({}));
    prefilled.quirk = prefilled.refused(&filled, words).unwrap();
    assert_eq!(messages(&prefilled, &filled), messages(&prefilled, &plain));
    assert_eq!(prefilled.refused(&filled, words), None);

    let (turn, replies) = tool_round();
    let round = [user("a"), Item::Model(&turn), Item::Tools(&replies)];
    let words = "messages.1.content.0: Invalid `signature` in `thinking` block";
    let given = ask("claude-sonnet-4-5", json!({}));
    assert!(given.refused(&round, words).unwrap().no_thinking_back);
    assert_eq!(given.refused(&plain, words), None);

    let warm = ask("x", json!({"presetParams": {"temperature": 1}}));
    assert!(
        warm.refused(&plain, "`temperature` is deprecated for this model.")
            .unwrap()
            .no_temperature
    );
    assert_eq!(given.refused(&plain, "max_tokens: 8192 > 4096"), None);
}

#[test]
fn headers_and_key() {
    let mut headers = HeaderMap::new();
    Anthropic.headers(&mut headers);
    assert_eq!(headers["anthropic-version"], "2023-06-01");
    let KeyStyle::Header(name) = Anthropic.key_style() else {
        panic!("a bearer")
    };
    assert_eq!(name, "x-api-key");
    assert_eq!(Anthropic.page("any"), "messages");
}

proptest::proptest! {
    /// A replay is foreign: its marks may say anything, and no word of the text is lost or said twice.
    #[test]
    fn thinking_anywhere_leaves_the_text_whole(text in "[aé🦋]{0,8}", places in proptest::collection::vec(0u64..40, 0..5)) {
        let thinking = places.iter().map(|after| Thought {
            text: "t".into(),
            mark: json!({"signature": "s", "after": after}),
        });
        let turn = ModelTurn {
            text: text.clone(),
            thinking: thinking.collect(),
            calls: Vec::new(),
        };
        let sent = messages(&ask("claude-sonnet-4-5", json!({})), &[user("a"), Item::Model(&turn), user("b")]);
        let blocks = sent[1]["content"].as_array().cloned().unwrap_or_default();
        let said: String = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let thought = blocks.iter().filter(|block| block["type"] == "thinking").count();
        if !(text.is_empty() && places.is_empty()) {
            assert_eq!((said, thought), (text, places.len()));
        }
    }
}
