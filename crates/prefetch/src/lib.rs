// SPDX-License-Identifier: MIT OR Apache-2.0
//! Read plans, and from a plan to ordered, merged, bounded reads. No I/O.
#![forbid(unsafe_code)]

pub mod budget;
pub mod ext4;
pub mod helper;
pub mod order;
pub mod pace;
pub mod plan;
pub mod proof;
pub mod stages;
