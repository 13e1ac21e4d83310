// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring code that only the bench needs: the service beside programs, a `foreread` that follows
//! the machine, groups with little memory, and the comparison of model and machine.
//! `foreread-measure` has the code that the demo needs, too. Nothing here prints.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod follower;
pub mod memory_group;
pub mod service;
