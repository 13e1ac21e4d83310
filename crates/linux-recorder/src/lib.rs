// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records what a process tree reads: loads BPF programs, reads tracefs or fanotify, and asks the
//! kernel about files. The crate `foreread-recorder` makes profiles and traces of it.
#![forbid(unsafe_code)]

mod abi;
mod any;
mod bpf;
mod device_pages;
mod fanotify;
mod live_residency;
mod live_tree;
mod refresh;
mod trace;
mod tracefs;

pub use any::{AnyRecorder, Choice, Recorded};
pub use bpf::{BpfRecorder, Limits, Watch};
pub use fanotify::{FanotifyError, FanotifyRecorder};
pub use foreread_recorder::accesses::Traced;
pub use foreread_recorder::{Counts, Fetched, Recording, Unresolved};
pub use live_residency::account_fetched;
pub use live_tree::{answer_helper_request, resolve};

pub use refresh::{Refreshed, Watched, Watcher, in_first_pid_namespace};
pub use trace::{TraceError, TraceRecorder};
pub use tracefs::{TracefsError, TracefsOptions, TracefsRecorder};
