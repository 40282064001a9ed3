//! What the tests of the wire formats ask with.

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
