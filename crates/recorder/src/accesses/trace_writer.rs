// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes accesses of records and writes them as a trace, in order of time.
//!
//! The kernel tells of pages, at several places of one read or fault. All records of one access are
//! joined, so what a thread does now is held back for a second at most; memory is bounded by that.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use foreread_core::mounts::Mounts;
use foreread_trace::limits::{OFFSET_BYTES_MAX, THREADS_MAX};
use foreread_trace::{
    Access, Event, FileId, Flags, Header, Kind, LeftOut, Thread, ThreadId, WriteError, frt,
};

use super::files::{Files, Places};
use super::join::{Join, end_alone, join};
use super::metadata::Group;
use super::record::{AccessKind, AccessRecord, MappingBits};
use crate::recording::NodeRecord;

/// How long the latest access of a thread is held back, for records that may belong to it.
const HELD_NS: u64 = 1_000_000_000;
/// How far records of several CPUs may be out of order.
const SKEW_NS: u64 = 50_000_000;
/// Mappings of one open file that are remembered as told.
const MAPPINGS_TOLD_MAX: usize = 64;

/// Sums over a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Accesses.
    pub accesses: u64,
    /// Accesses that waited.
    pub waited: u64,
    /// How long all of them waited together.
    pub waited_ns: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the trace.
    pub bytes: u64,
    /// Events that were lost.
    pub lost: u64,
}

/// Makes accesses of records and writes them as a trace, in order of time.
pub struct TraceWriter<W: Write, P: Places> {
    writer: frt::Writer<W>,
    files: Files<P>,
    /// By thread: a read or fault of which more may come.
    open: HashMap<u32, AccessRecord>,
    /// By thread: metadata whose wait is to come.
    metadata: HashMap<u32, Group>,
    /// By time and order: events to be written.
    ready: BTreeMap<(u64, u64), Event>,
    order: u64,
    latest_ns: u64,
    /// By number.
    threads: HashMap<u32, ThreadId>,
    /// Not written yet, since names change when a program is executed.
    unnamed: HashMap<ThreadId, Thread>,
    threads_count: u32,
    /// By open file with 0, or by file with the process that has it mapped: the stream, and of
    /// which file.
    streams: HashMap<(u32, u64), (u32, FileId)>,
    streams_count: u32,
    /// By stream: mappings to be executed, as far as they were told.
    told: HashMap<u32, Vec<(u64, u64)>>,
    over_limits: u64,
    not_files: u64,
    waited: u64,
    waited_ns: u64,
}

impl<W: Write, P: Places> TraceWriter<W, P> {
    /// Begins a trace in `output`. Paths are found by `mounts`.
    ///
    /// # Errors
    /// [`WriteError`] when the header can't be written.
    pub fn new(output: W, header: &Header, mounts: Mounts, places: P) -> Result<Self, WriteError> {
        Ok(Self {
            writer: frt::Writer::new(output, header)?,
            files: Files::new(mounts, places),
            open: HashMap::new(),
            metadata: HashMap::new(),
            ready: BTreeMap::new(),
            order: 0,
            latest_ns: 0,
            threads: HashMap::new(),
            unnamed: HashMap::new(),
            threads_count: 0,
            streams: HashMap::new(),
            streams_count: 0,
            told: HashMap::new(),
            over_limits: 0,
            not_files: 0,
            waited: 0,
            waited_ns: 0,
        })
    }

    /// Takes in a record, with the nodes that are known by now.
    pub fn take(&mut self, mut record: AccessRecord, nodes: &HashMap<u32, NodeRecord>) {
        self.latest_ns = self.latest_ns.max(record.time_ns);
        if self.take_metadata(&mut record) {
            return;
        }
        let before = self.open.remove(&record.tid);
        if let Some(mut before) = before {
            match join(&mut before, &mut record) {
                Join::Grown => {
                    self.open.insert(record.tid, before);
                    return;
                }
                Join::Replaced => {}
                Join::Apart => self.access(&before, nodes),
            }
        }
        match record.kind {
            AccessKind::Metadata | AccessKind::Block => {
                self.files.note(&record, nodes, &mut self.writer);
                self.metadata.insert(record.tid, Group::new(record));
            }
            AccessKind::Read | AccessKind::Fault => self.hold(record, nodes),
            // Its fault may come yet.
            AccessKind::Mapped if record.mapping.has(MappingBits::KNOWN) => {
                self.hold(record, nodes);
            }
            AccessKind::ReadCall | AccessKind::Mapped => self.access(&record, nodes),
            AccessKind::Open => {
                // An open file that was at this place in memory before is another one.
                self.streams.remove(&(0, record.file));
                self.access(&record, nodes);
            }
            AccessKind::Advice => self.access(&record, nodes),
            AccessKind::Exit => self.exit(&record),
            AccessKind::Call => {}
        }
    }

    fn hold(&mut self, record: AccessRecord, nodes: &HashMap<u32, NodeRecord>) {
        self.files.note(&record, nodes, &mut self.writer);
        self.open.insert(record.tid, record);
    }

    /// Gives metadata its wait, which is known with the record after it. Whether there is nothing
    /// more to do with the record: what a read or fault needs of metadata comes within it.
    fn take_metadata(&mut self, record: &mut AccessRecord) -> bool {
        let is_metadata = record.kind.is_metadata();
        if let Some(mut group) = self.metadata.remove(&record.tid) {
            if is_metadata && record.waited_ns == 0 && record.device == group.first.device {
                group.add(record);
                self.metadata.insert(record.tid, group);
                return true;
            }
            // A read or fault waits for its data after that; nothing else does.
            let has_data = matches!(
                record.kind,
                AccessKind::Read | AccessKind::ReadCall | AccessKind::Fault | AccessKind::Mapped
            );
            let waited_ns = match has_data {
                true => record.first_waited_ns.min(record.waited_ns),
                false => record.waited_ns,
            };
            self.put_metadata(&group, waited_ns, record.time_ns);
            record.waited_ns -= waited_ns;
            record.first_waited_ns = record.waited_ns;
        } else if !is_metadata || record.waited_ns > 0 {
            return false;
        }
        if !is_metadata {
            return false;
        }
        self.files.note(record, &HashMap::new(), &mut self.writer);
        self.metadata.insert(record.tid, Group::new(record.clone()));
        true
    }

    fn put_metadata(&mut self, group: &Group, waited_ns: u64, until_ns: u64) {
        let first = &group.first;
        let noted = self.files.note(first, &HashMap::new(), &mut self.writer);
        let Some((file, thread)) = noted.zip(self.thread(first)) else {
            self.over_limits += 1;
            return;
        };
        for (kind, offset_bytes, length_bytes) in group.parts() {
            let (time_ns, waited_ns) = match kind {
                Kind::Read => (
                    group.last_ns.saturating_add(waited_ns).min(until_ns),
                    waited_ns,
                ),
                _ => (group.last_ns, 0),
            };
            let access = Access {
                time_ns,
                thread,
                file,
                stream: 0,
                offset_bytes,
                length_bytes,
                kind,
                flags: Flags::default(),
                waited_ns: Some(waited_ns),
                duration_ns: None,
            };
            self.ready(time_ns, Event::Access(access));
        }
    }

    fn access(&mut self, record: &AccessRecord, nodes: &HashMap<u32, NodeRecord>) {
        let Some((kind, offset_bytes, length_bytes)) = range(record) else {
            // Files of the kernel, as those of /proc, have no size and no pages.
            self.not_files += u64::from(record.kind == AccessKind::ReadCall);
            return;
        };
        let noted = self.files.note(record, nodes, &mut self.writer);
        let Some((file, thread)) = noted.zip(self.thread(record)) else {
            self.over_limits += 1;
            return;
        };
        let waited_ns = match kind.uses_pages() {
            true => record.waited_ns,
            // Names were looked up.
            false => 0,
        };
        let access = Access {
            time_ns: record.time_ns,
            thread,
            file,
            stream: self.stream(record, file),
            offset_bytes,
            length_bytes,
            kind,
            flags: flags(record.mapping),
            waited_ns: Some(waited_ns),
            duration_ns: None,
        };
        self.tell_mapping(record, &access);
        self.ready(access.time_ns, Event::Access(access));
    }

    /// Text is read within the bounds of its mapping, so these are told before the first fault in
    /// it.
    fn tell_mapping(&mut self, record: &AccessRecord, fault: &Access) {
        let (start, end) = record.map_bytes;
        if !fault.flags.contains(Flags::EXEC) || fault.stream == 0 || start >= end {
            return;
        }
        let told = self.told.entry(fault.stream).or_default();
        if told.contains(&record.map_bytes) || told.len() >= MAPPINGS_TOLD_MAX {
            return;
        }
        told.push(record.map_bytes);
        let time_ns = fault.time_ns.saturating_sub(record.waited_ns);
        let map = Access {
            time_ns,
            offset_bytes: start,
            length_bytes: end - start,
            kind: Kind::Map,
            waited_ns: Some(0),
            ..*fault
        };
        self.ready(time_ns, Event::Access(map));
    }

    fn exit(&mut self, record: &AccessRecord) {
        if let Some(thread) = self.threads.remove(&record.tid) {
            let time_ns = record.time_ns;
            self.ready(time_ns, Event::ThreadEnd { time_ns, thread });
        }
        if record.tid == record.pid {
            self.streams.retain(|(pid, _), _| *pid != record.pid);
        }
    }

    fn ready(&mut self, time_ns: u64, event: Event) {
        self.order += 1;
        self.ready.insert((time_ns, self.order), event);
    }

    /// The open file of an access. Where it isn't known, a process has one mapping of a file; of
    /// reads nothing can be said.
    fn stream(&mut self, record: &AccessRecord, file: FileId) -> u32 {
        let key = match record.kind {
            _ if record.file != 0 => (0, record.file),
            AccessKind::Fault | AccessKind::Mapped => (record.pid, u64::from(file.0)),
            _ => return 0,
        };
        match self.streams.get(&key) {
            Some((stream, of)) if *of == file => *stream,
            _ => {
                self.streams_count = self.streams_count.saturating_add(1);
                self.streams.insert(key, (self.streams_count, file));
                self.streams_count
            }
        }
    }

    fn thread(&mut self, record: &AccessRecord) -> Option<ThreadId> {
        let known = self.threads.get(&record.tid).copied();
        let id = match known {
            Some(id) => id,
            None => {
                let id = ThreadId(self.threads_count);
                if id.0 >= THREADS_MAX {
                    return None;
                }
                self.threads_count += 1;
                self.threads.insert(record.tid, id);
                let parent = self.threads.get(&record.parent_tid).copied();
                let thread = Thread {
                    pid: record.pid,
                    tid: record.tid,
                    parent: parent.filter(|parent| *parent != id),
                    name: Vec::new(),
                };
                self.unnamed.insert(id, thread);
                id
            }
        };
        if let Some(thread) = self.unnamed.get_mut(&id) {
            thread.name.clone_from(&record.name);
        }
        Some(id)
    }

    /// Writes the accesses that are too old for an earlier one to come.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn write_old(&mut self) -> Result<(), WriteError> {
        let held_ns = self.latest_ns.saturating_sub(HELD_NS);
        self.let_go(|time_ns| time_ns < held_ns);
        let open_ns = self.open.values().map(|open| open.time_ns);
        let held_ns = open_ns.chain(self.metadata.values().map(|group| group.last_ns));
        let skew_ns = self.latest_ns.saturating_sub(SKEW_NS);
        self.write_before(held_ns.min().unwrap_or(u64::MAX).min(skew_ns))
    }

    /// Nothing more belongs to what was held back since such a time.
    fn let_go(&mut self, is_over: impl Fn(u64) -> bool) {
        let reads = self.open.extract_if(|_, record| is_over(record.time_ns));
        for (_, mut record) in reads.collect::<Vec<_>>() {
            end_alone(&mut record);
            // Its file was noted when it came.
            self.access(&record, &HashMap::new());
        }
        let groups = self.metadata.extract_if(|_, group| is_over(group.last_ns));
        for (_, group) in groups.collect::<Vec<_>>() {
            self.put_metadata(&group, 0, u64::MAX);
        }
    }

    fn write_before(&mut self, time_ns: u64) -> Result<(), WriteError> {
        let later = self.ready.split_off(&(time_ns, 0));
        for event in std::mem::replace(&mut self.ready, later).into_values() {
            if let Event::Access(access) = &event
                && let Some(thread) = self.unnamed.remove(&access.thread)
            {
                let defined = Event::Thread(access.thread, Box::new(thread));
                self.writer.write(&defined)?;
            }
            match self.writer.write(&event) {
                Err(error @ WriteError::Io(_)) => return Err(error),
                Err(_) => self.over_limits += 1,
                Ok(()) => self.count_wait(&event),
            }
        }
        Ok(())
    }

    /// Counts the wait of an access that is in the trace.
    fn count_wait(&mut self, event: &Event) {
        if let Event::Access(access) = event {
            let waited_ns = access.waited_ns.unwrap_or(0);
            self.waited += u64::from(waited_ns > 0);
            self.waited_ns = self.waited_ns.saturating_add(waited_ns);
        }
    }

    /// Writes the rest, and where the files lie; `lost` events are noted in the trace.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn finish(mut self, lost: u64) -> Result<(W, Traced), WriteError> {
        self.let_go(|_| true);
        self.write_before(u64::MAX)?;
        let files = self.files.len() as u64;
        self.files.write_extents(&mut self.writer)?;
        self.writer.left_out(LeftOut::Lost, lost)?;
        self.writer.left_out(LeftOut::NotFiles, self.not_files)?;
        self.writer
            .left_out(LeftOut::OverLimits, self.over_limits)?;
        let (output, written) = self.writer.finish()?;
        let traced = Traced {
            accesses: written.accesses,
            waited: self.waited,
            waited_ns: self.waited_ns,
            files,
            bytes: written.bytes,
            lost,
        };
        Ok((output, traced))
    }
}

/// The kind of an access and its bytes; `None` when there is nothing to tell.
fn range(record: &AccessRecord) -> Option<(Kind, u64, u64)> {
    let start = record.start_bytes;
    match record.kind {
        AccessKind::Open => return Some((Kind::Open, 0, 0)),
        AccessKind::Advice => {
            let length = record
                .length_bytes
                .min(OFFSET_BYTES_MAX.checked_sub(start)?);
            return Some((advice(record.advice)?, start, length));
        }
        _ => {}
    }
    // Pages go to the end of the last one; a file may end before.
    let end = start.saturating_add(record.length_bytes);
    let end = end.min(record.size_bytes);
    if end <= start {
        return None;
    }
    let kind = match record.kind {
        AccessKind::Fault => Kind::Fault,
        AccessKind::Mapped if record.mapping.has(MappingBits::KNOWN) => Kind::Fault,
        AccessKind::Mapped => Kind::MapAround,
        _ => Kind::Read,
    };
    // Readahead was told the length that a read which met the end of its file had asked for.
    let asked = start
        .saturating_add(record.asked_bytes)
        .min(OFFSET_BYTES_MAX);
    let end = if end == record.size_bytes {
        end.max(asked)
    } else {
        end
    };
    Some((kind, start, end - start))
}

/// Advice as `posix_fadvise` numbers it.
fn advice(number: u32) -> Option<Kind> {
    Some(match number {
        0 => Kind::AdviseNormal,
        1 => Kind::AdviseRandom,
        2 => Kind::AdviseSequential,
        3 => Kind::Readahead,
        4 => Kind::AdviseDontNeed,
        _ => return None,
    })
}

fn flags(mapping: MappingBits) -> Flags {
    let bits = [
        (MappingBits::EXEC, Flags::EXEC),
        (MappingBits::SEQUENTIAL, Flags::SEQUENTIAL),
        (MappingBits::RANDOM, Flags::RANDOM),
    ];
    let set = bits.into_iter().filter(|(bit, _)| mapping.has(*bit));
    set.fold(Flags::default(), |all, (_, flag)| all.union(flag))
}

#[cfg(test)]
mod tests;
