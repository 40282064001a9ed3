#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| chrysalis_fuzz::answers::run(bytes));
