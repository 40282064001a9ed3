//! The files of an app for its page, each with the policy that keeps the page inside (design: what closes which way
//! out). Whatever the answer is, the policy is on it: an error page of ours and a picture are documents too when a frame
//! is pointed at them.

mod body;
mod headers;
mod inject;
mod range;

use files::{Contained, Folder, check_path, fold};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use policy::AppId;
use sha2::{Digest, Sha256};

pub use body::PageBody;
pub use headers::PagePolicy;

/// Longest HTML file that is served, in bytes: it is held in memory to put the bridge in.
pub const MAX_HTML: u64 = 16 * 1024 * 1024;
/// Files up to this many bytes are read whole and get a tag of their content; larger ones are streamed.
const WHOLE: u64 = 1024 * 1024;
/// The first name of the paths that the engine answers itself (`/__chrysalis/bridge.js`); never an app's file.
pub const RESERVED: &str = "__chrysalis";

/// Answers a page's request for a file of its app.
///
/// `root` is the app's folder. Files come from its `dist/` when that is a real folder, else from the folder itself
/// without what no page needs (`data`, `plugins`, `node_modules`, manifests). `path` is the raw request path relative to
/// the app, starting with `/`, percent-encoded once; a query is not part of it. `bridge_src` is the address of the bridge
/// script as it is to stand in HTML pages.
///
/// GET and HEAD; `Range` (one range), `If-Range` and `If-None-Match` are honoured. What may not be served and what does
/// not exist are both 404 and look alike. Blocks on the disk: call it inside `spawn_blocking`.
pub fn serve(
    root: &Folder,
    app: &AppId,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    policy: &PagePolicy,
    bridge_src: &str,
) -> Response<PageBody> {
    let head = method == Method::HEAD;
    let mut response = if head || method == Method::GET {
        find(root, app, path, bridge_src).answer(headers)
    } else {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        refused
    };
    let len = response.body().len();
    if response.status() != StatusCode::NOT_MODIFIED {
        response.headers_mut().insert(CONTENT_LENGTH, len.into());
    }
    if head {
        *response.body_mut() = PageBody::empty();
    }
    policy.apply(response.headers_mut());
    response
}

/// An answer of the engine's own inside an app's page (the bridge script, an error), under the same policy as a file.
pub fn reply(policy: &PagePolicy, status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<PageBody> {
    let mut response = Response::new(PageBody::from(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    let len = response.body().len();
    response.headers_mut().insert(CONTENT_LENGTH, len.into());
    policy.apply(response.headers_mut());
    response
}

/// Why an app has no page to show. The text names the file that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoPage {
    #[error("index.html is not there: put the page's HTML into that file")]
    Plain,
    #[error("dist/index.html is not there, although there is a dist folder: build the app again, or remove dist")]
    Dist,
    #[error("dist/index.html is not there: package.json says that this app must be built first, so build it")]
    Unbuilt,
}

/// Which file an app's page starts with, seen from the app's folder: the one [`serve`] will serve.
///
/// `has_dist`: there is a `dist/` folder. `package`: the bytes of package.json, if there is one. `exists`: whether a file
/// is there.
pub fn entry_page(
    has_dist: bool,
    package: Option<&[u8]>,
    exists: impl Fn(&str) -> bool,
) -> Result<&'static str, NoPage> {
    match has_dist {
        true if exists("dist/index.html") => Ok("dist/index.html"),
        true => Err(NoPage::Dist),
        false if package.is_some_and(needs_build) => Err(NoPage::Unbuilt),
        false if exists("index.html") => Ok("index.html"),
        false => Err(NoPage::Plain),
    }
}

/// Whether a package.json means that the files beside it are no page yet: it has a build script, or packages that a
/// browser cannot load from `node_modules`. One that cannot be read means nothing.
fn needs_build(package: &[u8]) -> bool {
    let Ok(package) = serde_json::from_slice::<serde_json::Value>(package) else {
        return false;
    };
    let build = package
        .pointer("/scripts/build")
        .is_some_and(serde_json::Value::is_string);
    let packages = package.get("dependencies").and_then(serde_json::Value::as_object);
    build || packages.is_some_and(|packages| !packages.is_empty())
}

/// What a request came to, before ranges and conditions.
enum Outcome {
    /// Held in memory, with its type.
    Whole(Vec<u8>, String),
    /// Streamed.
    Large(Contained, String),
    NotFound,
    /// There is no page to show, and why.
    Placeholder(String),
    TooLarge,
}

impl Outcome {
    fn answer(self, headers: &HeaderMap) -> Response<PageBody> {
        let (body, kind, tag) = match self {
            Self::Whole(bytes, kind) => {
                let tag = format!("\"{}\"", &hex::encode(Sha256::digest(&bytes))[..32]);
                (PageBody::from(bytes), kind, tag)
            }
            Self::Large(file, kind) => {
                let tag = format!("\"f-{}\"", file.stamp);
                (PageBody::from(file), kind, tag)
            }
            Self::NotFound => return plain(StatusCode::NOT_FOUND, "there is no such file in this app"),
            Self::TooLarge => {
                let text = format!("this HTML file is larger than {MAX_HTML} bytes and is not served");
                return plain(StatusCode::INTERNAL_SERVER_ERROR, &text);
            }
            Self::Placeholder(html) => {
                let mut page = Response::new(PageBody::from(html.into_bytes()));
                *page.status_mut() = StatusCode::NOT_FOUND;
                let html = HeaderValue::from_static("text/html; charset=utf-8");
                page.headers_mut().insert(CONTENT_TYPE, html);
                return page;
            }
        };
        let mut response = range::apply(body, headers, &tag);
        let to = response.headers_mut();
        if let Ok(kind) = HeaderValue::from_str(&kind) {
            to.insert(CONTENT_TYPE, kind);
        }
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            to.insert(ETAG, tag);
        }
        response
    }
}

fn plain(status: StatusCode, text: &str) -> Response<PageBody> {
    let mut response = Response::new(PageBody::from(format!("{text}\n").into_bytes()));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn find(root: &Folder, app: &AppId, path: &str, bridge_src: &str) -> Outcome {
    let Some(mut names) = decode(path) else {
        return Outcome::NotFound;
    };
    // A folder's own address means its index.html, as everywhere.
    let is_entry = names.len() == 1 && names[0].is_empty();
    if names.last().is_some_and(String::is_empty) {
        names.pop();
        names.push("index.html".into());
    }
    let wanted = names.join("/");
    if check_path(&wanted).is_err() || names.iter().any(|name| fold(name).starts_with('.')) {
        return Outcome::NotFound;
    }
    if fold(&names[0]) == RESERVED {
        return Outcome::NotFound;
    }
    let (folder, dist) = match root.sub("dist") {
        Ok(dist) => (dist, true),
        Err(_) if !is_for_pages(&names) => return Outcome::NotFound,
        Err(_) => (root.clone(), false),
    };
    if is_entry && let Some(why) = no_page(root, dist) {
        return Outcome::Placeholder(placeholder(app, &why));
    }
    match folder.open_file(&wanted) {
        Ok(file) if is_html(&wanted) => match file.read_whole(MAX_HTML) {
            Ok(Some(bytes)) => Outcome::Whole(inject::bridge(bytes, bridge_src), content_type(&wanted)),
            Ok(None) => Outcome::TooLarge,
            Err(_) => Outcome::NotFound,
        },
        Ok(file) if file.len <= WHOLE => match file.read_whole(WHOLE) {
            Ok(Some(bytes)) => Outcome::Whole(bytes, content_type(&wanted)),
            Ok(None) | Err(_) => Outcome::NotFound,
        },
        Ok(file) => Outcome::Large(file, content_type(&wanted)),
        // The page's own first file is refused: say why, or its author never finds out.
        Err(error) if is_entry => Outcome::Placeholder(placeholder(app, &error.to_string())),
        Err(_) => Outcome::NotFound,
    }
}

/// `None` when the page's first file can be asked for.
fn no_page(root: &Folder, has_dist: bool) -> Option<String> {
    let package = if has_dist {
        Err(())
    } else {
        root.read("package.json", WHOLE).map_err(drop)
    };
    // Anything that stands there is left to opening it, which says what is wrong with it.
    let there = |page: &str| !matches!(root.kind(page), Ok(None));
    entry_page(has_dist, package.ok().as_deref(), there)
        .err()
        .map(|e| e.to_string())
}

/// The names of a raw path, each percent-decoded exactly once. `None` for a path that is not absolute, not UTF-8, holds a
/// broken escape, hides a separator in one, or is encoded twice.
fn decode(path: &str) -> Option<Vec<String>> {
    path.strip_prefix('/')?.split('/').map(decode_name).collect()
}

fn decode_name(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.extend(hex::decode(digits).ok()?);
        rest = after;
    }
    let twice = bytes
        .windows(3)
        .any(|w| w[0] == b'%' && w[1].is_ascii_hexdigit() && w[2].is_ascii_hexdigit());
    let text = String::from_utf8(bytes).ok()?;
    (!twice && !text.contains(['/', '\\', '\0'])).then_some(text)
}

/// Whether a page may have a file of an app that has no `dist/`: not its data, its plugins, its packages or the files that
/// describe it. Compared in folded form, since the disk may ignore case.
fn is_for_pages(names: &[String]) -> bool {
    if names.iter().any(|name| fold(name) == "node_modules") {
        return false;
    }
    let first = fold(&names[0]);
    // `PLUGIN~1` is another name of `plugins` on Windows.
    let short = first
        .split_once('~')
        .is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let guarded = matches!(first.as_str(), "data" | "plugins" | "manifest.json" | "dist")
        || ((first.starts_with("package") || first.starts_with("tsconfig")) && first.ends_with(".json"));
    !short && !guarded
}

fn is_html(path: &str) -> bool {
    let extension = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    matches!(extension.as_str(), "html" | "htm")
}

/// The type of a file by its name; text is always sent as UTF-8. Nothing is guessed from content.
fn content_type(path: &str) -> String {
    let kind = mime_guess::from_path(path).first_or_octet_stream();
    // Browsers refuse module scripts under any other type than this one.
    let is_script = matches!(kind.subtype().as_str(), "javascript" | "x-javascript");
    let kind = if is_script {
        "text/javascript".to_owned()
    } else {
        kind.essence_str().to_owned()
    };
    let is_text = kind.starts_with("text/")
        || kind.ends_with("+xml")
        || matches!(
            kind.as_str(),
            "application/xml" | "application/json" | "application/manifest+json"
        );
    if is_text {
        format!("{kind}; charset=utf-8")
    } else {
        kind
    }
}

/// A page that says why there is none: no script, no styles, nothing loaded.
fn placeholder(app: &AppId, why: &str) -> String {
    let why = inject::escape(why);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{app}: no page</title>\n<h1>{app} has no page to show</h1>\n<p>{why}</p>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_decoded_exactly_once() {
        let names = |path: &str| decode(path).map(|names| names.join("|"));
        for (path, want) in [
            ("/", Some("")),
            ("/a/b.js", Some("a|b.js")),
            ("/a%20b", Some("a b")),
            ("/%61", Some("a")),
            ("/100%25", Some("100%")),
            ("/%E6%97%A5", Some("日")),
            ("/a//b", Some("a||b")),
            ("", None),
            ("a", None),
            ("/%2f", None),
            ("/a%2Fb", None),
            ("/a%5Cb", None),
            ("/a\\b", None),
            ("/a%00", None),
            ("/%252e%252e", None),
            ("/%25%32%65", None),
            ("/%", None),
            ("/%4", None),
            ("/%zz", None),
            ("/%+1", None),
            ("/%ff", None),
            ("/%c0%ae", None),
        ] {
            assert_eq!(names(path).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn types() {
        for (path, want) in [
            ("a.html", "text/html; charset=utf-8"),
            ("a.js", "text/javascript; charset=utf-8"),
            ("a.MJS", "text/javascript; charset=utf-8"),
            ("a.css", "text/css; charset=utf-8"),
            ("a.wasm", "application/wasm"),
            ("a.json", "application/json; charset=utf-8"),
            ("a.svg", "image/svg+xml; charset=utf-8"),
            ("a.xml", "text/xml; charset=utf-8"),
            ("a.png", "image/png"),
            ("a.woff2", "font/woff2"),
            ("a.mp3", "audio/mpeg"),
            ("a.webmanifest", "application/manifest+json; charset=utf-8"),
            ("LICENSE", "application/octet-stream"),
        ] {
            assert_eq!(content_type(path), want, "{path}");
        }
    }

    #[test]
    fn which_apps_are_built_first() {
        for (package, want) in [
            (r#"{"scripts":{"build":"vite build"}}"#, true),
            (r#"{"dependencies":{"react":"^19"}}"#, true),
            (r#"{"dependencies":{},"scripts":{"test":"x"}}"#, false),
            (r#"{"scripts":{"build":1}}"#, false),
            ("{}", false),
            ("not json", false),
        ] {
            assert_eq!(needs_build(package.as_bytes()), want, "{package}");
        }
    }
}
