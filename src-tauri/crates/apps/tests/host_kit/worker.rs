#[global_allocator]
static ALLOCATOR: sandbox::WorkerAllocator = sandbox::WorkerAllocator;

fn main() {
    sandbox::worker_main()
}
