// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold starts on modelled disks, measured: the kernel alone, the first `foreread run`, the second,
//! against the limit.
//!
//! A modelled disk, programs with their files on it and a `foreread` go in; times, what the disk
//! did and the limit come out. `foreread demo` and `foreread-bench` share this. Nothing here
//! prints, and a program that ended badly is an error, never a time.
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
