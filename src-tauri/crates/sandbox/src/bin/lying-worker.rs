//! A worker that was taken over: it passes for a good one until it should run something, and then says to the host what it
//! is told. For tests of the whole program, which is given this in the place of its worker. Never shipped.
//!
//! What it is told stands in the call's arguments, at `[0].body.code`: a list of steps, each a list whose first word says
//! what to do (see [`step`]). Frames of the host are answered by nothing but those steps.

use sandbox::{
    frame::{self, Answer, Failed, FromWorker, ToWorker},
    worker::{channel::Channel, lock},
};
use serde_json::{Value, json};

fn main() {
    let channel = Channel::on_stdin();
    let note = lock::lock_down().expect("the walls");
    say(&channel, &hello(frame::VERSION, &note));
    loop {
        match channel.receive() {
            Ok(ToWorker::Load { memory, .. }) => channel.for_memory(memory),
            Ok(ToWorker::Run { args, .. }) => run(&channel, &args),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

fn hello(version: u32, note: &str) -> FromWorker {
    FromWorker::Hello {
        version,
        note: note.into(),
    }
}

fn say(channel: &Channel, frame: &FromWorker) {
    let _ = channel.send(frame);
}

fn raw(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: writes bytes we have to descriptor 0.
        let n = unsafe { libc::write(0, bytes.as_ptr().cast(), bytes.len()) };
        let Ok(n @ 1..) = usize::try_from(n) else { return };
        bytes = &bytes[n..];
    }
}

fn run(channel: &Channel, args: &str) {
    let args: Value = serde_json::from_str(args).unwrap_or_default();
    let steps = &args[0]["body"]["code"];
    // What the host answered, in order.
    let mut heard = Vec::new();
    all(channel, steps, &mut heard);
}

fn all(channel: &Channel, steps: &Value, heard: &mut Vec<Value>) {
    for one in steps.as_array().into_iter().flatten() {
        step(channel, one, heard);
    }
}

fn step(channel: &Channel, step: &Value, heard: &mut Vec<Value>) {
    let text = |at: usize| step[at].as_str().unwrap_or_default().to_owned();
    let number = |at: usize| step[at].as_u64().unwrap_or_default();
    // A JSON value as text; a string stands for itself, whatever is in it.
    let json = |at: usize| match &step[at] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text(0).as_str() {
        // id, method, arguments
        "call" => say(
            channel,
            &FromWorker::Call {
                id: number(1) as u32,
                method: text(2),
                args: json(3),
            },
        ),
        // method, arguments
        "now" => say(
            channel,
            &FromWorker::CallNow {
                method: text(1),
                args: json(2),
            },
        ),
        // level, line
        "log" => say(
            channel,
            &FromWorker::Log {
                level: text(1),
                line: text(2),
            },
        ),
        "waiting" => say(channel, &FromWorker::Waiting),
        // version
        "hello" => say(channel, &hello(number(1) as u32, "again")),
        "refused" => say(channel, &FromWorker::Refused(text(1))),
        // value, whether it may be used again
        "done" => done(channel, &json(1), step[2] != false),
        // What was heard so far, as a text in a route's answer.
        "report" => done(
            channel,
            &json!({"json": Value::from(heard.clone()).to_string()}).to_string(),
            false,
        ),
        "failed" => say(
            channel,
            &FromWorker::Failed(Failed {
                message: text(1),
                file: text(2),
                line: u32::MAX,
                stack: text(1),
                clean: true,
                ..Failed::default()
            }),
        ),
        // bytes as numbers
        "raw" => {
            let bytes = step[1].as_array().into_iter().flatten();
            raw(&bytes
                .map(|byte| byte.as_u64().unwrap_or_default() as u8)
                .collect::<Vec<_>>());
        }
        // How many, what.
        "repeat" => (0..number(1)).for_each(|_| all(channel, &step[2], heard)),
        // method, how many, text, in front, behind: arguments of that size.
        "large" => say(
            channel,
            &FromWorker::CallNow {
                method: text(1),
                args: text(4) + &text(3).repeat(number(2) as usize) + &text(5),
            },
        ),
        "large-done" => done(
            channel,
            &(text(3) + &text(2).repeat(number(1) as usize) + &text(4)),
            true,
        ),
        "large-log" => say(
            channel,
            &FromWorker::Log {
                level: text(2).repeat(number(1) as usize),
                line: text(2).repeat(number(1) as usize),
            },
        ),
        // The next frame of the host.
        "read" => match channel.receive() {
            Ok(ToWorker::AnswerNow(answer)) => heard.push(shown(answer)),
            Ok(ToWorker::Answers(answers)) => {
                heard.extend(answers.into_iter().map(|(id, answer)| json!([id, shown(answer)])));
            }
            Ok(_) => heard.push("another frame".into()),
            Err(_) => std::process::exit(0),
        },
        "exit" => std::process::exit(number(1) as i32),
        "abort" => std::process::abort(),
        "spin" => loop {
            std::hint::spin_loop();
        },
        // Until the host closes the socket.
        "rest" => while channel.receive().is_ok() {},
        other => panic!("no such step: {other}"),
    }
}

fn done(channel: &Channel, value: &str, clean: bool) {
    let done = FromWorker::Done {
        exported: true,
        value: value.into(),
        heap: u64::MAX,
        clean,
    };
    say(channel, &done);
}

fn shown(answer: Answer) -> Value {
    match answer {
        Ok(json) => serde_json::from_str(&json).unwrap_or(Value::String(json)),
        Err(why) => json!({"error": why}),
    }
}
