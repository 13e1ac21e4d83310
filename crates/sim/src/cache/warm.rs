// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages that are in memory before anything is simulated.

use std::ops::Range;

use super::folio::Folio;
use super::index::pieces;
use super::{FileId, NewFolio, PageCache, StreamId};

impl PageCache {
    /// Puts pages into the cache that were read earlier: once, or often enough to be on the active
    /// list. They count for `stream`, as used on time. The next program that uses them counts as
    /// the first one in this run.
    pub fn warm(&mut self, file: FileId, stream: StreamId, pages: Range<u64>, is_active: bool) {
        for index in pages.clone() {
            let Ok(id) = self.insert(file, stream, NewFolio::page(index)) else {
                continue;
            };
            self.arrive(file, index..index + 1, &mut Vec::new());
            for (number, bits) in pieces(index, index + 1) {
                if let Some(leaf) = self.files[file.0 as usize].leaf_mut(number) {
                    leaf.used |= bits;
                }
            }
            self.lists.folios.get_mut(id.0).flags |= Folio::REFERENCED;
            if is_active {
                self.lists.activate(id.0);
            }
            let account = &mut self.accounts[stream.0 as usize];
            account.resident_unused -= 1;
            account.used_on_time += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_pages_are_there_and_leave_as_used_ones() {
        let mut cache = PageCache::new(Some(64));
        let file = cache.add_file();
        let (earlier, now) = (cache.add_stream(), cache.add_stream());
        cache.warm(file, earlier, 0..40, false);
        assert_eq!(cache.resident_runs(file, 100), [(0, 40)]);
        for index in 100..160 {
            cache
                .insert(file, now, NewFolio::page(index))
                .expect("room");
            cache.arrive(file, index..index + 1, &mut Vec::new());
        }
        assert!(!cache.miss(file, 0, now), "it was no page read ahead");
        let account = cache.account(earlier);
        assert!(account.balances());
        assert_eq!((account.used_on_time, account.wasted), (40, 0));
    }

    #[test]
    fn active_pages_stay_when_others_stream_by() {
        for (is_active, kept) in [(true, true), (false, false)] {
            let mut cache = PageCache::new(Some(64));
            let file = cache.add_file();
            let stream = cache.add_stream();
            cache.warm(file, stream, 0..24, is_active);
            for index in 100..400 {
                cache.warm(file, stream, index..index + 1, false);
            }
            assert_eq!(cache.find(file, 12).is_some(), kept);
        }
    }
}
