// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eviction: the active and the inactive list, second chances, shadows (mm/vmscan.c,
//! mm/workingset.c).

use super::fates::Fate;
use super::folio::{Folio, NONE};
use super::index::{LEAF_PAGES, folio_bits, folio_leaves, pieces};
use super::{FileId, PageCache, SHADOW_UNUSED, Shadow};

/// Folios that reclaim takes from a list at a time (SWAP_CLUSTER_MAX).
const BATCH: usize = 32;
/// Minimum limit of batches without success before giving up. The limit is larger if twice the
/// pages of both lists make more batches: from priority to priority, direct reclaim scans more of
/// the lists, and at the end all (DEF_PRIORITY).
const TRIES: u64 = 12;

/// Pages that are remembered and forgotten together, at most, where their folios allow it.
const SHADOW_RUN_MAX: u32 = 64;

/// The decision of reclaim on the oldest folio of the inactive list.
enum Verdict {
    Evict,
    /// To the head of the inactive list again.
    Keep,
    Activate,
}

/// Folios in a row that are evicted together: of one file and one stream.
struct Run {
    first: Folio,
    /// The page after the last folio.
    end: u64,
    folios: usize,
}

/// Second chances (folio_check_references): a folio used through a mapping since reclaim looked
/// last stays, and becomes active the second time or when it is text. One that was read once goes.
fn judge(folio: &mut Folio) -> Verdict {
    if !folio.is_idle() {
        return Verdict::Keep;
    }
    if !folio.has(Folio::YOUNG) {
        return Verdict::Evict;
    }
    folio.flags &= !Folio::YOUNG;
    let again = folio.has(Folio::REFERENCED) || folio.has(Folio::EXEC);
    folio.flags |= Folio::REFERENCED;
    if again {
        Verdict::Activate
    } else {
        Verdict::Keep
    }
}

impl Shadow {
    /// Whether a folio that is evicted at `age` goes on where this ends.
    fn is_before(&self, folio: &Folio, age: u32) -> bool {
        self.file == folio.file
            && self.index + u64::from(self.pages) == folio.index
            && self.age + self.pages == age
    }
}

impl PageCache {
    /// Evicts until `pages` pages fit in; `false` when that can't be.
    #[inline]
    pub(super) fn make_room(&mut self, pages: u64) -> bool {
        match self.capacity_pages {
            Some(capacity) if self.resident_pages() + pages > capacity => {
                self.reclaim(pages, capacity)
            }
            _ => true,
        }
    }

    fn reclaim(&mut self, pages: u64, capacity: u64) -> bool {
        let mut tries = 0;
        let most = TRIES.max(2 * capacity / BATCH as u64);
        while self.resident_pages() + pages > capacity {
            if pages > capacity || tries == most {
                return false;
            }
            let before = self.resident_pages();
            self.shrink();
            tries = if self.resident_pages() < before {
                0
            } else {
                tries + 1
            };
        }
        true
    }

    /// One round of reclaim (shrink_lruvec).
    fn shrink(&mut self) {
        if self.lists.inactive.pages < self.lists.active.pages {
            self.shrink_active();
        }
        let mut left = BATCH;
        while left > 0 {
            let Some(id) = self.lists.inactive.oldest() else {
                self.shrink_active();
                return;
            };
            let pages = self.lists.folios.get(id).pages();
            match judge(self.lists.folios.get_mut(id)) {
                Verdict::Evict => {
                    left -= self.evict_run(left);
                    continue;
                }
                Verdict::Keep => self.lists.rotate(id),
                Verdict::Activate => self.lists.activate(id),
            }
            self.aged_pages += pages;
            left -= 1;
        }
    }

    /// The oldest active folios become inactive, but text in use (shrink_active_list).
    fn shrink_active(&mut self) {
        let lists = &mut self.lists;
        for _ in 0..BATCH {
            let Some(id) = lists.active.oldest() else {
                return;
            };
            lists.active.remove(&mut lists.folios, id);
            let folio = lists.folios.get_mut(id);
            self.aged_pages += folio.pages();
            let stays = folio.has(Folio::YOUNG) && folio.has(Folio::EXEC);
            folio.flags &= !Folio::YOUNG;
            if stays {
                lists.active.push(&mut lists.folios, id);
            } else {
                folio.flags &= !Folio::ACTIVE;
                folio.flags |= Folio::WORKINGSET;
                lists.inactive.push(&mut lists.folios, id);
            }
        }
    }

    /// Evicts a run of at most `folios_max` folios, and remembers it for a while. Returns their
    /// number.
    fn evict_run(&mut self, folios_max: usize) -> usize {
        let age = self.lists.nonresident_age as u32 & !SHADOW_UNUSED;
        let Some(run) = self.take_oldest_run(folios_max, age) else {
            return 0;
        };
        let pages = run.end - run.first.index;
        self.lists.nonresident_age += pages;
        self.aged_pages += pages;
        self.vacate(&run.first, run.end, Some(age));
        self.remember(&run.first, pages as u32, age);
        // A run more than memory holds, so that no more is forgotten with a run than must be.
        let most = self.capacity_pages.unwrap_or(0) + u64::from(SHADOW_RUN_MAX);
        while self.shadow_pages > most {
            self.forget_oldest_shadow();
        }
        run.folios
    }

    /// Takes the oldest inactive folio off its list, with those that follow as long as reclaim
    /// would evict them too and each continues in the file where the one before ends. Folios behind
    /// a reader are in this order, and evicting them together takes half the time. A run ends where
    /// its leaf ends, and where its shadow does.
    fn take_oldest_run(&mut self, folios_max: usize, age: u32) -> Option<Run> {
        let lists = &mut self.lists;
        let oldest = lists.inactive.oldest()?;
        let first = *lists.folios.get(oldest);
        lists.folios.remove(oldest);
        let shadow = self.shadows.back();
        let shadow = shadow.filter(|shadow| shadow.is_before(&first, age));
        let room = SHADOW_RUN_MAX.saturating_sub(shadow.map_or(0, |shadow| shadow.pages));
        let (mut end, mut folios, mut next) = (first.end(), 1, first.previous);
        while folios < folios_max && end % LEAF_PAGES != 0 && next != NONE {
            let folio = lists.folios.get(next);
            let goes_on = folio.index == end
                && (folio.file, folio.stream) == (first.file, first.stream)
                && folio.end() - first.index <= u64::from(room);
            if !goes_on || !folio.is_idle() || folio.has(Folio::YOUNG) {
                break;
            }
            let previous = folio.previous;
            end = folio.end();
            folios += 1;
            lists.folios.remove(next);
            next = previous;
        }
        let pages = end - first.index;
        lists.inactive.cut_before(&mut lists.folios, next, pages);
        Some(Run { first, end, folios })
    }

    /// A reader's pages are evicted in the order in which they were read: a run at a time is kept.
    fn remember(&mut self, folio: &Folio, pages: u32, age: u32) {
        self.shadow_pages += u64::from(pages);
        match self.shadows.back_mut() {
            Some(last) if last.is_before(folio, age) && last.pages + pages <= SHADOW_RUN_MAX => {
                last.pages += pages;
            }
            _ => self.shadows.push_back(Shadow {
                index: folio.index,
                file: folio.file,
                pages,
                age,
            }),
        }
    }

    /// Removes the pages from the first one of a folio up to `end` from the cache, all of one
    /// stream. The unused ones of them are wasted. With an age, that of the first, they leave
    /// shadows.
    fn vacate(&mut self, folio: &Folio, end: u64, age: Option<u32>) {
        let mut unused = 0;
        let index = &mut self.files[folio.file as usize];
        for (number, bits) in pieces(folio.index, end) {
            let Some(leaf) = index.leaf_mut(number) else {
                continue;
            };
            unused += u64::from((bits & !leaf.used).count_ones());
            self.fates
                .note(folio.file, number, bits & !leaf.used, Some(Fate::Wasted));
            if let Some(age) = age {
                leaf.shadow |= bits;
                let (first, end) = (bits.trailing_zeros(), 64 - bits.leading_zeros());
                let before = number * LEAF_PAGES + u64::from(first) - folio.index;
                let mut age = age.wrapping_add(before as u32);
                let mut used = leaf.used >> first;
                for slot in &mut leaf.slots[first as usize..end as usize] {
                    let unused = if used & 1 == 1 { 0 } else { SHADOW_UNUSED };
                    *slot = age & !SHADOW_UNUSED | unused;
                    age = age.wrapping_add(1);
                    used >>= 1;
                }
            }
            leaf.present &= !bits;
            leaf.used &= !bits;
            leaf.mapped &= !bits;
            if leaf.present == 0 && leaf.shadow == 0 {
                index.tidy(number);
            }
        }
        let account = &mut self.accounts[folio.stream as usize];
        account.resident_unused -= unused;
        account.wasted += unused;
    }

    /// As many pages are remembered as fit into memory; a distance beyond that says nothing.
    fn forget_oldest_shadow(&mut self) {
        let Some(shadow) = self.shadows.pop_front() else {
            self.shadow_pages = 0;
            return;
        };
        self.shadow_pages -= u64::from(shadow.pages);
        let end = shadow.index + u64::from(shadow.pages);
        let index = &mut self.files[shadow.file as usize];
        for (number, bits) in pieces(shadow.index, end) {
            let Some(leaf) = index.leaf_mut(number) else {
                continue;
            };
            let (first, end) = (bits.trailing_zeros(), 64 - bits.leading_zeros());
            let before = number * LEAF_PAGES + u64::from(first) - shadow.index;
            let mut age = shadow.age.wrapping_add(before as u32);
            let mut gone = 0;
            for (at, slot) in (first..end).zip(&leaf.slots[first as usize..end as usize]) {
                // Evicted again since: then a younger shadow stands there.
                gone |= u64::from((slot ^ age) & !SHADOW_UNUSED == 0) << at;
                age = age.wrapping_add(1);
            }
            leaf.shadow &= !gone;
            if leaf.present == 0 && leaf.shadow == 0 {
                index.tidy(number);
            }
        }
    }

    /// `POSIX_FADV_DONTNEED`: drops the folios that lie wholly in the range, but those that are on
    /// their way, waited for, or mapped (invalidate_mapping_pages). How many pages went.
    pub fn drop_pages(&mut self, file: FileId, start: u64, end: u64) -> u64 {
        let mut dropped = 0;
        for id in self.folios_in(file, start, end) {
            let folio = *self.lists.folios.get(id);
            let inside = folio.index >= start && folio.end() <= end;
            if inside && folio.is_idle() && !self.is_mapped(&folio) {
                self.lists.take_out(id);
                self.vacate(&folio, folio.end(), None);
                dropped += folio.pages();
            }
        }
        dropped
    }

    /// Moves unused pages away from reclaim: to the head of the inactive list.
    pub fn retain(&mut self, file: FileId, start: u64, end: u64) {
        for id in self.folios_in(file, start, end) {
            let folio = self.lists.folios.get(id);
            if !folio.has(Folio::ACTIVE) && !folio.has(Folio::REFERENCED) {
                self.lists.rotate(id);
            }
        }
    }

    fn is_mapped(&self, folio: &Folio) -> bool {
        self.any_mapped(FileId(folio.file), folio.index..folio.end())
    }

    /// The folios of the cached pages of a range, in order.
    fn folios_in(&self, file: FileId, start: u64, end: u64) -> Vec<u32> {
        let index = &self.files[file.0 as usize];
        let mut ids = Vec::new();
        let (mut at, end) = (start, end.min(index.end()));
        while at < end {
            at += index.run_after(at, end - at, false);
            let Some(id) = (at < end).then(|| index.folio(at)).flatten() else {
                break;
            };
            ids.push(id);
            at = self.lists.folios.get(id).end();
        }
        ids
    }

    /// Counts every page of the accounts from the folios again; for tests of the identity.
    #[must_use]
    pub fn recount(&self) -> (u64, u64) {
        let (mut unused, mut in_flight) = (0, 0);
        let lists = &self.lists;
        for mut id in [&lists.inactive, &lists.active].map(|list| list.oldest()) {
            while let Some(at) = id {
                let folio = lists.folios.get(at);
                let index = &self.files[folio.file as usize];
                let bits = folio_bits(folio.index, folio.order);
                let used: u64 = folio_leaves(folio.index, folio.order)
                    .filter_map(|number| index.leaf(number))
                    .map(|leaf| u64::from((leaf.used & bits).count_ones()))
                    .sum();
                in_flight += u64::from(folio.missing);
                unused += folio.pages() - used - u64::from(folio.missing);
                id = (folio.previous != NONE).then_some(folio.previous);
            }
        }
        (unused, in_flight)
    }
}
