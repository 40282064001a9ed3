//! One attempt, and how what came of it is judged.

use serde_json::Value;

use crate::house::House;

/// What a call of the hostile plugin came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Came {
    /// What its code returned.
    Value(Value),
    /// The call failed, with this text.
    Error(String),
}

/// What must come of an attempt.
#[derive(Debug, Clone)]
pub enum Want {
    /// Exactly this.
    Gives(Value),
    /// A text that the code returned, usually a caught error's, which contains one of these.
    Says(&'static [&'static str]),
    /// The call fails, and its error contains one of these.
    Fails(&'static [&'static str]),
}

impl Want {
    pub fn fits(&self, came: &Came) -> bool {
        let any = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
        match (self, came) {
            (Self::Gives(want), Came::Value(value)) => want == value,
            (Self::Says(parts), Came::Value(Value::String(text))) => any(text, parts),
            (Self::Fails(parts), Came::Error(text)) => any(text, parts),
            _ => false,
        }
    }
}

/// Code is the inside of `async (host, given, kit) => { … }`; see `house.rs` for what it is given.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub name: String,
    pub attack: String,
    pub want: Want,
    pub twin: String,
    /// What the twin gives.
    pub good: Value,
}

pub fn attempt(name: &str, attack: &str, want: Want, twin: &str, good: Value) -> Attempt {
    Attempt {
        name: name.into(),
        attack: attack.into(),
        want,
        twin: twin.into(),
        good,
    }
}

/// Runs each with its twin behind it, and says of all of them which went wrong.
pub fn try_all(house: &House, attempts: &[Attempt]) {
    let mut wrong = Vec::new();
    for one in attempts {
        let came = house.run(&one.attack);
        if !one.want.fits(&came) {
            wrong.push(format!("{}: wanted {:?}, got {came:?}", one.name, one.want));
        }
        if let Some(harm) = house.harm(&came) {
            wrong.push(format!("{}: {harm}; it gave {came:?}", one.name));
        }
        let twin = house.run(&one.twin);
        if twin != Came::Value(one.good.clone()) {
            wrong.push(format!("{}: its twin should give {}, not {twin:?}", one.name, one.good));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} attempts:\n{}",
        wrong.len(),
        attempts.len(),
        wrong.join("\n")
    );
    eprintln!("{} attempts", attempts.len());
}
