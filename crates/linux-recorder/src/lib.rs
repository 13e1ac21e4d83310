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

pub use accesses::{TraceError, TraceRecorder, Traced};
pub use any::{AnyRecorder, Choice, Recorded};
pub use bpf::{BpfRecorder, Limits, Watch};
pub use fanotify::{FanotifyError, FanotifyRecorder};
pub use fetched::Fetched;
pub use foreread_recorder::{Counts, Recording};
pub use refresh::{Refreshed, Watched, Watcher, in_first_pid_namespace};
pub use resolve::{Unresolved, resolve};
pub use tracefs::{TracefsError, TracefsOptions, TracefsRecorder};
