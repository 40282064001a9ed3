//! The messages between a page and its host, as JSON. Nothing in them says who the page is: that comes from the
//! webview they arrived through.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderName, HeaderValue, Method, Request};
use serde::{Deserialize, Serialize};

/// Longest message a page may send, in bytes of its text.
pub const MAX_MESSAGE: usize = 256 * 1024;
/// Longest request body, in bytes, over all its pieces.
pub const MAX_BODY: usize = 32 * 1024 * 1024;
/// Longest address a page may ask for or want opened, in bytes.
pub const MAX_URL: usize = 8 * 1024;

/// Request headers that travel from a page; everything else a page sets is left behind.
const HEADERS: [&str; 6] = [
    "content-type",
    "accept",
    "accept-language",
    "range",
    "cache-control",
    "if-none-match",
];

/// A message with the secret of the page load it comes from.
#[derive(Debug, Deserialize)]
pub struct Envelope {
    pub s: String,
    #[serde(flatten)]
    pub message: FromPage,
}

/// Page to host.
#[derive(Debug, Deserialize)]
#[serde(tag = "t", rename_all = "kebab-case")]
pub enum FromPage {
    Hello,
    Fetch(Fetch),
    /// A further piece of a request body.
    Body {
        id: u64,
        data: String,
        #[serde(default)]
        last: bool,
    },
    Abort {
        id: u64,
    },
    /// The page consumed `n` bytes of an answer's body.
    Ack {
        id: u64,
        n: u64,
    },
    /// The page's script took every batch up to number `n`.
    Seen {
        n: u64,
    },
    Ws {
        id: u64,
        url: String,
    },
    WsClose {
        id: u64,
    },
    Storage(StorageWrite),
    Download {
        id: u64,
        name: String,
        #[serde(default)]
        size: u64,
    },
    /// A piece of a download.
    Data {
        id: u64,
        data: String,
        #[serde(default)]
        last: bool,
    },
    Link {
        url: String,
    },
}

/// The start of a request.
#[derive(Debug, Deserialize)]
pub struct Fetch {
    pub id: u64,
    pub method: String,
    pub url: String,
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    #[serde(default)]
    pub body: Option<String>,
    /// `body` is Base64.
    #[serde(default)]
    pub b64: bool,
    /// Pieces of the body follow.
    #[serde(default)]
    pub more: bool,
}

/// One write to the page's `localStorage` or `sessionStorage`.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct StorageWrite {
    pub which: StorageArea,
    pub op: StorageOp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageArea {
    Local,
    Session,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageOp {
    Set,
    Remove,
    Clear,
}

/// Host to page.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "t", rename_all = "kebab-case")]
pub enum ToPage {
    Head {
        id: u64,
        status: u16,
        #[serde(rename = "statusText")]
        status_text: &'static str,
        headers: Vec<(String, String)>,
    },
    Chunk {
        id: u64,
        #[serde(flatten)]
        data: Data,
    },
    End {
        id: u64,
    },
    Error {
        id: u64,
        message: String,
    },
    Ws {
        id: u64,
        event: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    StorageError {
        #[serde(flatten)]
        write: StorageWriteName,
        message: String,
    },
    DownloadDone {
        id: u64,
        message: String,
    },
    DownloadRefused {
        id: u64,
        message: String,
    },
}

/// A piece of a body: as text where it is text, since that is what most answers are and text needs no decoding.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Data {
    Text(String),
    B64(String),
}

/// Which write failed; the value is not sent back.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StorageWriteName {
    pub which: StorageArea,
    pub op: StorageOp,
    pub key: Option<String>,
}

impl ToPage {
    /// Rough length on the wire, for the bounds of the queue.
    pub fn weight(&self) -> usize {
        64 + match self {
            ToPage::Head { headers, .. } => headers.iter().map(|(k, v)| k.len() + v.len() + 8).sum(),
            ToPage::Chunk {
                data: Data::Text(text) | Data::B64(text),
                ..
            } => text.len(),
            ToPage::Error { message, .. }
            | ToPage::StorageError { message, .. }
            | ToPage::DownloadDone { message, .. }
            | ToPage::DownloadRefused { message, .. } => message.len(),
            ToPage::Ws { data, .. } => data.as_ref().map_or(0, String::len),
            ToPage::End { .. } => 0,
        }
    }
}

/// Reads one message. The error says which rule it broke; it is for the log only.
pub fn read(text: &str) -> Result<Envelope, &'static str> {
    if text.len() > MAX_MESSAGE {
        return Err("message longer than 256 KiB");
    }
    serde_json::from_str(text).map_err(|_| "not one of the bridge's messages")
}

/// Decodes Base64 as pages' `btoa` writes it.
pub fn bytes(data: &str) -> Result<Vec<u8>, &'static str> {
    STANDARD.decode(data).map_err(|_| "not Base64")
}

/// Base64 text of bytes.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Where a page's request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// An engine route.
    Engine,
    /// A file of the page's own app.
    File,
}

/// Builds the request that a page asked for. `url` is a path with an optional query: `/v1/…` goes to the engine,
/// anything else is a file of the app and can only be read. The error is shown to the page.
pub fn request(fetch: &Fetch, body: Vec<u8>) -> Result<(Target, Request<Vec<u8>>), String> {
    if fetch.url.len() > MAX_URL {
        return Err("the address is too long (limit 8 KiB)".into());
    }
    // The bridge sends engine routes with a leading slash and files relative to the app's root.
    let url = match fetch.url.as_bytes() {
        [b'/', b'/', ..] => return Err("pages can only fetch their own files and /v1/ routes".into()),
        [b'/', ..] => fetch.url.clone(),
        _ => format!("/{}", fetch.url),
    };
    let method = match fetch.method.as_str() {
        "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" => {
            Method::from_bytes(fetch.method.as_bytes()).map_err(|e| e.to_string())?
        }
        other => {
            let other: String = other.chars().take(20).collect();
            return Err(format!(
                "method {other} is not offered: use GET, HEAD, POST, PUT, PATCH or DELETE"
            ));
        }
    };
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let target = if path == "/v1" || path.starts_with("/v1/") {
        Target::Engine
    } else {
        Target::File
    };
    if target == Target::File {
        if method != Method::GET && method != Method::HEAD {
            return Err("an app's files can only be read (GET or HEAD)".into());
        }
        // A second copy of the bridge script would carry a second secret and end this page load's deliveries.
        if path.starts_with("/__chrysalis/") {
            return Err("files under /__chrysalis/ are not for fetch".into());
        }
    }
    let url = url.split('#').next().unwrap_or_default();
    let mut request = Request::builder()
        .method(method)
        .uri(url)
        .body(body)
        .map_err(|_| "the address is not a valid path".to_string())?;
    for (name, value) in fetch.headers.iter().take(32) {
        let name = name.to_ascii_lowercase();
        if !HEADERS.contains(&name.as_str()) {
            continue;
        }
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            request.headers_mut().insert(name, value);
        }
    }
    Ok((target, request))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(method: &str, url: &str) -> Fetch {
        Fetch {
            id: 1,
            method: method.into(),
            url: url.into(),
            headers: vec![
                ("Accept".into(), "text/plain".into()),
                ("Cookie".into(), "a=b".into()),
                ("Authorization".into(), "Bearer x".into()),
                ("Host".into(), "evil".into()),
                ("X-Chrysalis-Frame".into(), "t".into()),
            ],
            body: None,
            b64: false,
            more: false,
        }
    }

    #[test]
    fn only_listed_headers_travel() {
        let (_, request) = request(&fetch("GET", "/v1/me"), vec![]).unwrap();
        let names: Vec<_> = request.headers().keys().map(|name| name.as_str()).collect();
        assert_eq!(names, ["accept"]);
    }

    #[test]
    fn targets() {
        for (method, url, want) in [
            ("GET", "/v1/apps/chat/x?y=1#z", Some(Target::Engine)),
            ("DELETE", "/v1/apps/chat/x", Some(Target::Engine)),
            ("GET", "/data.json", Some(Target::File)),
            ("GET", "/v1x", Some(Target::File)),
            ("POST", "/data.json", None),
            ("GET", "/__chrysalis/bridge.js", None),
            ("GET", "//evil.example/", None),
            ("GET", "data.json", Some(Target::File)),
            ("GET", "", Some(Target::File)),
            // Nothing but a file name of the app, however it looks.
            ("GET", "https://evil.example/", Some(Target::File)),
            ("GET", "__chrysalis/bridge.js", None),
            ("CONNECT", "/v1/me", None),
            ("get", "/v1/me", None),
            ("GET", "/v1/\u{0}", None),
        ] {
            let got = request(&fetch(method, url), vec![]).ok().map(|(target, _)| target);
            assert_eq!(got, want, "{method} {url}");
        }
    }

    #[test]
    fn every_kind_of_message_is_read() {
        for text in [
            r#"{"t":"hello","s":"x"}"#,
            r#"{"t":"fetch","s":"x","id":1,"method":"GET","url":"/v1/me","headers":[["a","b"]]}"#,
            r#"{"t":"fetch","s":"x","id":1,"method":"POST","url":"/v1/me","headers":[],"body":"e30=","b64":true,"more":true}"#,
            r#"{"t":"body","s":"x","id":1,"data":"e30=","last":true}"#,
            r#"{"t":"abort","s":"x","id":1}"#,
            r#"{"t":"ack","s":"x","id":1,"n":5}"#,
            r#"{"t":"seen","s":"x","n":5}"#,
            r#"{"t":"ws","s":"x","id":1,"url":"/v1/ws"}"#,
            r#"{"t":"ws-close","s":"x","id":1}"#,
            r#"{"t":"storage","s":"x","which":"local","op":"set","key":"a","value":"b"}"#,
            r#"{"t":"storage","s":"x","which":"session","op":"clear"}"#,
            r#"{"t":"download","s":"x","id":1,"name":"a.txt","mime":"text/plain","size":3}"#,
            r#"{"t":"data","s":"x","id":1,"data":"YWJj","last":true}"#,
            r#"{"t":"link","s":"x","url":"https://example.org/"}"#,
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn foreign_messages_are_refused() {
        for text in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"t":"hello"}"#,
            r#"{"t":"fetch","s":"x","id":-1,"method":"GET","url":"/"}"#,
            r#"{"t":"eval","s":"x","code":"1"}"#,
            r#"{"t":"storage","s":"x","which":"cookie","op":"set"}"#,
            &format!(r#"{{"t":"link","s":"x","url":"{}"}}"#, "a".repeat(MAX_MESSAGE)),
            &"[".repeat(200_000),
        ] {
            assert!(read(text).is_err(), "{}", &text[..text.len().min(60)]);
        }
    }

    #[test]
    fn answers_have_the_agreed_form() {
        let show = |message: ToPage| serde_json::to_string(&message).unwrap();
        let text = Data::Text("a".into());
        assert_eq!(
            show(ToPage::Chunk { id: 1, data: text }),
            r#"{"t":"chunk","id":1,"text":"a"}"#
        );
        let b64 = Data::B64("YQ==".into());
        assert_eq!(
            show(ToPage::Chunk { id: 1, data: b64 }),
            r#"{"t":"chunk","id":1,"b64":"YQ=="}"#
        );
        let head = ToPage::Head {
            id: 2,
            status: 200,
            status_text: "OK",
            headers: vec![("a".into(), "b".into())],
        };
        assert_eq!(
            show(head),
            r#"{"t":"head","id":2,"status":200,"statusText":"OK","headers":[["a","b"]]}"#
        );
        let open = ToPage::Ws {
            id: 3,
            event: "open",
            data: None,
        };
        assert_eq!(show(open), r#"{"t":"ws","id":3,"event":"open"}"#);
        let write = StorageWriteName {
            which: StorageArea::Local,
            op: StorageOp::Set,
            key: Some("k".into()),
        };
        let failed = ToPage::StorageError {
            write,
            message: "full".into(),
        };
        assert_eq!(
            show(failed),
            r#"{"t":"storage-error","which":"local","op":"set","key":"k","message":"full"}"#
        );
    }
}
