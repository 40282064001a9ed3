//! A hostile plugin that was granted everything, run by the built program. Every attempt has a name, what it does, what
//! must come of it, and a twin: the same act as it is allowed, which works, so that the attempt failed for its own reason.

mod attempt;
mod escape;
mod files;
mod house;
mod network;
mod requests;
mod store;

use std::collections::BTreeSet;

use attempt::Attempt;

fn all() -> Vec<Attempt> {
    [
        escape::attempts(),
        files::attempts(),
        network::attempts(),
        requests::attempts(),
        store::attempts(),
    ]
    .concat()
}

#[test]
fn every_attempt_has_a_name_of_its_own_and_a_twin() {
    let all = all();
    let names: BTreeSet<&str> = all.iter().map(|attempt| attempt.name.as_str()).collect();
    assert_eq!(names.len(), all.len(), "two attempts have one name");
    for attempt in &all {
        assert!(
            !attempt.attack.is_empty() && !attempt.twin.is_empty(),
            "{}",
            attempt.name
        );
        assert_ne!(attempt.attack, attempt.twin, "{}", attempt.name);
    }
    assert!(names.len() >= 80, "only {} attempts", names.len());
}
