#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| puller::fuzzing::content_range(data));
