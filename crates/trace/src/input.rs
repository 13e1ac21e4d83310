// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading bytes.

use std::io::{ErrorKind, Read, Result};

/// Reads until `bytes` is full or the input ends; how much it got.
pub(crate) fn fill(input: &mut (impl Read + ?Sized), bytes: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match input.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A compressed stream that was cut off says so in this way.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
