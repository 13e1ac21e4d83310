// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first pass over a trace: everything that has to be known before accesses can stream.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foreread_trace::{
    Access, Event, Events, Extent, File, FileId, Flags, Known, ReadError, Source, Thread, ThreadId,
    TimeIs,
};

use super::lineage::{Ends, ancestor};
use super::span::Span;
use super::{ACCESS_BYTES_MAX, is_played};
use crate::path::PAGE_BYTES;

/// Limit of a file's size, since the tracked state of a file grows with it; larger files are cut.
const FILE_BYTES_MAX: u64 = 1 << 50;
/// Places on a disk stay far from overflow.
const DISK_BYTES_MAX: u64 = 1 << 60;
/// Devices beyond these share the disks of the first ones.
const DISKS_MAX: usize = 64;
/// A number that no file and no thread has.
const NONE: u32 = u32::MAX;

/// Contents of a trace without its accesses.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Where the trace comes from.
    pub source: Source,
    /// Files that are accessed, in the order of their first access.
    pub files: Vec<TracedFile>,
    /// Its processes, in the order of their first access.
    pub programs: Vec<TracedProgram>,
    /// Disks that its files are on, at least 1.
    pub disks: usize,
    /// Accesses that the simulation plays.
    pub accesses: u64,
    /// Accesses that it does not play, or not whole.
    pub aside: LeftAside,
    pub(super) time_is: TimeIs,
    /// All threads that access something, those of a program together.
    pub(super) threads: Vec<TracedThread>,
    /// By id: the number of a file, and of a thread.
    pub(super) file_numbers: Vec<u32>,
    pub(super) thread_numbers: Vec<u32>,
}

/// Accesses of a trace that the simulation does not play, or not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftAside {
    /// Past the page cache.
    pub direct: u64,
    /// Requests that readahead made: the simulation makes its own.
    pub ahead: u64,
    /// Longer than Linux reads at once; the rest is cut off.
    pub cut: u64,
}

/// A file of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedFile {
    /// Its path, as far as it is text.
    pub name: String,
    /// Its size; where the trace doesn't say, the end of the access that goes farthest.
    pub bytes: u64,
    /// The number of its device, as in `stat`; 0 when the trace doesn't say.
    pub device: u64,
    /// Whether it is a block device's own pages, which its file system reads by rules of its own.
    pub metadata: bool,
    /// Which disk it is on.
    pub disk: usize,
    /// Where it starts there.
    pub offset_bytes: u64,
    /// Where its parts are, by offset in the file, where the trace says so.
    pub extents: Arc<[Extent]>,
}

/// A process of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedProgram {
    /// Its name, with its number where there are several processes.
    pub name: String,
    /// Its threads that access something.
    pub threads: u64,
}

/// When a thread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nanoseconds after the first access of the trace.
    At(u64),
    /// Some time after a thread has ended a number of accesses.
    After {
        parent: u32,
        accesses: u64,
        gap_ns: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct TracedThread {
    pub start: Start,
    pub accesses: u64,
    /// Whether the trace says when it ends.
    pub has_end: bool,
    /// The number of the thread that may wait for its end.
    pub parent: Option<u32>,
}

impl Survey {
    /// Reads a whole trace.
    ///
    /// # Errors
    /// [`ReadError`] when reading has to stop.
    pub fn read(events: &mut dyn Events) -> Result<Self, ReadError> {
        let mut pass = Pass::new(events.header().time_is);
        while let Some(event) = events.next_event()? {
            pass.known.learn(&event);
            match event {
                Event::Access(access) => pass.access(&access),
                Event::ThreadEnd { thread, .. } => pass.end(thread),
                _ => {}
            }
        }
        Ok(pass.finished(events.header().source))
    }

    pub(crate) fn file_number(&self, id: FileId) -> Option<usize> {
        let number = self.file_numbers.get(id.0 as usize).copied();
        number.filter(|number| *number != NONE).map(|n| n as usize)
    }

    pub(crate) fn thread_number(&self, id: ThreadId) -> Option<usize> {
        let number = self.thread_numbers.get(id.0 as usize).copied();
        number.filter(|number| *number != NONE).map(|n| n as usize)
    }

    pub(crate) fn starts(&self) -> impl Iterator<Item = Start> + '_ {
        self.threads.iter().map(|thread| thread.start)
    }
}

/// A thread while the trace is read.
#[derive(Clone, Debug, Default)]
struct Seen {
    ends: Ends,
    has_end: bool,
    begin_ns: u64,
    parent: Option<ThreadId>,
    /// Number of accesses of the parent that had ended, and the time since then.
    after: Option<(u64, u64)>,
}

struct Pass {
    time_is: TimeIs,
    known: Known,
    /// In the order of their first access, with the end of the access that goes farthest.
    files: Vec<(FileId, u64)>,
    file_numbers: Vec<u32>,
    threads: Vec<Option<Box<Seen>>>,
    order: Vec<ThreadId>,
    first_ns: u64,
    accesses: u64,
    aside: LeftAside,
}

impl Pass {
    fn new(time_is: TimeIs) -> Self {
        Self {
            time_is,
            known: Known::default(),
            files: Vec::new(),
            file_numbers: Vec::new(),
            threads: Vec::new(),
            order: Vec::new(),
            first_ns: u64::MAX,
            accesses: 0,
            aside: LeftAside::default(),
        }
    }

    fn access(&mut self, access: &Access) {
        if !is_played(access) {
            self.aside.direct += u64::from(access.flags.contains(Flags::DIRECT));
            self.aside.ahead += u64::from(access.flags.contains(Flags::AHEAD));
            return;
        }
        let is_long = access.kind.uses_pages() && access.length_bytes > ACCESS_BYTES_MAX;
        self.aside.cut += u64::from(is_long);
        self.accesses += 1;
        self.file(access);
        let span = Span::of(access, self.time_is);
        self.first_ns = self.first_ns.min(span.begin_ns);
        if self.seen(access.thread).is_none() {
            self.begin(access.thread, span.begin_ns);
        }
        let seen = self.threads.get_mut(access.thread.0 as usize);
        if let Some(Some(seen)) = seen {
            seen.ends.add(span.end_ns);
        }
    }

    fn file(&mut self, access: &Access) {
        let id = access.file.0 as usize;
        if self.file_numbers.len() <= id {
            self.file_numbers.resize(id + 1, NONE);
        }
        if self.file_numbers[id] == NONE {
            self.file_numbers[id] = self.files.len() as u32;
            self.files.push((access.file, 0));
        }
        if access.kind.uses_pages() {
            let end_bytes = &mut self.files[self.file_numbers[id] as usize].1;
            *end_bytes = access.end_bytes().max(*end_bytes);
        }
    }

    fn seen(&self, id: ThreadId) -> Option<&Seen> {
        self.threads.get(id.0 as usize)?.as_deref()
    }

    /// The first access of a thread.
    fn begin(&mut self, id: ThreadId, begin_ns: u64) {
        let parent = |id| self.known.thread(id)?.parent;
        let parent = ancestor(id, parent, |id| self.seen(id).is_some());
        let ends = parent.and_then(|parent| Some(self.seen(parent)?.ends));
        let after = ends.and_then(|ends| ends.by(begin_ns));
        if self.threads.len() <= id.0 as usize {
            self.threads.resize(id.0 as usize + 1, None);
        }
        self.order.push(id);
        self.threads[id.0 as usize] = Some(Box::new(Seen {
            begin_ns,
            parent,
            after: after.map(|(count, end_ns)| (count, begin_ns - end_ns)),
            ..Seen::default()
        }));
    }

    fn end(&mut self, id: ThreadId) {
        if let Some(Some(seen)) = self.threads.get_mut(id.0 as usize) {
            seen.has_end = true;
        }
    }

    fn finished(self, source: Source) -> Survey {
        let (programs, order) = self.programs();
        let mut thread_numbers = vec![NONE; self.threads.len()];
        for (number, id) in (0..).zip(&order) {
            thread_numbers[id.0 as usize] = number;
        }
        let number = |id: ThreadId| thread_numbers[id.0 as usize];
        let threads = order.iter().filter_map(|id| self.seen(*id)).map(|seen| {
            let parent = seen.parent.map(number);
            let start = match (parent, seen.after) {
                (Some(parent), Some((accesses, gap_ns))) => Start::After {
                    parent,
                    accesses,
                    gap_ns,
                },
                _ => Start::At(seen.begin_ns.saturating_sub(self.first_ns)),
            };
            TracedThread {
                start,
                accesses: seen.ends.count,
                has_end: seen.has_end,
                parent,
            }
        });
        let threads = threads.collect();
        let (files, disks) = self.placed(source);
        Survey {
            source,
            files,
            programs,
            disks,
            accesses: self.accesses,
            aside: self.aside,
            time_is: self.time_is,
            threads,
            file_numbers: self.file_numbers,
            thread_numbers,
        }
    }

    /// The processes, and their threads one after the other. Where the source knows no processes,
    /// each thread is one.
    fn programs(&self) -> (Vec<TracedProgram>, Vec<ThreadId>) {
        let nobody = Thread::default();
        let mut processes: HashMap<u32, usize> = HashMap::new();
        let mut programs: Vec<Vec<ThreadId>> = Vec::new();
        // Whether the first thread of each is there.
        let mut has_first: Vec<bool> = Vec::new();
        for id in &self.order {
            let thread = self.known.thread(*id).unwrap_or(&nobody);
            let process = processes.get(&thread.pid).copied();
            // The number of a process that ended is given to another one some time.
            let is_first = thread.tid == thread.pid;
            let is_another = is_first || thread.pid == 0;
            match process.filter(|at| !(is_another && has_first[*at])) {
                Some(at) => {
                    programs[at].push(*id);
                    has_first[at] |= is_first;
                }
                None => {
                    processes.insert(thread.pid, programs.len());
                    programs.push(vec![*id]);
                    has_first.push(is_first);
                }
            }
        }
        let several = programs.len() > 1;
        let named = |(number, threads): (usize, &Vec<ThreadId>)| {
            let known = || threads.iter().filter_map(|id| self.known.thread(*id));
            let first = known().find(|thread| thread.tid == thread.pid);
            let first = first.or_else(|| known().next()).unwrap_or(&nobody);
            let name = match String::from_utf8_lossy(&first.name) {
                name if name.is_empty() => "process".into(),
                name => name,
            };
            let name = match first.pid {
                _ if !several => name.into_owned(),
                0 => format!("{name}/{}", number + 1),
                pid => format!("{name}[{pid}]"),
            };
            let threads = threads.len() as u64;
            TracedProgram { name, threads }
        };
        let named = programs.iter().enumerate().map(named).collect();
        (named, programs.concat())
    }

    /// Files where their extents say, or one after the other behind them; and how many disks there
    /// are.
    fn placed(&self, source: Source) -> (Vec<TracedFile>, usize) {
        let mut disks: BTreeMap<u64, usize> = BTreeMap::new();
        let nothing = File::default();
        let known = |id| self.known.file(id).unwrap_or(&nothing);
        let mut files: Vec<TracedFile> = Vec::new();
        for (id, end_bytes) in &self.files {
            let file = known(*id);
            let count = disks.len();
            let disk = *disks.entry(file.device).or_insert(count % DISKS_MAX);
            let bytes = file.size_bytes.unwrap_or(*end_bytes);
            files.push(TracedFile {
                name: String::from_utf8_lossy(&file.path).into_owned(),
                bytes: bytes.min(FILE_BYTES_MAX),
                device: file.device,
                metadata: file.metadata,
                disk,
                offset_bytes: 0,
                extents: extents(self.known.extents(*id)),
            });
        }
        let disks = disks.len().clamp(1, DISKS_MAX);
        let mut next_bytes = vec![0u64; disks];
        for file in &files {
            let ends = file
                .extents
                .iter()
                .map(|e| e.physical_bytes + e.length_bytes);
            let next = &mut next_bytes[file.disk];
            *next = ends.max().unwrap_or(0).max(*next);
        }
        for (file, (id, _)) in files.iter_mut().zip(&self.files) {
            let is_device = known(*id).metadata || source == Source::Blkparse;
            if is_device || !file.extents.is_empty() {
                continue;
            }
            let whole = file.bytes.next_multiple_of(PAGE_BYTES);
            let next = &mut next_bytes[file.disk];
            if *next > DISK_BYTES_MAX - whole {
                *next = 0;
            }
            file.offset_bytes = *next;
            *next += whole;
        }
        (files, disks)
    }
}

/// Those that can be, in order.
fn extents(said: &[Extent]) -> Arc<[Extent]> {
    let is_possible = |extent: &&Extent| {
        let ends = [extent.physical_bytes, extent.logical_bytes];
        let ends = ends.map(|at| at.saturating_add(extent.length_bytes));
        ends.iter().all(|end| *end <= DISK_BYTES_MAX)
    };
    let mut extents: Vec<Extent> = said.iter().filter(is_possible).copied().collect();
    extents.sort_by_key(|extent| extent.logical_bytes);
    extents.into()
}
