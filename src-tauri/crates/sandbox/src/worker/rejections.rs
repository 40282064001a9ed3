//! Promises that were rejected and that nobody listens to.

use std::cell::RefCell;

use rquickjs::{Ctx, Persistent, Value, qjs};

use super::describe;
use crate::program::ScriptError;

/// Rejections kept until somebody asks; further ones are not reported. One failure rarely comes with more.
const MOST: usize = 32;

/// The rejections of a run that are not handled so far.
#[derive(Default)]
pub struct Rejections {
    open: RefCell<Vec<Rejection>>,
    /// Promises whose rejection is told otherwise, because a run waits for them.
    ours: RefCell<Vec<usize>>,
}

struct Rejection {
    promise: Persistent<Value<'static>>,
    reason: Persistent<Value<'static>>,
    at: usize,
}

/// Which object a value is. Good for comparing as long as the object lives.
fn address(value: &Value) -> usize {
    // SAFETY: only looks at the pointer in a value that has one.
    if value.is_object() {
        unsafe { qjs::JS_VALUE_GET_PTR(value.as_raw()) as usize }
    } else {
        0
    }
}

impl Rejections {
    /// What the engine says: a promise was rejected without anybody listening, or somebody listens to it now.
    pub fn note<'js>(&self, ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>, handled: bool) {
        let at = address(&promise);
        if handled {
            let mut open = self.open.borrow_mut();
            let found = open.iter().position(|one| one.at == at);
            let found = found.map(|index| open.swap_remove(index));
            // Its end may free objects, which must not meet this borrow.
            drop(open);
            drop(found);
        } else if self.open.borrow().len() < MOST {
            let rejection = Rejection {
                promise: Persistent::save(ctx, promise),
                reason: Persistent::save(ctx, reason),
                at,
            };
            self.open.borrow_mut().push(rejection);
        }
    }

    /// A promise that a run waits for itself.
    pub fn ours(&self, promise: &Value) {
        self.ours.borrow_mut().push(address(promise));
    }

    /// Takes the lines for those that nobody has listened to until now. To be asked when no job is left to run. `file`
    /// is whose lines are looked for.
    pub fn lines(&self, ctx: &Ctx, file: &str) -> Vec<String> {
        if self.open.borrow().is_empty() {
            return Vec::new();
        }
        let open = self.open.take();
        let mut lines = Vec::new();
        for one in open {
            // The promise is held until here, so that its address belongs to nobody else.
            let told = self.ours.borrow().contains(&one.at);
            let (Ok(_), Ok(reason)) = (one.promise.restore(ctx), one.reason.restore(ctx)) else {
                continue;
            };
            if !told {
                let failed = describe::thrown(ctx, reason, file);
                let error: ScriptError = failed.into();
                lines.push(format!("error nobody caught: {error}"));
            }
        }
        lines
    }

    /// Forgets everything, at the end of a run.
    pub fn clear(&self) {
        drop(self.open.take());
        self.ours.borrow_mut().clear();
    }
}
