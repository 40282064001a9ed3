//! What the tests of the wire formats ask with.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use url::Url;

use super::{Asking, Choice, Item, Wire};
use crate::request::Quirk;
use crate::{Endpoint, GenerateRequest, Tool};

pub(super) struct Given {
    wire: &'static dyn Wire,
    request: GenerateRequest,
    pub(super) tools: Vec<Tool>,
    choice: Option<Choice>,
    pub(super) quirk: Quirk,
    model: &'static str,
}

impl Given {
    /// `request` needs no messages.
    pub(super) fn new(wire: &'static dyn Wire, model: &'static str, request: Value) -> Self {
        let mut whole = json!({"messages": []});
        for (name, value) in request.as_object().unwrap() {
            whole[name] = value.clone();
        }
        Self {
            wire,
            request: serde_json::from_value(whole).unwrap(),
            tools: Vec::new(),
            choice: None,
            quirk: Quirk::default(),
            model,
        }
    }

    pub(super) fn quirk(mut self, quirk: Quirk) -> Self {
        self.quirk = quirk;
        self
    }

    /// With a tool, and which one is to be called.
    pub(super) fn choosing(mut self, choice: Option<Choice>) -> Self {
        self.tools = vec![Tool::new("look", "looks", Value::Null).unwrap()];
        self.choice = choice;
        self
    }

    pub(super) fn body_of(&self, items: &[Item<'_>], system: Option<&str>) -> Map<String, Value> {
        let endpoint = Endpoint::new("c", "c", Url::parse("https://h").unwrap());
        self.wire.body(&Asking {
            request: &self.request,
            endpoint: &endpoint,
            model: self.model,
            system,
            items,
            tools: &self.tools,
            choice: self.choice,
            prompt: None,
            quirk: self.quirk,
        })
    }

    pub(super) fn body(&self) -> Map<String, Value> {
        self.body_of(&[user("hi")], None)
    }

    /// What the next try leaves out after this refusal.
    pub(super) fn refused(&self, items: &[Item<'_>], words: &str) -> Option<Quirk> {
        self.wire
            .relent(&words.to_lowercase(), &self.body_of(items, None), self.quirk)
    }
}

pub(super) fn user(text: &str) -> Item<'_> {
    Item::User {
        text,
        images: &[],
        system: false,
    }
}

/// JSON as a server gone wrong may send it: objects with these names (and some of them as texts), lists, numbers, nothing.
pub(crate) fn json_of(words: &[&'static str]) -> impl Strategy<Value = Value> + use<> {
    let words = words.to_vec();
    let name = proptest::sample::select(words.clone());
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0u64..3).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
        proptest::sample::select(words).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(name.clone(), inner, 0..6).prop_map(|fields| {
                Value::Object(
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}
