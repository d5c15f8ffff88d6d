#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| puller::fuzzing::coding(data));
