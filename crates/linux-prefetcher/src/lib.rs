// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings into the page cache what a plan wants, ahead of the program that will read it.
//!
//! An [`Executor`] carries out [plans](ReadPlan). Each file system has a thread. It reads metadata
//! first, then data by place within windows of need. On ext4 whose block device can be opened, it
//! parses the layout from the device's page cache. The kernel will find the same blocks there
//! ([`raw`]). On other file systems, many threads look up the inodes in order of their numbers
//! ([`looks`]).
//!
//! File systems that aren't local, and those that did not answer before, are asked by
//! [helper processes](foreread_linux_helper).
#![forbid(unsafe_code)]

mod beside;
mod crew;
mod data;
mod device_pages;
mod executor;
mod fetcher;
mod foreign;
mod guard;
mod looks;
mod means;
mod names;
mod neighbours;
mod part;
mod pump;
mod raw;
mod report;
mod sweep;
pub mod targets;
mod under_way;
pub mod warm;

pub use executor::Executor;
pub use foreign::serve;
pub use guard::{Gate, Guard};
pub use names::find_on_device;
pub use neighbours::Neighbours;
pub use report::Report;
pub use under_way::Fetch;

use std::sync::Arc;
use std::time::Duration;

use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{NodeId, PAGE_BYTES, PageRange};

/// How to carry a plan out.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Most bytes to bring in, with what of them is cached already; by default half of what is
    /// available, and never more.
    pub budget_bytes: Option<u64>,
    /// Never parse the block device, even where it can be opened.
    pub no_raw: bool,
    /// Never use io_uring, even where the kernel allows it: read in threads.
    pub no_ring: bool,
    /// Read no data before [`Fetch::release`], so that a recorder can observe its use; for 50 ms at
    /// most.
    pub hold_data: bool,
    /// With a directory, fetch the directories beside it on the disk, except for groups that are
    /// known. For programs that go through a tree level by level.
    pub with_neighbours: Option<Neighbours>,
    /// End when a program has overtaken it, and everything that is left is cached.
    pub stops_when_overtaken: bool,
    /// Carry it out in [stages](foreread_prefetch::stages), the first with so many items: for a
    /// program that waits for what it needs first. In one stage where there is none.
    pub first_stage_items: Option<usize>,
    /// Remember which pages arrived; see [`Fetch::fetched`].
    pub keeps_fetched: bool,
    /// Ask before each read, and note what is touched; see [`Guard`].
    pub gate: Option<Arc<Gate>>,
}

/// If no plan came for this long, the threads end.
const IDLE: Duration = Duration::from_secs(2);

/// Whether a file of this size ends before the last page wanted of it.
fn is_shrunk(plan: &ReadPlan, id: NodeId, size_bytes: u64) -> bool {
    let end_page = plan.ranges(id).last().map_or(0, PageRange::end_page);
    size_bytes.div_ceil(PAGE_BYTES) < end_page
}

/// Pages that a plan wants of these nodes.
fn pages_of(plan: &ReadPlan, nodes: &[NodeId]) -> u64 {
    let ranges = nodes.iter().flat_map(|id| plan.ranges(*id));
    ranges.fold(0, |sum, range| sum.saturating_add(range.pages))
}
