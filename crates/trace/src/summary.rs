// SPDX-License-Identifier: MIT OR Apache-2.0
//! A summary of a trace, in numbers.

use std::collections::HashMap;

use crate::distinct::Distinct;
use crate::types::{Access, Event, FileId, Flags, Kind};

/// Streams whose last read is remembered; when there are more, all are forgotten.
const STREAMS_MAX: usize = 1 << 16;

/// Adds up events.
#[derive(Clone, Debug)]
pub struct Summary {
    page_bytes: u64,
    /// Files that are defined.
    pub files: u64,
    /// Extents of all files.
    pub extents: u64,
    /// Threads that are defined.
    pub threads: u64,
    /// Accesses of each kind, in the order of [`Kind::ALL`].
    pub accesses: [u64; Kind::ALL.len()],
    /// Bytes of accesses that used pages.
    pub bytes: u64,
    /// Accesses that used pages and went on where the one before ended in the same stream.
    pub sequential: u64,
    /// Earliest and latest time.
    pub times_ns: Option<(u64, u64)>,
    /// Accesses that say whether they waited.
    pub with_waited: u64,
    /// Those that did.
    pub waited: u64,
    /// Sum of their waits.
    pub waited_ns: u64,
    distinct: Distinct,
    ends: HashMap<(FileId, u32, u32), u64>,
    /// By id: where a file ends, where that is known.
    sizes_bytes: Vec<u64>,
}

impl Summary {
    /// An empty summary, for pages of `page_bytes` bytes.
    #[must_use]
    pub fn new(page_bytes: u32) -> Self {
        Self {
            page_bytes: u64::from(page_bytes.max(1)),
            files: 0,
            extents: 0,
            threads: 0,
            accesses: [0; Kind::ALL.len()],
            bytes: 0,
            sequential: 0,
            times_ns: None,
            with_waited: 0,
            waited: 0,
            waited_ns: 0,
            distinct: Distinct::default(),
            ends: HashMap::new(),
            sizes_bytes: Vec::new(),
        }
    }

    /// One more event.
    pub fn add(&mut self, event: &Event) {
        match event {
            Event::File(id, file) => {
                self.files += 1;
                let id = id.0 as usize;
                if let Some(size_bytes) = file.size_bytes {
                    let len = self.sizes_bytes.len().max(id + 1);
                    self.sizes_bytes.resize(len, u64::MAX);
                    self.sizes_bytes[id] = size_bytes;
                }
            }
            Event::Extents(_, extents) => self.extents += extents.len() as u64,
            Event::Thread(..) => self.threads += 1,
            Event::ThreadEnd { time_ns, .. } => self.time(*time_ns),
            Event::Access(access) => self.access(access),
        }
    }

    /// All accesses.
    #[must_use]
    pub fn all_accesses(&self) -> u64 {
        self.accesses.iter().sum()
    }

    /// Accesses that used pages.
    #[must_use]
    pub fn reads(&self) -> u64 {
        let kinds = Kind::ALL.iter().zip(self.accesses);
        kinds
            .filter(|(kind, _)| kind.uses_pages())
            .map(|(_, count)| count)
            .sum()
    }

    /// Different pages that were used, and whether the number is exact. When there are too many to
    /// remember, it is an estimate within 1 % nearly always.
    #[must_use]
    pub fn distinct_pages(&self) -> (u64, bool) {
        self.distinct.pages()
    }

    fn time(&mut self, time_ns: u64) {
        let (first, last) = self.times_ns.unwrap_or((time_ns, time_ns));
        self.times_ns = Some((first.min(time_ns), last.max(time_ns)));
    }

    fn access(&mut self, access: &Access) {
        self.time(access.time_ns);
        self.accesses[access.kind as usize] += 1;
        if let Some(waited_ns) = access.waited_ns {
            self.with_waited += 1;
            self.waited += u64::from(waited_ns > 0);
            self.waited_ns = self.waited_ns.saturating_add(waited_ns);
        }
        // No program has used the pages that readahead asked for.
        if !access.kind.uses_pages() || access.flags.contains(Flags::AHEAD) {
            return;
        }
        // A read beyond the end of its file returned only the bytes before it.
        let size_bytes = self.sizes_bytes.get(access.file.0 as usize).copied();
        let left_bytes = size_bytes.and_then(|size| size.checked_sub(access.offset_bytes));
        let length_bytes = match left_bytes {
            // A file that has grown since it was seen first.
            None | Some(0) => access.length_bytes,
            Some(left_bytes) => access.length_bytes.min(left_bytes),
        };
        let end_bytes = access.offset_bytes.saturating_add(length_bytes);
        self.bytes = self.bytes.saturating_add(length_bytes);
        if length_bytes > 0 {
            let first = access.offset_bytes / self.page_bytes;
            let end = end_bytes.div_ceil(self.page_bytes);
            self.distinct.add(access.file, first, end - first);
        }
        // Without streams, a thread's reads of a file are one.
        let thread = match access.stream {
            0 => access.thread.0,
            _ => 0,
        };
        if self.ends.len() >= STREAMS_MAX {
            self.ends.clear();
        }
        let stream = (access.file, access.stream, thread);
        let before = self.ends.insert(stream, end_bytes);
        self.sequential += u64::from(before == Some(access.offset_bytes));
    }
}
