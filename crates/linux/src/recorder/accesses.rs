// SPDX-License-Identifier: MIT OR Apache-2.0
//! A trace of what a process tree reads: each access with its time, and how long it waited.
//!
//! The kernel tells of pages, at several places of one read or fault; [`Joined`] makes one access
//! of what belongs together, and puts all in order of time. Memory is bounded: what a thread is at
//! is held back for a second at most.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::time::{SystemTime, UNIX_EPOCH};

use foreread_trace::limits::{FILES_MAX, THREADS_MAX};
use foreread_trace::{
    Access, Event, Extent, File, FileId, Flags, Header, Kind, LeftOut, Source, Thread, ThreadId,
    TimeIs, WriteError, frt,
};
use rustix::fs::{Mode, OFlags, fstat, open};

use super::abi::{AccessKind, AccessRecord, NodeRecord};
use super::bpf::{BpfError, BpfRecorder, Limits, Watch};
use crate::fiemap;
use crate::mounts::Mounts;

/// Each access is a record of a hundred bytes: room for some hundred thousand.
const RECORDS_BYTES: u32 = 32 << 20;
/// How long what a thread is at is held back, for what may belong to it.
const HELD_NS: u64 = 1_000_000_000;
/// How far records of several CPUs may be out of order.
const SKEW_NS: u64 = 50_000_000;
/// Extents that are kept of one file.
const EXTENTS_OF_FILE_MAX: usize = 4096;
/// Directories above a file; as many as a path of 4,096 bytes can name.
const DEPTH_MAX: usize = 2048;

/// What was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Accesses.
    pub accesses: u64,
    /// Of these, those that waited.
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

/// A recorder that writes a trace. From its start on the next child of this thread is the one
/// recorded, once it calls exec.
pub struct TraceRecorder<W: Write> {
    recorder: BpfRecorder,
    joined: Joined<W>,
}

/// Why no trace can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The kernel refuses.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The trace can't be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl<W: Write> TraceRecorder<W> {
    /// Starts; `command` is what the trace will say that it is of.
    ///
    /// # Errors
    /// [`TraceError`] when BPF is refused, or the trace can't be written.
    pub fn start(output: W, command: Vec<Vec<u8>>) -> Result<Self, TraceError> {
        let limits = Limits {
            records_bytes: RECORDS_BYTES,
            ..Limits::default()
        };
        let mut recorder = BpfRecorder::load_with(Watch::EachAccess, limits)?;
        recorder.attach()?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let started_unix_ns = since
            .ok()
            .and_then(|since| since.as_nanos().try_into().ok());
        let header = Header {
            started_unix_ns,
            command,
            kernel: rustix::system::uname().release().to_bytes().to_vec(),
            ..Header::new(Source::Recorded, TimeIs::Returned)
        };
        let joined = Joined::new(output, &header)?;
        Ok(Self { recorder, joined })
    }

    /// Writes what has come; call it every few tens of milliseconds.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn drain(&mut self) -> Result<(), WriteError> {
        let joined = &mut self.joined;
        self.recorder
            .take_accesses(|access, nodes| joined.take(access, nodes));
        joined.write_old()
    }

    /// Ends it: writes the rest, and where the files are on their devices.
    ///
    /// # Errors
    /// [`WriteError`] when the output fails.
    pub fn finish(mut self) -> Result<(W, Traced), WriteError> {
        self.drain()?;
        let recording = self.recorder.finish();
        // What came between the last drain and the end: nothing, unless the tree goes on running.
        let lost = recording.counts.lost();
        self.joined.finish(lost)
    }
}

/// A file that was defined.
struct Noted {
    id: FileId,
    path: Vec<u8>,
    inode: u64,
    size_bytes: u64,
}

/// Makes accesses of records, in order.
struct Joined<W: Write> {
    writer: frt::Writer<W>,
    mounts: Mounts,
    /// By thread: a read or fault of which more may come.
    open: HashMap<u32, AccessRecord>,
    /// By time and order: what is to be written.
    ready: BTreeMap<(u64, u64), Event>,
    order: u64,
    latest_ns: u64,
    /// By node.
    files: HashMap<u32, Noted>,
    /// By number.
    threads: HashMap<u32, ThreadId>,
    /// Not written yet, since names change when a program is executed.
    unnamed: HashMap<ThreadId, Thread>,
    threads_count: u32,
    /// By process and open file, or 0 and file where it is mapped: the stream, and of which file.
    streams: HashMap<(u32, u64), (u32, FileId)>,
    streams_count: u32,
    over_limits: u64,
    not_files: u64,
    waited: u64,
    waited_ns: u64,
}

impl<W: Write> Joined<W> {
    fn new(output: W, header: &Header) -> Result<Self, WriteError> {
        Ok(Self {
            writer: frt::Writer::new(output, header)?,
            mounts: Mounts::of_self().unwrap_or_default(),
            open: HashMap::new(),
            ready: BTreeMap::new(),
            order: 0,
            latest_ns: 0,
            files: HashMap::new(),
            threads: HashMap::new(),
            unnamed: HashMap::new(),
            threads_count: 0,
            streams: HashMap::new(),
            streams_count: 0,
            over_limits: 0,
            not_files: 0,
            waited: 0,
            waited_ns: 0,
        })
    }

    /// A record, with the nodes that are known by now.
    fn take(&mut self, mut record: AccessRecord, nodes: &HashMap<u32, NodeRecord>) {
        self.latest_ns = self.latest_ns.max(record.time_ns);
        let before = self.open.remove(&record.tid);
        if let Some(mut before) = before {
            match join(&mut before, &mut record) {
                Join::Grown => {
                    self.open.insert(record.tid, before);
                    return;
                }
                Join::Done => {
                    self.access(&before, nodes);
                    return;
                }
                Join::Replaced => {}
                Join::Apart => self.access(&before, nodes),
            }
        }
        match record.kind {
            AccessKind::Read | AccessKind::Fault => {
                self.note_file(&record, nodes);
                self.open.insert(record.tid, record);
            }
            AccessKind::ReadCall | AccessKind::Mapped => self.access(&record, nodes),
            AccessKind::Exit => self.exit(&record),
        }
    }

    fn access(&mut self, record: &AccessRecord, nodes: &HashMap<u32, NodeRecord>) {
        // Pages go to the end of the last one; a file may end before.
        let end = record.start_bytes.saturating_add(record.length_bytes);
        let end = end.min(record.size_bytes);
        let length_bytes = end.saturating_sub(record.start_bytes);
        if length_bytes == 0 {
            // Files of the kernel, as those of /proc, have no size and no pages.
            self.not_files += u64::from(record.kind == AccessKind::ReadCall);
            return;
        }
        let ids = self.note_file(record, nodes).zip(self.thread(record));
        let Some((file, thread)) = ids else {
            self.over_limits += 1;
            return;
        };
        let kind = match record.kind {
            AccessKind::Fault => Kind::Fault,
            AccessKind::Mapped => Kind::MapAround,
            _ => Kind::Read,
        };
        let access = Access {
            time_ns: record.time_ns,
            thread,
            file,
            stream: self.stream(record, file),
            offset_bytes: record.start_bytes,
            length_bytes,
            kind,
            flags: Flags::default(),
            waited_ns: Some(record.waited_ns),
            duration_ns: None,
        };
        self.waited += u64::from(record.waited_ns > 0);
        self.waited_ns += record.waited_ns;
        self.ready(record.time_ns, Event::Access(access));
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

    /// The open file of an access. A mapping has one, and of a process and a file there is mostly
    /// one mapping; of reads whose call is not seen it isn't known.
    fn stream(&mut self, record: &AccessRecord, file: FileId) -> u32 {
        let key = match record.kind {
            AccessKind::Fault | AccessKind::Mapped => (record.pid, u64::from(file.0)),
            _ if record.file == 0 => return 0,
            _ => (record.pid, record.file),
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

    fn note_file(
        &mut self,
        record: &AccessRecord,
        nodes: &HashMap<u32, NodeRecord>,
    ) -> Option<FileId> {
        if let Some(noted) = self.files.get(&record.id) {
            return Some(noted.id);
        }
        let id = FileId(u32::try_from(self.files.len()).ok()?);
        if id.0 >= FILES_MAX {
            return None;
        }
        let node = nodes.get(&record.id);
        let path = node.and_then(|node| path_of(node, nodes, &self.mounts));
        let (inode, device) = node.map_or((0, 0), |node| (node.number, node.device));
        let path = path.unwrap_or_else(|| format!("inode-{inode}").into_bytes());
        let file = File {
            path: path.clone(),
            size_bytes: Some(record.size_bytes),
            device: libc::makedev(device >> 20, device & 0xf_ffff),
            inode,
            metadata: false,
        };
        // An event that the format refuses costs its accesses, which are counted then.
        self.writer.write(&Event::File(id, Box::new(file))).ok()?;
        let noted = Noted {
            id,
            path,
            inode,
            size_bytes: record.size_bytes,
        };
        self.files.insert(record.id, noted);
        Some(id)
    }

    /// Writes what nothing earlier can come to any more.
    fn write_old(&mut self) -> Result<(), WriteError> {
        let held_ns = self.latest_ns.saturating_sub(HELD_NS);
        let old = self.open.iter().filter(|(_, open)| open.time_ns < held_ns);
        let old: Vec<u32> = old.map(|(tid, _)| *tid).collect();
        for tid in old {
            if let Some(record) = self.open.remove(&tid) {
                // Its file was noted when it came.
                self.access(&record, &HashMap::new());
            }
        }
        let open_ns = self.open.values().map(|open| open.time_ns).min();
        let skew_ns = self.latest_ns.saturating_sub(SKEW_NS);
        self.write_before(open_ns.unwrap_or(u64::MAX).min(skew_ns))
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
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn finish(mut self, lost: u64) -> Result<(W, Traced), WriteError> {
        for record in std::mem::take(&mut self.open).into_values() {
            self.access(&record, &HashMap::new());
        }
        self.write_before(u64::MAX)?;
        let mut files: Vec<Noted> = self.files.into_values().collect();
        files.sort_by_key(|file| file.id);
        for file in &files {
            let extents = extents(file);
            if extents.is_empty() {
                continue;
            }
            match self.writer.write(&Event::Extents(file.id, extents)) {
                Err(error @ WriteError::Io(_)) => return Err(error),
                // The trace holds no more of them; the other files lie somewhere.
                Err(_) => break,
                Ok(()) => {}
            }
        }
        self.writer.left_out(LeftOut::Lost, lost)?;
        self.writer.left_out(LeftOut::NotFiles, self.not_files)?;
        self.writer
            .left_out(LeftOut::OverLimits, self.over_limits)?;
        let (output, written) = self.writer.finish()?;
        let traced = Traced {
            accesses: written.accesses,
            waited: self.waited,
            waited_ns: self.waited_ns,
            files: files.len() as u64,
            bytes: written.bytes,
            lost,
        };
        Ok((output, traced))
    }
}

/// What a record is to the one before it of the same thread.
#[derive(Debug, PartialEq, Eq)]
enum Join {
    /// More of it, and more may come.
    Grown,
    /// Its end.
    Done,
    /// All of it, said better.
    Replaced,
    /// Something else.
    Apart,
}

fn join(before: &mut AccessRecord, next: &mut AccessRecord) -> Join {
    let end = |record: &AccessRecord| record.start_bytes.saturating_add(record.length_bytes);
    let is_same = before.id == next.id;
    match (before.kind, next.kind) {
        // Each of the kernel's steps asks for all that is left of a read.
        (AccessKind::Read, AccessKind::Read)
            if is_same && end(before) == end(next) && next.start_bytes > before.start_bytes =>
        {
            before.waited_ns += next.waited_ns;
            before.time_ns = next.time_ns;
            Join::Grown
        }
        (AccessKind::Read, AccessKind::ReadCall) if is_same => {
            next.waited_ns += before.waited_ns;
            Join::Replaced
        }
        // A fault that waited is taken again.
        (AccessKind::Fault, AccessKind::Fault)
            if is_same && next.start_bytes == before.start_bytes =>
        {
            before.waited_ns += next.waited_ns;
            before.time_ns = next.time_ns;
            Join::Grown
        }
        (AccessKind::Fault, AccessKind::Mapped)
            if is_same && (next.start_bytes..end(next)).contains(&before.start_bytes) =>
        {
            before.waited_ns += next.waited_ns;
            before.time_ns = next.time_ns;
            Join::Done
        }
        // The wait after a fault is the fault's; others are of what follows.
        (AccessKind::Fault, _) => {
            let waited_ns = next.first_waited_ns.min(next.waited_ns);
            before.waited_ns += waited_ns;
            before.time_ns = before.time_ns.saturating_add(waited_ns).min(next.time_ns);
            next.waited_ns -= waited_ns;
            Join::Apart
        }
        _ => Join::Apart,
    }
}

/// Where mounts show a node, by the names above it.
fn path_of(
    node: &NodeRecord,
    nodes: &HashMap<u32, NodeRecord>,
    mounts: &Mounts,
) -> Option<Vec<u8>> {
    let mut names = Vec::new();
    let mut at = node;
    while at.parent != 0 {
        names.push(at.name.as_slice());
        at = nodes.get(&at.parent)?;
        if names.len() > DEPTH_MAX {
            return None;
        }
    }
    if names.is_empty() || !at.name.is_empty() {
        return None;
    }
    let mut inside = Vec::new();
    for name in names.iter().rev() {
        inside.push(b'/');
        inside.extend_from_slice(name);
    }
    let (major, minor) = (node.device >> 20, node.device & 0xf_ffff);
    let reached = mounts.reach(major, minor, &inside).into_iter().next();
    reached.map_or(Some(inside), |(_, path)| Some(path))
}

/// Where a file is on its device, as far as its path still leads there.
fn extents(file: &Noted) -> Vec<Extent> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let path = OsStr::from_bytes(&file.path);
    let Ok(opened) = open(path, flags, Mode::empty()) else {
        return Vec::new();
    };
    if !fstat(&opened).is_ok_and(|stat| stat.st_ino == file.inode) {
        return Vec::new();
    }
    let runs = fiemap::runs(&opened, 0, file.size_bytes, EXTENTS_OF_FILE_MAX);
    let extent = |run: fiemap::Run| Extent {
        logical_bytes: run.offset_bytes,
        physical_bytes: run.place_bytes,
        length_bytes: run.length_bytes,
    };
    runs.unwrap_or_default().into_iter().map(extent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: AccessKind, time_ns: u64, page: u64, pages: u64) -> AccessRecord {
        AccessRecord {
            kind,
            id: 1,
            pid: 7,
            tid: 7,
            time_ns,
            start_bytes: page * 4096,
            length_bytes: pages * 4096,
            size_bytes: 1 << 20,
            name: b"cat".to_vec(),
            ..AccessRecord::default()
        }
    }

    fn waited(record: AccessRecord, waited_ns: u64) -> AccessRecord {
        AccessRecord {
            waited_ns,
            first_waited_ns: waited_ns,
            ..record
        }
    }

    /// Kind, time, first page, pages, and wait of what is in the trace.
    fn made(records: Vec<AccessRecord>) -> Vec<(Kind, u64, u64, u64, u64)> {
        let header = Header::new(Source::Recorded, TimeIs::Returned);
        let mut joined = Joined::new(Vec::new(), &header).unwrap();
        let nodes = HashMap::new();
        for record in records {
            joined.take(record, &nodes);
        }
        let (bytes, traced) = joined.finish(3).unwrap();
        let mut reader = frt::Reader::new(&bytes[..]).unwrap();
        let mut accesses = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            if let Event::Access(access) = event {
                let (at, length) = (access.offset_bytes, access.length_bytes);
                let wait = access.waited_ns.unwrap();
                accesses.push((access.kind, access.time_ns, at / 4096, length / 4096, wait));
            }
        }
        assert_eq!(reader.findings().left_out.get(LeftOut::Lost), 3);
        assert!(reader.findings().is_whole());
        assert_eq!(accesses.len() as u64, traced.accesses);
        accesses
    }

    #[test]
    fn the_steps_of_a_read_are_one_access_with_the_bytes_of_its_call() {
        let found = made(vec![
            waited(record(AccessKind::Read, 10, 0, 32), 5),
            waited(record(AccessKind::Read, 20, 20, 12), 6),
            record(AccessKind::ReadCall, 21, 0, 30),
            record(AccessKind::Read, 30, 30, 2),
            record(AccessKind::Read, 40, 30, 2),
        ]);
        let read = |time, page, pages, wait| (Kind::Read, time, page, pages, wait);
        assert_eq!(
            found,
            [read(21, 0, 30, 11), read(30, 30, 2, 0), read(40, 30, 2, 0)]
        );
    }

    #[test]
    fn a_fault_waits_before_what_follows_it() {
        let found = made(vec![
            record(AccessKind::Fault, 10, 5, 1),
            waited(record(AccessKind::Mapped, 20, 0, 16), 9),
            record(AccessKind::Fault, 30, 40, 1),
            AccessRecord {
                waited_ns: 12,
                first_waited_ns: 8,
                ..record(AccessKind::ReadCall, 60, 100, 1)
            },
            record(AccessKind::Mapped, 70, 16, 16),
        ]);
        let expected = [
            (Kind::Fault, 20, 5, 1, 9),
            (Kind::Fault, 38, 40, 1, 8),
            (Kind::Read, 60, 100, 1, 4),
            (Kind::MapAround, 70, 16, 16, 0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_several_threads_did_is_in_order_of_time() {
        let other = AccessRecord {
            tid: 8,
            ..record(AccessKind::ReadCall, 15, 9, 1)
        };
        let found = made(vec![
            record(AccessKind::Fault, 10, 5, 1),
            record(AccessKind::ReadCall, 20, 8, 1),
            other,
        ]);
        let times: Vec<u64> = found.iter().map(|access| access.1).collect();
        assert_eq!(times, [10, 15, 20]);
    }
}
