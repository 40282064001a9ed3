//! What plugins get of the globals that browsers have, in JavaScript: `web/*.js`.
//!
//! Guest code, like the prelude: it guards nothing. Most calls use none of it, so each part is evaluated in a context
//! when one of its globals is first asked for, and compiled once per process.

use std::cell::RefCell;

use rquickjs::{Ctx, Error, Exception, Function, Object, Value};

use super::script;

/// Name of a part, its text, and its globals. A part is a module whose default export takes `__sandbox` and gives an
/// object with the globals.
const PARTS: [(&str, &str, &[&str]); 6] = [
    ("text", include_str!("web/text.js"), &["TextDecoder", "TextEncoder"]),
    ("address", include_str!("web/address.js"), &["URL", "URLSearchParams"]),
    ("crypto", include_str!("web/crypto.js"), &["crypto"]),
    ("clone", include_str!("web/clone.js"), &["structuredClone"]),
    (
        "timers",
        include_str!("web/timers.js"),
        &["setTimeout", "clearTimeout", "setInterval", "clearInterval"],
    ),
    ("node", include_str!("web/node.js"), &["Buffer", "process"]),
];

/// The bytecode of those parts that were used. It never leaves this process.
#[derive(Default)]
pub struct Web([RefCell<Option<Vec<u8>>>; PARTS.len()]);

impl Web {
    /// A global by its name. `sandbox` is `__sandbox` of the context, which keeps the parts made so far.
    pub fn global<'js>(&self, ctx: &Ctx<'js>, sandbox: &Object<'js>, name: &str) -> Result<Value<'js>, Error> {
        let found = PARTS
            .iter()
            .zip(&self.0)
            .find(|((_, _, names), _)| names.contains(&name));
        let Some(((part, text, _), compiled)) = found else {
            return Err(Exception::throw_reference(
                ctx,
                &format!("there is no global {name} to be had here"),
            ));
        };
        let made = match sandbox.get::<_, Option<Object>>(*part)? {
            Some(made) => made,
            None => {
                // Taken out meanwhile: nothing of the engine may run while it is borrowed.
                let mut bytecode = compiled.take();
                let module = script::declare(ctx, (part, text, &mut bytecode), true).and_then(|module| module.eval());
                compiled.replace(bytecode);
                // It awaits nothing, so it has been evaluated now; its promise says nothing more.
                let (module, _) = module?;
                let make: Function = module.namespace()?.get("default")?;
                let made: Object = make.call((sandbox.clone(),))?;
                sandbox.set(*part, made.clone())?;
                made
            }
        };
        made.get(name)
    }
}
