// SPDX-License-Identifier: MIT OR Apache-2.0
//! Follows each request through the block layer, from its events. Output: the thread that asked,
//! the merged bios, the waits in a plug, in the scheduler and at the device, and the event that
//! ended each wait. No system calls.
//!
//! ```
//! use foreread_blocktrace::{Analysis, Leg, Options, Reader};
//!
//! let text = "8,0 1 1 0.000000000 7 Q R 64 + 8 [dd]\n\
//!             8,0 1 2 0.000001000 7 G R 64 + 8 [dd]\n\
//!             8,0 1 3 0.000003000 7 D R 64 + 8 [dd]\n\
//!             8,0 1 4 0.000103000 0 C R 64 + 8 [0]\n";
//! let mut analysis = Analysis::new(Options::default());
//! for event in Reader::new(text.as_bytes()) {
//!     analysis.event(event?);
//! }
//! let report = analysis.finish();
//! assert_eq!(report.reads.requests, 1);
//! assert_eq!(report.reads.legs.of(Leg::IssueToComplete).max_ns(), 100_000);
//! # Ok::<(), foreread_blocktrace::ReadError>(())
//! ```
#![forbid(unsafe_code)]

mod analysis;
mod depth;
mod event;
pub mod follow;
mod line;
mod order;
mod plug;
mod reader;
mod request;
mod story;
mod summary;

pub use analysis::{Analysis, Options, Report};
pub use depth::DepthSummary;
pub use event::{Action, Device, Event, Letters, Rwbs, SECTOR_BYTES};
pub use follow::{Counts, Follower};
pub use line::{Line, LineError, Lines, parse_line};
pub use order::Order;
pub use reader::{LINE_BYTES_MAX, ReadError, Reader};
pub use request::{Bio, Joined, Later, Leg, PlugHold, QueueWait, Release, Request};
pub use story::{story, time};
pub use summary::{Group, Held, LegTimes, Stats};
