use serde_json::{Map, Value};

use super::{Asking, Reader, Wire};

pub(crate) struct Gemini;

impl Wire for Gemini {
    fn page(&self, _model: &str) -> String {
        format!("models/{_model}:streamGenerateContent?alt=sse")
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        super::completions::Completions.body(asking)
    }

    fn reader(&self) -> Box<dyn Reader> {
        super::completions::Completions.reader()
    }
}
