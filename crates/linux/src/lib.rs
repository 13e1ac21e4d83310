// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every system call, sysfs file and BPF program of Foreread.
//!
//! Logic lives elsewhere; this crate only does what it is told to the machine and reports what came
//! of it. It is the one crate with `unsafe`, each use with its reason.

pub mod block_device;
pub mod block_watch;
pub mod cache;
pub mod check_kernel;
pub mod child;
pub mod devices;
pub mod doctor;
pub mod fiemap;
pub mod handle;
pub mod interrupt;
pub mod knobs;
pub mod memory;
pub mod mounts;
pub mod open_files;
mod own_libm;
pub mod paths;
pub mod peer;
pub mod probe;
mod process_stat;
pub mod programs;
pub mod read_ahead;
mod read_hints;
mod read_pool;
pub mod recorder;
pub mod replay;
pub mod rights;
pub mod save;
pub mod service_manager;
pub mod start_pages;
pub mod stat;
pub mod uring;
pub mod warm;
pub mod watch;
