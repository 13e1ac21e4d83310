// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as oracleGeneral.
#![no_main]

use foreread_fuzz::read;
use foreread_trace::{Format, Objects};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    read(input, None, Objects::Files);
    for objects in [Objects::Files, Objects::Bytes, Objects::Sectors] {
        read(input, Some(Format::OracleGeneral), objects);
    }
});
