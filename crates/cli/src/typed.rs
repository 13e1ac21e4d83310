// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizes and times as people type them; what they may be is said where they are not.

use foreread_core::Bytes;

/// A size, such as `64M`.
pub fn size(text: &str) -> Result<Bytes, String> {
    foreread_core::parse_size(text).map_err(|error| error.to_string())
}

/// A time, such as `5ms`, in ns.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let wanted = || format!("{text}: a time has a unit, as in 100us, 5ms or 10s");
    foreread_model::time_ns(text).ok_or_else(wanted)
}
