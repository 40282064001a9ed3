//! Turning what stopped a run into words for the plugin's author.

use rquickjs::{Coerced, Ctx, Error, Type, Value, qjs};

use super::channel::Gone;
use crate::frame::Failed;

/// Heap given on top of the limit while an error is put into words, because "out of memory" needs memory too.
const WORDS: u64 = 4 << 20;

/// Characters kept of a message and of a stack. Both can be made as long as a string can be.
const MESSAGE: usize = 4_000;
const STACK: usize = 16_000;

/// Why a run stopped.
pub enum Stop {
    /// The engine said so; with `Error::Exception` the thrown value is still in the context.
    Engine(Error),
    /// The result could not be turned into JSON; the thrown value is still in the context.
    Result,
    /// We say so.
    Message(String),
    /// The host is gone.
    Gone(Gone),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Engine(error)
    }
}

impl From<Gone> for Stop {
    fn from(gone: Gone) -> Stop {
        Stop::Gone(gone)
    }
}

/// The words for it. `file` is whose lines are looked for in the stack.
pub fn failed(ctx: &Ctx, stop: Stop, file: &str, memory: u64) -> Failed {
    set_limit(ctx, memory.saturating_add(WORDS));
    let failed = words(ctx, stop, file);
    set_limit(ctx, memory);
    failed
}

fn set_limit(ctx: &Ctx, bytes: u64) {
    // SAFETY: sets one number of the runtime this context belongs to. The safe function for it would borrow the
    // runtime, which is borrowed for as long as a context is in use.
    unsafe { qjs::JS_SetMemoryLimit(qjs::JS_GetRuntime(ctx.as_raw().as_ptr()), bytes as _) };
}

fn words(ctx: &Ctx, stop: Stop, file: &str) -> Failed {
    let mut failed = match stop {
        Stop::Engine(Error::Exception) => thrown(ctx, ctx.catch(), file),
        Stop::Result => {
            let mut failed = thrown(ctx, ctx.catch(), file);
            failed.message = format!("the plugin's result cannot be turned into JSON: {}", failed.message);
            failed
        }
        Stop::Engine(Error::Allocation) => Failed {
            memory: true,
            ..Failed::default()
        },
        Stop::Engine(Error::InvalidString(_)) => Failed {
            message: "the plugin's text contains a NUL character".into(),
            file: file.into(),
            ..Failed::default()
        },
        Stop::Engine(other) => Failed {
            message: other.to_string(),
            ..Failed::default()
        },
        Stop::Message(message) => Failed {
            message,
            ..Failed::default()
        },
        Stop::Gone(_) => Failed {
            message: "the engine closed the connection".into(),
            ..Failed::default()
        },
    };
    failed.message = failed.message.chars().take(MESSAGE).collect();
    failed.stack = failed.stack.chars().take(STACK).collect();
    failed
}

/// The words for a thrown value. An error carries its place along; anything else says just whose it is.
pub fn thrown<'js>(ctx: &Ctx<'js>, value: Value<'js>, file: &str) -> Failed {
    let Some(error) = value.as_exception() else {
        let null = value.is_null() || value.type_of() == Type::Uninitialized;
        return Failed {
            null,
            message: format!("thrown: {}", text(ctx, value)),
            file: file.into(),
            clean: true,
            ..Failed::default()
        };
    };
    let name = error
        .get::<_, Coerced<String>>("name")
        .map(|name| name.0)
        .unwrap_or_default();
    let message = error.message().unwrap_or_default();
    let stack = error.stack().unwrap_or_default();
    let (line, column) = place(&stack, file).unwrap_or_default();
    // A getter of the plugin may have thrown on the way.
    ctx.catch();
    Failed {
        null: false,
        memory: name == "InternalError" && message == "out of memory",
        message: match (name.is_empty(), message.is_empty()) {
            (true, true) => "an error without a message".into(),
            (true, false) => message,
            (false, true) => name,
            (false, false) => format!("{name}: {message}"),
        },
        file: if line == 0 { String::new() } else { file.into() },
        line,
        column,
        stack,
        clean: true,
    }
}

fn text<'js>(ctx: &Ctx<'js>, value: Value<'js>) -> String {
    if let Some(text) = value.as_string() {
        return text
            .to_string()
            .unwrap_or_else(|_| "a text that is not valid Unicode".into());
    }
    match ctx.json_stringify(value) {
        Ok(Some(json)) => json.to_string().unwrap_or_default(),
        Ok(None) => "undefined".into(),
        Err(_) => {
            ctx.catch();
            "a value that cannot be shown".into()
        }
    }
}

/// First place in `file` that a stack names: `    at name (file:line:column)`.
fn place(stack: &str, file: &str) -> Option<(u32, u32)> {
    stack.lines().find_map(|line| {
        let (_, numbers) = line.rsplit_once(&format!("{file}:"))?;
        let mut numbers = numbers.trim_end_matches(')').split(':').map(str::parse::<u32>);
        let line = numbers.next()?.ok()?;
        Some((line, numbers.next().and_then(Result::ok).unwrap_or(0)))
    })
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn the_first_line_of_the_file_is_found() {
        let stack = "    at get (host:3:1)\n    at handleRoute (plugin.js:12:7)\n    at <anonymous> (plugin.js:1:1)\n";
        assert_eq!(place(stack, "plugin.js"), Some((12, 7)));
        assert_eq!(place("    at plugin.js:3\n", "plugin.js"), Some((3, 0)));
        assert_eq!(place("    at x (native)\n", "plugin.js"), None);
        assert_eq!(place("plugin.js:nonsense", "plugin.js"), None);
    }
}
