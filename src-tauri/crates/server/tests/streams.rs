//! Events over both forms: who may listen, what arrives, and when it ends.

mod common;

use std::time::Duration;

use common::{House, Reply};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const LONG: Duration = Duration::from_secs(20);

/// A WebSocket client as small as it can be: reads what the server sends, frame by frame.
struct Socket(TcpStream);

#[derive(Debug, PartialEq)]
enum Frame {
    Text(String),
    Ping,
    Close(u16),
}

impl Socket {
    async fn open(house: &House, headers: &[(&str, &str)]) -> Result<Socket, Reply> {
        let mut all = vec![
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        all.extend_from_slice(headers);
        let request = house
            .request("GET", "/v1/ws", &all, "")
            .replace("Connection: close", "Connection: Upgrade");
        let mut stream = house.connect("127.0.0.1").await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = tokio::time::timeout(LONG, stream.read_u8()).await.unwrap().unwrap();
            head.push(byte);
        }
        let reply = Reply::read(&head);
        if reply.status != 101 {
            return Err(reply);
        }
        // RFC 6455, section 1.3: the answer to that very key.
        assert_eq!(reply.header("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        Ok(Socket(stream))
    }

    async fn next(&mut self) -> Option<Frame> {
        tokio::time::timeout(LONG, self.read())
            .await
            .expect("something within the time")
            .ok()
    }

    async fn read(&mut self) -> std::io::Result<Frame> {
        let kind = self.0.read_u8().await? & 0x0f;
        let length = match self.0.read_u8().await? {
            126 => self.0.read_u16().await? as usize,
            127 => self.0.read_u64().await? as usize,
            short => short as usize,
        };
        let mut data = vec![0; length];
        self.0.read_exact(&mut data).await?;
        Ok(match kind {
            1 => Frame::Text(String::from_utf8(data).unwrap()),
            8 => Frame::Close(u16::from_be_bytes([data[0], data[1]])),
            9 => Frame::Ping,
            other => panic!("frame of kind {other}"),
        })
    }

    /// The next message of this type.
    async fn event(&mut self, name: &str) -> Value {
        loop {
            match self.next().await {
                Some(Frame::Text(text)) => {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    if value["type"] == name {
                        return value["payload"].clone();
                    }
                }
                Some(Frame::Ping) => {}
                other => panic!("{other:?} instead of {name}"),
            }
        }
    }

    async fn close_code(&mut self) -> u16 {
        loop {
            match self.next().await {
                Some(Frame::Close(code)) => return code,
                None => panic!("closed without a word"),
                Some(_) => {}
            }
        }
    }
}

#[tokio::test]
async fn sockets_are_for_our_own_pages() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    let own = house.origin();
    let other_name = format!("http://localhost:{}", house.port);
    for (headers, want) in [
        (vec![("Origin", "null")], 403),
        (vec![("Origin", "https://evil.example")], 403),
        (vec![("Origin", other_name.as_str())], 403),
        (vec![("Origin", own.as_str()), ("Sec-Fetch-Site", "cross-site")], 403),
    ] {
        let mut headers = headers;
        headers.push(("Cookie", &cookie));
        let refused = Socket::open(&house, &headers).await.err().map(|reply| reply.status);
        assert_eq!(refused, Some(want), "{headers:?}");
    }
    for cookie in [
        "",
        "chrysalis_session=",
        "chrysalis_session=0",
        &cookie[..cookie.len() - 1],
        "other=1",
    ] {
        let refused = Socket::open(&house, &[("Cookie", cookie), ("Origin", &own)])
            .await
            .err();
        assert_eq!(refused.map(|reply| reply.status), Some(401), "{cookie}");
    }
    for headers in [
        vec![("Cookie", cookie.as_str()), ("Origin", &own)],
        vec![("Cookie", &cookie)],
    ] {
        let mut socket = Socket::open(&house, &headers)
            .await
            .unwrap_or_else(|reply| panic!("{reply:?}"));
        assert_eq!(socket.event("hello").await["username"], "Zoe");
    }
    // Without the upgrade it is an ordinary address, and says so.
    let plain = house.ask("GET", "/v1/ws", &[("Cookie", &cookie)], "").await;
    assert_eq!(plain.status, 426, "{plain:?}");
    house.close().await;
}

#[tokio::test]
async fn what_happens_arrives_and_signing_out_ends_it() {
    let house = House::open().await;
    let cookie = house.sign_in().await;
    let mut socket = Socket::open(&house, &[("Cookie", &cookie)])
        .await
        .unwrap_or_else(|reply| panic!("{reply:?}"));
    socket.event("hello").await;
    house.add_app("alpha").await;
    socket.event("apps_changed").await;
    // What a client says is not listened to, and does no harm: a masked text frame "hi".
    socket.0.write_all(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).await.unwrap();
    house.add_app("beta").await;
    socket.event("apps_changed").await;

    // The same over an event stream.
    let mut stream = house.connect("127.0.0.1").await.unwrap();
    let ask = house.request("GET", "/v1/events", &[("Cookie", &cookie)], "");
    stream.write_all(ask.as_bytes()).await.unwrap();

    let out = [("Cookie", cookie.as_str()), ("X-Chrysalis-Request", "1")];
    assert_eq!(house.ask("POST", "/v1/auth/logout", &out, "").await.status, 200);
    assert_eq!(socket.close_code().await, 1008);
    let mut rest = Vec::new();
    tokio::time::timeout(LONG, stream.read_to_end(&mut rest))
        .await
        .expect("ends")
        .unwrap();
    let reply = Reply::read(&rest);
    // Signing out may have been first: then it was refused.
    assert!(reply.status == 401 || reply.body.contains("\"hello\""), "{reply:?}");
    house.close().await;
}

#[tokio::test]
async fn a_shutdown_ends_streams_and_sockets_at_once() {
    let mut house = House::open().await;
    let cookie = house.sign_in().await;
    let mut socket = Socket::open(&house, &[("Cookie", &cookie)])
        .await
        .unwrap_or_else(|reply| panic!("{reply:?}"));
    socket.event("hello").await;
    let mut stream = house.connect("127.0.0.1").await.unwrap();
    let ask = house.request("GET", "/v1/events", &[("Cookie", &cookie)], "");
    stream.write_all(ask.as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("hello") {
        let mut part = [0; 1024];
        let n = tokio::time::timeout(LONG, stream.read(&mut part))
            .await
            .unwrap()
            .unwrap();
        assert_ne!(n, 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&part[..n]);
    }
    let idle = house.connect("127.0.0.1").await.unwrap();
    house.stop();
    assert_eq!(socket.close_code().await, 1001);
    tokio::time::timeout(LONG, stream.read_to_end(&mut seen))
        .await
        .expect("ends")
        .unwrap();
    assert!(
        String::from_utf8_lossy(&seen).ends_with("0\r\n\r\n"),
        "ended, not cut off"
    );
    drop(idle);
    house.close().await;
}
