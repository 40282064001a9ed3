//! The built-in demo model: works offline, needs no key, and says in every answer that it is canned.

use std::time::Duration;

use futures::StreamExt;
use futures::stream;

use crate::{Event, EventStream, GenerateRequest, ProviderError, ProviderErrorKind, Role, Usage};

/// The part before the slash in `demo/canned`.
pub const CONNECTION_ID: &str = "demo";
pub const MODEL_ID: &str = "canned";
/// How every list of models names it.
pub const LABEL: &str = "Demo (canned answers, works offline)";

/// A pause as long as a fast model takes for a token, so that streaming looks and is tested like streaming.
const PAUSE: Duration = Duration::from_millis(15);

const GREETING: &str = "**Canned demo answer.** I am not a language model: this text is built into Chrysalis, and \
nothing you write leaves your computer.

Add a model server under *Settings → Models* to get real answers. Meanwhile, here is what an answer can look like:

1. Text arrives piece by piece, and **Stop** ends it at once.
2. Lists, *emphasis* and `code` are formatted.
3. Code is shown, never run:

```python
def greet(name):
    return f\"Hello, {name}!\"
```

";

/// Streams the canned answer, word by word. Dropping the stream stops it. Calls no tools; a request with a `schema` is
/// answered with an error, for a canned text follows none.
pub fn chat(request: &GenerateRequest) -> EventStream {
    if request.schema.is_some() {
        return stream::iter([Event::Failed(no_schema())]).boxed();
    }
    let text = answer(request);
    let pieces: Vec<String> = text.split_inclusive([' ', '\n']).map(str::to_owned).collect();
    let done = Event::Done {
        finish_reason: Some("stop".into()),
        usage: Usage::default(),
        model: Some(MODEL_ID.into()),
        response_id: None,
    };
    let deltas = stream::iter(pieces).then(|piece| async move {
        tokio::time::sleep(PAUSE).await;
        Event::Delta(piece)
    });
    deltas.chain(stream::iter([done])).boxed()
}

fn no_schema() -> ProviderError {
    ProviderError::new(
        ProviderErrorKind::Unusable,
        CONNECTION_ID,
        Some(MODEL_ID.into()),
        "the demo model's answers are canned, so it cannot fill in a schema; add a model server in the launcher's \
         settings and choose one of its models",
    )
}

fn answer(request: &GenerateRequest) -> String {
    let (_, turns) = request.split();
    let asked = turns.iter().rev().find(|turn| turn.role == Role::User);
    let words = asked.map_or(0, |turn| turn.content.split_whitespace().count());
    let rounds = turns.iter().filter(|turn| turn.role == Role::User).count();
    let noun = if words == 1 { "word" } else { "words" };
    format!("{GREETING}Your message had {words} {noun}, and it was number {rounds} of this conversation.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> GenerateRequest {
        serde_json::from_value(serde_json::json!({"messages": [{"role": "user", "content": text}]})).unwrap()
    }

    #[tokio::test]
    async fn says_that_it_is_canned_and_streams_in_small_pieces() {
        let events: Vec<Event> = chat(&request("three little words")).collect().await;
        let texts: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                Event::Delta(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert!(texts.len() > 50);
        let text = texts.concat();
        assert!(text.starts_with("**Canned demo answer.**"), "{text}");
        assert!(text.contains("had 3 words"), "{text}");
        assert!(matches!(events.last(), Some(Event::Done { .. })));
    }

    #[tokio::test]
    async fn says_that_it_follows_no_schema() {
        let mut asked = request("x");
        asked.schema = Some(serde_json::json!({"type": "object"}));
        let events: Vec<Event> = chat(&asked).collect().await;
        let [Event::Failed(error)] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert!(
            error
                .to_string()
                .starts_with("demo/canned: the demo model's answers are canned"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn pauses_between_pieces() {
        let began = tokio::time::Instant::now();
        let mut stream = chat(&request("x"));
        stream.next().await;
        stream.next().await;
        assert!(began.elapsed() >= PAUSE * 2);
    }
}
