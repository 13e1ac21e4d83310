// SPDX-License-Identifier: MIT OR Apache-2.0
//! From events to requests: the events of each device are followed until its requests are done.

mod disk;
mod followed;
mod index;

use std::collections::BTreeMap;

use crate::depth::DepthSummary;
use crate::event::{Action, Device, Event};
use crate::request::Request;

use disk::Disk;

/// The most requests that are followed at once, and the most bios without a request, for each
/// device. Of more, the oldest is given up.
pub const FOLLOWED_MAX: usize = 16_384;
/// Bios that are kept of a request; of further ones only the number is.
pub const BIOS_MAX: usize = 1024;
/// Devices that are followed.
pub const DEVICES_MAX: usize = 256;

/// Counts of events besides requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events.
    pub events: u64,
    /// Bios that were cut in two.
    pub splits: u64,
    /// Times that a process slept until a request was free.
    pub sleeps: u64,
    /// Bios that were passed on from one device to another.
    pub remaps: u64,
    /// Bios whose data was copied.
    pub bounces: u64,
    /// Plugs, and how they ended.
    pub plugs: u64,
    /// Unplugs by a process.
    pub unplugs: u64,
    /// Unplugs by a timer, or by a process that went to sleep.
    pub timer_unplugs: u64,
    /// Events without data: flushes, commands that are passed through.
    pub without_data: u64,
    /// Actions that aren't known here.
    pub unknown_actions: u64,
    /// Completions of requests that were issued before the trace, or unseen.
    pub unseen_issues: u64,
    /// Merges with bios that were queued before the trace, or unseen.
    pub unseen_merges: u64,
    /// Requests and bios that were given up, for there were too many.
    pub given_up: u64,
    /// Events of devices beyond the first 256.
    pub of_other_devices: u64,
    /// Events that the trace says it lost.
    pub lost: u64,
}

/// Follows requests through their events, which come in order of time.
#[derive(Debug, Default)]
pub struct Follower {
    disks: BTreeMap<Device, Disk>,
    finished: Vec<Request>,
    counts: Counts,
}

impl Follower {
    /// Takes the next event. Times that go back are taken as if nothing had passed.
    pub fn event(&mut self, event: Event) {
        self.counts.events += 1;
        if let Action::Lost { events } = event.action {
            self.counts.lost = self.counts.lost.saturating_add(events);
            return;
        }
        if self.disks.len() >= DEVICES_MAX && !self.disks.contains_key(&event.device) {
            self.counts.of_other_devices += 1;
            return;
        }
        let disk = self.disks.entry(event.device).or_default();
        disk.event(event, &mut self.counts, &mut self.finished);
    }

    /// Requests that have ended since the last time.
    pub fn finished(&mut self) -> std::vec::Drain<'_, Request> {
        self.finished.drain(..)
    }

    /// The trace ends: requests that are under way are finished as they are.
    pub fn finish(&mut self) {
        for disk in self.disks.values_mut() {
            disk.finish(&mut self.finished);
        }
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How busy each device was.
    #[must_use]
    pub fn depths(&self) -> BTreeMap<Device, DepthSummary> {
        let disks = self.disks.iter();
        disks
            .map(|(device, disk)| (*device, disk.depth()))
            .collect()
    }
}
