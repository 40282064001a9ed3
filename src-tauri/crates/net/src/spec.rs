//! Requests as plugins write them, and answers as plugins read them: section 3.4 of the reference engine's contract,
//! with secrets by name and binary bodies added.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use secrets::KeyHandle;
use serde_json::{Map, Value, json};

use crate::{Fetch, FetchResult, HeaderOut, NetError, Reach, Spend};

/// What plugins may ask for, and what they get without asking: `timeoutMs` and `maxBytes`, both brought into range.
const TIMEOUT_MS: (f64, f64, f64) = (500.0, 60_000.0, 15_000.0);
const MAX_BYTES: (f64, f64, f64) = (1024.0, (20 << 20) as f64, (5 << 20) as f64);

/// A plugin's request, read but not yet allowed anything.
///
/// Fields of the JSON object: `url`; `method` (GET); `headers`, each a text, a number or
/// `{secret: "name", prefix?: "Bearer "}`; one of `body` (text, or a value that is sent as JSON), `form` (an object that
/// is sent urlencoded, or such a text) and `bodyBase64` (bytes); `timeoutMs` 500 to 60,000 (15,000); `maxBytes` 1024 to
/// 20 MiB (5 MiB); `json`; `binary`. `followRedirects` is accepted and changes nothing. Others are ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSpec {
    pub url: String,
    pub method: String,
    pub headers: Vec<(String, SpecHeader)>,
    pub body: Bytes,
    pub timeout: Duration,
    pub max_bytes: u64,
    /// Whether the answer is to be read as JSON; as its type says where the plugin does not say.
    pub json: Option<bool>,
    /// Whether the answer is wanted as base64.
    pub binary: bool,
}

/// A header's value as a plugin writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpecHeader {
    Text(String),
    /// The name of one of the plugin's secrets, and what goes before it.
    Secret {
        name: String,
        prefix: String,
    },
}

impl FetchSpec {
    /// Errors name the field and what it may hold.
    pub fn parse(spec: &Value) -> Result<Self, String> {
        let spec = match spec {
            Value::Object(spec) => spec,
            Value::String(url) => &Map::from_iter([("url".to_owned(), json!(url))]),
            _ => return Err("a request is an object with at least a url".into()),
        };
        let field = |name: &str| spec.get(name).filter(|value| !value.is_null());
        let url = match field("url") {
            Some(Value::String(url)) => url.trim().to_owned(),
            _ => return Err("url must be a text beginning with http:// or https://".into()),
        };
        let method = match field("method") {
            None => "GET".into(),
            Some(Value::String(method)) => method.to_ascii_uppercase(),
            Some(_) => return Err("method must be a text such as \"POST\"".into()),
        };
        let mut headers = Vec::new();
        match field("headers") {
            None => {}
            Some(Value::Object(list)) => {
                for (name, value) in list {
                    if let Some(value) = header(name, value)? {
                        headers.push((name.clone(), value));
                    }
                }
            }
            Some(_) => return Err("headers must be an object of names and values".into()),
        }
        let (body, kind) = body(field("body"), field("form"), field("bodyBase64"))?;
        if let Some(kind) = kind
            && !headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("content-type".into(), SpecHeader::Text(kind.into())));
        }
        Ok(Self {
            url,
            method,
            headers,
            body,
            timeout: Duration::from_millis(number("timeoutMs", field("timeoutMs"), TIMEOUT_MS)?),
            max_bytes: number("maxBytes", field("maxBytes"), MAX_BYTES)?,
            json: flag("json", field("json"))?,
            binary: flag("binary", field("binary"))?.unwrap_or(false),
        })
    }

    /// The request to send. `secret` finds a secret of this plugin by its name; where there is none, the error says so.
    pub fn fetch(
        &self,
        reach: Reach,
        purpose: &'static str,
        spend: Spend,
        secret: impl Fn(&str) -> Option<KeyHandle>,
    ) -> Result<Fetch, String> {
        let headers = self.headers.iter().map(|(name, value)| {
            let value = match value {
                SpecHeader::Text(text) => HeaderOut::Text(text.clone()),
                SpecHeader::Secret { name: which, prefix } => HeaderOut::Secret {
                    handle: secret(which).ok_or_else(|| {
                        format!(
                            "the header \"{name}\" needs the secret \"{which}\", which this plugin does not have; \
                             enter it in the app's Plugins dialog"
                        )
                    })?,
                    prefix: prefix.clone(),
                },
            };
            Ok((name.clone(), value))
        });
        Ok(Fetch {
            method: self.method.clone(),
            headers: headers.collect::<Result<_, String>>()?,
            body: self.body.clone(),
            timeout: self.timeout,
            max_bytes: self.max_bytes,
            ..Fetch::get(self.url.clone(), reach, purpose, spend)
        })
    }

    /// What the plugin reads: `{ok, status, statusText, headers, url, contentType?, json | text | base64}`, or
    /// `{ok: false, error}`. An answer that was to be JSON and is not comes as text: with `ok: false` and `error` where
    /// the plugin asked for JSON, and as it is where only its type said so.
    pub fn result(&self, result: Result<FetchResult, NetError>) -> Value {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => return failure(&error.to_string()),
        };
        let mut shown = head(answer.status, &answer.status_text, &answer.headers, &answer.url);
        let kind = shown.get("contentType").and_then(Value::as_str);
        let as_json = self.json.unwrap_or_else(|| kind.is_some_and(is_json));
        if self.binary {
            shown.insert("base64".into(), BASE64.encode(&answer.body).into());
            return shown.into();
        }
        if let Some(packing) = packing(&answer.headers) {
            let error = format!(
                "the answer is packed ({packing}), although this was not asked for; ask with binary: true to get its bytes"
            );
            shown.insert("ok".into(), false.into());
            shown.insert("error".into(), error.into());
            return shown.into();
        }
        let bytes = answer.body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&answer.body);
        if as_json {
            match serde_json::from_slice::<Value>(bytes) {
                Ok(value) => {
                    shown.insert("json".into(), value);
                    return shown.into();
                }
                Err(_) if bytes.is_empty() => {
                    shown.insert("json".into(), Value::Null);
                    return shown.into();
                }
                Err(error) if self.json == Some(true) => {
                    shown.insert("ok".into(), false.into());
                    shown.insert("error".into(), format!("the answer is not JSON: {error}").into());
                }
                Err(_) => {}
            }
        }
        shown.insert("text".into(), String::from_utf8_lossy(bytes).into());
        shown.into()
    }
}

/// `{ok: false, error}`.
pub fn failure(error: &str) -> Value {
    json!({ "ok": false, "error": error })
}

/// What a plugin reads of an answer before its body: `{ok, status, statusText, headers, url, contentType?}`. Several
/// `set-cookie` are joined like other headers here.
pub fn head(status: u16, status_text: &str, headers: &[(String, String)], url: &str) -> Map<String, Value> {
    let mut list = Map::new();
    for (name, value) in headers {
        match list.get_mut(name) {
            Some(Value::String(known)) => {
                known.push_str(", ");
                known.push_str(value);
            }
            _ => {
                list.insert(name.clone(), value.clone().into());
            }
        }
    }
    let mut head = Map::new();
    head.insert("ok".into(), (200..300).contains(&status).into());
    head.insert("status".into(), status.into());
    head.insert("statusText".into(), status_text.into());
    head.insert("url".into(), url.into());
    if let Some(kind) = list.get("content-type") {
        head.insert("contentType".into(), kind.clone());
    }
    head.insert("headers".into(), list.into());
    head
}

fn is_json(kind: &str) -> bool {
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

fn packing(headers: &[(String, String)]) -> Option<&str> {
    let (_, value) = headers.iter().find(|(name, _)| name == "content-encoding")?;
    let value = value.trim();
    (!value.is_empty() && !value.eq_ignore_ascii_case("identity")).then_some(value)
}

/// A single value as text; `None` for what is none.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        _ => None,
    }
}

/// `None` for a header that is `null`: left out, as JSON leaves out what is undefined.
fn header(name: &str, value: &Value) -> Result<Option<SpecHeader>, String> {
    if value.is_null() {
        return Ok(None);
    }
    if let Some(text) = scalar(value) {
        return Ok(Some(SpecHeader::Text(text)));
    }
    let wrong = || format!("the header \"{name}\" must be a text or {{secret: \"name\", prefix?: \"Bearer \"}}");
    let secret = value.get("secret").and_then(Value::as_str).ok_or_else(wrong)?;
    let prefix = match value.get("prefix") {
        None | Some(Value::Null) => "",
        Some(Value::String(prefix)) => prefix,
        Some(_) => return Err(wrong()),
    };
    Ok(Some(SpecHeader::Secret {
        name: secret.to_owned(),
        prefix: prefix.to_owned(),
    }))
}

/// The bytes to send and the type they have when the plugin names none.
fn body(
    body: Option<&Value>,
    form: Option<&Value>,
    base64: Option<&Value>,
) -> Result<(Bytes, Option<&'static str>), String> {
    const FORM: &str = "application/x-www-form-urlencoded;charset=UTF-8";
    match (body, form, base64) {
        (None, None, None) => Ok((Bytes::new(), None)),
        (Some(Value::String(text)), None, None) => Ok((text.clone().into(), Some("text/plain;charset=UTF-8"))),
        (Some(value), None, None) => Ok((value.to_string().into(), Some("application/json"))),
        (None, Some(Value::String(text)), None) => Ok((text.clone().into(), Some(FORM))),
        (None, Some(Value::Object(fields)), None) => {
            let mut text = url::form_urlencoded::Serializer::new(String::new());
            for (name, value) in fields {
                let values = match value {
                    Value::Null => &[][..],
                    Value::Array(values) => values,
                    value => std::slice::from_ref(value),
                };
                for value in values {
                    let value = scalar(value).ok_or_else(|| {
                        format!("the form's field \"{name}\" must be a text, a number, true, false, or a list of these")
                    })?;
                    text.append_pair(name, &value);
                }
            }
            Ok((text.finish().into(), Some(FORM)))
        }
        (None, Some(_), None) => Err("form must be an object of fields, or a text that is already encoded".into()),
        (None, None, Some(Value::String(text))) => match BASE64.decode(text) {
            Ok(bytes) => Ok((bytes.into(), Some("application/octet-stream"))),
            Err(error) => Err(format!("bodyBase64 is not base64: {error}")),
        },
        (None, None, Some(_)) => Err("bodyBase64 must be a text".into()),
        _ => Err("give only one of body, form and bodyBase64".into()),
    }
}

fn number(name: &str, value: Option<&Value>, (least, most, usual): (f64, f64, f64)) -> Result<u64, String> {
    match value {
        None => Ok(usual as u64),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(number.clamp(least, most) as u64),
            None => Err(format!("{name} must be a number from {least} to {most}")),
        },
    }
}

fn flag(name: &str, value: Option<&Value>) -> Result<Option<bool>, String> {
    match value {
        None => Ok(None),
        Some(Value::Bool(yes)) => Ok(Some(*yes)),
        Some(_) => Err(format!("{name} must be true or false")),
    }
}
