// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything together: events in, a report out, in bounded memory.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::depth::DepthSummary;
use crate::event::{Device, Event};
use crate::follow::{Counts, Follower};
use crate::order::Order;
use crate::request::Request;
use crate::summary::{Group, Groups, Stats};

/// Options of an analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only these devices; all when there are none.
    pub devices: Vec<Device>,
    /// Only requests with a bio of these threads, by name or number; all when there are none.
    pub processes: Vec<String>,
    /// Least wait that counts as held back, in nanoseconds.
    pub held_over_ns: u64,
    /// Number of longest waits to keep.
    pub worst: usize,
    /// Number of requests to keep for a picture.
    pub kept: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            processes: Vec::new(),
            held_over_ns: 100_000,
            worst: 10,
            kept: 0,
        }
    }
}

/// The results.
#[derive(Clone, Debug)]
pub struct Report {
    /// Time of the first event and of the last; `None` without any.
    pub span_ns: Option<(u64, u64)>,
    /// Counts of events besides requests.
    pub counts: Counts,
    /// Events that came too late to be put in order.
    pub late_events: u64,
    /// All reads.
    pub reads: Stats,
    /// All other requests.
    pub others: Stats,
    /// Statistics by device and by whether requests read.
    pub by_device: BTreeMap<(Group, bool), Stats>,
    /// Statistics by the thread that asked first, and by whether requests read.
    pub by_process: BTreeMap<(Group, bool), Stats>,
    /// How busy each device was.
    pub depths: BTreeMap<Device, DepthSummary>,
    /// Reads that waited longest before the device; longest first. Other requests where there are
    /// no reads.
    pub worst: Vec<Request>,
    /// The first requests, in the order of their ends.
    pub kept: Vec<Request>,
    /// Requests for which there was no room in `kept`.
    pub not_kept: u64,
}

/// The longest waits so far.
#[derive(Debug, Default)]
struct Worst {
    /// By time held back, time before the device, and which of equals came first.
    order: BTreeSet<(u64, u64, Reverse<u64>)>,
    requests: BTreeMap<u64, Request>,
    number: u64,
}

impl Worst {
    fn add(&mut self, request: &Request, over_ns: u64, most: usize) {
        self.number += 1;
        let key = (
            request.held_ns(over_ns),
            request.before_issue_ns(),
            Reverse(self.number),
        );
        let is_full = self.order.len() >= most;
        if is_full && self.order.first().is_none_or(|least| *least > key) {
            return;
        }
        self.order.insert(key);
        self.requests.insert(self.number, request.clone());
        if is_full && let Some((_, _, Reverse(number))) = self.order.pop_first() {
            self.requests.remove(&number);
        }
    }

    fn into_sorted(mut self) -> Vec<Request> {
        let order = self.order.into_iter().rev();
        order
            .filter_map(|(_, _, Reverse(number))| self.requests.remove(&number))
            .collect()
    }
}

/// An analysis under way.
#[derive(Debug)]
pub struct Analysis {
    options: Options,
    order: Order,
    follower: Follower,
    span_ns: Option<(u64, u64)>,
    reads: Stats,
    others: Stats,
    by_device: Groups,
    by_process: Groups,
    worst_reads: Worst,
    worst_others: Worst,
    kept: Vec<Request>,
    not_kept: u64,
}

impl Analysis {
    /// Begins one.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            order: Order::default(),
            follower: Follower::default(),
            span_ns: None,
            reads: Stats::default(),
            others: Stats::default(),
            by_device: Groups::default(),
            by_process: Groups::default(),
            worst_reads: Worst::default(),
            worst_others: Worst::default(),
            kept: Vec::new(),
            not_kept: 0,
        }
    }

    /// Takes an event. Events of different processors may come in slightly wrong order.
    pub fn event(&mut self, event: Event) {
        let devices = &self.options.devices;
        let is_note = matches!(event.action, crate::event::Action::Lost { .. });
        if !is_note && !devices.is_empty() && !devices.contains(&event.device) {
            return;
        }
        if let Some(event) = self.order.push(event) {
            self.follow(event);
        }
    }

    fn follow(&mut self, event: Event) {
        let (first, last) = self.span_ns.unwrap_or((event.time_ns, event.time_ns));
        self.span_ns = Some((first.min(event.time_ns), last.max(event.time_ns)));
        self.follower.event(event);
        self.take_finished();
    }

    fn take_finished(&mut self) {
        let over_ns = self.options.held_over_ns;
        for request in self.follower.finished() {
            if !is_asked_by(&request, &self.options.processes) {
                continue;
            }
            let (stats, worst) = match request.rwbs.is_read() {
                true => (&mut self.reads, &mut self.worst_reads),
                false => (&mut self.others, &mut self.worst_others),
            };
            stats.add(&request, over_ns);
            worst.add(&request, over_ns, self.options.worst);
            self.by_device
                .add(Group::Device(request.device), &request, over_ns);
            let asker = request.asker().map(|bio| (bio.process.clone(), bio.pid));
            let process = asker.map_or(Group::Unknown, |(name, pid)| Group::Process(name, pid));
            self.by_process.add(process, &request, over_ns);
            if self.kept.len() < self.options.kept {
                self.kept.push(request);
            } else {
                self.not_kept += 1;
            }
        }
    }

    /// The trace has ended.
    #[must_use]
    pub fn finish(mut self) -> Report {
        while let Some(event) = self.order.pop() {
            self.follow(event);
        }
        self.follower.finish();
        self.take_finished();
        let reads = self.worst_reads.into_sorted();
        Report {
            span_ns: self.span_ns,
            counts: *self.follower.counts(),
            late_events: self.order.late(),
            reads: self.reads,
            others: self.others,
            by_device: self.by_device.stats,
            by_process: self.by_process.stats,
            depths: self.follower.depths(),
            worst: match reads.is_empty() {
                true => self.worst_others.into_sorted(),
                false => reads,
            },
            kept: self.kept,
            not_kept: self.not_kept,
        }
    }
}

fn is_asked_by(request: &Request, processes: &[String]) -> bool {
    let is_one = |name: &str, pid: u32| {
        let mut processes = processes.iter();
        processes.any(|wanted| wanted == name || wanted.parse() == Ok(pid))
    };
    processes.is_empty() || request.bios.iter().any(|bio| is_one(&bio.process, bio.pid))
}
