// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses through a mapping: fault-around, faults that find their page, faults that miss
//! (do_read_fault, filemap_map_pages, filemap_fault).

use std::ops::Range;

use foreread_core::policy::{Access, Feedback, Kind};

use super::{From, Host, OpenFile, Step};
use crate::cache::{FolioId, PageCache, Use};

/// fault_around_bytes: cached pages of an aligned 64 KiB are mapped with the one that faults.
const AROUND_PAGES: u64 = 16;

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The pages of the file that it covers.
    pub pages: Range<u64>,
    /// `Access::VMA_*`, or-ed.
    pub flags: u16,
}

/// Pages that a program comes to through a mapping, in a row.
#[derive(Clone, Debug)]
pub struct FaultCall {
    index: u64,
    end: u64,
    mapping: Mapping,
    waited: Option<FolioId>,
    late: Option<u32>,
    faults: u64,
}

impl FaultCall {
    /// Comes to `pages`, cut to what the mapping and the file have.
    #[must_use]
    pub fn new(open: &OpenFile, pages: Range<u64>, mapping: Mapping) -> Self {
        let end = pages.end.min(open.limits.file_pages);
        Self {
            index: pages.start.max(mapping.pages.start),
            end: end.min(mapping.pages.end),
            mapping,
            waited: None,
            late: None,
            faults: 0,
        }
    }

    /// The page to go on at.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Faults so far; pages that are mapped already cause none.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.faults
    }

    /// Goes on until pages were used, a page has to be waited for, or the last one was used.
    pub fn step(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
    ) -> Step {
        if let Some(folio) = self.waited {
            if !cache.info(folio).up_to_date {
                return Step::Wait(folio);
            }
            self.waited = None;
            self.late = Some(cache.info(folio).stamp);
            cache.unpin(folio);
            open.policy.feedback(&mut open.state, Feedback::Late, 1);
            return self.use_run(cache, open, 1);
        }
        if self.index >= self.end {
            return Step::Done;
        }
        let mapped = cache.mapped_run(open.file, self.index..self.end);
        if mapped > 0 {
            return self.use_run(cache, open, mapped);
        }
        self.faults += 1;
        if self.map_around(cache, open) {
            return self.use_run(cache, open, 1);
        }
        self.fault(cache, open, host)
    }

    /// Maps what is cached around the fault; whether the page itself was. Folios that carry a mark,
    /// or are on their way, are left to a fault of their own (next_uptodate_folio). A large folio
    /// is mapped whole (commit 357b92761d94).
    fn map_around(&self, cache: &mut PageCache, open: &mut OpenFile) -> bool {
        let first = self.index - self.index % AROUND_PAGES;
        let end = (first + AROUND_PAGES).min(self.mapping.pages.end);
        let mut at = first.max(self.mapping.pages.start);
        let (mut covered, mut folios) = (false, 0);
        while at < end {
            let Some(id) = cache.find(open.file, at) else {
                at += 1;
                continue;
            };
            let info = cache.info(id);
            if info.up_to_date && !info.marked {
                let start = info.index.max(self.mapping.pages.start);
                let pages = start..info.end().min(self.mapping.pages.end);
                covered |= pages.contains(&self.index);
                cache.map_pages(open.file, pages);
                // A page that came back soon after its eviction is no sign that readahead pays.
                folios += u64::from(!info.workingset);
            }
            at = info.end();
        }
        if folios > 0 {
            open.state.fault_mapped(folios);
        }
        covered
    }

    fn fault(&mut self, cache: &mut PageCache, open: &mut OpenFile, host: &mut dyn Host) -> Step {
        let found = cache.find(open.file, self.index);
        let info = found.map(|id| cache.info(id));
        let kind = match info {
            None => Kind::FaultMiss,
            Some(info) if info.marked => Kind::FaultMark,
            Some(_) => Kind::FaultHit,
        };
        let mut access = Access::fault(kind, self.index, self.mapping.flags);
        (access.vma_start, access.vma_end) = (self.mapping.pages.start, self.mapping.pages.end);
        access.folio_order = info.map_or(0, |info| info.order);
        let up_to_date = info.is_some_and(|info| info.up_to_date);
        if found.is_some() && !up_to_date {
            access.flags |= Access::LOCKED;
        }
        if found.is_none() {
            open.note_miss(cache, self.index);
        }
        let from = From {
            marked: found.filter(|_| kind == Kind::FaultMark),
            needed: found.is_none(),
            up_to_date,
        };
        if let Some(id) = found {
            cache.pin(id);
        }
        open.decide(cache, access, &from, host);
        if let Some(id) = found {
            cache.unpin(id);
        }
        if cache.find(open.file, self.index).is_none() {
            open.read_alone(cache, self.index, host);
        }
        self.wait_or_use(cache, open)
    }

    fn wait_or_use(&mut self, cache: &mut PageCache, open: &mut OpenFile) -> Step {
        let Some(folio) = cache.find(open.file, self.index) else {
            self.index = self.end;
            return Step::Done;
        };
        if cache.info(folio).up_to_date {
            return self.use_run(cache, open, 1);
        }
        cache.pin(folio);
        self.waited = Some(folio);
        Step::Wait(folio)
    }

    fn use_run(&mut self, cache: &mut PageCache, open: &mut OpenFile, pages: u64) -> Step {
        let how = Use {
            stream: open.stream,
            previous_page: None,
            late: self.late,
            mapped: true,
        };
        let end = self.index + pages;
        cache.use_pages(open.file, self.index..end, &how);
        let is_text = self.mapping.flags & Access::VMA_EXEC != 0;
        if let (true, Some(id)) = (is_text, cache.find(open.file, self.index)) {
            cache.mark_exec(id);
        }
        open.hit_pages = open.hit_pages.saturating_add(pages);
        self.index = end;
        Step::Used(pages)
    }
}
