// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what a kernel tells of a process tree to a profile or a trace.
//!
//! Input: records of BPF programs, as values. Output: a trace, written to the caller's `Write`. The
//! caller passes in, as traits, what must be asked of the machine. Nothing else does I/O.
#![forbid(unsafe_code)]

pub mod accesses;
mod assemble;
mod counts;
mod fetched;
mod file_tree;
mod hits;
mod inbox;
mod interpreter;
mod known;
mod names;
mod pages;
mod process_tree;
mod recording;
mod resolve;
mod seen;
pub mod tracefs;
mod waste;

pub use assemble::assemble;
pub use counts::Counts;
pub use fetched::{Fetched, Residency};
pub use file_tree::{FileStatus, FileTree, LookupError};
pub use hits::HitWatch;
pub use inbox::{Inbox, Record};
pub use interpreter::interpreter;
pub use known::Known;
pub use names::{Name, Names, OpenFile};
pub use pages::Pages;
pub use process_tree::{Ancestry, Family};
pub use recording::{CHUNK_PAGES, Chunk, InodeEntry, NodeRecord, PathRecord, Recording};
pub use resolve::{Unresolved, resolve};
pub use seen::{Seen, device_of, opened, resident};
pub use waste::unused;
