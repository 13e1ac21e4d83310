// SPDX-License-Identifier: MIT OR Apache-2.0
//! How far the kernel should read ahead on a device: what is known of it, what was measured, what
//! follows from that, and what was changed. No I/O: facts come in as values, and what to write comes
//! out as values.
#![forbid(unsafe_code)]

mod identity;
mod measured;

pub use identity::{DeviceNumber, Identity};
pub use measured::{Measured, MeasuredBook, MeasuredBookError, SweepPoint};
