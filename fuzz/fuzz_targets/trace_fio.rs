// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as fio's iolog.
#![no_main]

use foreread_fuzz::read;
use foreread_trace::{Format, Objects};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for first in ["fio version 2 iolog\n", "fio version 3 iolog\n"] {
        let whole = [first.as_bytes(), input].concat();
        read(&whole, Some(Format::Fio), Objects::Files);
    }
});
