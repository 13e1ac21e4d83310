// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eviction: the active and the inactive list, second chances, shadows (mm/vmscan.c,
//! mm/workingset.c).

use super::folio::Folio;
use super::folio::NONE;
use super::index::{LEAF_PAGES, pieces};
use super::{FileId, PageCache, SHADOW_UNUSED, Shadow, bits_of};

/// Folios that reclaim takes from a list at a time (SWAP_CLUSTER_MAX).
const BATCH: usize = 32;
/// Looks through the inactive list in vain before giving up (as reclaim priorities do).
const TRIES: usize = 12;

/// Pages that are remembered and forgotten together, at most, where their folios allow it.
const SHADOW_RUN_MAX: u32 = 64;

/// What reclaim does with the oldest folio of the inactive list.
enum Verdict {
    Evict,
    /// To the head of the inactive list again.
    Keep,
    Activate,
}

impl PageCache {
    /// Evicts until so many pages fit in; `false` when that can't be.
    pub(super) fn make_room(&mut self, pages: u64) -> bool {
        let Some(capacity) = self.capacity_pages else {
            return true;
        };
        let mut tries = 0;
        while self.resident_pages() + pages > capacity {
            if pages > capacity || tries == TRIES {
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
        if self.inactive.pages < self.active.pages {
            self.shrink_active();
        }
        for _ in 0..BATCH {
            let Some(id) = self.inactive.oldest() else {
                self.shrink_active();
                return;
            };
            self.aged_pages += self.folios.get(id).pages();
            match self.judge(id) {
                Verdict::Evict => self.evict(id),
                Verdict::Keep => {
                    self.inactive.remove(&mut self.folios, id);
                    self.inactive.push(&mut self.folios, id);
                }
                Verdict::Activate => self.activate(id),
            }
        }
    }

    /// Second chances (folio_check_references): a folio used through a mapping since reclaim looked
    /// last stays, and becomes active the second time or when it is text. One that was read once
    /// goes.
    fn judge(&mut self, id: u32) -> Verdict {
        let folio = self.folios.get_mut(id);
        if !folio.is_up_to_date() || folio.pins > 0 {
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

    /// The oldest active folios become inactive, but text in use (shrink_active_list).
    fn shrink_active(&mut self) {
        for _ in 0..BATCH {
            let Some(id) = self.active.oldest() else {
                return;
            };
            self.active.remove(&mut self.folios, id);
            let folio = self.folios.get_mut(id);
            self.aged_pages += folio.pages();
            let stays = folio.has(Folio::YOUNG) && folio.has(Folio::EXEC);
            folio.flags &= !Folio::YOUNG;
            if stays {
                self.active.push(&mut self.folios, id);
            } else {
                folio.flags &= !Folio::ACTIVE;
                folio.flags |= Folio::WORKINGSET;
                self.inactive.push(&mut self.folios, id);
            }
        }
    }

    /// Moves a folio to the active list.
    pub(super) fn activate(&mut self, id: u32) {
        self.inactive.remove(&mut self.folios, id);
        let folio = self.folios.get_mut(id);
        folio.flags |= Folio::ACTIVE;
        folio.flags &= !Folio::REFERENCED;
        self.nonresident_age += folio.pages();
        self.active.push(&mut self.folios, id);
    }

    /// Reclaim evicts a folio and remembers it for a while.
    fn evict(&mut self, id: u32) {
        let folio = *self.folios.get(id);
        let age = self.nonresident_age as u32 & !SHADOW_UNUSED;
        self.nonresident_age += folio.pages();
        self.take_out(id, Some(age));
        self.remember(&folio, age);
        // A run more than memory holds, so that no more is forgotten with a run than must be.
        let most = self.capacity_pages.unwrap_or(0) + u64::from(SHADOW_RUN_MAX);
        while self.shadow_pages > most {
            self.forget_oldest_shadow();
        }
    }

    /// A reader's pages are evicted in the order in which they were read: a run at a time is kept.
    fn remember(&mut self, folio: &Folio, age: u32) {
        let pages = folio.pages() as u32;
        self.shadow_pages += u64::from(pages);
        if let Some(last) = self.shadows.back_mut() {
            let goes_on = last.file == folio.file
                && last.index + u64::from(last.pages) == folio.index
                && last.age + last.pages == age
                && last.pages + pages <= SHADOW_RUN_MAX;
            if goes_on {
                last.pages += pages;
                return;
            }
        }
        self.shadows.push_back(Shadow {
            index: folio.index,
            file: folio.file,
            pages,
            age,
        });
    }

    /// Takes a folio out of the cache; what of it was unused is wasted.
    fn take_out(&mut self, id: u32, shadow: Option<u32>) {
        let folio = *self.folios.get(id);
        let list = if folio.has(Folio::ACTIVE) {
            &mut self.active
        } else {
            &mut self.inactive
        };
        list.remove(&mut self.folios, id);
        self.folios.remove(id);
        let mut unused = 0;
        let index = &mut self.files[folio.file as usize];
        for (number, bits) in pieces(folio.index, folio.end()) {
            let Some(leaf) = index.leaf_mut(number) else {
                continue;
            };
            unused += u64::from((bits & !leaf.used).count_ones());
            if let Some(age) = shadow {
                leaf.shadow |= bits;
                let (first, end) = (bits.trailing_zeros(), 64 - bits.leading_zeros());
                let before = number * LEAF_PAGES + u64::from(first) - folio.index;
                let mut age = age.wrapping_add(before as u32);
                for at in first..end {
                    let unused = if leaf.used >> at & 1 == 1 {
                        0
                    } else {
                        SHADOW_UNUSED
                    };
                    leaf.slots[at as usize] = age & !SHADOW_UNUSED | unused;
                    age = age.wrapping_add(1);
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
            let mut left = leaf.shadow & bits;
            while left != 0 {
                let at = left.trailing_zeros();
                let page = number * LEAF_PAGES + u64::from(at);
                let age = shadow.age.wrapping_add((page - shadow.index) as u32);
                // Evicted again since: then a younger shadow stands there.
                if leaf.slots[at as usize] & !SHADOW_UNUSED == age & !SHADOW_UNUSED {
                    leaf.shadow &= !(1 << at);
                }
                left &= left - 1;
            }
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
            let folio = *self.folios.get(id);
            let inside = folio.index >= start && folio.end() <= end;
            if inside && folio.is_up_to_date() && folio.pins == 0 && !self.is_mapped(&folio) {
                self.take_out(id, None);
                dropped += folio.pages();
            }
        }
        dropped
    }

    /// Moves pages that no program came to yet away from reclaim: to the head of the inactive list.
    pub fn retain(&mut self, file: FileId, start: u64, end: u64) {
        for id in self.folios_in(file, start, end) {
            let folio = self.folios.get(id);
            if !folio.has(Folio::ACTIVE) && !folio.has(Folio::REFERENCED) {
                self.inactive.remove(&mut self.folios, id);
                self.inactive.push(&mut self.folios, id);
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
            at = self.folios.get(id).end();
        }
        ids
    }

    /// Counts every page of the accounts from the folios again; for tests of the identity.
    #[must_use]
    pub fn recount(&self) -> (u64, u64) {
        let (mut unused, mut in_flight) = (0, 0);
        for (list, mut id) in [&self.inactive, &self.active].map(|l| (l, l.oldest())) {
            let _ = list;
            while let Some(at) = id {
                let folio = self.folios.get(at);
                let index = &self.files[folio.file as usize];
                let used: u64 = (folio.index / LEAF_PAGES..=(folio.end() - 1) / LEAF_PAGES)
                    .filter_map(|n| Some((n, index.leaf(n)?)))
                    .map(|(n, leaf)| leaf.used & bits_of(folio, n * LEAF_PAGES))
                    .map(|bits| u64::from(bits.count_ones()))
                    .sum();
                in_flight += u64::from(folio.missing);
                unused += folio.pages() - used - u64::from(folio.missing);
                id = (folio.previous != NONE).then_some(folio.previous);
            }
        }
        (unused, in_flight)
    }
}
