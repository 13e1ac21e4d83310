// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the files that a program or a boot reads together lie on a disk, where they would lie
//! better, and what that is worth.
//!
//! In: the files with their extents ([`FileOnDisk`]), the free space of the file system, the
//! metadata that a replay reads, and a model of the device. Out: an account of what lies where
//! ([`Account`]), what a replay takes ([`Forecast`]), and which part of which file should move
//! where ([`Plan`], and as steps [`Pass`]). The same input gives the same output.
//!
//! Nothing is read or written here.
#![forbid(unsafe_code)]

mod account;
mod file;
mod forecast;
pub mod image;
mod pass;
mod plan;
mod space;

pub use account::{Account, PhaseAccount};
pub use file::{FileOnDisk, Obstacle, Run, WantedPages};
pub use forecast::{Device, Forecast, forecast};
pub use pass::{Pass, PassError, PassFile, Progress, Step};
pub use plan::{KEEP_SEEKS, Left, Move, Plan, Why, moved, plan};
pub use space::FreeSpace;
