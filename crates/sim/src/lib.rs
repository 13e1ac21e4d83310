// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page cache, programs and devices in virtual time, without I/O.
//!
//! [`cache`] and [`path`] are the page cache and the kernel's way through it, one system call or
//! fault at a time, without a clock. [`Untimed`] plays accesses on them, to compare decisions with
//! those of a real kernel; [`check`] does this with random programs. [`engine`] adds programs,
//! time, and the disks of `foreread-model` behind the queue of [`block`]. A [`Scenario`] is a text
//! that describes a simulation. Instead, programs can play a [`trace`].
//!
//! ```
//! use foreread_core::policy::{Limits, Policy};
//! use foreread_sim::Untimed;
//!
//! let mut reader = Untimed::new(Policy::Linux, Limits::new(3568, 32));
//! reader.read(0, 4096);
//! assert_eq!(reader.log[0].to_string(), "reads 0+4 a3");
//! assert_eq!(reader.resident_runs(), [(0, 4)]);
//! ```
#![forbid(unsafe_code)]

pub mod block;
pub mod cache;
pub mod check;
mod contender;
pub mod engine;
pub mod matrix;
pub mod module_records;
pub mod path;
mod random;
pub mod scenario;
pub mod trace;
mod untimed;
mod workloads;

pub use contender::{Contender, NoSuchContender};
pub use foreread_core::Latencies;
pub use random::Random;
pub use scenario::{Scenario, ScenarioError};
pub use untimed::{Logged, Untimed};
pub use workloads::WORKLOADS;
