//! Bodies of frames, read as each side of a worker's socket reads them. What is read is written again, and the bytes must
//! be the same: there is one way to say a thing, and nothing is read that was not there.

use sandbox::frame::{FromWorker, ToWorker};

pub fn run(bytes: &[u8]) {
    if let Ok(frame) = ToWorker::decode(bytes) {
        let again = frame.encode().expect("what came in a frame fits into one");
        assert_eq!(length(&again), bytes.len());
        assert!(&again[4..] == bytes, "another frame to the worker: {frame:?}");
    }
    if let Ok(frame) = FromWorker::decode(bytes) {
        let again = frame.encode().expect("what came in a frame fits into one");
        assert_eq!(length(&again), bytes.len());
        assert!(&again[4..] == bytes, "another frame from the worker: {frame:?}");
    }
    // Looks at every byte of what will be parsed as JSON; it must neither fail nor read past the end.
    let _ = sandbox::fits(bytes);
}

fn length(frame: &[u8]) -> usize {
    let field: [u8; 4] = frame[..4].try_into().expect("four bytes");
    u32::from_le_bytes(field) as usize
}
