use serde_json::json;

use super::*;

/// Pieces as `[index, id, name, arguments]`, null where absent.
fn assemble(pieces: Value) -> Result<Vec<(Option<String>, String, String)>, String> {
    let mut calls = ToolCalls::default();
    for piece in pieces.as_array().unwrap() {
        let word = |at: usize| piece[at].as_str().map(str::to_owned);
        calls.add(Piece {
            index: piece[0].as_u64(),
            id: word(1),
            name: word(2),
            arguments: word(3).unwrap_or_default(),
            extra: None,
        });
    }
    let calls = calls.finish()?;
    Ok(calls
        .into_iter()
        .map(|call| (call.id, call.name, call.arguments))
        .collect())
}

fn check(what: &str, pieces: Value, want: &[(Option<&str>, &str, &str)]) {
    let want: Vec<_> = want
        .iter()
        .map(|(id, name, args)| (id.map(str::to_owned), (*name).to_owned(), (*args).to_owned()))
        .collect();
    assert_eq!(assemble(pieces), Ok(want), "{what}");
}

const A: (Option<&str>, &str, &str) = (Some("a"), "f", r#"{"x":1}"#);
const B: (Option<&str>, &str, &str) = (Some("b"), "g", r#"{"y":"}"}"#);

#[test]
fn as_the_format_has_it() {
    check(
        "two calls",
        json!([
            [0, "a", "f", ""],
            [0, null, null, "{\"x\""],
            [0, null, null, ":1}"],
            [1, "b", "g", ""],
            [1, null, null, "{\"y\":\"}"],
            [1, null, null, "\"}"],
        ]),
        &[A, B],
    );
    check(
        "interleaved",
        json!([
            [0, "a", "f", "{\"x\""],
            [1, "b", "g", "{\"y\""],
            [0, null, null, ":1}"],
            [1, null, null, ":\"}\"}"],
        ]),
        &[A, B],
    );
    check("indexes from 7", json!([[7, "a", "f", "{\"x\":1}"]]), &[A]);
}

/// https://github.com/agno-agi/agno/issues/8879
#[test]
fn regress_33_the_second_calls_head_has_the_first_calls_index() {
    for id in [json!("b"), json!(null)] {
        check(
            "agno",
            json!([
                [0, "a", "f", "{\"x\""],
                [0, null, null, ":1}"],
                [0, "b", "g", "{\"y\""],
                [1, id, null, ":\"}\"}"],
            ]),
            &[A, B],
        );
    }
    check(
        "before the first is complete",
        json!([
            [0, "a", "f", "{\"x\""],
            [0, "b", "g", "{\"y\":\"}\"}"],
            [0, "a", null, ":1}"]
        ]),
        &[A, B],
    );
    check(
        "every call has index 0",
        json!([
            [0, "a", "f", "{\"x\":1}"],
            [0, "b", "g", "{\"y\""],
            [0, null, null, ":\"}\"}"]
        ]),
        &[A, B],
    );
    let ambiguous = assemble(json!([
        [0, "a", "f", "{\"x\""],
        [0, "b", "g", "{\"y\""],
        [0, null, null, ":1}"]
    ]));
    assert!(ambiguous.unwrap_err().contains("more than one"));
}

#[test]
fn regress_33_without_index() {
    check(
        "only ids",
        json!([
            [null, "a", "f", "{\"x\""],
            [null, "b", "g", "{\"y\":\"}\"}"],
            [null, "a", null, ":1}"]
        ]),
        &[A, B],
    );
    check(
        "in order",
        json!([
            [null, "a", "f", ""],
            [null, null, null, "{\"x\""],
            [null, null, null, ":1}"],
            [null, "b", "g", "{\"y\""],
            [null, null, null, ":\"}\"}"],
        ]),
        &[A, B],
    );
    check(
        "an index that comes later",
        json!([
            [null, "a", "f", "{\"x\""],
            [0, null, null, ":1}"],
            [null, "b", "g", ""],
            [1, null, null, "{\"y\":\"}\"}"]
        ]),
        &[A, B],
    );
    for pieces in [
        json!([
            [null, "a", "f", "{\"x\""],
            [null, "b", "g", "{\"y\""],
            [null, null, null, ":1}"]
        ]),
        json!([[null, "a", "f", "{\"x\":1}"], [null, null, null, "{\"y\":2}"]]),
    ] {
        assert!(assemble(pieces).is_err());
    }
}

#[test]
fn regress_33_without_id() {
    let (a, b) = ((None, A.1, A.2), (None, B.1, B.2));
    check(
        "indexes only",
        json!([
            [0, null, "f", ""],
            [0, null, null, "{\"x\":1}"],
            [1, null, "g", "{\"y\":\"}\"}"]
        ]),
        &[a, b],
    );
    check(
        "names only",
        json!([
            [null, null, "f", "{\"x\":1}"],
            [null, null, "g", "{\"y\""],
            [null, null, null, ":\"}\"}"]
        ]),
        &[a, b],
    );
    check(
        "one index for whole calls",
        json!([
            [0, null, "f", "{\"x\":1}"],
            [0, null, "g", "{\"y\":\"}\"}"],
            [0, null, "g", "{\"y\":\"}\"}"]
        ]),
        &[a, b],
    );
    assert!(assemble(json!([[0, null, "f", "{\"x\""], [0, null, "g", "{\"y\""]])).is_err());
}

#[test]
fn regress_33_arguments_before_the_id() {
    check("index", json!([[0, null, null, "{\"x\""], [0, "a", "f", ":1}"]]), &[A]);
    check(
        "no index",
        json!([[null, null, null, "{\"x\":1}"], [null, "a", "f", ""]]),
        &[A],
    );
    check(
        "name first",
        json!([[0, null, "f", ""], [0, null, null, "{\"x\""], [0, "a", null, ":1}"]]),
        &[A],
    );
    let nameless = assemble(json!([[0, "a", "f", ""], [1, null, null, "{\"x\":1}"]]));
    assert!(nameless.unwrap_err().contains("name never came"));
}

#[test]
fn what_servers_repeat() {
    check(
        "id and name in every piece",
        json!([
            [0, "a", "f", "{\"x\""],
            [0, "a", "f", ":1}"],
            [1, "b", "g", "{\"y\":\"}\"}"]
        ]),
        &[A, B],
    );
    check(
        "all at the end",
        json!([[0, "a", "f", "{\"x\":1}"], [0, "a", "f", "{\"x\":1}"]]),
        &[A],
    );
    check(
        "empty at first",
        json!([[0, "a", "f", "{}"], [0, null, null, "{\"x\":1}"]]),
        &[A],
    );
    check(
        "a name in parts",
        json!([[0, "a", "ge", ""], [0, null, "t", "{}"]]),
        &[(Some("a"), "get", "{}")],
    );
    check(
        "one id for all",
        json!([[0, "a", "f", "{\"x\":1}"], [1, "a", "g", "{\"y\":\"}\"}"]]),
        &[A, (None, B.1, B.2)],
    );
    let late = assemble(json!([[0, "a", "f", "{\"x\":1}"], [0, null, null, "{\"x\":2}"]]));
    assert!(late.unwrap_err().contains("after they were complete"));
    assert!(assemble(json!([[0, "a", "f", "{\"x\""], [0, "other", null, ":1}"]])).is_err());
    check("nothing", json!([[null, null, null, ""], [3, null, null, " "]]), &[]);
}

#[test]
fn arguments_that_are_no_object_are_said_to_the_model() {
    let args = |text: &str| {
        let call = Call {
            id: None,
            name: "f".into(),
            arguments: text.into(),
            extra: None,
        };
        call.args().map(Value::Object)
    };
    assert_eq!(args(" "), Ok(json!({})));
    assert_eq!(args("null"), Ok(json!({})));
    assert_eq!(args(r#""{\"a\":1}""#), Ok(json!({"a": 1})));
    for bad in ["{", "[1]", "5", "\"x\"", "{} {}"] {
        assert!(args(bad).unwrap_err().contains("Call it again"), "{bad}");
    }
}

#[test]
fn limits() {
    let many: Vec<Value> = (0..=MAX_CALLS)
        .map(|n| json!([n, format!("i{n}"), "f", "{}"]))
        .collect();
    assert!(assemble(Value::Array(many)).is_err());
    assert!(assemble(json!([[0, "a", "f", "x".repeat(MAX_ARGUMENTS + 1)]])).is_err());
    assert!(assemble(json!([[0, "a", "f".repeat(201), ""]])).is_err());
}
