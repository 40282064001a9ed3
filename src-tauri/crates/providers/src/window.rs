//! The size of a model's context, read from the words in which a server says that a request is too long. Servers that
//! people run themselves say the true one nowhere else.

use serde_json::Value;

use crate::error::cut;

/// Sizes that can be meant, in tokens.
const SIZES: std::ops::RangeInclusive<u64> = 64..=100_000_000;

/// Words right after which the size is said.
const BEFORE: [&str; 5] = [
    "context length",
    "context window",
    "context size",
    "maximum prompt length",
    "maximum number of tokens allowed",
];
/// Most bytes between those words and the size, as in `context length of only 32768`.
const MAX_BETWEEN: usize = 16;

/// In tokens. `None` for an error about anything else, or without a number.
pub(crate) fn window_in(error: &Value, words: &str) -> Option<u64> {
    // llama.cpp puts it beside the message.
    let beside = error.pointer("/error/n_ctx").or_else(|| error.get("n_ctx"));
    if let Some(size) = beside.and_then(Value::as_u64).filter(|size| SIZES.contains(size)) {
        return Some(size);
    }
    let words = words.to_lowercase();
    let after = BEFORE.iter().find_map(|before| {
        words
            .match_indices(before)
            .find_map(|(at, _)| number_soon(&words[at + before.len()..]))
    });
    // "prompt is too long: 210000 tokens > 200000 maximum"
    after.or_else(|| {
        let (_, rest) = words.split_once("too long")?;
        let (_, rest) = rest.split_once('>')?;
        number_soon(rest)
    })
}

/// The number that follows within the same sentence.
fn number_soon(text: &str) -> Option<u64> {
    let between = text
        .find(|c: char| c.is_ascii_digit())
        .filter(|at| *at <= MAX_BETWEEN)?;
    if cut(text, between).contains(['.', ';', '\n']) {
        return None;
    }
    let digits: String = text[between..]
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok().filter(|size| SIZES.contains(size))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn as_servers_say_it() {
        for (words, want) in [
            (
                "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens",
                16384,
            ),
            (
                "However, the model is loaded with context length of only 32768 tokens, which is not enough",
                32768,
            ),
            ("Requested tokens (516) exceed context window of 512", 512),
            ("Number of tokens (757) exceeded maximum context length (512).", 512),
            (
                "request (5000 tokens) exceeds the available context size (4,096 tokens), try increasing it",
                4096,
            ),
            ("This endpoint's maximum context length is 131_072 tokens", 131_072),
            ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
            (
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
                131_072,
            ),
            (
                "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
                1_048_575,
            ),
        ] {
            assert_eq!(window_in(&Value::Null, words), Some(want), "{words}");
        }
        let llama =
            json!({"error": {"code": 400, "message": "the request exceeds", "n_prompt_tokens": 1407, "n_ctx": 256}});
        assert_eq!(window_in(&llama, ""), Some(256));
    }

    #[test]
    fn other_words_say_nothing() {
        for words in [
            "",
            "model not found (404)",
            "the context length was exceeded. 400",
            "context window of 5",
            "context size is too small for what you asked, which has 9000",
            "context length 99999999999999999999999",
            "context length é 7",
        ] {
            assert_eq!(window_in(&json!({"error": {"n_ctx": "x"}}), words), None, "{words}");
        }
    }
}
