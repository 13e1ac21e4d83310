// SPDX-License-Identifier: MIT OR Apache-2.0
//! One disk and its queue, event by event.

use std::collections::{BTreeMap, BTreeSet};

use crate::arithmetic::{interval_ns, seek_span_ns, transfer_ns};
use crate::first_touch::FirstTouches;
use crate::parameters::{DiskModel, DiskParameters};

/// One request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The caller's name for it, returned in its [`Completion`].
    pub id: u64,
    /// Where it starts on the disk.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
    /// Whether it writes. A write takes the same time as a read; it is counted apart.
    pub write: bool,
}

/// One finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's name.
    pub id: u64,
    /// When it was submitted.
    pub arrived_ns: u64,
    /// When the disk turned to it.
    pub started_ns: u64,
    /// When its last byte was there.
    pub done_ns: u64,
}

/// Counters of a disk. Requests are counted when they arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that arrived, writes included.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of requests that were writes.
    pub write_requests: u64,
    /// The bytes of the writes.
    pub write_bytes: u64,
    /// The time during which at least one request was being served.
    pub busy_ns: u64,
    /// Seeks of the head.
    pub seeks: u64,
    /// Forward gaps the head read over instead of seeking.
    pub gaps: u64,
    /// Blocks that were fetched from elsewhere since they were touched for the first time.
    pub first_touches: u64,
    /// The most requests that were with the disk at one time, waiting or being served.
    pub queue_depth_max: u64,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    request: Request,
    arrived_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct InService {
    id: u64,
    arrived_ns: u64,
    started_ns: u64,
    stage: Stage,
}

/// The part of its service that a request is in.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Its bytes are on their way to the pipe, which they need for so long.
    Coming { transfer_ns: u64 },
    /// It is done at the end of this part.
    Last,
}

/// A disk with its queue. The caller passes the time, which never goes back: a call with an earlier
/// time than the last is handled at the time of the last.
///
/// A caller may be late. Events between two calls happen at their own times and in their order. So
/// a request that waited starts when its predecessor is done, not at the next call.
#[derive(Clone, Debug)]
pub struct Disk {
    parameters: DiskParameters,
    clock_ns: u64,
    sequence: u64,
    /// Waiting requests by order of arrival, and the same by place. The models pick by one of these
    /// orders. Both are kept so that parameters can change while requests wait.
    by_arrival: BTreeMap<u64, Queued>,
    by_offset: BTreeSet<(u64, u64)>,
    in_service: BTreeMap<(u64, u64), InService>,
    finished: Vec<Completion>,
    head_bytes: u64,
    pipe_free_ns: u64,
    start_allowed_ns: u64,
    touches: FirstTouches,
    busy_since_ns: u64,
    counters: Counters,
}

impl Disk {
    /// An idle disk at time 0, its head at byte 0.
    pub fn new(parameters: DiskParameters) -> Self {
        Self {
            parameters,
            clock_ns: 0,
            sequence: 0,
            by_arrival: BTreeMap::new(),
            by_offset: BTreeSet::new(),
            in_service: BTreeMap::new(),
            finished: Vec::new(),
            head_bytes: 0,
            pipe_free_ns: 0,
            start_allowed_ns: 0,
            touches: FirstTouches::default(),
            busy_since_ns: 0,
            counters: Counters::default(),
        }
    }

    /// The same with its head elsewhere.
    pub fn with_head_at(parameters: DiskParameters, head_bytes: u64) -> Self {
        Self {
            head_bytes,
            ..Self::new(parameters)
        }
    }

    /// The current parameters of the disk.
    pub fn parameters(&self) -> &DiskParameters {
        &self.parameters
    }

    /// Makes it another disk from `now_ns` on. Requests being served end as they began; those that
    /// wait are served by the new parameters. If first touches differ, all blocks are untouched.
    pub fn set_parameters(&mut self, now_ns: u64, parameters: DiskParameters) {
        self.run_until(now_ns);
        if !FirstTouches::are_alike(&parameters, &self.parameters) {
            self.touches = FirstTouches::default();
        }
        self.parameters = parameters;
        // A backlog of the old pace or pipe is not the new disk's.
        self.start_allowed_ns = self.clock_ns;
        self.pipe_free_ns = self.clock_ns;
        self.run_until(now_ns);
    }

    /// Makes all blocks untouched. Fetches that are under way are not waited for.
    pub fn forget_touches(&mut self, now_ns: u64) {
        self.run_until(now_ns);
        self.touches = FirstTouches::default();
    }

    /// Hands the disk a request at `now_ns`.
    pub fn submit(&mut self, now_ns: u64, request: Request) {
        self.run_until(now_ns);
        let sequence = self.sequence;
        self.sequence += 1;
        self.by_arrival.insert(
            sequence,
            Queued {
                request,
                arrived_ns: self.clock_ns,
            },
        );
        self.by_offset.insert((request.offset_bytes, sequence));
        self.count_arrival(&request);
        // An idle disk turns to it at once.
        self.run_until(now_ns);
    }

    /// When the disk next does something by itself: finishes a request or, held back by its rate
    /// cap, starts one. `None` when it has nothing to do. A time that has passed means that
    /// [`Disk::advance`] has something to hand out.
    pub fn next_event_ns(&self) -> Option<u64> {
        match self.finished.first() {
            Some(completion) => Some(completion.done_ns),
            None => self.next_internal_ns(),
        }
    }

    /// Lets time pass until `now_ns` and appends what has finished by then, in order of its end.
    pub fn advance(&mut self, now_ns: u64, completions: &mut Vec<Completion>) {
        self.run_until(now_ns);
        completions.append(&mut self.finished);
    }

    /// Requests with the disk now, waiting or being served.
    pub fn queue_depth(&self) -> u64 {
        (self.by_arrival.len() + self.in_service.len()) as u64
    }

    /// The counters since the start or the last [`Disk::reset_counters`].
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        if !self.in_service.is_empty() {
            let running_ns = self.clock_ns.saturating_sub(self.busy_since_ns);
            counters.busy_ns = counters.busy_ns.saturating_add(running_ns);
        }
        counters
    }

    /// Counts from nothing again. Requests that are with the disk count for the depth of its queue
    /// and, from now on, for its busy time, but not as requests.
    pub fn reset_counters(&mut self) {
        self.counters = Counters {
            queue_depth_max: self.queue_depth(),
            ..Counters::default()
        };
        self.busy_since_ns = self.clock_ns;
    }

    fn count_arrival(&mut self, request: &Request) {
        let depth = self.queue_depth();
        let counters = &mut self.counters;
        counters.requests += 1;
        counters.bytes = counters.bytes.saturating_add(request.length_bytes);
        if request.write {
            counters.write_requests += 1;
            counters.write_bytes = counters.write_bytes.saturating_add(request.length_bytes);
        }
        counters.queue_depth_max = counters.queue_depth_max.max(depth);
    }

    fn run_until(&mut self, now_ns: u64) {
        loop {
            self.start_what_can_start();
            match self.next_internal_ns() {
                Some(event_ns) if event_ns <= now_ns.max(self.clock_ns) => {
                    self.clock_ns = self.clock_ns.max(event_ns);
                    self.finish_what_is_done();
                }
                _ => break,
            }
        }
        self.clock_ns = self.clock_ns.max(now_ns);
    }

    fn next_internal_ns(&self) -> Option<u64> {
        let done = self.in_service.keys().next().map(|key| key.0);
        let start = (!self.by_arrival.is_empty() && self.has_free_slot())
            .then_some(self.start_allowed_ns.max(self.clock_ns));
        match (done, start) {
            (Some(done), Some(start)) => Some(done.min(start)),
            (done, start) => done.or(start),
        }
    }

    fn has_free_slot(&self) -> bool {
        (self.in_service.len() as u64) < self.parameters.served_at_once()
    }

    fn start_what_can_start(&mut self) {
        while self.has_free_slot() && self.clock_ns >= self.start_allowed_ns {
            let Some(sequence) = self.pick() else { break };
            let Some(queued) = self.by_arrival.remove(&sequence) else {
                break;
            };
            self.by_offset
                .remove(&(queued.request.offset_bytes, sequence));
            if self.in_service.is_empty() {
                self.busy_since_ns = self.clock_ns;
            }
            let (until_ns, stage) = self.serve(&queued.request);
            self.in_service.insert(
                (until_ns, sequence),
                InService {
                    id: queued.request.id,
                    arrived_ns: queued.arrived_ns,
                    started_ns: self.clock_ns,
                    stage,
                },
            );
        }
    }

    fn finish_what_is_done(&mut self) {
        while let Some(entry) = self.in_service.first_entry() {
            let (done_ns, sequence) = *entry.key();
            if done_ns > self.clock_ns {
                break;
            }
            let served = entry.remove();
            if let Stage::Coming { transfer_ns } = served.stage {
                let stage = Stage::Last;
                self.pipe_free_ns = done_ns.max(self.pipe_free_ns).saturating_add(transfer_ns);
                let key = (self.pipe_free_ns, sequence);
                self.in_service.insert(key, InService { stage, ..served });
                continue;
            }
            let InService {
                id,
                arrived_ns,
                started_ns,
                ..
            } = served;
            self.finished.push(Completion {
                id,
                arrived_ns,
                started_ns,
                done_ns,
            });
            if self.in_service.is_empty() {
                let busy_ns = done_ns.saturating_sub(self.busy_since_ns);
                self.counters.busy_ns = self.counters.busy_ns.saturating_add(busy_ns);
            }
        }
    }

    /// The waiting request to serve next.
    fn pick(&self) -> Option<u64> {
        match self.parameters.model {
            DiskModel::Head => self.nearest(),
            DiskModel::Parallel | DiskModel::Instant => self.by_arrival.keys().next().copied(),
        }
    }

    /// The waiting request that starts nearest to the head; of two as near, the one that came
    /// first.
    fn nearest(&self) -> Option<u64> {
        let above = self.by_offset.range((self.head_bytes, 0)..).next().copied();
        let below = self.by_offset.range(..(self.head_bytes, 0)).next_back();
        // The range ends with the latest request at that offset; the earliest is wanted.
        let below = below.and_then(|key| self.by_offset.range((key.0, 0)..).next().copied());
        match (below, above) {
            (Some(below), Some(above)) => {
                let down = (self.head_bytes - below.0, below.1);
                let up = (above.0 - self.head_bytes, above.1);
                Some(down.min(up).1)
            }
            (below, above) => below.or(above).map(|key| key.1),
        }
    }

    /// Takes a request into service now. Returns when the first part of that ends, and which it is.
    fn serve(&mut self, request: &Request) -> (u64, Stage) {
        let is_fetched = FirstTouches::are_modelled(&self.parameters);
        let done_ns = match self.parameters.model {
            DiskModel::Head => {
                let position_ns = self.position_head(request.offset_bytes);
                self.head_bytes = request.offset_bytes.saturating_add(request.length_bytes);
                self.clock_ns
                    .saturating_add(position_ns)
                    .saturating_add(self.transfer_ns(request.length_bytes))
            }
            DiskModel::Parallel => {
                let pace_ns = interval_ns(self.parameters.rate_requests_per_s);
                self.start_allowed_ns = self.clock_ns.saturating_add(pace_ns);
                let ready_ns = self.clock_ns.saturating_add(self.parameters.latency_ns);
                let transfer_ns = self.transfer_ns(request.length_bytes);
                if is_fetched {
                    let there_ns = self.touch(request);
                    return (ready_ns.max(there_ns), Stage::Coming { transfer_ns });
                }
                // All take as long until they are ready, so that they come to the pipe in the order
                // of their starts: no event is needed for that.
                self.pipe_free_ns = ready_ns.max(self.pipe_free_ns).saturating_add(transfer_ns);
                self.pipe_free_ns
            }
            DiskModel::Instant => self.clock_ns,
        };
        (done_ns, Stage::Last)
    }

    /// Returns when the blocks of a request are with the disk.
    fn touch(&mut self, request: &Request) -> u64 {
        let (there_ns, fetched) = self.touches.touch(
            &self.parameters,
            self.clock_ns,
            request.offset_bytes,
            request.length_bytes,
        );
        self.counters.first_touches += fetched;
        there_ns
    }

    /// Moves the head to `offset_bytes`; returns how long that takes.
    fn position_head(&mut self, offset_bytes: u64) -> u64 {
        let parameters = &self.parameters;
        if let Some(gap_bytes) = offset_bytes.checked_sub(self.head_bytes) {
            if gap_bytes == 0 {
                return 0;
            }
            if gap_bytes < parameters.gap_limit_bytes {
                self.counters.gaps += 1;
                return self
                    .transfer_ns(gap_bytes)
                    .saturating_add(parameters.gap_ns);
            }
        }
        self.counters.seeks += 1;
        let distance_bytes = offset_bytes.abs_diff(self.head_bytes);
        seek_span_ns(
            parameters.seek_span_ns,
            distance_bytes,
            parameters.capacity_bytes,
        )
        .saturating_add(parameters.seek_min_ns)
        .saturating_add(parameters.half_turn_ns)
    }

    fn transfer_ns(&self, bytes: u64) -> u64 {
        let by_bandwidth = || transfer_ns(bytes, self.parameters.bandwidth_bytes_per_s);
        self.parameters
            .transfer_times
            .ns(bytes)
            .unwrap_or_else(by_bandwidth)
    }
}
