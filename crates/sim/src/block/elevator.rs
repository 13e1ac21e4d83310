// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting requests: merging, and the choice of the next one.

use std::collections::BTreeMap;

use super::Pending;

/// In which order waiting requests go to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elevator {
    /// As they came (noop, none).
    Fifo,
    /// Upward from where the last one ended, then from the lowest again (deadline).
    Scan,
    /// A slice of time for each process in turn, during which the disk is kept for it even while
    /// it thinks (CFQ); upward within.
    Slices {
        /// Time for which a process has the disk (slice_sync).
        slice_ns: u64,
        /// Time for which the disk is kept idle for its next request (slice_idle).
        idle_ns: u64,
    },
}

/// The process that is served, and the end of its turn.
#[derive(Clone, Copy, Debug)]
struct Turn {
    process: u32,
    ends_ns: u64,
    /// Until when the disk is kept idle for it; set while it has nothing waiting.
    idle_until_ns: Option<u64>,
    with_disk: u64,
}

/// Waiting requests.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    elevator: Elevator,
    /// By order of arrival.
    requests: BTreeMap<u64, Pending>,
    sequence: u64,
    head_bytes: u64,
    turn: Option<Turn>,
}

impl Waiting {
    pub fn new(elevator: Elevator) -> Self {
        Self {
            elevator,
            requests: BTreeMap::new(),
            sequence: 0,
            head_bytes: 0,
            turn: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub fn len(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Adds a request. It is merged with a waiting one of the same process if the two touch on the
    /// disk and are together at most `bytes_max` long. Returns whether there is one request more.
    pub fn add(&mut self, request: Pending, bytes_max: u64) -> bool {
        let fits = |waiting: &&mut Pending| {
            waiting.length_bytes + request.length_bytes <= bytes_max
                && waiting.process == request.process
        };
        let end = request.offset_bytes + request.length_bytes;
        for waiting in self.requests.values_mut().filter(fits) {
            if waiting.offset_bytes + waiting.length_bytes == request.offset_bytes {
                waiting.length_bytes += request.length_bytes;
                waiting.pieces.extend(request.pieces);
                return false;
            }
            if waiting.offset_bytes == end {
                waiting.offset_bytes = request.offset_bytes;
                waiting.length_bytes += request.length_bytes;
                waiting.pieces.extend(request.pieces);
                return false;
            }
        }
        self.requests.insert(self.sequence, request);
        self.sequence += 1;
        true
    }

    /// A request of a process is done.
    pub fn completed(&mut self, now_ns: u64, process: u32) {
        let Elevator::Slices { idle_ns, .. } = self.elevator else {
            return;
        };
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.process == process) {
            turn.with_disk = turn.with_disk.saturating_sub(1);
            if turn.with_disk == 0 {
                turn.idle_until_ns = Some(now_ns.saturating_add(idle_ns));
            }
        }
    }

    /// When the disk has been kept idle long enough.
    pub fn timer_ns(&self) -> Option<u64> {
        let waits = !self.requests.is_empty();
        self.turn
            .filter(|_| waits)
            .and_then(|turn| turn.idle_until_ns)
    }

    /// Takes out the request that goes to the disk now.
    pub fn next(&mut self, now_ns: u64) -> Option<Pending> {
        let key = match self.elevator {
            Elevator::Fifo => self.requests.keys().next().copied(),
            Elevator::Scan => self.upward(|_| true),
            Elevator::Slices { slice_ns, .. } => self.in_turn(now_ns, slice_ns),
        }?;
        let request = self.requests.remove(&key)?;
        self.head_bytes = request.offset_bytes + request.length_bytes;
        if let Some(turn) = self
            .turn
            .as_mut()
            .filter(|turn| turn.process == request.process)
        {
            turn.with_disk += 1;
            turn.idle_until_ns = None;
        }
        Some(request)
    }

    fn upward(&self, wanted: impl Fn(&Pending) -> bool) -> Option<u64> {
        let candidates = self.requests.iter().filter(|(_, request)| wanted(request));
        let key = candidates.min_by_key(|(key, request)| {
            let is_behind = request.offset_bytes < self.head_bytes;
            (is_behind, request.offset_bytes, **key)
        });
        key.map(|(key, _)| *key)
    }

    /// The next request of the process whose turn it is, or `None` while the disk is kept for it
    /// (cfq_select_queue).
    fn in_turn(&mut self, now_ns: u64, slice_ns: u64) -> Option<u64> {
        if let Some(turn) = self.turn {
            let has_requests = self.requests.values().any(|r| r.process == turn.process);
            let is_over = now_ns >= turn.ends_ns;
            if has_requests && !is_over {
                return self.upward(|request| request.process == turn.process);
            }
            // Its requests come back before another process gets the disk.
            if turn.with_disk > 0 {
                return None;
            }
            if !is_over && turn.idle_until_ns.is_some_and(|until| now_ns < until) {
                return None;
            }
        }
        let after = self.turn.map_or(0, |turn| turn.process.wrapping_add(1));
        let process = self
            .requests
            .values()
            .map(|request| request.process)
            .min_by_key(|process| process.wrapping_sub(after))?;
        self.turn = Some(Turn {
            process,
            ends_ns: now_ns.saturating_add(slice_ns),
            idle_until_ns: None,
            with_disk: 0,
        });
        self.upward(|request| request.process == process)
    }
}
