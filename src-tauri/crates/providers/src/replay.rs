//! Turns of a model as it made them (contract section 4.1, `replay`): a result says what to send along with its text, and
//! a later request that does so gives the model its own thinking and tool calls back. Honoured only for the same model
//! of the same connection, and for text that nobody edited.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::Message;
use crate::wire::{Api, Since};

#[derive(Debug, Serialize, Deserialize)]
struct Replay {
    text: String,
    api: Api,
    model: String,
    messages: Vec<Since>,
}

/// `None` where a replay would say no more than the text does.
pub(crate) fn of(api: Api, connection: &str, model: &str, text: &str, messages: Vec<Since>) -> Option<Value> {
    let says_more = messages.iter().any(|since| match since {
        Since::Model(turn) => !turn.calls.is_empty() || !turn.thinking.is_empty(),
        Since::Tools { .. } => true,
    });
    let replay = Replay {
        text: text.to_owned(),
        api,
        model: format!("{connection}/{model}"),
        messages,
    };
    says_more.then(|| serde_json::to_value(replay).ok()).flatten()
}

/// The turns to send in the place of `message`, if it has a replay that is honoured. One that is not is no error: the
/// text alone is sent.
pub(crate) fn honoured(message: &Message, api: Api, connection: &str, model: &str) -> Option<Vec<Since>> {
    let replay = Replay::deserialize(message.replay.as_ref()?).ok()?;
    let same = replay.api == api && replay.model == format!("{connection}/{model}") && replay.text == message.content;
    let mut open: Vec<&str> = Vec::new();
    // Servers refuse a conversation whose tool calls and answers do not belong together.
    for since in &replay.messages {
        match since {
            Since::Model(turn) if open.is_empty() => open = turn.calls.iter().map(|call| call.id.as_str()).collect(),
            Since::Tools { results } if results.iter().map(|result| result.id.as_str()).eq(open.iter().copied()) => {
                open.clear();
            }
            _ => return None,
        }
    }
    (same && open.is_empty() && !replay.messages.is_empty()).then_some(replay.messages)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{ModelTurn, SentCall, ToolReply};

    fn message(content: &str, replay: Value) -> Message {
        serde_json::from_value(json!({"role": "assistant", "content": content, "replay": replay})).unwrap()
    }

    #[test]
    fn only_for_the_same_model_and_text() {
        let call = SentCall {
            id: "a".into(),
            name: "f".into(),
            ..SentCall::default()
        };
        let turn = ModelTurn {
            calls: vec![call],
            ..ModelTurn::default()
        };
        let results = vec![ToolReply {
            id: "a".into(),
            ..ToolReply::default()
        }];
        let last = Since::Model(ModelTurn {
            text: "x".into(),
            ..ModelTurn::default()
        });
        let since = vec![Since::Model(turn.clone()), Since::Tools { results }, last];
        let replay = of(Api::Ollama, "c", "m", "x", since.clone()).unwrap();
        let given = |content: &str, api, connection: &str, model: &str| {
            honoured(&message(content, replay.clone()), api, connection, model)
        };
        assert_eq!(given("x", Api::Ollama, "c", "m"), Some(since));
        assert_eq!(given("edited", Api::Ollama, "c", "m"), None);
        assert_eq!(given("x", Api::OpenaiText, "c", "m"), None);
        assert_eq!(given("x", Api::Ollama, "other", "m"), None);
        assert_eq!(given("x", Api::Ollama, "c", "m2"), None);
        assert_eq!(of(Api::Ollama, "c", "m", "x", vec![]), None);

        let unanswered = of(Api::Ollama, "c", "m", "x", vec![Since::Model(turn)]).unwrap();
        assert_eq!(honoured(&message("x", unanswered), Api::Ollama, "c", "m"), None);
        for foreign in [json!({"text": "x", "messages": []}), json!(5), json!("x"), json!({})] {
            assert_eq!(honoured(&message("x", foreign), Api::Ollama, "c", "m"), None);
        }
    }
}
