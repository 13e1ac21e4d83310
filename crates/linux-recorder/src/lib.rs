// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process tree reads.
#![forbid(unsafe_code)]

mod abi;
mod accesses;
mod any;
mod bpf;
mod fanotify;
mod fetched;
mod interpreter;
mod known;
mod refresh;
mod resolve;
mod tracefs;
mod waste;

pub use abi::{
    AccessKind, AccessRecord, CHUNK_PAGES, Chunk, Counts, InodeEntry, NodeRecord, PathRecord,
};
pub use accesses::{TraceError, TraceRecorder, Traced};
pub use any::{AnyRecorder, Choice, Recorded};
pub use bpf::{BpfRecorder, Limits, Recording, Watch};
pub use fanotify::{FanotifyError, FanotifyRecorder};
pub use fetched::Fetched;
pub use refresh::{Refreshed, Watched, Watcher, in_first_pid_namespace};
pub use resolve::{Unresolved, resolve};
pub use tracefs::{TracefsError, TracefsOptions, TracefsRecorder};
