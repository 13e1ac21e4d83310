// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reference reader: the page cache of one file as a map from pages to folios, and the loops of
//! the kernel that reach readahead. No time, no eviction but by order.
#![allow(dead_code, reason = "no test program uses all of it")]

pub mod golden;

use foreread_core::policy::{
    Access, Advice, Decision, Feedback, Kind, Limits, Nearby, Policy, State, Window,
};
use golden::Golden;
use std::collections::BTreeMap;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Folios that `filemap_get_pages()` collects at a time.
const BATCH_FOLIOS: usize = 31;

/// The state of a cached page: its folio, and whether it was read.
#[derive(Clone, Copy, Debug)]
struct Page {
    folio: u64,
    order: u8,
    read: bool,
}

/// The pages of a file that are cached, and the marks.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    pages: BTreeMap<u64, Page>,
    /// First pages of marked folios.
    marks: BTreeMap<u64, ()>,
}

impl Nearby for Cache {
    fn is_cached(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    fn was_read(&self, page: u64) -> bool {
        self.pages.get(&page).is_some_and(|page| page.read)
    }
}

impl Cache {
    fn insert(&mut self, folio: u64, order: u8, marked: bool) -> bool {
        let pages = folio..folio + (1 << order);
        if pages.clone().any(|page| self.is_cached(page)) {
            return false;
        }
        let read = false;
        for page in pages {
            self.pages.insert(page, Page { folio, order, read });
        }
        if marked {
            self.marks.insert(folio, ());
        }
        true
    }

    /// Folios leave as a whole.
    pub fn evict(&mut self, start: u64, pages: u64) {
        for page in start..start + pages {
            let Some(Page { folio, order, .. }) = self.pages.get(&page).copied() else {
                continue;
            };
            self.pages
                .retain(|page, _| *page < folio || *page >= folio + (1 << order));
            self.marks.remove(&folio);
        }
    }
}

/// An open file whose reader is played.
pub struct Reader {
    pub policy: Policy,
    pub limits: Limits,
    pub state: State,
    pub cache: Cache,
    /// Each decision of which something became, as `kind index: windows reason`.
    pub log: Vec<(Access, Decision)>,
    /// The same in full.
    pub golden: Vec<Golden>,
    /// Pages that came into the cache.
    pub fetched_pages: u64,
}

impl Reader {
    pub fn new(policy: Policy, limits: Limits) -> Self {
        Self {
            policy,
            limits,
            state: State::open(&limits),
            cache: Cache::default(),
            log: Vec::new(),
            golden: Vec::new(),
            fetched_pages: 0,
        }
    }

    pub fn advise(&mut self, advice: Advice) {
        self.state.advise(advice, &self.limits);
    }

    /// `filemap_read()`, or for policies that look, `do_generic_mapping_read()` of 2.6.13.
    pub fn read(&mut self, byte: u64, bytes: u64) {
        let file_bytes = self.limits.file_pages.saturating_mul(PAGE);
        let end = byte.saturating_add(bytes).min(file_bytes);
        if byte >= end {
            return;
        }
        let last = end.div_ceil(PAGE);
        if self.policy.looks() {
            self.read_looking(byte / PAGE, last);
        } else {
            let mut index = byte / PAGE;
            while index < last {
                index = self.read_batch(index, last);
            }
        }
        self.state.read_done(end);
    }

    /// Returns the page to go on at.
    fn read_batch(&mut self, index: u64, last: u64) -> u64 {
        let mut batch = self.collect(index, last);
        if batch.is_empty() {
            self.decide(Access::read_miss(index, last - index));
            batch = self.collect(index, last);
        }
        if batch.is_empty() {
            self.fetched_pages += u64::from(self.cache.insert(index, 0, false));
            batch = self.collect(index, last);
        }
        let (folio, order) = *batch.last().expect("a page was inserted");
        if self.cache.marks.contains_key(&folio) {
            self.decide(Access::read_mark(folio, last - folio, order));
        }
        let next = (folio + (1 << order)).min(last);
        for page in index..next {
            if let Some(page) = self.cache.pages.get_mut(&page) {
                page.read = true;
            }
        }
        next
    }

    /// Cached folios in a row from `index` on, up to one with a mark.
    fn collect(&self, index: u64, last: u64) -> Vec<(u64, u8)> {
        let (mut batch, mut at) = (Vec::new(), index);
        while at < last && batch.len() < BATCH_FOLIOS {
            let Some(page) = self.cache.pages.get(&at) else {
                break;
            };
            batch.push((page.folio, page.order));
            if self.cache.marks.contains_key(&page.folio) {
                break;
            }
            at = page.folio + (1 << page.order);
        }
        batch
    }

    fn read_looking(&mut self, first: u64, last: u64) {
        let mut next_look = first;
        for index in first..last {
            if index == next_look {
                let decision = self.decide(Access::read_look(index, last - index));
                next_look = decision.next_look;
            }
            if !self.cache.is_cached(index) {
                self.decide(Access::read_miss(index, last - index));
                self.fetched_pages += u64::from(self.cache.insert(index, 0, false));
            }
            if let Some(page) = self.cache.pages.get_mut(&index) {
                page.read = true;
            }
        }
    }

    /// A fault on a mapping.
    pub fn fault(&mut self, index: u64, flags: u16, vma: (u64, u64)) {
        let found = self.cache.pages.get(&index).copied();
        let marked = found.is_some_and(|page| self.cache.marks.contains_key(&page.folio));
        let kind = match (found.is_some(), marked) {
            (false, _) => Kind::FaultMiss,
            (true, false) => Kind::FaultHit,
            (true, true) => Kind::FaultMark,
        };
        let mut access = Access::fault(kind, index, flags);
        (access.vma_start, access.vma_end) = vma;
        access.folio_order = found.map_or(0, |page| page.order);
        let decision = self.decide(access);
        if let (true, Some(page)) = (decision.clears_mark(), found) {
            self.cache.marks.remove(&page.folio);
        }
        self.fetched_pages += u64::from(self.cache.insert(index, 0, false));
        if let Some(page) = self.cache.pages.get_mut(&index) {
            page.read = true;
        }
    }

    /// `WILLNEED`.
    pub fn force(&mut self, index: u64, pages: u64) {
        self.decide(Access::force(index, pages));
    }

    fn decide(&mut self, access: Access) -> Decision {
        let (policy, limits, state) = (self.policy, self.limits, self.state);
        let near = policy.ask(&self.state, &access, &self.cache, &limits);
        let decision = policy.decide_near(&mut self.state, &access, &near, &limits);
        self.golden.push(Golden {
            policy,
            state,
            access,
            near,
            limits,
            outcome: golden::outcome(&decision, &self.state),
        });
        if decision.clears_mark() {
            self.cache.marks.remove(&access.index);
        }
        for window in decision.windows() {
            self.issue(window);
        }
        self.log.push((access, decision));
        decision
    }

    fn issue(&mut self, window: &Window) {
        let (mut folios, mut read) = (window.folios(&self.limits), 0);
        while let Some(folio) = folios.next() {
            if self.cache.insert(folio.index, folio.order, folio.marked) {
                read += folio.pages();
            } else {
                folios.refuse();
            }
        }
        self.fetched_pages += read;
        // 2.6.13 counts a window beyond the end of the file as found in the cache, too.
        let feedback = match read {
            0 => Feedback::Cached,
            _ => Feedback::Read,
        };
        let pages = window.size().into();
        self.policy.feedback(&mut self.state, feedback, pages);
    }
}
