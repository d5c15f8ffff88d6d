#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| catalog_controller::fbc::fuzzing::catalog(data));
