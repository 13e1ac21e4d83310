// SPDX-License-Identifier: MIT OR Apache-2.0
//! Units of the field as types, and the sizes that people type.
#![forbid(unsafe_code)]

pub mod size;
pub mod units;

pub use size::{SizeError, parse_size};
pub use units::{Bytes, KiB, Pages, Sectors, Unit, UnitError, grouped};
