// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layers between the page cache and a disk: plug, merge, elevator, queue depth.

mod elevator;
mod plug;

pub use elevator::Elevator;
pub use plug::{PlugRules, Unplug};

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use foreread_model::{Completion, Counters, Disk, DiskParameters, Request};

use crate::cache::{FileId, StreamId};
use elevator::Waiting;
use plug::Plug;

/// The process that submits pages which no program has requested yet.
pub const AHEAD: u32 = u32::MAX;

/// The rules of a disk's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRules {
    /// Time at which submitted requests go on.
    pub plug: PlugRules,
    /// The order of requests.
    pub elevator: Elevator,
    /// Requests with the disk at one time, at least 1.
    pub depth: u64,
    /// The largest request (`max_sectors_kb`), at least a page.
    pub request_bytes_max: u64,
    /// Time that the machine itself adds to each request: driver, interrupt, waking the waiting
    /// thread. The disk works meanwhile.
    pub host_ns: u64,
}

impl Default for QueueRules {
    /// Today's: on-stack plugs, order of arrival, 32 requests of at most 1280 KiB, a machine that
    /// takes no time.
    fn default() -> Self {
        Self {
            plug: PlugRules::OnStack,
            elevator: Elevator::Fifo,
            depth: 32,
            request_bytes_max: 1280 << 10,
            host_ns: 0,
        }
    }
}

/// A run of pages of a file, as a part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which file.
    pub file: FileId,
    /// Which pages.
    pub pages: Range<u64>,
}

/// Pages that are submitted at one time and lie next to each other on the disk.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Where it starts on the disk.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub length_bytes: u64,
    /// Which pages these are.
    pub piece: Piece,
    /// The stream that they are for.
    pub stream: StreamId,
    /// Which process submits it; the elevator may keep them apart.
    pub process: u32,
}

/// A request, waiting or with the disk.
#[derive(Clone, Debug)]
struct Pending {
    offset_bytes: u64,
    length_bytes: u64,
    pieces: Vec<Piece>,
    stream: StreamId,
    process: u32,
    asked_ns: u64,
    /// Whether there was no other when it came.
    came_alone: bool,
}

/// A request that is done.
#[derive(Clone, Debug)]
pub struct Done {
    /// The pages that arrived.
    pub pieces: Vec<Piece>,
    /// The stream that submitted its first part.
    pub stream: StreamId,
    /// Where it starts.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// Whether it did not start where the request before it on this disk ended.
    pub seeked: bool,
    /// When it was asked for.
    pub asked_ns: u64,
    /// Whether the disk had nothing to do then.
    pub first: bool,
}

/// A disk with its queue, event by event.
#[derive(Clone, Debug)]
pub struct BlockQueue {
    rules: QueueRules,
    plug: Plug,
    disk: Disk,
    waiting: Waiting,
    with_disk: HashMap<u64, (Pending, bool)>,
    /// Done by the disk, and when the machine is done with them.
    returning: VecDeque<(u64, Done)>,
    next_id: u64,
    /// Where the request that was dispatched last ends.
    last_end_bytes: Option<u64>,
    completions: Vec<Completion>,
    /// Requests of [`AHEAD`] that are not done, and their bytes.
    ahead_requests: u64,
    ahead_bytes: u64,
}

impl BlockQueue {
    /// An idle disk behind an empty queue.
    #[must_use]
    pub fn new(rules: QueueRules, disk: DiskParameters) -> Self {
        Self {
            plug: Plug::new(rules.plug),
            waiting: Waiting::new(rules.elevator),
            rules,
            disk: Disk::new(disk),
            with_disk: HashMap::new(),
            returning: VecDeque::new(),
            next_id: 0,
            last_end_bytes: None,
            completions: Vec::new(),
            ahead_requests: 0,
            ahead_bytes: 0,
        }
    }

    /// Counters of the disk.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.disk.counters()
    }

    /// Takes a submission at `now_ns`: cuts it at the largest request, merges it with waiting
    /// requests.
    pub fn submit(&mut self, now_ns: u64, submission: Submission) {
        self.add(now_ns, submission);
        self.dispatch(now_ns);
    }

    /// Takes several at one time, as under one plug: neighbours merge before the first of them
    /// goes to the disk.
    pub fn submit_together(&mut self, now_ns: u64, submissions: Vec<Submission>) {
        for submission in submissions {
            self.add(now_ns, submission);
        }
        self.dispatch(now_ns);
    }

    fn add(&mut self, now_ns: u64, submission: Submission) {
        let page_bytes = crate::path::PAGE_BYTES;
        let most = (self.rules.request_bytes_max / page_bytes).max(1) * page_bytes;
        let (mut at, end) = (0, submission.length_bytes);
        let first_page = submission.piece.pages.start;
        while at < end {
            let length = most.min(end - at);
            let from = first_page + at / page_bytes;
            let to =
                (first_page + (at + length).div_ceil(page_bytes)).min(submission.piece.pages.end);
            let request = Pending {
                offset_bytes: submission.offset_bytes + at,
                length_bytes: length,
                pieces: vec![Piece {
                    file: submission.piece.file,
                    pages: from..to,
                }],
                stream: submission.stream,
                process: submission.process,
                asked_ns: now_ns,
                came_alone: self.is_idle(),
            };
            at += length;
            let was_empty = self.waiting.is_empty();
            let is_new = self.waiting.add(request, most);
            if submission.process == AHEAD {
                self.ahead_requests += u64::from(is_new);
                self.ahead_bytes = self.ahead_bytes.saturating_add(length);
            }
            self.plug.added(now_ns, was_empty, self.waiting.len());
        }
    }

    /// Requests of [`AHEAD`] that are not done, and their bytes.
    #[must_use]
    pub fn outstanding_ahead(&self) -> (u64, u64) {
        (self.ahead_requests, self.ahead_bytes)
    }

    /// A program waits for a page of this disk (sync_page), or asks for an unplug.
    pub fn unplug(&mut self, now_ns: u64) {
        self.plug.open();
        self.dispatch(now_ns);
    }

    /// When [`Unplug`] says that a readahead at a mark releases the queue.
    pub fn after_readahead(&mut self, now_ns: u64, reader_has_data: bool) {
        if self.plug.opens_after_readahead(reader_has_data) {
            self.unplug(now_ns);
        }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.with_disk.is_empty() && self.returning.is_empty()
    }

    /// When something happens here by itself.
    #[must_use]
    pub fn next_event_ns(&self) -> Option<u64> {
        let timers = [
            self.plug.timer_ns(),
            self.waiting.timer_ns(),
            self.disk.next_event_ns(),
            self.returning.front().map(|(due_ns, _)| *due_ns),
        ];
        timers.into_iter().flatten().min()
    }

    /// Lets time pass; requests that are done by then are added to `done`.
    pub fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        let mut completions = std::mem::take(&mut self.completions);
        self.disk.advance(now_ns, &mut completions);
        for completion in completions.drain(..) {
            if let Some((request, seeked)) = self.with_disk.remove(&completion.id) {
                self.waiting.completed(now_ns, request.process);
                if request.process == AHEAD {
                    self.ahead_requests = self.ahead_requests.saturating_sub(1);
                    self.ahead_bytes = self.ahead_bytes.saturating_sub(request.length_bytes);
                }
                let due_ns = completion.done_ns.saturating_add(self.rules.host_ns);
                let request = Done {
                    pieces: request.pieces,
                    stream: request.stream,
                    offset_bytes: request.offset_bytes,
                    length_bytes: request.length_bytes,
                    seeked,
                    asked_ns: request.asked_ns,
                    first: request.came_alone,
                };
                self.returning.push_back((due_ns, request));
            }
        }
        self.completions = completions;
        let is_due = |due_ns: u64| due_ns <= now_ns;
        while self
            .returning
            .front()
            .is_some_and(|(due_ns, _)| is_due(*due_ns))
        {
            done.extend(self.returning.pop_front().map(|(_, request)| request));
        }
        if self.plug.timer_ns().is_some_and(|timer| timer <= now_ns) {
            self.plug.open();
        }
        self.dispatch(now_ns);
    }

    fn dispatch(&mut self, now_ns: u64) {
        if self.plug.is_closed() {
            return;
        }
        while (self.with_disk.len() as u64) < self.rules.depth.max(1) {
            let Some(request) = self.waiting.next(now_ns) else {
                break;
            };
            let id = self.next_id;
            self.next_id += 1;
            self.disk.submit(
                now_ns,
                Request {
                    id,
                    offset_bytes: request.offset_bytes,
                    length_bytes: request.length_bytes,
                    write: false,
                },
            );
            let seeked = self.last_end_bytes != Some(request.offset_bytes);
            self.last_end_bytes = Some(request.offset_bytes + request.length_bytes);
            self.with_disk.insert(id, (request, seeked));
        }
    }
}
