//! Every fuzz target is this file: the body of its own name, from the list in `netsim-tests/src/fuzz.rs`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netsim_tests::fuzz::run(env!("CARGO_BIN_NAME"), bytes));
