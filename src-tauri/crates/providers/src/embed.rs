use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use net::Net;
use policy::CallContext;
use serde_json::{Value, json};

use crate::answer::cut_chars;
use crate::error::{Blame, error_in};
use crate::http_in::{Ask, Asked, is_web_page, read_body};
use crate::media::openai_side;
use crate::{Endpoint, ProviderError, ProviderErrorKind};

/// Most texts in one request; what the largest public server takes.
pub const MAX_TEXTS: usize = 2048;
/// The model when none is named (contract section 4.4).
pub const EMBEDDING_MODEL: &str = "text-embedding-3-small";
/// How much of each text is sent, in characters, and how long it may take (contract section 4.4).
const MAX_TEXT: usize = 8000;
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest answer accepted, in bytes: 2048 texts of 4096 numbers of some 14 characters.
const MAX_ANSWER: usize = 128 << 20;
/// Most numbers for one text. The largest public model gives 4096.
const MAX_NUMBERS: usize = 65_536;

/// The meaning of each text as numbers, in the order of the texts, all of one length. `model` is a bare id, or has the
/// connection in front. At most 2048 texts, of which the first 8000 characters are sent; within 20 seconds.
pub async fn embed(
    ctx: &CallContext,
    net: &Net,
    endpoint: &Endpoint,
    model: Option<&str>,
    texts: &[String],
) -> Result<Vec<Vec<f64>>, ProviderError> {
    let model = model.map(str::trim).filter(|model| !model.is_empty());
    let model = model.map_or(EMBEDDING_MODEL, |model| endpoint.bare(model));
    let blame = Blame {
        name: endpoint.name.clone(),
        model: Some(model.to_owned()),
        key: endpoint.key.clone(),
    };
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    if texts.len() > MAX_TEXTS {
        let what = format!("cannot take {} texts at once; send at most {MAX_TEXTS}", texts.len());
        return Err(blame.error(ProviderErrorKind::Unusable, what));
    }
    let ctx = ctx.clone().within(PATIENCE);
    let side = openai_side(endpoint);
    let ask = Ask {
        ctx: &ctx,
        net,
        endpoint: &side,
        blame: &blame,
        purpose: "embeddings",
    };
    let input: Vec<&str> = texts.iter().map(|text| cut_chars(text, MAX_TEXT)).collect();
    let body = Bytes::from(json!({"model": model, "input": input}).to_string());
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if endpoint.key.is_none() {
        // As in `chat`: some local servers insist on any key at all.
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer no-key"));
    }
    let (incoming, url) = match ask.send(Method::POST, "embeddings", headers, body).await? {
        Asked::Answer(incoming, url) => (incoming, url),
        Asked::Refusal(refusal) => return Err(blame.status(&refusal)),
    };
    let headers = incoming.headers.clone();
    let body = read_body(incoming, &url, MAX_ANSWER)
        .await
        .map_err(|error| blame.network(error))?;
    if is_web_page(&headers, &body) {
        return Err(blame.web_page(&url));
    }
    let text = String::from_utf8_lossy(&body);
    let Ok(value) = serde_json::from_str::<Value>(text.trim_start_matches('\u{feff}')) else {
        return Err(blame.unreadable(&text, &url));
    };
    if error_in(&value).is_some() {
        return Err(blame.in_answer(&value, &url));
    }
    read(&value, texts.len()).map_err(|what| {
        blame.error(
            ProviderErrorKind::NotTheApi,
            format!("answered {what} (tried {url}) — check that this model makes embeddings"),
        )
    })
}

/// One list for each of `count` texts.
fn read(value: &Value, count: usize) -> Result<Vec<Vec<f64>>, String> {
    let Some(entries) = value.get("data").and_then(Value::as_array) else {
        return Err("without a list of embeddings".into());
    };
    if entries.len() != count {
        return Err(format!("with {} embeddings for {count} texts", entries.len()));
    }
    let mut found: Vec<Option<Vec<f64>>> = vec![None; count];
    for (at, entry) in entries.iter().enumerate() {
        let index = match entry.get("index") {
            None | Some(Value::Null) => Some(at),
            Some(index) => index.as_u64().and_then(|index| usize::try_from(index).ok()),
        };
        let Some(place) = index.and_then(|index| found.get_mut(index)) else {
            return Err("with an embedding of a text that was not sent".into());
        };
        if place.is_some() {
            return Err("with two embeddings of one text".into());
        }
        *place = Some(numbers(entry.get("embedding").unwrap_or(&Value::Null))?);
    }
    let all: Vec<Vec<f64>> = found.into_iter().flatten().collect();
    match all.iter().any(|numbers| numbers.len() != all[0].len()) {
        true => Err("with embeddings of different lengths".into()),
        false => Ok(all),
    }
}

/// A list of numbers, or base64 of 32-bit floats, least significant byte first.
fn numbers(value: &Value) -> Result<Vec<f64>, String> {
    let wrong = || "with an embedding that is not a list of numbers".to_owned();
    let list: Vec<f64> = match value {
        Value::Array(list) if list.len() <= MAX_NUMBERS => list
            .iter()
            .map(Value::as_f64)
            .collect::<Option<_>>()
            .ok_or_else(wrong)?,
        Value::String(text) if text.len() <= MAX_NUMBERS * 6 => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(text.trim())
                .map_err(|_| wrong())?;
            let (quads, rest) = bytes.as_chunks::<4>();
            if !rest.is_empty() {
                return Err(wrong());
            }
            quads.iter().map(|quad| f64::from(f32::from_le_bytes(*quad))).collect()
        }
        _ => return Err(wrong()),
    };
    match list.is_empty() || list.iter().any(|number| !number.is_finite()) {
        true => Err(wrong()),
        false => Ok(list),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_send() {
        let out_of_order = json!({"data": [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1, 2]}]});
        assert_eq!(read(&out_of_order, 2), Ok(vec![vec![1.0, 2.0], vec![3.0, 4.5]]));
        // 1.0 and -2.0 as 32-bit floats.
        let packed = json!({"data": [{"embedding": "AACAPwAAAMA="}]});
        assert_eq!(read(&packed, 1), Ok(vec![vec![1.0, -2.0]]));
    }

    #[test]
    fn what_is_no_embedding() {
        let good = json!({"index": 0, "embedding": [1]});
        for (bad, count) in [
            (json!({}), 1),
            (json!({"data": []}), 1),
            (json!({"data": [good, good]}), 1),
            (json!({"data": [good, good]}), 2),
            (json!({"data": [{"index": 1, "embedding": [1]}]}), 1),
            (json!({"data": [{"index": -1, "embedding": [1]}]}), 1),
            (json!({"data": [{"embedding": []}]}), 1),
            (json!({"data": [{"embedding": [1, "x"]}]}), 1),
            (json!({"data": [{"embedding": [null]}]}), 1),
            (json!({"data": [{"embedding": "AACAPw=="}, {"embedding": [1, 2]}]}), 2),
            // Not a number, as a 32-bit float.
            (json!({"data": [{"embedding": "AADAfw=="}]}), 1),
            (json!({"data": [{"embedding": "AACA"}]}), 1),
            (json!({"data": [{"embedding": "*"}]}), 1),
            (json!({"data": [5]}), 1),
        ] {
            assert!(read(&bad, count).is_err(), "{bad}");
        }
    }
}
