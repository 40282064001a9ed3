//! What happens when Rust code in a worker gets no memory.

use std::alloc::{GlobalAlloc, Layout, System};

use super::OUT_OF_MEMORY;

/// The system's allocator, with an end that the host understands: Rust would print a message and abort, which takes
/// system calls that the worker may not make, and would be reported as an attempt to break out. QuickJS has an allocator of
/// its own and handles its failures itself.
///
/// A worker program sets it: `#[global_allocator] static ALLOCATOR: sandbox::WorkerAllocator = sandbox::WorkerAllocator;`
pub struct WorkerAllocator;

fn checked(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        // SAFETY: ends the process.
        unsafe { libc::_exit(OUT_OF_MEMORY) }
    }
    memory
}

// SAFETY: hands everything to the system's allocator, and gives back nothing but what that gave.
unsafe impl GlobalAlloc for WorkerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is passed on.
        checked(unsafe { System.alloc(layout) })
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: `memory` came from `System` with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        checked(unsafe { System.alloc_zeroed(layout) })
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as in `dealloc`, and the caller's promise about `size` is passed on.
        checked(unsafe { System.realloc(memory, layout, size) })
    }
}
