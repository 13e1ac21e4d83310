// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads arbitrary bytes as the own format.
#![no_main]

use foreread_fuzz::{read, sealed, seek};
use foreread_trace::{Format, Objects};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    read(input, Some(Format::Frt), Objects::Files);
    seek(input);
    let sealed = sealed(input);
    read(&sealed, Some(Format::Frt), Objects::Files);
    seek(&sealed);
});
