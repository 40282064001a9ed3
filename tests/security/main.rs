//! A hostile plugin that was granted everything, run by the built program. Every attempt has a name, what it does, what
//! must come of it, and a twin: the same act as it is allowed, which works, so that the attempt failed for its own reason.

mod attempt;
mod bombs;
mod budgets;
mod counts;
mod entries;
mod escape;
mod files;
mod house;
mod loads;
mod network;
mod permissions;
mod rebinding;
mod regress;
mod requests;
mod served;
mod store;
mod worker;

use std::collections::BTreeSet;

use attempt::Attempt;

fn all() -> Vec<Attempt> {
    [
        escape::attempts(),
        files::attempts(),
        network::attempts(),
        requests::attempts(),
        store::attempts(),
        loads::attempts(),
        worker::attempts(),
        budgets::attempts(),
    ]
    .concat()
}

#[test]
fn every_attempt_has_a_name_of_its_own_and_a_twin() {
    let all = all();
    let coded = permissions::CODED.iter().map(|(name, _)| (*name).to_owned());
    let list: Vec<String> = all
        .iter()
        .map(|attempt| attempt.name.clone())
        .chain(coded)
        .chain(
            entries::NAMES
                .iter()
                .chain(served::NAMES)
                .map(|name| (*name).to_owned()),
        )
        .chain(bombs::names())
        .chain(rebinding::ATTEMPTS.iter().map(|(name, _)| (*name).to_owned()))
        .chain(store::ANSWERS.iter().map(|(name, _)| (*name).to_owned()))
        .collect();
    let names: BTreeSet<&String> = list.iter().collect();
    assert_eq!(names.len(), list.len(), "two attempts have one name");
    for attempt in &all {
        assert!(
            !attempt.attack.is_empty() && !attempt.twin.is_empty(),
            "{}",
            attempt.name
        );
        assert_ne!(attempt.attack, attempt.twin, "{}", attempt.name);
    }
    eprintln!("{} attempts", names.len());
    assert!(names.len() >= 400, "only {} attempts", names.len());
}
