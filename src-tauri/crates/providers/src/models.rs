use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use net::Net;
use policy::CallContext;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Blame, error_in};
use crate::http_in::{Ask, Asked, is_web_page, read_body};
use crate::{Endpoint, Price, ProviderError, ProviderErrorKind};

/// How long a model list may take (contract section 8).
const PATIENCE: Duration = Duration::from_secs(15);
/// Largest list accepted, in bytes; the largest public one is about 2 MB.
const MAX_LIST: usize = 16 << 20;
/// Most objects in a list that is parsed. One takes some 700 bytes in memory, whatever its few bytes on the way; the
/// largest public list has about 5,000.
const MAX_OBJECTS: usize = 100_000;
/// Most models kept of one server. Every page that asks for models is sent all of them.
const MAX_MODELS: usize = 5_000;
/// Longest model id accepted, in bytes; also the longest that settings keep (contract section 6).
const MAX_ID: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// As the server wants it back.
    pub id: String,
    /// In tokens, if the server says.
    #[serde(default)]
    pub context_window: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ModelList {
    /// In the server's order, without repetitions.
    pub models: Vec<ModelInfo>,
    /// Entries without a usable id, and those beyond the 5,000 that are kept.
    pub skipped: usize,
    /// What the list says models cost, by their ids.
    #[serde(skip)]
    pub prices: Vec<(String, Price)>,
}

/// Asks a server for its models, with the key if there is one, within 15 seconds.
pub async fn list_models(ctx: &CallContext, net: &Net, endpoint: &Endpoint) -> Result<ModelList, ProviderError> {
    list(&ctx.clone().within(PATIENCE), net, endpoint, "models").await
}

pub(crate) async fn list(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    purpose: &'static str,
) -> Result<ModelList, ProviderError> {
    let blame = Blame {
        name: endpoint.name.clone(),
        model: None,
        key: endpoint.key.clone(),
    };
    let ask = Ask {
        ctx,
        net,
        endpoint,
        blame: &blame,
        purpose,
    };
    let mut headers = HeaderMap::new();
    headers.insert(http::header::ACCEPT, HeaderValue::from_static("application/json"));
    let (incoming, url) = match ask.send(Method::GET, "models", headers, Bytes::new()).await? {
        Asked::Answer(incoming, url) => (incoming, url),
        Asked::Refusal(refusal) => return Err(blame.status(&refusal)),
    };
    let headers = incoming.headers.clone();
    let body = read_body(incoming, &url, MAX_LIST)
        .await
        .map_err(|error| blame.network(error))?;
    if is_web_page(&headers, &body) {
        return Err(blame.web_page(&url));
    }
    if body.iter().filter(|byte| **byte == b'{').count() > MAX_OBJECTS {
        let what = format!("sent a list of models with more than {MAX_OBJECTS} entries (tried {url})");
        return Err(blame.error(ProviderErrorKind::NotTheApi, what));
    }
    let text = String::from_utf8_lossy(&body);
    let Ok(value) = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) else {
        return Err(blame.unreadable(&text, &url));
    };
    if error_in(&value).is_some() {
        return Err(blame.in_answer(&value, &url));
    }
    read_list(&value).ok_or_else(|| {
        let what = format!("answered without a list of models (tried {url}); check the address");
        blame.error(ProviderErrorKind::NotTheApi, what)
    })
}

/// `None` when there is no list at all.
fn read_list(value: &Value) -> Option<ModelList> {
    let inside = ["data", "models", "result"]
        .iter()
        .map(|name| value.get(*name))
        .find(|found| found.is_some())
        .flatten();
    let entries = match (value, inside) {
        (Value::Array(entries), _) | (_, Some(Value::Array(entries))) => entries.as_slice(),
        // Ollama without a single model says `"data": null`.
        (_, Some(Value::Null)) => &[],
        (_, Some(object)) => {
            return read_list(
                object
                    .get("data")
                    .or_else(|| object.get("models"))
                    .filter(|list| list.is_array())?,
            );
        }
        _ => return None,
    };
    let mut list = ModelList::default();
    let mut seen = HashSet::new();
    for entry in entries {
        match read_id(entry) {
            Some(id) if list.models.len() == MAX_MODELS && !seen.contains(&id) => list.skipped += 1,
            Some(id) if seen.insert(id.clone()) => {
                list.prices.extend(Price::listed(entry).map(|price| (id.clone(), price)));
                list.models.push(ModelInfo {
                    id,
                    context_window: read_window(entry),
                });
            }
            Some(_) => {}
            None => list.skipped += 1,
        }
    }
    Some(list)
}

fn read_id(entry: &Value) -> Option<String> {
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let usable = |id: &String| !id.is_empty() && id.len() <= MAX_ID && !id.chars().any(char::is_control);
    if let Value::String(_) = entry {
        return plain(entry).filter(usable);
    }
    ["id", "name", "model", "key"]
        .iter()
        .filter_map(|name| plain(entry.get(*name)?))
        .find(usable)
}

fn read_window(entry: &Value) -> Option<u64> {
    [
        "/context_length",
        "/context_window",
        "/max_model_len",
        "/max_context_length",
        "/context_size",
        "/n_ctx",
        "/meta/n_ctx",
        "/top_provider/context_length",
    ]
    .iter()
    .filter_map(|path| entry.pointer(path))
    .filter_map(|value| value.as_u64().or_else(|| value.as_f64().map(|n| n as u64)))
    .find(|tokens| (1..=100_000_000).contains(tokens))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ids(value: Value) -> (Vec<String>, usize) {
        let list = read_list(&value).unwrap();
        (list.models.into_iter().map(|model| model.id).collect(), list.skipped)
    }

    #[test]
    fn the_shapes_servers_send() {
        let want = (vec!["a".to_owned(), "b".to_owned()], 0);
        for value in [
            json!({"object": "list", "data": [{"id": "a", "object": "model"}, {"id": "b", "created": null}]}),
            json!([{"id": "a"}, {"id": "b"}]),
            json!(["a", "b"]),
            json!({"models": [{"name": "a"}, {"model": "b"}]}),
            json!({"data": {"data": [{"id": "a"}, {"id": "b"}]}}),
            json!({"data": [{"id": "a"}, {"id": "b"}, {"id": "a"}], "object": null}),
        ] {
            assert_eq!(ids(value.clone()), want, "{value}");
        }
        assert_eq!(ids(json!({"object": "list", "data": null})), (vec![], 0));
    }

    #[test]
    fn bad_entries_are_skipped_and_counted() {
        let value = json!({"data": [
            {"id": ""}, {"id": null}, {}, null, 5, [], {"id": {"x": 1}}, {"id": "a\u{1}"}, {"id": "x".repeat(201)}, {"id": 7}, {"id": "", "name": "good"},
        ]});
        assert_eq!(ids(value), (vec!["7".to_owned(), "good".to_owned()], 9));
    }

    #[test]
    fn a_list_without_end_is_cut() {
        let names: Vec<String> = (0..MAX_MODELS + 7).map(|n| format!("m{n}")).collect();
        let (ids, skipped) = ids(json!({ "data": names }));
        assert_eq!((ids.len(), skipped), (MAX_MODELS, 7));
    }

    #[test]
    fn no_list_is_no_empty_list() {
        for value in [
            json!({}),
            json!("x"),
            json!(5),
            json!(null),
            json!({"data": "x"}),
            json!({"data": {}}),
            json!({"status": "ok"}),
        ] {
            assert_eq!(read_list(&value), None, "{value}");
        }
    }

    #[test]
    fn context_windows_where_they_are_given() {
        let value = json!([
            {"id": "a", "context_length": 8192}, {"id": "b", "max_model_len": 4096.0}, {"id": "c", "context_length": -1}, {"id": "d", "context_length": "x"},
        ]);
        let windows: Vec<_> = read_list(&value)
            .unwrap()
            .models
            .iter()
            .map(|model| model.context_window)
            .collect();
        assert_eq!(windows, [Some(8192), Some(4096), None, None]);
    }
}
