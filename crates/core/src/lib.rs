// SPDX-License-Identifier: MIT OR Apache-2.0
//! The readahead policies, units of the field as types, and the sizes that people type.
//!
//! `ffi.rs` calls the C core and is the only file here that may hold unsafe code.
#![deny(unsafe_code)]

mod ffi;
pub mod policy;
pub mod size;
pub mod units;

pub use size::{SizeError, parse_size};
pub use units::{Bytes, KiB, Pages, Sectors, Unit, UnitError, grouped};
