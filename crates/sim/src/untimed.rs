// SPDX-License-Identifier: MIT OR Apache-2.0
//! One reader of one file, without devices and time: pages that are read are there when they are
//! waited for.

use std::fmt;
use std::ops::Range;

use foreread_core::policy::{Access, Advice, Decision, Limits, Policy, State};

use crate::cache::{FileId, PageCache};
use crate::path::{Batch, Decided, FaultCall, Host, Mapping, OpenFile, ReadCall, Step, force};

/// A decision, with its inputs and the pages that were read.
#[derive(Clone, Debug)]
pub struct Logged {
    /// The access, as the policy saw it.
    pub access: Access,
    /// The state before.
    pub before: State,
    /// The decision and its reason.
    pub decision: Decision,
    /// The runs of pages that it read, in order.
    pub batches: Vec<Range<u64>>,
}

impl fmt::Display for Logged {
    /// `reads 0+4 a3`: the windows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reads")?;
        for window in self.decision.windows() {
            write!(f, " {window}")?;
        }
        Ok(())
    }
}

/// One reader of one file.
#[derive(Clone, Debug)]
pub struct Untimed {
    /// Each decision, in order.
    pub log: Vec<Logged>,
    /// Pages that no decision brought in and that were read alone, in order.
    pub alone: Vec<u64>,
    cache: PageCache,
    open: OpenFile,
}

/// The results of one access.
#[derive(Default)]
struct Told {
    log: Vec<Logged>,
    alone: Vec<u64>,
    batches: Vec<Range<u64>>,
    under_way: Vec<Range<u64>>,
}

impl Host for Told {
    fn submit(&mut self, batch: Batch) {
        self.under_way.push(batch.pages.clone());
        if batch.alone {
            self.alone.push(batch.pages.start);
        } else {
            self.batches.push(batch.pages);
        }
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        self.log.push(Logged {
            access: *decided.access,
            before: *decided.before,
            decision: *decided.decision,
            batches: std::mem::take(&mut self.batches),
        });
    }
}

impl Untimed {
    /// A file just opened, of which nothing is cached, and memory without end.
    #[must_use]
    pub fn new(policy: Policy, limits: Limits) -> Self {
        let mut cache = PageCache::new(None);
        let (file, stream) = (cache.add_file(), cache.add_stream());
        Self {
            log: Vec::new(),
            alone: Vec::new(),
            cache,
            open: OpenFile::new(file, stream, policy, limits),
        }
    }

    /// The state of the policy.
    pub fn state_mut(&mut self) -> &mut State {
        &mut self.open.state
    }

    /// The limits; a change applies from the next decision on.
    pub fn limits_mut(&mut self) -> &mut Limits {
        &mut self.open.limits
    }

    /// The cache; its only file is [`Untimed::file`].
    #[must_use]
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> FileId {
        self.open.file
    }

    /// Runs of cached pages, as first page and length.
    #[must_use]
    pub fn resident_runs(&self) -> Vec<(u64, u64)> {
        let pages = self.open.limits.file_pages;
        self.cache.resident_runs(self.open.file, pages)
    }

    /// pread(2) of `bytes` at `offset_bytes`.
    pub fn read(&mut self, offset_bytes: u64, bytes: u64) {
        let mut call = ReadCall::new(&self.open, offset_bytes, bytes);
        self.play(|cache, open, told| call.step(cache, open, told));
    }

    /// Comes to `pages` through a mapping.
    pub fn fault(&mut self, pages: Range<u64>, mapping: Mapping) {
        let mut call = FaultCall::new(&self.open, pages, mapping);
        self.play(|cache, open, told| call.step(cache, open, told));
    }

    /// `POSIX_FADV_WILLNEED` or readahead(2).
    pub fn force(&mut self, start: u64, pages: u64) {
        self.play(|cache, open, told| {
            force(cache, open, start, pages, told);
            Step::Done
        });
    }

    /// posix_fadvise(2) on the whole file.
    pub fn advise(&mut self, advice: Advice) {
        self.open.advise(advice);
    }

    /// lseek(2).
    pub fn seek(&mut self) {
        self.open.state.seek();
    }

    /// `POSIX_FADV_DONTNEED`; how many pages went.
    pub fn drop_pages(&mut self, start: u64, end: u64) -> u64 {
        self.cache.drop_pages(self.open.file, start, end)
    }

    /// Everything is read by the end of the call. During the call, the pages that are waited for
    /// arrive, and those requested before them.
    fn play(&mut self, mut step: impl FnMut(&mut PageCache, &mut OpenFile, &mut Told) -> Step) {
        let mut told = Told::default();
        loop {
            let next = step(&mut self.cache, &mut self.open, &mut told);
            if let Step::Wait(_) | Step::Done = next {
                self.arrive(&mut told);
            }
            if next == Step::Done {
                break;
            }
        }
        self.log.append(&mut told.log);
        self.alone.append(&mut told.alone);
    }

    fn arrive(&mut self, told: &mut Told) {
        for pages in told.under_way.drain(..) {
            self.cache.arrive(self.open.file, pages, &mut Vec::new());
        }
    }
}
