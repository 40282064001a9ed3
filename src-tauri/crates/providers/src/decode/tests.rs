use serde_json::json;

use super::*;

fn decoder(what: &Value) -> StreamDecoder {
    StreamDecoder::new(&StreamDecode::parse(what).unwrap())
}

fn run(what: &Value, pieces: &[&str]) -> String {
    let mut decoder = decoder(what);
    let mut out: String = pieces.iter().map(|piece| decoder.push(piece)).collect();
    out += &decoder.finish();
    out
}

/// Every cut in two, and character by character.
fn check(what: &Value, whole: &str, want: &str) {
    for at in (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)) {
        assert_eq!(run(what, &[&whole[..at], &whole[at..]]), want, "{whole:?} cut at {at}");
    }
    let letters: Vec<String> = whole.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    assert_eq!(run(what, &letters), want, "{whole:?} in letters");
}

#[test]
fn fields_of_the_outermost_object() {
    let text = json!({"field": "text"});
    check(
        &text,
        r#" {"mood": "x", "text": "Hé \"you\"\n日🦋", "n": 5}"#,
        "Hé \"you\"\n日🦋",
    );
    check(
        &text,
        r#"{"a": {"text": "no", "b": ["}\"", {}]}, "text": "yes"}"#,
        "yes",
    );
    check(&text, r#"{"a": null, "b": -1.5e3, "text": "", "c": true}"#, "");
    check(
        &text,
        r#"{"text": 5, "text": {"text": "x"}, "text" : "y" } "text": "z""#,
        "y",
    );
    check(&text, r#"{"other": "x"}"#, "");
    check(&text, r#"{"te\u0078t": "x", "text\"": "y", "text": "z"}"#, "z");
    check(
        &json!({"fields": ["b", "a"]}),
        r#"{"a": "1", "x": "-", "b": "2"}"#,
        "1\n\n2",
    );
}

#[test]
fn what_breaks_off_shows_what_there_is() {
    let text = json!({"field": "text"});
    for (whole, want) in [
        (r#"{"text": "abc"#, "abc"),
        (r#"{"text": "abc\"#, "abc"),
        (r#"{"text": "abc\u00e"#, "abc"),
        (r#"{"text": "abc\ud83e"#, "abc"),
        (r#"{"text": "abc\ud83e\udd"#, "abc"),
        (r#"{"text": "abc","#, "abc"),
        (r#"{"text": "abc", "ne"#, "abc"),
        (r#"{"tex"#, ""),
        ("", ""),
    ] {
        check(&text, whole, want);
    }
}

#[test]
fn halves_of_characters_are_never_shown() {
    let text = json!({"field": "t"});
    check(&text, r#"{"t": "\ud83e\udd8b\u00e9\u0041"}"#, "🦋éA");
    check(
        &text,
        r#"{"t": "\ud83ex\udd8b\ud83e\ud83e\udd8b"}"#,
        "\u{fffd}x\u{fffd}\u{fffd}🦋",
    );
    check(&text, r#"{"t": "\q \u12g \' \/"}"#, r"\q \u12g ' /");
}

#[test]
fn quotation_marks_that_were_not_escaped_are_text() {
    let text = json!({"field": "t"});
    for (inside, want) in [
        (r#"He said "hi" and left"#, r#"He said "hi" and left"#),
        (r#""Hi," she said"#, r#""Hi," she said"#),
        (r#"the end is "near""#, r#"the end is "near""#),
        (r#"a list: "a", "b" and "c"."#, r#"a list: "a", "b" and "c"."#),
        ("two\nlines", "two\nlines"),
    ] {
        check(&text, &format!("{{\"t\": \"{inside}\", \"n\": 1}}"), want);
        check(
            &text,
            &format!("{{\"o\": \"{inside}\", \"t\" :\"{inside}\" ,\n }}"),
            want,
        );
        check(&text, &format!("{{\"o\": [\"{inside}\"], \"t\": \"x\"}}"), "x");
    }
}

#[test]
fn text_that_is_no_object_passes_through() {
    let text = json!({"field": "t", "replace": [{"from": "a", "to": "b"}]});
    for whole in [
        "plain a",
        "  [1]",
        "{{user}} said a",
        "{ smiles }",
        "\"{\"",
        "{\"a\" b",
        " ",
    ] {
        check(&text, whole, if whole == " " { "" } else { whole });
    }
}

#[test]
fn too_much_and_too_deep_pass_through() {
    let text = json!({"field": "t"});
    let head = |length: usize| format!("{{\"a\": \"{}\", \"t\": \"x\"}}", "y".repeat(length));
    let (short, long) = (head(MAX_HELD - 100), head(MAX_HELD + 100));
    for size in [1, 7, 1000, 100_000] {
        let pieces = |whole: &str| {
            let bytes: Vec<String> = whole
                .as_bytes()
                .chunks(size)
                .map(|piece| String::from_utf8(piece.to_vec()).unwrap())
                .collect();
            let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
            run(&text, &bytes)
        };
        assert_eq!(pieces(&short), "x");
        assert!(pieces(&long) == long);
    }
    let nest = |depth: usize| format!("{{\"a\": {}{}, \"t\": \"x\"}}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(run(&text, &[&nest(127)]), "x");
    assert_eq!(run(&text, &[&nest(128)]), nest(128));
    let after = format!("{{\"t\": \"x\", \"a\": {}", "[".repeat(500));
    assert_eq!(run(&text, &[&after]), "x");
}

#[test]
fn replacements() {
    let what = json!({"field": "t", "replace": [
        {"from": "\\n", "to": "\n"}, {"from": "abc", "to": "1"}, {"from": "ab", "to": "2"}, {"from": "<br>", "to": ""},
    ]});
    check(&what, r#"{"t": "x\\ny abcab aab<br><b"}"#, "x\ny 12 a2<b");
    check(&what, r#"{"t": "ab"}"#, "2");
    let both = json!({"fields": ["t", "u"], "replace": [{"from": "ab", "to": "2"}]});
    check(&both, r#"{"t": "a", "u": "b"}"#, "a\n\nb");
}

/// For valid JSON the field's text comes out exactly, whatever stands before and after it.
#[test]
fn any_text_in_valid_json() {
    let what = json!({"field": "t"});
    let letters = [
        "\"", "\"}", "\",", "{", ":", "\\", "\n", "u", "d83e", " ", "日", "🦋", "\u{1}", "t",
    ];
    let mut seed = 7_u64;
    let mut random = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..3000 {
        let mut text = || -> String { (0..random(12)).map(|_| letters[random(letters.len())]).collect() };
        let (before, want, after) = (text(), text(), text());
        let value = json!({"a": [before, {&after: &before}], "t": want, "z": after});
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(run(&what, &[&value.to_string()]), want, "{value}");
        assert_eq!(run(&what, &[&pretty]), want, "{pretty}");
    }
}

/// Any text at all: no panic, and the cuts do not matter.
#[test]
fn any_text_in_any_cuts() {
    let what = json!({"fields": ["a", "b"], "replace": [{"from": "aa", "to": "b"}]});
    let letters = [
        "{", "}", "[", "]", "\"", "\"", "a", "b", ":", ",", " ", "\\", "u", "d83e", "dd8b", "\n", "日",
    ];
    let mut seed = 1_u64;
    let mut random = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..3000 {
        let begin = ["", "{", "{\"a\":\"", "{\"a\": {\"b\": \""][random(4)];
        let parts: Vec<&str> = (0..random(30)).map(|_| letters[random(letters.len())]).collect();
        let whole = format!("{begin}{}", parts.concat());
        let want = run(&what, &[&whole]);
        let mut pieces = Vec::new();
        let mut rest = whole.as_str();
        while !rest.is_empty() {
            let at = 1 + random(4);
            let at = (at..=rest.len())
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            let (piece, more) = rest.split_at(at);
            pieces.push(piece);
            rest = more;
        }
        assert_eq!(run(&what, &pieces), want, "{whole:?} as {pieces:?}");
    }
}

#[test]
fn limits() {
    for (bad, said) in [
        (json!({}), "1 to 4"),
        (json!({"fields": ["a", "b", "c", "d", "e"]}), "1 to 4"),
        (json!({"field": "a-b"}), "A-Z"),
        (json!({"field": "x".repeat(65)}), "A-Z"),
        (json!({"field": 5}), "A-Z"),
        (
            json!({"field": "a", "replace": [{"from": "", "to": "x"}]}),
            "{from, to}",
        ),
        (json!({"field": "a", "replace": [{"from": "x"}]}), "{from, to}"),
        (
            json!({"field": "a", "replace": [{"from": "x".repeat(33), "to": ""}]}),
            "32",
        ),
        (
            json!({"field": "a", "replace": vec![json!({"from": "x", "to": ""}); 9]}),
            "at most 8",
        ),
    ] {
        let error = StreamDecode::parse(&bad).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
    let good = json!({"field": "a", "fields": ["b", "a"], "replace": [{"from": "é".repeat(32), "to": ""}]});
    assert_eq!(StreamDecode::parse(&good).unwrap().fields, ["a", "b"]);
}
