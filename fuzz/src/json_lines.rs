//! Bodies that are JSON values one after another, as Ollama sends them and as Gemini does without events: the same events
//! however they are cut, with line feeds or nothing between the values, and as the elements of a list.

use providers::{Api, Event, replay};

use crate::answers;

pub fn run(bytes: &[u8]) {
    let [api, cut, body @ ..] = bytes else { return };
    let api = if api % 2 == 0 {
        Api::Ollama
    } else {
        Api::GoogleGenerativeAi
    };
    let lines = [b"{}\n", body].concat();
    answers::look(api, usize::from(*cut), &lines);
    let seen = replay(api, &[&lines]);
    if matches!(seen.last(), Some(Event::Done { .. }))
        && serde_json::from_slice::<serde_json::Value>(body).is_ok_and(|value| value.is_object())
    {
        for other in [
            [b"{}", body].concat(),
            [b"[{},", body, b"]"].concat(),
            [b" \r\n{}\r", body].concat(),
        ] {
            assert_eq!(replay(api, &[&other]), seen, "{:?}", String::from_utf8_lossy(&other));
        }
    }
}
