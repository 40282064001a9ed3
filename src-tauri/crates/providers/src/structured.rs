//! Answers that follow a JSON schema (contract section 4.1, `schema`): handed in as the arguments of a hidden tool.

use serde_json::{Map, Value, json};

/// What the hidden tool takes, and how the answer is taken out of it again.
pub(crate) struct Structured {
    pub(crate) parameters: Value,
    wrapped: bool,
}

impl Structured {
    /// Tools take objects only, so any other schema is put under `value`.
    pub(crate) fn new(schema: &Value) -> Self {
        match is_object_schema(schema) {
            true => Self {
                parameters: complete(schema),
                wrapped: false,
            },
            false => Self {
                parameters: wrap(schema),
                wrapped: true,
            },
        }
    }

    pub(crate) fn unwrap(&self, json: Value) -> Value {
        match json {
            Value::Object(mut map) if self.wrapped && map.len() == 1 && map.contains_key("value") => {
                map.remove("value").unwrap_or_default()
            }
            other => other,
        }
    }

    /// For servers that call no tools: an answer that is JSON, also in a code fence.
    pub(crate) fn read_text(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        let text = match text.strip_prefix("```") {
            Some(fenced) => {
                let inside = fenced.strip_prefix("json").unwrap_or(fenced);
                inside.trim_end().strip_suffix("```").unwrap_or(inside).trim()
            }
            None => text,
        };
        if !text.starts_with(['{', '[']) {
            return None;
        }
        // Text after the JSON is left aside.
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        values.next()?.ok().map(|json| self.unwrap(json))
    }
}

fn is_object_schema(schema: &Value) -> bool {
    match schema.get("type") {
        Some(kind) => kind == "object",
        None => schema.get("properties").is_some(),
    }
}

fn complete(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if schema.get("type").is_none() {
        schema["type"] = "object".into();
    }
    if schema.get("properties").is_none() {
        schema["properties"] = json!({});
    }
    schema
}

/// Definitions stay at the top, where references look for them.
fn wrap(schema: &Value) -> Value {
    let mut inner = schema.clone();
    let mut outer = Map::new();
    if let Value::Object(map) = &mut inner {
        for name in ["$schema", "$defs", "definitions"] {
            outer.extend(map.remove(name).map(|value| (name.to_owned(), value)));
        }
    }
    outer.insert("type".into(), "object".into());
    outer.insert("properties".into(), json!({ "value": inner }));
    outer.insert("required".into(), json!(["value"]));
    Value::Object(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_that_are_no_objects_are_wrapped() {
        let list = Structured::new(&json!({"type": "array", "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}}));
        assert_eq!(
            list.parameters,
            json!({
                "type": "object", "required": ["value"], "$defs": {"a": {}},
                "properties": {"value": {"type": "array", "items": {"$ref": "#/$defs/a"}}},
            })
        );
        assert_eq!(list.unwrap(json!({"value": [1]})), json!([1]));
        assert_eq!(
            list.unwrap(json!({"value": 1, "more": 2})),
            json!({"value": 1, "more": 2})
        );
        assert_eq!(list.read_text("[1, 2]"), Some(json!([1, 2])));
        let object = Structured::new(&json!({"properties": {"value": {}}}));
        assert_eq!(
            object.parameters,
            json!({"type": "object", "properties": {"value": {}}})
        );
        assert_eq!(object.unwrap(json!({"value": 1})), json!({"value": 1}));
        for odd in [
            json!(true),
            json!(5),
            json!({"anyOf": []}),
            json!({"type": ["object", "null"]}),
        ] {
            assert!(Structured::new(&odd).parameters["properties"]["value"] == odd);
        }
    }

    #[test]
    fn json_in_text() {
        let object = Structured::new(&json!({"type": "object"}));
        let good = Some(json!({"a": 1}));
        for text in [
            " {\"a\": 1}\n",
            "```json\n{\"a\": 1}\n```",
            "```\n{\"a\": 1}",
            "{\"a\": 1} is it.",
        ] {
            assert_eq!(object.read_text(text), good, "{text}");
        }
        for text in ["", "5", "Here: {}", "{\"a\": ", "{a: 1}", "```"] {
            assert_eq!(object.read_text(text), None, "{text}");
        }
    }
}
