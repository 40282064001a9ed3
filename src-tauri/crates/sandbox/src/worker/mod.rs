//! The worker's side: one process, one thread, one plugin, one socket on descriptor 0.

pub mod channel;
mod describe;
mod intrinsics;
pub mod lock;
mod memory;
mod modules;
mod native;
mod rejections;
mod script;
mod web;

use std::mem::ManuallyDrop;

use channel::{Channel, Gone};
use script::Script;

use crate::frame::{self, FromWorker, ToWorker};

pub use memory::WorkerAllocator;

/// Exit code of a worker whose Rust code got no memory.
pub const OUT_OF_MEMORY: i32 = 9;

/// Runs a worker on descriptor 0 until its socket closes. Never returns to unlocked code: this is the whole program.
pub fn worker_main() -> ! {
    // A panic here is a bug, and its text may quote what the plugin handled: nowhere to print it. The process ends.
    std::panic::set_hook(Box::new(|_| {}));
    let code = match std::panic::catch_unwind(serve) {
        Ok(Ok(())) | Ok(Err(Gone::Closed)) => 0,
        Ok(Err(Gone::Broken(_))) => 3,
        Err(_) => 4,
    };
    // Not `exit`: handlers registered with the C library have nothing to do here and could need forbidden calls.
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) }
}

fn serve() -> Result<(), Gone> {
    let channel = Channel::on_stdin();
    // Everything the engine wants from the system it asks for now, before the door is locked.
    script::warm_up();
    match lock::lock_down() {
        Ok(note) => channel.send(&FromWorker::Hello {
            version: frame::VERSION,
            note,
        })?,
        Err(cause) => return channel.send(&FromWorker::Refused(cause)),
    }
    let ToWorker::Load {
        file,
        source,
        prelude,
        memory,
        persistent,
    } = channel.receive()?
    else {
        return Err(Gone::Broken("the first frame must say what to run"));
    };
    channel.for_memory(memory);
    // Never dropped: the process ends with it, and the kernel takes everything back at once.
    let script = Script::new(channel.clone(), file, source, prelude, memory, persistent);
    let mut script = ManuallyDrop::new(script);
    loop {
        script.prepare();
        let (export, args, data) = match channel.receive()? {
            ToWorker::Run { export, args, data } => (export, args, data),
            ToWorker::Check => {
                channel.send(&script.check())?;
                continue;
            }
            _ => return Err(Gone::Broken("nothing waits for this frame")),
        };
        let last = script.run(&export, args, data)?;
        channel.send(&last)?;
        script.clean_up();
    }
}
