//! The worker, for this crate's own tests.
fn main() {
    sandbox::worker_main()
}
