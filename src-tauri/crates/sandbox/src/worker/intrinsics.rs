//! `__sandbox`: what the prelude finds, and what those functions share with the loop that drives a run.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use rquickjs::{
    Coerced, Ctx, Error, Exception, Function, Object, Persistent, Promise, Value,
    function::{Constructor, Opt, This},
    object::{Accessor, Property},
};

use super::{channel::Channel, native, rejections::Rejections, web::Web};
use crate::frame::{FromWorker, ToWorker};

/// Log frames one run may send, and characters in each. The host keeps fewer: this only spares both sides the flood.
const LOG_FRAMES: u32 = 1000;
const LOG_CHARS: usize = 2000;

pub struct Settle {
    pub resolve: Persistent<Function<'static>>,
    pub reject: Persistent<Function<'static>>,
    /// An error made where the call was made, so that a refusal names the plugin's line and not the engine's loop.
    pub error: Persistent<Object<'static>>,
}

/// What the intrinsics share with the loop.
pub struct Shared {
    pub channel: Channel,
    pub open: RefCell<BTreeMap<u32, Settle>>,
    /// The language's `Error` of the newest context.
    pub make_error: RefCell<Option<Persistent<Constructor<'static>>>>,
    pub next: Cell<u32>,
    pub logged: Cell<u32>,
    /// Runs of this process so far: a lasting context tells by it that a new one has begun.
    pub runs: Cell<u32>,
    pub rejections: Rejections,
    pub web: Web,
}

impl Shared {
    pub fn new(channel: Channel) -> Shared {
        Shared {
            channel,
            open: RefCell::default(),
            make_error: RefCell::default(),
            next: Cell::new(1),
            logged: Cell::new(0),
            runs: Cell::new(0),
            rejections: Rejections::default(),
            web: Web::default(),
        }
    }

    /// Sends a line of the plugin's log, unless there were too many already.
    pub fn log(&self, level: &str, line: &str) {
        let count = self.logged.get();
        if count < LOG_FRAMES {
            self.logged.set(count + 1);
            let line = line.chars().take(LOG_CHARS).collect();
            let level = level.chars().take(16).collect();
            // A closed socket is noticed at the next frame that matters.
            let _ = self.channel.send(&FromWorker::Log { level, line });
        }
    }
}

/// Puts a value in the place of the getter that made it.
fn keep<'js>(object: &Object<'js>, name: &str, value: Object<'js>) -> Result<Object<'js>, Error> {
    object.prop(name, Property::from(value.clone()))?;
    Ok(value)
}

/// `__sandbox`, the prelude's way to the host.
pub fn intrinsics<'js>(ctx: &Ctx<'js>, shared: &Rc<Shared>) -> Result<Object<'js>, Error> {
    let object = Object::new(ctx.clone())?;

    let own = shared.clone();
    // Taken before any plugin code can put another in its place. Not held by the function below: the engine's collector
    // would not see that, and the context would live for ever.
    let make: Constructor = ctx.globals().get("Error")?;
    *shared.make_error.borrow_mut() = Some(Persistent::save(ctx, make));
    let call = move |ctx: Ctx<'js>, method: String, args: Opt<Value<'js>>| -> Result<Promise<'js>, Error> {
        let args = stringify(&ctx, args.0)?;
        let (promise, resolve, reject) = ctx.promise()?;
        let id = own.next.get();
        own.next.set(id.wrapping_add(1));
        own.channel
            .hold(&FromWorker::Call { id, method, args })
            .map_err(|error| Exception::throw_range(&ctx, &format!("the arguments of this call are {}", error.0)))?;
        let make = own.make_error.borrow().clone();
        let error: Object = match make {
            Some(make) => make.restore(&ctx)?.construct(())?,
            None => Object::new(ctx.clone())?,
        };
        let settle = Settle {
            resolve: Persistent::save(&ctx, resolve),
            reject: Persistent::save(&ctx, reject),
            error: Persistent::save(&ctx, error),
        };
        own.open.borrow_mut().insert(id, settle);
        Ok(promise)
    };
    object.set("call", Function::new(ctx.clone(), call)?)?;

    let own = shared.clone();
    let call_now = move |ctx: Ctx<'js>, method: String, args: Opt<Value<'js>>| -> Result<Value<'js>, Error> {
        let args = stringify(&ctx, args.0)?;
        // Held and not yet sent: an error here is an argument that is too large, and the plugin's to handle.
        own.channel
            .hold(&FromWorker::CallNow { method, args })
            .map_err(|error| Exception::throw_range(&ctx, &format!("the arguments of this call are {}", error.0)))?;
        match own.channel.flush().and_then(|()| own.channel.receive()) {
            Ok(ToWorker::AnswerNow(Ok(json))) => ctx.json_parse(json),
            Ok(ToWorker::AnswerNow(Err(message))) => Err(Exception::throw_message(&ctx, &message)),
            // The host is gone or talks of something else: there is nobody left to run for.
            // SAFETY: ends the process.
            _ => unsafe { libc::_exit(3) },
        }
    };
    object.set("callNow", Function::new(ctx.clone(), call_now)?)?;

    let own = shared.clone();
    let log = move |level: Coerced<String>, line: Coerced<String>| own.log(&level.0, &line.0);
    object.set("log", Function::new(ctx.clone(), log)?)?;

    // Made when it is first read, and then kept in the place of this getter.
    let native = |ctx: Ctx<'js>, this: This<Object<'js>>| keep(&this, "native", native::object(&ctx)?);
    object.prop("native", Accessor::from(native).configurable())?;
    let own = shared.clone();
    let web = move |ctx: Ctx<'js>, this: This<Object<'js>>, name: String| own.web.global(&ctx, &this, &name);
    object.set("web", Function::new(ctx.clone(), web)?)?;
    Ok(object)
}

/// JSON text of a value; what JSON has no word for (undefined, a function) is `null`.
pub fn stringify<'js>(ctx: &Ctx<'js>, value: Option<Value<'js>>) -> Result<String, Error> {
    match value.map(|value| ctx.json_stringify(value)).transpose()?.flatten() {
        Some(text) => Ok(whole(text.to_string()?)),
        None => Ok("null".into()),
    }
}

/// JavaScript texts may hold halves of surrogate pairs. JSON escapes them (`\ud83d`), and Rust, like every other reader
/// of UTF-8, has no place for them: each becomes U+FFFD. Whole pairs are never escaped by the engine.
fn whole(json: String) -> String {
    if !json.contains("\\ud") {
        return json;
    }
    let mut bytes = json.into_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
        } else if at + 6 <= bytes.len()
            && bytes[at + 1..].starts_with(b"ud")
            && bytes.get(at + 3).is_some_and(|byte| matches!(byte, b'8'..=b'f'))
        {
            bytes[at + 1..at + 6].copy_from_slice(b"ufffd");
            at += 6;
        } else {
            at += 2;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn half_surrogates_become_the_replacement_character() {
        assert_eq!(
            whole(r#"["\ud800x","\\ud800","\ud7ff","\udfff"]"#.into()),
            r#"["\ufffdx","\\ud800","\ud7ff","\ufffd"]"#
        );
    }
}
