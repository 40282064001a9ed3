//! What a route call carries, and how its answer is read (contract section 3.2).

use bytes::Bytes;
use serde_json::{Map, Value};

/// A request to an app's plugins.
#[derive(Debug, Clone)]
pub struct RouteRequest {
    pub method: String,
    /// Decoded, relative to the app, with a leading slash.
    pub path: String,
    pub query: Map<String, Value>,
    /// JSON, or a string where the body was not JSON.
    pub body: Value,
}

/// What a plugin answered.
#[derive(Debug, PartialEq, Eq)]
pub struct RouteAnswer {
    pub status: u16,
    pub content_type: String,
    pub body: Bytes,
}

/// Reads `{status=200, json | text, contentType?}`; none of them means "not mine".
pub(crate) fn answer(value: Value) -> Result<Option<RouteAnswer>, String> {
    let Value::Object(mut fields) = value else {
        return Ok(None);
    };
    if !["status", "json", "text"].iter().any(|name| fields.contains_key(*name)) {
        return Ok(None);
    }
    let status = match fields.get("status") {
        None | Some(Value::Null) => 200,
        Some(given) => given
            .as_u64()
            .filter(|s| (200..600).contains(s))
            .ok_or_else(|| format!("handleRoute answered status {given}: use a whole number from 200 to 599"))?
            as u16,
    };
    let given_type = fields.get("contentType").and_then(Value::as_str).map(str::to_owned);
    let (default, body) = if let Some(json) = fields.remove("json") {
        ("application/json", Bytes::from(json.to_string()))
    } else {
        let body = match fields.remove("text") {
            Some(Value::String(text)) => text,
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        ("text/plain; charset=utf-8", Bytes::from(body))
    };
    Ok(Some(RouteAnswer {
        status,
        content_type: given_type.unwrap_or_else(|| default.into()),
        body,
    }))
}
