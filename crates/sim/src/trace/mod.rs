// SPDX-License-Identifier: MIT OR Apache-2.0
//! Traces in place of a scenario's programs: each thread of a trace does in the simulation what it
//! did when it was recorded, and thinks as long in between.
//!
//! A trace is read more than once, so that memory does not grow with it: a [`Survey`] finds files,
//! threads, and who started whom; each simulation then streams the accesses through a [`Feed`].

mod feed;
mod lineage;
mod span;
mod survey;

pub(crate) use feed::{Feed, Item, Next, What};
pub(crate) use survey::Start;
pub use survey::{LeftAside, Survey, TracedFile, TracedProgram};

use foreread_trace::{Access, Flags, Kind};

/// Most that one access reads, in bytes: what Linux reads at once (`MAX_RW_COUNT`).
pub(crate) const ACCESS_BYTES_MAX: u64 = 0x7fff_f000;

/// Whether the simulation plays an access. Requests that readahead made it makes itself; what goes
/// past the page cache is not simulated; a mapping says nothing until it is touched, unless it
/// bounds what is read then.
fn is_played(access: &Access) -> bool {
    let aside = access.flags.contains(Flags::AHEAD) || access.flags.contains(Flags::DIRECT);
    let is_empty = access.kind.uses_pages() && access.length_bytes == 0;
    let is_mere_map = access.kind == Kind::Map && !access.flags.contains(Flags::EXEC);
    !aside && !is_empty && !is_mere_map
}
