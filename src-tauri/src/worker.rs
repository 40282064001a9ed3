//! The locked-down process a plugin runs in. See crate `sandbox`.

#[global_allocator]
static ALLOCATOR: sandbox::WorkerAllocator = sandbox::WorkerAllocator;

fn main() {
    sandbox::worker_main()
}
