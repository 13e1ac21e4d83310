// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of a reader of a foreign format: events whose files and threads have ids, within the
//! limits, and findings.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::checks::Checks;
use crate::findings::{Findings, Place};
use crate::limits::{FILES_MAX, NAMES_BYTES_MAX, OFFSET_BYTES_MAX, PATH_BYTES_MAX, THREADS_MAX};
use crate::types::{Access, Event, File, FileId, LeftOut, Thread, ThreadId};

/// Takes the output of a reader.
pub(super) struct Emit {
    pub events: VecDeque<Event>,
    pub findings: Findings,
    /// Place of the record that is being read.
    pub place: Place,
    checks: Checks,
    files: HashMap<Box<[u8]>, FileId>,
    files_count: u32,
    /// There are few, for which this is faster than hashing.
    threads: BTreeMap<u64, ThreadId>,
    threads_count: u32,
    names_bytes: u64,
    streams: u32,
}

impl Emit {
    pub fn new(page_bytes: u32) -> Self {
        Self {
            events: VecDeque::new(),
            findings: Findings::default(),
            place: Place::Line(0),
            checks: Checks::new(page_bytes),
            files: HashMap::new(),
            files_count: 0,
            threads: BTreeMap::new(),
            threads_count: 0,
            names_bytes: 0,
            streams: 0,
        }
    }

    /// The file of a name, which is its path unless `make` says otherwise; `None` when it is beyond
    /// the limits.
    pub fn file(&mut self, name: &[u8], make: impl FnOnce() -> File) -> Option<FileId> {
        if let Some(id) = self.files.get(name) {
            return Some(*id);
        }
        let id = self.new_file(name.len(), make)?;
        self.files.insert(name.into(), id);
        Some(id)
    }

    /// A file that the reader finds again by itself.
    pub fn new_file(&mut self, name_bytes: usize, make: impl FnOnce() -> File) -> Option<FileId> {
        let mut file = make();
        file.path.truncate(PATH_BYTES_MAX);
        if self.files_count >= FILES_MAX || !self.has_room(name_bytes.max(file.path.len())) {
            return None;
        }
        let id = FileId(self.files_count);
        self.files_count += 1;
        self.checks.file(id, &file);
        self.events.push_back(Event::File(id, Box::new(file)));
        Some(id)
    }

    /// The thread with this number of the source; `None` when it is beyond the limits.
    pub fn thread(&mut self, number: u64, make: impl FnOnce() -> Thread) -> Option<ThreadId> {
        if let Some(id) = self.threads.get(&number) {
            return Some(*id);
        }
        let mut thread = make();
        thread.name.truncate(PATH_BYTES_MAX);
        if self.threads_count >= THREADS_MAX || !self.has_room(thread.name.len()) {
            return None;
        }
        let id = ThreadId(self.threads_count);
        self.threads_count += 1;
        self.threads.insert(number, id);
        self.events.push_back(Event::Thread(id, Box::new(thread)));
        Some(id)
    }

    /// The thread with this number, if there was an access of it.
    pub fn thread_of(&self, number: u64) -> Option<ThreadId> {
        self.threads.get(&number).copied()
    }

    /// The thread with this number ended; a later one may have the same.
    pub fn thread_ends(&mut self, number: u64, time_ns: u64) {
        if let Some(thread) = self.threads.remove(&number) {
            let end = Event::ThreadEnd { time_ns, thread };
            self.events.push_back(end);
        }
    }

    /// The number of a new stream.
    pub fn stream(&mut self) -> u32 {
        self.streams = self.streams.saturating_add(1);
        self.streams
    }

    /// An access. The error is the fault in it.
    pub fn access(&mut self, access: Access) -> Result<(), &'static str> {
        match access.offset_bytes.checked_add(access.length_bytes) {
            Some(end) if end <= OFFSET_BYTES_MAX && access.offset_bytes < OFFSET_BYTES_MAX => {}
            _ => return Err("is beyond the end of any file"),
        }
        self.checks.access(&access, self.place, &mut self.findings);
        self.events.push_back(Event::Access(access));
        Ok(())
    }

    /// Something that the trace does not hold.
    pub fn left_out(&mut self, what: LeftOut) {
        self.findings.left_out.add(what, 1);
    }

    fn has_room(&mut self, name_bytes: usize) -> bool {
        let names_bytes = self.names_bytes + name_bytes as u64;
        let has_room = names_bytes <= NAMES_BYTES_MAX;
        if has_room {
            self.names_bytes = names_bytes;
        }
        has_room
    }
}
