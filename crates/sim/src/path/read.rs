// SPDX-License-Identifier: MIT OR Apache-2.0
//! One read(2): `filemap_read()` of today, and `do_generic_mapping_read()` of 2.6.13 for policies
//! that look.

use foreread_core::policy::{Access, Rules};

use super::{From, Host, OpenFile, PAGE_BYTES, Step};
use crate::cache::{FolioId, FolioRun, PageCache, Use};

/// Folios that `filemap_get_pages()` collects at a time (PAGEVEC_SIZE).
const BATCH_FOLIOS: usize = 31;
/// The same with [`Rules::SMALL_BATCH`].
const SMALL_BATCH_FOLIOS: usize = 15;

/// A read in progress.
#[derive(Clone, Debug)]
pub struct ReadCall {
    /// The page to go on at.
    index: u64,
    /// The page after the last one that there is to read.
    last: u64,
    /// The page after the last requested one. filemap_get_pages() does not check the size of the
    /// file, so a read across its end requests readahead of pages that do not exist.
    asked: u64,
    end_bytes: u64,
    /// A read at the end of the file returns 0 and leaves the state alone.
    reads_something: bool,
    /// Where the previous piece ended; the same folio again counts as one access.
    previous_page: Option<u64>,
    /// The folio that is waited for, and the page after its part of this read.
    waited: Option<(FolioId, u64)>,
    /// The arrival that was waited for: pages that came with it were late, too.
    late: Option<u32>,
    /// Time since which it waits, in nanoseconds.
    waiting_since_ns: u64,
    /// For policies that look, where the next look is due.
    next_look: u64,
    /// For policies that see every access: whether they have seen this one.
    is_seen: bool,
    /// Where the missing pages begin that they saw.
    missed_from: u64,
}

impl ReadCall {
    /// A read of `bytes` at `offset_bytes`, cut at the end of the file.
    #[must_use]
    pub fn new(open: &OpenFile, offset_bytes: u64, bytes: u64) -> Self {
        let asked_bytes = offset_bytes.saturating_add(bytes);
        let end_bytes = asked_bytes.min(open.file_bytes);
        let index = offset_bytes / PAGE_BYTES;
        let reads_something = offset_bytes < end_bytes;
        let previous = open.state.prev_end_bytes;
        Self {
            index,
            // Behind the end, within the last page, there is nothing to do either.
            last: if reads_something {
                end_bytes.div_ceil(PAGE_BYTES)
            } else {
                index
            },
            asked: asked_bytes.div_ceil(PAGE_BYTES),
            end_bytes,
            reads_something,
            previous_page: (previous != u64::MAX).then(|| previous.saturating_sub(1) / PAGE_BYTES),
            waited: None,
            late: None,
            waiting_since_ns: 0,
            next_look: index,
            is_seen: false,
            missed_from: u64::MAX,
        }
    }

    /// The page to go on at.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// It waits from now on, and not since its last step.
    pub(crate) fn wait_from(&mut self, now_ns: u64) {
        self.waiting_since_ns = now_ns;
    }

    /// Goes on until pages were used, a page has to be waited for, or the call returns.
    pub fn step(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
    ) -> Step {
        if let Some((folio, end)) = self.waited {
            let Some(stamp) = cache.arrived(folio) else {
                return Step::Wait(folio);
            };
            self.waited = None;
            self.late = Some(stamp);
            let asked = self.index < self.missed_from;
            let pages = end.saturating_sub(self.index);
            open.tell_waited(self.waiting_since_ns, asked, pages, host);
            return self.use_until(cache, open, end);
        }
        if self.index >= self.last {
            if self.reads_something {
                open.state.read_done(self.end_bytes);
            }
            return Step::Done;
        }
        if open.policy.looks() {
            self.look(cache, open, host);
        }
        if open.policy.sees() && !self.is_seen {
            self.is_seen = true;
            self.see(cache, open, host);
        }
        let collected = self.collected(cache, open, host);
        self.end_of_batch(cache, open, host, &collected)
    }

    /// Reads page by page, as before there were marks. The policy is asked where its last look
    /// ended. A page that is missing nevertheless is read alone (page_cache_readahead,
    /// handle_ra_miss).
    fn look(&mut self, cache: &mut PageCache, open: &mut OpenFile, host: &mut dyn Host) {
        if self.index >= self.next_look {
            let access = Access::read_look(self.index, self.last - self.index);
            let decision = open.decide(cache, access, &From::MISS, host);
            self.next_look = decision.next_look.max(self.index + 1);
        }
    }

    /// Tells the policy of the whole call, and of its missing pages.
    fn see(&mut self, cache: &mut PageCache, open: &mut OpenFile, host: &mut dyn Host) {
        let mut access = Access::read_look(self.index, self.last - self.index);
        let mut at = self.index;
        while at < self.last {
            let Some(folio) = cache.find(open.file, at) else {
                self.missed_from = at;
                access.flags |= Access::MISSED;
                access.hit_pages = at - self.index;
                open.note_miss(cache, at);
                break;
            };
            at = cache.info(folio).end();
        }
        let from = From {
            needed: self.missed_from < self.last,
            ..From::MISS
        };
        open.decide(cache, access, &from, host);
    }

    /// Folios in a row from the index on; where there are none, they are brought in.
    fn collected(
        &self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
    ) -> Option<FolioRun> {
        if let Some(found) = self.collect(cache, open) {
            return Some(found);
        }
        open.note_miss(cache, self.index);
        let access = Access::read_miss(self.index, self.asked - self.index);
        open.decide(cache, access, &From::MISS, host);
        if let Some(found) = self.collect(cache, open) {
            return Some(found);
        }
        open.read_alone(cache, self.index, host);
        self.collect(cache, open)
    }

    /// Up to where a policy that looks is to be asked again, or to the end.
    fn collect(&self, cache: &PageCache, open: &OpenFile) -> Option<FolioRun> {
        let last = if open.policy.looks() {
            self.last.min(self.next_look)
        } else {
            self.last
        };
        let folios_max = match open.rules.has(Rules::SMALL_BATCH) {
            true => SMALL_BATCH_FOLIOS,
            false => BATCH_FOLIOS,
        };
        cache.folio_run(open.file, self.index..last, folios_max)
    }

    /// A marked last folio starts readahead before the reader waits for it. So the next request is
    /// queued behind the one that the reader needs (filemap_get_pages).
    fn end_of_batch(
        &mut self,
        cache: &mut PageCache,
        open: &mut OpenFile,
        host: &mut dyn Host,
        collected: &Option<FolioRun>,
    ) -> Step {
        let Some(batch) = collected else {
            // No memory for a single page: the read fails, as with ENOMEM.
            self.index = self.last;
            return Step::Done;
        };
        let info = cache.info(batch.last);
        if info.marked {
            let mut access = Access::read_mark(
                info.index,
                self.asked.saturating_sub(info.index),
                info.order,
            );
            if !info.up_to_date {
                access.flags |= Access::LOCKED;
            }
            let from = From {
                marked: Some(batch.last),
                needed: false,
                up_to_date: info.up_to_date,
            };
            cache.pin(batch.last);
            open.decide(cache, access, &from, host);
            cache.unpin(batch.last);
        }
        if info.up_to_date {
            return self.use_until(cache, open, batch.end);
        }
        cache.pin(batch.last);
        self.waited = Some((batch.last, batch.end));
        self.waiting_since_ns = host.now_ns();
        if batch.last_start > self.index {
            // The kernel holds these folios while it waits for the last one.
            return self.use_until(cache, open, batch.last_start);
        }
        Step::Wait(batch.last)
    }

    fn use_until(&mut self, cache: &mut PageCache, open: &mut OpenFile, end: u64) -> Step {
        let how = Use {
            stream: open.stream,
            previous_page: self.previous_page,
            late: self.late,
            mapped: false,
        };
        cache.use_pages(open.file, self.index..end, &how);
        let pages = end.saturating_sub(self.index);
        open.hit_pages = open.hit_pages.saturating_add(pages);
        self.previous_page = end.checked_sub(1);
        if open.rules.has(Rules::PREV_BY_PIECE) {
            let copied = end.saturating_mul(PAGE_BYTES).min(self.end_bytes);
            open.state.read_done(copied);
        }
        self.index = end;
        Step::Used(pages)
    }
}
