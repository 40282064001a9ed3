//! The launcher's own files, compiled in from `ui/dist`, under its own policy.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use axum::body::Body;
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use crate::answer::{self, OPENER_POLICY, PERMISSIONS_POLICY, RESOURCE_POLICY};
use crate::door::Host;

static DIST: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../../ui/dist");

struct Asset {
    bytes: &'static [u8],
    kind: HeaderValue,
    etag: HeaderValue,
    /// The name changes with the content, so a copy is good for ever.
    named_by_content: bool,
}

/// By path, with the leading slash.
static FILES: LazyLock<HashMap<String, Asset>> = LazyLock::new(|| {
    let mut files = HashMap::new();
    collect(&DIST, &mut files);
    files
});

/// Where the launcher's scripts lie (`/assets/`): its policy names these places, not the whole origin, since the files
/// of every app are on that origin too, under `/frame/`.
static SCRIPTS: LazyLock<BTreeSet<String>> = LazyLock::new(|| script_places(FILES.keys().map(String::as_str)));

fn collect(dir: &'static Dir<'static>, into: &mut HashMap<String, Asset>) {
    for file in dir.files() {
        let Some(path) = file.path().to_str() else { continue };
        let path = format!("/{}", path.replace('\\', "/"));
        let bytes = file.contents();
        let mime = mime_guess::from_path(&path).first_or_octet_stream();
        let kind = match mime.type_() {
            mime_guess::mime::TEXT => format!("{}; charset=utf-8", mime.essence_str()),
            _ => mime.essence_str().to_owned(),
        };
        let etag = format!("\"{}\"", hex::encode(&Sha256::digest(bytes)[..16]));
        let asset = Asset {
            bytes,
            kind: HeaderValue::from_str(&kind).unwrap_or(HeaderValue::from_static("application/octet-stream")),
            etag: HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\"")),
            named_by_content: named_by_content(&path),
        };
        into.insert(path, asset);
    }
    for dir in dir.dirs() {
        collect(dir, into);
    }
}

/// `/assets/name-BASE64URL.ext`, as Vite names what it builds: eight or more characters after the last dash that can
/// start such a hash (contract section 5.4).
fn named_by_content(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/assets/") else {
        return false;
    };
    let Some((stem, _)) = name.rsplit_once('.') else {
        return false;
    };
    stem.match_indices('-').any(|(at, _)| {
        let hash = &stem[at + 1..];
        hash.len() >= 8
            && hash
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}

fn script_places<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    paths
        .filter(|path| path.ends_with(".js") || path.ends_with(".mjs"))
        .map(|path| match path.rfind('/') {
            None | Some(0) => path.to_owned(),
            Some(at) => path[..=at].to_owned(),
        })
        .collect()
}

/// Contract section 5.4 (shell), narrowed: what a script could reach, it can reach as the owner.
fn policy(host: &Host) -> String {
    let origin = host.origin();
    let mut scripts: String = SCRIPTS.iter().map(|place| format!(" {origin}{place}")).collect();
    if scripts.is_empty() {
        scripts = " 'none'".into();
    }
    format!(
        "default-src 'none'; script-src{scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' blob: data:; \
         media-src 'self' blob: data:; font-src 'self'; manifest-src 'self'; connect-src 'self' ws://{}; \
         frame-src {origin}/frame/; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        host.as_str()
    )
}

/// A GET or HEAD of anything that is neither `/v1` nor `/frame/`. Paths are compared to the letter, undecoded: no file
/// of the launcher has a name that needs encoding.
pub fn file(method: &Method, path: &str, headers: &HeaderMap, host: &Host) -> Response<Body> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return answer::error(StatusCode::METHOD_NOT_ALLOWED, "this address can only be read");
    }
    let path = if path == "/" { "/index.html" } else { path };
    let Some(asset) = FILES.get(path) else {
        return answer::error(StatusCode::NOT_FOUND, "there is nothing at this address");
    };
    let unchanged = headers
        .get(header::IF_NONE_MATCH)
        .is_some_and(|known| matches(known, &asset.etag));
    let mut response = Response::new(if unchanged || method == Method::HEAD {
        Body::empty()
    } else {
        Body::from(Bytes::from_static(asset.bytes))
    });
    if unchanged {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let out = response.headers_mut();
    if !unchanged {
        out.insert(header::CONTENT_TYPE, asset.kind.clone());
        out.insert(header::CONTENT_LENGTH, HeaderValue::from(asset.bytes.len()));
    }
    out.insert(header::ETAG, asset.etag.clone());
    out.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static(if asset.named_by_content {
            "public, max-age=31536000, immutable"
        } else {
            "no-cache"
        }),
    );
    if let Ok(policy) = HeaderValue::from_str(&policy(host)) {
        out.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
        (
            PERMISSIONS_POLICY,
            "camera=(), microphone=(), geolocation=(), display-capture=(), usb=(), serial=(), hid=(), \
             midi=(), payment=(), publickey-credentials-get=(), local-fonts=(), idle-detection=(), xr-spatial-tracking=()",
        ),
    ] {
        out.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Whether `If-None-Match` names this version; weak or strong makes no difference here (RFC 9110, 13.1.2).
fn matches(known: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(known), Ok(etag)) = (known.to_str(), etag.to_str()) else {
        return false;
    };
    known.split(',').map(str::trim).any(|known| {
        let known = known.strip_prefix("W/").unwrap_or(known);
        known == "*" || known == etag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_content_named_files_are_kept_for_ever() {
        for (path, want) in [
            ("/assets/index-B3x_9aQz.js", true),
            ("/assets/index-B3x-9aQz.js", true),
            ("/assets/my-page-B3x_9aQz.css", true),
            ("/assets/index.js", false),
            ("/assets/index-short.js", false),
            ("/index-B3x_9aQz.js", false),
            ("/assets/B3x_9aQz", false),
        ] {
            assert_eq!(named_by_content(path), want, "{path}");
        }
    }

    #[test]
    fn scripts_are_named_by_place_and_never_by_the_whole_origin() {
        let places =
            script_places(["/index.html", "/assets/a-1.js", "/assets/b.js", "/theme.js", "/x.css"].into_iter());
        assert_eq!(places.into_iter().collect::<Vec<_>>(), ["/assets/", "/theme.js"]);
    }
}
