//! Answers of model servers, in any wire format: the first byte chooses the format, the second the place where the rest,
//! the body, is cut in two. Whatever it is, there are events with one end, and they do not depend on the cuts.

use providers::{Answer, Api, Event, replay};

pub fn run(bytes: &[u8]) {
    let [api, cut, body @ ..] = bytes else { return };
    look(Api::ALL[usize::from(*api) % Api::ALL.len()], usize::from(*cut), body);
}

/// What `sse` and `json_lines` expect of their bodies, too.
pub fn look(api: Api, cut: usize, body: &[u8]) {
    let whole = replay(api, &[body]);
    let is_end = |event: &Event| matches!(event, Event::Done { .. } | Event::Failed(_));
    let ends = whole.iter().filter(|event| is_end(event)).count();
    assert_eq!(ends, 1, "ends of {whole:?}");
    assert!(whole.last().is_some_and(is_end), "something after the end: {whole:?}");
    let at = cut % (body.len() + 1);
    assert_eq!(replay(api, &[&body[..at], &body[at..]]), whole, "cut at {at}");
    let single: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(replay(api, &single), whole, "byte by byte");
    for event in &whole {
        looks_right(event);
    }
    let mut answer = Answer::new("fuzz/model", None);
    whole.iter().for_each(|event| answer.push(event));
    let result = answer.finish();
    serde_json::to_string(&result).expect("a result is JSON");
    assert!(result.usage.cost_total >= 0.0 && result.usage.cost_total.is_finite());
}

fn looks_right(event: &Event) {
    match event {
        Event::Delta(text) | Event::Thinking(text) => assert!(!text.is_empty(), "an event that says nothing"),
        Event::Done {
            finish_reason,
            model,
            response_id,
            ..
        } => {
            for text in [finish_reason, model, response_id].into_iter().flatten() {
                assert!(!text.is_empty() && text.len() <= 200, "{text:?}");
            }
        }
        Event::Failed(error) => {
            assert!(!error.what.is_empty() && error.to_string().len() < 8 << 10, "{error}");
            serde_json::to_string(&error.info()).expect("it is JSON");
        }
        _ => {}
    }
}
