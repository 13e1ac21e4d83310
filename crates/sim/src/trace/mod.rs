// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces in place of a scenario's programs. Each thread of a trace makes the recorded accesses in
//! the simulation, and thinks as long in between.
//!
//! A trace is read more than once, so that memory does not grow with it. A [`Survey`] finds files,
//! threads, and their parents. Each simulation then streams the accesses through a [`Feed`].

mod feed;
mod lineage;
mod span;
mod survey;

pub(crate) use feed::{Feed, Item, Next, What};
pub(crate) use survey::Start;
pub use survey::{LeftAside, Survey, TracedFile, TracedProgram};

use foreread_trace::{Access, Flags, Kind};

/// Most that one access reads, in bytes: the limit of Linux for one read (`MAX_RW_COUNT`).
pub(crate) const ACCESS_BYTES_MAX: u64 = 0x7fff_f000;

/// Whether the simulation plays an access. The simulation makes readahead requests itself, and does
/// not simulate accesses past the page cache. A mapping has no effect until it is touched, unless
/// it bounds the reads then.
fn is_played(access: &Access) -> bool {
    let aside = access.flags.contains(Flags::AHEAD) || access.flags.contains(Flags::DIRECT);
    let is_empty = access.kind.uses_pages() && access.length_bytes == 0;
    let is_mere_map = access.kind == Kind::Map && !access.flags.contains(Flags::EXEC);
    !aside && !is_empty && !is_mere_map
}
