// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sizing on a machine: its devices, their settings, and their speed.
#![forbid(unsafe_code)]

pub mod devices;
pub mod knobs;
pub mod probe;
