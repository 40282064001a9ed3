use http::header::{ACCEPT_RANGES, CONTENT_RANGE, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use super::PageBody;

/// The answer that `body`, tagged `tag`, gives to a request with `headers`: 200, 206, 304 or 416 (RFC 9110).
pub(super) fn apply(body: PageBody, headers: &HeaderMap, tag: &str) -> Response<PageBody> {
    let len = body.len();
    let mut response = if none_match(headers, tag) {
        with(StatusCode::NOT_MODIFIED, PageBody::empty(), None)
    } else {
        match range(headers, tag, len) {
            Wanted::All => with(StatusCode::OK, body, None),
            Wanted::Part { from, count } => {
                let text = format!("bytes {from}-{}/{len}", from + count - 1);
                with(StatusCode::PARTIAL_CONTENT, body.part(from, count), Some(text))
            }
            Wanted::Nothing => {
                let text = format!("bytes */{len}");
                with(StatusCode::RANGE_NOT_SATISFIABLE, PageBody::empty(), Some(text))
            }
        }
    };
    response
        .headers_mut()
        .insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    response
}

fn with(status: StatusCode, body: PageBody, range: Option<String>) -> Response<PageBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if let Some(Ok(range)) = range.map(|text| HeaderValue::from_str(&text)) {
        response.headers_mut().insert(CONTENT_RANGE, range);
    }
    response
}

fn none_match(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let mut tags = values.flat_map(|v| v.split(',')).map(str::trim);
    tags.any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == tag)
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    All,
    Part {
        from: u64,
        count: u64,
    },
    /// A range that lies outside.
    Nothing,
}

/// One byte range. Several, or anything that is not a byte range, is answered with everything, as RFC 9110 allows.
fn range(headers: &HeaderMap, tag: &str, len: u64) -> Wanted {
    let mut given = headers.get_all(RANGE).iter();
    let (Some(text), None) = (given.next(), given.next()) else {
        return Wanted::All;
    };
    // With If-Range, a part is only wanted of the very file the rest is already there of.
    if headers
        .get(IF_RANGE)
        .is_some_and(|known| known.as_bytes() != tag.as_bytes())
    {
        return Wanted::All;
    }
    text.to_str()
        .ok()
        .and_then(|text| parse(text, len))
        .unwrap_or(Wanted::All)
}

fn parse(text: &str, len: u64) -> Option<Wanted> {
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let (first, last) = (number(first)?, number(last)?);
    let (from, until) = match (first, last) {
        (None, None) => return None,
        (None, Some(suffix)) => (len - suffix.min(len), len),
        (Some(from), None) => (from, len),
        (Some(from), Some(last)) if last < from => return None,
        (Some(from), Some(last)) => (from, last.saturating_add(1).min(len)),
    };
    if from >= until {
        return Some(Wanted::Nothing);
    }
    let count = until - from;
    Some(Wanted::Part { from, count })
}

/// Digits as a number, none as `None`; more than fits is as far away as can be.
fn number(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, len: u64, want: Wanted) {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, HeaderValue::from_str(text).unwrap());
        assert_eq!(range(&headers, "\"t\"", len), want, "{text} of {len}");
    }

    #[test]
    fn ranges() {
        let part = |from, count| Wanted::Part { from, count };
        for (text, want) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-4", part(2, 3)),
            ("bytes=2-", part(2, 8)),
            ("bytes=-3", part(7, 3)),
            ("bytes=-300", part(0, 10)),
            ("bytes=0-99999999999999999999999", part(0, 10)),
            ("Bytes=9-9", part(9, 1)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=99999999999999999999999-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=4-2", Wanted::All),
            ("bytes=0-1,3-4", Wanted::All),
            ("bytes=-", Wanted::All),
            ("bytes=a-b", Wanted::All),
            ("bytes=+1-2", Wanted::All),
            ("bytes=1--2", Wanted::All),
            ("lines=0-1", Wanted::All),
            ("bytes", Wanted::All),
        ] {
            check(text, 10, want);
        }
        check("bytes=0-", 0, Wanted::Nothing);
        check("bytes=-5", 0, Wanted::Nothing);
    }

    #[test]
    fn conditions() {
        let given = |name, value| {
            let mut headers = HeaderMap::new();
            headers.insert(RANGE, HeaderValue::from_static("bytes=0-1"));
            headers.insert(name, HeaderValue::from_static(value));
            apply(PageBody::from(b"0123".to_vec()), &headers, "\"t\"")
                .status()
                .as_u16()
        };
        for (name, value, want) in [
            (IF_RANGE, "\"t\"", 206),
            (IF_RANGE, "\"u\"", 200),
            (IF_RANGE, "W/\"t\"", 200),
            (IF_NONE_MATCH, "\"t\"", 304),
            (IF_NONE_MATCH, "\"a\", W/\"t\"", 304),
            (IF_NONE_MATCH, "*", 304),
            (IF_NONE_MATCH, "\"u\"", 206),
        ] {
            assert_eq!(given(name.clone(), value), want, "{name} {value}");
        }
    }
}
