// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as what strace prints.
#![no_main]

use foreread_fuzz::read;
use foreread_trace::{Format, Objects};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    read(input, Some(Format::Strace), Objects::Files);
});
