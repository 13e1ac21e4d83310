// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cold starts on modelled disks, measured: the kernel alone, the first `foreread run`, the second,
//! against the limit.
//!
//! `foreread demo` and `foreread-bench` share this. Nothing here prints.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod cold;
pub mod disk;
mod error;
pub mod follower;
pub mod foreread;
pub mod host;
pub mod memory_group;
pub mod process;
pub mod programs;
pub mod sample;
pub mod service;

pub use error::BenchError;
