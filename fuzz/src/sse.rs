//! Bodies that are streams of events, with every line ending and any bytes in between: the same events however they are
//! cut, and with a byte order mark or a comment before them.

use providers::{Api, Event, replay};

use crate::answers;

pub fn run(bytes: &[u8]) {
    let [cut, body @ ..] = bytes else { return };
    // A first line that says nothing, so that this is a stream of events whatever comes.
    let stream = [b": fuzz\n", body].concat();
    answers::look(Api::OpenaiCompletions, usize::from(*cut), &stream);
    let seen = replay(Api::OpenaiCompletions, &[&stream]);
    let marked = [b"\xef\xbb\xbf: fuzz\r\n: again\r\n", body].concat();
    // A line feed after the comment's carriage return would be the second half of it.
    if !body.starts_with(b"\n") {
        assert_eq!(
            replay(Api::OpenaiCompletions, &[&marked]),
            seen,
            "after a byte order mark"
        );
    }
    // Every line ending is the same; a carriage return inside the data is one, too.
    if !body.contains(&b'\r') && ends_well(&seen) {
        let other: Vec<u8> = stream
            .iter()
            .map(|byte| if *byte == b'\n' { b'\r' } else { *byte })
            .collect();
        assert_eq!(replay(Api::OpenaiCompletions, &[&other]), seen, "with carriage returns");
    }
}

/// Not with an error that quotes the stream, line endings and all.
fn ends_well(events: &[Event]) -> bool {
    matches!(events.last(), Some(Event::Done { .. }))
}
