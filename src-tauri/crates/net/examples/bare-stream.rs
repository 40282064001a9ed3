//! The peer of `cargo xtask bench streams`: the shortest loop over a chat-completions stream that somebody would write with
//! reqwest and serde_json. Prints `bench bare_token_ns NUMBER`.

use std::time::Instant;

use futures::StreamExt;

const TOKENS: usize = 100_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let base = std::env::args()
        .nth(1)
        .ok_or("give the address of the bench's model server")?;
    let client = reqwest::Client::builder().no_proxy().build()?;
    let body = format!(
        "{{\"model\":\"bench\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"FAST {TOKENS}\"}}]}}"
    );
    let began = Instant::now();
    let request = client.post(format!("{base}/chat/completions"));
    let answer = request
        .header("content-type", "application/json")
        .body(body)
        .send()
        .await?;
    let mut stream = answer.bytes_stream();
    let mut rest: Vec<u8> = Vec::new();
    let (mut text, mut tokens) = (String::new(), 0);
    while let Some(piece) = stream.next().await {
        rest.extend_from_slice(&piece?);
        let mut from = 0;
        while let Some(end) = rest[from..].windows(2).position(|pair| pair == b"\n\n") {
            let event = &rest[from..from + end];
            from += end + 2;
            let Some(data) = event.strip_prefix(b"data: ") else {
                continue;
            };
            if data == b"[DONE]" {
                continue;
            }
            let value: serde_json::Value = serde_json::from_slice(data)?;
            if let Some(delta) = value
                .pointer("/choices/0/delta/content")
                .and_then(|delta| delta.as_str())
            {
                text.push_str(delta);
                tokens += 1;
            }
        }
        rest.drain(..from);
    }
    if tokens != TOKENS {
        return Err(format!("{tokens} of {TOKENS} tokens came").into());
    }
    println!(
        "bench bare_token_ns {:.1}",
        began.elapsed().as_nanos() as f64 / TOKENS as f64
    );
    Ok(())
}
