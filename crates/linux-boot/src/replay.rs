// SPDX-License-Identifier: MIT OR Apache-2.0
//! The replay of a boot: the part of each file system from when that is mounted.

use std::sync::Arc;

use foreread_boot::{Part, parts};
use foreread_linux_prefetcher::{Executor, Fetch, Options};
use foreread_prefetch::plan::ReadPlan;
use foreread_profile::{PAGE_BYTES, Profile};
use foreread_sys::mounts::MountTable;

/// Files and page ranges of the first stage. systemd waits for what it needs to start its first
/// units, about as many. With 64, 256 and 1,024 a boot of 40 services from a hard disk took 13.9,
/// 13.7 and 14.5 s, with 712, 644 and 593 seeks; in one stage 16.2 s and 478.
pub(crate) const FIRST_STAGE_ITEMS: usize = 256;

/// What a replay did. Pages are of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// Pages of the profile on file systems that were mounted.
    pub planned_pages: u64,
    /// Those that were in memory before.
    pub cached_pages: u64,
    /// Those that it brought in.
    pub arrived_pages: u64,
    /// File systems that hold files of the profile and were not mounted.
    pub unmounted: usize,
}

/// A replay that is under way.
pub struct Replay {
    executor: Executor,
    /// Those whose file systems are not mounted yet, with the plans that they are of.
    waiting: Vec<(Arc<ReadPlan>, Part)>,
    fetches: Vec<Fetch>,
    mounts: MountTable,
    /// Bytes that may still be brought in.
    left_bytes: u64,
    /// Whether data is held back until [`Replay::release`].
    is_held: bool,
}

impl Replay {
    /// Starts the parts that are mounted. All together bring in `budget_bytes` at most. With
    /// `is_held` that is metadata only, and data from [`Replay::release`] on, or after 50 ms.
    pub fn start(profile: &Profile, budget_bytes: u64, is_held: bool) -> Self {
        let mut replay = Self {
            executor: Executor::default(),
            waiting: Vec::new(),
            fetches: Vec::new(),
            mounts: MountTable::default(),
            left_bytes: budget_bytes,
            is_held,
        };
        replay.add(profile);
        replay
    }

    /// Brings in another profile, too, after those before.
    pub fn add(&mut self, profile: &Profile) {
        let plan = Arc::new(ReadPlan::from(profile));
        let parts = parts(profile).into_iter();
        self.waiting
            .extend(parts.map(|part| (Arc::clone(&plan), part)));
        self.look();
    }

    /// Starts the parts that were mounted since.
    pub fn look(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let Ok(mounts) = self.mounts.current() else {
            return;
        };
        let is_mounted = |(_, part): &(Arc<ReadPlan>, Part)| {
            let mut points = mounts.points().iter();
            // A profile of a recorder that knows no mounts has one part, of an unknown type.
            part.fs_type.is_empty()
                || points.any(|point| {
                    part.is_on(&point.mount_point, &point.fs_type) && !point.is_virtual()
                })
        };
        let (ready, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(is_mounted);
        self.waiting = waiting;
        for (plan, part) in ready {
            let (plan, _) = plan.part(&part.nodes);
            let plan_bytes = plan.total_pages().saturating_mul(PAGE_BYTES);
            let options = Options {
                budget_bytes: Some(self.left_bytes),
                // By then the recorder is attached, and counts the use.
                hold_data: self.is_held,
                stops_when_overtaken: true,
                first_stage_items: Some(FIRST_STAGE_ITEMS),
                ..Options::default()
            };
            self.left_bytes = self.left_bytes.saturating_sub(plan_bytes);
            self.fetches
                .push(self.executor.start(Arc::new(plan), &options));
        }
    }

    /// Whether it reads no data yet.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Lets it read data.
    pub fn release(&mut self) {
        self.is_held = false;
        self.fetches.iter().for_each(Fetch::release);
    }

    /// Stops it. What is under way on a device may still arrive.
    pub fn stop(&self) {
        self.fetches.iter().for_each(Fetch::stop);
    }

    /// What all parts together did so far.
    pub fn brought(&self) -> Brought {
        let mut brought = Brought {
            unmounted: self.waiting.len(),
            ..Brought::default()
        };
        for report in self.fetches.iter().map(Fetch::report) {
            brought.planned_pages += report.planned_pages;
            brought.cached_pages += report.cached_pages;
            brought.arrived_pages += report.arrived_pages;
        }
        brought
    }
}
