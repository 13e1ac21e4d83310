// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums over requests.

use std::collections::BTreeMap;

use foreread_core::Latencies;

use crate::event::Device;
use crate::request::{Joined, Leg, PlugHold, QueueWait, Request};

/// Limit of groups that are told apart; later ones go into one for all the others.
const GROUPS_MAX: usize = 256;

/// Requests that were held back, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of requests.
    pub requests: u64,
    /// Sum of the times for which they were held back.
    pub held_ns: u64,
    /// Part of this sum in which the device had no request, counted for each request.
    pub idle_ns: u64,
}

impl Held {
    fn add(&mut self, held_ns: u64, idle_ns: u64) {
        self.requests += 1;
        self.held_ns = self.held_ns.saturating_add(held_ns);
        self.idle_ns = self.idle_ns.saturating_add(idle_ns);
    }
}

/// Durations of each part of a request's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegTimes([Latencies; Leg::ALL.len()]);

impl LegTimes {
    /// The times of one part.
    #[must_use]
    pub fn of(&self, leg: Leg) -> &Latencies {
        &self.0[leg as usize]
    }
}

/// Sums over some requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bios that they consist of.
    pub bios: u64,
    /// Bios that were put at the end of a request.
    pub back_merges: u64,
    /// Bios that were put at the beginning.
    pub front_merges: u64,
    /// Bios that came with a request which was merged into another.
    pub merged_with_request: u64,
    /// Times that a driver gave one back.
    pub requeues: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests whose life begins before the trace or ends after it.
    pub incomplete: u64,
    /// Times.
    pub legs: LegTimes,
    /// Number of requests with at most 2^i bytes and more than half of that, by i.
    pub sizes: BTreeMap<u64, u64>,
    /// Held back by a plug.
    pub by_plug: Held,
    /// Held back by the scheduler.
    pub by_scheduler: Held,
    /// Held back by either.
    pub held: Held,
}

impl Stats {
    /// Adds a request; a wait of `over_ns` or longer counts as held back.
    pub fn add(&mut self, request: &Request, over_ns: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(request.bytes());
        self.bios += request.bio_count;
        for bio in &request.bios {
            match bio.joined {
                Joined::First => {}
                Joined::Back => self.back_merges += 1,
                Joined::Front => self.front_merges += 1,
                Joined::WithRequest => self.merged_with_request += 1,
            }
        }
        self.requeues += u64::from(request.requeues);
        self.errors += u64::from(request.error != 0);
        let whole = request.leg_ns(Leg::QueueToComplete);
        self.incomplete += u64::from(whole.is_none() || request.issued_ns.is_none());
        for leg in Leg::ALL {
            if let Some(ns) = request.leg_ns(leg) {
                self.legs.0[leg as usize].add(ns);
            }
        }
        let size = request.bytes().checked_next_power_of_two();
        *self.sizes.entry(size.unwrap_or(u64::MAX)).or_default() += 1;
        let plug = request.held_by_plug(over_ns);
        let queue = request.held_by_scheduler(over_ns);
        if let Some(hold) = plug {
            self.by_plug.add(hold.held_ns(), hold.idle_ns);
        }
        if let Some(wait) = queue {
            self.by_scheduler.add(wait.held_ns(), wait.idle_ns);
        }
        if plug.is_some() || queue.is_some() {
            let held = plug.map_or(0, PlugHold::held_ns) + queue.map_or(0, QueueWait::held_ns);
            let idle = plug.map_or(0, |p| p.idle_ns) + queue.map_or(0, |q| q.idle_ns);
            self.held.add(held, idle);
        }
    }

    /// Bios that did not become a request of their own.
    #[must_use]
    pub fn merged_bios(&self) -> u64 {
        self.back_merges + self.front_merges + self.merged_with_request
    }
}

/// The source of the requests that are summed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Requests of one thread, by name and number.
    Process(Box<str>, u32),
    /// Requests of one device.
    Device(Device),
    /// Requests of a thread that the trace doesn't name.
    Unknown,
    /// Requests of all groups for which there was no room.
    Others,
}

/// Reads and everything else, group by group.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// By group, and whether it reads.
    pub stats: BTreeMap<(Group, bool), Stats>,
}

impl Groups {
    /// Adds a request.
    pub fn add(&mut self, group: Group, request: &Request, over_ns: u64) {
        let mut key = (group, request.rwbs.is_read());
        if self.stats.len() >= GROUPS_MAX && !self.stats.contains_key(&key) {
            key.0 = Group::Others;
        }
        self.stats.entry(key).or_default().add(request, over_ns);
    }
}
