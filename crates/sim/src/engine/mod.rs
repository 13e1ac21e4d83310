// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs, page cache and disks in virtual time.
//!
//! Events are ordered by time and, at one time, by the order in which they were made. A program
//! runs until it waits, thinks, or another event comes first. Nothing else decides an order, so a
//! setup always gives the same result.

mod cpus;
mod explain;
mod foresight;
mod io;
mod opened;
mod oracle;
mod outcome;
mod pattern;
mod program;
mod running;
mod setup;
mod share;
mod stats;
mod traced;
mod windows;

pub use explain::{Call, Explained, Explanation, Keep, RequestSeen};
pub use foresight::{Foresight, Turns};
pub use outcome::{Outcome, ProgramOutcome, StreamOutcome};
pub use pattern::{Request, Requests};
pub use setup::{Advice, Cached, FileSetup, Pattern, Phase, ProgramSetup, Setup, Through};
pub use stats::Stats;
pub use windows::{Arrival, Part, WindowSeen};

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use foreread_trace::{Events, ReadError};

use foreread_core::policy::{Budget, Device, Done as RequestDone};

use crate::block::{BlockQueue, Done};
use crate::cache::{FileId, FolioId, PageCache, StreamId};
use crate::path::PAGE_BYTES;
use crate::trace::Survey;
use cpus::Cpus;
use explain::Watch;
use io::Io;
use opened::Opened;
use oracle::Oracle;
use program::Process;
use traced::Replay;

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Disk(usize),
    Run(usize),
}

/// A run in progress.
#[derive(Debug)]
pub struct Simulation {
    setup: Setup,
    cache: PageCache,
    files: Vec<FileId>,
    io: Io,
    /// All threads of all programs.
    processes: Vec<Process>,
    /// Threads that have not ended.
    unfinished: usize,
    /// The trace that threads follow, if they do.
    replay: Option<Replay>,
    /// The oracle, where it reads ahead in place of a policy.
    oracle: Option<Oracle>,
    /// By program: where its threads start in `processes`.
    first_threads: Vec<usize>,
    /// By program.
    opened: Vec<Opened>,
    /// By number of the stream: its program, if any, and its file.
    streams: Vec<(Option<usize>, usize)>,
    cpus: Cpus,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    now_ns: u64,
    /// By disk: when it is looked at next.
    disk_event_ns: Vec<u64>,
    /// Programs that wait for a folio.
    waiters: BTreeMap<FolioId, Vec<usize>>,
    calls: u64,
    done: Vec<Done>,
    awaited: Vec<FolioId>,
}

impl Simulation {
    /// A machine on which nothing has happened yet.
    #[must_use]
    pub fn new(setup: Setup, keep: Keep) -> Self {
        Self::following(setup, keep, None)
    }

    /// A machine whose programs play a trace. The setup is of that trace, and so are the events,
    /// from its beginning on.
    #[must_use]
    pub fn of_trace(
        setup: Setup,
        keep: Keep,
        survey: &Arc<Survey>,
        events: Box<dyn Events>,
    ) -> Self {
        Self::following(setup, keep, Some(Replay::new(events, survey)))
    }

    fn following(setup: Setup, keep: Keep, mut replay: Option<Replay>) -> Self {
        let mut cache = PageCache::new(setup.memory_pages);
        if keep.windows {
            cache.keep_fates();
        }
        let files = setup.files.iter().map(|_| cache.add_file()).collect();
        let queue = |_| BlockQueue::new(setup.queue.clone(), setup.disk.clone());
        let disks: Vec<BlockQueue> = (0..setup.disks.max(1)).map(queue).collect();
        let oracle = Oracle::of(&setup, replay.is_some());
        if let (Some(_), Some(replay)) = (&oracle, &mut replay) {
            replay.keep_unseen();
        }
        let mut simulation = Self {
            oracle,
            disk_event_ns: vec![u64::MAX; disks.len()],
            io: Io {
                now_ns: 0,
                process: 0,
                call: 0,
                devices: vec![Device::default(); disks.len()],
                streams: setup
                    .policy
                    .remembers()
                    .then(|| vec![None; setup.files.len()]),
                budget: Budget::default(),
                disks,
                makes_room: false,
                kept: VecDeque::new(),
                files: setup.files.clone(),
                stats: Vec::new(),
                watch: Watch::new(keep),
                touched: Vec::new(),
            },
            processes: Vec::new(),
            unfinished: 0,
            replay,
            first_threads: Vec::new(),
            opened: vec![Opened::default(); setup.programs.len().max(1)],
            streams: Vec::new(),
            cpus: Cpus::new(setup.cpus),
            events: BinaryHeap::new(),
            sequence: 0,
            now_ns: 0,
            waiters: BTreeMap::new(),
            calls: 0,
            done: Vec::new(),
            awaited: Vec::new(),
            cache,
            files,
            setup,
        };
        simulation.start();
        for file in 0..simulation.files.len() {
            simulation.fill_cache(file);
        }
        simulation
    }

    /// Each thread of each program is to run from its start on.
    fn start(&mut self) {
        for program in 0..self.setup.programs.len() {
            self.first_threads.push(self.processes.len());
            for thread in 0..self.setup.programs[program].threads.max(1) {
                let setup = &self.setup.programs[program];
                let process = Process::new(program, setup, thread);
                let start_ns = setup.start_ns;
                if self.replay.is_none() {
                    self.schedule(start_ns, Event::Run(self.processes.len()));
                }
                self.processes.push(process);
            }
        }
        self.unfinished = self.processes.len();
        let starts = self.replay.as_ref().map(Replay::first_starts);
        for (number, start_ns) in starts.unwrap_or_default() {
            self.schedule(start_ns, Event::Run(number));
        }
    }

    /// Fills the cache with the pages of a file that are cached before anything runs. They belong
    /// to no stream.
    fn fill_cache(&mut self, file: usize) {
        let setup = &self.setup.files[file];
        let Some(cached) = setup.cached else {
            return;
        };
        let file_pages = setup.bytes.div_ceil(PAGE_BYTES);
        let stream = self.new_stream(None, file);
        for run in cached.runs(file_pages) {
            self.cache
                .warm(self.files[file], stream, run, cached.is_active);
        }
    }

    /// The threads of a program, in `processes`.
    fn threads_of(&self, program: usize) -> Range<usize> {
        let end = self.first_threads.get(program + 1).copied();
        self.first_threads[program]..end.unwrap_or(self.processes.len())
    }

    /// Runs until the last program has ended, or until [`Setup::until_ns`]. What was asked of the
    /// disks and is not needed any more is in flight then.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        while self.unfinished > 0 && self.step() {}
        self.outcome()
    }

    /// As [`Simulation::run`], of a trace.
    ///
    /// # Errors
    /// [`ReadError`] when the trace could not be read to its end.
    pub fn run_trace(mut self) -> Result<Outcome, ReadError> {
        while self.unfinished > 0 && self.step() {}
        match self.replay.as_mut().and_then(Replay::take_error) {
            Some(error) => Err(error),
            None => Ok(self.outcome()),
        }
    }

    /// Lets the next event happen; `false` when there is none, or none in time. Goes on after the
    /// last program, until the disks are idle.
    pub fn step(&mut self) -> bool {
        let Some(Reverse((time_ns, _, event))) = self.events.pop() else {
            return false;
        };
        if self.setup.until_ns.is_some_and(|until| time_ns > until) {
            self.now_ns = self.setup.until_ns.unwrap_or(time_ns);
            self.events.clear();
            return false;
        }
        self.now_ns = time_ns;
        match event {
            Event::Disk(disk) => self.disk_event(disk),
            Event::Run(number) => self.run_process(number),
        }
        !self.events.is_empty()
    }

    /// The virtual time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The page cache, as it is now.
    #[must_use]
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    fn schedule(&mut self, time_ns: u64, event: Event) {
        self.events.push(Reverse((time_ns, self.sequence, event)));
        self.sequence += 1;
    }

    /// Whether something else comes before `time_ns`.
    fn is_overtaken(&self, time_ns: u64) -> bool {
        let next = self.events.peek();
        next.is_some_and(|Reverse((event_ns, _, _))| *event_ns < time_ns)
    }

    fn disk_event(&mut self, disk: usize) {
        if self.disk_event_ns[disk] <= self.now_ns {
            self.disk_event_ns[disk] = u64::MAX;
        }
        let mut done = std::mem::take(&mut self.done);
        self.io.disks[disk].advance(self.now_ns, &mut done);
        if let Some(windows) = &mut self.io.watch.windows {
            // Pages that were read by advice, say, before they arrive.
            windows.met(self.now_ns, &self.cache.take_fates());
        }
        for request in done.drain(..) {
            let stats = self.io.stats_mut(request.stream);
            stats.requests += 1;
            stats.request_bytes += request.length_bytes;
            stats.seeks += u64::from(request.seeked);
            let pages = request.length_bytes / PAGE_BYTES;
            let took_ns = self.now_ns.saturating_sub(request.asked_ns);
            let left = !self.io.disks[disk].is_idle();
            self.io.watch.request_done(RequestSeen {
                asked_ns: request.asked_ns,
                done_ns: self.now_ns,
                disk,
                offset_bytes: request.offset_bytes,
                length_bytes: request.length_bytes,
            });
            let done = RequestDone::new(self.now_ns, took_ns, pages)
                .first(request.first)
                .left(left)
                .next(!request.seeked);
            self.io.devices[disk].done(&done);
            for piece in request.pieces {
                if let Some(windows) = &mut self.io.watch.windows {
                    windows.arrived(self.now_ns, piece.file, piece.pages.clone());
                }
                self.cache
                    .arrive(piece.file, piece.pages, &mut self.awaited);
            }
        }
        self.done = done;
        self.wake();
        self.io.touched.push(disk);
        self.foresee(self.now_ns);
        self.look_at_disks();
    }

    fn wake(&mut self) {
        let mut awaited = std::mem::take(&mut self.awaited);
        for folio in awaited.drain(..) {
            for number in self.waiters.remove(&folio).unwrap_or_default() {
                self.schedule(self.now_ns, Event::Run(number));
            }
        }
        self.awaited = awaited;
    }

    /// Disks that something was done to may have something to do earlier than before.
    fn look_at_disks(&mut self) {
        while let Some(disk) = self.io.touched.pop() {
            let Some(next_ns) = self.io.disks[disk].next_event_ns() else {
                continue;
            };
            if next_ns < self.disk_event_ns[disk] {
                self.disk_event_ns[disk] = next_ns;
                self.schedule(next_ns.max(self.now_ns), Event::Disk(disk));
            }
        }
    }

    fn new_stream(&mut self, program: Option<usize>, file: usize) -> StreamId {
        self.streams.push((program, file));
        self.io.stats.push(Stats::default());
        self.cache.add_stream()
    }
}
