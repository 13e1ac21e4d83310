// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readahead policies, and small types that all crates share: units of the field, sizes that
//! people type, numbers in files, device numbers, the mounts of a process, and a histogram of
//! times.
//!
//! `ffi.rs` calls the C core and is the only file here that may hold unsafe code.
#![deny(unsafe_code)]

pub mod bytes;
mod decimal;
mod device;
mod ffi;
mod latencies;
pub mod mounts;
pub mod policy;
pub mod size;
pub mod units;

pub use decimal::decimal;
pub use device::{Device, ParseDeviceError};
pub use latencies::Latencies;
pub use size::{SizeError, parse_size};
pub use units::{Bytes, KiB, Pages, Sectors, Unit, UnitError, grouped};
