// SPDX-License-Identifier: MIT OR Apache-2.0
//! A thread of a program that runs: opens files, reads, waits, thinks.

use std::collections::VecDeque;
use std::ops::Range;

use foreread_core::policy::Limits;

use super::explain::Call;
use super::opened::Pass;
use super::pattern::{Request, Requests};
use super::running::Running;
use super::setup::{ProgramSetup, Through};
use super::traced::{Replay, TABLE};
use super::{Event, Simulation};
use crate::cache::{FolioId, StreamId};
use crate::path::{Batch, FaultCall, Mapping, OpenFile, PAGE_BYTES, ReadCall, Step};

/// A thread of a program.
#[derive(Clone, Debug)]
pub(super) struct Process {
    /// The program, by number.
    pub program: usize,
    requests: Requests,
    /// Which of the program's open files it is at, and whose stream that is.
    at: Option<(Pass, StreamId)>,
    running: Option<Running>,
    request: Option<Request>,
    call: u64,
    call_start_ns: u64,
    call_stall_ns: u64,
    /// Time of the call besides waiting, of a trace.
    busy_ns: u64,
    room: Option<Room>,
    /// When a thread of a trace did something first.
    pub started_ns: Option<u64>,
    waiting_since_ns: Option<u64>,
    read_bytes: u64,
    ended_ns: Option<u64>,
}

/// A thread makes room for pages. The kernel does so for all pages of a window, and then asks a
/// disk for them. Until then the disk may be idle.
#[derive(Clone, Debug)]
struct Room {
    /// The next requests to a disk. There is room for the pages of the first batch when the thread
    /// runs next.
    batches: VecDeque<Batch>,
    /// The result of the thread's step, for when the disk was asked for all of them.
    step: Step,
}

impl Process {
    /// Thread `thread` of program `program`.
    pub fn new(program: usize, setup: &ProgramSetup, thread: u64) -> Self {
        Self {
            program,
            requests: Requests::new(setup.seed, thread),
            at: None,
            running: None,
            request: None,
            call: 0,
            call_start_ns: 0,
            call_stall_ns: 0,
            busy_ns: 0,
            room: None,
            started_ns: None,
            waiting_since_ns: None,
            read_bytes: 0,
            ended_ns: None,
        }
    }

    pub fn is_done(&self) -> bool {
        self.ended_ns.is_some()
    }

    pub fn ended_ns(&self) -> Option<u64> {
        self.ended_ns
    }

    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Since when it waits for a page.
    pub fn waiting_since_ns(&self) -> Option<u64> {
        self.waiting_since_ns
    }

    pub fn stream(&self) -> Option<StreamId> {
        self.at.map(|(_, stream)| stream)
    }

    /// The open file that it is at.
    pub fn pass(&self) -> Option<Pass> {
        self.at.map(|(pass, _)| pass)
    }

    /// It comes to another open file.
    pub fn come_to(&mut self, at: Option<(Pass, StreamId)>) {
        self.at = at;
    }

    /// The page that its call is at.
    pub fn index(&self) -> Option<u64> {
        Some(self.running.as_ref()?.index())
    }

    /// The pages of its call that it did not come to yet.
    pub fn rest(&self) -> Option<Range<u64>> {
        let end = self.request.as_ref()?.pages().end;
        Some(self.index()?..end)
    }

    /// A call begins.
    pub fn start_call(
        &mut self,
        running: Running,
        request: Request,
        call: u64,
        time_ns: u64,
        busy_ns: u64,
    ) {
        self.running = Some(running);
        self.request = Some(request);
        self.call = call;
        self.call_start_ns = time_ns;
        self.call_stall_ns = 0;
        self.busy_ns = busy_ns;
    }
}

impl Simulation {
    /// A thread runs until it waits, thinks, ends, or something else comes first.
    pub(super) fn run_process(&mut self, number: usize) {
        let mut time_ns = self.now_ns;
        self.stop_waiting(number);
        loop {
            let step = if let Some(room) = self.processes[number].room.take() {
                self.request(number, room, &mut time_ns)
            } else {
                if self.processes[number].running.is_none() && !self.begin(number, time_ns) {
                    break;
                }
                // A thread of a trace may have thought before.
                time_ns = time_ns.max(self.now_ns);
                self.oracle_covers(number, time_ns);
                let step = self.step_process(number, time_ns);
                self.oracle_comes_past(number);
                self.foresee(time_ns);
                self.look_at_disks();
                let batches = std::mem::take(&mut self.io.kept);
                self.make_room(number, Room { batches, step }, &mut time_ns)
            };
            let process = &mut self.processes[number];
            let program = &self.setup.programs[process.program];
            match step {
                Step::Wait(folio) => {
                    self.wait(number, folio, time_ns);
                    break;
                }
                Step::Again => {}
                Step::Used(pages) => {
                    let cpu_ns = pages.saturating_mul(program.cpu_per_page_ns);
                    time_ns = self.cpus.run(time_ns, cpu_ns);
                }
                Step::Done => {
                    let busy_ns = process.busy_ns;
                    let cpu_ns = program.cpu_per_call_ns.saturating_add(busy_ns);
                    time_ns = self.cpus.run(time_ns, cpu_ns);
                    time_ns = self.end_call(number, time_ns);
                }
            }
            if self.is_overtaken(time_ns) {
                self.schedule(time_ns, Event::Run(number));
                break;
            }
            self.now_ns = time_ns;
        }
    }

    /// Makes room for the pages of the next batch. Returns the result of the step if there is none.
    fn make_room(&mut self, number: usize, room: Room, time_ns: &mut u64) -> Step {
        let Some(batch) = room.batches.front() else {
            return room.step;
        };
        let process = &mut self.processes[number];
        let program = &self.setup.programs[process.program];
        let pages = batch.pages();
        let cpu_ns = pages.saturating_mul(program.cpu_per_fetched_page_ns);
        process.room = Some(room);
        *time_ns = self.cpus.run(*time_ns, cpu_ns);
        Step::Again
    }

    /// There is room for the pages of the first batch: the thread asks its disk for them.
    fn request(&mut self, number: usize, mut room: Room, time_ns: &mut u64) -> Step {
        self.act_as(number, *time_ns);
        if let Some(batch) = room.batches.pop_front() {
            self.io.request(batch);
        }
        self.look_at_disks();
        match self.make_room(number, room, time_ns) {
            // It may have arrived meanwhile.
            Step::Wait(folio) if self.cache.arrived(folio).is_some() => Step::Again,
            step => {
                if let (Step::Wait(_), Some(running)) = (step, &mut self.processes[number].running)
                {
                    running.wait_from(*time_ns);
                }
                step
            }
        }
    }

    /// The next call of a thread begins; `false` when there is none, or not yet.
    fn begin(&mut self, number: usize, time_ns: u64) -> bool {
        if self.replay.is_some() {
            return self.begin_traced(number, time_ns);
        }
        let begun = self.begin_request(number, time_ns);
        if !begun {
            self.end_process(number, time_ns);
        }
        begun
    }

    /// A thread has nothing more to do.
    pub(super) fn end_process(&mut self, number: usize, time_ns: u64) {
        let process = &mut self.processes[number];
        if process.ended_ns.replace(time_ns).is_none() {
            self.unfinished -= 1;
        }
    }

    fn begin_request(&mut self, number: usize, time_ns: u64) -> bool {
        let at = self.processes[number].program;
        let program = &self.setup.programs[at];
        let files = &self.setup.files;
        let size = |at: usize| program.file_bytes(files, at);
        let Some(request) = self.processes[number].requests.next(program, size) else {
            return false;
        };
        if request.opens || self.processes[number].at.is_none() {
            self.open(number, (request.file, request.round));
        }
        self.calls += 1;
        let program = &self.setup.programs[at];
        let process = &mut self.processes[number];
        let open = process.pass().and_then(|pass| self.opened[at].get(pass));
        let Some(open) = open else {
            return false;
        };
        let running = match program.through {
            Through::Read => {
                Running::Read(ReadCall::new(open, request.offset_bytes, request.bytes))
            }
            Through::Mapping(flags) => {
                let mapping = Mapping::new(0..open.limits.file_pages, flags);
                Running::Fault(FaultCall::new(open, request.pages(), mapping))
            }
        };
        process.start_call(running, request, self.calls, time_ns, 0);
        self.oracle_begins(number, &request, time_ns);
        true
    }

    /// A thread begins a pass through one of its program's files: the first one opens it.
    fn open(&mut self, number: usize, pass: Pass) {
        let at = self.processes[number].program;
        let program = &self.setup.programs[at];
        let Some(file) = program.files.get(pass.0).copied() else {
            return;
        };
        if self.opened[at].get(pass).is_none() {
            let limits = Limits {
                file_pages: self.setup.files[file].bytes.div_ceil(PAGE_BYTES),
                ..self.setup.limits
            };
            let advice = program.advice;
            let early = self
                .oracle
                .as_ref()
                .and_then(|oracle| oracle.stream(at, file));
            let known = self.opened[at].stream_of(pass.0).or(early);
            let stream = known.unwrap_or_else(|| self.new_stream(Some(at), file));
            let mut open = OpenFile::new(self.files[file], stream, self.setup.policy, limits);
            open.begin_at(&self.cache);
            if let Some(advice) = advice {
                open.advise(advice);
            }
            self.opened[at].insert(pass, open);
        }
        let stream = self.opened[at].get(pass).map(|open| open.stream);
        self.processes[number].at = stream.map(|stream| (pass, stream));
        let threads = self.processes[self.threads_of(at)].iter();
        let going_on = threads.filter(|thread| !thread.is_done());
        // A thread that has not begun has its first pass ahead.
        let first = going_on.map(|thread| thread.pass().unwrap_or_default());
        self.opened[at].close_before(first.min().unwrap_or(pass));
    }

    /// From now on, this thread is the one that decides and asks disks.
    fn act_as(&mut self, number: usize, time_ns: u64) {
        self.io.now_ns = time_ns;
        self.io.process = number as u32;
        self.io.call = self.processes[number].call;
    }

    fn step_process(&mut self, number: usize, time_ns: u64) -> Step {
        self.act_as(number, time_ns);
        let process = &mut self.processes[number];
        let opened = &mut self.opened[Self::table(&self.replay, process)];
        let open = process.pass().and_then(|pass| opened.get_mut(pass));
        let (Some(running), Some(open)) = (&mut process.running, open) else {
            return Step::Done;
        };
        let program = &self.setup.programs[process.program];
        self.io.makes_room = program.cpu_per_fetched_page_ns > 0;
        let step = running.step(&mut self.cache, open, &mut self.io);
        self.io.makes_room = false;
        if let Some(windows) = &mut self.io.watch.windows {
            windows.met(time_ns, &self.cache.take_fates());
        }
        step
    }

    /// Which table of open files a thread has: that of its program, or the one of a trace.
    fn table(replay: &Option<Replay>, process: &Process) -> usize {
        match replay {
            None => process.program,
            Some(_) => TABLE,
        }
    }

    fn wait(&mut self, number: usize, folio: FolioId, time_ns: u64) {
        let process = &mut self.processes[number];
        process.waiting_since_ns = Some(time_ns);
        let opened = &self.opened[Self::table(&self.replay, process)];
        if let Some(open) = process.pass().and_then(|pass| opened.get(pass)) {
            let disk = self.io.files[open.file.number()].disk;
            self.io.now_ns = time_ns;
            self.io.wait(disk);
        }
        self.waiters.entry(folio).or_default().push(number);
        self.look_at_disks();
    }

    fn stop_waiting(&mut self, number: usize) {
        let process = &mut self.processes[number];
        let Some(since_ns) = process.waiting_since_ns.take() else {
            return;
        };
        let stall_ns = self.now_ns.saturating_sub(since_ns);
        process.call_stall_ns += stall_ns;
        if let Some(stream) = process.stream() {
            self.io.stats_mut(stream).stall_ns += stall_ns;
        }
    }

    /// A call returns; when the program comes back.
    fn end_call(&mut self, number: usize, time_ns: u64) -> u64 {
        let process = &mut self.processes[number];
        process.running = None;
        let took_ns = time_ns.saturating_sub(process.call_start_ns);
        let request = process.request.take();
        let bytes = request.map_or(0, |request| request.bytes);
        process.read_bytes += bytes;
        let Some(stream) = process.stream() else {
            return time_ns;
        };
        let stats = self.io.stats_mut(stream);
        stats.calls += 1;
        stats.latencies.add(took_ns);
        if self.io.watch.wants_call(process.call) {
            self.io.watch.call_done(Call {
                call: process.call,
                stream,
                start_ns: process.call_start_ns,
                took_ns,
                stall_ns: process.call_stall_ns,
                offset_bytes: request.map_or(0, |request| request.offset_bytes),
                bytes,
            });
        }
        if self.replay.is_some() {
            self.call_done(number, time_ns);
            return time_ns;
        }
        let program = &self.setup.programs[process.program];
        let thought_ns = time_ns.saturating_add(program.think_ns);
        thought_ns.max(program.paced_ns(process.read_bytes))
    }
}
