// SPDX-License-Identifier: MIT OR Apache-2.0
//! Disk models and the disk queue, in virtual time.
//!
//! Nothing here reads a clock, sleeps or does I/O: the caller says what time it is. The testbed's
//! server passes the machine's clock and sleeps until [`Disk::next_event_ns`]; a simulator passes
//! its own time. All arithmetic is on integers, so a run gives the same nanoseconds on every
//! machine.
//!
//! ```
//! use foreread_model::{Disk, DiskParameters, Request};
//!
//! let mut disk = Disk::new(DiskParameters::preset("usb").ok_or("no such preset")?);
//! disk.submit(0, Request { id: 7, offset_bytes: 0, length_bytes: 25_000, write: false });
//! let mut done = Vec::new();
//! disk.advance(10_000_000, &mut done);
//! // 1.2 ms for the request and 1 ms for 25,000 bytes at 25 MB/s.
//! assert_eq!(done[0].done_ns, 2_200_000);
//! # Ok::<(), &str>(())
//! ```
#![forbid(unsafe_code)]

mod arithmetic;
mod disk;
mod first_touch;
mod limit;
mod parameters;
mod quantity;
mod transfer;

pub use disk::{Completion, Counters, Disk, Request};
pub use limit::{Extent, distinct_extents, limit_ns};
pub use parameters::{DiskModel, DiskParameters, PARAMETER_HELP, PRESET_NAMES, ParameterError};
pub use quantity::time_ns;
pub use transfer::TransferTimes;
