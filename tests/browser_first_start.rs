//! From nothing to a streamed answer in a browser: `chrysalis serve` on a fresh home, the printed setup link, a model
//! server, Chat in its frame. Pictures of every step are left under cargo's folder for tests.

#[path = "browser/kit.rs"]
mod kit;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// What no run may show: an uncaught error, a console error, a request that left the program's own origin.
fn no_problems(result: &Value) {
    assert_eq!(result["problems"], json!([]));
}

#[test]
fn from_nothing_to_a_streamed_answer() {
    let folder = kit::fresh("browser-first-start");
    let (_llmock, model) = kit::llmock(120);
    let served = kit::serve(&folder.join("home"));
    assert!(
        served.setup.starts_with(&format!("{}/#setup=", served.url)),
        "the first start prints a setup line: {}",
        served.setup
    );
    let result = kit::node(
        "first_start.mjs",
        &json!({"url": served.url, "setup": served.setup, "model": model, "pictures": folder}),
    );
    no_problems(&result);
}

#[test]
fn the_page_shows_the_first_piece_while_the_server_withholds_the_second() {
    let folder = kit::fresh("browser-withholding");
    let server = Withholding::start();
    let served = kit::serve(&folder.join("home"));
    let result = kit::node(
        "first_start.mjs",
        &json!({
            "url": served.url, "setup": served.setup, "model": server.url, "pictures": folder, "withholding": true,
        }),
    );
    no_problems(&result);
    let state = server.state.0.lock().unwrap();
    let (state, late) = server
        .state
        .1
        .wait_timeout_while(state, Duration::from_secs(20), |state| !state.hung_up)
        .unwrap();
    assert!(!late.timed_out(), "a stop must end the request to the model server");
    assert_eq!(state.answers, 2);
}

#[derive(Default)]
struct State {
    released: bool,
    answers: usize,
    hung_up: bool,
}

/// A model server that sends one piece of an answer and the next only after `POST /release`.
struct Withholding {
    url: String,
    state: Arc<(Mutex<State>, Condvar)>,
}

impl Withholding {
    fn start() -> Withholding {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = shared.clone();
                // A client that leaves in the middle is no failure of this server.
                thread::spawn(move || drop(answer(stream, &shared)));
            }
        });
        Withholding { url, state }
    }
}

fn answer(stream: TcpStream, shared: &(Mutex<State>, Condvar)) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    let path = first.split(' ').nth(1).unwrap_or_default();
    let close = "connection: close\r\n\r\n";
    match path {
        "/release" => {
            shared.0.lock().unwrap().released = true;
            shared.1.notify_all();
            write!(out, "HTTP/1.1 204 No Content\r\n{close}")
        }
        "/v1/models" => write!(
            out,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{close}{}",
            json!({"object": "list", "data": [{"id": "patient", "object": "model"}]})
        ),
        "/v1/chat/completions" => {
            let piece = |text: &str| {
                let chunk = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
                format!("data: {chunk}\n\n")
            };
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{close}{}",
                piece("first")
            )?;
            out.flush()?;
            let mut state = shared.0.lock().unwrap();
            state.answers += 1;
            if state.answers == 1 {
                drop(shared.1.wait_while(state, |state| !state.released).unwrap());
                let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
                return write!(out, "{}data: {end}\n\ndata: [DONE]\n\n", piece(" second"));
            }
            drop(state);
            // Nothing more is sent: this returns when the other side hangs up.
            let _ = reader.read(&mut [0]);
            shared.0.lock().unwrap().hung_up = true;
            shared.1.notify_all();
            Ok(())
        }
        _ => write!(out, "HTTP/1.1 404 Not Found\r\n{close}"),
    }
}
