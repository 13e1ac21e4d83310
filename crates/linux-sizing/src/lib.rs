// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizing on a machine: which devices are there, what they are set to, and how fast they read.
#![forbid(unsafe_code)]

pub mod devices;
pub mod knobs;
pub mod probe;
