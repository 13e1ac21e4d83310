// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a kernel tells of a process tree to a profile or a trace.
//!
//! Input: records of BPF programs, as values. Output: a profile. No I/O: whoever drives it passes
//! values in.
#![forbid(unsafe_code)]

pub mod accesses;
mod counts;
mod inbox;
mod recording;

pub use counts::Counts;
pub use inbox::{Inbox, Record};
pub use recording::{CHUNK_PAGES, Chunk, InodeEntry, NodeRecord, PathRecord, Recording};
