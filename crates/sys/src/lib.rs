// SPDX-License-Identifier: MIT OR Apache-2.0
//! System calls, and what `/proc` and `/sys` tell: values in, values out.
//!
//! It decides nothing. With `bpf`, and the face of the policy core, it is the only crate with
//! `unsafe`; each use says why it is sound.

pub mod background;
pub mod block_device;
pub mod cache;
pub mod child;
pub mod clock;
mod descriptors;
pub mod ext4;
pub mod fanotify;
pub mod fiemap;
pub mod file_flags;
pub mod file_system_id;
pub mod fsmap;
pub mod generation;
pub mod handle;
pub mod helper_process;
pub mod interrupt;
pub mod kernel;
pub mod kernel_locks;
mod last_resort;
pub mod leases;
pub mod mapping;
pub mod memory;
pub mod mounts;
pub mod move_extents;
pub mod new_root;
pub mod open_files;
mod own_libm;
pub mod paths;
pub mod peer;
pub mod priority;
pub mod process_events;
pub mod process_stat;
mod queued_read;
pub mod read_ahead;
mod read_hints;
mod read_pool;
pub mod read_whole;
pub mod rights;
pub mod root_directory;
pub mod save;
pub mod service_manager;
pub mod signals;
mod spawning;
pub mod start_pages;
pub mod tree_reads;
pub mod unix_socket;
pub mod uring;
pub mod user;
mod witness;
pub mod write_out;
