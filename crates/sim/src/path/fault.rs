// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accesses through a mapping: fault-around, faults that find their page, faults that miss
//! (do_read_fault, filemap_map_pages, filemap_fault).

use std::ops::Range;

use foreread_core::policy::{Access, Kind, Rules};

use super::{From, Host, OpenFile, Step};
use crate::cache::{FolioId, FolioInfo, PageCache, Use};

/// fault_around_bytes: cached pages of 64 KiB, aligned by address, are mapped with the one that
/// faults.
const AROUND_PAGES: u64 = 16;
/// PTRS_PER_PTE: the pages of one page table, which no fault-around leaves.
const TABLE_PAGES: u64 = 512;
/// PMD_ORDER: a folio that can take the place of a whole page table.
const TABLE_ORDER: u8 = 9;

/// A mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The pages of the file that it covers.
    pub pages: Range<u64>,
    /// `Access::VMA_*`, or-ed.
    pub flags: u16,
    /// The number of the page of memory where it begins. Only the place in a page table matters,
    /// the remainder by 512.
    pub address_page: u64,
}

impl Mapping {
    /// A mapping at an address that is aligned as the file is.
    #[must_use]
    pub fn new(pages: Range<u64>, flags: u16) -> Self {
        Self {
            address_page: pages.start,
            pages,
            flags,
        }
    }

    /// The place of a page of the file in its page table.
    fn slot(&self, page: u64) -> u64 {
        let address = self
            .address_page
            .wrapping_add(page.wrapping_sub(self.pages.start));
        address % TABLE_PAGES
    }

    /// Pages that a fault at a page maps with it (do_fault_around).
    fn around(&self, page: u64) -> Range<u64> {
        let slot = self.slot(page);
        let in_mapping = page.saturating_sub(self.pages.start);
        let aligned = slot - slot % AROUND_PAGES;
        let from = aligned.max(slot - slot.min(in_mapping));
        let to = (from + AROUND_PAGES).min(TABLE_PAGES);
        let end = page.saturating_add(to - slot).min(self.pages.end);
        page - (slot - from)..end
    }

    /// Whether a folio can be mapped whole: it must not leave the mapping or the page table.
    fn holds(&self, folio: &FolioInfo) -> bool {
        folio.index >= self.pages.start
            && folio.end() <= self.pages.end
            && self.slot(folio.index) + (folio.end() - folio.index) <= TABLE_PAGES
    }
}

/// Pages that a program comes to through a mapping, in a row.
#[derive(Clone, Debug)]
pub struct FaultCall {
    index: u64,
    end: u64,
    mapping: Mapping,
    waited: Option<FolioId>,
    late: Option<u32>,
    /// Since when it is waited for, and whether it was on its way before.
    waiting_since_ns: u64,
    was_asked: bool,
    faults: u64,
    /// The fault is to be taken again, from fault-around on.
    is_again: bool,
    /// Pages that are not cached are passed over.
    is_around: bool,
}

impl FaultCall {
    /// Accesses `pages`, cut to the mapping and the file.
    #[must_use]
    pub fn new(open: &OpenFile, pages: Range<u64>, mapping: Mapping) -> Self {
        let end = pages.end.min(open.limits.file_pages);
        Self {
            index: pages.start.max(mapping.pages.start),
            end: end.min(mapping.pages.end),
            mapping,
            waited: None,
            late: None,
            waiting_since_ns: 0,
            was_asked: false,
            faults: 0,
            is_again: false,
            is_around: false,
        }
    }

    /// Accesses the cached pages of `pages`, or all of them if none is cached. They were mapped
    /// around a fault at a page, of which it is only known that it was cached.
    #[must_use]
    pub fn around(open: &OpenFile, pages: Range<u64>, mapping: Mapping, cache: &PageCache) -> Self {
        let mut call = Self::new(open, pages, mapping);
        let is_cached = |page| cache.find(open.file, page).is_some();
        call.is_around = (call.index..call.end).any(is_cached);
        call
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

    /// It waits from now on, and not since its last step.
    pub(crate) fn wait_from(&mut self, now_ns: u64) {
        self.waiting_since_ns = now_ns;
    }

    /// Goes on until pages were used, a page has to be waited for, or the last one was used.
    pub fn step(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
    ) -> Step {
        if let Some(folio) = self.waited {
            let Some(stamp) = cache.arrived(folio) else {
                return Step::Wait(folio);
            };
            self.waited = None;
            self.late = Some(stamp);
            open.tell_waited(self.waiting_since_ns, self.was_asked, 1, host);
            return self.map_again(cache, open, host);
        }
        if std::mem::take(&mut self.is_again) {
            return self.map_again(cache, open, host);
        }
        let is_missing = |page| self.is_around && cache.find(open.file, page).is_none();
        let missing = (self.index..self.end).take_while(|page| is_missing(*page));
        self.index += missing.count() as u64;
        if self.index >= self.end {
            return Step::Done;
        }
        let mapped = cache.mapped_run(open.file, self.index..self.end);
        if mapped > 0 {
            return self.use_run(cache, open, mapped);
        }
        self.faults += 1;
        self.was_asked = cache.find(open.file, self.index).is_some();
        if open.policy.sees() {
            self.decide(cache, open, host);
        }
        if self.map_around(cache, open, false) {
            return self.use_run(cache, open, 1);
        }
        self.fault(cache, open, host)
    }

    /// Maps the cached pages around the fault. Returns whether the page itself was cached
    /// (filemap_map_pages). Folios that carry a mark, or are on their way, are left to a fault of
    /// their own (next_uptodate_folio). `tried`: the fault is taken again, and knows it
    /// (FAULT_FLAG_TRIED).
    fn map_around(&self, cache: &mut PageCache, open: &mut OpenFile, tried: bool) -> bool {
        let around = self.mapping.around(self.index);
        let end = around.end.min(open.limits.file_pages);
        let mut at = around.start;
        let (mut covered, mut hits) = (false, 0);
        let mut has_table = self.has_table(cache, open);
        while at < end {
            let Some(id) = cache.find(open.file, at) else {
                at += 1;
                continue;
            };
            let info = cache.info(id);
            if info.up_to_date && !info.marked {
                if !has_table {
                    if may_cross_end(&info, open) && !open.rules.has(Rules::TABLE_FIRST) {
                        return false;
                    }
                    if self.replaces_table(&info) {
                        cache.map_pages(open.file, info.index..info.end());
                        return true;
                    }
                }
                has_table = true;
                let pages = self.mapped_of(&info, at..info.end().min(end), open);
                let serves = pages.contains(&self.index);
                covered |= serves;
                hits += self.hits(&info, &pages, serves && !tried, open);
                cache.map_pages(open.file, pages);
            }
            at = info.end();
        }
        if hits > 0 {
            open.state.fault_mapped(hits);
        }
        covered
    }

    /// Number of misses that fault-around takes back for the pages of a folio that it walks over. A
    /// page that came back soon after its eviction is no sign that readahead pays.
    fn hits(&self, info: &FolioInfo, pages: &Range<u64>, serves: bool, open: &OpenFile) -> u64 {
        let uncounted = Access::VMA_SEQUENTIAL | Access::VMA_EXEC;
        if info.workingset && !open.rules.has(Rules::COUNTS_REFAULTS) {
            0
        } else if !open.rules.has(Rules::FAIR_MISSES) {
            pages.end - pages.start
        } else if self.mapping.flags & uncounted == 0 {
            serves.into()
        } else {
            0
        }
    }

    /// Whether a folio takes the place of the page table (do_set_pmd).
    fn replaces_table(&self, info: &FolioInfo) -> bool {
        info.order == TABLE_ORDER && self.mapping.slot(info.index) == 0 && self.mapping.holds(info)
    }

    /// Whether the mapping has a page table where the fault is. filemap_map_pages() makes one only
    /// in filemap_map_pmd(). It calls that only if the first folio that it finds is not taken to
    /// cross the end of the file. Without a table it maps nothing.
    fn has_table(&self, cache: &PageCache, open: &OpenFile) -> bool {
        let slot = self.mapping.slot(self.index);
        let first = self
            .index
            .saturating_sub(slot)
            .max(self.mapping.pages.start);
        let end = self.index.saturating_add(TABLE_PAGES - slot);
        let end = end.min(self.mapping.pages.end).min(open.limits.file_pages);
        cache.any_mapped(open.file, first..end)
    }

    /// Pages of a folio that fault-around maps: all of it, since Linux 6.18 (commit 357b92761d94),
    /// unless it is taken to cross the end of the file.
    fn mapped_of(&self, info: &FolioInfo, part: Range<u64>, open: &OpenFile) -> Range<u64> {
        if !open.rules.has(Rules::MAPS_FOLIOS) {
            return part;
        }
        if info.order > 0 && !may_cross_end(info, open) && self.mapping.holds(info) {
            info.index..info.end()
        } else {
            part
        }
    }

    /// Maps the page that faulted if fault-around didn't. Since Linux 6.18 (finish_fault, commit
    /// 19773df031bc) all of its folio is mapped, if nothing of that is mapped and all of it is in
    /// the file. Before, a folio takes the place of a page table, or is mapped by the page.
    fn map_fault(&self, cache: &mut PageCache, open: &OpenFile) {
        let Some(id) = cache.find(open.file, self.index) else {
            return;
        };
        let info = cache.info(id);
        let whole = info.index..info.end();
        let maps_whole = open.rules.has(Rules::MAPS_FOLIOS)
            || (self.replaces_table(&info) && !self.has_table(cache, open));
        let is_in_file = info.end() <= open.limits.file_pages;
        let fits = maps_whole && is_in_file && self.mapping.holds(&info);
        let pages = if fits && !cache.any_mapped(open.file, whole.clone()) {
            whole
        } else {
            self.index..self.index + 1
        };
        cache.map_pages(open.file, pages);
    }

    fn fault(&mut self, cache: &mut PageCache, open: &mut OpenFile, host: &mut dyn Host) -> Step {
        let again = !open.policy.sees() && self.decide(cache, open, host);
        if cache.find(open.file, self.index).is_none() {
            open.read_alone(cache, self.index, host);
        }
        // A fault that may have to wait drops the lock of the mapping and is taken again
        // (maybe_unlock_mmap_for_io): for each read, and for each mark.
        self.wait_or_use(cache, open, again, host)
    }

    /// Asks the policy; whether a mark was acted on.
    fn decide(&self, cache: &mut PageCache, open: &mut OpenFile, host: &mut dyn Host) -> bool {
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
        let ignores_marks = self.mapping.flags & Access::VMA_RANDOM != 0
            || open.state.ra_pages == 0
            || kind != Kind::FaultMark;
        open.decide(cache, access, &from, host);
        if let Some(id) = found {
            cache.unpin(id);
        }
        !ignores_marks
    }

    fn wait_or_use(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        again: bool,
        host: &dyn Host,
    ) -> Step {
        let Some(folio) = cache.find(open.file, self.index) else {
            self.index = self.end;
            return Step::Done;
        };
        if !cache.info(folio).up_to_date {
            cache.pin(folio);
            self.waited = Some(folio);
            self.waiting_since_ns = host.now_ns();
            return Step::Wait(folio);
        }
        if again {
            self.is_again = true;
            return Step::Again;
        }
        self.map_fault(cache, open);
        self.use_run(cache, open, 1)
    }

    /// The page is there, and the fault is taken again: maps it, with the other pages that have
    /// arrived.
    ///
    /// A fault under the lock of its mapping is taken again under that of the process. It counts as
    /// tried only if it was a major one (do_user_addr_fault). Otherwise it is counted anew.
    fn map_again(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
    ) -> Step {
        let tried = !self.was_asked || open.rules.has(Rules::ALWAYS_TRIED);
        // Fault-around is of Linux 3.15, younger than the other policies.
        let is_today = open.policy.is_of_kernel() || open.policy.sees();
        if !is_today || !self.map_around(cache, open, tried) {
            if open.policy.is_of_kernel() && !tried {
                self.decide(cache, open, host);
            }
            self.map_fault(cache, open);
        }
        self.use_run(cache, open, 1)
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

/// Whether fault-around takes a folio to cross the end of the file. One that ends right there is
/// taken to: file_end is the last page, and is compared with the page after the folio.
fn may_cross_end(folio: &FolioInfo, open: &OpenFile) -> bool {
    open.limits.file_pages.saturating_sub(1) < folio.end()
}
