//! Just enough HTTP/1.1 for the bench: one request, one answer, on loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Sends one request. `headers` are whole lines, each ended by `\r\n`.
pub fn request(at: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Result<Answer, String> {
    let fail = |e: std::io::Error| format!("{method} {path}: {e}");
    let mut socket = TcpStream::connect_timeout(&at, Duration::from_secs(5)).map_err(fail)?;
    socket.set_read_timeout(Some(Duration::from_secs(30))).map_err(fail)?;
    let length = body.len();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    socket.write_all(text.as_bytes()).map_err(fail)?;
    let (head, body) = read(&mut BufReader::new(socket)).map_err(fail)?;
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status.ok_or_else(|| format!("{method} {path}: no HTTP answer"))?,
        head,
        body,
    })
}

/// Reads a head and the body it announces: by length, in chunks, or (without either) to the end.
pub fn read(from: &mut impl BufRead) -> std::io::Result<(String, String)> {
    let mut head = String::new();
    while from.read_line(&mut head)? > 0 && !head.ends_with("\r\n\r\n") {}
    let header = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(':'));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim().to_string())
            .next()
    };
    let mut body = Vec::new();
    if let Some(length) = header("content-length").and_then(|length| length.parse::<u64>().ok()) {
        from.take(length).read_to_end(&mut body)?;
    } else if header("transfer-encoding").is_some() {
        loop {
            let mut size = String::new();
            from.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16).unwrap_or(0);
            if size == 0 {
                break;
            }
            from.take(size).read_to_end(&mut body)?;
            from.read_line(&mut String::new())?;
        }
    } else if head.starts_with("HTTP/") {
        from.read_to_end(&mut body)?;
    }
    Ok((head, String::from_utf8_lossy(&body).into_owned()))
}

/// The text of a string field, where JSON is simple enough to be found by name.
pub fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let rest = &json[json.find(&format!("\"{name}\""))? + name.len() + 2..];
    rest.trim_start()
        .strip_prefix(':')?
        .trim_start()
        .strip_prefix('"')?
        .split('"')
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_bodies_by_length_and_in_chunks() {
        let text = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nabc";
        assert_eq!(read(&mut text.as_bytes()).expect("it is whole").1, "ab");
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n";
        assert_eq!(read(&mut text.as_bytes()).expect("it is whole").1, "abcd");
        assert_eq!(field("{\"a\": {\"id\" : \"x1\"}}", "id"), Some("x1"));
        assert_eq!(field("{}", "id"), None);
    }
}
