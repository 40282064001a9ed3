//! The JavaScript engine of a worker and one run of one export in it.

use std::rc::Rc;

use rquickjs::{
    Array, Context, Ctx, Error, Function, JsLifetime, Module, Object, Persistent, Promise, Runtime, Value,
    WriteOptions,
    function::Args,
    module::Declared,
    object::{Filter, Property},
    promise::PromiseState,
};

use super::{
    channel::{Channel, Gone},
    describe::{self, Stop},
    intrinsics::{Shared, intrinsics, stringify},
    modules::Inert,
};
use crate::frame::{Answer, Failed, FromWorker, ToWorker};

/// JavaScript stack in bytes, as in the reference engine. The thread's own stack is larger.
const STACK: usize = 1 << 20;

/// Jobs left over when the answer stands (a `then` behind it, say) that are still run. A worker with more is replaced:
/// jobs must never run in a later call.
const LAST_JOBS: u32 = 1000;

/// Name of the prelude in stacks.
const PRELUDE: &str = "host";

/// Makes the engine and the allocator ask the system for what they ask only once, before the lock-down.
pub fn warm_up() {
    if let Ok(runtime) = Runtime::new()
        && let Ok(context) = Context::full(&runtime)
    {
        let _ = context.with(|ctx| {
            ctx.eval::<Value, _>("[new Date().getTimezoneOffset(), Math.random()]")
                .map(drop)
        });
    }
}

/// What one worker runs, and the engine it runs in.
pub struct Script {
    // Order matters: values of the engine go before the engine.
    shared: Rc<Shared>,
    fresh: Option<Fresh>,
    used: Option<Fresh>,
    runtime: Option<Runtime>,
    texts: Texts,
    memory: u64,
    persistent: bool,
    clean: bool,
}

/// A context in which the prelude has run and nothing of the plugin.
struct Fresh {
    sandbox: Persistent<Object<'static>>,
    make_host: Persistent<Function<'static>>,
    /// The plugin's module, ready to be evaluated. `None` where that failed, and once it is.
    module: Option<Persistent<Loaded<'static>>>,
    /// The plugin's exports, once it has been evaluated here.
    exports: Option<Persistent<Object<'static>>>,
    context: Context,
}

/// A module that has not been evaluated.
struct Loaded<'js>(Module<'js, Declared>);

// SAFETY: the only lifetime is the module's, and it is the one that is changed.
unsafe impl<'js> JsLifetime<'js> for Loaded<'js> {
    type Changed<'to> = Loaded<'to>;
}

/// The two modules, as text and, once compiled, as bytecode. The bytecode never leaves this process.
struct Texts {
    file: String,
    source: String,
    prelude: String,
    compiled_source: Option<Vec<u8>>,
    compiled_prelude: Option<Vec<u8>>,
}

impl Texts {
    fn plugin(&mut self) -> Source<'_> {
        (self.file.as_str(), self.source.as_str(), &mut self.compiled_source)
    }
}

impl Script {
    pub fn new(
        channel: Channel,
        file: String,
        source: String,
        prelude: String,
        memory: u64,
        persistent: bool,
    ) -> Script {
        Script {
            shared: Rc::new(Shared::new(channel)),
            fresh: None,
            used: None,
            runtime: None,
            texts: Texts {
                file,
                source,
                prelude,
                compiled_source: None,
                compiled_prelude: None,
            },
            memory,
            persistent,
            clean: true,
        }
    }

    /// Builds the context of the next run ahead of it and loads the plugin's module there, off the clock of any call: no
    /// plugin code runs here. A failure shows up again, and is reported, in `run`.
    pub fn prepare(&mut self) {
        if self.fresh.is_some() {
            return;
        }
        self.fresh = self.build().ok();
        if let Some(fresh) = &mut self.fresh {
            let texts = &mut self.texts;
            fresh.module = fresh.context.with(|ctx| match declare(&ctx, texts.plugin(), false) {
                Ok(module) => Some(Persistent::save(&ctx, Loaded(module))),
                Err(_) => {
                    // Not for the next one who asks what was thrown.
                    let _ = ctx.catch();
                    None
                }
            });
        }
    }

    fn build(&mut self) -> Result<Fresh, Failed> {
        let engine = |error: Error| Failed {
            message: error.to_string(),
            ..Failed::default()
        };
        if self.runtime.is_none() {
            let runtime = Runtime::new().map_err(engine)?;
            runtime.set_memory_limit(usize::try_from(self.memory).unwrap_or(usize::MAX));
            runtime.set_max_stack_size(STACK);
            runtime.set_loader(Inert, Inert);
            let shared = self.shared.clone();
            runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
                shared.rejections.note(&ctx, promise, reason, handled);
            })));
            self.runtime = Some(runtime);
        }
        let Some(runtime) = &self.runtime else {
            return Err(Failed::default());
        };
        let context = Context::full(runtime).map_err(engine)?;
        let parts = context.with(|ctx| {
            let shared = &self.shared;
            let prelude = (PRELUDE, self.texts.prelude.as_str(), &mut self.texts.compiled_prelude);
            run_prelude(&ctx, shared, prelude).map_err(|stop| describe::failed(&ctx, stop, PRELUDE, self.memory))
        });
        let (sandbox, make_host) = parts?;
        Ok(Fresh {
            sandbox,
            make_host,
            module: None,
            exports: None,
            context,
        })
    }

    /// Runs one export to its end. An error means that the host is gone.
    pub fn run(&mut self, export: &str, args: String, data: String) -> Result<FromWorker, Gone> {
        self.shared.logged.set(0);
        self.shared.runs.set(self.shared.runs.get().wrapping_add(1));
        let mut fresh = match self.fresh.take() {
            Some(fresh) => fresh,
            None => match self.build() {
                Ok(fresh) => fresh,
                Err(failed) => return Ok(FromWorker::Failed(failed)),
            },
        };
        let context = fresh.context.clone();
        let (shared, texts) = (&self.shared, &mut self.texts);
        let last = context.with(|ctx| {
            let run = Run {
                ctx: &ctx,
                shared,
                file: texts.file.clone(),
            };
            let result = run.all(&mut fresh, texts, export, args, data);
            let left = run.last_jobs();
            run.tell_rejections();
            match result {
                Ok((exported, value)) => Ok(FromWorker::Done {
                    exported,
                    value,
                    heap: heap(),
                    clean: self.persistent || !left,
                }),
                Err(Stop::Gone(gone)) => Err(gone),
                Err(stop) => {
                    let mut failed = describe::failed(&ctx, stop, &texts.file, self.memory);
                    failed.clean = !failed.memory && (self.persistent || !left);
                    Ok(FromWorker::Failed(failed))
                }
            }
        })?;
        self.clean = matches!(
            &last,
            FromWorker::Done { clean: true, .. } | FromWorker::Failed(Failed { clean: true, .. })
        );
        self.used = Some(fresh);
        Ok(last)
    }

    /// Compiles the plugin's module, links it, and runs nothing of it: `Done` with the JSON array of its exports' names, or
    /// what is wrong with it.
    pub fn check(&mut self) -> FromWorker {
        let context = match self.build() {
            Ok(fresh) => fresh.context,
            Err(failed) => return FromWorker::Failed(failed),
        };
        let texts = &self.texts;
        context.with(|ctx| match exports(&ctx, &texts.file, &texts.source) {
            Ok(names) => FromWorker::Done {
                exported: true,
                value: serde_json::Value::from(names).to_string(),
                heap: heap(),
                clean: false,
            },
            Err(stop) => FromWorker::Failed(describe::failed(&ctx, stop, &texts.file, self.memory)),
        })
    }

    /// Puts everything of the last run away, after its result was sent.
    pub fn clean_up(&mut self) {
        self.shared.open.borrow_mut().clear();
        self.shared.rejections.clear();
        if self.persistent && self.clean {
            self.fresh = self.used.take();
            return;
        }
        self.used = None;
        self.shared.make_error.take();
        let Some(runtime) = &self.runtime else { return };
        if !runtime.is_job_pending() {
            // A context is a web of cycles: only this frees it.
            runtime.run_gc();
        }
        if runtime.is_job_pending() {
            // Jobs point into a context that is gone. They must not run, and only the engine's own end forgets them.
            self.runtime = None;
        }
    }
}

/// A text with the place of its bytecode: name, text, bytecode.
pub type Source<'a> = (&'a str, &'a str, &'a mut Option<Vec<u8>>);

/// Compiles a module the first time and takes the bytecode from then on. `ours` is text of ours, of which nobody needs
/// to read the source in a function's `toString`.
pub fn declare<'js>(
    ctx: &Ctx<'js>,
    (name, text, compiled): Source,
    ours: bool,
) -> Result<Module<'js, Declared>, Error> {
    if let Some(bytes) = compiled {
        // SAFETY: these bytes were written by this process's own engine in the branch below and have not left it.
        return unsafe { Module::load(ctx.clone(), bytes) };
    }
    let module = Module::declare(ctx.clone(), name, text)?;
    *compiled = Some(module.write(WriteOptions {
        strip_source: ours,
        ..WriteOptions::default()
    })?);
    Ok(module)
}

/// Names of a module's exports, without running it. As it is, it is compiled only, for errors with the right place. Names
/// are known once a module is linked, and linking is the first part of evaluating: the module is held up before its
/// own first statement by an `await` that nobody goes on from.
fn exports(ctx: &Ctx, file: &str, source: &str) -> Result<Vec<String>, Stop> {
    Module::declare(ctx.clone(), file, source)?;
    let start = match source.strip_prefix("#!") {
        Some(rest) => source.len() - rest.find(['\n', '\r']).map_or("", |end| &rest[end..]).len(),
        None => 0,
    };
    let (hashbang, rest) = source.split_at(start);
    let held = format!("{hashbang}\nawait 0;{rest}");
    let (module, _) = Module::declare(ctx.clone(), file, held)?.eval()?;
    let mut names = Vec::new();
    for name in module.namespace()?.own_keys::<String>(Filter::new().string()) {
        names.push(name?);
    }
    Ok(names)
}

type Prepared = (Persistent<Object<'static>>, Persistent<Function<'static>>);

fn run_prelude(ctx: &Ctx, shared: &Rc<Shared>, prelude: Source) -> Result<Prepared, Stop> {
    let globals = ctx.globals();
    let sandbox = intrinsics(ctx, shared)?;
    globals.set("__sandbox", sandbox.clone())?;
    let (_, done) = declare(ctx, prelude, true)?.eval()?;
    done.finish::<()>()?;
    let make_host: Function = globals
        .get("__makeHost")
        .map_err(|_| Stop::Message("the prelude does not define globalThis.__makeHost".into()))?;
    globals.remove("__sandbox")?;
    globals.remove("__makeHost")?;
    Ok((Persistent::save(ctx, sandbox), Persistent::save(ctx, make_host)))
}

struct Run<'a, 'js> {
    ctx: &'a Ctx<'js>,
    shared: &'a Shared,
    file: String,
}

impl<'js> Run<'_, 'js> {
    fn all(
        &self,
        fresh: &mut Fresh,
        texts: &mut Texts,
        export: &str,
        args: String,
        data: String,
    ) -> Result<(bool, String), Stop> {
        let ctx = self.ctx;
        let data = ctx.json_parse(data)?;
        let sandbox = fresh.sandbox.clone().restore(ctx)?;
        sandbox.set("data", data.clone())?;
        sandbox.set("run", self.shared.runs.get())?;
        let host: Value = fresh.make_host.clone().restore(ctx)?.call((data,))?;
        let exports = match &fresh.exports {
            Some(exports) => exports.clone().restore(ctx)?,
            None => {
                let module = match fresh.module.take() {
                    Some(module) => module.restore(ctx)?.0,
                    None => declare(ctx, texts.plugin(), false)?,
                };
                let (module, done) = module.eval()?;
                self.drive(&done)?;
                done.result::<Value>().transpose()?;
                let exports = module.namespace()?;
                fresh.exports = Some(Persistent::save(ctx, exports.clone()));
                exports
            }
        };
        if !exports.contains_key(export)? {
            return Ok((false, "null".into()));
        }
        let value: Value = exports.get(export)?;
        let Some(function) = value.as_function() else {
            return Ok((true, self.result_text(value)?));
        };
        let given: Array = ctx
            .json_parse(args)?
            .into_array()
            .ok_or_else(|| Stop::Message("no arguments".into()))?;
        let mut list = Args::new(ctx.clone(), given.len() + 1);
        for arg in given.iter::<Value>() {
            list.push_arg(arg?)?;
        }
        list.push_arg(host)?;
        let mut returned: Value = function.call_arg(list)?;
        if returned.is_object() {
            // Resolving a promise of our own with it waits for promises and for anything with a `then`.
            let (promise, resolve, _) = ctx.promise()?;
            resolve.call::<_, ()>((returned,))?;
            self.drive(&promise)?;
            returned = promise
                .result::<Value>()
                .transpose()?
                .unwrap_or_else(|| Value::new_undefined(ctx.clone()));
        }
        Ok((true, self.result_text(returned)?))
    }

    fn result_text(&self, value: Value<'js>) -> Result<String, Stop> {
        stringify(self.ctx, Some(value)).map_err(|error| match error {
            Error::Exception => Stop::Result,
            other => other.into(),
        })
    }

    /// Runs jobs, and waits for the host when there are none, until the promise has settled.
    fn drive(&self, promise: &Promise<'js>) -> Result<(), Stop> {
        self.shared.rejections.ours(promise.as_value());
        loop {
            while promise.state() == PromiseState::Pending && self.ctx.execute_pending_job() {}
            if promise.state() != PromiseState::Pending {
                return Ok(());
            }
            if self.shared.open.borrow().is_empty() {
                return Err(Stop::Message(
                    "the plugin waits for a promise that can never settle: no call to the engine is open".into(),
                ));
            }
            self.tell_rejections();
            self.shared.channel.send(&FromWorker::Waiting)?;
            match self.shared.channel.receive()? {
                ToWorker::Answers(answers) => answers
                    .into_iter()
                    .try_for_each(|(id, answer)| self.settle(id, answer))?,
                _ => return Err(Stop::Gone(Gone::Broken("only answers fit here"))),
            }
        }
    }

    fn settle(&self, id: u32, answer: Answer) -> Result<(), Stop> {
        let settle = self.shared.open.borrow_mut().remove(&id);
        let Some(settle) = settle else {
            return Err(Stop::Gone(Gone::Broken("an answer nobody asked for")));
        };
        let ctx = self.ctx;
        let value = match answer {
            Ok(json) => ctx.json_parse(json),
            Err(message) => {
                let error = settle.error.restore(ctx)?;
                error.prop("message", Property::from(message).writable().configurable())?;
                settle.reject.restore(ctx)?.call::<_, ()>((error,))?;
                return Ok(());
            }
        };
        match value {
            Ok(value) => settle.resolve.restore(ctx)?.call::<_, ()>((value,))?,
            Err(Error::Exception) => settle.reject.restore(ctx)?.call::<_, ()>((ctx.catch(),))?,
            Err(other) => return Err(other.into()),
        }
        Ok(())
    }

    /// Logs the errors that nobody has caught until now.
    fn tell_rejections(&self) {
        for line in self.shared.rejections.lines(self.ctx, &self.file) {
            self.shared.log("error", &line);
        }
    }

    /// Lets the plugin finish what needs nobody else. Says whether something is left.
    fn last_jobs(&self) -> bool {
        (0..LAST_JOBS).all(|_| self.ctx.execute_pending_job())
    }
}

/// Bytes the allocator has handed out in this process. Cheaper by far than the engine's own walk over all objects.
fn heap() -> u64 {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: reads the allocator's counters; this process has one thread.
        let info = unsafe { libc::mallinfo2() };
        (info.uordblks as u64).saturating_add(info.hblkhd as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    0
}
