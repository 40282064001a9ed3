//! Tools a model may call while it answers, and who runs them.

use async_trait::async_trait;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::error::cut;

/// Most tools one request may define (contract section 3.4).
pub const MAX_TOOLS: usize = 16;
/// Longest description of a tool, in characters (contract section 3.4).
const MAX_DESCRIPTION: usize = 2048;
/// Longest name of a tool, in characters; also what the model servers accept.
const MAX_NAME: usize = 64;
/// The tool by which a model hands in structured output. No other tool may have its name.
pub(crate) const STRUCTURED: &str = "__structured_output";

/// A tool as a model is told of it. Made by [`Tool::parse`] or [`Tool::new`], which check it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tool {
    name: String,
    description: String,
    parameters: Value,
}

impl Tool {
    /// `name` is `[a-zA-Z0-9_-]{1,64}`, `description` at most 2048 characters, `parameters` a JSON schema of an object
    /// (null means none). The error names the tool and says what is wrong with it.
    pub fn new(name: &str, description: &str, parameters: Value) -> Result<Self, String> {
        if !is_name(name) {
            return Err(format!(
                "tool \"{}\": a tool's name has 1 to {MAX_NAME} of the characters a-z, A-Z, 0-9, _ and -",
                shown(name)
            ));
        }
        if name == STRUCTURED {
            return Err(format!(
                "tool \"{name}\": this name is taken by the engine; choose another"
            ));
        }
        if description.chars().count() > MAX_DESCRIPTION {
            return Err(format!(
                "tool \"{name}\": its description has more than {MAX_DESCRIPTION} characters"
            ));
        }
        let parameters = match parameters {
            Value::Null => json!({"type": "object", "properties": {}}),
            Value::Object(map) => Value::Object(complete(map)),
            _ => {
                return Err(format!(
                    "tool \"{name}\": its parameters must be a JSON schema, an object"
                ));
            }
        };
        Ok(Self {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
        })
    }

    /// Reads `{name, description, parameters}`, also inside `{type: "function", function: {…}}`. `at` is its place in
    /// the list, from 0, for errors about tools without a name.
    pub fn parse(value: &Value, at: usize) -> Result<Self, String> {
        let inner = value.get("function").filter(|inner| inner.is_object()).unwrap_or(value);
        let Some(name) = inner.get("name").and_then(Value::as_str) else {
            return Err(format!(
                "tool {}: it has no name; a tool is {{name, description, parameters}}",
                at + 1
            ));
        };
        let description = match inner.get("description") {
            None | Some(Value::Null) => "",
            Some(Value::String(text)) => text,
            Some(_) => return Err(format!("tool \"{}\": its description must be a text", shown(name))),
        };
        Self::new(
            name,
            description,
            inner.get("parameters").cloned().unwrap_or(Value::Null),
        )
    }

    /// Reads at most 16 tools with different names.
    pub fn parse_list(values: &[Value]) -> Result<Vec<Self>, String> {
        if values.len() > MAX_TOOLS {
            return Err(format!(
                "a request may define at most {MAX_TOOLS} tools; this one has {}",
                values.len()
            ));
        }
        let mut tools: Vec<Self> = Vec::with_capacity(values.len());
        for (at, value) in values.iter().enumerate() {
            let tool = Self::parse(value, at)?;
            if tools.iter().any(|other| other.name == tool.name) {
                return Err(format!("tool \"{}\": there are two tools of this name", tool.name));
            }
            tools.push(tool);
        }
        Ok(tools)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    /// Always an object.
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }

    /// As a chat-completions request has it.
    pub(crate) fn wire(&self) -> Value {
        json!({"type": "function", "function": {
            "name": self.name, "description": self.description, "parameters": self.parameters,
        }})
    }

    /// The hidden one by which structured output is handed in.
    pub(crate) fn structured(parameters: &Value) -> Self {
        Self {
            name: STRUCTURED.to_owned(),
            description: "Hands in the answer. Call this once, with the whole answer.".to_owned(),
            parameters: parameters.clone(),
        }
    }
}

/// Servers refuse an object schema without `type` or `properties`; guests leave them out.
fn complete(mut schema: Map<String, Value>) -> Map<String, Value> {
    let combined = ["$ref", "anyOf", "oneOf", "allOf"]
        .iter()
        .any(|key| schema.contains_key(*key));
    if !combined {
        schema.entry("type").or_insert_with(|| "object".into());
        if schema.get("type").is_some_and(|kind| kind == "object") {
            schema.entry("properties").or_insert_with(|| json!({}));
        }
    }
    schema
}

pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// A foreign name, fit to be shown in an error.
pub(crate) fn shown(name: &str) -> String {
    cut(name, 80)
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// What a tool said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolAnswer {
    /// For the model to read. At most 256 KiB of it are sent on.
    pub text: String,
    pub is_error: bool,
}

impl ToolAnswer {
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: true,
        }
    }
}

/// The tools of one conversation with a model, and who runs them.
#[async_trait]
pub trait ToolBox: Send + Sync {
    /// Asked once, before the first round. Two tools of one name: the first one counts.
    fn tools(&self) -> Vec<Tool>;

    /// Runs a tool of [`ToolBox::tools`] with the arguments as the model gave them: always a JSON object, not checked
    /// against the schema. Dropped midway when the person stops the answer. Has to end by itself.
    async fn run(&self, name: &str, args: Value) -> ToolAnswer;

    /// Asked before each call to the model, `round` counting from 0: whether there is budget left for it. The error
    /// ends the answer, and is shown after the connection's name.
    fn before_round(&self, _round: u32) -> Result<(), String> {
        Ok(())
    }
}

/// For a conversation without tools.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTools;

#[async_trait]
impl ToolBox for NoTools {
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    async fn run(&self, name: &str, _: Value) -> ToolAnswer {
        ToolAnswer::error(format!("There is no tool \"{name}\"."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_tools_in_both_forms() {
        let plain = json!({"name": "look_up-1", "description": "d", "parameters": {"properties": {"a": {}}}});
        let tools = Tool::parse_list(&[plain, json!({"type": "function", "function": {"name": "b"}})]).unwrap();
        assert_eq!(
            tools[0].wire(),
            json!({"type": "function", "function": {
                "name": "look_up-1", "description": "d", "parameters": {"type": "object", "properties": {"a": {}}},
            }})
        );
        assert_eq!(*tools[1].parameters(), json!({"type": "object", "properties": {}}));
    }

    #[test]
    fn an_error_names_the_tool() {
        for (bad, said) in [
            (json!([{"name": "a"}, {"name": "b c"}]), "tool \"b c\""),
            (json!([{"name": ""}]), "tool \"\""),
            (json!([{"name": "x".repeat(65)}]), "1 to 64"),
            (json!([{"name": "é"}]), "tool \"é\""),
            (json!([{"name": "a"}, 5]), "tool 2"),
            (json!([{"name": "a", "description": "x".repeat(2049)}]), "2048"),
            (json!([{"name": "a", "description": 5}]), "must be a text"),
            (json!([{"name": "a", "parameters": "x"}]), "JSON schema"),
            (json!([{"name": "a"}, {"name": "a"}]), "two tools"),
            (json!([{"name": "__structured_output"}]), "taken"),
            (
                Value::Array((0..17).map(|n| json!({"name": format!("t{n}")})).collect()),
                "at most 16",
            ),
        ] {
            let error = Tool::parse_list(bad.as_array().unwrap()).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(Tool::new(&"x".repeat(64), &"é".repeat(2048), Value::Null).is_ok());
    }
}
