// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as what strace prints.
//!
//! `cargo +nightly fuzz run trace_strace fuzz/corpus/strace tests/traces -- -max_len=4096`
#![no_main]

use foreread_fuzz::read;
use foreread_trace::{Format, Objects};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    read(input, Some(Format::Strace), Objects::Files);
});
