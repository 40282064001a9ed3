use serde_json::{Map, Value};

use super::{Asking, Reader, Wire};

pub(crate) struct Anthropic;

impl Wire for Anthropic {
    fn page(&self, _model: &str) -> String {
        "messages".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        super::completions::Completions.body(asking)
    }

    fn reader(&self) -> Box<dyn Reader> {
        super::completions::Completions.reader()
    }
}
