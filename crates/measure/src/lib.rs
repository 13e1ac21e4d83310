// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold starts on modelled disks, measured: the kernel alone, the first `foreread run`, the second,
//! against the limit.
//!
//! Input: a modelled disk, programs with their files on it and a `foreread`. Output: times,
//! counters of the disk and the limit. `foreread demo` and `foreread-bench` share this. Nothing
//! here prints, and a program that ended badly is an error, never a time.
#![forbid(unsafe_code)]

pub mod cold;
pub mod disk;
mod error;
pub mod foreread;
pub mod host;
pub mod names;
pub mod process;
pub mod programs;
pub mod sample;

pub use error::MeasureError;
