//! The locked-down process a plugin runs in. See crate `sandbox`.

fn main() {
    sandbox::worker_main()
}
