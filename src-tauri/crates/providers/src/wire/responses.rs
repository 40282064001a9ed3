use serde_json::{Map, Value};

use super::{Asking, Reader, Wire};

pub(crate) struct Responses;

impl Wire for Responses {
    fn page(&self, _model: &str) -> String {
        "responses".into()
    }

    fn body(&self, asking: &Asking<'_>) -> Map<String, Value> {
        super::completions::Completions.body(asking)
    }

    fn reader(&self) -> Box<dyn Reader> {
        super::completions::Completions.reader()
    }
}
