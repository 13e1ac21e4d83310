// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measuring code that only the bench needs: the service beside programs, a `foreread` that follows
//! the machine, groups with little memory, and the model compared with the machine. Code that the
//! demo needs, too, is in `foreread-measure`. Nothing here prints.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod follower;
pub mod memory_group;
pub mod service;
