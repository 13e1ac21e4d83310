// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads of a trace: they make the recorded accesses, think as long in between, and begin and
//! wait for each other as recorded.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use foreread_core::policy::{Access as Asked, Advice, Limits};
use foreread_trace::{Access, Events, Flags, Kind};

use super::opened::Pass;
use super::pattern::Request;
use super::running::Running;
use super::{Event, Simulation};
use crate::cache::StreamId;
use crate::path::{FaultCall, GivenCall, Mapping, OpenFile, PAGE_BYTES, ReadCall, fetch, force};
use crate::trace::{Feed, Item, Next, Start, Survey, What};

/// Open files that are kept; a trace need not say when one is closed. One that is dropped and read
/// again is as if opened again.
const OPEN_MAX: usize = 1 << 16;
/// All threads of a trace have their open files in one table, as some share them.
pub(super) const TABLE: usize = 0;

/// A thread of the trace.
#[derive(Clone, Debug, Default)]
struct Thread {
    /// Its next action, which follows after it has thought or another thread has ended.
    next: Option<Item>,
    /// When its thinking is over; `None` until that is known.
    ready_ns: Option<u64>,
    /// Time at which its last action ended, in nanoseconds.
    last_ns: Option<u64>,
    accesses: u64,
    /// Threads that begin after a number of its accesses, and a time in nanoseconds; the latest
    /// first.
    starts: Vec<(u64, u64, u32)>,
    exited_ns: Option<u64>,
    /// Threads that wait for its end.
    waiters: Vec<usize>,
}

/// A trace that is played.
#[derive(Debug)]
pub(super) struct Replay {
    feed: Feed,
    threads: Vec<Thread>,
    /// Threads that wait until others have read on.
    held_back: Vec<usize>,
    /// By program and file.
    streams: BTreeMap<(usize, usize), StreamId>,
    /// Open files in the order of their opening, some closed by now.
    order: VecDeque<Pass>,
    /// Number of threads that are in a call on an open file.
    busy: BTreeMap<Pass, u32>,
    /// By open file: pages that are mapped to be executed.
    text: BTreeMap<Pass, Vec<Range<u64>>>,
    survey: Arc<Survey>,
}

/// When a thread goes on.
enum Ready {
    At(u64),
    /// When it is woken.
    Later,
}

impl Replay {
    pub fn new(events: Box<dyn Events>, survey: &Arc<Survey>) -> Self {
        let mut threads: Vec<Thread> = survey.starts().map(|_| Thread::default()).collect();
        for (number, start) in (0..).zip(survey.starts()) {
            if let Start::After {
                parent,
                accesses,
                gap_ns,
            } = start
            {
                let starts = &mut threads[parent as usize].starts;
                starts.push((accesses, gap_ns, number));
            }
        }
        for thread in &mut threads {
            thread.starts.sort_unstable_by(|one, other| other.cmp(one));
        }
        Self {
            feed: Feed::new(events, Arc::clone(survey)),
            threads,
            held_back: Vec::new(),
            streams: BTreeMap::new(),
            order: VecDeque::new(),
            busy: BTreeMap::new(),
            text: BTreeMap::new(),
            survey: Arc::clone(survey),
        }
    }

    /// Threads that begin at a time of their own.
    pub fn first_starts(&self) -> Vec<(usize, u64)> {
        let starts = self.survey.starts().enumerate();
        let at = starts.filter_map(|(number, start)| match start {
            Start::At(at_ns) => Some((number, at_ns)),
            Start::After { .. } => None,
        });
        at.collect()
    }

    pub fn take_error(&mut self) -> Option<foreread_trace::ReadError> {
        self.feed.take_error()
    }

    /// The next access of any thread that was not examined yet: the thread, the number of its
    /// earlier accesses that use pages, and the access. `None` if there is none, or none near
    /// enough.
    pub fn look_ahead(&mut self) -> Option<(usize, u64, Access)> {
        self.feed.look_ahead()
    }

    /// Keeps accesses for the look-ahead from now on.
    pub fn keep_unseen(&mut self) {
        self.feed.keep_unseen();
    }

    /// The number of a file of the trace.
    pub fn file_number(&self, access: &Access) -> Option<usize> {
        self.survey.file_number(access.file)
    }

    /// When the thread is ready for its next step, which is there.
    fn ready(&mut self, number: usize, time_ns: u64) -> Ready {
        let thread = &self.threads[number];
        let Some(item) = &thread.next else {
            return Ready::At(time_ns);
        };
        if let Some(ready_ns) = thread.ready_ns {
            return Ready::At(ready_ns);
        }
        let last_ns = thread.last_ns.unwrap_or(time_ns);
        let mut ready_ns = match item.after_ends.is_empty() {
            true => last_ns.saturating_add(item.think_ns),
            false => last_ns,
        };
        for (child, gap_ns) in item.after_ends.clone() {
            let child = &mut self.threads[child as usize];
            let Some(exited_ns) = child.exited_ns else {
                child.waiters.push(number);
                return Ready::Later;
            };
            ready_ns = ready_ns.max(exited_ns.saturating_add(gap_ns));
        }
        self.threads[number].ready_ns = Some(ready_ns);
        Ready::At(ready_ns)
    }

    /// The mapping of a fault, as far as it is known.
    fn mapping(&self, key: Pass, page: u64, flags: Flags, file_pages: u64) -> Mapping {
        let maps = self.text.get(&key).filter(|_| flags.contains(Flags::EXEC));
        let text = maps.and_then(|maps| maps.iter().find(|map| map.contains(&page)));
        let pages = text.cloned().unwrap_or(0..file_pages);
        Mapping::new(pages, vma_flags(flags))
    }

    fn forget(&mut self, key: Pass) {
        self.text.remove(&key);
    }

    fn open_key(number: usize, file: usize, access: &Access) -> Pass {
        match access.stream {
            // The source does not tell open files apart: a thread has one of each file.
            0 => (file, (1 << 32) | number as u64),
            stream => (file, stream.into()),
        }
    }
}

impl Simulation {
    /// The next call of a thread of a trace begins; `false` when it thinks, waits, or has ended.
    pub(super) fn begin_traced(&mut self, number: usize, mut time_ns: u64) -> bool {
        loop {
            let Some(replay) = &mut self.replay else {
                return false;
            };
            if replay.threads[number].next.is_none() {
                match replay.feed.next(number) {
                    Next::Item(item) => replay.threads[number].next = Some(item),
                    Next::Full => {
                        replay.held_back.push(number);
                        return false;
                    }
                    Next::Ended => {
                        self.exit(number, time_ns);
                        self.end_process(number, time_ns);
                        return false;
                    }
                }
                self.let_go_on();
            }
            let Some(item) = self.when_ready(number, &mut time_ns) else {
                return false;
            };
            self.now_ns = time_ns;
            self.processes[number].started_ns.get_or_insert(time_ns);
            match item.what {
                What::End => self.exit(number, time_ns),
                What::Access(access, busy_ns) => {
                    self.oracle_begins_traced(number, &access);
                    if self.do_access(number, time_ns, &access, busy_ns) {
                        return true;
                    }
                    time_ns = self.cpus.run(time_ns, busy_ns);
                    self.access_done(number, time_ns);
                }
            }
        }
    }

    /// The step that a thread is ready for, if nothing comes first; with the time.
    fn when_ready(&mut self, number: usize, time_ns: &mut u64) -> Option<Item> {
        let replay = self.replay.as_mut()?;
        let Ready::At(ready_ns) = replay.ready(number, *time_ns) else {
            return None;
        };
        *time_ns = ready_ns.max(*time_ns);
        if self.is_overtaken(*time_ns) {
            self.schedule(*time_ns, Event::Run(number));
            return None;
        }
        let thread = &mut self.replay.as_mut()?.threads[number];
        thread.ready_ns = None;
        thread.next.take()
    }

    /// Those who were too far ahead go on when there is room again.
    fn let_go_on(&mut self) {
        let Some(replay) = &mut self.replay else {
            return;
        };
        if replay.held_back.is_empty() || !replay.feed.has_room() {
            return;
        }
        for number in std::mem::take(&mut replay.held_back) {
            self.schedule(self.now_ns, Event::Run(number));
        }
    }

    /// A thread ends: threads that wait for its end go on.
    fn exit(&mut self, number: usize, time_ns: u64) {
        let Some(replay) = &mut self.replay else {
            return;
        };
        let thread = &mut replay.threads[number];
        thread.last_ns = Some(time_ns);
        thread.exited_ns.get_or_insert(time_ns);
        for waiter in std::mem::take(&mut thread.waiters) {
            self.schedule(time_ns, Event::Run(waiter));
        }
    }

    /// An access has ended: threads may begin after it.
    fn access_done(&mut self, number: usize, time_ns: u64) {
        let Some(replay) = &mut self.replay else {
            return;
        };
        let thread = &mut replay.threads[number];
        thread.last_ns = Some(time_ns);
        thread.accesses += 1;
        let mut begin = Vec::new();
        while let Some((accesses, gap_ns, child)) = thread.starts.last().copied() {
            if accesses > thread.accesses {
                break;
            }
            thread.starts.pop();
            begin.push((time_ns.saturating_add(gap_ns), child));
        }
        for (at_ns, child) in begin {
            self.schedule(at_ns, Event::Run(child as usize));
        }
    }

    /// Carries out an access. Returns whether it is a call that may have to wait.
    fn do_access(&mut self, number: usize, time_ns: u64, access: &Access, busy_ns: u64) -> bool {
        let survey = self.replay.as_ref().map(|replay| &replay.survey);
        let Some(file) = survey.and_then(|survey| survey.file_number(access.file)) else {
            return false;
        };
        let key = Replay::open_key(number, file, access);
        let is_busy = |replay: &Replay| replay.busy.contains_key(&key);
        let is_free = !self.replay.as_ref().is_some_and(is_busy);
        if matches!(access.kind, Kind::Open | Kind::Close) && access.stream > 0 && is_free {
            self.opened[TABLE].remove(key);
            if let Some(replay) = &mut self.replay {
                replay.forget(key);
            }
        }
        if access.kind == Kind::Close {
            return false;
        }
        self.open_traced(number, key);
        let start = access.offset_bytes / PAGE_BYTES;
        let end = access.end_bytes().div_ceil(PAGE_BYTES);
        self.io.now_ns = time_ns;
        self.io.process = number as u32;
        self.io.call = self.calls;
        let is_metadata = |replay: &Replay| replay.survey.files[file].metadata;
        let is_metadata = self.replay.as_ref().is_some_and(is_metadata);
        let Some(open) = self.opened[TABLE].get_mut(key) else {
            return false;
        };
        match access.kind {
            Kind::Readahead if is_metadata => {
                fetch(&mut self.cache, open, start..end, false, &mut self.io);
                self.look_at_disks();
            }
            Kind::Read | Kind::Fault | Kind::MapAround => {
                self.call(number, time_ns, key, access, busy_ns, is_metadata);
                return true;
            }
            Kind::Readahead => {
                let end = end.min(open.limits.file_pages);
                let pages = end.saturating_sub(start);
                force(&mut self.cache, open, start, pages, &mut self.io);
                self.look_at_disks();
            }
            Kind::AdviseNormal => open.advise(Advice::Normal),
            Kind::AdviseSequential => open.advise(Advice::Sequential),
            Kind::AdviseRandom => open.advise(Advice::Random),
            Kind::AdviseDontNeed => {
                // 0 is to the end of the file; a page at its end that is only in part meant stays.
                let end = match access.length_bytes {
                    0 => open.limits.file_pages,
                    _ => access.end_bytes() / PAGE_BYTES,
                };
                let start = access.offset_bytes.div_ceil(PAGE_BYTES);
                self.cache.drop_pages(self.files[file], start, end);
            }
            Kind::Map => {
                if let Some(replay) = &mut self.replay {
                    replay.text.entry(key).or_default().push(start..end);
                }
            }
            Kind::Open | Kind::Close => {}
        }
        false
    }

    fn call(
        &mut self,
        number: usize,
        time_ns: u64,
        key: Pass,
        access: &Access,
        busy_ns: u64,
        is_metadata: bool,
    ) {
        let Some(open) = self.opened[TABLE].get_mut(key) else {
            return;
        };
        let flags = access.flags;
        let start = access.offset_bytes / PAGE_BYTES;
        let end = access.end_bytes().div_ceil(PAGE_BYTES);
        let running = if is_metadata {
            Running::Given(GivenCall::new(start..end))
        } else if access.kind == Kind::Read {
            advise(open, flags);
            Running::Read(ReadCall::new(
                open,
                access.offset_bytes,
                access.length_bytes,
            ))
        } else {
            let file_pages = open.limits.file_pages;
            let Some(replay) = &self.replay else {
                return;
            };
            let mapping = replay.mapping(key, start, flags, file_pages);
            Running::Fault(match access.kind {
                Kind::MapAround => FaultCall::around(open, start..end, mapping, &self.cache),
                _ => FaultCall::new(open, start..end, mapping),
            })
        };
        // A read returns the bytes up to the end of the file.
        let end_bytes = access.end_bytes().min(open.file_bytes);
        let request = Request {
            file: key.0,
            round: key.1,
            offset_bytes: access.offset_bytes,
            bytes: end_bytes.saturating_sub(access.offset_bytes),
            opens: false,
        };
        self.calls += 1;
        let call = self.calls;
        self.processes[number].start_call(running, request, call, time_ns, busy_ns);
        if let Some(replay) = &mut self.replay {
            *replay.busy.entry(key).or_default() += 1;
        }
    }

    /// A call of a thread of a trace has returned.
    pub(super) fn call_done(&mut self, number: usize, time_ns: u64) {
        let key = self.processes[number].pass();
        let busy = self.replay.as_mut().map(|replay| &mut replay.busy);
        if let (Some(key), Some(busy)) = (key, busy)
            && let Some(threads) = busy.get_mut(&key)
        {
            *threads -= 1;
            if *threads == 0 {
                busy.remove(&key);
            }
        }
        self.access_done(number, time_ns);
    }

    /// A thread uses an open file, and opens it if it isn't open.
    fn open_traced(&mut self, number: usize, key: Pass) {
        let file = key.0;
        if self.opened[TABLE].get(key).is_none() {
            let stream = self.traced_stream(self.processes[number].program, file);
            let limits = Limits {
                file_pages: self.setup.files[file].bytes.div_ceil(PAGE_BYTES),
                ..self.setup.limits
            };
            let mut open = OpenFile::new(self.files[file], stream, self.setup.policy, limits);
            open.file_bytes = self.setup.files[file].bytes;
            open.begin_at(&self.cache);
            self.opened[TABLE].insert(key, open);
            self.close_oldest(key);
        }
        let stream = self.opened[TABLE].get(key).map(|open| open.stream);
        self.processes[number].come_to(stream.map(|stream| (key, stream)));
    }

    pub(super) fn traced_stream(&mut self, program: usize, file: usize) -> StreamId {
        let streams = self.replay.as_ref().map(|replay| &replay.streams);
        let known = streams.and_then(|streams| streams.get(&(program, file)).copied());
        known.unwrap_or_else(|| {
            let stream = self.new_stream(Some(program), file);
            if let Some(replay) = &mut self.replay {
                replay.streams.insert((program, file), stream);
            }
            stream
        })
    }

    fn close_oldest(&mut self, opened: Pass) {
        let Some(replay) = &mut self.replay else {
            return;
        };
        replay.order.push_back(opened);
        if replay.order.len() <= OPEN_MAX {
            return;
        }
        if let Some(oldest) = replay.order.pop_front() {
            if replay.busy.contains_key(&oldest) || oldest == opened {
                replay.order.push_back(oldest);
            } else {
                self.opened[TABLE].remove(oldest);
                replay.forget(oldest);
            }
        }
    }
}

/// A stream that was advised before, which the trace says with each access.
fn advise(open: &mut OpenFile, flags: Flags) {
    let advice = if flags.contains(Flags::RANDOM) {
        Advice::Random
    } else if flags.contains(Flags::SEQUENTIAL) {
        Advice::Sequential
    } else {
        return;
    };
    if open.advised != Some(advice) {
        open.advise(advice);
    }
}

fn vma_flags(flags: Flags) -> u16 {
    let known = [
        (Flags::SEQUENTIAL, Asked::VMA_SEQUENTIAL),
        (Flags::RANDOM, Asked::VMA_RANDOM),
        (Flags::EXEC, Asked::VMA_EXEC),
    ];
    let set = known.iter().filter(|(flag, _)| flags.contains(*flag));
    set.fold(0, |all, (_, flag)| all | flag)
}
