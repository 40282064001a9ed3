fn main() {
    sandbox::worker_main()
}
