use serde_json::{Map, Value};

use super::{Asking, Reader, Wire};

pub(crate) struct Ollama;

impl Wire for Ollama {
    fn page(&self, _model: &str) -> String {
        "api/chat".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        super::completions::Completions.body(asking)
    }

    fn reader(&self) -> Box<dyn Reader> {
        super::completions::Completions.reader()
    }
}
