// SPDX-License-Identifier: MIT OR Apache-2.0
//! What only the bench measures with: the service beside programs, a `foreread` that follows the
//! machine, groups with little memory, and the model held against the machine. What the demo needs,
//! too, is in `foreread-measure`. Nothing here prints.
#![forbid(unsafe_code)]

pub mod agreement;
pub mod follower;
pub mod memory_group;
pub mod service;
