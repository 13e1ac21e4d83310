// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns the kernel's records of a process tree into a profile or a trace.
//!
//! Input, as values: records of BPF programs ([`Inbox`], [`accesses`]), pages of a kernel trace
//! ([`tracefs`]), or opened files with their resident pages ([`Names`]). [`assemble`] makes a
//! [`Recording`] of the latter two, so [`resolve`] makes profiles of all three. A trace is written
//! by [`accesses::TraceWriter`] to the caller's `Write`.
//!
//! Nothing here asks the machine. Traits do, which the caller implements: [`FileTree`] for status
//! and links of files, [`OpenFile`] for descriptors, [`Residency`] for the page cache, and
//! [`accesses::Places`] for devices and extents.
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
pub use recording::{
    CHUNK_PAGES, Chunk, DeviceRecord, GroupRecord, InodeEntry, NodeRecord, PathRecord, Recording,
};
pub use resolve::{Unresolved, resolve};
pub use seen::{Seen, device_of, opened, resident};
pub use waste::unused;
